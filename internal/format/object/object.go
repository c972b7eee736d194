package object

import "kubejournal/internal/format/fieldpath"

// Object is one scanned object. Its slices are parts of the bytes given to Scan or of scratch space of its own, and
// valid until those change or the Object is scanned into again. An Object is best used over and over: it keeps its
// space.
type Object struct {
	// Raw is the object itself; a compact copy in valid UTF-8 where the bytes given to Scan were not that.
	Raw []byte

	Namespace, Name, UID, ResourceVersion []byte // decoded
	Kind                                  []byte // decoded; empty where the object does not say, as most items of lists
	Generation                            int64
	InitialEventsEnd                      bool // the bookmark that ends streamed initial events

	// Unusable is set by Identify: nothing is known but the strings above, and Raw is made of them.
	Unusable *Unusable

	have    captures
	spans   [captureCount]span
	writers []writer // the entries of managedFields, with the capture managed
	edits   []edit
	mayCopy bool     // some of the edits are of annotations on which redactCopies has to decide
	noCopy  []uint64 // hashes of what redactCopies has found no copy in, each in a slot of its own; nil until the first
	valid   []byte   // backs Raw where it was not UTF-8
	compact []byte   // backs Raw where it was not compact
	decoded []byte   // backs strings that had escapes
}

// span is a part of Raw; of a string, what is between the quotes.
type span struct{ start, end int }

// edit takes a part of Raw out of the line.
type edit struct {
	span
	redact bool // put "REDACTED" there
	copy   copyOf
}

// capture is a value that a line repeats outside of the object.
type capture uint8

const (
	none capture = iota
	metadata
	namespace
	name
	uid
	resourceVersion
	generation
	initialEventsEnd
	objectKind

	created
	deletion
	deletionGrace
	managed // managedFields: its entries have been noted
	manager // of the entry of managedFields that is being scanned
	subresource
	apiVersion
	written
	ownedFields

	reason // of a Kubernetes Event
	message
	eventType // or of a watch event, for a Skimmer
	count
	firstTime
	lastTime
	eventTime
	seriesCount
	seriesLast
	reporter
	sourceComponent
	regardingKind
	regardingNamespace
	regardingName
	regardingUID

	captureCount
)

// captures is a set of capture.
type captures uint64

func (c capture) bit() captures { return 1 << c &^ 1 }

const (
	entry   = 1<<manager | 1<<subresource | 1<<apiVersion | 1<<written | 1<<ownedFields
	objects = 1<<metadata | 1<<ownedFields
	numbers = 1<<generation | 1<<deletionGrace | 1<<count | 1<<seriesCount
	texts   = ^captures(objects | numbers | 1<<managed)
	// hideable is what a redaction of its source hides: all but what Shape.Validate lets nobody redact and what no
	// line shows.
	hideable = ^captures(1<<metadata | 1<<namespace | 1<<name | 1<<uid | 1<<resourceVersion | 1<<generation |
		1<<initialEventsEnd | 1<<objectKind)
)

// captureMetadata marks what is wanted of any object.
func captureMetadata(root *node) {
	root.want(objectKind, "kind")
	meta := root.want(metadata, "metadata")
	captureNames(meta)
	meta.want(generation, "generation")
	meta.want(initialEventsEnd, "annotations", "k8s.io/initial-events-end")
	meta.want(created, "creationTimestamp")
	meta.want(deletion, "deletionTimestamp")
	meta.want(deletionGrace, "deletionGracePeriodSeconds")

	each := meta.want(managed, "managedFields").reach([]fieldpath.Step{{Each: true}}, false)
	each.want(manager, "manager")
	each.want(subresource, "subresource")
	each.want(apiVersion, "apiVersion")
	each.want(written, "time")
	each.want(ownedFields, "fieldsV1")
}

// captureNames marks what names an object and its version in its metadata.
func captureNames(meta *node) {
	meta.want(name, "name")
	meta.want(namespace, "namespace")
	meta.want(uid, "uid")
	meta.want(resourceVersion, "resourceVersion")
}

// captureEvent marks what is wanted of a Kubernetes Event of the given group.
func captureEvent(root *node, group string) {
	about := "regarding"
	if group == "" {
		about = "involvedObject"
		root.want(message, "message")
		root.want(count, "count")
		root.want(firstTime, "firstTimestamp")
		root.want(lastTime, "lastTimestamp")
		root.want(reporter, "reportingComponent")
		root.want(sourceComponent, "source", "component")
	} else {
		root.want(message, "note")
		root.want(count, "deprecatedCount")
		root.want(firstTime, "deprecatedFirstTimestamp")
		root.want(lastTime, "deprecatedLastTimestamp")
		root.want(reporter, "reportingController")
		root.want(sourceComponent, "deprecatedSource", "component")
	}
	root.want(reason, "reason")
	root.want(eventType, "type")
	root.want(eventTime, "eventTime")
	root.want(seriesCount, "series", "count")
	root.want(seriesLast, "series", "lastObservedTime")
	root.want(regardingKind, about, "kind")
	root.want(regardingNamespace, about, "namespace")
	root.want(regardingName, about, "name")
	root.want(regardingUID, about, "uid")
}
