package index

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
)

// writer writes one index.
type writer struct {
	*Builder
	out    io.WriterAt
	err    error // of out
	header [headerSize]byte
	at     int64  // bytes that are in out
	dst    []byte // those after them
	begun  int    // the block that is being written, in dst

	all     []*stream         // those of the segments before too, in the order of their names
	earlier []uint64          // segments, by the seq of their first lines
	numbers map[uint64]uint64 // their indexes
	lasts   [][]last          // the lines of the segments before
	since   uint64            // for the header
	blocks  []objectBlock
	carried object // scratch

	// The block of objects that is being written: their texts and numbers, which are compressed, and their uids.
	block              objectBlock
	fields, text, uids []byte
	place              string // of its last object
	refs               []string
	near               Place // the last one in it
	deflate            *flate.Writer
}

// last is what matters of an object's last line, in a segment before.
type last struct {
	seq    uint64 // 0 for a deletion
	offset int64
}

// flushSize is from how many bytes on whole blocks are written. A full index can be large.
const flushSize = 256 << 10

func (w *writer) write() (err error) {
	if w.deflate, err = flate.NewWriter(nil, deflateLevel); err != nil {
		return err // the level is wrong
	}
	if err := w.gather(); err != nil {
		return fmt.Errorf("index of a segment before: %w", err)
	}
	w.writeHeader()
	w.dst = append(w.dst, w.header[:]...)
	w.begun = len(w.dst)
	rest := w.lines
	for _, n := range w.lineSizes {
		w.dst, rest = append(w.dst, rest[:n]...), rest[n:]
		w.end()
	}
	for i, s := range w.all {
		w.block.stream = i
		if err := w.stream(s); err != nil {
			return fmt.Errorf("index of a segment before: %w", err)
		}
	}
	names, err := w.writeNames()
	if err != nil {
		return fmt.Errorf("index of a segment before: %w", err)
	}
	at := w.at + int64(w.begun)
	w.directory(names)
	size := w.end()
	w.flush()
	header := w.header[:]
	binary.LittleEndian.PutUint64(header[identity:], uint64(at))
	binary.LittleEndian.PutUint32(header[identity+8:], uint32(size))
	for n, t := range []int64{w.begin, w.newest, w.earliest} {
		binary.LittleEndian.PutUint64(header[times+8*n:], uint64(t))
	}
	binary.LittleEndian.PutUint32(header[headerSize-sumSize:], crc32.Checksum(header[:headerSize-sumSize], castagnoli))
	if w.err == nil {
		_, w.err = w.out.WriteAt(header, 0)
	}
	return w.err
}

// flush writes whole blocks.
func (w *writer) flush() {
	if w.err == nil {
		_, w.err = w.out.WriteAt(w.dst, w.at)
	}
	w.at += int64(len(w.dst))
	w.dst, w.begun = w.dst[:0], 0
}

// gather reads what of the segments before is needed, but for their objects.
func (w *writer) gather() error {
	streams := maps.Clone(w.streams)
	w.numbers = make(map[uint64]uint64)
	if w.full {
		w.since = w.knownSince()
	}
	for _, b := range w.base {
		lasts, err := b.lasts()
		if err != nil {
			return err
		}
		w.lasts = append(w.lasts, lasts)
		for _, first := range append(slices.Clone(b.earlier), b.FirstSeq) {
			if _, there := w.numbers[first]; !there && first >= w.oldest {
				w.numbers[first] = uint64(len(w.earlier))
				w.earlier = append(w.earlier, first)
			}
		}
		if b.hasRemoved && streams[removals] == nil {
			streams[removals] = &stream{}
		}
		for _, s := range b.Streams {
			if s.Marks, s.Begins = nil, nil; w.streams[s.Name] == nil {
				streams[s.Name] = &stream{Stream: s}
			}
		}
	}
	w.all = slices.SortedFunc(maps.Values(streams), func(a, b *stream) int {
		return cmp.Or(btoi(a.Name == removals)-btoi(b.Name == removals), strings.Compare(a.Name, b.Name))
	})
	for _, s := range w.all {
		var err error
		if s.begun, s.before, err = begun(w.base, s.Name, func(*Line) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}

// knownSince returns the first seq from which on no line is missing up to the segment, in the segments before.
func (w *writer) knownSince() uint64 {
	since, next := w.first, w.first
	for i := len(w.base) - 1; i >= 0; i-- {
		b := w.base[i]
		if b.Next != next {
			break
		}
		if since, next = b.FirstSeq, b.FirstSeq; b.Since > 0 {
			since = b.Since
			break
		}
	}
	return since
}

// writeHeader makes the header, but for where the directory is and its checksum.
func (w *writer) writeHeader() {
	h := w.header[:0]
	h = append(h, magic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	h = binary.LittleEndian.AppendUint32(h, w.head)
	for _, n := range []uint64{w.first, uint64(w.count), uint64(w.size), uint64(w.zipped)} {
		h = binary.LittleEndian.AppendUint64(h, n)
	}
}

// end ends a block and returns its bytes. The next one begins after it.
func (w *writer) end() int {
	n := len(w.dst) - w.begun
	w.dst = binary.LittleEndian.AppendUint32(w.dst, blockSum(w.header[:], w.at+int64(w.begun), w.dst[w.begun:]))
	if w.begun = len(w.dst); w.begun >= flushSize {
		w.flush()
	}
	return n
}

// stream writes the objects of a stream: those with lines and, in a full index, those that were there when the segment
// began.
func (w *writer) stream(s *stream) error {
	fresh := slices.SortedFunc(maps.Values(s.objects), func(a, b *object) int { return a.compare(b.place, b.uid) })
	for old, err := range w.there(s) {
		if err != nil {
			return err
		}
		if w.err != nil {
			return nil // write returns it
		}
		n := 0
		for n < len(fresh) && fresh[n].compare(old.place, old.uid) < 0 {
			w.object(fresh[n], Place{})
			n++
		}
		fresh = fresh[n:]
		o := &w.carried
		if len(fresh) > 0 && fresh[0].compare(old.place, old.uid) == 0 {
			o, fresh = fresh[0], fresh[1:]
		} else {
			*o = object{place: old.place, uid: old.uid}
		}
		if o.created == 0 && !old.Created.IsZero() {
			o.created = old.Created.Unix()
		}
		if len(o.refs) == 0 {
			o.refs = old.refs
		}
		for _, uid := range old.refs {
			o.refer([]byte(uid))
		}
		w.object(o, old.Before)
	}
	for _, o := range fresh {
		w.object(o, Place{})
	}
	w.endObjects()
	return nil
}

// there yields the objects of a stream that were there when the segment began, with Before and refs, in order.
func (w *writer) there(s *stream) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		for o, err := range w.before(s.Name) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case o.Before.Seq > 0 && o.Before.Segment < w.oldest:
				w.since = max(w.since, w.oldest) // its line is gone
				continue
			case o.Before.Seq == 0, o.Before.Seq < s.begun: // it was deleted, or is of before the stream started over
				continue
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// before yields each object that an index of the base has of a stream, once, in order. Its Before is the last line
// about it before this segment; zero where that was its deletion.
func (w *writer) before(name string) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		of := make([]source, len(w.base))
		for i, b := range w.base {
			of[i].next, of[i].stop = iter.Pull2(b.ofStream(name))
			of[i].advance()
		}
		defer func() {
			for i := range of {
				of[i].stop()
			}
		}()
		for {
			var first *Object
			for i := range of {
				if of[i].err != nil {
					yield(nil, of[i].err)
					return
				}
				if o := of[i].object; o != nil && (first == nil || o.compare(first) < 0) {
					first = o
				}
			}
			if first == nil || !yield(w.join(of, first), nil) {
				return
			}
		}
	}
}

// join takes one object out of the indexes that have it, from the oldest to the newest, and returns what they say of it
// together.
func (w *writer) join(of []source, first *Object) *Object {
	is := &Object{place: first.place, uid: first.uid}
	for i := range of {
		o := of[i].object
		if o == nil || o.compare(is) != 0 {
			continue
		}
		is.refs = merged(is.refs, o.refs)
		if !o.Created.IsZero() {
			is.Created = o.Created
		}
		if len(o.Lines) == 0 {
			if o.Before.Seq > 0 {
				is.Before = o.Before
			}
		} else if is.Before = w.last(i, o); is.Before.Seq == 0 { // deleted: what comes after it is another object's
			is.refs, is.Created = nil, time.Time{}
		}
		of[i].advance()
	}
	return is
}

// source is an index that objects are taken from.
type source struct {
	next   func() (*Object, error, bool)
	stop   func()
	object *Object // nil at the end
	err    error
}

func (s *source) advance() {
	if o, err, there := s.next(); there {
		s.object, s.err = o, err
	} else {
		s.object = nil
	}
}

func (o *Object) compare(p *Object) int {
	return cmp.Or(strings.Compare(o.place, p.place), strings.Compare(o.uid, p.uid))
}

// merged returns uids that are in one of two lists, in order.
func merged(a, b []string) []string {
	if len(a) == 0 || slices.Equal(a, b) {
		return b
	}
	o := object{refs: slices.Clone(a)}
	for _, uid := range b {
		o.refer([]byte(uid))
	}
	return o.refs
}

// last returns where the last line is about an object in one of the segments before, if it was not deleted.
func (w *writer) last(i int, o *Object) Place {
	l := w.lasts[i][o.Lines[len(o.Lines)-1]]
	if l.seq == 0 {
		return Place{}
	}
	return Place{Segment: w.base[i].FirstSeq, Seq: l.seq, Offset: l.offset}
}

func (o *object) compare(place, uid string) int {
	if c := strings.Compare(o.place, place); c != 0 {
		return c
	}
	return strings.Compare(o.uid, uid)
}

// object writes an object, with the place of its last line before the segment, if it was there then.
func (w *writer) object(o *object, before Place) {
	if len(w.fields)+len(w.text)+len(w.uids) >= objectsBlock {
		w.endObjects()
	}
	if len(w.fields) == 0 {
		w.block.first, w.place, w.refs, w.near = o.place, "", nil, Place{}
	}
	shared := 0
	for shared < min(len(o.place), len(w.place)) && o.place[shared] == w.place[shared] {
		shared++
	}
	var flags byte
	if before.Seq > 0 {
		if flags |= beforeFlag; before.Segment == w.near.Segment {
			flags |= nearFlag
		}
	}
	if len(o.refs) > 0 {
		if flags |= refersFlag; slices.Equal(o.refs, w.refs) {
			flags ^= refersFlag | sameRefsFlag
		}
	}
	if len(o.lines) > 0 {
		flags |= linesFlag
	}
	if o.created != 0 {
		flags |= createdFlag
	}
	b := append(binary.AppendUvarint(w.fields, uint64(shared)), flags)
	b = binary.AppendUvarint(b, uint64(len(o.place)-shared))
	w.text = append(w.text, o.place[shared:]...)
	b = w.appendUID(b, o.uid)
	if o.created != 0 {
		b = binary.AppendVarint(b, o.created-instant(w.begin).Unix())
	}
	if flags&refersFlag != 0 {
		b = binary.AppendUvarint(b, uint64(len(o.refs)))
		for _, uid := range o.refs {
			b = w.appendUID(b, uid)
		}
	}
	if before.Seq > 0 {
		if flags&nearFlag == 0 {
			b = binary.AppendUvarint(b, w.numbers[before.Segment])
			w.near = Place{before.Segment, before.Segment, 0}
		}
		b = binary.AppendVarint(b, int64(before.Seq-w.near.Seq))
		b = binary.AppendVarint(b, before.Offset-w.near.Offset)
		w.near = before
	}
	if len(o.lines) > 0 {
		b = appendIndexes(b, o.lines)
	}
	w.fields, w.place, w.refs = b, o.place, o.refs
}

// appendUID appends the form of a uid, and its bytes to those of the block.
func (w *writer) appendUID(dst []byte, uid string) []byte {
	w.uids = append(w.uids, uid[1:]...)
	if uid[0] == 0 {
		return append(dst, 0)
	}
	return binary.AppendUvarint(dst, uint64(len(uid)))
}

// endObjects ends a block of objects, if there is one.
func (w *writer) endObjects() {
	if len(w.fields) == 0 {
		return
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.fields)))
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.text)))
	w.dst = append(binary.AppendUvarint(w.dst, uint64(len(w.uids))), w.uids...)
	out := appender{w.dst}
	w.deflate.Reset(&out)
	_, _ = w.deflate.Write(w.fields) // an appender has no error
	_, _ = w.deflate.Write(w.text)
	_ = w.deflate.Close()
	w.dst, w.fields, w.text, w.uids = out.b, w.fields[:0], w.text[:0], w.uids[:0]
	w.block.size = int64(w.end())
	w.blocks = append(w.blocks, w.block)
}

// appender appends what is written.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// appendIndexes appends the number of some lines, and their indexes, each from the one before.
func appendIndexes(dst []byte, lines []uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(lines)))
	last := uint32(0)
	for _, at := range lines {
		dst = binary.AppendUvarint(dst, uint64(at-last))
		last = at
	}
	return dst
}

// writeNames writes what CustomResourceDefinitions have said, and returns the block's bytes.
func (w *writer) writeNames() (int, error) {
	names := make(map[string]string)
	for _, b := range w.base {
		all, err := b.Names()
		if err != nil {
			return 0, err
		}
		maps.Copy(names, all)
	}
	maps.Copy(names, w.names)
	w.dst = binary.AppendUvarint(w.dst, uint64(len(names)))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		w.dst = appendText(appendText(w.dst, name), names[name])
	}
	return w.end(), nil
}

func (w *writer) directory(names int) {
	w.dst = binary.LittleEndian.AppendUint64(w.dst, w.after)
	w.dst = binary.LittleEndian.AppendUint64(w.dst, w.since)
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.earlier)))
	for _, first := range w.earlier {
		w.dst = binary.AppendUvarint(w.dst, first)
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.all)))
	for _, s := range w.all {
		for _, text := range []string{s.Name, s.Cluster, s.Group, s.Version, s.Resource, s.Kind} {
			w.dst = appendText(w.dst, text)
		}
		w.dst = append(appendIndexes(appendIndexes(w.dst, s.marks), s.begins), byte(s.before.mark))
		w.dst = binary.AppendUvarint(w.dst, s.before.list)
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.writers)))
	for _, name := range slices.SortedFunc(maps.Keys(w.writers), func(a, b string) int {
		return w.writers[a] - w.writers[b]
	}) {
		w.dst = appendText(w.dst, name)
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.members)))
	var before member
	for _, m := range w.members {
		w.dst = binary.AppendUvarint(w.dst, uint64(m.zipped-before.zipped))
		w.dst = binary.AppendUvarint(w.dst, uint64(m.plain-before.plain))
		before = m
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.lineSizes)))
	for _, n := range w.lineSizes {
		w.dst = binary.AppendUvarint(w.dst, uint64(n))
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.blocks)))
	for _, b := range w.blocks {
		w.dst = binary.AppendUvarint(w.dst, uint64(b.stream))
		w.dst = binary.AppendUvarint(w.dst, uint64(b.size))
		w.dst = appendText(w.dst, b.first)
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(names))
	w.dst = binary.LittleEndian.AppendUint32(w.dst, w.sum)
}
