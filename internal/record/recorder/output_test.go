package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/record/metrics"
)

func TestOutputError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		g := newRig(t, Config{Log: zap.New(core)})
		g.out.onWrite = func(call, size int) (int, error) {
			switch {
			case call < 3:
				return size / 2, errDisk
			case call == 3:
				return 0, &journal.RotationError{Err: errDisk}
			}
			return 0, nil
		}
		g.out.onSync = func(call int) error {
			if call < 2 {
				return errDisk
			}
			return nil
		}
		g.run(t.Context())
		g.submit(g.batch("a", 1, 1000))
		synctest.Wait()
		well := func() int { return logs.FilterMessage("output can be written again").Len() }
		if well() > 0 {
			t.Error("it is logged that the output can be written")
		}
		if !errors.Is(g.rec.OutputError(), errDisk) {
			t.Errorf("OutputError = %v", g.rec.OutputError())
		}
		pass(10 * time.Second)
		synctest.Wait()
		if err := g.rec.OutputError(); err != nil {
			t.Errorf("OutputError = %v", err)
		}
		if n := well(); n != 1 {
			t.Errorf("it is logged %d times that the output can be written again", n)
		}
		if got := g.counted("output_errors_total"); got != 6 {
			t.Errorf("%v errors counted", got)
		}
		for operation, want := range map[string]float64{metrics.Write: 3, metrics.Rotate: 1, metrics.Sync: 2} {
			if got := testutil.ToFloat64(g.m.OutputErrors.WithLabelValues(operation)); got != want {
				t.Errorf("%v errors of %s, want %v", got, operation, want)
			}
		}
		g.finish()
	})
}

// TestClosedOutput: nobody reads any more, and nothing that was not written
// counts as written.
func TestClosedOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{})
		g.out.onWrite = func(call, size int) (int, error) {
			if call == 1 {
				return size / 2, fmt.Errorf("write: %w", journal.ErrClosed)
			}
			return 0, nil
		}
		g.run(t.Context())
		g.submit(g.batch("a", 2, 100))
		if err := g.rec.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.submit(g.batch("a", 2, 100))
		if err := <-g.done; !errors.Is(err, journal.ErrClosed) {
			t.Errorf("Run = %v", err)
		}
		if mark, err := g.store.Mark(); err != nil || mark.Seq != 2 {
			t.Errorf("mark %+v, %v, want seq 2", mark, err)
		}
		if n := len(g.store.calls()); n != 1 {
			t.Errorf("%d commits", n)
		}
	})
}

// TestTakenOver: another process writes to the files too, which ends the recorder at
// once, whoever finds out; nothing counts any more.
func TestTakenOver(t *testing.T) {
	found := fmt.Errorf("journal: %w", disk.ErrTakenOver)
	for what, on := range map[string]func(g *rig){
		"write":  func(g *rig) { g.out.onWrite = func(int, int) (int, error) { return 0, found } },
		"sync":   func(g *rig) { g.out.onSync = func(int) error { return found } },
		"verify": func(g *rig) { g.out.onVerify = func() error { return found } },
		"commit": func(g *rig) { g.store.onCommit = func(int) outcome { return takenOver } },
	} {
		for _, noSync := range []bool{false, true} {
			if noSync && what == "sync" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, Config{NoSync: noSync})
				on(g)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				g.run(ctx)
				g.submit(g.batch("a", 2, 100))
				start := time.Now()
				if err := <-g.done; !errors.Is(err, disk.ErrTakenOver) {
					t.Errorf("%s: Run = %v", what, err)
				}
				if took := time.Since(start); took > time.Second {
					t.Errorf("%s: it took %s", what, took)
				}
				if mark, err := g.store.Mark(); err != nil || mark.Seq != 0 {
					t.Errorf("%s: mark %+v, %v", what, mark, err)
				}
				if n := len(g.store.calls()); n > 1 || n == 1 && what != "commit" {
					t.Errorf("%s: %d commits", what, n)
				}
			})
		}
	}
}

func TestContextEnds(t *testing.T) {
	t.Run("in a write", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{})
			unblock := make(chan struct{})
			g.out.onWrite = func(int, int) (int, error) { <-unblock; return 0, errDisk }
			ctx, cancel := context.WithCancel(t.Context())
			g.run(ctx)
			g.submit(g.batch("a", 1, 10))
			synctest.Wait()
			start := time.Now()
			cancel()
			err := <-g.done
			if !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
				t.Errorf("Run = %v after %v", err, time.Since(start))
			}
			if n := len(g.store.calls()); n != 0 {
				t.Errorf("%d commits of lines that were not written", n)
			}
			close(unblock)
		})
	})
	for name, set := range map[string]func(*rig){
		"while writes fail":  func(g *rig) { g.out.onWrite = func(int, int) (int, error) { return 0, errDisk } },
		"while syncs fail":   func(g *rig) { g.out.onSync = func(int) error { return errDisk } },
		"while commits fail": func(g *rig) { g.store.onCommit = func(int) outcome { return fails } },
	} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, closed %v", name, closed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newRig(t, Config{})
					set(g)
					ctx, cancel := context.WithCancel(t.Context())
					g.run(ctx)
					g.submit(g.batch("a", 1, 10))
					if closed {
						g.rec.Close()
					}
					pass(20 * time.Second)
					synctest.Wait()
					select {
					case err := <-g.done:
						t.Fatalf("Run gave up: %v", err)
					default:
					}
					start := time.Now()
					cancel()
					if err := <-g.done; !errors.Is(err, context.Canceled) || time.Since(start) > time.Second {
						t.Errorf("Run = %v after %v", err, time.Since(start))
					}
					if g.store.commits != 0 {
						t.Error("the position moved")
					}
				})
			})
		}
	}
}

// TestCloseReleasesFlush: a Flush that waits when Close comes gets its answer.
func TestCloseReleasesFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Config{Interval: time.Hour})
		unblock := make(chan struct{})
		g.store.onCommit = func(call int) outcome {
			if call == 0 {
				<-unblock
			}
			return succeeds
		}
		g.run(t.Context())
		flushed := make(chan error, 2)
		for range 2 {
			g.submit(g.batch("a", 1, 10))
			go func() { flushed <- g.rec.Flush(t.Context()) }()
			synctest.Wait()
		}
		close(unblock)
		g.finish()
		for range 2 {
			if err := <-flushed; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestBlockedOutput: a reader that takes nothing shows in readiness.
func TestBlockedOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		rec := New(journal.NewStdout(out), tempStore(t), Config{Metrics: metrics.New("", ""), Log: zap.NewNop()})
		done := make(chan error, 1)
		go func() { done <- rec.Run(t.Context()) }()
		producer := newProducer("pods")
		b := producer.Batch()
		b.AddLine(append(b.Lines(), ",\"x\":1}\n"...), line.Added, line.FromWatch, time.Now(), nil)
		if err := rec.Submit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if err := rec.OutputError(); err != nil {
			t.Errorf("after a second: %v", err)
		}
		pass(10 * time.Second)
		if err := rec.OutputError(); err == nil || !strings.Contains(err.Error(), "blocked") {
			t.Errorf("after ten seconds: %v", err)
		}
		go io.Copy(io.Discard, in)
		pass(time.Second)
		if err := rec.OutputError(); err != nil {
			t.Errorf("read on: %v", err)
		}
		rec.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		out.Close()
	})
}
