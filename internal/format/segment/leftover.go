package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"kubejournal/internal/host/disk"
)

// Beside a journal there are files that are being written, each under the name that TemporaryName gives it: compressed
// files and indexes of the daemon's tidier, its coverage file and API documents, and indexes of a run of 'kubejournal
// index', whose names also have a random number, since a daemon or another run may make the same index. Their writer
// holds the lock of such a file until it is renamed or removed. A crash leaves the file without the lock, and the
// tidier's next pass or the next run of index removes it.

const temporary = ".tmp"

// Sifted follows the name of a compacted file: its lines before they are compressed.
const Sifted = ".plain"

// TemporaryName returns the name of a file that is being written.
func TemporaryName(name string) string { return "." + name + temporary }

// LeftOver reports whether a name is the temporary one of a rotated file that is made again, an index, the coverage
// file, that of 'kubejournal audit', or that of API documents.
func (n Names) LeftOver(name string) bool {
	rest, ok := strings.CutSuffix(name, temporary)
	rest, hidden := strings.CutPrefix(rest, ".")
	if !ok || !hidden {
		return false
	}
	if rest == n.active+covered || rest == n.active+audited || rest == n.active+described {
		return true
	}
	if plain, number, run := strings.Cut(rest, Indexed+"."); run && strings.Trim(number, "0123456789") == "" {
		rest = plain + Indexed
	}
	plain, index := strings.CutSuffix(rest, Indexed)
	plain, sifted := strings.CutSuffix(plain, Sifted)
	r, rotated := n.Parse(plain)
	return rotated && r.Compressed != index && (!sifted || r.UpTo > 0)
}

// RemoveLeftOvers removes the temporary files that killed runs have left beside the journal at path, but none that is
// being written.
func RemoveLeftOvers(path string) error {
	dir, n := filepath.Dir(path), NamesOf(path)
	entries, err := disk.OS.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for temporary files: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if n.LeftOver(e.Name()) {
			errs = append(errs, RemoveLeftOver(disk.OS, filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// RemoveLeftOver removes a temporary file, unless it is locked: then it is being written.
func RemoveLeftOver(d disk.FS, path string) error {
	f, err := d.OpenFile(path, os.O_RDWR, 0) // network file systems give the lock to those alone who may write
	if err == nil {
		defer f.Close() //nolint:errcheck // nothing was written
		err = f.Lock()
	}
	if err == nil {
		err = d.Remove(path)
	}
	if err != nil && !errors.Is(err, disk.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove temporary file %s: %w", path, err)
	}
	return nil
}

// WriteIndex puts an index beside a rotated segment: it is complete when it has its name.
func WriteIndex(segment string, content []byte) error {
	path := IndexPath(segment)
	temporary := temporaryIndex(path)
	defer disk.NoteTemporary(temporary)()
	f, err := disk.WriteTemporary(disk.OS, temporary, FileMode, func(w io.WriterAt) error {
		_, err := w.WriteAt(content, 0)
		return err
	})
	if f == nil {
		return err
	}
	if err == nil {
		err = os.Chmod(temporary, FileMode) // a run of index may be another user's
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary), f.Close())
	}
	return f.Close()
}

// temporaryIndex returns a name that no other run uses.
func temporaryIndex(path string) string {
	name := TemporaryName(fmt.Sprintf("%s.%d", filepath.Base(path), rand.Uint64()))
	return filepath.Join(filepath.Dir(path), name)
}
