package encode

import "hash/maphash"

// recent is a cache of the uids of the objects that a stream has met, by name. With it, most events need no read of the
// checkpoint, and it has what is not committed yet. The checkpoint may know a name that it lacks. It is a hash table of
// a bounded size, in which a name may take the place of another one. The zero value is empty.
type recent struct {
	slots []recentName // their number is a power of 2
	count int          // of slots that were empty before
}

type recentName struct{ name, uid uint64 } // hashes; name is 0 in an empty slot

const (
	leastRecent = 64
	mostRecent  = 1 << 14 // 256 KiB
)

// Random seeds make the hashes unpredictable, since the server chooses the uids.
var seed, second = maphash.MakeSeed(), maphash.MakeSeed()

// UIDState is what is known of the uid under a name.
type UIDState int

// What may be known of a uid.
const (
	UIDUnknown UIDState = iota
	UIDSame
	UIDOther
)

func hashName(namespace, name []byte) uint64 {
	text := make([]byte, 0, 128) // on the stack, where that is enough
	text = append(append(append(text, namespace...), 0), name...)
	return maphash.Bytes(seed, text) | 1
}

// look reports what is known under a name.
func (r *recent) look(namespace, name, uid []byte) UIDState {
	hash := hashName(namespace, name)
	switch slot := r.find(hash); {
	case slot == nil || slot.name != hash:
		return UIDUnknown
	case slot.uid == maphash.Bytes(second, uid):
		return UIDSame
	}
	return UIDOther
}

// put notes that an object has a name.
func (r *recent) put(namespace, name, uid []byte) {
	if r.count >= len(r.slots)/4 && len(r.slots) < mostRecent {
		old := r.slots
		r.slots, r.count = make([]recentName, max(leastRecent, 4*len(old))), 0
		for _, s := range old {
			if s.name != 0 {
				r.set(s)
			}
		}
	}
	r.set(recentName{hashName(namespace, name), maphash.Bytes(second, uid)})
}

func (r *recent) set(s recentName) {
	slot := r.find(s.name)
	if slot.name == 0 {
		r.count++
	}
	*slot = s
}

// remove notes that nothing has a name any more.
func (r *recent) remove(namespace, name []byte) {
	hash := hashName(namespace, name)
	if slot := r.find(hash); slot != nil && slot.name == hash {
		*slot = recentName{}
		r.count--
	}
}

// reset forgets all.
func (r *recent) reset() { *r = recent{} }

// ways is how many slots a name may be in.
const ways = 4

// find returns the slot of a name, else one that is empty, else that of a name whose place it takes; nil where there
// are none.
func (r *recent) find(hash uint64) (slot *recentName) {
	for i := range uint64(min(ways, len(r.slots))) {
		s := &r.slots[(hash>>1+i)&uint64(len(r.slots)-1)]
		if s.name == hash {
			return s
		}
		if slot == nil || slot.name != 0 && s.name == 0 {
			slot = s
		}
	}
	return slot
}
