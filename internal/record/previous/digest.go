package previous

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/object"
)

// Digest is 128 bits of SHA-256 of what a Digester looks at in one version of an object.
type Digest [16]byte

// Digester finds out whether two versions of an object differ in anything but what is to be ignored: their digests
// are the same if not. It is for one goroutine.
//
// A digest is of the object as the journal would hold it, less the ignored paths, less what changes with every write
// and says nothing itself, and less kind and apiVersion, which servers leave out of the items of a list (see unsaid).
// The bytes are taken as the server sent them, and the paths and the Shape are part of the digest. In doubt, then, a
// version is taken for another one, and its line is written.
//
// What a Shape redacts is looked at too, for otherwise a Secret whose data changed would pass for the same. A digest
// of a short secret gives it away to whoever tries all that it could be, so those digests are keyed with a number
// that only this Digester knows and that is never stored. They match nothing after a restart: Durable is then false.
// Nor are they stored as they are, but sealed: the objects of a stream, and the versions of one of them, may be the
// same but for what is ignored, and nobody is to see in the checkpoint which secrets are equal, or were before.
type Digester struct {
	r      *object.Renderer
	o      object.Object
	h      hash.Hash
	prefix []byte // what every digest begins with
	sum    [sha256.Size]byte

	seals   hash.Hash // HMAC-SHA-256; nil where nothing is hidden: what is redacted is not looked at
	sealed  uint64    // number of the last one; the first is random
	scratch []byte
}

// unsaid are the paths that no Digester looks at.
var unsaid = []string{"kind", "apiVersion", "metadata.resourceVersion", "metadata.generation", "metadata.managedFields"}

// NewDigester returns a Digester for the objects of a stream with this shape. The paths to ignore are written like
// those of a Shape.
func NewDigester(shape object.Shape, ignore []string) (*Digester, error) {
	for _, p := range ignore {
		if _, err := fieldpath.Parse(p); err != nil {
			return nil, fmt.Errorf("ignore path %q: %w", p, err)
		}
	}
	mark := shape.Fingerprint(ignore)
	shape.Drop = slices.Concat(shape.Drop, ignore, unsaid)
	r, err := object.NewRenderer(object.Source{Stream: "digest"}, shape)
	if err != nil {
		return nil, err
	}
	d := &Digester{r: r, h: sha256.New(), prefix: mark[:]}
	if shape.Redacts() {
		key := make([]byte, sha256.BlockSize)
		rand.Read(key) // never fails: see crypto/rand
		d.prefix, d.seals = append(key, d.prefix...), newMAC(newKey())
		d.sealed = binary.BigEndian.Uint64(newKey())
	}
	return d, nil
}

// Durable reports whether the digests are worth keeping over a restart, if there are any.
func (d *Digester) Durable() bool { return d == nil || d.seals == nil }

// seal returns a digest as it is stored. One of what is hidden becomes a number that no other has, and the beginning of
// a MAC of both.
func (d *Digester) seal(sum Digest) Digest {
	if d.seals == nil {
		return sum
	}
	d.sealed++
	return d.sealWith(d.sealed, sum)
}

// same reports whether a stored digest is of the same as one that was just made.
func (d *Digester) same(stored, sum Digest) bool {
	return stored == sum || d.seals != nil && stored == d.sealWith(binary.BigEndian.Uint64(stored[:8]), sum)
}

func (d *Digester) sealWith(number uint64, sum Digest) (sealed Digest) {
	d.seals.Reset()
	binary.BigEndian.PutUint64(sealed[:], number)
	d.scratch = append(append(d.scratch[:0], sealed[:8]...), sum[:]...)
	d.seals.Write(d.scratch) // never fails: see hash.Hash
	d.scratch = d.seals.Sum(d.scratch[:0])
	copy(sealed[8:], d.scratch)
	return sealed
}

// Digest looks at one object as the server sent it, with or without the rest of a watch event after it. Where
// nothing is redacted, what AppendShaped wrote has the same digest.
func (d *Digester) Digest(raw []byte) (Digest, error) {
	if err := d.r.Scan(raw, &d.o); err != nil {
		return Digest{}, err
	}
	defer d.o.Reset()
	d.h.Reset()
	d.h.Write(d.prefix)
	for piece := range d.o.Unredacted() {
		d.h.Write(piece) // never fails: see hash.Hash
	}
	return Digest(d.h.Sum(d.sum[:0])[:len(Digest{})]), nil
}
