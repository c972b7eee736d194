package checkpoint

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// SchemaVersion is the newest of the files that this package writes and reads:
// schemaPlain is that of a file without a delta log, schemaLog that of one that has
// one, and schemaKept that of one in which something is kept of objects.
const SchemaVersion = schemaKept

const (
	schemaPlain = 1 + iota
	schemaLog
	schemaKept
)

// format makes a checkpoint of an empty file.
func (s *Store) format() error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketStreams, bucketForgotten, bucketKnown} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.update(func(w *writer) error { return w.schema(schemaPlain) })
}

// verify reads all of the file once: the pages, which bbolt would walk blindly,
// and what is in them.
func (s *Store) verify() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	p := pages{file: s.file, size: s.pageSize, objects: make(map[string]*int)}
	err = s.db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return fmt.Errorf("%w: has %d bytes instead of %d", ErrDamaged, info.Size(), tx.Size())
		}
		p.seen = make([]bool, tx.Size()/int64(p.size))
		return p.walk(uint64(tx.Cursor().Bucket().Root()), scope{root: true}, nil, nil)
	})
	if err != nil {
		return err
	}
	// Before the sum: a later version may know other buckets.
	if err := s.checkSchema(); err != nil {
		return err
	}
	// What adds up is what was written: the known objects need no check of their own.
	if err := p.checkSum(); err != nil {
		return err
	}
	for name, n := range p.objects {
		s.merged[name] = *n
	}
	if err := s.loadLogs(); err != nil {
		return err
	}
	if _, err := s.Mark(); err != nil {
		return err
	}
	_, err = s.Streams()
	return err
}

// encodeSchema encodes a schema: a uvarint and its own CRC, so that damage is not
// taken for a later version. Later versions must use the same form.
func encodeSchema(v uint64) []byte {
	b := binary.AppendUvarint(nil, v)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
}

func (s *Store) checkSchema() error {
	return s.db.View(func(tx *bbolt.Tx) error {
		damaged := fmt.Errorf("%w: not a checkpoint of kubejournal", ErrDamaged)
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return damaged
		}
		b := meta.Get(keySchema)
		v, n := binary.Uvarint(b)
		if n <= 0 || v == 0 || string(b) != string(encodeSchema(v)) {
			return damaged
		}
		if v > SchemaVersion {
			return fmt.Errorf("%w (schema %d, this one reads up to %d)", ErrNewerSchema, v, SchemaVersion)
		}
		for _, name := range [][]byte{bucketStreams, bucketForgotten, bucketKnown} {
			if tx.Bucket(name) == nil {
				return damaged
			}
		}
		return nil
	})
}
