package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
)

// Changes is what one stream's reader has been told since it was last reset: a
// log of known objects, one of what is kept of them, and the stream's state
// after it. Not for concurrent use; the zero value is ready.
type Changes struct {
	// State, when set, replaces the stream's state.
	State *Stream
	known changeLog
	kept  changeLog
}

// Put notes that the reader has been told of an object.
func (c *Changes) Put(namespace, name, uid, resourceVersion []byte) {
	c.put(namespace, name, uid, resourceVersion, 0)
}

// PutWithheld notes an object at a version that the stream's filter has kept from
// the reader.
func (c *Changes) PutWithheld(namespace, name, uid, resourceVersion []byte) {
	c.put(namespace, name, uid, resourceVersion, flagWithheld)
}

// Doubt notes that the reader may not have been told of a known object. What else
// is known of it stays.
func (c *Changes) Doubt(k Known) {
	k.Doubtful = true
	c.put([]byte(k.Namespace), []byte(k.Name), []byte(k.UID), []byte(k.ResourceVersion), flagsOf(&k))
}

func (c *Changes) put(namespace, name, uid, resourceVersion []byte, flags byte) {
	c.known.key(namespace, name)
	at := len(c.known.bytes)
	c.known.bytes = appendKnown(c.known.bytes, uid, resourceVersion)
	c.known.bytes[at] |= flags
	c.known.end()
}

// Delete notes that the reader has been told that an object is gone.
func (c *Changes) Delete(namespace, name []byte) {
	c.known.key(namespace, name)
	c.known.end()
}

// Keep notes what is kept of a known object, which is not empty.
func (c *Changes) Keep(namespace, name, value []byte) {
	c.kept.key(namespace, name)
	c.kept.bytes = append(c.kept.bytes, value...)
	c.kept.end()
}

// Unkeep notes that nothing is kept of an object.
func (c *Changes) Unkeep(namespace, name []byte) {
	c.kept.key(namespace, name)
	c.kept.end()
}

// KeepHeader notes what all that the stream keeps has in common, which is not
// empty.
func (c *Changes) KeepHeader(value []byte) { c.Keep(nil, nil, value) }

// Empty tells whether there is nothing in it.
func (c *Changes) Empty() bool { return c.State == nil && c.Bytes() == 0 }

// Bytes is the size of the logs.
func (c *Changes) Bytes() int { return len(c.known.bytes) + len(c.kept.bytes) }

// Reset empties c and keeps its memory.
func (c *Changes) Reset() {
	c.State = nil
	c.known.reset()
	c.kept.reset()
}

// Add appends later changes.
func (c *Changes) Add(later *Changes) {
	if later.State != nil {
		c.State = later.State
	}
	c.known.add(&later.known)
	c.kept.add(&later.kept)
}

// changeLog holds entries one after the other; ends are the offsets at which they
// end. An entry is: length of the key, key, value (empty: gone). The last entry
// of a key wins.
type changeLog struct {
	bytes []byte
	ends  []int
}

// key begins an entry.
func (l *changeLog) key(namespace, name []byte) {
	l.bytes = binary.AppendUvarint(l.bytes, uint64(len(namespace)+1+len(name)))
	l.bytes = appendKey(l.bytes, namespace, name)
}

func (l *changeLog) end() { l.ends = append(l.ends, len(l.bytes)) }

func (l *changeLog) reset() { l.bytes, l.ends = l.bytes[:0], l.ends[:0] }

func (l *changeLog) add(later *changeLog) {
	base := len(l.bytes)
	l.bytes = append(l.bytes, later.bytes...)
	for _, end := range later.ends {
		l.ends = append(l.ends, base+end)
	}
}

// Batch is what happened in all streams since the last commit. Not for
// concurrent use.
type Batch struct {
	mark     *Mark
	recovery *Recovery
	streams  map[string]*Changes
	bytes    int
}

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{streams: make(map[string]*Changes)} }

// Add appends a stream's later changes; c is free again afterwards.
func (b *Batch) Add(stream string, c *Changes) {
	if c.Empty() {
		return
	}
	all := b.streams[stream]
	if all == nil {
		all = new(Changes)
		b.streams[stream] = all
	}
	all.Add(c)
	b.bytes += c.Bytes()
}

// SetMark says how far the journal stands once all of the batch is true.
func (b *Batch) SetMark(m Mark) { b.mark = &m }

// SetRecovery says how far a recovery has come once all of the batch is true. A
// mark ends it.
func (b *Batch) SetRecovery(r Recovery) { b.recovery = &r }

// Empty tells whether there is nothing to commit.
func (b *Batch) Empty() bool { return b.mark == nil && b.recovery == nil && len(b.streams) == 0 }

// Bytes is what the batch holds of objects, in bytes.
func (b *Batch) Bytes() int { return b.bytes }

// entry is one decoded entry of a log: the last one of its key wins.
type entry struct {
	key, value []byte
	at         int // in the log
}

// net returns the last entry of each key, ordered by key, so that a commit
// walks the pages of the file once and from left to right.
func (l *changeLog) net() []entry {
	entries := make([]entry, 0, len(l.ends))
	// The same objects often change again and again: what is found here need not
	// be sorted. Two keys of one hash both stay.
	known, seed := make(map[uint64]int), maphash.MakeSeed()
	start := 0
	for _, end := range l.ends {
		e := l.bytes[start:end]
		start = end
		size, n := binary.Uvarint(e)
		e = e[n:]
		next := entry{key: e[:size], value: e[size:], at: end}
		hash := maphash.Bytes(seed, next.key)
		if i, ok := known[hash]; ok && bytes.Equal(entries[i].key, next.key) {
			entries[i] = next
			continue
		}
		known[hash] = len(entries)
		entries = append(entries, next)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(bytes.Compare(a.key, b.key), a.at-b.at) })
	last := 0
	for i := range entries {
		if i+1 < len(entries) && bytes.Equal(entries[i].key, entries[i+1].key) {
			continue
		}
		entries[last] = entries[i]
		last++
	}
	return entries[:last]
}

// How full a page is left when it is split, from 0 to 1: of a list, which comes in
// order, and of objects that come in between others.
const (
	fillList    = 1.0
	fillBetween = 0.75
)

// Commit writes a batch in one transaction and syncs the file. After an error
// the batch may have been written or not; committing the same batch again is
// right in both cases.
func (s *Store) Commit(b *Batch) error {
	names := make([]string, 0, len(b.streams))
	for name := range b.streams {
		names = append(names, name)
	}
	slices.SortFunc(names, cmp.Compare[string])
	err := s.update(func(w *writer) error {
		for _, name := range names {
			if err := s.commitStream(w, name, b.streams[name]); err != nil {
				return fmt.Errorf("stream %s: %w", name, err)
			}
		}
		if b.recovery != nil {
			v, err := json.Marshal(b.recovery)
			if err != nil {
				return err
			}
			if err := w.set(bucketMeta, keyRecovery, v); err != nil {
				return err
			}
		}
		if b.mark == nil {
			return nil
		}
		return setMark(w, b.mark)
	})
	if err != nil {
		return fmt.Errorf("commit checkpoint: %w", err)
	}
	return nil
}

func setMark(w *writer, m *Mark) error {
	v, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := w.set(bucketMeta, keyJournal, v); err != nil {
		return err
	}
	if err := w.unset(bucketMeta, keyRecovery); err != nil {
		return err
	}
	// No line that a forgotten stream wrote before stands behind this mark.
	var names [][]byte
	err = w.tx.Bucket(bucketForgotten).ForEach(func(k, _ []byte) error {
		names = append(names, bytes.Clone(k))
		return nil
	})
	for _, name := range names {
		err = errors.Join(err, w.unset(bucketForgotten, name))
	}
	return err
}

func (s *Store) commitStream(w *writer, name string, c *Changes) error {
	if c.State != nil {
		v, err := json.Marshal(c.State)
		if err != nil {
			return err
		}
		if err := w.set(bucketStreams, []byte(name), v); err != nil {
			return err
		}
	}
	if err := w.keep(name, &c.kept); err != nil {
		return err
	}
	entries := c.known.net()
	if len(entries) == 0 {
		return nil
	}
	tree := w.tx.Bucket(bucketKnown)
	known, err := tree.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return err
	}
	lw := logWriter{writer: w, stream: name, known: known, tree: bucketCRC(bucketKnown, []byte(name)), placed: s.placed[name]}
	last, _ := known.Cursor().Last()
	last = bytes.Clone(last) // not for longer than the page stays as it is
	r, list := s.recentOf(name), isList(last, entries, &s.policy)
	if known.FillPercent = fillBetween; list {
		known.FillPercent = fillList
	}
	logAll := !list && s.logs(len(entries), s.placed[name])
	var logged []entry
	for _, e := range entries {
		if logAll {
			logged = append(logged, e)
		} else if _, recent := r.search(e.key); recent {
			logged = append(logged, e)
		} else if err := lw.place(e, bytes.Compare(e.key, last) > 0); err != nil {
			return fmt.Errorf("known object %q: %w", e.key, err)
		}
	}
	if len(logged) == 0 {
		return nil
	}
	return lw.commit(r, logged, &s.policy)
}

// isList tells whether entries come from a list, which fills the pages of the tree
// from left to right: many, or all behind the last that is there.
func isList(last []byte, entries []entry, p *policy) bool {
	return len(entries) > p.batch || bytes.Compare(last, entries[0].key) < 0
}

// logs tells whether n changes go to the log of a stream of which that many
// objects stand in the tree.
func (s *Store) logs(n, placed int) bool {
	if n*s.policy.share > placed {
		return false
	}
	s.recentMu.RLock()
	defer s.recentMu.RUnlock()
	total := 0
	for _, r := range s.recent {
		total += cap(r.arena)
	}
	return total < s.policy.total
}

// Forget removes a stream's position and known objects, and notes that lines of
// it that may stand in the journal behind the mark do not count any more (see
// Forgotten). It is one transaction: a crash leaves all of the stream or nothing.
func (s *Store) Forget(stream string) error {
	name := []byte(stream)
	err := s.update(func(w *writer) error {
		if err := w.unset(bucketStreams, name); err != nil {
			return err
		}
		if err := w.set(bucketForgotten, name, []byte{1}); err != nil {
			return err
		}
		w.recent[stream], w.placed[stream] = nil, -s.placed[stream]
		return errors.Join(w.drop(bucketKnown, name), w.drop(bucketRecent, name), w.drop(bucketKept, name))
	})
	if err != nil {
		return fmt.Errorf("forget stream %s: %w", stream, err)
	}
	return nil
}

// drop removes the bucket of a stream from one that holds one for each stream.
func (w *writer) drop(bucket, stream []byte) error {
	all := w.tx.Bucket(bucket)
	if all == nil {
		return nil
	}
	of := all.Bucket(stream)
	if of == nil {
		return nil
	}
	crc := bucketCRC(bucket, stream)
	err := of.ForEach(func(k, v []byte) error {
		w.sum -= entrySum(crc, k, v)
		return nil
	})
	if err != nil {
		return err
	}
	return all.DeleteBucket(stream)
}
