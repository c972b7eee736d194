package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/internal/config"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/discovery"
)

const questionsAtOnce = 10 // about rights, or for lists

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
	c.WarningHandler, c.Timeout = rest.NoWarnings{}, 15*time.Second
	c.QPS = -1 // questionsAtOnce is the limit
	client.KeepTokens(c, func(err error) { terminal.Note(stderr, "warning: "+err.Error()) })
	api, err := clientdiscovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, NotFound(err)
	}
	s := &Server{Resolver: discovery.New(api), Host: Redacted(c.Host), client: api.RESTClient()}
	s.Warn = func(text string) { terminal.Note(stderr, "warning: "+text) }
	err = s.Refresh(ctx)
	if partial, ok := errors.AsType[*discovery.PartialError](err); ok {
		for _, gv := range partial.Versions() {
			terminal.Note(
				stderr,
				fmt.Sprintf(
					"warning: the server cannot tell about %s now: %s", gv, oneLine(partial.Failed[gv].Error()),
				),
			)
		}
	} else if err != nil {
		advice := Remedy(err, c.Host, client.EnvironmentProxy(c))
		return nil, fmt.Errorf("ask the API server %s: %w%s", Redacted(c.Host), err, advice)
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
			denied, why := []string{}, ""
			for _, right := range rights {
				allowed, reason, err := discovery.Allowed(ctx, s.client, right)
				if err != nil {
					return err
				}
				if !allowed {
					denied, why = append(denied, right.Verb), reason
				}
			}
			if len(denied) > 0 { // the server need not give a reason
				all[i] = strings.TrimSuffix(
					fmt.Sprintf("may not %s (%s)", strings.Join(denied, " and "), oneLine(why)), " ()",
				)
			}
			return nil
		})
	}
	return all, group.Wait()
}

// oneLine keeps what a server says on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Watchable returns all that can be watched in a namespace, or everywhere with "". Each offer says whether this
// identity may not watch it, and whether its list fails or cannot be followed.
func (s *Server) Watchable(ctx context.Context, namespace string) ([]discovery.Offer, error) {
	found := s.Offers()
	var asked [][]discovery.Right
	targets := make([]*client.Target, len(found))
	for i, o := range found {
		stream := discovery.Stream{GVR: o.GVR, Namespace: namespace}
		if !o.Namespaced {
			stream.Namespace = ""
		}
		targets[i] = &client.Target{Resource: o.GVR, Namespace: stream.Namespace}
		asked = append(asked, stream.Rights())
	}
	refusals, err := s.refusals(ctx, asked)
	if err != nil {
		return nil, err
	}
	for i, refusal := range refusals {
		if found[i].Refusal = refusal; refusal != "" {
			targets[i] = nil
		}
	}
	listed, err := s.list(ctx, targets)
	for i := range listed {
		found[i].Unversioned, found[i].Finding = listed[i].unversioned, listed[i].finding()
	}
	return found, err
}
