package watcher_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
)

// A token is replaced, and the daemon told to look before the old one is revoked:
// not one request is refused.
func TestLookBeforeATokenIsRevoked(t *testing.T) {
	const file = "kubeconfig"
	write := accesses["in the kubeconfig"]
	watched(t, streams.Options{}, withFiles(write)(t), func(d *daemon) {
		d.put("a")
		d.told(2)
		n := len(d.srv.Requests())
		d.access.Look(t.Context())
		if got := len(d.srv.Requests()) - n; got != 0 {
			t.Errorf("%d requests to look at what has not changed", got)
		}
		d.srv.SetToken("another")
		write(t, d.srv, d.dir)
		d.access.Look(t.Context())
		d.endWatches()
		d.put("b")
		d.told(3)
		if got := d.requests(n); got[http.StatusUnauthorized] != 0 {
			t.Errorf("answers by status: %v", got)
		}
		// Half a kubeconfig changes nothing.
		replace(t, filepath.Join(d.dir, file), []byte("{"))
		d.access.Look(t.Context())
		d.put("c")
		d.check()
	})
}

// A token in a file of its own is looked at as well, before client-go reads it again.
func TestLookTakesTokenFiles(t *testing.T) {
	write := accesses["in files"]
	watched(t, streams.Options{}, withFiles(write)(t), func(d *daemon) {
		n := len(d.srv.Requests())
		d.access.Look(t.Context())
		if got := len(d.srv.Requests()) - n; got != 0 {
			t.Errorf("%d requests to look at what has not changed", got)
		}
		d.srv.SetToken("another")
		write(t, d.srv, d.dir)
		d.access.Look(t.Context())
		d.endWatches()
		d.put("a")
		d.check()
		if got := d.requests(n); got[http.StatusUnauthorized] != 0 {
			t.Errorf("answers by status: %v", got)
		}
	})
}

// tunnel is an HTTP proxy.
func tunnel(t *testing.T, target string) (address string, opened *atomic.Int64, end func()) {
	t.Helper()
	p := newProxy(t, target)
	opened = new(atomic.Int64)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		opened.Add(1)
		back, err := net.Dial("tcp", p.address())
		if err != nil {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		// Before the answer: after it the client's first bytes could be in a buffer.
		front, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(front, "HTTP/1.1 200 Connection established\r\n\r\n")
		}
		if err != nil {
			back.Close()
			return
		}
		p.link(front, back)
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return l.Addr().String(), opened, func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		p.close()
	}
}

// A proxy is put in the way.
func TestProxyIsReplaced(t *testing.T) {
	var through atomic.Pointer[url.URL]
	load := func(srv *fake.Server, _ string) func() (*rest.Config, error) {
		return func() (*rest.Config, error) {
			c := srv.Config()
			if u := through.Load(); u != nil {
				c.Proxy = http.ProxyURL(u)
			}
			return c, nil
		}
	}
	watched(t, streams.Options{}, load, func(d *daemon) {
		server, err := url.Parse(d.srv.URL())
		must(t, err)
		address, opened, end := tunnel(t, server.Host)
		through.Store(&url.URL{Scheme: "http", Host: address})
		d.access.Look(t.Context())
		if opened.Load() == 0 {
			t.Error("the new proxy was not asked")
		}
		d.endWatches()
		d.put("a")
		d.check()
		// A way that is another is tried first.
		asked := func() (n int) {
			for _, r := range d.srv.Requests() {
				if r.Resource == "namespaces" {
					n++
				}
			}
			return n
		}
		n := asked()
		d.access.Look(t.Context())
		if got := asked(); n == 0 || got != n {
			t.Errorf("the way through the same proxy was tried %d times more, %d before", got-n, n)
		}
		end()
	})
}

// Another config's way is used once it is asked for, and only if it leads to the
// same cluster.
func TestPrepareAnotherWay(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	write := accesses["in the kubeconfig"]
	watched(t, streams.Options{}, withFiles(write)(t), func(d *daemon) {
		other := fake.New(fake.Options{})
		defer other.Close()
		elsewhere, moved := t.TempDir(), t.TempDir()
		write(t, other, elsewhere)
		at := newProxy(t, d.srv.URL()[len("https://"):])
		defer at.close()
		c := d.srv.Config()
		kubeconfig(t, filepath.Join(moved, "kubeconfig"),
			fmt.Sprintf(`"server": %q, "certificate-authority-data": %q`, "https://"+at.address(), encoded(c.CAData)), fmt.Sprintf(`"token": %q`, c.BearerToken))
		if _, err := d.access.Prepare(t.Context(), loader(filepath.Join(elsewhere, "kubeconfig"))); err == nil {
			t.Error("another cluster is accepted")
		}
		if _, err := d.access.Prepare(t.Context(), loader(filepath.Join(elsewhere, "nothing"))); err == nil {
			t.Error("a file that is not there is accepted")
		}
		use, err := d.access.Prepare(t.Context(), loader(filepath.Join(moved, "kubeconfig")))
		must(t, err)
		if got, want := d.access.Host(), d.srv.URL(); got != want {
			t.Errorf("goes to %s before it is used", got)
		}
		use()
		if got, want := d.access.Host(), "https://"+at.address(); got != want {
			t.Errorf("goes to %s, want %s", got, want)
		}
		d.endWatches()
		d.put("a")
		d.check()
		// What is looked at from here on is the other file.
		write(t, d.srv, moved)
		d.access.Look(t.Context())
		if got, want := d.access.Host(), d.srv.URL(); got != want {
			t.Errorf("goes to %s, want %s", got, want)
		}
		d.endWatches()
		d.put("b")
		d.check()
	})
}
