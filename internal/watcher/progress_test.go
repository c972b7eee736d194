package watcher_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

// restarts is how often watches were opened again for a reason.
func (w *harness) restarts(reason string) int {
	w.t.Helper()
	families, err := w.life.metrics.Registry.Gather()
	must(w.t, err)
	n := 0.0
	for _, f := range families {
		if f.GetName() != "kubejournal_watch_restarts_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "reason" && l.GetValue() == reason {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return int(n)
}

// watches are the versions from which the watches of configmaps after the nth
// request began; "" is a streamed list.
func (w *harness) watches(n int) []string {
	var from []string
	for _, r := range w.requests(n, "configmaps", "watch") {
		from = append(from, r.Query.Get("resourceVersion"))
	}
	return from
}

// A watch that was fed with bookmarks and is silent now is opened again where it
// stood: told once, counted once, with nothing lost and nothing written.
func TestSilentWatchIsOpenedAgain(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.start()
		w.synced()
		w.put(secrets, "noise") // for a bookmark to tell of
		w.pass(90 * time.Second)
		n, lines, silentSince := len(w.srv.Requests()), len(w.lines()), time.Now()
		position := w.state("configmaps").Position
		w.srv.SilenceWatches()
		w.put(configMaps, "b")
		w.remove(configMaps, "a")
		// The last bookmark was half a minute before.
		w.pass(2 * time.Minute)
		if got := w.watches(n); got != nil {
			t.Fatalf("opened again from %q after two minutes", got)
		}
		w.tell(lines)
		w.awaitFor(2*time.Minute, "it watches again", func() bool { return len(w.watches(n)) == 1 && w.watching() })
		if took := time.Since(silentSince); took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("opened again after %v", took)
		}
		if got := w.watches(n)[0]; got != position {
			t.Errorf("opened again from %s, the position was %s", got, position)
		}
		if slices.ContainsFunc(w.requests(n, "configmaps", "list"), lists) {
			t.Error("listed again")
		}
		w.synced()
		w.tell(lines, "ADDED watch b", "DELETED watch a")
		if n := w.restarts("Silent"); n != 1 {
			t.Errorf("%d restarts are counted", n)
		}
		w.pass(3 * time.Second) // in case others have the same to say
		if n := strings.Count(w.log.String(), `"Silent"`); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
		w.check()
	})
}

// Where nothing is ever heard of a healthy watch, because the server sends no
// bookmarks or has nothing new to tell, silence is no reason to begin again: its
// own timeout is. A server that stopped to send bookmarks is doubted once.
func TestQuietWatchIsLeftAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, c := range map[string]struct {
		fault  *fake.Fault
		silent int // restarts for silence
	}{
		// The watch after the first list lasts longer than others, and is given up after the time of those.
		"server without bookmarks": {&fake.Fault{DropBookmarks: true}, 1},
		// One bookmark comes; the next watch begins at the server's version, and gets none.
		"nothing happens in the cluster": {nil, 1},
	} {
		for _, noWatchList := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, fake.Options{NoWatchList: noWatchList}, entries("configmaps"), func(w *harness) {
					w.srv.SetFault(on("configmaps", "watch", c.fault))
					w.put(configMaps, "a")
					w.start()
					w.synced()
					w.put(secrets, "noise")
					lines, n := len(w.lines()), len(w.srv.Requests())
					longest := time.Duration(0)
					for range 6 * 60 {
						w.pass(time.Minute)
						longest = max(longest, w.state("configmaps").Idle(time.Now()))
					}
					// One watch that is given up, and one that ends.
					if longest > 22*time.Minute {
						t.Errorf("no progress for %v", longest)
					}
					w.tell(lines)
					if got := w.life.manager.Stalled(); got != "" {
						t.Errorf("Stalled = %q", got)
					}
					if got := w.restarts("Silent"); got > c.silent {
						t.Errorf("%d restarts for silence in six hours", got)
					}
					// A watch lasts 5 to 10 minutes.
					if got := len(w.watches(n)); got < 36 || got > 74 {
						t.Errorf("%d watches in six hours", got)
					}
					w.put(configMaps, "b")
					w.remove(configMaps, "a")
					w.check()
				})
			})
		}
	}
}

// Silence from the first watch on, before any bookmark: it is found out, if
// later.
func TestSilentFromTheBeginning(t *testing.T) {
	for _, noWatchList := range []bool{false, true} {
		bubble(t, fake.Options{NoWatchList: noWatchList}, entries("configmaps"), func(w *harness) {
			w.put(configMaps, "a")
			w.start()
			w.synced()
			n := len(w.lines())
			w.srv.SilenceWatches()
			w.put(configMaps, "b")
			w.awaitFor(12*time.Minute, "it is told", func() bool { return len(w.lines()) > n })
			w.tell(n, "ADDED watch b")
			w.check()
		})
	}
}

// What makes no progress can be seen, and readiness stays what it is.
func TestStalled(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "secrets", "nothing.example.com"), func(w *harness) {
		w.start()
		w.await("they watch", func() bool {
			return w.state("configmaps").State == watcher.Watching && w.state("secrets").State == watcher.Watching
		})
		w.pass(10 * time.Second)
		if got := w.life.manager.Stalled(); !strings.HasPrefix(got, "no progress: nothing.example.com (Pending for ") {
			t.Errorf("Stalled = %q", got)
		}
		w.srv.SetFault(on("configmaps", "", statusFault(500)))
		w.srv.EndWatches()
		down := time.Now()
		w.pass(30 * time.Second)
		if got := w.life.manager.Stalled(); strings.Contains(got, "configmaps") {
			t.Errorf("after half a minute: %q", got)
		}
		w.pass(5 * time.Minute)
		if got := w.life.manager.Stalled(); !strings.Contains(got, "configmaps (failing for 5m") || !strings.Contains(got, "Retrying ServerError") {
			t.Errorf("after five minutes: %q", got)
		}
		if err := w.life.manager.Synced(); err != nil {
			t.Errorf("readiness: %v", err)
		}
		if s := w.state("configmaps"); s.State != watcher.Retrying || s.Since.Before(down) || s.Since.After(down.Add(5*time.Second)) ||
			s.Failing.Before(down) || s.Failing.After(down.Add(5*time.Second)) || s.Idle(time.Now()) < 5*time.Minute {
			t.Errorf("down since %v, told %+v", down, s)
		}
		// A stream that becomes pending keeps what it had.
		position := w.state("configmaps").Position
		w.srv.SetFault(nil)
		w.srv.Forbid(configMaps)
		w.awaitFor(2*time.Minute, "it is pending", func() bool { return w.state("configmaps").State == watcher.Pending })
		if s := w.state("configmaps"); s.Position != position || !s.Synced || s.LastProgress.IsZero() || s.Since.Before(down.Add(5*time.Minute)) {
			t.Errorf("pending: %+v", s)
		}
		w.srv.Allow(configMaps)
		w.await("it watches", func() bool { return w.state("configmaps").State == watcher.Watching })
		if s := w.state("configmaps"); !s.Failing.IsZero() && s.State != watcher.Watching {
			t.Errorf("at work again: %+v", s)
		}
		w.pass(time.Minute)
		if got := w.life.manager.Stalled(); strings.Contains(got, "configmaps") {
			t.Errorf("at work again: %q", got)
		}
		w.stop()
	})
}

// Many streams that make no progress are counted, not all named.
func TestStalledIsShort(t *testing.T) {
	e := entry("configmaps")
	for i := range 30 {
		e.Namespaces = append(e.Namespaces, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	bubble(t, fake.Options{}, nil, func(w *harness) {
		w.entries = append(w.entries, e)
		w.srv.SetFault(on("configmaps", "", statusFault(500)))
		w.start()
		w.pass(2 * time.Minute)
		if got := w.life.manager.Stalled(); !strings.HasSuffix(got, "and 20 more") || strings.Count(got, "failing for") != 10 {
			t.Errorf("Stalled = %q", got)
		}
		w.srv.SetFault(nil)
		w.check()
	})
}

// Packets vanish, and no end of the connection is ever seen. With HTTP/2, which
// has pings, client-go finds out; with HTTP/1.1 the watch's silence does. New
// connections work: the watch continues where it stood.
func TestHalfOpenConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	noLeaks(t)
	for name, c := range map[string]struct {
		env     map[string]string
		silence time.Duration
		reason  string
	}{
		// client-go's own values are 30 s and 15 s.
		"HTTP/2":   {map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "1", "HTTP2_PING_TIMEOUT_SECONDS": "1"}, 0, "ConnectionLost"},
		"HTTP/1.1": {map[string]string{"DISABLE_HTTP2": "1"}, 3 * time.Second, "Silent"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			var p *proxy
			watched(t, streams.Options{Silence: c.silence}, func(srv *fake.Server, _ string) func() (*rest.Config, error) {
				p = newProxy(t, strings.TrimPrefix(srv.URL(), "https://"))
				return func() (*rest.Config, error) {
					config := srv.Config()
					config.Host = "https://" + p.address()
					return config, nil
				}
			}, func(d *daemon) {
				defer p.close()
				d.put("a")
				d.noise()
				d.told(2)
				position := d.manager.Streams()[0].Position
				d.until("a bookmark", func() bool { return d.manager.Streams()[0].Position != position })
				// A second connection, where the watch has one of its own: it waits to be used again.
				api, err := client.New(d.access.Config())
				must(t, err)
				_, err = api.ClusterID(t.Context())
				must(t, err)
				n, began := len(d.srv.Requests()), time.Now()
				if p.freeze() == 0 {
					t.Error("no connection was open")
				}
				d.put("b")
				d.put("a")
				d.told(4)
				t.Logf("told after %v", time.Since(began).Round(time.Millisecond))
				if len(d.srv.Requests()) == n {
					t.Error("told without a request: the connection was not dead")
				}
				d.until("the reason is logged", func() bool { return strings.Contains(d.log.String(), `"reason": "`+c.reason+`"`) })
				d.check()
			})
		})
	}
}
