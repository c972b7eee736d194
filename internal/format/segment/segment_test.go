package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kubejournal/internal/host/disk"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	for name, first := range map[string]string{
		"journal.jsonl":                                  "90",
		"journal-2026-11-20T16-10-22.123.jsonl":          "50",
		"journal-2026-11-20T16-10-22.123.jsonl.gz":       "50", // complete, and the plain one about to go
		"journal.jsonl.1":                                "7",
		"journal.jsonl-20261120":                         "7",
		"journal-2026-11-20T16-10-23.000.jsonl":          "",
		"journal-eu.jsonl":                               "3",
		".journal-2026-11-20T16-10-24.000.jsonl.gz.tmp":  "60",
		"journal-2026-11-20T16-10-25.000.jsonl.gz":       "not gzip",
		"journal-2026-11-20T16-10-26.000.jsonl.d/x.json": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"seq":`+first+`,"time"`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := List(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Segment{
		{Path: path + "-20261120", FirstSeq: 7, Size: 15},
		{Path: path + ".1", FirstSeq: 7, Size: 15},
		{Path: filepath.Join(dir, "journal-2026-11-20T16-10-22.123.jsonl"), FirstSeq: 50, Size: 16, Ours: true},
		{Path: path, FirstSeq: 90, Size: 16, Active: true},
	}
	for n := range want {
		want[n].Head = crc32.Checksum(fmt.Appendf(nil, `{"seq":%d,"time"`, want[n].FirstSeq), crc32.MakeTable(crc32.Castagnoli))
	}
	if diff := cmp.Diff(want, all, cmpopts.IgnoreUnexported(Segment{})); diff != "" {
		t.Error(diff)
	}
	if _, err := List(filepath.Join(dir, "none", "journal.jsonl")); err == nil {
		t.Error("no folder, and no error")
	}
}

// denied is a disk of which one file may not be read.
type denied struct {
	disk.FS
	path string
}

func (d denied) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	if path == d.path {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}
	return d.FS.OpenFile(path, flag, mode)
}

// TestSnapshotUnread lists what cannot be read, and why.
func TestSnapshotUnread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	rotated := strings.Replace(path, ".jsonl", "-2026-11-20T16-10-22.123.jsonl", 1)
	for name, content := range map[string]string{path: `{"seq":7,"time"`, rotated: `{"seq":`} { // the second one is torn
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := (&Lister{Disk: denied{disk.OS, path}}).snapshot(path)
	if want := []Segment{{Path: path, Active: true, Unread: fs.ErrPermission}}; err != nil || !cmp.Equal(want, all, cmpopts.IgnoreUnexported(Segment{}), cmpopts.EquateErrors()) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := os.WriteFile(rotated, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err = Snapshot(path)
	if err != nil || len(all) != 2 || all[0].Path != rotated || !errors.Is(all[0].Unread, ErrNoLine) || all[1].Unread != nil {
		t.Errorf("%+v, %v", all, err)
	}
	for _, s := range all {
		if err := s.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestReadHead(t *testing.T) {
	for text, want := range map[string]uint64{`{"seq":12,`: 12, "": 0, `{"se`: 0, "else": 0} {
		var s Segment
		if err := s.ReadHead(strings.NewReader(text)); s.FirstSeq != want || err != nil || (s.Unread != nil) != (text == "else") {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func TestTimeOf(t *testing.T) {
	at := time.Date(2026, 11, 20, 16, 0, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		`{"seq":12,"time":"2026-11-20T16:00:05.000000000Z","type"`: at, `{"seq":12,"time":"2026-11-20T16:00:05Z"}`: at,
		`{"seq":12,"term":3,"time":"2026-11-20T16:00:05Z"}`: at, `{"seq":12,"term":3}`: {},
		`{"seq":12,"time":"2026-11-20T16:00`: {}, `{"seq":12,"id":""`: {}, "else": {}, "": {}, `{"seq":12,"time":"yesterday"`: {},
	} {
		if got := TimeOf([]byte(text)); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
