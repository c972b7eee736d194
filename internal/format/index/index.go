package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/flate"

	"kubejournal/internal/format/line"
)

// Index is the index of one segment. It reads what it is asked for, and is for one goroutine.
type Index struct {
	FirstSeq uint64 // of the segment
	Next     uint64 // the seq after its last line's
	// Since is not 0 in a full index, which has what was there when the segment began: as lines say from that seq on,
	// up to the segment; none of these was missing in the segments that were there when it was made.
	Since          uint64
	Lines          int
	Head           uint32    // checksum of the segment's beginning, as segment.Segment has it
	Size           int64     // bytes of the segment, up to the end of its last line
	Zipped         int64     // bytes of the gzip file for which Member answers; 0 for none
	Oldest, Newest time.Time // of the lines
	Earliest       time.Time // when the first of the lines that are late was written; zero where there is none
	Streams        []Stream  // in the order of their names; those of earlier segments too

	in      io.ReaderAt
	header  [headerSize]byte
	earlier []uint64
	writers []string
	members []member
	lines   []extent
	objects []objectBlock
	names   extent
	sum     uint32 // of the segment's bytes

	onlyBefore bool // see AtBeginning
	hasRemoved bool // there is one more stream, after the last one, without a name: that of the REMOVED lines

	// The block of lines that was read last.
	block   []Line
	blockAt int
}

// inflaters are those of iterations that have ended.
var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// inflater inflates the blocks of one iteration: another one may begin before it has ended.
type inflater struct {
	in     io.ReadCloser
	packed []byte
	source bytes.Reader
	out    bytes.Buffer
}

// Stream is what a segment says of one stream.
type Stream struct {
	Name, Cluster, Group, Version, Resource, Kind string // by the last line
	Marks                                         []int  // its GAP and SYNCED lines in the segment, by their indexes
	// Begins are the first lines of lists of what existed: the first such line in the segment, and the first after a
	// mark.
	Begins []int

	before progress // at the segment's beginning, in a full index
}

// progress is how far a stream's list of what existed has come.
type progress struct {
	mark Type   // the last one's; 0 for none
	list uint64 // where a list has begun that is not complete, 0 for none
}

// Line is where a line is, and what matters for a state.
type Line struct {
	Seq      uint64
	Offset   int64 // in bytes of the plain segment
	Size     int64 // bytes, the end included
	Time     time.Time
	Type     Type
	Written  time.Time // when the change was made, in whole seconds; zero where it does not say so
	Writer   string    // field manager, with "/" and its subresource where it has one; empty where it names none
	Snapshot bool      // its object existed at first sight
}

// Late reports whether the change was received late.
func (l *Line) Late() bool { return !l.Written.IsZero() && line.IsLate(l.Time, l.Written, l.Snapshot) }

// Made returns when the change was made, as far as that is known: when it was received, unless that was late.
func (l *Line) Made() time.Time {
	if l.Late() {
		return l.Written
	}
	return l.Time
}

// Type is a line's type.
type Type byte

// The types, in the order of Types.
const (
	Added Type = iota + 1
	Modified
	Deleted
	Gap
	Synced
	Removed // which lines are not in the journal any more
	Sealed  // what a rotated file has
)

// Place is where a line is.
type Place struct {
	Segment uint64 // the seq of its segment's first line
	Seq     uint64
	Offset  int64
}

// Object is what a segment says of one object of a stream.
type Object struct {
	Namespace, Name, UID string
	// Refs are the uids that it refers to: those of owners, and for an Event of what it is about, which is there as
	// "Kind namespace/name" too. They are those of all lines of the segment, and what the one before has.
	Refs    []string
	Created time.Time // in whole seconds; zero where it is not known
	// Before is the last line about it before the segment, if it was there when the segment began.
	Before Place
	Lines  []int // those in the segment, by their indexes

	place, uid string // uid and refs are packed
	refs       []string
	near       Place // the last one that was read
}

// extent is a block's place in the file.
type extent struct{ at, size int64 }

type objectBlock struct {
	stream int
	extent
	first string // place of the first object
}

type member struct{ zipped, plain int64 } // bytes before it

// Open reads the beginning and the directory of an index of size bytes. What is in it is known to be as it was written
// only when it is read: a damaged block is ErrDamaged then.
func Open(in io.ReaderAt, size int64) (*Index, error) {
	x, err := ReadHeader(in, size)
	if err != nil {
		return nil, err
	}
	directory := x.directory()
	b, err := x.read(directory)
	if err != nil {
		return nil, err
	}
	if err := x.parse(b, directory.at); err != nil {
		return nil, err
	}
	return x, nil
}

// ReadHeader reads the beginning of an index of size bytes alone. It returns FirstSeq, Lines, Head, Size, Zipped and
// the times; nothing else may be asked of it.
func ReadHeader(in io.ReaderAt, size int64) (*Index, error) {
	x := &Index{in: in, blockAt: -1}
	if _, err := io.ReadFull(io.NewSectionReader(in, 0, size), x.header[:]); err != nil {
		return nil, short(err)
	}
	h := x.header[:]
	if string(h[:len(magic)]) != magic {
		return nil, ErrDamaged
	}
	if v := binary.LittleEndian.Uint32(h[16:]); v != version {
		return nil, fmt.Errorf("index of version %d: %w", v, ErrOther)
	}
	sum := binary.LittleEndian.Uint32(h[headerSize-sumSize:])
	if crc32.Checksum(h[:headerSize-sumSize], castagnoli) != sum {
		return nil, ErrDamaged
	}
	x.Head = binary.LittleEndian.Uint32(h[20:])
	x.FirstSeq = binary.LittleEndian.Uint64(h[24:])
	lines := binary.LittleEndian.Uint64(h[32:])
	x.Size = int64(binary.LittleEndian.Uint64(h[40:]))
	x.Zipped = int64(binary.LittleEndian.Uint64(h[48:]))
	if d := x.directory(); d.at < headerSize || d.at > size || d.at+d.size+sumSize != size {
		return nil, ErrDamaged
	}
	if lines == 0 || lines > math.MaxUint32 {
		return nil, ErrDamaged
	}
	x.Lines = int(lines)
	at := func(n int) int64 { return int64(binary.LittleEndian.Uint64(h[times+8*n:])) }
	x.Oldest, x.Newest = instant(at(0)), instant(at(1))
	if earliest := at(2); earliest != 0 {
		x.Earliest = instant(earliest)
	}
	return x, nil
}

// directory returns where the directory is.
func (x *Index) directory() extent {
	at, size := binary.LittleEndian.Uint64(x.header[identity:]), binary.LittleEndian.Uint32(x.header[identity+8:])
	return extent{int64(at), int64(size)}
}

// ErrOther says that an index is of another version.
var ErrOther = errors.New("another version")

func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrDamaged
	}
	return err
}

// read reads a block and checks it.
func (x *Index) read(e extent) ([]byte, error) { return x.readTo(nil, e) }

// readTo is read into the place of b, if it fits there.
func (x *Index) readTo(b []byte, e extent) ([]byte, error) {
	b = slices.Grow(b[:0], int(e.size)+sumSize)[:e.size+sumSize]
	if _, err := io.ReadFull(io.NewSectionReader(x.in, e.at, int64(len(b))), b); err != nil {
		return nil, short(err)
	}
	block := b[:e.size]
	if blockSum(x.header[:], e.at, block) != binary.LittleEndian.Uint32(b[e.size:]) {
		return nil, ErrDamaged
	}
	return block, nil
}

// parse reads the directory, which begins at an offset.
func (x *Index) parse(b []byte, at int64) error {
	d := decoder{b: b}
	x.Next = uint64(d.fixed())
	x.Since = uint64(d.fixed())
	x.earlier = make([]uint64, d.count())
	for i := range x.earlier {
		x.earlier[i] = uint64(d.number(math.MaxInt64))
	}
	x.Streams = make([]Stream, d.count())
	for i := range x.Streams {
		s := &x.Streams[i]
		for _, text := range []*string{&s.Name, &s.Cluster, &s.Group, &s.Version, &s.Resource, &s.Kind} {
			*text = d.text()
		}
		s.Marks, s.Begins = x.indexes(&d, nil), x.indexes(&d, nil)
		s.before = progress{Type(d.byte()), uint64(d.number(math.MaxInt64))}
	}
	if n := len(x.Streams) - 1; n >= 0 && x.Streams[n].Name == removals {
		x.Streams, x.hasRemoved = x.Streams[:n], true
	}
	x.writers = make([]string, d.count())
	for i := range x.writers {
		x.writers[i] = d.text()
	}
	x.members = make([]member, d.count())
	var m member
	for i := range x.members {
		m.zipped += d.number(x.Zipped - m.zipped)
		m.plain += d.number(x.Size - m.plain)
		x.members[i] = m
	}
	next := int64(headerSize)
	block := func() extent {
		e := extent{next, d.number(at - next - sumSize)}
		next += e.size + sumSize
		return e
	}
	x.lines = make([]extent, d.count())
	for i := range x.lines {
		x.lines[i] = block()
	}
	x.objects = make([]objectBlock, d.count())
	for i := range x.objects {
		o := &x.objects[i]
		o.stream = int(d.number(int64(len(x.Streams)) - 1 + int64(btoi(x.hasRemoved))))
		o.extent, o.first = block(), d.text()
	}
	x.names = block()
	x.sum = binary.LittleEndian.Uint32(append(d.take(sumSize), make([]byte, sumSize)...))
	if err := d.end(); err != nil {
		return err
	}
	if next != at || len(x.lines) != (x.Lines+linesPerBlock-1)/linesPerBlock {
		return ErrDamaged
	}
	return nil
}

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// indexes reads the indexes of lines.
func (x *Index) indexes(d *decoder, all []int) []int {
	n := d.count()
	all = slices.Grow(all[:0], n)
	at := 0
	for range n {
		at += int(d.number(int64(x.Lines - 1 - at)))
		all = append(all, at)
	}
	return all
}

// Line returns where a line is, by its index in the segment, which is less than Lines.
func (x *Index) Line(at int) (Line, error) {
	if block := at / linesPerBlock; block != x.blockAt {
		var err error
		x.blockAt = -1
		if x.block, err = x.appendLines(x.block[:0], block); err != nil {
			return Line{}, err
		}
		x.blockAt = block
	}
	return x.block[at%linesPerBlock], nil
}

// LineOf returns where the line with a seq is. ErrDamaged says that there is none: seq rises from line to line.
func (x *Index) LineOf(seq uint64) (Line, error) {
	// Without a damaged line it is as far from the first one as its seq.
	if at := seq - x.FirstSeq; at < uint64(x.Lines) {
		if l, err := x.Line(int(at)); err != nil || l.Seq == seq {
			return l, err
		}
	}
	var failed error
	at := sort.Search(x.Lines, func(at int) bool {
		l, err := x.Line(at)
		failed = cmp.Or(failed, err)
		return l.Seq >= seq
	})
	if failed != nil || at == x.Lines {
		return Line{}, cmp.Or(failed, ErrDamaged)
	}
	l, err := x.Line(at)
	if err == nil && l.Seq != seq {
		err = ErrDamaged
	}
	return l, err
}

// AppendAll appends the places of all lines.
func (x *Index) AppendAll(all []Line) (_ []Line, err error) {
	all = slices.Grow(all, x.Lines)
	for block := range x.lines {
		if all, err = x.appendLines(all, block); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// lasts returns what matters of all lines, should they be the last ones of their objects.
func (x *Index) lasts() ([]last, error) {
	all := make([]last, 0, x.Lines)
	for at := range x.Lines {
		l, err := x.Line(at)
		if err != nil {
			return nil, err
		}
		if l.Type == Deleted {
			l.Seq = 0
		}
		all = append(all, last{l.Seq, l.Offset})
	}
	return all, nil
}

func (x *Index) appendLines(all []Line, block int) ([]Line, error) {
	scratch := inflaters.Get().(*inflater)
	defer inflaters.Put(scratch)
	b, err := x.readTo(scratch.packed, x.lines[block])
	if err != nil {
		return nil, err
	}
	scratch.packed = b
	d := decoder{b: b}
	l := Line{Seq: uint64(d.number(math.MaxInt64)), Offset: d.number(x.Size)}
	at := d.delta()
	for range min(linesPerBlock, x.Lines-block*linesPerBlock) {
		l.Size = d.number(x.Size)
		at += d.delta()
		flags := d.byte()
		l.Time, l.Type, l.Snapshot = instant(at), Type(flags&typeBits), flags&snapshotFlag != 0
		l.Writer, l.Written = "", time.Time{}
		if n := d.number(int64(len(x.writers))); n > 0 {
			l.Writer = x.writers[n-1]
		}
		if flags&writtenFlag != 0 {
			l.Written = time.Unix(l.Time.Unix()-d.delta(), 0).UTC()
		}
		if flags&jumpFlag != 0 {
			l.Seq, l.Offset = l.Seq+uint64(d.delta()), l.Offset+d.delta()
		}
		all = append(all, l)
		l.Seq, l.Offset = l.Seq+1, l.Offset+l.Size
	}
	return all, d.end()
}

// Objects returns the objects of a stream, by its index, in the order of namespace, name and uid: those that were there
// when the segment began and those with lines in it. Of namespace and name, each may be nil, for any. What is yielded
// is valid until the next one.
func (x *Index) Objects(stream int, namespace, name *string) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		prefix := ""
		if namespace != nil {
			if prefix = *namespace + "\x00"; name != nil {
				prefix += *name
			}
		}
		for o, err := range x.from(stream, prefix) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !strings.HasPrefix(o.place, prefix) {
				return
			}
			if name != nil && o.Name != *name {
				if namespace != nil {
					return // it is past
				}
				continue
			}
			o.UID, o.Refs = unpacked(o.uid), nil
			for _, uid := range o.refs {
				o.Refs = append(o.Refs, unpacked(uid))
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// Stream returns the index of the stream with that name.
func (x *Index) Stream(name string) (at int, there bool) {
	if name == removals {
		return len(x.Streams), x.hasRemoved
	}
	return slices.BinarySearchFunc(x.Streams, name, func(s Stream, name string) int {
		return strings.Compare(s.Name, name)
	})
}

// Begun returns the seq from which on the lines of a stream say all that is there, by the indexes of consecutive
// segments: where it was forgotten and started over ('kubejournal checkpoint reset'), no line says what was deleted
// meanwhile. includes says which SYNCED lines count, up to the first that does not. It is 0 where the stream was not
// begun in these segments.
func Begun(segments []*Index, stream string, includes func(*Line) bool) (uint64, error) {
	begun, _, err := begun(segments, stream, includes)
	return begun, err
}

// begun returns the stream's progress at the end too.
func begun(segments []*Index, stream string, includes func(*Line) bool) (begun uint64, p progress, err error) {
	for i, x := range segments {
		n, there := x.Stream(stream)
		if !there || stream == removals {
			continue
		}
		s := &x.Streams[n]
		if i == 0 {
			p = s.before
		}
		for _, at := range s.Starts() {
			l, err := x.Line(at)
			switch {
			case err != nil:
				return 0, p, err
			case l.Type != Gap && l.Type != Synced:
				if p.list == 0 {
					p.list = l.Seq
				}
				continue
			case !includes(&l):
				return begun, p, nil
			case l.Type == Synced && p.list > 0:
				begun = p.list
			case l.Type == Synced && p.mark == Synced:
				begun = l.Seq // with nothing there, or nothing that was to be written
			}
			p = progress{mark: l.Type}
		}
	}
	return begun, p, nil
}

// Starts returns Marks and Begins, in order.
func (s *Stream) Starts() []int {
	return slices.Sorted(slices.Values(slices.Concat(s.Marks, s.Begins)))
}

// ofStream returns the objects of the stream with that name.
func (x *Index) ofStream(name string) iter.Seq2[*Object, error] {
	at, there := x.Stream(name)
	if !there {
		return func(func(*Object, error) bool) {}
	}
	return x.from(at, "")
}

// from returns the objects of a stream from the first one on whose place is no less.
func (x *Index) from(stream int, place string) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		o := &Object{}
		for b, err := range x.blocks(stream, place) {
			if err != nil {
				yield(nil, err)
				return
			}
			o.place, o.refs, o.near = "", nil, Place{}
			for len(b.fields.b) > 0 {
				if !x.object(&b.fields, &b.texts, &b.uids, o) {
					yield(nil, ErrDamaged)
					return
				}
				if x.onlyBefore {
					if o.Lines = o.Lines[:0]; o.Before.Seq == 0 {
						continue
					}
				}
				if o.place >= place && !yield(o, nil) {
					return
				}
			}
		}
	}
}

// inflated is a block of objects.
type inflated struct{ fields, texts, uids decoder }

// blocks returns the blocks of a stream's objects from the one on that may have a place. What is yielded is valid until
// the next one.
func (x *Index) blocks(stream int, place string) iter.Seq2[*inflated, error] {
	return func(yield func(*inflated, error) bool) {
		first := sort.Search(len(x.objects), func(i int) bool {
			b := &x.objects[i]
			return b.stream > stream || b.stream == stream && b.first >= place
		})
		if first > 0 && x.objects[first-1].stream == stream {
			first--
		}
		scratch := inflaters.Get().(*inflater)
		defer inflaters.Put(scratch)
		for _, block := range x.objects[first:] {
			if block.stream != stream {
				return
			}
			b, err := x.readTo(scratch.packed, block.extent)
			if err != nil {
				yield(nil, err)
				return
			}
			scratch.packed = b
			d := decoder{b: b}
			fields, text := d.number(maxInflated), d.number(maxInflated)
			uids := decoder{b: d.take(d.count())}
			all := scratch.inflate(d.b, fields+text)
			if all == nil {
				yield(nil, ErrDamaged)
				return
			}
			if !yield(&inflated{decoder{b: all[:fields]}, decoder{b: all[fields:]}, uids}, nil) {
				return
			}
		}
	}
}

// Spot is where the lines about an object are in a segment.
type Spot struct {
	Place []byte // namespace and name, with a zero byte between
	Lines []int  // by their indexes, at least one
}

// Namespace returns the object's namespace, a part of Place.
func (s *Spot) Namespace() []byte {
	namespace, _, _ := bytes.Cut(s.Place, []byte{0})
	return namespace
}

// Spots returns the objects of a stream that have lines in the segment, as Objects does, in less time. What is yielded
// is valid until the next one.
func (x *Index) Spots(stream int) iter.Seq2[*Spot, error] {
	return func(yield func(*Spot, error) bool) {
		s := &Spot{}
		for b, err := range x.blocks(stream, "") {
			if err != nil {
				yield(nil, err)
				return
			}
			s.Place = s.Place[:0]
			for len(b.fields.b) > 0 {
				if !x.spot(&b.fields, &b.texts, s) {
					yield(nil, ErrDamaged)
					return
				}
				if len(s.Lines) > 0 && !yield(s, nil) {
					return
				}
			}
		}
	}
}

// spot reads of an object, which comes after s, as much as a Spot has.
func (x *Index) spot(d, texts *decoder, s *Spot) (ok bool) {
	uid := func() { d.number(math.MaxInt64) }
	shared := d.number(int64(len(s.Place)))
	flags := d.byte()
	s.Place = append(s.Place[:shared], texts.take(int(d.number(int64(len(texts.b)))))...)
	uid()
	if flags&createdFlag != 0 {
		d.delta()
	}
	if flags&refersFlag != 0 {
		for range d.count() {
			uid()
		}
	}
	if flags&beforeFlag != 0 {
		if flags&nearFlag == 0 {
			d.number(math.MaxInt64)
		}
		d.delta()
		d.delta()
	}
	if s.Lines = s.Lines[:0]; flags&linesFlag != 0 {
		s.Lines = x.indexes(d, s.Lines)
	}
	return !d.bad
}

// inflate returns the bytes of a compressed part of a block, nil where it is damaged. They are valid until the next
// call.
func (i *inflater) inflate(b []byte, size int64) []byte {
	i.source.Reset(b)
	if i.in == nil {
		i.in = flate.NewReader(&i.source)
	} else if i.in.(flate.Resetter).Reset(&i.source, nil) != nil {
		return nil
	}
	i.out.Reset()
	if _, err := io.CopyN(&i.out, i.in, size); err != nil {
		return nil
	}
	return i.out.Bytes()
}

// object reads an object, which comes after o.
func (x *Index) object(d, texts, uids *decoder, o *Object) (ok bool) {
	shared := d.number(int64(len(o.place)))
	flags := d.byte()
	o.place = o.place[:shared] + string(texts.take(int(d.number(int64(len(texts.b))))))
	o.uid = d.uid(uids)
	if o.Created = (time.Time{}); flags&createdFlag != 0 {
		o.Created = time.Unix(x.Oldest.Unix()+d.delta(), 0).UTC()
	}
	switch {
	case flags&refersFlag != 0:
		o.refs = make([]string, d.count())
		for i := range o.refs {
			o.refs[i] = d.uid(uids)
		}
	case flags&sameRefsFlag == 0:
		o.refs = nil
	}
	if o.Before = (Place{}); flags&beforeFlag != 0 {
		if flags&nearFlag == 0 {
			if at := d.number(int64(len(x.earlier)) - 1); !d.bad {
				o.near = Place{x.earlier[at], x.earlier[at], 0}
			}
		}
		o.near.Seq += uint64(d.delta())
		o.near.Offset += d.delta()
		o.Before = o.near
	}
	if o.Lines = o.Lines[:0]; flags&linesFlag != 0 {
		o.Lines = x.indexes(d, o.Lines)
	}
	o.Namespace, o.Name, ok = strings.Cut(o.place, "\x00")
	return ok && !d.bad
}

// Share is how many bytes of lines there are about the objects of a stream in a namespace.
type Share struct {
	Stream, Namespace string
	Bytes             int64
}

// Usage yields how the segment's bytes are shared; a namespace more than once.
func (x *Index) Usage() iter.Seq2[Share, error] {
	return func(yield func(Share, error) bool) {
		sizes := make([]int64, x.Lines)
		for at := range sizes {
			l, err := x.Line(at)
			if err != nil {
				yield(Share{}, err)
				return
			}
			sizes[at] = l.Size
		}
		for i := range x.Streams {
			is := Share{Stream: x.Streams[i].Name}
			for o, err := range x.from(i, "") {
				if err != nil {
					yield(Share{}, err)
					return
				}
				if o.Namespace != is.Namespace && is.Bytes > 0 {
					if !yield(is, nil) {
						return
					}
					is.Bytes = 0
				}
				is.Namespace = o.Namespace
				for _, at := range o.Lines {
					is.Bytes += sizes[at]
				}
			}
			if is.Bytes > 0 && !yield(is, nil) {
				return
			}
		}
	}
}

// AtBeginning returns what a full index says of the time at which its segment began, to fill the index of a segment
// that takes its place. Nothing else may be asked of it.
func (x *Index) AtBeginning() *Index {
	is := *x
	is.onlyBefore, is.Next, is.blockAt = true, x.FirstSeq, -1
	is.Streams = slices.Clone(x.Streams)
	for i := range is.Streams {
		is.Streams[i].Marks, is.Streams[i].Begins = nil, nil
	}
	return &is
}

// Check reads all of the index: ErrDamaged where it is not as it was written.
func (x *Index) Check() error {
	if _, err := x.AppendAll(nil); err != nil {
		return err
	}
	for i := range len(x.Streams) + btoi(x.hasRemoved) {
		for _, err := range x.from(i, "") {
			if err != nil {
				return err
			}
		}
	}
	_, err := x.Names()
	return err
}

// Member returns where the gzip member begins that has the byte at an offset of the plain segment: in the compressed
// file, and in the plain one. It is for a compressed file of Zipped bytes.
func (x *Index) Member(offset int64) (zipped, plain int64) {
	i := sort.Search(len(x.members), func(i int) bool { return x.members[i].plain > offset })
	if i == 0 {
		return 0, 0
	}
	return x.members[i-1].zipped, x.members[i-1].plain
}

// Removal is which lines are not in the journal any more: those about a stream's objects in a namespace, in none where
// Namespace is empty; or whole files where Stream is line.Journal.
type Removal struct {
	Stream, Namespace string
	Lines             []int // the REMOVED lines in the segment, by their indexes
	Before            Place // the last such line before it, in a full index
}

// Removals yields what REMOVED lines are about. What is yielded is valid until the next one.
func (x *Index) Removals() iter.Seq2[Removal, error] {
	return func(yield func(Removal, error) bool) {
		for o, err := range x.ofStream(removals) {
			if err != nil {
				yield(Removal{}, err)
				return
			}
			if !yield(Removal{o.Namespace, o.Name, o.Lines, o.Before}, nil) {
				return
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Names returns what CustomResourceDefinitions said, up to the segment's end, by their names: JSON with group, names,
// scope and versions as the spec has them; of a version name and additionalPrinterColumns.
func (x *Index) Names() (map[string]string, error) {
	b, err := x.read(x.names)
	if err != nil {
		return nil, err
	}
	d := decoder{b: b}
	names := make(map[string]string)
	for range d.count() {
		name := d.text()
		names[name] = d.text()
	}
	return names, d.end()
}
