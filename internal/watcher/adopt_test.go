package watcher_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// notExact answers lists at an exact version, or their second page, with an error, and counts them.
type notExact struct {
	next  http.RoundTripper
	code  atomic.Int64 // 0 for none
	pages bool         // only pages after the first one
	n     atomic.Int64
}

// WrappedRoundTripper is for client-go.
func (f *notExact) WrappedRoundTripper() http.RoundTripper { return f.next }

func (f *notExact) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); f.pages && q.Get("continue") == "" || !f.pages && q.Get("resourceVersionMatch") != "Exact" || f.code.Load() == 0 {
		return f.next.RoundTrip(r)
	}
	f.n.Add(1)
	code := int(f.code.Load())
	reason := map[int]string{http.StatusGone: "Expired", http.StatusInternalServerError: "InternalError"}[code]
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}, nil
}

// A replica that cannot adopt the leader's position does not ask for it again and again, is ready as one that waits, and lists
// when it becomes the leader.
func TestNotAdopted(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for _, code := range []int{http.StatusGone, http.StatusInternalServerError} {
		bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
			w.lease = "kubejournal"
			w.put(configMaps, "a")
			w.start()
			w.synced()
			var lists *notExact
			b := w.second()
			b.wrap = func(next http.RoundTripper) http.RoundTripper {
				lists = &notExact{next: next}
				lists.code.Store(int64(code))
				return lists
			}
			b.start()
			defer b.kill()
			w.pass(30 * time.Second)
			before := lists.n.Load()
			for range 4 * 60 {
				w.put(configMaps, "a") // the position moves on
				w.pass(time.Second)
				if status, body := b.ask("/readyz"); status != http.StatusOK {
					t.Errorf("%d: not ready: %s", code, body)
				}
			}
			if n := lists.n.Load() - before; n < 2 || n > 6 {
				t.Errorf("%d: %d lists at an exact version in 4 minutes", code, n)
			}
			w.stop()
			w.put(configMaps, "b")
			b.awaitFor(2*time.Minute, "it watches", func() bool { return b.state("configmaps").State == "Watching" })
			lines := b.lines()
			if len(lines) != 4 || lines[0].Type != invariant.Gap || lines[0].Reason != invariant.CheckpointLost || lines[3].Type != invariant.Synced {
				t.Errorf("%d: the journal has %+v", code, lines)
			}
		})
	}
}

// Where a replica has to write everything, it does so also for a stream that begins without what exists: what the leader before
// has written is not gone.
func TestNotAdoptedAndSkipped(t *testing.T) {
	bubble(t, fake.Options{}, skipping(), func(w *harness) {
		w.lease = "kubejournal"
		w.put(configMaps, "a")
		w.start()
		w.checkSkipped()
		w.put(configMaps, "b")
		w.put(configMaps, "c")
		w.pass(5 * time.Second)
		b := w.second()
		b.wrap = func(next http.RoundTripper) http.RoundTripper {
			lists := &notExact{next: next}
			lists.code.Store(http.StatusGone)
			return lists
		}
		b.start()
		defer b.kill()
		b.pass(5 * time.Second)
		w.put(configMaps, "b")
		w.stop()
		b.awaitFor(2*time.Minute, "it watches", func() bool { return b.state("configmaps").State == "Watching" })
		b.remove(configMaps, "c")
		b.pass(5 * time.Second)
		b.tell(0, "GAP CheckpointLost", "ADDED relist a", "ADDED relist b", "ADDED relist c", "SYNCED +3 ~0 -0 =0", "DELETED watch c")
		w.mergedIsLive(b)
	})
}

// A replica that has adopted a part of the leader's objects knows them at two versions. When it becomes the leader it writes all,
// so that in both journals together what it did not have to write is not gone.
func TestAdoptedInPart(t *testing.T) {
	bubble(t, fake.Options{MaxPage: 2}, entries("configmaps"), func(w *harness) {
		w.lease = "kubejournal"
		names := []string{"a", "b", "c", "d"}
		put := func() {
			for _, name := range names {
				w.put(configMaps, name)
			}
		}
		put()
		w.start()
		w.synced()
		pages := &notExact{pages: true}
		b := w.second()
		b.wrap = func(next http.RoundTripper) http.RoundTripper {
			pages.next = next
			return pages
		}
		b.start()
		b.awaitFor(time.Minute, "it follows", func() bool { return b.state("configmaps").State == "Watching" })
		w.pass(3 * time.Second)
		b.kill()
		put()
		w.pass(3 * time.Second)
		w.srv.Compact(w.srv.Version())
		w.srv.RestartAPIServer()
		pages.code.Store(http.StatusInternalServerError)
		b.start()
		defer b.kill()
		b.awaitFor(5*time.Minute, "it has adopted a part", func() bool { return pages.n.Load() > 0 })
		w.stop()
		b.awaitFor(5*time.Minute, "it watches", func() bool { return b.state("configmaps").State == "Watching" })
		lines := b.lines()
		if len(lines) != 6 || lines[0].Reason != invariant.CheckpointLost || lines[5].Type != invariant.Synced {
			t.Errorf("the journal has %+v", lines)
		}
		w.mergedIsLive(b)
	})
}

// A standby holds what a leader may have written that died, and then the server is restored, and the Lease with it: it does not
// continue from the position there, but writes what it holds, and then what the server has, after a GAP.
func TestAdoptedBehindARestore(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.lease = "kubejournal"
		w.put(configMaps, "a")
		w.start()
		w.synced()
		b := w.second()
		b.start()
		defer b.kill()
		b.awaitFor(time.Minute, "it follows", func() bool { return b.state("configmaps").State == "Watching" })
		w.put(configMaps, "a")
		w.pass(5 * time.Second) // published, and not what it has adopted
		backup := w.srv.Version()
		for range 50 { // more than the Lease is written below
			w.put(configMaps, "b")
		}
		w.pass(100 * time.Millisecond)
		w.kill()
		w.srv.RestoreTo(backup)
		b.awaitFor(2*time.Minute, "it leads", func() bool { return strings.Contains(b.log.String(), "writing as the leader") })
		b.put(configMaps, "c")
		b.awaitFor(2*time.Minute, "it has listed", func() bool {
			return slices.ContainsFunc(b.lines(), func(l invariant.Line) bool { return l.Type == invariant.Synced })
		})
		b.pass(5 * time.Second)
		if n := slices.IndexFunc(b.lines(), func(l invariant.Line) bool { return l.Type == invariant.Gap }); n != 50 || b.lines()[n].Reason != invariant.Ahead {
			t.Errorf("after %d of the 50 lines about what is undone there is a GAP", n)
		}
		w.mergedIsLive(b)
	})
}
