package invariant

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	rotatedTime = "2006-01-02T15-04-05.000" // in the name of a rotated file, UTC
	compressed  = ".gz"

	// maxListings bounds how often ReadJournal begins again because files were renamed while it read.
	maxListings = 100
)

// ReadJournal reads all files of the journal whose active file is path, in the order of their first lines: the rotated
// ones, plain or gzip, and the active one, which may be missing just after a rotation. Of a rotated file that stands
// there in both forms the plain one counts. It may be called while the journal is written: what was rotated meanwhile
// is neither missed nor read twice. Without any file the error wraps fs.ErrNotExist.
func ReadJournal(path string) ([]Line, error) {
	for range maxListings {
		names, err := JournalFiles(path)
		if err != nil {
			return nil, err
		}
		lines, err := readFiles(names)
		after, listErr := JournalFiles(path)
		if listErr != nil {
			return nil, listErr
		}
		if slices.Equal(names, after) {
			if len(names) == 0 && err == nil {
				err = fmt.Errorf("read journal %s: %w", path, fs.ErrNotExist)
			}
			return lines, err
		}
	}
	return nil, fmt.Errorf("read journal %s: its files change faster than they can be read", path)
}

// JournalFiles returns the paths of the files that hold the lines of the journal, each line in one of them: the rotated
// ones by their names, which is by their times, then the active one.
func JournalFiles(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path)) // sorted, so that X comes before X.gz
	if err != nil {
		return nil, fmt.Errorf("list journal: %w", err)
	}
	var names []string
	active := false
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == filepath.Base(path):
			active = true
		case isRotated(path, strings.TrimSuffix(name, compressed)):
			plain := filepath.Join(filepath.Dir(path), strings.TrimSuffix(name, compressed))
			if !slices.Contains(names, plain) {
				names = append(names, filepath.Join(filepath.Dir(path), name))
			}
		}
	}
	if active {
		names = append(names, path)
	}
	return names, nil
}

// isRotated reports whether name, without .gz, is that of a file rotated away from path: <stem>-<time><ext>.
func isRotated(path, name string) bool {
	ext := filepath.Ext(path)
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(filepath.Base(path), ext)+"-")
	if !ok {
		return false
	}
	at, ok := strings.CutSuffix(rest, ext)
	if !ok {
		return false
	}
	t, err := time.Parse(rotatedTime, at)
	return err == nil && t.Format(rotatedTime) == at
}

// readFiles reads files and puts them in the order of their first lines.
func readFiles(names []string) ([]Line, error) {
	var files [][]Line
	for _, name := range names {
		data, err := ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		lines, err := Parse(filepath.Base(name), 1, data)
		if err != nil {
			return nil, err
		}
		if len(lines) > 0 {
			files = append(files, lines)
		}
	}
	slices.SortStableFunc(files, func(a, b []Line) int {
		if a[0].Seq < b[0].Seq {
			return -1
		}
		return int(min(a[0].Seq-b[0].Seq, 1))
	})
	return slices.Concat(files...), nil
}

// ReadFile reads a file, through gzip where its name says so. A gzip file that is cut short is an error.
func ReadFile(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil || !strings.HasSuffix(name, compressed) {
		return data, err
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	text, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return text, nil
}
