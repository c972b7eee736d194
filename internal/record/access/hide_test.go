package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubejournal/internal/config"
)

// An address that is faulty does not show its password.
func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://a:hunter2@host:1/api": refused`:       `Get "https://xxxxx@host:1/api": refused`,
		`read address "https://a:hun ter2@exa mple": no`:    `read address "https://xxxxx@exa mple": no`,
		`through http://http://a:hunter2@proxy:1 of`:        `through http://xxxxx@proxy:1 of`,
		`https://host/: User "dev-7@example.com" cannot`:    `https://host/: User "dev-7@example.com" cannot`,
		`Get "https://host/": User "dev@example.com" can't`: `Get "https://host/": User "dev@example.com" can't`,
	} {
		if got := Hide(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, address := range []string{"https://a:hunter2@exa mple:1", "https://a:hun%zzter2@host", "a:hunter2@host:port"} {
		if got := Redacted(address); strings.Contains(got, "ter2") && strings.Contains(address, "//") {
			t.Error(got)
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		content := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\", proxy-url: \"" + address + "\"}}]\nusers: [{name: u, user: {}}]\n"
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Find(config.Kubernetes{Kubeconfig: path}); err == nil || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
