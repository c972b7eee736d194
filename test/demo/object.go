package main

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kubejournal/test/workload"
)

const (
	shop     = "shop" // the namespace of all that the demo makes
	password = "correct-horse-battery"
	// encodedPassword is what the API server keeps and sends.
	encodedPassword = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"
)

// change is one change to an object: what a user would type, and the same by the API, under the name that kubectl
// gives itself in managedFields.
type change struct {
	kubectl string
	make    func(ctx context.Context, client dynamic.Interface) error
}

var (
	namespaces  = workload.Namespaces
	configMaps  = workload.ConfigMaps.Resource
	secrets     = workload.Secrets.Resource
	deployments = workload.Deployments.Resource
)

func createNamespace() change {
	return change{"kubectl create namespace " + shop, func(ctx context.Context, client dynamic.Interface) error {
		return create(ctx, client.Resource(namespaces), "v1", "Namespace", shop, nil)
	}}
}

func createDeployment(name string, replicas int) change {
	labels := map[string]any{"app": name}
	spec := map[string]any{
		"replicas": int64(replicas),
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "nginx", "image": "nginx"}}},
		},
	}
	return change{
		fmt.Sprintf("kubectl -n %s create deployment %s --image=nginx --replicas=%d", shop, name, replicas),
		func(ctx context.Context, client dynamic.Interface) error {
			return create(ctx, client.Resource(deployments).Namespace(shop), "apps/v1", "Deployment", name,
				map[string]any{"spec": spec})
		},
	}
}

// scaleDeployment does not use kubectl scale: what goes through that subresource leaves no time in managedFields, so
// the line of a stream without changes would name nobody.
func scaleDeployment(name string, replicas int) change {
	return change{
		fmt.Sprintf(`kubectl -n %s patch deployment %s --type=merge -p '{"spec":{"replicas":%d}}'`, shop,
			name, replicas),
		func(ctx context.Context, client dynamic.Interface) error {
			return patch(ctx, client.Resource(deployments).Namespace(shop), name,
				map[string]any{"spec": map[string]any{"replicas": replicas}})
		},
	}
}

func createConfigMap(name, key, value string) change {
	return change{
		fmt.Sprintf("kubectl -n %s create configmap %s --from-literal=%s=%s", shop, name, key, value),
		func(ctx context.Context, client dynamic.Interface) error {
			return create(ctx, client.Resource(configMaps).Namespace(shop), "v1", "ConfigMap", name,
				map[string]any{"data": map[string]any{key: value}})
		},
	}
}

func patchConfigMap(name, key, value string) change {
	return change{
		fmt.Sprintf(`kubectl -n %s patch configmap %s --type=merge -p '{"data":{%q:%q}}'`, shop, name, key, value),
		func(ctx context.Context, client dynamic.Interface) error {
			return patch(ctx, client.Resource(configMaps).Namespace(shop), name,
				map[string]any{"data": map[string]any{key: value}})
		},
	}
}

func createSecret(name string) change {
	return change{
		fmt.Sprintf("kubectl -n %s create secret generic %s --from-literal=password=%s", shop, name, password),
		func(ctx context.Context, client dynamic.Interface) error {
			return create(ctx, client.Resource(secrets).Namespace(shop), "v1", "Secret", name,
				map[string]any{"type": "Opaque", "data": map[string]any{"password": encodedPassword}})
		},
	}
}

func remove(kind, name string, resource schema.GroupVersionResource) change {
	return change{
		fmt.Sprintf("kubectl -n %s delete %s %s", shop, kind, name),
		func(ctx context.Context, client dynamic.Interface) error {
			return client.Resource(resource).Namespace(shop).Delete(ctx, name, metav1.DeleteOptions{})
		},
	}
}

func create(ctx context.Context, in dynamic.ResourceInterface, version, kind, name string, more map[string]any) error {
	object := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}}
	for key, value := range more {
		object[key] = value
	}
	_, err := in.Create(ctx, &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{FieldManager: "kubectl-create"})
	return err
}

func patch(ctx context.Context, in dynamic.ResourceInterface, name string, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = in.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubectl-patch"})
	return err
}
