package recorder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
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
// in a later turn of the same replica only if no other one has had a turn between.
//
// A replica writes only while its lease is certainly its own (Turn.May), which is asked before each write. A write that
// was begun continues to the end of a line. One that was suspended between the question and the write is not stopped:
// what it then writes has the ids that the lines of the other replica have.

// maxHeld is how many bytes of lines and changes a standby holds. Then it drops those of the stream with the most,
// which begins again where its checkpoint is.
const maxHeld = 32 << 20

// heldOverhead is what a batch takes besides, in bytes. One that only moves a position has nothing else.
const heldOverhead = 512

// standby is what the writer needs where there are several replicas.
type standby struct {
	turn  *Turn          // that the writer has taken; nil where there is one replica
	held  []*Batch       // in the order in which they came
	ahead map[string]int // how many of them are of a stream
	bytes int            // of held
	ready []*Batch       // to be taken before what is in the queue
	// published has, of a leader and by stream, up to which version of a watch others have written.
	published map[string]uint64
	since     map[string]int64 // by stream, when its coverage begins at the earliest, in Unix nanoseconds
	// unsettled says that changes are pending whose lines are in another replica's journal alone.
	unsettled bool
}

// leads reports whether it is the turn of this one of several replicas; follows, of another one.
func (t *Turn) leads() bool   { return t != nil && t.May != nil }
func (t *Turn) follows() bool { return t != nil && t.May == nil }

// cutGroup leaves in the group what its first lines belong to, which were written. The rest waits for another turn.
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
		case b.isOfWatch() && b.ends[left-1].version == 0: // what it makes known can wait for the rest
			b.keep(func(lineEnd) bool { left--; return left < 0 })
		default:
			w.group = append(w.group, b.split(left))
		}
		break
	}
	return seq
}

// errTurnOver ends a write between two lines: it is another replica's turn.
var errTurnOver = errors.New("another replica's turn")

// errNotRenewed keeps a leader from writing, until ctx ends.
var errNotRenewed = errors.New("write journal: the lease is not renewed")

// mayWrite waits until this replica may write. It returns errTurnOver once another one may.
func (w *writer) mayWrite(ctx context.Context) error {
	for w.turn != nil {
		now := w.latest.Load()
		switch {
		case now.May == nil || now.Term != w.turn.Term:
			return errTurnOver
		case now.May():
			return nil
		}
		select {
		case <-now.over:
		case <-time.After(retryFirst):
		case <-ctx.Done():
			return errNotRenewed
		}
	}
	return nil
}

// takeTurn does what SetTurn has said last.
func (w *writer) takeTurn(ctx context.Context) error {
	next, before := w.latest.Load(), w.turn
	if next == before {
		return nil
	}
	w.turn = next
	led, leads := before.leads(), next.leads()
	if led && leads && next.Term == before.Term {
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
	w.followOn()
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

// stepBack ends a leader's turn; everything that it has written is committed.
func (w *writer) stepBack() {
	w.published = nil
	w.outputFault.set(nil) // whether it can be written now shows when it is tried
	if w.cfg.Coverage != nil {
		for stream := range w.running() {
			w.cfg.Coverage.End(stream, coverage.HandedOver)
		}
	}
	w.cfg.Log.Info("stopped writing", zap.Uint64("seq", w.seq))
}

// lead begins a leader's turn: what is held is written, after what others have published.
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
	w.published = make(map[string]uint64)
	own := make(map[string]string)
	for stream, position := range w.turn.Published {
		if n, ok := line.VersionNumber([]byte(position)); ok {
			w.published[stream] = n
		}
	}
	for stream, s := range states {
		w.begins(stream, s.Confirmed)
		if position, ok := publishable(&s); ok && !line.Later(w.turn.Published[stream], position) {
			publishTo(own, stream, position, s.Restored)
		}
	}
	w.positions.set(w.turn.Term, own)
	if w.cfg.Coverage != nil {
		for stream, keys := range w.running() {
			w.cfg.Coverage.Begin(stream, append(slices.Clone(keys), coverage.LeaderElection))
		}
	}
	w.cfg.Log.Info("writing as the leader", zap.Uint64("term", w.turn.Term), zap.Uint64("seq", w.seq),
		zap.Int("heldBatches", len(w.held)), zap.Int("heldBytes", w.bytes))
	for _, b := range w.held {
		w.count(b, -1)
	}
	w.ready, w.held = append(w.held, w.ready...), nil
	return nil
}

// publishable returns the position of a stream up to which everything is written, also where the server has dropped the
// history behind it; ok is false in the middle of a list.
func publishable(s *checkpoint.Stream) (position string, ok bool) {
	whole := s.PendingGap == "" || s.PendingGap == line.Expired
	return s.ResourceVersion, s.ResourceVersion != "" && whole && s.Open == nil && s.Closing == nil
}

// publish notes the positions of a commit for the other replicas.
func (p *pending) publish(to *positions) {
	committed := make(map[string]string)
	for stream, s := range p.States() {
		if position, ok := publishable(s); ok {
			publishTo(committed, stream, position, s.Restored)
		}
	}
	to.set(p.turn.Term, committed)
}

// publishTo adds a position of a stream to published ones.
func publishTo(all map[string]string, stream, position string, restored uint64) {
	if all[stream] = position; restored > 0 {
		all[restoredOf+stream] = strconv.FormatUint(restored, 10)
	}
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
		return len(b.ends) == 0 || !w.turn.follows()
	case p.refused.Load():
		w.discard(b)
	case w.turn.follows():
		w.follow(b)
	case b.Turn > 0 && !b.isOfWatch() && w.turn.othersSince(b.Turn):
		w.refuse(p)
		w.discard(b)
	default:
		return w.trim(b)
	}
	return false
}

// trim drops the lines of a watch that others have written, and reports whether there is something left to write. What
// these lines make known is committed before a line is written: after a crash, it is not in this replica's journal.
func (w *writer) trim(b *Batch) bool {
	stream := b.producer.stream
	published, ok := w.published[stream]
	if !ok || len(b.ends) == 0 && b.Changes.State == nil {
		return true
	}
	if !b.isOfWatch() {
		delete(w.published, stream) // it has started over
		return true
	}
	if n, ok := line.VersionNumber([]byte(b.Changes.State.ResourceVersion)); !ok || n >= published {
		delete(w.published, stream)
	}
	n := slices.IndexFunc(b.ends, func(l lineEnd) bool { return l.version == 0 || l.version > published })
	if n == 0 || len(b.ends) == 0 {
		return true
	}
	w.unsettled = true
	if n < 0 {
		w.drop(b)
		return false
	}
	w.begins(stream, b.last.UnixNano())
	others := b.split(n)
	others.ends = others.ends[:0] // they are not in this journal
	w.written(others, time.Time{})
	return true
}

// begins notes that the coverage of a stream begins at this time at the earliest, since what was before is another
// replica's.
func (w *writer) begins(stream string, at int64) { w.since[stream] = max(w.since[stream], at) }

// follow takes a batch of a standby.
func (w *writer) follow(b *Batch) {
	if b.Anew {
		w.forget(b.producer.stream)
		if w.cfg.Coverage != nil { // nobody reads what was between
			lost := coverage.Progress{Lost: string(line.CheckpointLost)}
			w.cfg.Coverage.Followed(maps.All(map[string]coverage.Progress{b.producer.stream: lost}))
		}
	}
	switch {
	// what is known, and no position
	case len(b.ends) == 0 && (b.Changes.State == nil || b.Changes.State.ResourceVersion == ""):
		w.written(b, time.Now())
	case !b.isOfWatch():
		w.refuse(b.producer)
		w.discard(b)
	case w.ahead[b.producer.stream] == 0 && w.isPublished(b):
		w.drop(b)
	default:
		w.release(b)
		b.hold()
		w.held = append(w.held, b)
		w.count(b, 1)
		w.limitHeld()
	}
}

// followOn commits, without their lines, the batches up to whose end the leader has published.
func (w *writer) followOn() {
	behind := make(map[string]bool) // streams of which one is kept
	w.held = slices.DeleteFunc(w.held, func(b *Batch) bool {
		stream := b.producer.stream
		if behind[stream] = behind[stream] || !w.isPublished(b); behind[stream] {
			return false
		}
		w.count(b, -1)
		w.drop(b)
		return true
	})
}

// isPublished reports whether others have written everything up to a batch's position.
func (w *writer) isPublished(b *Batch) bool {
	published, position := w.turn.Published[b.producer.stream], b.Changes.State.ResourceVersion
	return position == published || line.Later(published, position)
}

// drop commits a batch without its lines.
func (w *writer) drop(b *Batch) {
	if len(b.ends) > 0 {
		w.begins(b.producer.stream, b.last.UnixNano())
	}
	b.keep(func(lineEnd) bool { return false })
	b.Changes.State.Since = b.Changes.State.Confirmed
	w.written(b, time.Time{})
}

// count counts a batch that is held, or is not any more.
func (w *writer) count(b *Batch, by int) {
	w.ahead[b.producer.stream] += by
	w.bytes += by * b.heldBytes()
	w.heldBytes.Store(int64(w.bytes))
}

func (b *Batch) heldBytes() int { return b.Bytes() + heldOverhead }

// limitHeld drops what is held of the stream with the most, if all of it is too much.
func (w *writer) limitHeld() {
	if w.bytes <= maxHeld {
		return
	}
	bytes := make(map[*Producer]int)
	var most *Producer
	for _, b := range w.held {
		if bytes[b.producer] += b.heldBytes(); most == nil || bytes[b.producer] > bytes[most] {
			most = b.producer
		}
	}
	w.cfg.Log.Warn("too many lines are held, restarting the stream from its checkpoint",
		zap.String("stream", most.stream),
		zap.Int("heldBytes", bytes[most]))
	w.refuse(most)
}

// refuse drops what is held of a producer, and what it submits until it begins again.
func (w *writer) refuse(p *Producer) {
	p.refuse()
	w.forget(p.stream)
}

// forget drops what is held of a stream.
func (w *writer) forget(stream string) {
	w.held = slices.DeleteFunc(w.held, func(b *Batch) bool {
		if b.producer.stream != stream {
			return false
		}
		w.count(b, -1)
		b.Release()
		return true
	})
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
