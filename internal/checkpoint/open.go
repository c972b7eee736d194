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
	// schemaPlain is that of a file that has no log of recent changes yet,
	// schemaRecent that of one that has, and schemaKept that of one in which
	// something is kept of objects.
	schemaPlain  = 1
	schemaRecent = 2
	schemaKept   = 3

	// lockTimeout is how long Open waits for another process to let go of the
	// file: long enough for a predecessor that is shutting down to be told
	// apart from one that runs (bbolt without it waits for ever).
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
	if err != nil {
		return nil, err
	}
	s.created = created
	return s, nil
}

// createMissing creates the checkpoint at path when there is none. Another process
// that starts at once may take the temporary file for one that a crash has left.
func createMissing(path string) (created bool, err error) {
	const attempts = 5
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
	const attempts = 5
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
	s.placed = read.placed
	if err := errors.Join(s.checkSchema(), s.loadRecent()); err != nil {
		_ = s.Close() // nothing was written
		return nil, fmt.Errorf("open checkpoint %s: %w", path, err)
	}
	return s, nil
}

// checkFile refuses what is no file to open. Only what once was a checkpoint can
// be damaged: nobody wants a folder or a device set aside.
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

// follow returns what path names at last: to create a file, to rename it and to
// sync its folder is meant for the file, not for a symbolic link to it. The end
// need not be there.
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
	if err := s.format(); err != nil {
		_ = s.db.Close() // the file goes
		return nil, fmt.Errorf("create temporary checkpoint: %w", err)
	}
	s.created = true
	return s, nil
}

// create makes an empty checkpoint under a temporary name and renames it. A
// crash before the rename leaves a file that nobody reads; a crash after it, a
// complete checkpoint.
func create(path string) error {
	tmp, err := createTemp(path)
	if p := new(os.PathError); errors.As(err, &p) {
		err = p.Err // the temporary name says nothing to a user
	}
	if tmp != "" {
		defer removeTemp(tmp)
	}
	if err != nil {
		return fmt.Errorf("create checkpoint %s: %w", path, err)
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
	return disk.OS.SyncDir(filepath.Dir(path))
}

// temporaryOf is how the name begins under which a checkpoint is created.
func temporaryOf(path string) string { return "." + filepath.Base(path) + ".new-" }

// removeLeftOver removes what create has left behind where a crash came between
// its steps. One that is locked is being made by another process.
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

// createTemp makes an empty checkpoint beside path, complete and on disk, and
// returns its name, which is set where there is something to remove.
func createTemp(path string) (tmp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), temporaryOf(path)+"*")
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return f.Name(), err
	}
	s, err := open(f.Name(), false)
	if err != nil {
		return f.Name(), err
	}
	return f.Name(), errors.Join(s.format(), s.Close())
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

// encodeSchema returns what stands for a schema: a uvarint and its own CRC, so
// that damage is not taken for a version to come. Later versions keep to it.
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
