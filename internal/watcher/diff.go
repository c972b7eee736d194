package watcher

import (
	"crypto/sha256"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
)

// identity tells objects apart over time: the uid, or for objects without one
// (some aggregated APIs) the name. Fixed size, since a list of a million
// objects keeps a million of them.
type identity [16]byte

// identify returns an object's identity.
func identify(uid, namespace, name string) identity {
	if uid == "" {
		uid = namespace + "\x00" + name
	}
	sum := sha256.Sum256([]byte(uid))
	return identity(sum[:16])
}

// version is a resourceVersion in 8 bytes: the number, or a hash of a version
// that is none. Two of one object are compared only within one list.
type version struct {
	key     uint64
	numeric bool
}

func parseVersion(rv string) version {
	if n, err := strconv.ParseUint(rv, 10, 63); err == nil {
		return version{key: n, numeric: true}
	}
	h := fnv.New64a()
	h.Write([]byte(rv))
	return version{key: h.Sum64()}
}

// gone stands for the version of an object that was deleted in mid-list.
const gone = ^uint64(0)

// verdict is what an object of a list means to the reader.
type verdict int

const (
	isNews      verdict = iota // a line of the type given with it
	isUnchanged                // known at this very version
	isRepeat                   // this list has shown it before, or something newer
)

// diff compares one list with what is known. It decides; it writes nothing.
type diff struct {
	// seen holds the objects that the list has shown, at the version shown
	// last: its memory, some 30 bytes per object.
	seen map[identity]uint64
	// known looks an object up by name among those that the reader was told of.
	known func(namespace, name string) (checkpoint.Known, bool, error)
}

// observe takes an object of the list, as an event of type t: a streamed list
// shows ADDED, and before its end also what happens meanwhile.
func (d *diff) observe(t event.Type, namespace, name, uid, rv string) (verdict, event.Type, error) {
	id, v := identify(uid, namespace, name), parseVersion(rv)
	last, again := d.seen[id]
	if again && (last == v.key || last == gone && t == event.Deleted || v.numeric && last != gone && v.key < last) {
		return isRepeat, t, nil
	}
	if again {
		d.seen[id] = v.key
		switch {
		case t == event.Deleted:
			d.seen[id] = gone
			return isNews, event.Deleted, nil
		case last == gone:
			return isNews, event.Added, nil
		}
		return isNews, event.Modified, nil
	}
	k, ok, err := d.known(namespace, name)
	if err != nil {
		return 0, t, err
	}
	ok = ok && k.UID == uid
	if t == event.Deleted {
		d.seen[id] = gone
		if !ok {
			return isRepeat, t, nil // came and went: the reader was never told
		}
		return isNews, event.Deleted, nil
	}
	d.seen[id] = v.key
	switch {
	case !ok:
		return isNews, event.Added, nil
	case k.ResourceVersion == rv && !k.Doubtful:
		return isUnchanged, t, nil
	}
	return isNews, event.Modified, nil
}

// missing tells whether a known object was not in the list. To ask is right
// only once the list is complete.
func (d *diff) missing(k checkpoint.Known) bool {
	_, seen := d.seen[identify(k.UID, k.Namespace, k.Name)]
	return !seen
}

// ahead tells whether position is a later version than current. Only versions
// of the usual form can be compared (KEP-5504).
func ahead(position, current string) bool {
	c, err := resourceversion.CompareResourceVersion(position, current)
	return err == nil && c > 0
}
