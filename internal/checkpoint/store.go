package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
)

const (
	schemaVersion = 1

	// lockTimeout is how long Open waits for another process to let go of the
	// file: long enough for a predecessor that is shutting down to be told
	// apart from one that runs (bbolt without it waits for ever).
	lockTimeout = time.Second

	// initialMap is how many bytes of address space the file is given at first,
	// enough for some millions of objects; growBy, by how many bytes it grows.
	initialMap = 256 << 20
	growBy     = 1 << 20

	// rangeChunk is how many known objects Range reads per transaction. A long
	// read transaction would hold up a commit that has to grow the file.
	rangeChunk = 1024
)

var (
	bucketMeta    = []byte("meta")
	bucketStreams = []byte("streams")
	bucketKnown   = []byte("known")
	keySchema     = []byte("schema")
	keyCluster    = []byte("cluster")
	keyJournal    = []byte("journal")
	keyLost       = []byte("lost")
)

// ErrLocked says that another process holds the file.
var ErrLocked = errors.New("held by another process")

// ErrDamaged says that the file is not a readable checkpoint of ours. The file
// has not been touched.
var ErrDamaged = errors.New("damaged")

// ErrNewerSchema says that a later kubejournal wrote the file. It has not been
// touched.
var ErrNewerSchema = errors.New("written by a newer version of kubejournal")

// Mark is how far the journal stood at a commit.
type Mark struct {
	// Seq is the seq of the last line, 0 before the first.
	Seq uint64 `json:"seq"`
	// FirstSeq is the seq of the first line of the active file: what tells one
	// file of the journal from another. 0 while the file is empty and on stdout.
	FirstSeq uint64 `json:"firstSeq,omitempty"`
	// Offset is the size of the active file in bytes just after the line Seq.
	Offset int64 `json:"offset,omitempty"`
}

// Stream is the durable state of one stream.
type Stream struct {
	// ResourceVersion is the position: everything the server did up to it
	// stands in the journal. Empty before the first sync is complete.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Owed is the reason of a GAP line that is still to be written: the
	// position is not valid any more. Empty when there is none.
	Owed string `json:"owed,omitempty"`
	// Open is set from a GAP line to its SYNCED line.
	Open *Gap `json:"open,omitempty"`
}

// Gap is a hole in a stream's history: of what happened after
// FromResourceVersion up to ResourceVersion only the net result is known.
type Gap struct {
	FromResourceVersion string `json:"fromResourceVersion,omitempty"`
	ResourceVersion     string `json:"resourceVersion"`
	// How many lines of each type stand behind the GAP line.
	Added    int64 `json:"added,omitempty"`
	Modified int64 `json:"modified,omitempty"`
	Deleted  int64 `json:"deleted,omitempty"`
}

// Store is an open checkpoint. It is safe for concurrent use; one process holds
// the file at a time.
type Store struct {
	db      *bbolt.DB
	path    string
	created bool
}

// Open opens the checkpoint at path and creates it when there is none. Errors
// wrap ErrLocked, ErrDamaged, ErrNewerSchema or the file system's.
func Open(path string) (*Store, error) {
	info, err := os.Stat(path)
	created := errors.Is(err, os.ErrNotExist)
	switch {
	case err != nil && !created:
		return nil, fmt.Errorf("open checkpoint: %w", err)
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("open checkpoint %s: is a folder; name a file", path)
	case err == nil && !info.Mode().IsRegular():
		// Not damaged: nobody wants a device set aside.
		return nil, fmt.Errorf("open checkpoint %s: is not a regular file; name one, or \"\" for none", path)
	case err == nil && info.Size() == 0:
		// bbolt would take it for a new one.
		return nil, fmt.Errorf("open checkpoint %s: %w: the file is empty", path, ErrDamaged)
	case created:
		if err := create(path); err != nil {
			return nil, err
		}
	}
	if err := verify(path); err != nil {
		return nil, err
	}
	s, err := open(path, false)
	if err != nil {
		return nil, err
	}
	s.created = created
	return s, nil
}

// OpenTemp opens a checkpoint that lives as long as the process does, for a run
// that keeps none: its file has no name any more when OpenTemp returns.
func OpenTemp() (*Store, error) {
	f, err := os.CreateTemp("", "kubejournal-*.db")
	if err != nil {
		return nil, fmt.Errorf("create temporary checkpoint: %w", err)
	}
	path := f.Name()
	defer removeTemp(path)
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("create temporary checkpoint: %w", err)
	}
	s, err := open(path, true)
	if err != nil {
		return nil, err
	}
	s.created = true
	return s, nil
}

// create makes an empty checkpoint under a temporary name and renames it. A
// crash before the rename leaves a file that nobody reads; a crash after it, a
// complete checkpoint.
func create(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if p := new(os.PathError); errors.As(err, &p) {
		err = p.Err // the temporary name says nothing to a user
	}
	if err != nil {
		return fmt.Errorf("create checkpoint %s: %w", path, err)
	}
	tmp := f.Name()
	defer removeTemp(tmp)
	if err := f.Close(); err != nil {
		return fmt.Errorf("create checkpoint: %w", err)
	}
	s, err := open(tmp, false)
	if err != nil {
		return fmt.Errorf("create checkpoint: %w", err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	// Link instead of rename: of two processes that start at once the second
	// must not replace the file that the first already holds. Some network file
	// systems have no links.
	err = os.Link(tmp, path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		err = os.Rename(tmp, path)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create checkpoint: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

func open(path string, temporary bool) (s *Store, err error) {
	var file *os.File
	defer func() {
		// bbolt panics on some damaged files instead of returning an error.
		if p := recover(); p != nil {
			if file != nil {
				_ = file.Close() // lets go of the lock
			}
			s, err = nil, fmt.Errorf("open checkpoint %s: %w: %v", path, ErrDamaged, p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:        lockTimeout,
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true, // rebuilt at open; keeps a commit's cost to what changed
		NoSync:         temporary,
		NoGrowSync:     temporary,
		OpenFile:       keep(&file),
		// Address space, not memory: a file that outgrows its map makes bbolt
		// copy every page that the commit under way has touched, and wait for
		// all readers.
		InitialMmapSize: initialMap,
	})
	if err != nil {
		return nil, openError(path, err)
	}
	db.AllocSize = growBy
	s = &Store{db: db, path: path}
	if err := s.init(); err != nil {
		_ = db.Close() // nothing was written that counts
		return nil, fmt.Errorf("open checkpoint %s: %w", path, err)
	}
	return s, nil
}

// init checks the schema, and writes it into an empty file.
func (s *Store) init() error {
	var schema uint64
	err := s.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			if k, _ := tx.Cursor().First(); k != nil {
				return fmt.Errorf("%w: not a checkpoint of kubejournal", ErrDamaged)
			}
			return nil
		}
		v, n := binary.Uvarint(meta.Get(keySchema))
		if n <= 0 || v == 0 || tx.Bucket(bucketStreams) == nil || tx.Bucket(bucketKnown) == nil {
			return fmt.Errorf("%w: not a checkpoint of kubejournal", ErrDamaged)
		}
		schema = v
		return nil
	})
	switch {
	case err != nil:
		return err
	case schema > schemaVersion:
		return fmt.Errorf("%w (schema %d, this one reads up to %d)", ErrNewerSchema, schema, schemaVersion)
	case schema == schemaVersion:
		return nil
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucketIfNotExists(bucketStreams); err != nil {
			return err
		}
		if _, err := tx.CreateBucketIfNotExists(bucketKnown); err != nil {
			return err
		}
		return meta.Put(keySchema, binary.AppendUvarint(nil, schemaVersion))
	})
}

// Close lets go of the file. Everything committed is on disk.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close checkpoint: %w", err)
	}
	return nil
}

// Path is the file's path, as given to Open.
func (s *Store) Path() string { return s.path }

// Created tells whether Open found no file and made a new one.
func (s *Store) Created() bool { return s.created }

// Size is the size of the file in bytes.
func (s *Store) Size() (int64, error) {
	var n int64
	err := s.db.View(func(tx *bbolt.Tx) error { n = tx.Size(); return nil })
	return n, err
}

// Cluster is the uid of the cluster that the checkpoint belongs to, empty while
// it belongs to none.
func (s *Store) Cluster() (uid string, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		uid = string(tx.Bucket(bucketMeta).Get(keyCluster))
		return nil
	})
	return uid, err
}

// SetCluster ties the checkpoint to a cluster.
func (s *Store) SetCluster(uid string) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keyCluster, []byte(uid))
	})
	if err != nil {
		return fmt.Errorf("commit checkpoint: %w", err)
	}
	return nil
}

// Lost tells whether an earlier checkpoint was lost, so that a stream that is
// not in this one may have been in that.
func (s *Store) Lost() (lost bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		lost = tx.Bucket(bucketMeta).Get(keyLost) != nil
		return nil
	})
	return lost, err
}

// SetLost notes that an earlier checkpoint was lost. It cannot be taken back.
func (s *Store) SetLost() error {
	err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyLost, []byte{1}) })
	if err != nil {
		return fmt.Errorf("commit checkpoint: %w", err)
	}
	return nil
}

// Mark is the journal's mark of the last commit.
func (s *Store) Mark() (m Mark, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketMeta).Get(keyJournal)
		if v == nil {
			return nil
		}
		if err := json.Unmarshal(v, &m); err != nil {
			return fmt.Errorf("read journal mark: %w: %w", ErrDamaged, err)
		}
		return nil
	})
	return m, err
}

// Stream returns the state of one stream; ok is false when there is none.
func (s *Store) Stream(name string) (st Stream, ok bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketStreams).Get([]byte(name))
		if v == nil {
			return nil
		}
		ok = true
		return decodeStream(name, v, &st)
	})
	return st, ok, err
}

// Streams returns the state of every stream.
func (s *Store) Streams() (map[string]Stream, error) {
	all := make(map[string]Stream)
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketStreams).ForEach(func(k, v []byte) error {
			var st Stream
			if err := decodeStream(string(k), v, &st); err != nil {
				return err
			}
			all[string(k)] = st
			return nil
		})
	})
	return all, err
}

func decodeStream(name string, v []byte, st *Stream) error {
	if err := json.Unmarshal(v, st); err != nil {
		return fmt.Errorf("read stream %s: %w: %w", name, ErrDamaged, err)
	}
	return nil
}

// Get returns what is known of the object namespace/name in a stream.
func (s *Store) Get(stream, namespace, name string) (k Known, ok bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketKnown).Bucket([]byte(stream))
		if b == nil {
			return nil
		}
		key := appendKey(nil, namespace, name)
		v := b.Get(key)
		if v == nil {
			return nil
		}
		ok = true
		return decodeKnown(key, v, &k)
	})
	return k, ok, err
}

// Empty tells whether a stream knows no object.
func (s *Store) Empty(stream string) (empty bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketKnown).Bucket([]byte(stream))
		empty = true
		if b != nil {
			k, _ := b.Cursor().First()
			empty = k == nil
		}
		return nil
	})
	return empty, err
}

// Range calls fn for every object known in a stream, in the order of namespace
// and name, until fn returns an error, which it passes on. No transaction is
// open while fn runs: commits made meanwhile may or may not be seen.
func (s *Store) Range(stream string, fn func(Known) error) error {
	var (
		after []byte
		chunk = make([]Known, 0, rangeChunk)
	)
	for {
		chunk = chunk[:0]
		err := s.db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketKnown).Bucket([]byte(stream))
			if b == nil {
				return nil
			}
			c := b.Cursor()
			key, v := c.Seek(after)
			if after != nil && string(key) == string(after) {
				key, v = c.Next()
			}
			for ; key != nil && len(chunk) < rangeChunk; key, v = c.Next() {
				var k Known
				if err := decodeKnown(key, v, &k); err != nil {
					return err
				}
				chunk = append(chunk, k)
				after = append(after[:0], key...)
			}
			return nil
		})
		if err != nil {
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
	}
}

// WasSetAside tells whether a damaged predecessor of the file at path is kept
// beside it.
func WasSetAside(path string) (bool, error) {
	kept, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(path)), escapeGlob(filepath.Base(path))+asideInfix+"*"))
	if err != nil {
		return false, fmt.Errorf("look for damaged checkpoints: %w", err)
	}
	return len(kept) > 0, nil
}

// escapeGlob takes a pattern's special characters for what they are.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// asideInfix stands between the name of a damaged file and the time.
const asideInfix = ".damaged-"

// SetAside renames a file that cannot be used, and says under which name it is
// kept. A crash leaves it under one name or the other.
func SetAside(path string, now time.Time) (kept string, err error) {
	kept = path + asideInfix + now.UTC().Format("2006-01-02T15-04-05.000")
	if err := os.Rename(path, kept); err != nil {
		return "", fmt.Errorf("set checkpoint aside: %w", err)
	}
	return kept, syncDir(filepath.Dir(path))
}

// removeTemp removes a file that nobody reads any more; one that stays is only
// untidy.
func removeTemp(path string) { _ = os.Remove(path) }

// syncDir makes a rename in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
