// Package access finds the API server, and reports what it serves and what this identity may do there.
package access

import (
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/config"
)

// Find finds the API server as kubectl does.
func Find(k config.Kubernetes) (*rest.Config, error) {
	context := &clientcmd.ConfigOverrides{CurrentContext: k.Context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules(k), context).ClientConfig()
}

// Files are the kubeconfigs that Find may read, whether they exist or not.
func Files(k config.Kubernetes) []string { return rules(k).GetLoadingPrecedence() }

func rules(k config.Kubernetes) *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.Kubeconfig
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
