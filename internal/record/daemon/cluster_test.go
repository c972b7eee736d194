package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// virtualIP is an address whose new connections lead to one of several servers.
type virtualIP struct {
	listener net.Listener
	target   atomic.Pointer[fake.Server]
	running  sync.WaitGroup
}

func newVirtualIP(t *testing.T, target *fake.Server) *virtualIP {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &virtualIP{listener: l}
	v.target.Store(target)
	v.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			server, err := net.Dial("tcp", strings.TrimPrefix(v.target.Load().URL(), "https://"))
			if err != nil {
				client.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
				v.running.Go(func() {
					io.Copy(way[0], way[1])
					way[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		v.target.Load().Close()
		v.running.Wait()
	})
	return v
}

// reach writes a kubeconfig by which the daemon finds a server at an address, or at its own for "".
func (l *live) reach(srv *fake.Server, address string) {
	l.t.Helper()
	path, err := srv.Kubeconfig(l.t.TempDir())
	if err != nil {
		l.t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	text := string(content)
	if address != "" {
		text = strings.ReplaceAll(text, srv.URL(), "https://"+address)
		// As with a load balancer that has one certificate for both.
		before, rest, _ := strings.Cut(text, "certificate-authority-data: ")
		_, after, _ := strings.Cut(rest, "}")
		text = before + "insecure-skip-tls-verify: true}" + after
	}
	writeFile(l.t, filepath.Join(l.dir, "kubeconfig"), text)
}

// lines are the journal's.
func (l *live) lines() []invariant.Line {
	l.t.Helper()
	lines, err := invariant.Read(l.journal())
	if err != nil {
		l.t.Fatal(err)
	}
	return lines
}

// written waits until the journal has a line of an object.
func (l *live) written(name string) {
	l.t.Helper()
	l.until(name+" is written", func() bool {
		content, err := os.ReadFile(l.journal())
		return err == nil && strings.Contains(string(content), fmt.Sprintf("%q:%q", "name", name))
	})
}

// another is another cluster, which has an object of its own.
func (l *live) another() *fake.Server {
	l.t.Helper()
	other := fake.New(fake.Options{ClusterUID: "99999999-8888-7777-6666-555555555555"})
	l.t.Cleanup(other.Close)
	l.on(other, "theirs")
	return other
}

// on creates a configmap.
func (l *live) on(srv *fake.Server, name string) {
	l.t.Helper()
	if _, err := srv.Create(configMaps, map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}}); err != nil {
		l.t.Fatal(err)
	}
}

// onlyOurs checks that no line is of the other cluster.
func (l *live) onlyOurs() {
	l.t.Helper()
	for _, line := range l.lines() {
		if strings.HasPrefix(line.Name, "theirs") || line.Type == invariant.Gap {
			l.t.Errorf("written: %s %s", line.Type, line.Name)
		}
	}
}

// Another cluster answers at the server's address: the daemon ends with status 1 and one line that names both,
// without a line of that cluster, and resumes with the old one as if nothing had been.
func TestAnotherClusterAtTheAddress(t *testing.T) {
	l := newLive(t)
	other := l.another()
	at := newVirtualIP(t, l.srv)
	l.reach(l.srv, at.listener.Addr().String())
	writeFile(t, l.config(), l.text("configmaps, secrets"))
	l.start()
	l.watched("configmaps", "secrets")
	l.on(l.srv, "a")
	l.written("a")

	at.target.Store(other)
	l.srv.EndWatches()
	l.on(other, "theirs-too")
	l.until("it has ended", func() bool { return l.logged("\nkubejournal: ") == 1 })
	if err := l.stop(); err == nil {
		t.Error("it ended without an error")
	}
	_, last, _ := strings.Cut(l.log.String(), "\nkubejournal: ")
	if ours := uidOf(t, l.srv); strings.Count(last, "\n") != 1 || !strings.Contains(last, ours) || !strings.Contains(last, uidOf(t, other)) ||
		!strings.Contains(last, "name another checkpoint and output") {
		t.Errorf("said: %s", last)
	}
	t.Log(last)
	l.onlyOurs()

	l.on(l.srv, "b")
	at.target.Store(l.srv)
	l.start()
	l.written("b")
	l.onlyOurs()
}

// uidOf is the uid of a server's namespace kube-system.
func uidOf(t *testing.T, srv *fake.Server) string {
	t.Helper()
	ns, err := srv.Get(namespaces, "", "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	return ns["metadata"].(map[string]any)["uid"].(string)
}

// New credentials that lead to a server whose cluster is unknown: they are refused where the cluster is known, and
// where the address is another.
func TestCredentialsOfAnUnknownCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, known := range map[string]bool{"known": true, "never known": false} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t)
			l.pulse = time.Hour // the old token is refused before the new one is noticed
			other := l.another()
			other.Forbid(namespaces, "get")
			if !known {
				l.srv.Forbid(namespaces, "get")
			}
			writeFile(t, l.config(), l.text("configmaps"))
			l.start()
			l.watched("configmaps")
			l.on(l.srv, "a")
			l.written("a")

			l.reach(other, "")
			const kept = "the credentials have changed but cannot be used, keeping the old ones"
			l.until("they are refused", func() bool { return l.logged(kept) > 0 })
			if l.logged("cannot tell whether "+other.URL()+" is the same cluster") != 1 || l.logged("allow get of the namespace kube-system") != 1 {
				t.Error("the log does not say why")
			}
			l.srv.EndWatches()
			l.on(l.srv, "b")
			l.written("b")
			for _, r := range other.Requests() {
				if r.Path != "/api/v1/namespaces/kube-system" {
					t.Errorf("asked the other cluster for %s", r.Path)
				}
			}

			// A token that is replaced at the same address continues working, also without that right.
			l.srv.SetToken("another")
			l.reach(l.srv, "")
			l.until("the new token is used", func() bool { return l.logged("the credentials have changed, using the new ones") == 1 })
			l.srv.EndWatches()
			l.on(l.srv, "c")
			l.written("c")
			l.onlyOurs()
			if err := l.stop(); err != nil {
				t.Error(err)
			}
			for _, r := range l.srv.Requests() {
				if r.Status == http.StatusUnauthorized {
					t.Errorf("refused: %s", r.Path)
				}
			}
		})
	}
}
