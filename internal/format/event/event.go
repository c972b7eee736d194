// Package event turns what an API server sends into journal lines, from raw JSON to raw JSON: no object is ever
// decoded into a tree.
//
// A Renderer makes the lines: Scan finds in an object's bytes what a line needs and what is to be cut, AppendLine
// writes the line. An object that Scan refuses, or that is too large to be held (Skimmer), is not lost: Identify finds what
// names it, and its line says why it has no object.
//
// JSON is read by internal/format/rawjson. What changed between two versions of an object, which a line may say beside it,
// and the store of previous versions are in internal/format/changes.
//
// Guarantees:
//
//   - A line is exactly one line of valid UTF-8 holding one valid JSON object. Scan checks the grammar of the whole
//     object; of what it refuses nothing is written but its name.
//   - Every line is within the limits of all readers of lines: MaxLine bytes, and the nesting that
//     encoding/json takes.
//   - The object in a line is the server's bytes less what a Shape cuts or redacts: no member is reordered and no
//     number or string is rewritten. Only white space between tokens goes, and bytes that are not UTF-8 become
//     U+FFFD.
//   - Cuts and redactions hold for every occurrence of a key, repeated or written with escapes. A value of another
//     kind than a redaction path expects is redacted as a whole.
//   - What a Shape hides is in no line, nor in what AppendShaped writes.
//   - In a steady state nothing is allocated per event.
package event

// Type is what happened: what a watch calls it, or one of the two types that only a journal line has.
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

// Source is what all lines of one stream share; ClusterUID is on those about the stream itself only.
type Source struct {
	Stream, Cluster, Group, Version, Resource, Kind string
	ClusterUID                                      string // of the namespace kube-system; "" leaves it out
}

// GapReason is why a stream's position is not valid any more: what its GAP line says.
type GapReason string

// The reasons of GAP lines. RelistInterrupted is in journals of earlier versions only; now a relist that is repeated
// continues after the GAP line that it has.
const (
	Expired               GapReason = "Expired"               // the server has dropped the history
	PositionAheadOfServer GapReason = "PositionAheadOfServer" // the server was restored from a backup, say
	PositionRefused       GapReason = "PositionRefused"       // the server does not watch from the position
	CheckpointLost        GapReason = "CheckpointLost"        // what the reader was told is not known
	JournalTruncated      GapReason = "JournalTruncated"      // lines that the checkpoint counts on are gone
	RelistInterrupted     GapReason = "RelistInterrupted"
)

// BeginsAnew reports whether versions, and ids with them, compare with none before a GAP of this reason.
func (r GapReason) BeginsAnew() bool { return r == PositionAheadOfServer || r == PositionRefused }

// Known is an object at the version that a stream has seen last.
type Known struct {
	Namespace, Name, UID, ResourceVersion string
	// Doubtful says that the line about this version may be lost: the object is written again at the next list.
	Doubtful bool
	// Withheld says that the stream's filter has held this version back.
	Withheld bool
}

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
