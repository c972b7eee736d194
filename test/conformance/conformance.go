// Package conformance says what kubejournal relies on in a Kubernetes API
// server, as tests. They run on the real control plane and on internal/kubefake;
// where the two differ, the fake is wrong.
//
// The tests speak HTTP through the transport of the target's rest.Config and no
// client library, so that bytes, status and headers are what is checked.
package conformance

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
)

// Target is a server under test, and what only its owner can do to it. All
// fields are required.
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
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Discovery", discoveryTests},
		{"Object", objectTests},
		{"List", listTests},
		{"Watch", watchTests},
		{"InitialEvents", initialEventsTests},
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

type test struct {
	name string
	run  func(*testing.T, *client, Target)
}
