// Package metrics has every metric of kubejournal. Users rely on names and labels
// (docs/operations.md lists them): they change by addition only. No label carries an object's name.
package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics has a field for every metric of one daemon. All are safe for concurrent use.
type Metrics struct {
	Registry *prometheus.Registry

	Events       *prometheus.CounterVec // group, resource, type, origin
	Filtered     *prometheus.CounterVec // group, resource: events held back
	OtherShards  *prometheus.CounterVec // group, resource: objects received that are other daemons'
	FilterErrors *prometheus.CounterVec // group, resource: filters that could not be evaluated
	Unusable     *prometheus.CounterVec // group, resource: objects that no line can hold
	OutputBytes  prometheus.Counter     // bytes taken by the output
	OutputErrors *prometheus.CounterVec // operation: failed writes, syncs, rotations and compressions
	RemovedFiles *prometheus.CounterVec // limit: rotated files that it removed
	// lines of young files that were removed of the namespace that takes most room
	RemovedLines    prometheus.Counter
	CoverageErrors  prometheus.Counter     // failed writes of the coverage file
	APIErrors       prometheus.Counter     // failures to record what the API server serves
	StreamState     *prometheus.GaugeVec   // stream, state: 1 for the state it is in
	LastProgress    *prometheus.GaugeVec   // stream: unix time of the last event or bookmark
	WatchRestarts   *prometheus.CounterVec // group, resource, reason
	Relists         *prometheus.CounterVec // group, resource, reason
	RelistSeconds   prometheus.Histogram   // from the list request to SYNCED
	WriteSeconds    prometheus.Histogram   // received to written
	QueueLength     prometheus.Gauge       // batches that wait for the writer
	Commits         prometheus.Counter     // successful commits
	CommitErrors    prometheus.Counter     // failed commits
	CommitSeconds   prometheus.Histogram   // journal sync and checkpoint commit
	LastCommit      prometheus.Gauge       // unix time
	CheckpointBytes prometheus.Gauge       // bytes
	Tracked         *prometheus.GaugeVec   // group, resource: objects known to the streams that run
	ReloadOK        prometheus.Gauge       // 0 or 1
	ReloadTime      prometheus.Gauge       // unix time of the last successful load
	Leader          prometheus.Gauge       // 0 or 1; see WatchElection
	Takeovers       prometheus.Counter     // terms of this replica; the same
	configInfo      *prometheus.GaugeVec   // hash
	buildInfo       *prometheus.GaugeVec   // version, commit, goversion
	filesystems     filesystems
	journal         journal
	audit           audit
}

// Operations on the output, as OutputErrors has them.
const (
	Write  = "write"
	Sync   = "sync"
	Rotate = "rotate" // and compress and remove what was rotated
)

// New returns the metrics of one daemon, registered in a registry of their own.
func New(version, commit string) *Metrics {
	r := prometheus.NewRegistry()
	auto := promauto.With(r)
	m := &Metrics{
		Registry: r,
		Events: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_events_total",
			Help: "Journal lines written; GAP and SYNCED have no origin."},
			[]string{"group", "resource", "type", "origin"}),
		Filtered: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_events_filtered_total",
			Help: "Events that are not written, by filter, types, excludeNamespaces or ignoreFields."},
			[]string{"group", "resource"}),
		OtherShards: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_other_shards_events_total",
			Help: "Events and listed objects of other shards, which the server sends where it does not select."},
			[]string{"group", "resource"}),
		FilterErrors: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_filter_errors_total",
			Help: "Events on which the filter could not be evaluated. Each is written."},
			[]string{"group", "resource"}),
		Unusable: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_unusable_objects_total",
			Help: "Objects received that are too large, too deep or not JSON. Each has a line that names it."},
			[]string{"group", "resource"}),
		OutputBytes: auto.NewCounter(prometheus.CounterOpts{Name: "kubejournal_output_bytes_total",
			Help: "Bytes written to the output."}),
		OutputErrors: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_output_errors_total",
			Help: "Writes, syncs, rotations and compressions of the output that failed. Each is tried again."},
			[]string{"operation"}),
		RemovedFiles: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_journal_removed_files_total",
			Help: "Rotated files that were removed, by the limit that they exceeded."}, []string{"limit"}),
		RemovedLines: auto.NewCounter(prometheus.CounterOpts{Name: "kubejournal_journal_removed_lines_total",
			Help: "Lines of files younger than output.minAge that were removed, of the namespace that took " +
				"most room."}),
		CoverageErrors: auto.NewCounter(prometheus.CounterOpts{Name: "kubejournal_coverage_errors_total",
			Help: "Writes of the journal's coverage file that failed. Each is tried again; no line is affected."}),
		APIErrors: auto.NewCounter(prometheus.CounterOpts{Name: "kubejournal_api_documents_errors_total",
			Help: "Failures to record what the API server serves. Each is tried again; no line is affected."}),
		StreamState: auto.NewGaugeVec(prometheus.GaugeOpts{Name: "kubejournal_stream_state",
			Help: "1 for the state of the stream, 0 for the others. An entry without a stream is Pending under its " +
				"own name."}, []string{"stream", "state"}),
		LastProgress: auto.NewGaugeVec(prometheus.GaugeOpts{Name: "kubejournal_stream_last_progress_timestamp_seconds",
			Help: "Time of the stream's last event or bookmark, or of another proof that it misses nothing."},
			[]string{"stream"}),
		WatchRestarts: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_watch_restarts_total",
			Help: "Watches that ended and were opened again, by reason."}, []string{"group", "resource", "reason"}),
		Relists: auto.NewCounterVec(prometheus.CounterOpts{Name: "kubejournal_relists_total",
			Help: "Complete lists, by reason."}, []string{"group", "resource", "reason"}),
		RelistSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "kubejournal_relist_duration_seconds",
			Help:    "Duration of a list, from its request to its SYNCED line.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 9)}),
		WriteSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "kubejournal_event_write_seconds",
			Help:    "Duration from receiving an event to writing its line.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}),
		QueueLength: auto.NewGauge(prometheus.GaugeOpts{Name: "kubejournal_queue_length",
			Help: "Batches of lines that wait to be written."}),
		Commits: auto.NewCounter(prometheus.CounterOpts{Name: "kubejournal_checkpoint_commits_total",
			Help: "Checkpoint commits."}),
		CommitErrors: auto.NewCounter(prometheus.CounterOpts{Name: "kubejournal_checkpoint_errors_total",
			Help: "Checkpoint commits that failed, and journal syncs before them. Each is tried again."}),
		CommitSeconds: auto.NewHistogram(prometheus.HistogramOpts{Name: "kubejournal_checkpoint_commit_seconds",
			Help:    "Duration of a checkpoint commit, journal sync included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		LastCommit: auto.NewGauge(prometheus.GaugeOpts{Name: "kubejournal_checkpoint_last_commit_timestamp_seconds",
			Help: "Time of the last checkpoint commit."}),
		CheckpointBytes: auto.NewGauge(prometheus.GaugeOpts{Name: "kubejournal_checkpoint_size_bytes",
			Help: "Size of the checkpoint file."}),
		Tracked: auto.NewGaugeVec(prometheus.GaugeOpts{Name: "kubejournal_tracked_objects",
			Help: "Objects known to running streams; after a gap, a list is compared with them."},
			[]string{"group", "resource"}),
		ReloadOK: auto.NewGauge(prometheus.GaugeOpts{Name: "kubejournal_config_last_reload_successful",
			Help: "1 when the last load of the config succeeded."}),
		ReloadTime: auto.NewGauge(prometheus.GaugeOpts{Name: "kubejournal_config_last_reload_success_timestamp_seconds",
			Help: "Time of the last successful load of the config."}),
		configInfo: auto.NewGaugeVec(prometheus.GaugeOpts{Name: "kubejournal_config_info",
			Help: "1, labelled with the hash of the config file in effect."}, []string{"hash"}),
		buildInfo: auto.NewGaugeVec(prometheus.GaugeOpts{Name: "kubejournal_build_info",
			Help: "1, labelled with the version, the commit and the Go version."},
			[]string{"version", "commit", "goversion"}),
	}
	m.buildInfo.WithLabelValues(version, commit, runtime.Version()).Set(1)
	for _, operation := range []string{Write, Sync, Rotate} {
		m.OutputErrors.WithLabelValues(operation) // at 0
	}
	for _, limit := range []string{"maxAge", "maxFiles", "maxTotalSize"} {
		m.RemovedFiles.WithLabelValues(limit) // at 0
	}
	r.MustRegister(&m.filesystems, &m.journal, &m.audit, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// SetConfig sets which config file is in effect, by its hash; "" is none.
func (m *Metrics) SetConfig(hash string) {
	m.configInfo.Reset()
	if hash != "" {
		m.configInfo.WithLabelValues(hash).Set(1)
	}
}

// WatchServer shows how the daemon gets on with the API server: up returns 0 in an outage, else 1.
func (m *Metrics) WatchServer(up func() float64) {
	promauto.With(m.Registry).NewGaugeFunc(prometheus.GaugeOpts{Name: "kubejournal_apiserver_up",
		Help: "1 while the API server answers and accepts this daemon, 0 in an outage."}, up)
}

// WatchElection shows the metrics of the leader election by a Lease: held returns how many bytes a standby holds, seen
// when the Lease was read or renewed last, as a Unix time.
func (m *Metrics) WatchElection(lease string, held, seen func() float64) {
	auto, of := promauto.With(m.Registry), prometheus.Labels{"lease": lease}
	m.Leader = auto.NewGauge(prometheus.GaugeOpts{Name: "kubejournal_leader", ConstLabels: of,
		Help: "1 on the replica that writes, 0 on the others. Absent without leader election."})
	m.Takeovers = auto.NewCounter(prometheus.CounterOpts{Name: "kubejournal_takeovers_total", ConstLabels: of,
		Help: "How often this replica has become the leader."})
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "kubejournal_standby_held_bytes", ConstLabels: of,
		Help: "Lines and changes that a standby holds until the leader has written them."}, held)
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "kubejournal_lease_seen_timestamp_seconds", ConstLabels: of,
		Help: "Time at which this replica last read or renewed the Lease."}, seen)
}

// ForgetStream removes the series of a stream that is not journalled any more.
func (m *Metrics) ForgetStream(name string) {
	stream := prometheus.Labels{"stream": name}
	m.StreamState.DeletePartialMatch(stream)
	m.LastProgress.DeletePartialMatch(stream)
}
