// Package access finds the API server, and reports what it serves and what this identity may do there.
package access

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/config"
	"kubejournal/internal/disk"
)

// Find finds the API server as kubectl does.
func Find(k config.Kubernetes) (*rest.Config, error) {
	context := &clientcmd.ConfigOverrides{CurrentContext: k.Context}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules(k), context).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nowhere(k) // client-go would advise a variable that this program does not read
	}
	return c, err
}

// nowhere names the places where Find has looked.
func nowhere(k config.Kubernetes) error {
	var looked []string
	if k.Kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		looked = append(looked, "neither --kubeconfig nor "+clientcmd.RecommendedConfigPathEnvVar+" is set")
	}
	for _, file := range Files(k) {
		what := " has no current context that names a cluster"
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			what = " does not exist"
		}
		looked = append(looked, disk.Absolute(file)+what)
	}
	return errors.New(strings.Join(looked, ", ") + ", and this is no pod with a service account")
}

// Files are the kubeconfigs that Find may read, whether they exist or not.
func Files(k config.Kubernetes) []string { return rules(k).GetLoadingPrecedence() }

func rules(k config.Kubernetes) *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = disk.Absolute(k.Kubeconfig)
	return rules
}

// NotFound adds to an error of Find what can be done about it.
func NotFound(err error) error {
	return fmt.Errorf("find the API server: %w; set kubernetes.kubeconfig, --kubeconfig or KUBECONFIG", err)
}

// Redacted is a server's address for people: a kubeconfig may have a password in it.
func Redacted(host string) string {
	u, err := url.Parse(host)
	if err != nil {
		return "that the kubeconfig names"
	}
	return u.Redacted()
}
