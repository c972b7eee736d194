package watcher_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"kubejournal/internal/kubefake"
	"kubejournal/test/invariant"
)

// changeBackedUp has the daemon follow changes of a and b, and e being added, and returns the server's version before.
func (w *harness) changeBackedUp() (backup uint64) {
	w.t.Helper()
	backup = w.srv.Version()
	w.start()
	w.synced()
	w.put(configMaps, "a")
	w.remove(configMaps, "b")
	w.put(configMaps, "e")
	return backup
}

func TestAheadOfServer(t *testing.T) {
	for name, running := range map[string]bool{"at start": false, "while running": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, kubefake.Options{}, entries("configmaps", "secrets"), func(w *harness) {
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				w.put(configMaps, "k")
				w.put(secrets, "s")
				backup := w.changeBackedUp()
				w.put(secrets, "s")
				w.pass(3 * time.Minute)
				w.synced()
				if !running {
					w.stop()
				}
				n := len(w.lines())
				w.srv.RestoreTo(backup)
				w.epoch++
				if !running {
					w.start()
				}
				w.synced()
				var got []string
				for _, l := range w.lines()[n:] {
					if l.Stream == "configmaps" {
						got = append(got, brief(l))
					}
				}
				want := []string{"GAP PositionAheadOfServer", "MODIFIED relist a", "ADDED relist b", "DELETED relist e", "SYNCED +1 ~1 -1 =1"}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %q, want %q", got, want)
				}
				w.put(configMaps, "f")
				w.put(secrets, "t")
				w.check()
			})
		})
	}
}

// One of several API servers has yet to go back to a backup and names its version, then a list comes from one that has
// gone back: that list does not end the gap, and there is a second GAP that says so.
func TestBackInARelist(t *testing.T) {
	for listing, c := range map[string]struct {
		server kubefake.Options
		stale  int // answers
	}{
		// Its version, the end of the position, and its version again, which in pages comes behind the refusal of a stream.
		"streamed": {stale: 3},
		"pages":    {stale: 4, server: kubefake.Options{NoWatchList: true, MaxPage: 2}},
	} {
		t.Run(listing, func(t *testing.T) {
			bubble(t, c.server, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				backup := w.changeBackedUp()
				w.synced()
				w.stop()
				n := len(w.lines())
				w.srv.RestoreTo(backup)
				w.epoch++
				w.srv.SetFault(first(c.stale, func(r kubefake.Request) *kubefake.Fault {
					switch {
					case r.Resource != "configmaps" || lists(r):
						return nil
					case r.Verb == "watch":
						return status(http.StatusGone)
					}
					return &kubefake.Fault{Status: http.StatusOK,
						Body: `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"999"},"items":[]}`}
				}))
				w.start()
				w.synced()
				w.tell(n, "GAP Expired",
					"GAP PositionAheadOfServer", "MODIFIED relist a", "ADDED relist b", "DELETED relist e", "SYNCED +1 ~1 -1 =0")
				w.put(configMaps, "f")
				w.interrupted = true
				w.check()
			})
		})
	}
}

// A server that was restored, and has passed the position again, is found out by an object in a list that is at an earlier version
// than it was.
func TestBackUnnoticed(t *testing.T) {
	for listing, o := range map[string]kubefake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
		t.Run(listing, func(t *testing.T) {
			bubble(t, o, entries("configmaps"), func(w *harness) {
				for _, name := range []string{"a", "b", "c"} {
					w.put(configMaps, name)
				}
				w.start()
				w.synced()
				w.put(configMaps, "a")
				w.synced()
				backup := w.srv.Version()
				w.put(configMaps, "c")
				w.synced()
				w.stop()
				n := len(w.lines())
				w.srv.RestoreTo(backup)
				for range 5 {
					w.put(configMaps, "b")
				}
				w.srv.DropHistory()
				w.start()
				w.synced()
				n = w.tell(n, "GAP Expired", "MODIFIED relist b", "GAP PositionAheadOfServer", "MODIFIED relist c", "SYNCED +0 ~1 -0 =2")
				w.checkSkipped() // and not that each write is there
				lines := w.lines()
				must(t, errors.Join(invariant.Objects(lines), invariant.Streams(lines, true)))
				expired, ahead := lines[n-5], lines[n-3]
				if expired.ID == ahead.ID {
					t.Errorf("both GAPs have the id %s", ahead.ID)
				}
			})
		})
	}
}
