package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"kubejournal/internal/disk"
)

// SchemaVersion is the newest of the files that this package writes and reads.
const SchemaVersion = 3

const (
	// schemaPlain is that of a file without a delta log, schemaLog that of one that
	// has one, and schemaKept that of one in which something is kept of objects.
	schemaPlain = 1
	schemaLog   = 2
	schemaKept  = 3

	// lockTimeout is how long Open waits for another process to release the file:
	// long enough for a predecessor that is shutting down (bbolt without it waits
	// for ever).
	lockTimeout = time.Second

	// initialMap is how many bytes of address space the file is given at first,
	// enough for some millions of objects; growBy, by how many bytes it grows.
	initialMap = 256 << 20
	growBy     = 256 << 10
)

// Open opens the checkpoint at path and creates it when there is none. Errors
// wrap ErrLocked, ErrDamaged, ErrNewerSchema or the file system's.
func Open(path string) (*Store, error) {
	path = follow(path)
	if err := removeLeftOver(path); err != nil {
		return nil, err
	}
	created, err := createMissing(path)
	if err != nil {
		return nil, err
	}
	s, err := OpenExisting(path)
	if s != nil {
		s.created = created
	}
	return s, err
}

// attempts is how often Open tries while another process does something to the file.
const attempts = 5

// createMissing creates the checkpoint at path when there is none. Another process
// that starts at once may take the temporary file for one that a crash has left.
func createMissing(path string) (created bool, err error) {
	for range attempts {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err = create(path); !errors.Is(err, os.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, err
}

// OpenExisting is Open where a file that is missing is an error.
func OpenExisting(path string) (*Store, error) {
	path = follow(path)
	for range attempts {
		s, err := openVerified(path)
		if s != nil || err != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("open checkpoint %s: %w", path, ErrLocked)
}

// openVerified opens a checkpoint; it returns nothing where another process has
// committed to it meanwhile.
func openVerified(path string) (*Store, error) {
	// All of it is read before it is opened for writing: see verify.
	read, err := OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	before, err := read.readRoots()
	if err := errors.Join(err, read.Close()); err != nil {
		return nil, err
	}
	s, err := open(path, false)
	if err != nil {
		return nil, err
	}
	s.owner, s.ownerErr = disk.Claim(disk.OS, path)
	if s.roots, err = s.readRoots(); err != nil || !bytes.Equal(s.roots, before) {
		return nil, errors.Join(err, s.Close())
	}
	s.merged, s.deltaLogs = read.merged, read.deltaLogs
	return s, nil
}

// checkFile refuses what is not a file to open. Only a regular file can be a damaged
// checkpoint: a folder or a device must not be set aside.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("open checkpoint: %w", err)
	case info.IsDir():
		return fmt.Errorf("open checkpoint %s: is a folder; name a file", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("open checkpoint %s: is not a regular file; name one, or \"\" for none", path)
	case info.Size() == 0:
		// bbolt would take it for a new one.
		return fmt.Errorf("open checkpoint %s: %w: the file is empty", path, ErrDamaged)
	}
	return nil
}

// follow returns path with symbolic links to the file followed: create, rename and
// sync of the folder are meant for the file, not for a link to it. The file need not
// exist.
func follow(path string) string {
	const most = 40 // as in Linux; what goes round in circles fails when it is opened
	for range most {
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			// Not cleaned: .. after a link to a folder is that folder's own.
			target = filepath.Dir(path) + string(filepath.Separator) + target
		}
		path = target
	}
	return path
}

// OpenTemp opens a checkpoint that exists as long as the process does, for a run
// that stores none: its file has no name any more when OpenTemp returns.
func OpenTemp() (*Store, error) {
	s, path, err := createTemp("", "kubejournal-*.db", true)
	if path != "" {
		defer removeTemp(path)
	}
	if err != nil {
		return nil, fmt.Errorf("create temporary checkpoint: %w", err)
	}
	s.created = true
	return s, nil
}

// create makes an empty checkpoint under a temporary name and links it to its own. A
// crash before the link leaves a file that nobody reads; a crash after it, a complete
// checkpoint.
func create(path string) error {
	s, tmp, err := createTemp(filepath.Dir(path), temporaryOf(path)+"*", false)
	if tmp != "" {
		defer removeTemp(tmp)
	}
	if err == nil {
		err = s.Close()
	}
	if p := new(os.PathError); errors.As(err, &p) {
		err = p.Err // the temporary name means nothing to a user
	}
	if err != nil {
		return fmt.Errorf("create checkpoint %s: %w", path, err)
	}
	// Link instead of rename: of two processes that start at once the second must
	// not replace the file that the first already holds. Some network file systems
	// have no links.
	err = os.Link(tmp, path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		err = os.Rename(tmp, path)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create checkpoint: %w", err)
	}
	return disk.OS.SyncDir(filepath.Dir(path))
}

// createTemp makes an empty checkpoint, complete and on disk. The path is set where
// there is something to remove.
func createTemp(dir, pattern string, temporary bool) (s *Store, path string, err error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, "", err
	}
	if err := f.Close(); err != nil {
		return nil, f.Name(), err
	}
	if s, err = open(f.Name(), temporary); err != nil {
		return nil, f.Name(), err
	}
	if err := s.format(); err != nil {
		return nil, f.Name(), errors.Join(err, s.db.Close())
	}
	return s, f.Name(), nil
}

// temporaryOf is the beginning of the name under which a checkpoint is created.
func temporaryOf(path string) string { return "." + filepath.Base(path) + ".new-" }

// removeLeftOver removes the temporary file that a crash within create leaves. One
// that is locked is being made by another process.
func removeLeftOver(path string) error {
	names, err := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(path)), escapeGlob(temporaryOf(path))+"*"))
	if err != nil {
		return fmt.Errorf("look for temporary checkpoints: %w", err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			continue // gone, or not ours
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			removeTemp(name)
		}
		_ = f.Close() // nothing was written
	}
	return nil
}

func open(path string, temporary bool) (s *Store, err error) {
	var file *os.File
	defer failDamaged(path, &file, &err)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:        lockTimeout,
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true, // rebuilt at open; keeps a commit's cost to what changed
		NoSync:         temporary,
		NoGrowSync:     temporary,
		OpenFile:       openInto(&file),
		// Address space, not memory: a file that outgrows its map makes bbolt
		// copy every page that the commit under way has touched, and wait for
		// all readers.
		InitialMmapSize: initialMap,
	})
	if err != nil {
		return nil, openError(path, err)
	}
	db.AllocSize = growBy
	s = newStoreOf(db, file, path)
	s.temporary = temporary
	return s, nil
}

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
