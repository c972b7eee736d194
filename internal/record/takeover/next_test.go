package takeover

import (
	"slices"
	"testing"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
)

// situation is an example of a row of the tables.
type situation struct {
	when      string // the row
	published Position
	own       Own
	state     checkpoint.Stream
	follows   bool
	led       []uint64 // besides term 5, which the leader is in
	declared  bool     // in this term
	alone     bool
	failed    bool // to adopt, in this term
	step      Step
}

var open = &checkpoint.Gap{Reason: line.Expired, ResourceVersion: "4"}

var situations = []situation{
	{when: "nothing is published", own: Own{Adopted: "3"}, step: List},
	{when: "a standby could not adopt a moment ago", published: Position{At: "7"}, own: Own{Rests: true}, follows: true, step: Wait},
	{when: "it could not be adopted", published: Position{At: "7"}, failed: true, step: Rewrite},
	{when: "it was adopted, and no watch could start", published: Position{At: "7"}, own: Own{Adopted: "7"}, step: Rewrite},
	{
		when: "lines of its own are missing", published: Position{At: "7"}, follows: true, step: Wait,
		state: checkpoint.Stream{ResourceVersion: "5", PendingGap: line.JournalTruncated},
	},
	{when: "it has begun a list in this term", published: Position{At: "7"}, declared: true, step: List},
	{
		when: "its state is lost, and no other replica led the term before", published: Position{At: "7"}, led: []uint64{4}, step: Rewrite,
		state: checkpoint.Stream{PendingGap: line.CheckpointLost},
	},
	{
		when: "the leader has written of a restore", published: Position{At: "3", Restored: 1}, follows: true, step: Adopt,
		state: checkpoint.Stream{ResourceVersion: "5", PendingGap: line.PositionAheadOfServer},
	},
	{
		when: "the server was restored", published: Position{At: "7"}, follows: true, step: Wait,
		state: checkpoint.Stream{ResourceVersion: "5", PendingGap: line.PositionAheadOfServer},
	},
	{when: "it has no position", published: Position{At: "7"}, step: Adopt},
	{
		when: "it is where the others are", published: Position{At: "x"}, step: Adopt,
		state: checkpoint.Stream{ResourceVersion: "x", PendingGap: line.Expired},
	},
	{
		when: "others have come further", published: Position{At: "7"}, step: Adopt,
		state: checkpoint.Stream{ResourceVersion: "5", PendingGap: line.Expired},
	},
	{
		when: "it has come further than others", published: Position{At: "7"}, step: List,
		state: checkpoint.Stream{ResourceVersion: "9", PendingGap: line.Expired},
	},

	{when: "another replica writes", follows: true, step: Wait},
	{
		when: "another replica has begun to write of a restore", published: Position{Begun: true, Term: 4, Restored: 1}, step: Rewrite,
		state: checkpoint.Stream{ResourceVersion: "9", PendingGap: line.Expired},
	},
	{
		when: "the server was restored", alone: true, step: Rewrite,
		state: checkpoint.Stream{ResourceVersion: "9", PendingGap: line.PositionAheadOfServer},
	},
	{
		when: "the checkpoint is lost, and the list after a restore is not complete", alone: true, step: Rewrite,
		state: checkpoint.Stream{PendingGap: line.CheckpointLost, Open: &checkpoint.Gap{Reason: line.PositionAheadOfServer}},
	},
	{
		when: "its list in this term has no SYNCED yet", alone: true, step: Finish,
		state: checkpoint.Stream{ResourceVersion: "9", Closing: new(line.Count)},
	},
	{when: "no other replica has written since", alone: true, step: List},
	{
		when: "no other replica has written since", declared: true, step: List,
		state: checkpoint.Stream{PendingGap: line.CheckpointLost, Open: open},
	},
	{when: "the checkpoint is lost", step: Rewrite, state: checkpoint.Stream{PendingGap: line.CheckpointLost}},
	{
		when: "others have written since its list was begun", led: []uint64{2, 4}, step: Rewrite,
		state: checkpoint.Stream{ResourceVersion: "3", Open: open, Term: 2},
	},
	{
		when: "its list of an earlier term has no SYNCED yet", led: []uint64{3, 4}, step: Finish,
		state: checkpoint.Stream{ResourceVersion: "3", Closing: new(line.Count), Term: 3},
	},
	{
		when: "its list of an earlier term is not complete", led: []uint64{3, 4}, step: List,
		state: checkpoint.Stream{Open: &checkpoint.Gap{Reason: line.Expired}, Term: 3}, published: Position{Begun: true, Term: 2},
	},
	{when: "others have written of a stream that it does not know", published: Position{Begun: true, Term: 4}, step: Rewrite},
	{when: "its position is lost, or there was none", step: List},
	{when: "its position is lost, or there was none", published: Position{Begun: true, Term: 4}, led: []uint64{4}, step: List},
}

func (c *situation) ask(t *testing.T) Next {
	t.Helper()
	var r *Replica
	if !c.alone {
		r = NewReplica()
		if published := (Positions{"a": c.published}); c.follows {
			r.Begin(Term{Published: published})
		} else {
			leading(r, 5, published, c.led...)
		}
		if c.declared {
			_, version := r.Positions()
			r.MarkPublished(version + 9)
			if err := r.Declare(t.Context(), "a", 5, false, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	own, state := c.own, c.state
	own.Stream, own.State = "a", &state
	if c.failed {
		own.Failed = r.Term()
	}
	return r.Next(own)
}

// Each row of the tables answers its examples, and is needed for one of them.
func TestNext(t *testing.T) {
	for _, c := range situations {
		next := c.ask(t)
		if next.Step != c.step || next.why != c.when && next.notAdopted != c.when {
			t.Errorf("%s: %+v, want step %d", c.when, next, c.step)
		}
	}
	all, every := adoptions, lists
	defer func() { adoptions, lists = all, every }()
	needed := func(when string) {
		for _, c := range situations {
			if c.when == when && c.ask(t).Step != c.step {
				return
			}
		}
		t.Errorf("%s: no example shows that it is needed", when)
	}
	for n := range all[:len(all)-1] {
		adoptions = slices.Delete(slices.Clone(all), n, n+1)
		needed(all[n].when)
	}
	adoptions = all
	for n := range every[:len(every)-1] {
		lists = slices.Delete(slices.Clone(every), n, n+1)
		needed(every[n].when)
	}
}

// What a stream must know besides: that others have written of a restore, and up to where they have come.
func TestNextSays(t *testing.T) {
	restored := Position{Begun: true, Term: 4, Restored: 2}
	for name, c := range map[string]struct {
		situation
		restored, others bool
	}{
		"a restore by others": {situation{published: restored, step: Rewrite}, true, true},
		"one that it knows":   {situation{published: restored, step: Rewrite, state: checkpoint.Stream{Restored: 2}}, false, true},
		"one of its own":      {situation{published: restored, step: List, led: []uint64{4, 3, 2, 1}}, false, false},
		"as a standby":        {situation{published: restored, step: Wait, follows: true}, false, false},
	} {
		next := c.ask(t)
		if next.Step != c.step || next.Restored != c.restored || next.Others != c.others || next.Position != c.published {
			t.Errorf("%s: %+v", name, next)
		}
	}
	listed := situation{published: Position{At: "7", Restored: 1}, declared: true}
	if next := listed.ask(t); next.Position != (Position{Restored: 1}) {
		t.Errorf("after a list in this term: %+v", next)
	}
}

// A list that was begun as the leader does not keep a stream from adopting what the next leader publishes.
func TestAdoptsAfterItsTerm(t *testing.T) {
	r := NewReplica()
	leading(r, 5, nil)
	_, version := r.Positions()
	r.MarkPublished(version + 9)
	if err := r.Declare(t.Context(), "a", 5, false, 0); err != nil {
		t.Fatal(err)
	}
	r.Begin(Term{Published: Positions{"a": {At: "7"}}})
	if next := r.Next(Own{Stream: "a", State: new(checkpoint.Stream)}); next.Step != Adopt || next.Position.At != "7" {
		t.Errorf("%+v", next)
	}
}
