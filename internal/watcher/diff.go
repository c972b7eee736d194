package watcher

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

// verdict is what an object of a list means to the reader.
type verdict int

const (
	isNews      verdict = iota // a line of the type given with it
	isUnchanged                // known at this very version
	isRepeat                   // this list has shown it before, or something newer
)

// diff compares one list with what is known. It decides; it writes nothing.
type diff struct {
	// seen holds the objects that the list has shown, at the version shown last.
	seen  seenSet
	shown int // how many those are
	// highest is the latest version among those, of versions that have an order; 0 for none
	highest version
	// known looks an object up by name among those that the reader was told of before this list; nil where there are
	// none.
	known func(namespace, name string) (object.Known, bool, error)
}

// decision is what an object of a list means.
type decision struct {
	verdict
	typ line.Type // of the line, with isNews
	// replaced says that old is another object under the name, which must be gone.
	replaced bool
	// old is what is known under the name; set with isUnchanged, replaced, and a MODIFIED of what the list has not
	// shown before.
	old object.Known
}

// observe takes an object of the list, as an event of type t: a streamed list shows ADDED, and before its end also what
// happens meanwhile.
func (d *diff) observe(t line.Type, namespace, name, uid, rv []byte) (decision, error) {
	id, v := identify(uid, namespace, name), parseVersion(rv)
	if d.highest.before(v) {
		d.highest = v
	}
	shown := d.seen.at(id)
	last := *shown
	if last == v || last == gone && t == line.Deleted || v.before(last) {
		return decision{verdict: isRepeat}, nil
	}
	var k object.Known
	found := false
	if last == 0 {
		d.shown++
		if d.known != nil {
			var err error
			if k, found, err = d.known(string(namespace), string(name)); err != nil {
				return decision{}, err
			}
		}
	}
	same := found && k.UID == string(uid)
	if t == line.Deleted {
		*shown = gone
		if last == 0 && !same {
			return decision{verdict: isRepeat}, nil // came and went: the reader was never told
		}
		return decision{typ: line.Deleted}, nil
	}
	*shown = v
	switch {
	case same && k.ResourceVersion == string(rv) && !k.Doubtful:
		return decision{verdict: isUnchanged, old: k}, nil
	case same, last != 0 && last != gone:
		return decision{typ: line.Modified, old: k}, nil
	case found:
		// A name is free again once its object is gone; the list may have said so.
		if replaced := d.seen.at(identify(k.UID, k.Namespace, k.Name)); *replaced != gone {
			*replaced = gone
			return decision{typ: line.Added, replaced: true, old: k}, nil
		}
	}
	return decision{typ: line.Added}, nil
}

// has reports whether the list has shown an object.
func (d *diff) has(namespace, name, uid []byte) bool {
	return d.seen.get(identify(uid, namespace, name)) != 0
}

// exceeds returns the latest version that the list has shown an object at, and reports whether it comes after rv.
func (d *diff) exceeds(rv string) (latest uint64, exceeds bool) {
	return uint64(d.highest) - 1, parseVersion([]byte(rv)).before(d.highest)
}

// release gives the memory back.
func (d *diff) release() { d.seen.release() }

// missing reports whether a known object was not in the list. To ask is right only once the list is complete.
func (d *diff) missing(k object.Known) bool {
	return d.seen.get(identify(k.UID, k.Namespace, k.Name)) == 0
}
