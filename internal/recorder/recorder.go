package recorder

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/journal"
	"kubejournal/internal/metrics"
)

const (
	queueLength = 64        // batches between the streams and the writer
	budgetBytes = 16 << 20  // bytes of lines and changes that wait to be written
	maxWrite    = 256 << 10 // bytes per write when batches queue up (one batch may be more); more would leave the CPU's cache
	maxPending  = 8 << 20   // bytes of changes that wait for a commit

	maxKept = 4 << 20 // bytes of the write buffer that are kept for the next write

	retryFirst = 100 * time.Millisecond
	retryMax   = 5 * time.Second
)

// Output is where lines go.
type Output interface {
	Write(p []byte) (int, error) // may write a part; the caller goes on with the rest
	Sync() error                 // may run beside Write
	Verify() error               // that what was written stands there; may run beside Write
	Mark() journal.Mark          // after all that was written
	Committed(seq uint64)        // no line up to seq will be read back any more
}

// Checkpoint is where changes go.
type Checkpoint interface {
	Commit(*checkpoint.Batch) error // after an error, may be called with the same batch again
	Size() (int64, error)
	InPlace() error // that the next start will find what was committed
}

// Config is what a Recorder may be told.
type Config struct {
	Interval time.Duration // between commits; default 1s. SetCommits changes it
	NoSync   bool          // leave syncing the journal to the kernel. SetCommits changes it
	Seq      uint64        // of the last line in the journal
	// File is committed with every mark where the output is not a file (see
	// checkpoint.Mark); else nil.
	File    *checkpoint.FileMark
	Metrics *metrics.Metrics
	Log     *zap.Logger
}

// Recorder writes the lines of all streams. Submit and Flush are safe for
// concurrent use.
type Recorder struct {
	out    Output
	store  Checkpoint
	cfg    Config
	queue  chan *Batch
	budget *semaphore.Weighted

	// Owned by the writer goroutine.
	seq       uint64
	buf       []byte
	group     []*Batch
	pending   *checkpoint.Batch
	numbers   map[*Producer]uint64 // of the last numbered batches in pending; nil for none
	waiting   []chan struct{}      // flushes that wait for the commit of pending
	inflight  bool                 // a committer runs
	committed chan error           // its result

	// How commits are made from now on.
	interval atomic.Int64 // nanoseconds
	noSync   atomic.Bool
	retimed  chan struct{} // holds one: interval has changed

	// writing is since when a write is under way, in Unix nanoseconds; 0 when none is.
	writing atomic.Int64

	// How far it has come, for people.
	lastSeq    atomic.Uint64
	lastCommit atomic.Pointer[commitEnd]

	// Why output or checkpoint cannot be written now, for readiness.
	outputErr, syncErr, commitErr atomic.Pointer[error]
}

// New returns a recorder; nothing is written before Run.
func New(out Output, store Checkpoint, cfg Config) *Recorder {
	if cfg.Interval <= 0 {
		cfg.Interval = time.Second
	}
	r := &Recorder{
		out: out, store: store, cfg: cfg, seq: cfg.Seq,
		queue:     make(chan *Batch, queueLength),
		budget:    semaphore.NewWeighted(budgetBytes),
		pending:   checkpoint.NewBatch(),
		committed: make(chan error, 1),
		retimed:   make(chan struct{}, 1),
	}
	r.interval.Store(int64(cfg.Interval))
	r.noSync.Store(cfg.NoSync)
	r.lastSeq.Store(cfg.Seq)
	r.lastCommit.Store(&commitEnd{seq: cfg.Seq})
	return r
}

// Progress is how far a recorder has come.
type Progress struct {
	Written, Committed uint64    // seq of the last line
	CommittedAt        time.Time // zero before the first commit
}

// Progress tells how far the recorder has come. Safe for concurrent use.
func (r *Recorder) Progress() Progress {
	last := r.lastCommit.Load() // first: nothing is committed that is not written
	return Progress{Written: r.lastSeq.Load(), Committed: last.seq, CommittedAt: last.at}
}

// commitEnd is a commit that has succeeded.
type commitEnd struct {
	seq uint64
	at  time.Time
}

// SetCommits changes how commits are made, from the next one on. Safe for
// concurrent use.
func (r *Recorder) SetCommits(interval time.Duration, noSync bool) {
	r.noSync.Store(noSync)
	if r.interval.Swap(int64(interval)) == int64(interval) {
		return
	}
	select {
	case r.retimed <- struct{}{}:
	default: // the writer has yet to look
	}
}

// Submit hands a batch over; it is the recorder's from here. It waits while
// too many bytes wait to be written, and returns ctx's error when ctx ends
// first: the batch was then not taken, and will not be written.
func (r *Recorder) Submit(ctx context.Context, b *Batch) error {
	weight := min(int64(b.Bytes()), budgetBytes)
	if err := r.budget.Acquire(ctx, weight); err != nil {
		return err
	}
	b.weight = weight
	select {
	case r.queue <- b:
		return nil
	case <-ctx.Done():
		r.budget.Release(weight)
		return ctx.Err()
	}
}

// Flush waits until everything submitted before is written and committed.
func (r *Recorder) Flush(ctx context.Context) error {
	b := &Batch{flushed: make(chan struct{})}
	flushed := b.flushed
	if err := r.Submit(ctx, b); err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close says that nothing will be submitted any more: Run then writes and
// commits what is left and returns.
func (r *Recorder) Close() { close(r.queue) }

// Run writes until Close, and returns nil once everything is committed. When
// ctx ends first, or the output is closed for good, it returns that error with
// the position not moved past what was written. A write that blocks is then
// left behind.
func (r *Recorder) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- r.write(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// Prefer the writer's own word when it has one.
	select {
	case err := <-done:
		return err
	case <-time.After(retryFirst):
		return &stoppedError{"write journal: output is blocked", ctx.Err()}
	}
}

// stoppedError is the end of a recorder that had to leave something undone.
type stoppedError struct {
	why string
	err error // with the context's
}

func (e *stoppedError) Error() string {
	return e.why + "; stopped before everything was written and committed, the position stays before it"
}

func (e *stoppedError) Unwrap() error { return e.err }

// OutputError is why the output cannot be written now, nil when it can.
func (r *Recorder) OutputError() error {
	if since := r.writing.Load(); since != 0 {
		if blocked := time.Since(time.Unix(0, since)); blocked > blockedAfter {
			return fmt.Errorf("output is blocked: its reader has taken nothing for %s", blocked.Round(time.Second))
		}
	}
	return errors.Join(load(&r.outputErr), load(&r.syncErr))
}

// blockedAfter is how long one write may take before readiness tells.
const blockedAfter = 5 * time.Second

// CheckpointError is why the checkpoint cannot be committed now, nil when it can.
func (r *Recorder) CheckpointError() error { return load(&r.commitErr) }

func load(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

// write is the writer goroutine.
func (r *Recorder) write(ctx context.Context) error {
	tick := time.NewTicker(time.Duration(r.interval.Load()))
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok := <-r.queue:
			if !ok {
				return r.finish(ctx)
			}
			err = r.take(ctx, b)
		case <-r.retimed:
			tick.Reset(time.Duration(r.interval.Load()))
		case <-tick.C:
			r.startCommit(ctx)
		case err = <-r.committed:
			err = r.endCommit(ctx, err)
		}
		if err != nil {
			return err
		}
	}
}

// take writes b, and what else is queued, with one write.
func (r *Recorder) take(ctx context.Context, b *Batch) error {
	r.buf, r.group = r.buf[:0], r.group[:0]
	r.add(b)
	for more := true; more && len(r.buf) < maxWrite; {
		select {
		case b, ok := <-r.queue:
			if more = ok; ok {
				r.add(b)
			}
		default:
			more = false
		}
	}
	r.cfg.Metrics.QueueLength.Set(float64(len(r.queue)))
	if err := r.writeAll(ctx, r.buf); err != nil {
		return err
	}
	r.lastSeq.Store(r.seq)
	if cap(r.buf) > maxKept {
		r.buf = nil
	}
	now := time.Now()
	for _, b := range r.group {
		r.written(b, now)
	}
	clear(r.group)
	if len(r.waiting) > 0 || r.pending.Bytes() > maxPending/2 {
		r.startCommit(ctx)
	}
	for r.inflight && r.pending.Bytes() > maxPending {
		if err := r.endCommit(ctx, <-r.committed); err != nil {
			return err
		}
		r.startCommit(ctx)
	}
	return nil
}

// add numbers a batch's lines and puts them into the write buffer.
func (r *Recorder) add(b *Batch) {
	r.group = append(r.group, b)
	start := 0
	for _, end := range b.ends {
		r.seq++
		r.buf = event.AppendSeq(r.buf, r.seq)
		r.buf = append(r.buf, b.lines[start:end]...)
		start = end
	}
}

// written notes that a batch's lines stand in the journal.
func (r *Recorder) written(b *Batch, now time.Time) {
	if b.producer != nil {
		r.pending.Add(b.producer.stream, &b.Changes)
		if b.number > 0 {
			if r.numbers == nil {
				r.numbers = make(map[*Producer]uint64)
			}
			r.numbers[b.producer] = b.number
		}
		b.producer.lines.Add(uint64(len(b.ends)))
		for k, n := range b.counts {
			b.producer.count(k, n)
		}
		late := now.Sub(b.received).Seconds()
		for range b.ends {
			r.cfg.Metrics.WriteSeconds.Observe(late)
		}
	}
	if b.flushed != nil {
		r.waiting = append(r.waiting, b.flushed)
	}
	r.budget.Release(b.weight)
	b.Release()
}

// writeAll writes p to its end, however often it takes. Until then nothing
// else is written, so that no line begins in the middle of another. A crash
// leaves a torn line at the end.
func (r *Recorder) writeAll(ctx context.Context, p []byte) error {
	retry := retryFirst
	for len(p) > 0 {
		r.writing.Store(time.Now().UnixNano())
		n, err := r.out.Write(p)
		r.writing.Store(0)
		p = p[n:]
		r.cfg.Metrics.OutputBytes.Add(float64(n))
		if err == nil {
			continue
		}
		r.cfg.Metrics.OutputErrors.Inc()
		if isFinal(err) {
			return err
		}
		failed := err // so that a write that succeeds allocates nothing
		if r.outputErr.Swap(&failed) == nil {
			r.cfg.Log.Error("output cannot be written, trying again", zap.Error(err))
		}
		if !sleep(ctx, retry) {
			return &stoppedError{err.Error(), errors.Join(err, ctx.Err())}
		}
		retry = min(2*retry, retryMax)
	}
	if r.outputErr.Swap(nil) != nil {
		r.cfg.Log.Info("output can be written again")
	}
	return nil
}
