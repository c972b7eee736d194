package index

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
)

// writer writes one index.
type writer struct {
	*Builder
	dst   []byte
	start int // of the index in dst
	begun int // the block that is being written, in dst

	all     []*stream         // those of the segment before too, in the order of their names
	earlier []uint64          // segments, by the seq of their first lines
	numbers map[uint64]uint64 // their indexes
	before  []Line            // the lines of the segment before
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

func (w *writer) write() (err error) {
	if w.deflate, err = flate.NewWriter(nil, deflateLevel); err != nil {
		return err // the level is wrong
	}
	if err := w.gather(); err != nil {
		return err
	}
	w.header()
	w.begun = len(w.dst)
	rest := w.lines
	for _, n := range w.lineSizes {
		w.dst, rest = append(w.dst, rest[:n]...), rest[n:]
		w.end()
	}
	for i, s := range w.all {
		w.block.stream = i
		if err := w.stream(s); err != nil {
			return err
		}
	}
	names, err := w.writeNames()
	if err != nil {
		return err
	}
	at := w.begun
	w.directory(names)
	size := w.end()
	header := w.dst[w.start:]
	binary.LittleEndian.PutUint64(header[identity:], uint64(at-w.start))
	binary.LittleEndian.PutUint32(header[identity+8:], uint32(size))
	binary.LittleEndian.PutUint32(header[headerSize-sumSize:], crc32.Checksum(header[:headerSize-sumSize], castagnoli))
	return nil
}

// gather reads what of the segment before is needed, but for its objects.
func (w *writer) gather() error {
	streams := maps.Clone(w.streams)
	w.numbers = make(map[uint64]uint64)
	if b := w.Builder.before; b != nil {
		var err error
		if w.before, err = b.allLines(); err != nil {
			return err
		}
		w.earlier = append(slices.Clone(b.earlier), b.FirstSeq)
		for i, first := range w.earlier {
			w.numbers[first] = uint64(i)
		}
		for _, s := range b.Streams {
			if s.Marks = nil; streams[s.Name] == nil {
				streams[s.Name] = &stream{Stream: s}
			}
		}
	}
	w.all = slices.SortedFunc(maps.Values(streams), func(a, b *stream) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// header writes the header, but for where the directory is.
func (w *writer) header() {
	w.dst = append(w.dst, magic...)
	w.dst = binary.LittleEndian.AppendUint32(w.dst, version)
	w.dst = binary.LittleEndian.AppendUint32(w.dst, w.head)
	for _, n := range []uint64{w.first, w.since, uint64(w.count), uint64(w.size), uint64(w.zipped)} {
		w.dst = binary.LittleEndian.AppendUint64(w.dst, n)
	}
	w.dst = append(w.dst, make([]byte, headerSize-identity)...)
}

// end ends a block and returns its bytes. The next one begins behind it.
func (w *writer) end() int {
	n := len(w.dst) - w.begun
	w.dst = binary.LittleEndian.AppendUint32(w.dst, blockSum(w.dst[w.start:], int64(w.begun-w.start), w.dst[w.begun:]))
	w.begun = len(w.dst)
	return n
}

// stream writes the objects of a stream: those that were there when the segment began, and those with lines.
func (w *writer) stream(s *stream) error {
	fresh := slices.SortedFunc(maps.Values(s.objects), func(a, b *object) int { return a.compare(b.place, b.uid) })
	if b := w.Builder.before; b != nil {
		for old, err := range b.ofStream(s.Name) {
			if err != nil {
				return err
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
			last := w.last(old)
			switch {
			case last.Seq > 0 && len(o.refs) == 0:
				o.refs = old.refs
			case last.Seq > 0:
				for _, uid := range old.refs {
					o.refer([]byte(uid))
				}
			}
			if last.Seq > 0 || len(o.lines) > 0 {
				w.object(o, last)
			}
		}
	}
	for _, o := range fresh {
		w.object(o, Place{})
	}
	w.endObjects()
	return nil
}

// last returns where the last line is about an object of the segment before that was not deleted in it.
func (w *writer) last(o *Object) Place {
	if len(o.Lines) == 0 {
		return o.Before
	}
	b := w.Builder.before
	l := w.before[o.Lines[len(o.Lines)-1]]
	if l.Type == Deleted {
		return Place{}
	}
	return Place{Segment: b.FirstSeq, Seq: l.Seq, Offset: l.Offset}
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
	b := append(binary.AppendUvarint(w.fields, uint64(shared)), flags)
	b = binary.AppendUvarint(b, uint64(len(o.place)-shared))
	w.text = append(w.text, o.place[shared:]...)
	b = w.appendUID(b, o.uid)
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
	if b := w.Builder.before; b != nil {
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
	for _, t := range []int64{w.oldest, w.newest, w.earliest} {
		w.dst = binary.LittleEndian.AppendUint64(w.dst, uint64(t))
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.earlier)))
	for _, first := range w.earlier {
		w.dst = binary.AppendUvarint(w.dst, first)
	}
	w.dst = binary.AppendUvarint(w.dst, uint64(len(w.all)))
	for _, s := range w.all {
		for _, text := range []string{s.Name, s.Cluster, s.Group, s.Version, s.Resource, s.Kind} {
			w.dst = appendText(w.dst, text)
		}
		w.dst = appendIndexes(w.dst, s.marks)
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
}
