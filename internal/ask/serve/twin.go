package serve

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"kubejournal/internal/ask/columns"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
)

// A Kubernetes API server keeps Events once and serves them in two groups, with other names for their fields. A stream
// is of one of them: the other one is made of it.
const (
	coreEvents = "events."
	newEvents  = "events.events.k8s.io"
)

// twins has a resource that was not recorded answered from the one that has the same objects.
func (a apis) twins(recorded func(name string) bool) {
	for _, k := range a {
		other := map[string]string{coreEvents: newEvents, newEvents: coreEvents}[k.name()]
		if other == "" || recorded(k.name()) || !recorded(other) {
			continue
		}
		if i := slices.IndexFunc(a, func(k *kind) bool { return k.name() == other }); i >= 0 {
			k.from = a[i]
		}
	}
}

// recorded returns the kind whose lines a kind is answered from.
func (k *kind) recorded() *kind {
	if k.from != nil {
		return k.from
	}
	return k
}

// recordedField returns the field of a line's object that a field selector means.
func (k *kind) recordedField(label string) string {
	from, to := "regarding.", "involvedObject."
	switch {
	case k.from == nil:
		return label
	case k.from.name() == newEvents:
		if from, to = to, from; label == "reportingComponent" {
			return "reportingController"
		}
	case label == "reportingController":
		return "reportingComponent"
	}
	if rest, ok := strings.CutPrefix(label, from); ok {
		return to + rest
	}
	return label
}

// object returns the object of a line as clients of the kind see it.
func (k *kind) object(l *line.Fields, item *question.Item) object {
	o := objectOf(l, item)
	if k.from == nil {
		return o
	}
	var text []byte
	var err error
	if k.name() == newEvents {
		text, err = newEvent(o.raw)
	} else {
		text, err = coreEvent(o.raw)
	}
	if err != nil {
		o.lacks = "it is no Event: " + err.Error()
		return o
	}
	o.raw, o.apiVersion = text, k.apiVersion()
	return o
}

func newEvent(text []byte) ([]byte, error) {
	var is corev1.Event
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	e := eventsv1.Event{
		ObjectMeta: is.ObjectMeta, EventTime: is.EventTime, ReportingController: is.ReportingController,
		ReportingInstance: is.ReportingInstance, Action: is.Action, Reason: is.Reason, Regarding: is.InvolvedObject,
		Related: is.Related, Note: is.Message, Type: is.Type, DeprecatedSource: is.Source,
		DeprecatedFirstTimestamp: is.FirstTimestamp, DeprecatedLastTimestamp: is.LastTimestamp,
		DeprecatedCount: is.Count,
	}
	if is.Series != nil {
		e.Series = &eventsv1.EventSeries{Count: is.Series.Count, LastObservedTime: is.Series.LastObservedTime}
	}
	return json.Marshal(e)
}

func coreEvent(text []byte) ([]byte, error) {
	var is eventsv1.Event
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	return json.Marshal(columns.CoreEvent(&is))
}
