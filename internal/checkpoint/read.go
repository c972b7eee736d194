package checkpoint

import (
	"bytes"
	"errors"

	"go.etcd.io/bbolt"
)

// rangeChunk is how many known objects Range reads per transaction. A long
// read transaction would hold up a commit that has to grow the file.
const rangeChunk = 1024

// logOf is the delta log of a stream as it was committed last, nil for none.
func (s *Store) logOf(stream string) *deltaLog {
	s.logsMu.RLock()
	defer s.logsMu.RUnlock()
	return s.deltaLogs[stream]
}

// loadLogs reads the delta logs from the file.
func (s *Store) loadLogs() error {
	all := make(map[string]*deltaLog)
	err := s.db.View(func(tx *bbolt.Tx) error {
		logs := tx.Bucket(bucketRecent)
		if logs == nil {
			return nil
		}
		return logs.ForEachBucket(func(stream []byte) (err error) {
			all[string(stream)], err = loadLog(logs.Bucket(stream))
			return err
		})
	})
	if err != nil {
		return err
	}
	s.logsMu.Lock()
	defer s.logsMu.Unlock()
	s.deltaLogs = all
	return nil
}

// viewTree calls fn with the tree of a stream, where it has one.
func (s *Store) viewTree(stream string, fn func(*bbolt.Bucket) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(bucketKnown).Bucket([]byte(stream)); b != nil {
			return fn(b)
		}
		return nil
	})
}

// Get returns what is known of the object namespace/name in a stream.
func (s *Store) Get(stream, namespace, name string) (k Known, ok bool, err error) {
	key := appendKey(nil, namespace, name)
	log := s.logOf(stream)
	if i, found := log.search(key); found {
		v := log.at(i).value
		if len(v) == 0 {
			return k, false, nil
		}
		err = decodeKnown(key, v, &k)
		return k, true, err
	}
	err = s.viewTree(stream, func(tree *bbolt.Bucket) error {
		v := tree.Get(key)
		if v == nil {
			return nil
		}
		ok = true
		return decodeKnown(key, v, &k)
	})
	return k, ok, err
}

// Knowing returns the streams that know an object, in the order of their names;
// one whose first sync has not ended may have no state yet.
func (s *Store) Knowing() (names []string, err error) {
	var all []string
	err = s.db.View(func(tx *bbolt.Tx) error {
		// A stream that has a delta log has a tree.
		return tx.Bucket(bucketKnown).ForEachBucket(func(k []byte) error {
			all = append(all, string(k))
			return nil
		})
	})
	for _, name := range all {
		empty, emptyErr := s.Empty(name)
		if err = errors.Join(err, emptyErr); !empty && emptyErr == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// Count is how many objects a stream knows.
func (s *Store) Count(stream string) (n int, err error) {
	log := s.logOf(stream)
	err = s.viewTree(stream, func(tree *bbolt.Bucket) error {
		n = tree.Stats().KeyN
		for i := range log.len() {
			e := log.at(i)
			merged, known := tree.Get(e.key) != nil, len(e.value) > 0
			switch {
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
func (s *Store) Range(stream string, fn func(Known) error) error {
	var (
		after []byte
		chunk = make([]Known, 0, rangeChunk)
		err   error
	)
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
func (s *Store) chunk(stream string, after []byte, dst []Known, n int) ([]Known, error) {
	log := s.logOf(stream)
	at, found := log.search(after)
	if found && after != nil {
		at++
	}
	err := s.viewTree(stream, func(tree *bbolt.Bucket) error {
		c := tree.Cursor()
		key, v := c.Seek(after)
		if after != nil && bytes.Equal(key, after) {
			key, v = c.Next()
		}
		for len(dst) < n && (key != nil || at < log.len()) {
			e, logged := entry{key: key, value: v}, false
			if at < log.len() {
				if l := log.at(at); key == nil || bytes.Compare(l.key, key) <= 0 {
					e, logged = l, true
					at++
				}
			}
			if key != nil && bytes.Equal(e.key, key) {
				key, v = c.Next()
			}
			if logged && len(e.value) == 0 {
				continue // gone
			}
			var k Known
			if err := decodeKnown(e.key, e.value, &k); err != nil {
				return err
			}
			dst = append(dst, k)
		}
		return nil
	})
	return dst, err
}
