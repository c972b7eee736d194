package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Changes of few among many objects meet a page of the tree each. They are
// appended to a log of their stream instead, page after page, and put in their
// place in the tree later, together with their neighbours.
//
// The log is a bucket of records: number (8 bytes), entries one after the other
// (length of the key, key, length of the value, value; an empty value: the
// object is gone). Of several entries of a key the last counts, and it comes
// before what the tree says. Where the log has grown long, a sweep begins: each
// commit puts some of the entries into the tree, in the order of their keys, but
// only those of the records that were there when the sweep began, until none is
// left. These records are removed then. How far the sweep is stands in the log
// too (keySweep) and changes in the transactions that it speaks of, so that a
// crash leaves both as they were or both as they are.
//
// A key that has no entry which counts may be put into the tree directly:
// entries of it that still stand in the log belong to records that the sweep has
// passed it in.

// policy says which changes go to the log.
type policy struct {
	entries int // a sweep begins when more entries than these count, in a stream
	share   int // or more than 1 for each share of the objects in its tree; 0: never
	batch   int // commits of more objects of a stream go to the tree, as those of a greater share do
	total   int // bytes of all logs in memory from which on nothing is logged
}

// usualPolicy: a sweep finds about four entries for each page of the tree, so that
// a commit writes a quarter of the pages. The log is at most a fifth of the file.
var usualPolicy = policy{entries: 1 << 17, share: 10, batch: 1 << 12, total: 32 << 20}

// recordSize is from how many bytes on a record is full: four of them to a page.
const recordSize = 900

// keySweep is the key of a log's sweep: number of the first record that it does
// not see (8 bytes), first key that it has not met. Absent where there is none.
var keySweep = []byte("sweep")

// recent is the log of one stream in memory. What a reader has got hold of does
// not change: a commit makes a new one, whose arena goes on in the same memory.
type recent struct {
	arena []byte   // entries as they stand in the records
	order []uint32 // where those begin that count, in the order of their keys
	next  uint64   // number of the next record, from 1

	// The sweep: it sees records before number until, which are the entries before
	// old of the arena, and has met the keys before from. until is 0 without one.
	until uint64
	old   uint32
	from  []byte
}

// entryAt returns the entry at the beginning of b, and where the next begins.
func entryAt(b []byte) (key, value []byte, size int, ok bool) {
	at := 0
	for _, part := range []*[]byte{&key, &value} {
		n, used := binary.Uvarint(b[at:])
		if used <= 0 || n > uint64(len(b)-at-used) {
			return nil, nil, 0, false
		}
		at += used
		*part, at = b[at:at+int(n):at+int(n)], at+int(n)
	}
	return key, value, at, true
}

func appendEntry(dst []byte, e entry) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(e.key))), e.key...)
	return append(binary.AppendUvarint(dst, uint64(len(e.value))), e.value...)
}

// at returns an entry of the arena.
func (r *recent) at(offset uint32) entry {
	key, value, _, _ := entryAt(r.arena[offset:])
	return entry{key: key, value: value}
}

// compare compares the key of an entry of the arena with another.
func (r *recent) compare(offset uint32, key []byte) int {
	n, used := binary.Uvarint(r.arena[offset:])
	begin := uint64(offset) + uint64(used)
	return bytes.Compare(r.arena[begin:begin+n], key)
}

// search returns where key stands in the order, or would.
func (r *recent) search(key []byte) (i int, found bool) {
	if r == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(r.order, key, r.compare)
}

// get returns what the log says of a key; an empty value: the object is gone.
func (r *recent) get(key []byte) (value []byte, ok bool) {
	i, ok := r.search(key)
	if !ok {
		return nil, false
	}
	return r.at(r.order[i]).value, true
}

// len is how many entries count.
func (r *recent) len() int {
	if r == nil {
		return 0
	}
	return len(r.order)
}

// with returns the log with later entries, ordered by key, each key once.
func (r *recent) with(later []entry) *recent {
	if r == nil {
		r = &recent{next: 1}
	}
	n := *r
	n.order = make([]uint32, 0, len(r.order)+len(later))
	rest := r.order
	for left, e := range later {
		// Its place is likely to be near: no more of the order is looked at.
		begin, end := 0, len(rest)/(len(later)-left)
		for end < len(rest) && r.compare(rest[end], e.key) < 0 {
			begin, end = end+1, min(2*end+1, len(rest))
		}
		i, found := slices.BinarySearchFunc(rest[begin:min(end+1, len(rest))], e.key, r.compare)
		i += begin
		n.order = append(append(n.order, rest[:i]...), uint32(len(n.arena)))
		if found {
			i++
		}
		rest = rest[i:]
		n.arena = appendEntry(n.arena, e)
	}
	n.order = append(n.order, rest...)
	return &n
}

// loadRecent reads the log of a stream from its bucket.
func loadRecent(b *bbolt.Bucket) (*recent, error) {
	r := &recent{next: 1}
	if v := b.Get(keySweep); v != nil {
		if len(v) < 8 {
			return nil, fmt.Errorf("%w: the state of a sweep cannot be read", ErrDamaged)
		}
		r.until, r.from = binary.BigEndian.Uint64(v), bytes.Clone(v[8:])
	}
	err := b.ForEach(func(k, record []byte) error {
		if len(k) != 8 {
			return nil // keySweep
		}
		number := binary.BigEndian.Uint64(k)
		r.next = number + 1
		for len(record) > 0 {
			key, _, size, ok := entryAt(record)
			if !ok {
				return fmt.Errorf("%w: record %d of a log cannot be read", ErrDamaged, number)
			}
			if number >= r.until || bytes.Compare(key, r.from) >= 0 {
				r.order = append(r.order, uint32(len(r.arena)))
				r.arena = append(r.arena, record[:size]...)
			}
			record = record[size:]
		}
		if number < r.until {
			r.old = uint32(len(r.arena))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.next = max(r.next, r.until)
	slices.SortStableFunc(r.order, func(a, b uint32) int { return r.compare(a, r.at(b).key) })
	last := 0
	for i := range r.order {
		if i+1 < len(r.order) && bytes.Equal(r.at(r.order[i]).key, r.at(r.order[i+1]).key) {
			continue
		}
		r.order[last] = r.order[i]
		last++
	}
	r.order = r.order[:last]
	return r, nil
}

// logWriter writes the objects of one stream in a transaction.
type logWriter struct {
	*writer
	stream string
	known  *bbolt.Bucket // the tree
	placed int           // about how many objects stand in it
	tree   uint32        // what the numbers of its entries begin with
	log    *bbolt.Bucket
	crc    uint32 // the same for the log
}

// commit appends entries to the log r and, where it has grown long, puts about as
// many into the tree, so that it grows no longer.
func (w *logWriter) commit(r *recent, entries []entry, p *policy) error {
	if err := w.openLog(); err != nil {
		return err
	}
	r = r.with(entries)
	var err error
	if r.next, err = w.append(entries, r.next); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	limit := p.entries
	if p.share > 0 {
		limit = min(limit, w.placed/p.share)
	}
	if err := w.sweep(r, len(entries)+len(entries)/4+1, len(r.order) > limit); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	w.recent[w.stream] = r
	return nil
}

// openLog opens the log, the first one of a file with the schema that has them.
func (w *logWriter) openLog() error {
	logs := w.tx.Bucket(bucketRecent)
	if logs == nil {
		var err error
		if logs, err = w.tx.CreateBucket(bucketRecent); err != nil {
			return err
		}
		if err := w.schema(schemaRecent); err != nil {
			return err
		}
	}
	log, err := logs.CreateBucketIfNotExists([]byte(w.stream))
	if err != nil {
		return err
	}
	log.FillPercent = 1 // it only grows at its end
	w.log, w.crc = log, bucketCRC(bucketRecent, []byte(w.stream))
	return nil
}

// append writes entries to the file as records, from number on; it returns the
// number of the next.
func (w *logWriter) append(entries []entry, number uint64) (next uint64, err error) {
	var record []byte
	for i, e := range entries {
		if len(e.key) > bbolt.MaxKeySize {
			// A sweep could not put it into the tree, now or ever.
			return 0, fmt.Errorf("known object %q: %w", e.key, berrors.ErrKeyTooLarge)
		}
		record = appendEntry(record, e)
		if len(record) < recordSize && i < len(entries)-1 {
			continue
		}
		if err := w.put(w.log, w.crc, recordKey(number), record); err != nil {
			return 0, err
		}
		number++
		record = nil // bbolt keeps it until the commit
	}
	return number, nil
}

func recordKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// sweep puts up to most entries of r, which nobody else has yet, into the tree.
func (w *logWriter) sweep(r *recent, most int, begin bool) error {
	if r.until == 0 {
		if !begin {
			return nil
		}
		r.until, r.old, r.from = r.next, uint32(len(r.arena)), nil
	}
	first, _ := r.search(r.from)
	kept, at := first, first
	for ; at < len(r.order) && most > 0; at++ {
		if r.order[at] >= r.old {
			r.order[kept] = r.order[at]
			kept++
			continue
		}
		if err := w.place(r.at(r.order[at]), false); err != nil {
			return err
		}
		most--
	}
	if at < len(r.order) {
		r.from = bytes.Clone(r.at(r.order[at]).key)
		r.order = append(r.order[:kept], r.order[at:]...)
		return w.put(w.log, w.crc, keySweep, append(recordKey(r.until), r.from...))
	}
	r.order = r.order[:kept]
	return w.finish(r)
}

// finish ends a sweep that has met all keys.
func (w *logWriter) finish(r *recent) error {
	var numbers [][]byte
	c := w.log.Cursor()
	for k, _ := c.First(); len(k) == 8 && binary.BigEndian.Uint64(k) < r.until; k, _ = c.Next() {
		numbers = append(numbers, bytes.Clone(k))
	}
	for _, k := range numbers {
		if err := w.remove(w.log, w.crc, k); err != nil {
			return err
		}
	}
	// What is left of the arena begins where that ended which was swept.
	for i := range r.order {
		r.order[i] -= r.old
	}
	r.arena = bytes.Clone(r.arena[r.old:])
	r.until, r.old, r.from = 0, 0, nil
	return w.remove(w.log, w.crc, keySweep)
}

// place makes the tree say what an entry says. fresh says that it does not have
// the key.
func (w *logWriter) place(e entry, fresh bool) (err error) {
	before := w.entries
	switch {
	case len(e.value) == 0:
		err = w.remove(w.known, w.tree, e.key)
	case fresh:
		err = w.add(w.known, w.tree, e.key, e.value)
	default:
		err = w.put(w.known, w.tree, e.key, e.value)
	}
	w.writer.placed[w.stream] += w.entries - before
	return err
}
