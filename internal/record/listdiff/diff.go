// Package listdiff compares a list that a server sends with what is known of its objects.
package listdiff

import (
	"hash/fnv"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// version is a resourceVersion in 8 bytes. Two of one object are compared only within one list.
type version uint64

const (
	// gone is the version of an object that was deleted in mid-list.
	gone = ^version(0)
	// hashed marks what is no number, or one that leaves no room for the mark: 63 bits of a hash of it.
	hashed = version(1) << 63
)

// parseVersion returns neither 0 nor gone.
func parseVersion(rv []byte) version {
	if n, ok := line.VersionNumber(rv); ok {
		return version(n) + 1
	}
	h := fnv.New64a()
	h.Write(rv)
	return min(hashed|version(h.Sum64()), gone-1)
}

// before reports whether v is an earlier version than w: only numbers have an order.
func (v version) before(w version) bool { return v < w && w < hashed }

// Verdict is what an object of a list means to the reader.
type Verdict int

// What an object may mean.
const (
	News      Verdict = iota // a line of the type given with it
	Unchanged                // known at this very version
	Repeat                   // this list has shown it before, or something newer
)

// Diff compares one list with what is known. It decides; it writes nothing.
type Diff struct {
	// seen holds the objects that the list has shown, at the version shown last.
	seen  seenSet
	Shown int // how many those are
	// highest is the latest version among those, of versions that have an order; 0 for none
	highest version
	// Known looks an object up by name among those that the reader was told of before this list; nil where there are
	// none.
	Known func(namespace, name string) (object.Known, bool, error)
}

// Decision is what an object of a list means.
type Decision struct {
	Verdict
	Type line.Type // of the line, with News
	// Replaced says that Old is another object under the name, which must be gone.
	Replaced bool
	// Old is what is known under the name; set with Unchanged, Replaced, and a MODIFIED of what the list has not
	// shown before.
	Old object.Known
}

// Observe takes an object of the list, as an event of type t: a streamed list shows ADDED, and before its end also what
// happens meanwhile.
func (d *Diff) Observe(t line.Type, namespace, name, uid, rv []byte) (Decision, error) {
	id, v := identify(uid, namespace, name), parseVersion(rv)
	if d.highest.before(v) {
		d.highest = v
	}
	shown := d.seen.at(id)
	last := *shown
	if last == v || last == gone && t == line.Deleted || v.before(last) {
		return Decision{Verdict: Repeat}, nil
	}
	var k object.Known
	found := false
	if last == 0 {
		d.Shown++
		if d.Known != nil {
			var err error
			if k, found, err = d.Known(string(namespace), string(name)); err != nil {
				return Decision{}, err
			}
		}
	}
	same := found && k.UID == string(uid)
	if t == line.Deleted {
		*shown = gone
		if last == 0 && !same {
			return Decision{Verdict: Repeat}, nil // came and went: the reader was never told
		}
		return Decision{Type: line.Deleted}, nil
	}
	*shown = v
	switch {
	case same && k.ResourceVersion == string(rv) && !k.Doubtful:
		return Decision{Verdict: Unchanged, Old: k}, nil
	case same, last != 0 && last != gone:
		return Decision{Type: line.Modified, Old: k}, nil
	case found:
		// A name is free again once its object is gone; the list may have said so.
		if replaced := d.seen.at(identify(k.UID, k.Namespace, k.Name)); *replaced != gone {
			*replaced = gone
			return Decision{Type: line.Added, Replaced: true, Old: k}, nil
		}
	}
	return Decision{Type: line.Added}, nil
}

// Has reports whether the list has shown an object.
func (d *Diff) Has(namespace, name, uid []byte) bool {
	return d.seen.get(identify(uid, namespace, name)) != 0
}

// Exceeds returns the latest version that the list has shown an object at, and reports whether it comes after rv.
func (d *Diff) Exceeds(rv string) (latest uint64, exceeds bool) {
	return uint64(d.highest) - 1, parseVersion([]byte(rv)).before(d.highest)
}

// Release gives the memory back.
func (d *Diff) Release() { d.seen.release() }

// Missing reports whether a known object was not in the list. To ask is right only once the list is complete.
func (d *Diff) Missing(k object.Known) bool {
	return d.seen.get(identify(k.UID, k.Namespace, k.Name)) == 0
}
