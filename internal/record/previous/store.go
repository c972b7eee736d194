// Package previous stores the version of each object that the next one is compared with: the object as its line has it,
// and a keyed digest of each redacted value. It reports whether two versions differ in more than ignoreFields hides.
package previous

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// Store holds the previous versions of a stream's objects: what an event is compared with, for the list of changes or
// to hold back what only ignoreFields names. They are in the checkpoint, each committed with the line of its version;
// what is not committed yet is in memory too. A crash leaves them as the checkpoint has them, and Replay adds what
// the journal's lines say. A missing or unreadable version makes a line less detailed or lets one be written that
// could be left out; it never blocks. A Store is for one goroutine.
//
// A stored version is
//
//	byte       what follows: hasDigest, hasRedacted, hasMark, hasObject; and whether it was withheld
//	16 bytes   its digest, with hasDigest, see Digester.seal
//	uvarint    length of the digests of its redacted values, with hasRedacted
//	           these digests, see redactedValues
//	uvarint    its object.Mark and the series of that, with hasMark
//	the rest   the object as its line has it, packed, with hasObject
//
// and the header of a stream
//
//	byte       linesHaveAll, storesObjects, incomplete; and the series of Marks in the upper bits
//	4 bytes    CRC-32 of excludeNamespaces, of whose objects nothing is stored, and of what else Marks depend on
//	16 bytes   object.Shape.Fingerprint: where it differs, all that was stored is dropped
//	the rest   the base that objects are packed with; empty until there are enough
type Store struct {
	stream     string
	checkpoint Checkpoint
	committed  func() uint64
	log        *zap.Logger

	objects  bool            // objects are stored
	marks    bool            // the Mark of each version is stored
	owners   bool            // the object of each version is stored, with what Owner has to see
	redacted *redactedValues // nil: their redacted values are not compared, or there are none
	digester *Digester       // nil: digests are not stored

	streamHeader
	base        base
	uncommitted map[string]numbered // values that may not be committed yet
	order       []arrival           // of uncommitted
	next        next

	got        struct{ value, object, key []byte } // by the last Get
	unreadable bool                                // a version could not be read, and that was logged
}

// streamHeader is the fixed part of a stream's header. It is due to be put into a batch when it has changed; headerSent
// is the number of the last batch that it went into.
type streamHeader struct {
	header     [headerSize]byte
	headerDue  bool
	headerSent uint64
}

// Checkpoint reads what was committed, and drops it.
type Checkpoint interface {
	Kept(dst []byte, stream string, namespace, name []byte) (value []byte, ok bool, err error)
	KeptHeader(stream string) (header []byte, ok bool, err error)
	DropKept(stream string) error
}

// Config is what a stream asks of its Store.
type Config struct {
	Stream            string
	Changes           bool     // lists of changes
	IgnoreFields      []string // paths
	Shape             object.Shape
	Payload           object.Payload
	ExcludeNamespaces []string
	// EveryVersion says that a line is written of every version. Then the one that is stored is the one just before the
	// next, whatever a crash has left.
	EveryVersion bool
	APIVersion   string // of the objects
}

// Flags of a stored version and of a header, and where the header's fields are.
const (
	hasDigest   = 1
	hasObject   = 2
	withheld    = 4
	hasRedacted = 8
	hasMark     = 16

	linesHaveAll  = 1 // a line has all that is stored of its object
	storesObjects = 2
	incomplete    = 4 // until all known objects are stored, or were tried
	seriesBits    = 5 // above these three
	seriesAt      = 8 - seriesBits
	lastSeries    = 1<<seriesBits - 1

	excludesAt = 1
	shapeAt    = excludesAt + 4
	headerSize = shapeAt + 16
)

// next is the version that Compare was given last.
type next struct {
	digest Digest
	mark   object.Mark
	shaped []byte // the object as its line has it, where objects are stored
	list   []byte // what has changed, see Changes
	value  []byte // what is to be stored, see Value
}

// New returns the Store of a stream, nil for one that compares nothing. committed returns the number of the stream's
// last batch that is committed.
func New(c Config, at Checkpoint, committed func() uint64, log *zap.Logger) (*Store, error) {
	if !c.Changes && len(c.IgnoreFields) == 0 {
		return nil, nil
	}
	s := &Store{stream: c.Stream, checkpoint: at, committed: committed, log: log, objects: c.Changes,
		uncommitted: map[string]numbered{}}
	if len(c.IgnoreFields) > 0 {
		var err error
		if s.digester, err = NewDigester(c.Shape, c.IgnoreFields); err != nil {
			return nil, err
		}
	}
	if c.Changes {
		s.redacted = newRedactedValues(c.Shape)
	}
	s.owners = s.objects && s.digester == nil && changes.ShowsNode(c.Shape)
	s.marks = s.objects && s.digester == nil && c.EveryVersion
	h := s.header[:]
	if c.Payload == "" || c.Payload == object.WholeObject {
		h[0] |= linesHaveAll
	}
	if c.Changes {
		h[0] |= storesObjects
	}
	settings := strings.Join(c.ExcludeNamespaces, ",")
	if s.marks {
		settings += " " + c.APIVersion
	}
	binary.BigEndian.PutUint32(h[excludesAt:], crc32.ChecksumIEEE([]byte(settings)))
	mark := c.Shape.Fingerprint(c.IgnoreFields)
	copy(h[shapeAt:], mark[:])
	return s, nil
}

// Load takes the header from the checkpoint, which has all that was submitted, and drops what was stored with other
// settings. behind means that there may be known objects of which something useful is not stored, such as digests under
// this Store's own keys; stale, that the header must be committed before the next line is written, because recovery
// replays lines by it.
func (s *Store) Load() (behind, stale bool, err error) {
	s.Reset()
	old, ok, err := s.checkpoint.KeptHeader(s.stream)
	if err != nil {
		return false, false, err
	}
	h := s.header[:]
	s.base, s.headerDue = base{packer: NewPacker(nil)}, true
	h[0] |= incomplete
	same, series := false, 0
	if len(old) >= headerSize {
		// A Mark of other settings may be of a version before the last: events have passed that nothing was stored of.
		same, series = bytes.Equal(old[excludesAt:shapeAt], h[excludesAt:shapeAt]), int(old[0]>>seriesAt)
		if !same {
			series++
		}
	}
	h[0] = h[0]&(1<<seriesAt-1) | byte(series&lastSeries)<<seriesAt
	if len(old) < headerSize || !bytes.Equal(old[shapeAt:headerSize], h[shapeAt:]) || series > lastSeries {
		if ok {
			err = s.checkpoint.DropKept(s.stream)
		}
		return true, true, err
	}
	behind = !s.digester.Durable() || s.redacted != nil || s.objects && old[0]&storesObjects == 0 ||
		old[0]&incomplete != 0 || !same
	if !behind {
		h[0] &^= incomplete
	}
	s.headerDue = !bytes.Equal(old[:headerSize], h)
	if b := old[headerSize:]; len(b) > 0 {
		s.base = base{packer: NewPacker(b), bytes: b, fixed: true}
	}
	return behind, s.headerDue, nil
}

// Marks reports whether the Mark of each version is stored.
func (s *Store) Marks() bool { return s != nil && s.marks }

// Reset drops what is not committed: the checkpoint has all that was submitted, and the rest never will be.
func (s *Store) Reset() {
	clear(s.uncommitted)
	s.order = s.order[:0]
	s.headerDue = s.headerDue || s.headerSent > s.committed()
}

// Version is what is stored of an object. Its bytes are good until the next Get.
type Version struct {
	Object    []byte // as its line had it; nil where it is not stored
	Withheld  bool   // the filter held it back
	Mark      object.Mark
	digest    Digest
	hasDigest bool
	redacted  []byte // the digests of its redacted values, if they were made with this Store's key
	packed    []byte // Object as it is stored
}

// Get returns what is stored of an object; the zero Version where nothing is.
func (s *Store) Get(namespace, name []byte) (Version, error) {
	s.prune()
	s.got.key = append(append(append(s.got.key[:0], namespace...), 0), name...)
	value, ok := s.uncommitted[string(s.got.key)]
	if !ok {
		var err error
		if s.got.value, _, err = s.checkpoint.Kept(s.got.value[:0], s.stream, namespace, name); err != nil {
			return Version{}, err
		}
		value.bytes = s.got.value
	}
	v, err := s.decode(value.bytes)
	if err != nil {
		if !s.unreadable {
			s.unreadable = true
			s.log.Error("stored version of an object cannot be read; continuing without it", zap.Error(err))
		}
		return Version{}, nil
	}
	return v, nil
}

func (s *Store) decode(value []byte) (v Version, err error) {
	if len(value) == 0 {
		return v, nil
	}
	has, rest := value[0], value[1:]
	v.Withheld = has&withheld != 0
	if has&hasDigest != 0 && len(rest) >= len(v.digest) {
		rest = rest[copy(v.digest[:], rest):]
		v.hasDigest = s.digester != nil
	}
	if has&hasRedacted != 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return Version{}, errPacked
		}
		if rest = rest[n:]; s.redacted.own(rest[:size]) {
			v.redacted = rest[:size]
		}
		rest = rest[size:]
	}
	if has&hasMark != 0 {
		mark, n := binary.Uvarint(rest)
		if n <= 0 {
			return v, errPacked
		}
		if rest = rest[n:]; s.marks && byte(mark&lastSeries) == s.header[0]>>seriesAt {
			v.Mark = object.Mark(mark >> seriesBits)
		}
	}
	if has&hasObject == 0 {
		return v, nil
	}
	v.packed = rest
	if s.got.object, err = s.base.packer.Unpack(s.got.object[:0], rest, object.MaxObject); err != nil {
		return Version{}, err
	}
	v.Object = s.got.object
	if !v.hasDigest && s.digester != nil && s.digester.Durable() {
		// It was read back from the journal.
		if v.digest, err = s.digester.Digest(v.Object); err != nil {
			return Version{}, err
		}
		v.hasDigest = true
	}
	return v, nil
}

// Comparison is a version of an object beside the one stored before it. It, and what its methods return, is valid until
// the store's next Compare or Missing, and as long as the object is unchanged. The zero Comparison knows nothing.
type Comparison struct {
	store  *Store
	before Version
	Same   bool // nothing has changed but what is ignored
}

// Compare compares the next version of an object with the one before. An error is the object's.
func (s *Store) Compare(before Version, o *object.Object) (c Comparison, err error) {
	c = Comparison{store: s, before: before}
	s.next.shaped, s.next.mark = s.next.shaped[:0], o.Mark(before.Mark)
	s.redacted.drop()
	if s.next.digest, err = s.digest(o); err != nil {
		return c, err
	}
	if before.hasDigest && s.digester.same(before.digest, s.next.digest) {
		c.Same = true
		return c, nil
	}
	if s.objects {
		s.next.shaped = o.AppendShaped(s.next.shaped)
		s.redacted.take(o)
	}
	return c, nil
}

func (s *Store) digest(o *object.Object) (Digest, error) {
	if s.digester == nil {
		return Digest{}, nil
	}
	return s.digester.Digest(o.Raw)
}

// Known reports whether the object before is known.
func (c Comparison) Known() bool { return c.before.Object != nil }

// Changes lists what has changed; nil where that is not asked for or not known. With sets, what the entries of the
// object's managedFields own, it also returns the index of the one that owns all that has changed; -1 where that is not
// exactly one.
func (c Comparison) Changes(sets [][]byte) (list []byte, owner int) {
	s, before := c.store, &c.before
	if !c.Known() || !s.objects {
		return nil, -1
	}
	if !s.owners {
		sets = nil
	}
	var hidden changes.Hidden
	if s.redacted.compare(before.redacted) {
		hidden = s.redacted
	}
	var err error
	if s.next.list, owner, err = changes.AppendOwned(
		s.next.list[:0], before.Object, s.next.shaped, hidden, sets,
	); err != nil {
		return nil, -1 // before is nested too deeply
	}
	return s.next.list, owner
}

// Value is what is to be stored of the version.
func (c Comparison) Value(held bool) []byte { return c.store.encode(Version{}, held) }

// Unknown is what is to be stored of an object that cannot be read: the next version has none to be compared with.
func (s *Store) Unknown(held bool) []byte { return []byte{flag(held)} }

// Missing is what is to be stored of an object at a version that the reader knows, nil where nothing is missing. An
// object that is stored stays: it is the one that the reader was told of last.
func (s *Store) Missing(before Version, o *object.Object, held bool) ([]byte, error) {
	sum, keep := before.digest, before.hasDigest && s.digester.Durable()
	if !keep {
		var err error
		if sum, err = s.digest(o); err != nil {
			return nil, err
		}
	}
	missing := s.objects && before.Object == nil
	s.next.digest, s.next.mark, s.next.shaped = sum, o.Mark(before.Mark), s.next.shaped[:0]
	s.redacted.drop()
	if missing || s.redacted != nil && before.redacted == nil {
		s.next.shaped = o.AppendShaped(s.next.shaped)
		s.redacted.take(o)
	}
	if !missing && s.redacted.move(s.next.shaped, before.Object) {
		missing = true
	}
	if !missing && (s.digester == nil || before.hasDigest && (keep || s.digester.same(before.digest, sum))) {
		return nil, nil
	}
	return s.encode(before, held), nil
}

// encode makes what is to be stored of the version at hand. Of stored comes the object, and what belongs to that, if
// there is one.
func (s *Store) encode(stored Version, held bool) []byte {
	dst := s.next.value[:0]
	dst = append(dst, flag(held))
	if s.digester != nil {
		dst[0] |= hasDigest
		sum := s.digester.seal(s.next.digest)
		dst = append(dst, sum[:]...)
	}
	if !s.objects {
		s.next.value = dst
		return dst
	}
	if digests := s.redacted.digests(stored.redacted); len(digests) > 0 {
		dst[0] |= hasRedacted
		dst = binary.AppendUvarint(dst, uint64(len(digests)))
		dst = append(dst, digests...)
	}
	if s.marks && s.next.mark != 0 {
		dst[0] |= hasMark
		dst = binary.AppendUvarint(dst, uint64(s.next.mark)<<seriesBits|uint64(s.header[0]>>seriesAt))
	}
	dst[0] |= hasObject
	if stored.packed != nil {
		dst = append(dst, stored.packed...)
	} else {
		s.headerDue = s.base.learn(s.next.shaped) || s.headerDue
		dst = s.base.packer.Pack(dst, s.next.shaped)
	}
	s.next.value = dst
	return dst
}

func flag(held bool) byte {
	if held {
		return withheld
	}
	return 0
}

// Put adds to a batch what is to be stored of an object.
func (s *Store) Put(c *checkpoint.Changes, batch uint64, namespace, name, value []byte) {
	if s.headerDue {
		s.PutHeader(c, batch)
	}
	c.Keep(namespace, name, value)
	s.note(batch, namespace, name, value)
}

// Remove adds to a batch that nothing is stored of an object any more.
func (s *Store) Remove(c *checkpoint.Changes, batch uint64, namespace, name []byte) {
	c.Unkeep(namespace, name)
	s.note(batch, namespace, name, nil)
}

// PutHeader adds the header to a batch.
func (s *Store) PutHeader(c *checkpoint.Changes, batch uint64) {
	h := s.header[:]
	if s.base.fixed {
		h = append(h[:headerSize:headerSize], s.base.bytes...)
	}
	c.KeepHeader(h)
	s.headerDue, s.headerSent = false, batch
}

// Complete adds to a batch that all known objects are stored, as far as they can be; without it the next start looks
// once more.
func (s *Store) Complete(c *checkpoint.Changes, batch uint64) {
	if s.header[0]&incomplete != 0 {
		s.header[0] &^= incomplete
		s.PutHeader(c, batch)
	}
}

func (s *Store) note(batch uint64, namespace, name, value []byte) {
	s.prune()
	key := string(namespace) + "\x00" + string(name)
	s.uncommitted[key] = numbered{batch, bytes.Clone(value)}
	s.order = append(s.order, arrival{batch, key})
}

// prune drops the values that are committed.
func (s *Store) prune() {
	committed, n := s.committed(), 0
	for ; n < len(s.order) && s.order[n].batch <= committed; n++ {
		if key := s.order[n].key; s.uncommitted[key].batch <= committed {
			delete(s.uncommitted, key)
		}
	}
	if n > 0 {
		s.order = s.order[:copy(s.order, s.order[n:])]
	}
}

// numbered is a value with the number of its batch; an empty one: nothing is stored.
type numbered struct {
	batch uint64
	bytes []byte
}

// arrival is the key of such a value.
type arrival struct {
	batch uint64
	key   string
}

// Replay adds to c what the line h makes of the versions that its stream, whose header is given, has stored: what the
// Store has put beside it, if lines have all of that. Otherwise nothing is stored of the object until its next line.
func Replay(header []byte, h *line.Header, c *checkpoint.Changes) {
	written := h.Type == line.Added || h.Type == line.Modified
	switch {
	case written && len(header) > 0 && header[0]&linesHaveAll != 0 && !h.Truncated && len(h.Object) > 0:
		c.Keep([]byte(h.Namespace), []byte(h.Name), AppendUnpacked([]byte{hasObject}, h.Object))
	case written, h.Type == line.Deleted:
		c.Unkeep([]byte(h.Namespace), []byte(h.Name))
	}
}
