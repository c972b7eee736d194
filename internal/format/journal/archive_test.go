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

	"kubejournal/internal/format/index"
)

// checkIndexes checks that each index is about its segment and has its lines; and, if all of them are there, that each
// Rotated segment has one.
func (k *keeper) checkIndexes(there bool) error {
	segments, err := Segments(k.path)
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

func checkIndex(s Segment, since uint64) error {
	x, in, err := s.OpenIndex()
	if err != nil {
		return err
	}
	defer in.Close()
	var r Reader
	defer r.Close()
	if err := r.Open(s, 0); err != nil {
		return err
	}
	n := 0
	var direct Reader // begins at each line, or at many
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
		segments, err := Segments(r.path)
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
		for _, s := range []Segment{s, segments[0]} {
			lines := Reader{Passed: new(atomic.Int64)}
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

// TestEndlessLine makes the index of files with lines that are longer than one can be: no more than one line is held, the
// first that is passed over is named, and the lines around it are there.
func TestEndlessLine(t *testing.T) {
	defer func(was int) { maxLine = was }(maxLine)
	maxLine = 2*memberSize + 17
	line := func(seq int) string {
		return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T12:00:00Z","type":"SYNCED","stream":"pods"}`, seq) + "\n"
	}
	first := line(1)
	endless := line(2)[:60] + strings.Repeat("x", 20*memberSize)
	for name, text := range map[string]string{
		"without an end":          first + line(2) + endless,
		"between":                 first + endless + "\n" + line(2),
		"no longer than allowed":  first + strings.Repeat("x", maxLine-1) + "\n" + line(2),
		"longer by one byte":      first + strings.Repeat("x", maxLine) + "\n" + line(2),
		"two, then another's end": first + endless + "\n" + endless + "\n" + line(2),
	} {
		for _, zip := range []bool{false, true} {
			s := segmentWith(t, text, zip)
			x, err := s.MakeIndex(t.Context())
			if err != nil || x.Lines != 2 {
				t.Fatalf("%s: %+v, %v", name, x, err)
			}
			last, err := x.Line(1)
			at := int64(strings.LastIndex(text, line(2)))
			if err != nil || last.Seq != 2 || last.Offset != at {
				t.Errorf("%s: %+v, %v", name, last, err)
			}
			allowed := strings.HasPrefix(name, "no longer")
			if allowed != (s.Long == nil) || !allowed && !strings.HasPrefix(s.Long.Error(), "the line at offset ") {
				t.Errorf("%s: %v", name, s.Long)
			}
		}
		x := &lineIndexer{Builder: index.NewBuilder(0)}
		most := 0
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), 1000)
			if _, err := x.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest, most = rest[n:], max(most, len(x.part))
		}
		if most > maxLine {
			t.Errorf("%s: %d bytes are held", name, most)
		}
	}
}

// TestEditedLine edits a line of a file without changing its length: the index made at its rotation says so.
func TestEditedLine(t *testing.T) {
	for _, zip := range []bool{false, true} {
		text := strings.ReplaceAll(lines(1, 3), `}`, `,"object":{"a":"one"}}`)
		was := segmentWith(t, text, zip)
		is := segmentWith(t, strings.Replace(text, `"one"`, `"two"`, 1), zip)
		x, err := was.MakeIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		y, err := is.MakeIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if same, err := index.Equal(x, y, true); err != nil || same {
			t.Errorf("%v, %v", same, err)
		}
		again, err := was.MakeIndex(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if same, err := index.Equal(x, again, true); err != nil || !same {
			t.Errorf("%v, %v", same, err)
		}
	}
}
