// Package selector selects the objects of lines by label and field selectors, as kubectl does.
package selector

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// Selector selects by labels and fields.
type Selector struct {
	labels labels.Selector
	fields fields.Selector
	value  func(object []byte, path string) string // of a field; nil: what is at the path
}

// Parse reads two selectors as kubectl takes them; an empty one selects all.
func Parse(ofLabels, ofFields string) (*Selector, error) {
	var s Selector
	var err error
	if s.labels, err = labels.Parse(ofLabels); err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	if s.fields, err = fields.ParseSelector(ofFields); err != nil {
		return nil, fmt.Errorf("--field-selector: %w", err)
	}
	return &s, nil
}

// Of returns a selector of objects by labels and fields, which have the values that value finds in an object.
func Of(ofLabels labels.Selector, ofFields fields.Selector, value func(object []byte, path string) string) *Selector {
	return &Selector{ofLabels, ofFields, value}
}

// Match reports whether the object of a line is selected by its labels and fields. It is not known of a truncated line
// that does not have all of these.
func (s *Selector) Match(l *line.Fields) (matches, known bool) {
	if s.matchObject(l.Object) {
		return true, true
	}
	lost := func(path string) bool {
		value := rawjson.At(l.Object, pointer(path))
		return value == nil || line.IsCut([]byte(fieldsOf(l.Object).Get(path)))
	}
	return false, !l.Incomplete() ||
		(s.labels.Empty() ||
			!slices.ContainsFunc(l.Cut(), isOfLabels) && rawjson.At(l.Object, []byte("/metadata")) != nil) &&
			!slices.ContainsFunc(s.fields.Requirements(), func(r fields.Requirement) bool { return lost(r.Field) })
}

// isOfLabels reports whether an object's labels may not be whole if what is at the path is cut.
func isOfLabels(path string) bool {
	return path == "" || path == "metadata" || strings.HasPrefix(path, "metadata.labels")
}

// matchObject reports whether an object is selected by its labels and fields, as far as it has them.
func (s *Selector) matchObject(object []byte) bool {
	set := labels.Set{}
	for key, value := range rawjson.Members(rawjson.At(object, []byte("/metadata/labels"))) {
		set[string(rawjson.Unquote(nil, key))] = string(rawjson.Unquote(nil, rawjson.Inside(value)))
	}
	if s.value != nil {
		return s.labels.Matches(set) && s.fields.Matches(valuesOf{object, s.value})
	}
	return s.labels.Matches(set) && s.fields.Matches(fieldsOf(object))
}

// valuesOf has the fields of an object as a function finds them.
type valuesOf struct {
	object []byte
	value  func(object []byte, path string) string
}

func (o valuesOf) Has(string) bool { return true }

func (o valuesOf) Get(path string) string { return o.value(o.object, path) }

// Value returns what an object has at a path such as spec.nodeName, as text; empty where there is nothing.
func Value(object []byte, path string) string { return fieldsOf(object).Get(path) }

// fieldsOf has the fields of an object by paths such as spec.nodeName.
type fieldsOf []byte

func (o fieldsOf) Has(path string) bool { return rawjson.At(o, pointer(path)) != nil }

func (o fieldsOf) Get(path string) string {
	value := rawjson.At(o, pointer(path))
	if inside := rawjson.Inside(value); inside != nil {
		return string(rawjson.Unquote(nil, inside))
	}
	return string(value)
}

func pointer(path string) (p []byte) {
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		p = append(append(p, '/'), fieldpath.Escaped([]byte(key))...)
	}
	return p
}
