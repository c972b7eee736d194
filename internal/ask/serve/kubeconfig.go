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

const name = "past" // of a kubeconfig's context, and of what it names

// kubeconfig is what is read of one.
type kubeconfig struct {
	Context  string `json:"current-context"`
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Token string `json:"token"`
		} `json:"user"`
	} `json:"users"`
}

// parseKubeconfig reports whether a file is one that WriteKubeconfig has written.
func parseKubeconfig(text []byte) (is kubeconfig, ok bool) {
	err := yaml.Unmarshal(text, &is)
	return is, err == nil && is.Context == name && len(is.Clusters) == 1 && len(is.Users) == 1
}

// ReadKubeconfig returns the server that a kubeconfig of WriteKubeconfig's names, and its token; empty for none.
func ReadKubeconfig(path string) (url, token string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("--kubeconfig: %w", err)
	}
	is, ok := parseKubeconfig(text)
	if !ok {
		return "", "", fmt.Errorf("--kubeconfig %s: the file was not written by serve", path)
	}
	return is.Clusters[0].Cluster.Server, is.Users[0].User.Token, nil
}

// WriteKubeconfig writes a kubeconfig for a server at a URL, that its owner alone can read. It replaces what is there
// at once, and no file that is not a kubeconfig for the past.
func WriteKubeconfig(path, url, token string) error {
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
		if _, ok := parseKubeconfig(old); !ok {
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
