package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"

	"go.etcd.io/bbolt"

	"kubejournal/internal/host/disk"
)

// update runs fn in one transaction and commits the sum with what fn changed.
// Everything that is written goes through the writer. After an error of the disk
// all of it may have been written or nothing.
func (s *Store) update(fn func(*writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.updateLocked(fn); err != nil {
		return fmt.Errorf("commit checkpoint: %w", err)
	}
	return nil
}

func (s *Store) updateLocked(fn func(*writer) error) error {
	if err := s.owned(); err != nil {
		return err
	}
	if s.roots == nil {
		if err := errors.Join(s.settle(), s.loadLogs()); err != nil {
			return err
		}
	}
	s.roots = nil // whether a commit that fails has changed them is not known
	w, err := s.transact(fn)
	if err != nil {
		return err
	}
	for name, n := range w.merged {
		s.merged[name] += n
	}
	s.logsMu.Lock()
	defer s.logsMu.Unlock()
	maps.Copy(s.deltaLogs, w.logs)
	maps.DeleteFunc(s.deltaLogs, func(_ string, l *deltaLog) bool { return l == nil })
	s.roots, _ = s.readRoots() // the commit is done
	return nil
}

func (s *Store) transact(fn func(*writer) error) (*writer, error) {
	w := &writer{logs: make(map[string]*deltaLog), merged: make(map[string]int)}
	return w, s.db.Update(func(tx *bbolt.Tx) error {
		w.tx = tx
		if v := tx.Bucket(bucketMeta).Get(keySum); len(v) == 8 { // absent before the first commit
			w.sum = binary.BigEndian.Uint64(v)
		}
		if err := fn(w); err != nil {
			return err
		}
		return tx.Bucket(bucketMeta).Put(keySum, binary.BigEndian.AppendUint64(nil, w.sum))
	})
}

// metaPages is how many pages at the beginning take turns in naming the root, at the end
// of a commit.
const metaPages = 2

// settle brings to the disk what a failed commit has left in the file. If its last sync
// fails, the system shows the new root from then on, and may never write it (fsync(2)):
// the next commit would build on it, and overwrite pages of the root on disk. So both
// roots are written once more. All other pages were synced before. A crash in between
// leaves the same bytes.
func (s *Store) settle() error {
	roots, err := s.readRoots()
	if err != nil {
		return err
	}
	if _, err := s.file.WriteAt(roots, 0); err != nil {
		return err
	}
	return s.file.Sync()
}

// readRoots reads the meta pages, one of which changes with each commit.
func (s *Store) readRoots() ([]byte, error) {
	roots := make([]byte, metaPages*s.pageSize)
	if _, err := s.file.ReadAt(roots, 0); err != nil {
		return nil, fmt.Errorf("read checkpoint %s: %w", s.path, err)
	}
	return roots, nil
}

// owned returns disk.ErrTakenOver once another process has opened the file to write to it,
// or has committed to it, on a volume without working locks: the two would overwrite each
// other's pages. A commit under way at that moment can do so; the sum detects it.
func (s *Store) owned() error {
	if s.owner == nil {
		return nil
	}
	if err := s.owner.Check(); err != nil {
		return fmt.Errorf("checkpoint %s: %w", s.path, err)
	}
	if s.roots == nil {
		return nil
	}
	is, err := s.readRoots()
	if err == nil && !bytes.Equal(s.roots, is) {
		err = fmt.Errorf("checkpoint %s is not as it was committed: %w", s.path, disk.ErrTakenOver)
	}
	return err
}

// writer is a transaction that writes. It keeps the sum in step.
type writer struct {
	tx  *bbolt.Tx
	sum uint64

	// What is true once the transaction is committed, by stream.
	logs   map[string]*deltaLog // those that have changed; nil: removed
	merged map[string]int       // how many objects more are in the tree
}

// table is a bucket in a transaction that writes.
type table struct {
	*bbolt.Bucket
	w       *writer
	crc     uint32 // what the numbers of its entries begin with, see bucketCRC
	entries int    // how many more there are than before
}

// top returns one of the buckets at the top, which is there.
func (w *writer) top(name []byte) *table {
	return &table{Bucket: w.tx.Bucket(name), w: w, crc: bucketCRC(name, nil)}
}

// table returns the bucket of a stream in one that files have from a schema on.
func (w *writer) table(bucket []byte, stream string, schema uint64) (*table, error) {
	all, err := w.tx.CreateBucketIfNotExists(bucket)
	if err != nil {
		return nil, err
	}
	if err := w.schema(schema); err != nil {
		return nil, err
	}
	b, err := all.CreateBucketIfNotExists([]byte(stream))
	return &table{Bucket: b, w: w, crc: bucketCRC(bucket, []byte(stream))}, err
}

// put sets the value of a key; an empty one removes it.
func (t *table) put(key, value []byte) error {
	if old := t.Get(key); old != nil {
		t.w.sum -= entrySum(t.crc, key, old)
		t.entries--
	}
	if len(value) == 0 {
		return t.Delete(key)
	}
	t.w.sum += entrySum(t.crc, key, value)
	t.entries++
	return t.Put(key, value)
}

func (t *table) putJSON(key []byte, value any) error {
	v, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return t.put(key, v)
}

// drop removes the bucket of a stream from one that holds one for each stream.
func (w *writer) drop(bucket, stream []byte) error {
	b := bucketOf(w.tx, bucket, stream)
	if b == nil {
		return nil
	}
	crc := bucketCRC(bucket, stream)
	err := b.ForEach(func(k, v []byte) error {
		w.sum -= entrySum(crc, k, v)
		return nil
	})
	if err != nil {
		return err
	}
	return w.tx.Bucket(bucket).DeleteBucket(stream)
}

// schema makes v the schema of the file, unless it is of a later one.
func (w *writer) schema(v uint64) error {
	meta := w.top(bucketMeta)
	if is, _ := binary.Uvarint(meta.Get(keySchema)); is >= v {
		return nil
	}
	return meta.put(keySchema, encodeSchema(v))
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// bucketCRC begins the numbers of a bucket's entries: by the name of the bucket at the
// top, and the stream.
func bucketCRC(name, stream []byte) uint32 {
	crc := crc32.Update(0, crcTable, name)
	crc = crc32.Update(crc, crcTable, []byte{0})
	return crc32.Update(crc, crcTable, stream)
}

// entrySum is the number of one entry. The file carries the sum modulo 2^64 of all, since
// bbolt has no checksum for its pages of data: it is committed with what it covers, and
// Open adds everything up again. A commit needs only the entries that it changes, and
// a known object costs no byte. The number is derived from a CRC-32 of bucket, key and
// value: of one damaged entry every flipped byte shows; of any other damage (entries
// lost, a page that is an older one of itself) all but one case in 2^32. The lengths say
// where the key ends; the mixing (that of splitmix64, one to one) separates what a CRC
// alone would not: it is linear, and two entries that swap their values would cancel out.
func entrySum(bucket uint32, key, value []byte) uint64 {
	crc := crc32.Update(crc32.Update(bucket, crcTable, key), crcTable, value)
	x := uint64(crc) | uint64(len(key))<<32 ^ uint64(len(value))<<48
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
