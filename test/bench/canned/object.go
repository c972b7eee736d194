package canned

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/eventtest"
)

// Kind is a kind of object that a server sends. All have managedFields, of
// pods about a third.
type Kind struct {
	Name     string // as it stands in a benchmark's name
	Resource schema.GroupVersionResource
	Kind     string
	Object   func(i int) []byte // compact JSON
}

// Kinds are the objects of the issue: pods, config maps and Events.
func Kinds() []Kind {
	pods := func(name string, size int) Kind {
		return Kind{name, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod",
			func(i int) []byte { return eventtest.Pod(size, i) }}
	}
	configMaps := func(name string, size int) Kind {
		return Kind{name, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap",
			func(i int) []byte { return eventtest.ConfigMap(size, i) }}
	}
	return []Kind{
		pods("pod-2KB", 2000), pods("pod-6KB", 6000), pods("pod-60KB", 60000),
		configMaps("configmap-1KB", 1000), configMaps("configmap-200KB", 200000),
		{"event-1KB", schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", eventtest.Event},
	}
}

// Find returns the kind of a name.
func Find(name string) (Kind, error) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("find kind: there is no %q", name)
}

// Load is what a server sends.
type Load struct {
	Kind    string  // name of a Kind
	Objects int     // how many there are; the events go round them
	Events  int     // ADDED the first time that an object comes, then MODIFIED; with versions that rise, from 1001 on
	Rate    float64 // events per second, each sent by itself; 0: all at once
}

const (
	firstVersion = 1001   // of the first event
	listVersion  = "1000" // of every list: what the events begin after
)

// heads are how events begin: of an object that comes for the first time, and of one that has come before.
var heads = [2]string{`{"type":"ADDED","object":`, `{"type":"MODIFIED","object":`}

// stream returns the watch response of a load, one compact line for each event
// as an API server sends it, and where each ends.
func (l Load) stream() ([]byte, []int, error) {
	kind, err := Find(l.Kind)
	if err != nil {
		return nil, nil, err
	}
	if l.Objects < 1 || l.Events < 1 {
		return nil, nil, fmt.Errorf("make events: %d of %d objects", l.Events, l.Objects)
	}
	objects := make([][2][]byte, min(l.Objects, l.Events))
	for i := range objects {
		if objects[i], err = aroundVersion(kind.Object(i)); err != nil {
			return nil, nil, err
		}
	}
	size := len(heads[1]) + len(objects[0][0]) + len(objects[0][1]) + 32
	b, ends := make([]byte, 0, l.Events*size), make([]int, 0, l.Events)
	for i := range l.Events {
		o := objects[i%len(objects)]
		b = append(b, heads[min(i/len(objects), 1)]...)
		b = append(b, o[0]...)
		b = strconv.AppendInt(b, int64(firstVersion+i), 10)
		b = append(b, o[1]...)
		b = append(b, '}', '\n')
		ends = append(ends, len(b))
	}
	return b, ends, nil
}

// aroundVersion takes the version out of an object's metadata. With a place for
// the time of sending in its stead, if the object has annotations.
func aroundVersion(o []byte) ([2][]byte, error) {
	const key = `"resourceVersion":"`
	i := bytes.Index(o, []byte(key))
	if i < 0 {
		return [2][]byte{}, fmt.Errorf("find version: none in %.80q", o)
	}
	i += len(key)
	end := bytes.IndexByte(o[i:], '"')
	before, after := o[:i], o[i+end:]
	if a := bytes.Index(after, []byte(annotations)); a >= 0 {
		a += len(annotations)
		after = bytes.Join([][]byte{after[:a], []byte(stampKey + noStamp + `",`), after[a:]}, nil)
	}
	return [2][]byte{before, after}, nil
}

// Objects with annotations carry in one of them when they were sent, in
// nanoseconds of the Unix time.
const (
	annotations = `"annotations":{`
	stampKey    = `"example.com/sent-ns":"`
	noStamp     = "0000000000000000000"
)

// stamp writes the present time into an event.
func stamp(frame []byte) {
	if i := bytes.Index(frame, []byte(stampKey)); i >= 0 {
		copy(frame[i+len(stampKey):], strconv.FormatInt(time.Now().UnixNano(), 10))
	}
}

// Sent tells when the server sent the event that a line is about; false where
// the line does not say.
func Sent(line []byte) (time.Time, bool) {
	i := bytes.Index(line, []byte(stampKey))
	if i < 0 || len(line) < i+len(stampKey)+len(noStamp) {
		return time.Time{}, false
	}
	i += len(stampKey)
	n, err := strconv.ParseInt(string(line[i:i+len(noStamp)]), 10, 64)
	return time.Unix(0, n), err == nil && n > 0
}
