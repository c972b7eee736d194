// Package status answers over HTTP how the daemon is doing: health, metrics, streams, a page for people.
package status

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
)

// What a client can hold. Requests have no bodies: one that does is answered without reading it, and its connection
// closed.
const (
	maxConnections    = 100
	maxHeaderBytes    = 8 << 10
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 5 * time.Minute // longer than between two scrapes
	shutdownTimeout   = time.Second
	droppedEvery      = time.Minute // log of closed connections
)

// Server listens until it is closed.
type Server struct {
	http     *http.Server
	listener *limitListener
	served   sync.WaitGroup // Serve's goroutine
}

// Listen opens addr, as in the config's listen. Requests wait until Serve.
func Listen(addr string, h http.Handler) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // the rest is the address again
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return &Server{
		http: &http.Server{
			Handler: withoutBody(h), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
			MaxHeaderBytes: maxHeaderBytes,
		},
		listener: &limitListener{TCPListener: l.(*net.TCPListener), max: maxConnections},
	}, nil
}

// withoutBody ends the reading of a request that has a body, and its connection: the server would else wait for it.
func withoutBody(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // a test's writer may have none
		}
		h.ServeHTTP(w, r)
	})
}

// Serve answers until Close. It logs what with the address; should it break, "no longer" and what.
func (s *Server) Serve(log *zap.Logger, what string) {
	log.Info(what, zap.String("address", s.Addr().String()))
	var told time.Time
	s.listener.drop = func(address netip.Addr, open int) { // by Accept alone
		if time.Since(told) >= droppedEvery {
			told = time.Now()
			log.Warn("too many connections, the oldest of the address that has most is closed",
				zap.Stringer("address", address), zap.Int("open", open), zap.Int("limit", maxConnections))
		}
	}
	s.served.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("no longer "+what, zap.Error(err))
		}
	})
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops the server; answers under way get a moment to end.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	_ = s.listener.Close() // closed already, except before Serve
	s.served.Wait()
	return err
}

// CheckProfile refuses an address for profiles that others than this machine could reach: a heap profile shows what is
// in memory, and a CPU profile costs.
func CheckProfile(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is no address and port; write 127.0.0.1:6060", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is no port number; write 127.0.0.1:6060", port)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("profiles are served on loopback only; write 127.0.0.1:6060, and reach it with kubectl " +
			"port-forward or ssh -L")
	}
	return nil
}

// ProfileHandler answers /debug/pprof/ as the Go tools ask for it.
func ProfileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
