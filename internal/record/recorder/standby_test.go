package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/record/takeover"
)

// replica is a recorder of several, in a bubble of synctest.
type replica struct {
	*rig
	may atomic.Bool // what Term.May reports
}

// asReplica runs test with a recorder whose first term is another replica's.
func asReplica(t *testing.T, test func(*replica)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &replica{rig: newRig(t, Config{Replica: takeover.NewReplica()})}
		r.store.unchecked = true
		r.may.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.run(ctx)
		test(r)
		r.rec.Close()
		if err := <-r.done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// follows makes it another replica's term, which has published these positions.
func (r *replica) follows(published takeover.Positions) {
	r.rec.Replica().Begin(takeover.Term{Published: published})
}

// leads makes it this replica's term.
func (r *replica) leads(term uint64, published takeover.Positions) {
	r.rec.Replica().Begin(takeover.Term{May: r.may.Load, Number: term, Published: published})
}

// events submits the next n events of a stream, a batch each.
func (r *replica) events(stream string, n int) {
	for range n {
		r.submit(r.batch(stream, 1, 100))
	}
}

// says compares what is written, as stream and version, and what is committed, as stream=version.
func (r *replica) says(when string, lines []string, committed ...string) {
	r.t.Helper()
	pass(3 * time.Second)
	var got []string
	for _, l := range parse(r.t, r.out.bytes()) {
		got = append(got, l.Stream+l.ResourceVersion)
	}
	if !slices.Equal(got, lines) {
		r.t.Errorf("%s: written are %v, want %v", when, got, lines)
	}
	states, err := r.store.Streams()
	if err != nil {
		r.t.Fatal(err)
	}
	got = nil
	for _, stream := range slices.Sorted(maps.Keys(states)) {
		got = append(got, stream+"="+states[stream].ResourceVersion)
	}
	if !slices.Equal(got, committed) {
		r.t.Errorf("%s: committed are %v, want %v", when, got, committed)
	}
}

// What others have written is committed before the first line that follows it: this replica's journal does not have it, so a
// crash could not restore it.
func TestTakeoverCommitsWhatOthersWrote(t *testing.T) {
	asReplica(t, func(r *replica) {
		var known []int
		r.out.onWrite = func(_, size int) (int, error) {
			n, err := r.store.Count("a")
			known = append(known, n)
			return size, err
		}
		r.events("a", 3)
		r.submit(r.batch("a", 4, 100)) // others have written two of these
		pass(3 * time.Second)
		r.leads(2, takeover.Positions{"a": {At: "5"}})
		r.says("a term begins", []string{"a6", "a7"}, "a=7")
		r.follows(takeover.Positions{"a": {At: "7"}})
		r.leads(4, takeover.Positions{"a": {At: "9"}}) // further than this replica has read
		r.events("a", 3)
		r.says("another term", []string{"a6", "a7", "a10"}, "a=10")
		if !slices.Equal(known, []int{5, 9}) {
			t.Errorf("before each write, %v objects were committed", known)
		}
	})
}

// The same where the first lines of one batch are theirs, and nothing else is.
func TestTrimCommitsWhatOthersWrote(t *testing.T) {
	asReplica(t, func(r *replica) {
		var known []int
		r.out.onWrite = func(_, size int) (int, error) {
			n, err := r.store.Count("a")
			known = append(known, n)
			return size, err
		}
		r.submit(r.batch("a", 4, 100))
		pass(3 * time.Second)
		r.leads(2, takeover.Positions{"a": {At: "2"}})
		r.says("a term begins", []string{"a3", "a4"}, "a=4")
		if !slices.Equal(known, []int{2}) {
			t.Errorf("before the write, %v objects were committed", known)
		}
	})
}

// After a crash, too, this replica's coverage does not begin before the lines that only another one's journal has.
func TestCoverageAfterOthersLines(t *testing.T) {
	asReplica(t, func(r *replica) {
		b := r.batch("a", 2, 100)
		b.Changes.State.Coverage = checkpoint.Coverage{Since: 1, Confirmed: 2} // of a term that is long over
		received := time.Now()
		r.submit(b)
		pass(time.Second)
		r.follows(takeover.Positions{"a": {At: "2"}})
		r.says("others have written them", nil, "a=2")
		states, err := r.store.Streams()
		if s := states["a"]; err != nil || s.Since < received.UnixNano() {
			t.Errorf("coverage begins at %v, want %v at the earliest: %v", time.Unix(0, s.Since), received, err)
		}
	})
}

// A line that waits for the lease is not written in a later term with the number of the one before.
func TestWaitsIntoAnotherTerm(t *testing.T) {
	asReplica(t, func(r *replica) {
		r.leads(1, nil)
		r.may.Store(false)
		r.events("a", 1)
		pass(time.Second)
		r.rec.Replica().Begin(takeover.Term{
			May: func() bool { return true }, Number: 3, Led: map[uint64]bool{1: true, 2: true},
		})
		r.says("another term of its own", []string{"a1"}, "a=1")
		if text := string(r.out.bytes()); !strings.Contains(text, `{"seq":1,"term":3,`) {
			t.Errorf("written is %s", text)
		}
	})
}

func TestStandby(t *testing.T) {
	asReplica(t, func(r *replica) {
		r.events("a", 5)
		r.events("b", 2)
		r.says("nothing published", nil)
		r.follows(takeover.Positions{"a": {At: "3"}, "b": {Begun: true, Term: 1}})
		r.says("a is published up to 3", nil, "a=3")
		if n, err := r.store.Count("a"); n != 3 || err != nil {
			t.Errorf("%d objects of a are known, %v", n, err)
		}
		r.leads(2, takeover.Positions{"a": {At: "4"}, "b": {Begun: true, Term: 1}})
		r.says("a term begins", []string{"a5", "b1", "b2"}, "a=5", "b=2")
		if text := string(r.out.bytes()); strings.Count(text, `,"term":2,`) != 3 {
			t.Errorf("lines without their term: %s", text)
		}
		if committed, _ := r.rec.Replica().Positions(); !maps.Equal(committed, takeover.Positions{"a": {At: "5"}, "b": {At: "2"}}) {
			t.Errorf("published: %v", committed)
		}
		r.events("a", 1)
		r.says("more comes", []string{"a5", "b1", "b2", "a6"}, "a=6", "b=2")
		r.follows(takeover.Positions{"a": {At: "6"}, "b": {At: "2"}})
		r.events("a", 2)
		r.says("the term is over", []string{"a5", "b1", "b2", "a6"}, "a=6", "b=2")
		r.leads(4, takeover.Positions{"a": {At: "9"}, "b": {At: "2"}}) // further than this replica has read
		r.events("a", 2)
		r.says("another term", []string{"a5", "b1", "b2", "a6", "a10"}, "a=10", "b=2")
	})
}

// A stream may hear of a term before the writer does. What it then asks for comes after what was held.
func TestFlushInANewTerm(t *testing.T) {
	g := newRig(t, Config{Replica: takeover.NewReplica()})
	g.store.unchecked = true
	w := g.rec.newWriter()
	step := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	step("follow", w.takeTerm(t.Context()))
	for range 3 {
		g.submit(g.batch("a", 1, 100))
		step("hold", w.take(t.Context(), <-g.rec.queue))
	}
	g.rec.Replica().Begin(takeover.Term{May: func() bool { return true }, Number: 2}) // as a stream hears of it
	flushed := make(chan struct{})
	step("flush", w.take(t.Context(), &Batch{flushed: flushed}))
	if w.committed != nil || len(w.pending.waiting) > 0 || len(w.ready) != 1 {
		t.Errorf("before the writer has heard of the term: it commits, and has %d batches for later", len(w.ready))
	}
	step("lead", w.takeTerm(t.Context()))
	for len(w.ready) > 0 {
		b, _ := w.next()
		step("take", w.take(t.Context(), b))
	}
	step("commit", w.settle(t.Context()))
	<-flushed
	if n, err := g.store.Count("a"); n != 3 || err != nil || len(parse(t, g.out.bytes())) != 3 {
		t.Errorf("%d of 3 objects are known, %v; written is %s", n, err, g.out.bytes())
	}
}

// A lease that is not renewed: nothing is written until it is, or until it is another replica's term.
func TestNothingIsWrittenPastTheLease(t *testing.T) {
	asReplica(t, func(r *replica) {
		r.leads(1, nil)
		r.events("a", 1)
		r.says("with a lease", []string{"a1"}, "a=1")
		r.may.Store(false)
		r.events("a", 1)
		r.says("not renewed", []string{"a1"}, "a=1")
		r.may.Store(true)
		r.says("renewed", []string{"a1", "a2"}, "a=2")
		r.may.Store(false)
		r.events("a", 2)
		pass(time.Second)
		r.follows(takeover.Positions{"a": {At: "3"}})
		r.says("lost", []string{"a1", "a2"}, "a=3")
		r.may.Store(true)
		r.leads(3, takeover.Positions{"a": {At: "3"}})
		r.says("had again", []string{"a1", "a2", "a4"}, "a=4")
	})
}

// A stop does not wait for a lease that is not renewed, and leaves the position where it was.
func TestStopPastTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := takeover.NewReplica()
		one.Begin(takeover.Term{May: func() bool { return false }, Number: 1})
		g := newRig(t, Config{Replica: one})
		ctx, cancel := context.WithCancel(t.Context())
		g.run(ctx)
		g.submit(g.batch("a", 1, 100))
		pass(time.Second)
		cancel()
		if err := <-g.done; !errors.Is(err, errNotRenewed) || !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
		if states, err := g.store.Streams(); err != nil || len(states) > 0 || len(g.out.bytes()) > 0 {
			t.Errorf("written are %d bytes, committed %v, %v", len(g.out.bytes()), states, err)
		}
	})
}

// A term ends in the middle of a write: the line that was begun is finished, and no other one.
func TestTurnEndsWithinAWrite(t *testing.T) {
	for taken := range 330 {
		asReplica(t, func(r *replica) {
			var room atomic.Bool
			r.out.onWrite = func(_, size int) (int, error) {
				if n := len(r.out.bytes()); !room.Load() && n+size > taken && n <= taken {
					return taken - n, errDisk
				}
				return size, nil
			}
			r.leads(1, nil)
			r.submit(r.batch("a", 3, 100))
			pass(150 * time.Millisecond)
			r.follows(takeover.Positions{"a": {At: "0"}})
			room.Store(true)
			pass(10 * time.Second)
			text := r.out.bytes()
			lines := parse(t, text)
			if len(text) > 0 && len(text) < taken || len(lines) > 0 && len(text)-taken >= len(text)/len(lines)+1 {
				t.Fatalf("%d bytes were taken before the term ended, %d after", taken, len(text))
			}
			r.leads(3, takeover.Positions{"a": {At: "0"}})
			r.says(fmt.Sprint("after ", taken, " bytes"), []string{"a1", "a2", "a3"}, "a=3")
		})
	}
}

// What a standby cannot hold, it drops: the stream begins again at its checkpoint.
func TestStandbyDropsWhatIsTooMuch(t *testing.T) {
	asReplica(t, func(r *replica) {
		r.events("few", 2)
		r.submit(r.batch("many", 1, 100))
		reading, stop := r.producers["many"].WithRefusal(r.t.Context())
		defer stop(nil)
		var err error
		for err == nil {
			err = r.rec.Submit(r.t.Context(), r.batch("many", 8, 1<<17))
			synctest.Wait()
			if held := r.rec.Replica().Held(); held > takeover.MaxHeld {
				t.Fatalf("%d bytes are held", held)
			}
		}
		if sent := r.sent["many"] << 17; !errors.Is(err, takeover.ErrStandby) || sent < takeover.MaxHeld || sent > takeover.MaxHeld+4<<20 {
			t.Fatalf("after %d bytes: %v", sent, err)
		}
		if held := r.rec.Replica().Held(); held < 2*takeover.HeldOverhead+200 || held > 2*takeover.HeldOverhead+1000 {
			t.Errorf("%d bytes are held of the other stream", held)
		}
		if cause := context.Cause(reading); !errors.Is(cause, takeover.ErrStandby) {
			t.Errorf("the stream that reads is stopped by %v", cause)
		}
		if err := r.rec.Restart(r.t.Context(), r.producers["many"]); err != nil {
			t.Fatal(err)
		}
		r.sent["many"] = 0
		r.events("many", 1)
		r.leads(2, nil)
		r.says("after it", []string{"few1", "few2", "many1"}, "few=2", "many=1")
	})
}

// Batches that only move a position, of bookmarks or of another shard's events, are bounded too.
func TestStandbyBoundsPositions(t *testing.T) {
	asReplica(t, func(r *replica) {
		r.submit(r.batch("a", 1, 100))
		var err error
		n := 0
		for ; err == nil; n++ {
			b := r.producers["a"].Batch()
			b.Changes.State = &checkpoint.Stream{ResourceVersion: strconv.Itoa(2 + n)}
			err = r.rec.Submit(r.t.Context(), b)
			synctest.Wait()
		}
		if most := takeover.MaxHeld / takeover.HeldOverhead; !errors.Is(err, takeover.ErrStandby) || n > most+1 {
			t.Errorf("%v after %d batches, want no more than %d", err, n, most)
		}
	})
}

// What is written up to a position is published too where the position is lost with the next commit, unless it is undone.
func TestLostPositionIsPublished(t *testing.T) {
	for reason, want := range map[line.Reason]string{line.Expired: "3", line.PositionAheadOfServer: "2", line.JournalTruncated: "2"} {
		asReplica(t, func(r *replica) {
			r.leads(2, takeover.Positions{"a": {At: "0"}})
			r.events("a", 2)
			pass(3 * time.Second)
			b := r.producers["a"].Batch()
			b.Changes.State = &checkpoint.Stream{ResourceVersion: "3", PendingGap: reason}
			if err := r.rec.Submit(r.t.Context(), b); err != nil {
				t.Fatal(err)
			}
			pass(3 * time.Second)
			if committed, _ := r.rec.Replica().Positions(); committed["a"].At != want {
				t.Errorf("%s: published are %v, want %s", reason, committed, want)
			}
		})
	}
}

// A position of before a restore is not published beside the number of restores that others have heard of.
func TestPositionOfBeforeARestore(t *testing.T) {
	asReplica(t, func(r *replica) {
		state := func(position string, restored uint64) {
			b := r.producers["a"].Batch()
			b.Changes.State = &checkpoint.Stream{ResourceVersion: position, Restored: restored}
			if err := r.rec.Submit(r.t.Context(), b); err != nil {
				t.Fatal(err)
			}
			pass(3 * time.Second)
		}
		r.leads(1, nil)
		r.events("a", 1)
		state("40", 0)
		r.follows(nil)
		r.leads(3, takeover.Positions{"a": {At: "12", Restored: 1}})
		says := func(position string, restored uint64) {
			t.Helper()
			pass(3 * time.Second)
			if committed, _ := r.rec.Replica().Positions(); committed["a"] != (takeover.Position{At: position, Restored: restored}) {
				t.Errorf("published: %v, want %s and %d", committed, position, restored)
			}
		}
		says("12", 1)
		state("41", 0)
		says("12", 1)
		state("42", 1)
		says("42", 1)
		state("20", 2)
		says("20", 2)
	})
}

// A standby that adopts an earlier position than it has read to, since the server was restored, drops what it holds.
func TestStandbyBeginsAnew(t *testing.T) {
	asReplica(t, func(r *replica) {
		r.events("a", 5)
		r.events("b", 1)
		r.follows(takeover.Positions{"a": {At: "2"}, "b": {Begun: true, Term: 1}})
		r.says("a is published up to 2", nil, "a=2")
		b := r.batch("a", 1, 100)
		b.ends, b.lines, b.Changes.State, b.Adopts = nil, nil, &checkpoint.Stream{ResourceVersion: "1"}, true
		r.submit(b)
		r.follows(takeover.Positions{"a": {At: "1"}, "b": {Begun: true, Term: 1}})
		r.says("a is at 1 again", nil, "a=1")
		r.leads(2, takeover.Positions{"a": {At: "1"}, "b": {Begun: true, Term: 1}})
		r.says("a term begins", []string{"b1"}, "a=1", "b=1")
		for range 10 {
			if b.producer.Batch().Adopts {
				t.Error("a batch that is used again still begins anew")
			}
		}
	})
}

// A list is for the leader to write.
func TestStandbyRefusesLists(t *testing.T) {
	lists := map[string]func(*Batch){
		"first": func(b *Batch) { b.ends[0].origin, b.Changes.State = line.FromSnapshot, nil },
		"gap": func(b *Batch) {
			b.ends[0].kind, b.Changes.State.Open = kind{typ: line.Gap}, &checkpoint.Gap{ResourceVersion: "9"}
		},
		"synced":   func(b *Batch) { b.ends[0].kind = kind{typ: line.Synced} },
		"complete": func(b *Batch) { b.ends, b.lines, b.Changes.State.Closing = nil, nil, new(line.Count) },
	}
	for name, list := range lists {
		t.Run(name, func(t *testing.T) {
			asReplica(t, func(r *replica) {
				r.events("a", 1)
				b := r.batch("a", 1, 100)
				list(b)
				r.submit(b)
				synctest.Wait()
				if err := r.rec.Submit(r.t.Context(), r.batch("a", 1, 100)); !errors.Is(err, takeover.ErrStandby) {
					t.Errorf("the next batch: %v", err)
				}
				r.leads(2, nil)
				r.says("then", nil)
			})
		})
	}
}

// A list that was begun in an earlier term continues in this one only if no other replica has had a term between; its stream hears that
// it does not, also where the writer was at a write while that term came and went.
func TestListOfAnEarlierTerm(t *testing.T) {
	for own, want := range map[bool]int{true: 2, false: 1} {
		asReplica(t, func(r *replica) {
			var blocked atomic.Bool
			r.out.onWrite = func(_, size int) (int, error) {
				for blocked.Load() {
					pass(time.Second)
				}
				return size, nil
			}
			list := func() {
				b := r.batch("a", 1, 100)
				b.ends[0].kind, b.Changes.State, b.Term = kind{line.Added, line.FromSnapshot}, nil, 1
				r.submit(b)
			}
			r.leads(1, nil)
			blocked.Store(true)
			list()
			pass(time.Second)
			r.follows(nil)
			r.rec.Replica().Begin(takeover.Term{May: r.may.Load, Number: 3, Led: map[uint64]bool{1: true, 2: own}})
			blocked.Store(false)
			pass(2 * time.Second)
			list()
			pass(2 * time.Second)
			lines, refused := parse(t, r.out.bytes()), r.producers["a"].refused.Load()
			if len(lines) != want || refused == own {
				t.Errorf("the term between was its own: %v; %d lines, refused: %v", own, len(lines), refused)
			}
		})
	}
}

// What a standby holds is no list, also where it begins with the position of one that had nothing to write.
func TestHeldBehindAList(t *testing.T) {
	asReplica(t, func(r *replica) {
		r.leads(1, nil)
		r.events("a", 3)
		r.says("a term", []string{"a1", "a2", "a3"}, "a=3")
		r.follows(nil)
		b := r.batch("a", 0, 0)
		b.Changes.State, b.Term = &checkpoint.Stream{ResourceVersion: "3"}, 1
		r.submit(b)
		r.events("a", 2)
		pass(time.Second)
		r.rec.Replica().Begin(takeover.Term{May: r.may.Load, Number: 3, Led: map[uint64]bool{1: true}})
		r.says("another term", []string{"a1", "a2", "a3", "a4", "a5"}, "a=5")
	})
}

// A batch that is used again is of no list.
func TestReleasedBatch(t *testing.T) {
	p := newProducer("a")
	for range 100 { // the pool may drop some
		b := p.Batch()
		if b.Term != 0 || b.Adopts {
			t.Fatalf("%+v", b)
		}
		b.Term, b.Adopts = 7, true
		b.Release()
	}
}

// Of a list, what the lines before the cut make known is committed, and only that.
func TestTurnEndsWithinAList(t *testing.T) {
	for taken := range 330 {
		asReplica(t, func(r *replica) {
			var room atomic.Bool
			r.out.onWrite = func(_, size int) (int, error) {
				if n := len(r.out.bytes()); !room.Load() && n+size > taken && n <= taken {
					return taken - n, errDisk
				}
				return size, nil
			}
			r.leads(1, nil)
			b := r.batch("a", 3, 100)
			for i := range b.ends {
				b.ends[i].kind = kind{line.Added, line.FromRelist}
			}
			b.Changes.State = &checkpoint.Stream{Open: &checkpoint.Gap{ResourceVersion: "9", Count: line.Count{Added: 3}}}
			r.submit(b)
			pass(150 * time.Millisecond)
			r.follows(nil)
			room.Store(true)
			pass(10 * time.Second)
			lines := len(parse(t, r.out.bytes()))
			known, err := r.store.Count("a")
			s, _, errState := r.store.Stream("a")
			if err = errors.Join(err, errState); err != nil || known != lines || s.Open == nil != (lines == 0) || lines > 0 && s.Open.Added != int64(lines) {
				t.Fatalf("after %d bytes: %d lines, %d known, state %+v, %v", taken, lines, known, s, err)
			}
		})
	}
}
