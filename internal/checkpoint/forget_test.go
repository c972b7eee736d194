package checkpoint

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/object"
)

func TestForget(t *testing.T) {
	s := newStore(t)
	b := NewBatch()
	for _, name := range []string{"a", "b"} {
		var c Changes
		put(&c, object.Known{Name: "x"})
		c.State = &Stream{ResourceVersion: "1"}
		b.Add(name, &c)
	}
	var c Changes
	c.State = &Stream{ResourceVersion: "1"}
	b.Add("no objects", &c)
	mustCommit(t, s, b)
	for _, name := range []string{"a", "a", "no objects", "never there"} {
		if err := s.Forget(name); err != nil {
			t.Errorf("Forget(%s): %v", name, err)
		}
	}
	got := contentOf(t, s, "a", "b")
	want := content{Streams: map[string]Stream{"b": {ResourceVersion: "1"}}, Known: map[string][]object.Known{"b": {{Name: "x"}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForgotten: the note stands until the mark moves, and only then.
func TestForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := mustOpen(t, path)
	commit := func(mark bool, c *Changes) {
		t.Helper()
		b := NewBatch()
		b.Add("a", c)
		if mark {
			b.SetMark(Mark{Seq: 7})
		}
		mustCommit(t, s, b)
	}
	expect := func(want ...string) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, path) // the sum is right, or this fails
		got, err := s.Forgotten()
		if names := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(names, want) {
			t.Errorf("Forgotten = %v, %v, want %v", names, err, want)
		}
	}
	var c Changes
	put(&c, object.Known{Name: "x"})
	c.State = &Stream{ResourceVersion: "1"}
	commit(true, &c)
	expect()
	for _, name := range []string{"a", "b", "a"} {
		if err := s.Forget(name); err != nil {
			t.Fatal(err)
		}
	}
	expect("a", "b")
	commit(false, &c) // what Recover commits on its way
	expect("a", "b")
	commit(true, new(Changes))
	expect()
	if st, ok, err := s.Stream("a"); err != nil || !ok || st.ResourceVersion != "1" {
		t.Errorf("Stream = %+v, %v, %v", st, ok, err)
	}
}
