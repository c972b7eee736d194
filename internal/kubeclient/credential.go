package kubeclient

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
// client-go asks an exec plugin again after a 401 and reads a token file again
// each minute, and that is left to it. It looks at certificate and authority
// files every five minutes, without asking whether a new authority leads to
// another cluster, and never at the kubeconfig again. So here every request that
// failed to get an answer, and every 401, make the next request read everything
// again first, at most once in reloadPause; and so does Look, while the old ones
// work, so that their end costs nothing. A way that differs is taken only once
// accept has said that it leads to the same cluster; until then the old one
// stays. Watches that are open are not touched.
type Access struct {
	accept func(context.Context, *Client) error
	log    *zap.Logger
	asked  *url.URL // what clients send their requests to: the first way's address

	current atomic.Pointer[way]
	doubt   atomic.Bool // the last failure has not been looked into

	mu     sync.Mutex                   // held while the credentials are read
	load   func() (*rest.Config, error) // guarded by mu
	next   time.Time                    // when they may be read again; guarded by mu
	warned string                       // the last fault that was logged; guarded by mu
}

// way is one way to the server. It never changes.
type way struct {
	config *rest.Config // with the content of its certificate files
	base   *url.URL
	send   http.RoundTripper
}

// NewAccess returns the way that load returns now. accept decides on those that
// it returns later: it is given a client that goes there, and nobody else goes
// there before it returns nil.
func NewAccess(load func() (*rest.Config, error), accept func(context.Context, *Client) error, log *zap.Logger) (*Access, error) {
	a := &Access{load: load, accept: accept, log: log}
	w, err := read(load)
	if err == nil {
		err = w.open()
	}
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

// read reads the credentials. The way is to be opened.
func read(load func() (*rest.Config, error)) (*way, error) {
	config, err := load()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	// With the content in place of the names, client-go's cache of transports
	// has a new one for a new content, and no transport changes by itself.
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	config.CAFile, config.CertFile, config.KeyFile = "", "", ""
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read address %q: %w", config.Host, err)
	}
	Guard(config)
	return &way{config: config, base: base}, nil
}

// open makes the transport.
func (w *way) open() (err error) {
	if w.send, err = rest.TransportFor(w.config); err != nil {
		return fmt.Errorf("use credentials: %w", err)
	}
	return nil
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
	a.look(ctx, (*way).same)
}

// Look reads the credentials again though nothing has failed.
func (a *Access) Look(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(ctx, (*way).sameButToken)
}

// look takes what the credentials are now, unless they are the same. It is called
// with mu held.
func (a *Access) look(ctx context.Context, same func(w, old *way) bool) {
	a.next = time.Now().Add(reloadPause)
	old := a.current.Load()
	w, err := read(a.load)
	if err == nil && same(w, old) {
		a.doubt.Store(false) // the fault is not in them
		a.warned = ""
		return
	}
	if err == nil {
		err = w.try(ctx, old, a.accept)
	}
	if err != nil {
		if ctx.Err() == nil && err.Error() != a.warned {
			a.warned = err.Error()
			a.log.Warn("the credentials have changed but cannot be used, keeping the old ones", zap.Error(err))
		}
		return
	}
	a.take(w)
}

// take uses another way from here on. It is called with mu held.
func (a *Access) take(w *way) {
	old := a.current.Swap(w)
	a.doubt.Store(false)
	a.warned = ""
	utilnet.CloseIdleConnectionsFor(old.send)
	a.log.Info("the credentials have changed, using the new ones", zap.String("server", w.base.Redacted()))
}

// try opens a way that is to take the place of another and asks accept about it.
func (w *way) try(ctx context.Context, old *way, accept func(context.Context, *Client) error) error {
	if err := w.open(); err != nil {
		return err
	}
	client, err := newClient(w.through(w.base, w.send))
	if err == nil {
		client.moved = w.base.String() != old.base.String() || w.proxy() != old.proxy()
		err = accept(ctx, client)
	}
	if err != nil {
		utilnet.CloseIdleConnectionsFor(w.send)
	}
	return err
}

// Change is another place to find the way at, which is not in use yet.
type Change struct {
	access *Access
	load   func() (*rest.Config, error) // nil: the one of now
	way    *way                         // nil: the one of now
}

// Prepare opens the way that load returns, which accept is asked about. Nothing
// changes before Use.
func (a *Access) Prepare(ctx context.Context, load func() (*rest.Config, error), accept func(context.Context, *Client) error) (*Change, error) {
	w, err := read(load)
	if err != nil {
		return nil, err
	}
	c, old := &Change{access: a, load: load}, a.current.Load()
	if w.same(old) {
		return c, nil
	}
	if err := w.try(ctx, old, accept); err != nil {
		return nil, err
	}
	c.way = w
	return c, nil
}

// Use takes the way, for this and every later look at the credentials.
func (c *Change) Use() {
	a := c.access
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.load != nil {
		a.load = c.load
	}
	if c.way != nil {
		a.take(c.way)
	}
}

// Discard lets go of what was prepared in vain.
func (c *Change) Discard() {
	if c.way != nil {
		utilnet.CloseIdleConnectionsFor(c.way.send)
	}
}

// same reports whether two ways are the same in all that the user can change.
func (w *way) same(other *way) bool {
	return reflect.DeepEqual(w.credentials(), other.credentials())
}

// sameButToken is same, for what is looked at now and then: a token that stands
// in a file of its own is read again by client-go each minute.
func (w *way) sameButToken(other *way) bool {
	a, b := w.credentials(), other.credentials()
	if a.tokenFile != "" {
		a.token = b.token
	}
	return reflect.DeepEqual(a, b)
}

// credentials are what a way shows of itself to the server, and asks of it.
type credentials struct {
	base, proxy                          string
	username, password, token, tokenFile string
	tls                                  rest.TLSClientConfig
	impersonate                          rest.ImpersonationConfig
	exec                                 *api.ExecConfig
	provider                             *api.AuthProviderConfig
}

func (w *way) credentials() credentials {
	c := w.config
	return credentials{
		base: w.base.String(), proxy: w.proxy(), username: c.Username, password: c.Password, token: c.BearerToken, tokenFile: c.BearerTokenFile,
		tls: c.TLSClientConfig, impersonate: c.Impersonate, exec: c.ExecProvider, provider: c.AuthProvider,
	}
}

// proxy is the address of the proxy on the way, which the kubeconfig may name; ""
// leaves it to the environment.
func (w *way) proxy() string {
	if w.config.Proxy == nil {
		return ""
	}
	u, err := w.config.Proxy(&http.Request{URL: w.base})
	if err != nil || u == nil {
		return ""
	}
	return u.String()
}

// Keep is the Change that changes nothing.
func (a *Access) Keep() *Change { return &Change{access: a} }
