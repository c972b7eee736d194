package recorder

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

// clusterLines is a journal about a cluster, in which the last line but two names it,
// and where its lines end.
func clusterLines(t *testing.T, cluster string, n int) (lines []byte, marks []checkpoint.Mark) {
	t.Helper()
	render, err := object.NewRenderer(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod", ClusterUID: cluster}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	marks = append(marks, checkpoint.Mark{})
	for seq := uint64(1); seq <= uint64(n); seq++ {
		lines = line.AppendSeq(lines, seq)
		if seq == uint64(n)-2 {
			lines = render.AppendSynced(lines, received, "9", line.Count{})
		} else {
			lines, err = render.AppendGone(lines, received, object.Known{Name: cluster, UID: "u", ResourceVersion: "8"}, object.Line{}, nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		marks = append(marks, checkpoint.Mark{Seq: seq, FirstSeq: 1, Offset: int64(len(lines))})
	}
	return lines, marks
}

// A journal of another cluster than the checkpoint's is refused, however far after
// its first lines the one is that says so, and nothing of it is taken. Where either
// does not name its cluster, it is accepted.
func TestRecoverOtherCluster(t *testing.T) {
	const n = 40
	for name, c := range map[string]struct {
		checkpoint, journal string
		mark                int  // of a journal of the checkpoint's cluster; 0 is a new one, and -1 one that never was committed
		damaged             bool // a line about an object, in front of the one that names the cluster
		refused             bool
	}{
		"lost":                {"a", "bb", -1, false, true},
		"lost and damaged":    {"a", "bb", -1, true, true},
		"new":                 {"a", "bb", 0, false, true},
		"committed":           {"a", "bb", 12, false, true},
		"the same, lost":      {"a", "a", -1, false, false},
		"the same":            {"a", "a", 12, false, false},
		"unknown checkpoint":  {"", "bb", -1, false, false},
		"of an older version": {"a", "", -1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			lines, _ := clusterLines(t, c.journal, n)
			_, marks := clusterLines(t, c.checkpoint, n)
			if c.damaged {
				lines = bytes.Replace(lines, []byte(`"uid":"u"`), []byte(`"uid":u`), 1)
			}
			store, err := checkpoint.OpenTemp()
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if err := store.SetCluster(c.checkpoint); err != nil {
				t.Fatal(err)
			}
			if c.mark >= 0 {
				b := checkpoint.NewBatch()
				b.SetMark(marks[c.mark])
				mustCommit(t, store, b)
			}
			before := contentOf(t, store)
			j := openJournal(t, path, lines)
			_, err = recoverWithin(t.Context(), j, store, 1)
			var other *ClusterError
			if !c.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.As(err, &other) || *other != (ClusterError{Journal: "bb", Checkpoint: "a", Seq: n - 2}) {
				t.Errorf("Recover = %v", err)
			}
			same(t, name, before, contentOf(t, store))
			if lost, err := store.Lost(); lost || err != nil {
				t.Errorf("lost is %v, %v", lost, err)
			}
			if _, under, err := store.Recovery(); under || err != nil {
				t.Errorf("a recovery is under way: %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(lines) {
				t.Error("the journal was touched")
			}
		})
	}
}

// Lines of another cluster behind those of this one are refused too.
func TestRecoverOtherClusterBehind(t *testing.T) {
	lines, marks := clusterLines(t, "a", 10)
	other, _ := clusterLines(t, "bb", 20)
	foreign := other[endOf(other, 10):]
	store := tempStore(t)
	if err := store.SetCluster("a"); err != nil {
		t.Fatal(err)
	}
	b := checkpoint.NewBatch()
	b.SetMark(marks[10])
	mustCommit(t, store, b)
	j := openJournal(t, filepath.Join(t.TempDir(), "j"), append(lines, foreign...))
	if _, err := Recover(t.Context(), j, store); !errors.As(err, new(*ClusterError)) {
		t.Errorf("Recover = %v", err)
	}
}

// endOf is where the line n ends.
func endOf(b []byte, n int) int {
	for i, c := range b {
		if c == '\n' {
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// A journal whose committed line is not at its place is another daemon's, or was
// changed: it is read, and every object told of again.
func TestRecoverOfAnotherDaemon(t *testing.T) {
	h, other := newHistory(t, 1, 20, 6), newHistory(t, 1, 30, 1234)
	store := tempStore(t)
	mustCommit(t, store, h.batch(0, 20, true))
	got, err := Recover(t.Context(), openJournal(t, filepath.Join(t.TempDir(), "j"), other.journal), store)
	if err != nil || got != (Recovered{Seq: 30, Lines: 10, Hole: true}) {
		t.Fatalf("Recover = %+v, %v", got, err)
	}
	for name, state := range contentOf(t, store).Streams {
		if state.PendingGap != line.JournalTruncated {
			t.Errorf("stream %s: %+v", name, state)
		}
	}
	// Where its files begin at other lines, it says so.
	store = tempStore(t)
	b := h.batch(0, 20, true)
	b.SetMark(checkpoint.Mark{Seq: 20, FirstSeq: 5, Offset: int64(h.ends[20] - h.ends[4])})
	mustCommit(t, store, b)
	got, err = Recover(t.Context(), openJournal(t, filepath.Join(t.TempDir(), "j"), other.journal), store)
	if err != nil || got != (Recovered{Seq: 30, Lines: 10, Misplaced: true}) {
		t.Fatalf("Recover = %+v, %v", got, err)
	}
}
