// Package proxy is a reverse proxy that stands between a client and an API server and misbehaves on demand: it answers
// in the server's place, delays, slows down, holds or cuts answers, closes connections, and leads to another server.
//
// Without a Fault it forwards every request as it is, the bearer token included, and passes each byte of an answer on
// at once, so that a watch works as it does without it. A server that cannot be reached is a 502 with an HTML page.
package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
)

// Server is where requests are forwarded to.
type Server struct {
	URL       string
	Authority []byte // PEM; of an https server, nil: the system's
}

// Options of a proxy. The zero value speaks TLS and HTTP/2.
type Options struct {
	Plain bool // no TLS; client-go then sends no token that stands in a kubeconfig
	HTTP1 bool // no HTTP/2: each request under way has a connection of its own
	// Observe is called with each request before anything is done with it, from several goroutines at once.
	Observe func(*http.Request)
}

// Proxy listens on a loopback address that stays the same until Close. Its methods may be called from several
// goroutines.
type Proxy struct {
	options Options
	server  *httptest.Server

	mu        sync.Mutex
	to        *upstream              // guarded by mu, as the rest
	faults    []Fault                // in effect
	exchanges map[*exchange]struct{} // under way
	closed    bool
}

// upstream is a Server with its connections.
type upstream struct {
	url       *url.URL
	transport *http.Transport
}

// Start starts a proxy that forwards to a server.
func Start(to Server, options Options) (*Proxy, error) {
	up, err := newUpstream(to)
	if err != nil {
		return nil, err
	}
	p := &Proxy{options: options, to: up, exchanges: make(map[*exchange]struct{})}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.Config.ErrorLog = quiet
	if options.Plain {
		p.server.Start()
		return p, nil
	}
	p.server.EnableHTTP2 = !options.HTTP1
	p.server.StartTLS()
	return p, nil
}

var quiet = log.New(io.Discard, "", 0) // what is cut on purpose is no news

func newUpstream(to Server) (*upstream, error) {
	u, err := url.Parse(to.URL)
	if err != nil {
		return nil, fmt.Errorf("read server's address: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if to.Authority != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(to.Authority) {
			return nil, errors.New("read server's authority: no certificate in PEM")
		}
	}
	return &upstream{u, &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true,
		DisableCompression: true, // an answer continues in the encoding in which it came
	}}, nil
}

// URL is the proxy's address.
func (p *Proxy) URL() string { return p.server.URL }

// Authority is what the proxy's certificate is verified with, as PEM; nil without TLS.
func (p *Proxy) Authority() []byte {
	if p.options.Plain {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// Set puts faults in place of those in effect, for answers under way too; each request has the first one that matches
// it. Without faults the proxy works, and what was held continues.
func (p *Proxy) Set(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
	for e := range p.exchanges {
		e.set(p.match(e))
	}
}

// match returns the fault of a request. It is called with mu held.
func (p *Proxy) match(e *exchange) Fault {
	for _, f := range p.faults {
		if f.Match == nil || f.Match(e.request) {
			return f
		}
	}
	return Fault{}
}

// Cut breaks off every request under way. The client's connections stay, where the protocol allows it.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	for e := range p.exchanges {
		e.cancel()
	}
}

// Disconnect closes the client's connections.
func (p *Proxy) Disconnect() { p.server.CloseClientConnections() }

// Switch leads every request from now on to another server and breaks off those under way. The client's connections
// stay, as after a load balancer that ends TLS.
func (p *Proxy) Switch(to Server) error {
	up, err := newUpstream(to)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to.transport.CloseIdleConnections()
	p.to = up
	p.cut()
	return nil
}

// Close breaks everything off and stops listening.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.cut()
	up := p.to
	p.mu.Unlock()
	p.server.CloseClientConnections()
	p.server.Close()
	up.transport.CloseIdleConnections()
}

// begin takes a request in and returns where it goes; false says that the proxy is closed.
func (p *Proxy) begin(e *exchange) (*upstream, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges[e] = struct{}{}
	e.set(p.match(e))
	return p.to, !p.closed
}

func (p *Proxy) end(e *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.exchanges, e)
	e.set(Fault{}) // stops its timer
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if p.options.Observe != nil {
		p.options.Observe(r)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	e := newExchange(r.WithContext(ctx), cancel)
	to, ok := p.begin(e)
	defer p.end(e)
	if !ok || !e.delay() {
		panic(http.ErrAbortHandler)
	}
	if f, _ := e.fault(); f.Answer != nil {
		f.Answer.ServeHTTP(w, r)
		return
	}
	forward := httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to.url) },
		Transport:     to.transport,
		FlushInterval: -1,
		ErrorLog:      quiet,
		ModifyResponse: func(response *http.Response) error {
			response.Body = &body{ReadCloser: response.Body, exchange: e}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			if ctx.Err() != nil {
				panic(http.ErrAbortHandler) // cut, or the client has gone
			}
			BadGateway.ServeHTTP(w, nil)
		},
	}
	forward.ServeHTTP(w, e.request)
}
