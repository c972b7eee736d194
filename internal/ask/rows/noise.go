package rows

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// Noise is a class of versions that happen all the time and say little; see NoiseOf.
type Noise int

// The classes. Of a version to which several apply it is the first.
const (
	NoNoise Noise = iota
	StatusOnly
	EventObject
	RevisionOnly // annotations that controllers and kubectl keep for themselves
	Heartbeat
	MetadataOnly // managedFields, resourceVersion, generation and observedGeneration
	Owned        // of an object that one that is shown owns; for callers, who know, as are the next ones
	FirstSight   // of an object that existed before its stream began
	QuietGap     // no version, but a gap after which nothing had changed
	Gap          // likewise one after which something had, where rows are about less than its stream
	noiseClasses
)

// NoiseOf returns which class of noise a version is, if all of its changes are noise. operations are the changes as in
// a line, l's own or those that were found later; nil where they are not known, and then nothing is noise but an Event.
//
// Events are noise. Of all else only MODIFIED can be, unless its line is truncated, and changes are noise
//
//   - of managedFields, resourceVersion, generation and observedGeneration;
//   - of the annotations deployment.kubernetes.io/*, autoscaling.alpha.kubernetes.io/*, last-applied-configuration and
//     last-change-trigger-time;
//   - of a Lease's renewTime, of the lastHeartbeatTime and lastProbeTime of conditions, and of the annotation
//     control-plane.alpha.kubernetes.io/leader, if that names the same holder;
//   - of a status, if nobody would have to hear of it.
//
// An operator wants to hear of a status when an object turns or fails, so these are no noise, wherever they are in it:
//
//   - another phase, status, state or health than before: a Pod's Running to Failed, Ready True to False and back, an
//     Application's Healthy to Degraded; but not of Initialized, ContainersReady and PodReadyToStartContainers, which
//     are steps to Ready. The first value is news only if it is a failure;
//   - a condition that comes or goes while True, such as Complete, Failed, ReplicaFailure or DisruptionTarget; but not
//     those that every object gets, such as Initialized;
//   - a reason that is a failure, where none was before: Unschedulable, ProgressDeadlineExceeded, ErrImagePull,
//     CrashLoopBackOff, OOMKilled. ErrImagePull and ImagePullBackOff take turns, and only the first is news;
//   - a restartCount or a count of failed pods that rises.
//
// What is left is noise: counts of replicas, times, addresses, images, messages, and the steps of a start.
func NoiseOf(l *line.Fields, operations []byte) Noise {
	resource, group := string(l.Text(line.FieldResource)), string(l.Text(line.FieldGroup))
	switch {
	case l.AboutStream():
		return NoNoise
	case resource == "events" && (group == "" || group == "events.k8s.io"):
		return EventObject
	case l.Type() != line.Modified || len(operations) == 0 || l.Incomplete():
		return NoNoise
	}
	lease := resource == "leases" && group == "coordination.k8s.io"
	class, was, is := MetadataOnly, facts{}, facts{}
	for operation := range rawjson.Elements(operations) {
		v := rawjson.Pick(operation, "path", "old", "value")
		path := rawjson.Inside(v[0])
		one := noiseAt(path, v[1], v[2])
		if lease && string(path) == "/spec/renewTime" {
			one = Heartbeat
		}
		if one == NoNoise {
			return NoNoise
		}
		if class = min(class, one); one == StatusOnly && !isStep(l.Object, path) {
			was.addAt(path, v[1])
			is.addAt(path, v[2])
		}
	}
	if is.news(was) {
		return NoNoise
	}
	return class
}

// noiseAt returns the class of a change, regardless of what a status says.
func noiseAt(path, old, now []byte) Noise {
	if status, ok := bytes.CutPrefix(path, []byte("/status")); ok && (len(status) == 0 || status[0] == '/') {
		switch _, field, _ := conditionOf(path); {
		case string(status) == "/observedGeneration":
			return MetadataOnly
		case string(field) == "lastHeartbeatTime", string(field) == "lastProbeTime":
			return Heartbeat
		}
		return StatusOnly
	}
	if rankOf(path) == hidden {
		return MetadataOnly
	}
	key, ok := bytes.CutPrefix(path, []byte("/metadata/annotations"))
	switch {
	case !ok:
		return NoNoise
	case len(key) > 0 && key[0] == '/':
		return noiseOfAnnotation(fieldpath.Unescaped(key[1:]), old, now)
	}
	class := NoNoise // all annotations at once
	for _, all := range [][]byte{old, now} {
		for key := range rawjson.Members(all) {
			if class = noiseOfAnnotation(key, nil, nil); class == NoNoise {
				return NoNoise
			}
		}
	}
	return class
}

func noiseOfAnnotation(key, old, now []byte) Noise {
	switch string(key) {
	case "kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time":
		return RevisionOnly
	case "control-plane.alpha.kubernetes.io/leader":
		if holder := holderOf(now); holder != "" && holder == holderOf(old) {
			return Heartbeat
		}
		return NoNoise
	}
	if bytes.HasPrefix(key, []byte("deployment.kubernetes.io/")) ||
		bytes.HasPrefix(key, []byte("autoscaling.alpha.kubernetes.io/")) {
		return RevisionOnly
	}
	return NoNoise
}

// holderOf returns who holds the lease that an annotation has as JSON.
func holderOf(annotation []byte) string {
	v := rawjson.Pick(rawjson.Unquote(nil, rawjson.Inside(annotation)), "holderIdentity")
	return string(v[0])
}

// facts are what an operator wants to hear of in a status, by their paths, with the keys of list elements in the place
// of their positions.
type facts map[string]string

// addAt adds what is in the value of an operation on path.
func (f facts) addAt(path, value []byte) {
	if i := bytes.LastIndexByte(path, '/'); rawjson.IsIndex(path[i+1:]) {
		f.addElement(string(path[:i]), string(path[i+1:]), value)
		return
	}
	f.add(string(path), value)
}

// addElement adds what is in an element of a list.
func (f facts) addElement(list, index string, element []byte) {
	if key := changes.Key(element); key != nil {
		index = string(key)
	}
	f.add(list+"/"+index, element)
}

func (f facts) add(path string, value []byte) {
	const longest = 1 << 10
	if len(value) == 0 || len(path) > longest {
		return
	}
	switch last := path[strings.LastIndexByte(path, '/')+1:]; value[0] {
	case '{':
		if last == "lastState" { // what a container's state was
			return
		}
		v := rawjson.Pick(value, "type", "status")
		kind := string(rawjson.Inside(v[0]))
		step, usual := everyday[kind]
		if step {
			return
		}
		if kind != "" && string(v[1]) == `"True"` && !usual {
			f[path+"/type"] = kind
		}
		for key, member := range rawjson.Members(value) {
			f.add(path+"/"+string(key), member)
		}
	case '[':
		i := 0
		for element := range rawjson.Elements(value) {
			f.addElement(path, strconv.Itoa(i), element)
			i++
		}
	case '"':
		switch last {
		case "phase", "status", "state", "health", "reason":
			f[path] = string(rawjson.Inside(value))
		}
	default:
		if (last == "restartCount" || last == "failed") && string(value) != "0" {
			f[path] = string(value)
		}
	}
}

// everyday are the conditions that an object gets as it starts, whose coming is no news. Nor is it if one changes that
// is true here: it is a step to Ready.
var everyday = map[string]bool{
	"Ready": false, "Available": false, "Progressing": false, "PodScheduled": false, "Reconciling": false,
	"Synced": false, "Initialized": true, "ContainersReady": true, "PodReadyToStartContainers": true,
}

// isStep reports whether path is a field of a condition that is a step to Ready.
func isStep(object, path []byte) bool {
	condition, field, ok := conditionOf(path)
	if !ok || len(field) == 0 {
		return false
	}
	v := rawjson.Pick(rawjson.At(object, condition), "type")
	return everyday[string(rawjson.Inside(v[0]))]
}

// news reports whether something turned or failed since was.
func (f facts) news(was facts) bool {
	for path, now := range f {
		old, had := was[path]
		switch path[strings.LastIndexByte(path, '/')+1:] {
		case "type":
			if !had {
				return true
			}
		case "reason":
			if IsFailure(now) && !IsFailure(old) {
				return true
			}
		case "restartCount", "failed":
			if len(now) > len(old) || len(now) == len(old) && now > old {
				return true
			}
		default:
			if had && now != old || !had && IsFailure(now) {
				return true
			}
		}
	}
	for path := range was {
		if _, has := f[path]; !has && strings.HasSuffix(path, "/type") {
			return true
		}
	}
	return false
}

// failures are words in the reasons of Kubernetes' own components and of many others.
var failures = []string{
	"BackOff", "Backoff", "Cannot", "Crash", "Degraded", "Denied", "Err", "Evict", "Exceeded", "Fail",
	"Forbidden", "Invalid", "Kill", "Lost", "Preempt", "Unhealthy", "Unreachable", "Unschedulable",
}

// IsFailure reports whether a reason or phase says that something went wrong.
func IsFailure(word string) bool {
	for _, failure := range failures {
		if strings.Contains(word, failure) {
			return true
		}
	}
	return false
}

// Hidden counts the versions that are not shown, by their class.
type Hidden [noiseClasses]int

// names are the classes in the singular, and in the plural.
var names = [noiseClasses][2]string{
	StatusOnly:   {"status-only", "status-only"},
	EventObject:  {"Event", "Events"},
	RevisionOnly: {"revision-only", "revision-only"},
	Heartbeat:    {"heartbeat", "heartbeats"},
	MetadataOnly: {"metadata-only", "metadata-only"},
	Owned:        {"of an owned object", "of owned objects"},
	FirstSight:   {"object that existed at first sight", "objects that existed at first sight"},
	QuietGap:     {"gap behind which nothing had changed", "gaps behind which nothing had changed"},
	Gap:          {"gap with differences", "gaps with differences"},
}

// keys are the classes for programs.
var keys = [noiseClasses]string{
	StatusOnly: "statusOnly", EventObject: "events", RevisionOnly: "revisionOnly", Heartbeat: "heartbeats",
	MetadataOnly: "metadataOnly", Owned: "owned", FirstSight: "firstSight", QuietGap: "quietGaps", Gap: "gaps",
}

// ByClass returns what is not shown for programs, by class; those of which there is nothing are left out.
func (h *Hidden) ByClass() map[string]int {
	all := make(map[string]int)
	for class, n := range h {
		if n > 0 {
			all[keys[class]] = n
		}
	}
	return all
}

// String returns what is not shown in one line; empty where all is.
func (h *Hidden) String() string {
	var parts []string
	for class, name := range names {
		if n := h[class]; n > 0 && Noise(class) != NoNoise {
			parts = append(parts, fmt.Sprintf("%d %s", n, name[min(n-1, 1)]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "hidden: " + strings.Join(parts, ", ") + " (--all shows them)"
}
