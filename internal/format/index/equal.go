package index

import (
	"iter"
	"maps"
	"slices"
)

// Equal reports whether two indexes say the same of a segment: of its lines and, if before is true, of what was there
// before it.
func Equal(a, b *Index, before bool) (bool, error) {
	same := a.FirstSeq == b.FirstSeq && a.Next == b.Next && a.Lines == b.Lines && a.Size == b.Size &&
		a.Head == b.Head && a.Oldest.Equal(b.Oldest) &&
		a.Newest.Equal(b.Newest) && a.Earliest.Equal(b.Earliest) && a.sum == b.sum
	if same && a.Zipped > 0 && b.Zipped > 0 {
		same = a.Zipped == b.Zipped && slices.Equal(a.members, b.members)
	}
	if !same {
		return false, nil
	}
	for at := range a.Lines {
		l, err := a.Line(at)
		if err != nil {
			return false, err
		}
		if m, err := b.Line(at); err != nil || l != m {
			return false, err
		}
	}
	for _, same := range []func() (bool, error){
		func() (bool, error) { return sameNames(a, b, before) },
		func() (bool, error) { return sameObjects(a, b, before) },
		func() (bool, error) { return sameObjects(b, a, before) },
	} {
		if is, err := same(); !is || err != nil {
			return false, err
		}
	}
	return true, nil
}

// sameNames reports whether what CustomResourceDefinitions said is the same; only that of full indexes is.
func sameNames(a, b *Index, before bool) (bool, error) {
	if !before {
		return true, nil
	}
	names, err := a.Names()
	if err != nil {
		return false, err
	}
	others, err := b.Names()
	return maps.Equal(names, others), err
}

// sameObjects reports whether b has what a has.
func sameObjects(a, b *Index, before bool) (bool, error) {
	if a.hasRemoved {
		next, stop := iter.Pull2(b.ofStream(removals))
		same, err := sameStream(a, len(a.Streams), next, before)
		if stop(); !same || err != nil {
			return false, err
		}
	}
	for i, s := range a.Streams {
		next, stop := iter.Pull2(b.ofStream(s.Name))
		same, err := sameStream(a, i, next, before)
		if stop(); !same || err != nil {
			return false, err
		}
		of := Stream{}
		if n, there := b.Stream(s.Name); there {
			of = b.Streams[n]
			same := s.Cluster == of.Cluster && s.Group == of.Group && s.Version == of.Version &&
				s.Resource == of.Resource && s.Kind == of.Kind
			if !same {
				return false, nil
			}
		}
		if !slices.Equal(s.Marks, of.Marks) || !slices.Equal(s.Begins, of.Begins) || before && s.before != of.before {
			return false, nil
		}
	}
	return true, nil
}

func sameStream(a *Index, stream int, next func() (*Object, error, bool), before bool) (bool, error) {
	for o, err := range a.from(stream, "") {
		if err != nil {
			return false, err
		}
		if !before && len(o.Lines) == 0 {
			continue
		}
		for {
			other, err, there := next()
			if err != nil || !there {
				return false, err
			}
			if other.place == o.place && other.uid == o.uid {
				if !slices.Equal(o.Lines, other.Lines) || before &&
					(!o.Created.Equal(other.Created) || o.Before != other.Before || !slices.Equal(o.refs, other.refs)) {
					return false, nil
				}
				break
			}
			if other.place > o.place {
				return false, nil
			}
		}
	}
	return true, nil
}
