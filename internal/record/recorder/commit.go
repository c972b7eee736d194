package recorder

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/record/metrics"
)

// startCommit freezes what is pending and commits it, unless another commit runs.
func (w *writer) startCommit(ctx context.Context) {
	if w.committed != nil {
		return
	}
	frozen := w.pending
	w.pending = newPending()
	w.pending.term = w.term
	seq, mark := w.seq, w.out.Mark()
	// otherwise REMOVED or SEALED lines are new, which change no stream
	if frozen.Empty() && seq == w.lastCommit.Load().Committed {
		if len(frozen.pulses) > 0 {
			w.confirm(&frozen, seq, mark.FirstSeq)
		}
		frozen.release()
		return
	}
	at := checkpoint.Mark{Seq: seq, FirstSeq: mark.FirstSeq, Offset: mark.Offset, Rotated: w.rotated}
	if w.cfg.File != nil {
		at.Stdout, at.File = true, *w.cfg.File
	}
	frozen.SetMark(at)
	done := make(chan error, 1)
	w.committed = done
	go func() {
		err := w.commit(ctx, frozen.Batch)
		if err == nil {
			w.lastCommit.Store(&Progress{Committed: seq, CommittedAt: time.Now()})
			w.out.Committed(seq)
			if frozen.term.Leads() {
				w.cfg.Replica.Commit(frozen.term, frozen.States())
			}
			w.confirm(&frozen, seq, mark.FirstSeq)
			frozen.release()
		}
		done <- err
	}()
}

// commit syncs the journal and commits a batch, until it succeeds or ctx ends.
// A crash between the two leaves lines that are read back at the next start.
func (r *Recorder) commit(ctx context.Context, batch *checkpoint.Batch) error {
	return r.retry(ctx, func() (*fault, error) {
		start := time.Now()
		failed, err := r.tryCommit(batch)
		if err != nil {
			r.cfg.Metrics.CommitErrors.Inc()
			return failed, err
		}
		r.cfg.Metrics.Commits.Inc()
		r.cfg.Metrics.CommitSeconds.Observe(time.Since(start).Seconds())
		r.cfg.Metrics.LastCommit.SetToCurrentTime()
		if n, err := r.store.Size(); err == nil {
			r.cfg.Metrics.CheckpointBytes.Set(float64(n))
		}
		r.syncFault.set(nil)
		switch err := r.store.InPlace(); {
		case err != nil && r.commitFault.set(&err):
			r.cfg.Log.Error("checkpoint has lost its place", zap.Error(err))
		case err == nil && !r.commitFault.set(nil):
			r.cfg.Log.Info("checkpoint can be committed again")
		}
		return nil, nil
	})
}

func (r *Recorder) tryCommit(batch *checkpoint.Batch) (failed *fault, err error) {
	if !r.noSync.Load() {
		err = r.out.Sync()
	}
	if err == nil { // last, so that as little as possible comes between this and the commit
		err = r.out.Verify()
	}
	if err != nil {
		r.cfg.Metrics.OutputErrors.WithLabelValues(metrics.Sync).Inc()
		return &r.syncFault, err
	}
	return &r.commitFault, r.store.Commit(batch)
}

// isFinal reports whether retrying after an error is of no use.
func isFinal(err error) bool {
	return errors.Is(err, journal.ErrClosed) || errors.Is(err, journal.ErrUnsynced) ||
		errors.Is(err, disk.ErrTakenOver) || errors.Is(err, errTermOver)
}

// confirm notes in the coverage what a commit says.
func (w *writer) confirm(p *pending, seq, firstSeq uint64) {
	switch {
	case w.cfg.Coverage == nil:
	case p.term.Follows():
		w.cfg.Coverage.Followed(p.progress)
	default:
		w.cfg.Coverage.Committed(seq, firstSeq, p.progress)
	}
}

// progress yields how far the commit confirms each stream that it moves.
func (p *pending) progress(yield func(string, coverage.Progress) bool) {
	for stream, s := range p.States() {
		c := progressOf(&s.Coverage)
		c.Lost = string(cmp.Or(s.PendingGap, s.Coverage.Lost))
		if s.Open != nil && c.Lost == "" {
			c.Lost = cmp.Or(string(s.Open.Reason), coverage.Unknown)
		}
		if !yield(stream, c) {
			return
		}
	}
	for stream, c := range p.pulses {
		if !yield(stream, progressOf(c)) {
			return
		}
	}
}

func progressOf(c *checkpoint.Coverage) coverage.Progress {
	return coverage.Progress{
		Since: c.Since, Confirmed: c.Confirmed, Pulse: c.Pulse, Late: c.Late,
		Read: c.Read, Missed: c.Missed, MissedFrom: c.MissedFrom, Differences: c.Differences,
	}
}

// release publishes a commit to the producers and to those who wait for it.
func (p *pending) release() {
	for _, end := range p.ends {
		end()
	}
	for producer, number := range p.numbers {
		producer.committed.Store(number)
	}
	for _, c := range p.waiting {
		close(c)
	}
}

// endCommit ends a commit with its result, and starts the next if somebody waits for it.
func (w *writer) endCommit(ctx context.Context, err error) error {
	w.committed = nil
	if err == nil && len(w.pending.waiting) > 0 {
		w.startCommit(ctx)
	}
	return err
}
