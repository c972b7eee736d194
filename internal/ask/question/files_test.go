package question_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/verify"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/segment"
)

// TestSegmentGone removes a segment from the middle of a journal: what is lost with it is named, and never made up.
func TestSegmentGone(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", settings(1))
	s.Put("", strings.ReplaceAll(strings.ReplaceAll(settings(7), "settings", "more"), "c1", "c2"))
	s.Synced()
	for n := range 4 {
		w.Now = noon.Add(time.Duration(n+1) * time.Minute)
		w.Confirm(false, s)
		w.Rotate()
		if n == 1 {
			s.Put("kubectl", settings(2))
			continue
		}
		s.Put("kubectl", strings.ReplaceAll(strings.ReplaceAll(settings(8+n), "settings", "more"), "c1", "c2"))
	}
	w.Now = noon.Add(5 * time.Minute)
	w.Confirm(false, s)
	segments, err := segment.List(w.Path)
	if err != nil || len(segments) != 5 {
		t.Fatalf("%+v, %v", segments, err)
	}
	for _, path := range []string{segments[2].Path, segment.IndexPath(strings.TrimSuffix(segments[2].Path, ".gz"))} {
		if err := os.RemoveAll(path); err != nil { // the daemon removes an index without its file, too
			t.Fatal(err)
		}
	}
	j, of := open(t, w), selectionOf(t, "cm")
	for second, certain := range map[int]bool{30: true, 90: true, 150: false, 210: false, 290: false} {
		state, doubts := at(t, j, of, argument.Moment{Time: noon.Add(time.Duration(second) * time.Second)})
		if (doubts == "") != certain {
			t.Errorf("at second %d: %q, %q", second, state, doubts)
		}
	}
	for seq, want := range map[uint64]bool{3: true, 4: true, 5: false, 6: false} {
		if _, doubts := at(t, j, of, argument.Moment{Seq: seq}); (doubts == "") != want {
			t.Errorf("at line %d: %q", seq, doubts)
		}
	}
	all, err := j.Uncovered(t.Context(), of, argument.Moment{Time: noon}, argument.Moment{Time: noon.Add(290 * time.Second)})
	if err != nil || len(all) == 0 {
		t.Errorf("the missing lines are no doubt: %+v, %v", all, err)
	}
	faults := 0
	if _, err := verify.Files(t.Context(), j.Journal, func(string) { faults++ }); err != nil || faults == 0 {
		t.Errorf("verify: %d faults, %v", faults, err)
	}
}

// TestEarlierJournal asks files as earlier versions left them: plain ones and gzip in one piece, without index and coverage.
func TestEarlierJournal(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", settings(0))
	s.Synced()
	for n := range 40 {
		if n%10 == 0 {
			w.Rotate()
		}
		w.Now = noon.Add(time.Duration(n+1) * time.Second)
		s.Put("kubectl", settings(n+1))
	}
	w.Confirm(false, s)
	ask := func(what string, covered bool) {
		t.Helper()
		j, of := open(t, w), selectionOf(t, "cm")
		for n := range 40 {
			want := "settings=" + strconv.Itoa(n)
			if state, doubts := at(t, j, of, argument.Moment{Time: noon.Add(time.Duration(n)*time.Second + time.Millisecond)}); state != want || (doubts == "") != covered {
				t.Fatalf("%s: second %d: %q, %q", what, n, state, doubts)
			}
			if state, _ := at(t, j, of, argument.Moment{Seq: uint64(n) + 2}); state != want {
				t.Fatalf("%s: seq %d: %q", what, n+2, state)
			}
		}
		if got := len(seqs(t, j, of, argument.Moment{}, argument.Moment{})); got != 42 {
			t.Errorf("%s: a history of %d lines", what, got)
		}
	}
	ask("as it was written", true)
	segments, err := segment.List(w.Path)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range segments {
		if s.Active {
			continue
		}
		plain := strings.TrimSuffix(s.Path, ".gz")
		content := unzipped(t, s.Path)
		err := errors.Join(os.Remove(s.Path), os.Remove(segment.IndexPath(plain)))
		if i%2 == 0 {
			err = errors.Join(err, os.WriteFile(plain, content, 0o600))
		} else {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, writeErr := z.Write(content)
			err = errors.Join(err, writeErr, z.Close(), os.WriteFile(s.Path, b.Bytes(), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ask("as earlier versions wrote it", true)
	if err := os.Remove(coverage.Path(w.Path)); err != nil {
		t.Fatal(err)
	}
	ask("without coverage", false)
}

func unzipped(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
