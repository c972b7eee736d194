// Package conformance says what kubejournal relies on in a Kubernetes API
// server, as tests. They run on the real control plane and on internal/kube/fake;
// where the two differ, the fake is wrong.
//
// They also run on older releases, and on a server that streams no initial
// events. What such a server does otherwise is asserted in place of what it
// does not do: no test is left out without another.
//
// The tests speak HTTP through the transport of the target's rest.Config and no
// client library, so that bytes, status and headers are what is checked.
package conformance

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"k8s.io/client-go/rest"
)

// Target is a server under test, and what only its owner can do to it. All
// functions are required.
type Target struct {
	// Config is an administrator's, with a bearer token or a client certificate.
	Config *rest.Config
	// RestartAPIServer ends all connections; when it returns, the server is ready
	// again.
	RestartAPIServer func(context.Context) error
	// Compact makes etcd forget what was before the current version.
	Compact func(context.Context) error
	// SetWatchList turns streamed initial lists on or off; when it returns, the
	// server is ready again.
	SetWatchList func(ctx context.Context, on bool) error
	// SetShards turns the feature ShardedListAndWatch (KEP-5866) on or off, which a
	// server has from 1.36 on; when it returns, the server is ready again.
	SetShards func(ctx context.Context, on bool) error
	// NoWatchList says that streamed initial lists are off before the first call
	// of SetWatchList.
	NoWatchList bool
	// AddCustom and RemoveCustom make the server serve, and no longer serve,
	// the namespaced resource that Custom describes.
	AddCustom, RemoveCustom func(context.Context) error
}

// The custom resource of Target.AddCustom.
const (
	CustomGroup   = "conformance.kubejournal.example"
	CustomVersion = "v1"
	CustomPlural  = "widgets"
	CustomKind    = "Widget"
)

// Run checks a target. The subtests run one after the other: some of them
// restart the server.
func Run(t *testing.T, target Target) {
	c, err := newClient(target.Config)
	if err != nil {
		t.Fatal(err)
	}
	c.learnVersion(t)
	initialEvents := initialEventsTests
	if target.NoWatchList {
		initialEvents = noInitialEventsTests
	}
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Discovery", discoveryTests},
		{"Object", objectTests},
		{"List", listTests},
		{"Watch", watchTests},
		{"InitialEvents", initialEvents},
		{"Shards", shardTests},
		{"Custom", customTests},
		{"History", historyTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) { test.run(t, c, target) })
			}
		})
	}
}

// learnVersion asks the server for its release, and notes it in the test's
// output as the attribute kubernetes.
func (c *client) learnVersion(t *testing.T) {
	t.Helper()
	v := c.get(t, "/version").want(t, http.StatusOK).object(t)
	minor, err := strconv.Atoi(str(v, "minor"))
	if err != nil {
		t.Fatalf("minor version: %v", err)
	}
	c.minor = minor
	t.Attr("kubernetes", str(v, "gitVersion"))
}

type test struct {
	name string
	run  func(*testing.T, *client, Target)
}
