package watcher_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/test/invariant"
	"kubejournal/test/replicas"
)

// TestReplicas makes up the same histories as TestModel for two or three daemons, of which one writes. What happens to a
// daemon happens to any of them, and each can lose its way to the server. Together their journals must hold what one must;
// and nobody writes whom the Lease does not name at that moment.
func TestReplicas(t *testing.T) { runHistories(t, true) }

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// replica is one of several daemons, with files of its own.
type replica struct {
	*harness
	seen     []byte            // of the journal, as whole lines
	unzipped map[string][]byte // rotated files, by name
	name     string
	cut      atomic.Int32  // what of its way to the server
	term     atomic.Uint64 // it wrote in last
	lost     bool          // its checkpoint was removed
	restored atomic.Bool   // the server was restored once, and the Lease with it
}

// What is cut of a replica's way to the server. It continues when that ends, if nobody has given up by then.
const (
	cutNothing  = iota
	cutRequests // they do not reach the server
	cutAnswers  // the server does what it is asked, and its answers do not come back
)

// replicate gives the model more daemons.
func (m *model) replicate(r *rand.Rand) {
	m.one.name = "a"
	m.replicas = []*replica{m.one}
	m.terms.began = make(map[uint64]time.Time)
	for n := range 1 + r.IntN(2) {
		h := &harness{t: m.t, srv: m.srv, dir: m.t.TempDir(), entries: m.entries, options: m.options, output: m.output}
		m.replicas = append(m.replicas, &replica{harness: h, unzipped: make(map[string][]byte), name: string(rune('b' + n))})
	}
	for _, one := range m.replicas {
		one.lease = "kubejournal"
		one.wrap = func(next http.RoundTripper) http.RoundTripper { return &cuttable{m.asked.wrap(next), &one.cut} }
		one.wrote = func(p []byte) { m.mayWrite(one, p) }
	}
}

// cuttable is a replica's way to the server.
type cuttable struct {
	next http.RoundTripper
	cut  *atomic.Int32
}

// WrappedRoundTripper is for client-go.
func (c *cuttable) WrappedRoundTripper() http.RoundTripper { return c.next }

func (c *cuttable) RoundTrip(r *http.Request) (*http.Response, error) {
	if !c.passes(r.Context(), cutRequests) {
		return nil, r.Context().Err()
	}
	resp, err := c.next.RoundTrip(r)
	if err == nil && !c.passes(r.Context(), cutAnswers) {
		resp.Body.Close()
		return nil, r.Context().Err()
	}
	return resp, err
}

// passes waits while the way is cut, and reports whether that ended before ctx did.
func (c *cuttable) passes(ctx context.Context, cut int32) bool {
	for c.cut.Load() == cut {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// terms are those in which anything was written.
type terms struct {
	mu    sync.Mutex
	began map[uint64]time.Time // when the first line was written
}

func (t *terms) begin(term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.began[term]; !there {
		t.began[term] = time.Now()
	}
}

// choose makes a replica the one that things happen to.
func (m *model) choose(one *replica) {
	if one == m.one {
		return
	}
	one.serial, one.pad, one.options = m.serial, m.pad, m.options
	m.harness, m.one = one.harness, one
}

// each calls do for each daemon.
func (m *model) each(do func()) {
	for _, one := range m.replicas {
		m.choose(one)
		do()
	}
	if m.replicas == nil {
		do()
	}
}

func (m *model) endAll() {
	m.each(func() { m.one.end() })
}

// merged is what the daemons have written together.
func (m *model) merged() []invariant.Line {
	if m.replicas == nil {
		return m.whole()
	}
	m.interrupted = true
	merged, err := replicas.Merge(m.journals().Journals...)
	must(m.t, err)
	return merged
}

// journals is what the daemons have written, and what is known of how they did.
func (m *model) journals() *invariant.Replicas {
	// A commit may take slowestCommit longer, and is published after it.
	cfg := config.Default()
	r := &invariant.Replicas{
		Lost: make(map[int]bool), Bound: cfg.LeaderElection.RenewDeadline + cfg.Checkpoint.Interval + slowestCommit,
	}
	m.each(func() {
		r.Lost[len(r.Journals)] = m.one.lost
		r.Journals = append(r.Journals, m.whole())
	})
	m.terms.mu.Lock()
	defer m.terms.mu.Unlock()
	r.Began = maps.Clone(m.terms.began)
	return r
}

// mayWrite is called when a replica begins to write: the Lease must name its term.
func (m *model) mayWrite(one *replica, p []byte) {
	if !bytes.HasPrefix(p, []byte(`{"seq":`)) {
		return // the rest of a write that was begun
	}
	_, rest, ok := bytes.Cut(p, []byte(`,"term":`))
	term, _, _ := bytes.Cut(rest, []byte(","))
	if n, err := strconv.ParseUint(string(term), 10, 64); err == nil {
		one.term.Store(n)
		m.terms.begin(n)
	}
	lease, err := one.srv.Get(leases, "default", "kubejournal")
	if err != nil {
		one.t.Errorf("%s writes without a Lease: %v", one.name, err)
		return
	}
	annotations, _ := lease["metadata"].(map[string]any)["annotations"].(map[string]any)
	if is := fmt.Sprint(annotations["kubejournal/term"]); !one.restored.Load() && (!ok || is != string(term)) {
		one.t.Errorf("%v: %s writes in term %s, the Lease is at %s", time.Since(m.began), one.name, term, is)
	}
}

// partition cuts a replica's way to the server, or mends it.
func (m *model) partition(r *rand.Rand) string {
	if m.replicas == nil {
		return ""
	}
	cut := []int32{cutNothing, cutNothing, cutRequests, cutAnswers}[r.IntN(4)]
	m.one.cut.Store(cut)
	if cut != cutNothing {
		m.srv.BreakWatches() // of all: one cannot be told from another
	}
	return fmt.Sprintf("%s is cut off: %s", m.one.name, []string{"no", "requests", "answers"}[cut])
}

// whose is the name of the replica that things happen to.
func (m *model) whose() string {
	if m.replicas == nil {
		return ""
	}
	return strings.ToUpper(m.one.name) + " "
}

// takeover ends the term of the replica that wrote last, soon after writes, and waits until another one may write.
func (m *model) takeover(r *rand.Rand) string {
	if !m.writable(r) {
		return ""
	}
	for _, one := range m.replicas {
		if one.life != nil && one.term.Load() > m.one.term.Load() {
			m.choose(one)
		}
	}
	if m.life == nil {
		return ""
	}
	first := m.srv.Version()
	for range 1 + r.IntN(8) {
		m.write(r)
		m.pass(time.Duration(r.IntN(600)) * time.Millisecond)
	}
	what := fmt.Sprintf("writes, versions %d to %d, and ", first+1, m.srv.Version())
	switch r.IntN(4) {
	case 0:
		m.one.cut.Store([]int32{cutRequests, cutAnswers}[r.IntN(2)])
		what += "the leader is cut off"
	case 1:
		m.interrupted = true
		m.srv.Compact(m.srv.Version())
		m.kill()
		what += "the leader is killed, etcd compacted"
	default:
		m.kill()
		what += "the leader is killed"
	}
	m.pass(time.Duration(10+r.IntN(20)) * time.Second)
	return what
}
