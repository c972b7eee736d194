package watcher

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

// reloadPause is the least time between two looks at the credentials.
const reloadPause = 5 * time.Second

// Access is the way to the API server: its address, the authority that it is
// known by, and what this identity shows. It is the http.RoundTripper of every
// client of the daemon, so that none of them needs to know that the way
// changes.
//
// client-go reads a token file again each minute and asks an exec plugin again
// by itself. What it keeps for the life of a process is what a kubeconfig
// holds, and its address; certificates in files it looks at every five minutes.
// So here every request that failed to get an answer, and every 401, make the
// next request read everything again first, at most once in reloadPause. A way
// that differs is taken only once accept has said that it leads to the same
// cluster; until then the old one stays. Watches that are open are not touched.
type Access struct {
	load   func() (*rest.Config, error)
	accept func(context.Context, *Client) error
	log    *zap.Logger
	asked  *url.URL // what clients send their requests to: the first way's address

	current atomic.Pointer[way]
	doubt   atomic.Bool // the last failure has not been looked into

	mu   sync.Mutex // held while the credentials are read
	next time.Time  // when they may be read again; guarded by mu
	told string     // the last fault that was logged; guarded by mu
}

// way is one way to the server. It never changes.
type way struct {
	config *rest.Config // with the content of its certificate files
	base   *url.URL
	send   http.RoundTripper
}

// NewAccess returns the way that load tells now. accept decides on those that
// it tells later: it is given a client that goes there, and nobody else goes
// there before it returns nil.
func NewAccess(load func() (*rest.Config, error), accept func(context.Context, *Client) error, log *zap.Logger) (*Access, error) {
	a := &Access{load: load, accept: accept, log: log}
	w, err := a.open()
	if err != nil {
		return nil, err
	}
	a.asked = w.base
	a.current.Store(w)
	return a, nil
}

// Config returns a configuration that goes through a. The caller may change it.
func (a *Access) Config() *rest.Config { return a.current.Load().through(a.asked, a) }

// Host is the server's address as it is now.
func (a *Access) Host() string { return a.current.Load().base.String() }

// open reads the credentials.
func (a *Access) open() (*way, error) {
	config, err := a.load()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	// With the content in place of the names, client-go's cache of transports
	// has a new one for a new content.
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	config.CAFile, config.CertFile, config.KeyFile = "", "", ""
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read address %q: %w", config.Host, err)
	}
	config.Wrap(boundBuffers)
	send, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("use credentials: %w", err)
	}
	return &way{config: config, base: base, send: send}, nil
}

// through is a configuration for clients that send their requests to base by
// means of t.
func (w *way) through(base *url.URL, t http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host: base.String(), Transport: t, UserAgent: w.config.UserAgent,
		WarningHandler: w.config.WarningHandler, WarningHandlerWithContext: w.config.WarningHandlerWithContext,
	}
}

// RoundTrip implements http.RoundTripper.
//
// It returns when the request's context ends, also where a credential plugin,
// which client-go runs without one, goes on.
func (a *Access) RoundTrip(r *http.Request) (*http.Response, error) {
	type answer struct {
		response *http.Response
		err      error
	}
	answered := make(chan answer, 1)
	go func() {
		response, err := a.roundTrip(r) //nolint:bodyclose // whoever takes the answer does
		answered <- answer{response, err}
	}()
	select {
	case got := <-answered:
		return got.response, got.err
	case <-r.Context().Done():
	}
	go func() {
		if late := <-answered; late.response != nil {
			_ = late.response.Body.Close() // nobody reads it
		}
	}()
	return nil, r.Context().Err()
}

func (a *Access) roundTrip(r *http.Request) (*http.Response, error) {
	if a.doubt.Load() {
		a.reload(r.Context())
	}
	w := a.current.Load()
	response, err := w.send.RoundTrip(w.redirect(r, a.asked))
	if err != nil || response.StatusCode == http.StatusUnauthorized {
		a.doubt.Store(true)
	}
	return response, err
}

// CloseIdleConnections closes the connections that no request uses.
func (a *Access) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(a.current.Load().send) }

// redirect sends a request to where the way leads now.
func (w *way) redirect(r *http.Request, asked *url.URL) *http.Request {
	if *w.base == *asked {
		return r
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = w.base.Scheme, w.base.Host, w.base.Host
	r.URL.Path = strings.TrimSuffix(w.base.Path, "/") + strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(asked.Path, "/"))
	return r
}

// reload reads the credentials again, unless that was just now or someone else
// is at it.
func (a *Access) reload(ctx context.Context) {
	if !a.mu.TryLock() {
		return
	}
	defer a.mu.Unlock()
	if time.Now().Before(a.next) {
		return
	}
	a.next = time.Now().Add(reloadPause)
	old := a.current.Load()
	w, err := a.open()
	if err == nil && w.same(old) {
		a.doubt.Store(false) // the fault is not in them
		return
	}
	if err == nil {
		err = a.try(ctx, w)
	}
	if err != nil {
		if ctx.Err() == nil && err.Error() != a.told {
			a.told = err.Error()
			a.log.Warn("the credentials have changed but cannot be used, keeping the old ones", zap.Error(err))
		}
		return
	}
	a.current.Store(w)
	a.doubt.Store(false)
	a.told = ""
	utilnet.CloseIdleConnectionsFor(old.send)
	a.log.Info("the credentials have changed, using the new ones", zap.String("server", w.base.String()))
}

// try asks accept about a new way.
func (a *Access) try(ctx context.Context, w *way) error {
	client, err := NewClient(w.through(w.base, w.send))
	if err == nil {
		err = a.accept(ctx, client)
	}
	if err != nil {
		utilnet.CloseIdleConnectionsFor(w.send)
	}
	return err
}

// same tells whether two ways are the same in all that the user can change. A
// proxy's address cannot be compared.
func (w *way) same(other *way) bool {
	return reflect.DeepEqual(w.credentials(), other.credentials())
}

// credentials are what a way shows of itself to the server, and asks of it.
type credentials struct {
	base                                 string
	username, password, token, tokenFile string
	tls                                  rest.TLSClientConfig
	impersonate                          rest.ImpersonationConfig
	exec                                 *api.ExecConfig
	provider                             *api.AuthProviderConfig
}

func (w *way) credentials() credentials {
	c := w.config
	return credentials{
		base: w.base.String(), username: c.Username, password: c.Password, token: c.BearerToken, tokenFile: c.BearerTokenFile,
		tls: c.TLSClientConfig, impersonate: c.Impersonate, exec: c.ExecProvider, provider: c.AuthProvider,
	}
}
