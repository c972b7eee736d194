package argument

import (
	"fmt"
	"iter"
	"slices"

	"kubejournal/internal/format/index"
)

// Selection says which objects are asked for. What is empty selects all.
type Selection struct {
	Objects    []Object
	Namespaces []string // objects in none of them are selected by resource alone
	UIDs       map[string]bool
	Refers     string          // only objects that refer to this uid, as index.Object.Refs has it
	Unwatched  []*UnknownError // resources that nobody watched, by Resolve, if there are others or Wait is set

	Wait   bool            // for what is not there, and may still come: it is no error
	Absent []*UnknownError // objects that are not there, by Resolve, where Wait is set

	Bare bool // objects in no namespace too, by Related
}

// OnlyEvents reports whether nothing but Events is selected.
func (s *Selection) OnlyEvents() bool {
	return len(s.Objects) > 0 && !slices.ContainsFunc(s.Objects, func(o Object) bool { return o.name != "events" })
}

// Pick is what is selected of a stream.
type Pick struct {
	Stream int
	names  []string // nil is all
	bare   bool     // objects in no namespace too
}

// Picks returns what is selected of the streams of an index.
func (s *Selection) Picks(x *index.Index) []Pick {
	var all []Pick
	for i := range x.Streams {
		if p, ok := s.Pick(&x.Streams[i]); ok {
			p.Stream = i
			all = append(all, p)
		}
	}
	return all
}

// Pick returns what is selected of a stream, if anything is. Its index is to be set.
func (s *Selection) Pick(stream *index.Stream) (p Pick, ok bool) {
	if len(s.Objects) == 0 {
		return s.everything(stream), true
	}
	for i := range s.Objects {
		o := &s.Objects[i]
		if !o.MatchStream(stream) {
			continue
		}
		named := o.name != "*"
		switch {
		case !ok && !named && o.Name == "":
			p = s.everything(stream)
		case !ok:
			p = Pick{bare: named || len(s.Namespaces) == 0}
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

// everything returns what is selected of a stream where no resource is named: of namespaces, those that are named
// themselves.
func (s *Selection) everything(stream *index.Stream) Pick {
	if len(s.Namespaces) > 0 && isNamespaces(stream.Group, stream.Resource) {
		return Pick{names: slices.Clone(s.Namespaces), bare: true}
	}
	return Pick{bare: s.Bare || len(s.Namespaces) == 0}
}

func isNamespaces(group, resource string) bool { return group == "" && resource == "namespaces" }

// Select returns the objects that are selected of a stream, in the order of namespace, name and uid. What is yielded is
// valid until the next one.
func (s *Selection) Select(x *index.Index, p Pick) iter.Seq2[*index.Object, error] {
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
				for o, err := range x.Objects(p.Stream, namespace, one) {
					wanted := err != nil || (p.names == nil || one != nil || slices.Contains(p.names, o.Name)) &&
						(len(s.UIDs) == 0 || s.UIDs[o.UID]) && (s.Refers == "" || slices.Contains(o.Refs, s.Refers))
					if wanted && !yield(o, err) {
						return
					}
				}
			}
		}
	}
}

// Spots returns where lines about the objects are that Select returns, those that have any. What is yielded is valid
// until the next one.
func (s *Selection) Spots(x *index.Index, p Pick) iter.Seq2[*index.Spot, error] {
	if p.names == nil && len(s.Namespaces)+len(s.UIDs) == 0 && s.Refers == "" {
		return x.Spots(p.Stream)
	}
	return func(yield func(*index.Spot, error) bool) {
		var spot index.Spot
		for o, err := range s.Select(x, p) {
			if err != nil {
				yield(nil, err)
				return
			}
			spot.Lines = o.Lines
			spot.Place = append(append(append(spot.Place[:0], o.Namespace...), 0), o.Name...)
			if len(spot.Lines) > 0 && !yield(&spot, nil) {
				return
			}
		}
	}
}

// Match is a selected object, and the stream that it is in.
type Match struct {
	*index.Object
	Stream *index.Stream
}

// Matches yields the objects of an index that are selected, stream by stream. What is yielded is valid until the next
// one.
func (s *Selection) Matches(x *index.Index) iter.Seq2[Match, error] {
	return func(yield func(Match, error) bool) {
		for _, p := range s.Picks(x) {
			for o, err := range s.Select(x, p) {
				if err != nil {
					err = fmt.Errorf("read index: %w", err)
				}
				if !yield(Match{o, &x.Streams[p.Stream]}, err) {
					return
				}
			}
		}
	}
}
