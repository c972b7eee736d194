package watcher_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
	"kubejournal/test/replicas"
)

// What is written again at a version that was there before the restore is another change in the journals of two replicas too, also
// where the replica that takes over has all of the object among what it held, and not written that yet when it begins to list.
func TestSameVersionBehindARestore(t *testing.T) {
	for name, settled := range map[string]time.Duration{"known": 5 * time.Second, "held": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				b := w.followed()
				defer b.kill()
				w.put(configMaps, "b")
				w.pass(settled)
				backup := w.srv.Version()
				for range 50 {
					w.put(configMaps, "b")
				}
				again := w.srv.Version()
				for range 50 {
					w.put(configMaps, "z")
				}
				w.pass(100 * time.Millisecond)
				w.kill()
				w.srv.RestoreTo(backup)
				b.serial = w.serial + 1000
				for w.srv.Version() < again-1 {
					b.put(configMaps, "c")
				}
				b.put(configMaps, "b")
				b.life.gate.slow(time.Second, 0)
				b.awaitFor(2*time.Minute, "it has listed", func() bool {
					return slices.ContainsFunc(b.lines(), func(l invariant.Line) bool { return l.Type == invariant.Synced })
				})
				w.mergedIsLive(b)
			})
		})
	}
}

// A standby that notices late that the server was restored follows the position that the leader published after its GAP, and
// continues from it when it takes over.
func TestLateBehindARestore(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		b := w.followed()
		defer b.kill()
		backup := w.srv.Version()
		for range 300 { // more than the Lease is renewed
			w.put(configMaps, "a")
		}
		w.pass(5 * time.Second)
		b.blocked.Store(true)
		w.srv.RestoreTo(backup)
		w.pass(5 * time.Second)
		w.synced()
		b.blocked.Store(false)
		w.pass(10 * time.Second)
		w.kill()
		w.put(configMaps, "a")
		w.put(configMaps, "x")
		w.remove(configMaps, "x")
		b.awaitFor(2*time.Minute, "it leads", func() bool { return len(b.lines()) == 3 })
		b.tell(0, "MODIFIED watch a", "ADDED watch x", "DELETED watch x")
		w.mergedIsLive(b)
	})
}

// What a standby knew of an object is not what its leader has listed at the same version after a restore.
func TestFollowsBehindARestore(t *testing.T) {
	all := entries("configmaps")
	all[0].Changes = true
	bubble(t, fake.Options{}, all, func(w *harness) {
		b := w.followed()
		defer b.kill()
		w.put(configMaps, "b")
		backup := w.srv.Version()
		w.put(configMaps, "b")
		for range 300 {
			w.put(configMaps, "a")
		}
		w.pass(5 * time.Second)
		w.srv.RestoreTo(backup)
		w.put(configMaps, "b")
		w.pass(20 * time.Second)
		w.synced()
		w.kill()
		w.put(configMaps, "b")
		b.awaitFor(2*time.Minute, "it leads", func() bool { return len(b.lines()) > 0 })
		b.tell(0, "MODIFIED watch b")
		w.mergedIsLive(b)
		merged, err := replicas.Merge(w.lines(), b.lines())
		must(t, errors.Join(err, invariant.Changes(merged)))
	})
}

// What a replica has kept of an object to compare with is not what another one has written last.
func TestIgnoresBehindARestore(t *testing.T) {
	all := entries("configmaps")
	all[0].IgnoreFields = []string{"metadata.annotations"}
	bubble(t, fake.Options{}, all, func(w *harness) {
		b := w.followed()
		defer b.kill()
		backup := w.srv.Version()
		for range 300 {
			w.put(configMaps, "z")
		}
		w.pass(5 * time.Second)
		b.blocked.Store(true)
		w.srv.BreakWatches()
		w.put(configMaps, "a")
		w.synced()
		w.kill()
		w.srv.RestoreTo(backup)
		b.blocked.Store(false)
		b.awaitFor(2*time.Minute, "it has listed", func() bool { return len(b.lines()) > 0 && b.lines()[len(b.lines())-1].Type == invariant.Synced })
		b.tell(0, "GAP PositionAheadOfServer", "MODIFIED relist a", "DELETED relist z", "SYNCED +0 ~1 -1 =0")
		w.mergedIsLive(b)
	})
}

// A replica without a position that leads first after a restore writes all: the Lease does not say any more what others have written.
func TestNewBehindARestore(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.lease = "kubejournal"
		w.put(configMaps, "a")
		w.start()
		w.synced()
		w.pass(5 * time.Second)
		backup := w.srv.Version() // of the first term
		w.stop()
		w.start()
		w.synced()
		b := w.second()
		lists := new(notExact)
		lists.code.Store(http.StatusGone)
		b.wrap = func(next http.RoundTripper) http.RoundTripper {
			lists.next = next
			return lists
		}
		b.start()
		defer b.kill()
		w.pass(5 * time.Second)
		w.put(configMaps, "x")
		w.pass(5 * time.Second)
		w.stop()
		b.kill()
		w.srv.RestoreTo(backup)
		b.start()
		b.awaitFor(2*time.Minute, "it watches", func() bool { return b.state("configmaps").State == "Watching" })
		b.tell(0, "GAP CheckpointLost", "ADDED relist a", "SYNCED +1 ~0 -0 =0")
		w.mergedIsLive(b)
	})
}

// A leader dies in the list after its GAP. The standby, whose own position is older than the backup, writes all after a GAP of its own.
func TestLeaderDiesInItsListBehindARestore(t *testing.T) {
	bubble(t, fake.Options{MaxPage: 2}, entries("configmaps"), func(w *harness) {
		unlisted := w.failLists()
		b := w.followed()
		defer b.kill()
		for _, name := range []string{"p", "q", "r", "s"} {
			w.put(configMaps, name)
		}
		w.pass(5 * time.Second)
		b.blocked.Store(true)
		w.pass(100 * time.Millisecond)
		w.srv.RestartAPIServer()
		w.pass(5 * time.Second)
		w.put(configMaps, "a")
		backup := w.srv.Version()
		w.put(configMaps, "undone")
		for range 200 {
			w.put(configMaps, "a")
		}
		w.pass(5 * time.Second)
		w.synced()
		unlisted.Store(true)
		w.srv.RestoreTo(backup)
		b.blocked.Store(false)
		w.pass(20 * time.Second)
		if lines := w.lines(); lines[len(lines)-1].Reason != invariant.Ahead {
			t.Fatalf("the leader has written %s", brief(lines[len(lines)-1]))
		}
		w.kill()
		b.serial = w.serial + 1000
		b.pass(time.Minute)
		b.put(configMaps, "x")
		b.pass(time.Minute)
		w.mergedIsLive(b)
	})
}

// A standby that did not notice a first restore, since the server had passed its position, waits after a second one for the leader's
// GAP, or writes it.
func TestSecondRestore(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		b := w.followed()
		defer b.kill()
		w.pass(5 * time.Second)
		backup := w.srv.Version()
		for range 40 {
			w.put(configMaps, "a")
		}
		w.pass(5 * time.Second)
		b.blocked.Store(true)
		w.srv.RestoreTo(backup)
		w.pass(5 * time.Second)
		w.synced()
		for range 100 {
			w.put(configMaps, "a")
		}
		w.pass(5 * time.Second)
		b.blocked.Store(false)
		w.pass(70 * time.Second)
		w.put(configMaps, "a")
		w.pass(5 * time.Second) // published
		backup = w.srv.Version()
		for range 60 {
			w.put(configMaps, "undone")
		}
		w.pass(300 * time.Millisecond)
		w.kill()
		w.srv.RestoreTo(backup)
		b.serial = w.serial + 1000
		b.pass(time.Minute)
		b.put(configMaps, "x")
		b.pass(10 * time.Second)
		w.mergedIsLive(b)
	})
}

// Where it leads without having noticed, what it writes is published all the same.
func TestLeaderBehindARestore(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		b := w.followed()
		w.pass(5 * time.Second)
		backup := w.srv.Version()
		for range 40 {
			w.put(configMaps, "a")
		}
		w.pass(5 * time.Second)
		b.blocked.Store(true)
		w.srv.RestoreTo(backup)
		w.pass(5 * time.Second)
		w.synced()
		for range 100 {
			w.put(configMaps, "a")
		}
		w.pass(5 * time.Second)
		w.kill()
		b.serial = w.serial + 1000
		b.pass(30 * time.Second) // it leads
		b.blocked.Store(false)
		b.pass(time.Minute)
		w.start()
		w.awaitFor(2*time.Minute, "it follows", func() bool { return w.state("configmaps").State == "Watching" })
		n := len(w.lines())
		for range 3 {
			b.put(configMaps, "x")
		}
		b.pass(10 * time.Second)
		if lines := b.lines(); brief(lines[len(lines)-1]) != "MODIFIED watch x" {
			t.Errorf("the leader has written %s", brief(lines[len(lines)-1]))
		}
		b.kill()
		w.pass(time.Minute)
		if lines := w.lines(); len(lines) > n {
			t.Errorf("its follower writes again %q", briefs(lines[n:]))
		}
	})
}

// A replica that stopped in a list after another GAP, follows after a restore, whatever its position was.
func TestOpenListBehindARestore(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		unlisted := w.failLists()
		b := w.followed()
		defer b.kill()
		w.pass(5 * time.Second)
		backup := w.srv.Version()
		for range 1500 {
			w.put(configMaps, "a")
		}
		w.pass(10 * time.Second)
		unlisted.Store(true)
		w.srv.RestartAPIServer()
		w.pass(500 * time.Millisecond)
		w.put(configMaps, "a")
		w.srv.DropHistory()
		w.srv.RestartAPIServer()
		w.pass(3 * time.Second)
		if lines := w.lines(); lines[len(lines)-1].Reason != "Expired" {
			t.Fatalf("the leader has written %s", brief(lines[len(lines)-1]))
		}
		w.kill()
		w.srv.RestoreTo(backup)
		b.serial = w.serial + 1000
		b.pass(time.Minute)
		b.put(configMaps, "x")
		b.pass(10 * time.Second)
		unlisted.Store(false)
		w.start()
		defer w.kill()
		w.awaitFor(2*time.Minute, "it follows", func() bool { return w.state("configmaps").State == "Watching" })
		w.mergedIsLive(b)
	})
}

// failLists has the daemon's lists fail while that is set, but for the question of the server's version.
func (w *harness) failLists() *atomic.Bool {
	fails := new(atomic.Bool)
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return &unlisted{next, fails} }
	return fails
}

type unlisted struct {
	next  http.RoundTripper
	fails *atomic.Bool
}

// WrappedRoundTripper is for client-go.
func (u *unlisted) WrappedRoundTripper() http.RoundTripper { return u.next }

func (u *unlisted) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	list := q.Get("watch") == "" && q.Get("limit") != "1" || q.Get("sendInitialEvents") != ""
	if u.fails.Load() && list && strings.HasSuffix(r.URL.Path, "/configmaps") {
		return nil, errors.New("blocked")
	}
	return u.next.RoundTrip(r)
}

// following is a replica whose requests for objects can be blocked.
type following struct {
	*harness
	blocked atomic.Bool
	next    http.RoundTripper
}

// WrappedRoundTripper is for client-go.
func (f *following) WrappedRoundTripper() http.RoundTripper { return f.next }

func (f *following) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.blocked.Load() && strings.HasSuffix(r.URL.Path, "/configmaps") {
		return nil, errors.New("blocked")
	}
	return f.next.RoundTrip(r)
}

// second is another replica, which has not started.
func (w *harness) second() *harness {
	w.lease = "kubejournal"
	return &harness{t: w.t, srv: w.srv, dir: w.t.TempDir(), entries: w.entries, options: w.options, output: w.output, lease: w.lease}
}

// followed starts the daemon and a second replica, which follows.
func (w *harness) followed() *following {
	w.t.Helper()
	b := &following{harness: w.second()}
	w.put(configMaps, "a")
	w.start()
	w.synced()
	b.wrap = func(next http.RoundTripper) http.RoundTripper {
		b.next = next
		return b
	}
	b.start()
	b.awaitFor(time.Minute, "it follows", func() bool { return b.state("configmaps").State == "Watching" })
	return b
}

// mergedIsLive checks that the journals together are what the server has.
func (w *harness) mergedIsLive(b interface{ lines() []invariant.Line }) {
	w.t.Helper()
	both := &invariant.Replicas{Journals: [][]invariant.Line{w.lines(), b.lines()}}
	merged, err := replicas.Merge(both.Journals...)
	must(w.t, err)
	must(w.t, errors.Join(both.Check(), both.Merged(merged), invariant.Objects(merged)))
	for _, lines := range [][]invariant.Line{both.Follow(), merged} {
		state, err := invariant.Replay(lines)
		must(w.t, errors.Join(err, invariant.Compare(state, w.live())))
	}
}
