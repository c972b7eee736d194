package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What is not known of a journal has no metric, rather than a time in 1970.
func TestWatchJournal(t *testing.T) {
	names := []string{"kubejournal_journal_oldest_timestamp_seconds", "kubejournal_journal_seq", "kubejournal_journal_segments"}
	const seq = "# HELP kubejournal_journal_seq seq of the last line written.\n# TYPE kubejournal_journal_seq gauge\nkubejournal_journal_seq 7\n"
	m := New("", "")
	for _, c := range []struct {
		is   *Journal
		want string
	}{
		{nil, ""},
		{&Journal{Seq: 7}, seq},
		{&Journal{Seq: 7, Segments: 3, Oldest: time.Unix(1500, 5e8)}, `# HELP kubejournal_journal_oldest_timestamp_seconds Time of the oldest line that is still in the journal.
# TYPE kubejournal_journal_oldest_timestamp_seconds gauge
kubejournal_journal_oldest_timestamp_seconds 1500.5
# HELP kubejournal_journal_segments Files of the journal, the active one included.
# TYPE kubejournal_journal_segments gauge
kubejournal_journal_segments 3
` + seq},
	} {
		if c.is != nil {
			m.WatchJournal(func() Journal { return *c.is })
		}
		if err := testutil.GatherAndCompare(m.Registry, strings.NewReader(c.want), names...); err != nil {
			t.Error(err)
		}
	}
}
