package watcher_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// believed is how long ago the last time of a stream is that is covered.
func (w *harness) believed(stream string) time.Duration {
	w.t.Helper()
	all, err := coverage.Read(w.journal())
	must(w.t, err)
	for _, s := range all {
		if s.Name == stream {
			return time.Since(s.Intervals[len(s.Intervals)-1].To)
		}
	}
	w.t.Fatalf("%s is not covered", stream)
	return 0
}

// A quiet daemon is believed all the time, and again within ten seconds of a start. One that was killed, cut off or refused
// is not believed from then on.
func TestPulse(t *testing.T) {
	for name, ends := range map[string]func(*harness){
		"killed": func(w *harness) { w.kill() },
		"cut off": func(w *harness) {
			w.srv.SetFault(func(fake.Request) *fake.Fault { return &fake.Fault{Hang: true} })
		},
		"gone":    func(w *harness) { w.srv.StopAPIServer() },
		"refused": func(w *harness) { w.srv.SetToken("another") },
		"forbidden": func(w *harness) {
			w.srv.SetPolicy(func(fake.Attributes) (bool, string) { return false, "no more" })
		},
		"another cluster": func(w *harness) {
			body := `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"another"}}`
			w.srv.SetFault(on("namespaces", "get", &fake.Fault{Status: http.StatusOK, Body: body}))
		},
		"elsewhere": func(w *harness) {
			w.srv.SetFault(func(fake.Request) *fake.Fault { return statusFault(http.StatusFound) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps", "secrets"), func(w *harness) {
				w.start()
				w.synced()
				for range 200 {
					w.pass(time.Second)
					if old := w.believed("configmaps"); old > 6*time.Second {
						t.Fatalf("a quiet daemon is believed up to %s ago", old)
					}
				}
				w.stop()
				w.pass(20 * time.Second)
				w.start()
				w.pass(10 * time.Second)
				if old := w.believed("configmaps"); old > 6*time.Second {
					t.Fatalf("ten seconds after a start, it is believed up to %s ago", old)
				}
				ends(w)
				w.pass(time.Minute)
				if why := w.life; why != nil && why.manager.Outage().Since.IsZero() {
					t.Error("nothing says so")
				}
				if old := w.believed("configmaps"); old < time.Minute-time.Second {
					t.Errorf("a minute after its end it is believed up to %s ago", old)
				}
				w.interrupted = true
			})
		})
	}
}

// A watch that stalls while the server answers takes back what pulses had said: once it is opened again, or by the next
// process, whatever that knows. A deletion does not say when it was made.
func TestPulseOfAStalledWatch(t *testing.T) {
	for change, happens := range map[string]func(*harness){
		"a write":    func(w *harness) { w.put(configMaps, "b") },
		"a deletion": func(w *harness) { w.remove(configMaps, "a") },
	} {
		t.Run(change, func(t *testing.T) { pulseOfAStalledWatch(t, happens) })
	}
}

func pulseOfAStalledWatch(t *testing.T, happens func(*harness)) {
	for name, ends := range map[string]func(*harness){
		"opened again": func(w *harness) {},
		"opened again, at an earlier version": func(w *harness) {
			w.put(secrets, "c")
			w.srv.BreakWatches()
			w.pass(3 * time.Second) // a commit before a pulse
			if w.promptAt(time.Now().Add(-time.Minute)) {
				w.t.Error("it is not taken back at once")
			}
		},
		"killed":  func(w *harness) { w.kill(); w.start() },
		"stopped": func(w *harness) { w.stop(); w.start() },
		"killed, and the next watch stalls": func(w *harness) {
			w.kill()
			w.srv.SetFault(on("configmaps", "watch", &fake.Fault{Stream: fake.Silent}))
			w.start()
			w.pass(20 * time.Second)
			if old := w.believed("configmaps"); old > 6*time.Second {
				w.t.Errorf("the next one is believed up to %s ago", old)
			}
			w.kill()
			w.srv.SetFault(nil)
			w.start()
		},
		"checkpoint lost": func(w *harness) {
			w.kill()
			must(w.t, os.Remove(w.db()))
			w.start()
		},
		"history lost": func(w *harness) {
			w.kill()
			w.srv.Expire(w.srv.Version())
			w.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps", "secrets"), func(w *harness) {
				w.start()
				w.synced()
				w.put(configMaps, "a")
				w.pass(5 * time.Minute)
				w.srv.SilenceWatches()
				began := time.Now()
				w.pass(5 * time.Second)
				happens(w)
				wrote := time.Now()
				w.pass(time.Minute)
				if old := w.believed("configmaps"); old > 6*time.Second {
					t.Fatalf("there were no pulses for %s", old)
				}
				ends(w)
				w.pass(10 * time.Minute)
				all, err := coverage.Read(w.journal())
				must(t, err)
				for _, s := range all {
					for _, i := range s.Intervals {
						if s.Name == "configmaps" && !i.Late && !i.From.After(wrote) && i.To.After(wrote) {
							t.Errorf("silent from %s on, but the write at %s is in %+v", began, wrote, i)
						}
					}
				}
				if old := w.believed("configmaps"); old > 6*time.Second {
					t.Errorf("it is believed up to %s ago", old)
				}
				w.interrupted = true
			})
		})
	}
}

// What has waited for a blocked output came late, also where a pulse is the first thing that confirms the stream.
func TestPulseBehindABlockedOutput(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps"), func(w *harness) {
		w.start()
		w.synced()
		w.pass(time.Minute)
		w.life.gate.slow(30*time.Second, 0)
		w.put(configMaps, "a")
		w.pass(time.Second)
		wrote := time.Now()
		w.pad = 100_000
		for n := range 300 { // more than the recorder holds
			w.put(configMaps, fmt.Sprint(n))
		}
		w.pass(time.Minute)
		for _, l := range w.lines() {
			if received, err := time.Parse(time.RFC3339Nano, l.Time); err != nil || received.Sub(wrote) > 10*time.Second && w.promptAt(wrote) {
				t.Fatalf("line %d came at %s, and %s is covered as if it had come at once (%v)", l.Seq, l.Time, wrote, err)
			}
		}
		w.interrupted = true
	})
}

// promptAt reports whether coverage says that lines of a time came at once.
func (w *harness) promptAt(t time.Time) bool {
	w.t.Helper()
	all, err := coverage.Read(w.journal())
	must(w.t, err)
	for _, i := range all[0].Intervals {
		if !i.Late && !i.From.After(t) && i.To.After(t) {
			return true
		}
	}
	return false
}

// held is the body of an answer of which nothing arrives while hold is set.
type held struct {
	io.ReadCloser
	hold *atomic.Bool
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	for h.hold.Load() {
		<-time.After(100 * time.Millisecond)
	}
	return n, err
}

// roundTripper makes requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An event that arrives late over a watch that stays open shows by when it was written that pulses before were wrong.
func TestPulseOfAHeldUpWatch(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps"), func(w *harness) {
		var hold atomic.Bool
		w.wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if err == nil && r.URL.Query().Has("watch") {
					answer.Body = &held{answer.Body, &hold}
				}
				return answer, err
			})
		}
		w.start()
		w.synced()
		w.put(configMaps, "a")
		w.pass(10 * time.Second)
		hold.Store(true)
		w.put(configMaps, "b")
		wrote := time.Now()
		w.pass(50 * time.Second)
		if !w.promptAt(wrote) {
			t.Fatal("there were no pulses")
		}
		hold.Store(false)
		w.pass(time.Minute)
		if w.promptAt(wrote) {
			t.Errorf("%s is covered as if b had come at once: %s", wrote, w.covered("configmaps", wrote))
		}
	})
}

// A change that the journal is not to have shows of no pulse that it was wrong: nothing is missing.
func TestPulseBeforeWhatIsHeldBack(t *testing.T) {
	resources := entries("configmaps")
	resources[0].Types = []string{"DELETED"}
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, resources, func(w *harness) {
		w.start()
		w.synced()
		w.put(configMaps, "a")
		w.pass(30 * time.Second)
		at := time.Now()
		w.pass(30 * time.Second)
		w.srv.BreakWatches()
		w.put(configMaps, "b")
		w.pass(time.Minute)
		if !w.promptAt(at) {
			t.Errorf("b was made 30 seconds after %s, which is covered as late: %s", at, w.covered("configmaps", at))
		}
	})
}

// What was made before a change that a watch has brought is known for good, also where the history is lost before
// anything else confirms that.
func TestGapBehindALateChange(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps", "secrets"), func(w *harness) {
		w.start()
		w.synced()
		w.put(configMaps, "a")
		w.pass(20 * time.Second)
		w.kill()
		w.pass(10 * time.Second)
		w.put(configMaps, "b")
		wrote := time.Now()
		w.put(secrets, "c") // the server's version is behind b
		w.pass(20 * time.Second)
		w.start()
		w.pass(20 * time.Second)
		w.srv.Expire(w.srv.Version())
		w.srv.BreakWatches()
		isGap := func(l invariant.Line) bool { return l.Type == invariant.Gap && l.Stream == "configmaps" }
		w.await("a GAP", func() bool { return slices.ContainsFunc(w.lines(), isGap) })
		w.synced()
		w.pass(time.Minute)
		from := w.fromTime(slices.IndexFunc(w.lines(), isGap))
		if from.Before(wrote.Truncate(time.Second)) || from.After(wrote) {
			t.Errorf("b was written at %s, and the GAP is from %s on", wrote, from)
		}
		all, err := coverage.Read(w.journal())
		must(t, err)
		for _, s := range all {
			if s.Name != "configmaps" {
				continue
			}
			ends := slices.ContainsFunc(s.Intervals, func(in coverage.Interval) bool {
				return in.Late && in.End == "Expired" && in.To.After(wrote.Add(-2*time.Second)) && !in.To.After(wrote)
			})
			if !ends {
				t.Errorf("b was written at %s: %+v", wrote, s.Intervals)
			}
		}
	})
}

// A server that stands still for a while, or a daemon, confirms nothing, and what has waited comes late.
func TestPulseOfAStoppedServer(t *testing.T) {
	for _, still := range []time.Duration{13 * time.Second, 30 * time.Second, 48 * time.Second} {
		t.Run(still.String(), func(t *testing.T) {
			bubble(t, fake.Options{BookmarkInterval: time.Hour}, entries("configmaps"), func(w *harness) {
				var hold atomic.Bool
				w.wrap = func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						answer, err := next.RoundTrip(r)
						if err == nil {
							answer.Body = &held{answer.Body, &hold}
						}
						return answer, err
					})
				}
				w.start()
				w.synced()
				w.put(configMaps, "a")
				w.pass(20 * time.Second)
				hold.Store(true)
				w.pass(time.Second)
				w.put(configMaps, "b")
				wrote := time.Now()
				w.pass(still)
				hold.Store(false)
				w.pass(10 * time.Second)
				w.put(configMaps, "c")
				w.pass(10 * time.Second)
				if w.promptAt(wrote) || !w.promptAt(time.Now().Add(-10*time.Second)) {
					t.Errorf("written at %s, read %s later: %s", wrote, still, w.covered("configmaps", wrote))
				}
			})
		})
	}
}

// BenchmarkPulse is an hour of 57 quiet streams without and with pulses, in turn there and back. cpu-s/hour is that of the
// whole process, the server in it included.
func BenchmarkPulse(b *testing.B) {
	const streams = 57
	all := func(string, string) (bool, error) { return true, nil }
	var took, requests [2]float64
	hours := 0.0
	hour := func(i int, pulse time.Duration) {
		runtime.GC()
		// testing/synctest needs a *testing.T.
		ok := testing.RunTests(all, []testing.InternalTest{{Name: "hour", F: func(t *testing.T) {
			bubble(t, fake.Options{}, nil, func(w *harness) {
				w.plain, w.pulse = true, pulse
				w.startNeighbours(streams, nil)
				w.pass(10 * time.Second)
				began, asked := cpuTime(t), len(w.srv.Requests())
				w.pass(time.Hour)
				took[i] += (cpuTime(t) - began).Seconds()
				requests[i] += float64(len(w.srv.Requests()) - asked)
			})
		}}})
		if !ok {
			b.Fatal("the hour failed")
		}
		hours += 0.5
	}
	for b.Loop() {
		for _, i := range []int{0, 1, 1, 0} {
			hour(i, []time.Duration{never, 0}[i])
		}
	}
	b.ReportMetric(took[0]/hours, "cpu-s/hour-without")
	b.ReportMetric(took[1]/hours, "cpu-s/hour-with")
	b.ReportMetric(requests[0]/hours, "requests/hour-without")
	b.ReportMetric(requests[1]/hours, "requests/hour-with")
}
