package watcher_test

import (
	"net/http"
	"runtime"
	"testing"
	"time"

	"kubejournal/internal/coverage"
	"kubejournal/internal/kubefake"
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
			w.srv.SetFault(func(kubefake.Request) *kubefake.Fault { return &kubefake.Fault{Hang: true} })
		},
		"gone":    func(w *harness) { w.srv.StopAPIServer() },
		"refused": func(w *harness) { w.srv.SetToken("another") },
		"forbidden": func(w *harness) {
			w.srv.SetPolicy(func(kubefake.Attributes) (bool, string) { return false, "no more" })
		},
		"elsewhere": func(w *harness) {
			w.srv.SetFault(func(r kubefake.Request) *kubefake.Fault { return status(http.StatusFound) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, kubefake.Options{BookmarkInterval: time.Hour}, entries("configmaps", "secrets"), func(w *harness) {
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
				if why := w.life; why != nil && why.manager.Unconfirmed(time.Now()) == "" && why.manager.Outage().Since.IsZero() {
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

// A watch that stalls while the server answers takes back what pulses had said, once its late lines come.
func TestPulseOfAStalledWatch(t *testing.T) {
	bubble(t, kubefake.Options{}, entries("configmaps", "secrets"), func(w *harness) {
		w.start()
		w.synced()
		w.put(configMaps, "a")
		w.pass(5 * time.Minute)
		w.srv.SilenceWatches()
		began := time.Now()
		w.put(configMaps, "b")
		w.pass(10 * time.Minute) // it is opened again meanwhile
		all, err := coverage.Read(w.journal())
		must(t, err)
		for _, s := range all {
			for _, i := range s.Intervals {
				if s.Name == "configmaps" && !i.Late && !i.From.After(began) && i.To.After(began) {
					t.Errorf("the write at %s is in %+v", began, i)
				}
			}
		}
		w.interrupted = true
	})
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
			bubble(t, kubefake.Options{}, nil, func(w *harness) {
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
