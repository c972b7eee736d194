package scenario

import (
	"encoding/json"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is a Kubernetes object as JSON would have it.
type object map[string]any

func (o object) unstructured() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: o}
}

const customGroup = "scenario.kubejournal.test"

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// definition is a custom resource with the versions given; the last is the one that is stored.
func definition(plural, kind string, versions ...string) object {
	var list []any
	for i, v := range versions {
		list = append(list, map[string]any{
			"name": v, "served": true, "storage": i == len(versions)-1,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}},
		})
	}
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + customGroup},
		"spec": map[string]any{
			"group": customGroup, "scope": "Namespaced", "versions": list,
			"names": map[string]any{"plural": plural, "kind": kind},
		},
	}
}

// serves is the resource that a definition makes, in its first version.
func (o object) serves() schema.GroupVersionResource {
	spec := o["spec"].(map[string]any)
	return schema.GroupVersionResource{
		Group:    customGroup,
		Version:  spec["versions"].([]any)[0].(map[string]any)["name"].(string),
		Resource: spec["names"].(map[string]any)["plural"].(string),
	}
}

// secretValue begins each value that the workload puts into a Secret: neither it nor its base64 may get out.
const secretValue = "this-must-not-get-out-"

// kind is a resource of the workload.
type kind struct {
	gvr  schema.GroupVersionResource
	kind string
	// content is the fields of an object beside its metadata, different for each n.
	content func(n int) object
}

var (
	configMaps = kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", func(n int) object {
		return object{"data": map[string]any{"n": fmt.Sprint(n), "text": "<a> & \"b\"\n\u2028é"}}
	}}
	secrets = kind{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", func(n int) object {
		return object{"stringData": map[string]any{"password": secretValue + fmt.Sprint(n), "n": secretValue + fmt.Sprint(-n)}}
	}}
	deployments = kind{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", func(n int) object {
		labels := map[string]any{"run": "it"}
		return object{"spec": map[string]any{
			"replicas": int64(n), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "none"}}},
			},
		}}
	}}
	widgets = kind{schema.GroupVersionResource{Group: customGroup, Version: "v1", Resource: "widgets"}, "Widget", func(n int) object {
		return object{"spec": map[string]any{"size": int64(n), "empty": map[string]any{}, "deep": []any{[]any{}, nil, 1.5, true}}}
	}}
	everyKind = []kind{configMaps, secrets, deployments, widgets}
)

// named is an object of the kind with a name and labels.
func (k kind) named(namespace, name string, labels map[string]any, n int) *unstructured.Unstructured {
	o := k.content(n)
	o["apiVersion"], o["kind"] = k.gvr.GroupVersion().String(), k.kind
	o["metadata"] = map[string]any{"namespace": namespace, "name": name, "labels": labels}
	return o.unstructured()
}

// patch is the merge patch that makes an object that of n.
func (k kind) patch(labels map[string]any, n int) ([]byte, error) {
	o := k.content(n)
	o["metadata"] = map[string]any{"labels": labels, "annotations": map[string]any{"n": fmt.Sprint(n)}}
	return json.Marshal(o)
}

// entry is an entry of the config's resources.
type entry struct {
	kind       kind
	version    string
	namespaces []string
	selector   string // key=value
}

// every is an entry for each kind, in all namespaces or in those given.
func every(namespaces ...string) []entry {
	var entries []entry
	for _, k := range everyKind {
		entries = append(entries, entry{kind: k, namespaces: namespaces})
	}
	return entries
}

// source is what one stream of an entry reads.
type source struct {
	entry
	namespace string
}

func (e entry) sources() []source {
	if len(e.namespaces) == 0 {
		return []source{{e, ""}}
	}
	var all []source
	for _, ns := range e.namespaces {
		all = append(all, source{e, ns})
	}
	return all
}

// stream is the name that the contract gives to what s reads.
func (s source) stream() string {
	name, separator := s.kind.gvr.GroupResource().String(), "?"
	if s.namespace != "" {
		name, separator = name+separator+"namespace="+s.namespace, "&"
	}
	if s.selector != "" {
		name += separator + "labelSelector=" + url.QueryEscape(s.selector)
	}
	return name
}

// covers tells whether s reads an object of the kind with this label app.
func (s source) covers(k kind, namespace, app string) bool {
	return s.kind.gvr.GroupResource() == k.gvr.GroupResource() &&
		(s.namespace == "" || s.namespace == namespace) &&
		(s.selector == "" || s.selector == "app="+app)
}
