package report

import (
	"fmt"
	"slices"
	"strings"

	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/rawjson"
)

// level says how an object fares.
type level int

const (
	absent level = iota - 1 // it is gone
	quiet                   // it says nothing about that
	fine
	busy // on its way
	bad
)

// state is how an object fares from a time on.
type state struct {
	At    int64  `json:"t"` // milliseconds; 0: before the window
	Level level  `json:"l"`
	Text  string `json:"x"`
}

func word(object []byte, pointer string) string {
	return string(rawjson.Unquote(nil, rawjson.Inside(rawjson.At(object, []byte(pointer)))))
}

func number(object []byte, pointer string) (n int, there bool) {
	_, err := fmt.Sscan(string(rawjson.At(object, []byte(pointer))), &n)
	return n, err == nil
}

// negative are the conditions that are bad while they are True.
var negative = []string{"Fail", "Pressure", "Unavailable", "Degraded", "Stalled", "Disrupt", "Unhealthy"}

// stateOf returns how an object fares. What is not ready is bad if it was ready before, and else on its way.
func stateOf(kind string, object []byte, was level) (is state) {
	if len(rawjson.At(object, []byte("/metadata/deletionTimestamp"))) > 0 {
		return state{Level: busy, Text: "Terminating"}
	}
	take := func(l level, text string) {
		if l > is.Level {
			is.Level, is.Text = l, text
		}
	}
	notReady := busy
	if was == fine || was == bad {
		notReady = bad
	}
	phase := word(object, "/status/phase")
	switch {
	case phase == "":
	case rows.IsFailure(phase):
		take(bad, strings.TrimSuffix(phase+": "+word(object, "/status/reason"), ": "))
	case slices.Contains([]string{"Running", "Bound", "Active", "Succeeded", "Available"}, phase):
		take(fine, phase)
	default:
		take(busy, phase)
	}
	if kind == "Pod" && phase != "Succeeded" {
		takeContainers(object, take)
	}
	done := phase == "Succeeded"
	for c := range rawjson.Elements(rawjson.At(object, []byte("/status/conditions"))) {
		v := rawjson.Pick(c, "type", "status", "reason")
		kind, status, reason := string(rawjson.Inside(v[0])), string(rawjson.Inside(v[1])), string(rawjson.Inside(v[2]))
		text := strings.TrimSpace(kind + " " + status + " " + reason)
		isNegative := slices.ContainsFunc(negative, func(n string) bool { return strings.Contains(kind, n) })
		switch {
		case isNegative && status == "True":
			take(bad, text)
		case kind == "Complete" && status == "True":
			take(fine, "Complete")
		case status == "False" && rows.IsFailure(reason), status == "False" && reason == "Unschedulable":
			take(bad, text)
		case kind != "Ready" && kind != "Available" && kind != "Healthy" || done:
		case status == "True":
			take(fine, kind)
		default:
			take(notReady, text)
		}
	}
	for _, counts := range [][2]string{
		{"/spec/replicas", "/status/readyReplicas"}, {"/status/desiredNumberScheduled", "/status/numberReady"},
	} {
		want, there := number(object, counts[0])
		ready, _ := number(object, counts[1])
		if there && rawjson.At(object, []byte("/status")) != nil && ready < want {
			take(busy, fmt.Sprintf("%d of %d ready", ready, want))
		} else if there && want > 0 {
			take(fine, fmt.Sprintf("%d ready", ready))
		}
	}
	if string(rawjson.At(object, []byte("/spec/unschedulable"))) == "true" {
		take(busy, "cordoned")
	}
	return is
}

// takeContainers takes what containers wait for, or have died of.
func takeContainers(object []byte, take func(level, string)) {
	for c := range rawjson.Elements(rawjson.At(object, []byte("/status/containerStatuses"))) {
		for _, how := range []string{"waiting", "terminated"} {
			reason := word(c, "/state/"+how+"/reason")
			switch {
			case reason == "":
			case rows.IsFailure(reason):
				take(bad, reason)
			default:
				take(busy, reason)
			}
		}
	}
}

// restarts returns how often containers of a pod have been restarted, and what the last of them died of.
func restarts(object []byte) (n int, died string) {
	for c := range rawjson.Elements(rawjson.At(object, []byte("/status/containerStatuses"))) {
		count, _ := number(c, "/restartCount")
		if n += count; count > 0 {
			died = word(c, "/lastState/terminated/reason")
		}
	}
	return n, died
}
