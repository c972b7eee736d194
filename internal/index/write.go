package index

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
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

	// The block of objects that is being written.
	block objectBlock
	place string // of its last object
	refs  []string
}

func (w *writer) write() error {
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
	fresh := slices.SortedFunc(maps.Values(s.objects), func(a, b *object) int {
		return cmp.Or(strings.Compare(a.place, b.place), strings.Compare(a.uid, b.uid))
	})
	if b := w.Builder.before; b != nil {
		for old, err := range b.ofStream(s.Name) {
			if err != nil {
				return err
			}
			n := 0
			for n < len(fresh) && cmp.Or(strings.Compare(fresh[n].place, old.place), strings.Compare(fresh[n].uid, old.UID)) < 0 {
				w.object(fresh[n], Place{})
				n++
			}
			fresh = fresh[n:]
			o := &object{place: old.place, uid: old.UID}
			if len(fresh) > 0 && fresh[0].place == old.place && fresh[0].uid == old.UID {
				o, fresh = fresh[0], fresh[1:]
			}
			last := w.last(old)
			if last.Seq > 0 {
				o.refer(old.Refs)
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

// object writes an object, with the place of its last line before the segment, if it was there then.
func (w *writer) object(o *object, before Place) {
	if len(w.dst)-w.begun >= objectsBlock {
		w.endObjects()
	}
	if len(w.dst) == w.begun {
		w.block.first, w.place, w.refs = o.place, "", nil
	}
	shared := 0
	for shared < min(len(o.place), len(w.place)) && o.place[shared] == w.place[shared] {
		shared++
	}
	w.dst = appendText(binary.AppendUvarint(w.dst, uint64(shared)), o.place[shared:])
	var flags byte
	same := len(o.refs) > 0 && slices.Equal(o.refs, w.refs)
	if before.Seq > 0 {
		flags |= beforeFlag
	}
	if same {
		flags |= sameRefsFlag
	} else if len(o.refs) > 0 {
		flags |= refersFlag
	}
	w.dst = appendUID(append(w.dst, flags), o.uid)
	if flags&refersFlag != 0 {
		w.dst = binary.AppendUvarint(w.dst, uint64(len(o.refs)))
		for _, uid := range o.refs {
			w.dst = appendUID(w.dst, uid)
		}
	}
	if before.Seq > 0 {
		w.dst = binary.AppendUvarint(w.dst, w.numbers[before.Segment])
		w.dst = binary.AppendVarint(w.dst, int64(before.Seq-before.Segment))
		w.dst = binary.AppendUvarint(w.dst, uint64(before.Offset))
	}
	w.dst = appendIndexes(w.dst, o.lines)
	w.place, w.refs = o.place, o.refs
}

// endObjects ends a block of objects, if there is one.
func (w *writer) endObjects() {
	if len(w.dst) > w.begun {
		w.block.size = int64(w.end())
		w.blocks = append(w.blocks, w.block)
	}
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
