package recorder

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/record/takeover"
)

// Producer is one stream's way into the recorder.
type Producer struct {
	stream    string
	written   *prometheus.CounterVec
	counters  map[kind]prometheus.Counter // those of written that were used; owned by the writer
	pool      sync.Pool
	numbered  uint64 // the last batch's number; owned by the stream's goroutine
	committed atomic.Uint64
	lines     atomic.Uint64
	refused   atomic.Bool                             // see takeover.ErrStandby
	cancel    atomic.Pointer[context.CancelCauseFunc] // of the last context of WithRefusal
}

type kind struct {
	typ    line.Type
	origin line.Origin
}

// NewProducer returns the producer of a stream; written counts lines, by type and origin.
func NewProducer(stream string, written *prometheus.CounterVec) *Producer {
	p := &Producer{stream: stream, written: written, counters: make(map[kind]prometheus.Counter)}
	p.pool.New = func() any { return &Batch{producer: p} }
	return p
}

// counter returns the counter of lines of a kind.
func (p *Producer) counter(k kind) prometheus.Counter {
	c := p.counters[k]
	if c == nil {
		c = p.written.WithLabelValues(string(k.typ), string(k.origin))
		p.counters[k] = c
	}
	return c
}

// Committed is the number of the last numbered batch that is committed.
func (p *Producer) Committed() uint64 { return p.committed.Load() }

// Lines is how many lines of the producer are in the journal.
func (p *Producer) Lines() uint64 { return p.lines.Load() }

// WithRefusal returns a context that ends when the recorder refuses what the producer submits, with the cause
// takeover.ErrStandby: a stream that has nothing to submit would not notice.
func (p *Producer) WithRefusal(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.cancel.Store(&cancel)
	if p.refused.Load() {
		cancel(takeover.ErrStandby)
	}
	return ctx, cancel
}

// refuse drops what the producer submits, until Restart.
func (p *Producer) refuse() {
	p.refused.Store(true)
	if cancel := p.cancel.Load(); cancel != nil {
		(*cancel)(takeover.ErrStandby)
	}
}

// Batch returns an empty batch. It belongs to the caller until it is submitted.
func (p *Producer) Batch() *Batch { return p.pool.Get().(*Batch) }

// Batch is lines of one stream, to be written and committed together. Not for concurrent use.
type Batch struct {
	Changes checkpoint.Changes // what the lines make known
	Adopts  bool               // a published position: what a standby holds of the stream before it is dropped
	Term    uint64             // the number of the term in which its list was begun; 0 outside a list

	producer *Producer            // nil for a flush
	number   uint64               // see Number
	lines    []byte               // each without its seq
	ends     []lineEnd            // of each line
	received time.Time            // when the first line's event came in
	last     time.Time            // the same of the last line's
	pulse    *checkpoint.Coverage // that a quiet stream has confirmed; not for the checkpoint
	flushed  chan struct{}        // closed once everything up to here is committed
	end      func()               // called then; see Recorder.End
	restart  *Producer            // the producer to restart; see Recorder.Restart
	weight   int64                // its share of the recorder's budget, while it is submitted
}

type lineEnd struct {
	at int // in Batch.lines
	kind
	version uint64            // of the line's object, 0 where it has none or it is no number
	before  checkpoint.Extent // of Batch.Changes before those of the line
}

// OfWatch reports whether the batch is what a watch has brought, with the position after it.
func (b *Batch) OfWatch() bool {
	s := b.Changes.State
	return s != nil && s.Open == nil && s.Closing == nil && s.ResourceVersion != "" &&
		!slices.ContainsFunc(b.ends, func(l lineEnd) bool { return l.origin != line.FromWatch })
}

// Stream names the batch's stream.
func (b *Batch) Stream() string { return b.producer.stream }

// Position is the resourceVersion after the batch; "" where it moves none.
func (b *Batch) Position() string {
	if b.Changes.State == nil {
		return ""
	}
	return b.Changes.State.ResourceVersion
}

// Begun is Term.
func (b *Batch) Begun() uint64 { return b.Term }

// Versions yields those of the lines' objects, 0 where it is no number.
func (b *Batch) Versions(yield func(uint64) bool) {
	for _, l := range b.ends {
		if !yield(l.version) {
			return
		}
	}
}

// keep drops the lines that keep does not report true of.
func (b *Batch) keep(keep func(lineEnd) bool) {
	start, size, kept := 0, 0, b.ends[:0]
	for _, l := range b.ends {
		line := b.lines[start:l.at]
		start = l.at
		if keep(l) {
			size += copy(b.lines[size:], line)
			l.at = size
			kept = append(kept, l)
		}
	}
	b.lines, b.ends = b.lines[:size], kept
}

// split returns a batch of the first n lines, which leaves b. Those of a watch must have numbers for versions.
func (b *Batch) split(n int) *Batch {
	first := b.producer.Batch()
	first.Changes, first.received = b.Changes.UpTo(b.ends[n].before), b.received
	switch s := b.Changes.State; {
	case b.OfWatch():
		first.Changes.State = s.Clone()
		first.Changes.State.Move(strconv.FormatUint(b.ends[n-1].version, 10))
		c := &first.Changes.State.Coverage
		c.Confirmed, c.Read, c.Late, c.Pulse = 0, 0, 0, 0 // it is confirmed with the rest
	case s != nil && s.Open != nil:
		first.Changes.State = s.Clone()
		for _, l := range b.ends[n:] {
			first.Changes.State.Open.Remove(l.typ)
		}
	}
	first.ends = append(first.ends, b.ends[:n]...)
	left := n
	b.keep(func(lineEnd) bool { left--; return left < 0 })
	return first
}

// hold makes the batch take little more memory than its lines need: it may have to wait for long.
func (b *Batch) hold() {
	if cap(b.lines) > 2*len(b.lines) {
		b.lines = slices.Clone(b.lines)
	}
}

// Number numbers this batch: once Committed has reached it, the checkpoint has what is in
// the batch. Only one numbered batch of a producer may be filled at a time.
func (b *Batch) Number() uint64 {
	if b.number == 0 {
		b.producer.numbered++
		b.number = b.producer.numbered
	}
	return b.number
}

// Lines is the buffer to append the next line to, which then goes to AddLine.
func (b *Batch) Lines() []byte { return b.lines }

// AddLine takes the buffer of Lines with one line appended, which begins with
// the comma after seq and ends in "\n".
// version is that of the line's object.
func (b *Batch) AddLine(lines []byte, t line.Type, from line.Origin, received time.Time, version []byte) {
	if len(b.ends) == 0 {
		b.received = received
	}
	b.lines, b.last = lines, received
	n, _ := line.VersionNumber(version)
	b.ends = append(b.ends, lineEnd{len(lines), kind{t, from}, n, b.Changes.Extent()})
}

// Len is the number of lines.
func (b *Batch) Len() int { return len(b.ends) }

// Bytes is what the batch holds, in bytes.
func (b *Batch) Bytes() int { return len(b.lines) + b.Changes.Bytes() }

// Empty reports whether there is nothing to write and nothing to commit.
func (b *Batch) Empty() bool { return len(b.ends) == 0 && b.Changes.Empty() }

// Release returns a batch that is not submitted to its producer.
func (b *Batch) Release() {
	if b.producer == nil || cap(b.lines) > maxPooled {
		return
	}
	b.Changes.Reset()
	b.lines, b.ends, b.number, b.Adopts, b.Term, b.pulse = b.lines[:0], b.ends[:0], 0, false, 0, nil
	b.producer.pool.Put(b)
}

// Restart waits, as Flush does, until what a stream has submitted is committed. A standby drops what it holds of the
// stream, which continues from its checkpoint.
func (r *Recorder) Restart(ctx context.Context, p *Producer) error {
	return r.flush(ctx, &Batch{restart: p})
}
