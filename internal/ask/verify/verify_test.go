package verify_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/verify"
	"kubejournal/internal/host/disk"
	"kubejournal/test/journaltest"
)

// small makes a journal of four files without indexes: lines 1 and 2, 3, 4 and 5.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	seq := 0
	for _, file := range []struct {
		name  string
		types []string
	}{{rotated(0), []string{"ADDED", "MODIFIED"}}, {rotated(1), []string{"MODIFIED"}}, {rotated(2), []string{"MODIFIED"}}, {"journal.jsonl", []string{"DELETED"}}} {
		var content strings.Builder
		for _, typ := range file.types {
			seq++
			fmt.Fprintf(&content, `{"seq":%d,"time":"2026-11-20T12:0%[1]d:00Z","type":%q,"stream":"pods","version":"v1","resource":"pods","kind":"Pod",`+
				`"origin":"watch","namespace":"a","name":"x","uid":"u1","resourceVersion":"%[1]d","object":{}}`+"\n", seq, typ)
		}
		writeFile(t, filepath.Join(dir, file.name), content.String())
	}
	return filepath.Join(dir, "journal.jsonl")
}

func rotated(n int) string { return fmt.Sprintf("journal-2026-11-20T16-10-%02d.123.jsonl", n) }

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *archive.Journal {
	t.Helper()
	j, err := archive.Open(path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	return j
}

func TestVerify(t *testing.T) {
	path := small(t)
	faultsOf := func() (faults []string) {
		n, err := verify.Files(t.Context(), open(t, path), func(fault string) {
			faults = append(faults, strings.ReplaceAll(fault, filepath.Dir(path)+"/", ""))
		})
		if err != nil || n.Lines == 0 {
			t.Fatalf("%d lines, %v", n.Lines, err)
		}
		return faults
	}
	check := func(what string, want ...string) {
		t.Helper()
		if got := faultsOf(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("no index", rotated(0)+" has no index", rotated(1)+" has no index", rotated(2)+" has no index")
	made := 0
	verify.Reindex(t.Context(), open(t, path), func(path string, err error) {
		if made++; err != nil {
			t.Errorf("%s: %v", path, err)
		}
	})
	if made != 3 {
		t.Errorf("%d indexes", made)
	}
	check("whole")
	file := filepath.Join(filepath.Dir(path), rotated(1))
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, strings.Replace(string(content), `"uid":"u1"`, `"uid":"u2"`, 1))
	check("another uid", rotated(1)+".index does not agree with its file")
	writeFile(t, file, string(content[:len(content)-1])+" ")
	if got := faultsOf(); len(got) == 0 {
		t.Error("a damaged line is not found")
	}
	if err := errors.Join(os.Remove(file), os.Rename(file+".index", file+".away")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	check("removed", "line 3 is missing before "+rotated(2))
}

// TestReindexRemovesLeftOvers has a run of index begin after one that was killed: what that left is removed, though
// there is nothing else to do, and what another one is writing is not.
func TestReindexRemovesLeftOvers(t *testing.T) {
	w := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Synced()
	w.Rotate()
	s.Put("kubectl", `{"metadata":{"namespace":"shop","name":"settings","uid":"c1"}}`)
	w.Kill()
	j := open(t, w.Path)
	index, err := filepath.Glob(filepath.Join(filepath.Dir(w.Path), "*.index"))
	if err != nil || len(index) != 1 {
		t.Fatal(index, err)
	}
	hidden := filepath.Join(filepath.Dir(index[0]), "."+filepath.Base(index[0]))
	left, alive := hidden+".1234.tmp", hidden+".99.tmp"
	for _, name := range []string{left, alive} {
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(alive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := disk.Lock(f); err != nil {
		t.Fatal(err)
	}
	verify.Reindex(t.Context(), j, func(path string, err error) { t.Errorf("%s: %v", path, err) })
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(alive); err != nil {
		t.Error(err)
	}
}
