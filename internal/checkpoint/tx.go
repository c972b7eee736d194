package checkpoint

import (
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"
)

// update runs fn in one transaction and commits the sum with what fn changed.
// Everything that is written goes through the writer. After an error of the disk
// all of it may have been written or nothing.
func (s *Store) update(fn func(*writer) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect {
		s.roots = nil // whether they have changed is not known
	}
	if err := s.owned(); err != nil {
		return err
	}
	if s.suspect {
		if err := errors.Join(s.settle(), s.loadLogs()); err != nil {
			return err
		}
		s.suspect = false
	}
	w, err := s.transact(fn)
	if s.suspect = err != nil; s.suspect {
		return err
	}
	s.publish(w)
	s.roots, _ = s.readRoots() // the commit is done
	return nil
}

// transact runs fn in a transaction and commits it with the new sum.
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

// publish shows a transaction's delta logs to the readers.
func (s *Store) publish(w *writer) {
	for name, n := range w.merged {
		s.merged[name] += n
	}
	s.logsMu.Lock()
	defer s.logsMu.Unlock()
	for name, l := range w.logs {
		if l == nil {
			delete(s.deltaLogs, name)
			continue
		}
		s.deltaLogs[name] = l
	}
}

// metaPages is how many pages at the file's beginning take turns in naming the
// root: what bbolt writes last in a commit.
const metaPages = 2

// settle brings to the disk what a failed commit has left in the file. Where its
// very last sync fails, the system shows the new root from then on, and may never
// write it (fsync(2)): the next commit would build on it, and overwrite pages that
// the root on disk still leads to. So both roots are written once more. All other
// pages were synced before. A crash in between leaves the same bytes.
func (s *Store) settle() error {
	b := make([]byte, metaPages*s.pageSize)
	if _, err := s.file.ReadAt(b, 0); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(b, 0); err != nil {
		return err
	}
	return s.file.Sync()
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

// table returns the bucket of a stream in one that holds one for each stream.
func (w *writer) table(bucket []byte, stream string) (*table, error) {
	b, err := w.tx.Bucket(bucket).CreateBucketIfNotExists([]byte(stream))
	return &table{Bucket: b, w: w, crc: bucketCRC(bucket, []byte(stream))}, err
}

// put sets the value of a key.
func (t *table) put(key, value []byte) error {
	if old := t.Get(key); old != nil {
		t.w.sum -= entrySum(t.crc, key, old)
		t.entries--
	}
	return t.add(key, value)
}

// add is put for a key that the bucket does not have.
func (t *table) add(key, value []byte) error {
	t.w.sum += entrySum(t.crc, key, value)
	t.entries++
	return t.Put(key, value)
}

// remove removes a key where it is there.
func (t *table) remove(key []byte) error {
	old := t.Get(key)
	if old == nil {
		return nil
	}
	t.w.sum -= entrySum(t.crc, key, old)
	t.entries--
	return t.Delete(key)
}

// drop removes the bucket of a stream from one that holds one for each stream.
func (w *writer) drop(bucket, stream []byte) error {
	all := w.tx.Bucket(bucket)
	if all == nil {
		return nil
	}
	b := all.Bucket(stream)
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
	return all.DeleteBucket(stream)
}

// schema makes v the schema of the file, unless it is of a later one.
func (w *writer) schema(v uint64) error {
	meta := w.top(bucketMeta)
	if is, _ := binary.Uvarint(meta.Get(keySchema)); is >= v {
		return nil
	}
	return meta.put(keySchema, encodeSchema(v))
}
