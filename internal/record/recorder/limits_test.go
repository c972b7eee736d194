package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/invariant"
)

// deepLines are the lines of objects around the limit of what a line can hold, in the form of plain lines and of lines that
// say what changed.
func deepLines(t *testing.T) (lines []string) {
	t.Helper()
	r, err := object.NewRenderer(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	var o object.Object
	for i, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		for levels := 9_990; levels <= 10_010; levels++ {
			value := strings.Repeat(pair[0], levels-1) + "1" + strings.Repeat(pair[1], levels-1)
			raw := fmt.Appendf(nil, `{"metadata":{"name":"p%d-%d","uid":"u","resourceVersion":"5"},"spec":%s}`, i, levels, value)
			if err := r.Scan(raw, &o); err != nil {
				if err := r.Identify(raw, &o, err); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range []object.Line{{Type: line.Added}, {Type: line.Modified, Changes: fmt.Appendf(nil, `[{"op":"replace","path":"","old":%s,"value":1}]`, o.Raw)}} {
				l.Origin, l.Received = line.FromSnapshot, time.Now()
				line, err := r.AppendLine(line.AppendSeq(nil, uint64(len(lines)+1)), l, &o)
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, string(line))
			}
		}
	}
	return lines
}

// Whatever is written is read back at a start, from the active file and from rotated ones, with what is kept of it.
func TestRecoverDeepest(t *testing.T) {
	lines := deepLines(t)
	if _, err := invariant.Parse("journal", 1, []byte(strings.Join(lines, ""))); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	half := len(lines) / 2
	if err := os.WriteFile(filepath.Join(dir, "journal-2026-11-20T16-10-22.000.jsonl"), []byte(strings.Join(lines[:half], "")), 0o640); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, filepath.Join(dir, "journal.jsonl"), []byte(strings.Join(lines[half:], "")))
	store := tempStore(t)
	var c checkpoint.Changes
	c.KeepHeader([]byte{1}) // the lines have all
	b := checkpoint.NewBatch()
	b.Add("pods", &c)
	mustCommit(t, store, b)
	got, err := Recover(t.Context(), j, store)
	if want := (Recovered{Seq: uint64(len(lines)), Lines: len(lines)}); err != nil || got.Seq != want.Seq || got.Lines != want.Lines || got.Cut != 0 {
		t.Fatalf("Recover = %+v, %v, want %+v", got, err, want)
	}
	for i := range 2 {
		for levels := 9_990; levels <= 10_010; levels++ {
			_, kept, err := store.Kept(nil, "pods", nil, fmt.Appendf(nil, "p%d-%d", i, levels))
			if err != nil || kept != (levels <= 9_997) {
				t.Errorf("%d levels: kept %v, %v", levels, kept, err)
			}
		}
	}
}
