package question_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
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
		other := selectionOf(t, "pod/other")
		j, err := archive.OpenAll(t.Context(), []string{w.Path}, other, archive.SelectedLines, func(string) {})
		u, ok := errors.AsType[*argument.UnknownError](err)
		if !ok || u.Unwatched {
			t.Fatalf("%s: %v", tt.stream, err)
		}
		doubts, err := question.Of(j).Uncovered(t.Context(), other, argument.Moment{}, argument.Moment{})
		var reasons []string
		for _, d := range doubts {
			if !d.AsOf {
				reasons = append(reasons, d.Reason)
			}
		}
		held := j.HeldBack(other, argument.Moment{}, argument.Moment{})
		if got := fmt.Sprint(reasons); err != nil || got != tt.doubts || len(held) != len(tt.heldBack) {
			t.Errorf("%s: doubts %v, held back %v, %v", tt.stream, got, held, err)
		}
		j.Close()
	}
}

// Names that are asked for together may be in several shards' journals.
func TestNamesInSeveralJournals(t *testing.T) {
	var paths []string
	for _, name := range []string{"x", "y"} {
		w := begin(t)
		s := w.Stream(fmt.Sprintf("pods?shard=%d-of-2", len(paths)), "Pod")
		s.Snapshot()
		s.Put("", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"%[1]s","uid":"u-%[1]s"}}`, name))
		s.Synced()
		w.Now = noon.Add(time.Minute)
		w.Confirm(false, s)
		w.Kill()
		paths = append(paths, w.Path)
	}
	for names, want := range map[string]string{"pod/x pod/y": "2 <nil>", "pod/x pod/y pod/z": `0 the journal has no line about pods of the name "z"`, "pod": "2 <nil>"} {
		sel := selectionOf(t, strings.Fields(names)...)
		j, err := archive.OpenAll(t.Context(), paths, sel, archive.SelectedLines, func(string) {})
		n := 0
		if err == nil {
			for v, failed := range question.Of(j).History(t.Context(), sel, argument.Moment{}, argument.Moment{}) {
				if failed != nil {
					t.Fatal(failed)
				}
				if !v.AboutStream() {
					n++
				}
			}
			j.Close()
		}
		if got := fmt.Sprint(n, " ", err); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", names, got)
		}
	}
}

// A short name of a custom resource is in its definition, which the journal may not have.
func TestShortNameOfNoDefinition(t *testing.T) {
	w := begin(t)
	for stream, kind := range map[string]string{"configmaps": "ConfigMap", "widgets.example.com": "Widget", "works.example.com": "Work"} {
		s := w.Stream(stream, kind)
		s.Snapshot()
		s.Put("", strings.Replace(settings(1), "ConfigMap", kind, 1))
		s.Synced()
	}
	for name, want := range map[string]string{
		"wd": "; did you mean widgets.example.com?", "wk": "; did you mean works.example.com?",
		"cfg": "; it has widgets.example.com, works.example.com, configmaps",
	} {
		_, err := archive.OpenAll(t.Context(), []string{w.Path}, selectionOf(t, name), archive.SelectedLines, func(string) {})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
