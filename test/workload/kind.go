// Package workload writes objects to an API server, and keeps a ledger of the acknowledged writes by which package
// invariant judges a journal.
package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubejournal/test/program"
)

// Group is that of the custom resources that tests define.
const Group = "workload.kubejournal.test"

// Resources that tests use beside those that they write.
var (
	Namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
)

// SecretValue begins each value that is put into a Secret: neither it nor its base64 may get out.
const SecretValue = "this-must-not-get-out-"

// Kind is a resource whose objects are written.
type Kind struct {
	Resource schema.GroupVersionResource
	Kind     string
	// Content is the fields of an object beside its metadata, different for each n.
	Content func(namespace string, n int) map[string]any
}

// Kinds that are written. Widgets have to be defined first, and nothing but a write changes an object of any of them.
var (
	ConfigMaps = Kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap",
		func(_ string, n int) map[string]any {
			return map[string]any{"data": map[string]any{"n": fmt.Sprint(n),
				"text": strings.Repeat("<a> & \"b\"\n\u2028é ", n%20)}}
		}}
	Secrets = Kind{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret",
		func(_ string, n int) map[string]any {
			return map[string]any{"stringData": map[string]any{"password": SecretValue + fmt.Sprint(n),
				"n": SecretValue + fmt.Sprint(-n)}}
		}}
	Deployments = Kind{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment",
		func(_ string, n int) map[string]any {
			labels := map[string]any{"run": "it"}
			return map[string]any{"spec": map[string]any{
				"replicas": int64(n), "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "none"}}},
				},
			}}
		}}
	Widgets = Kind{schema.GroupVersionResource{Group: Group, Version: "v1", Resource: "widgets"}, "Widget",
		func(_ string, n int) map[string]any {
			return map[string]any{"spec": map[string]any{"size": int64(n), "empty": map[string]any{},
				"deep": []any{[]any{}, nil, 1.5, true}}}
		}}
	Events = Kind{schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event",
		func(namespace string, n int) map[string]any {
			return map[string]any{
				"involvedObject": map[string]any{"kind": "Pod", "namespace": namespace, "name": "none"},
				"reason":         "Written", "type": "Normal", "message": fmt.Sprint(n), "count": int64(n + 1),
			}
		}}
)

// object is the object of a kind with this name and label app.
func (k Kind) object(o Object, n int) *unstructured.Unstructured {
	content := k.Content(o.Namespace, n)
	content["apiVersion"], content["kind"] = k.Resource.GroupVersion().String(), k.Kind
	content["metadata"] = map[string]any{"namespace": o.Namespace, "name": o.Name,
		"labels": map[string]any{"app": o.App}}
	return &unstructured.Unstructured{Object: content}
}

// patch is the merge patch that makes an object that of n.
func (k Kind) patch(namespace, app string, n int) ([]byte, error) {
	content := k.Content(namespace, n)
	content["metadata"] = map[string]any{"labels": map[string]any{"app": app},
		"annotations": map[string]any{"n": fmt.Sprint(n)}}
	return json.Marshal(content)
}

// Definition defines a custom resource of Group in the versions given, of which the last is stored.
func Definition(plural, kind string, versions ...string) *unstructured.Unstructured {
	var list []any
	for i, v := range versions {
		list = append(list, map[string]any{
			"name": v, "served": true, "storage": i == len(versions)-1,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}},
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + Group},
		"spec": map[string]any{
			"group": Group, "scope": "Namespaced", "versions": list,
			"names": map[string]any{"plural": plural, "kind": kind},
		},
	}}
}

// Defined is the resource that a Definition makes, in its first version.
func Defined(definition *unstructured.Unstructured) schema.GroupVersionResource {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	plural, _, _ := strings.Cut(definition.GetName(), ".")
	return schema.GroupVersionResource{Group: Group, Version: versions[0].(map[string]any)["name"].(string),
		Resource: plural}
}

// Connect makes a client, each of whose requests takes 30 s at most. The caller closes the idle connections of
// transport in the end.
func Connect(config *rest.Config) (client dynamic.Interface, transport *http.Client, err error) {
	config = rest.CopyConfig(config)
	config.Timeout = 30 * time.Second
	transport, err = rest.HTTPClientFor(config)
	if err == nil {
		client, err = dynamic.NewForConfigAndClient(config, transport)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("make client: %w", err)
	}
	return client, transport, nil
}

// Define makes a custom resource unless it is there, and waits until it is served.
func Define(ctx context.Context, client dynamic.Interface, definition *unstructured.Unstructured) error {
	if err := ensure(ctx, client.Resource(Definitions), definition); err != nil {
		return err
	}
	return program.Eventually(ctx, 2*time.Minute, "wait for custom resource", func() error {
		_, err := client.Resource(Defined(definition)).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// MakeNamespace makes a namespace unless it is there.
func MakeNamespace(ctx context.Context, client dynamic.Interface, name string) error {
	return ensure(ctx, client.Resource(Namespaces), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}})
}

func ensure(ctx context.Context, in dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	if _, err := in.Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// Leak returns an error if a file's content holds a value of the workload's Secrets, as it is or in base64.
func Leak(path string, content []byte) error {
	encoded := strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(SecretValue)), "=")
	encoded = encoded[:len(encoded)-len(encoded)%4] // the rest depends on what follows
	for _, value := range []string{SecretValue, encoded} {
		if i := bytes.Index(content, []byte(value)); i >= 0 {
			return fmt.Errorf("%s: holds a Secret's value: ...%q", filepath.Base(path),
				content[max(0, i-200):min(len(content), i+60)])
		}
	}
	return nil
}
