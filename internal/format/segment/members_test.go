package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// TestFlippedBit flips each bit of a compressed file in turn: each line that a reader returns is as it was written, also
// where nobody reads to the end of the file.
func TestFlippedBit(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	text := strings.ReplaceAll(lines(1, 10), `}`, `,"object":{"a":"one","b":"two"}}`)
	want := strings.SplitAfter(text, "\n")
	for _, indexed := range []bool{false, true} {
		s := segmentWith(t, text, true)
		info, err := os.Stat(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		if s.Size = info.Size(); indexed {
			if _, err := s.MakeIndex(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		whole, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		var r Reader
		for bit := range 8 * len(whole) {
			damaged := bytes.Clone(whole)
			damaged[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(s.Path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			err := r.Open(s, 0)
			for n := 0; err == nil; n++ {
				var l RawLine
				if l, err = r.Next(); err == nil && string(l.Bytes)+"\n" != want[n] {
					// A file of which no index says how long it is may be one that is cut off.
					for err == nil {
						_, err = r.Next()
					}
					if indexed || !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatalf("bit %d: line %d is %q: %v", bit, n+1, l.Bytes, err)
					}
				}
			}
			r.Close()
			if !errors.Is(err, io.EOF) {
				failed++
			}
		}
		if failed == 0 {
			t.Error("no damage is noticed")
		}
	}
}

// TestForeignMember reads a member that is longer than those of kubejournal: as it comes, and not all at once.
func TestForeignMember(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	was := maxLine
	t.Cleanup(func() { maxLine = was })
	maxLine = 1 << 10
	text := ""
	for n := 1; len(text) < 2*memberSize+100; n++ {
		text += fmt.Sprintf(`{"seq":%d,"object":{"a":"%x"}}`+"\n", n, n*n*7919)
	}
	s := segmentWith(t, text, true)
	var r Reader
	if err := r.Open(s, 0); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := ""
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += string(l.Bytes) + "\n"
	}
	if got != text {
		t.Errorf("%d bytes of %d", len(got), len(text))
	}
	if len(r.unzipped.buf) > memberSize+2*gzipBuffer {
		t.Errorf("%d bytes were held", len(r.unzipped.buf))
	}
}
