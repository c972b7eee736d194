package checkpoint

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"
)

// A stream may keep a value of each object beside what is known of it, such as the
// version that its reader knows, in a form of its own. The value is committed with its
// line. A header, under a key that no object has, describes the form. Other streams have
// no bucket here.

var keyHeader = appendKey(nil, "", "")

// keep writes what a stream keeps of objects, straight to the tree.
func (w *writer) keep(stream string, log *changeLog) error {
	entries := log.net()
	if len(entries) == 0 {
		return nil
	}
	b, err := w.table(bucketKept, stream, schemaKept)
	if err != nil {
		return err
	}
	b.FillPercent = fillBetween
	for _, e := range entries {
		if err := b.put(e.key, e.value); err != nil {
			return fmt.Errorf("kept object %q: %w", e.key, err)
		}
	}
	return nil
}

// Kept appends to dst what is kept of an object; ok is false if nothing is.
func (s *Store) Kept(dst []byte, stream string, namespace, name []byte) (value []byte, ok bool, err error) {
	key := appendKey(nil, namespace, name)
	err = s.viewStream(bucketKept, stream, func(b *bbolt.Bucket) error {
		if v := b.Get(key); v != nil {
			dst, ok = append(dst, v...), true
		}
		return nil
	})
	return dst, ok, err
}

// KeptHeader returns what all that a stream keeps has in common; ok is false if
// it keeps nothing.
func (s *Store) KeptHeader(stream string) (header []byte, ok bool, err error) {
	err = s.viewStream(bucketKept, stream, func(b *bbolt.Bucket) error {
		header, ok = bytes.Clone(b.Get(keyHeader)), true
		return nil
	})
	return header, ok, err
}

// KeptHeaders returns the headers of all streams that keep something.
func (s *Store) KeptHeaders() (map[string][]byte, error) {
	headers := make(map[string][]byte)
	err := s.viewStreams(bucketKept, func(stream []byte, b *bbolt.Bucket) error {
		headers[string(stream)] = bytes.Clone(b.Get(keyHeader))
		return nil
	})
	return headers, err
}

// DropKept removes all that a stream keeps. The next start finds all of it or
// nothing.
func (s *Store) DropKept(stream string) error {
	if err := s.update(func(w *writer) error { return w.drop(bucketKept, []byte(stream)) }); err != nil {
		return fmt.Errorf("drop what stream %s keeps: %w", stream, err)
	}
	return nil
}
