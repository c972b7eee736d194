// Package recorder is the one writer behind all streams: it numbers lines, appends them
// to the journal, and then commits what they made known to the checkpoint.
//
//	streams --Submit--> queue --writer--> journal
//	                                 \--> pending --committer--> checkpoint
//
// The order is what the guarantees rest on:
//
//  1. A batch's lines are written, completely, before its changes count as pending. A
//     failed write is retried from the byte where it stopped.
//  2. Pending changes are frozen between two writes, together with the journal's mark.
//     The journal is synced and searched for lines of another process; then the changes
//     are committed in one transaction, and the journal may remove the lines. Meanwhile
//     the writer fills a new pending batch. Coverage hears of a commit last.
//  3. A commit that fails is retried with the same batch, since it may have been
//     persisted. Meanwhile pending grows up to a bound; then the writer waits, and with
//     it the streams: nothing is dropped.
//
// Of several replicas one writes; see standby.go.
//
// A crash leaves lines in the journal that no commit covers. In a file they are
// read back at the next start (see Recover); on stdout they are written again.
package recorder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/takeover"
)

const (
	queueLength = 64       // batches between the streams and the writer
	budgetBytes = 16 << 20 // bytes of lines and changes that wait to be written
	// bytes per write when batches queue up (one batch may be more); more would leave the CPU's cache
	maxWrite   = 256 << 10
	maxPending = 8 << 20 // bytes of changes that wait for a commit
	maxReused  = 4 << 20 // bytes of a write buffer that is used again
	maxPooled  = 1 << 20 // the same of a batch

	retryFirst   = 100 * time.Millisecond
	retryMax     = 5 * time.Second
	blockedAfter = 5 * time.Second // how long one write may take before readiness reports it
)

// Output is where lines go.
type Output interface {
	Write(p []byte) (int, error)  // may write a part; the caller continues with the rest
	Sync() error                  // may run beside Write
	Verify() error                // that what was written is there; may run beside Write
	Mark() journal.Mark           // after all that was written
	Committed(seq uint64)         // no line up to seq will be read back any more
	Extent() journal.Extent       // how far back lines can be read; zero where they cannot
	Seal(after uint64) *line.Seal // of the oldest rotated file that begins after a line, see journal.File
}

// Checkpoint is where changes go.
type Checkpoint interface {
	Commit(*checkpoint.Batch) error // after an error, may be called with the same batch again
	Size() (int64, error)
	InPlace() error // that the next start will find what was committed
	Streams() (map[string]checkpoint.Stream, error)
}

// Coverage notes from when to when streams were watched. It waits for nothing.
type Coverage interface {
	// Committed follows each commit: of all lines up to seq, the last one in the segment that begins with firstSeq.
	Committed(seq, firstSeq uint64, moved iter.Seq2[string, coverage.Progress])
	// Followed follows each commit of a standby.
	Followed(moved iter.Seq2[string, coverage.Progress])
	Begin(stream string, heldBackBy []string)
	End(stream, reason string)
}

// Config is the configuration of a Recorder.
type Config struct {
	Interval time.Duration      // between commits; default 1s. SetCommits changes it
	NoSync   bool               // leave syncing the journal to the kernel. SetCommits changes it
	Seq      uint64             // of the last line in the journal
	Rotated  checkpoint.Rotated // as in checkpoint.Mark
	Cluster  string             // name, for lines that are of no stream
	// is committed with every mark where the output is not a file (see checkpoint.Mark); else nil
	File     *checkpoint.FileMark
	Coverage Coverage          // nil where the output is not a file
	Replica  *takeover.Replica // this one of several; nil where there is one
	Metrics  *metrics.Metrics
	Log      *zap.Logger
}

// Recorder writes the lines of all streams. Its methods are safe for concurrent use.
type Recorder struct {
	out    Output
	store  Checkpoint
	cfg    Config
	queue  chan *Batch
	budget *semaphore.Weighted

	// How commits are made from now on.
	tick     *time.Ticker
	interval atomic.Int64 // nanoseconds
	noSync   atomic.Bool

	lastSeq    atomic.Uint64            // of what is written
	lastCommit atomic.Pointer[Progress] // its field Written is not set
	writing    atomic.Int64             // since when a write is under way, in Unix nanoseconds; 0 when none is

	outputFault, syncFault, commitFault fault

	begunMu sync.Mutex
	begun   map[string][]string // the streams that run, with the keys that hold changes back; guarded by begunMu
}

// New returns a recorder; nothing is written before Run.
func New(out Output, store Checkpoint, cfg Config) *Recorder {
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	r := &Recorder{
		out: out, store: store, cfg: cfg,
		queue:  make(chan *Batch, queueLength),
		budget: semaphore.NewWeighted(budgetBytes),
		tick:   time.NewTicker(cfg.Interval),
		begun:  make(map[string][]string),

		outputFault: fault{what: "output cannot be written"},
		syncFault:   fault{what: "output cannot be synced"},
		commitFault: fault{what: "checkpoint cannot be committed"},
	}
	r.interval.Store(int64(cfg.Interval))
	r.noSync.Store(cfg.NoSync)
	r.lastSeq.Store(cfg.Seq)
	r.lastCommit.Store(&Progress{Committed: cfg.Seq})
	return r
}

// Replica is this one of several; nil where there is one.
func (r *Recorder) Replica() *takeover.Replica { return r.cfg.Replica }

// Progress is how far a recorder has come.
type Progress struct {
	Written, Committed uint64    // seq of the last line
	CommittedAt        time.Time // zero before the first commit
}

// Progress returns how far the recorder has come.
func (r *Recorder) Progress() Progress {
	p := *r.lastCommit.Load() // first: nothing is committed that is not written
	p.Written = r.lastSeq.Load()
	return p
}

// SetCommits changes how commits are made, from the next one on.
func (r *Recorder) SetCommits(interval time.Duration, noSync bool) {
	r.noSync.Store(noSync)
	if r.interval.Swap(int64(interval)) != int64(interval) {
		r.tick.Reset(interval)
	}
}

// Submit hands a batch over, and waits while too many bytes wait to be written. If ctx
// ends first, it returns ctx's error, and the batch is still the caller's; so with takeover.ErrStandby.
func (r *Recorder) Submit(ctx context.Context, b *Batch) error {
	if b.producer != nil && b.producer.refused.Load() {
		return takeover.ErrStandby
	}
	weight := min(int64(b.Bytes()), budgetBytes)
	if err := r.budget.Acquire(ctx, weight); err != nil {
		return err
	}
	b.weight = weight
	select {
	case r.queue <- b:
		return nil
	case <-ctx.Done():
		r.release(b)
		return ctx.Err()
	}
}

// release gives back what a batch holds of the budget.
func (r *Recorder) release(b *Batch) {
	r.budget.Release(b.weight)
	b.weight = 0
}

// Pulse records in the coverage what a stream has confirmed, after everything that was submitted before. The checkpoint
// does not need it, since a restart reads again from the position. It never blocks: if others are waiting to submit, it
// does nothing.
func (r *Recorder) Pulse(p *Producer, c checkpoint.Coverage) {
	if r.cfg.Coverage == nil || p.refused.Load() {
		return
	}
	b := p.Batch()
	b.pulse = &c
	select {
	case r.queue <- b:
	default:
		b.Release()
	}
}

// Flush waits until everything submitted before is written and committed, but for what a standby holds.
func (r *Recorder) Flush(ctx context.Context) error { return r.flush(ctx, new(Batch)) }

func (r *Recorder) flush(ctx context.Context, b *Batch) error {
	b.flushed = make(chan struct{})
	if err := r.Submit(ctx, b); err != nil {
		return err
	}
	select {
	case <-b.flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Begin notes in the coverage by which keys of its entry a stream, which is about to be watched, holds changes back.
func (r *Recorder) Begin(stream string, heldBackBy []string) {
	r.begunMu.Lock()
	r.begun[stream] = heldBackBy
	r.cfg.Replica.Runs(stream, true)
	r.begunMu.Unlock()
	if r.cfg.Coverage != nil {
		if r.cfg.Replica != nil {
			heldBackBy = append(slices.Clone(heldBackBy), coverage.LeaderElection)
		}
		r.cfg.Coverage.Begin(stream, heldBackBy)
	}
}

// End ends the coverage of a stream that is not watched any more, after everything that was submitted before.
func (r *Recorder) End(ctx context.Context, stream, reason string) error {
	r.begunMu.Lock()
	delete(r.begun, stream)
	r.cfg.Replica.Runs(stream, false)
	r.begunMu.Unlock()
	if r.cfg.Coverage == nil {
		return nil
	}
	return r.Submit(ctx, &Batch{end: func() { r.cfg.Coverage.End(stream, reason) }})
}

// Close ends Run once all is committed. Nothing may be submitted any more.
func (r *Recorder) Close() { close(r.queue) }

// Run writes until Close, and returns nil once everything is committed. If ctx ends first,
// or the output is closed, it returns that error; a write that blocks is left behind.
func (r *Recorder) Run(ctx context.Context) error {
	defer r.tick.Stop()
	done := make(chan error, 1)
	w := r.newWriter()
	go func() { done <- w.run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // the writer's own error, if there is one
	case err := <-done:
		return err
	case <-time.After(retryFirst):
		return stopped(ctx, errors.New("write journal: output is blocked"))
	}
}

func (r *Recorder) newWriter() *writer {
	return &writer{
		Recorder: r, seq: r.cfg.Seq, rotated: r.cfg.Rotated, pending: newPending(),
		standby: standby{since: make(map[string]int64), held: takeover.NewHeld[*Batch](r.cfg.Replica)},
	}
}

// stopped is the error of a recorder that leaves something undone because of err.
func stopped(ctx context.Context, err error) error {
	return fmt.Errorf("%w; stopped (%w) before everything was written and committed, the position stays before it",
		err, ctx.Err())
}

// retry calls step until it succeeds, cannot succeed any more, or ctx ends. step
// returns its error and the fault that the error belongs to.
func (r *Recorder) retry(ctx context.Context, step func() (*fault, error)) error {
	for pause := retryFirst; ; pause = min(2*pause, retryMax) {
		failed, err := step()
		if err == nil || isFinal(err) {
			return err
		}
		if failed.set(&err) {
			r.cfg.Log.Error(failed.what+", trying again", zap.Error(err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return stopped(ctx, err)
		}
	}
}

// OutputError is why the output cannot be written now, nil when it can.
func (r *Recorder) OutputError() error {
	since := r.writing.Load()
	if blocked := time.Since(time.Unix(0, since)); since != 0 && blocked > blockedAfter {
		return fmt.Errorf("output is blocked: its reader has taken nothing for %s", blocked.Round(time.Second))
	}
	return errors.Join(r.outputFault.err(), r.syncFault.err())
}

// CheckpointError is why the checkpoint cannot be committed now, nil when it can.
func (r *Recorder) CheckpointError() error { return r.commitFault.err() }

// fault is a failure that lasts.
type fault struct {
	what string
	now  atomic.Pointer[error] // nil when there is none
}

// set notes an error, or nil, and reports whether there was none before.
func (f *fault) set(err *error) (first bool) { return f.now.Swap(err) == nil }

func (f *fault) err() error {
	if err := f.now.Load(); err != nil {
		return *err
	}
	return nil
}

// writer is the goroutine that numbers and writes lines.
type writer struct {
	*Recorder
	seq       uint64
	rotated   checkpoint.Rotated // as lines have said, committed or not
	buf       []byte
	group     []*Batch // whose lines are in buf
	pending   pending
	committed chan error // the result of the commit under way; nil when there is none
	standby
}

// pending is what the next commit makes durable.
type pending struct {
	*checkpoint.Batch
	numbers map[*Producer]uint64            // of the last numbered batches
	pulses  map[string]*checkpoint.Coverage // of quiet streams, after their changes
	waiting []chan struct{}                 // flushes, closed after the commit
	ends    []func()                        // called after it
	term    *takeover.Term                  // in which these changes were taken
}

func newPending() pending {
	return pending{Batch: checkpoint.NewBatch(), numbers: make(map[*Producer]uint64),
		pulses: make(map[string]*checkpoint.Coverage)}
}

func (w *writer) run(ctx context.Context) error {
	for {
		err := w.takeTerm(ctx)
		if err != nil {
			return err
		}
		if len(w.ready) > 0 {
			b, _ := w.next()
			if err := w.take(ctx, b); err != nil {
				return err
			}
			continue
		}
		select {
		case <-w.cfg.Replica.Changed():
		case <-ctx.Done():
			return ctx.Err()
		case b, ok := <-w.queue:
			if !ok {
				return w.settle(ctx) // what is left after the last batch
			}
			err = w.take(ctx, b)
		case <-w.tick.C:
			if err = w.noteRemoved(ctx); err == nil {
				err = w.noteSealed(ctx)
			}
			w.startCommit(ctx)
		case err = <-w.committed:
			err = w.endCommit(ctx, err)
		}
		if err != nil {
			return err
		}
	}
}

// next returns what is to be taken now, if there is anything.
func (w *writer) next() (b *Batch, ok bool) {
	if len(w.ready) > 0 {
		b, w.ready = w.ready[0], w.ready[1:]
		return b, true
	}
	select {
	case b, ok = <-w.queue:
	default:
	}
	return b, ok
}

// take numbers the lines of b and of what else is queued, and writes them with one write.
func (w *writer) take(ctx context.Context, b *Batch) error {
	w.buf, w.group = w.buf[:0], w.group[:0]
	before := w.seq
	for ok := true; ok; {
		if w.cfg.Replica.Term() != w.term { // its stream may know of the next one, in which what is held comes first
			w.ready = slices.Insert(w.ready, 0, b)
			break
		}
		if w.admit(b) {
			w.group = append(w.group, b)
			w.number(b)
		}
		if len(w.buf) >= maxWrite || w.term.Follows() {
			break
		}
		b, ok = w.next()
	}
	w.cfg.Metrics.QueueLength.Set(float64(len(w.queue)))
	if w.unsettled && len(w.buf) > 0 {
		after := w.seq
		w.seq = before
		if err := w.settle(ctx); err != nil {
			return err
		}
		w.seq, w.unsettled = after, false
	}
	switch n, err := w.writeAll(ctx, w.buf); {
	case errors.Is(err, errTermOver):
		w.seq = before + w.cutGroup(bytes.Count(w.buf[:n], []byte("\n")))
	case err != nil:
		return err
	}
	w.lastSeq.Store(w.seq)
	if cap(w.buf) > maxReused {
		w.buf = nil
	}
	now := time.Now()
	for _, b := range w.group {
		w.written(b, now)
	}
	clear(w.group)
	return w.limitPending(ctx)
}

// number appends the lines of a batch to the write.
func (w *writer) number(b *Batch) {
	start := 0
	for _, end := range b.ends {
		w.seq++
		w.buf = line.AppendSeq(w.buf, w.seq)
		if w.term != nil {
			w.buf = line.AppendTerm(w.buf, w.term.Number)
		}
		w.buf = append(w.buf, b.lines[start:end.at]...)
		start = end.at
	}
}

// writeAll writes all of p, so that no line begins in the middle of another. A crash leaves a torn line at the end.
// With errTermOver, n bytes were written, which are whole lines.
func (w *writer) writeAll(ctx context.Context, p []byte) (n int, err error) {
	err = w.retry(ctx, func() (*fault, error) {
		for n < len(p) {
			end := len(p)
			if n > 0 && p[n-1] != '\n' {
				end = n + bytes.IndexByte(p[n:], '\n') + 1 // a line that is torn
			} else if err := w.mayWrite(ctx); err != nil {
				return &w.outputFault, err
			}
			w.writing.Store(time.Now().UnixNano())
			taken, err := w.out.Write(p[n:end])
			w.writing.Store(0)
			n += taken
			w.cfg.Metrics.OutputBytes.Add(float64(taken))
			if err != nil {
				operation := metrics.Write
				if errors.As(err, new(*journal.RotationError)) {
					operation = metrics.Rotate
				}
				w.cfg.Metrics.OutputErrors.WithLabelValues(operation).Inc()
				return &w.outputFault, err
			}
		}
		return nil, nil
	})
	if err == nil && !w.outputFault.set(nil) {
		w.cfg.Log.Info("output can be written again")
	}
	return n, err
}

// written adds a batch whose lines are in the journal to what is pending.
func (w *writer) written(b *Batch, now time.Time) {
	if p := b.producer; p != nil {
		if s := b.Changes.State; s != nil && s.Since > 0 && w.term.Leads() {
			s.Since = max(s.Since, w.since[p.stream])
		}
		if b.Changes.State != nil {
			delete(w.pending.pulses, p.stream)
		}
		w.pending.Add(p.stream, &b.Changes)
		if c := b.pulse; c != nil {
			if w.term.Leads() {
				c.Since = max(c.Since, w.since[p.stream])
			}
			w.pending.pulses[p.stream] = c
		}
		if b.number > 0 {
			w.pending.numbers[p] = b.number
		}
		p.lines.Add(uint64(len(b.ends)))
		late := now.Sub(b.received).Seconds()
		for _, end := range b.ends {
			p.counter(end.kind).Inc()
			w.cfg.Metrics.WriteSeconds.Observe(late)
		}
	}
	if b.end != nil {
		w.pending.ends = append(w.pending.ends, b.end)
	}
	if b.flushed != nil {
		w.pending.waiting = append(w.pending.waiting, b.flushed)
	}
	w.release(b)
	b.Release()
}

// limitPending begins a commit where somebody waits for it or much is pending, and waits for it where that is too much.
func (w *writer) limitPending(ctx context.Context) error {
	if len(w.pending.waiting) > 0 || w.pending.Bytes() > maxPending/2 ||
		len(w.pending.pulses) > 0 && w.pending.Empty() {
		w.startCommit(ctx)
	}
	for w.committed != nil && w.pending.Bytes() > maxPending {
		if err := w.endCommit(ctx, <-w.committed); err != nil {
			return err
		}
		w.startCommit(ctx)
	}
	return nil
}

// noteRemoved writes a line where files with the journal's first lines are gone: by a limit or, if that is not known,
// by others or just before the daemon was killed.
func (w *writer) noteRemoved(ctx context.Context) error {
	e := w.out.Extent()
	switch {
	case e.FirstSeq == 0 || w.term.Follows():
		return nil
	case e.FirstSeq <= w.rotated.Begins || w.rotated.Begins == 0:
		// Others have put files back, or what came before it may have gone to stdout.
		w.rotated.Begins = e.FirstSeq
		return nil
	}
	gone := line.Span{From: w.rotated.Begins, To: e.FirstSeq - 1, ToTime: e.Oldest}
	now, b := time.Now(), new(Batch)
	b.AddLine(gone.AppendFiles(nil, now, w.cfg.Cluster, cmp.Or(e.Limit, "unknown")), line.Removed, "", now, nil)
	before := w.seq
	if err := w.take(ctx, b); err != nil {
		return err
	}
	if w.seq > before {
		w.rotated.Begins = e.FirstSeq
	}
	return nil
}

// noteSealed writes a line that says what the next rotated file has, where that is asked for.
func (w *writer) noteSealed(ctx context.Context) error {
	if w.term.Follows() {
		return nil
	}
	next := w.out.Seal(w.rotated.Sealed)
	if next == nil {
		return nil
	}
	is := next.After(w.rotated.Chain)
	now, b := time.Now(), new(Batch)
	b.AddLine(is.Append(nil, now, w.cfg.Cluster), line.Sealed, "", now, nil)
	before := w.seq
	if err := w.take(ctx, b); err != nil {
		return err
	}
	if w.seq > before {
		w.rotated.Sealed, w.rotated.Chain = is.To, is.Chain
	}
	return nil
}
