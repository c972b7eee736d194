package argument

import (
	"slices"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Filter says which lines are wanted: those that a history of the selection has between two moments, of some types.
// What is empty or zero lets every line pass.
type Filter struct {
	Selection
	Types        []string // of index.Types
	Since, Until Moment
}

// IsZero reports whether every line passes.
func (f *Filter) IsZero() bool {
	return f.All() && len(f.Types) == 0 && f.Since.IsZero() && f.Until.IsZero()
}

// All reports whether every line is selected.
func (s *Selection) All() bool { return len(s.Objects)+len(s.Namespaces)+len(s.UIDs) == 0 }

// Names reports whether the resource of a line is named, other than by *.
func (s *Selection) Names(l *line.Fields) bool {
	return slices.ContainsFunc(s.Objects, func(o Object) bool {
		return o.name != "*" && o.Match(l.Text(line.FieldGroup), l.Text(line.FieldVersion), l.Text(line.FieldResource),
			l.Text(line.FieldKind))
	})
}

// HasType reports whether lines of a type are wanted.
func (f *Filter) HasType(name []byte) bool {
	return len(f.Types) == 0 || slices.Contains(f.Types, string(name))
}

// Matcher finds out of single lines what an index says of many: whether a filter has them. It is for one goroutine.
type Matcher struct {
	Filter  *Filter
	streams map[string]picked // by name and version
	key     []byte            // scratch
}

// picked is what is selected of a stream, if anything is.
type picked struct {
	Pick
	objects, marks bool // whether any of its objects are, and its GAP and SYNCED lines
}

// maxStreams bounds the streams that a Matcher remembers.
const maxStreams = 10_000

// Forget makes the filter be looked at again: what it names was found to mean something else.
func (m *Matcher) Forget() { m.streams = nil }

// Match reports whether a filter has a line. Of a line that was received late, and does not say when it was made, other
// lines may say more to a Journal.
func (m *Matcher) Match(l *line.Fields) bool {
	made := l.Time
	if written, late := l.Late(); late {
		made = written
	}
	f := m.Filter
	return !f.Since.After(l.Seq, made) && (f.Until.IsZero() || !f.Until.Before(l.Seq, made)) &&
		f.HasType(l.Text(line.FieldType)) && m.Selects(l)
}

// Selects reports whether the selection has a line, whatever its type and time.
func (m *Matcher) Selects(l *line.Fields) bool {
	s := &m.Filter.Selection
	if s.All() {
		return true
	}
	p := m.picked(l)
	if l.AboutStream() || !p.objects {
		return p.marks
	}
	namespace := l.Unquoted(line.FieldNamespace)
	return (len(s.Namespaces) == 0 || p.bare && namespace == "" || slices.Contains(s.Namespaces, namespace)) &&
		(p.names == nil || slices.Contains(p.names, l.Unquoted(line.FieldName))) &&
		(len(s.UIDs) == 0 || s.UIDs[l.Unquoted(line.FieldUID)])
}

// picked returns what is selected of a line's stream.
func (m *Matcher) picked(l *line.Fields) picked {
	m.key = append(append(append(m.key[:0], l.Text(line.FieldStream)...), ' '), l.Text(line.FieldVersion)...)
	if p, known := m.streams[string(m.key)]; known {
		return p
	}
	stream := index.Stream{
		Name: l.Unquoted(line.FieldStream), Group: l.Unquoted(line.FieldGroup), Version: l.Unquoted(line.FieldVersion),
		Resource: l.Unquoted(line.FieldResource), Kind: l.Unquoted(line.FieldKind),
	}
	var p picked
	p.Pick, p.objects = m.Filter.Pick(&stream)
	p.marks = p.objects && m.Filter.MayHave(stream.Name)
	if m.streams == nil || len(m.streams) >= maxStreams {
		m.streams = make(map[string]picked)
	}
	m.streams[string(m.key)] = p
	return p
}
