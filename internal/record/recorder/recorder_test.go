package recorder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/format/object"
)

func TestWriteAndCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{Interval: 10 * time.Second})
		g.run(t.Context())
		g.submit(g.batch("a", 3, 100))
		g.submit(g.batch("b", 1, 100))
		synctest.Wait()
		if n := len(parse(t, g.out.bytes())); n != 4 {
			t.Errorf("%d lines written at once, want 4", n)
		}
		if n := len(g.store.calls()); n != 0 {
			t.Errorf("%d commits before the interval is over", n)
		}
		pass(10 * time.Second)
		synctest.Wait()
		if n := len(g.store.calls()); n != 1 {
			t.Errorf("%d commits after one interval, want 1 for all streams", n)
		}
		pass(30 * time.Second)
		synctest.Wait()
		if n := len(g.store.calls()); n != 1 {
			t.Errorf("%d commits, though nothing new came", n)
		}
		g.submit(g.batch("a", 2, 100))
		g.finish()
		if got := g.counted("checkpoint_commits_total"); got != 2 {
			t.Errorf("%v commits counted", got)
		}
		if got := g.counted("output_bytes_total"); got != float64(len(g.out.bytes())) {
			t.Errorf("%v bytes counted of %d", got, len(g.out.bytes()))
		}
	})
}

// What is written is told at once, and what is committed once it is.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got, want := New(nil, nil, Config{Seq: 100}).Progress(), (Progress{Written: 100, Committed: 100}); got != want {
			t.Errorf("%+v at the start, want %+v", got, want)
		}
		g := newRig(t, Config{Interval: 10 * time.Second})
		g.run(t.Context())
		is := func(want Progress) {
			t.Helper()
			synctest.Wait()
			if got := g.rec.Progress(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		is(Progress{})
		first := g.batch("a", 3, 100)
		producer := first.producer
		g.submit(first)
		is(Progress{Written: 3})
		pass(10 * time.Second)
		committed := Progress{Written: 3, Committed: 3, CommittedAt: time.Now()}
		is(committed)
		g.submit(g.batch("b", 2, 100))
		committed.Written = 5
		is(committed)
		if got := producer.Lines(); got != 3 {
			t.Errorf("producer a has %d lines, want 3", got)
		}
		g.finish()
		is(Progress{Written: 5, Committed: 5, CommittedAt: time.Now()})
	})
}

// How commits are made may change while the recorder runs, also while it is busy.
func TestSetCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{Interval: time.Hour, NoSync: true})
		g.store.noSync = true
		g.run(t.Context())
		g.submit(g.batch("a", 3, 100))
		synctest.Wait()
		for range 3 {
			g.rec.SetCommits(time.Minute, true)
			g.rec.SetCommits(10*time.Second, true)
		}
		pass(10 * time.Second)
		synctest.Wait()
		if n := len(g.store.calls()); n != 1 {
			t.Errorf("%d commits after the new interval, want 1", n)
		}
		if g.out.syncs != 0 {
			t.Errorf("%d syncs", g.out.syncs)
		}
		g.rec.SetCommits(10*time.Second, false)
		g.submit(g.batch("a", 3, 100))
		pass(10 * time.Second)
		synctest.Wait()
		if n := len(g.store.calls()); n != 2 || g.out.syncs != 1 {
			t.Errorf("%d commits and %d syncs, want 2 and 1", n, g.out.syncs)
		}
		g.finish()
	})
}

func TestSeqGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{Seq: 41})
		g.store.unchecked = true
		g.run(t.Context())
		b := g.batch("a", 2, 10)
		b.Changes.Reset() // lines alone; the position stays
		g.submit(b)
		g.rec.Close()
		if err := <-g.done; err != nil {
			t.Fatal(err)
		}
		if got := string(g.out.bytes()); got[:10] != `{"seq":42,` {
			t.Errorf("begins with %q", got[:10])
		}
	})
}

// TestFailures lets every step fail at random, in both ways, with three
// streams submitting, and wants all lines once, in order, and committed.
func TestFailures(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{Interval: time.Second})
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 9))
			roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
			healthy := atomic.Bool{}
			g.out.onWrite = func(_, size int) (int, error) {
				if healthy.Load() || roll(3) > 0 {
					return 0, nil
				}
				return []int{0, size, roll(size + 1)}[roll(3)], errDisk
			}
			g.out.onSync = func(int) error {
				if healthy.Load() || roll(4) > 0 {
					return nil
				}
				return errDisk
			}
			g.store.onCommit = func(int) outcome {
				if healthy.Load() {
					return succeeds
				}
				return []outcome{succeeds, fails, failsPersisted}[roll(3)]
			}
			g.run(t.Context())
			var batches [3][]*Batch
			for i := range batches {
				for range 15 {
					batches[i] = append(batches[i], g.batch(fmt.Sprintf("s%d", i), 1+roll(4), 10+roll(300)))
				}
			}
			var wg sync.WaitGroup
			for i := range batches {
				wg.Go(func() {
					for n, b := range batches[i] {
						g.submit(b)
						if roll(3) == 0 {
							pass(time.Duration(roll(2000)) * time.Millisecond)
						}
						if n%5 == 4 {
							if err := g.rec.Flush(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			healthy.Store(seed%2 == 0)
			g.finish()
			if err := errors.Join(g.rec.OutputError(), g.rec.CheckpointError()); err != nil {
				t.Errorf("still not ready: %v", err)
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestRetrySameBatch: a commit that failed may have been persisted, so nothing
// but the very same batch may come next.
func TestRetrySameBatch(t *testing.T) {
	for _, how := range []outcome{fails, failsPersisted} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{})
			g.store.onCommit = func(call int) outcome {
				if call < 3 {
					return how
				}
				return succeeds
			}
			g.run(t.Context())
			g.submit(g.batch("a", 1, 10))
			pass(time.Second)
			synctest.Wait()
			if g.rec.CheckpointError() == nil {
				t.Error("nobody is told that the checkpoint cannot be committed")
			}
			g.submit(g.batch("a", 1, 10)) // comes in between, belongs to the next commit
			pass(time.Second)
			synctest.Wait()
			calls := g.store.calls()
			if len(calls) < 4 || calls[0] != calls[1] || calls[1] != calls[2] || calls[2] != calls[3] {
				t.Fatalf("%d commits, not of the same batch", len(calls))
			}
			if err := g.rec.CheckpointError(); err != nil {
				t.Errorf("still says %v", err)
			}
			if got := g.counted("checkpoint_errors_total"); got != 3 {
				t.Errorf("%v failed commits counted", got)
			}
			g.finish()
		})
	}
}

// TestOrder records the steps of one commit: output, sync, commit. A failed
// sync is no reason to commit.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{})
		var mu sync.Mutex
		var steps []string
		step := func(s string) { mu.Lock(); steps = append(steps, s); mu.Unlock() }
		g.out.onWrite = func(int, int) (int, error) { step("write"); return 0, nil }
		g.out.onSync = func(call int) error {
			step("sync")
			if call == 0 {
				return errDisk
			}
			return nil
		}
		g.store.onCommit = func(int) outcome { step("commit"); return succeeds }
		g.run(t.Context())
		g.submit(g.batch("a", 1, 10))
		if err := g.rec.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "[write sync sync commit]"; fmt.Sprint(steps) != want {
			t.Errorf("%v, want %v", steps, want)
		}
		g.finish()
	})
}

func TestNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{NoSync: true})
		g.run(t.Context())
		g.submit(g.batch("a", 1, 10))
		g.finish()
		if g.out.syncs != 0 {
			t.Errorf("%d syncs", g.out.syncs)
		}
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{Interval: time.Hour})
		unblock := make(chan struct{})
		g.store.onCommit = func(call int) outcome {
			if call == 1 {
				<-unblock
				return fails // and again
			}
			return succeeds
		}
		g.run(t.Context())
		if err := g.rec.Flush(t.Context()); err != nil || len(g.store.calls()) != 0 {
			t.Errorf("Flush of nothing = %v, %d commits", err, len(g.store.calls()))
		}
		g.submit(g.batch("a", 1, 10))
		if err := g.rec.Flush(t.Context()); err != nil || g.store.commits != 1 {
			t.Fatalf("Flush = %v, %d commits", err, g.store.commits)
		}
		g.submit(g.batch("a", 1, 10))
		var flushed [2]atomic.Bool
		flush := func(i int) {
			if err := g.rec.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			flushed[i].Store(true)
		}
		go flush(0)
		synctest.Wait()
		g.submit(g.batch("a", 1, 10)) // while the commit runs: needs the one after it
		go flush(1)
		synctest.Wait()
		if flushed[0].Load() || flushed[1].Load() {
			t.Fatal("Flush returned before the commit")
		}
		close(unblock)
		pass(time.Second)
		synctest.Wait()
		if !flushed[0].Load() || !flushed[1].Load() {
			t.Errorf("Flush waits on: %v, %v", flushed[0].Load(), flushed[1].Load())
		}
		if mark, _ := g.store.Mark(); mark.Seq != 3 {
			t.Errorf("committed up to seq %d, want 3", mark.Seq)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.rec.Flush(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Flush with an ended context = %v", err)
		}
		g.finish()
	})
}

// TestOneWrite: what queues up while a write runs goes out with one.
func TestOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{})
		unblock := make(chan struct{})
		g.out.onWrite = func(call, _ int) (int, error) {
			if call == 0 {
				<-unblock
			}
			return 0, nil
		}
		g.run(t.Context())
		for range 12 {
			g.submit(g.batch("a", 2, 100))
			g.submit(g.batch("b", 1, 100))
			synctest.Wait()
		}
		close(unblock)
		g.finish()
		if g.out.writes != 2 {
			t.Errorf("%d writes, want 2", g.out.writes)
		}
	})
}

// TestBackPressure blocks the output: what waits is bounded, in bytes and in
// batches, and Submit lets go when its context ends.
func TestBackPressure(t *testing.T) {
	const slack = 4 << 20
	for name, c := range map[string]struct{ lines, size, most int }{
		"large batches": {1, 1 << 20, budgetBytes + slack},
		"small batches": {1, 64, 2 * (queueLength + 1) * 200},
		"huge batches":  {1, budgetBytes + 1<<20, 2 * (budgetBytes + slack)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, Config{})
				g.store.unchecked = true
				unblock := make(chan struct{})
				g.out.onWrite = func(int, int) (int, error) { <-unblock; return 0, nil }
				g.run(t.Context())
				accepted := 0
				var b *Batch
				for {
					b = g.batch("a", c.lines, c.size)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					err := g.rec.Submit(ctx, b)
					cancel()
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Submit = %v", err)
						}
						break
					}
					if accepted += c.size; accepted > c.most {
						t.Fatalf("%d bytes accepted with the output blocked", accepted)
					}
				}
				// It was not taken: the caller may submit it again.
				close(unblock)
				g.submit(b)
				g.finish()
			})
		})
	}
}

// TestPendingBound: while commits fail, lines are written on, but what waits
// to be committed is bounded; then nothing of it is lost.
func TestPendingBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{})
		var broken atomic.Bool
		broken.Store(true)
		g.store.onCommit = func(int) outcome {
			if broken.Load() {
				return fails
			}
			return succeeds
		}
		g.store.unchecked = true
		w := g.rec.newWriter()
		go func() { g.done <- w.run(t.Context()) }()
		producer := newProducer("a")
		accepted, objects := 0, 0
		for {
			b := producer.Batch()
			for range 200 {
				objects++
				b.Changes.Put(nil, fmt.Appendf(nil, "%0200d", objects), []byte("u"), []byte("1"))
			}
			size := b.Bytes()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := g.rec.Submit(ctx, b)
			cancel()
			if err != nil {
				objects -= 200
				break
			}
			// In the batch that fails, in the next, in what waits to be written.
			if accepted += size; accepted > 2*(maxPending+budgetBytes) {
				t.Fatalf("%d bytes accepted with the checkpoint broken", accepted)
			}
		}
		if accepted < maxPending {
			t.Errorf("only %d bytes accepted", accepted)
		}
		synctest.Wait()
		if n := w.pending.Bytes(); n > maxPending+budgetBytes {
			t.Errorf("%d bytes pending", n)
		}
		broken.Store(false)
		g.rec.Close()
		if err := <-g.done; err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := g.store.Range("a", func(object.Known) error { n++; return nil }); err != nil || n != objects {
			t.Errorf("%d objects committed of %d, %v", n, objects, err)
		}
	})
}
