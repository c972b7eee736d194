package journal

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

// folderWith makes a folder of journal files; the active one is opened.
func folderWith(t *testing.T, files map[string]string) *File {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		b := []byte(content)
		if strings.HasSuffix(name, segment.Gzipped) {
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			_, err := w.Write(b)
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			b = z.Bytes()
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mustOpen(t, filepath.Join(dir, "journal.jsonl"))
}

const (
	rotated1 = "journal-2026-11-20T16-10-22.123.jsonl"
	rotated2 = "journal-2026-11-20T16-10-22.124.jsonl"
)

// TestReadBackFiles reads back from a commit through the files that follow it.
func TestReadBackFiles(t *testing.T) {
	at := func(first, last uint64) Mark { return Mark{FirstSeq: first, Offset: int64(len(lines(first, last)))} }
	for name, c := range map[string]struct {
		files map[string]string
		mark  Mark
		seq   uint64
		got   string
		hole  bool
		last  uint64
	}{
		"rotated since": {
			map[string]string{rotated1: lines(1, 6), "journal.jsonl": lines(7, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"rotated twice": {
			map[string]string{rotated1: lines(1, 6), rotated2: lines(7, 9), "journal.jsonl": lines(10, 11)}, at(1, 4), 4, lines(5, 11), false, 11},
		"crash before the new file": {
			map[string]string{rotated1: lines(1, 6)}, at(1, 4), 4, lines(5, 6), false, 6},
		"crash in the new file's first line": {
			map[string]string{rotated1: lines(1, 6), "journal.jsonl": numbered(7)[:5]}, at(1, 4), 4, lines(5, 6), false, 6},
		"committed at the file's end": {
			map[string]string{rotated1: lines(1, 6), "journal.jsonl": lines(7, 9)}, at(1, 6), 6, lines(7, 9), false, 9},
		"committed and compressed": {
			map[string]string{rotated1 + ".gz": lines(1, 6), "journal.jsonl": lines(7, 9)}, at(1, 6), 6, lines(7, 9), false, 9},
		"committed, then renamed and compressed, with a bad line behind": {
			map[string]string{"journal.jsonl.1.gz": lines(1, 6), "journal.jsonl": lines(7, 9) + "\x00\x00\n"}, at(1, 4), 4, lines(5, 9), false, 9},
		"renamed with a bad line behind the commit": {
			map[string]string{"journal.jsonl.1": lines(1, 6) + "\x00\x00\n"}, at(1, 4), 4, lines(5, 6), false, 6},
		"committed with an empty file": {
			map[string]string{rotated1 + ".gz": lines(1, 6), "journal.jsonl": lines(7, 9)}, Mark{}, 6, lines(7, 9), false, 9},
		"nothing since an empty file": {
			map[string]string{rotated1 + ".gz": lines(1, 6)}, Mark{}, 6, "", false, 0},
		"both names": {
			map[string]string{rotated1: lines(1, 6), rotated1 + ".gz": lines(1, 6), "journal.jsonl": lines(7, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"renamed by logrotate": {
			map[string]string{"journal.jsonl.1": lines(1, 6), "journal.jsonl": lines(7, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"renamed with a torn line": {
			map[string]string{"journal.jsonl.1": lines(1, 6) + numbered(7)[:9], "journal.jsonl": lines(7, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"renamed and compressed by logrotate": {
			map[string]string{"journal.jsonl.1.gz": lines(1, 6), "journal.jsonl": lines(7, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"a copy beside it": {
			map[string]string{"journal.jsonl.bak": lines(1, 6), "journal.jsonl.0": lines(1, 5), "journal.jsonl": lines(1, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"an older copy begins elsewhere": {
			map[string]string{"journal.jsonl.3": lines(3, 6), "journal.jsonl": lines(1, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"moved away, predecessors are there": {
			map[string]string{rotated1: lines(1, 6)}, at(7, 9), 9, "", false, 6},
		"no commit": {
			map[string]string{rotated1: lines(4, 6), rotated2 + ".gz": lines(7, 9), "journal.jsonl": lines(10, 11)}, Mark{}, 0, lines(4, 11), false, 11},
		"another journal beside it": {
			map[string]string{"journal-eu.jsonl": lines(3, 40), "journal2.jsonl": lines(1, 50), "journal-2.jsonl": lines(12, 20), "journal.jsonl": lines(1, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		"another journal beside a new one": {
			map[string]string{"journal-eu.jsonl": lines(3, 40), "journal-eu-2026-11-20T16-10-22.123.jsonl": lines(1, 2)}, Mark{}, 0, "", false, 0},
		"what is not ours beside it": {
			map[string]string{"journal.db": "bolt", "journal.txt.gz": "text", "journal-x.gz": "", "journal.jsonl": lines(1, 9)}, at(1, 4), 4, lines(5, 9), false, 9},
		// Lines are missing.
		"cut short": {
			map[string]string{rotated1: lines(1, 3), "journal.jsonl": lines(7, 9)}, at(1, 6), 6, lines(7, 9), true, 9},
		"a file is missing": {
			map[string]string{rotated1: lines(1, 6), "journal.jsonl": lines(9, 11)}, at(1, 4), 4, lines(5, 6) + lines(9, 11), true, 11},
		"the committed file is missing": {
			map[string]string{"journal.jsonl": lines(9, 11)}, at(1, 4), 4, lines(9, 11), true, 11},
	} {
		t.Run(name, func(t *testing.T) {
			j := folderWith(t, c.files)
			var got strings.Builder
			tail, err := j.ReadBack(c.mark, c.seq, false, func(l []byte, n uint64) error {
				if string(l)+"\n" != numbered(n) {
					return ErrBadLine
				}
				got.Write(append(l, '\n'))
				return nil
			})
			if err != nil || tail.Hole != c.hole || got.String() != c.got {
				t.Errorf("read back %s, hole %v, %v", outline(got.String()), tail.Hole, err)
			}
			if j.LastSeq() != c.last {
				t.Errorf("last seq %d, want %d", j.LastSeq(), c.last)
			}
			if _, err := j.Write([]byte(numbered(50))); err != nil {
				t.Error(err)
			}
		})
	}
}

// A rotated file was complete when it got its name: one that is not is not cut.
func TestReadBackDamagedRotated(t *testing.T) {
	bad := lines(1, 3) + "garbage\n" + lines(4, 6)
	j := folderWith(t, map[string]string{rotated1: bad, "journal.jsonl": lines(7, 9)})
	path := filepath.Join(filepath.Dir(j.Path()), rotated1)
	_, _, err := readBack(t, j, Mark{FirstSeq: 1, Offset: int64(len(lines(1, 2)))}, 2)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("ReadBack = %v", err)
	}
	if contentOf(t, path) != bad {
		t.Error("the file was touched")
	}
}

// unreadable is a disk on which the file named name cannot be read.
type unreadable struct {
	disk.FS
	name string
}

func (d unreadable) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := d.FS.OpenFile(path, flag, mode)
	if err == nil && filepath.Base(path) == d.name {
		f = unreadableFile{f}
	}
	return f, err
}

type unreadableFile struct{ disk.File }

func (unreadableFile) ReadAt([]byte, int64) (int, error) { return 0, faultdisk.ErrInjected }

// A neighbor that cannot be read does not block a start that does not need its lines.
func TestUnreadableNeighbor(t *testing.T) {
	for _, name := range []string{rotated1, "journal.jsonl.1", rotated1 + segment.Gzipped} {
		whole := folderWith(t, map[string]string{name: lines(1, 3), "journal.jsonl": lines(4, 6)})
		if err := whole.Close(); err != nil {
			t.Fatal(err)
		}
		j, err := OpenFile(whole.Path(), Options{Disk: unreadable{disk.OS, name}})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := readBack(t, j, Mark{FirstSeq: 4, Offset: int64(len(numbered(4)))}, 4)
		if err != nil || got != lines(5, 6) {
			t.Errorf("%s: read back %s, %v", name, outline(got), err)
		}
		j.Close()
	}
}
