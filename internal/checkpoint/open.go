package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"kubejournal/internal/host/disk"
)

// SchemaVersion is the newest of the files that this package writes and reads.
const SchemaVersion = schemaKept

const (
	schemaPlain = 1 + iota // without a delta log
	schemaLog              // with one
	schemaKept             // in which something is kept of objects
)

const (
	// lockTimeout is how long Open waits for another process to release the file:
	// long enough for a predecessor that is shutting down.
	lockTimeout = time.Second

	// initialMap is how many bytes of address space the file is given at first,
	// enough for some millions of objects; growBy, by how many bytes it grows.
	initialMap = 256 << 20
	growBy     = 256 << 10

	// attempts is how often Open tries while another process does something to the file.
	attempts = 5
)

// Open opens the checkpoint at path and creates it when there is none. Errors
// wrap ErrLocked, ErrDamaged, ErrNewerSchema or the file system's.
func Open(path string) (*Store, error) {
	if err := disk.CheckLink(path); err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	path = follow(path)
	removeLeftOver(path)
	if err := createMissing(path); err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil { // else opening it says why
		if err := disk.CheckForeign(path, info); err != nil {
			return nil, fmt.Errorf("open checkpoint: %w", err)
		}
	}
	return OpenExisting(path)
}

// createMissing creates the checkpoint at path when there is none. Another process
// that starts at once may take the temporary file for one that a crash has left.
func createMissing(path string) (err error) {
	for range attempts {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err = create(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return err
}

// OpenExisting is Open for a file that must exist.
func OpenExisting(path string) (*Store, error) {
	if err := disk.CheckLink(path); err != nil {
		return nil, fmt.Errorf("open checkpoint: %w", err)
	}
	path = follow(path)
	for range attempts {
		s, err := openVerified(path)
		if s != nil || err != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("open checkpoint %s: %w", path, ErrLocked)
}

// openVerified reads all of a checkpoint before it opens it for writing: see
// OpenReadOnly. It returns nothing if another process has committed in between.
func openVerified(path string) (*Store, error) {
	read, err := OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	before, err := read.readRoots()
	if err := errors.Join(err, read.Close()); err != nil {
		return nil, err
	}
	s, err := open(path, forWriting(false))
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

// OpenReadOnly opens the checkpoint at path for reading, beside other readers. It reads
// all of the file, and returns ErrDamaged if something is not as it was written. bbolt
// reads every page too when it opens a file for writing, but in a goroutine of its own:
// a damaged page makes it panic there, which would end the process at every start.
func OpenReadOnly(path string) (*Store, error) {
	path = follow(path)
	if err := checkFile(path); err != nil {
		return nil, err
	}
	// Reading after the end of a mapped file would be a fault, not an error.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return open(path, bbolt.Options{ReadOnly: true})
}

// forWriting are the options of a file that is written to.
func forWriting(temporary bool) bbolt.Options {
	return bbolt.Options{
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true, // rebuilt at open; keeps a commit's cost to what changed
		NoSync:         temporary,
		NoGrowSync:     temporary,
		// Address space, not memory: a file that outgrows its map makes bbolt copy
		// every page that the commit has touched, and wait for all readers.
		InitialMmapSize: initialMap,
	}
}

// open opens a file, and reads all of it if it is only to be read.
func open(path string, options bbolt.Options) (s *Store, err error) {
	var file *os.File
	defer func() { // bbolt panics on some damaged files instead of returning an error
		if p := recover(); p != nil {
			if file != nil {
				_ = file.Close() // and its lock; a second close does no harm
			}
			s, err = nil, fmt.Errorf("open checkpoint %s: %w: %v", path, ErrDamaged, p)
		}
	}()
	options.Timeout = lockTimeout
	options.OpenFile = func(path string, flag int, mode os.FileMode) (f *os.File, err error) {
		file, err = os.OpenFile(path, flag, mode)
		return file, err
	}
	db, err := bbolt.Open(path, 0o600, &options)
	for errors.Is(err, syscall.EINTR) { // a signal, on a network volume
		db, err = bbolt.Open(path, 0o600, &options)
	}
	if err != nil {
		return nil, openError(path, err)
	}
	db.AllocSize = growBy
	s = &Store{db: db, file: file, pageSize: db.Info().PageSize, path: path, policy: usualPolicy,
		merged: make(map[string]int), deltaLogs: make(map[string]*deltaLog)}
	if options.ReadOnly {
		if err := s.verify(); err != nil {
			_ = db.Close() // nothing was written
			return nil, fmt.Errorf("open checkpoint %s: %w", path, err)
		}
	}
	return s, nil
}

// openError classifies an error of bbolt.Open: one of the system is no damage.
func openError(path string, err error) error {
	if errors.Is(err, berrors.ErrTimeout) {
		err = ErrLocked
	} else if _, is := err.(syscall.Errno); is { //nolint:errorlint // bbolt returns those of flock and mmap as they are
		if err = disk.LockError(err); errors.Is(err, syscall.ENODEV) {
			err = fmt.Errorf("%w: %w", disk.ErrNoMapping, err)
		}
	} else if !errors.As(err, new(*os.PathError)) && !errors.As(err, new(syscall.Errno)) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("open checkpoint %s: %w", path, err)
}

// checkFile refuses what is not a file to open, and must not be set aside as damaged.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("open checkpoint: %w", err)
	case info.IsDir():
		return fmt.Errorf("open checkpoint %s: is a folder; name a file", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("open checkpoint %s: is not a regular file; name one, or \"\" for none", path)
	case info.Size() == 0: // bbolt would take it for a new one
		return fmt.Errorf("open checkpoint %s: %w: the file is empty", path, ErrDamaged)
	}
	return nil
}

// follow returns path with symbolic links to the file followed: the file, which need not
// exist, is created and renamed, not a link to it.
func follow(path string) string {
	path = disk.Absolute(path)
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
	s, err := createTemp("", "kubejournal-*.db", true)
	if err != nil {
		return nil, fmt.Errorf("create temporary checkpoint: %w", err)
	}
	_ = os.Remove(s.path) // one that stays does no harm
	s.path = ""
	return s, nil
}

// create makes an empty checkpoint under a temporary name and links it to its own. A
// crash leaves a file that nobody reads, or a complete checkpoint.
func create(path string) error {
	s, err := createTemp(filepath.Dir(path), temporaryOf(path)+"*", false)
	if err == nil {
		defer os.Remove(s.path) //nolint:errcheck // one that stays does no harm
		err = s.Close()
	}
	if p := new(os.PathError); errors.As(err, &p) {
		err = p.Err // the temporary name means nothing to a user
	}
	if err != nil {
		return fmt.Errorf("create checkpoint %s: %w", path, err)
	}
	// Link instead of rename: of two processes that start at once the second must not
	// replace the first one's file. Some network file systems have no links.
	err = os.Link(s.path, path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		err = os.Rename(s.path, path)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create checkpoint: %w", err)
	}
	return disk.OS.SyncDir(filepath.Dir(path))
}

// createTemp makes an empty checkpoint, complete and on disk, or leaves nothing.
func createTemp(dir, pattern string, temporary bool) (s *Store, err error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	if err = f.Close(); err == nil {
		s, err = open(f.Name(), forWriting(temporary))
	}
	if err == nil {
		if err = s.format(); err != nil {
			err = errors.Join(err, s.db.Close())
		}
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return nil, err
	}
	return s, nil
}

// temporaryOf is the beginning of the name under which a checkpoint is created.
func temporaryOf(path string) string { return "." + filepath.Base(path) + ".new-" }

// removeLeftOver removes the temporary file that a crash within create leaves. One
// that is locked is being made by another process.
func removeLeftOver(path string) {
	for _, name := range beside(path, temporaryOf(path)) {
		f, err := os.OpenFile(name, os.O_RDWR, 0) // NFS gives no other file an exclusive lock
		if err != nil {
			continue // gone, or not ours
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.Remove(name)
		}
		_ = f.Close() // nothing was written
	}
}

// beside returns the files in the folder of path whose names begin with prefix.
func beside(path, prefix string) []string {
	escape := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace
	// it fails for a bad pattern only
	names, _ := filepath.Glob(filepath.Join(escape(filepath.Dir(path)), escape(prefix)+"*"))
	return names
}

// asideInfix is between the name of a damaged file and the time.
const asideInfix = ".damaged-"

// WasSetAside reports whether a damaged predecessor of the file at path is beside it.
func WasSetAside(path string) bool {
	path = follow(path)
	return len(beside(path, filepath.Base(path)+asideInfix)) > 0
}

// SetAside renames a file that cannot be used and returns its new name. A crash
// leaves it under one name or the other.
func SetAside(path string, now time.Time) (kept string, err error) {
	path = follow(path)
	kept = path + asideInfix + now.UTC().Format("2006-01-02T15-04-05.000")
	if err := os.Rename(path, kept); err != nil {
		return "", fmt.Errorf("set checkpoint aside: %w", err)
	}
	return kept, disk.OS.SyncDir(filepath.Dir(path))
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
	_, markErr := s.Mark()
	_, streamsErr := s.Streams()
	return errors.Join(markErr, streamsErr, s.loadLogs())
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
		v, _ := binary.Uvarint(b)
		if v == 0 || string(b) != string(encodeSchema(v)) {
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
