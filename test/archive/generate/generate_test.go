package generate

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
	"kubejournal/test/invariant"
)

// What is written is what a daemon could have written, and the same each time.
func TestJournal(t *testing.T) {
	o := Options{Bytes: 40 << 20, Segments: 5, Pods: 400, Compress: true}
	paths := [2]string{}
	for i := range paths {
		paths[i] = filepath.Join(t.TempDir(), "journal.jsonl")
		done, err := Journal(t.Context(), paths[i], o)
		if err != nil {
			t.Fatal(err)
		}
		if done.Bytes < o.Bytes || done.Bytes > o.Bytes+1<<16 {
			t.Errorf("%d bytes", done.Bytes)
		}
	}
	first, second := read(t, paths[0]), read(t, paths[1])
	if !bytes.Equal(first, second) {
		t.Error("two journals with the same options differ")
	}
	streams, err := coverage.Read(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]int{}
	for _, s := range streams {
		for _, i := range s.Intervals {
			ends[i.End]++
		}
	}
	n := len(streams)
	want := map[string]int{"Interrupted": 2 * n, "CaughtUp": 2 * n, "Expired": 3, "Stopped": n}
	if n == 0 || !maps.Equal(ends, want) {
		t.Errorf("intervals of %d streams: %v, want %v", n, ends, want)
	}
	types, late := map[string]int{}, 0
	for raw := range bytes.Lines(first) {
		var l line.Fields
		if err := l.Parse(raw); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		var h line.Header
		if err := line.ParseHeader(raw, &h); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		types[string(h.Type)+" "+string(h.Origin)]++
		if _, ok := l.Late(); ok {
			late++
		}
	}
	for _, kind := range []string{"ADDED snapshot", "ADDED watch", "MODIFIED watch", "DELETED watch", "MODIFIED relist", "GAP ", "SYNCED "} {
		if types[kind] == 0 {
			t.Errorf("no %s", kind)
		}
	}
	if late == 0 {
		t.Error("no line is late")
	}
	lines, err := invariant.ReadJournal(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(invariant.All(lines, invariant.Options{}), invariant.Changes(lines)); err != nil {
		t.Error(err)
	}
}

func TestJournalExists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Journal(context.Background(), path, Options{}); err == nil {
		t.Error("a journal was overwritten")
	}
}

// read returns all lines of a journal.
func read(t *testing.T, path string) []byte {
	t.Helper()
	all, err := segment.List(path)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for i := range all {
		if !all[i].Active {
			_, in, err := all[i].OpenIndex()
			if err != nil {
				t.Fatal(all[i].Path, err)
			}
			in.Close()
		}
		content, err := invariant.ReadFile(all[i].Path)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, content...)
	}
	return b
}
