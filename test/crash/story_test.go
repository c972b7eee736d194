//go:build linux && amd64

package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"kubejournal/test/program"
)

// story is what the daemon lives through in the run that the fault befalls, and after it.
type story struct {
	name   string
	bursts int // of writes
	// again continues in the world of the fault before: the run begins with the files that a kill left. There, old files
	// are removed, and the stop does not wait until the others are compressed. Without it each fault has a world of
	// its own, in which there are no files yet.
	again bool
}

var stories = []story{{name: "first start", bursts: 2}, {name: "start again", bursts: 1, again: true}}

const (
	burst    = 4  // writes
	maxRuns  = 80 // of one world
	logShown = 4 << 10
)

// teller tells one story again and again.
type teller struct {
	story
	programs programs
	dir      string
	worlds   int
	world    *world
	count    count // of the worlds that are gone
}

// tell tells the story with a fault, nil for none, and returns what the fault befell (nil where the story was over
// before) and all operations.
func (s *teller) tell(ctx context.Context, f *fault) (hit *Operation, ops []Operation, err error) {
	if s.world == nil {
		if err := s.begin(ctx); err != nil {
			return nil, nil, fmt.Errorf("make world: %w", err)
		}
	}
	w := s.world
	r, err := w.start(f)
	if err != nil {
		return nil, nil, err
	}
	if err = s.disturbed(ctx, r, f); err == nil {
		err = s.recovered(ctx)
	}
	if err != nil {
		_ = r.Signal(syscall.SIGKILL)
		<-r.Done()
		err = fmt.Errorf("%w\n  hit: %s\n  operations:\n%s\n  %s", err, r.plan.state().fired, r.plan.trace(), w.logs())
		if w.recovering && ctx.Err() == nil {
			w.count = w.tally() // nothing will bring the rest any more
		}
		return nil, nil, errors.Join(err, s.end())
	}
	if !s.again || w.runs > maxRuns {
		err = s.end()
	}
	return r.plan.state().fired, r.plan.operations(), err
}

// begin makes a new world. Where the story needs files, one run leaves them.
func (s *teller) begin(ctx context.Context) error {
	s.worlds++
	var err error
	if s.world, err = newWorld(s.programs, filepath.Join(s.dir, fmt.Sprint(s.worlds)), s.again); err != nil || !s.again {
		return err
	}
	return s.recovered(ctx)
}

// end takes the world down and keeps its numbers.
func (s *teller) end() error {
	if s.world == nil {
		return nil
	}
	s.count.add(s.world.count)
	err := s.world.close()
	s.world = nil
	return err
}

// disturbed is the run that the fault befalls.
func (s *teller) disturbed(ctx context.Context, r *run, f *fault) error {
	w := s.world
	err := s.live(ctx, r)
	stopped := err == nil
	early := r.plan.state().fired != nil
	if stopped {
		if err := r.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		_, err = r.end(ctx)
	}
	if err != nil && !errors.Is(err, program.ErrEnded) {
		return err
	}
	status, err := r.exit()
	if err != nil {
		return err
	}
	log, err := os.ReadFile(r.log)
	if err != nil {
		return err
	}
	st := r.plan.state()
	switch {
	case f != nil && st.fired != nil && f.mode.kills() && status == -1:
	case stopped && status == 0:
	case stopped && status == 1 && st.fired != nil && !early: // a stop that could not be finished
	case !stopped && status == 1 && st.fired != nil && !running(log): // a start that could not be made
	default:
		return fmt.Errorf("the daemon ended with status %d (told to: %t)", status, stopped)
	}
	if f != nil && st.fired != nil && f.mode.cuts() {
		if err := r.plan.image.Cut(r.plan.keep()); err != nil {
			return err
		}
		return w.afterCut()
	}
	return nil
}

// live is the life of a run up to its stop. It returns program.ErrEnded where the fault ended it.
func (s *teller) live(ctx context.Context, r *run) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	for range s.bursts {
		if err := s.world.write(burst); err != nil {
			return err
		}
		if err := r.await(ctx, "the lines of what was written", s.world.caughtUp); err != nil {
			return err
		}
	}
	// After a failure the daemon pauses for seconds before it compresses again.
	if st := r.plan.state(); !s.again && (st.failures == 0 || *complete || r.plan.fault.mode == failsOn) {
		// What could not be removed at the start is there until the next one.
		if err := r.await(ctx, "files at rest", func() error { return s.world.settled(st.failures > 0) }); err != nil {
			return err
		}
	}
	return s.mended(ctx, r)
}

// mended checks that a daemon that met with a failure has said so and is well again.
func (s *teller) mended(ctx context.Context, r *run) error {
	if err := r.await(ctx, "ready again", func() error {
		status, body, err := r.get(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = errors.New(body)
		}
		if err == nil && r.plan.state().lasting {
			err = errors.New("the fault goes on")
		}
		return err
	}); err != nil {
		return err
	}
	st := r.plan.state()
	if st.failures == 0 || !st.running || !isVital(st.fired) {
		return nil
	}
	return r.await(ctx, "the failure counted", func() error {
		n, err := r.counted(ctx)
		if err == nil && n == 0 {
			err = fmt.Errorf("%d failures of %s and none is counted", st.failures, st.fired)
		}
		return err
	})
}

// recovered is what comes after: a run without a fault, in which everything must come right.
func (s *teller) recovered(ctx context.Context) error {
	w := s.world
	if err := w.write(2); err != nil { // while nobody watches
		return err
	}
	r, err := w.start(nil)
	if err != nil {
		return err
	}
	w.recovering = true
	err = s.recover(ctx, r)
	if err != nil {
		_ = r.Signal(syscall.SIGKILL)
		<-r.Done()
		return fmt.Errorf("the next run: %w\n  its operations:\n%s", err, r.plan.trace())
	}
	w.recovering = false
	return nil
}

func (s *teller) recover(ctx context.Context, r *run) error {
	w := s.world
	if err := r.ready(ctx); err != nil {
		return err
	}
	if err := w.write(2); err != nil {
		return err
	}
	if err := r.await(ctx, "the lines of what was written", w.caughtUp); err != nil {
		return err
	}
	if err := r.await(ctx, "the documents of the API", w.documented); err != nil {
		return err
	}
	if err := r.await(ctx, "files at rest", func() error { return w.settled(false) }); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	w.count = w.tally()
	if !s.again {
		if err := r.stop(ctx); err != nil {
			return err
		}
		return errors.Join(w.verify(), w.settled(false))
	}
	// The next start is to find work.
	if err := w.write(3); err != nil {
		return err
	}
	return r.kill(ctx)
}

// logs shows the ends of the last logs.
func (w *world) logs() string {
	var b strings.Builder
	for i := max(1, w.runs-1); i <= w.runs; i++ {
		name := fmt.Sprintf("stderr-%d", i)
		content, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			content = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s:\n%s\n", name, content[max(0, len(content)-logShown):])
	}
	entries, err := os.ReadDir(w.folder)
	if err != nil {
		return err.Error()
	}
	for _, e := range entries {
		fmt.Fprintln(&b, "   ", e.Name())
	}
	return b.String()
}
