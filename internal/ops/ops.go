// Package ops answers over HTTP how the daemon stands: health, metrics, streams.
package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kubejournal/internal/watcher"
)

const (
	readHeaderTimeout = 10 * time.Second
	shutdownTimeout   = time.Second
)

// Check is one condition of readiness: nil when it holds. Note may be nil; what
// it returns is worth knowing where the condition holds, and changes nothing.
type Check struct {
	Name string
	Err  func() error
	Note func() string
}

// Handler answers /livez, /readyz, /metrics and /streams.
func Handler(registry *prometheus.Registry, checks []Check, streams func() []watcher.StreamStatus) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, checks) })
	mux.HandleFunc("GET /streams", func(w http.ResponseWriter, _ *http.Request) { list(w, streams()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	return mux
}

// ready answers 200 or 503; with ?verbose, and whenever not ready, each check
// in the form that Kubernetes' own endpoints have.
func ready(w http.ResponseWriter, r *http.Request, checks []Check) {
	var (
		text   strings.Builder
		status = http.StatusOK
	)
	for _, c := range checks {
		if err := c.Err(); err != nil {
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&text, "[-]%s failed: %s\n", c.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok", c.Name)
		if c.Note != nil {
			if note := c.Note(); note != "" {
				fmt.Fprintf(&text, ": %s", note)
			}
		}
		text.WriteByte('\n')
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	switch {
	case status != http.StatusOK:
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
}

func list(w http.ResponseWriter, all []watcher.StreamStatus) {
	out := make([]stream, 0, len(all))
	now := time.Now()
	for _, s := range all {
		one := stream{
			Stream: s.Name, State: string(s.State), Reason: s.Reason, Since: when(s.Since), ResourceVersion: s.Position,
			Synced: s.Synced, LastProgress: when(s.LastProgress), Idle: s.Idle(now).Round(time.Millisecond).Seconds(), LastGap: when(s.LastGap),
		}
		if s.State != watcher.Watching {
			one.FailingSince = when(s.Failing)
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

// Server listens until it is closed.
type Server struct {
	http *http.Server
	done chan error
	addr net.Addr
}

// Listen starts a server on addr, as in the config's listen.
func Listen(addr string, h http.Handler) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if op := new(net.OpError); errors.As(err, &op) {
		err = op.Err // the rest is the address again
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	s := &Server{
		http: &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout},
		done: make(chan error, 1),
		addr: l.Addr(),
	}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.addr }

// Done receives why the server ended.
func (s *Server) Done() <-chan error { return s.done }

// Close stops the server; answers under way get a moment to end.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	return err
}
