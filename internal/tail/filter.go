package tail

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/line"
	"kubejournal/internal/query"
)

// Types are the types of a line, in the order in which a user meets them.
var Types = []string{"ADDED", "MODIFIED", "DELETED", "GAP", "SYNCED"}

// Filter says which lines to show. What is empty lets every line pass.
type Filter struct {
	Objects    []query.Object
	Namespaces []string
	Types      []string     // of Types
	Since      query.Moment // from that one on
	Until      query.Moment // up to that one
}

// ParseType reads a line's type, in upper or lower case.
func ParseType(text string) (string, error) {
	if t := strings.ToUpper(text); slices.Contains(Types, t) {
		return t, nil
	}
	return "", fmt.Errorf("%q is not known; write %s or %s", text, strings.Join(Types[:len(Types)-1], ", "), Types[len(Types)-1])
}

// isZero reports whether every line passes.
func (f *Filter) isZero() bool {
	return len(f.Objects)+len(f.Namespaces)+len(f.Types) == 0 && f.Since.IsZero() && f.Until.IsZero()
}

// separates reports whether a GAP may pass without its SYNCED.
func (f *Filter) separates() bool {
	return len(f.Types) > 0 && !slices.Contains(f.Types, "SYNCED")
}

// Match reports whether to show the line.
func (f *Filter) Match(l *line.Fields) bool {
	return !f.Since.After(l.Seq, l.Time) &&
		(f.Until.IsZero() || !f.Until.Before(l.Seq, l.Time)) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, string(l.Text(line.Type)))) &&
		(len(f.Objects) == 0 || f.hasObject(l)) &&
		(len(f.Namespaces) == 0 || f.inNamespace(l))
}

// hasObject reports whether the line is about an object that is selected. GAP and SYNCED, which are about a whole stream,
// pass where it has the resource.
func (f *Filter) hasObject(l *line.Fields) bool {
	for i := range f.Objects {
		o := &f.Objects[i]
		if hasResource(o, l) && (o.Name == "" || l.AboutStream() || l.Is(line.Name, o.Name)) {
			return true
		}
	}
	return false
}

func hasResource(o *query.Object, l *line.Fields) bool {
	return o.Match(l.Text(line.Group), l.Text(line.Version), l.Text(line.Resource), l.Text(line.Kind))
}

// begun reports whether no line before the one with that seq is wanted. Its time does not say that: the clock may
// have been set.
func (f *Filter) begun(seq uint64) bool { return f.Since.Seq > seq }

// ended reports the same of the lines after it.
func (f *Filter) ended(seq uint64) bool { return f.Until.Seq > 0 && f.Until.Seq < seq }

// outside reports whether no line is wanted of a file whose lines have times between two.
func (f *Filter) outside(oldest, newest time.Time) bool {
	return f.Since.Seq == 0 && f.Since.Time.After(newest) ||
		f.Until.Seq == 0 && !f.Until.Time.IsZero() && f.Until.Time.Before(oldest)
}

// inNamespace lets GAP and SYNCED, which are about a whole stream, pass where the stream may have objects of the namespace.
func (f *Filter) inNamespace(l *line.Fields) bool {
	if !l.AboutStream() {
		return slices.Contains(f.Namespaces, string(l.Text(line.Namespace)))
	}
	scope, err := url.ParseQuery(string(l.Scope()))
	if err == nil && !scope.Has("namespace") {
		return !query.InNoNamespace(l.Text(line.Group), l.Text(line.Resource))
	}
	return err != nil || slices.Contains(f.Namespaces, scope.Get("namespace"))
}
