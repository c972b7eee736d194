package status

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/outage"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/streams"
)

// ServerCheck is the name of the check that fails in an outage of the API server.
const ServerCheck = "apiserver"

// Check is one condition of readiness: nil when it holds. Note may be nil; what it returns is worth knowing where the
// condition holds, and does not affect readiness.
type Check struct {
	Name string
	Err  func() error
	Note func() string
}

// About describes the daemon to people.
type About struct {
	Version, Commit string
	Started         time.Time
	Cluster         string // as on every line; "" for none
	Server          string // the API server's address
	Outage          outage.Outage
	Config          string // absolute path of the config file; "" for none
	Output          string // absolute path; "-" is stdout
	OutputSpace     Space
	Journal         metrics.Journal
	Checkpoint      string // absolute path; "" is one that ends with the daemon
	CheckpointSpace Space
	Progress        recorder.Progress
	Reload          Reload
	Election        *Election      // nil where there is one replica
	Audit           *metrics.Audit // nil where no audit log is followed
}

// Election is which of several replicas writes.
type Election struct {
	Lease     string    `json:"lease"`            // namespace and name
	Identity  string    `json:"identity"`         // of this replica
	Leads     bool      `json:"leads"`            // it writes
	Holder    string    `json:"holder,omitempty"` // the identity of the one that writes
	Term      uint64    `json:"term"`             // the number of its term
	Seen      time.Time `json:"seen"`             // when the Lease was read or written last
	HeldBytes int       `json:"heldBytes"`
	LeftOut   int       `json:"leftOut,omitempty"` // positions for which the Lease has no room
}

// Space is what a file system has; the zero value is unknown.
type Space struct {
	Free uint64 `json:"freeBytes,omitempty"`
	Size uint64 `json:"sizeBytes,omitempty"`
}

// Reload is what came of the last reload; the zero value before the first.
type Reload struct {
	At    time.Time
	Fault string // why the config from before still runs; "" where the new one does
}

const (
	maxRendering    = 2                // answers other than of health, at once
	responseTimeout = 30 * time.Second // from request to the last byte
)

// Site answers /, /livez, /readyz, /metrics, /status and /streams.
type Site struct {
	mux   http.ServeMux
	view  atomic.Pointer[view]
	rates rates
}

// view is what a site answers from.
type view struct {
	checks  []Check
	streams func() []streams.Status
	about   func() About
}

// NewSite returns the site of a daemon. It knows no rates before Sample.
func NewSite(registry *prometheus.Registry, checks []Check, running func() []streams.Status, about func() About) *Site {
	s := &Site{}
	s.rates.streams = func() []streams.Status { return s.view.Load().streams() }
	s.Show(checks, running, about)
	rendering := make(turns, maxRendering)
	s.mux.Handle("GET /{$}", rendering.wrap(http.HandlerFunc(s.page)))
	s.mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.Handle("GET /streams", rendering.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, s.streamsNow())
	})))
	s.mux.Handle("GET /status", rendering.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, s.statusNow())
	})))
	s.mux.Handle("GET /metrics",
		rendering.wrap(promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})))
	return s
}

// Show makes the site answer from something else: from what runs, once a start is over.
func (s *Site) Show(checks []Check, running func() []streams.Status, about func() About) {
	s.view.Store(&view{checks, running, about})
}

// ServeHTTP bounds the time in which a client takes a response: one that does not read cannot hold it for ever. The
// limit is not the server's, as a profile takes as long as the client asks for.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(responseTimeout)) // a test's writer may have none
	s.mux.ServeHTTP(w, r)
}

// Sample measures how many lines the streams write until stop is called. Not twice at once.
func (s *Site) Sample() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s.rates.begin()
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for tick := time.Tick(step); ; s.rates.sample() {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
		}
	})
	return func() {
		cancel()
		sampler.Wait()
	}
}

// CheckResult is what came of one check.
type CheckResult struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"` // what is wrong, or worth knowing
}

func (s *Site) runChecks() (results []CheckResult, ready bool) {
	ready = true
	for _, c := range s.view.Load().checks {
		r := CheckResult{Name: c.Name, OK: true}
		if err := c.Err(); err != nil {
			r.OK, r.Text = false, strings.ReplaceAll(err.Error(), "\n", "; ")
			ready = false
		} else if c.Note != nil {
			r.Text = c.Note()
		}
		results = append(results, r)
	}
	return results, ready
}

// ready answers 200 or 503; with ?verbose, and whenever not ready, each check in the form that Kubernetes' own
// endpoints have.
func (s *Site) ready(w http.ResponseWriter, request *http.Request) {
	results, ready := s.runChecks()
	var text strings.Builder
	for _, r := range results {
		mark, result := '+', "ok"
		if !r.OK {
			mark, result = '-', "failed"
		}
		if r.Text != "" {
			result += ": " + r.Text
		}
		fmt.Fprintf(&text, "[%c]%s %s\n", mark, terminal.Line(r.Name), terminal.Line(result))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch {
	case !ready:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, text.String(), "readyz check failed\n")
	case request.URL.Query().Has("verbose"):
		fmt.Fprint(w, text.String(), "readyz check passed\n")
	default:
		fmt.Fprintln(w, "ok")
	}
}
