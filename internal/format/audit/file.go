package audit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/klauspost/compress/flate"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// Person is who made a request, as the side file has it.
type Person struct {
	User         string   `json:"user"`
	Groups       []string `json:"groups,omitempty"`
	Impersonated string   `json:"impersonated,omitempty"` // the user that this one acted as
	Agent        string   `json:"userAgent,omitempty"`
	Addresses    []string `json:"sourceIPs,omitempty"` // clients may make up all but the last
	Verb         string   `json:"verb,omitempty"`
	AuditID      string   `json:"auditID,omitempty"`
	Match        Match    `json:"match"`
}

// Match is how it is known which request made a line.
type Match string

// How a request is matched, from the surest on.
const (
	Exact Match = "exact" // its answer has the uid and the version of the line
	UID   Match = "uid"   // it deleted the object with that uid
	Name  Match = "name"  // it alone fits the name, the verb, the manager and the time
)

var ranks = map[Match]int{Name: 1, UID: 2, Exact: 3}

// Entry is what the side file says of a line. Without a user, several requests fit: then nobody is named.
type Entry struct {
	Seq  uint64 `json:"seq"`
	Line uint32 `json:"line"` // CRC-32C of the line's id: a journal that was begun again counts from 1 again
	Person
}

// LineSum returns what Entry.Line is for a line's id, which is the inside of a JSON string.
func LineSum(id []byte) uint32 { return crc32.Checksum(id, castagnoli) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fsys is a variable for tests only.
var fsys = disk.OS

const (
	magic     = "kubejournal-who\n"
	headSize  = 4 + 4 + 8 + 8
	blockSize = 1000    // entries
	fullBlock = 1 << 20 // bytes of entries, with which a block ends
	maxBlock  = 8 << 20 // bytes of entries; an entry has up to 100 groups
)

// block is where some entries are in the file.
type block struct {
	at          int64 // of the content
	size        int
	sum         uint32
	first, last uint64
}

// File is a side file that is open for reading. It is for one goroutine. The methods of nil, which is one that is not
// there, find nothing.
type File struct {
	Damaged error // a part of the file that cannot be read, and was passed over; nil for none

	f      disk.File
	blocks []block
	read   int // the block that entries are of; -1 for none
	is     []Entry
}

// Open opens the side file of the journal whose active file is at path. Where there is none, both are nil.
func Open(path string) (*File, error) {
	path = segment.AuditPath(path)
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x, err := scan(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	return x, nil
}

var errNotOne = errors.New("not a file of 'kubejournal audit'")

// scan finds the blocks of a file.
func scan(f disk.File) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	x := &File{f: f, read: -1}
	if info.Size() == 0 { // its first writer was killed
		return x, nil
	}
	head := make([]byte, headSize)
	if _, err := f.ReadAt(head[:len(magic)], 0); err != nil || string(head[:len(magic)]) != magic {
		return nil, errNotOne
	}
	last := uint64(0)
	for at := int64(len(magic)); at < info.Size(); {
		b := block{at: at + headSize}
		_, err := f.ReadAt(head, at)
		b.size, b.sum = int(binary.LittleEndian.Uint32(head)), binary.LittleEndian.Uint32(head[4:])
		b.first, b.last = binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:])
		if err != nil || int64(b.size) > info.Size()-b.at || b.first <= last || b.last < b.first {
			x.Damaged = fmt.Errorf("from byte %d on it is damaged", at)
			break
		}
		x.blocks, last, at = append(x.blocks, b), b.last, b.at+int64(b.size)
	}
	return x, nil
}

// Close closes the file.
func (x *File) Close() {
	if x != nil {
		_ = x.f.Close() // it is only read
	}
}

// Of returns who made a line, nil where that is not known.
func (x *File) Of(seq uint64, id []byte) *Person {
	if x == nil {
		return nil
	}
	n := sort.Search(len(x.blocks), func(i int) bool { return x.blocks[i].last >= seq })
	if n == len(x.blocks) || x.blocks[n].first > seq {
		return nil
	}
	if x.read != n {
		var err error
		if x.is, err = x.entries(n); err != nil {
			x.Damaged = err
		}
		x.read = n
	}
	at, is := slices.BinarySearchFunc(x.is, seq, func(e Entry, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	if !is || x.is[at].Line != LineSum(id) || x.is[at].User == "" {
		return nil
	}
	return &x.is[at].Person
}

// entries reads a block.
func (x *File) entries(n int) (all []Entry, err error) {
	b := x.blocks[n]
	content := make([]byte, b.size)
	if _, err := x.f.ReadAt(content, b.at); err != nil {
		return nil, err
	}
	if b.check(content) != b.sum {
		return nil, fmt.Errorf("lines %d to %d of it are damaged", b.first, b.last)
	}
	d := json.NewDecoder(io.LimitReader(flate.NewReader(bytes.NewReader(content)), maxBlock))
	for {
		var e Entry
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil || e.Seq < b.first || e.Seq > b.last || len(all) > 0 && e.Seq <= all[len(all)-1].Seq:
			return nil, fmt.Errorf("lines %d to %d of it are damaged", b.first, b.last)
		}
		all = append(all, e)
	}
}

// check returns the checksum of a block.
func (b *block) check(content []byte) uint32 {
	var seqs [16]byte
	binary.LittleEndian.PutUint64(seqs[:], b.first)
	binary.LittleEndian.PutUint64(seqs[8:], b.last)
	return crc32.Update(crc32.Checksum(seqs[:], castagnoli), castagnoli, content)
}

// Merge adds entries, in the order of seq, to the side file of the journal whose active file is at path, and drops
// those of lines before oldest. It reports whether the file has changed. A surer match replaces another one. Where two
// that are as sure differ, nobody is named.
func Merge(path string, oldest uint64, add []Entry) (changed bool, err error) {
	if len(add) == 0 {
		return false, nil
	}
	path = segment.AuditPath(path)
	f, err := lock(path)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	old, err := scan(f)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", path, err) // another's file is not replaced
	}
	temporary := filepath.Join(filepath.Dir(path), segment.TemporaryName(filepath.Base(path)))
	defer disk.NoteTemporary(temporary)()
	out, err := disk.WriteTemporary(fsys, temporary, segment.FileMode, func(w io.WriterAt) error {
		changed, err = merge(&writer{w: w}, old, oldest, add)
		return err
	})
	if out != nil {
		defer out.Close() //nolint:errcheck // synced
	}
	if err == nil && changed {
		err = errors.Join(fsys.Rename(temporary, path), fsys.SyncDir(filepath.Dir(path)))
	} else if out != nil {
		err = errors.Join(err, fsys.Remove(temporary))
	}
	if err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	return changed, nil
}

// lock opens the side file, which is made if there is none, and takes its lock, if the volume has locks: two runs that
// both add to it come one after the other.
func lock(path string) (disk.File, error) {
	for {
		if err := disk.CheckLink(path); err != nil {
			return nil, err
		}
		if info, err := fsys.Stat(path); err == nil {
			if err := disk.CheckForeign(path, info); err != nil {
				return nil, err
			}
		}
		f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE, segment.FileMode)
		if err != nil {
			return nil, err
		}
		if err := f.Lock(); err != nil && !errors.Is(err, disk.ErrNoLocks) {
			return nil, errors.Join(err, f.Close())
		}
		is, err := f.Stat()
		there, missing := fsys.Stat(path)
		if err == nil && missing == nil && os.SameFile(is, there) {
			return f, nil
		}
		_ = f.Close() // another run has replaced it just now
		if err != nil {
			return nil, err
		}
	}
}

// merge writes the old entries and those that are added.
func merge(w *writer, old *File, oldest uint64, add []Entry) (changed bool, err error) {
	w.write([]byte(magic))
	changed = old.Damaged != nil || len(old.blocks) == 0 && len(add) > 0
	put := func(e Entry) {
		if e.Seq >= oldest {
			w.entry(e)
		}
	}
	for n := range old.blocks {
		is, err := old.entries(n)
		if err != nil {
			changed = true // what is damaged is made again, if its logs are there
			continue
		}
		for _, e := range is {
			for len(add) > 0 && add[0].Seq < e.Seq {
				put(add[0])
				add, changed = add[1:], true
			}
			if len(add) > 0 && add[0].Seq == e.Seq {
				better := surer(&e, &add[0])
				changed = changed || better != &e
				e, add = *better, add[1:]
			}
			put(e)
		}
	}
	for _, e := range add {
		changed = true
		put(e)
	}
	w.flush()
	return changed, w.err
}

// surer returns which of two entries of a line counts.
func surer(old, e *Entry) *Entry {
	switch {
	case old.Line != e.Line: // of a journal that was there before
		return e
	case ranks[e.Match] > ranks[old.Match]:
		return e
	case ranks[e.Match] < ranks[old.Match] || old.User == "" ||
		old.AuditID == e.AuditID && old.User == e.User && old.Verb == e.Verb:
		return old
	}
	return &Entry{Seq: old.Seq, Line: old.Line, Person: Person{Match: old.Match}}
}

// writer writes a side file.
type writer struct {
	w   io.WriterAt
	end int64        // of the file
	is  bytes.Buffer // entries of the block that is begun
	n   int          // how many
	block
	err error
}

func (w *writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.WriteAt(b, w.end)
		w.end += int64(len(b))
	}
}

func (w *writer) entry(e Entry) {
	if w.n == 0 {
		w.first = e.Seq
	}
	w.last = e.Seq
	lines := json.NewEncoder(&w.is)
	lines.SetEscapeHTML(false)
	w.err = errors.Join(w.err, lines.Encode(&e))
	if w.n++; w.n == blockSize || w.is.Len() >= fullBlock {
		w.flush()
	}
}

// flush writes a block.
func (w *writer) flush() {
	if w.n == 0 || w.err != nil {
		return
	}
	var content bytes.Buffer
	z, err := flate.NewWriter(&content, flate.DefaultCompression)
	if err == nil {
		_, err = z.Write(w.is.Bytes())
		err = errors.Join(err, z.Close())
	}
	w.err = err
	head := binary.LittleEndian.AppendUint32(nil, uint32(content.Len())) // a block is small
	head = binary.LittleEndian.AppendUint32(head, w.check(content.Bytes()))
	head = binary.LittleEndian.AppendUint64(head, w.first)
	head = binary.LittleEndian.AppendUint64(head, w.last)
	w.write(append(head, content.Bytes()...))
	w.is.Reset()
	w.n = 0
}
