// Package ops answers over HTTP how the daemon stands: health, metrics, streams.
package ops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 5 * time.Minute // longer than between two scrapes
	shutdownTimeout   = time.Second
)

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
		http: &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout},
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
