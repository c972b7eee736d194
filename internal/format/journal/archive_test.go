package journal

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/format/segment"
)

// checkIndexes checks that each index is about its segment and has its lines; and, if all of them are there, that each
// Rotated segment has one.
func (k *keeper) checkIndexes(there bool) error {
	segments, err := segment.List(k.path)
	if err != nil {
		return err
	}
	var errs []error
	since := segments[0].FirstSeq // nothing is missing from there on
	for _, s := range segments {
		if s.Active || !s.Ours {
			continue
		}
		if err := checkIndex(s, since); err != nil && (there || !errors.Is(err, fs.ErrNotExist)) {
			errs = append(errs, fmt.Errorf("%s: %w", s.Path, err))
		}
	}
	return errors.Join(errs...)
}

func checkIndex(s segment.Segment, since uint64) error {
	x, in, err := s.OpenIndex()
	if err != nil {
		return err
	}
	defer in.Close()
	var r segment.Reader
	defer r.Close()
	if err := r.Open(s, 0); err != nil {
		return err
	}
	n := 0
	var direct segment.Reader // begins at each line, or at many
	defer direct.Close()
	for ; ; n++ {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		at, err := x.Line(n)
		if err != nil {
			return err
		}
		if at.Seq != l.Seq || at.Offset != l.Offset {
			return fmt.Errorf("line %d at %d is line %d at %d in the index", l.Seq, l.Offset, at.Seq, at.Offset)
		}
		if n > 100 && n%97 != 0 {
			continue
		}
		if err := direct.Open(s, at.Offset); err != nil {
			return err
		}
		if d, err := direct.Next(); err != nil || d.Seq != l.Seq || d.Offset != l.Offset {
			return fmt.Errorf("line %d at %d is read as line %d at %d: %w", l.Seq, l.Offset, d.Seq, d.Offset, err)
		}
		stream := x.Streams[0].Name
		if !strings.HasPrefix(stream, "pods") {
			return fmt.Errorf("stream %q", stream)
		}
	}
	if n != x.Lines || x.Since > s.FirstSeq {
		return fmt.Errorf("%d lines, and %d in the index, since %d", n, x.Lines, x.Since)
	}
	return nil
}

const memberSize = 256 << 10 // as segment.Compress makes them

// TestMembers reads a segment of several gzip members, one of which has a line that is longer than members are.
func TestMembers(t *testing.T) {
	inBubble(t, Options{MaxSize: 3 * memberSize, Compress: true}, func(r *rig) {
		write := func(p string) {
			t.Helper()
			if _, err := r.j.Write([]byte(p)); err != nil {
				t.Fatal(err)
			}
		}
		long := strings.Replace(numbered(2), `}`, `,"object":{"a":"`+strings.Repeat("x", memberSize+memberSize/2)+`"}}`, 1)
		write(numbered(1))
		write(long)
		r.next = 3
		for range 100 {
			r.write(100)
		}
		r.commitAll()
		r.wait(time.Second)
		if err := r.checkIndexes(true); err != nil {
			t.Error(err)
		}
		segments, err := segment.List(r.path)
		if err != nil || len(segments) < 2 {
			t.Fatalf("%d segments: %v", len(segments), err)
		}
		x, in, err := segments[0].OpenIndex()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if _, first := x.Member(int64(len(numbered(1)))); first != int64(len(numbered(1))) {
			t.Errorf("the long line's member begins at %d", first)
		}
		content, err := os.ReadFile(segments[0].Path)
		if err != nil {
			t.Fatal(err)
		}
		var plain []byte
		for n := 0; ; n++ {
			zipped, from := x.Member(int64(len(plain)))
			if from != int64(len(plain)) {
				t.Fatalf("no member begins at %d", len(plain))
			}
			in := bytes.NewReader(content[zipped:])
			z, err := gzip.NewReader(in)
			if err != nil {
				t.Fatal(err)
			}
			z.Multistream(false)
			member, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasSuffix(member, []byte("\n")) || len(member) > memberSize && bytes.Count(member, []byte("\n")) > 1 {
				t.Errorf("member %d has %d bytes and %d lines", n, len(member), bytes.Count(member, []byte("\n")))
			}
			if plain = append(plain, member...); in.Len() == 0 {
				break
			}
		}
		if int64(len(plain)) != x.Size {
			t.Errorf("the members have %d bytes of %d", len(plain), x.Size)
		}
		// With either index a reader begins at a member.
		s := segments[0]
		if _, err := s.MakeIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, s := range []segment.Segment{s, segments[0]} {
			lines := segment.Reader{Passed: new(atomic.Int64)}
			at := int64(len(numbered(1)))
			if err := lines.Open(s, x.Size-at); err != nil {
				t.Fatal(err)
			}
			lines.Close()
			if zipped, _ := x.Member(x.Size - at); zipped == 0 || lines.Passed.Load() > int64(len(content))-zipped {
				t.Errorf("the last line was found behind %d of %d bytes; its member begins at %d", lines.Passed.Load(), len(content), zipped)
			}
		}
	})
}
