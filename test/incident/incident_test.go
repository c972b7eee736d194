package main

import (
	"testing"
	"time"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
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
