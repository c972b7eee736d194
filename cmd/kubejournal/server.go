package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/config"
	resources "kubejournal/internal/discovery"
)

// questionsAtOnce bounds how many questions about rights the server is asked at a time.
const questionsAtOnce = 10

// isServerOption tells the options by which the API server is found.
func isServerOption(o config.Option) bool { return strings.HasPrefix(o.Key, "kubernetes.") }

// addServerFlags adds the flags by which the API server is found.
func addServerFlags(cmd *cobra.Command) {
	for _, o := range config.Options {
		if isServerOption(o) {
			cmd.Flags().String(o.Flag, "", flagUsage[o.Flag])
		}
	}
}

// serverOptions is what those flags say, else their variables; there is no config.
func serverOptions(cmd *cobra.Command, env config.Env) config.Kubernetes {
	given := givenFlags(cmd)
	var k config.Kubernetes
	for key, to := range map[string]*string{"kubernetes.kubeconfig": &k.Kubeconfig, "kubernetes.context": &k.Context} {
		o := config.Options[slices.IndexFunc(config.Options, func(o config.Option) bool { return o.Key == key })]
		*to, _ = env(o.Env)
		if said, ok := given[o.Flag]; ok {
			*to = said
		}
	}
	return k
}

// serverConfig finds the API server as kubectl does.
func serverConfig(k config.Kubernetes) (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: k.Context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(kubeconfigRules(k), overrides).ClientConfig()
}

// kubeconfigRules says where kubectl would look for a kubeconfig.
func kubeconfigRules(k config.Kubernetes) *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.Kubeconfig
	return rules
}

// withoutPassword is a server's address for people: a kubeconfig may have a password in it.
func withoutPassword(host string) string {
	u, err := url.Parse(host)
	if err != nil {
		return "that the kubeconfig names"
	}
	return u.Redacted()
}

// noServer says that the API server could not be found, and what to do about it.
func noServer(err error) error {
	return fmt.Errorf("find the API server: %w; set kubernetes.kubeconfig, --kubeconfig or KUBECONFIG", err)
}

// server is an API server that a command asks a few questions.
type server struct {
	*resources.Resolver
	host   string
	client rest.Interface
}

// askServer finds the API server and asks what it serves. What it cannot tell is said on stderr.
func askServer(ctx context.Context, k config.Kubernetes, stderr io.Writer) (*server, error) {
	c, err := serverConfig(k)
	if err != nil {
		return nil, noServer(err)
	}
	c.WarningHandler = rest.NoWarnings{}
	c.Timeout = reachTimeout
	c.QPS = -1 // questionsAtOnce is the limit
	client, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, noServer(err)
	}
	s := &server{Resolver: resources.New(client), host: withoutPassword(c.Host), client: client.RESTClient()}
	err = s.Refresh(ctx)
	partial := new(resources.PartialError)
	switch {
	case errors.As(err, &partial):
		for _, gv := range slices.SortedFunc(maps.Keys(partial.Failed), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
			fmt.Fprintf(stderr, "kubejournal: warning: the server cannot tell about %s now: %s\n", gv, oneLine(partial.Failed[gv].Error()))
		}
	case err != nil:
		return nil, fmt.Errorf("ask the API server %s: %w", withoutPassword(c.Host), err)
	}
	return s, nil
}

// refusals returns, for each group of rights, which of them this identity does not have, in words; "" where it has all.
func (s *server) refusals(ctx context.Context, asked [][]resources.Right) ([]string, error) {
	all := make([]string, len(asked))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(questionsAtOnce)
	for i, rights := range asked {
		group.Go(func() error {
			var denied []string
			var why string
			for _, right := range rights {
				allowed, reason, err := resources.Allowed(ctx, s.client, right)
				if err != nil {
					return err
				}
				if !allowed {
					denied, why = append(denied, right.Verb), reason
				}
			}
			if len(denied) > 0 {
				all[i] = "may not " + strings.Join(denied, " and ")
				if why != "" {
					all[i] += " (" + oneLine(why) + ")"
				}
			}
			return nil
		})
	}
	return all, group.Wait()
}

// oneLine keeps what a server says on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
