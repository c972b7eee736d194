package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kubejournal/internal/manager"
	"kubejournal/internal/recorder"
	"kubejournal/internal/watcher"
)

// Check is one condition of readiness: nil when it holds. Note may be nil; what
// it returns is worth knowing where the condition holds, and changes nothing.
type Check struct {
	Name string
	Err  func() error
	Note func() string
}

// About is what the daemon says of itself, to people.
type About struct {
	Version, Commit string
	Started         time.Time
	Cluster         string // as on every line; "" for none
	Server          string // the API server's address
	Config          string // path of the config file; "" for none
	Output          string // path; "-" is stdout
	Checkpoint      string // path; "" is one that ends with the daemon
	Progress        recorder.Progress
	Reload          Reload
}

// Reload is what came of the last reload; the zero value before the first.
type Reload struct {
	At    time.Time
	Fault string // why the config from before still runs; "" where the new one does
}

// Site answers /, /livez, /readyz, /metrics and /streams.
type Site struct {
	mux   http.ServeMux
	view  atomic.Pointer[view]
	rates rates
}

// view is what a site answers from.
type view struct {
	checks  []Check
	streams func() []manager.StreamStatus
	about   func() About
}

// NewSite returns the site of a daemon. It knows no rates before Sample.
func NewSite(registry *prometheus.Registry, checks []Check, streams func() []manager.StreamStatus, about func() About) *Site {
	s := &Site{}
	s.rates.streams = s.streams
	s.Show(checks, streams, about)
	s.mux.HandleFunc("GET /{$}", s.page)
	s.mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.HandleFunc("GET /streams", s.list)
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	return s
}

// Show has the site answer from something else: from what runs, once a start is over.
func (s *Site) Show(checks []Check, streams func() []manager.StreamStatus, about func() About) {
	s.view.Store(&view{checks, streams, about})
}

func (s *Site) streams() []manager.StreamStatus { return s.view.Load().streams() }

// writeTimeout is how long an answer may take: who does not take it does not hold
// it for ever. A profile takes as long as it is asked to, hence not the server's.
const writeTimeout = time.Minute

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // what has none needs none
	s.mux.ServeHTTP(w, r)
}

// Sample has the site know how many lines the streams write in a time, until the
// function that it returns is called. Not twice at once.
func (s *Site) Sample() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	s.rates.begin()
	var sampler sync.WaitGroup
	sampler.Go(func() { s.rates.run(ctx) })
	return func() {
		cancel()
		sampler.Wait()
		s.rates.forget()
	}
}

// answer is what came of one check.
type answer struct {
	Name string
	OK   bool
	Text string // what is wrong, or worth knowing
}

// ask asks all checks.
func (s *Site) ask() (answers []answer, ready bool) {
	ready = true
	for _, c := range s.view.Load().checks {
		a := answer{Name: c.Name, OK: true}
		if err := c.Err(); err != nil {
			a.OK, a.Text = false, strings.ReplaceAll(err.Error(), "\n", "; ")
			ready = false
		} else if c.Note != nil {
			a.Text = c.Note()
		}
		answers = append(answers, a)
	}
	return answers, ready
}

// ready answers 200 or 503; with ?verbose, and whenever not ready, each check
// in the form that Kubernetes' own endpoints have.
func (s *Site) ready(w http.ResponseWriter, r *http.Request) {
	answers, ready := s.ask()
	var text strings.Builder
	for _, a := range answers {
		switch {
		case !a.OK:
			fmt.Fprintf(&text, "[-]%s failed: %s\n", a.Name, a.Text)
		case a.Text != "":
			fmt.Fprintf(&text, "[+]%s ok: %s\n", a.Name, a.Text)
		default:
			fmt.Fprintf(&text, "[+]%s ok\n", a.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch {
	case !ready:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, text.String(), "readyz check failed\n")
	case r.URL.Query().Has("verbose"):
		fmt.Fprint(w, text.String(), "readyz check passed\n")
	default:
		fmt.Fprintln(w, "ok")
	}
}

// stream is one entry of /streams.
type stream struct {
	Stream          string     `json:"stream"`
	State           string     `json:"state"`
	Reason          string     `json:"reason,omitempty"`
	Since           *time.Time `json:"since,omitempty"`        // in this state
	FailingSince    *time.Time `json:"failingSince,omitempty"` // no session has worked
	ResourceVersion string     `json:"resourceVersion,omitempty"`
	Synced          bool       `json:"synced"`
	LastProgress    *time.Time `json:"lastProgress,omitempty"`
	// Idle is the age of the last progress, or of the state where there was none.
	Idle    float64    `json:"idleSeconds"`
	LastGap *time.Time `json:"lastGap,omitempty"`
	// Events is how many lines the stream has written since it was started.
	Events uint64 `json:"events"`
	// Rate is the mean of the last minute; nil in the first seconds.
	Rate *float64 `json:"eventsPerSecond,omitempty"`
}

func (s *Site) list(w http.ResponseWriter, _ *http.Request) {
	all := s.streams()
	out := make([]stream, 0, len(all))
	_, recent := s.rates.read()
	now := time.Now()
	for _, s := range all {
		one := stream{
			Stream: s.Name, State: string(s.State), Reason: s.Reason, Since: when(s.Since), ResourceVersion: s.Position,
			Synced: s.Synced, LastProgress: when(s.LastProgress), Idle: float64(s.Idle(now).Milliseconds()) / 1000, LastGap: when(s.LastGap),
			Events: s.Lines,
		}
		if s.State != watcher.Watching {
			one.FailingSince = when(s.Failing)
		}
		if rate, ok := recent[s.Name].rate(); ok {
			one.Rate = &rate
		}
		out = append(out, one)
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(out) // the client went away: nobody to tell
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
