package watcher_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
)

// What a daemon says that has lost its server is one thing in every place, and agrees with the pulses: the table in
// docs/operations.md, "An outage of the API server".
func TestOutageTable(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, tc := range map[string]struct {
		begin    func(*harness)
		end      func(*harness)
		headline string
		within   time.Duration // until everything says so
		refused  bool
		alone    bool // it is no outage
	}{
		"gone": {
			begin: func(w *harness) { w.srv.StopAPIServer() }, end: func(w *harness) { must(w.t, w.srv.StartAPIServer()) },
			headline: "API server unreachable for ", within: 4 * time.Second,
		},
		"cut off": {
			begin: func(w *harness) {
				w.srv.SetFault(func(fake.Request) *fake.Fault { return &fake.Fault{Hang: true} })
			},
			end: func(w *harness) { w.srv.SetFault(nil) }, headline: "API server unreachable for ", within: 15 * time.Second,
		},
		"401": {
			begin: func(w *harness) { w.srv.SetToken("another") }, end: func(*harness) {},
			headline: "API server refuses this daemon for ", within: 10 * time.Second, refused: true,
		},
		"401 to new watches too": {
			begin: func(w *harness) { w.srv.SetToken("another"); w.srv.EndWatches() }, end: func(*harness) {},
			headline: "API server refuses this daemon for ", within: 10 * time.Second, refused: true,
		},
		"403": {
			begin: func(w *harness) {
				w.srv.SetPolicy(func(fake.Attributes) (bool, string) { return false, "no more" })
			},
			end:      func(w *harness) { w.srv.SetPolicy(nil) },
			headline: "API server refuses this daemon for ", within: 10 * time.Second, refused: true,
		},
		"403 to new watches too": {
			begin: func(w *harness) {
				w.srv.SetPolicy(func(fake.Attributes) (bool, string) { return false, "no more" })
				w.srv.EndWatches()
			},
			end:      func(w *harness) { w.srv.SetPolicy(nil) },
			headline: "API server refuses this daemon for ", within: 15 * time.Second, refused: true,
		},
		"one is refused": {
			begin: func(w *harness) {
				w.srv.SetPolicy(func(a fake.Attributes) (bool, string) { return a.Resource != "secrets", "no secrets" })
				w.srv.EndWatches()
			},
			end: func(w *harness) { w.srv.SetPolicy(nil) }, alone: true,
		},
		"one fails": {
			begin: func(w *harness) {
				w.srv.SetFault(func(r fake.Request) *fake.Fault {
					if r.Resource == "secrets" {
						return statusFault(http.StatusServiceUnavailable)
					}
					return nil
				})
				w.srv.EndWatches()
			},
			end: func(w *harness) { w.srv.SetFault(nil) }, alone: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			manyStreams(t, func(w *harness) {
				// says compares all that the daemon says with what it should.
				says := func(when string, outage, ready bool) {
					t.Helper()
					code, body := w.ask("/readyz?verbose")
					if (code == http.StatusOK) != ready {
						t.Errorf("%s: /readyz is %d\n%s", when, code, body)
					}
					s := w.status()
					_, page := w.ask("/")
					_, metrics := w.ask("/metrics")
					if !outage {
						if s.Outage != nil || strings.Contains(body+page, "API server ") || !strings.Contains(metrics, "\nkubejournal_apiserver_up 1\n") {
							t.Errorf("%s: an outage: %+v\n%s", when, s.Outage, body)
						}
						return
					}
					if s.Outage == nil || s.Outage.Refused != tc.refused || s.Ready != ready || s.Outage.Streams < 21 {
						t.Errorf("%s: /status says %+v, ready %t", when, s.Outage, s.Ready)
					}
					if !strings.Contains(body, "]apiserver ok: "+tc.headline) && !strings.Contains(body, "]apiserver failed: "+tc.headline) {
						t.Errorf("%s: /readyz says\n%s", when, body)
					}
					if !strings.Contains(page, tc.headline) {
						t.Errorf("%s: the page does not say %q", when, tc.headline)
					}
					if !strings.Contains(metrics, "\nkubejournal_apiserver_up 0\n") {
						t.Errorf("%s: the metric says that the server is up", when)
					}
				}
				token := w.srv.Config().BearerToken
				w.pass(20 * time.Second)
				says("before", false, true)
				began, lines := time.Now(), w.log.String()
				tc.begin(w)
				w.pass(tc.within)
				says("soon", !tc.alone, true)
				w.pass(time.Minute)
				says("after a minute", !tc.alone, tc.alone)
				// Every answer is as of the last pulse, but of what continues.
				for _, stream := range []string{"secrets", "configmaps?namespace=n07"} {
					lost, old := time.Since(began), w.believed(stream)
					if follows := tc.alone && stream != "secrets"; follows && old > 6*time.Second || !follows && old < lost {
						t.Errorf("%s is believed up to %s ago, %s after the begin", stream, old, lost)
					}
				}
				text := strings.TrimPrefix(w.log.String(), lines)
				if n := strings.Count(text, strings.TrimSuffix(tc.headline, " for ")+"\t"); !tc.alone && n != 1 || tc.alone && strings.Contains(text, "API server") {
					t.Errorf("%d lines of the log say so:\n%s", n, text)
				}
				if tc.alone && !strings.Contains(text, `"stream": "secrets"`) {
					t.Errorf("the log does not name the stream:\n%s", text)
				}
				w.srv.SetToken(token)
				tc.end(w)
				w.await("21 streams watch", func() bool { return w.watch() == 21 })
				w.pass(20 * time.Second)
				says("over", false, true)
				if old := w.believed("secrets"); old > 6*time.Second {
					t.Errorf("secrets are believed up to %s ago", old)
				}
			})
		})
	}
}
