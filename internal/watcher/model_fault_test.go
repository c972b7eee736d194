package watcher_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/kube/fake"
)

// faults is what goes wrong with requests: rules, of which the first that fits
// a request strikes.
type faults struct {
	mu     sync.Mutex
	rules  []*rule
	silent bool // a watch had nothing more to say, though things happened
}

// rule is a fault for the next requests of a kind.
type rule struct {
	resource string // "" is every one
	kind     string // see kinds
	left     int    // requests to strike
	fault    *fake.Fault
}

// kinds are the requests that a rule may be for.
var kinds = map[string]func(fake.Request) bool{
	"request":  func(fake.Request) bool { return true },
	"list":     lists,
	"page":     func(r fake.Request) bool { return r.Query.Get("continue") != "" },
	"watch":    func(r fake.Request) bool { return r.Verb == "watch" && !lists(r) },
	"position": func(r fake.Request) bool { return r.Verb == "list" && !lists(r) },
}

func (f *faults) choose(r fake.Request) *fake.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Resource == "" {
		return nil // discovery
	}
	for _, rule := range f.rules {
		if rule.left > 0 && (rule.resource == "" || rule.resource == r.Resource) && kinds[rule.kind](r) {
			rule.left--
			f.silent = f.silent || rule.fault.Stream == fake.Silent
			return rule.fault
		}
	}
	return nil
}

// stalled reports whether a watch has been silent, though things happened. Nobody can tell that from a time at which nothing
// happens, so lines about such a time may be late without being marked.
func (f *faults) stalled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silent
}

// set takes all rules back and begins with one, which may be nil.
func (f *faults) set(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
	if r != nil {
		f.rules = []*rule{r}
	}
}

func (f *faults) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// trouble adds a rule.
func (m *model) trouble(r *rand.Rand) string {
	m.interrupted = true
	rule := &rule{left: 1 + r.IntN(4)}
	if r.IntN(5) == 0 {
		rule.left = 1000 // until it is taken back
	}
	if r.IntN(3) > 0 {
		rule.resource = m.streams[r.IntN(len(m.streams))].gvr.Resource
	}
	f := new(fake.Fault)
	rule.fault = f
	after := r.IntN(6)
	if r.IntN(2) == 0 {
		rule.kind = []string{"list", "watch"}[r.IntN(2)]
		f.AfterEvents = after
		switch r.IntN(5) {
		case 0:
			f.Stream = fake.Failed
			f.Status = []int{400, 403, 404, 410, 429, 500, 503, 504}[r.IntN(8)]
		case 1:
			f.Stream = fake.Gone
		case 2:
			f.Stream = []fake.StreamFault{fake.End, fake.Silent, fake.Garbage}[r.IntN(3)]
		case 3:
			f.Stream = []fake.StreamFault{fake.Cut, fake.CutMidEvent}[r.IntN(2)]
		default:
			f.DuplicateInitialEvents, f.ReverseInitialEvents = r.IntN(2) == 0, r.IntN(2) == 0
			f.OmitInitialEventsEnd, f.DropBookmarks = r.IntN(4) == 0, r.IntN(2) == 0
		}
	} else {
		rule.kind = []string{"request", "list", "page", "watch", "position"}[r.IntN(5)]
		switch r.IntN(8) {
		case 0:
			f.Status, f.RetryAfter = http.StatusTooManyRequests, []int{0, 1, 20}[r.IntN(3)]
		case 1:
			f.Status = []int{500, 502, 503, 504}[r.IntN(4)]
		case 2:
			f.Status = []int{400, 401, 403, 404, 405, 410, 422}[r.IntN(7)]
		case 3:
			f.Status, f.Body = []int{200, 404, 503}[r.IntN(3)], []string{"<html>proxy</html>", "404 page not found\n", "{}"}[r.IntN(3)]
		case 4:
			f.Hang = true
		case 5:
			f.CutAfterBytes = 1 + r.IntN(2000)
		default:
			f.Delay = time.Duration(r.IntN(int([]time.Duration{time.Second, 40 * time.Second}[r.IntN(2)])))
		}
	}
	what := fmt.Sprintf("%d times %s of %q: %+v", rule.left, rule.kind, rule.resource, *f)
	m.fault.add(rule) // which belongs to the server from here on
	return what
}

// asked notes the daemon's requests, also those that find no server.
type asked struct {
	mu  sync.Mutex
	all map[string][]time.Time // by what was asked for
}

// discoveryKey stands for all requests for discovery, and for those that confirm the cluster.
const discoveryKey = "discovery"

// pagesKey stands for those for the further pages of lists.
const pagesKey = "pages"

// leasesKey stands for those about the Lease.
const leasesKey = "leases"

func (a *asked) wrap(next http.RoundTripper) http.RoundTripper { return &asking{next, a} }

// asking is the way of the requests.
type asking struct {
	next http.RoundTripper
	*asked
}

// WrappedRoundTripper is for client-go.
func (a *asking) WrappedRoundTripper() http.RoundTripper { return a.next }

func (a *asking) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	key := discoveryKey
	switch {
	case modelKinds[path.Base(r.URL.Path)]:
		key = r.URL.Path + " " + q.Get("labelSelector")
	case strings.Contains(r.URL.Path, "/"+leases.Resource+"/"):
		key = leasesKey
	}
	// The pages of a list are as many as the server makes of it, and after each the cluster is confirmed.
	if q.Get("continue") != "" {
		key = pagesKey
	}
	a.mu.Lock()
	a.all[key] = append(a.all[key], time.Now())
	a.mu.Unlock()
	return a.next.RoundTrip(r)
}

// modelKinds end the paths of requests for objects.
var modelKinds = map[string]bool{"configmaps": true, "secrets": true, "deployments": true, "widgets": true, "namespaces": true}

// worst is the largest number of requests for one thing within a window.
func worst(times []time.Time, window time.Duration) int {
	n, from := 0, 0
	for i, t := range times {
		for t.Sub(times[from]) >= window {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}
