package recorder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/internal/record/takeover"
)

// Where several replicas journal the same streams, one of them writes: the leader. The others, the standbys, run the
// same streams, and hold their batches until the leader publishes how far it has come:
//
//	streams --Submit--> queue --writer--> held --(published)--> pending --committer--> checkpoint
//
// A batch up to whose end the leader has published is committed without its lines. So the checkpoint of a standby is
// always one that the leader has had, and the events after it are at hand. When the standby becomes the leader, it
// drops the lines of events that the leader before has written, and writes the others. Only events of a watch are held:
// a position and what follows it. A list is for the leader to write, as one block with its GAP and SYNCED. It continues
// in a later term of the same replica only if no other one has led between.
//
// A replica writes only while its lease is certainly its own (Term.May), which is asked before each write. A write that
// was begun continues to the end of a line. One that was suspended between the question and the write is not stopped:
// what it then writes has the ids that the lines of the other replica have.

// standby is what the writer needs where there are several replicas.
type standby struct {
	term  *takeover.Term // that the writer has taken; nil where there is one replica
	held  *takeover.Held[*Batch]
	ready []*Batch         // to be taken before what is in the queue
	since map[string]int64 // by stream, when its coverage begins at the earliest, in Unix nanoseconds
	// unsettled says that changes are pending whose lines are in another replica's journal alone.
	unsettled bool
}

// cutGroup leaves in the group what its first lines belong to, which were written. The rest waits for another term.
func (w *writer) cutGroup(written int) (seq uint64) {
	seq, left := uint64(written), written
	for n, b := range w.group {
		if left >= len(b.ends) {
			left -= len(b.ends)
			continue
		}
		w.ready = slices.Concat(w.group[n:], w.ready)
		w.group = w.group[:n]
		switch {
		case left == 0:
		case b.OfWatch() && b.ends[left-1].version == 0: // what it makes known can wait for the rest
			b.keep(func(lineEnd) bool { left--; return left < 0 })
		default:
			w.group = append(w.group, b.split(left))
		}
		break
	}
	return seq
}

// errTermOver ends a write between two lines: another replica may write now.
var errTermOver = errors.New("another replica's term")

// errNotRenewed keeps a leader from writing, until ctx ends.
var errNotRenewed = errors.New("write journal: the lease is not renewed")

// mayWrite waits until this replica may write. It returns errTermOver once another one may.
func (w *writer) mayWrite(ctx context.Context) error {
	for w.term != nil {
		now := w.cfg.Replica.Term()
		switch {
		case !now.Leads() || now.Number != w.term.Number:
			return errTermOver
		case now.May():
			return nil
		}
		select {
		case <-now.Over():
		case <-time.After(retryFirst):
		case <-ctx.Done():
			return errNotRenewed
		}
	}
	return nil
}

// takeTerm does what the latest term asks for.
func (w *writer) takeTerm(ctx context.Context) error {
	next, before := w.cfg.Replica.Term(), w.term
	if next == before {
		return nil
	}
	w.term = next
	led, leads := before.Leads(), next.Leads()
	if led && leads && next.Number == before.Number {
		return nil
	}
	if led != leads || led || before == nil {
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	if led {
		w.stepBack()
	}
	if leads {
		return w.lead(ctx)
	}
	_, written := w.held.Take(next)
	for _, b := range written {
		w.drop(b)
	}
	return nil
}

// settle commits everything that is pending.
func (w *writer) settle(ctx context.Context) error {
	for w.startCommit(ctx); w.committed != nil; w.startCommit(ctx) {
		if err := w.endCommit(ctx, <-w.committed); err != nil {
			return err
		}
	}
	return nil
}

// stepBack ends a leader's term; everything that it has written is committed.
func (w *writer) stepBack() {
	w.outputFault.set(nil) // whether it can be written now shows when it is tried
	if w.cfg.Coverage != nil {
		for stream := range w.running() {
			w.cfg.Coverage.End(stream, coverage.HandedOver)
		}
	}
	w.cfg.Log.Info("stopped writing", zap.Uint64("seq", w.seq))
}

// lead begins a leader's term: what is held is written, after what others have published.
func (w *writer) lead(ctx context.Context) error {
	var states map[string]checkpoint.Stream
	err := w.retry(ctx, func() (_ *fault, err error) {
		states, err = w.store.Streams()
		return &w.commitFault, err
	})
	if err != nil {
		return err
	}
	w.commitFault.set(nil)
	for stream, s := range states {
		w.begins(stream, s.Confirmed)
	}
	w.cfg.Replica.Resume(w.term, states)
	if w.cfg.Coverage != nil {
		for stream, keys := range w.running() {
			w.cfg.Coverage.Begin(stream, append(slices.Clone(keys), coverage.LeaderElection))
		}
	}
	bytes := w.cfg.Replica.Held()
	held, _ := w.held.Take(w.term)
	w.cfg.Log.Info("writing as the leader", zap.Uint64("term", w.term.Number), zap.Uint64("seq", w.seq),
		zap.Int("heldBatches", len(held)), zap.Int("heldBytes", bytes))
	w.ready = append(held, w.ready...)
	return nil
}

// admit reports whether a batch is to be written; another one is taken care of.
func (w *writer) admit(b *Batch) bool {
	p := b.producer
	switch {
	case b.restart != nil:
		w.forget(b.restart.stream)
		b.restart.refused.Store(false)
		return true
	case p == nil:
		return len(b.ends) == 0 || !w.term.Follows()
	case p.refused.Load():
		w.discard(b)
		return false
	}
	if b.Adopts && w.term.Follows() {
		w.forget(p.stream)
		if w.cfg.Coverage != nil { // nobody reads what was between
			lost := coverage.Progress{Lost: string(line.CheckpointLost)}
			w.cfg.Coverage.Followed(maps.All(map[string]coverage.Progress{p.stream: lost}))
		}
	}
	switch verdict, lines := w.held.Judge(b); verdict {
	case takeover.Write:
		return true
	case takeover.Trim:
		w.trim(b, lines)
		return true
	case takeover.Settle:
		w.unsettled = w.unsettled || w.term.Leads()
		w.drop(b)
	case takeover.Hold:
		w.release(b)
		b.hold()
		w.limitHeld()
	case takeover.Refuse:
		w.refuse(p)
		w.discard(b)
	}
	return false
}

// trim drops the first lines of a batch, which others have written. What these make known is committed before a line is
// written: after a crash, it is not in this replica's journal.
func (w *writer) trim(b *Batch, lines int) {
	w.unsettled = true
	w.begins(b.producer.stream, b.last.UnixNano())
	others := b.split(lines)
	others.ends = others.ends[:0] // they are not in this journal
	w.written(others, time.Time{})
}

// begins notes that the coverage of a stream begins at this time at the earliest, since what was before is another
// replica's.
func (w *writer) begins(stream string, at int64) { w.since[stream] = max(w.since[stream], at) }

// drop commits a batch without its lines.
func (w *writer) drop(b *Batch) {
	if len(b.ends) > 0 {
		w.begins(b.producer.stream, b.last.UnixNano())
	}
	b.keep(func(lineEnd) bool { return false })
	c := &b.Changes.State.Coverage
	c.Since = max(c.Confirmed, w.since[b.producer.stream]) // also after a crash, which loses w.since
	w.written(b, time.Time{})
}

// limitHeld drops what is held of the stream with the most, if all of it is too much.
func (w *writer) limitHeld() {
	if b, bytes, tooMuch := w.held.Largest(); tooMuch {
		w.cfg.Log.Warn("too many lines are held, restarting the stream from its checkpoint",
			zap.String("stream", b.producer.stream), zap.Int("heldBytes", bytes))
		w.refuse(b.producer)
	}
}

// refuse drops what is held of a producer, and what it submits until it begins again.
func (w *writer) refuse(p *Producer) {
	p.refuse()
	w.forget(p.stream)
}

// forget drops what is held of a stream.
func (w *writer) forget(stream string) {
	for _, b := range w.held.Forget(stream) {
		b.Release()
	}
}

// discard drops a batch.
func (w *writer) discard(b *Batch) {
	w.release(b)
	b.Release()
}

// running returns the streams that run, with the keys that hold changes back.
func (r *Recorder) running() map[string][]string {
	r.begunMu.Lock()
	defer r.begunMu.Unlock()
	return maps.Clone(r.begun)
}
