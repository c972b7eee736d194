package archive_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/host/disk"
	"kubejournal/test/journaltest"
)

// TestScratch leaves folders in TMPDIR as runs that were killed do: the next one that merges journals removes them, and
// nothing else, and what it writes itself goes when it is closed.
func TestScratch(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var paths []string
	for _, shard := range []string{"0-of-2", "1-of-2"} {
		w := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		s := w.Stream("configmaps?shard="+shard, "ConfigMap")
		s.Snapshot()
		s.Put("kubectl", `{"metadata":{"namespace":"shop","name":"settings","uid":"c1"}}`)
		s.Synced()
		w.Kill()
		paths = append(paths, w.Path)
	}
	for _, name := range []string{"kubejournal-merge-1", "kubejournal-merge-2", "kubejournal-merge-3", "kubejournal-4"} {
		dir := filepath.Join(tmp, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "0.jsonl"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if old := time.Now().Add(-time.Hour); name != "kubejournal-merge-3" && os.Chtimes(dir, old, old) != nil {
			t.Fatal(name)
		}
	}
	live, err := os.Open(filepath.Join(tmp, "kubejournal-merge-2"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if err := disk.Lock(live); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(tmp)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	stays := []string{"kubejournal-4", "kubejournal-merge-2", "kubejournal-merge-3"}
	j, err := archive.OpenAll(t.Context(), paths, &argument.Selection{}, archive.AllLines, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if is := names(); len(is) != len(stays)+1 || slices.Contains(is, "kubejournal-merge-1") {
		t.Errorf("while it is asked there are %q", is)
	}
	j.Close()
	if is := names(); !slices.Equal(is, stays) {
		t.Errorf("there are %q, want %q", is, stays)
	}
}
