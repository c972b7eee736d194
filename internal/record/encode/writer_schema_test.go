package encode

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// thingSchema has each kind of field that managedFields distinguish: granular and atomic maps, lists that are atomic,
// sets, and lists by one key and by two.
const thingSchema = `types:
- {name: string, scalar: string}
- {name: number, scalar: numeric}
- {name: any, scalar: untyped, list: {elementType: {namedType: any}, elementRelationship: atomic}, map: {elementType: {namedType: any}, elementRelationship: atomic}}
- {name: strings, map: {elementType: {namedType: string}}}
- {name: set, list: {elementType: {namedType: string}, elementRelationship: associative}}
- name: port
  map: {fields: [{name: port, type: {namedType: number}}, {name: protocol, type: {namedType: string}}, {name: target, type: {namedType: string}}]}
- name: item
  map:
    fields:
    - {name: name, type: {namedType: string}}
    - {name: image, type: {namedType: string}}
    - {name: args, type: {list: {elementType: {namedType: string}, elementRelationship: atomic}}}
    - {name: ports, type: {list: {elementType: {namedType: port}, elementRelationship: associative, keys: [port, protocol]}}}
    - {name: security, type: {namedType: strings}}
- name: condition
  map: {fields: [{name: type, type: {namedType: string}}, {name: status, type: {namedType: string}}, {name: reason, type: {namedType: string}}]}
- name: spec
  map:
    fields:
    - {name: replicas, type: {namedType: number}}
    - {name: nodeName, type: {namedType: string}}
    - {name: selector, type: {map: {elementType: {namedType: string}, elementRelationship: atomic}}}
    - {name: items, type: {list: {elementType: {namedType: item}, elementRelationship: associative, keys: [name]}}}
    - {name: tags, type: {namedType: set}}
    - {name: security, type: {namedType: strings}}
- name: status
  map:
    fields:
    - {name: phase, type: {namedType: string}}
    - {name: count, type: {namedType: number}}
    - {name: conditions, type: {list: {elementType: {namedType: condition}, elementRelationship: associative, keys: [type]}}}
- name: meta
  map:
    fields:
    - {name: name, type: {namedType: string}}
    - {name: uid, type: {namedType: string}}
    - {name: resourceVersion, type: {namedType: string}}
    - {name: generation, type: {namedType: number}}
    - {name: creationTimestamp, type: {namedType: string}}
    - {name: deletionTimestamp, type: {namedType: string}}
    - {name: deletionGracePeriodSeconds, type: {namedType: number}}
    - {name: labels, type: {namedType: strings}}
    - {name: annotations, type: {namedType: strings}}
    - {name: finalizers, type: {namedType: set}}
    - {name: managedFields, type: {list: {elementType: {namedType: any}, elementRelationship: atomic}}}
- name: thing
  map:
    fields:
    - {name: apiVersion, type: {namedType: string}}
    - {name: kind, type: {namedType: string}}
    - {name: metadata, type: {namedType: meta}}
    - {name: spec, type: {namedType: spec}}
    - {name: status, type: {namedType: status}}
- name: scale
  map:
    fields:
    - {name: apiVersion, type: {namedType: string}}
    - {name: kind, type: {namedType: string}}
    - {name: metadata, type: {namedType: meta}}
    - {name: spec, type: {map: {fields: [{name: replicas, type: {namedType: number}}]}}}
`

// converter is what the API server's own code for managedFields needs of the types.
type converter map[string]typed.ParseableType

func (c converter) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	u := o.(*unstructured.Unstructured)
	t := c[u.GetKind()]
	return t.FromUnstructured(u.Object, options...)
}

func (converter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: v.AsValue().Unstructured().(map[string]any)}, nil
}

func (converter) Convert(any, any, any) error { return nil }
func (converter) Default(runtime.Object)      {}
func (converter) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}

func (converter) ConvertFieldLabel(schema.GroupVersionKind, string, string) (_, _ string, err error) {
	return "", "", nil
}

func (converter) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u, nil
}
