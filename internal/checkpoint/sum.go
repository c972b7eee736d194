package checkpoint

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// The file carries one sum over everything in it, since bbolt has none for its
// pages of data: it is committed with what it covers, and Open adds everything
// up again. It is a sum modulo 2^64 of one number per entry, so that a commit
// needs only the entries that it changes, and costs a known object no byte. That
// number is drawn from a CRC-32 of bucket, key and value: of one damaged entry
// every flipped byte shows; of any other damage, entries lost, a page that is an
// older one of itself, all but one case in 2^32.

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// bucketCRC begins the numbers of a bucket's entries: of meta, streams and
// forgotten by their own name, of the known objects by bucketKnown and stream.
func bucketCRC(name, stream []byte) uint32 {
	crc := crc32.Update(0, crcTable, name)
	crc = crc32.Update(crc, crcTable, []byte{0})
	return crc32.Update(crc, crcTable, stream)
}

// entrySum is the number of one entry. The lengths say where the key ends; the
// mixing (that of splitmix64, one to one) keeps apart what a CRC alone would
// not: it is linear, and two entries that swap their values would cancel out.
func entrySum(bucket uint32, key, value []byte) uint64 {
	crc := crc32.Update(crc32.Update(bucket, crcTable, key), crcTable, value)
	x := uint64(crc) | uint64(len(key))<<32 ^ uint64(len(value))<<48
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

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
		if err := errors.Join(s.settle(), s.loadRecent()); err != nil {
			return err
		}
		s.suspect = false
	}
	w := writer{recent: make(map[string]*recent), placed: make(map[string]int)}
	err := s.transact(&w, fn)
	if s.suspect = err != nil; s.suspect {
		return err
	}
	s.publish(&w)
	s.roots, _ = s.readRoots() // what was committed is committed
	return nil
}

// transact runs fn in a transaction and commits it with the new sum.
func (s *Store) transact(w *writer, fn func(*writer) error) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		w.tx, w.sum = tx, storedSum(tx)
		if err := fn(w); err != nil {
			return err
		}
		return tx.Bucket(bucketMeta).Put(keySum, binary.BigEndian.AppendUint64(nil, w.sum))
	})
}

// metaPages is how many pages at the file's beginning take turns in naming the
// root: what bbolt writes last in a commit.
const metaPages = 2

// settle brings to the disk what a failed commit has left in the file. Where its
// very last sync fails, the system shows the new root from then on, and may never
// write it (fsync(2)): the next commit would build on it, and write over pages
// that the root on disk still leads to. So both roots are written once more. All
// other pages were synced before. A crash in between leaves the same bytes.
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

// writer keeps the sum in step with what is written.
type writer struct {
	tx      *bbolt.Tx
	sum     uint64
	entries int // how many more there are than before

	// What is true once the transaction is committed, by stream.
	recent map[string]*recent // logs that have changed
	placed map[string]int     // how many objects more stand in the tree
}

// put sets the value of a key of a bucket, whose numbers begin with crc.
func (w *writer) put(b *bbolt.Bucket, crc uint32, key, value []byte) error {
	if old := b.Get(key); old != nil {
		w.sum -= entrySum(crc, key, old)
		w.entries--
	}
	return w.add(b, crc, key, value)
}

// add is put for a key that the bucket does not have.
func (w *writer) add(b *bbolt.Bucket, crc uint32, key, value []byte) error {
	w.sum += entrySum(crc, key, value)
	w.entries++
	return b.Put(key, value)
}

// remove removes a key of a bucket, whose numbers begin with crc.
func (w *writer) remove(b *bbolt.Bucket, crc uint32, key []byte) error {
	old := b.Get(key)
	if old == nil {
		return nil
	}
	w.sum -= entrySum(crc, key, old)
	w.entries--
	return b.Delete(key)
}

// set sets a key of one of the buckets at the top.
func (w *writer) set(bucket, key, value []byte) error {
	return w.put(w.tx.Bucket(bucket), bucketCRC(bucket, nil), key, value)
}

// unset removes a key of one of the buckets at the top.
func (w *writer) unset(bucket, key []byte) error {
	return w.remove(w.tx.Bucket(bucket), bucketCRC(bucket, nil), key)
}

// schema says that the file is of a schema, unless it is of a later one.
func (w *writer) schema(v uint64) error {
	if is, _ := binary.Uvarint(w.tx.Bucket(bucketMeta).Get(keySchema)); is >= v {
		return nil
	}
	return w.set(bucketMeta, keySchema, encodeSchema(v))
}

// storedSum is the sum of the last commit, 0 before the first.
func storedSum(tx *bbolt.Tx) uint64 {
	if v := tx.Bucket(bucketMeta).Get(keySum); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}
