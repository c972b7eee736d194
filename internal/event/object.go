package event

// Object is one scanned object. Its slices are parts of the bytes given to Scan or of scratch space of its own, and
// valid until those change or the Object is scanned into again. An Object is best used over and over: it keeps its
// space.
type Object struct {
	// Raw is the object itself; a compact copy in valid UTF-8 where the bytes given to Scan were not that.
	Raw []byte

	Namespace, Name, UID, ResourceVersion []byte // decoded
	Generation                            int64
	InitialEventsEnd                      bool // the bookmark that ends streamed initial events

	// Unusable is set by Identify: nothing is known but the strings above, and Raw is made of them.
	Unusable *Unusable

	have    captures
	spans   [captureCount]span
	edits   []edit
	valid   []byte // backs Raw where it was not UTF-8
	compact []byte // backs Raw where it was not compact
	decoded []byte // backs strings that had escapes
}

// span is a part of Raw; of a string, what is between the quotes.
type span struct{ start, end int }

// edit takes a part of Raw out of the line.
type edit struct {
	span
	redact bool // put "REDACTED" there
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

	manager // of the newest entry of managedFields
	subresource
	written
	entryManager // of the entry being scanned, in the same order
	entrySubresource
	entryTime

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
type captures uint32

func (c capture) bit() captures { return 1 << c &^ 1 }

const (
	newestEntry = 1<<manager | 1<<subresource | 1<<written
	entry       = 1<<entryManager | 1<<entrySubresource | 1<<entryTime
	objects     = 1 << metadata
	numbers     = 1<<generation | 1<<count | 1<<seriesCount
	texts       = ^captures(objects | numbers)
	// hideable is what a redaction of its source hides: all but what Shape.Validate lets nobody redact and what no
	// line shows.
	hideable = ^captures(1<<metadata | 1<<namespace | 1<<name | 1<<uid | 1<<resourceVersion | 1<<generation | 1<<initialEventsEnd)
)

// captureMetadata marks what is wanted of any object.
func captureMetadata(root *node) {
	meta := root.want(metadata, "metadata")
	captureNames(meta)
	meta.want(generation, "generation")
	meta.want(initialEventsEnd, "annotations", "k8s.io/initial-events-end")

	fields := meta.reach(keys("managedFields"), false)
	fields.entries = true
	each := fields.reach([]step{{each: true}}, false)
	each.want(entryManager, "manager")
	each.want(entrySubresource, "subresource")
	each.want(entryTime, "time")
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
