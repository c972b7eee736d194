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

// ErrLocked means that another process holds the file.
var ErrLocked = errors.New("held by another process")

// ErrTakenOver means that another process has opened the file to write to it, on a volume
// without working locks.
var ErrTakenOver = disk.ErrTakenOver

// ErrDamaged means that the file is not a readable checkpoint. It is left as it is.
var ErrDamaged = errors.New("damaged")

// ErrNewerSchema means that a later kubejournal wrote the file. It is left as it is.
var ErrNewerSchema = errors.New("written by a newer version of kubejournal")

// Mark is how far the journal was at a commit.
type Mark struct {
	// Seq is the seq of the last line, 0 before the first.
	Seq uint64 `json:"seq"`
	// FirstSeq is the seq of the first line of the active file, which identifies
	// it. 0 while the file is empty and on stdout.
	FirstSeq uint64 `json:"firstSeq,omitempty"`
	// Offset is the size of the active file in bytes just after the line Seq.
	Offset int64 `json:"offset,omitempty"`
	// Stdout is set where lines go to stdout. File is how far the journal file was
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

// LastFile is how far the journal file was at the last commit of its lines, which
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
	db        *bbolt.DB
	file      *os.File // the database's own
	pageSize  int      // in bytes
	path      string
	created   bool
	temporary bool        // the file has no name
	owner     *disk.Owner // nil where nothing is written, and where the file has no name
	ownerErr  error       // see OwnerError

	mu      sync.Mutex // held by the one writer
	suspect bool       // the last commit failed, see settle; guarded by mu
	roots   []byte     // the meta pages as the last commit left them, nil where that is not known; guarded by mu
	// merged is about how many objects are in the tree, by stream; guarded by mu.
	merged map[string]int
	policy policy

	// A reader takes the delta log first and reads the tree then, which may be of a
	// later commit: what that has merged, the log still has.
	logsMu    sync.RWMutex
	deltaLogs map[string]*deltaLog // by stream; guarded by logsMu, written by the one writer
}

func newStoreOf(db *bbolt.DB, file *os.File, path string) *Store {
	return &Store{db: db, file: file, pageSize: db.Info().PageSize, path: path, merged: make(map[string]int), policy: usualPolicy, deltaLogs: make(map[string]*deltaLog)}
}

// Close releases the file. Everything committed is on disk.
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

// Created reports whether Open found no file and made a new one.
func (s *Store) Created() bool { return s.created }

// Size is the size of the file in bytes.
func (s *Store) Size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat checkpoint: %w", err)
	}
	return info.Size(), nil
}

// InPlace returns an error when the file is not under its name any more: the next
// start would not find what is committed from then on.
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
		return fmt.Errorf("stat checkpoint: %w", err)
	}
	return fmt.Errorf("checkpoint %s was removed or replaced by another process: what is committed now, the next start will not find; restart to begin a new one", s.path)
}

// meta returns the value of a key of the bucket meta; nil where there is none.
func (s *Store) meta(key []byte) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket(bucketMeta).Get(key))
		return nil
	})
	return value, err
}

// metaJSON decodes the value of a key of the bucket meta; ok is false where there is none.
func (s *Store) metaJSON(key []byte, what string, to any) (ok bool, err error) {
	v, err := s.meta(key)
	if v == nil || err != nil {
		return false, err
	}
	if err := json.Unmarshal(v, to); err != nil {
		return true, fmt.Errorf("read %s: %w: %w", what, ErrDamaged, err)
	}
	return true, nil
}

// viewAll calls fn for each value of one of the buckets at the top.
func (s *Store) viewAll(bucket []byte, fn func(k, v []byte) error) error {
	return s.db.View(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).ForEach(fn) })
}

// Schema is the version of the file's layout.
func (s *Store) Schema() (schema uint64, err error) {
	v, err := s.meta(keySchema)
	schema, _ = binary.Uvarint(v) // Open has checked it
	return schema, err
}

// Cluster is the uid of the cluster that the checkpoint belongs to, empty while
// it belongs to none.
func (s *Store) Cluster() (uid string, err error) {
	v, err := s.meta(keyCluster)
	return string(v), err
}

// SetCluster makes the checkpoint one of a cluster.
func (s *Store) SetCluster(uid string) error {
	return commitError(s.update(func(w *writer) error { return w.top(bucketMeta).put(keyCluster, []byte(uid)) }))
}

// Lost reports whether an earlier checkpoint was lost, so that a stream that is
// not in this one may have been in that.
func (s *Store) Lost() (bool, error) {
	v, err := s.meta(keyLost)
	return v != nil, err
}

// SetLost records that an earlier checkpoint was lost, until ClearLost.
func (s *Store) SetLost() error {
	return commitError(s.update(func(w *writer) error { return w.top(bucketMeta).put(keyLost, []byte{1}) }))
}

// ClearLost records that every stream that may have been in the earlier checkpoint
// is in this one.
func (s *Store) ClearLost() error {
	return commitError(s.update(func(w *writer) error { return w.top(bucketMeta).remove(keyLost) }))
}

// Mark is the journal's mark of the last commit.
func (s *Store) Mark() (m Mark, err error) {
	_, err = s.metaJSON(keyJournal, "journal mark", &m)
	return m, err
}

// Marked reports whether a mark was ever committed: the first is, before there is a
// line in the journal.
func (s *Store) Marked() (bool, error) {
	v, err := s.meta(keyJournal)
	return v != nil, err
}

// Recovery is the recovery that was interrupted since the last mark was committed;
// ok is false where none was.
func (s *Store) Recovery() (r Recovery, ok bool, err error) {
	ok, err = s.metaJSON(keyRecovery, "recovery", &r)
	return r, ok, err
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
	err := s.viewAll(bucketStreams, func(k, v []byte) error {
		var st Stream
		err := decodeStream(string(k), v, &st)
		all[string(k)] = st
		return err
	})
	return all, err
}

func decodeStream(name string, v []byte, st *Stream) error {
	if err := json.Unmarshal(v, st); err != nil {
		return fmt.Errorf("read stream %s: %w: %w", name, ErrDamaged, err)
	}
	return nil
}
