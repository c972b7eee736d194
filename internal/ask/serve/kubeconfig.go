package serve

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// NewToken returns a token that nobody can guess.
func NewToken() string { return rand.Text() + rand.Text() }

// WriteKubeconfig writes a kubeconfig for a server at a URL, that its owner alone can read. It replaces what is there
// at once, and no file that is not a kubeconfig for the past.
func WriteKubeconfig(path, url, token string) error {
	const name = "past"
	type named map[string]any
	user := named{}
	if token != "" {
		user["token"] = token
	}
	text, err := json.Marshal(named{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []named{{"name": name, "cluster": named{"server": url}}},
		"users":    []named{{"name": name, "user": user}},
		"contexts": []named{{"name": name, "context": named{"cluster": name, "user": name}}},
	})
	if err != nil {
		return err
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil {
		var is struct {
			Context string `json:"current-context"`
		}
		if yaml.Unmarshal(old, &is) != nil || is.Context != name {
			return fmt.Errorf("write kubeconfig %s: the file is there and was not written by serve; name another", path)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-*") // for its owner alone
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // which has the token
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
