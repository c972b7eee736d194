package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubejournal/test/workload"
)

const writeRate = 120 // per second, of all writers of a churn

// object is a Kubernetes object as JSON would have it.
type object map[string]any

func (o object) unstructured() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: o}
}

// What the scenarios write.
type (
	kind  = workload.Kind
	entry = workload.Entry
	live  = workload.Object
)

var (
	configMaps, secrets, deployments, widgets = workload.ConfigMaps, workload.Secrets, workload.Deployments, workload.Widgets

	everyKind = []kind{configMaps, secrets, deployments, widgets}
)

// every is an entry for each kind, in all namespaces or in those given.
func every(namespaces ...string) []entry {
	var entries []entry
	for _, k := range everyKind {
		entries = append(entries, entry{Kind: k, Namespaces: namespaces})
	}
	return entries
}

func (s *scenario) create(ctx context.Context, k kind, namespace, name, app string, n int) (live, error) {
	o := live{Kind: k, Namespace: namespace, Name: name, App: app}
	err := s.Create(ctx, &o, n)
	return o, err
}

// made makes an object whose write must be acknowledged.
func (s *scenario) made(k kind, namespace, name string, n int) live {
	s.t.Helper()
	o, err := s.create(s.t.Context(), k, namespace, name, "web", n)
	s.must(err)
	return o
}

func (s *scenario) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// churn is writers at work.
type churn struct {
	*workload.Writers
	t      *testing.T
	ledger *workload.Ledger
}

// churn starts writers on all kinds in the namespaces, until they are stopped or the test ends.
func (s *scenario) churn(t *testing.T, namespaces ...string) *churn {
	t.Helper()
	seed := rand.Uint32()
	t.Logf("writers of seed %#x", seed)
	w := s.Churn(t.Context(), workload.Churn{
		Kinds: everyKind, Namespaces: namespaces, Name: fmt.Sprintf("%x", seed), Rate: writeRate, Seed: uint64(seed),
	})
	t.Cleanup(w.Stop)
	return &churn{w, t, s.Ledger}
}

// more waits until that many more writes of the streams' objects were acknowledged.
func (c *churn) more(n int) {
	c.t.Helper()
	began := len(c.ledger.Writes())
	eventually(c.t, later, "writes", func() error {
		if now := len(c.ledger.Writes()); now < began+n {
			return fmt.Errorf("%d of %d acknowledged", now-began, n)
		}
		return nil
	})
}
