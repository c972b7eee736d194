package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAudit(t *testing.T) {
	const log = `{"auditID":"1","stage":"ResponseStarted","verb":"watch","userAgent":"kubejournal/v1 (linux/amd64)","requestURI":"/apis/apps/v1/deployments?watch=1","user":{"username":"u"},"objectRef":{"resource":"deployments","apiGroup":"apps"},"responseStatus":{"code":200}}
{"auditID":"2","stage":"ResponseComplete","verb":"update","userAgent":"curl","requestURI":"/x","user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"n","name":"p","subresource":"status"},"responseStatus":{"code":409}}
{"auditID":"1","stage":"ResponseComplete","verb":"watch","userAgent":"kubejournal/v1 (linux/amd64)","requestURI":"/apis/apps/v1/deployments?watch=1","user":{"username":"u"},"objectRef":{"resource":"deployments","apiGroup":"apps"},"responseStatus":{"code":200}}
`
	got, err := parseAudit([]byte(log))
	must(t, err)
	watch := By{Agent: "kubejournal", User: "u", Verb: "watch", Resource: "deployments.apps"}
	update := By{Agent: "curl", User: "u", Verb: "update", Resource: "pods/status", Namespace: "n"}
	want := []Request{
		{By: watch, ID: "1", Code: 200, RequestURI: "/apis/apps/v1/deployments?watch=1"},
		{By: update, ID: "2", Name: "p", Code: 409, RequestURI: "/x"},
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
	if _, err := parseAudit([]byte("{\n")); err == nil {
		t.Error("a broken line was read")
	}
}
