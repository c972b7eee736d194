package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/internal/config"
	"kubejournal/internal/discovery"
)

const (
	// questionsAtOnce bounds how many questions about rights the server is asked at a time.
	questionsAtOnce = 10
	// askTimeout bounds each request.
	askTimeout = 15 * time.Second
)

// Server is an API server that a command asks a few questions.
type Server struct {
	*discovery.Resolver
	Host   string // its address, for people
	client rest.Interface
}

// Ask finds the API server and asks what it serves. Groups that do not answer are named on stderr.
func Ask(ctx context.Context, k config.Kubernetes, stderr io.Writer) (*Server, error) {
	c, err := Find(k)
	if err != nil {
		return nil, NotFound(err)
	}
	c.WarningHandler = rest.NoWarnings{}
	c.Timeout = askTimeout
	c.QPS = -1 // questionsAtOnce is the limit
	client, err := clientdiscovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, NotFound(err)
	}
	s := &Server{Resolver: discovery.New(client), Host: Redacted(c.Host), client: client.RESTClient()}
	err = s.Refresh(ctx)
	partial := new(discovery.PartialError)
	switch {
	case errors.As(err, &partial):
		for _, gv := range slices.SortedFunc(maps.Keys(partial.Failed), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
			fmt.Fprintf(stderr, "kubejournal: warning: the server cannot tell about %s now: %s\n", gv, oneLine(partial.Failed[gv].Error()))
		}
	case err != nil:
		return nil, fmt.Errorf("ask the API server %s: %w", Redacted(c.Host), err)
	}
	return s, nil
}

// refusals returns, for each group of rights, which of them this identity does not have, in words; "" where it has all.
func (s *Server) refusals(ctx context.Context, asked [][]discovery.Right) ([]string, error) {
	all := make([]string, len(asked))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(questionsAtOnce)
	for i, rights := range asked {
		group.Go(func() error {
			var denied []string
			var why string
			for _, right := range rights {
				allowed, reason, err := discovery.Allowed(ctx, s.client, right)
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

// Offer is a resource that can be watched, and why this identity may not; "" where it may.
type Offer struct {
	discovery.Offer
	Refusal string
}

// Watchable returns all that can be watched; namespace is where, "" everywhere.
func (s *Server) Watchable(ctx context.Context, namespace string) ([]Offer, error) {
	found := s.Offers()
	asked := make([][]discovery.Right, len(found))
	for i, o := range found {
		stream := discovery.Stream{GVR: o.GVR}
		if o.Namespaced {
			stream.Namespace = namespace
		}
		asked[i] = stream.Rights()
	}
	refusals, err := s.refusals(ctx, asked)
	if err != nil {
		return nil, err
	}
	all := make([]Offer, len(found))
	for i, o := range found {
		all[i] = Offer{o, refusals[i]}
	}
	return all, nil
}
