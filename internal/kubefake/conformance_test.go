package kubefake_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kubefake"
	"kubejournal/test/conformance"
)

func TestConformance(t *testing.T) {
	for name, inMemory := range map[string]bool{"loopback": false, "memory": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := start(t, kubefake.Options{InMemory: inMemory})
			conformance.Run(t, target(srv))
		})
	}
}

func target(srv *kubefake.Server) conformance.Target {
	return conformance.Target{
		Config: srv.Config(),
		RestartAPIServer: func(context.Context) error {
			srv.RestartAPIServer()
			return nil
		},
		Compact: func(context.Context) error {
			srv.Compact(srv.Version())
			return nil
		},
		SetWatchList: func(_ context.Context, on bool) error {
			srv.SetWatchList(on)
			return nil
		},
		AddCustom: func(context.Context) error {
			srv.AddResource(kubefake.Resource{
				Group: conformance.CustomGroup, Version: conformance.CustomVersion,
				Resource: conformance.CustomPlural, Kind: conformance.CustomKind, Namespaced: true,
			})
			return nil
		},
		RemoveCustom: func(context.Context) error {
			srv.RemoveResource(schema.GroupResource{Group: conformance.CustomGroup, Resource: conformance.CustomPlural})
			return nil
		},
	}
}
