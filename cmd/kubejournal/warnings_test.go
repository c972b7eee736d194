package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/object"
	"kubejournal/test/journaltest"
)

func eventAbout(name, uid, kind, about, aboutUID, reason, of string) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"uid":%q},"involvedObject":{"kind":%q,"namespace":"shop","name":%q,"uid":%q},`+
		`"reason":%q,"message":"m","type":%q}`, name, uid, kind, about, journaltest.UID(aboutUID), reason, of)
}

// --warnings has the Events of type Warning about the objects that are named, and with --related about theirs.
func TestHistoryWarnings(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Now().Add(-time.Minute))
	pods, sets, events := j.Stream("pods", "Pod"), j.Stream("replicasets.apps", "ReplicaSet"), j.Stream("events", "Event")
	for _, s := range []*journaltest.Stream{pods, sets, events} {
		s.Snapshot()
		s.Synced()
	}
	j.Now = j.Now.Add(time.Second)
	events.Put("kubelet", eventAbout("early", "e0", "Pod", "web-1", "b1", "FailedScheduling", "Warning")) // before its pod
	sets.Put("kubectl", `{"metadata":{"namespace":"shop","name":"web","uid":"a1"}}`)
	pods.Put("kubectl", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web-1","uid":"b1","ownerReferences":[{"apiVersion":"apps/v1",`+
		`"kind":"ReplicaSet","name":"web","uid":%q,"controller":true}]}}`, journaltest.UID("a1")))
	pods.Put("kubectl", `{"metadata":{"namespace":"shop","name":"db","uid":"b2"}}`)
	pods.Put("kubectl", `{"metadata":{"namespace":"shop","name":"quiet","uid":"b3"}}`)
	events.Put("kubelet", eventAbout("pull", "e1", "Pod", "web-1", "b1", "BackOff", "Warning"))
	events.Put("kubelet", eventAbout("started", "e2", "Pod", "web-1", "b1", "Started", "Normal"))
	events.Put("kubelet", eventAbout("ready", "e3", "Pod", "db", "b2", "Unhealthy", "Warning"))
	events.Put("kubelet", eventAbout("made", "e4", "ReplicaSet", "web", "a1", "SuccessfulCreate", "Normal"))
	events.Delete("e1")
	confirmNow(t, j, path, pods, sets, events)

	reasons := []string{"FailedScheduling", "BackOff", "Unhealthy", "Started", "SuccessfulCreate", "kubectl"}
	for _, c := range []struct {
		args   string
		status int
		want   []string // of the reasons
		note   string
	}{
		{"--warnings", 0, []string{"FailedScheduling", "BackOff", "Unhealthy"}, ""},
		{"--warnings -n other", 1, nil, "other"},
		{"events -n shop --warnings", 0, []string{"FailedScheduling", "BackOff", "Unhealthy"}, ""},
		{"pods --warnings -A", 0, []string{"FailedScheduling", "BackOff", "Unhealthy"}, ""},
		{"pod/web-1 -n shop --warnings", 0, []string{"FailedScheduling", "BackOff"}, ""},
		{"pod/db rs/web -n shop --warnings", 0, []string{"Unhealthy"}, ""},
		{"rs/web --warnings", 0, nil, "none of 1 version of Events is a Warning; --related has those about what belongs to it too\n"},
		{"rs/web --warnings --related", 0, []string{"FailedScheduling", "BackOff"}, ""},
		{"pod/quiet --warnings", 0, nil, "the journal has no Event about that; --related has those about what belongs to it too\n"},
		{"pod/web-1 --warnings --deleted", 0, []string{"BackOff"}, ""},
		{"--warnings --by kube-scheduler", 0, nil, "none of "},
		{"--warnings --since seq:8", 0, []string{"BackOff", "Unhealthy"}, ""},
		{"pod/web-1 --warnings --grep m", 2, nil, "--warnings does not go with --grep"},
		{"pod/nothing --warnings", 1, nil, "nothing"},
	} {
		for _, format := range []string{"text", "json"} {
			args := append([]string{"history", "-o", format, "--journal", path}, strings.Fields(c.args)...)
			status, stdout, stderr := execute(t, args...)
			if format == "json" && strings.Contains(c.args, "--by") {
				continue
			}
			var got []string
			for _, reason := range reasons {
				if strings.Contains(stdout, reason) {
					got = append(got, reason)
				}
			}
			if format == "json" && c.args == "pod/web-1 --warnings --deleted" {
				got = c.want // a line that is only the deletion
			}
			if status != c.status || !slices.Equal(got, c.want) || !strings.Contains(stderr, c.note) {
				t.Errorf("%s: status %d, %q\n%s%s", args, status, got, stdout, stderr)
			}
		}
	}
	status, stdout, _ := execute(t, "history", "pod/web-1", "--warnings", "--journal", path)
	if lines := strings.Count(stdout, "BackOff"); status != 0 || lines != 1 {
		t.Errorf("status %d, the deletion of an Event is shown\n%s", status, stdout)
	}
}

// Without Events, or without what is in them, there may have been Warnings.
func TestHistoryWarningsDoubts(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	for _, recorded := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		j := journaltest.New(t, path, time.Now().Add(-time.Minute))
		streams := []*journaltest.Stream{j.Stream("pods", "Pod")}
		want := "no stream was watched that has such objects"
		if recorded {
			streams = append(streams, j.Stream("events", "Event"))
			streams[1].Payload = object.MetadataOnly
			want = "1 Event version may be a Warning: the line does not have the type\n"
		}
		for _, s := range streams {
			s.Snapshot()
			s.Synced()
		}
		streams[0].Put("kubectl", `{"metadata":{"namespace":"shop","name":"web-1","uid":"b1"}}`)
		if recorded {
			streams[1].Put("kubelet", eventAbout("pull", "e1", "Pod", "web-1", "b1", "BackOff", "Warning"))
		}
		confirmNow(t, j, path, streams...)
		args := []string{"history", "--warnings", "--journal", path}
		if !recorded {
			args = append(args, "pod/web-1")
		}
		if status, stdout, stderr := execute(t, args...); status != 3 || !strings.Contains(stderr, want) {
			t.Errorf("recorded %v: status %d\n%s%s", recorded, status, stdout, stderr)
		}
	}
}

// Objects and the Events about them may be in two journals.
func TestHistoryWarningsJournals(t *testing.T) {
	clearEnv(t)
	t.Setenv("PAGER", "")
	begin := time.Now().Add(-time.Minute)
	args := []string{"history", "pod/web-1", "--warnings"}
	for _, name := range []string{"events", "pods"} {
		path := filepath.Join(t.TempDir(), name+".jsonl")
		j := journaltest.New(t, path, begin)
		s := j.Stream(name, map[string]string{"pods": "Pod", "events": "Event"}[name])
		s.Snapshot()
		s.Synced()
		if name == "pods" {
			s.Put("kubectl", `{"metadata":{"namespace":"shop","name":"web-1","uid":"b1"}}`)
		} else {
			s.Put("kubelet", eventAbout("pull", "e1", "Pod", "web-1", "b1", "BackOff", "Warning"))
			s.Put("kubelet", eventAbout("other", "e2", "Pod", "web-2", "b2", "Unhealthy", "Warning"))
		}
		confirmNow(t, j, path, s)
		args = append(args, "--journal", path)
	}
	status, stdout, stderr := execute(t, args...)
	if status != 0 || !strings.Contains(stdout, "BackOff") || strings.Contains(stdout, "Unhealthy") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}
