package watcher_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/format/line"
	"kubejournal/test/invariant"
)

// action is a thing that can happen. It returns what it did, for people, or ""
// where it could not.
type action struct {
	weight int
	do     func(*model, *rand.Rand) string
}

var actions = []action{
	{40, (*model).churn},
	{2, (*model).namespaceGoes},
	{20, (*model).wait},
	{3, func(m *model, _ *rand.Rand) string { m.srv.BreakWatches(); return "watches are cut" }},
	{3, func(m *model, _ *rand.Rand) string { m.srv.EndWatches(); return "watches end" }},
	{3, func(m *model, _ *rand.Rand) string { m.srv.RestartAPIServer(); return "API server restarts" }},
	{3, func(m *model, _ *rand.Rand) string { m.srv.StopAPIServer(); return "API server stops" }},
	{4, func(m *model, _ *rand.Rand) string { must(m.t, m.srv.StartAPIServer()); return "API server runs" }},
	{6, (*model).dropHistory},
	{2, (*model).restore},
	{1, (*model).watchList},
	{3, (*model).access},
	{3, (*model).definition},
	{1, (*model).stale},
	{12, (*model).trouble},
	{4, func(m *model, _ *rand.Rand) string { m.fault.set(nil); return "no more faults" }},
	{4, (*model).killed},
	{8, (*model).arm},
	{3, (*model).stopped},
	{2, (*model).reload},
	{4, (*model).reapply},
	{2, (*model).lose},
	{8, (*model).disk},
	{6, (*model).partition},
}

func (m *model) step(i int, r *rand.Rand) {
	m.well = false
	n, sum := 0, 0
	for _, a := range actions {
		sum += a.weight
	}
	pick := r.IntN(sum)
	for pick >= actions[n].weight {
		pick -= actions[n].weight
		n++
	}
	if m.life == nil && r.IntN(2) == 0 {
		m.up()
	}
	do := actions[n].do
	if m.replicas != nil && r.IntN(4) == 0 {
		do = (*model).takeover
	}
	if what := do(m, r); what != "" {
		m.past = append(m.past, fmt.Sprintf("%3d: %12v  %s%s", i, time.Since(m.began), m.whose(), what))
	}
	if r.IntN(2) == 0 {
		m.pass(time.Duration(r.IntN(400)) * time.Millisecond)
	}
	if m.life != nil {
		select {
		case <-m.life.gate.died:
			m.remark("the daemon has died")
			m.kill()
		default:
		}
	}
	if m.life == nil || i%4 == 0 {
		m.covered()
	}
}

// up starts the daemon, which ends at once if it does not find the server.
func (m *model) up() {
	m.interrupted = true
	m.starts = append(m.starts, time.Now())
	if err := m.tryStart(); err != nil {
		m.remark(m.whose()+"the daemon does not start: %.80v", err)
		return
	}
	m.begun()
	m.remark("%sthe daemon starts", m.whose())
}

// begun notes the streams that the daemon is told to journal.
func (m *model) begun() {
	for _, e := range m.entries {
		for _, s := range streamsOf(e) {
			m.started[s.name] = true
		}
	}
}

var modelNamespaces = []string{"default", "web", "db"}

// churn is writes to objects of the resources that are journalled.
func (m *model) churn(r *rand.Rand) string {
	if !m.writable(r) {
		return ""
	}
	first := m.serial
	from := m.srv.Version()
	for range 1 + r.IntN(6) {
		m.write(r)
	}
	if m.serial == first {
		return ""
	}
	return fmt.Sprintf("writes, versions %d to %d", from+1, m.srv.Version())
}

// writable reports whether anything may be written.
func (m *model) writable(r *rand.Rand) bool {
	if m.frozen && r.IntN(3) == 0 {
		m.settle()
	}
	return !m.frozen
}

func (m *model) write(r *rand.Rand) {
	gvr := m.streams[r.IntN(len(m.streams))].gvr
	namespace, name := modelNamespaces[r.IntN(3)], fmt.Sprint("n", r.IntN(m.names))
	if gvr.Resource == "namespaces" {
		namespace = ""
	}
	if gvr == widgets && m.undefined {
		return
	}
	labels := []map[string]any{nil, {"app": "web"}, {"app": "db"}}[r.IntN(3)]
	gone := r.IntN(3) == 0
	again := r.IntN(2) == 0
	before, err := m.srv.Get(gvr, namespace, name)
	if err == nil && gone {
		stored, err := m.srv.Delete(gvr, namespace, name)
		must(m.t, err)
		m.serial++
		m.note(gvr, stored, nil)
		if !again {
			return
		}
		before = nil
	} else if err != nil {
		before = nil
	}
	m.putAt(gvr, namespace, name, labels, before)
}

func (m *model) putAt(gvr schema.GroupVersionResource, namespace, name string, labels, before map[string]any) {
	m.serial++
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	if labels != nil {
		meta["labels"] = labels
	}
	object := map[string]any{"metadata": meta, "spec": map[string]any{"serial": m.serial}}
	if gvr.Resource == "secrets" || gvr.Resource == "configmaps" {
		delete(object, "spec")
		object["data"] = map[string]any{"serial": fmt.Sprint(m.serial)}
	}
	if m.pad > 0 {
		meta["annotations"] = map[string]any{"pad": string(slices.Repeat([]byte("p"), m.pad))}
	}
	write := m.srv.Update
	if before == nil {
		write = m.srv.Create
	}
	stored, err := write(gvr, object)
	must(m.t, err)
	m.note(gvr, before, stored)
}

// note notes what the streams must tell of a write that made after of before;
// nil is no object.
func (m *model) note(gvr schema.GroupVersionResource, before, after map[string]any) {
	object := after
	if object == nil {
		object = before
	}
	of := object["metadata"].(map[string]any)
	namespace, _ := of["namespace"].(string)
	m.written = append(m.written, written{time.Now(), m.srv.Version(), gvr, namespace, of["name"].(string)})
	for _, s := range m.streams {
		was, is := s.holds(before), s.holds(after)
		if s.gvr != gvr || !was && !is {
			continue
		}
		w := invariant.Write{Stream: s.name, Epoch: m.epochs[s.name], What: fmt.Sprint("write ", m.serial), Time: time.Now()}
		meta := before
		switch {
		case !is:
			if s.label != "" {
				continue // an object that leaves a selection may come again
			}
			w.Type = invariant.Deleted
		case was:
			w.Type, meta = invariant.Modified, after
		default:
			w.Type, meta = invariant.Added, after
		}
		meta = meta["metadata"].(map[string]any)
		w.UID = meta["uid"].(string)
		if is {
			w.ResourceVersion = meta["resourceVersion"].(string)
		}
		m.noted = append(m.noted, w)
	}
}

// namespaceGoes deletes all that is in a namespace, as the server does with a
// namespace that is deleted.
func (m *model) namespaceGoes(r *rand.Rand) string {
	if !m.writable(r) {
		return ""
	}
	namespace := modelNamespaces[r.IntN(3)]
	done := map[schema.GroupVersionResource]bool{}
	for _, s := range m.streams {
		if done[s.gvr] || s.gvr.Resource == "namespaces" {
			continue
		}
		done[s.gvr] = true
		all, err := m.srv.List(s.gvr, namespace)
		if err != nil {
			continue // not served
		}
		for _, o := range all {
			_, err := m.srv.Delete(s.gvr, namespace, o["metadata"].(map[string]any)["name"].(string))
			must(m.t, err)
			m.serial++
			m.note(s.gvr, o, nil)
		}
	}
	return "all in namespace " + namespace + " is deleted"
}

func (m *model) wait(r *rand.Rand) string {
	d := time.Duration(r.IntN(int([]time.Duration{
		time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, 10 * time.Minute,
	}[r.IntN(6)])))
	if r.IntN(60) == 0 {
		d = time.Duration(r.IntN(int(3 * time.Hour)))
	}
	m.pass(d)
	return fmt.Sprint(d, " pass")
}

// dropHistory drops history that the server has.
func (m *model) dropHistory(r *rand.Rand) string {
	m.interrupted = true
	v := m.srv.Version()
	v -= uint64(r.IntN(int(min(v, 20))))
	switch r.IntN(3) {
	case 0:
		m.srv.Compact(v)
		return fmt.Sprintf("etcd is compacted at %d of %d", v, m.srv.Version())
	case 1:
		m.srv.Expire(v)
		return fmt.Sprintf("the watch caches forget up to %d of %d", v, m.srv.Version())
	}
	m.srv.DropHistory()
	return fmt.Sprintf("history up to %d is dropped", m.srv.Version())
}

// restore puts the server back. Not before the first sync of every stream is in
// the journal: what was told of a first sync that is still under way, from a
// position that does not exist yet, has no epoch.
func (m *model) restore(r *rand.Rand) string {
	if m.frozen {
		return ""
	}
	far, again := 0, 0
	if m.replicas != nil || r.IntN(2) == 0 {
		m.calm() // each replica knows whose turn it is
		again = r.IntN(30)
		far = 1 + again
		if m.replicas != nil {
			far += 150 // each is to notice, before the renewals of the Lease have brought the server past its positions again
		}
		if m.srv.Version() < max(m.defined, uint64(far))+uint64(far) {
			return "a calm time"
		}
	}
	type event struct {
		stream, uid, version, typ string
		epoch                     int
	}
	synced, told, epochs := map[string]bool{}, map[event]bool{}, map[string]int{}
	for _, l := range m.merged() {
		synced[l.Stream] = synced[l.Stream] || l.Type == invariant.Synced
		if l.Type == invariant.Gap && l.Reason == invariant.Ahead {
			epochs[l.Stream]++
		}
		e := event{l.Stream, l.UID, l.ResourceVersion, l.Type, epochs[l.Stream]}
		if e.typ == invariant.Deleted {
			e.version = "" // as of a write
		}
		told[e] = true
	}
	for name := range m.started {
		if !synced[name] {
			return ""
		}
	}
	m.interrupted = true
	now := m.srv.Version()
	// The namespaces that every cluster has stay, and so does the definition of
	// widgets: the fake keeps none in its history.
	v := now - uint64(far+r.IntN(int(min(now, 25))))
	if again > 0 { // to before some writes, among the renewals of the Lease
		last := v
		for _, w := range m.written {
			if w.version <= v {
				last = w.version
			}
		}
		v = last - min(last, uint64(r.IntN(6)))
	}
	v = max(v, 4, m.defined)
	if far > 0 && !m.allBehind(v+uint64(again)) {
		return "a calm time" // where a leader has nothing that is undone, the others wait until one of them leads
	}
	before := len(m.written)
	if far > 0 && r.IntN(2) == 0 {
		if m.replicas != nil {
			m.choose(m.replicas[r.IntN(len(m.replicas))])
		}
		m.kill() // another one may find the server restored at its takeover
	}
	m.srv.RestoreTo(v)
	m.writeAgain(m.written[:before], again)
	if m.replicas != nil {
		if m.life == nil {
			m.pass(20 * time.Second)
		}
		m.calm()
	}
	m.frozen, m.restored = true, true
	// What was written after v and not told has never been; and what was not
	// told until now will be told of another epoch, or not.
	m.noted = slices.DeleteFunc(m.noted, func(n invariant.Write) bool {
		return !told[event{n.Stream, n.UID, n.ResourceVersion, n.Type, n.Epoch}]
	})
	return fmt.Sprintf("the server goes back from %d to %d, and on by %d at once", now, v, again)
}

// writeAgain writes so many versions. Of those that were there before the server was restored, it writes the same objects again, with
// other content. No line has to tell of them: what an object has become since may be all that is listed.
func (m *model) writeAgain(undone []written, versions int) {
	m.t.Helper()
	noted := len(m.noted)
	for range versions {
		next := m.srv.Version() + 1
		w := written{gvr: leases, namespace: "default", name: "other"}
		for _, u := range undone {
			if u.version == next && !(u.gvr == widgets && m.undefined) {
				w = u
			}
		}
		object, err := m.srv.Get(w.gvr, w.namespace, w.name)
		if err != nil {
			object = nil
		}
		m.putAt(w.gvr, w.namespace, w.name, nil, object)
		if is := m.srv.Version(); is != next {
			m.t.Fatalf("written at %d, want %d", is, next)
		}
	}
	m.noted = m.noted[:noted]
}

func (m *model) watchList(r *rand.Rand) string {
	on := r.IntN(2) == 0
	m.srv.SetWatchList(on)
	return fmt.Sprint("streamed lists: ", on)
}

// calm lets the replicas follow the server for a while. From then on the Lease may name an earlier term.
func (m *model) calm() {
	m.fault.set(nil)
	must(m.t, m.srv.StartAPIServer())
	for _, s := range m.streams {
		m.srv.Allow(s.gvr)
	}
	m.srv.SetStale(widgets.GroupVersion(), false)
	for _, one := range m.replicas {
		one.restored.Store(true)
		one.cut.Store(cutNothing)
	}
	m.each(m.heal)
	m.pass(90 * time.Second)
}

// allBehind reports whether every stream of every replica has a position after the version v.
func (m *model) allBehind(v uint64) (all bool) {
	all = true
	m.each(func() {
		for _, s := range m.life.manager.Streams() {
			all = all && line.Later(s.Position, fmt.Sprint(v))
		}
	})
	return all
}

func (m *model) access(r *rand.Rand) string {
	m.interrupted = true
	gvr := m.streams[r.IntN(len(m.streams))].gvr
	verbs := [][]string{nil, {"list"}, {"watch"}}[r.IntN(3)]
	if r.IntN(2) == 0 {
		m.srv.Allow(gvr)
		return gvr.Resource + " are allowed"
	}
	m.srv.Forbid(gvr, verbs...)
	return fmt.Sprintf("%s are forbidden %v", gvr.Resource, verbs)
}

// definition deletes the definition of widgets and its objects, or makes it
// again.
func (m *model) definition(r *rand.Rand) string {
	if !slices.ContainsFunc(m.streams, func(s modelStream) bool { return s.gvr == widgets }) || !m.writable(r) {
		return ""
	}
	m.interrupted = true
	m.undefined = !m.undefined
	if !m.undefined {
		m.srv.AddResource(widget("v1"))
		return "widgets are defined"
	}
	all, err := m.srv.List(widgets, "")
	must(m.t, err)
	m.srv.RemoveResource(widgets.GroupResource())
	for _, o := range all {
		m.serial++
		m.note(widgets, o, nil)
	}
	m.defined = m.srv.Version()
	return "widgets are no more defined"
}

func (m *model) stale(r *rand.Rand) string {
	stale := r.IntN(2) == 0
	m.srv.SetStale(widgets.GroupVersion(), stale)
	return fmt.Sprint("discovery of widgets is stale: ", stale)
}

// settle lets everything heal, and waits until the journal of all streams says
// what the server has.
func (m *model) settle() {
	m.remark("everything heals")
	m.fault.set(nil)
	must(m.t, m.srv.StartAPIServer())
	for _, s := range m.streams {
		m.srv.Allow(s.gvr)
	}
	m.srv.SetStale(widgets.GroupVersion(), false)
	if m.undefined {
		m.undefined = false
		m.srv.AddResource(widget("v1"))
	}
	m.each(m.heal)
	var err error
	for pause, end := time.Second, time.Now().Add(patience+longestSilence); ; pause = min(2*pause, 5*time.Minute) {
		m.pass(pause)
		if err = m.healed(); err == nil {
			break
		}
		if time.Now().After(end) {
			m.t.Fatalf("not well after %v: %v", patience+longestSilence, err)
		}
	}
	m.remark("all is well")
	for name := range m.epochs {
		delete(m.epochs, name)
	}
	for _, l := range m.merged() {
		if l.Type == invariant.Gap && l.Reason == invariant.Ahead {
			m.epochs[l.Stream]++
		}
	}
	m.frozen, m.well = false, true
}

// heal lets the disk be well, and the daemon run with all entries.
func (m *model) heal() {
	m.atStart = nil
	m.one.cut.Store(cutNothing)
	if m.life != nil {
		m.life.gate.heal()
		m.life.gate.disarm()
		synctest.Wait()
		select {
		case <-m.life.gate.died:
			m.kill()
		default:
		}
	}
	if m.life == nil || len(m.entries) != len(m.pool) {
		m.entries = m.pool
		if m.life != nil && m.serial%2 == 0 {
			m.starts = append(m.starts, time.Now())
			m.mustApply(m.pool, nil)
			m.begun()
		} else if m.life != nil {
			m.pass(slowestWrite + slowestCommit) // one may be under way
			if err := m.terminate(); err != nil {
				m.t.Errorf("stop: %v", err)
			}
		}
		if m.life == nil {
			m.up()
		}
	}
	if m.life == nil {
		m.t.Fatal("the daemon does not start")
	}
}

// longestSilence is how long a watch may continue that says nothing: one that began
// with a list lasts up to an hour.
const longestSilence = 62 * time.Minute
