package takeover

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/kube/fake"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// fakeReplica notes whose term it is, and has positions.
type fakeReplica struct {
	mu        sync.Mutex
	term      Term
	committed Positions
	version   uint64
	published uint64
}

func (r *fakeReplica) Begin(t Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term = t; t.May != nil {
		r.committed = maps.Clone(t.Published)
	}
}

func (r *fakeReplica) Positions() (Positions, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.committed), r.version
}

func (r *fakeReplica) MarkPublished(version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = version
}

// commit makes positions those that are committed.
func (r *fakeReplica) commit(committed Positions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = committed
	r.version++
}

// candidate takes part in the election.
type candidate struct {
	*Elector
	rec   *fakeReplica
	stop  context.CancelFunc
	ended chan struct{}
	saved checkpoint.Terms
	cut   atomic.Bool // its requests are lost
	full  atomic.Bool // it cannot write
}

// way is a replica's way to the server.
type way struct {
	http.RoundTripper
	cut *atomic.Bool
}

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	for w.cut.Load() { // and a request continues when the network does
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return w.RoundTripper.RoundTrip(r)
}

// is describes what the replica was told: "leads 2 pods=7", or "follows pods=7".
func (r *candidate) is() string {
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	words := []string{"follows"}
	if r.rec.term.May != nil {
		words = []string{fmt.Sprint("leads ", r.rec.term.Number)}
	}
	if position, ok := r.rec.term.Published["pods"]; ok {
		words = append(words, "pods="+position.At)
	}
	return strings.Join(words, " ")
}

// world is an API server in a bubble of synctest.
type world struct {
	t    *testing.T
	srv  *fake.Server
	wrap func(http.RoundTripper) http.RoundTripper // of the replicas' requests; nil does nothing
	log  *zap.Logger                               // of the replicas
}

func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, srv: fake.New(fake.Options{InMemory: true}), log: zap.NewNop()}
		defer w.srv.Close()
		test(w)
	})
}

// start has a replica take part.
func (w *world) start(name string, led uint64) *candidate {
	ctx, cancel := context.WithCancel(context.Background())
	r := &candidate{rec: new(fakeReplica), stop: cancel, ended: make(chan struct{})}
	config := w.srv.Config()
	if w.wrap != nil {
		config.Wrap(w.wrap)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &way{next, &r.cut} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Elector = New(Config{
		Name: "writer", Namespace: "default", Identity: name, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
		RetryPeriod: 2 * time.Second, Leases: client.Resource(leases).Namespace("default"), Replica: r.rec, Log: w.log,
		Able: func() error {
			if r.full.Load() {
				return syscall.ENOSPC
			}
			return nil
		},
		Terms: checkpoint.Terms{Led: led, Latest: led}, SaveTerms: func(t checkpoint.Terms) error { r.saved = t; return nil },
	})
	go func() {
		defer close(r.ended)
		r.Run(ctx)
	}()
	w.t.Cleanup(cancel)
	return r
}

// pair starts two replicas, of which a leads.
func (w *world) pair() (a, b *candidate) {
	a = w.start("a", 0)
	synctest.Wait()
	return a, w.start("b", 0)
}

// end ends a replica as a clean stop does.
func (r *candidate) end() {
	r.stop()
	<-r.ended
}

// after compares what the replica was told after some time.
// pass lets so much time pass, and what is due then happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) after(d time.Duration, r *candidate, want string) {
	w.t.Helper()
	pass(d)
	if is := r.is(); is != want {
		w.t.Errorf("%s %s, want %s", r.Identity(), is, want)
	}
}

func TestElection(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a", 0)
		w.after(0, a, "leads 1")
		b := w.start("b", 0)
		a.rec.commit(Positions{"pods": {At: "7"}})
		w.after(5*time.Second, b, "follows pods=7")
		if a.rec.published != a.rec.version {
			t.Errorf("published is %d of %d", a.rec.published, a.rec.version)
		}
		a.rec.commit(Positions{"pods": {At: "8"}})
		a.end() // it says how far it has come, and does not make the other wait
		w.after(3*time.Second, b, "leads 2 pods=8")
		if b.saved.Led != 2 || !b.May() || a.May() {
			t.Errorf("saved is %+v; may b write: %t, a: %t", b.saved, b.May(), a.May())
		}
		b.end()
	})
}

// A leader writes once in each retryPeriod, and if it is gone another takes over soon after leaseDuration.
func TestPace(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.pair()
		w.after(5*time.Second, b, "follows")
		writes := w.srv.Version()
		pass(time.Minute)
		if n := w.srv.Version() - writes; n < 25 || n > 30 {
			t.Errorf("%d writes in a minute", n)
		}
		a.cut.Store(true)
		w.after(15*time.Second+1100*time.Millisecond, b, "leads 2")
	})
}

// A leader that cannot renew stops before another may start.
func TestPartition(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.pair()
		a.rec.commit(Positions{"pods": {At: "7"}})
		w.after(5*time.Second, b, "follows pods=7")
		a.cut.Store(true)
		began := time.Now()
		for a.May() {
			if b.is() != "follows pods=7" {
				t.Fatalf("b %s after %s, while a may write", b.is(), time.Since(began))
			}
			<-time.After(10 * time.Millisecond)
		}
		if d := time.Since(began); d > 10*time.Second || d < 5*time.Second {
			t.Errorf("a stops after %s", d)
		}
		w.after(20*time.Second, b, "leads 2 pods=7")
		w.after(0, a, "follows pods=7")
		a.cut.Store(false)
		a.rec.commit(Positions{"pods": {At: "9"}}) // that is nobody's to tell
		w.after(5*time.Second, b, "leads 2 pods=7")
		a.end()
		b.end()
	})
}

// A leader whose network comes back while it releases the Lease, which another replica has taken by then, leaves it alone.
func TestReleaseOfAnother(t *testing.T) {
	for range 20 {
		inWorld(t, func(w *world) {
			a, b := w.pair()
			w.after(5*time.Second, b, "follows")
			a.cut.Store(true)
			for b.is() != "leads 2" {
				<-time.After(10 * time.Millisecond)
			}
			a.cut.Store(false)
			for range 300 {
				<-time.After(10 * time.Millisecond)
				if a.May() && b.May() {
					t.Fatalf("both may write: a %s, b %s", a.is(), b.is())
				}
			}
			w.after(time.Minute, b, "leads 2")
			a.end()
			b.end()
		})
	}
}

// A stop does not wait for the release of a Lease that has expired, after a network that takes requests and answers none.
func TestStopWhileReleasing(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a", 0)
		w.after(5*time.Second, a, "leads 1")
		a.cut.Store(true)
		w.after(11*time.Second, a, "leads 1") // it releases, for 5 s
		began := time.Now()
		a.end()
		if took := time.Since(began); took > ReleaseTimeout {
			t.Errorf("the stop takes %s", took)
		}
	})
}

// Replicas that can read the Lease, and not renew it, say so: none of them writes.
func TestForbiddenUpdate(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.pair()
		w.after(5*time.Second, b, "follows")
		w.srv.Forbid(leases, "update", "patch")
		pass(20 * time.Second)
		for _, r := range []*candidate{a, b} {
			if s, err := r.Status(), r.Err(); s.Leads || s.Holder != "" || err == nil || !strings.Contains(err.Error(), "no replica holds the Lease default/writer: ") {
				t.Errorf("%s: %+v, %v", r.Identity(), s, err)
			}
		}
		w.srv.Allow(leases, "update", "patch")
		pass(20 * time.Second)
		for _, r := range []*candidate{a, b} {
			if s, err := r.Status(), r.Err(); s.Holder == "" || err != nil {
				t.Errorf("%s: %+v, %v", r.Identity(), s, err)
			}
		}
		a.end()
		b.end()
	})
}

// A namespace that does not exist is named, and so is what a replica may not do.
func TestNoNamespace(t *testing.T) {
	for _, tt := range []struct {
		fault fake.Fault
		want  string
	}{
		{fake.Fault{Status: http.StatusNotFound}, "create the namespace default, or change leaderElection.leaseNamespace"},
		{fake.Fault{Status: http.StatusForbidden}, "no replica holds the Lease default/writer: "},
	} {
		inWorld(t, func(w *world) {
			w.srv.SetFault(func(r fake.Request) *fake.Fault {
				if r.Verb == "create" {
					return &tt.fault
				}
				return nil
			})
			a := w.start("a", 0)
			pass(time.Second)
			if err := a.Err(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("reported is %v", err)
			}
			a.end()
		})
	}
}

// Whoever follows remembers the term: it may be the first to start again, after the Lease was deleted.
func TestTermOfAStandby(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a", 7)
		synctest.Wait()
		b := w.start("b", 2)
		w.after(5*time.Second, b, "follows")
		if want := (checkpoint.Terms{Led: 2, Latest: 8}); b.saved != want {
			t.Errorf("saved is %+v, want %+v", b.saved, want)
		}
		b.end()
		a.end()
	})
}

// Positions that somebody has damaged are reported, and do not end a replica's following.
func TestDamagedPositions(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.pair()
		a.rec.commit(Positions{"pods": {At: "7"}})
		w.after(5*time.Second, b, "follows pods=7")
		a.cut.Store(true)
		damage := map[string]any{"metadata": map[string]any{"annotations": map[string]any{positionsKey: "damaged"}}}
		if _, err := w.srv.Patch(leases, "default", "writer", damage); err != nil {
			t.Fatal(err)
		}
		w.after(2*time.Second, b, "follows pods=7")
		if err := b.Err(); err == nil || !strings.Contains(err.Error(), "annotation kubejournal/positions: not base64") {
			t.Errorf("reported is %v", err)
		}
		w.after(20*time.Second, b, "leads 2 pods=7")
		w.after(5*time.Second, b, "leads 2 pods=7")
		if err := b.Err(); err != nil {
			t.Error(err)
		}
		b.end()
		a.end()
	})
}

// With a server that is restored, the Lease goes back too. Its positions are not followed: lines were written up to later ones, which
// the next leader publishes again. The one that led continues, if it is still there.
func TestRestoredLease(t *testing.T) {
	for name, stays := range map[string]bool{"the leader is gone": false, "the leader stays": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				a, b := w.pair()
				a.rec.commit(Positions{"pods": {At: "7"}})
				w.after(5*time.Second, b, "follows pods=7")
				backup := w.srv.Version()
				a.rec.commit(Positions{"pods": {At: "9"}})
				w.after(5*time.Second, b, "follows pods=9")
				if !stays {
					a.cut.Store(true)
				}
				w.srv.RestoreTo(backup)
				w.after(5*time.Second, b, "follows pods=9")
				if stays {
					a.rec.commit(Positions{"pods": {At: "8"}})
					w.after(5*time.Second, b, "follows pods=8")
				} else {
					w.after(20*time.Second, b, "leads 2 pods=9")
					c := w.start("c", 0)
					w.after(5*time.Second, c, "follows pods=9")
					c.end()
				}
				b.end()
				a.end()
			})
		})
	}
}

// A leader that cannot write lets another one, and does not take the Lease again before it can.
func TestUnable(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.pair()
		a.rec.commit(Positions{"pods": {At: "7"}})
		w.after(5*time.Second, b, "follows pods=7")
		a.full.Store(true)
		w.after(16*time.Second, b, "leads 2 pods=7")
		b.end()
		w.after(time.Minute, a, "follows pods=7")
		a.full.Store(false)
		w.after(14*time.Second, a, "follows pods=7")
		w.after(8*time.Second, a, "leads 3 pods=7") // its last request hangs for up to 5 s
		a.end()
	})
}

// What keeps a leader from writing shows when it tries, so as a standby it seems able again. It leaves the Lease to the other one.
func TestUnableAsLeader(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.pair()
		for range 20 {
			w.after(5*time.Second, b, "follows")
			a.full.Store(true)
			for a.Status().Leads {
				<-time.After(10 * time.Millisecond)
			}
			a.full.Store(false)
			pass(3 * time.Second)
			if !b.Status().Leads {
				t.Error("nobody leads, or the one that could not write")
			}
			a, b = b, a
		}
		b.end()
		a.end()
	})
}

// A suspended machine, whose clock may not have gone on, and one whose clock is set.
func TestClocks(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a", 0)
		w.after(time.Second, a, "leads 1")
		for name, change := range map[string]func(){
			"asleep for 11 s":     func() { a.boottime -= int64(11 * time.Second) },
			"clock set by 1 hour": func() { a.renewed = a.renewed.Round(0).Add(-time.Hour) },
		} {
			renewed, boottime := a.renewed, a.boottime
			if !a.May() {
				t.Errorf("before %s a may not write", name)
			}
			if change(); a.May() {
				t.Errorf("%s, and a may write", name)
			}
			a.renewed, a.boottime = renewed, boottime
		}
		a.end()
	})
}

// A Lease that somebody deletes does not make two leaders, and the terms continue.
func TestDeletedLease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.pair()
		a.rec.commit(Positions{"pods": {At: "7"}})
		w.after(5*time.Second, b, "follows pods=7")
		a.cut.Store(true)
		if _, err := w.srv.Delete(leases, "default", "writer"); err != nil {
			t.Fatal(err)
		}
		for a.May() {
			if b.is() != "follows pods=7" {
				t.Fatalf("b %s, while a may write", b.is())
			}
			<-time.After(10 * time.Millisecond)
		}
		w.after(20*time.Second, b, "leads 2 pods=7")
		a.cut.Store(false)
		b.end()
		w.after(8*time.Second, a, "leads 3 pods=7") // its last request hangs for up to 5 s
		a.end()
		if _, err := w.srv.Delete(leases, "default", "writer"); err != nil {
			t.Fatal(err)
		}
		c := w.start("c", a.saved.Led)
		w.after(time.Second, c, "leads 4")
		if led := c.rec.term.Led; !led[3] || !led[4] || led[2] {
			t.Errorf("its own terms are %v", led)
		}
		c.end()
	})
}

func somePositions(streams int) Positions {
	positions := make(Positions)
	for i := range streams {
		positions[fmt.Sprintf("resource%d.group%d.example.com?namespace=team-%d", i, i%40, i)] = Position{At: fmt.Sprint(1_234_567_890 + 7919*i)}
	}
	return positions
}

// encode packs positions.
func encode(positions Positions) string { return compress(marshal(positions)) }

// 300 streams take little of the 256 KiB that annotations may have.
func TestPositions(t *testing.T) {
	positions := somePositions(300)
	packed := encode(positions)
	if len(packed) > 8<<10 {
		t.Errorf("%d streams take %d bytes", len(positions), len(packed))
	}
	if got, err := decode(packed); err != nil || !maps.Equal(got, positions) {
		t.Errorf("unpacked are %d positions, %v", len(got), err)
	}
	for _, bad := range []string{"!", "bm8=", packed[:len(packed)/8*4], encode(nil) + "e30="} {
		if got, err := decode(bad); err == nil {
			t.Errorf("%.20q is read as %v", bad, got)
		}
	}
	if got, err := decode(encode(nil)); err != nil || len(got) > 0 {
		t.Errorf("nothing is read as %v, %v", got, err)
	}
}

// BenchmarkPositions is what a renewal packs.
func BenchmarkPositions(b *testing.B) {
	for _, streams := range []int{10, 300} {
		b.Run(fmt.Sprint("streams=", streams), func(b *testing.B) {
			positions, packed := somePositions(streams), ""
			for b.Loop() {
				packed = encode(positions)
			}
			b.ReportMetric(float64(len(packed)), "B/lease")
		})
	}
}
