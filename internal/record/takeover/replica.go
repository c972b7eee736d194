package takeover

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
)

// Replica is what this one of several replicas knows: whose term it is, and up to where each stream is written. Its
// methods are safe for concurrent use. A nil Replica is the only one: it always writes, and publishes nothing.
type Replica struct {
	term    atomic.Pointer[Term]
	changed chan struct{} // signals that Begin was called
	held    atomic.Int64  // bytes of what is held

	mu        sync.Mutex
	running   map[string]bool      // the streams that run
	number    uint64               // of the term that the positions are of
	committed Positions            // what this leader publishes
	idle      map[string]time.Time // since when the leader has not run a stream that has a position
	version   uint64               // rises with each change of committed
	published uint64               // the version that every other replica can read
	listed    map[string]bool      // streams that have begun a list in this term
	more      chan struct{}        // closed when published rises
}

// NewReplica returns a replica that follows another one until Begin says otherwise.
func NewReplica() *Replica {
	r := &Replica{changed: make(chan struct{}, 1), running: make(map[string]bool)}
	r.Begin(Term{})
	return r
}

// Begin begins a term, of this replica or of another one.
func (r *Replica) Begin(t Term) {
	t.over = make(chan struct{})
	if t.Leads() {
		r.mu.Lock()
		r.number, r.committed = t.Number, maps.Clone(t.Published)
		if r.committed == nil {
			r.committed = make(Positions)
		}
		r.listed, r.idle = make(map[string]bool), nil
		r.version++
		r.mu.Unlock()
	}
	if before := r.term.Swap(&t); before != nil {
		close(before.over)
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Term returns the latest term; nil where there is one replica.
func (r *Replica) Term() *Term {
	if r == nil {
		return nil
	}
	return r.term.Load()
}

// Changed signals that Term returns another one; nil where there is one replica.
func (r *Replica) Changed() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.changed
}

// Held is how many bytes of lines and changes a standby holds.
func (r *Replica) Held() int { return int(r.held.Load()) }

// Runs notes that a stream runs, or does not any more.
func (r *Replica) Runs(stream string, runs bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[stream] = runs; !runs {
		delete(r.running, stream)
	}
}

// keepIdle is how long a leader publishes the position of a stream that it does not run: during an update, the others
// may still have it, or have it already. After that it publishes that somebody has begun it: what others have written
// of a stream that is added later is not forgotten.
const keepIdle = 10 * time.Minute

// Positions returns up to where each stream is committed, for Term.Published of the other replicas, and the version of
// that, for MarkPublished.
func (r *Replica) Positions() (committed Positions, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	idle, now := make(map[string]time.Time), time.Now()
	for stream, position := range r.committed {
		if r.running[stream] {
			continue
		}
		since, is := r.idle[stream]
		if !is {
			since = now
		}
		if idle[stream] = since; now.Sub(since) >= keepIdle { // a list that knows of no object is not its first
			r.committed[stream] = Position{Begun: true, Term: byOthers, Restored: position.Restored}
		}
	}
	r.idle = idle
	return maps.Clone(r.committed), r.version
}

// MarkPublished notes that the other replicas can read the Positions of this version.
func (r *Replica) MarkPublished(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version > r.published {
		r.published = version
		if r.more != nil {
			close(r.more)
			r.more = nil
		}
	}
}

// Resume notes, when a leader begins to write, which positions of its own checkpoint are at least as far as those that
// were published.
func (r *Replica) Resume(t *Term, states map[string]checkpoint.Stream) {
	for stream, s := range states {
		if position, ok := positionOf(&s); ok && !line.Later(t.Published.Of(stream).At, position.At) {
			r.set(t, stream, position)
		}
	}
}

// Commit notes the positions of a commit that was made in a term.
func (r *Replica) Commit(t *Term, states func(func(string, *checkpoint.Stream) bool)) {
	for stream, s := range states {
		if position, ok := positionOf(s); ok {
			r.set(t, stream, position)
		}
	}
}

// set notes a position that was committed in a term. Another replica may have come further since an earlier one.
func (r *Replica) set(t *Term, stream string, position Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Number != r.number || r.committed[stream].Restored > position.Restored {
		return // the latter is of a replica that has not heard of a restore yet
	}
	if r.committed[stream] != position {
		r.committed[stream] = position
		r.version++
	}
}

// Declare notes that a stream begins a list in the term of that number, which takes care of what others have published
// before. A first list, or one after a restore, it publishes, and returns when the other replicas can read it: one that
// takes over during the list then writes every object again. undone means that the server was restored once more than
// restored says, so that the position published before is not valid any more.
func (r *Replica) Declare(ctx context.Context, stream string, number uint64, undone bool, restored uint64) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	if r.listed != nil && r.number == number {
		r.listed[stream] = true
	}
	r.mu.Unlock()
	for needed := uint64(0); ; {
		t := r.Term()
		if t.Follows() {
			return ErrStandby
		}
		more, done := r.declare(t, stream, undone, restored, &needed)
		if done {
			return nil
		}
		select {
		case <-more:
		case <-t.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// declare publishes that a stream's list is begun, where that must be known, and reports whether the version that is
// needed is published; if not, more is closed when a later one is.
func (r *Replica) declare(
	t *Term, stream string, undone bool, restored uint64, needed *uint64,
) (more <-chan struct{}, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	is := r.committed[stream]
	if is.At == "" && (!is.Begun || is.Term != t.Number) || undone && !(is.Begun && is.Term == t.Number) {
		begun := Position{Begun: true, Term: t.Number, Restored: is.Restored}
		if undone {
			begun.Restored = restored + 1
		}
		r.committed[stream] = begun
		r.version++
		*needed = 0 // the term is another one
	}
	if *needed == 0 {
		*needed = r.version
	}
	if r.published >= *needed {
		return nil, true
	}
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return r.more, false
}
