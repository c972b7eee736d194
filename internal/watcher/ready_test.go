package watcher_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

// releaseTimeout is how long Helm waits for a release by default.
const releaseTimeout = 5 * time.Minute

// otherAnswers replaces the server's answers to some requests.
type otherAnswers struct {
	next   http.RoundTripper
	answer func(*http.Request) *http.Response // nil is the server's own
}

// WrappedRoundTripper is for client-go.
func (a *otherAnswers) WrappedRoundTripper() http.RoundTripper { return a.next }

func (a *otherAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	if answer := a.answer(r); answer != nil {
		answer.Request = r
		return answer, nil
	}
	return a.next.RoundTrip(r)
}

// answerJSON is an answer in JSON.
func answerJSON(code int, format string, args ...any) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(fmt.Sprintf(format, args...))),
	}
}

// answerStatus is an answer with a Status.
func answerStatus(code int, reason string) *http.Response {
	return answerJSON(code, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`,
		reason, code)
}

// ofWidgets has an answer to all that is asked about widgets.
func ofWidgets(answer func(*http.Request) *http.Response) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return &otherAnswers{next, func(r *http.Request) *http.Response {
			if !strings.Contains(r.URL.Path, "/widgets") {
				return nil
			}
			return answer(r)
		}}
	}
}

// withWidgets has a server with widgets, and entries for them and for others.
func withWidgets(t *testing.T, test func(*harness)) {
	t.Helper()
	names := entries("configmaps", "secrets", "deployments.apps", "widgets.example.com")
	bubble(t, fake.Options{}, names, func(w *harness) {
		w.srv.AddResource(widget("v1"))
		w.put(configMaps, "a")
		w.put(widgets, "w")
		test(w)
	})
}

// readyWithin waits until the daemon is ready, and returns all that it says of it.
func (w *harness) readyWithin(limit time.Duration) string {
	w.t.Helper()
	w.awaitFor(limit, "it is ready", w.isReady)
	_, text := w.ask("/readyz?verbose")
	return text
}

func (w *harness) isReady() bool {
	code, _ := w.ask("/readyz")
	return code == http.StatusOK
}

// staysReady checks readiness each second.
func (w *harness) staysReady(during time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); w.pass(time.Second) {
		if code, text := w.ask("/readyz"); code != http.StatusOK {
			w.t.Fatalf("no longer ready: %s", text)
		}
	}
}

// neverReady checks that the daemon is not ready for as long as a release waits, and returns why.
func (w *harness) neverReady() (text string) {
	w.t.Helper()
	for end := time.Now().Add(2 * releaseTimeout); time.Now().Before(end); w.pass(time.Second) {
		var code int
		if code, text = w.ask("/readyz"); code == http.StatusOK {
			w.t.Fatal("it is ready")
		}
	}
	return text
}

// One API of many that cannot be journalled does not hold back a rollout, whatever it answers. It is shown, and the
// others are journalled.
func TestReadyWithoutOneAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	all := map[string]func(*http.Request) *http.Response{
		"no such resource": func(*http.Request) *http.Response { return answerStatus(404, "NotFound") },
		"no lists":         func(*http.Request) *http.Response { return answerStatus(405, "MethodNotAllowed") },
		"silence": func(r *http.Request) *http.Response {
			<-r.Context().Done()
			return answerStatus(504, "Timeout")
		},
		"no version": func(*http.Request) *http.Response {
			return answerJSON(200, `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{},"items":[]}`)
		},
		"no list":      func(*http.Request) *http.Response { return answerJSON(200, `{}`) },
		"a page":       func(*http.Request) *http.Response { return answerJSON(200, "<html>sign in</html>") },
		"bad selector": func(*http.Request) *http.Response { return answerStatus(400, "BadRequest") },
		"the same page": func(*http.Request) *http.Response {
			return answerJSON(200,
				`{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5","continue":"more"},"items":[]}`)
		},
	}
	for _, code := range []int{402, 406, 413, 429, 500, 501, 502, 503, 504, 520} {
		all[fmt.Sprint(code)] = func(*http.Request) *http.Response { return answerStatus(code, "") }
	}
	page := new(atomic.Int64)
	all["a list without an end"] = func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") != "" {
			return answerStatus(400, "BadRequest")
		}
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
		}
		n := page.Add(1)
		return answerJSON(200,
			`{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5","continue":"c%d"},"items":[`+
				`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"w%09d","namespace":"default","uid":"u%d","resourceVersion":"4"}}]}`, n, n, n)
	}
	for name, answer := range all {
		t.Run(name, func(t *testing.T) {
			withWidgets(t, func(w *harness) {
				var well atomic.Bool
				w.wrap = ofWidgets(func(r *http.Request) *http.Response {
					if well.Load() {
						return nil
					}
					return answer(r)
				})
				w.start()
				text := w.readyWithin(releaseTimeout)
				if !strings.Contains(text, "[+]streams ok: no progress: widgets.example.com (") {
					t.Errorf("ready, and nothing is said of widgets: %s", text)
				}
				if s := w.state("widgets.example.com"); s.Synced || s.State == watcher.Watching {
					t.Errorf("widgets: %+v", s)
				}
				for _, other := range []string{"configmaps", "secrets", "deployments.apps"} {
					if s := w.state(other); s.State != watcher.Watching || !s.Synced {
						t.Errorf("%s: %+v", other, s)
					}
				}
				w.staysReady(2 * time.Minute)
				well.Store(true) // and its first list is one of the streams' that readiness does not wait for any more
				w.staysReady(2 * time.Minute)
				w.kill()
			})
		})
	}
}

// Rights, credentials and a config that are at fault hold a rollout back, however many other streams work; so does an
// API server of which nothing can be journalled. What is mended lets it continue. What happens to one stream later does
// not matter.
func TestNotReady(t *testing.T) {
	forbidden := func(*http.Request) *http.Response { return answerStatus(403, "Forbidden") }
	everything := func(code int) func(http.RoundTripper) http.RoundTripper {
		return func(next http.RoundTripper) http.RoundTripper {
			return &otherAnswers{next, func(r *http.Request) *http.Response {
				for _, resource := range []string{"/configmaps", "/secrets", "/deployments", "/widgets"} {
					if strings.HasSuffix(r.URL.Path, resource) {
						return answerStatus(code, "")
					}
				}
				return nil
			}}
		}
	}
	for name, c := range map[string]struct {
		wrap     func(http.RoundTripper) http.RoundTripper
		selector string
		why      string
	}{
		"forbidden": {wrap: ofWidgets(forbidden),
			why: "refused by rights, credentials or config of this daemon: widgets.example.com (Forbidden)"},
		"watches are forbidden": {wrap: ofWidgets(func(r *http.Request) *http.Response {
			if r.URL.Query().Get("watch") == "" {
				return nil
			}
			return forbidden(r)
		}), why: "widgets.example.com (Forbidden)"},
		"unauthorized": {wrap: ofWidgets(func(*http.Request) *http.Response { return answerStatus(401, "Unauthorized") }),
			why: "config of this daemon: widgets.example.com (Unauthorized)"},
		"unknown field": {wrap: ofWidgets(func(*http.Request) *http.Response { return answerStatus(400, "BadRequest") }),
			selector: "spec.size=1", why: "config of this daemon: widgets.example.com?fieldSelector=spec.size%3D1 (BadRequest)"},
		"all fail: 500": {wrap: everything(500),
			why: "no stream has synced, failing: configmaps (ServerError), deployments.apps (ServerError), secrets"},
		"all fail: 503":       {wrap: everything(503), why: "configmaps"},
		"all fail: 403":       {wrap: everything(403), why: "configmaps (Forbidden), deployments.apps (Forbidden)"},
		"all fail: no answer": {wrap: everything(504), why: "configmaps"},
	} {
		t.Run(name, func(t *testing.T) {
			withWidgets(t, func(w *harness) {
				w.entries[3].FieldSelector = c.selector
				var broken atomic.Bool
				broken.Store(true)
				w.wrap = func(next http.RoundTripper) http.RoundTripper {
					fails := c.wrap(next).(*otherAnswers)
					return &otherAnswers{next, func(r *http.Request) *http.Response {
						if !broken.Load() {
							return nil
						}
						return fails.answer(r)
					}}
				}
				w.start()
				if text := w.neverReady(); !strings.Contains(text, "\n[-]streams failed: ") || !strings.Contains(text, c.why) {
					t.Errorf("not ready for %q", text)
				}
				if c.selector == "" {
					broken.Store(false)
					w.readyWithin(2 * time.Minute)
				}
				w.kill()
			})
		})
	}
}

// Rights that are taken away from a daemon that was ready are shown, and it stays ready; one that is started then is
// not.
func TestForbiddenLater(t *testing.T) {
	withWidgets(t, func(w *harness) {
		w.start()
		w.readyWithin(time.Minute)
		w.srv.Forbid(widgets)
		w.awaitFor(30*time.Minute, "it is pending",
			func() bool { return w.state("widgets.example.com").State == watcher.Pending })
		w.staysReady(time.Minute)
		if _, text := w.ask("/readyz?verbose"); !strings.Contains(text, "widgets.example.com (Pending for ") ||
			!strings.Contains(text, ": Forbidden)") {
			t.Errorf("nothing is said of it: %s", text)
		}
		w.stop()
		w.start()
		w.neverReady()
		w.srv.Allow(widgets)
		w.readyWithin(time.Minute)
		w.kill()
	})
}

// A CRD that does not exist yet holds nothing back, before and after it comes with an API that fails.
func TestReadyBeforeACRD(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "widgets.example.com"), func(w *harness) {
		w.wrap = ofWidgets(func(*http.Request) *http.Response { return answerStatus(500, "InternalError") })
		w.start()
		w.readyWithin(30 * time.Second)
		w.srv.AddResource(widget("v1"))
		w.awaitFor(time.Minute, "it is tried",
			func() bool { return w.state("widgets.example.com").State == watcher.Retrying })
		w.staysReady(3 * time.Minute)
		w.kill()
	})
}

// A standby becomes ready without an API that fails, for itself alone or for the leader too, and not where its rights
// are at fault. It stays ready when it takes over.
func TestStandbyReady(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, c := range map[string]struct {
		code   int
		leader bool // has the same answers
		ready  bool
	}{
		"a failing API":               {500, true, true},
		"one that fails for it alone": {503, false, true},
		"no rights":                   {403, false, false},
		"no credentials":              {401, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			withWidgets(t, func(w *harness) {
				w.lease = "kubejournal"
				broken := ofWidgets(func(*http.Request) *http.Response {
					return answerStatus(c.code, map[int]string{403: "Forbidden", 401: "Unauthorized"}[c.code])
				})
				if c.leader {
					w.wrap = broken
				}
				w.start()
				w.readyWithin(releaseTimeout)
				b := w.second()
				b.wrap = broken
				b.start()
				defer b.kill()
				if !c.ready {
					if text := b.neverReady(); !strings.Contains(text, "widgets.example.com (") {
						t.Errorf("not ready for %q", text)
					}
					w.stop()
					return
				}
				b.readyWithin(releaseTimeout)
				b.staysReady(time.Minute)
				w.stop()
				b.awaitFor(time.Minute, "it leads",
					func() bool { return strings.Contains(b.log.String(), "writing as the leader") })
				if _, text := b.ask("/readyz?verbose"); !strings.Contains(text, "[+]streams ok") {
					t.Errorf("as the leader: %s", text)
				}
			})
		})
	}
}
