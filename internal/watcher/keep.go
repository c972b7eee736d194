package watcher

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/changes"
	"kubejournal/internal/event"
	"kubejournal/internal/recorder"
)

// keeper keeps, for a stream that says what changed or ignores some of it, the
// version of each object that an event of it is compared with: the one before,
// where ignoreFields has not held that back. It stands in the checkpoint, committed
// with the line of that version; what is not committed yet is here too.
//
// What is kept only helps: where it is missing, or cannot be read, a line says
// less, or is written that need not be.
//
// A value that is kept begins with what is in it:
//
//	byte       keptDigest, keptObject, keptWithheld
//	16 bytes   digest, with keptDigest
//	the rest   the object as its line has it, packed, with keptObject
//
// and the header of a stream is
//
//	byte       recorder.KeepsLines, keepsObjects, keepsPart
//	4 bytes    sum of excludeNamespaces, of whose objects nothing is kept
//	16 bytes   event.Shape.Fingerprint: made otherwise, all that was kept goes
//	the rest   the base that objects are packed with; empty until there are enough
type keeper struct {
	stream string
	store  Store
	lane   *recorder.Lane
	log    *zap.Logger

	changes  bool              // objects are kept
	digester *changes.Digester // nil: digests are not kept

	header [headerSize]byte
	// due says that the header is yet to be put into a batch; sent is the number of
	// the last one that it went into.
	due    bool
	sent   uint64
	packer *event.Packer
	// base is what the packer has, once it is fixed; until then what was collected.
	base      []byte
	collected int // objects
	fixed     bool

	// fresh holds what may not be committed yet, by key, and order when it came.
	fresh map[string]freshly
	order []arrival

	object, value, key []byte // scratch
	unreadable         bool   // a value could not be read, and that was logged
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

	keepsObjects = 2
	// keepsPart is set until all known objects are kept, or have been tried.
	keepsPart = 4

	excludesAt = 1
	shapeAt    = excludesAt + 4
	headerSize = shapeAt + 16
	// baseBytes and baseObjects are how much is collected for a base: what is
	// alike in a stream's objects shows in a few of them.
	baseBytes   = 16 << 10
	baseObjects = 16
)

// newKeeper returns nil for a stream that has nothing to compare.
func newKeeper(spec *Spec, store Store, lane *recorder.Lane, log *zap.Logger) (*keeper, error) {
	if !spec.Changes && len(spec.IgnoreFields) == 0 {
		return nil, nil
	}
	k := &keeper{stream: spec.Name, store: store, lane: lane, log: log, changes: spec.Changes, fresh: make(map[string]freshly)}
	if len(spec.IgnoreFields) > 0 {
		var err error
		if k.digester, err = changes.NewDigester(spec.Shape, spec.IgnoreFields); err != nil {
			return nil, err
		}
	}
	if spec.Payload == "" || spec.Payload == event.WholeObject {
		k.header[0] |= recorder.KeepsLines
	}
	if spec.Changes {
		k.header[0] |= keepsObjects
	}
	excluded := crc32.ChecksumIEEE([]byte(strings.Join(spec.Selection.ExcludeNamespaces, ",")))
	binary.BigEndian.PutUint32(k.header[excludesAt:], excluded)
	mark := spec.Shape.Fingerprint(spec.IgnoreFields)
	copy(k.header[shapeAt:], mark[:])
	return k, nil
}

// load takes the header from the checkpoint, which has all that was submitted.
// What was kept otherwise goes. behind tells that there may be known objects of
// which nothing is kept that is of use; stale, that the header is to be committed
// before there is a line: one that a crash leaves is read back by it.
func (k *keeper) load() (behind, stale bool, err error) {
	k.committed()
	header, ok, err := k.store.KeptHeader(k.stream)
	if err != nil {
		return false, false, fmt.Errorf("%w: %w", errStore, err)
	}
	k.packer, k.base, k.collected, k.fixed, k.due = event.NewPacker(nil), nil, 0, false, true
	k.header[0] |= keepsPart
	if len(header) < headerSize || !bytes.Equal(header[shapeAt:headerSize], k.header[shapeAt:]) {
		if ok {
			err = k.store.DropKept(k.stream)
		}
		return true, true, err
	}
	behind = !k.lasting() || k.changes && header[0]&keepsObjects == 0 || header[0]&keepsPart != 0 ||
		!bytes.Equal(header[excludesAt:shapeAt], k.header[excludesAt:shapeAt])
	if !behind {
		k.header[0] &^= keepsPart
	}
	k.due = !bytes.Equal(header[:headerSize], k.header[:])
	if base := header[headerSize:]; len(base) > 0 {
		k.packer, k.base, k.fixed = event.NewPacker(base), base, true
	}
	return behind, k.due, nil
}

// complete notes in the batch that all known objects are kept, as far as they can
// be; without it another start looks once more.
func (k *keeper) complete(b *recorder.Batch) {
	if k.header[0]&keepsPart != 0 {
		k.header[0] &^= keepsPart
		k.putHeader(b)
	}
}

// lasting tells whether what an earlier life has kept is of use.
func (k *keeper) lasting() bool { return k.digester == nil || k.digester.Durable() }

// committed tells that the checkpoint has all that was submitted, and that what
// else there was never will be.
func (k *keeper) committed() {
	clear(k.fresh)
	k.order = k.order[:0]
	k.due = k.due || k.sent > k.lane.Committed()
}

// kept is what is kept of an object. Its bytes are good until the next one is
// asked for.
type kept struct {
	digest   changes.Digest
	hasSum   bool
	object   []byte // as its line had it; nil where it is not kept
	packed   []byte // the same, as it is kept
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
	v, err := k.decode(value)
	if err != nil {
		if !k.unreadable {
			k.unreadable = true
			k.log.Error("what is kept of an object cannot be read, going on without it", zap.Error(err))
		}
		return kept{}, nil
	}
	return v, nil
}

func (k *keeper) decode(value []byte) (v kept, err error) {
	if len(value) == 0 {
		return v, nil
	}
	has, rest := value[0], value[1:]
	v.withheld = has&keptWithheld != 0
	if has&keptDigest != 0 && len(rest) >= len(v.digest) {
		rest = rest[copy(v.digest[:], rest):]
		v.hasSum = k.digester != nil
	}
	if has&keptObject == 0 {
		return v, nil
	}
	v.packed = rest
	if k.object, err = k.packer.Unpack(k.object[:0], rest, event.MaxObject); err != nil {
		return kept{}, err
	}
	v.object = k.object
	if !v.hasSum && k.digester != nil && k.digester.Durable() {
		// It was read back from the journal.
		if v.digest, err = k.digester.Digest(v.object); err != nil {
			return kept{}, err
		}
		v.hasSum = true
	}
	return v, nil
}

// lacks tells whether something is missing in what is kept of an object at the
// version that digest is of.
func (k *keeper) lacks(v kept, digest changes.Digest) bool {
	return k.changes && v.object == nil ||
		k.digester != nil && (!v.hasSum || !k.lasting() && v.digest != digest)
}

// encode appends what is to be kept of an object. packed is what is kept of it
// already; where that is nil, shaped is packed: the object as its line has it.
func (k *keeper) encode(dst, packed, shaped []byte, digest changes.Digest, withheld bool) []byte {
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
		if packed != nil {
			return append(dst, packed...)
		}
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

// nothing appends what is to be kept of an object that is not known: the next version has none to be compared with.
func (k *keeper) nothing(dst []byte, withheld bool) []byte {
	if withheld {
		return append(dst, keptWithheld)
	}
	return append(dst, 0)
}

// put keeps a value from the batch's commit on.
func (k *keeper) put(b *recorder.Batch, namespace, name, value []byte) {
	if k.due {
		k.putHeader(b)
	}
	b.Changes.Keep(namespace, name, value)
	k.note(b.Number(), namespace, name, value)
}

func (k *keeper) putHeader(b *recorder.Batch) {
	header := k.header[:]
	if k.fixed {
		header = append(header[:len(header):len(header)], k.base...)
	}
	b.Changes.KeepHeader(header)
	k.due, k.sent = false, b.Number()
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
func (s *Stream) loadKept(ctx context.Context) error {
	if s.tell.keep == nil {
		_, ok, err := s.store.KeptHeader(s.spec.Name)
		if err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		if !ok {
			return nil
		}
		return s.store.DropKept(s.spec.Name)
	}
	behind, stale, err := s.tell.keep.load()
	if err != nil {
		return err
	}
	if s.behind = behind; !stale {
		return nil
	}
	b := s.lane.Batch()
	s.tell.keep.putHeader(b)
	if err := s.rec.Submit(ctx, b); err != nil {
		return err
	}
	return s.rec.Flush(ctx)
}

const (
	// catchUpTime is how long catchUp may take before the watch goes on without:
	// the server does not keep its history for ever.
	catchUpTime = time.Minute
	// catchUpTries is how often, of sessions that follow each other.
	catchUpTries = 3
)

// catchUp reads all objects and keeps those that are still as the reader was told
// of last, so that their next event can be compared. It writes no line and moves no
// position; what has changed since comes as an event, and is kept then. Where it
// fails, the stream goes on without, and tries once more in a later session.
func (s *Stream) catchUp(ctx context.Context) error {
	s.setState(Listing, "")
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	s.tell.committed()
	limited, cancel := context.WithTimeout(ctx, catchUpTime)
	err := s.keepAll(limited, ctx)
	cancel()
	s.tried++
	s.behind = err != nil && s.tried < catchUpTries
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case errors.Is(err, errStore):
		return err // the checkpoint's fault, and the end of the daemon
	case classify(ctx, err).action == actionWait:
		return err // a watch would not be allowed either
	}
	s.log.Info("cannot read all objects to compare the next events with, going on without", zap.Error(err))
	// What it has not submitted is not kept.
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	s.tell.committed()
	return nil
}

// keepAll is catchUp's reading. Its requests end with the first context, its
// writing with the second.
func (s *Stream) keepAll(request, ctx context.Context) error {
	b := s.lane.Batch()
	defer func() { b.Release() }()
	submit := func() error {
		full := b
		b = s.lane.Batch()
		return s.rec.Submit(ctx, full)
	}
	take := func(o *event.Object) error {
		k, ok, err := s.store.Get(s.spec.Name, string(o.Namespace), string(o.Name))
		if err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		if !ok || k.Doubtful || k.UID != string(o.UID) || k.ResourceVersion != string(o.ResourceVersion) {
			return nil
		}
		value, err := s.tell.missing(o, k.Withheld)
		if err != nil || value == nil {
			return err
		}
		s.tell.keep.put(b, o.Namespace, o.Name, value)
		if b.Bytes() < batchBytes {
			return nil
		}
		return submit()
	}
	for token := ""; ; {
		meta, err := s.readPage(request, pageSize, token, take)
		if err != nil {
			return err
		}
		if token = meta.Continue; token == "" {
			s.tell.keep.complete(b)
			return submit()
		}
	}
}
