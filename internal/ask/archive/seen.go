package archive

import (
	"bytes"
	"context"
	"fmt"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// Seen resolves a selection of lines that come as a stream: what it has seen of them is indexed as a segment is.
type Seen struct {
	s       *argument.Selection
	b       *index.Builder
	objects map[string]bool // their streams, namespaces and names; and streams with namespaces alone
	named   map[string]bool // the names of objects that are asked for
	key     []byte          // scratch
}

// NewSeen returns nil where a selection names nothing.
func NewSeen(s *argument.Selection) *Seen {
	if s.All() {
		return nil
	}
	named := make(map[string]bool)
	for i := range s.Objects {
		named[s.Objects[i].Name] = true
	}
	return &Seen{s: s, b: index.NewBuilder(0), objects: make(map[string]bool), named: named}
}

// Add adds a line: one of each object, up to a bound for those that are not asked for by name. It reports whether a
// name means something else from now on, since the line is about a CustomResourceDefinition that gives it.
func (n *Seen) Add(l *line.Fields) (renamed bool, err error) {
	n.key = append(append(append(n.key[:0], l.Text(line.FieldStream)...), 0), l.Text(line.FieldNamespace)...)
	scope := n.isNew()
	n.key = append(append(n.key, 0), l.Text(line.FieldName)...)
	defines := l.Is(line.FieldResource, "customresourcedefinitions")
	if object := n.isNew(); !scope && !object && !defines && !n.named[l.Unquoted(line.FieldName)] {
		return false, nil
	}
	if n.b.Add(l, 0, 0); !defines {
		return false, nil
	}
	one := index.NewBuilder(0)
	one.Add(l, 0, 0)
	x, err := opened(one)
	if err != nil {
		return false, err
	}
	defs, err := definitions([]*index.Index{x})
	for _, d := range defs {
		for i := range n.s.Objects {
			o := &n.s.Objects[i]
			renamed = !o.MayCome() && d.Names.Resolve(&o.Resource, d.Group) || renamed
		}
	}
	return renamed, err
}

// isNew reports whether key was not there before.
func (n *Seen) isNew() bool {
	if n.objects[string(n.key)] || len(n.objects) >= maxNames {
		return false
	}
	n.objects[string(n.key)] = true
	return true
}

// Resolve resolves the selection as Journal.Resolve does, at the end.
func (n *Seen) Resolve(ctx context.Context) error {
	if len(n.objects) == 0 {
		return nil
	}
	x, err := opened(n.b)
	if err != nil {
		return err
	}
	j := &Journal{path: "-", Segments: []*Segment{{Segment: segment.Segment{FirstSeq: x.FirstSeq}, x: x}}}
	return j.Resolve(ctx, n.s)
}

// opened returns the index that was built.
func opened(b *index.Builder) (*index.Index, error) {
	content, err := b.AppendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("index names: %w", err)
	}
	x, err := index.Open(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, fmt.Errorf("index names: %w", err)
	}
	return x, nil
}
