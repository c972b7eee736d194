package metrics

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The file systems are looked at when metrics are asked for, and one that is gone
// has no value.
func TestWatchFilesystem(t *testing.T) {
	m := New("", "")
	if n, err := testutil.GatherAndCount(m.Registry, "kubejournal_filesystem_free_bytes"); n != 0 || err != nil {
		t.Errorf("%d values before there is a path, %v", n, err)
	}
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	m.WatchFilesystem("output", folder)
	m.WatchFilesystem("checkpoint", t.TempDir())
	count := func(want int) {
		t.Helper()
		for _, name := range []string{"kubejournal_filesystem_free_bytes", "kubejournal_filesystem_size_bytes"} {
			if n, err := testutil.GatherAndCount(m.Registry, name); n != want || err != nil {
				t.Errorf("%s has %d values, %v; want %d", name, n, err, want)
			}
		}
	}
	count(2)
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var free, size float64
	for _, f := range families {
		switch f.GetName() {
		case "kubejournal_filesystem_free_bytes":
			free = f.GetMetric()[0].GetGauge().GetValue()
		case "kubejournal_filesystem_size_bytes":
			size = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if free <= 0 || size < free {
		t.Errorf("%v bytes of %v are free", free, size)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	count(1)
}
