package apidocs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/flate"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

const (
	// MaxSize is how large the file may be, in bytes, when Tidy has been called. Between two calls it may be twice
	// that.
	MaxSize = 64 << 20
	// maxApart is the longest time from one request to the next between which a moment goes on.
	maxApart = 2 * time.Minute
)

var (
	// ErrTooLarge says that a document has more than MaxDocument bytes.
	ErrTooLarge = fmt.Errorf("it has more than %d MiB", MaxDocument>>20)
	// ErrFull says that the file may not grow before Tidy is called again.
	ErrFull = fmt.Errorf("it has %d MiB: what the API server serves is large and changes often", 2*MaxSize>>20)
	errGone = errors.New("it is not there any more")
)

// Writer appends to the file. After an error that is not of what Put reads, it is to be closed and another one opened,
// which finds out what is on disk. Its process holds the lock of the journal. It is for one goroutine.
type Writer struct {
	Damaged error // what was found damaged, and is passed over or cut off; nil for none

	disk  disk.FS
	path  string
	f     disk.File
	c     *content
	began bool // the last moment is of this Writer
	flate *flate.Writer

	// Chunks that are still to be written, and the table of their record.
	keys   []byte
	chunks bytes.Buffer
	has    map[key]bool
}

// OpenWriter opens the file of the journal whose active file is at path, or makes it. A crash leaves none, or a whole
// one, and possibly a temporary file.
func OpenWriter(d disk.FS, path string) (*Writer, error) {
	w := newWriter(cmp.Or(d, disk.OS), segment.APIPath(path))
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("open %s: %w", w.path, err)
	}
	return w, nil
}

func newWriter(d disk.FS, path string) *Writer {
	return &Writer{disk: d, path: path, c: newContent(), has: make(map[key]bool)}
}

func (w *Writer) open() error {
	if err := disk.CheckLink(w.path); err != nil {
		return err
	}
	info, err := w.disk.Stat(w.path)
	switch {
	case err == nil:
		if err := disk.CheckForeign(w.path, info); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		return w.replace(nil, MaxSize)
	default:
		return err
	}
	if w.f, w.c, err = open(w.disk, w.path, os.O_RDWR); err != nil {
		return err
	}
	w.Damaged = w.c.damaged
	if err := w.f.Truncate(w.c.end); err != nil { // what a crash has left of a record
		return errors.Join(err, w.f.Close())
	}
	return nil
}

// Close closes the file. It does nothing to nil.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	return w.f.Close()
}

// Last returns what the last moment has of documents that are whole; nothing where there is no moment.
func (w *Writer) Last() Manifest {
	if len(w.c.spans) == 0 {
		return Manifest{}
	}
	m, err := w.c.manifest(w.c.spans[len(w.c.spans)-1].manifest)
	if err != nil {
		return Manifest{} // everything is asked for again
	}
	m.Documents = slices.DeleteFunc(m.Documents, func(d Document) bool { return !w.c.whole(d.Sum) })
	return m
}

// Put stores a document, unless it is there, and returns its sum and size.
func (w *Writer) Put(r io.Reader) (sum Sum, size int64, err error) {
	hash := sha256.New()
	record := make([]byte, docSize)
	err = eachChunk(r, func(b []byte) error {
		if size += int64(len(b)); size > MaxDocument {
			return ErrTooLarge
		}
		hash.Write(b)
		k := sha256.Sum256(b)
		record = append(record, k[:keySize]...)
		return w.chunk(key(k[:keySize]), b)
	})
	if err != nil {
		return sum, size, err
	}
	hash.Sum(sum[:0])
	if _, is := w.c.docs[sum]; is && len(w.has) == 0 {
		return sum, size, nil
	}
	copy(record, sum[:])
	binary.LittleEndian.PutUint64(record[sha256.Size:], uint64(size))
	if err := w.flush(); err != nil {
		return sum, size, err
	}
	return sum, size, w.append(kindDocument, record)
}

// chunk adds a chunk to those that are to be written, unless it is there.
func (w *Writer) chunk(k key, b []byte) error {
	if _, is := w.c.chunks[k]; is || w.has[k] {
		return nil
	}
	w.has[k] = true
	w.keys = binary.LittleEndian.AppendUint32(append(w.keys, k[:]...), uint32(len(b)))
	w.chunks.Write(b)
	if w.chunks.Len() < maxPack {
		return nil
	}
	return w.flush()
}

// flush writes the chunks that are to be written.
func (w *Writer) flush() (err error) {
	if len(w.has) == 0 {
		return nil
	}
	record := bytes.NewBuffer(binary.LittleEndian.AppendUint32(nil, uint32(len(w.has))))
	record.Write(w.keys)
	if w.flate == nil {
		if w.flate, err = flate.NewWriter(record, flate.DefaultCompression); err != nil {
			return err
		}
	}
	w.flate.Reset(record)
	if _, err = w.chunks.WriteTo(w.flate); err == nil {
		err = w.flate.Close()
	}
	if err != nil {
		return err
	}
	w.keys = w.keys[:0]
	clear(w.has)
	return w.append(kindChunks, record.Bytes())
}

// append appends a record.
func (w *Writer) append(kind byte, b []byte) error {
	if w.c.end > 2*MaxSize {
		return fmt.Errorf("write %s: %w", w.path, ErrFull)
	}
	record := binary.LittleEndian.AppendUint32(make([]byte, 0, headSize+len(b)), uint32(len(b)))
	record = append(record, kind, 0, 0, 0)
	record = binary.LittleEndian.AppendUint32(record, checksum(b))
	record = binary.LittleEndian.AppendUint32(record, checksum(record))
	if _, err := w.f.WriteAt(append(record, b...), w.c.end); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	w.c.add(kind, b, w.c.end+headSize)
	w.c.end += int64(headSize + len(b))
	return nil
}

// Record notes that the server was seen to serve these documents, which Put has stored, at a time. If they are those of
// the last moment, and that was seen shortly before, it goes on, and the file does not grow.
func (w *Writer) Record(m Manifest, at time.Time) error {
	if is, err := w.f.Stat(); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	} else if named, err := w.disk.Stat(w.path); err != nil || !os.SameFile(is, named) {
		return fmt.Errorf("write %s: %w", w.path, cmp.Or(err, errGone))
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	sum := Sum(sha256.Sum256(b))
	var last span
	if n := len(w.c.spans); n > 0 {
		last = w.c.spans[n-1]
	}
	if w.began && last.manifest == sum && at.UnixNano()-last.until <= int64(maxApart) {
		return w.extend(last.number, at.UnixNano())
	}
	if len(b) > maxManifest {
		return fmt.Errorf("write %s: the names of documents take more than %d MiB", w.path, maxManifest>>20)
	}
	if _, _, err = w.Put(bytes.NewReader(b)); err != nil {
		return err
	}
	if err := w.begin(span{last.number + 1, at.UnixNano(), at.UnixNano(), sum}, last.until); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", w.path, err)
	}
	w.began, w.flate = true, nil // the next change may be far
	return nil
}

// begin appends a moment.
func (w *Writer) begin(s span, before int64) error {
	record := make([]byte, 0, moment)
	for _, n := range []uint64{s.number, uint64(s.since), uint64(s.until), uint64(before)} {
		record = binary.LittleEndian.AppendUint64(record, n)
	}
	return w.append(kindMoment, append(record, s.manifest[:]...))
}

// extend moves the end of the last moment.
func (w *Writer) extend(number uint64, until int64) error {
	last := &w.c.spans[len(w.c.spans)-1]
	if until <= last.until {
		return nil // the clock was set back
	}
	slot := binary.LittleEndian.AppendUint64(nil, number)
	slot = binary.LittleEndian.AppendUint64(slot, uint64(until))
	slot = binary.LittleEndian.AppendUint32(slot, checksum(slot))
	if _, err := w.f.WriteAt(slot, slots[w.c.slot]); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	last.until, w.c.slot = until, 1-w.c.slot
	return nil
}

// Tidy drops the moments that end before oldest, but the last one of them where the next begins later, once they are a
// quarter of all. If the file exceeds MaxSize, those go too that held for the shortest time.
func (w *Writer) Tidy(oldest time.Time) error {
	spans, first, room := w.c.spans, 0, int64(MaxSize)
	for first+1 < len(spans) && spans[first+1].since <= oldest.UnixNano() {
		first++
	}
	switch {
	case w.c.end > MaxSize:
		room = MaxSize / 2
	case first == 0 || 4*first < len(spans):
		return nil
	}
	if err := w.replace(spans[first:], room); err != nil {
		return fmt.Errorf("write %s again: %w", w.path, err)
	}
	return nil
}

// replace writes the file anew, with these moments and what they have of documents that are whole, and opens it. A
// crash leaves the file before or this one, and possibly a temporary file, which the journal's tidier removes.
func (w *Writer) replace(spans []span, room int64) error {
	temporary := filepath.Join(filepath.Dir(w.path), segment.TemporaryName(filepath.Base(w.path)))
	next := newWriter(w.disk, w.path)
	f, err := disk.WriteTemporary(w.disk, temporary, segment.FileMode, func(f io.WriterAt) error {
		next.f = f.(disk.File)
		return next.fill(w.c, spans, room)
	})
	if err == nil {
		err = w.disk.Rename(temporary, w.path)
	}
	if err == nil {
		err = w.disk.SyncDir(filepath.Dir(w.path))
	}
	if err != nil {
		if f != nil {
			err = errors.Join(err, w.disk.Remove(temporary), f.Close())
		}
		return err
	}
	if w.f != nil {
		err = w.f.Close()
	}
	w.f, w.c, w.flate = f, next.c, nil
	w.c.r = f
	return err
}

// fill writes a new file, with moments of another one: the last, and as many of the others as there is room for, those
// first whose documents were served for the longest time.
func (w *Writer) fill(from *content, spans []span, room int64) error {
	head := make([]byte, start)
	copy(head, magic)
	binary.LittleEndian.PutUint32(head[len(magic):], version)
	if _, err := w.f.WriteAt(head, 0); err != nil {
		return err
	}
	order, served := []Sum{}, make(map[Sum]int64)
	for _, s := range slices.Backward(spans) {
		if _, is := served[s.manifest]; !is {
			order = append(order, s.manifest)
		}
		served[s.manifest] += s.until - s.since
	}
	slices.SortStableFunc(order[min(1, len(order)):], func(a, b Sum) int { return cmp.Compare(served[b], served[a]) })
	for _, sum := range order {
		before := w.c.end
		m, err := from.manifest(sum)
		for _, d := range append(m.Documents, Document{Sum: sum}) {
			if _, done := w.c.docs[d.Sum]; err == nil && !done && from.whole(d.Sum) {
				var b []byte
				if b, err = from.read(d.Sum, MaxDocument); err == nil {
					_, _, err = w.Put(bytes.NewReader(b))
				}
			}
		}
		if full := w.c.end > room || errors.Is(err, ErrFull); full && sum != order[0] {
			if err = w.f.Truncate(before); err == nil {
				w.c, err = scan(w.f, before)
			}
			if err != nil {
				return err
			}
			break
		}
		if err != nil && from.whole(sum) {
			return err // the disk does not let it be read now
		}
	}
	for _, s := range spans {
		if _, kept := w.c.docs[s.manifest]; kept {
			if err := w.begin(s, 0); err != nil {
				return err
			}
		}
	}
	return nil
}
