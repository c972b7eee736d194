package generate

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

const (
	day     = 24 * time.Hour
	cluster = "prod-eu1"
)

// begin is when the journal begins.
var begin = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// world is the cluster, and the daemon that watches it. Its clock goes with the bytes that are written, so that a
// journal of any size is about a day.
type world struct {
	Options
	*rand.Rand
	now   time.Time
	queue queue
	order int // of what is in queue

	version int // the last resourceVersion
	streams []*stream
	of      map[string]*stream

	there       []*item // when the daemon starts
	namespaces  []string
	nodes       []*item
	leases      []*item
	configMaps  []*item
	customs     []*custom
	deployments []*deployment
	cronJobs    []*cronJob
	ips         int

	// What the daemon writes.
	lines          []byte
	seq            uint64
	bytes          int64
	uncommitted    int
	due            bool      // a commit is, before anything else happens
	from, received time.Time // of the first and the last line
	away, back     time.Time // the daemon cannot reach the server until away; back is when it last could again

	raw, list []byte
	scanned   object.Object
	differ    changes.Differ
}

// stream is what is watched of one resource.
type stream struct {
	object.Source
	apiVersion string
	renderer   *object.Renderer
	count      line.Count

	since       time.Time // of its last SYNCED
	differences int64     // between the GAP before and that

	// While its history is lost:
	lost      bool
	lostAt    time.Time
	lostFrom  int // the version until which the journal is complete
	different map[*item]bool
	in        []*item // those of different, in order
	position  int     // version of its last line
}

func newWorld(o Options) *world {
	w := &world{
		Options: o, Rand: rand.New(rand.NewPCG(1, 2)), now: begin, version: 100000, of: make(map[string]*stream),
	}
	for _, s := range []object.Source{
		{Version: "v1", Resource: "namespaces", Kind: "Namespace"},
		{Version: "v1", Resource: "nodes", Kind: "Node"},
		{Version: "v1", Resource: "configmaps", Kind: "ConfigMap"},
		{Version: "v1", Resource: "pods", Kind: "Pod"},
		{Version: "v1", Resource: "events", Kind: "Event"},
		{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Resource: "replicasets", Kind: "ReplicaSet"},
		{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Kind: "Lease"},
		{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices", Kind: "EndpointSlice"},
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
			Kind: "CustomResourceDefinition"},
		{Group: "cert-manager.io", Version: "v1", Resource: "certificates", Kind: "Certificate"},
		{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications", Kind: "Application"},
	} {
		w.watch(s)
	}
	return w
}

func (w *world) watch(src object.Source) {
	src.Stream, src.Cluster, src.ClusterUID = src.Resource, cluster, "16b2cc15-62ff-42a7-a3f9-69ac56d63392"
	s := &stream{apiVersion: src.Version}
	if src.Group != "" {
		src.Stream += "." + src.Group
		s.apiVersion = src.Group + "/" + src.Version
	}
	s.Source = src
	var err error
	if s.renderer, err = object.NewRenderer(src, object.Shape{}); err != nil {
		panic(err) // a constant is wrong
	}
	w.streams = append(w.streams, s)
	w.of[src.Resource] = s
}

// run makes all lines. flush is called now and then, and at the end.
func (w *world) run(flush func() error) error {
	w.populate()
	populated, snapshot := w.bytes, w.now.Sub(begin)
	w.trouble()
	for w.bytes < w.Bytes {
		share := float64(w.bytes-populated) / float64(max(1, w.Bytes-populated))
		w.now = begin.Add(snapshot + time.Duration(share*float64(day-snapshot)))
		if !w.now.Before(w.away) && w.away.After(w.back) {
			w.back, w.due = w.away, true
		}
		if len(w.queue) > 0 && !w.queue[0].at.After(w.now) {
			next := heap.Pop(&w.queue).(*step)
			next.do()
		} else {
			w.happen()
		}
		if len(w.lines) >= writeBytes || w.due {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	w.due = true
	return flush()
}

// step is something that will happen.
type step struct {
	at    time.Time
	order int
	do    func()
}

type queue []*step

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].order < q[j].order
}
func (q *queue) Push(x any) { *q = append(*q, x.(*step)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// after does something later: at d, give or take a fifth.
func (w *world) after(d time.Duration, do func()) {
	d += time.Duration((w.Float64() - 0.5) * 0.4 * float64(d))
	w.order++
	heap.Push(&w.queue, &step{w.now.Add(d), w.order, do})
}

// trouble plans three outages in which history is lost, and two in which lines come late.
func (w *world) trouble() {
	for i, resource := range []string{"pods", "events", "deployments"} {
		s, at := w.of[resource], day*time.Duration(25+25*i)/100
		w.after(at, func() {
			s.lost, s.lostAt, s.lostFrom, s.different = true, w.now, s.position, make(map[*item]bool)
			w.due = true
			w.after(2*time.Minute, func() { w.relist(s) })
		})
	}
	for _, percent := range []time.Duration{35, 80} {
		w.after(day*percent/100, func() { w.away, w.due = w.now.Add(90*time.Second), true })
	}
}

// clock returns when the daemon receives what is happening now.
func (w *world) clock() time.Time {
	at := w.now.Add(time.Duration(w.IntN(int(2 * time.Millisecond))))
	if w.now.Before(w.away) {
		at = w.away
	}
	if !at.After(w.received) {
		at = w.received.Add(time.Duration(1000 + w.IntN(100000)))
	}
	if w.seq == 0 {
		w.from = at
	}
	w.received = at
	return at
}

// by is a writer that the line names; the zero Write leaves it out.
func (w *world) by(manager, subresource string) object.Write {
	return object.Write{Manager: []byte(manager), Subresource: []byte(subresource), At: w.now.Unix()}
}

// add, modify and remove make a version of an object and the line about it.
func (w *world) add(o *item, by object.Write) {
	o.created = w.now
	w.change(o, line.Added, by)
}

func (w *world) modify(o *item, by object.Write) { w.change(o, line.Modified, by) }
func (w *world) remove(o *item)                  { w.change(o, line.Deleted, object.Write{}) }

func (w *world) change(o *item, t line.Type, by object.Write) {
	w.version++
	o.version = w.version
	o.gone = t == line.Deleted
	if s := o.stream; !s.lost {
		w.line(o, t, line.FromWatch, by)
	} else if !s.different[o] {
		s.different[o] = true
		s.in = append(s.in, o)
	}
}

// line writes a line about an object as it is now.
func (w *world) line(o *item, t line.Type, origin line.Origin, by object.Write) {
	s := o.stream
	w.raw = o.append(w.raw[:0])
	l := object.Line{Type: t, Origin: origin, Received: w.clock(), Write: by}
	if t == line.Modified {
		var err error
		if w.list, err = w.differ.Append(w.list[:0], o.written, w.raw); err != nil {
			panic(err) // the object is no JSON
		}
		l.Changes = w.list
	}
	start := w.beginLine()
	err := s.renderer.Scan(w.raw, &w.scanned)
	if err == nil {
		w.lines, err = s.renderer.AppendLine(w.lines, l, &w.scanned)
	}
	if err != nil {
		panic(fmt.Errorf("%s: %w", w.raw, err))
	}
	w.endLine(start)
	s.position = o.version
	s.count.Add(t)
	if o.written = append(o.written[:0], w.raw...); t == line.Deleted {
		o.written = nil
	}
}

// lost writes that a relist found an object gone.
func (w *world) lost(o *item) {
	start := w.beginLine()
	err := o.renderer.Scan(o.written, &w.scanned)
	if err == nil {
		known := object.Known{
			Namespace: o.namespace, Name: o.name, UID: o.uid, ResourceVersion: string(w.scanned.ResourceVersion),
		}
		w.lines, err = o.renderer.AppendGone(w.lines, w.clock(), known, object.Line{}, &w.scanned)
	}
	if err != nil {
		panic(err)
	}
	w.endLine(start)
	o.stream.count.Add(line.Deleted)
	o.written = nil
}

func (w *world) beginLine() int {
	w.seq++
	start := len(w.lines)
	w.lines = line.AppendSeq(w.lines, w.seq)
	return start
}

func (w *world) endLine(start int) { w.bytes += int64(len(w.lines) - start) }

// snapshot writes that an object was there when the daemon started.
func (w *world) snapshot(o *item) {
	w.now = w.now.Add(100 * time.Microsecond)
	w.version++
	o.version = w.version
	if o.created.IsZero() {
		o.created = begin.Add(-time.Duration(w.IntN(int(90 * day))))
	}
	w.line(o, line.Added, line.FromSnapshot, object.Write{})
}

// relist ends an outage in which history was lost.
func (w *world) relist(s *stream) {
	s.lost, s.count = false, line.Count{}
	version := strconv.Itoa(w.version)
	start := w.beginLine()
	w.lines = s.renderer.AppendGap(w.lines, w.clock(), line.Expired, strconv.Itoa(s.lostFrom), s.lostAt, version)
	w.endLine(start)
	for _, o := range s.in {
		switch {
		case o.written == nil && !o.gone:
			w.line(o, line.Added, line.FromRelist, object.Write{})
		case o.written != nil && o.gone:
			w.lost(o)
		case o.written != nil:
			w.line(o, line.Modified, line.FromRelist, object.Write{})
		}
	}
	s.different, s.in = nil, nil
	w.synced(s)
}

// synced writes that a list is complete.
func (w *world) synced(s *stream) {
	start := w.beginLine()
	w.lines = s.renderer.AppendSynced(w.lines, w.clock(), strconv.Itoa(w.version), s.count)
	w.endLine(start)
	s.position, s.since, w.due = w.version, w.received, true
	s.differences = s.count.Added + s.count.Modified + s.count.Deleted
}

// pick returns one of all, and whether there is one for which ok is true in a few tries.
func pick[T any](w *world, all []T, ok func(T) bool) (one T, found bool) {
	for range 20 {
		if len(all) == 0 {
			break
		}
		if one = all[w.IntN(len(all))]; ok == nil || ok(one) {
			return one, true
		}
	}
	return one, false
}

// activities are what begins, how often it does beside the others.
var activities = []struct {
	weight int
	do     func(*world)
}{
	{14, (*world).rollout},
	{10, (*world).scale},
	{35, (*world).runJob},
	{56, (*world).crash},
	{72, (*world).heartbeat},
	{150, (*world).renewLease},
	{60, (*world).configure},
	{110, (*world).reconcile},
}

// happen begins something.
func (w *world) happen() {
	total := 0
	for _, a := range activities {
		total += a.weight
	}
	at := w.IntN(total)
	i := slices.IndexFunc(activities, func(a struct {
		weight int
		do     func(*world)
	}) bool {
		at -= a.weight
		return at < 0
	})
	activities[i].do(w)
}
