package serve

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
)

// A server is moved: what it answers is of the other moment, its resources too, and clients that hold on to the one
// before are told that it is gone.
func TestMove(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}, At: argument.Moment{Time: minute(3.5)}, Token: "0123456789abcdef"})
	bearer := []string{"Authorization", "Bearer 0123456789abcdef"}
	server := httptest.NewServer(s)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/pods?watch=1&resourceVersion=125", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer 0123456789abcdef")
	watch, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	page := answered(t, s, 200, "/api/v1/pods?limit=1", bearer...)
	_, metadata := names(t, page)
	if _, err := MoveServer(ctx, server.URL, "another token", argument.Moment{Time: minute(9.5)}); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Error(err)
	}
	for _, to := range []struct {
		at   argument.Moment
		want string
		pods []string
		crds int
	}{
		{argument.Moment{Time: minute(0.5)}, "as of " + minute(0.5).Local().Format("2006-01-02 15:04:05 MST"), []string{"a-b/web2", "a/db1", "a/web1"}, 1},
		{argument.Moment{Seq: 18}, "as of seq:18", []string{"a-b/web2", "a/db1", "a/web3"}, 0},
		{argument.Latest(), "as of the journal's last line", []string{"a-b/web2", "a/db1", "a/web3"}, 1}, // nobody watched since
	} {
		says, err := MoveServer(ctx, server.URL, s.Token, to.at)
		if err != nil || !strings.HasPrefix(says, to.want) {
			t.Fatal(says, err)
		}
		if got, _ := names(t, answered(t, s, 200, "/api/v1/pods", bearer...)); !slices.Equal(got, to.pods) {
			t.Errorf("%s: %q, want %q", to.at, got, to.pods)
		}
		if status := ask(t, s, "/apis/example.com/v1", bearer...).StatusCode; status != map[int]int{1: 200, 0: 404}[to.crds] {
			t.Errorf("%s: status %d of a definition's group", to.at, status)
		}
		var is momentBody
		if err := json.Unmarshal([]byte(answered(t, s, 200, pathOfMoment, bearer...)), &is); err != nil || is.Says != says {
			t.Error(is, err)
		}
		if to.at.Seq == 0 && !to.at.IsLatest() {
			text, err := io.ReadAll(watch.Body)
			if got := eventsIn(t, string(text)); err != nil || len(got) != 1 || got[0] != "ERROR too old resource version: another moment is served" {
				t.Error(got, err)
			}
			answered(t, s, 410, "/api/v1/pods?continue="+metadata["continue"].(string), bearer...)
		}
	}
}

// What does not say a moment moves nothing.
func TestNoMove(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	for _, tc := range []struct {
		status        int
		request, want string
		headers       []string
	}{
		{415, "PUT " + pathOfMoment + ` {"at":"1h"}`, "application/json", nil},
		{415, "PUT " + pathOfMoment + ` {"at":"1h"}`, "application/json", []string{"Content-Type", "text/plain"}},
		{403, "PUT " + pathOfMoment + ` {"at":"1h"}`, "another origin", []string{"Content-Type", jsonType, "Origin", "http://evil.example.com"}},
		{400, "PUT " + pathOfMoment + ` {"at":""}`, "is not a time", []string{"Content-Type", jsonType}},
		{400, "PUT " + pathOfMoment + ` {"at":"2999-01-01"}`, "still to come", []string{"Content-Type", jsonType}},
		{400, "PUT " + pathOfMoment + ` {"at":"rv:5"}`, "rv:5 is no time", []string{"Content-Type", jsonType}},
		{400, "PUT " + pathOfMoment + ` {"at":["1h"]}`, "not a moment", []string{"Content-Type", jsonType}},
		{400, "PUT " + pathOfMoment + ` `, "not a moment", []string{"Content-Type", jsonType}},
		{405, "POST " + pathOfMoment + ` {"at":"1h"}`, "read only", []string{"Content-Type", jsonType}},
		{405, "DELETE " + pathOfMoment, "read only", nil},
	} {
		if text := answered(t, s, tc.status, tc.request, tc.headers...); !strings.Contains(text, tc.want) {
			t.Errorf("%s: %s", tc.request, text)
		}
	}
	if got := s.moment(); !got.Time.Equal(minute(3.5)) {
		t.Error(got)
	}
}

// A replay goes on from where it is moved to.
func TestMoveReplay(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}, From: minute(8), Speed: 600})
	if err := s.Move(t.Context(), argument.Moment{Time: minute(0.5)}); err != nil {
		t.Fatal(err)
	}
	got := events(t, s, "/api/v1/pods?watch=1&resourceVersion=52&timeoutSeconds=2")
	if want := []string{"MODIFIED db1 105", "ADDED web3 115", "DELETED web1 125"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if text := answered(t, s, 200, "PUT "+pathOfMoment+` {"at":"seq:18"}`, "Content-Type", jsonType); !strings.Contains(text, minute(4).Format("2006-01-02T15:0")) {
		t.Error(text)
	}
}

// Rows of tables and lists are kept: what is asked for again is answered the same, and nothing of another moment, form or
// page.
func TestKept(t *testing.T) {
	d := newDay(t)
	s := serveAt(t, d, minute(3.5))
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
	table := func(path string) string { return answered(t, s, 200, path, "Accept", accept) }
	seen := map[string]string{}
	for round := range 3 {
		for _, path := range []string{
			"/apis/example.com/v1/teams", "/apis/example.com/v1/teams?includeObject=None", "/apis/example.com/v1/teams?includeObject=Object",
			"/apis/example.com/v1/namespaces/a/teams?limit=1", "/api/v1/pods", "/api/v1/pods?fieldSelector=metadata.name%3Ddb1", "/api/v1/namespaces/a-b/pods",
		} {
			got := table(path)
			for before, was := range seen {
				if (before == path) != (was == got) {
					t.Errorf("round %d: %s: %s, and of %s %s", round, path, got, before, was)
				}
			}
			seen[path] = got
		}
	}
	if got := seen["/apis/example.com/v1/teams"]; !strings.Contains(got, `"63m"`) {
		t.Error(got)
	}
	if err := s.Move(t.Context(), argument.Moment{Time: minute(0.6)}); err != nil {
		t.Fatal(err)
	}
	if got := table("/api/v1/pods"); !strings.Contains(got, `"web1"`) || strings.Contains(seen["/api/v1/pods"], `"web1"`) {
		t.Error(got)
	}
	if got := table("/apis/example.com/v1/teams"); !strings.Contains(got, `"60m"`) {
		t.Error(got)
	}
	_, metadata := names(t, answered(t, s, 200, "/apis/example.com/v1/teams?limit=1"))
	if err := s.Move(t.Context(), argument.Moment{Time: minute(3.5)}); err != nil {
		t.Fatal(err)
	}
	if got := table("/apis/example.com/v1/teams"); got != seen["/apis/example.com/v1/teams"] {
		t.Error(got)
	}
	if got := table("/apis/example.com/v1/teams?limit=1&continue=" + metadata["continue"].(string)); !strings.Contains(got, `"60m"`) {
		t.Error(got)
	}
}
