package client

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"

	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // the one auth-provider that client-go still has
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// CheckAuthProvider returns why client-go cannot use the auth-provider of a kubeconfig's user, and what to do about it.
func CheckAuthProvider(p *clientcmdapi.AuthProviderConfig) error {
	switch {
	case p == nil:
		return nil
	case p.Name == "gcp":
		return errors.New("auth-provider.name: gcp was removed from Kubernetes clients in 1.26;" +
			" install gke-gcloud-auth-plugin and run 'gcloud container clusters get-credentials CLUSTER'")
	case p.Name == "azure":
		return errors.New("auth-provider.name: azure was removed from Kubernetes clients in 1.26; install kubelogin" +
			" and run 'kubelogin convert-kubeconfig'")
	case p.Name != "oidc":
		return fmt.Errorf("auth-provider.name: Kubernetes clients have no %q, only oidc;"+
			" replace it by a credential plugin (exec)", p.Name)
	}
	for _, key := range []string{"idp-issuer-url", "client-id"} {
		if p.Config[key] == "" {
			return fmt.Errorf("auth-provider.config.%s: is missing; log in again with the tool that wrote the "+
				"kubeconfig", key)
		}
	}
	return nil
}

// Tokens keeps the tokens that an auth-provider gets: in the kubeconfig, as kubectl does, since an issuer may take each
// refresh token once only. Where the kubeconfig cannot be written, they last as long as the process.
type Tokens struct {
	kubeconfig rest.AuthProviderConfigPersister
	warn       func(error)
	latest     atomic.Pointer[map[string]string] // what the provider has now; nil: what it was given
}

// KeepTokens has config's auth-provider keep its tokens; nil where it has none. warn is called when the kubeconfig
// cannot be written.
func KeepTokens(config *rest.Config, warn func(error)) *Tokens {
	if config.AuthProvider == nil {
		return nil
	}
	t := &Tokens{kubeconfig: config.AuthConfigPersister, warn: warn}
	config.AuthConfigPersister = t
	return t
}

// Persist implements rest.AuthProviderConfigPersister. An error would make the provider throw the tokens away.
func (t *Tokens) Persist(config map[string]string) error {
	t.latest.Store(&config)
	if t.kubeconfig == nil {
		return nil
	}
	if err := t.kubeconfig.Persist(config); err != nil {
		t.warn(fmt.Errorf("the new tokens of the auth-provider cannot be written to the kubeconfig;"+
			" after a restart a new login may be needed: %w", err))
	}
	return nil
}

// has reports whether config is what the provider has now.
func (t *Tokens) has(config map[string]string) bool {
	latest := t.latest.Load()
	return latest != nil && maps.Equal(*latest, config)
}

// authenticate puts config's auth-provider, if any, around its transport. client-go would take the provider that it
// first made for this server, issuer and client, and so never see another login: here each login has its own.
func authenticate(config *rest.Config) error {
	if config.AuthProvider == nil {
		return nil
	}
	login, err := json.Marshal(config.AuthProvider.Config)
	if err != nil {
		return err
	}
	server := fmt.Sprintf("%s#%x", config.Host, sha256.Sum256(login))
	provider, err := rest.GetAuthProvider(server, config.AuthProvider, config.AuthConfigPersister)
	if err != nil {
		return err
	}
	config.AuthProvider, config.AuthConfigPersister = nil, nil
	config.Wrap(func(t http.RoundTripper) http.RoundTripper {
		return &provided{RoundTripper: provider.WrapTransport(sender{t}), wrapped: t}
	})
	return nil
}

// provided says of an error that it is the auth-provider's, unless it is one of the request itself.
type provided struct {
	http.RoundTripper
	wrapped http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p *provided) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.RoundTripper.RoundTrip(r)
	if sent, is := err.(*sendError); is { //nolint:errorlint // as sender has returned it
		return response, sent.err
	}
	if err != nil {
		err = fmt.Errorf("auth-provider oidc: %w; log in again if this lasts", err)
	}
	return response, err
}

// WrappedRoundTripper is for client-go.
func (p *provided) WrappedRoundTripper() http.RoundTripper { return p.wrapped }

// sender marks errors of a transport.
type sender struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := s.RoundTripper.RoundTrip(r)
	if err != nil {
		err = &sendError{err}
	}
	return response, err
}

// WrappedRoundTripper is for client-go.
func (s sender) WrappedRoundTripper() http.RoundTripper { return s.RoundTripper }

type sendError struct{ err error }

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }
