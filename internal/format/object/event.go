// Package object turns what an API server sends into journal lines, from raw JSON to raw JSON: no object is ever
// decoded into a tree.
//
// A Renderer makes the lines: Scan finds in an object's bytes what a line needs and what is to be cut, AppendLine
// writes the line. An object that Scan refuses, or that is too large to be held (Skimmer), is not lost: Identify finds
// what names it, and its line says why it has no object.
//
// JSON is read by internal/format/rawjson. What changed between two versions of an object, which a line may say beside
// it, and the store of previous versions are in internal/format/changes.
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
package object

// Source is what all lines of one stream share; ClusterUID is on those about the stream itself only.
type Source struct {
	Stream, Cluster, Group, Version, Resource, Kind string
	ClusterUID                                      string // of the namespace kube-system; "" leaves it out
}

// Known is an object at the version that a stream has seen last.
type Known struct {
	Namespace, Name, UID, ResourceVersion string
	// Doubtful says that the line about this version may be lost: the object is written again at the next list.
	Doubtful bool
	// Withheld says that the stream's filter has held this version back.
	Withheld bool
}
