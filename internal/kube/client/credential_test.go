package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"
)

// hanging is a credential plugin, which knows no context, that does not answer until it is released.
type hanging struct {
	release chan struct{}
	held    atomic.Int64
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	h.held.Add(1)
	defer h.held.Add(-1)
	<-h.release
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// CloseIdleConnections is for client-go.
func (*hanging) CloseIdleConnections() {}

// While a credential plugin hangs, requests end with their context, and the number of those that it holds is bounded.
// Once it answers, the next request goes through.
func TestHangingPlugin(t *testing.T) {
	for _, atOnce := range []int{1, 40, 300} {
		t.Run(fmt.Sprintf("%d at once", atOnce), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hanging{release: make(chan struct{})}
				load := func() (*rest.Config, error) {
					through := func(http.RoundTripper) http.RoundTripper { return h }
					return &rest.Config{Host: "http://127.0.0.1:1", WrapTransport: through}, nil
				}
				a, err := NewAccess(load, func(context.Context, *Client, bool) error { return nil }, zap.NewNop())
				if err != nil {
					t.Fatal(err)
				}
				get := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Host(), nil)
					if err != nil {
						return err
					}
					response, err := a.RoundTrip(r)
					if err == nil {
						err = response.Body.Close()
					}
					return err
				}
				const requests = 1200
				var last error
				for range requests / atOnce {
					ended := make(chan error)
					for range atOnce {
						go func() { ended <- get() }()
					}
					for range atOnce {
						if last = <-ended; !errors.Is(last, context.DeadlineExceeded) {
							t.Fatalf("a request ends with %v", last)
						}
					}
				}
				if n := h.held.Load(); n > mostAbandoned+int64(atOnce) {
					t.Errorf("the plugin holds %d requests, at most %d should wait", n, mostAbandoned+atOnce)
				}
				if !strings.Contains(last.Error(), "the credential plugin holds 100 earlier requests") {
					t.Errorf("the last error gives no reason: %v", last)
				}
				close(h.release)
				synctest.Wait()
				if err := get(); err != nil {
					t.Errorf("once it answers: %v", err)
				}
				if n := h.held.Load(); n != 0 {
					t.Errorf("it still holds %d", n)
				}
			})
		})
	}
}
