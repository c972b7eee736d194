package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

const stranger = 12345

// sharedFolder returns a folder as /tmp is.
func sharedFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

// give gives a file to another user.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Lchown(path, stranger, -1) != nil {
		t.Skip("only root can give a file to another user")
	}
}

// In a folder that everybody may write to, what somebody else has planted as the journal is neither written to nor
// changed. In any other folder, whose a file is says nothing: fsGroup, a copy, a folder that root has prepared.
func TestForeignJournal(t *testing.T) {
	const line = `{"seq":1,"time":"2026-11-20T12:00:00Z"}` + "\n"
	for name, c := range map[string]struct {
		folder, file os.FileMode
		others       bool // the file is another user's
		content      string
		want         string // in the error; "" is none
	}{
		"planted, sticky":              {0o777 | os.ModeSticky, 0o666, true, line, "it belongs to user 12345"},
		"planted, not sticky":          {0o777, 0o640, true, line, "it belongs to user 12345"},
		"planted, empty":               {0o777 | os.ModeSticky, 0o666, true, "", "it belongs to user 12345"},
		"planted, a torn line":         {0o777 | os.ModeSticky, 0o666, true, line[:20], "it belongs to user 12345"},
		"everybody may write to it":    {0o777 | os.ModeSticky, 0o666, false, line, "everybody may write to it (mode 0666)"},
		"this user's":                  {0o777 | os.ModeSticky, 0o640, false, line, ""},
		"a volume with fsGroup":        {0o775 | os.ModeSetgid, 0o660, true, line, ""},
		"a copy in a folder of root's": {0o755, 0o644, true, line, ""},
		"a private folder":             {0o700, 0o666, false, line, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := sharedFolder(t, c.folder)
			path := filepath.Join(dir, "journal.jsonl")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.file); err != nil {
				t.Fatal(err)
			}
			if c.others {
				give(t, path)
			}
			f, err := OpenFile(path, Options{})
			if err == nil {
				_, err = f.ReadBack(Mark{}, 0, false, func([]byte, uint64) error { return nil })
				err = errors.Join(err, f.Close())
			}
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "name a file in a folder of this user alone") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != c.content {
				t.Errorf("the file has changed: %q, %v", kept, err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("left in the folder: %v, %v", entries, err)
			}
		})
	}
}

// What somebody else has planted under the name of a rotated file is not read back, not removed, and names no later
// file.
func TestForeignRotatedFile(t *testing.T) {
	dir := sharedFolder(t, 0o777|os.ModeSticky)
	path := filepath.Join(dir, "journal.jsonl")
	lines := []string{`{"seq":1,"time":"2026-11-20T12:00:00Z"}` + "\n", `{"seq":2,"time":"2026-11-20T12:00:01Z"}` + "\n"}
	planted := filepath.Join(dir, "journal-9999-12-31T23-59-59.999.jsonl")
	if err := os.WriteFile(planted, []byte(lines[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	give(t, planted)
	if err := os.WriteFile(path, []byte(lines[0]), 0o640); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path, Options{MaxSize: 45, MaxFiles: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []uint64
	if _, err := f.ReadBack(Mark{}, 0, false, func(_ []byte, seq uint64) error { got = append(got, seq); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0] != 1 {
		t.Errorf("read back %v", got)
	}
	if _, err := f.Write([]byte(lines[1])); err != nil {
		t.Fatal(err)
	}
	all, _, err := readArchives(disk.OS, dir, segment.NamesOf(path))
	if err != nil || len(all) != 1 || strings.HasPrefix(all[0].name, "journal-9999") {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := os.Stat(planted); err != nil {
		t.Error(err)
	}
}

// A link that is put in the place of the journal while it is rotated is not followed.
func TestLinkAtRotation(t *testing.T) {
	dir := sharedFolder(t, 0o777)
	path, precious := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "precious")
	f, err := OpenFile(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte(`{"seq":1}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.Symlink(precious, path)); err != nil {
		t.Fatal(err)
	}
	f.checked = f.checked.Add(-2 * checkEvery)
	if _, err := f.Write([]byte(`{"seq":2}` + "\n")); err == nil {
		t.Error("the link was followed")
	}
	if _, err := os.Stat(precious); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file was made where the link leads to")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(`{"seq":2}` + "\n")); err != nil {
		t.Error(err)
	}
}
