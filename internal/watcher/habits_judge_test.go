package watcher_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// judge compares lines with what a server really did, by the statements of docs/line.md. It has no code of the
// product's.
type judge struct {
	streams map[string]*judgedStream
	ids     map[string]string // the stream of each id
	faults  []judgedFault
}

// judgedFault is what a line or a status has got wrong.
type judgedFault struct {
	check string // one of the judge's checks
	text  string
}

// The judge's checks.
const (
	trueLines   = "false line"
	uniqueIDs   = "id twice"
	exactReplay = "not exact"
	noWayBack   = "position went back"
	othersGoOn  = "other stream"
	reasonShown = "no reason"
	fewRequests = "too many requests"
	staysAlive  = "daemon ended"
)

// judgedStream is a stream: what it selects, what was written to its resource, and what a reader of its lines knows.
type judgedStream struct {
	name, namespace, label, field string

	writes  map[string][]fake.Write // by namespace/name
	version uint64                  // of the last write
	lies    bool                    // the server says other uids or versions than it has stored
	said    map[string][]fake.Said  // by namespace/name

	known     map[string]invariant.Line // by namespace/name
	shows     map[string]int            // index in writes of what that says, -1 for none
	told      map[string]int            // index in writes of the newest version that was told of, by namespace/name/uid
	gone      map[string]bool           // a DELETED was told, by namespace/name/uid
	forgets   bool                      // in a GAP after which ids are new
	gaps      []string                  // reasons
	aheads    int                       // GAPs that let a position go back
	position  uint64
	suspected uint64 // the position before one that went back, while the GAP may still come; 0 for none
	sawAheads int
}

func newJudge() *judge {
	return &judge{streams: make(map[string]*judgedStream), ids: make(map[string]string)}
}

// watch adds a stream by its name, which says what it selects.
func (j *judge) watch(name string) *judgedStream {
	s := &judgedStream{
		name: name, writes: make(map[string][]fake.Write), said: make(map[string][]fake.Said),
		known: make(map[string]invariant.Line), shows: make(map[string]int), told: make(map[string]int),
		gone: make(map[string]bool),
	}
	_, query, _ := strings.Cut(name, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		panic(err)
	}
	s.namespace, s.label, s.field = values.Get("namespace"), values.Get("labelSelector"), values.Get("fieldSelector")
	j.streams[name] = s
	return s
}

func (j *judge) fault(check, format string, args ...any) {
	j.faults = append(j.faults, judgedFault{check, fmt.Sprintf(format, args...)})
}

// wrote adds what was written to the stream's resource since.
func (s *judgedStream) wrote(history []fake.Write) {
	for _, w := range history {
		s.version = w.Version
		key := placeOf(w.Object)
		s.writes[key] = append(s.writes[key], w)
	}
}

// heard adds what the server has said since.
func (s *judgedStream) heard(said []fake.Said) {
	for _, w := range said {
		key := placeOf(w.Object)
		s.said[key] = append(s.said[key], w)
	}
}

func placeOf(object map[string]any) string {
	m := metaOf(object)
	namespace, _ := m["namespace"].(string)
	name, _ := m["name"].(string)
	return namespace + "/" + name
}

func metaOf(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

// has reports whether a write leaves an object that the stream selects.
func (s *judgedStream) has(w fake.Write) bool {
	m := metaOf(w.Object)
	if w.Deleted || s.namespace != "" && m["namespace"] != s.namespace {
		return false
	}
	if key, value, ok := strings.Cut(s.field, "="); ok && (key != "metadata.name" || m["name"] != value) {
		return false
	}
	if key, value, ok := strings.Cut(s.label, "="); ok {
		labels, _ := m["labels"].(map[string]any)
		return labels[key] == value
	}
	return true
}

// read takes the journal's next lines.
func (j *judge) read(lines []invariant.Line) {
	for i := range lines {
		l := &lines[i]
		s := j.streams[l.Stream]
		if s == nil {
			j.fault(trueLines, "seq %d is of a stream %q that there is not", l.Seq, l.Stream)
			continue
		}
		if l.Type == invariant.Gap {
			s.gap(j, l.Reason)
		}
		if l.Type == invariant.Synced && s.forgets {
			s.forget(j)
			s.forgets = false
			continue
		}
		if _, found := j.ids[l.ID]; found {
			j.fault(uniqueIDs, "%s", s.line(l))
		}
		j.ids[l.ID] = s.name
		switch l.Type {
		case invariant.Added, invariant.Modified:
			s.state(j, l)
		case invariant.Deleted:
			s.deleted(j, l)
		}
	}
}

func (s *judgedStream) line(l *invariant.Line) string {
	return fmt.Sprintf("seq %d: %s %s uid %s at %s", l.Seq, l.Origin, brief(*l), l.UID, l.ResourceVersion)
}

func (s *judgedStream) gap(j *judge, reason string) {
	s.gaps = append(s.gaps, reason)
	switch reason {
	case invariant.Ahead:
		s.aheads++
	case "PositionRefused", invariant.CheckpointLost, invariant.JournalTruncated:
	default:
		return
	}
	s.forget(j)
	s.forgets = true
}

func (s *judgedStream) forget(j *judge) {
	for id, stream := range j.ids {
		if stream == s.name {
			delete(j.ids, id)
		}
	}
	clear(s.told)
}

// state judges a line that says how an object is.
func (s *judgedStream) state(j *judge, l *invariant.Line) {
	key, object := l.Namespace+"/"+l.Name, l.Namespace+"/"+l.Name+"/"+l.UID
	before, known := s.known[key]
	s.known[key] = *l
	at := s.find(l, key)
	s.shows[key] = at
	switch told, before := s.told[object], before; {
	case at < 0:
		j.fault(trueLines, "%s: the server never had that", s.line(l))
		return
	case known && s.another(&before, l):
		j.fault(trueLines, "%s: the reader knows uid %s under that name", s.line(l), before.UID)
	case known && l.Type == invariant.Added && s.lastGap() != invariant.CheckpointLost:
		j.fault(trueLines, "%s: the reader knows it", s.line(l))
	case at+1 < told || at+1 == told && !s.lies:
		j.fault(trueLines, "%s: the reader was told of that or of a newer version", s.line(l))
	}
	s.told[object] = max(s.told[object], at+1)
	delete(s.gone, object)
}

// another reports whether two lines under one name are of two objects. Where the server gives none a uid, the name is
// what counts.
func (s *judgedStream) another(a, b *invariant.Line) bool {
	return a.UID != b.UID && (!s.lies || a.UID != "" && b.UID != "")
}

func (s *judgedStream) lastGap() string {
	if len(s.gaps) == 0 {
		return ""
	}
	return s.gaps[len(s.gaps)-1]
}

// find returns which write to key a line is about, -1 for none.
func (s *judgedStream) find(l *invariant.Line, key string) int {
	var content map[string]any
	if json.Unmarshal(l.Object, &content) != nil {
		return -1
	}
	kind, _ := content["kind"].(string)
	for i, w := range slices.Backward(s.writes[key]) {
		if serialOf(w.Object) != serialOf(content) || !s.has(w) || lineTime(l).Before(w.Time) ||
			kind != "" && kind != w.Object["kind"] {
			continue
		}
		m := metaOf(w.Object)
		if m["uid"] == l.UID && m["resourceVersion"] == l.ResourceVersion && sameContent(w.Object, content, false) {
			return i
		}
		if s.lies && sameContent(w.Object, content, true) && s.hasSaid(key, l, w) {
			return i
		}
	}
	return -1
}

// serialOf is what each write has another of.
func serialOf(object map[string]any) string {
	for _, field := range []string{"spec", "data"} {
		if of, ok := object[field].(map[string]any); ok {
			return fmt.Sprint(of["serial"])
		}
	}
	return ""
}

// hasSaid reports whether the server has given the object of a write the uid and version of a line.
func (s *judgedStream) hasSaid(key string, l *invariant.Line, w fake.Write) bool {
	return slices.ContainsFunc(s.said[key], func(said fake.Said) bool {
		m := metaOf(said.Object)
		uid, _ := m["uid"].(string)
		version, _ := m["resourceVersion"].(string)
		return uid == l.UID && version == l.ResourceVersion && sameContent(w.Object, said.Object, true)
	})
}

// sameContent compares objects without managedFields, apiVersion and kind, and without uid and version if the server
// lies.
func sameContent(a, b map[string]any, lies bool) bool {
	return reflect.DeepEqual(plainContent(a, lies), plainContent(b, lies))
}

func plainContent(o map[string]any, lies bool) any {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var c map[string]any
	if err := json.Unmarshal(data, &c); err != nil {
		panic(err)
	}
	delete(c, "apiVersion")
	delete(c, "kind")
	delete(metaOf(c), "managedFields")
	if lies {
		delete(metaOf(c), "uid")
		delete(metaOf(c), "resourceVersion")
	}
	return c
}

func lineTime(l *invariant.Line) time.Time {
	t, err := time.Parse(time.RFC3339Nano, l.Time)
	if err != nil {
		panic(err)
	}
	return t
}

// deleted judges a line that says that an object is gone.
func (s *judgedStream) deleted(j *judge, l *invariant.Line) {
	key, object := l.Namespace+"/"+l.Name, l.Namespace+"/"+l.Name+"/"+l.UID
	before, known := s.known[key]
	switch {
	case s.gone[object] && !known:
		j.fault(trueLines, "%s: the reader was told so", s.line(l))
	case known && s.another(&before, l):
		j.fault(trueLines, "%s: the reader knows uid %s under that name", s.line(l), before.UID)
	case !s.ended(l, key, object):
		j.fault(trueLines, "%s: it is there", s.line(l))
	}
	delete(s.known, key)
	s.gone[object] = true
}

// ended reports whether an object has gone, or left the selection, before a line and after what was told of it.
func (s *judgedStream) ended(l *invariant.Line, key, object string) bool {
	writes := s.writes[key]
	versions := make(map[string]bool) // that the object had
	for i, w := range writes {
		m := metaOf(w.Object)
		version, _ := m["resourceVersion"].(string)
		mine := s.lies || m["uid"] == l.UID
		if !mine {
			continue
		}
		versions[version] = true
		if i == 0 || !s.has(writes[i-1]) || s.has(w) || lineTime(l).Before(w.Time) || i+1 < s.told[object] {
			continue
		}
		if s.lies || versions[l.ResourceVersion] || s.saidGone(key, l) {
			s.told[object] = max(s.told[object], i+1)
			return true
		}
	}
	// What the server says of a name is what counts where its objects lie.
	return s.lies && (len(writes) > 0 && metaOf(writes[len(writes)-1].Object)["uid"] != l.UID ||
		slices.ContainsFunc(s.said[key], func(said fake.Said) bool { return metaOf(said.Object)["uid"] != l.UID }))
}

// saidGone reports whether the server has sent the deletion with the version that a line has.
func (s *judgedStream) saidGone(key string, l *invariant.Line) bool {
	return slices.ContainsFunc(s.said[key], func(said fake.Said) bool {
		m := metaOf(said.Object)
		return said.Type == invariant.Deleted && m["uid"] == l.UID && m["resourceVersion"] == l.ResourceVersion
	})
}

// at takes the position that a stream shows after the lines that were read.
func (j *judge) at(stream, position string) {
	s := j.streams[stream]
	p, err := strconv.ParseUint(position, 10, 64)
	if err != nil && position != "" {
		s.position, s.suspected = 0, 0 // a list gave it; what is no number is neither before nor after another
	}
	if err != nil || p == 0 {
		return
	}
	if s.suspected > 0 {
		if s.aheads == s.sawAheads {
			j.fault(noWayBack, "%s: from %d to %d", stream, s.suspected, s.position)
		}
		s.suspected = 0
	}
	if p < s.position && s.aheads == s.sawAheads {
		s.suspected = s.position // the GAP that allows it may not be in the journal yet
	} else if p != s.position { // a GAP allows it once, whenever its list is complete
		s.sawAheads = s.aheads
	}
	s.position = p
}

// replay compares what a reader of the stream's lines knows with what there is, and returns the first difference.
func (s *judgedStream) replay() string {
	live := 0
	for _, key := range slices.Sorted(maps.Keys(s.writes)) {
		last := s.writes[key][len(s.writes[key])-1]
		l, known := s.known[key]
		m := metaOf(last.Object)
		switch {
		case !s.has(last) && known:
			return key + " is gone"
		case !s.has(last):
			continue
		case !known:
			return key + " is there"
		case !s.lies && (m["uid"] != l.UID || m["resourceVersion"] != l.ResourceVersion):
			return fmt.Sprintf("%s is at %s", key, m["resourceVersion"])
		case s.lies && s.shows[key] != len(s.writes[key])-1:
			return fmt.Sprintf("%s is at %s", key, m["resourceVersion"])
		}
		live++
	}
	if live != len(s.known) {
		return "something is known that never was"
	}
	return ""
}
