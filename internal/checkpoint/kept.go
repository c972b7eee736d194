package checkpoint

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"
)

// A stream may keep something of each object beside what is known of it: the
// version that its reader was told of last, say, in whatever form it likes. It is
// committed with the line that it belongs to. A header, under a key that no object
// has, tells what was kept how. Other streams have no bucket here.

var keyHeader = appendKey[string](nil, "", "")

// keep writes what a stream keeps of objects, straight to the tree.
func (w *writer) keep(stream string, log *changeLog) error {
	entries := log.net()
	if len(entries) == 0 {
		return nil
	}
	if _, err := w.tx.CreateBucketIfNotExists(bucketKept); err != nil {
		return err
	}
	if err := w.schema(schemaKept); err != nil {
		return err
	}
	b, err := w.table(bucketKept, stream)
	if err != nil {
		return err
	}
	b.FillPercent = fillBetween
	for _, e := range entries {
		if err := b.merge(e, false); err != nil {
			return fmt.Errorf("kept object %q: %w", e.key, err)
		}
	}
	return nil
}

// Kept appends to dst what is kept of an object; ok is false where nothing is.
func (s *Store) Kept(dst []byte, stream string, namespace, name []byte) (value []byte, ok bool, err error) {
	key := appendKey(nil, namespace, name)
	err = s.db.View(func(tx *bbolt.Tx) error {
		if b := keptOf(tx, stream); b != nil {
			if v := b.Get(key); v != nil {
				dst, ok = append(dst, v...), true
			}
		}
		return nil
	})
	return dst, ok, err
}

// KeptHeader returns what all that a stream keeps has in common; ok is false where
// it keeps nothing.
func (s *Store) KeptHeader(stream string) (header []byte, ok bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		if b := keptOf(tx, stream); b != nil {
			header, ok = bytes.Clone(b.Get(keyHeader)), true
		}
		return nil
	})
	return header, ok, err
}

// keptOf is the bucket of a stream, nil where it has none.
func keptOf(tx *bbolt.Tx, stream string) *bbolt.Bucket {
	all := tx.Bucket(bucketKept)
	if all == nil {
		return nil
	}
	return all.Bucket([]byte(stream))
}

// KeptHeaders returns the headers of all streams that keep something.
func (s *Store) KeptHeaders() (map[string][]byte, error) {
	headers := make(map[string][]byte)
	err := s.db.View(func(tx *bbolt.Tx) error {
		all := tx.Bucket(bucketKept)
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(stream []byte) error {
			headers[string(stream)] = bytes.Clone(all.Bucket(stream).Get(keyHeader))
			return nil
		})
	})
	return headers, err
}

// DropKept removes all that a stream keeps. The next start finds all of it or
// nothing.
func (s *Store) DropKept(stream string) error {
	err := s.update(func(w *writer) error { return w.drop(bucketKept, []byte(stream)) })
	if err != nil {
		return fmt.Errorf("drop what stream %s keeps: %w", stream, err)
	}
	return nil
}
