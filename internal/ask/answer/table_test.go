package answer

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
)

// TestCoverageWidth shows streams with long names where they fit and, on a terminal, where they do not.
func TestCoverageWidth(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	from, two := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), int64(2)
	streams := []watched{
		{Stream: coverage.Stream{Name: "validatingadmissionpolicybindings.admissionregistration.k8s.io", Intervals: []coverage.Interval{
			{From: from, To: from.Add(time.Hour), End: "Expired", Late: true, Differences: &two}, {From: from.Add(2 * time.Hour), To: from.Add(3 * time.Hour)},
		}}},
		{Stream: coverage.Stream{Name: "pods", Intervals: []coverage.Interval{{From: from, To: from.Add(time.Hour)}}}},
	}
	for width, want := range map[int]string{
		100: `STREAM  FROM (UTC)           TO        FOR  END
validatingadmissionpolicybindings.admissionregistration.k8s.io
        2026-11-20 14:00:00  15:00:00  1h   late; GAP Expired, 2 objects differed
        2026-11-20 16:00:00  17:00:00  1h   ongoing
pods    2026-11-20 14:00:00  15:00:00  1h   ongoing
`,
		0: `STREAM                                                          FROM (UTC)           TO        FOR  END
validatingadmissionpolicybindings.admissionregistration.k8s.io  2026-11-20 14:00:00  15:00:00  1h   late; GAP Expired, 2 objects differed
                                                                2026-11-20 16:00:00  17:00:00  1h   ongoing
pods                                                            2026-11-20 14:00:00  15:00:00  1h   ongoing
`,
	} {
		var b bytes.Buffer
		if err := writeCoverage(streams, "table", &Output{Writer: &b, Terminal: width > 0, Width: width}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}

// TestByKind counts objects with the names that kubectl takes.
func TestByKind(t *testing.T) {
	of := func(group, resource, kind string, names ...string) (all []question.Change) {
		for _, name := range names {
			all = append(all, question.Change{Before: &question.Item{Name: name, Stream: &index.Stream{Group: group, Resource: resource, Kind: kind}}})
		}
		return all
	}
	got := strings.Join(byKind(slices.Concat(of("", "configmaps", "ConfigMap", "flags"), of("", "pods", "Pod", "a", "b"),
		of("networking.k8s.io", "ingresses", "Ingress", "a", "b"))), ", ")
	if want := "1 configmap (flags), 2 pods (a, b), 2 ingresses.networking.k8s.io (a, b)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A list between two gaps is an interval that takes no time, and a silence has a reason of its own.
func TestCoverageOfAPoint(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	from, two := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), int64(2)
	streams := []watched{{Stream: coverage.Stream{Name: "pods", Intervals: []coverage.Interval{
		{From: from, To: from.Add(time.Hour), End: coverage.Silent},
		{From: from.Add(2 * time.Hour), To: from.Add(2 * time.Hour), End: "Expired", Differences: &two},
	}}}}
	want := `STREAM  FROM (UTC)           TO        FOR  END
pods    2026-11-20 14:00:00  15:00:00  1h   not confirmed for over 10 s
        2026-11-20 16:00:00  16:00:00  0s   GAP Expired, 2 objects differed
`
	var b bytes.Buffer
	if err := writeCoverage(streams, "table", &Output{Writer: &b}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
