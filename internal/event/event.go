// Package event turns what an API server sends into journal lines, from raw
// JSON to raw JSON: no object is ever decoded into a tree.
//
// A Renderer makes the lines: Scan finds in an object's bytes what a line needs
// and what is to be cut, Append writes the line. An object that Scan refuses, or
// that is too large to be held (Skimmer), is not lost: Identify finds what names
// it, and its line says why it has no object.
//
// JSON is read by internal/rawjson. What changed between two versions of an object,
// which a line may say beside it, is for internal/changes to find; a Packer keeps
// the previous version in a few bytes.
//
// Guarantees:
//
//   - A line is exactly one line of valid UTF-8 holding one valid JSON object.
//     Scan checks the grammar of the whole object; of what it refuses nothing
//     is written but its name.
//   - Every line is within the limits that all readers of lines go by: MaxLine
//     bytes, and the nesting that encoding/json takes.
//   - The object in a line is the server's bytes less what a Shape cuts or
//     redacts: no member is reordered and no number or string is rewritten.
//     Only white space between tokens goes, and bytes that are not UTF-8
//     become U+FFFD.
//   - Cuts and redactions hold for every occurrence of a key, repeated or
//     written with escapes. A value of another kind than a redaction path
//     expects is redacted as a whole.
//   - What a Shape hides is in no line, nor in what AppendShaped writes.
//   - In a steady state nothing is allocated per event.
package event

// Type is what happened: what a watch calls it, or one of the two types that
// only a journal line has.
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
)

// Origin tells how an event came to be known.
type Origin string

// The origins of a line: first sight, the watch, or a comparison after a gap.
const (
	FromSnapshot Origin = "snapshot"
	FromWatch    Origin = "watch"
	FromRelist   Origin = "relist"
)

// Source is what all lines of one stream share; ClusterUID is on those about the
// stream itself only.
type Source struct {
	Stream, Cluster, Group, Version, Resource, Kind string
	ClusterUID                                      string // of the namespace kube-system; "" leaves it out
}

// Known is what is left of an object that a relist no longer found.
type Known struct {
	Namespace, Name, UID, ResourceVersion string
}

// Count is the outcome of a snapshot or a relist.
type Count struct {
	Added     int64 `json:"added"`
	Modified  int64 `json:"modified"`
	Deleted   int64 `json:"deleted"`
	Unchanged int64 `json:"unchanged"`
}
