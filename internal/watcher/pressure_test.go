package watcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// The output takes nothing for longer than any watch lasts: streams wait, the
// server ends their watches or they do, and nothing is lost.
func TestOutputBlocked(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, o, entries("configmaps", "deployments.apps"), func(w *harness) {
				w.put(configMaps, "a")
				w.start()
				w.synced()
				w.srv.EndWatches() // the next ones end sooner than one that began with a list
				w.pass(10 * time.Second)
				n := len(w.lines())
				w.life.gate.setFull(true)
				for i := range 3000 {
					w.put(configMaps, fmt.Sprint("a", i%5))
					if i%10 == 0 {
						w.put(deployments, "web")
					}
					w.pass(time.Second)
				}
				w.tell(n)
				w.life.gate.setFull(false)
				w.check()
				if got := len(w.lines()) - n; got != 3300 {
					t.Errorf("%d lines of 3300 events", got)
				}
				w.stop()
			})
		})
	}
}

// The same while a list is under way: a first sync, and a relist, of more than
// the recorder holds in memory.
func TestOutputBlockedInAList(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const objects = 120 // of 64 KiB, a batch each: more than the recorder's queue
	for name, relist := range map[string]bool{"first sync": false, "relist": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{BookmarkInterval: 10 * time.Minute}, entries("configmaps"), func(w *harness) {
				w.pad = 64 << 10
				w.put(configMaps, "known")
				if relist {
					w.start()
					w.synced()
					w.stop()
				}
				for i := range objects {
					w.put(configMaps, fmt.Sprintf("a%03d", i))
				}
				w.put(configMaps, "known")
				w.srv.DropHistory()
				w.start()
				// The disk is full from somewhere in the list on, for longer than a list may take.
				w.life.gate.fillAfter(100 << 10)
				for range 30 {
					w.pass(6 * time.Minute)
					w.put(secrets, "noise")
				}
				w.put(configMaps, "a001")
				w.remove(configMaps, "a002")
				w.put(configMaps, "a002")
				w.life.gate.setFull(false)
				w.synced()
				w.interrupted = true
				w.check()
			})
		})
	}
}

// An edit of the config that removes a stream takes effect while the output is blocked.
func TestApplyBesideABlockedOutput(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps", "secrets"), func(w *harness) {
		w.start()
		w.synced()
		w.life.gate.setFull(true)
		for i := range 200 { // more batches than the queue holds
			w.put(configMaps, fmt.Sprint("a", i%5))
			w.pass(time.Second)
		}
		unblock := time.AfterFunc(time.Hour, func() { w.life.gate.setFull(false) })
		began := time.Now()
		w.mustApply(entries("configmaps"), nil)
		if waited := time.Since(began); waited > time.Minute {
			t.Errorf("it took %v", waited)
		}
		unblock.Stop()
		w.life.gate.setFull(false)
		w.check()
	})
}

// No part of a Secret that is to be redacted reaches a file: not the journal,
// not the checkpoint.
func TestSecretsReachNoFile(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const marker = "cGx1bS1qYW0tMTIzNDU2Nzg5"
	bubble(t, fake.Options{}, entries("secrets", "configmaps"), func(w *harness) {
		secret := func(name string) map[string]any {
			return map[string]any{
				"metadata": map[string]any{"name": name, "namespace": "default", "annotations": map[string]any{
					"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"` + marker + `"}}`,
					"pad": strings.Repeat("x", 60<<10),
				}},
				"data":       map[string]any{"password": marker},
				"stringData": map[string]any{"other": marker},
			}
		}
		create := func(name string) {
			stored, err := w.srv.Create(secrets, secret(name))
			must(t, err)
			w.acknowledged(secrets, invariant.Added, stored)
		}
		create("a")
		w.start()
		w.synced()
		create("b")
		w.synced()
		w.stop()
		for i := range 40 {
			create(fmt.Sprintf("c%02d", i))
		}
		w.srv.DropHistory()
		w.start()
		w.check()
		w.stop()
		files, err := os.ReadDir(w.dir)
		must(t, err)
		if len(files) != 4 {
			t.Errorf("the folder holds %v", files)
		}
		for _, f := range files {
			data, err := os.ReadFile(filepath.Join(w.dir, f.Name()))
			must(t, err)
			if strings.Contains(string(data), marker) {
				t.Errorf("%s holds a secret's value", f.Name())
			}
		}
		if strings.Contains(w.log.String(), marker) {
			t.Error("the log holds a secret's value")
		}
		for _, l := range w.lines() {
			if l.Resource == "secrets" && l.Object != nil && !strings.Contains(string(l.Object), `"password":"REDACTED"`) {
				t.Errorf("the key is not there: %.300s", l.Object)
			}
		}
	})
}

// A server that asks to be left alone is left alone.
func TestRetryAfter(t *testing.T) {
	const after = 70 // seconds: longer than any pause of our own
	for name, code := range map[string]int{"429": 429, "503": 503} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				fault := &fake.Fault{Status: code, RetryAfter: after}
				w.srv.SetFault(first(3, on("configmaps", "", fault)))
				w.start()
				w.pass(5 * time.Minute)
				w.synced()
				n := len(w.srv.Requests())
				w.srv.SetFault(first(3, on("configmaps", "", fault)))
				w.srv.EndWatches()
				w.pass(10 * time.Minute)
				w.put(configMaps, "b")
				w.check()
				for _, asked := range [][]fake.Request{w.srv.Requests()[:n], w.srv.Requests()[n:]} {
					var last time.Time
					refused := 0
					for _, r := range asked {
						if r.Resource != "configmaps" {
							continue
						}
						if pause := r.Time.Sub(last); !last.IsZero() && pause < after*time.Second {
							t.Errorf("asked again after %v", pause)
						}
						last = time.Time{}
						if r.Status == code {
							refused++
							last = r.Time
						}
					}
					if refused != 3 {
						t.Errorf("%d requests were refused", refused)
					}
				}
			})
		})
	}
}

// Whatever a server does, it is not asked again and again: less than once per
// second and stream on average over ten minutes.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	all := func(f *fake.Fault) func(fake.Request) *fake.Fault { return on("configmaps", "", f) }
	watches := func(f *fake.Fault) func(fake.Request) *fake.Fault { return on("configmaps", "watch", f) }
	for name, c := range map[string]struct {
		options fake.Options
		choose  func(fake.Request) *fake.Fault
		most    int // requests in ten minutes; default 100
	}{
		"500":                    {choose: all(statusFault(500))},
		"429":                    {choose: all(statusFault(tooManyRequests))},
		"401":                    {choose: all(statusFault(401))},
		"403":                    {choose: all(statusFault(403))},
		"404":                    {choose: all(statusFault(404))},
		"410":                    {choose: all(statusFault(410))},
		"410 pages":              {options: fake.Options{NoWatchList: true}, choose: all(statusFault(410))},
		"garbage":                {choose: all(&fake.Fault{Status: 200, Body: "<html>"})},
		"cut":                    {choose: all(&fake.Fault{CutAfterBytes: 1})},
		"watch: 500":             {choose: watches(statusFault(500))},
		"watch: 410":             {choose: watches(statusFault(410))},
		"watch: 410, lists work": {options: fake.Options{NoWatchList: true}, choose: watches(statusFault(410))},
		"watch: gone in stream":  {options: fake.Options{NoWatchList: true}, choose: watches(&fake.Fault{Stream: fake.Gone})},
		"watch: gone after list": {choose: watches(&fake.Fault{Stream: fake.Gone, AfterEvents: 2})},
		"watch: ends at once":    {choose: watches(&fake.Fault{Stream: fake.End})},
		"watch: cut at once":     {choose: watches(&fake.Fault{Stream: fake.Cut})},
		"watch: garbage at once": {choose: watches(&fake.Fault{Stream: fake.Garbage})},
		"watch: ends after list": {choose: watches(&fake.Fault{Stream: fake.End, AfterEvents: 2}), most: 1300},
		"watch: cut after list":  {choose: watches(&fake.Fault{Stream: fake.Cut, AfterEvents: 2}), most: 1300},
		// These bring an event each time, as a proxy with a short timeout does: they may be followed up sooner.
		"watch: ends at an event": {options: fake.Options{NoWatchList: true}, choose: watches(&fake.Fault{Stream: fake.End, AfterEvents: 1}), most: 1300},
		"watch: gone at an event": {options: fake.Options{NoWatchList: true}, choose: watches(&fake.Fault{Stream: fake.Gone, AfterEvents: 1}), most: 1300},
		"watch: cut at an event":  {options: fake.Options{NoWatchList: true}, choose: watches(&fake.Fault{Stream: fake.Cut, AfterEvents: 1}), most: 1300},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.options, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.start()
				w.synced()
				w.pass(time.Minute)
				n := len(w.srv.Requests())
				w.srv.SetFault(c.choose)
				w.srv.EndWatches()
				for began := time.Now(); time.Since(began) < 10*time.Minute; {
					w.put(configMaps, "a")
					if c.most > 0 || time.Since(began) < 20*time.Second {
						w.pass(500 * time.Millisecond) // less than any pause
					} else {
						w.pass(5 * time.Second)
					}
				}
				asked := 0
				for _, r := range w.srv.Requests()[n:] {
					if r.Resource == "configmaps" {
						asked++
					}
				}
				t.Logf("%d requests", asked)
				most := max(c.most, 100)
				if asked > most || asked < 5 {
					t.Errorf("%d requests in ten minutes, at most %d", asked, most)
				}
				w.srv.SetFault(nil)
				w.check()
			})
		})
	}
}
