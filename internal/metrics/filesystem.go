package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// filesystems looks at file systems when metrics are asked for.
type filesystems struct {
	free, size *prometheus.GaugeVec

	mu      sync.Mutex
	folders map[string]string // label to folder; guarded by mu
}

// WatchFilesystem adds the file system of a folder to the metrics, labelled with what is there: output or checkpoint.
// While statfs fails it has no value.
func (m *Metrics) WatchFilesystem(path, folder string) {
	f := &m.filesystems
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.folders == nil {
		f.folders = make(map[string]string)
	}
	f.folders[path] = folder
}

// Describe implements prometheus.Collector.
func (f *filesystems) Describe(c chan<- *prometheus.Desc) {
	f.free.Describe(c)
	f.size.Describe(c)
}

// Collect implements prometheus.Collector.
func (f *filesystems) Collect(c chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, folder := range f.folders {
		var is unix.Statfs_t
		if err := unix.Statfs(folder, &is); err != nil {
			f.free.DeleteLabelValues(path)
			f.size.DeleteLabelValues(path)
			continue
		}
		block := float64(is.Bsize)
		f.free.WithLabelValues(path).Set(float64(is.Bavail) * block)
		f.size.WithLabelValues(path).Set(float64(is.Blocks) * block)
	}
	f.free.Collect(c)
	f.size.Collect(c)
}
