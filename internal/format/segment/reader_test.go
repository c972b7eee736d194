package segment

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const rotatedName = "journal-2026-11-20T16-10-22.123.jsonl"

// numbered is one line of a length that depends on its seq, with its end.
func numbered(seq uint64) string {
	return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T16:10:22.000000000Z","type":"ADDED","stream":"pods%s"}`, seq, strings.Repeat("u", int(seq*7%23))) + "\n"
}

func lines(from, to uint64) string {
	var b strings.Builder
	for seq := from; seq <= to; seq++ {
		b.WriteString(numbered(seq))
	}
	return b.String()
}

// segmentWith makes a segment of text, plain or compressed.
func segmentWith(t testing.TB, text string, compress bool) Segment {
	t.Helper()
	s := Segment{Path: filepath.Join(t.TempDir(), rotatedName), Size: int64(len(text)), Gzip: compress}
	b := []byte(text)
	if compress {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, err := w.Write(b)
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		s.Path, b = s.Path+Gzipped, z.Bytes()
	}
	if err := os.WriteFile(s.Path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// read is all lines that r gives, and what ended it.
func read(r *Reader) (all []RawLine, err error) {
	for {
		l, err := r.Next()
		if err != nil {
			return append(all, RawLine{Offset: l.Offset}), err
		}
		l.Bytes = bytes.Clone(l.Bytes)
		all = append(all, l)
	}
}

// TestReader reads segments from each of their lines: seq, offset and bytes of what is
// a line, damaged ones among them, and a torn one at the end.
func TestReader(t *testing.T) {
	defer func(was int) { maxLine = was }(maxLine)
	maxLine = 3*readBuffer + 17
	long := func(seq string, n int) string {
		head := `{"seq":` + seq + `,"x":"`
		return head + strings.Repeat("x", n-len(head)-3) + "\"}\n"
	}
	parts := []struct {
		text string
		seq  uint64
	}{
		{numbered(1), 1}, {"\n", 0}, {"damaged\n", 0}, {long("2", readBuffer), 2}, {numbered(3), 3}, {long("4", readBuffer+1), 4}, {long("5", maxLine), 5},
		{long("6", maxLine+1), 0}, {long("7", maxLine+2*readBuffer), 0}, {numbered(8), 8},
	}
	var text string
	var ends []int64 // of the parts before
	for _, p := range parts {
		ends = append(ends, int64(len(text)))
		text += p.text
	}
	for _, torn := range []string{"", numbered(9)[:20], strings.Repeat("t", 2*readBuffer)} {
		for _, compress := range []bool{false, true} {
			s := segmentWith(t, text+torn, compress)
			var r Reader
			for from := range parts {
				if err := r.Open(s, ends[from]); err != nil {
					t.Fatal(err)
				}
				all, err := read(&r)
				if err != io.EOF || len(all) != len(parts)-from+1 || string(r.Torn()) != torn {
					t.Fatalf("gzip %v from %d: %d lines, %v, %d bytes torn", compress, from, len(all), err, len(r.Torn()))
				}
				for i, p := range parts[from:] {
					l := all[i]
					if l.Seq != p.seq || l.Offset != ends[from+i] || !strings.HasPrefix(p.text, string(l.Bytes)) || len(p.text) <= maxLine && len(l.Bytes) != len(p.text)-1 {
						t.Errorf("gzip %v from %d, line %d: seq %d at %d, %d bytes", compress, from, i, l.Seq, l.Offset, len(l.Bytes))
					}
				}
				if end := all[len(all)-1].Offset; end != int64(len(text)) {
					t.Errorf("gzip %v from %d: the end is at %d, not %d", compress, from, end, len(text))
				}
			}
			r.Close()
		}
	}
}

// A line of the greatest length is read backward, and what is longer is no line.
func TestBackward(t *testing.T) {
	defer func(was int) { maxLine = was }(maxLine)
	maxLine = 3*firstStep + 17
	long := func(n int) string { return `{"seq":2,"x":"` + strings.Repeat("x", n-17) + "\"}\n" }
	for _, torn := range []string{"", "torn", strings.Repeat("t", 2*firstStep)} {
		text := numbered(1) + long(maxLine) + numbered(3) + "damaged\n" + numbered(5)
		b := NewBackward(strings.NewReader(text+torn), int64(len(text+torn)))
		if b.Offset() != int64(len(text)) {
			t.Errorf("lines end at %d, not %d", b.Offset(), len(text))
		}
		var seqs []uint64
		l, err := b.Next()
		for ; err == nil; l, err = b.Next() {
			if !strings.HasPrefix(text[l.Offset:], string(l.Bytes)+"\n") || l.Offset != b.Offset() {
				t.Errorf("line %d is not at %d", l.Seq, l.Offset)
			}
			seqs = append(seqs, l.Seq)
		}
		if err != io.EOF || !slices.Equal(seqs, []uint64{5, 0, 3, 2, 1}) {
			t.Errorf("%v, %v", seqs, err)
		}
	}
	text := numbered(1) + long(4*maxLine) + numbered(3)
	b := NewBackward(strings.NewReader(text), int64(len(text)))
	for _, want := range []uint64{3, 0} {
		if l, err := b.Next(); l.Seq != want || err != nil {
			t.Errorf("%d, %v, want %d", l.Seq, err, want)
		}
	}
	if _, err := b.Next(); err != io.EOF {
		t.Errorf("behind what is too long: %v", err)
	}
	if _, err := NewBackward(strings.NewReader(text), int64(len(text)+9)).Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("a file that has become shorter: %v", err)
	}
}

// A segment that was compressed since it was listed is read all the same; one that is
// gone or damaged is an error.
func TestReaderOpen(t *testing.T) {
	var r Reader
	defer r.Close()
	s := segmentWith(t, lines(1, 3), true)
	s.Path, s.Gzip = strings.TrimSuffix(s.Path, Gzipped), false
	if err := r.Open(s, int64(len(numbered(1)))); err != nil {
		t.Fatal(err)
	}
	if all, err := read(&r); err != io.EOF || len(all) != 3 || all[0].Seq != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	s = segmentWith(t, lines(1, 3), true)
	whole, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path, whole[:len(whole)-9], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Open(s, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := read(&r); err == nil || err == io.EOF {
		t.Errorf("a damaged segment ends with %v", err)
	}
	if err := os.Remove(s.Path); err != nil {
		t.Fatal(err)
	}
	if err := r.Open(s, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a file that is gone = %v", err)
	}
}
