// Package access finds the API server, reports what it serves and what this identity may do there, and derives from a
// config the minimal RBAC rules that the daemon needs.
package access

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/config"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/kube/client"
)

// Find finds the API server as kubectl does.
func Find(k config.Kubernetes) (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: k.Context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules(k), overrides)
	c, err := loader.ClientConfig()
	err = hideIn(loader, err)
	if clientcmd.IsEmptyConfig(errors.Unwrap(err)) {
		return nil, nowhere(k) // client-go would advise a variable that this program does not read
	}
	if err != nil {
		return nil, err
	}
	if err := client.CheckAuthProvider(c.AuthProvider); err != nil {
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

// Redacted is the address of a server or a proxy for people: it may have a password in it, also where it is faulty.
func Redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		address = u.Redacted()
	}
	return Hide(address)
}

// userinfo is what precedes the host in an address; one in quotes may have blanks.
var userinfo = regexp.MustCompile(`("[^"\s]*://)[^"]*@|(://)[^"\s]*@`)

// Hide returns a text, such as that of an error, without the names and passwords of addresses in it.
func Hide(text string) string { return userinfo.ReplaceAllString(text, "${1}${2}xxxxx@") }

// hideIn returns an error that does not quote the addresses of a kubeconfig as they are.
func hideIn(loader clientcmd.ClientConfig, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if raw, rawErr := loader.RawConfig(); rawErr == nil {
		for _, cluster := range raw.Clusters {
			for _, address := range []string{cluster.Server, cluster.ProxyURL} {
				if i := strings.LastIndexByte(address, '@'); i >= 0 {
					text = strings.ReplaceAll(text, address[:i], "xxxxx")
				}
			}
		}
	}
	return &hiddenError{Hide(text), err}
}

// hiddenError is an error with another text.
type hiddenError struct {
	text string
	error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.error }

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
		return "; it is asked through the proxy " + Redacted(proxy.String()) +
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
