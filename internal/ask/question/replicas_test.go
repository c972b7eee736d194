package question_test

import (
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

// A replica that has read on has the changes since it began, and not those that only another one's journal shows, later:
// until that shows them, what it covers is in doubt.
func TestCoveredByAnother(t *testing.T) {
	for name, tt := range map[string]struct {
		leader func(w *journaltest.Journal, s *journaltest.Stream) // from minute 1 on, in term 2
		want   string                                              // of a question about minute 5
	}{
		"written in time": {func(w *journaltest.Journal, s *journaltest.Stream) {
			s.Put("kubectl", settings(2))
			w.Now = noon.Add(11 * time.Minute)
			w.Confirm(false, s)
		}, ""},
		"by a list": {func(w *journaltest.Journal, s *journaltest.Stream) {
			w.Now = noon.Add(10 * time.Minute)
			s.Gap(line.CheckpointLost, time.Time{})
			s.Put("", settings(2))
			s.Synced()
			w.Now = noon.Add(11 * time.Minute)
			w.Confirm(false, s)
		}, "configmaps"},
		"late, and killed": {func(w *journaltest.Journal, s *journaltest.Stream) {
			w.Now = noon.Add(10 * time.Minute)
			s.Put("", settings(2))
		}, "shop/settings"},
	} {
		var paths []string
		var streams []*journaltest.Stream
		replica := func(term uint64, minute int) *journaltest.Journal {
			w := begin(t)
			w.Term, w.Now = term, noon.Add(time.Duration(minute)*time.Minute)
			s := w.Stream("configmaps", "ConfigMap")
			paths, streams = append(paths, w.Path), append(streams, s)
			s.HeldBack("leaderElection")
			return w
		}
		first := replica(1, 0)
		streams[0].Snapshot()
		streams[0].Put("", settings(1))
		streams[0].Synced()
		first.Kill()

		second := replica(2, 1)
		streams[1].Adopt(streams[0])
		tt.leader(second, streams[1])
		second.Kill()

		third := replica(3, 3) // what was made before minute 3, it has dropped
		streams[2].Adopt(streams[1])
		third.Now = noon.Add(12 * time.Minute)
		streams[2].Put("kubectl", settings(3))
		third.Confirm(false, streams[2])
		third.Kill()

		sel := selectionOf(t, "cm/settings")
		j, err := archive.OpenAll(t.Context(), paths, sel, archive.SelectedLines, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		at := argument.Moment{Time: noon.Add(5 * time.Minute)}
		doubts, err := question.Of(j).Uncovered(t.Context(), sel, at, at)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range doubts {
			got = append(got, d.Stream+" "+strings.Join(d.Objects, " "))
		}
		if all := strings.Join(got, ", "); (all == "") != (tt.want == "") || !strings.Contains(all, tt.want) {
			t.Errorf("%s: in doubt is %q, want %q", name, all, tt.want)
		}
		j.Close()
	}
}
