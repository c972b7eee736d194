package fake

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is how much of an object goes out.
type form uint8

const (
	whole    form = iota // as the answer to a get, and in watch frames
	item                 // in a list
	metaOnly             // PartialObjectMetadata
)

// ofItem is the form that the items of a list have.
func (f form) ofItem() form {
	if f == whole {
		return item
	}
	return f
}

// encoding names one cached rendering of a record.
type encoding struct {
	apiVersion string
	form       form
}

// metaOrder is the order in which a compiled server writes metadata.
var metaOrder = []string{
	"name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
	"managedFields",
}

// encode renders a record as one compact JSON object. It is called with mu
// held; the bytes are shared and must not be changed.
func (r *resource) encode(rec *record, version string, f form) []byte {
	id := encoding{r.apiVersion(version), f}
	if data, ok := rec.encoded[id]; ok {
		return data
	}
	if rec.encoded == nil {
		rec.encoded = map[encoding][]byte{}
	}
	data := r.render(rec.object, id.apiVersion, f)
	rec.encoded[id] = data
	return data
}

func (r *resource) render(object map[string]any, apiVersion string, f form) []byte {
	if f == metaOnly {
		return fmt.Appendf(nil, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%s}`,
			ordered(metadata(object), metaOrder))
	}
	if r.outward != nil {
		object = maps.Clone(object)
		r.outward(object)
	}
	if !r.Compiled {
		object = maps.Clone(object)
		object["apiVersion"], object["kind"] = apiVersion, r.Kind
		return marshal(object)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	if f == whole {
		fmt.Fprintf(&b, `"kind":%q,"apiVersion":%q,`, r.Kind, apiVersion)
	}
	fmt.Fprintf(&b, `"metadata":%s`, ordered(metadata(object), metaOrder))
	rest := maps.Clone(object)
	delete(rest, "metadata")
	if len(rest) > 0 {
		b.WriteByte(',')
		b.Write(marshal(rest)[1:])
	} else {
		b.WriteByte('}')
	}
	return b.Bytes()
}

// ordered renders a map with the keys of order first, the others after them.
func ordered(m map[string]any, order []string) []byte {
	rank := func(key string) int {
		if i := slices.Index(order, key); i >= 0 {
			return i
		}
		return len(order)
	}
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b)) })
	b := []byte{'{'}
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%s:%s", marshal(key), marshal(m[key]))
	}
	return append(b, '}')
}

// bookmark is the object of a BOOKMARK event: of the kind that is watched, with
// a version and nothing else.
func (r *resource) bookmark(apiVersion string, version uint64, initialEventsEnd bool, f form) []byte {
	meta := map[string]any{"resourceVersion": formatVersion(version)}
	if initialEventsEnd {
		meta["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
	}
	return r.render(map[string]any{"metadata": meta}, apiVersion, f)
}

// listOf renders a List around items that are rendered already.
func (r *resource) listOf(apiVersion string, items [][]byte, meta listMeta, f form) []byte {
	kind := r.Kind + "List"
	if f == metaOnly {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	joined := bytes.Join(items, []byte{','})
	if r.Compiled || f == metaOnly {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[%s]}`, kind, apiVersion,
			marshal(meta), joined)
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"items":[%s],"kind":%q,"metadata":%s}`, apiVersion, joined, kind,
		marshal(customListMeta{meta.Continue, meta.RemainingItemCount, meta.ResourceVersion, meta.ShardInfo}))
}

// listMeta is the metadata of a list of a compiled kind.
type listMeta struct {
	ResourceVersion    string            `json:"resourceVersion,omitempty"`
	Continue           string            `json:"continue,omitempty"`
	RemainingItemCount *int64            `json:"remainingItemCount,omitempty"`
	ShardInfo          *metav1.ShardInfo `json:"shardInfo,omitempty"`
}

// customListMeta is the same as the server writes it for custom resources.
type customListMeta struct {
	Continue           string            `json:"continue"`
	RemainingItemCount *int64            `json:"remainingItemCount,omitempty"`
	ResourceVersion    string            `json:"resourceVersion"`
	ShardInfo          *metav1.ShardInfo `json:"shardInfo,omitempty"`
}

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fake: encode: %v", err)) // all that is stored came out of JSON
	}
	return data
}
