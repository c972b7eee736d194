package takeover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
)

// leading begins a term of this replica.
func leading(r *Replica, number uint64, published Positions, led ...uint64) {
	own := map[uint64]bool{number: true}
	for _, n := range led {
		own[n] = true
	}
	r.Begin(Term{May: func() bool { return true }, Number: number, Published: published, Led: own})
}

// committed notes the position of a stream, as a commit of the term does.
func committed(r *Replica, t *Term, stream string, s checkpoint.Stream) {
	r.Commit(t, maps.All(map[string]*checkpoint.Stream{stream: &s}))
}

// A commit of an earlier term that ends late does not take back what another replica has published since.
func TestLateCommit(t *testing.T) {
	r := NewReplica()
	leading(r, 1, nil)
	first := r.Term()
	committed(r, first, "a", checkpoint.Stream{ResourceVersion: "5"})
	if got, _ := r.Positions(); got["a"].At != "5" {
		t.Errorf("committed: %v", got)
	}
	leading(r, 3, Positions{"a": {At: "9"}})
	committed(r, first, "a", checkpoint.Stream{ResourceVersion: "7"})
	if got, _ := r.Positions(); got["a"].At != "9" {
		t.Errorf("after a late commit: %v", got)
	}
}

// A leader publishes of its own checkpoint what is at least as far as what others have published, and no list that is
// not complete.
func TestResume(t *testing.T) {
	r := NewReplica()
	leading(r, 2, Positions{"further": {At: "9"}, "same": {At: "9"}, "begun": {Begun: true, Term: 1}})
	r.Resume(r.Term(), map[string]checkpoint.Stream{
		"further": {ResourceVersion: "8"}, "same": {ResourceVersion: "9", Restored: 1}, "begun": {ResourceVersion: "8"},
		"later": {ResourceVersion: "10"}, "lost": {ResourceVersion: "8", PendingGap: line.Expired},
		"undone": {ResourceVersion: "8", PendingGap: line.PositionAheadOfServer},
		"open":   {ResourceVersion: "8", Open: new(checkpoint.Gap)}, "closing": {ResourceVersion: "8", Closing: new(line.Count)},
		"none": {},
	})
	want := Positions{
		"further": {At: "9"}, "same": {At: "9", Restored: 1}, "begun": {At: "8"}, "later": {At: "10"}, "lost": {At: "8"},
	}
	if got, _ := r.Positions(); !maps.Equal(got, want) {
		t.Errorf("published: %v, want %v", got, want)
	}
}

// A position of before a restore is not published in the place of a later one.
func TestPositionOfBeforeARestore(t *testing.T) {
	r := NewReplica()
	leading(r, 3, Positions{"a": {At: "12", Restored: 1}})
	for _, c := range []struct{ is, want Position }{
		{Position{At: "41"}, Position{At: "12", Restored: 1}},
		{Position{At: "42", Restored: 1}, Position{At: "42", Restored: 1}},
		{Position{At: "20", Restored: 2}, Position{At: "20", Restored: 2}},
	} {
		committed(r, r.Term(), "a", checkpoint.Stream{ResourceVersion: c.is.At, Restored: c.is.Restored})
		if got, _ := r.Positions(); got["a"] != c.want {
			t.Errorf("after %+v: %+v, want %+v", c.is, got["a"], c.want)
		}
	}
}

// declare calls Declare on a goroutine.
func declare(t *testing.T, r *Replica, stream string) <-chan error {
	declared := make(chan error, 1)
	go func() { declared <- r.Declare(t.Context(), stream, r.Term().Number, false, 0) }()
	synctest.Wait()
	return declared
}

func TestDeclare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReplica()
		if err := r.Declare(t.Context(), "a", 0, false, 0); !errors.Is(err, ErrStandby) {
			t.Errorf("on a standby: %v", err)
		}
		leading(r, 2, Positions{"a": {Begun: true, Term: 1}, "b": {At: "7"}})
		a := declare(t, r, "a")
		got, version := r.Positions()
		if want := (Positions{"a": {Begun: true, Term: 2}, "b": {At: "7"}}); !maps.Equal(got, want) || len(a) > 0 {
			t.Errorf("published: %v, want %v; has it waited: %t", got, want, len(a) == 0)
		}
		b := declare(t, r, "b")
		r.MarkPublished(version)
		synctest.Wait()
		for stream, declared := range map[string]<-chan error{"a": a, "b": b} {
			if len(declared) == 0 {
				t.Errorf("%s still waits", stream)
			} else if err := <-declared; err != nil {
				t.Errorf("%s: %v", stream, err)
			}
		}
		c := declare(t, r, "c")
		r.Begin(Term{})
		if err := <-c; !errors.Is(err, ErrStandby) {
			t.Errorf("when the term is over: %v", err)
		}
	})
}

// A list after a restore is published in the place of the position, with one restore more.
func TestDeclareARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReplica()
		leading(r, 2, Positions{"a": {At: "7", Restored: 1}})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Declare(ctx, "a", 2, true, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("not published: %v", err)
		}
		if got, _ := r.Positions(); got["a"] != (Position{Begun: true, Term: 2, Restored: 2}) {
			t.Errorf("published: %v", got)
		}
	})
}

// Nothing is to be declared where there is one replica.
func TestOnlyReplica(t *testing.T) {
	var r *Replica
	if err := r.Declare(t.Context(), "a", 0, true, 0); err != nil || r.Term() != nil || r.Changed() != nil {
		t.Errorf("%v, %v", err, r.Term())
	}
	r.Runs("a", true)
}

// A replica knows whether others may have written since a term of its own.
func TestOthersSince(t *testing.T) {
	r := NewReplica()
	leading(r, 7, nil, 2, 5, 6)
	for number, want := range map[uint64]bool{0: true, 2: true, 4: false, 5: false, 6: false, 7: false} {
		if got := r.Term().othersSince(number); got != want {
			t.Errorf("since %d: %v, want %v", number, got, want)
		}
	}
}

// A list that was begun in an earlier term has not taken care of what others have published since.
func TestListingOfAnEarlierTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for number, want := range map[uint64]Step{1: Rewrite, 3: List} {
			r := NewReplica()
			leading(r, 3, Positions{"a": {Begun: true, Term: 2}})
			_, version := r.Positions()
			r.MarkPublished(version + 9)
			if err := r.Declare(t.Context(), "a", number, false, 0); err != nil {
				t.Error(err)
			}
			if next := r.Next(Own{Stream: "a", State: new(checkpoint.Stream)}); next.Step != want {
				t.Errorf("a list of term %d: %+v", number, next)
			}
		}
	})
}

// A leader publishes the positions of streams that run, and those of others only for as long as an update of the
// replicas may take. Then it publishes that they were begun.
func TestPositionsOfRemovedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReplica()
		published := func(when string, want Positions) {
			t.Helper()
			if got, _ := r.Positions(); !maps.Equal(got, want) {
				t.Errorf("%s: published are %v, want %v", when, got, want)
			}
		}
		r.Runs("a", true)
		r.Runs("b", true)
		a, b, gone := Position{At: "5", Restored: 1}, Position{Begun: true, Term: 1}, Position{Begun: true, Restored: 2}
		before := Positions{"a": a, "b": b, "gone": {At: "7", Restored: 2}, AnyOther: {Begun: true, Term: 1}}
		leading(r, 2, before)
		published("at first", before)
		pass(keepIdle - 1)
		published("soon", before)
		r.Runs("b", false)
		published("without b", before)
		pass(1)
		published("later", Positions{"a": a, "b": b, "gone": gone, AnyOther: unnamed})
		r.Runs("b", true)
		published("b is back", Positions{"a": a, "b": b, "gone": gone, AnyOther: unnamed})
		pass(keepIdle)
		published("b stays", Positions{"a": a, "b": b, "gone": gone, AnyOther: unnamed})
		r.Runs("b", false)
		published("without b again", Positions{"a": a, "b": b, "gone": gone, AnyOther: unnamed})
		pass(keepIdle)
		published("b is gone", Positions{"a": a, "b": unnamed, "gone": gone, AnyOther: unnamed})
		leading(r, 4, Positions{"gone": {At: "9"}})
		published("another term", Positions{"gone": {At: "9"}})
	})
}

// What has no position, where not all have one, was begun by others, except in terms of this replica.
func TestAnyOther(t *testing.T) {
	for _, led := range []bool{false, true} {
		r := NewReplica()
		published := Positions{"a": {At: "5"}, AnyOther: {Begun: true, Term: 2}}
		if leading(r, 3, published); led {
			leading(r, 3, published, 2)
		}
		if next := r.Next(Own{Stream: "a", State: new(checkpoint.Stream)}); next.Step != Adopt || next.Position.At != "5" {
			t.Errorf("a: %+v", next)
		}
		want := Rewrite
		if led {
			want = List
		}
		if next := r.Next(Own{Stream: "b", State: new(checkpoint.Stream)}); next.Step != want {
			t.Errorf("b, led %v: %+v", led, next)
		}
	}
}

// What a leader did not run for long was begun by others, for each replica: also for one that was never the leader
// before, whose last term has the number 0.
func TestBegunByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReplica()
		leading(r, 2, Positions{"a": {At: "5"}})
		_, _ = r.Positions()
		pass(keepIdle)
		published, _ := r.Positions()
		for _, led := range []uint64{0, 1, 2} {
			leading(r, 3, published, led)
			if next := r.Next(Own{Stream: "a", State: new(checkpoint.Stream)}); next.Step != Rewrite {
				t.Errorf("a replica that led term %d: %+v, of %v", led, next, published)
			}
		}
	})
}

func TestPositionText(t *testing.T) {
	for text, p := range map[string]Position{
		"=": {}, "=7": {At: "7"}, "2=7": {At: "7", Restored: 2}, "~3": {Begun: true, Term: 3}, "2~0": {Begun: true, Restored: 2},
		"==~3": {At: "=~3"}, "=2=7": {At: "2=7"},
	} {
		got, err := p.MarshalText()
		if err != nil || string(got) != text {
			t.Errorf("%+v is %q, %v; want %q", p, got, err, text)
		}
		var back Position
		if err := back.UnmarshalText(got); err != nil || back != p {
			t.Errorf("%q is %+v, %v", got, back, err)
		}
	}
	for _, bad := range []string{"", "7", "x=7", "-1=7", "~", "~x", "2~", fmt.Sprint("~", "99999999999999999999")} {
		p := Position{At: "7"}
		if err := p.UnmarshalText([]byte(bad)); err != nil || p != unnamed {
			t.Errorf("%q is read as %+v, %v", bad, p, err)
		}
	}
}
