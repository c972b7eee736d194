package index

import (
	"iter"
	"slices"
)

// Equal reports whether two indexes say the same of a segment: of its lines and, if before is true, of what was there before
// it.
func Equal(a, b *Index, before bool) (bool, error) {
	same := a.FirstSeq == b.FirstSeq && a.Next == b.Next && a.Lines == b.Lines && a.Size == b.Size && a.Head == b.Head && a.Oldest.Equal(b.Oldest) &&
		a.Newest.Equal(b.Newest) && a.Earliest.Equal(b.Earliest)
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
	if same, err := sameObjects(a, b, before); !same {
		return false, err
	}
	return sameObjects(b, a, before)
}

// sameObjects reports whether b has what a has.
func sameObjects(a, b *Index, before bool) (bool, error) {
	for i, s := range a.Streams {
		next, stop := iter.Pull2(b.ofStream(s.Name))
		same, err := sameStream(a, i, next, before)
		if stop(); !same || err != nil {
			return false, err
		}
		of := Stream{}
		if n, there := b.Stream(s.Name); there {
			of = b.Streams[n]
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
			if other.place == o.place && other.UID == o.UID {
				if !slices.Equal(o.Lines, other.Lines) || before && (!o.Created.Equal(other.Created) || o.Before != other.Before || !slices.Equal(o.Refs, other.Refs)) {
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
