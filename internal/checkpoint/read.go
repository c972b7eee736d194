package checkpoint

import (
	"bytes"
	"errors"

	"go.etcd.io/bbolt"

	"kubejournal/internal/format/object"
)

const rangeChunk = 1024 // known objects per transaction of Range: a long one would hold up a commit that grows the file

// logOf is the delta log of a stream as it was committed last.
func (s *Store) logOf(stream string) *deltaLog {
	s.logsMu.RLock()
	defer s.logsMu.RUnlock()
	if l := s.deltaLogs[stream]; l != nil {
		return l
	}
	return emptyLog
}

// loadLogs reads the delta logs from the file.
func (s *Store) loadLogs() error {
	all := make(map[string]*deltaLog)
	err := s.viewStreams(bucketRecent, func(stream []byte, b *bbolt.Bucket) (err error) {
		all[string(stream)], err = loadLog(b)
		return err
	})
	if err != nil {
		return err
	}
	s.logsMu.Lock()
	defer s.logsMu.Unlock()
	s.deltaLogs = all
	return nil
}

// bucketOf returns the bucket of a stream in one that holds one for each; nil for none.
func bucketOf(tx *bbolt.Tx, bucket, stream []byte) *bbolt.Bucket {
	if all := tx.Bucket(bucket); all != nil {
		return all.Bucket(stream)
	}
	return nil
}

// viewStream calls fn with the bucket of a stream, if there is one.
func (s *Store) viewStream(bucket []byte, stream string, fn func(*bbolt.Bucket) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		if b := bucketOf(tx, bucket, []byte(stream)); b != nil {
			return fn(b)
		}
		return nil
	})
}

// viewStreams calls fn with the buckets of all streams, in the order of their names.
func (s *Store) viewStreams(bucket []byte, fn func(stream []byte, b *bbolt.Bucket) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		all := tx.Bucket(bucket)
		if all == nil {
			return nil
		}
		return all.ForEachBucket(func(stream []byte) error { return fn(stream, all.Bucket(stream)) })
	})
}

// Get returns what is known of the object namespace/name in a stream.
func (s *Store) Get(stream, namespace, name string) (k object.Known, ok bool, err error) {
	key, log := appendKey(nil, namespace, name), s.logOf(stream)
	if i, found := log.search(key); found {
		if v := log.at(i).value; len(v) > 0 {
			ok, err = true, decodeKnown(key, v, &k)
		}
		return k, ok, err
	}
	err = s.viewStream(bucketKnown, stream, func(tree *bbolt.Bucket) error {
		if v := tree.Get(key); v != nil {
			ok = true
			return decodeKnown(key, v, &k)
		}
		return nil
	})
	return k, ok, err
}

// Knowing returns the streams that know an object, in order; some may have no state yet.
func (s *Store) Knowing() (names []string, err error) {
	var all []string
	// where there is a delta log there is a tree
	err = s.viewStreams(bucketKnown, func(stream []byte, _ *bbolt.Bucket) error {
		all = append(all, string(stream))
		return nil
	})
	for _, name := range all {
		empty, emptyErr := s.Empty(name)
		if err = errors.Join(err, emptyErr); !empty {
			names = append(names, name)
		}
	}
	return names, err
}

// Count is how many objects a stream knows.
func (s *Store) Count(stream string) (n int, err error) {
	log := s.logOf(stream)
	err = s.viewStream(bucketKnown, stream, func(tree *bbolt.Bucket) error {
		n = tree.Stats().KeyN
		for i := range log.order {
			e := log.at(i)
			switch merged, known := tree.Get(e.key) != nil, len(e.value) > 0; {
			case known && !merged:
				n++
			case merged && !known:
				n--
			}
		}
		return nil
	})
	return n, err
}

// Empty reports whether a stream knows no object.
func (s *Store) Empty(stream string) (bool, error) {
	first, err := s.chunk(stream, nil, nil, 1)
	return len(first) == 0, err
}

// Range calls fn for every object known in a stream, in the order of namespace and
// name, until fn returns an error, which Range returns. No transaction is open while
// fn runs: commits made meanwhile may or may not be seen.
func (s *Store) Range(stream string, fn func(object.Known) error) error {
	chunk, after, err := make([]object.Known, 0, rangeChunk), []byte(nil), error(nil)
	for {
		if chunk, err = s.chunk(stream, after, chunk[:0], rangeChunk); err != nil {
			return err
		}
		for _, k := range chunk {
			if err := fn(k); err != nil {
				return err
			}
		}
		if len(chunk) < rangeChunk {
			return nil
		}
		last := &chunk[len(chunk)-1]
		after = appendKey(after[:0], last.Namespace, last.Name)
	}
}

// chunk appends up to n known objects of a stream, the first of those that come
// after a key; nil is before all. What the delta log says of a key overrides the tree.
func (s *Store) chunk(stream string, after []byte, dst []object.Known, n int) ([]object.Known, error) {
	log := s.logOf(stream)
	at, found := log.search(after)
	if found {
		at++
	}
	err := s.viewStream(bucketKnown, stream, func(tree *bbolt.Bucket) error {
		c := tree.Cursor()
		key, v := c.Seek(after)
		if key != nil && bytes.Equal(key, after) {
			key, v = c.Next()
		}
		for len(dst) < n && (key != nil || at < len(log.order)) {
			e := entry{key: key, value: v}
			if at < len(log.order) {
				if l := log.at(at); key == nil || bytes.Compare(l.key, key) <= 0 {
					e = l
					at++
				}
			}
			if bytes.Equal(e.key, key) {
				key, v = c.Next()
			}
			if len(e.value) == 0 {
				continue // gone
			}
			var k object.Known
			if err := decodeKnown(e.key, e.value, &k); err != nil {
				return err
			}
			dst = append(dst, k)
		}
		return nil
	})
	return dst, err
}

// Kept appends to dst what is kept of an object beside what is known of it, such as the
// version that the reader knows, in the stream's own form; ok is false if nothing is.
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

// KeptHeader describes the form of what a stream keeps; ok is false if it keeps nothing.
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
