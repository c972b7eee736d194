package recorder

import (
	"context"
	"errors"
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/disk"
	"kubejournal/internal/journal"
	"time"

	"go.uber.org/zap"
)

// startCommit freezes what is pending and commits it beside the writer. It does
// nothing while another commit runs.
func (r *Recorder) startCommit(ctx context.Context) {
	if r.inflight {
		return
	}
	waiting := r.waiting
	r.waiting = nil
	if r.pending.Empty() {
		release(waiting)
		return
	}
	batch := r.pending
	r.pending = checkpoint.NewBatch()
	numbers := r.numbers
	r.numbers = nil
	mark, seq := r.out.Mark(), r.seq
	at := checkpoint.Mark{Seq: seq, FirstSeq: mark.FirstSeq, Offset: mark.Offset}
	if r.cfg.File != nil {
		at.Stdout, at.File = true, *r.cfg.File
	}
	batch.SetMark(at)
	r.inflight = true
	go func() {
		err := r.commit(ctx, batch)
		if err == nil {
			r.lastCommit.Store(&commitEnd{seq, time.Now()})
			r.out.Committed(seq)
			for producer, number := range numbers {
				producer.committed.Store(number)
			}
			release(waiting)
		}
		r.committed <- err
	}()
}

// endCommit takes note of a committer's end, and starts the next one if
// somebody waits for it.
func (r *Recorder) endCommit(ctx context.Context, err error) error {
	r.inflight = false
	if err == nil && len(r.waiting) > 0 {
		r.startCommit(ctx)
	}
	return err
}

// commit syncs the journal and commits a batch, until it succeeds or ctx ends.
// A crash between the two leaves lines that are read back at the next start.
func (r *Recorder) commit(ctx context.Context, batch *checkpoint.Batch) error {
	retry := retryFirst
	for {
		start := time.Now()
		err := r.tryCommit(batch)
		if err == nil {
			r.cfg.Metrics.Commits.Inc()
			r.cfg.Metrics.CommitSeconds.Observe(time.Since(start).Seconds())
			r.cfg.Metrics.LastCommit.SetToCurrentTime()
			if n, err := r.store.Size(); err == nil {
				r.cfg.Metrics.CheckpointBytes.Set(float64(n))
			}
			r.committedTo(r.store.InPlace())
			return nil
		}
		r.cfg.Metrics.CommitErrors.Inc()
		failed, what := &r.commitErr, "checkpoint cannot be committed, trying again"
		if synced := new(syncError); errors.As(err, &synced) {
			r.cfg.Metrics.OutputErrors.Inc()
			failed, what = &r.syncErr, "output cannot be synced, trying again"
		}
		if isFinal(err) {
			return err
		}
		if failed.Swap(&err) == nil {
			r.cfg.Log.Error(what, zap.Error(err))
		}
		if !sleep(ctx, retry) {
			return &stoppedError{err.Error(), errors.Join(err, ctx.Err())}
		}
		retry = min(2*retry, retryMax)
	}
}

func (r *Recorder) tryCommit(batch *checkpoint.Batch) error {
	if !r.noSync.Load() {
		if err := r.out.Sync(); err != nil {
			return &syncError{err}
		}
	}
	// Last, so that as little as can be comes between this and the commit.
	if err := r.out.Verify(); err != nil {
		return &syncError{err}
	}
	return r.store.Commit(batch)
}

// isFinal reports whether there is no use in trying again after an error.
func isFinal(err error) bool {
	return errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrUnsynced) ||
		errors.Is(err, disk.ErrTakenOver)
}

// syncError says that a commit has failed before it began: the journal could
// not be synced, or does not hold what was written.
type syncError struct{ error }

func (e *syncError) Unwrap() error { return e.error }

// committedTo takes note of a commit. Where its file has lost its place, the next
// start will not find what was committed.
func (r *Recorder) committedTo(displaced error) {
	r.syncErr.Store(nil)
	if displaced != nil {
		if r.commitErr.Swap(&displaced) == nil {
			r.cfg.Log.Error("checkpoint has lost its place", zap.Error(displaced))
		}
		return
	}
	if r.commitErr.Swap(nil) != nil {
		r.cfg.Log.Info("checkpoint can be committed again")
	}
}

// finish commits what is left after the last batch.
func (r *Recorder) finish(ctx context.Context) error {
	for {
		if r.inflight {
			if err := r.endCommit(ctx, <-r.committed); err != nil {
				return err
			}
			continue
		}
		if r.pending.Empty() && len(r.waiting) == 0 {
			return nil
		}
		r.startCommit(ctx)
	}
}

func release(waiting []chan struct{}) {
	for _, c := range waiting {
		close(c)
	}
}

// sleep waits for d and tells whether it passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
