package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/rest"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/client"
)

// issuer is an OpenID Connect provider that takes each refresh token once, and an API server that takes its last id
// token.
type issuer struct {
	*httptest.Server
	t  *testing.T
	ca string // a file

	mu        sync.Mutex
	refresh   string // token that is taken next; guarded by mu
	id        string // token that the API server takes; guarded by mu
	refreshes int    // guarded by mu
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Close)
	i.ca = filepath.Join(t.TempDir(), "ca.crt")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	if err := os.WriteFile(i.ca, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"token_endpoint":%q}`, i.URL+"/token")
	case "/token":
		if r.FormValue("refresh_token") != i.refresh {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		i.refreshes++
		i.refresh = fmt.Sprintf("%s+", i.refresh)
		i.id = jwt(i.t, time.Hour, i.refresh)
		fmt.Fprintf(w, `{"access_token":"a","token_type":"bearer","refresh_token":%q,"id_token":%q}`, i.refresh, i.id)
	default:
		if r.Header.Get("Authorization") != "Bearer "+i.id {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

// login gives out a refresh token, and refuses those of earlier logins.
func (i *issuer) login(refresh string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refresh, i.id = refresh, "none yet"
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.refreshes
}

// jwt is an id token without a signature.
func jwt(t *testing.T, valid time.Duration, subject string) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"exp": time.Now().Add(valid).Unix(), "sub": subject})
	if err != nil {
		t.Fatal(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

// write writes a kubeconfig whose user has an auth-provider with these keys.
func write(t *testing.T, path, server, ca, name string, keys ...string) {
	t.Helper()
	content := fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: ada}}]
clusters: [{name: k, cluster: {server: %q, certificate-authority: %q}}]
users:
- name: ada
  user: {auth-provider: {name: %s, config: {%s}}}
`, server, ca, name, strings.Join(keys, ", "))
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// oidc writes a kubeconfig of a login whose id token has expired.
func (i *issuer) oidc(path, refresh string) {
	i.t.Helper()
	write(i.t, path, i.URL, i.ca, "oidc", "idp-issuer-url: "+i.URL, "idp-certificate-authority: "+i.ca,
		"client-id: kubernetes",
		"refresh-token: "+refresh, "id-token: "+jwt(i.t, -time.Hour, ""))
}

// daemon is a daemon's way to the server that a kubeconfig names.
func daemon(
	t *testing.T, kubeconfig string,
) (get func() (int, error), a *client.Access, logged *observer.ObservedLogs) {
	t.Helper()
	core, logged := observer.New(zapcore.InfoLevel)
	load := func() (*rest.Config, error) { return Find(config.Kubernetes{Kubeconfig: kubeconfig}) }
	accept := func(context.Context, *client.Client, bool) error { return nil }
	a, err := client.NewAccess(load, accept, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.CloseIdleConnections)
	return func() (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.Host()+"/api", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := a.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}, a, logged
}

// An auth-provider oidc works as with kubectl: tokens are refreshed and written to the kubeconfig, which changes
// nothing else. A new login is used like any other change of the kubeconfig.
func TestOIDC(t *testing.T) {
	i, path := newIssuer(t), filepath.Join(t.TempDir(), "config")
	i.login("first")
	i.oidc(path, "first")
	get, a, logged := daemon(t, path)
	for range 3 {
		if code, err := get(); code != http.StatusOK || err != nil {
			t.Fatalf("%d, %v", code, err)
		}
		a.Look(t.Context())
	}
	if n := i.count(); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
	if content, err := os.ReadFile(path); err != nil || !strings.Contains(string(content), "refresh-token: first+\n") {
		t.Errorf("the kubeconfig does not have the new token: %v\n%s", err, content)
	}
	if all := logged.All(); len(all) != 0 {
		t.Errorf("logged %v, though nobody has changed the credentials", all)
	}
	i.login("second")
	i.oidc(path, "second")
	a.Look(t.Context())
	if code, err := get(); code != http.StatusOK || err != nil {
		t.Errorf("after a new login: %d, %v", code, err)
	}
	// Another program has refreshed them.
	i.login("second++")
	i.oidc(path, "second++")
	a.Look(t.Context())
	if code, err := get(); code != http.StatusOK || err != nil {
		t.Errorf("after another program's refresh: %d, %v", code, err)
	}
}

// A kubeconfig that cannot be written costs a warning, and not the tokens.
func TestOIDCWithoutWriting(t *testing.T) {
	i, path := newIssuer(t), filepath.Join(t.TempDir(), "config")
	i.login("once")
	i.oidc(path, "once")
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil { // clientcmd's own lock
		t.Fatal(err)
	}
	get, a, logged := daemon(t, path)
	for range 3 {
		if code, err := get(); code != http.StatusOK || err != nil {
			t.Fatalf("%d, %v", code, err)
		}
		a.Look(t.Context())
	}
	if n := i.count(); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
	if all := logged.FilterMessageSnippet("cannot be written to the kubeconfig").All(); len(all) != 1 ||
		logged.Len() != 1 {
		t.Errorf("logged %v", logged.All())
	}
}

// A login that has ended is named as such, and the next one is taken.
func TestOIDCLoggedOut(t *testing.T) {
	i, path := newIssuer(t), filepath.Join(t.TempDir(), "config")
	i.login("new")
	i.oidc(path, "old")
	get, a, _ := daemon(t, path)
	if _, err := get(); err == nil || !strings.Contains(err.Error(), "auth-provider oidc: ") ||
		!strings.Contains(err.Error(), "log in again") {
		t.Errorf("%v", err)
	}
	i.oidc(path, "new")
	a.Look(t.Context())
	if code, err := get(); code != http.StatusOK || err != nil {
		t.Errorf("after a login: %d, %v", code, err)
	}
	i.Close()
	if _, err := get(); err == nil || strings.Contains(err.Error(), "auth-provider") {
		t.Errorf("the server is gone, and the error blames the login: %v", err)
	}
}

// What kubectl refuses is refused with what there is instead.
func TestAuthProvidersThatAreNoMore(t *testing.T) {
	for _, c := range []struct{ name, keys, want string }{
		{
			"gcp", "",
			`user "ada": auth-provider.name: gcp was removed from Kubernetes clients in 1.26; install gke-gcloud-auth-plugin`,
		},
		{"azure", "", `user "ada": auth-provider.name: azure was removed from Kubernetes clients in 1.26; install kubelogin`},
		{
			"openstack", "",
			`user "ada": auth-provider.name: Kubernetes clients have no "openstack", only oidc;` +
				" replace it by a credential plugin (exec)",
		},
		{"oidc", "client-id: a", `user "ada": auth-provider.config.idp-issuer-url: is missing; log in again`},
		{"oidc", "idp-issuer-url: a", `user "ada": auth-provider.config.client-id: is missing; log in again`},
	} {
		path := filepath.Join(t.TempDir(), "config")
		write(t, path, "https://127.0.0.1:1", "", c.name, c.keys)
		_, err := Find(config.Kubernetes{Kubeconfig: path})
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		if got := NotFound(err).Error(); !strings.HasPrefix(got, path+": "+c.want) || strings.Contains(got, "\n") ||
			strings.Contains(got, "set kubernetes.kubeconfig") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// A server whose certificate is from a public authority, or from none that is known, is not trusted in the image: the
// error says where authorities are taken from.
func TestUnknownAuthority(t *testing.T) {
	i, path := newIssuer(t), filepath.Join(t.TempDir(), "config")
	write(t, path, i.URL, "", "oidc", "idp-issuer-url: "+i.URL, "client-id: a", "id-token: "+jwt(t, time.Hour, ""))
	_, err := Ask(t.Context(), config.Kubernetes{Kubeconfig: path}, io.Discard)
	if err == nil ||
		!strings.Contains(err.Error(), "; set certificate-authority in the kubeconfig, or SSL_CERT_FILE to a file") {
		t.Error(err)
	}
}

// A server that wants TLS refuses plain requests, which is what an address without https:// leads to.
func TestNotHTTPS(t *testing.T) {
	i, path := newIssuer(t), filepath.Join(t.TempDir(), "config")
	plain, _ := strings.CutPrefix(i.URL, "https://")
	for _, address := range []string{"http://" + plain, plain} {
		write(t, path, address, "", "oidc", "idp-issuer-url: "+i.URL, "client-id: a", "id-token: "+jwt(t, time.Hour, ""))
		_, err := Ask(t.Context(), config.Kubernetes{Kubeconfig: path}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "; the kubeconfig has no https:// before its address") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
