package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

func (k *kind) apiVersion() string {
	return schema.GroupVersion{Group: k.Group, Version: k.Version}.String()
}

// quoted returns text as JSON.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil { // never, of a string
		panic(err)
	}
	return string(b)
}

// object is what a line has of an object.
type object struct {
	raw        []byte // JSON, a part of the line
	apiVersion string // in which it was recorded
	lacks      string // why that is not all; empty where it is
}

// metadataAlone is why an object may not be whole. Some have nothing but metadata.
const metadataAlone = "its stream keeps metadata alone (payload: metadata)"

// objectOf returns the object of a line; where the journal keeps none, what names it.
func objectOf(l *line.Fields, item *question.Item) object {
	o := object{raw: l.Object}
	o.apiVersion = schema.GroupVersion{
		Group: l.Unquoted(line.FieldGroup), Version: l.Unquoted(line.FieldVersion),
	}.String()
	switch {
	case l.Incomplete():
		o.lacks = "truncated: it was longer than output.maxLineBytes"
	case len(l.Object) == 0:
		o.lacks = "its stream keeps no objects (payload: none)"
	case onlyMetadata(l.Object):
		o.lacks = metadataAlone
	}
	if len(o.raw) == 0 {
		namespace := ""
		if item.Namespace != "" {
			namespace = `,"namespace":` + quoted(item.Namespace)
		}
		o.raw = fmt.Appendf(nil, `{"metadata":{"name":%s%s,"uid":%s,"resourceVersion":%s}}`, quoted(item.Name),
			namespace, quoted(item.UID), quoted(l.Unquoted(line.FieldResourceVersion)))
	}
	return o
}

func onlyMetadata(object []byte) bool {
	for key := range rawjson.Members(object) {
		if s := string(key); s != "metadata" && s != "kind" && s != "apiVersion" {
			return false
		}
	}
	return true
}

// otherMembers returns an object's members but kind and apiVersion, without the braces.
func otherMembers(raw []byte) []byte {
	var all []byte
	for key, value := range rawjson.Members(raw) {
		if s := string(key); s == "kind" || s == "apiVersion" {
			continue
		}
		all = append(append(append(append(all, ',', '"'), key...), `":`...), value...)
	}
	return bytes.TrimPrefix(all, []byte(","))
}

// appendWhole appends an object with kind and apiVersion, where a Kubernetes API server writes them.
func (k *kind) appendWhole(dst []byte, o object) []byte {
	if has := rawjson.Pick(o.raw, "kind", "apiVersion"); k.Custom && has[0] != nil && has[1] != nil {
		return append(dst, o.raw...) // all of its members are sorted
	}
	format := `{"kind":%[1]s,"apiVersion":%[2]s`
	if k.Custom {
		format = `{"apiVersion":%[2]s,"kind":%[1]s`
	}
	dst = fmt.Appendf(dst, format, quoted(k.Kind), quoted(o.apiVersion))
	if members := otherMembers(o.raw); len(members) > 0 {
		dst = append(append(dst, ','), members...)
	}
	return append(dst, '}')
}

// appendItem appends an object as an item of a list, where kind and apiVersion go without saying.
func (k *kind) appendItem(dst []byte, o object) []byte {
	if k.Custom || o.apiVersion != k.apiVersion() {
		return k.appendWhole(dst, o)
	}
	return append(append(append(dst, '{'), otherMembers(o.raw)...), '}')
}

// withVersion returns an object at another version.
func withVersion(raw []byte, version string) []byte {
	metadata := rawjson.At(raw, []byte("/metadata"))
	is := rawjson.Pick(metadata, "resourceVersion")[0]
	if is == nil {
		return raw
	}
	at := cap(raw) - cap(is) // both are parts of one array
	if at < 0 || at+len(is) > len(raw) || !bytes.Equal(raw[at:at+len(is)], is) {
		return raw
	}
	return slices.Concat(raw[:at], []byte(quoted(version)), raw[at+len(is):])
}

// templateGeneration is an annotation that a DaemonSet has in one version of the API: the server makes it of a field.
const templateGeneration = "deprecated.daemonset.template.generation"

// appendPartial appends the metadata of an object, as a PartialObjectMetadata of a version of the API.
func (k *kind) appendPartial(dst []byte, o object, apiVersion string) []byte {
	metadata := rawjson.At(o.raw, []byte("/metadata"))
	if metadata == nil {
		metadata = []byte("{}")
	}
	if k.Group == "apps" && k.Resource.Resource == "daemonsets" {
		var m metav1.ObjectMeta
		if json.Unmarshal(metadata, &m) == nil {
			delete(m.Annotations, templateGeneration)
			if text, err := json.Marshal(m); err == nil {
				metadata = text
			}
		}
	}
	if bytes.HasPrefix(metadata, []byte(`{"annotations":`)) ||
		bytes.HasPrefix(metadata, []byte(`{"creationTimestamp":`)) {
		// Of a custom resource, in the order of names. A PartialObjectMetadata has the order of its fields.
		var m metav1.ObjectMeta
		if json.Unmarshal(metadata, &m) == nil {
			if text, err := json.Marshal(m); err == nil {
				metadata = text
			}
		}
	}
	dst = fmt.Appendf(dst, `{"kind":%q,"apiVersion":%s,"metadata":`, asPartial, quoted(apiVersion))
	return append(append(dst, metadata...), '}')
}

// indented returns JSON as people read it.
func indented(text []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil { // what a journal has may be nested deeper than that
		return text
	}
	return b.Bytes()
}
