// Package access finds the API server, and reports what it serves and what this identity may do there.
package access

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/config"
	"kubejournal/internal/disk"
	"kubejournal/internal/kubeclient"
)

// Find finds the API server as kubectl does.
func Find(k config.Kubernetes) (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: k.Context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules(k), overrides)
	c, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nowhere(k) // client-go would advise a variable that this program does not read
	}
	if err != nil {
		return nil, err
	}
	if err := kubeclient.CheckAuthProvider(c.AuthProvider); err != nil {
		return nil, &userError{whose(loader, k.Context), err}
	}
	return c, nil
}

// userError is a fault of a user of a kubeconfig that was found.
type userError struct {
	user string // and its kubeconfig
	err  error
}

func (e *userError) Error() string { return e.user + ": " + e.err.Error() }

// whose names the kubeconfig and the user of a context.
func whose(loader clientcmd.ClientConfig, context string) string {
	raw, err := loader.RawConfig()
	if err != nil {
		return "the kubeconfig"
	}
	used := raw.Contexts[cmp.Or(context, raw.CurrentContext)]
	if used == nil || raw.AuthInfos[used.AuthInfo] == nil {
		return "the kubeconfig"
	}
	return fmt.Sprintf("%s: user %q", raw.AuthInfos[used.AuthInfo].LocationOfOrigin, used.AuthInfo)
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
	if errors.As(err, new(*userError)) {
		return err // it was found, and the error names its own remedy
	}
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

// Remedy is what a user can do about a failed request to a server, as the end of the error's text; "" where the error
// says it all. proxy is that of the environment, if any.
func Remedy(err error, host string, proxy *url.URL) string {
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)), errors.As(err, new(x509.SystemRootsError)):
		return "; set certificate-authority in the kubeconfig, or SSL_CERT_FILE to a file of public authorities:" +
			" the image has none"
	case apierrors.IsBadRequest(err) && !strings.HasPrefix(strings.ToLower(host), "https:"):
		return "; the kubeconfig has no https:// before its address"
	case proxy != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return "; it is asked through the proxy " + proxy.Redacted() +
			" of the environment: if that cannot reach it, add " + hostname(host) + " to NO_PROXY"
	}
	return ""
}

// InCluster reports whether a server is that of this pod's own cluster.
func InCluster(host string) bool {
	is := os.Getenv("KUBERNETES_SERVICE_HOST")
	return is != "" && hostname(host) == is
}

func hostname(host string) string {
	if u, err := url.Parse(host); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return host
}
