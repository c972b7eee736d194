package query_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"kubejournal/internal/coverage"
	"kubejournal/internal/query"
)

// A name that a shard's journal does not have, or a replica's, may be in another one: the error says so.
func TestUnknownElsewhere(t *testing.T) {
	for _, tt := range []struct {
		stream   string
		heldBack []string
		doubts   string
	}{
		{"pods", nil, "[]"},
		{"pods", []string{coverage.LeaderElection}, "[]"},
		{"pods?shard=1-of-2", nil, "[the journal has shard 1-of-2 of it]"},
	} {
		w := begin(t)
		s := w.Stream(tt.stream, "Pod")
		s.HeldBack(tt.heldBack...)
		s.Snapshot()
		s.Put("", settings(1))
		s.Synced()
		w.Now = noon.Add(time.Minute)
		w.Confirm(false, s)
		w.Kill()
		_, err := query.OpenAll(t.Context(), []string{w.Path}, selectionOf(t, "pod/other"), query.SelectedLines, func(string) {})
		u, ok := errors.AsType[*query.UnknownError](err)
		if !ok || u.Unwatched {
			t.Fatalf("%s: %v", tt.stream, err)
		}
		var reasons []string
		for _, d := range u.Doubts {
			reasons = append(reasons, d.Reason)
		}
		if got := fmt.Sprint(reasons); got != tt.doubts || len(u.HeldBack) != len(tt.heldBack) {
			t.Errorf("%s: doubts %v, held back %v", tt.stream, got, u.HeldBack)
		}
	}
}
