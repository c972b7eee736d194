package serve

import (
	"strings"
	"testing"

	"kubejournal/internal/ask/argument"
)

// The page about an incident is of the time and the objects that are asked for, and asks its own server alone.
func TestPageOfAServer(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}, Flags: []string{"--journal", "the journal.jsonl"}, At: argument.Moment{Time: minute(3.5)}})
	for query, want := range map[string][]string{
		"": {`value="2026-11-22T11:03:30Z"`, `value="2026-11-22T12:03:30Z"`, "17 versions of 10 objects", "kubectl sees the past as of 2026-11-22 12:03:30"},
		"?since=2026-11-22T12:02:30Z&until=2026-11-22T12:05:00Z":              {"2026-11-22 12:02:30 to 2026-11-22 12:05:00 UTC"},
		"?objects=pods&namespace=a":                                           {`value="pods"`, "What happened to pods", "of 3 objects"},
		"?objects=pods/web1&related=1&since=2026-11-22T12:00:00Z&until=seq:5": {`value="1" checked`, "pods/web1"},
		"?objects=%3Cscript%3E%2Fa":                                           nil,
	} {
		r := ask(t, s, "/"+query)
		text := body(t, r)
		if want == nil {
			if r.StatusCode != 400 || strings.Contains(text, "<script>") && strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%s: %d %s", query, r.StatusCode, text)
			}
			continue
		}
		if policy := r.Header.Get("Content-Security-Policy"); r.StatusCode != 200 || !strings.Contains(policy, "default-src 'none'") ||
			!strings.Contains(policy, "connect-src 'self'; frame-ancestors 'none'") {
			t.Fatalf("%s: %d %s %.300s", query, r.StatusCode, policy, text)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				_, text, _ := strings.Cut(text, "<main>")
				t.Errorf("%s: no %s in %.2000s", query, part, text)
			}
		}
	}
	for query, want := range map[string]string{
		"?since=yesterday%20noon": "kubejournal: ", "?objects=wep": "", "?since=2026-11-22T12:02:00Z&until=2026-11-22T12:01:00Z": "--until is before --since",
	} {
		r := ask(t, s, "/"+query)
		if text := body(t, r); r.StatusCode != 400 || !strings.Contains(text, want) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %d %s", query, r.StatusCode, text)
		}
	}
	answered(t, s, 405, "POST /")
	answered(t, s, 403, "/", "Sec-Fetch-Site", "cross-site")
	latest := serveWith(t, Options{Paths: []string{d.Path}})
	if text := answered(t, latest, 200, "/"); !strings.Contains(text, `value="2026-11-22T11:04:00Z"`) || !strings.Contains(text, "as of the journal&#39;s last line") {
		t.Errorf("%.9000s", text)
	}
}

// A browser is asked for the token, and programs are not.
func TestPageWithToken(t *testing.T) {
	d := newDay(t)
	s := serveWith(t, Options{Paths: []string{d.Path}, At: argument.Moment{Time: minute(3)}, Token: "0123456789abcdef"})
	if r := ask(t, s, "/"); r.StatusCode != 401 || !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Error(r.StatusCode, r.Header)
	}
	if r := ask(t, s, "/api/v1/pods"); r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != "" {
		t.Error(r.StatusCode, r.Header)
	}
	answered(t, s, 200, "/", "Authorization", "Basic OjAxMjM0NTY3ODlhYmNkZWY=") // : and the token
	answered(t, s, 401, "/", "Authorization", "Basic OjAxMjM0NTY3ODlhYmNkZWc=") // another one
}
