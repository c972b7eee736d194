package watcher_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/status"
	"kubejournal/internal/watcher"
)

// ask asks the daemon over HTTP.
func (w *harness) ask(path string) (code int, body string) {
	recorded := httptest.NewRecorder()
	w.life.http.ServeHTTP(recorded, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return recorded.Code, recorded.Body.String()
}

// status is what /status says.
func (w *harness) status() (s status.Status) {
	w.t.Helper()
	_, body := w.ask("/status")
	must(w.t, json.Unmarshal([]byte(body), &s))
	return s
}

// manyStreams has 21 streams that watch, in 20 namespaces and secrets, and one that is pending.
func manyStreams(t *testing.T, test func(*harness)) {
	t.Helper()
	e := entry("configmaps")
	for i := range 20 {
		e.Namespaces = append(e.Namespaces, fmt.Sprintf("n%02d", i))
	}
	all := append(entries("secrets", "widgets.example.com"), e)
	bubble(t, fake.Options{}, all, func(w *harness) {
		w.put(secrets, "a")
		w.start()
		w.await("21 streams watch", func() bool { return w.watch() == 21 })
		w.pass(70 * time.Second)
		test(w)
		w.await("21 streams watch again", func() bool { return w.watch() == 21 })
		w.stop()
	})
}

// watch counts the streams that watch.
func (w *harness) watch() (n int) {
	for _, s := range w.life.manager.Streams() {
		if s.State == watcher.Watching {
			n++
		}
	}
	return n
}

// logged counts the lines of the daemon's log with a text.
func (w *harness) logged(text string) int { return strings.Count(w.log.String(), text) }

// An outage of the API server is said once: in the log, where it begins and ends, and in the status.
func TestOutage(t *testing.T) {
	manyStreams(t, func(w *harness) {
		if s := w.status(); s.Outage != nil || !s.Ready {
			t.Fatalf("before: %+v", s)
		}
		w.srv.StopAPIServer()
		w.pass(14 * time.Second)
		s := w.status()
		if s.Outage == nil || s.Outage.Streams != 21 || s.Outage.Attempts < 2*21 || time.Since(s.Outage.Since).Round(time.Second) != 14*time.Second ||
			!strings.HasSuffix(s.Outage.Error, "connection refused") || strings.Contains(s.Outage.Error, "http") {
			t.Errorf("after 14 s: %+v", s.Outage)
		}
		if len(s.Streams) != 22 {
			t.Errorf("%d streams", len(s.Streams))
		}
		for _, one := range s.Streams {
			if one.Unreachable != (one.State == "Retrying") || one.Unreachable == one.AwaitsCRD() {
				t.Errorf("after 14 s: %+v", one)
			}
		}
		w.pass(45 * time.Second)
		if got := w.logged("API server unreachable"); got != 1 || w.logged("watch ended") > 0 {
			t.Errorf("the outage is logged %d times, and single streams", got)
		}
		if !strings.Contains(w.log.String(), `API server unreachable	{"streams": 21, "of": 21, "reason": "ConnectionRefused", "error": "`) {
			t.Error("the line does not say how many streams, and why")
		}
		must(t, w.srv.StartAPIServer())
		w.await("they watch", func() bool { return w.watch() == 21 })
		w.pass(3 * time.Second)
		if got := w.logged("API server reachable again"); got != 1 || w.status().Outage != nil {
			t.Errorf("the end is logged %d times, and the status says %+v", got, w.status().Outage)
		}
		if !strings.Contains(w.log.String(), `"streams": 21, "attempts": `) {
			t.Error("the line does not say how many streams and attempts")
		}
	})
}

// A restart of the API server, by which it loses its history, leaves two lines in the log: it is lost, and all streams are
// watched again. The streams' own are at debug level.
func TestRestartIsTwoLines(t *testing.T) {
	for _, down := range []time.Duration{100 * time.Millisecond, 20 * time.Second} {
		manyStreams(t, func(w *harness) {
			before := w.log.String()
			w.srv.StopAPIServer()
			w.srv.Expire(w.srv.Version())
			w.put(secrets, "b")
			w.srv.Expire(w.srv.Version())
			w.pass(down)
			must(t, w.srv.StartAPIServer())
			w.await("they watch", func() bool { return w.watch() == 21 })
			w.pass(2 * time.Minute)
			lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(w.log.String(), before)), "\n")
			if len(lines) != 2 || !strings.Contains(lines[0], `API server unreachable	{"streams": 21, "of": 21, "reason": "`) ||
				!strings.Contains(lines[1], `API server reachable again	{"after": "`) || !strings.Contains(lines[1], `, "watchedAfter": "`) ||
				!strings.Contains(lines[1], `"listedAgain": `) || strings.Contains(lines[1], `"listedAgain": 0`) {
				t.Errorf("down for %s:\n%s", down, strings.Join(lines, "\n"))
			}
			before = w.log.String()
			w.srv.SetFault(func(r fake.Request) *fake.Fault {
				if r.Resource == "secrets" && r.Verb == "watch" {
					return statusFault(http.StatusInternalServerError)
				}
				return nil
			})
			w.srv.EndWatches()
			w.pass(10 * time.Second)
			if text := strings.TrimPrefix(w.log.String(), before); !strings.Contains(text, `watch ended, trying again	{"stream": "secrets", "reason": "ServerError"`) {
				t.Errorf("one that fails alone is not logged:\n%s", text)
			}
			w.srv.SetFault(nil)
		})
	}
}

// Readiness ends a minute into an outage, for one reason that is said once, and comes back after it.
func TestReadinessInAnOutage(t *testing.T) {
	manyStreams(t, func(w *harness) {
		w.srv.StopAPIServer()
		for range 55 {
			w.pass(time.Second)
			if code, body := w.ask("/readyz"); code != http.StatusOK {
				t.Fatalf("%d %s", code, body)
			}
		}
		if _, body := w.ask("/readyz?verbose"); !strings.Contains(body, "\n[+]apiserver ok: API server unreachable for 5") {
			t.Errorf("after 55 s: %s", body)
		}
		w.pass(time.Minute)
		code, body := w.ask("/readyz")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "\n[-]apiserver failed: API server unreachable for 1m5") ||
			!strings.Contains(body, ": 21 of 22 streams: ") || strings.Count(body, "refused") != 1 || !strings.Contains(body, "\n[+]streams ok: no progress: widgets.example.com (") {
			t.Errorf("after 2 minutes: %d %s", code, body)
		}
		if code, _ := w.ask("/livez"); code != http.StatusOK {
			t.Errorf("/livez: %d", code)
		}
		must(t, w.srv.StartAPIServer())
		w.await("it is reachable", func() bool { return w.status().Outage == nil })
		if code, body := w.ask("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "reachable again") {
			t.Errorf("at once: %d %s", code, body)
		}
		w.pass(11 * time.Second)
		if code, body := w.ask("/readyz"); code != http.StatusOK {
			t.Errorf("after 11 s: %d %s", code, body)
		}
	})
}

// An outage ends for a stream too that an edit of the config starts anew in it.
func TestEditInAnOutage(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.start()
		w.await("it watches", w.watching)
		w.srv.StopAPIServer()
		w.pass(10 * time.Second)
		if w.status().Outage == nil {
			t.Error("no outage")
		}
		o := w.options
		o.Resources = entries("configmaps")
		o.Resources[0].Payload = "metadata"
		if d, err := w.life.manager.Apply(w.t.Context(), o); err != nil || d.Changed != 1 {
			t.Errorf("%+v, %v", d, err)
		}
		must(t, w.srv.StartAPIServer())
		w.await("it watches again", w.watching)
		w.pass(3 * time.Second)
		if w.status().Outage != nil || w.logged("API server reachable again") != 1 {
			t.Errorf("%+v", w.status().Outage)
		}
		w.stop()
	})
}

// The errors of a balancer before the server are an outage too.
func TestOutageBehindABalancer(t *testing.T) {
	manyStreams(t, func(w *harness) {
		w.srv.SetFault(func(fake.Request) *fake.Fault { return html(http.StatusBadGateway, 0) })
		w.srv.EndWatches()
		w.pass(10 * time.Second)
		if s := w.status(); s.Outage == nil || s.Outage.Streams != 21 {
			t.Errorf("%+v", s.Outage)
		}
		w.srv.SetFault(nil)
	})
}

// A stream that fails alone, for whatever reason, is logged at each attempt.
func TestNoOutage(t *testing.T) {
	for name, fault := range map[string]*fake.Fault{"503": statusFault(http.StatusServiceUnavailable), "500": statusFault(http.StatusInternalServerError)} {
		t.Run(name, func(t *testing.T) {
			manyStreams(t, func(w *harness) {
				n := len(w.srv.Requests())
				w.srv.SetFault(func(r fake.Request) *fake.Fault {
					if r.Namespace == "n07" && r.Resource == "configmaps" {
						return fault
					}
					return nil
				})
				w.srv.EndWatches()
				w.pass(time.Minute)
				attempts := 0
				for _, r := range w.srv.Requests()[n:] {
					if r.Namespace == "n07" && r.Query.Get("continue") == "" { // else it is asked whether an object is to blame
						attempts++
					}
				}
				w.pass(3 * time.Second) // the last may be held back
				lines := strings.Count(w.log.String(), `watch ended, trying again	{"stream": "configmaps?namespace=n07", "reason": "ServerError", "error": "`)
				if attempts < 4 || lines < attempts || lines > attempts+1 || w.logged("unreachable") > 0 || w.status().Outage != nil {
					t.Errorf("%d attempts, %d lines, %+v", attempts, lines, w.status().Outage)
				}
				w.srv.SetFault(nil)
			})
		})
	}
}

// What /status and the metrics say of the journal follows its files.
func TestStatusOfTheJournal(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.output.MaxSize = 16 << 10
		w.pad = 1 << 10
		w.start()
		w.await("it watches", w.watching)
		for i := range 40 {
			w.put(configMaps, fmt.Sprint("a", i))
		}
		w.pass(3 * time.Second)
		s := w.status()
		if s.Journal == nil || s.Journal.Path != w.journal() || s.Journal.Segments < 3 || s.Journal.Seq != 41 || s.Journal.Oldest.IsZero() ||
			s.Journal.Free == 0 || s.Journal.Size < s.Journal.Free {
			t.Errorf("%+v", s.Journal)
		}
		if s.Checkpoint == nil || s.Checkpoint.Path != w.db() || s.Checkpoint.Free == 0 || s.Server == "" || s.Config != "" {
			t.Errorf("%+v of %+v", s.Checkpoint, s)
		}
		_, page := w.ask("/metrics")
		for _, want := range []string{
			"\nkubejournal_journal_seq 41\n", fmt.Sprintf("\nkubejournal_journal_segments %d\n", s.Journal.Segments),
			fmt.Sprintf("\nkubejournal_journal_oldest_timestamp_seconds %v\n", float64(s.Journal.Oldest.UnixNano())/1e9),
			"\n" + `kubejournal_events_total{group="",origin="",resource="configmaps",type="GAP"} 0` + "\n",
			"\n" + `kubejournal_output_errors_total{operation="write"} 0` + "\n",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("no %q in the metrics", strings.TrimSpace(want))
			}
		}
	})
}
