package watcher

import (
	"bytes"
	"context"
	"fmt"

	"kubejournal/internal/event"
	"kubejournal/internal/recorder"
)

// keeper keeps, for a stream that says what changed or ignores some of it, the
// version of each object that an event of it was last compared with: the one
// before, where ignoreFields has not held that back. It stands in the checkpoint,
// committed with the line of that version; what is not committed yet is here too.
//
// A value that is kept begins with what is in it:
//
//	byte       keptDigest, keptObject, keptWithheld
//	16 bytes   digest, with keptDigest
//	the rest   the object as its line has it, packed, with keptObject
//
// and the header of a stream is
//
//	byte       recorder.KeepsLines or 0
//	16 bytes   event.Shape.Fingerprint: made otherwise, all that was kept goes
//	the rest   the base that objects are packed with; empty until there are enough
type keeper struct {
	stream string
	store  Store
	lane   *recorder.Lane

	changes  bool            // objects are kept
	digester *event.Digester // nil: digests are not kept

	header [headerSize]byte
	due    bool // the header is not with the recorder yet
	packer *event.Packer
	// base is what the packer has, once it is fixed; until then what was collected.
	base      []byte
	collected int // objects
	fixed     bool

	// fresh holds what may not be committed yet, by key, and order when it came.
	fresh map[string]freshly
	order []arrival

	object, value, key []byte // scratch
}

// freshly is a value with the number of its batch; an empty value: nothing is kept.
type freshly struct {
	number uint64
	value  []byte
}

type arrival struct {
	number uint64
	key    string
}

const (
	keptDigest   = 1
	keptObject   = recorder.KeptObject
	keptWithheld = 4

	headerSize = 1 + 16
	// baseBytes and baseObjects are how much is collected for a base: what is
	// alike in a stream's objects shows in a few of them.
	baseBytes   = 16 << 10
	baseObjects = 16
)

// newKeeper returns nil for a stream that has nothing to compare.
func newKeeper(spec *Spec, store Store, lane *recorder.Lane) (*keeper, error) {
	if !spec.Changes && len(spec.IgnoreFields) == 0 {
		return nil, nil
	}
	k := &keeper{stream: spec.Name, store: store, lane: lane, changes: spec.Changes, fresh: make(map[string]freshly)}
	if len(spec.IgnoreFields) > 0 {
		var err error
		if k.digester, err = event.NewDigester(spec.Shape, spec.IgnoreFields); err != nil {
			return nil, err
		}
	}
	if spec.Payload == "" || spec.Payload == event.WholeObject {
		k.header[0] = recorder.KeepsLines
	}
	mark := spec.Shape.Fingerprint(spec.IgnoreFields)
	copy(k.header[1:], mark[:])
	return k, nil
}

// load takes the header from the checkpoint, which has all that was submitted.
// What was kept otherwise goes. behind tells that there may be known objects of
// which nothing is kept that is of use.
func (k *keeper) load() (behind bool, err error) {
	k.forget()
	header, err := k.store.KeptHeader(k.stream)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errStore, err)
	}
	k.packer, k.base, k.collected, k.fixed, k.due = event.NewPacker(nil), nil, 0, false, true
	if len(header) < headerSize || !bytes.Equal(header[1:headerSize], k.header[1:]) {
		if header != nil {
			err = k.store.DropKept(k.stream)
		}
		return true, err
	}
	k.due = header[0] != k.header[0]
	if base := header[headerSize:]; len(base) > 0 {
		k.packer, k.base, k.fixed = event.NewPacker(base), base, true
	}
	return k.digester != nil && !k.digester.Durable(), nil
}

// forget lets go of what is here: it is committed, or was never submitted.
func (k *keeper) forget() {
	clear(k.fresh)
	k.order = k.order[:0]
}

// kept is what is kept of an object. Its bytes are good until the next one is
// asked for.
type kept struct {
	digest   event.Digest
	hasSum   bool
	object   []byte // as its line had it; nil where it is not kept
	withheld bool
}

// get returns what is kept of an object; the zero value where nothing is.
func (k *keeper) get(namespace, name []byte) (kept, error) {
	k.prune()
	k.key = append(append(append(k.key[:0], namespace...), 0), name...)
	f, ok := k.fresh[string(k.key)]
	value := f.value
	if !ok {
		var err error
		if k.value, _, err = k.store.Kept(k.value[:0], k.stream, namespace, name); err != nil {
			return kept{}, fmt.Errorf("%w: %w", errStore, err)
		}
		value = k.value
	}
	return k.decode(value)
}

func (k *keeper) decode(value []byte) (v kept, err error) {
	if len(value) == 0 {
		return v, nil
	}
	has, rest := value[0], value[1:]
	v.withheld = has&keptWithheld != 0
	if has&keptDigest != 0 && len(rest) >= len(v.digest) {
		v.hasSum = true
		rest = rest[copy(v.digest[:], rest):]
	}
	if has&keptObject == 0 {
		return v, nil
	}
	if k.object, err = k.packer.Unpack(k.object[:0], rest, maxObject); err != nil {
		return kept{}, fmt.Errorf("kept object of stream %s: %w", k.stream, err)
	}
	v.object = k.object
	if !v.hasSum && k.digester != nil && k.digester.Durable() {
		// It was read back from the journal.
		if v.digest, err = k.digester.Digest(v.object); err != nil {
			return kept{}, fmt.Errorf("kept object of stream %s: %w", k.stream, err)
		}
		v.hasSum = true
	}
	return v, nil
}

// make appends what is to be kept of an object that the stream's renderer has
// scanned. shaped is as its line has it; it is not looked at where no objects are
// kept.
func (k *keeper) make(dst, shaped []byte, digest event.Digest, withheld bool) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if withheld {
		dst[at] |= keptWithheld
	}
	if k.digester != nil {
		dst[at] |= keptDigest
		dst = append(dst, digest[:]...)
	}
	if k.changes {
		dst[at] |= keptObject
		k.collect(shaped)
		dst = k.packer.Pack(dst, shaped)
	}
	return dst
}

// collect takes an object into the base until that is large enough.
func (k *keeper) collect(shaped []byte) {
	if k.fixed {
		return
	}
	k.base = append(k.base, shaped[:min(len(shaped), baseBytes)]...)
	if k.collected++; k.collected >= baseObjects || len(k.base) >= baseBytes {
		k.packer, k.fixed, k.due = event.NewPacker(bytes.Clone(k.base)), true, true
	}
}

// put keeps a value from the batch's commit on.
func (k *keeper) put(b *recorder.Batch, namespace, name, value []byte) {
	if k.due {
		header := k.header[:]
		if k.fixed {
			header = append(header[:len(header):len(header)], k.base...)
		}
		b.Changes.KeepHeader(header)
		k.due = false
	}
	b.Changes.Keep(namespace, name, value)
	k.note(b.Number(), namespace, name, value)
}

// remove keeps nothing of an object any more.
func (k *keeper) remove(b *recorder.Batch, namespace, name []byte) {
	b.Changes.Unkeep(namespace, name)
	k.note(b.Number(), namespace, name, nil)
}

func (k *keeper) note(number uint64, namespace, name, value []byte) {
	k.prune()
	key := string(namespace) + "\x00" + string(name)
	k.fresh[key] = freshly{number, bytes.Clone(value)}
	k.order = append(k.order, arrival{number, key})
}

// prune lets go of what is committed.
func (k *keeper) prune() {
	committed := k.lane.Committed()
	n := 0
	for ; n < len(k.order) && k.order[n].number <= committed; n++ {
		if key := k.order[n].key; k.fresh[key].number <= committed {
			delete(k.fresh, key)
		}
	}
	if n > 0 {
		k.order = k.order[:copy(k.order, k.order[n:])]
	}
}

// loadKept takes up what the stream keeps. One that keeps nothing any more lets go
// of what it kept: it would be stale when it is wanted again.
func (s *Stream) loadKept() (err error) {
	if s.tell.keep != nil {
		s.behind, err = s.tell.keep.load()
		return err
	}
	header, err := s.store.KeptHeader(s.spec.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if header == nil {
		return nil
	}
	return s.store.DropKept(s.spec.Name)
}

// fill reads all objects and keeps those that are still as the reader was told of
// last, so that their next event can be compared. It writes no line and moves no
// position; what has changed since comes as an event, and is kept then.
func (s *Stream) fill(ctx context.Context) error {
	s.setState(Listing, "")
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	s.tell.flushed()
	b := s.lane.Batch()
	defer func() { b.Release() }()
	take := func(o *event.Object) error {
		if s.tell.sel != nil && s.tell.sel.excludes(o.Namespace) {
			return nil
		}
		k, ok, err := s.store.Get(s.spec.Name, string(o.Namespace), string(o.Name))
		if err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		if !ok || k.Doubtful || k.UID != string(o.UID) || k.ResourceVersion != string(o.ResourceVersion) {
			return nil
		}
		value, err := s.tell.silent(o, k.Withheld)
		if err != nil {
			return fmt.Errorf("%w: %w", errBadFrame, err)
		}
		s.tell.keep.put(b, o.Namespace, o.Name, value)
		if b.Bytes() < batchBytes {
			return nil
		}
		full := b
		b = s.lane.Batch()
		return s.rec.Submit(ctx, full)
	}
	for token := ""; ; {
		meta, err := s.readPage(ctx, pageSize, token, take)
		if err != nil {
			return err
		}
		if token = meta.Continue; token == "" {
			break
		}
	}
	full := b
	b = s.lane.Batch()
	return s.rec.Submit(ctx, full)
}
