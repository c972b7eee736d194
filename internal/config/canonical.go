package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// CanonicalLabels returns the one spelling of a label selector that names its stream, so that spaces, order and ==
// instead of = do not make another stream of it.
func CanonicalLabels(selector string) (string, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return "", err
	}
	requirements, _ := parsed.Requirements()
	terms := make([]string, 0, len(requirements))
	for _, r := range requirements {
		// Only the operator can hold ==.
		terms = append(terms, strings.Replace(r.String(), "==", "=", 1))
	}
	slices.Sort(terms)
	return strings.Join(slices.Compact(terms), ","), nil
}

// CanonicalFields does for a field selector what CanonicalLabels does for a label selector.
func CanonicalFields(selector string) (string, error) {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// canonicalise brings checked entries into one spelling, so that an edit that changes none of their meaning is no change.
func (c *Config) canonicalise() {
	for i := range c.Resources {
		r := &c.Resources[i]
		r.LabelSelector, _ = CanonicalLabels(r.LabelSelector) // checked before
		r.FieldSelector, _ = CanonicalFields(r.FieldSelector)
		r.Filter = strings.TrimSpace(r.Filter)
		r.ExcludeNamespaces = sorted(r.ExcludeNamespaces)
		r.IgnoreFields = sorted(r.IgnoreFields)
		slices.SortFunc(r.Types, func(a, b string) int { return slices.Index(Types, a) - slices.Index(Types, b) })
		if slices.Equal(r.Types, Types) {
			r.Types = nil
		}
		if len(r.Exclude) == 0 {
			r.Exclude = nil
		}
	}
}

// sorted sorts a list in which order means nothing; nil where it is empty.
func sorted(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return slices.Compact(list)
}
