package fake_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/conformance"
)

func TestConformance(t *testing.T) {
	for name, o := range map[string]fake.Options{
		"loopback":                  {},
		"memory":                    {InMemory: true},
		"without streamed list":     {InMemory: true, NoWatchList: true},
		"habits that break nothing": {InMemory: true},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "memory" {
				t.Skip("not in make quick")
			}
			t.Parallel()
			srv := start(t, o)
			if name == "habits that break nothing" {
				for _, resource := range []string{"configmaps", "secrets", "events", "pods", "namespaces"} {
					srv.SetHabit(schema.GroupVersionResource{Version: "v1", Resource: resource}, &fake.Habit{})
				}
			}
			to := target(srv)
			to.NoWatchList = o.NoWatchList
			conformance.Run(t, to)
		})
	}
}

func target(srv *fake.Server) conformance.Target {
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
		SetShards: func(_ context.Context, on bool) error {
			srv.SetShards(on)
			return nil
		},
		AddCustom: func(context.Context) error {
			srv.AddResource(fake.Resource{
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
