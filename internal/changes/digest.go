package changes

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"

	"kubejournal/internal/event"
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
type Digester struct {
	r      *event.Renderer
	o      event.Object
	h      hash.Hash
	prefix []byte // what every digest begins with
	sum    [sha256.Size]byte
	hidden bool // what is redacted is looked at
}

// unsaid are the paths that no Digester looks at.
var unsaid = []string{"kind", "apiVersion", "metadata.resourceVersion", "metadata.generation", "metadata.managedFields"}

// NewDigester returns a Digester for the objects of a stream with this shape. The paths to ignore are written like
// those of a Shape.
func NewDigester(shape event.Shape, ignore []string) (*Digester, error) {
	for _, p := range ignore {
		if err := event.ValidatePath(p); err != nil {
			return nil, fmt.Errorf("ignore path %q: %w", p, err)
		}
	}
	mark := shape.Fingerprint(ignore)
	shape.Drop = slices.Concat(shape.Drop, ignore, unsaid)
	r, err := event.NewRenderer(event.Source{Stream: "digest"}, shape)
	if err != nil {
		return nil, err
	}
	d := &Digester{r: r, h: sha256.New(), prefix: mark[:], hidden: shape.Redacts()}
	if d.hidden {
		key := make([]byte, sha256.BlockSize)
		rand.Read(key) // never fails: see crypto/rand
		d.prefix = append(key, d.prefix...)
	}
	return d, nil
}

// Durable reports whether the digests are worth keeping over a restart, if there are any.
func (d *Digester) Durable() bool { return d == nil || !d.hidden }

// Digest looks at one object as the server sent it, with or without the rest of a watch event behind it. Where
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
