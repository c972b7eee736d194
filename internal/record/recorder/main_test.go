package recorder

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sinceSynced is what the lines of a source say of its coverage: all were received at once.
var sinceSynced = checkpoint.Coverage{Since: received.UnixNano(), Differences: 1}

var received = time.Date(2026, 11, 20, 16, 10, 22, 0, time.UTC)

// source makes the lines of one stream, with what package watcher would submit
// beside each: a snapshot, then a watch with a gap now and then.
type source struct {
	name   string
	rand   *rand.Rand
	render *object.Renderer
	object object.Object
	rv     int // of the server
	live   []object.Known
	synced bool
	state  checkpoint.Stream
}

func newSource(t testing.TB, name string, seed uint64) *source {
	t.Helper()
	render, err := object.NewRenderer(object.Source{Stream: name, Cluster: "c", Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	return &source{name: name, rand: rand.New(rand.NewPCG(seed, 3)), render: render, rv: 100}
}

// next appends the next line, without its seq, and notes in c what it makes known.
func (s *source) next(t testing.TB, dst []byte, c *checkpoint.Changes) ([]byte, line.Type, line.Origin) {
	t.Helper()
	s.rv++
	rv := fmt.Sprint(s.rv)
	open := s.state.Open != nil
	switch {
	case (!s.synced || open) && s.rand.IntN(5) == 0:
		s.synced = true
		s.set(c, checkpoint.Stream{ResourceVersion: rv, Coverage: sinceSynced})
		return s.render.AppendSynced(dst, received, rv, line.Count{Added: 1}), line.Synced, ""
	case s.synced && s.rand.IntN(12) == 0: // also within a relist: interrupted
		from := s.state.ResourceVersion
		if open {
			from = s.state.Open.ResourceVersion
		}
		s.set(c, checkpoint.Stream{ResourceVersion: s.state.ResourceVersion, Open: &checkpoint.Gap{Reason: line.Expired, FromResourceVersion: from, ResourceVersion: rv}})
		return s.render.AppendGap(dst, received, "Expired", from, time.Time{}, rv), line.Gap, ""
	}
	origin := line.FromWatch
	switch {
	case !s.synced:
		origin = line.FromSnapshot
	case open:
		origin = line.FromRelist
	}
	typ := line.Added
	if n := len(s.live); n > 0 && s.synced {
		typ = []line.Type{line.Added, line.Modified, line.Deleted}[s.rand.IntN(3)]
	}
	var k object.Known
	at := 0
	if typ == line.Added {
		k = object.Known{Namespace: []string{"", "a", "b\u00e9"}[s.rand.IntN(3)], Name: fmt.Sprintf("o-%d", s.rv), UID: fmt.Sprintf("0000%04x-7c1e-4a5b-9d3f-000000000001", s.rv)}
		if len(s.live) > 0 && s.rand.IntN(4) == 0 {
			k.Name, k.Namespace = "again", "a" // under one name, one after the other
			for i, l := range s.live {
				if l.Name == "again" {
					typ, k, at = line.Deleted, l, i
				}
			}
		}
	} else {
		at = s.rand.IntN(len(s.live))
		k = s.live[at]
	}
	last := k
	k.ResourceVersion = rv
	switch typ {
	case line.Added:
		s.live = append(s.live, k)
	case line.Modified:
		s.live[at] = k
	case line.Deleted:
		s.live = append(s.live[:at], s.live[at+1:]...)
	}
	if typ == line.Deleted {
		c.Delete([]byte(k.Namespace), []byte(k.Name))
	} else {
		c.Put([]byte(k.Namespace), []byte(k.Name), []byte(k.UID), []byte(rv))
	}
	switch {
	case origin == line.FromWatch:
		s.set(c, checkpoint.Stream{ResourceVersion: rv, Coverage: s.state.Coverage})
	case open:
		gap := *s.state.Open // batches hold the other one
		switch typ {
		case line.Added:
			gap.Added++
		case line.Modified:
			gap.Modified++
		case line.Deleted:
			gap.Deleted++
		}
		if typ != line.Deleted && line.Later(rv, gap.ResourceVersion) {
			gap.ResourceVersion = rv
		}
		s.set(c, checkpoint.Stream{ResourceVersion: s.state.ResourceVersion, Open: &gap})
	}
	if typ == line.Deleted && origin == line.FromRelist {
		dst, err := s.render.AppendGone(dst, received, last, object.Line{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return dst, typ, origin
	}
	raw := fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q},"data":{"x":"{\"seq\":1}\n"}}`, k.Namespace, k.Name, k.UID, rv)
	if err := s.render.Scan([]byte(raw), &s.object); err != nil {
		t.Fatal(err)
	}
	dst, err := s.render.AppendLine(dst, object.Line{Type: typ, Origin: origin, Received: received}, &s.object)
	if err != nil {
		t.Fatal(err)
	}
	return dst, typ, origin
}

func (s *source) set(c *checkpoint.Changes, st checkpoint.Stream) {
	s.state = st
	c.State = &st
}

// resume has the source continue from what a checkpoint says, as a stream does
// after a crash.
func (s *source) resume(t testing.TB, store *checkpoint.Store) {
	t.Helper()
	var err error
	if s.state, _, err = store.Stream(s.name); err != nil {
		t.Fatal(err)
	}
	s.synced = s.state.ResourceVersion != ""
	s.live = nil
	if err := store.Range(s.name, func(k object.Known) error {
		s.live = append(s.live, object.Known{Namespace: k.Namespace, Name: k.Name, UID: k.UID, ResourceVersion: k.ResourceVersion})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// streamNames are the streams of all tests.
var streamNames = []string{"a", "b", "s0", "s1", "s2", "pods", selected}

const selected = "pods?namespace=a&labelSelector=app%3Dweb"

// content is what a checkpoint says. A stream without position or gap is as
// good as none.
type content struct {
	Mark    checkpoint.Mark
	Streams map[string]checkpoint.Stream
	Known   map[string][]object.Known
}

func contentOf(t testing.TB, s *checkpoint.Store) content {
	t.Helper()
	c := content{Known: make(map[string][]object.Known)}
	var err error
	if c.Mark, err = s.Mark(); err != nil {
		t.Fatal(err)
	}
	if c.Streams, err = s.Streams(); err != nil {
		t.Fatal(err)
	}
	for name, st := range c.Streams {
		st.Missed, st.MissedFrom = 0, 0 // which depends on what was read back: TestReadBackIsMissed
		if c.Streams[name] = st; st == (checkpoint.Stream{}) {
			delete(c.Streams, name)
		}
	}
	for _, name := range streamNames {
		var all []object.Known
		if err := s.Range(name, func(k object.Known) error { all = append(all, k); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 {
			c.Known[name] = all
		}
	}
	return c
}

func same(t testing.TB, what string, want, got content) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func tempStore(t testing.TB) *checkpoint.Store {
	t.Helper()
	s, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b := checkpoint.NewBatch()
	b.SetMark(checkpoint.Mark{}) // as the first start does
	mustCommit(t, s, b)
	return s
}

func mustCommit(t testing.TB, s *checkpoint.Store, b *checkpoint.Batch) {
	t.Helper()
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
}
