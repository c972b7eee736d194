package listdiff

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// identity distinguishes objects over time and from each other: by uid, namespace and name. A server may give several
// objects one uid, or none.
type identity [16]byte

// identify returns an object's identity: two hashes with seeds that nobody can foresee. That two of a million objects
// share one by chance has a probability of 1.5e-27.
func identify[S ~string | ~[]byte](uid, namespace, name S) (id identity) {
	text := make([]byte, 0, 160) // on the stack, where that is enough
	text = append(append(text, uid...), 0)
	text = append(append(text, namespace...), 0)
	text = append(text, name...)
	binary.LittleEndian.PutUint64(id[:8], maphash.Bytes(seed, text))
	binary.LittleEndian.PutUint64(id[8:], maphash.Bytes(second, text))
	return id
}

// seenSet is what a list has shown until now: the version shown last, by identity. It is a hash table of 24 bytes per
// object, at least 0.7 full, in parts that grow one by one and a little at a time. It lies outside of Go's heap, for
// which the garbage collector would keep as much again in reserve, and goes back to the system when the list ends; so
// GOMEMLIMIT does not see it. A list of a million objects takes 46 bytes of resident memory for each, and 155 with a Go
// map in its place, in the same time (BenchmarkDiff with -benchtime 3000001x, each way in a process of its own).
//
// The zero value is empty. Whoever has put something in must call release. Not for concurrent use.
type seenSet struct{ parts [seenParts]seenPart }

const (
	seenParts = 64
	partBits  = 6 // of the hash, which choose the part
)

// The seeds make hashes that nobody can foresee: uids may be chosen by whoever serves them.
var seed, second = maphash.MakeSeed(), maphash.MakeSeed()

type seenPart struct {
	slots  []seenObject // linear probing; where version is 0 is none
	mapped []byte       // backs slots, or is nil where Go's heap does
	count  int
}

// seenObject holds no pointers: the garbage collector passes over it.
type seenObject struct {
	id      identity
	version version
}

// get returns the version that an object was shown at, 0 when it was not.
func (s *seenSet) get(id identity) version {
	part, hash := s.part(id)
	if len(part.slots) == 0 {
		return 0
	}
	return part.find(id, hash).version
}

// at returns where the version is noted that an object was shown at. It is 0 for one that was not shown; then it must
// be set before the next call.
func (s *seenSet) at(id identity) *version {
	part, hash := s.part(id)
	if part.count >= len(part.slots)-len(part.slots)/8 {
		s.grow(part)
	}
	slot := part.find(id, hash)
	if slot.version == 0 {
		part.count++
		slot.id = id
	}
	return &slot.version
}

// part returns the part that an object belongs to, and what is left of its hash.
func (s *seenSet) part(id identity) (*seenPart, uint64) {
	hash := binary.LittleEndian.Uint64(id[:8])
	return &s.parts[hash>>(64-partBits)], hash << partBits
}

// find returns the slot of an object: the one that holds it, or the empty one where it would be. There is always one.
func (p *seenPart) find(id identity, hash uint64) *seenObject {
	// Into the range of slots by multiplication: their number is no power of 2.
	at, _ := bits.Mul64(hash, uint64(len(p.slots)))
	for {
		slot := &p.slots[at]
		if slot.version == 0 || slot.id == id {
			return slot
		}
		if at++; at == uint64(len(p.slots)) {
			at = 0
		}
	}
}

// grow makes a part larger by a quarter, and a little.
func (s *seenSet) grow(part *seenPart) {
	old := *part
	part.allocate(len(old.slots) + len(old.slots)/4 + 16)
	for i := range old.slots {
		if o := &old.slots[i]; o.version != 0 {
			_, hash := s.part(o.id)
			*part.find(o.id, hash) = *o
		}
	}
	old.release()
}

// mapFrom is from how many slots on a part lies outside of Go's heap. Most lists stay below.
const mapFrom = 1024

// allocate gives a part at least n empty slots.
func (p *seenPart) allocate(n int) {
	const size = int(unsafe.Sizeof(seenObject{}))
	if n >= mapFrom {
		pages := (n*size + os.Getpagesize() - 1) / os.Getpagesize()
		mapped, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_ANON|unix.MAP_PRIVATE)
		if err == nil {
			p.mapped = mapped
			p.slots = unsafe.Slice((*seenObject)(unsafe.Pointer(unsafe.SliceData(mapped))), len(mapped)/size)
			return
		}
		// The system allows no more maps. Then in the heap, at its cost.
	}
	p.mapped, p.slots = nil, make([]seenObject, n)
}

// release gives a part's memory back.
func (p *seenPart) release() {
	if p.mapped != nil {
		_ = unix.Munmap(p.mapped) // fails for what was not mapped only
	}
	*p = seenPart{}
}

// release empties s and gives its memory back.
func (s *seenSet) release() {
	for i := range s.parts {
		s.parts[i].release()
	}
}
