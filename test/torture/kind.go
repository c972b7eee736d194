package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const customGroup = "torture.kubejournal.test"

var (
	namespaceResource  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

	// The namespaces of the writers. Secrets of the last one are in no stream.
	namespaces = []string{"torture-a", "torture-b", "torture-c"}
)

// secretValue begins each value that is put into a Secret: it must not get into a journal.
const secretValue = "this-must-not-get-out-"

// kind is a resource of the workload.
type kind struct {
	gvr  schema.GroupVersionResource
	kind string
	// content is the fields of an object beside its metadata, different for each n.
	content func(namespace string, n int) map[string]any
}

var (
	configMaps = kind{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", func(_ string, n int) map[string]any {
		return map[string]any{"data": map[string]any{"n": fmt.Sprint(n), "text": strings.Repeat("<a> & \"b\"\n\u2028é ", n%20)}}
	}}
	secrets = kind{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", func(_ string, n int) map[string]any {
		return map[string]any{"stringData": map[string]any{"password": secretValue + fmt.Sprint(n)}}
	}}
	deployments = kind{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment", func(_ string, n int) map[string]any {
		labels := map[string]any{"run": "it"}
		return map[string]any{"spec": map[string]any{
			"replicas": int64(n), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "none"}}},
			},
		}}
	}}
	widgets = kind{schema.GroupVersionResource{Group: customGroup, Version: "v1", Resource: "widgets"}, "Widget", func(_ string, n int) map[string]any {
		return map[string]any{"spec": map[string]any{"size": int64(n), "deep": []any{[]any{}, nil, 1.5, true}}}
	}}
	events = kind{schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", func(namespace string, n int) map[string]any {
		return map[string]any{
			"involvedObject": map[string]any{"kind": "Pod", "namespace": namespace, "name": "none"},
			"reason":         "Tortured", "type": "Normal", "message": fmt.Sprint(n), "count": int64(n + 1),
		}
	}}
	everyKind = []kind{configMaps, secrets, deployments, widgets, events}
)

// definition is the widgets' custom resource.
func definition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + customGroup},
		"spec": map[string]any{
			"group": customGroup, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
}

// named is an object of the kind with a name and the label app.
func (k kind) named(namespace, name, app string, n int) *unstructured.Unstructured {
	o := k.content(namespace, n)
	o["apiVersion"], o["kind"] = k.gvr.GroupVersion().String(), k.kind
	o["metadata"] = map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"app": app}}
	return &unstructured.Unstructured{Object: o}
}

// patch is the merge patch that makes an object that of n.
func (k kind) patch(namespace, app string, n int) ([]byte, error) {
	o := k.content(namespace, n)
	o["metadata"] = map[string]any{"labels": map[string]any{"app": app}, "annotations": map[string]any{"n": fmt.Sprint(n)}}
	return json.Marshal(o)
}

// entry is an entry of the config's resources.
type entry struct {
	kind       kind
	namespaces []string
	selector   string // key=value
	changes    bool   // its lines say what changed
}

// entries are the daemon's. No stream has an object that the API server writes by itself, so that nothing changes once
// the writers rest.
var entries = []entry{
	{kind: configMaps, selector: "app=web"},
	{kind: secrets, namespaces: namespaces[:2], changes: true},
	{kind: deployments, changes: true},
	{kind: widgets, changes: true},
	{kind: events},
}

// source is what one stream of an entry reads.
type source struct {
	entry
	namespace string
}

// sources are those of all entries.
func sources() []source {
	var all []source
	for _, e := range entries {
		if len(e.namespaces) == 0 {
			all = append(all, source{e, ""})
		}
		for _, ns := range e.namespaces {
			all = append(all, source{e, ns})
		}
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
