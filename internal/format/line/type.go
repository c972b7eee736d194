package line

import "strconv"

// Type is what happened: what a watch calls it, or one of the types that only a journal line has.
type Type string

// The types of a watch event, then those of lines about the stream itself.
const (
	Added    Type = "ADDED"
	Modified Type = "MODIFIED"
	Deleted  Type = "DELETED"
	Bookmark Type = "BOOKMARK"
	Error    Type = "ERROR"

	Gap    Type = "GAP"
	Synced Type = "SYNCED"
	// Removed is the type of a line that says which lines are not in the journal any more.
	Removed Type = "REMOVED"
	// Sealed is the type of a line that says what a rotated file of the journal has.
	Sealed Type = "SEALED"
)

// Origin is how an event became known.
type Origin string

// The origins of a line: first sight, the watch, or a comparison after a gap.
const (
	FromSnapshot Origin = "snapshot"
	FromWatch    Origin = "watch"
	FromRelist   Origin = "relist"
)

// Reason is why a stream's position is not valid any more: what its GAP line says.
type Reason string

// The reasons of GAP lines.
const (
	Expired               Reason = "Expired"               // the server has dropped the history
	PositionAheadOfServer Reason = "PositionAheadOfServer" // the server was restored from a backup, say
	PositionRefused       Reason = "PositionRefused"       // the server does not watch from the position
	CheckpointLost        Reason = "CheckpointLost"        // what the reader was told is not known
	JournalTruncated      Reason = "JournalTruncated"      // lines that the checkpoint counts on are gone
)

// NewEpoch reports whether versions, and ids with them, start over at a GAP of this reason: none compares with one
// before it.
func (r Reason) NewEpoch() bool { return r == PositionAheadOfServer || r == PositionRefused }

// MaxLine bounds a line with its newline, in bytes: the largest object, and what surrounds it. A line that
// would be longer is truncated.
const MaxLine = 80 << 20

// Count is how many objects a list has shown of each kind.
type Count struct {
	Added     int64 `json:"added,omitempty"`
	Modified  int64 `json:"modified,omitempty"`
	Deleted   int64 `json:"deleted,omitempty"`
	Unchanged int64 `json:"unchanged,omitempty"`
}

// Add counts a line about an object.
func (c *Count) Add(t Type) { c.add(t, 1) }

// Remove takes back what Add has counted.
func (c *Count) Remove(t Type) { c.add(t, -1) }

func (c *Count) add(t Type, by int64) {
	switch t {
	case Added:
		c.Added += by
	case Modified:
		c.Modified += by
	case Deleted:
		c.Deleted += by
	}
}

// AppendSeq begins a line. One of Renderer's Append methods ends it.
func AppendSeq(dst []byte, seq uint64) []byte {
	dst = append(dst, `{"seq":`...)
	return strconv.AppendUint(dst, seq, 10)
}

// AppendTerm continues with a line that AppendSeq has begun, where several replicas write: the number of the leader's
// term.
func AppendTerm(dst []byte, term uint64) []byte {
	dst = append(dst, `,"term":`...)
	return strconv.AppendUint(dst, term, 10)
}

// LongestTerm is how many bytes AppendTerm appends at most.
const LongestTerm = len(`,"term":18446744073709551615`)
