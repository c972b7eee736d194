package archive

import "testing"

func TestSuggest(t *testing.T) {
	there := []string{"backups.example.com", "certificates.cert-manager.io", "pods"}
	for name, want := range map[string]string{
		"podz": "pods", "deploymnets": "deployments", "backup": "backups.example.com", "certifcates": "certificates.cert-manager.io",
		"depoly": "deploy", "cmm": "cm", "zzzzzz": "", "x": "",
	} {
		if got := suggestResource(name, there); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	if got := suggestName("shpo", []string{"db", "shop"}); got != "shop" {
		t.Errorf("shpo: %q", got)
	}
}
