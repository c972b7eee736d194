package recorder

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
)

// maxPooled is the size in bytes up to which a batch's memory is kept for the
// next one.
const maxPooled = 1 << 20

// Producer is one stream's way into the recorder.
type Producer struct {
	stream string
	// written counts lines by type and origin.
	written *prometheus.CounterVec
	// counters are those of written that were used. Owned by the writer.
	counters map[kind]prometheus.Counter
	pool     sync.Pool

	numbered  uint64        // the last batch's number; of the stream's goroutine
	committed atomic.Uint64 // see Committed
	lines     atomic.Uint64 // see Lines
}

// NewProducer returns the producer of a stream; written has the labels type and origin.
func NewProducer(stream string, written *prometheus.CounterVec) *Producer {
	l := &Producer{stream: stream, written: written, counters: make(map[kind]prometheus.Counter)}
	l.pool.New = func() any { return &Batch{producer: l, counts: make(map[kind]int)} }
	return l
}

// count counts n lines of a kind.
func (l *Producer) count(k kind, n int) {
	if l.written == nil {
		return
	}
	c := l.counters[k]
	if c == nil {
		c = l.written.WithLabelValues(string(k.typ), string(k.origin))
		l.counters[k] = c
	}
	c.Add(float64(n))
}

// Committed is the number of the last numbered batch that is committed.
func (l *Producer) Committed() uint64 { return l.committed.Load() }

// Lines is how many lines of the producer stand in the journal. Safe for concurrent
// use.
func (l *Producer) Lines() uint64 { return l.lines.Load() }

// Batch returns an empty batch. It belongs to the caller until it is submitted.
func (l *Producer) Batch() *Batch { return l.pool.Get().(*Batch) }

type kind struct {
	typ    event.Type
	origin event.Origin
}

// Batch is lines of one stream with what they make known, to be written and
// committed together. Not for concurrent use.
type Batch struct {
	// Changes is what is known once the lines are written.
	Changes checkpoint.Changes

	producer *Producer
	number   uint64 // see Number
	lines    []byte // the lines, each without its seq
	ends     []int  // where each line ends in lines
	counts   map[kind]int
	received time.Time     // when the first line's event came in
	flushed  chan struct{} // closed once everything up to here is committed
	weight   int64         // of the recorder's budget
}

// Number tells this batch from the producer's others: a later one has a higher number.
// Once the producer has committed it, the checkpoint has what is in the batch. To be
// asked while no other numbered batch of the producer is being filled.
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
func (b *Batch) AddLine(lines []byte, t event.Type, from event.Origin, received time.Time) {
	if len(b.ends) == 0 {
		b.received = received
	}
	b.lines = lines
	b.ends = append(b.ends, len(lines))
	b.counts[kind{t, from}]++
}

// Len is the number of lines.
func (b *Batch) Len() int { return len(b.ends) }

// Bytes is what the batch holds, in bytes.
func (b *Batch) Bytes() int { return len(b.lines) + b.Changes.Bytes() }

// Empty tells whether there is nothing to write and nothing to commit.
func (b *Batch) Empty() bool { return len(b.ends) == 0 && b.Changes.Empty() }

// Release gives back a batch that is not submitted.
func (b *Batch) Release() {
	if b.producer == nil || cap(b.lines) > maxPooled {
		return
	}
	b.Changes.Reset()
	b.lines, b.ends = b.lines[:0], b.ends[:0]
	clear(b.counts)
	b.number, b.weight, b.flushed = 0, 0, nil
	b.producer.pool.Put(b)
}
