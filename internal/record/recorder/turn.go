package recorder

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrStandby means that a stream's batch was dropped, since another replica writes, or has written since a list was
// begun. The stream must take its position from the checkpoint again.
var ErrStandby = errors.New("another replica writes")

// Turn says whose turn it is to write. It does not change; SetTurn replaces it.
type Turn struct {
	// May reports whether this replica may write at this moment; nil on a standby.
	May func() bool
	// Term counts the turns of all replicas; of a leader, at least 1.
	Term uint64
	// Published has, for each stream, up to which position other replicas have written and committed everything. "~3"
	// is a stream whose first list was begun in the turn of that number. "!pods" has, of the stream pods,
	// checkpoint.Stream.Restored. AnyOther stands for the streams that have no position here.
	Published map[string]string
	// Led has the numbers of this replica's own turns, as far as they are known.
	Led map[uint64]bool

	over chan struct{} // closed when it is replaced
}

// SetTurn says whose turn it is from now on. A recorder without Config.Turn always writes.
func (r *Recorder) SetTurn(t Turn) {
	t.over = make(chan struct{})
	if t.May != nil {
		r.positions.begin(t.Term, t.Published)
	}
	if before := r.latest.Swap(&t); before != nil {
		close(before.over)
	}
	select {
	case r.turned <- struct{}{}:
	default:
	}
}

// Held is how many bytes of lines and changes a standby holds.
func (r *Recorder) Held() int { return int(r.heldBytes.Load()) }

// Published is what other replicas have published of a stream.
type Published struct {
	Position string // up to there everything is written and committed; "" if none was published
	Restored uint64 // as in checkpoint.Stream, of that position, or of what was begun
	// another replica has begun a list, a first one or one after a restore, of which that is not known
	Begun   bool
	Other   bool            // the turn before this one was another replica's
	Listed  bool            // Listing was called in this turn
	Standby bool            // it is another replica's turn to write
	Over    <-chan struct{} // closed when there may be another answer
	Turn    uint64          // the number of the turn
	turn    *Turn
}

// OthersSince reports whether another replica may have written between this replica's turn of that number and this one.
func (p *Published) OthersSince(turn uint64) bool { return p.turn.othersSince(turn) }

func (t *Turn) othersSince(turn uint64) bool {
	if t == nil {
		return false
	}
	for turn++; turn < t.Term; turn++ {
		if !t.isOwn(turn) {
			return true
		}
	}
	return false
}

// isOwn reports whether the turn of that number is known to be this replica's. Turns count from 1: ByOthers is none.
func (t *Turn) isOwn(turn uint64) bool { return turn > 0 && t.Led[turn] }

// Published returns what other replicas have published of a stream.
func (r *Recorder) Published(stream string) Published {
	t := r.latest.Load()
	if t == nil {
		return Published{}
	}
	position, named := t.Published[stream]
	if !named {
		position = t.Published[AnyOther]
	}
	published := Published{
		Position: position, Standby: t.May == nil, Over: t.over, Other: t.Term > 1 && !t.isOwn(t.Term-1),
		Turn: t.Term, turn: t,
	}
	published.Restored = restoredIn(t.Published, stream)
	r.positions.mu.Lock()
	published.Listed = r.positions.listed[stream]
	r.positions.mu.Unlock()
	if text, begun := strings.CutPrefix(published.Position, begunIn); begun {
		term, err := strconv.ParseUint(text, 10, 64)
		published.Position, published.Begun = "", err != nil || !t.isOwn(term)
	}
	return published
}

// Listing notes that a stream begins a list in the turn of that number: it takes care of what others have published
// before.
func (r *Recorder) Listing(stream string, turn uint64) {
	r.positions.mu.Lock()
	defer r.positions.mu.Unlock()
	if r.positions.listed != nil && r.positions.term == turn {
		r.positions.listed[stream] = true
	}
}

// restoredOf precedes the name of a stream.
const restoredOf = "!"

// restoredIn returns what published positions say of a stream as checkpoint.Stream.Restored; 0 where they do not.
func restoredIn(published map[string]string, stream string) uint64 {
	n, _ := strconv.ParseUint(published[restoredOf+stream], 10, 64)
	return n
}

// BegunByOthers makes of published positions, which do not hold any more, that their streams were begun.
func BegunByOthers(published map[string]string) map[string]string {
	begun := maps.Clone(published)
	for stream := range begun {
		if !IsRestored(stream) {
			begun[stream] = BegunIn(ByOthers)
		}
	}
	return begun
}

// AnyOther is the name, among published positions, that stands for every stream that has none there. Its value is
// BegunIn.
const AnyOther = "*"

// BegunIn stands in the place of a position, for a first list that was begun in the turn of that number.
func BegunIn(turn uint64) string { return begunIn + strconv.FormatUint(turn, 10) }

// IsRestored reports whether a name among positions has checkpoint.Stream.Restored.
func IsRestored(name string) bool { return strings.HasPrefix(name, restoredOf) }

// ByOthers stands for the number of a turn that no replica takes for its own, not even the one that publishes it:
// there may be lines of others about objects that this one has never known, in a stream that it has not run.
const ByOthers = 0

// begunIn precedes the number of the turn in which a first list was begun.
const begunIn = "~"

// Restart waits, as Flush does, until what a stream has submitted is committed. A standby drops what it holds of the
// stream, which continues from its checkpoint.
func (r *Recorder) Restart(ctx context.Context, p *Producer) error {
	return r.flush(ctx, &Batch{restart: p})
}

// positions are those that a leader publishes to its standbys.
type positions struct {
	mu        sync.Mutex
	term      uint64               // of the turn that they are of
	committed map[string]string    // as in Turn.Published
	idle      map[string]time.Time // since when the leader has not run a stream that has a position
	version   uint64               // rises with each change
	published uint64               // of what every other replica can read
	listed    map[string]bool      // see Listing; nil where there is one replica
	more      chan struct{}        // closed when published rises
}

// keepIdle is how long a leader publishes the position of a stream that it does not run: during an update, the others
// may still have it, or have it already. Behind that it publishes that somebody has begun it: what others have written
// of a stream that is added later is not forgotten.
const keepIdle = 10 * time.Minute

// Positions returns up to where each stream is committed, for Turn.Published of the other replicas, and the version of
// that, for MarkPublished.
func (r *Recorder) Positions() (committed map[string]string, version uint64) {
	running := r.running()
	p := &r.positions
	p.mu.Lock()
	defer p.mu.Unlock()
	idle, now := make(map[string]time.Time), time.Now()
	for name := range p.committed {
		stream := strings.TrimPrefix(name, restoredOf)
		if _, runs := running[stream]; runs {
			continue
		}
		since, is := p.idle[stream]
		if !is {
			since = now
		}
		if idle[stream] = since; now.Sub(since) >= keepIdle && !IsRestored(name) {
			p.committed[name] = BegunIn(ByOthers) // a list that knows of no object is not its first
		}
	}
	p.idle = idle
	return maps.Clone(p.committed), p.version
}

// MarkPublished notes that the other replicas can read the Positions of this version.
func (r *Recorder) MarkPublished(version uint64) {
	p := &r.positions
	p.mu.Lock()
	defer p.mu.Unlock()
	if version > p.published {
		p.published = version
		if p.more != nil {
			close(p.more)
			p.more = nil
		}
	}
}

// Declare publishes that a stream begins its first list, or one after a restore, and returns when the other replicas
// can read it. A replica that takes over during the list then writes every object again. undone means that the server
// was restored once more than restored says, so that the position published before is not valid any more.
func (r *Recorder) Declare(ctx context.Context, stream string, undone bool, restored uint64) error {
	p := &r.positions
	for needed := uint64(0); ; {
		t := r.latest.Load()
		switch {
		case t == nil:
			return nil
		case t.May == nil:
			return ErrStandby
		}
		p.mu.Lock()
		begun := BegunIn(t.Term)
		if is := p.committed[stream]; is == "" || (undone || strings.HasPrefix(is, begunIn)) && is != begun {
			p.committed[stream] = begun
			if undone {
				p.committed[restoredOf+stream] = strconv.FormatUint(restored+1, 10)
			}
			p.version++
			needed = 0 // the turn is another one
		}
		if needed == 0 {
			needed = p.version
		}
		if p.published >= needed {
			p.mu.Unlock()
			return nil
		}
		if p.more == nil {
			p.more = make(chan struct{})
		}
		more := p.more
		p.mu.Unlock()
		select {
		case <-more:
		case <-t.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// begin begins a turn with what others have published.
func (p *positions) begin(term uint64, published map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term = term
	p.committed, p.listed, p.idle = make(map[string]string), make(map[string]bool), nil
	maps.Copy(p.committed, published)
	p.version++
}

// set notes positions that were committed in a turn. Another replica may have come further since an earlier one.
func (p *positions) set(term uint64, streams map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term != p.term {
		return
	}
	for stream, position := range streams {
		if name := strings.TrimPrefix(stream, restoredOf); restoredIn(p.committed, name) > restoredIn(streams, name) {
			continue // of a replica that has not heard of a restore yet
		}
		if p.committed[stream] != position {
			p.committed[stream] = position
			p.version++
		}
	}
}
