package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// ErrNoLine says that a segment has no line, or more of them than an index takes.
var ErrNoLine = errors.New("no index for such a segment")

// Builder makes the index of a segment from its lines.
type Builder struct {
	base   []*Index // of the segments before, for a full index; else nil
	oldest uint64   // seq of the first line of the oldest segment that is there
	full   bool

	first         uint64 // seq of the first line, 0 while there is none
	count         int64
	next          uint64 // the seq after the last line's
	after         uint64 // the seq that comes after the last line, as that says
	end           int64  // where the last line ends
	head          uint32
	sum           uint32 // of the segment's bytes
	size, zipped  int64
	begin, newest int64 // of the lines' times
	earliest      int64 // time at which a late line was written; 0 for none

	lines     []byte // whole blocks
	lineSizes []int
	block     []byte // the one that is begun
	last      int64  // time of the last line

	members []member
	writers map[string]int // their numbers, from 1
	streams map[string]*stream
	names   map[string]string

	key, uid []byte // scratch
}

// stream is what a segment says of one stream.
type stream struct {
	Stream
	marks   []uint32           // its GAP and SYNCED lines
	begins  []uint32           // as Stream has them
	listing bool               // a list of what existed has begun
	begun   uint64             // before the segment, as Begun says
	objects map[string]*object // by place and uid with a zero byte between
}

type object struct {
	place string   // namespace and name
	uid   string   // packed, and so are refs
	refs  []string // in order
	lines []uint32 // their indexes

	created int64 // in Unix seconds; 0 is unknown
}

// NewBuilder begins the index of a segment. head is the checksum of the segment's beginning, as segment.Segment has it.
func NewBuilder(head uint32) *Builder {
	return &Builder{head: head, writers: make(map[string]int), streams: make(map[string]*stream),
		names: make(map[string]string)}
}

// FullEvery is how many segments there are from one with a full index to the next: the fewer, the more room they take,
// and the more, the more of them a query reads.
const FullEvery = 4

// Fill makes it a full index, with what was there when the segment began: as the indexes say of the segments before,
// from a full one on or from the journal's oldest one. Of objects whose last line is in a segment older than the one
// that begins with the line oldest nothing is kept. AppendTo reads the indexes.
func (b *Builder) Fill(base []*Index, oldest uint64) { b.base, b.oldest, b.full = base, oldest, true }

// Add adds the next line, which begins at an offset and is size bytes long, its end included.
func (b *Builder) Add(l *line.Fields, offset int64, size int) {
	if b.count++; b.count > math.MaxUint32 {
		return // AppendTo says so
	}
	if b.first == 0 {
		b.first, b.next = l.Seq, l.Seq
	}
	at := uint32(b.count - 1)
	b.addLine(l, offset, size)
	if l.SaysRemoved() {
		b.removed(l, at)
		return
	}
	if l.SaysSealed() {
		return // it is about no stream
	}
	s := b.stream(l)
	if l.AboutStream() {
		s.marks, s.listing = append(s.marks, at), false
		return
	}
	if !s.listing && l.Origin() == line.FromSnapshot {
		s.begins, s.listing = append(s.begins, at), true
	}
	b.object(s, l, at)
	if s.Group == "apiextensions.k8s.io" && s.Resource == "customresourcedefinitions" {
		b.define(l)
	}
}

// addLine adds a line to the blocks of lines.
func (b *Builder) addLine(l *line.Fields, offset int64, size int) {
	at := l.Time.UnixNano()
	if b.count%linesPerBlock == 1 {
		b.endBlock()
		b.block = binary.AppendUvarint(b.block, l.Seq)
		b.block = binary.AppendUvarint(b.block, uint64(offset))
		b.block = binary.AppendVarint(b.block, at)
		b.last, b.next, b.end = at, l.Seq, offset
	}
	b.block = binary.AppendUvarint(b.block, uint64(size))
	b.block = binary.AppendVarint(b.block, at-b.last)
	flags := byte(slices.Index(Types, string(l.Text(line.FieldType))) + 1)
	written, dated := l.Written()
	if dated {
		flags |= writtenFlag
	}
	if l.Snapshot() {
		flags |= snapshotFlag
	}
	jumps := l.Seq != b.next || offset != b.end
	if jumps {
		flags |= jumpFlag
	}
	b.block = binary.AppendUvarint(append(b.block, flags), uint64(b.writer(l)))
	if dated {
		b.block = binary.AppendVarint(b.block, l.Time.Unix()-written.Unix())
	}
	if dated && line.IsLate(l.Time, written, l.Snapshot()) {
		if ns := written.UnixNano(); b.earliest == 0 || ns < b.earliest {
			b.earliest = ns
		}
	}
	if jumps {
		b.block = binary.AppendVarint(binary.AppendVarint(b.block, int64(l.Seq-b.next)), offset-b.end)
	}
	if b.count == 1 {
		b.begin, b.newest = at, at
	}
	b.begin, b.newest, b.last = min(b.begin, at), max(b.newest, at), at
	b.next, b.after, b.end = l.Seq+1, l.Next(), offset+int64(size)
}

// writer returns the number of a line's writer, 0 for none.
func (b *Builder) writer(l *line.Fields) int {
	b.key = rawjson.Unquote(b.key[:0], l.Text(line.FieldManager))
	if len(b.key) == 0 {
		return 0
	}
	if sub := l.Text(line.FieldSubresource); len(sub) > 0 {
		b.key = rawjson.Unquote(append(b.key, '/'), sub)
	}
	n, ok := b.writers[string(b.key)]
	if !ok {
		n = len(b.writers) + 1
		b.writers[string(b.key)] = n
	}
	return n
}

func (b *Builder) endBlock() {
	if len(b.block) > 0 {
		b.lines = append(b.lines, b.block...)
		b.lineSizes = append(b.lineSizes, len(b.block))
		b.block = b.block[:0]
	}
}

// stream returns the line's stream, with what the line says of it.
func (b *Builder) stream(l *line.Fields) *stream {
	b.key = rawjson.Unquote(b.key[:0], l.Text(line.FieldStream))
	s, ok := b.streams[string(b.key)]
	if !ok {
		s = &stream{Stream: Stream{Name: string(b.key)}, objects: make(map[string]*object)}
		b.streams[s.Name] = s
	}
	for _, member := range [...]struct {
		field line.Field
		is    *string
	}{
		{line.FieldCluster, &s.Cluster}, {line.FieldGroup, &s.Group}, {line.FieldVersion, &s.Version},
		{line.FieldResource, &s.Resource}, {line.FieldKind, &s.Kind},
	} {
		if b.key = rawjson.Unquote(b.key[:0], l.Text(member.field)); *member.is != string(b.key) {
			*member.is = string(b.key)
		}
	}
	return s
}

// removed adds a REMOVED line to those about the same stream and namespace. Where it stands in the place of others,
// their times count.
func (b *Builder) removed(l *line.Fields, at uint32) {
	if is, ok := l.Removed(); ok && is.From == l.Seq {
		if first := is.FromTime.UnixNano(); is.FromTime.Before(l.Time) && !is.FromTime.IsZero() &&
			(b.earliest == 0 || first < b.earliest) {
			b.earliest = first
		}
		if !is.ToTime.IsZero() {
			b.newest = max(b.newest, is.ToTime.UnixNano())
		}
	}
	s, ok := b.streams[removals]
	if !ok {
		s = &stream{objects: make(map[string]*object)}
		b.streams[removals] = s
	}
	b.key = append(rawjson.Unquote(b.key[:0], l.Text(line.FieldStream)), 0)
	b.key = rawjson.Unquote(b.key, l.Text(line.FieldNamespace))
	place := string(b.key)
	o, ok := s.objects[place]
	if !ok {
		o = &object{place: place, uid: string(appendPacked(nil, nil))}
		s.objects[place] = o
	}
	o.lines = append(o.lines, at)
}

// object adds a line to those of its object.
func (b *Builder) object(s *stream, l *line.Fields, at uint32) {
	b.key = append(rawjson.Unquote(b.key[:0], l.Text(line.FieldNamespace)), 0)
	b.key = append(rawjson.Unquote(b.key, l.Text(line.FieldName)), 0)
	place := len(b.key) - 1
	b.uid = rawjson.Unquote(b.uid[:0], l.Text(line.FieldUID))
	b.key = appendPacked(b.key, b.uid)
	o, ok := s.objects[string(b.key)]
	if !ok {
		key := string(b.key) // there can be very many
		o = &object{place: key[:place], uid: key[place+1:]}
		s.objects[key] = o
	}
	o.lines = append(o.lines, at)
	b.refer(o, l)
}

// refer adds the uids that a line's object refers to, and notes when it was created.
func (b *Builder) refer(o *object, l *line.Fields) {
	if event := l.Value(line.FieldEvent); len(event) > 0 {
		is := rawjson.Pick(rawjson.At(event, regarding), "uid", "kind", "namespace", "name")
		b.referTo(o, is[0])
		b.uid = append(rawjson.Unquote(b.uid[:0], rawjson.Inside(is[1])), ' ')
		b.uid = append(rawjson.Unquote(b.uid, rawjson.Inside(is[2])), '/')
		b.uid = rawjson.Unquote(b.uid, rawjson.Inside(is[3]))
		b.key = appendPacked(b.key[:0], b.uid)
		o.refer(b.key)
	}
	is := rawjson.Pick(rawjson.At(l.Object, metadata), "creationTimestamp", "ownerReferences")
	if o.created == 0 && is[0] != nil {
		var created time.Time
		if created.UnmarshalText(rawjson.Inside(is[0])) == nil {
			o.created = created.Unix()
		}
	}
	for owner := range rawjson.Elements(is[1]) {
		b.referTo(o, rawjson.Pick(owner, "uid")[0])
	}
}

var regarding, metadata = []byte("/regarding"), []byte("/metadata")

// referTo adds a uid, given as JSON.
func (b *Builder) referTo(o *object, uid []byte) {
	if uid = rawjson.Inside(uid); len(uid) > 0 {
		b.uid = rawjson.Unquote(b.uid[:0], uid)
		b.key = appendPacked(b.key[:0], b.uid)
		o.refer(b.key)
	}
}

func (o *object) refer(uid []byte) {
	for i := range o.refs {
		switch {
		case o.refs[i] == string(uid):
			return
		case o.refs[i] > string(uid):
			o.refs = slices.Insert(o.refs, i, string(uid))
			return
		}
	}
	o.refs = append(o.refs, string(uid))
}

// define notes the names that a CustomResourceDefinition gives.
func (b *Builder) define(l *line.Fields) {
	spec := rawjson.Pick(rawjson.At(l.Object, []byte("/spec")), "group", "names", "scope", "versions")
	if spec[1] == nil || l.Incomplete() {
		return
	}
	def := []byte("{")
	member := func(name string, value []byte) {
		if value == nil {
			return
		}
		if def[len(def)-1] != '{' {
			def = append(def, ',')
		}
		def = append(append(append(append(def, '"'), name...), `":`...), value...)
	}
	for i, name := range []string{"group", "names", "scope"} {
		member(name, spec[i])
	}
	member("versions", []byte("["))
	comma := ""
	for v := range rawjson.Elements(spec[3]) {
		def = append(append(def, comma...), '{')
		picked := rawjson.Pick(v, "name", "additionalPrinterColumns")
		member("name", picked[0])
		member("additionalPrinterColumns", picked[1])
		def, comma = append(def, '}'), ","
	}
	def = append(def, "]}"...)
	b.names[string(rawjson.Unquote(nil, l.Text(line.FieldName)))] = string(def)
}

// Content says what the segment's next bytes are, for their checksum.
func (b *Builder) Content(p []byte) { b.sum = crc32.Update(b.sum, castagnoli, p) }

// Member says that a gzip member begins after so many bytes of the compressed file, and of lines.
func (b *Builder) Member(zipped, plain int64) {
	b.members = append(b.members, member{zipped, plain})
}

// End says how many bytes the segment has, and its members, if it is compressed.
func (b *Builder) End(plain, zipped int64) { b.size, b.zipped = plain, zipped }

// Save writes the index, block by block, its header last. There must be a line. It fails where one of the indexes of
// the segments before is damaged.
func (b *Builder) Save(out io.WriterAt) error {
	if b.first == 0 || b.count > math.MaxUint32 {
		return fmt.Errorf("index %d lines: %w", b.count, ErrNoLine)
	}
	b.endBlock()
	w := writer{Builder: b, out: out}
	return w.write()
}

// AppendTo appends the index to dst, as Save writes it.
func (b *Builder) AppendTo(dst []byte) ([]byte, error) {
	m := memory{dst, len(dst)}
	err := b.Save(&m)
	return m.b, err
}

// memory is bytes that are written from a place on, in order, or again.
type memory struct {
	b     []byte
	start int
}

func (m *memory) WriteAt(p []byte, at int64) (int, error) {
	n := copy(m.b[m.start+int(at):], p)
	m.b = append(m.b, p[n:]...)
	return len(p), nil
}
