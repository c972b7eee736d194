package verify_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/verify"
	"kubejournal/internal/host/disk"
	"kubejournal/test/journaltest"
)

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
	j, err := archive.Open(w.Path, func(text string) { t.Errorf("notice: %s", text) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
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
