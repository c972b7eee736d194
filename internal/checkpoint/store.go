package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"go.etcd.io/bbolt"

	"kubejournal/internal/disk"
)

// rangeChunk is how many known objects Range reads per transaction. A long
// read transaction would hold up a commit that has to grow the file.
const rangeChunk = 1024

var (
	bucketMeta      = []byte("meta")
	bucketStreams   = []byte("streams")
	bucketForgotten = []byte("forgotten")
	bucketKnown     = []byte("known")
	bucketRecent    = []byte("recent")
	bucketKept      = []byte("kept")
	keySchema       = []byte("schema")
	keySum          = []byte("sum")
	keyCluster      = []byte("cluster")
	keyJournal      = []byte("journal")
	keyLost         = []byte("lost")
	keyRecovery     = []byte("recovery")
)

// ErrLocked says that another process holds the file.
var ErrLocked = errors.New("held by another process")

// ErrTakenOver says that another process has opened the file to write to it, on a
// volume where locks do nothing.
var ErrTakenOver = disk.ErrTakenOver

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
	// Stdout says that lines go to stdout, and File how far the journal file stood
	// when that began; zero where none came before.
	Stdout bool     `json:"stdout,omitempty"`
	File   FileMark `json:"file,omitzero"`
}

// FileMark is the part of a Mark that is about a file.
type FileMark struct {
	Seq      uint64 `json:"seq"`
	FirstSeq uint64 `json:"firstSeq"`
	Offset   int64  `json:"offset"`
}

// LastFile is how far the journal file stood at the last commit of its lines, which
// may be an earlier one than that of m; zero where none is known.
func (m Mark) LastFile() FileMark {
	if m.Stdout {
		return m.File
	}
	return FileMark{Seq: m.Seq, FirstSeq: m.FirstSeq, Offset: m.Offset}
}

// Recovery is how far a recovery has come that is not complete: what the lines
// behind From say of objects is committed up to the mark, and what they say of
// streams is in Streams.
type Recovery struct {
	From     *Mark             `json:"from,omitempty"` // the last commit's; nil where there was none
	Mark     Mark              `json:"mark"`
	Anchored bool              `json:"anchored,omitempty"` // as in journal.Position
	Hole     bool              `json:"hole,omitempty"`     // the same
	Lines    int               `json:"lines"`
	Streams  map[string]Stream `json:"streams,omitempty"`
}

// Store is an open checkpoint. It is safe for concurrent use; one process holds
// the file at a time.
type Store struct {
	db       *bbolt.DB
	file     *os.File // the database's own
	pageSize int      // its pages', in bytes
	path     string
	created  bool
	// temporary is set where the file has no name.
	temporary bool
	owner     *disk.Owner // nil where nothing is written, and where the file has no name
	ownerErr  error       // see OwnerError

	mu      sync.Mutex // held by the one writer
	suspect bool       // the last commit failed, see settle; guarded by mu
	roots   []byte     // the meta pages as the last commit left them, nil where that is not known; guarded by mu
	// placed is about how many objects stand in the tree, by stream; guarded by mu.
	placed map[string]int
	policy policy

	// recent holds the logs, by stream. A reader takes the log first and reads the
	// tree then, which may be that of a later commit: what has moved in between it
	// has seen.
	recentMu sync.RWMutex
	recent   map[string]*recent // guarded by recentMu, written by the one writer
}

func newStoreOf(db *bbolt.DB, file *os.File, path string) *Store {
	return &Store{db: db, file: file, pageSize: db.Info().PageSize, path: path, placed: make(map[string]int), policy: usualPolicy, recent: make(map[string]*recent)}
}

// recentOf is the log of a stream as it was committed last, nil for none.
func (s *Store) recentOf(stream string) *recent {
	s.recentMu.RLock()
	defer s.recentMu.RUnlock()
	return s.recent[stream]
}

// publish shows the readers what a transaction has changed in the logs.
func (s *Store) publish(w *writer) {
	for name, n := range w.placed {
		s.placed[name] += n
	}
	s.recentMu.Lock()
	defer s.recentMu.Unlock()
	for name, r := range w.recent {
		if r == nil {
			delete(s.recent, name)
			continue
		}
		s.recent[name] = r
	}
}

// loadRecent reads the logs from the file.
func (s *Store) loadRecent() error {
	all := make(map[string]*recent)
	err := s.db.View(func(tx *bbolt.Tx) error {
		logs := tx.Bucket(bucketRecent)
		if logs == nil {
			return nil
		}
		return logs.ForEachBucket(func(stream []byte) (err error) {
			all[string(stream)], err = loadRecent(logs.Bucket(stream))
			return err
		})
	})
	if err != nil {
		return err
	}
	s.recentMu.Lock()
	defer s.recentMu.Unlock()
	s.recent = all
	return nil
}

// Close lets go of the file. Everything committed is on disk.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close checkpoint: %w", err)
	}
	if s.owner != nil {
		s.owner.Release()
	}
	return nil
}

// Path is the file's path, symbolic links followed.
func (s *Store) Path() string { return s.path }

// Created tells whether Open found no file and made a new one.
func (s *Store) Created() bool { return s.created }

// Size is the size of the file in bytes.
func (s *Store) Size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at checkpoint: %w", err)
	}
	return info.Size(), nil
}

// Schema is the version of the file's layout.
func (s *Store) Schema() (schema uint64, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		schema, _ = binary.Uvarint(tx.Bucket(bucketMeta).Get(keySchema)) // Open has checked it
		return nil
	})
	return schema, err
}

// InPlace returns an error when the file does not stand under its name any more:
// what is committed from then on, no start will find.
func (s *Store) InPlace() error {
	if s.temporary {
		return nil
	}
	at, err := os.Stat(s.path)
	if err == nil {
		var is os.FileInfo
		if is, err = s.file.Stat(); err == nil && os.SameFile(at, is) {
			return nil
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look at checkpoint: %w", err)
	}
	return fmt.Errorf("checkpoint %s was removed or replaced by another process: what is committed now, the next start will not find; restart to begin a new one", s.path)
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
	err := s.update(func(w *writer) error { return w.set(bucketMeta, keyCluster, []byte(uid)) })
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

// SetLost notes that an earlier checkpoint was lost, until ClearLost.
func (s *Store) SetLost() error {
	err := s.update(func(w *writer) error { return w.set(bucketMeta, keyLost, []byte{1}) })
	if err != nil {
		return fmt.Errorf("commit checkpoint: %w", err)
	}
	return nil
}

// ClearLost notes that every stream that may have been in the earlier checkpoint
// is in this one.
func (s *Store) ClearLost() error {
	if err := s.update(func(w *writer) error { return w.unset(bucketMeta, keyLost) }); err != nil {
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

// Recovery is the recovery that was interrupted since the last mark was committed;
// ok is false where none was.
func (s *Store) Recovery() (r Recovery, ok bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketMeta).Get(keyRecovery)
		if v == nil {
			return nil
		}
		ok = true
		if err := json.Unmarshal(v, &r); err != nil {
			return fmt.Errorf("read recovery: %w: %w", ErrDamaged, err)
		}
		return nil
	})
	return r, ok, err
}

// Marked tells whether a mark was ever committed: the first is, before there is a
// line in the journal.
func (s *Store) Marked() (marked bool, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		marked = tx.Bucket(bucketMeta).Get(keyJournal) != nil
		return nil
	})
	return marked, err
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
	key := appendKey(nil, namespace, name)
	if v, recent := s.recentOf(stream).get(key); recent {
		if len(v) == 0 {
			return k, false, nil
		}
		err = decodeKnown(key, v, &k)
		return k, true, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketKnown).Bucket([]byte(stream))
		if b == nil {
			return nil
		}
		v := b.Get(key)
		if v == nil {
			return nil
		}
		ok = true
		return decodeKnown(key, v, &k)
	})
	return k, ok, err
}

// Forgotten returns the streams that were forgotten and have not been committed
// to since the journal's mark last moved: lines of theirs that stand behind the
// mark are older than that, and are not to be taken in again.
func (s *Store) Forgotten() (map[string]bool, error) {
	all := make(map[string]bool)
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketForgotten).ForEach(func(k, _ []byte) error {
			all[string(k)] = true
			return nil
		})
	})
	return all, err
}

// Knowing returns the streams that know an object, in the order of their names;
// one whose first sync has not ended may have no state yet.
func (s *Store) Knowing() (names []string, err error) {
	var all []string
	err = s.db.View(func(tx *bbolt.Tx) error {
		// A stream that has a log has a tree.
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
	r := s.recentOf(stream)
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketKnown).Bucket([]byte(stream))
		if b == nil {
			return nil
		}
		n = b.Stats().KeyN
		for i := range r.len() {
			e := r.at(r.order[i])
			placed, known := b.Get(e.key) != nil, len(e.value) > 0
			switch {
			case known && !placed:
				n++
			case placed && !known:
				n--
			}
		}
		return nil
	})
	return n, err
}

// Empty tells whether a stream knows no object.
func (s *Store) Empty(stream string) (bool, error) {
	first, err := s.chunk(stream, nil, nil, 1)
	return len(first) == 0, err
}

// Range calls fn for every object known in a stream, in the order of namespace
// and name, until fn returns an error, which it passes on. No transaction is
// open while fn runs: commits made meanwhile may or may not be seen.
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
// after a key; nil is before all. What the log says of a key comes before what
// the tree says.
func (s *Store) chunk(stream string, after []byte, dst []Known, n int) ([]Known, error) {
	r := s.recentOf(stream)
	at, found := r.search(after)
	if found && after != nil {
		at++
	}
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
		for len(dst) < n && (key != nil || at < r.len()) {
			e, logged := entry{key: key, value: v}, false
			if at < r.len() {
				if recent := r.at(r.order[at]); key == nil || bytes.Compare(recent.key, key) <= 0 {
					e, logged = recent, true
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
