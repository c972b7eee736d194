package client

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
	"golang.org/x/sync/semaphore"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// mostAbandoned is how many requests may wait for a credential plugin after their context has ended, beside those that
// were under way when it stopped answering.
const mostAbandoned = 100

// reloadPause is the least time between two looks at the credentials after failures.
const reloadPause = 5 * time.Second

// Access is the way to the API server: its address, the authority that it is known by, and what this identity shows. It
// is the http.RoundTripper of every client of the daemon, so that none of them needs to know that the way changes.
//
// client-go reloads token, certificate and authority files by itself, but a certificate only after five minutes, an
// authority without asking whether it leads to another cluster, and never the kubeconfig. So here every request without
// an answer and every 401 make the next request read everything again first, at most once in reloadPause; and so does
// Look, while the old credentials work, so that their end costs nothing. A way that differs is taken only once accept
// has said that it leads to the same cluster; until then the old one stays. Watches that are open are not touched.
type Access struct {
	accept Accept
	log    *zap.Logger
	asked  *url.URL // what clients send their requests to: the first way's address

	// abandoned has those requests that the credential plugin still holds after their context has ended.
	abandoned *semaphore.Weighted

	current atomic.Pointer[way]
	doubt   atomic.Bool // the last failure has not been looked into

	mu     sync.Mutex                   // held while the credentials are read
	load   func() (*rest.Config, error) // guarded by mu
	next   time.Time                    // when a failure may have them read again; guarded by mu
	warned string                       // the last fault that was logged; guarded by mu
}

// Accept decides on a way to the server that c goes. moved reports whether its address or proxy differs from that in
// use.
type Accept func(ctx context.Context, c *Client, moved bool) error

// way is one way to the server. It never changes.
type way struct {
	config *rest.Config // with the content of its certificate files
	base   *url.URL
	proxy  string  // that the kubeconfig names; "" leaves it to the environment
	tokens *Tokens // of its auth-provider; nil where it has none
	send   http.RoundTripper
}

// NewAccess returns the way that load returns now. Others that it returns later are taken only when accept returns nil.
func NewAccess(load func() (*rest.Config, error), accept Accept, log *zap.Logger) (*Access, error) {
	w, err := read(load)
	if err == nil {
		err = w.open(log)
	}
	if err != nil {
		return nil, err
	}
	a := &Access{load: load, accept: accept, log: log, asked: w.base, abandoned: semaphore.NewWeighted(mostAbandoned)}
	a.current.Store(w)
	return a, nil
}

// Config returns a configuration that goes through a. The caller may change it.
func (a *Access) Config() *rest.Config { return a.current.Load().through(a.asked, a) }

// Host is the server's address as it is now.
func (a *Access) Host() string { return a.current.Load().base.String() }

// read reads the credentials.
func read(load func() (*rest.Config, error)) (*way, error) {
	config, err := load()
	if err != nil {
		return nil, err
	}
	w := &way{config: rest.CopyConfig(config)}
	// With the content in place of the names, no transport changes by itself, and a new content has a new one.
	if err := rest.LoadTLSFiles(w.config); err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	w.config.CAFile, w.config.CertFile, w.config.KeyFile = "", "", ""
	if w.base, _, err = rest.DefaultServerUrlFor(w.config); err != nil {
		return nil, fmt.Errorf("read address %q: %w", config.Host, err)
	}
	if config.Proxy != nil {
		if u, err := config.Proxy(&http.Request{URL: w.base}); err == nil && u != nil {
			w.proxy = u.String()
		}
	}
	return w, nil
}

// EnvironmentProxy is the proxy that HTTPS_PROXY and the like put before config's server; nil for none, or where the
// kubeconfig names one itself.
func EnvironmentProxy(config *rest.Config) *url.URL {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil || config.Proxy != nil {
		return nil
	}
	// As client-go does.
	proxy, err := utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)(&http.Request{URL: server})
	if err != nil {
		return nil // a request will say so
	}
	return proxy
}

// EnvironmentProxy is that of the way in use.
func (a *Access) EnvironmentProxy() *url.URL { return EnvironmentProxy(a.current.Load().config) }

// open makes a transport of the credentials.
func (w *way) open(log *zap.Logger) (err error) {
	guarded := rest.CopyConfig(w.config)
	w.tokens = KeepTokens(guarded, func(err error) { log.Warn(err.Error()) })
	Guard(guarded)
	if err = authenticate(guarded); err == nil {
		w.send, err = rest.TransportFor(guarded)
	}
	if err != nil {
		return fmt.Errorf("use credentials: %w", err)
	}
	return nil
}

// through is a configuration for clients that send their requests to base by means of t.
func (w *way) through(base *url.URL, t http.RoundTripper) *rest.Config {
	return &rest.Config{
		Host: base.String(), Transport: t, UserAgent: w.config.UserAgent,
		WarningHandler: w.config.WarningHandler, WarningHandlerWithContext: w.config.WarningHandlerWithContext,
	}
}

// RoundTrip implements http.RoundTripper.
//
// It returns when the request's context ends, even if a credential plugin, which client-go runs without one, continues.
// Each such request leaves a goroutine in the plugin; once there are mostAbandoned, the next ones wait outside of it.
func (a *Access) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := a.abandoned.Acquire(r.Context(), 1); err != nil {
		return nil, fmt.Errorf("the credential plugin holds %d earlier requests and does not answer: %w",
			mostAbandoned, err)
	}
	a.abandoned.Release(1)

	type answer struct {
		response *http.Response
		err      error
	}
	answered := make(chan answer)
	// Of the two that are done with the request, the second gives back what the first, if it was the caller, has taken.
	var done atomic.Bool
	var taken bool
	leave := func() {
		if done.Swap(true) && taken {
			a.abandoned.Release(1)
		}
	}
	go func() {
		defer leave()
		response, err := a.roundTrip(r)
		select {
		case answered <- answer{response, err}:
		case <-r.Context().Done():
			if response != nil {
				_ = response.Body.Close() // nobody reads it
			}
		}
	}()
	select {
	case got := <-answered:
		return got.response, got.err
	case <-r.Context().Done():
		taken = a.abandoned.TryAcquire(1) // false: there are as many as may be
		leave()
		return nil, r.Context().Err()
	}
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

// CancelRequest does nothing: a request ends with its context. Without it, client-go logs that it cannot cancel one.
func (a *Access) CancelRequest(*http.Request) {}

// CloseIdleConnections closes the connections that no request uses.
func (a *Access) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(a.current.Load().send) }

// redirect sends a request to where the way leads now.
func (w *way) redirect(r *http.Request, asked *url.URL) *http.Request {
	if *w.base == *asked {
		return r
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = w.base.Scheme, w.base.Host, w.base.Host
	r.URL.Path = strings.TrimSuffix(w.base.Path, "/") +
		strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(asked.Path, "/"))
	return r
}

// reload reads the credentials again, unless that was just now or someone else is at it.
func (a *Access) reload(ctx context.Context) {
	if !a.mu.TryLock() {
		return
	}
	defer a.mu.Unlock()
	if !time.Now().Before(a.next) {
		a.look(ctx)
	}
}

// Look reads the credentials again though nothing has failed.
func (a *Access) Look(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(ctx)
}

// look takes what the credentials are now, unless they are the same. It is called with mu held.
func (a *Access) look(ctx context.Context) {
	a.next = time.Now().Add(reloadPause)
	w, err := a.changed(ctx, a.load)
	switch {
	case err == nil:
		a.take(w)
	case ctx.Err() == nil && err.Error() != a.warned:
		a.warned = err.Error()
		a.log.Warn("the credentials have changed but cannot be used, keeping the old ones", zap.Error(err))
	}
}

// changed returns the way that load returns, which accept has agreed to; nil where it is the one in use.
func (a *Access) changed(ctx context.Context, load func() (*rest.Config, error)) (*way, error) {
	old := a.current.Load()
	w, err := read(load)
	if err != nil || w.same(old) {
		return nil, err
	}
	if err := w.open(a.log); err != nil {
		return nil, err
	}
	client, err := New(w.through(w.base, w.send))
	if err != nil {
		return nil, err
	}
	return w, a.accept(ctx, client, w.base.String() != old.base.String() || w.proxy != old.proxy)
}

// take uses another way from here on; nil: the one in use has been looked at, and the fault is not in it. It is called
// with mu held.
func (a *Access) take(w *way) {
	a.warned = ""
	if w != nil {
		utilnet.CloseIdleConnectionsFor(a.current.Swap(w).send)
		a.log.Info("the credentials have changed, using the new ones", zap.String("server", w.base.Redacted()))
	}
	a.doubt.Store(false)
}

// Prepare reads the credentials that load returns and has them accepted. Nothing changes before the caller calls use:
// then they are the ones, for every later look as well.
func (a *Access) Prepare(ctx context.Context, load func() (*rest.Config, error)) (use func(), err error) {
	w, err := a.changed(ctx, load)
	if err != nil {
		return nil, err
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.load = load
		a.take(w)
	}, nil
}

// same reports whether the way that was just read and an earlier one are the same in all that the user can change. Two
// functions never compare equal.
func (w *way) same(other *way) bool {
	a, b := *w.config, *other.config
	a.Proxy, b.Proxy = nil, nil
	a.AuthConfigPersister, b.AuthConfigPersister = nil, nil
	if a.AuthProvider != nil && other.tokens != nil && other.tokens.has(a.AuthProvider.Config) {
		a.AuthProvider = b.AuthProvider // it was this process that wrote the tokens
	}
	return w.proxy == other.proxy && reflect.DeepEqual(a, b)
}
