// Package ops answers over HTTP how the daemon is doing: health, metrics, streams, a page for people.
package ops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 5 * time.Minute // longer than between two scrapes
	shutdownTimeout   = time.Second
)

// Server listens until it is closed.
type Server struct {
	http     *http.Server
	listener net.Listener
	served   sync.WaitGroup // Serve's goroutine
}

// Listen opens addr, as in the config's listen. Requests wait until Serve.
func Listen(addr string, h http.Handler) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if op := new(net.OpError); errors.As(err, &op) {
		err = op.Err // the rest is the address again
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return &Server{http: &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}, listener: l}, nil
}

// Serve answers until Close, and logs what in front of the address now, and "no longer" what should it break.
func (s *Server) Serve(log *zap.Logger, what string) {
	log.Info(what, zap.String("address", s.Addr().String()))
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
