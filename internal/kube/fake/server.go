// Package fake is a Kubernetes API server in the process, for tests.
//
// What it promises: everything that a reader of the API can see of history is
// there and behaves as in the real server. Every write gets the next version of
// one counter, as in etcd; lists, pages and watches are answered out of that
// numbered history and never out of a separate picture of "now". Two lower
// bounds decide what has been forgotten:
//
//	compacted   what etcd has thrown away: lists at an older version and
//	            continue tokens answer 410
//	window      where the watch cache begins, per resource: watches from
//	            before answer 410, even while etcd still has the history
//
// A restart moves the window to the current version; that is why 410 is the
// usual answer after any restart. Events have no watch cache, as in the real
// server: for them only compaction counts.
//
// The conformance suite in test/conformance runs on this package and on a real
// control plane. Where the two differ, this package is wrong. What is
// deliberately not imitated: admission (any namespace can be written to),
// validation of kinds, graceful deletion of pods, subresources, strategic merge
// (done as a plain merge patch), server-side apply, and every encoding but
// JSON.
//
// The server runs on a real loopback listener or in memory over net.Pipe. It
// has no global state, uses package time only, and leaves no goroutine after
// Close, so that thousands of them can live inside testing/synctest bubbles.
package fake

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Options has a useful zero value.
type Options struct {
	// InMemory serves over net.Pipe, in plain HTTP/1.1, in place of a loopback
	// port with TLS and HTTP/2; the server is then reached through Config only,
	// and can live in a synctest bubble.
	InMemory bool
	// BookmarkInterval is the time between bookmarks; default 1 s. The real
	// server takes a minute.
	BookmarkInterval time.Duration
	// FreshWait is how long a request for a version ahead of the server waits
	// before it is answered with 504; default 100 ms. The real server takes 3 s.
	FreshWait time.Duration
	// MaxPage cuts every list into pages of at most this many items, also where
	// the client asked for no limit or for a larger one; 0 does as the real
	// server, which knows no such bound.
	MaxPage int
	// Shards is the feature ShardedListAndWatch (KEP-5866); SetShards changes it.
	Shards bool
	// NoWatchList refuses sendInitialEvents, as servers before 1.32 do, and 1.33 by
	// default.
	NoWatchList bool
	// NoAggregatedDiscovery answers /api and /apis in the old form only.
	NoAggregatedDiscovery bool
	// GoneAsStatus answers a watch from before the window with HTTP status 410.
	// The default is that of the real server: an ERROR event in a 200 stream.
	GoneAsStatus bool
	// ClusterUID is the uid of the namespace kube-system; default random.
	ClusterUID string
	// UID makes the uid of the n-th object; default part of ClusterUID after n.
	UID func(n uint64) string
}

// Server is one API server with its storage. All methods may be called from
// any goroutine. It has more than 15 fields since one mutex guards all that a
// test can change while requests are answered.
type Server struct {
	opts  Options
	http  *http.Server
	conns *listener
	// transport is what Config hands out for a server in memory: it is owned
	// here so that Close can close its idle connections.
	transport *http.Transport
	cancel    context.CancelFunc // ends requests that hang
	handlers  sync.WaitGroup     // requests being answered
	serving   sync.WaitGroup     // the accept loop

	mu        sync.Mutex // guards all below
	closed    bool
	authority *authority // nil in memory
	client    []byte     // the client certificate that is accepted, DER; nil for none
	token     string
	version   uint64 // of the last write
	compacted uint64 // lists below this version answer 410
	lastUID   uint64 // never goes back, not even in RestoreTo
	resources []*resource
	removed   map[schema.GroupResource]*store // of resources that are not served any more
	forbidden map[verbOf]bool
	policy    func(Attributes) (allowed bool, reason string)
	stale     map[schema.GroupVersion]bool
	watchList bool
	shards    bool
	habits    map[schema.GroupResource]*Habit
	fault     func(Request) *Fault
	requests  []Request
	streams   map[*stream]struct{}
	notice    chan struct{} // closed and replaced at every request, stream and write
}

type verbOf struct {
	resource schema.GroupResource
	verb     string
}

// New starts a server. It holds the namespaces that every cluster has.
func New(opts Options) *Server {
	if opts.BookmarkInterval == 0 {
		opts.BookmarkInterval = time.Second
	}
	if opts.FreshWait == 0 {
		opts.FreshWait = 100 * time.Millisecond
	}
	if opts.ClusterUID == "" {
		var b [16]byte
		rand.Read(b[:])
		opts.ClusterUID = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	s := &Server{
		opts:      opts,
		token:     "kubefake",
		forbidden: map[verbOf]bool{},
		stale:     map[schema.GroupVersion]bool{},
		removed:   map[schema.GroupResource]*store{},
		habits:    map[schema.GroupResource]*Habit{},
		watchList: !opts.NoWatchList,
		shards:    opts.Shards,
		streams:   map[*stream]struct{}{},
		notice:    make(chan struct{}),
	}
	s.addBuiltins()
	s.addNamespaces()

	s.conns = newListener(opts.InMemory)
	if opts.InMemory {
		s.transport = &http.Transport{DialContext: s.conns.dial, MaxIdleConnsPerHost: 100}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = &http.Server{
		BaseContext: func(net.Listener) context.Context { return ctx },
		Handler:     http.HandlerFunc(s.serveHTTP),
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	serve := func() error { return s.http.Serve(s.conns) }
	if !opts.InMemory {
		s.authority = newAuthority()
		s.http.TLSConfig = &tls.Config{
			ClientAuth: tls.RequestClientCert,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return &s.authority.certificate, nil
			},
		}
		serve = func() error { return s.http.ServeTLS(s.conns, "", "") }
	}
	s.serving.Go(func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			panic(fmt.Sprintf("fake: serve: %v", err))
		}
	})
	return s
}

// Close cuts all connections and returns when every goroutine of the server is
// on its way out.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.http.Close()
	s.conns.cut()
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	s.handlers.Wait()
	s.serving.Wait()
}

// URL is where the server listens; in memory it can be reached through the
// transport of Config only.
func (s *Server) URL() string {
	if s.opts.InMemory {
		return "http://" + s.conns.Addr().String()
	}
	return "https://" + s.conns.Addr().String()
}

// Config is the configuration of an administrator, without a client-side rate
// limit. For a server in memory it carries the transport that reaches it.
func (s *Server) Config() *rest.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &rest.Config{Host: s.URL(), BearerToken: s.token, QPS: -1}
	if s.opts.InMemory {
		c.Transport = s.transport
	} else {
		c.CAData = s.authority.pem
	}
	return c
}

// Kubeconfig writes an administrator's kubeconfig into dir and returns its
// path. The server must be on a real listener.
func (s *Server) Kubeconfig(dir string) (string, error) {
	if s.opts.InMemory {
		return "", errors.New("write kubeconfig: the server is in memory")
	}
	c := s.Config()
	path := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: kubefake
clusters:
- name: kubefake
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: kubefake
  user: {token: %q}
contexts:
- name: kubefake
  context: {cluster: kubefake, user: kubefake}
`, c.Host, base64.StdEncoding.EncodeToString(c.CAData), c.BearerToken)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

// SetToken makes token the only one that is accepted; with the old one every
// further request is answered with 401, as with an expired token.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// SetAuthority replaces the server's certificate and the authority that signed
// it, as a server does that is set up again, and cuts all connections. Config and
// Kubeconfig tell the new one.
func (s *Server) SetAuthority() {
	s.mu.Lock()
	s.authority = newAuthority()
	s.mu.Unlock()
	s.conns.cut()
}

// IssueClient returns an administrator's client certificate and its key, PEM. The
// one before is not accepted any more: 401, as with an expired one.
func (s *Server) IssueClient() (certificate, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, certificate, key := s.authority.issueClient()
	s.client = c
	return certificate, key
}

// SetWatchList turns streamed initial lists on or off.
func (s *Server) SetWatchList(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchList = on
}

// SetShards turns the feature ShardedListAndWatch on or off.
func (s *Server) SetShards(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards = on
}

// Forbid takes verbs of a resource from everyone: 403. No verb means all.
func (s *Server) Forbid(gvr schema.GroupVersionResource, verbs ...string) {
	s.setForbidden(gvr, verbs, true)
}

// Allow undoes Forbid.
func (s *Server) Allow(gvr schema.GroupVersionResource, verbs ...string) {
	s.setForbidden(gvr, verbs, false)
}

func (s *Server) setForbidden(gvr schema.GroupVersionResource, verbs []string, forbid bool) {
	if len(verbs) == 0 {
		verbs = allVerbs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range verbs {
		s.forbidden[verbOf{gvr.GroupResource(), v}] = forbid
	}
}

// Attributes is what a request asks to do, as an authorizer sees it.
type Attributes struct{ Verb, Group, Resource, Namespace, Name string }

// SetPolicy lets policy decide what Forbid leaves; nil allows it all. The reason is returned in access reviews. policy
// must not call the server.
func (s *Server) SetPolicy(policy func(Attributes) (allowed bool, reason string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy = policy
}

// allows is called with mu held.
func (s *Server) allows(a Attributes) (allowed bool, reason string) {
	if s.forbidden[verbOf{schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Verb}] {
		return false, ""
	}
	if s.policy == nil || a.Group == "authorization.k8s.io" { // everyone may ask
		return true, ""
	}
	return s.policy(a)
}

// StopAPIServer ends all watches, cuts all connections and refuses new ones.
func (s *Server) StopAPIServer() {
	s.conns.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseWatchCache()
}

// StartAPIServer takes connections again, on the same address. The watch cache
// begins at the current version.
func (s *Server) StartAPIServer() error {
	s.mu.Lock()
	s.loseWatchCache()
	s.mu.Unlock()
	return s.conns.start()
}

// RestartAPIServer drops all connections at once. The watch cache begins at
// the current version: older watches are answered with 410 though etcd still
// has their history.
func (s *Server) RestartAPIServer() {
	s.mu.Lock()
	s.loseWatchCache()
	s.mu.Unlock()
	s.conns.cut()
}

// loseWatchCache is called with mu held.
func (s *Server) loseWatchCache() {
	for _, r := range s.resources {
		r.store.window = s.version
	}
}

// BreakWatches cuts every watch without a proper end: the client finds EOF
// where it expected more.
func (s *Server) BreakWatches() { s.stopStreams(func(st *stream) { st.abort() }) }

// EndWatches ends every watch in good order, as a server does at a timeout, at
// its own shutdown, and for a client that reads too slowly.
func (s *Server) EndWatches() { s.stopStreams(func(st *stream) { st.end() }) }

// SilenceWatches lets every watch stay open and send nothing any more, not even
// its end: what a client sees of a server behind a connection that is half open.
func (s *Server) SilenceWatches() { s.stopStreams(func(st *stream) { st.muted.Store(true) }) }

func (s *Server) stopStreams(stop func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		stop(st)
	}
}

// OpenWatches counts the watches being served of a resource ("" counts all).
func (s *Server) OpenWatches(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for st := range s.streams {
		if name == "" || st.resource.Resource.Resource == name {
			n++
		}
	}
	return n
}

// Requests returns all requests so far, in the order in which they came in.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Refused returns when connections to a server in memory were refused because it
// was down.
func (s *Server) Refused() []time.Time {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return slices.Clone(s.conns.turned)
}

// Await returns when condition holds; it is asked again after every request,
// every change of a watch and every write.
func (s *Server) Await(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		notice := s.notice
		s.mu.Unlock()
		if condition() {
			return nil
		}
		select {
		case <-notice:
		case <-ctx.Done():
			return fmt.Errorf("await condition: %w", ctx.Err())
		}
	}
}

// notify wakes Await. It is called with mu held.
func (s *Server) notify() {
	close(s.notice)
	s.notice = make(chan struct{})
}
