package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of one way to run the daemon.
type manifests []*unstructured.Unstructured

// kustomized is what kubectl kustomize prints for a folder under deploy/kustomize.
func kustomized(t *testing.T, folder string) manifests {
	t.Helper()
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("kustomize %s: %v", folder, err)
	}
	text, err := result.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

// parse takes YAML documents apart; a key that stands twice is an error.
func parse(t *testing.T, text []byte) manifests {
	t.Helper()
	var all manifests
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		var o map[string]any
		if err := errors.Join(err, yaml.UnmarshalStrict(document, &o)); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(o) > 0 {
			all = append(all, &unstructured.Unstructured{Object: o})
		}
	}
}

// ofKind are the objects of some kinds.
func (m manifests) ofKind(kinds ...string) manifests {
	var all manifests
	for _, o := range m {
		if slices.Contains(kinds, o.GetKind()) {
			all = append(all, o)
		}
	}
	return all
}

// one decodes the only object of a kind into T. Fields that T does not have are an error.
func one[T any](t *testing.T, m manifests, kind string) *T {
	t.Helper()
	all := m.ofKind(kind)
	if len(all) != 1 {
		t.Fatalf("%d objects of kind %s", len(all), kind)
	}
	return decode[T](t, all[0])
}

func decode[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, out, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return out
}

// namespace is where everything is put that belongs into one.
func (m manifests) namespace(t *testing.T) string {
	t.Helper()
	return one[corev1.ServiceAccount](t, m, "ServiceAccount").Namespace
}

// pod is the template of the workload.
func (m manifests) pod(t *testing.T) corev1.PodTemplateSpec {
	t.Helper()
	switch {
	case len(m.ofKind("DaemonSet")) > 0:
		return one[appsv1.DaemonSet](t, m, "DaemonSet").Spec.Template
	case len(m.ofKind("StatefulSet")) > 0:
		return one[appsv1.StatefulSet](t, m, "StatefulSet").Spec.Template
	}
	return one[appsv1.Deployment](t, m, "Deployment").Spec.Template
}

// checkNodes checks that a pod is only on nodes that can run it, however many taints it tolerates.
func (m manifests) checkNodes(t *testing.T) {
	t.Helper()
	s := m.pod(t).Spec
	if s.NodeSelector["kubernetes.io/os"] != "linux" {
		t.Errorf("the image for Linux is on any node: %v", s.NodeSelector)
	}
	if len(m.ofKind("DaemonSet")) == 0 {
		return
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil {
		t.Fatal("a pod for each node of Fargate, which runs none of a daemon set")
	}
	var avoided []string
	for _, term := range s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			avoided = append(avoided, fmt.Sprint(e.Key, " ", e.Operator, " ", e.Values))
		}
	}
	if diff := cmp.Diff([]string{"eks.amazonaws.com/compute-type NotIn [fargate]", "type NotIn [virtual-kubelet]"}, avoided); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// shards are the manifests of each shard: one stateful set and its budget, with all that they share.
func (m manifests) shards() []manifests {
	var all []manifests
	for _, set := range m.ofKind("StatefulSet") {
		all = append(all, slices.DeleteFunc(slices.Clone(m), func(o *unstructured.Unstructured) bool {
			return slices.Contains([]string{"StatefulSet", "PodDisruptionBudget"}, o.GetKind()) && o.GetName() != set.GetName()
		}))
	}
	if len(all) == 0 {
		return []manifests{m}
	}
	return all
}

// daemon is the container that kubejournal runs in.
func daemon(t *testing.T, pod corev1.PodSpec) corev1.Container {
	t.Helper()
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if c.Name == "kubejournal" {
			return c
		}
	}
	t.Fatal("no container named kubejournal")
	return corev1.Container{}
}

// config writes the daemon's config into a file.
func (m manifests) config(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubejournal.yaml")
	content := one[corev1.ConfigMap](t, m, "ConfigMap").Data["kubejournal.yaml"]
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// environment is what the daemon's container has beyond what every container has, with nodeName for its node.
func (m manifests) environment(t *testing.T, nodeName string) []string {
	t.Helper()
	return environment(t, daemon(t, m.pod(t).Spec), m.namespace(t), nodeName)
}

// environment is that of a container in a pod.
func environment(t *testing.T, c corev1.Container, namespace, nodeName string) []string {
	t.Helper()
	var all []string
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			switch path := e.ValueFrom.FieldRef.FieldPath; path {
			case "spec.nodeName":
				value = nodeName
			case "metadata.namespace":
				value = namespace
			default:
				t.Fatalf("%s: fieldPath %s is not known here", e.Name, path)
			}
		}
		all = append(all, e.Name+"="+value)
	}
	return all
}

// rights are the rules by scope: "" is a ClusterRole's, else the namespace of a Role.
type rights map[string][]rbacv1.PolicyRule

// rights gathers the rules that bindings give to the daemon's account. A role that nothing binds, or a binding for
// anybody else, is an error.
func (m manifests) rights(t *testing.T) rights {
	t.Helper()
	all := rights{}
	for _, kind := range []string{"ClusterRole", "Role"} {
		roles, bindings := m.ofKind(kind), m.ofKind(kind+"Binding")
		if len(roles) != len(bindings) {
			t.Errorf("%d of %s and %d bindings", len(roles), kind, len(bindings))
		}
		for _, o := range roles {
			i := slices.IndexFunc(bindings, func(b *unstructured.Unstructured) bool { return b.GetNamespace() == o.GetNamespace() })
			if i < 0 {
				t.Fatalf("%s %s/%s is not bound", kind, o.GetNamespace(), o.GetName())
			}
			b := decode[rbacv1.RoleBinding](t, bindings[i]) // a ClusterRoleBinding has the same form
			account := one[corev1.ServiceAccount](t, m, "ServiceAccount")
			want := rbacv1.Subject{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}
			if b.RoleRef != (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: o.GetName()}) || !slices.Equal(b.Subjects, []rbacv1.Subject{want}) {
				t.Errorf("%s %s binds %v to %v", b.Kind, b.Name, b.RoleRef, b.Subjects)
			}
			all[o.GetNamespace()] = decode[rbacv1.Role](t, o).Rules
		}
	}
	return all
}
