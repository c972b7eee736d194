package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseAudit(t *testing.T) {
	const log = `{"auditID":"1","stage":"ResponseStarted","verb":"watch","userAgent":"kubejournal/v1 (linux/amd64)","requestURI":"/apis/apps/v1/deployments?watch=1","user":{"username":"u"},"objectRef":{"resource":"deployments","apiGroup":"apps"},"responseStatus":{"code":200}}
{"auditID":"2","stage":"ResponseComplete","verb":"update","userAgent":"kube-controller-manager/v1 (linux/amd64) kubernetes/f0/job-controller","requestURI":"/x","user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"n","name":"p","subresource":"status"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-11-22T12:00:00.000001Z","stageTimestamp":"2026-11-22T12:00:01.000001Z","responseObject":{"metadata":{"uid":"u1","resourceVersion":"7"}}}
{"auditID":"1","stage":"ResponseComplete","verb":"watch","userAgent":"kubejournal/v1 (linux/amd64)","requestURI":"/apis/apps/v1/deployments?watch=1","user":{"username":"u"},"objectRef":{"resource":"deployments","apiGroup":"apps"},"responseStatus":{"code":200}}
`
	got, err := ParseAudit([]byte(log))
	must(t, err)
	watch := By{Agent: "kubejournal", User: "u", Verb: "watch", Resource: "deployments.apps"}
	update := By{Agent: "kube-controller-manager", User: "u", Verb: "update", Resource: "pods/status", Namespace: "n"}
	at := time.Date(2026, 11, 22, 12, 0, 0, 1000, time.UTC)
	want := []Request{
		{By: watch, ID: "1", Code: 200, RequestURI: "/apis/apps/v1/deployments?watch=1"},
		{By: update, ID: "2", Controller: "job-controller", Name: "p", Code: 409, RequestURI: "/x", Received: at, Answered: at.Add(time.Second),
			Object: []byte(`{"metadata":{"uid":"u1","resourceVersion":"7"}}`), UID: "u1", Version: "7"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[By]int{watch: 1, update: 1}, Count(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	query, err := got[0].Query()
	must(t, err)
	if query.Get("watch") != "1" {
		t.Errorf("query %v", query)
	}
	if _, err := ParseAudit([]byte("{\n")); err == nil {
		t.Error("a broken line was read")
	}
}

func TestWrites(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 11, 22, 12, 0, second, 0, time.UTC) }
	request := func(verb, resource, name, uid, version string, code, from, until int) Request {
		return Request{
			By: By{Agent: "a", Verb: verb, Resource: resource, Namespace: "n"}, ID: fmt.Sprint(name, " at ", from), Name: name, Code: code,
			RequestURI: "/x", Received: at(from), Answered: at(until), UID: uid, Version: version,
		}
	}
	dry := request("patch", "pods", "p", "u1", "13", 200, 30, 31)
	dry.RequestURI += "?dryRun=All"
	w, err := NewWrites([]Request{
		request("create", "pods", "p", "u1", "10", 201, 10, 11),
		request("create", "pods/binding", "p", "", "", 201, 20, 21), // 12
		request("create", "events", "e", "u2", "14", 201, 24, 25),
		request("patch", "pods/status", "p", "u1", "15", 200, 30, 33),
		request("patch", "pods", "p", "u1", "15", 200, 32, 34), // which may have been before, and the other the one that found no change
		request("patch", "pods", "p", "u1", "15", 200, 35, 36),
		request("patch", "pods", "p", "u1", "15", 409, 30, 31),
		dry,
		request("create", "events", "f", "u3", "16", 201, 40, 41),
		request("deletecollection", "pods", "", "", "", 200, 43, 44), // 17
		request("create", "events", "g", "u4", "18", 201, 45, 46),
		request("update", "pods/status", "p", "u1", "17", 200, 50, 51), // of an answer that is not the version's
		request("delete", "pods", "q", "u5", "21", 200, 60, 61),        // 20, too
		request("delete", "pods", "q", "u6", "25", 200, 60, 61),        // another object of this name
		request("create", "pods/eviction", "r", "", "", 201, 70, 71),   // 30
		request("delete", "pods", "r", "u7", "30", 200, 72, 73),        // which finds it deleted already
		request("create", "pods/eviction", "r", "", "", 201, 74, 75),   // likewise
		request("create", "pods/eviction", "s", "", "", 201, 80, 82),   // of the pod that had this name before
		request("create", "pods", "s", "u8", "40", 201, 81, 83),
	})
	must(t, err)
	for v, want := range map[Version]string{
		{"u1", "10"}: "p at 10", {"u1", "12"}: "p at 20", {"u1", "15"}: "p at 30, p at 32", {"u1", "17"}: " at 43", {"u1", "13"}: "p at 20",
		{"u5", "20"}: "q at 60", {"u5", "21"}: "q at 60", {"u5", "22"}: "", {"u7", "30"}: "r at 70, r at 72",
		{"u8", "40"}: "s at 81",
	} {
		name := map[string]string{"u1": "p", "u5": "q", "u7": "r", "u8": "s"}[v.UID]
		var got []string
		for _, r := range w.By(v, "pods", "n", name, v.Number == "10" || v.Number == "40") {
			got = append(got, r.ID)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("version %v is by %q, want %q", v, got, want)
		}
	}
}

func TestManager(t *testing.T) {
	for want, r := range map[string]Request{
		"kubectl-edit ":                  {By: By{Agent: "kubectl", Resource: "pods"}, RequestURI: "/x?fieldManager=kubectl-edit"},
		"kube-controller-manager status": {By: By{Agent: "kube-controller-manager", Resource: "pods/status"}, RequestURI: "/x?timeout=3s"},
	} {
		if manager, subresource := r.Manager(); manager+" "+subresource != want {
			t.Errorf("%s %s, want %s", manager, subresource, want)
		}
	}
}
