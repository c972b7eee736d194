package takeover

import (
	"slices"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
)

// Own is what a stream without a position to watch from, or with a SYNCED line to write, says of itself.
type Own struct {
	Stream  string
	State   *checkpoint.Stream
	Adopted string // the position that it adopted last
	Failed  *Term  // the term in which it could not adopt the published one, in this attempt
	Rests   bool   // it could not adopt one a moment ago
}

// Step is what a stream does next.
type Step int

// Steps.
const (
	Wait    Step = iota // until the term is over
	Adopt               // a published position, and continue from there
	Finish              // the list: write its SYNCED line; then, unless the position is valid, List
	List                // and write what differs from what is known
	Rewrite             // list, and write every object
)

// Next is the answer to a stream.
type Next struct {
	Step Step
	Term *Term // nil where there is one replica
	// Number is that of Term; 0 where there is one replica.
	Number uint64
	// Position is what others have published; its At is "" also where a list in this term has taken care of it.
	Position Position
	// Restored says that another replica has begun to write of a restore of the server.
	Restored bool
	// Others says that another replica may have written in any term before.
	Others bool

	why, notAdopted string // the cases, of both tables where it does not adopt
}

// question is what the answer to a stream depends on.
type question struct {
	Own
	term      *Term // nil where there is one replica
	gap       line.Reason
	from      string   // the version after which the reader has not been told everything
	published Position // of the stream
	begun     bool     // the published list was begun by another replica, or may have been
	listed    bool     // the stream has begun a list in this term
}

// Next answers a stream: it adopts the published position where adoptions says so, and else does what lists says.
func (r *Replica) Next(own Own) Next {
	q := question{Own: own, term: r.Term(), gap: own.State.PendingGap, from: own.State.From()}
	next := Next{Term: q.term, Others: q.term.othersSince(0)}
	if t := q.term; t != nil {
		q.published = t.Position(own.Stream)
		q.begun = q.published.Begun && !t.isOwn(q.published.Term)
		r.mu.Lock()
		q.listed = t.Leads() && r.listed[own.Stream]
		r.mu.Unlock()
		next.Position, next.Number = q.published, t.Number
	}
	adoption := first(adoptions, &q)
	if adoption.then {
		next.Step, next.why = Adopt, adoption.when
		return next
	}
	list := first(lists, &q)
	next.Step, next.why, next.notAdopted = list.then, list.when, adoption.when
	next.Restored = q.othersRestored()
	if q.listed {
		next.Position.At = ""
	}
	return next
}

// rule is a row of a table: the first one whose condition holds has the answer.
type rule[A any] struct {
	when string
	is   func(*question) bool
	then A
}

func first[A any](rules []rule[A], q *question) *rule[A] {
	n := slices.IndexFunc(rules, func(r rule[A]) bool { return r.is(q) })
	return &rules[n] // the condition of the last one always holds
}

// adoptions says whether a stream adopts the published position. A server forgets in its watch cache before it does in
// etcd, so that a position from which no watch could start may be adopted again and again.
var adoptions = []rule[bool]{
	{"nothing is published", func(q *question) bool { return q.published.At == "" }, false},
	{"a standby could not adopt a moment ago", func(q *question) bool { return q.term.Follows() && q.Rests }, false},
	{"it could not be adopted", func(q *question) bool { return q.Failed == q.term }, false},
	{"it was adopted, and no watch could start", func(q *question) bool { return q.published.At == q.Adopted }, false},
	{"lines of its own are missing", func(q *question) bool { return q.gap == line.JournalTruncated }, false},
	{"it has begun a list in this term", func(q *question) bool { return q.listed }, false},
	// After the loss of the checkpoint file earlier terms are unknown, so that this does not hold.
	{"its state is lost, and no other replica led the term before", func(q *question) bool {
		return q.term.Leads() && q.gap == line.CheckpointLost && !q.term.followsOther()
	}, false},
	{"the leader has written of a restore", func(q *question) bool {
		return q.term.Follows() && q.published.Restored > q.State.Restored
	}, true},
	{"the server was restored", func(q *question) bool { return q.gap == line.PositionAheadOfServer }, false},
	{"it has no position", func(q *question) bool { return q.from == "" }, true},
	{"it is where the others are", func(q *question) bool { return q.from == q.published.At }, true},
	{"others have come further", func(q *question) bool { return line.Later(q.published.At, q.from) }, true},
	{"it has come further than others", func(*question) bool { return true }, false},
}

// lists says how a stream lists that does not adopt a position. An equal resourceVersion is no equal object after a
// restore of the server. After a list by another replica that it did not finish, or that this one has not followed to
// its end, and where the checkpoint is lost and others may have written, the journal has what this replica does not
// know. So every object is written again.
var lists = []rule[Step]{
	{"another replica writes", func(q *question) bool { return q.term.Follows() }, Wait},
	{"another replica has begun to write of a restore", (*question).othersRestored, Rewrite},
	{"the server was restored", func(q *question) bool { return q.gap == line.PositionAheadOfServer }, Rewrite},
	{"the checkpoint is lost, and the list after a restore is not complete", func(q *question) bool {
		return q.gap == line.CheckpointLost && q.State.Open != nil && q.State.Open.Reason == line.PositionAheadOfServer
	}, Rewrite},
	{"its list in this term has no SYNCED yet", func(q *question) bool {
		return q.knowsAll() && q.State.Closing != nil
	}, Finish},
	{"no other replica has written since", (*question).knowsAll, List},
	{"the checkpoint is lost", func(q *question) bool { return q.gap == line.CheckpointLost }, Rewrite},
	{"others have written since its list was begun", func(q *question) bool {
		return q.inList() && q.term.othersSince(q.State.Term)
	}, Rewrite},
	{"its list of an earlier term has no SYNCED yet", func(q *question) bool { return q.State.Closing != nil }, Finish},
	{"its list of an earlier term is not complete", func(q *question) bool { return q.inList() }, List},
	{"others have written of a stream that it does not know", func(q *question) bool {
		return q.from == "" && q.gap == "" && (q.begun || q.published.At != "")
	}, Rewrite},
	{"its position is lost, or there was none", func(*question) bool { return true }, List},
}

// othersRestored reports whether another replica has begun to write of a restore of the server, and not finished.
func (q *question) othersRestored() bool {
	return q.term.Leads() && q.begun && q.published.Restored > q.State.Restored
}

// knowsAll reports whether no other replica can have written since the stream's state.
func (q *question) knowsAll() bool { return q.term == nil || q.listed }

// inList reports whether a list of the stream has lines, and no SYNCED.
func (q *question) inList() bool { return q.State.Open != nil || q.State.Closing != nil }
