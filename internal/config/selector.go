package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// CanonicalLabels returns the one spelling of a label selector under which its stream is known, so that spaces, order
// and == instead of = do not make another stream of it.
func CanonicalLabels(selector string) (string, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return "", err
	}
	requirements, _ := parsed.Requirements()
	terms := make([]string, 0, len(requirements))
	for _, r := range requirements {
		term := r.String()
		if r.Operator() == selection.DoubleEquals {
			term = strings.Replace(term, "==", "=", 1)
		}
		terms = append(terms, term)
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

// canonicalise brings checked entries into their one spelling.
func (c *Config) canonicalise() {
	for i := range c.Resources {
		r := &c.Resources[i]
		if s, err := CanonicalLabels(r.LabelSelector); err == nil {
			r.LabelSelector = s
		}
		if s, err := CanonicalFields(r.FieldSelector); err == nil {
			r.FieldSelector = s
		}
		r.canonicaliseWritten()
	}
}
