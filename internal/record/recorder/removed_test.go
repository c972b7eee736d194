package recorder

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
)

// A line says which files are gone: once, with the limit that removed them; and after a start too, where the checkpoint
// knows of no such line.
func TestRemovedFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		begins uint64 // in the checkpoint
		want   []string
	}{
		"new journal":          {0, []string{"1 4 maxFiles"}},
		"before the start":     {1, []string{"1 2 unknown", "3 4 maxFiles"}},
		"already said by then": {3, []string{"3 4 maxFiles"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, Config{Rotated: checkpoint.Rotated{Begins: tt.begins}, Cluster: `prod"eu`})
			g.store.unchecked = true
			reaches := func(first uint64, limit string) {
				g.out.mu.Lock()
				g.out.extent = journal.Extent{FirstSeq: first, Oldest: time.Now(), Limit: limit}
				g.out.mu.Unlock()
				pass(5 * time.Second)
				synctest.Wait()
			}
			g.run(t.Context())
			g.submit(g.batch("a", 6, 100))
			first := uint64(1)
			if tt.begins > 0 {
				first = 3
			}
			reaches(first, "")
			reaches(5, "maxFiles")
			if is := g.rec.Progress(); is.Committed != is.Written { // else the file that has the line would not be compressed
				t.Errorf("%s: %d lines are written, %d committed", name, is.Written, is.Committed)
			}
			reaches(5, "maxFiles")
			g.submit(g.batch("a", 1, 100))
			pass(5 * time.Second)
			synctest.Wait()
			var got []string
			for l := range strings.Lines(string(g.out.bytes())) {
				var is struct {
					Type, ID, Reason, Cluster, Stream string
					Removed                           struct{ FromSeq, ToSeq int }
				}
				if err := json.Unmarshal([]byte(l), &is); err != nil {
					t.Fatalf("%s: %v", l, err)
				}
				if is.Type == "REMOVED" {
					got = append(got, fmt.Sprint(is.Removed.FromSeq, is.Removed.ToSeq, " ", is.Reason))
					if is.ID == "" || is.Cluster != `prod"eu` || is.Stream != "journal" {
						t.Errorf("%s: %s", name, l)
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%s: the lines say %q, want %q", name, got, tt.want)
			}
			if mark, err := g.store.Mark(); err != nil || mark.Begins != 5 {
				t.Errorf("%s: the mark is %+v, %v", name, mark, err)
			}
			g.rec.Close()
			<-g.done
		})
	}
}

// A SEALED line that no commit covers is read back, and moves no stream: the chain continues from it.
func TestRecoverSealed(t *testing.T) {
	h := newHistory(t, 96, 8, 1)
	is := line.Seal{From: 1, To: 95, Size: 4000}.After("before")
	sealed := string(is.Append([]byte(`{"seq":104`), time.Unix(1e9, 0), ""))
	j := openJournal(t, filepath.Join(t.TempDir(), "journal.jsonl"), append(h.journal[:h.ends[8]:h.ends[8]], sealed...))
	store := tempStore(t)
	mustCommit(t, store, h.batch(0, 4, true))
	for range 2 {
		got, err := Recover(t.Context(), j, store)
		if err != nil || got.Seq != 104 || got.Sealed != 95 || got.Chain != is.Chain {
			t.Fatalf("Recover = %+v, %v", got, err)
		}
	}
	want := h.after[8]
	want.Mark.Seq, want.Mark.Offset = 104, want.Mark.Offset+int64(len(sealed))
	want.Mark.Sealed, want.Mark.Chain = 95, is.Chain
	same(t, "recovered", want, contentOf(t, store))

	// After an older copy of the journal is restored, a file that had been sealed is active again. It must be sealed once more.
	mark := want.Mark
	mark.Sealed = 103
	b := checkpoint.NewBatch()
	b.SetMark(mark)
	mustCommit(t, store, b)
	if got, err := Recover(t.Context(), j, store); err != nil || got.Sealed != 95 {
		t.Errorf("Recover = %+v, %v; the file begins with %d", got, err, mark.FirstSeq)
	}
}

// A REMOVED line that no commit covers is read back, and moves no stream.
func TestRecoverRemoved(t *testing.T) {
	h := newHistory(t, 96, 8, 1)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	removed := `{"seq":104,"time":"2026-11-20T16:10:22Z","type":"REMOVED","id":"journal/1-95/x/REMOVED","stream":"journal","reason":"maxAge","removed":{"fromSeq":1,"toSeq":95}}` + "\n"
	j := openJournal(t, path, append(h.journal[:h.ends[8]:h.ends[8]], removed...))
	store := tempStore(t)
	mustCommit(t, store, h.batch(0, 4, true))
	got, err := Recover(t.Context(), j, store)
	if err != nil || got.Seq != 104 || got.Begins != 96 || got.Lines != 5 {
		t.Fatalf("Recover = %+v, %v", got, err)
	}
	want := h.after[8]
	want.Mark.Seq, want.Mark.Offset, want.Mark.Begins = 104, want.Mark.Offset+int64(len(removed)), 96
	same(t, "recovered", want, contentOf(t, store))
	if again, err := Recover(t.Context(), j, store); err != nil || again.Begins != 96 {
		t.Errorf("Recover = %+v, %v", again, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
