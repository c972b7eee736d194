package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"kubejournal/internal/host/disk"
)

var (
	filesystemFree = prometheus.NewDesc("kubejournal_filesystem_free_bytes",
		"Bytes that can still be written to the file system of output and checkpoint; where both are on one, the "+
			"same twice.", []string{"path"}, nil)
	filesystemSize = prometheus.NewDesc("kubejournal_filesystem_size_bytes",
		"Size of the file system of output and checkpoint.", []string{"path"}, nil)
)

// filesystems reads the size of file systems when metrics are collected.
type filesystems struct {
	folders sync.Map // string, by label
}

// WatchFilesystem adds the file system of a folder to the metrics, labelled with what is there: output or checkpoint.
// While statfs fails it has no value.
func (m *Metrics) WatchFilesystem(path, folder string) {
	m.filesystems.folders.Store(path, folder)
}

// Space returns what the metrics have of a file system that WatchFilesystem was called for, in bytes; 0 where they have
// nothing.
func (m *Metrics) Space(path string) (free, size uint64) {
	if folder, is := m.filesystems.folders.Load(path); is {
		free, size, _ = disk.Space(folder.(string))
	}
	return free, size
}

// Describe implements prometheus.Collector.
func (f *filesystems) Describe(c chan<- *prometheus.Desc) {
	c <- filesystemFree
	c <- filesystemSize
}

// Collect implements prometheus.Collector.
func (f *filesystems) Collect(c chan<- prometheus.Metric) {
	for path, folder := range f.folders.Range {
		free, size, err := disk.Space(folder.(string))
		if err != nil {
			continue
		}
		c <- prometheus.MustNewConstMetric(filesystemFree, prometheus.GaugeValue, float64(free), path.(string))
		c <- prometheus.MustNewConstMetric(filesystemSize, prometheus.GaugeValue, float64(size), path.(string))
	}
}
