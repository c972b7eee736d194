package watcher_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/internal/config"
	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// foreignUID is the uid of the other cluster's namespace kube-system.
const foreignUID = "99999999-8888-7777-6666-555555555555"

// address is what one address leads to: a cluster, and later another one.
type address struct {
	server atomic.Pointer[fake.Server]
}

func (a *address) transport() *http.Transport {
	return a.server.Load().Config().Transport.(*http.Transport)
}

// dial makes new connections lead to the server of now, as a VIP or a DNS name does.
func (a *address) dial(ctx context.Context, network, host string) (net.Conn, error) {
	return a.transport().DialContext(ctx, network, host)
}

// gateway leads each request to the server of now, as a proxy does that keeps its client's connection.
type gateway struct{ *address }

func (g gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	return g.transport().RoundTrip(r)
}

// CloseIdleConnections is for client-go: there are none.
func (gateway) CloseIdleConnections() {}

// The ways in which an address can lead to a server.
var addresses = map[string]func(*address) http.RoundTripper{
	"a connection for each request": func(a *address) http.RoundTripper {
		return &http.Transport{DialContext: a.dial, DisableKeepAlives: true}
	},
	"kept connections": func(a *address) http.RoundTripper {
		return &http.Transport{DialContext: a.dial, MaxIdleConnsPerHost: 100}
	},
	"a gateway": func(a *address) http.RoundTripper { return gateway{a} },
}

// twoClusters is a world whose server's address can be made to lead to another cluster.
type twoClusters struct {
	*harness
	other   *fake.Server
	address address
	forget  func() // what a process that ends takes with it: its connections
	refusal error  // of a start
}

// lead makes the address lead to a server.
func (c *twoClusters) lead(to *fake.Server) { c.address.server.Store(to) }

// between runs test where the other cluster is ahead of the journalled one by this many versions.
func between(t *testing.T, o fake.Options, way string, ahead int, test func(*twoClusters)) {
	t.Helper()
	bubble(t, o, entries("configmaps", "secrets", "deployments.apps"), func(w *harness) {
		o.InMemory, o.ClusterUID = true, foreignUID
		c := &twoClusters{harness: w, other: fake.New(o)}
		defer c.other.Close()
		c.lead(w.srv)
		transport := addresses[way](&c.address)
		c.forget = func() { utilnet.CloseIdleConnectionsFor(transport) }
		defer func() { c.forget() }()
		w.wrap = func(http.RoundTripper) http.RoundTripper { return transport }
		for i := range 5 {
			for _, gvr := range []schema.GroupVersionResource{configMaps, secrets, deployments} {
				w.put(gvr, fmt.Sprint("ours", i))
				_, err := c.other.Create(gvr, map[string]any{"metadata": map[string]any{"name": fmt.Sprint("theirs", i), "namespace": "default"}})
				must(t, err)
			}
		}
		for int(c.other.Version())-int(w.srv.Version()) < ahead {
			_, err := c.other.Create(namespaces, map[string]any{"metadata": map[string]any{"generateName": "noise-"}})
			must(t, err)
		}
		for int(c.other.Version())-int(w.srv.Version()) > ahead {
			_, err := w.srv.Create(namespaces, map[string]any{"metadata": map[string]any{"generateName": "noise-"}})
			must(t, err)
		}
		test(c)
	})
}

// write has something happen in the other cluster.
func (c *twoClusters) write() {
	c.t.Helper()
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets, deployments} {
		_, err := c.other.Create(gvr, map[string]any{"metadata": map[string]any{"generateName": "theirs-", "namespace": "default"}})
		must(c.t, err)
	}
}

// refused waits for the daemon's end, which must name both clusters, and looks at the journal.
func (c *twoClusters) refused() {
	c.t.Helper()
	w, err := c.harness, c.refusal
	if w.life != nil {
		for end := time.Now().Add(patience); len(w.life.ended) == 0 && time.Now().Before(end); w.pass(time.Second) {
			c.write()
		}
		if len(w.life.ended) == 0 {
			c.t.Fatal("the daemon goes on")
		}
		err = w.ended()
	}
	c.onlyOurs()
	if err == nil || !strings.Contains(err.Error(), clusterUID) || !strings.Contains(err.Error(), foreignUID) {
		c.t.Errorf("ended with %v, which does not name both clusters", err)
	}
}

// onlyOurs checks that not one line is of the other cluster.
func (c *twoClusters) onlyOurs() {
	c.t.Helper()
	for _, l := range c.lines() {
		if strings.HasPrefix(l.Name, "theirs") {
			c.t.Fatalf("written: %s", brief(l))
		}
	}
}

// startThenLead starts the daemon, and leads the address to the other cluster before a stream starts.
func (c *twoClusters) startThenLead() {
	c.assembled = func() {
		c.lead(c.other)
		c.forget()
	}
	c.start()
	c.assembled = nil
}

// back leads the address to the journalled cluster, where the daemon resumes as if nothing had been.
func (c *twoClusters) back(gaps bool) {
	c.t.Helper()
	n := len(c.lines())
	c.put(configMaps, "ours0")
	c.srv.SetFault(nil)
	c.lead(c.srv)
	if c.life == nil {
		c.forget()
		c.start()
	}
	c.check()
	if !gaps && slices.ContainsFunc(briefs(c.lines()[n:]), func(l string) bool { return strings.HasPrefix(l, "GAP") }) {
		c.t.Errorf("the history was there, and the journal has a gap: %q", briefs(c.lines()[n:]))
	}
}

// swap has the address lead to the other cluster once the journalled one gets such a request.
func (c *twoClusters) swap(at func(fake.Request) bool) {
	c.srv.SetFault(func(r fake.Request) *fake.Fault {
		if at(r) {
			c.lead(c.other)
		}
		return nil
	})
}

func asksVersion(r fake.Request) bool {
	return r.Verb == "list" && r.Query.Get("limit") == "1"
}

func asksFirstPage(r fake.Request) bool {
	return r.Verb == "list" && r.Query.Get("limit") != "1" && r.Query.Get("continue") == ""
}

// Another cluster answers at the same address. Not a line of it is written, the daemon ends, and the positions hold for
// the day on which the address leads to the journalled cluster again.
func TestAnotherClusterAtTheAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	paged := fake.Options{NoWatchList: true, MaxPage: 2}
	for _, at := range []struct {
		name    string
		options fake.Options
		only    string // the one way in which it can come to this; "" for all
		gaps    bool   // the journalled cluster has lost its history meanwhile
		happens func(*twoClusters)
	}{
		{name: "while watches are open, which are cut", gaps: true, happens: func(c *twoClusters) {
			c.start()
			c.synced()
			c.lead(c.other)
			c.srv.StopAPIServer()
			must(c.t, c.srv.StartAPIServer())
		}},
		{name: "while watches are open, which end", happens: func(c *twoClusters) {
			c.start()
			c.synced()
			c.lead(c.other)
			c.srv.EndWatches()
		}},
		{name: "between the check of the version and the watch", happens: func(c *twoClusters) {
			c.start()
			c.synced()
			c.swap(asksVersion)
			c.srv.EndWatches()
		}},
		{name: "as the watch is asked for", happens: func(c *twoClusters) {
			c.start()
			c.synced()
			c.swap(func(r fake.Request) bool { return r.Verb == "watch" })
			c.srv.EndWatches()
		}},
		{name: "while the daemon does not run", happens: func(c *twoClusters) {
			c.start()
			c.synced()
			c.stop()
			c.lead(c.other)
			c.forget()
			c.refusal = c.tryStart()
		}},
		{name: "before the first sync", happens: (*twoClusters).startThenLead},
		{name: "before the first sync, in pages", options: paged, happens: (*twoClusters).startThenLead},
		{name: "between pages of a first sync", options: paged, happens: func(c *twoClusters) {
			c.swap(asksFirstPage)
			c.start()
			c.interrupted = true
		}},
		{name: "between pages of a relist", options: paged, gaps: true, happens: func(c *twoClusters) {
			c.start()
			c.synced()
			c.put(configMaps, "ours1")
			c.put(secrets, "ours1")
			c.put(deployments, "ours1")
			c.swap(asksFirstPage)
			c.srv.RestartAPIServer()
			c.interrupted = true
		}},
	} {
		for way := range addresses {
			if way == "kept connections" && strings.HasPrefix(at.name, "between pages") {
				continue // they lead to the journalled cluster up to the list's end
			}
			for name, ahead := range map[string]int{"equal": 0, "lower": -7, "higher": 7} {
				t.Run(fmt.Sprintf("%s, %s, %s", at.name, way, name), func(t *testing.T) {
					between(t, at.options, way, ahead, func(c *twoClusters) {
						at.happens(c)
						c.refused()
						c.back(at.gaps)
					})
				})
			}
		}
	}
}

// The other cluster does not let its uid be read: nothing of it is written, the streams say why, and continue once the
// address leads to the journalled cluster again.
func TestClusterThatDoesNotTell(t *testing.T) {
	for name, ahead := range map[string]int{"equal": 0, "lower": -7, "higher": 7} {
		t.Run(name, func(t *testing.T) {
			between(t, fake.Options{}, "a gateway", ahead, func(c *twoClusters) {
				c.other.Forbid(namespaces, "get")
				c.start()
				c.synced()
				c.lead(c.other)
				c.srv.EndWatches()
				for range 60 {
					c.write()
					c.pass(time.Second)
				}
				c.onlyOurs()
				for _, s := range c.life.manager.Streams() {
					if s.State != watcher.Retrying || s.Reason != "ClusterUnknown" {
						t.Errorf("%s is %s, %s", s.Name, s.State, s.Reason)
					}
				}
				c.back(false)
			})
		})
	}
}

// Where the uid could never be read, everything continues without; and the first one that can be read is kept.
func TestClusterThatWasNeverKnown(t *testing.T) {
	between(t, fake.Options{}, "a connection for each request", 0, func(c *twoClusters) {
		learnt := func() string {
			id, err := c.life.gate.store.Cluster()
			must(t, err)
			return id
		}
		c.srv.Forbid(namespaces, "get")
		c.start()
		c.synced()
		c.srv.EndWatches()
		c.put(configMaps, "a")
		c.synced()
		if id := learnt(); id != "" {
			t.Errorf("learnt %q", id)
		}
		c.srv.Allow(namespaces, "get")
		c.srv.EndWatches()
		c.put(configMaps, "b")
		c.check()
		if id := learnt(); id != clusterUID {
			t.Errorf("learnt %q", id)
		}
		c.lead(c.other)
		c.srv.EndWatches()
		c.refused()
	})
}

// What goes wrong with the check is retried and shown, costs no position, and is never taken for a fault of the resource.
func TestClusterCheckFails(t *testing.T) {
	for name, fault := range map[string]*fake.Fault{
		"ServerError": statusFault(503), "TooManyRequests": {Status: tooManyRequests, RetryAfter: 5}, "Expired": statusFault(http.StatusGone),
		"BadRequest": statusFault(http.StatusBadRequest), "Unauthorized": statusFault(http.StatusUnauthorized), "Timeout": {Hang: true},
		"ClusterUnknown": statusFault(http.StatusForbidden), "Error": {Status: http.StatusOK, Body: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps", "secrets"), func(w *harness) {
				w.put(configMaps, "a")
				w.start()
				w.synced()
				n := len(w.lines())
				w.srv.SetFault(on("namespaces", "get", fault))
				w.srv.EndWatches()
				w.pass(100 * time.Millisecond)
				w.put(configMaps, "b")
				w.pass(2 * time.Minute)
				w.tell(n)
				for _, s := range w.life.manager.Streams() {
					if s.State != watcher.Retrying || s.Reason != name {
						t.Errorf("%s is %s, %s", s.Name, s.State, s.Reason)
					}
				}
				w.srv.SetFault(nil)
				w.check()
				w.tell(n, "ADDED watch b")
			})
		})
	}
}

// isCheck reports whether a request asks for the cluster's uid.
func isCheck(r fake.Request) bool { return r.Resource == "namespaces" && r.Name == "kube-system" }

// checks counts the requests for the cluster's uid after the nth request.
func (w *harness) checks(n int) (count int) {
	for _, r := range w.srv.Requests()[n:] {
		if isCheck(r) {
			count++
		}
	}
	return count
}

// askedSince returns the requests from n on, but for those by which the daemon sees every minute whether the API has
// changed: it asks for OpenAPI, and for discovery in no other form than one document.
func (w *harness) askedSince(n int) []fake.Request {
	return slices.DeleteFunc(w.srv.Requests()[n:], func(r fake.Request) bool {
		return strings.HasPrefix(r.Path, "/openapi/") || strings.HasSuffix(r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	})
}

// Hundreds of watches opened together share their checks, and an open watch needs none.
func TestClusterChecksAreShared(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const streams = 300
	e := entry("configmaps")
	for i := range streams {
		e.Namespaces = append(e.Namespaces, fmt.Sprintf("n%03d", i))
	}
	bubble(t, fake.Options{}, []config.Resource{e}, func(w *harness) {
		w.pulse = never
		w.start()
		w.synced()
		w.pass(10 * time.Second)
		n := len(w.srv.Requests())
		w.srv.EndWatches()
		w.synced()
		w.pass(10 * time.Second)
		watches, checks := len(w.requests(n, "configmaps", "watch")), w.checks(n)
		t.Logf("%d watches, %d checks", watches, checks)
		if watches < streams || checks > 60 || checks == 0 {
			t.Errorf("%d checks for %d watches", checks, watches)
		}
		n = len(w.srv.Requests())
		w.pass(2 * time.Minute)
		w.put(configMaps, "a")
		if got := len(w.askedSince(n)); got != 0 {
			t.Errorf("%d requests while all watches are open", got)
		}
		w.pass(time.Hour)
		if watches, checks := len(w.requests(n, "configmaps", "watch")), w.checks(n); checks > watches {
			t.Errorf("%d checks for %d watches", checks, watches)
		}
	})
}

// A list in pages costs a check for each page, and the record of the API one.
func TestClusterChecksOfPages(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, entries("configmaps"), func(w *harness) {
		for i := range 10 {
			w.put(configMaps, fmt.Sprint("a", i))
		}
		w.start()
		w.synced()
		w.awaitFor(time.Minute, "the API is recorded", func() bool {
			api, err := apidocs.Open(w.journal())
			must(t, err)
			defer api.Close()
			return len(api.Spans()) > 0
		})
		if got := w.checks(0); got != 1+5+1+1 {
			t.Errorf("%d checks for a start, 5 pages, a watch and the record of the API", got)
		}
		n := len(w.srv.Requests())
		w.put(secrets, "noise")
		w.srv.RestartAPIServer()
		w.put(configMaps, "a0")
		w.check()
		if got := w.checks(n); got > 1+1+5+1 {
			t.Errorf("%d checks for a watch that has expired, a GAP, 5 pages and a watch", got)
		}
	})
}

// The cluster's uid is asked for over a connection that nothing else uses, with the credentials of all.
func TestClusterIDHasItsOwnConnection(t *testing.T) {
	for name, load := range rotations() {
		t.Run(name, func(t *testing.T) {
			srv := fake.New(fake.Options{})
			defer srv.Close()
			config := load(t)(srv, t.TempDir())
			access, err := client.NewAccess(config, nil, zap.NewNop())
			must(t, err)
			defer access.CloseIdleConnections()
			direct, err := config()
			must(t, err)
			for what, config := range map[string]*rest.Config{"through Access": access.Config(), "without": direct} {
				api, err := client.New(config)
				must(t, err)
				kinds, err := discovery.NewDiscoveryClientForConfig(config)
				must(t, err)
				for range 3 {
					// Something else leaves a connection behind.
					_, err := kinds.ServerVersion()
					must(t, err)
					var got httptrace.GotConnInfo
					ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { got = i }})
					_, err = api.ClusterID(ctx)
					must(t, err)
					if got.Reused || got.Conn == nil {
						t.Errorf("%s: a connection that was there before", what)
					}
					if c, ok := got.Conn.(*tls.Conn); !ok || c.ConnectionState().NegotiatedProtocol != "h2" {
						t.Errorf("%s: not HTTP/2", what)
					}
				}
			}
		})
	}
}
