// Package checkpoint stores what must survive the process: for each stream its
// position and the objects that its reader knows, and how far the journal was
// written at that point. All of it is committed in one bbolt transaction, so that
// a crash leaves one consistent state: the last one. A commit never runs ahead of
// the journal lines that it covers (package recorder keeps the order). Readers (Get,
// Range) see committed state only.
//
// # The file
//
//	meta                                  bucket
//	  schema                              uvarint, SchemaVersion; CRC-32C of it, 4 bytes
//	  sum                                 checksum of everything else, 8 bytes (see entrySum)
//	  cluster                             uid of the namespace kube-system, absent while unknown
//	  journal                             JSON of Mark: last seq, file identity, offset; on stdout, those of the file
//	                                      before
//	  recovery                            JSON of Recovery: how far an interrupted one came; absent otherwise
//	  term                                two uvarints: the number of this replica's last term as the leader, 0 for
//	                                      none, and of the last term that it knows of; absent while both are 0
//	  lost                                present from the loss of a predecessor until all streams are known again
//	streams                               bucket
//	  <stream name>                       JSON of Stream: position, pending GAP, open gap, pending SYNCED line
//	forgotten                             bucket
//	  <stream name>                       present from Forget until the mark moves (see Forgotten)
//	known                                 bucket
//	  <stream name>                       bucket: the stream's tree
//	    <namespace> 0x00 <name>           one object: flags, resourceVersion, uid (see appendKnown)
//	recent                                bucket; from schema 2 on, which a file gets with its first delta log
//	  <stream name>                       bucket: the stream's delta log (see deltalog.go)
//	    <number>                          one record: changes that override what the tree says
//	    sweep                             how far a compaction of the log is; absent when none is under way
//	kept                                  bucket; from schema 3 on, which a file gets when a stream stores versions
//	  <stream name>                       bucket (see Kept)
//	    0x00                              header of all values below
//	    <namespace> 0x00 <name>           the version that the reader knows, to compare with
//
// A crash between the steps of a commit leaves the commit before: bbolt writes and
// syncs the changed pages, then one of two meta pages that names the root. If that
// last sync fails, both meta pages are written again before the next commit (see settle).
//
// The key of a known object is its name: two live objects never share one, and
// servers list in this order, so that a first sync fills pages from left to right.
// BenchmarkLayout compares other layouts.
//
// # Damage
//
// Open reads everything and compares it with the sum. A file with a changed byte opens
// with the content committed last, if the byte carries none, or with that of the commit
// before, if it belongs to the newer meta page (the journal is then read back as after a
// crash), or not at all: ErrDamaged. Such a file is never overwritten; SetAside keeps it.
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

	"kubejournal/internal/host/disk"
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
	keyTerm         = []byte("term")
)

// Why a file cannot be opened. It is left as it is.
var (
	ErrLocked      = errors.New("held by another process")
	ErrDamaged     = errors.New("damaged") // not a readable checkpoint
	ErrNewerSchema = errors.New("written by a newer version of kubejournal")
)

// Mark is how far the journal was at a commit.
type Mark struct {
	Seq uint64 `json:"seq"` // of the last line, 0 before the first
	// of the active file's first line, which identifies it; 0 while it is empty and on stdout
	FirstSeq uint64 `json:"firstSeq,omitempty"`
	Offset   int64  `json:"offset,omitempty"` // at which the line Seq ends in the active file

	Rotated

	// Stdout is set if lines go to stdout. File is how far the journal file was when that
	// began; zero if none came before.
	Stdout bool     `json:"stdout,omitempty"`
	File   FileMark `json:"file,omitzero"`
}

// Rotated is what lines have said of the journal's rotated files.
type Rotated struct {
	// seq of the journal's first line, as the last REMOVED line says; 0 is unknown
	Begins uint64 `json:"begins,omitempty"`
	// seq of the last line in the last file that a SEALED line is about; 0 is none
	Sealed uint64 `json:"sealed,omitempty"`
	Chain  string `json:"chain,omitempty"` // of that SEALED line
}

// FileMark is the part of a Mark that is about a file.
type FileMark struct {
	Seq      uint64 `json:"seq"`
	FirstSeq uint64 `json:"firstSeq"`
	Offset   int64  `json:"offset"`
}

// LastFile is how far the journal file was at the last commit of its lines; zero if unknown.
func (m Mark) LastFile() FileMark {
	if m.Stdout {
		return m.File
	}
	return FileMark{Seq: m.Seq, FirstSeq: m.FirstSeq, Offset: m.Offset}
}

// Recovery is how far an incomplete recovery has come: what the lines after From say of
// objects is committed up to the mark, and what they say of streams is in Streams.
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
	file     *os.File    // the database's own
	pageSize int         // in bytes
	path     string      // empty if the file has no name
	owner    *disk.Owner // nil if nothing is written, and if the file has no name
	ownerErr error       // see OwnerError
	policy   policy

	mu     sync.Mutex     // held by the one writer
	roots  []byte         // the meta pages as the last commit left them, nil if it failed (see settle); guarded by mu
	merged map[string]int // about how many objects are in the tree, by stream; guarded by mu

	// A reader takes the delta log first and reads the tree then, which may be of a
	// later commit: what that has merged, the log still has.
	logsMu    sync.RWMutex
	deltaLogs map[string]*deltaLog // by stream; guarded by logsMu, written by the one writer
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

// Path is the file's path, symbolic links followed; empty for OpenTemp's.
func (s *Store) Path() string { return s.path }

// OwnerError is why Open could not record that this process writes to the file; nil
// if it could.
func (s *Store) OwnerError() error { return s.ownerErr }

// Size is the size of the file in bytes.
func (s *Store) Size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat checkpoint: %w", err)
	}
	return info.Size(), nil
}

// InPlace returns an error when the file is not under its name any more.
func (s *Store) InPlace() error {
	if s.path == "" {
		return nil
	}
	is, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("stat checkpoint: %w", err)
	}
	at, err := os.Stat(s.path)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("stat checkpoint: %w", err)
	case err != nil || !os.SameFile(at, is):
		return fmt.Errorf("checkpoint %s was removed or replaced by another process: what is committed now, the next "+
			"start will not find; restart to begin a new one", s.path)
	}
	return nil
}

// value returns the value of a key in one of the buckets at the top; nil if there is none.
func (s *Store) value(bucket, key []byte) (v []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		v = bytes.Clone(tx.Bucket(bucket).Get(key))
		return nil
	})
	return v, err
}

// valueJSON decodes such a value; ok is false if there is none.
func (s *Store) valueJSON(bucket, key []byte, what string, to any) (ok bool, err error) {
	v, err := s.value(bucket, key)
	if v == nil || err != nil {
		return false, err
	}
	return true, decodeJSON(what, v, to)
}

func decodeJSON(what string, v []byte, to any) error {
	if err := json.Unmarshal(v, to); err != nil {
		return fmt.Errorf("read %s: %w: %w", what, ErrDamaged, err)
	}
	return nil
}

// viewAll calls fn for each value of one of the buckets at the top.
func (s *Store) viewAll(bucket []byte, fn func(k, v []byte) error) error {
	return s.db.View(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).ForEach(fn) })
}

// Schema is the version of the file's layout.
func (s *Store) Schema() (schema uint64, err error) {
	v, err := s.value(bucketMeta, keySchema)
	schema, _ = binary.Uvarint(v) // Open has checked it
	return schema, err
}

// Cluster is the uid of the cluster that the checkpoint belongs to, empty for none.
func (s *Store) Cluster() (uid string, err error) {
	v, err := s.value(bucketMeta, keyCluster)
	return string(v), err
}

// SetCluster makes the checkpoint one of a cluster.
func (s *Store) SetCluster(uid string) error {
	return s.update(func(w *writer) error { return w.top(bucketMeta).put(keyCluster, []byte(uid)) })
}

// Terms are what a replica knows of terms when it starts.
type Terms struct {
	Led    uint64 // this replica's last term as the leader, 0 for none
	Latest uint64 // the last term of any replica that this one knows of
}

// Terms are what SetTerms has set, zero before.
func (s *Store) Terms() (t Terms, err error) {
	v, err := s.value(bucketMeta, keyTerm)
	led, n := binary.Uvarint(v)
	latest, _ := binary.Uvarint(v[max(n, 0):])
	return Terms{led, latest}, err
}

// SetTerms sets the terms that are known.
func (s *Store) SetTerms(t Terms) error {
	v := binary.AppendUvarint(binary.AppendUvarint(nil, t.Led), t.Latest)
	return s.update(func(w *writer) error { return w.top(bucketMeta).put(keyTerm, v) })
}

// Lost reports whether an earlier checkpoint was lost, so that a stream that is
// not in this one may have been in that.
func (s *Store) Lost() (bool, error) {
	v, err := s.value(bucketMeta, keyLost)
	return v != nil, err
}

// LostNames returns what SetLostNames has recorded, nil for nothing.
func (s *Store) LostNames() (names []string, err error) {
	v, err := s.value(bucketMeta, keyLost)
	if err == nil && len(v) > 1 {
		err = json.Unmarshal(v[1:], &names)
	}
	return names, err
}

// SetLost records that an earlier checkpoint was lost, until ClearLost.
func (s *Store) SetLost() error { return s.putLost([]byte{1}) }

// SetLostNames records what the earlier checkpoint may have had: what the config named at the first start after the
// loss. All else is new.
func (s *Store) SetLostNames(names []string) error {
	v, err := json.Marshal(names)
	if err != nil {
		return fmt.Errorf("encode names: %w", err)
	}
	return s.putLost(append([]byte{1}, v...))
}

// ClearLost records that this checkpoint has every stream that the earlier one had.
func (s *Store) ClearLost() error { return s.putLost(nil) }

func (s *Store) putLost(v []byte) error {
	return s.update(func(w *writer) error { return w.top(bucketMeta).put(keyLost, v) })
}

// Mark is the journal's mark of the last commit.
func (s *Store) Mark() (m Mark, err error) {
	_, err = s.valueJSON(bucketMeta, keyJournal, "journal mark", &m)
	return m, err
}

// Marked reports whether a mark was ever committed; the first is before the first line.
func (s *Store) Marked() (bool, error) {
	v, err := s.value(bucketMeta, keyJournal)
	return v != nil, err
}

// Recovery is the recovery that was interrupted since the last mark, if one was.
func (s *Store) Recovery() (r Recovery, ok bool, err error) {
	ok, err = s.valueJSON(bucketMeta, keyRecovery, "recovery", &r)
	return r, ok, err
}

// Stream returns the state of one stream; ok is false when there is none.
func (s *Store) Stream(name string) (st Stream, ok bool, err error) {
	ok, err = s.valueJSON(bucketStreams, []byte(name), "stream "+name, &st)
	return st, ok, err
}

// Streams returns the state of every stream.
func (s *Store) Streams() (map[string]Stream, error) {
	all := make(map[string]Stream)
	err := s.viewAll(bucketStreams, func(k, v []byte) error {
		var st Stream
		err := decodeJSON("stream "+string(k), v, &st)
		all[string(k)] = st
		return err
	})
	return all, err
}

// Forgotten returns the streams that were forgotten since the journal's mark last
// moved: their lines after the mark are older than that, and do not count.
func (s *Store) Forgotten() (map[string]bool, error) {
	all := make(map[string]bool)
	err := s.viewAll(bucketForgotten, func(k, _ []byte) error {
		all[string(k)] = true
		return nil
	})
	return all, err
}
