package archive

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kubejournal/internal/format/line"
)

// What is read back from a merged journal, once for each object that is gone, opens no file and makes no buffer,
// wherever it is.
func TestReadMerged(t *testing.T) {
	m := &mergedFiles{j: &Journal{dir: t.TempDir(), notice: func(string) {}}, next: 1}
	defer m.close()
	var ats []int64
	write := func(n, size int) {
		at, err := m.Write(fmt.Appendf(nil,
			`{"seq":%d,"time":"2026-11-20T14:00:00Z","type":"ADDED","stream":"pods","name":"n%d","object":{"pad":"%s"}}`,
			n+1, n, strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		ats = append(ats, at)
	}
	check := func(n int) {
		l, err := m.Read(ats[n])
		if err != nil || string(l.Text(line.FieldName)) != fmt.Sprint("n", n) || len(l.Object) == 0 {
			t.Fatalf("line %d: %v, %v", n, l, err)
		}
	}
	for n := range 600 {
		if n%200 == 199 { // in a file of its own
			if err := m.Hole("a", 1, 5); err != nil {
				t.Fatal(err)
			}
		}
		write(n, []int{10, 3000, 70_000}[n%3])
		check(n)
		check(rand.IntN(n + 1))
	}
	if err := m.end(); err != nil {
		t.Fatal(err)
	}
	if len(m.j.Segments) < 3 {
		t.Fatalf("%d files", len(m.j.Segments))
	}
	n := 0
	if allocs := testing.AllocsPerRun(1000, func() { n = (n + 211) % 600; _, _ = m.Read(ats[n]) }); allocs > 1 {
		t.Errorf("%v allocations for a line", allocs)
	}
	for n := range 600 {
		check(n)
	}
}

// More files than are held open at a time are read all the same.
func TestReadManyMerged(t *testing.T) {
	m := &mergedFiles{j: &Journal{dir: t.TempDir(), notice: func(string) {}}, next: 1}
	defer m.close()
	var ats []int64
	for n := range 3 * maxOpenMerged {
		at, err := m.Write(fmt.Appendf(nil,
			`{"seq":%d,"time":"2026-11-20T14:00:00Z","type":"ADDED","stream":"pods","name":"n%d"}`, n+1, n))
		if err == nil {
			err = m.Hole("a", 1, 5)
		}
		if err != nil {
			t.Fatal(err)
		}
		ats = append(ats, at)
	}
	for range 2 {
		for n, at := range ats {
			if l, err := m.Read(at); err != nil || string(l.Text(line.FieldName)) != fmt.Sprint("n", n) {
				t.Fatalf("line %d: %v, %v", n, l, err)
			}
			if len(m.open) > maxOpenMerged {
				t.Fatalf("%d files are open", len(m.open))
			}
		}
	}
}
