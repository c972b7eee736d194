package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/invariant"
)

// row is one entry of a config, what is done to the cluster, and what the journal then tells of it. All rows of a table
// are entries of one config, each with namespaces of its own; one daemon runs, is stopped or killed, and comes back
// after its history is gone.
//
// What is told is written as "ADDED snapshot name", in any order. The last thing that is done to a stream in each phase
// must be told: all before it is then decided.
type row struct {
	name       string
	resource   string // default: configmaps
	keys       object // of the entry, beside the resource
	namespaces int    // default: 1
	everywhere bool   // one watch of all namespaces; else one for the first, unless keys say which
	patterns   func(namespaces []string) object

	before, live, down  func(h *hand)
	first, then, relist []string
	// check looks at the lines of the row.
	check func(t *testing.T, h *hand, lines []invariant.Line)
}

// hand writes on the server in the namespaces of a row.
type hand struct {
	t      *testing.T
	s      *server
	ns     []string
	daemon *daemon
	n      int
}

// at is a place for objects.
type at struct {
	h   *hand
	gvr schema.GroupVersionResource
	k   string // kind
	ns  string
}

func (h *hand) configMaps(ns ...int) at {
	return at{h, configMaps.Resource, configMaps.Kind, h.pick(ns)}
}
func (h *hand) widgets(ns ...int) at { return at{h, widgets.Resource, widgets.Kind, h.pick(ns)} }
func (h *hand) secrets(ns ...int) at { return at{h, secrets.Resource, secrets.Kind, h.pick(ns)} }
func (h *hand) deployments() at      { return at{h, deployments.Resource, deployments.Kind, h.ns[0]} }
func (h *hand) pods(ns ...int) at {
	return at{h, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod", h.pick(ns)}
}

func (h *hand) pick(ns []int) string {
	if len(ns) == 0 {
		return h.ns[0]
	}
	return h.ns[ns[0]]
}

// put makes an object, or replaces all of it but what the server keeps.
func (a at) put(name string, content object) {
	a.h.t.Helper()
	o := make(object)
	maps.Copy(o, content)
	meta := map[string]any{"name": name, "namespace": a.ns}
	if more, ok := content["metadata"].(object); ok {
		maps.Copy(meta, more)
	}
	o["apiVersion"], o["kind"], o["metadata"] = a.gvr.GroupVersion().String(), a.k, meta
	api, ctx := a.h.s.client.Resource(a.gvr).Namespace(a.ns), a.h.t.Context()
	by := "scenario"
	_, err := api.Create(ctx, o.unstructured(), metav1.CreateOptions{FieldManager: by})
	if apierrors.IsAlreadyExists(err) {
		var is *unstructured.Unstructured
		if is, err = api.Get(ctx, name, metav1.GetOptions{}); err != nil {
			a.h.t.Fatal(err)
		}
		meta["resourceVersion"] = is.GetResourceVersion()
		_, err = api.Update(ctx, o.unstructured(), metav1.UpdateOptions{FieldManager: by})
	}
	if err != nil {
		a.h.t.Fatalf("put %s %s/%s: %v", a.k, a.ns, name, err)
	}
}

// touch changes nothing but an annotation.
func (a at) touch(name string) {
	a.h.t.Helper()
	a.h.n++
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, a.h.n)
	a.merge(name, string(patch))
}

func (a at) merge(name, patch string, subresources ...string) {
	a.h.t.Helper()
	_, err := a.h.s.client.Resource(a.gvr).Namespace(a.ns).
		Patch(a.h.t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{FieldManager: "merger"}, subresources...)
	if err != nil {
		a.h.t.Fatalf("patch %s %s/%s: %v", a.k, a.ns, name, err)
	}
}

func (a at) delete(name string) {
	a.h.t.Helper()
	var now int64
	err := a.h.s.client.Resource(a.gvr).Namespace(a.ns).Delete(a.h.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		a.h.t.Fatalf("delete %s %s/%s: %v", a.k, a.ns, name, err)
	}
}

// phase is how far the rows are.
type phase int

const (
	snapshot phase = iota
	watching
	relisted
	phases
)

// played is a row with what has come of it.
type played struct {
	row
	*hand
	told [phases][]string
	all  []invariant.Line // of the row's namespaces
}

func (p *played) want(at phase) []string {
	return slices.Sorted(slices.Values([][]string{p.first, p.then, p.relist}[at]))
}

func (p *played) entry() any {
	e := object{"resource": "configmaps", "namespaces": p.ns[:1]}
	if p.resource != "" {
		e["resource"] = p.resource
	}
	if p.everywhere {
		delete(e, "namespaces")
	}
	maps.Copy(e, p.keys)
	if p.patterns != nil {
		maps.Copy(e, p.patterns(p.ns))
	}
	return e
}

// playRows plays a table of rows and returns the daemon, which runs, before the rows are judged. keys are of the
// config; end ends the daemon after the second phase.
func playRows(t *testing.T, rows []row, keys object, end func(*daemon)) {
	t.Helper()
	s := own.get(t)
	d := newDaemon(t, s.Kubeconfig(), nil)
	var all []*played
	var entries []any
	for _, r := range rows {
		p := &played{row: r, hand: &hand{t: t, s: s, daemon: d, ns: s.namespaces(t, max(1, r.namespaces))}}
		all = append(all, p)
		entries = append(entries, p.entry())
		if r.before != nil {
			r.before(p.hand)
		}
	}
	d.rewrite(d.content(s.Kubeconfig(), entries, keys))
	do := func(step func(row) func(*hand)) {
		for _, p := range all {
			if f := step(p.row); f != nil {
				f(p.hand)
			}
		}
	}
	d.start() // all streams are past their first sync
	read := d.collect(all, snapshot, 0)
	do(func(r row) func(*hand) { return r.live })
	read = d.collect(all, watching, read)
	end(d)
	do(func(r row) func(*hand) { return r.down })
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(gaps(d.tell()))
	d.start()
	eventually(t, later, "relists", func() error {
		lines := d.tell()
		if open := listing(lines); open != "" || len(gaps(lines)) <= before {
			return fmt.Errorf("stream %q lists, %d gaps", open, len(gaps(lines)))
		}
		return nil
	})
	d.collect(all, relisted, read)
	judge(t, d, all)
	d.stop()
}

// judge compares what was told with what is wanted.
func judge(t *testing.T, d *daemon, all []*played) {
	t.Helper()
	lines := d.tell()
	if err := invariant.Sequence(lines, 1); err != nil {
		t.Error(err)
	}
	if err := invariant.Shape(lines); err != nil {
		t.Error(err)
	}
	if err := invariant.Unique(lines); err != nil {
		t.Error(err)
	}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			for at, what := range []string{"at first", "then", "after a gap"} {
				if want := p.want(phase(at)); !slices.Equal(p.told[at], want) {
					t.Errorf("%s: told %q, want %q", what, p.told[at], want)
				}
			}
			if p.check != nil {
				p.check(t, p.hand, p.all)
			}
		})
	}
}

// collect waits until every row has told what is wanted, or for so long that it will not come, and sorts the lines that
// were told since the first read of them to the rows. It returns how many there are.
func (d *daemon) collect(all []*played, at phase, read int) int {
	d.t.Helper()
	owner := make(map[string]*played)
	for _, p := range all {
		for _, ns := range p.ns {
			owner[ns] = p
		}
	}
	deadline := time.Now().Add(soon)
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		lines := d.tell()
		for _, p := range all {
			p.told[at] = nil
		}
		for _, l := range lines[read:] {
			ns := l.Namespace
			if l.Type == invariant.Gap || l.Type == invariant.Synced {
				continue
			}
			p := owner[ns]
			if p == nil { // made later, under a name that begins as one of the row's
				for own := range owner {
					if strings.HasPrefix(ns, own) {
						p = owner[own]
					}
				}
			}
			if p != nil {
				p.told[at] = append(p.told[at], l.Type+" "+l.Origin+" "+l.Name)
			}
		}
		done := true
		for _, p := range all {
			slices.Sort(p.told[at])
			done = done && len(p.told[at]) >= len(p.want(at))
		}
		if done || time.Now().After(deadline) {
			for _, l := range lines[read:] {
				if p := owner[l.Namespace]; p != nil && l.Type != invariant.Gap && l.Type != invariant.Synced {
					p.all = append(p.all, l)
				}
			}
			return len(lines)
		}
		<-tick.C
	}
}
