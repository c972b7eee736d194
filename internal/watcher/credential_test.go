package watcher_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

// kubeconfig writes a kubeconfig of what cluster and user say, as JSON, which
// YAML is too.
func kubeconfig(t *testing.T, path, cluster, user string) {
	t.Helper()
	replace(t, path, []byte(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
  "clusters": [{"name": "c", "cluster": {%s}}], "users": [{"name": "u", "user": {%s}}]}`, cluster, user)))
}

// replace writes a file anew, as tools do: under another name first.
func replace(t *testing.T, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".new", content, 0o600))
	must(t, os.Rename(path+".new", path))
}

// loader reads a kubeconfig, as the daemon does.
func loader(path string) func() (*rest.Config, error) {
	return func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", path) }
}

func encoded(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// access writes the files by which a daemon reaches a server.
type access func(t *testing.T, srv *fake.Server, dir string)

func withFiles(write access) func(*testing.T) func(*fake.Server, string) func() (*rest.Config, error) {
	return func(t *testing.T) func(*fake.Server, string) func() (*rest.Config, error) {
		return func(srv *fake.Server, dir string) func() (*rest.Config, error) {
			write(t, srv, dir)
			return loader(filepath.Join(dir, "kubeconfig"))
		}
	}
}

// The ways to write down a server and a token.
var accesses = map[string]access{
	"in the kubeconfig": func(t *testing.T, srv *fake.Server, dir string) {
		c := srv.Config()
		kubeconfig(t, filepath.Join(dir, "kubeconfig"),
			fmt.Sprintf(`"server": %q, "certificate-authority-data": %q`, c.Host, encoded(c.CAData)),
			fmt.Sprintf(`"token": %q`, c.BearerToken))
	},
	"in files": func(t *testing.T, srv *fake.Server, dir string) {
		c := srv.Config()
		token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
		replace(t, token, []byte(c.BearerToken))
		replace(t, ca, c.CAData)
		kubeconfig(t, filepath.Join(dir, "kubeconfig"),
			fmt.Sprintf(`"server": %q, "certificate-authority": %q`, c.Host, ca),
			fmt.Sprintf(`"tokenFile": %q`, token))
	},
}

// inCluster is rest.InClusterConfig with another folder.
func inCluster(t *testing.T) func(*fake.Server, string) func() (*rest.Config, error) {
	return func(srv *fake.Server, dir string) func() (*rest.Config, error) {
		accesses["in files"](t, srv, dir)
		token := filepath.Join(dir, "token")
		return func() (*rest.Config, error) {
			content, err := os.ReadFile(token)
			return &rest.Config{
				Host:            srv.URL(),
				TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
				BearerToken:     string(content), BearerTokenFile: token,
			}, err
		}
	}
}

// rotations are the ways above, for a test that has things replaced.
func rotations() map[string]func(*testing.T) func(*fake.Server, string) func() (*rest.Config, error) {
	all := map[string]func(*testing.T) func(*fake.Server, string) func() (*rest.Config, error){"in a cluster": inCluster}
	for name, a := range accesses {
		all[name] = withFiles(a)
	}
	return all
}

// rewrite brings the files up to date, in all ways alike.
func rewrite(t *testing.T, name string, srv *fake.Server, dir string) {
	t.Helper()
	if name == "in a cluster" {
		name = "in files"
	}
	accesses[name](t, srv, dir)
}

// A token is replaced and the old one revoked, before or after the new one is
// there to be read. The watch continues where it stood, and the server is not
// asked in vain more than a few times.
func TestTokenIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	noLeaks(t)
	for name, load := range rotations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watched(t, streams.Options{}, load(t), func(d *daemon) {
				d.put("a")
				d.told(2)
				n, lines := len(d.srv.Requests()), len(d.lines())
				d.srv.SetToken("another")
				d.endWatches()
				d.put("b")
				if name == "in a cluster" { // revoked before there is a new one
					d.until("a refused request", func() bool { return d.requests(n)[http.StatusUnauthorized] > 0 })
				}
				rewrite(t, name, d.srv, d.dir)
				d.told(lines + 1)
				d.until("it watches", d.watching)
				if got := d.requests(n); got[http.StatusUnauthorized] == 0 || got[http.StatusUnauthorized] > 5 {
					t.Errorf("answers by status: %v", got)
				}
				d.check()
			})
		})
	}
}

// A client certificate is replaced, in the kubeconfig or in files, and the old
// one is not accepted any more.
func TestClientCertificateIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	noLeaks(t)
	for name, user := range map[string]func(dir string, certificate, key []byte) string{
		"in the kubeconfig": func(_ string, certificate, key []byte) string {
			return fmt.Sprintf(`"client-certificate-data": %q, "client-key-data": %q`, encoded(certificate), encoded(key))
		},
		"in files": func(dir string, certificate, key []byte) string {
			c, k := filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
			replace(t, c, certificate)
			replace(t, k, key)
			return fmt.Sprintf(`"client-certificate": %q, "client-key": %q`, c, k)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issue := func(t *testing.T, srv *fake.Server, dir string) {
				certificate, key := srv.IssueClient()
				kubeconfig(t, filepath.Join(dir, "kubeconfig"),
					fmt.Sprintf(`"server": %q, "certificate-authority-data": %q`, srv.URL(), encoded(srv.Config().CAData)),
					user(dir, certificate, key))
			}
			watched(t, streams.Options{}, withFiles(issue)(t), func(d *daemon) {
				d.put("a")
				n := len(d.srv.Requests())
				issue(t, d.srv, d.dir)
				d.endWatches() // the connection stays, with the old certificate
				d.put("b")
				d.told(3)
				if got := d.requests(n); got[http.StatusUnauthorized] == 0 || got[http.StatusUnauthorized] > 5 {
					t.Errorf("answers by status: %v", got)
				}
				d.check()
			})
		})
	}
}

// The server comes back with a certificate of another authority: it is believed
// once the daemon's files say so, and not before.
func TestAuthorityIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	noLeaks(t)
	for name, load := range rotations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watched(t, streams.Options{}, load(t), func(d *daemon) {
				d.put("a")
				d.told(2)
				d.srv.SetAuthority()
				n := len(d.srv.Requests())
				d.put("b")
				d.until("it does not believe the server", func() bool { return strings.Contains(d.log.String(), `"UntrustedServer"`) })
				if got := len(d.srv.Requests()); got != n {
					t.Errorf("%d requests to a server that is not to be believed", got-n)
				}
				if s := d.manager.Streams()[0]; s.State != watcher.Retrying || s.Reason != "UntrustedServer" {
					t.Errorf("status %+v", s)
				}
				rewrite(t, name, d.srv, d.dir)
				d.told(3)
				d.check()
			})
		})
	}
}

// The credentials lead to another cluster, whose versions and objects mean
// nothing here: not one line is written, and the old way is kept for the day on
// which it works again.
func TestCredentialsOfAnotherCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	noLeaks(t)
	write := accesses["in the kubeconfig"]
	watched(t, streams.Options{}, withFiles(write)(t), func(d *daemon) {
		other := fake.New(fake.Options{})
		defer other.Close()
		if _, err := other.Create(configMaps, map[string]any{"metadata": map[string]any{"name": "theirs", "namespace": "default"}}); err != nil {
			t.Fatal(err)
		}
		d.put("a")
		d.told(2)
		d.srv.StopAPIServer()
		write(t, other, d.dir)
		d.until("it is refused", func() bool { return strings.Contains(d.log.String(), "another cluster") })
		d.put("b")
		for _, r := range other.Requests() {
			if r.Path != "/api/v1/namespaces/kube-system" {
				t.Errorf("asked for %s", r.Path)
			}
		}
		write(t, d.srv, d.dir)
		must(t, d.srv.StartAPIServer())
		// A restarted server has no history of the watch: a gap, which is this cluster's.
		d.until("b is told", func() bool {
			lines := d.lines()
			return len(lines) == 5 && brief(lines[2]) == "GAP Expired" && brief(lines[3]) == "ADDED relist b"
		})
		for _, l := range d.lines() {
			if l.Name == "theirs" {
				t.Errorf("told: %s", brief(l))
			}
		}
		if n := strings.Count(d.log.String(), "another cluster"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// The server moves to another address.
func TestAddressIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	noLeaks(t)
	var p *proxy
	at := func(t *testing.T, host string, srv *fake.Server, dir string) {
		c := srv.Config()
		kubeconfig(t, filepath.Join(dir, "kubeconfig"),
			fmt.Sprintf(`"server": %q, "certificate-authority-data": %q`, host, encoded(c.CAData)), fmt.Sprintf(`"token": %q`, c.BearerToken))
	}
	watched(t, streams.Options{}, withFiles(func(t *testing.T, srv *fake.Server, dir string) {
		p = newProxy(t, strings.TrimPrefix(srv.URL(), "https://"))
		at(t, "https://"+p.address(), srv, dir)
	})(t), func(d *daemon) {
		d.put("a")
		d.told(2)
		p.close()
		d.put("b")
		at(t, d.srv.URL(), d.srv, d.dir)
		d.told(3)
		if got, want := d.access.Host(), d.srv.URL(); got != want {
			t.Errorf("the server is at %s, not %s", got, want)
		}
		d.check()
	})
}
