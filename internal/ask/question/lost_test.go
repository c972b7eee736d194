package question_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
)

// TestLost has lines missing within a file, at its beginning and its end, and a copy of a file beside it: who asks about a
// time that they concern is told so, and nobody else.
func TestLost(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Synced() // line 1
	for i := 1; i < 8; i++ {
		w.Now = w.Now.Add(time.Minute)
		s.Put("kubectl", settings(i)) // lines 2 to 8
	}
	w.Confirm(false, s)
	w.Kill()
	content, err := os.ReadFile(w.Path)
	if err != nil {
		t.Fatal(err)
	}
	covered, err := os.ReadFile(w.Path + ".coverage")
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(content, []byte("\n"))
	lines := func(seqs ...int) (b []byte) {
		for _, seq := range seqs {
			b = append(b, all[seq-1]...)
		}
		return b
	}
	zip := func(b []byte) []byte {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		_, err := z.Write(b)
		if err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		return zipped.Bytes()
	}
	cut := func(b []byte, n int) []byte { return b[:len(b)-n] }
	const first, copied = "journal-2026-11-20T12-00-01.000.jsonl", "journal-2026-11-20T12-00-02.000.jsonl"
	const active, gz = "journal.jsonl", ".gz"
	newline := []byte("\n")
	const isCut = "cannot be read to its end"
	minute := func(n int) argument.Moment {
		return argument.Moment{Time: noon.Add(time.Duration(n)*time.Minute + 30*time.Second)}
	}
	for name, c := range map[string]struct {
		files                map[string][]byte
		want                 string // between line 4, of minute 3, and line 7, and at line 7
		wantAfter, wantFirst string // from line 7 on; up to line 3
	}{
		"whole":        {map[string][]byte{active: content}, "", "", ""},
		"one is gone":  {map[string][]byte{active: lines(1, 2, 3, 4, 6, 7, 8)}, "line 5 is missing in", "", ""},
		"two are gone": {map[string][]byte{active: lines(1, 2, 3, 4, 7, 8)}, "2 lines are missing in", "", ""},
		"one is torn": {map[string][]byte{
			active: slices.Concat(lines(1, 2, 3, 4), all[4][:100], newline, lines(6, 7, 8)),
		}, "line 5 is missing in", "", ""},
		"in a rotated file": {map[string][]byte{
			first: lines(1, 2, 3, 4, 6), active: lines(7, 8),
		}, "line 5 is missing in", "", ""},
		"a first line is torn": {map[string][]byte{
			first: lines(1, 2, 3, 4), active: slices.Concat(all[4][:200], newline, lines(6, 7, 8)),
		}, "line 5 is missing before", "", ""},
		"gzip is cut": {map[string][]byte{
			first + gz: cut(zip(lines(1, 2, 3, 4, 5)), 9), active: lines(6, 7, 8),
		}, isCut, "", isCut},
		"zeros behind gzip": {map[string][]byte{
			first + gz: slices.Concat(zip(lines(1, 2, 3, 4, 5)), make([]byte, 4096)), active: lines(6, 7, 8),
		}, isCut, "", isCut},
		"a copy": {map[string][]byte{
			first: lines(1, 2, 3, 4), copied: lines(4, 5), active: lines(6, 7, 8),
		}, "repeats lines from 4 on", "", ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, active)
		for file, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path+".coverage", covered, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := archive.Open(path, func(string) {})
		if err != nil {
			t.Fatal(name, err)
		}
		j := question.Of(opened)
		sel := selectionOf(t, "cm/settings")
		check := func(when, got, want string) {
			if (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s: %s: %q, want %q", name, when, got, want)
			}
		}
		for _, asked := range []struct {
			when         string
			since, until argument.Moment
			want         string
		}{
			{"all", argument.Moment{}, minute(6), c.want},
			{"by time", minute(2), minute(5), c.want},
			{"by seq", argument.Moment{Seq: 3}, argument.Moment{Seq: 7}, c.want},
			{"after", minute(6), minute(6), c.wantAfter},
			{"after a seq", argument.Moment{Seq: 8}, argument.Moment{Seq: 8}, c.wantAfter},
		} {
			doubts, err := j.Uncovered(t.Context(), sel, asked.since, asked.until)
			if err != nil {
				t.Fatal(name, err)
			}
			var reasons []string
			for _, d := range doubts {
				reasons = append(reasons, d.Reason)
			}
			check(asked.when, strings.Join(reasons, "\n"), asked.want)
		}
		for m, want := range map[argument.Moment]string{
			minute(6): c.want, {Seq: 8}: c.want, {Seq: 3}: c.wantFirst, minute(1): c.wantFirst,
		} {
			_, doubts := at(t, j, sel, m)
			check("at "+m.String(), doubts, want)
		}
		j.Close()
	}
}
