package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	journalOldest = prometheus.NewDesc("kubejournal_journal_oldest_timestamp_seconds",
		"Time of the oldest line that is still in the journal.", nil, nil)
	journalSeq = prometheus.NewDesc("kubejournal_journal_seq",
		"seq of the last line written.", nil, nil)
	journalSegments = prometheus.NewDesc("kubejournal_journal_segments",
		"Files of the journal, the active one included.", nil, nil)
)

// Journal is how far a journal reaches. Zero values have no metric.
type Journal struct {
	Oldest   time.Time // of the oldest line
	Seq      uint64    // of the last line
	Segments int       // files; 0 for stdout
}

// journal reads how far the journal reaches when metrics are collected.
type journal struct {
	read atomic.Pointer[func() Journal]
}

// WatchJournal adds what read returns to the metrics.
func (m *Metrics) WatchJournal(read func() Journal) { m.journal.read.Store(&read) }

// Describe implements prometheus.Collector.
func (j *journal) Describe(c chan<- *prometheus.Desc) {
	c <- journalOldest
	c <- journalSeq
	c <- journalSegments
}

// Collect implements prometheus.Collector.
func (j *journal) Collect(c chan<- prometheus.Metric) {
	read := j.read.Load()
	if read == nil {
		return
	}
	is := (*read)()
	c <- prometheus.MustNewConstMetric(journalSeq, prometheus.GaugeValue, float64(is.Seq))
	if is.Segments > 0 {
		c <- prometheus.MustNewConstMetric(journalSegments, prometheus.GaugeValue, float64(is.Segments))
	}
	if !is.Oldest.IsZero() {
		c <- prometheus.MustNewConstMetric(journalOldest, prometheus.GaugeValue, float64(is.Oldest.UnixNano())/1e9)
	}
}
