package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	auditFiles = prometheus.NewDesc("kubejournal_audit_files",
		"Files that audit.paths match. Absent without audit.paths.", nil, nil)
	auditEvents = prometheus.NewDesc("kubejournal_audit_events_total",
		"Events that were read of audit logs.", nil, nil)
	auditLines = prometheus.NewDesc("kubejournal_audit_lines_total",
		"Journal lines of which it was written who made them, by how that is known; several: not which of some.",
		[]string{"match"}, nil)
	auditErrors = prometheus.NewDesc("kubejournal_audit_errors_total",
		"Rounds in which an audit log could not be read, or the result not be written. Each is tried again.", nil, nil)
	auditDecided = prometheus.NewDesc("kubejournal_audit_decided_timestamp_seconds",
		"Time up to which it is decided who made the journal's lines, as far as the audit logs say.", nil, nil)
)

// Audit is how far audit logs are followed.
type Audit struct {
	Files   int               // that the patterns name
	Events  int               // that were read
	Damaged int               // lines of logs that cannot be read
	Lines   map[string]uint64 // that have a person, by how that is known
	Errors  uint64            // rounds that failed
	Decided time.Time         // up to when lines are decided; zero for none
	Err     string            // of the last round
}

// audit is what was shown last; nil while no audit log is followed.
type audit struct{ atomic.Pointer[Audit] }

// ShowAudit makes is the metrics of the audit logs; nil where none is followed.
func (m *Metrics) ShowAudit(is *Audit) { m.audit.Store(is) }

// Audit returns what ShowAudit was called with last.
func (m *Metrics) Audit() *Audit { return m.audit.Load() }

// Describe implements prometheus.Collector.
func (a *audit) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{auditFiles, auditEvents, auditLines, auditErrors, auditDecided} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (a *audit) Collect(c chan<- prometheus.Metric) {
	is := a.Load()
	if is == nil {
		return
	}
	c <- prometheus.MustNewConstMetric(auditFiles, prometheus.GaugeValue, float64(is.Files))
	c <- prometheus.MustNewConstMetric(auditEvents, prometheus.CounterValue, float64(is.Events))
	c <- prometheus.MustNewConstMetric(auditErrors, prometheus.CounterValue, float64(is.Errors))
	for match, n := range is.Lines {
		c <- prometheus.MustNewConstMetric(auditLines, prometheus.CounterValue, float64(n), match)
	}
	if !is.Decided.IsZero() {
		c <- prometheus.MustNewConstMetric(auditDecided, prometheus.GaugeValue, float64(is.Decided.UnixMilli())/1e3)
	}
}
