package checkpoint

import (
	"encoding/binary"
	"fmt"
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
		if err := s.settle(); err != nil {
			return err
		}
	}
	err := s.db.Update(func(tx *bbolt.Tx) error {
		w := writer{tx: tx, sum: storedSum(tx)}
		if err := fn(&w); err != nil {
			return err
		}
		return tx.Bucket(bucketMeta).Put(keySum, binary.BigEndian.AppendUint64(nil, w.sum))
	})
	s.suspect = err != nil
	return err
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
	b := make([]byte, metaPages*s.db.Info().PageSize)
	if _, err := s.file.ReadAt(b, 0); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(b, 0); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.suspect = false
	return nil
}

// writer keeps the sum in step with what is written.
type writer struct {
	tx  *bbolt.Tx
	sum uint64
}

// put sets the value of a key of a bucket, whose numbers begin with crc.
func (w *writer) put(b *bbolt.Bucket, crc uint32, key, value []byte) error {
	if old := b.Get(key); old != nil {
		w.sum -= entrySum(crc, key, old)
	}
	w.sum += entrySum(crc, key, value)
	return b.Put(key, value)
}

// remove removes a key of a bucket, whose numbers begin with crc.
func (w *writer) remove(b *bbolt.Bucket, crc uint32, key []byte) error {
	old := b.Get(key)
	if old == nil {
		return nil
	}
	w.sum -= entrySum(crc, key, old)
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

// storedSum is the sum of the last commit, 0 before the first.
func storedSum(tx *bbolt.Tx) uint64 {
	if v := tx.Bucket(bucketMeta).Get(keySum); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

// checkSum adds everything up.
func checkSum(tx *bbolt.Tx) error {
	var sum uint64
	add := func(b *bbolt.Bucket, crc uint32) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return fmt.Errorf("%w: a bucket where a value should be", ErrDamaged)
			}
			sum += entrySum(crc, k, v)
			return nil
		})
	}
	for _, name := range [][]byte{bucketMeta, bucketStreams, bucketForgotten} {
		if err := add(tx.Bucket(name), bucketCRC(name, nil)); err != nil {
			return err
		}
	}
	known := tx.Bucket(bucketKnown)
	err := known.ForEach(func(stream, v []byte) error {
		if v != nil {
			return fmt.Errorf("%w: a value where a bucket should be", ErrDamaged)
		}
		return add(known.Bucket(stream), bucketCRC(bucketKnown, stream))
	})
	if err != nil {
		return err
	}
	stored := tx.Bucket(bucketMeta).Get(keySum)
	sum -= entrySum(bucketCRC(bucketMeta, nil), keySum, stored)
	if len(stored) != 8 || binary.BigEndian.Uint64(stored) != sum {
		return fmt.Errorf("%w: its content does not add up to its checksum", ErrDamaged)
	}
	return nil
}
