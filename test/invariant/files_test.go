package invariant

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
)

// piece is the lines from..to of a journal.
func piece(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "{\"seq\":%d,%s}\n", i, watched("ADDED", fmt.Sprintf("n%d", i), fmt.Sprintf("u%d", i), fmt.Sprint(i)))
	}
	return b.String()
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// folder writes files and returns the path of the active one.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "journal.jsonl")
}

func TestReadJournal(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // the seqs, or the error
	}{
		"active only": {map[string]string{"journal.jsonl": piece(1, 3)}, "[1 2 3]"},
		"rotated, plain and gzip": {map[string]string{
			"journal.jsonl": piece(7, 8),
			"journal-2026-11-20T16-10-22.123.jsonl.gz":     zipped(t, piece(1, 3)),
			"journal-2026-11-20T16-10-23.000.jsonl":        piece(4, 6),
			"journal.db":                                   "something else",
			"journal-2026-11-20T16-10-22.123.jsonl.gz.tmp": "half",
			"journal-notes.jsonl":                          "notes",
			"other-2026-11-20T16-10-22.123.jsonl":          piece(90, 91),
			"journal-2026-11-20T16-10-22.1234.jsonl":       piece(92, 93),
			"journal-2026-11-20T16-10-22.123.jsonl.bak":    piece(94, 95),
		}, "[1 2 3 4 5 6 7 8]"},
		"both forms": {map[string]string{
			"journal.jsonl": piece(4, 4),
			// Whole or not, the gzip file does not count yet.
			"journal-2026-11-20T16-10-22.123.jsonl":    piece(1, 3),
			"journal-2026-11-20T16-10-22.123.jsonl.gz": "half",
		}, "[1 2 3 4]"},
		"order of seq, not of name": {map[string]string{
			"journal.jsonl":                         piece(5, 5),
			"journal-2026-11-20T16-10-22.123.jsonl": piece(3, 4),
			"journal-2026-11-20T16-10-22.124.jsonl": piece(1, 2), // the clock was set back
		}, "[1 2 3 4 5]"},
		"no active file": {map[string]string{"journal-2026-11-20T16-10-22.123.jsonl": piece(1, 2)}, "[1 2]"},
		"empty files": {map[string]string{
			"journal.jsonl": "", "journal-2026-11-20T16-10-22.123.jsonl": "", "journal-2026-11-20T16-10-22.124.jsonl": piece(1, 2),
		}, "[1 2]"},
		"none":      {nil, "file does not exist"},
		"torn":      {map[string]string{"journal.jsonl": piece(1, 2) + `{"seq":3`}, "journal.jsonl: the last line has no end"},
		"torn gzip": {map[string]string{"journal-2026-11-20T16-10-22.123.jsonl.gz": zipped(t, piece(1, 3))[:40]}, "journal-2026-11-20T16-10-22.123.jsonl.gz: unexpected EOF"},
		"no gzip":   {map[string]string{"journal-2026-11-20T16-10-22.123.jsonl.gz": piece(1, 3)}, "invalid header"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := ReadJournal(folder(t, c.files))
			var seqs []uint64
			for _, l := range lines {
				seqs = append(seqs, l.Seq)
			}
			if got := fmt.Sprint(seqs); err == nil && got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := ReadJournal(folder(t, nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A reader that comes while files are rotated and compressed sees each line once.
func TestReadJournalMeanwhile(t *testing.T) {
	path := folder(t, map[string]string{"journal.jsonl": ""})
	const rotations = 300
	var done atomic.Bool
	var g errgroup.Group
	g.Go(func() error {
		defer done.Store(true)
		for i := range rotations {
			if err := os.WriteFile(path, []byte(piece(2*i+1, 2*i+2)), 0o600); err != nil {
				return err
			}
			rotated := strings.TrimSuffix(path, ".jsonl") + fmt.Sprintf("-2026-11-20T16-10-22.%03d.jsonl", i)
			if err := os.Rename(path, rotated); err != nil {
				return err
			}
			if i%2 == 0 {
				continue
			}
			if err := os.WriteFile(rotated+".tmp", []byte(zipped(t, piece(2*i+1, 2*i+2))), 0o600); err != nil {
				return err
			}
			if err := errors.Join(os.Rename(rotated+".tmp", rotated+".gz"), os.Remove(rotated)); err != nil {
				return err
			}
		}
		return nil
	})
	for last := false; !last; {
		last = done.Load()
		// A listing that never stands still is as good an answer as any while the other side does nothing else.
		lines, err := ReadJournal(path)
		if err != nil && (last || !strings.Contains(err.Error(), "change faster") && !errors.Is(err, fs.ErrNotExist)) {
			t.Fatal(err)
		}
		if err := Sequence(lines, 1); err != nil {
			t.Fatal(err)
		}
		if last && len(lines) != 2*rotations {
			t.Errorf("%d lines at the end, want %d", len(lines), 2*rotations)
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestJournalFiles(t *testing.T) {
	path := folder(t, map[string]string{
		"journal.jsonl": "", "journal-2026-11-20T16-10-22.124.jsonl.gz": "", "journal-2026-11-20T16-10-22.123.jsonl": "",
		"journal-2026-11-20T16-10-22.123.jsonl.gz": "", "journal.db": "",
	})
	names, err := JournalFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		names[i] = filepath.Base(name)
	}
	if want := []string{"journal-2026-11-20T16-10-22.123.jsonl", "journal-2026-11-20T16-10-22.124.jsonl.gz", "journal.jsonl"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if _, err := JournalFiles(filepath.Join(path, "none", "journal.jsonl")); err == nil {
		t.Error("no error for a folder that is none")
	}
}
