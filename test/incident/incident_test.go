package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/past"
)

// at is a moment of the test's day, by its millisecond.
func at(ms int) time.Time { return time.Date(2026, 11, 22, 12, 0, 0, ms*1e6, time.UTC) }

func TestJudge(t *testing.T) {
	request := func(agent, verb, resource, uri string, from, until int) *cluster.Request {
		return &cluster.Request{By: cluster.By{Agent: agent, Verb: verb, Resource: resource}, RequestURI: uri, Received: at(from), Answered: at(until)}
	}
	edit := request("kubectl", "patch", "configmaps", "/x?fieldManager=kubectl-edit", 1900, 2100)
	status := request("kube-controller-manager", "update", "deployments.apps/status", "/x", 1900, 1950)
	line := func(manager, subresource string, second int) *invariant.Line {
		l := &invariant.Line{Origin: "watch", Type: "MODIFIED", Manager: manager, Subresource: subresource}
		if second > 0 {
			l.WrittenAt = at(1000 * second).Format(time.RFC3339)
		}
		return l
	}
	for name, tc := range map[string]struct {
		line                       *invariant.Line
		by                         []*cluster.Request
		manager, subresource, when answer
	}{
		"right":                   {line("kubectl-edit", "", 1), []*cluster.Request{edit}, right, right, right},
		"in the answer's second":  {line("kubectl-edit", "", 2), []*cluster.Request{edit}, right, right, right},
		"too late":                {line("kubectl-edit", "", 3), []*cluster.Request{edit}, right, right, wrong},
		"too early":               {line("kube-controller-manager", "status", 0), []*cluster.Request{status}, right, right, absent},
		"user agent":              {line("kube-controller-manager", "status", 1), []*cluster.Request{status}, right, right, right},
		"no subresource":          {line("kube-controller-manager", "", 1), []*cluster.Request{status}, right, wrong, right},
		"the command's own name":  {line("kubectl", "", 1), []*cluster.Request{edit}, wrong, wrong, right},
		"nobody":                  {line("", "", 0), []*cluster.Request{edit}, absent, absent, absent},
		"one of two":              {line("kubectl-edit", "", 2), []*cluster.Request{status, edit}, right, right, right},
		"two halves of two":       {line("kubectl-edit", "status", 1), []*cluster.Request{status, edit}, right, wrong, right},
		"nobody is known to have": {line("kubectl-edit", "", 1), nil, wrong, wrong, wrong},
	} {
		t.Run(name, func(t *testing.T) {
			if j := judge(tc.line, tc.by); j.manager != tc.manager || j.subresource != tc.subresource || j.when != tc.when {
				t.Errorf("%v %v %v, want %v %v %v", j.manager, j.subresource, j.when, tc.manager, tc.subresource, tc.when)
			}
		})
	}
}

func TestValue(t *testing.T) {
	in := map[string]any{"a": []any{map[string]any{"b/c": int64(6)}}}
	for pointer, want := range map[string]any{"/a/0/b~1c": 6, "/a/1": nil, "/a/x": nil, "/b": nil, "/a/0/b~1c/d": nil} {
		if got := value(in, pointer); !same(got, want) {
			t.Errorf("%s is %v, want %v", pointer, got, want)
		}
	}
}

func TestWhyIsJudged(t *testing.T) {
	line := func(seq uint64, typ, name, uid, version, metadata string) invariant.Line {
		return invariant.Line{
			Seq: seq, Type: typ, Origin: invariant.FromWatch, Resource: "configmaps", Kind: "ConfigMap", Namespace: "n", Name: name,
			UID: uid, ResourceVersion: version, Object: []byte(`{"metadata":{` + metadata + `}}`),
		}
	}
	owned := `"ownerReferences":[{"kind":"ConfigMap","name":"a","uid":"ua"}]`
	removed := func(agent, controller, name, uid string, ms int) cluster.Request {
		return cluster.Request{
			By:   cluster.By{Agent: agent, Verb: "delete", Resource: "configmaps", Namespace: "n"},
			Name: name, Controller: controller, Code: 200, RequestURI: "/x", Received: at(ms), Answered: at(ms + 1),
			Object: []byte(`{"kind":"Status","details":{"uid":"` + uid + `"}}`),
		}
	}
	first := []invariant.Line{line(1, "ADDED", "a", "ua", "11", ""), line(2, "ADDED", "b", "ub", "12", owned)}
	ownerGone := slices.Concat(first, []invariant.Line{line(3, "DELETED", "a", "ua", "13", "")})
	gone := line(4, "DELETED", "b", "ub", "14", owned)
	collector := removed("kube-controller-manager", "generic-garbage-collector", "b", "ub", 20)
	for name, tc := range map[string]struct {
		lines   []invariant.Line
		by      cluster.Request
		rule    string
		certain bool
		row     string
		fault   string
	}{
		"right":       {ownerGone, collector, "garbage-collection", true, "| all | 1 | 0 | 0 | 0 | 0 |", ""},
		"likely":      {ownerGone, collector, "garbage-collection", false, "| all | 0 | 0 | 0 | 1 | 0 |", ""},
		"overtaken":   {ownerGone, removed("kubectl", "", "b", "ub", 20), "garbage-collection", true, "| all | 0 | 1 | 0 | 0 | 0 |", ""},
		"wrong":       {first, collector, "garbage-collection", true, "| all | 0 | 0 | 1 | 0 | 0 |", "its owner a was there"},
		"too many":    {ownerGone, collector, "job-ttl", false, "| all | 0 | 0 | 0 | 0 | 1 |", "0 likely links are right, 1 wrong"},
		"by somebody": {ownerGone, removed("kubectl", "", "b", "ub", 20), "helm", true, "| all | 0 | 0 | 1 | 0 | 0 |", "kubectl asked for it"},
		"unknown":     {ownerGone, collector, "guess", false, "| all | 0 | 0 | 0 | 0 | 0 |", "nobody judges the rule guess"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newCourt(slices.Concat(tc.lines, []invariant.Line{gone}), []cluster.Request{removed("kubectl", "", "a", "ua", 10), tc.by})
			if err != nil {
				t.Fatal(err)
			}
			b := thing{Kind: "ConfigMap", Namespace: "n", Name: "b", UID: "ub"}
			text, err := c.judge([]*explained{{thing: b, Question: "gone", Links: []link{
				{thing: b, Seq: 4, What: "deleted", Rule: tc.rule, Certain: tc.certain},
			}}})
			if !strings.Contains(text, tc.row) {
				t.Errorf("no %s in\n%s", tc.row, text)
			}
			if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%v, want %q", err, tc.fault)
			}
		})
	}
}

func TestChosen(t *testing.T) {
	for _, tc := range []struct{ moments, steps, want int }{{0, 43, 0}, {3, 43, 3}, {20, 43, 20}, {43, 43, 43}, {50, 43, 43}} {
		x, n := &incident{moments: tc.moments}, 0
		for i := range tc.steps {
			if x.chosen(i, tc.steps) {
				n++
			}
		}
		if n != tc.want {
			t.Errorf("%d of %d steps have a moment, want %d", n, tc.steps, tc.want)
		}
	}
}

func TestAsJournal(t *testing.T) {
	for path, tc := range map[string][2]string{
		"/api/v1/secrets": {`{"metadata":{"name":"a","annotations":{"b":"","kubectl.kubernetes.io/last-applied-configuration":"{\"data\":{}}"},` +
			`"managedFields":[{"a":["b"]}]},"data":{"k":"djE=","l":"djI="},"type":"Opaque"}`,
			`{"metadata":{"name":"a","annotations":{"b":""}},"data":{"k":"REDACTED","l":"REDACTED"},"type":"Opaque"}`},
		"/api/v1/configmaps": {`{"metadata":{"managedFields":[],"name":"a"},"data":{"k":"\"managedFields\":1"}}`,
			`{"metadata":{"name":"a"},"data":{"k":"\"managedFields\":1"}}`},
	} {
		if got := asJournal(path, past.Answer{Body: tc[0]}).Body; got != tc[1] {
			t.Errorf("%s: %s, want %s", path, got, tc[1])
		}
	}
}

func TestSameAge(t *testing.T) {
	for _, tc := range []struct {
		got, want string
		same      bool
	}{
		{`,"5s"`, `,"3s"`, true}, {`,"3s"`, `,"5s"`, false}, {`,"2m3s"`, `["119s"`, true}, {`,"12m"`, `,"11m"`, true},
		{`,"9s"`, `,"3s"`, false}, {`,"13m"`, `,"11m"`, false},
	} {
		if err := sameAge(tc.got, tc.want, 3*time.Second); (err == nil) != tc.same {
			t.Errorf("%s and %s: %v", tc.got, tc.want, err)
		}
	}
}
