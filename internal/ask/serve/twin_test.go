package serve

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/ask/argument"
	"kubejournal/test/journaltest"
)

// Events are served in both of their groups, as a Kubernetes API server does, whichever of them was recorded.
func TestEventsOfBothGroups(t *testing.T) {
	const (
		older = `{"metadata":{"name":"web.1","namespace":"a","uid":"g1","creationTimestamp":null},"involvedObject":{"kind":"Pod","name":"web"},"reason":"Killing","message":"stopped","source":{"component":"kubelet"},"firstTimestamp":"2026-11-22T12:00:00Z","lastTimestamp":"2026-11-22T12:00:00Z","count":3,"type":"Normal","eventTime":null,"reportingComponent":"kubelet","reportingInstance":"n1"}`
		newer = `{"metadata":{"name":"web.1","namespace":"a","uid":"g1"},"eventTime":null,"reportingController":"kubelet","reportingInstance":"n1","reason":"Killing","regarding":{"kind":"Pod","name":"web"},"note":"stopped","type":"Normal","deprecatedSource":{"component":"kubelet"},"deprecatedFirstTimestamp":"2026-11-22T12:00:00Z","deprecatedLastTimestamp":"2026-11-22T12:00:00Z","deprecatedCount":3}`
	)
	for stream, object := range map[string]string{"events": older, "events.events.k8s.io": newer} {
		j := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon)
		events := j.Stream(stream, "Event")
		events.Snapshot()
		events.Put("", object)
		events.Synced()
		j.Now = minute(1)
		events.Put("", strings.ReplaceAll(strings.ReplaceAll(object, "web", "db"), "g1", "g2"))
		j.Now = minute(2)
		j.Confirm(false, events)
		s := serveWith(t, Options{Paths: []string{j.Path}, At: argument.Moment{Time: minute(1.5)}})
		for _, of := range []struct{ path, object, name, controller string }{
			{"/api/v1", "involvedObject", "involvedObject.name", "reportingComponent"},
			{"/apis/events.k8s.io/v1", "regarding", "regarding.name", "reportingController"},
		} {
			path := of.path + "/namespaces/a/events"
			if got := answered(t, s, 200, path+"/web.1"); !strings.Contains(got, `"`+of.object+`":{"kind":"Pod","name":"web"}`) {
				t.Errorf("%s of %s: %s", path, stream, got)
			}
			for query, want := range map[string][]string{
				of.name + "=web": {"a/web.1"}, of.controller + "=kubelet": {"a/db.1", "a/web.1"}, of.controller + "=other": nil, "reason=Killing,type=Normal": {"a/db.1", "a/web.1"},
			} {
				if got, _ := names(t, answered(t, s, 200, path+"?fieldSelector="+strings.ReplaceAll(query, "=", "%3D"))); !slices.Equal(got, want) {
					t.Errorf("%s of %s, %s: %q", path, stream, query, got)
				}
			}
			table := answered(t, s, 200, path, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
			if !strings.Contains(table, `"Killing","pod/web"`) || !strings.Contains(table, `"stopped"`) {
				t.Errorf("%s of %s: %s", path, stream, table)
			}
			if got := eventsIn(t, answered(t, s, 200, path+"?watch=1&timeoutSeconds=1&fieldSelector="+of.name+"%3Ddb")); len(got) != 1 || !strings.HasPrefix(got[0], "ADDED db.1") {
				t.Errorf("%s of %s: %q", path, stream, got)
			}
		}
		if got, _ := names(t, answered(t, s, 200, "/api/v1/events?fieldSelector=source%3Dkubelet")); len(got) != 2 {
			t.Errorf("%s by source: %q", stream, got)
		}
		// What is made of the other one has its members in the server's order.
		path, want := "/apis/events.k8s.io/v1", `"note":"stopped","type":"Normal","deprecatedSource":{"component":"kubelet"},"deprecatedFirstTimestamp":"2026-11-22T12:00:00Z"`
		if stream != "events" {
			path, want = "/api/v1", `"message":"stopped","source":{"component":"kubelet"},"firstTimestamp":"2026-11-22T12:00:00Z"`
		}
		if got := answered(t, s, 200, path+"/namespaces/a/events/web.1"); !strings.Contains(got, want) {
			t.Errorf("of %s: %s", stream, got)
		}
	}
}
