package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"

	"kubejournal/internal/format/object"
)

// Changes is what one stream wrote since Reset: a log of known objects, one of what
// is kept of them, and the stream's state after it. The zero value is ready.
type Changes struct {
	// State, when set, replaces the stream's state.
	State *Stream
	known changeLog
	kept  changeLog
}

// Put records that the reader knows an object.
func (c *Changes) Put(namespace, name, uid, resourceVersion []byte) {
	c.put(namespace, name, uid, resourceVersion, 0)
}

// Redeliver records that the reader may not have a line about the version of a known
// object. What else is known of the object stays.
func (c *Changes) Redeliver(k object.Known) {
	flags := byte(flagDoubtful)
	if k.Withheld {
		flags |= flagWithheld
	}
	c.put([]byte(k.Namespace), []byte(k.Name), []byte(k.UID), []byte(k.ResourceVersion), flags)
}

func (c *Changes) put(namespace, name, uid, resourceVersion []byte, flags byte) {
	var value [64]byte
	c.known.set(namespace, name, appendKnown(value[:0], flags, uid, resourceVersion))
}

// Delete records that the reader knows that an object is gone.
func (c *Changes) Delete(namespace, name []byte) { c.known.set(namespace, name, nil) }

// Keep records what is kept of a known object, which is not empty.
func (c *Changes) Keep(namespace, name, value []byte) { c.kept.set(namespace, name, value) }

// Unkeep records that nothing is kept of an object.
func (c *Changes) Unkeep(namespace, name []byte) { c.kept.set(namespace, name, nil) }

// KeepHeader records the header of all that the stream keeps, which is not empty.
func (c *Changes) KeepHeader(value []byte) { c.Keep(nil, nil, value) }

// Empty reports whether there is nothing in it.
func (c *Changes) Empty() bool { return c.State == nil && c.Bytes() == 0 }

// Bytes is the size of the logs.
func (c *Changes) Bytes() int { return len(c.known) + len(c.kept) }

// Extent is how much is in the logs of a Changes.
type Extent struct{ known, kept int }

// Extent returns how much is in the logs now.
func (c *Changes) Extent() Extent { return Extent{len(c.known), len(c.kept)} }

// UpTo returns a copy of what was in the logs when they had that extent.
func (c *Changes) UpTo(e Extent) Changes {
	return Changes{known: slices.Clone(c.known[:e.known]), kept: slices.Clone(c.kept[:e.kept])}
}

// Reset empties c and keeps its memory.
func (c *Changes) Reset() { c.State, c.known, c.kept = nil, c.known[:0], c.kept[:0] }

// Add appends later changes.
func (c *Changes) Add(later *Changes) {
	if s := later.State; s != nil {
		if c.State != nil && c.State.Missed > 0 && s.Missed > 0 {
			s.MissedFrom = min(s.MissedFrom, c.State.MissedFrom) // one commit says both
		}
		c.State = s
	}
	c.known, c.kept = append(c.known, later.known...), append(c.kept, later.kept...)
}

// changeLog holds entries one after the other. The last entry of a key wins; one with an
// empty value says that the object is gone.
type changeLog []byte

// set appends an entry.
func (l *changeLog) set(namespace, name, value []byte) {
	b := binary.AppendUvarint(*l, uint64(len(namespace)+1+len(name)))
	*l = appendPart(appendKey(b, namespace, name), value)
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

// States yields the streams whose state the batch changes, with the last of each.
func (b *Batch) States() iter.Seq2[string, *Stream] {
	return func(yield func(string, *Stream) bool) {
		for name, c := range b.streams {
			if c.State != nil && !yield(name, c.State) {
				return
			}
		}
	}
}

// SetMark sets how far the journal is once all of the batch is committed.
func (b *Batch) SetMark(m Mark) { b.mark = &m }

// SetRecovery sets how far a recovery has come once all of the batch is committed. A
// mark ends it.
func (b *Batch) SetRecovery(r Recovery) { b.recovery = &r }

// Empty reports whether there is nothing to commit.
func (b *Batch) Empty() bool { return b.mark == nil && b.recovery == nil && len(b.streams) == 0 }

// Bytes is the size of the logs of all streams.
func (b *Batch) Bytes() int { return b.bytes }

// entry is one decoded entry of a log.
type entry struct {
	key, value []byte
	number     int
}

// net returns the last entry of each key, ordered by key, so that a commit
// walks the pages of the file once and from left to right.
func (l changeLog) net() []entry {
	entries := make([]entry, 0, len(l)/64) // most take about that many bytes
	// Objects often change again and again: what is found here need not be sorted. Two
	// keys of one hash both stay.
	known, seed := make(map[uint64]int), maphash.MakeSeed()
	for n, rest := 0, []byte(l); len(rest) > 0; n++ {
		next := entry{number: n}
		next.key, rest, _ = cutPart(rest)
		next.value, rest, _ = cutPart(rest)
		hash := maphash.Bytes(seed, next.key)
		if i, ok := known[hash]; ok && bytes.Equal(entries[i].key, next.key) {
			entries[i] = next
			continue
		}
		known[hash] = len(entries)
		entries = append(entries, next)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(bytes.Compare(a.key, b.key), b.number-a.number) })
	return slices.CompactFunc(entries, func(a, b entry) bool { return bytes.Equal(a.key, b.key) })
}

// appendPart appends the key or the value of an entry, after its length.
func appendPart(dst, part []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(part))), part...)
}

// cutPart returns the part at the beginning of b, and what follows it.
func cutPart(b []byte) (part, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	b = b[used:]
	return b[:n:n], b[n:], true
}
