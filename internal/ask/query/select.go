package query

import (
	"fmt"
	"iter"
	"slices"

	"kubejournal/internal/format/index"
	"kubejournal/internal/format/rawjson"
)

func unquote(inside []byte) []byte { return rawjson.Unquote(nil, inside) }

// Selection says which objects are asked for. What is empty selects all.
type Selection struct {
	Objects    []Object
	Namespaces []string // objects in none of them are selected by resource alone
	UIDs       map[string]bool
	Unwatched  []Doubt // resources that nobody watched, by Resolve, if there are others or Wait is set

	Wait   bool            // for what is not there, and may still come: it is no error
	Absent []*UnknownError // objects that are not there, by Resolve, where Wait is set

	bare bool // objects in no namespace too
}

// pick is what is selected of a stream.
type pick struct {
	stream int
	names  []string // nil is all
	bare   bool     // objects in no namespace too
}

// picks returns what is selected of the streams of an index.
func (s *Selection) picks(x *index.Index) []pick {
	var all []pick
	for i := range x.Streams {
		if p, ok := s.pick(&x.Streams[i]); ok {
			p.stream = i
			all = append(all, p)
		}
	}
	return all
}

func (s *Selection) pick(stream *index.Stream) (p pick, ok bool) {
	if len(s.Objects) == 0 {
		return s.everything(stream), true
	}
	for i := range s.Objects {
		o := &s.Objects[i]
		if !o.Match([]byte(stream.Group), []byte(stream.Version), []byte(stream.Resource), []byte(stream.Kind)) {
			continue
		}
		named := o.name != "*"
		switch {
		case !ok && !named && o.Name == "":
			p = s.everything(stream)
		case !ok:
			p = pick{bare: named || len(s.Namespaces) == 0}
			if o.Name != "" {
				p.names = []string{o.Name}
			}
		case o.Name == "" || p.names == nil:
			p.names = nil
		default:
			p.names = append(p.names, o.Name)
		}
		ok = true
		p.bare = p.bare || named
	}
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	return p, ok
}

// everything returns what is selected of a stream where no resource is named: of namespaces, those that are named themselves.
func (s *Selection) everything(stream *index.Stream) pick {
	if len(s.Namespaces) > 0 && isNamespaces(stream.Group, stream.Resource) {
		return pick{names: slices.Clone(s.Namespaces), bare: true}
	}
	return pick{bare: s.bare || len(s.Namespaces) == 0}
}

func isNamespaces(group, resource string) bool { return group == "" && resource == "namespaces" }

// objects returns the objects that are selected of a stream, in the order of namespace, name and uid. What is yielded is
// valid until the next one.
func (s *Selection) objects(x *index.Index, p pick) iter.Seq2[*index.Object, error] {
	namespaces := []*string{nil}
	if len(s.Namespaces) > 0 {
		namespaces = namespaces[:0]
		if p.bare {
			namespaces = append(namespaces, new(""))
		}
		for _, namespace := range slices.Sorted(slices.Values(s.Namespaces)) {
			namespaces = append(namespaces, &namespace)
		}
	}
	return func(yield func(*index.Object, error) bool) {
		for _, namespace := range namespaces {
			names := p.names
			if names == nil || namespace == nil {
				names = []string{""}
			}
			for _, name := range names {
				one := &name
				if p.names == nil || namespace == nil {
					one = nil
				}
				for o, err := range x.Objects(p.stream, namespace, one) {
					wanted := err != nil || (p.names == nil || one != nil || slices.Contains(p.names, o.Name)) && (len(s.UIDs) == 0 || s.UIDs[o.UID])
					if wanted && !yield(o, err) {
						return
					}
				}
			}
		}
	}
}

// match is a selected object, and the stream that it is in.
type match struct {
	*index.Object
	stream *index.Stream
}

// item returns what names the object.
func (m *match) item() Item {
	return Item{Stream: m.stream, Namespace: m.Namespace, Name: m.Name, UID: m.UID}
}

// matches yields the objects of an index that are selected, stream by stream. What is yielded is valid until the next one.
func (s *Selection) matches(x *index.Index) iter.Seq2[match, error] {
	return func(yield func(match, error) bool) {
		for _, p := range s.picks(x) {
			for o, err := range s.objects(x, p) {
				if err != nil {
					err = fmt.Errorf("read index: %w", err)
				}
				if !yield(match{o, &x.Streams[p.stream]}, err) {
					return
				}
			}
		}
	}
}

// linesOf yields where the lines about an object are in the segment of an index.
func linesOf(x *index.Index, o *index.Object) iter.Seq2[index.Line, error] {
	return func(yield func(index.Line, error) bool) {
		for _, at := range o.Lines {
			l, err := x.Line(at)
			if err != nil {
				err = fmt.Errorf("read index: %w", err)
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// placeOf returns the place of a line in the segment of an index.
func placeOf(x *index.Index, l *index.Line) index.Place {
	return index.Place{Segment: x.FirstSeq, Seq: l.Seq, Offset: l.Offset}
}
