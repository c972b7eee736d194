package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"kubejournal/test/cluster"
	"kubejournal/test/conformance"
)

// TestRealControlPlane keeps the suite honest: what it demands of the fake must
// be true of the real server.
func TestRealControlPlane(t *testing.T) {
	ctx := t.Context()
	c, err := cluster.Start(ctx, cluster.Options{TimeLimit: 8 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if got, err := c.Version(ctx); err != nil {
		t.Fatal(err)
	} else if want, err := c.Variant().Release(ctx); err != nil || got != want {
		t.Fatalf("the server is %s, want %s (%v)", got, want, err)
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	conformance.Run(t, conformance.Target{
		Config:           c.RESTConfig(),
		RestartAPIServer: c.RestartAPIServer,
		Compact:          c.Compact,
		SetWatchList: func(ctx context.Context, on bool) error {
			return c.SetFeatureGates(ctx, map[string]bool{"WatchList": on})
		},
		SetShards: func(ctx context.Context, on bool) error {
			return c.SetFeatureGates(ctx, map[string]bool{"ShardedListAndWatch": on})
		},
		NoWatchList: c.Variant().NoWatchList,
		AddCustom: func(ctx context.Context) error {
			return send(ctx, c.RESTConfig(), http.MethodPost, definitions, definition())
		},
		RemoveCustom: func(ctx context.Context) error {
			return send(ctx, c.RESTConfig(), http.MethodDelete, definitions+"/"+conformance.CustomPlural+"."+conformance.CustomGroup, nil)
		},
	})
}

func definition() map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": conformance.CustomPlural + "." + conformance.CustomGroup},
		"spec": map[string]any{
			"group": conformance.CustomGroup, "scope": "Namespaced",
			"names": map[string]any{
				"plural": conformance.CustomPlural, "kind": conformance.CustomKind,
				"singular": strings.ToLower(conformance.CustomKind),
			},
			"versions": []any{map[string]any{
				"name": conformance.CustomVersion, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}
}

func send(ctx context.Context, config *rest.Config, method, path string, object map[string]any) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, config.Host+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: status %s", method, path, resp.Status)
	}
	return nil
}
