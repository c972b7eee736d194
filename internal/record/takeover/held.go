package takeover

import (
	"slices"

	"kubejournal/internal/format/line"
)

// MaxHeld is how many bytes of lines and changes a standby holds. Then it drops those of the stream with the most,
// which begins again where its checkpoint is.
const MaxHeld = 32 << 20

// HeldOverhead is what a batch takes besides, in bytes. One that only moves a position has nothing else.
const HeldOverhead = 512

// Batch is lines of one stream, which are written and committed together.
type Batch interface {
	Stream() string
	// OfWatch reports whether the batch is what a watch has brought, with the position after it.
	OfWatch() bool
	// Position is the resourceVersion after the batch; "" where it moves none.
	Position() string
	// Begun is the number of the term in which the batch's list was begun; 0 outside a list.
	Begun() uint64
	// Versions are those of its lines' objects, 0 for no number.
	Versions(yield func(uint64) bool)
	Len() int   // of its lines
	Bytes() int // of lines and changes
}

// Verdict is what becomes of a batch.
type Verdict int

// Verdicts.
const (
	// Write writes the lines and commits what they make known.
	Write Verdict = iota
	// Trim drops the first lines, which another replica has written, and writes the rest.
	Trim
	// Settle commits what the lines make known, without them: another replica has written them.
	Settle
	// Hold keeps the batch until the leader has written it, or this replica is the leader.
	Hold
	// Refuse drops the batch and what follows, until the stream has restarted from its checkpoint.
	Refuse
)

// Held decides what one of several replicas writes, and has what it holds in the order in which it came. Not for
// concurrent use.
type Held[B Batch] struct {
	replica *Replica
	term    *Term // nil where there is one replica
	batches []B
	of      map[string]int // how many of them are of a stream
	bytes   int
	// written has, of a leader and by stream, up to which version of a watch others have written.
	written map[string]uint64
}

// NewHeld returns what a replica that has received nothing holds. Before Take there is no term: everything is written.
func NewHeld[B Batch](r *Replica) *Held[B] { return &Held[B]{replica: r, of: make(map[string]int)} }

// Take takes a term. What a leader has held is to be judged again, after what others have published, and then what
// comes. A standby holds it on, but for the first batches of each stream up to whose end the leader has published:
// those are to be committed without their lines.
func (h *Held[B]) Take(t *Term) (judge, settle []B) {
	h.term, h.written = t, nil
	if t.Leads() {
		h.written = make(map[string]uint64)
		for stream, p := range t.Published {
			if n, ok := line.VersionNumber([]byte(p.At)); ok {
				h.written[stream] = n
			}
		}
		judge, h.batches, h.bytes = h.batches, nil, 0
		clear(h.of)
		h.note()
		return judge, nil
	}
	after := make(map[string]bool) // streams of which one is kept
	return nil, h.drop(func(b B) bool {
		after[b.Stream()] = after[b.Stream()] || !h.isWritten(b)
		return !after[b.Stream()]
	})
}

// Judge returns what becomes of a batch, and of Trim, how many lines are dropped. A batch to hold is held.
//
//	alone    anything                                              Write
//	leader   a list that was begun before another replica wrote    Refuse: the other's list does not have it
//	         lines of a watch, the first ones up to what others    Trim, or Settle where those are all; no more
//	         have published                                        once the stream has come there, or lists
//	         anything else                                         Write
//	standby  what is known, without line and position              Write: there is nothing to write
//	         a list                                                Refuse: it is for the leader
//	         up to what the leader has published                   Settle, unless something before it is held
//	         anything else of a watch, also its position alone     Hold
func (h *Held[B]) Judge(b B) (v Verdict, lines int) {
	switch {
	case h.term.Leads():
		if b.Begun() > 0 && !b.OfWatch() && h.term.othersSince(b.Begun()) {
			return Refuse, 0
		}
		return h.trim(b)
	case !h.term.Follows(), b.Len() == 0 && b.Position() == "":
		return Write, 0
	case !b.OfWatch():
		return Refuse, 0
	case h.of[b.Stream()] == 0 && h.isWritten(b):
		return Settle, 0
	}
	h.batches = append(h.batches, b)
	h.count(b, 1)
	h.note()
	return Hold, 0
}

// trim judges a batch of a leader.
func (h *Held[B]) trim(b B) (v Verdict, lines int) {
	stream := b.Stream()
	written, ok := h.written[stream]
	if !ok || b.Len() == 0 && b.Position() == "" {
		return Write, 0
	}
	if !b.OfWatch() {
		delete(h.written, stream) // it has started over
		return Write, 0
	}
	if n, ok := line.VersionNumber([]byte(b.Position())); !ok || n >= written {
		delete(h.written, stream)
	}
	for version := range b.Versions {
		if version == 0 || version > written {
			break
		}
		lines++
	}
	switch lines {
	case 0:
		return Write, 0
	case b.Len():
		return Settle, 0
	}
	return Trim, lines
}

// isWritten reports whether others have written everything up to a batch's position.
func (h *Held[B]) isWritten(b B) bool {
	published, position := h.term.Published.Of(b.Stream()).At, b.Position()
	return position == published || line.Later(published, position)
}

// Largest returns the latest batch of the stream that holds the most, and how much that is, if all of it is too much.
func (h *Held[B]) Largest() (b B, bytes int, tooMuch bool) {
	if h.bytes <= MaxHeld {
		return b, 0, false
	}
	of := make(map[string]int)
	for _, one := range h.batches {
		if of[one.Stream()] += heldBytes(one); of[one.Stream()] > bytes {
			bytes = of[one.Stream()]
			b = one
		}
	}
	return b, bytes, true
}

// Forget returns what is held of a stream, and holds it no more.
func (h *Held[B]) Forget(stream string) []B {
	return h.drop(func(b B) bool { return b.Stream() == stream })
}

// drop returns the batches of which is reports true, and holds them no more.
func (h *Held[B]) drop(is func(B) bool) (dropped []B) {
	h.batches = slices.DeleteFunc(h.batches, func(b B) bool {
		if !is(b) {
			return false
		}
		dropped = append(dropped, b)
		h.count(b, -1)
		return true
	})
	h.note()
	return dropped
}

// Len is how many batches are held.
func (h *Held[B]) Len() int { return len(h.batches) }

func (h *Held[B]) count(b B, by int) {
	h.of[b.Stream()] += by
	h.bytes += by * heldBytes(b)
}

func (h *Held[B]) note() {
	if h.replica != nil {
		h.replica.held.Store(int64(h.bytes))
	}
}

func heldBytes[B Batch](b B) int { return b.Bytes() + HeldOverhead }
