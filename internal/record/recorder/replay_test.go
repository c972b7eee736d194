package recorder

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/record/previous"
)

// step is something that happens to a stream: a line, or an event without one.
type step struct {
	checkpoint.Transition
	raw       string // the object, of an event about one
	known     object.Known
	bookmark  bool
	complete  bool // the end of a list, before its SYNCED
	truncated bool // the line has no whole object
	unusable  bool
}

// steps is a random history of a stream: a first sync, then a watch with gaps, in
// which lists are interrupted, and names change hands.
func steps(r *rand.Rand, n int) (all []step) {
	live := map[string]object.Known{}
	version, uids := 100, 0
	next := func() string { version++; return fmt.Sprint(version) }
	about := func(t line.Type, from line.Origin, k object.Known) {
		s := step{Transition: checkpoint.Transition{Type: t, Origin: from}, known: k}
		switch r.IntN(8) {
		case 0:
			s.HeldBack = true
		case 1:
			s.HeldBack, s.Withheld = true, t != line.Deleted
		case 2:
			s.truncated = true
		case 3:
			s.unusable, s.truncated = true, true
		}
		s.raw = fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q},"data":{"x":"%d"},"note":"%d","fill":%q}`,
			k.Namespace, k.Name, k.UID, k.ResourceVersion, r.IntN(3), r.IntN(100), strings.Repeat("f", 300))
		all = append(all, s)
	}
	change := func(from line.Origin) {
		name := string(rune('a' + r.IntN(6)))
		k, ok := live[name]
		switch {
		case ok && r.IntN(3) == 0:
			delete(live, name)
			if from == line.FromWatch {
				k.ResourceVersion = next()
			}
			about(line.Deleted, from, k)
			if r.IntN(2) == 0 {
				return
			}
			fallthrough // another one takes the name at once
		case !ok:
			uids++
			k = object.Known{Namespace: "ns", Name: name, UID: fmt.Sprint("u", uids), ResourceVersion: next()}
			about(line.Added, from, k)
		default:
			k.ResourceVersion = next()
			about(line.Modified, from, k)
		}
		live[name] = k
	}
	list := func(from line.Origin) {
		for range r.IntN(6) {
			change(from)
		}
	}
	synced := func() {
		all = append(all, step{Transition: checkpoint.Transition{ResourceVersion: []byte(next())}, complete: true},
			step{Transition: checkpoint.Transition{Type: line.Synced, ResourceVersion: fmt.Append(nil, version)}})
	}
	list(line.FromSnapshot)
	synced()
	for len(all) < n {
		switch r.IntN(12) {
		case 0:
			for range 1 + r.IntN(2) { // the second GAP is of another reason, within the first
				rv := next()
				if r.IntN(3) == 0 {
					rv = "50" // the server was restored
				}
				all = append(all, step{Transition: checkpoint.Transition{Type: line.Gap, ResourceVersion: []byte(rv)}})
				list(line.FromRelist)
			}
			list(line.FromRelist) // an attempt that continues after the same GAP
			synced()
		case 1:
			all = append(all, step{Transition: checkpoint.Transition{ResourceVersion: []byte(next())}, bookmark: true})
		default:
			change(line.FromWatch)
		}
	}
	return all
}

// live is a stream as package watcher has it.
type live struct {
	t        testing.TB
	state    checkpoint.Stream
	store    *checkpoint.Store
	previous *previous.Store
	render   *object.Renderer
	object   object.Object
	seq      uint64
	lines    []byte
}

func newLive(t testing.TB, store *checkpoint.Store) *live {
	t.Helper()
	l := &live{t: t, store: store}
	var err error
	if l.render, err = object.NewRenderer(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{}); err != nil {
		t.Fatal(err)
	}
	l.previous, err = previous.New(previous.Config{Stream: "pods", Changes: true, IgnoreFields: []string{"note"}}, store, func() uint64 { return l.seq }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	_, stale, err := l.previous.Load()
	if err != nil {
		t.Fatal(err)
	}
	if stale { // committed before there is a line
		var c checkpoint.Changes
		l.previous.PutHeader(&c, 0)
		b := checkpoint.NewBatch()
		b.Add("pods", &c)
		mustCommit(t, store, b)
	}
	return l
}

// do writes the line of a step, if it has one, and commits what it makes known.
func (l *live) do(s step) {
	l.t.Helper()
	var (
		c      checkpoint.Changes
		err    error
		change = s.Transition
		rv     = string(change.ResourceVersion)
		body   []byte
	)
	switch {
	case s.bookmark:
		l.state.Move(rv)
	case s.complete:
		l.state.Complete(rv, &line.Count{Added: 1})
	case s.Type == line.Gap:
		change.FromResourceVersion, change.Reason = []byte(l.state.From()), line.Expired
		l.state.Lose(line.Expired)
		body = l.render.AppendGap(nil, received, l.state.PendingGap, l.state.From(), time.Time{}, rv)
		l.state.Apply(&change, &c)
		if l.state.PendingGap != "" || l.state.Open == nil || l.state.Valid() {
			l.t.Fatalf("behind a GAP line: %+v", l.state)
		}
	case s.Type == line.Synced:
		body = l.render.AppendSynced(nil, received, rv, *l.state.Closing)
		change.Time, change.Count = received.UnixNano(), l.state.Closing
		l.state.Apply(&change, &c)
	default:
		if body, err = l.about(s, &change, &c); err != nil {
			l.t.Fatal(err)
		}
		l.state.Apply(&change, &c)
	}
	c.State = l.state.Clone()
	if len(body) > 0 && !s.HeldBack {
		l.seq++
		l.lines = append(line.AppendSeq(l.lines, l.seq), body...)
	}
	b := checkpoint.NewBatch()
	b.Add("pods", &c)
	b.SetMark(checkpoint.Mark{Seq: l.seq, FirstSeq: min(l.seq, 1), Offset: int64(len(l.lines))})
	mustCommit(l.t, l.store, b)
}

func (l *live) about(s step, change *checkpoint.Transition, c *checkpoint.Changes) (body []byte, err error) {
	if err := l.render.Scan([]byte(s.raw), &l.object); err != nil {
		return nil, err
	}
	if s.unusable {
		if err := l.render.Identify([]byte(s.raw), &l.object, object.ErrTooLarge); err != nil {
			return nil, err
		}
	}
	o := &l.object
	change.Namespace, change.Name, change.UID, change.ResourceVersion = o.Namespace, o.Name, o.UID, o.ResourceVersion
	form := object.Line{Type: s.Type, Origin: s.Origin, Received: received}
	if s.truncated {
		form.MaxBytes = 400
	}
	switch {
	case s.Type == line.Deleted:
		l.previous.Remove(c, l.seq, o.Namespace, o.Name)
	case s.unusable:
		l.previous.Put(c, l.seq, o.Namespace, o.Name, l.previous.Unknown(s.Withheld))
	default:
		compared, err := l.previous.Compare(previous.Version{}, o)
		if err != nil {
			return nil, err
		}
		l.previous.Put(c, l.seq, o.Namespace, o.Name, compared.Value(s.Withheld))
	}
	if s.Type == line.Deleted && s.Origin == line.FromRelist {
		change.ResourceVersion = nil
		return l.render.AppendGone(nil, received, s.known, object.Line{}, nil)
	}
	return l.render.AppendLine(nil, form, o)
}

// TestReplay: what a stream has committed of its lines, and what recovery makes of
// the same lines, are the same, wherever the last commit was before the crash. Events
// that were held back since then are gone: the server sends them again.
func TestReplay(t *testing.T) {
	compared := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 11))
		all := steps(r, 10+r.IntN(60))
		all = all[:1+r.IntN(len(all))] // it may end after a GAP
		committed := r.IntN(len(all) + 1)
		told := slices.Clone(all[:committed])
		for _, s := range all[committed:] {
			if !s.HeldBack && !s.bookmark && !s.complete {
				told = append(told, s)
			}
		}
		stream, crashed := newLive(t, tempStore(t)), newLive(t, tempStore(t))
		for i, s := range told {
			if s.Type == line.Synced && stream.state.Closing == nil {
				// Its list is complete, in what no line says.
				stream.state.Complete(string(s.ResourceVersion), &line.Count{Added: 1})
			}
			if stream.do(s); i < committed {
				crashed.do(s)
			}
		}
		what := fmt.Sprintf("seed %d, %d of %d steps committed", seed, committed, len(told))
		j := openJournal(t, filepath.Join(t.TempDir(), "journal.jsonl"), stream.lines)
		if _, err := Recover(t.Context(), j, crashed.store); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		want, got := contentOf(t, stream.store), contentOf(t, crashed.store)
		same(t, what, want, got)
		compared += samePrevious(t, what, told, stream.store, crashed.store)
		j.Close()
		stream.store.Close()
		crashed.store.Close()
	}
	if compared == 0 {
		t.Error("no previous version was compared")
	}
}

// samePrevious compares the previous versions in two checkpoints, and returns how many
// there are: of a line without the whole object, none is left.
func samePrevious(t *testing.T, what string, told []step, want, got *checkpoint.Store) (found int) {
	t.Helper()
	last := map[string]step{}
	for _, s := range told {
		if s.raw != "" {
			last[s.known.Name] = s
		}
	}
	stream, replayed := newLive(t, want), newLive(t, got)
	for name, s := range last {
		is, err := replayed.previous.Get([]byte("ns"), []byte(name))
		if err != nil {
			t.Fatal(err)
		}
		object := string(is.Object)
		was, err := stream.previous.Get([]byte("ns"), []byte(name))
		if err != nil {
			t.Fatal(err)
		}
		if string(was.Object) != object && !(s.truncated && object == "") {
			t.Fatalf("%s: %s is stored as %.200q, want %.200q", what, name, object, was.Object)
		}
		if is.Withheld != was.Withheld {
			t.Fatalf("%s: %s is withheld: %v, want %v", what, name, is.Withheld, was.Withheld)
		}
		if object == "" {
			continue
		}
		found++
		// Nothing but what is ignored has changed since.
		for _, l := range []*live{stream, replayed} {
			if err := l.render.Scan([]byte(s.raw), &l.object); err != nil {
				t.Fatal(err)
			}
			before, err := l.previous.Get([]byte("ns"), []byte(name))
			if err != nil {
				t.Fatal(err)
			}
			if compared, err := l.previous.Compare(before, &l.object); err != nil || !compared.Same {
				t.Fatalf("%s: %s differs from itself: %v", what, name, err)
			}
		}
	}
	return found
}
