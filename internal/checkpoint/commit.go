package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// How full a page is left when it is split, from 0 to 1.
const (
	fillList    = 1.0  // of a list, which comes in order
	fillBetween = 0.75 // of objects that come in between others
)

// Commit writes a batch in one transaction and syncs the file. After an error
// the batch may have been written or not; committing the same batch again is
// right in both cases.
func (s *Store) Commit(b *Batch) error {
	return s.update(func(w *writer) error {
		for _, name := range slices.Sorted(maps.Keys(b.streams)) {
			if err := s.commitStream(w, name, b.streams[name]); err != nil {
				return fmt.Errorf("stream %s: %w", name, err)
			}
		}
		switch {
		case b.mark != nil:
			return w.setMark(b.mark)
		case b.recovery != nil:
			return w.top(bucketMeta).putJSON(keyRecovery, b.recovery)
		}
		return nil
	})
}

// setMark sets the mark, which ends a recovery. Forgotten streams have no line after it.
func (w *writer) setMark(m *Mark) error {
	meta, forgotten := w.top(bucketMeta), w.top(bucketForgotten)
	err := errors.Join(meta.putJSON(keyJournal, m), meta.put(keyRecovery, nil))
	c := forgotten.Cursor()
	for name, _ := c.First(); name != nil && err == nil; name, _ = c.First() {
		err = forgotten.put(bytes.Clone(name), nil)
	}
	return err
}

func (s *Store) commitStream(w *writer, name string, c *Changes) error {
	if c.State != nil {
		if err := w.top(bucketStreams).putJSON([]byte(name), c.State); err != nil {
			return err
		}
	}
	if err := w.keep(name, c.kept); err != nil {
		return err
	}
	entries := c.known.net()
	if len(entries) == 0 {
		return nil
	}
	tree, err := w.table(bucketKnown, name, schemaPlain)
	if err != nil {
		return err
	}
	list := isList(tree, entries, &s.policy)
	if tree.FillPercent = fillBetween; list {
		tree.FillPercent = fillList
	}
	log, logAll := s.logOf(name), !list && s.logs(len(entries), s.merged[name])
	var logged []entry
	for _, e := range entries {
		if logAll || log.holds(e.key) {
			logged = append(logged, e)
		} else if err := tree.put(e.key, e.value); err != nil {
			return fmt.Errorf("known object %q: %w", e.key, err)
		}
	}
	if len(logged) > 0 {
		err = s.appendLog(w, name, tree, logged)
	}
	w.merged[name] += tree.entries
	return err
}

// isList reports whether entries come from a list, which fills the pages of the tree
// from left to right: many, or all after the last that is there.
func isList(tree *table, entries []entry, p *policy) bool {
	last, _ := tree.Cursor().Last()
	return len(entries) > p.batch || bytes.Compare(last, entries[0].key) < 0
}

// logs reports whether n changes go to the log of a stream with merged objects in its tree.
func (s *Store) logs(n, merged int) bool {
	s.logsMu.RLock()
	defer s.logsMu.RUnlock()
	total := 0
	for _, l := range s.deltaLogs {
		total += cap(l.arena)
	}
	return n*s.policy.share <= merged && total < s.policy.total
}

// Forget removes a stream's position and known objects, and records that its lines
// in the journal after the mark do not count any more (see Forgotten). It is one
// transaction: a crash leaves all of the stream or nothing.
func (s *Store) Forget(stream string) error {
	name := []byte(stream)
	err := s.update(func(w *writer) error {
		w.logs[stream], w.merged[stream] = nil, -s.merged[stream]
		return errors.Join(w.top(bucketStreams).put(name, nil), w.top(bucketForgotten).put(name, []byte{1}),
			w.drop(bucketKnown, name), w.drop(bucketRecent, name), w.drop(bucketKept, name))
	})
	if err != nil {
		return fmt.Errorf("forget stream %s: %w", stream, err)
	}
	return nil
}

// keyHeader is the key of the header of what a stream keeps.
var keyHeader = appendKey(nil, "", "")

// keep writes what a stream keeps of objects, straight to the tree.
func (w *writer) keep(stream string, log changeLog) error {
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

// DropKept removes all that a stream keeps. The next start finds all of it or
// nothing.
func (s *Store) DropKept(stream string) error {
	if err := s.update(func(w *writer) error { return w.drop(bucketKept, []byte(stream)) }); err != nil {
		return fmt.Errorf("drop what stream %s keeps: %w", stream, err)
	}
	return nil
}
