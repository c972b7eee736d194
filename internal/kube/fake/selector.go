package fake

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
)

// selection is what a list or a watch asks for.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
	shard     sharding.Selector
}

// everything selects all objects.
func everything() selection {
	return selection{labels: labels.Everything(), fields: fields.Everything(), shard: sharding.Everything()}
}

func (s selection) everything() bool { return s.labels.Empty() && s.fields.Empty() && s.shard.Empty() }

func (s selection) matches(r *record) bool {
	if r == nil || !strings.HasPrefix(r.key, prefixOf(s.namespace)) {
		return false
	}
	if s.everything() {
		return true
	}
	mine, err := s.shard.Matches(&unstructured.Unstructured{Object: r.object})
	return err == nil && mine && s.labels.Matches(labelsOf(r.object)) && s.fields.Matches(fieldsOf(r.object))
}

// parseSelection reads the selectors of a request. name restricts it to one
// object, as in a watch of a single one.
func (r *resource) parseSelection(namespace, name string, q url.Values) (selection, error) {
	sel := selection{namespace: namespace, shard: sharding.Everything()}
	labelSelector, fieldSelector := q.Get("labelSelector"), q.Get("fieldSelector")
	var err error
	if sel.labels, err = labels.Parse(labelSelector); err != nil {
		return sel, apierrors.NewBadRequest(fmt.Sprintf("unable to parse requirement: %v", err))
	}
	if sel.fields, err = fields.ParseSelector(fieldSelector); err != nil {
		return sel, apierrors.NewBadRequest(err.Error())
	}
	for _, req := range sel.fields.Requirements() {
		if !slices.Contains([]string{"metadata.name", "metadata.namespace"}, req.Field) &&
			!slices.Contains(r.Fields, req.Field) {
			if !r.Compiled || r.Fields != nil {
				return sel, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", req.Field))
			}
			return sel, apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only %q, %q", req.Field,
				"metadata.name", "metadata.namespace"))
		}
	}
	if name != "" {
		sel.fields = fields.AndSelectors(sel.fields, fields.OneTermEqualSelector("metadata.name", name))
	}
	return sel, nil
}

var shardRange = regexp.MustCompile(`^shardRange\(object\.metadata\.uid, *'(0x[0-9a-f]{16})', *'(0x[0-9a-f]{` +
	`16}|0x10000000000000000)'\)$`)

// parseShard reads the parameter shardSelector (KEP-5866), in the one form that streams use. What is refused is no API
// error.
func parseShard(text string) (sharding.Selector, error) {
	if text == "" {
		return sharding.Everything(), nil
	}
	m := shardRange.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("invalid shard selector: %q", text)
	}
	return sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: m[1], End: m[2]}), nil
}

// labelsOf are an object's labels.
func labelsOf(object map[string]any) labels.Set {
	set := labels.Set{}
	given, _ := metadata(object)["labels"].(map[string]any)
	for label, v := range given {
		set[label], _ = v.(string)
	}
	return set
}

// fieldsOf finds a dotted path; what is not there reads as empty.
type fieldsOf map[string]any

func (o fieldsOf) Has(string) bool { return true }

func (o fieldsOf) Get(path string) string {
	v, _, err := unstructured.NestedFieldNoCopy(o, strings.Split(path, ".")...)
	if err != nil || v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
