package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/format/line"
)

const readBuffer, firstStep = 256 << 10, 64 << 10 // as package segment reads

// TestReadBackCutAnywhere cuts a journal at every byte, and reads it back from
// every line that may have been committed.
func TestReadBackCutAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const first, last = 8, 12 // over the step from one digit to two
	whole := lines(first, last)
	ends := []int{0}
	for seq := uint64(first); seq <= last; seq++ {
		ends = append(ends, ends[len(ends)-1]+len(numbered(seq)))
	}
	for size := 0; size <= len(whole); size++ {
		// The end of the last line that is complete in what is left.
		kept := 0
		for _, end := range ends {
			if end <= size {
				kept = end
			}
		}
		for n, from := range ends {
			mark, seq := Mark{FirstSeq: first, Offset: int64(from)}, uint64(first+n-1)
			if n == 0 {
				mark, seq = Mark{}, 0 // no commit yet
			}
			path := fileWith(t, whole[:size])
			j, err := OpenFile(path, Options{})
			if err != nil {
				t.Fatalf("cut at %d: %v", size, err)
			}
			got, cut, err := readBack(t, j, mark, seq)
			if err != nil {
				t.Fatalf("cut at %d, from seq %d: %v", size, seq, err)
			}
			if want := whole[min(from, kept):kept]; got != want {
				t.Fatalf("cut at %d, from seq %d: read back %q, want %q", size, seq, got, want)
			}
			if after := contentOf(t, path); after != whole[:kept] || cut != int64(size-kept) {
				t.Fatalf("cut at %d, from seq %d: %d bytes cut, %d of %d left, want %d", size, seq, cut, len(after), size, kept)
			}
			wantMark := Mark{FirstSeq: first, Offset: int64(kept)}
			if kept == 0 {
				wantMark.FirstSeq = 0
			}
			if j.Mark() != wantMark {
				t.Fatalf("cut at %d: mark %+v, want %+v", size, j.Mark(), wantMark)
			}
			// The journal continues where it was cut.
			next := numbered(uint64(first + 100))
			if _, err := j.Write([]byte(next)); err != nil {
				t.Fatal(err)
			}
			if after := contentOf(t, path); after != whole[:kept]+next {
				t.Fatalf("cut at %d: went on as %q", size, after)
			}
			j.Close()
			os.Remove(path)
		}
	}
}

// TestReadBackGarbage has what, after a commit, a crash or a power cut leaves:
// it goes, and with it all that follows.
func TestReadBackGarbage(t *testing.T) {
	committed, tail := lines(1, 5), lines(6, 8)
	mark := Mark{FirstSeq: 1, Offset: int64(len(committed))}
	for name, garbage := range map[string]string{
		"zeros":                 strings.Repeat("\x00", 4096),
		"zeros, then a line":    strings.Repeat("\x00", 4096) + "\n" + numbered(9),
		"half a line":           numbered(9)[:20],
		"half a line, then one": numbered(9)[:20] + numbered(10),
		"empty lines":           "\n\n",
		"a skipped seq":         numbered(10),
		"a repeated seq":        numbered(8),
		"a committed seq":       numbered(3) + numbered(9),
		"seq 0":                 numbered(0),
		"no seq":                `{"time":"2026-11-20T16:10:22Z"}` + "\n",
		"negative seq":          `{"seq":-9,"time":""}` + "\n",
		"a huge seq":            `{"seq":99999999999999999999999,"time":""}` + "\n",
		"only a seq":            `{"seq":9` + "\n" + numbered(9),
		"text":                  "out of disk\n",
		"more than a buffer":    strings.Repeat("x", 3*readBuffer) + "\n" + numbered(9),
		"buffer without an end": `{"seq":9,"` + strings.Repeat("x", 2*readBuffer),
	} {
		path := fileWith(t, committed+tail+garbage)
		j := mustOpen(t, path)
		got, cut, err := readBack(t, j, mark, 5)
		if err != nil || got != tail {
			t.Errorf("%s: read back %.100q, %v", name, got, err)
		}
		if after := contentOf(t, path); after != committed+tail || cut != int64(len(garbage)) {
			t.Errorf("%s: %d bytes cut of %d, left %.300q", name, cut, len(garbage), after)
		}
	}
}

func TestReadBackRefusedLine(t *testing.T) {
	whole := lines(1, 6)
	refuse := func(which uint64, err error) func([]byte, uint64) error {
		return func(_ []byte, seq uint64) error {
			if seq == which {
				return fmt.Errorf("seq %d: %w", seq, err)
			}
			return nil
		}
	}
	mark := Mark{FirstSeq: 1, Offset: int64(len(lines(1, 2)))}
	t.Run("behind a commit", func(t *testing.T) {
		path := fileWith(t, whole)
		tail, err := mustOpen(t, path).ReadBack(mark, 2, false, refuse(5, ErrBadLine))
		cut := tail.Cut
		if err != nil || contentOf(t, path) != lines(1, 4) || cut != int64(len(lines(5, 6))) {
			t.Errorf("cut %d, %v", cut, err)
		}
	})
	t.Run("without a commit", func(t *testing.T) {
		path := fileWith(t, whole)
		_, err := mustOpen(t, path).ReadBack(Mark{}, 0, false, refuse(5, ErrBadLine))
		if !errors.Is(err, ErrDamaged) || contentOf(t, path) != whole {
			t.Errorf("%v", err)
		}
	})
	t.Run("another error", func(t *testing.T) {
		other := errors.New("checkpoint is read-only")
		path := fileWith(t, whole+"torn")
		_, err := mustOpen(t, path).ReadBack(mark, 2, false, refuse(5, other))
		if !errors.Is(err, other) || contentOf(t, path) != whole+"torn" {
			t.Errorf("%v", err)
		}
	})
}

// TestReadBackDamaged has no commit to start from: lines after a bad one would
// not come again, so nothing may be cut.
func TestReadBackDamaged(t *testing.T) {
	const torn = `{"seq":9,"ti`
	for name, c := range map[string]struct {
		content string
		mark    Mark
		seq     uint64
	}{
		"garbage in the middle": {lines(1, 3) + "garbage\n" + lines(4, 6), Mark{}, 0},
		"zeros at the end":      {lines(1, 3) + "\x00\x00\n", Mark{}, 0},
		"a line is missing":     {lines(1, 3) + lines(5, 6) + torn, Mark{}, 0},
		"a line twice":          {lines(1, 3) + lines(3, 6), Mark{}, 0},
		"seq 0":                 {lines(1, 2) + numbered(0), Mark{}, 0},
		"begins again":          {lines(1, 3) + lines(1, 3), Mark{}, 0},
		"another file, later":   {lines(20, 30) + "garbage\n", Mark{FirstSeq: 1, Offset: 100}, 9},
		"another file, garbage": {lines(5, 9) + "garbage\n" + numbered(10), Mark{FirstSeq: 1, Offset: 1 << 20}, 9},
		// The same first seq, and long enough, but not what was committed there.
		"took the file's place": {lines(1, 9) + numbered(9) + numbered(30), Mark{FirstSeq: 1, Offset: int64(len(lines(1, 9))) + 5}, 9},
		"another line there":    {lines(1, 9) + numbered(30) + torn, Mark{FirstSeq: 1, Offset: int64(len(lines(1, 9)))}, 7},
	} {
		path := fileWith(t, c.content)
		got, _, err := readBack(t, mustOpen(t, path), c.mark, c.seq)
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, read back %.100q", name, err, got)
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
		if contentOf(t, path) != c.content {
			t.Errorf("%s: the file was touched", name)
		}
	}
}

// TestReadBackOtherFile: between two runs the file is moved away, put back
// shorter, rotated.
func TestReadBackOtherFile(t *testing.T) {
	whole := lines(1, 9)
	mark := Mark{FirstSeq: 1, Offset: int64(len(whole))}
	for name, c := range map[string]struct {
		content    string
		mark       Mark
		seq        uint64
		got, after string
	}{
		"as it was":           {whole, mark, 9, "", whole},
		"moved away":          {"", mark, 9, "", ""},
		"shrunk":              {lines(1, 4), mark, 9, "", lines(1, 4)},
		"shrunk and torn":     {whole[:len(whole)-3], mark, 9, "", lines(1, 8)},
		"rotated":             {lines(10, 12), mark, 9, lines(10, 12), lines(10, 12)},
		"rotated, torn":       {lines(10, 12) + numbered(13)[:9], mark, 9, lines(10, 12), lines(10, 12)},
		"was stdout":          {lines(10, 12), Mark{}, 9, lines(10, 12), lines(10, 12)},
		"mark within a line":  {lines(1, 11), Mark{1, mark.Offset - 3}, 9, lines(10, 11), lines(1, 11)},
		"begins within":       {lines(5, 11), Mark{1, mark.Offset}, 9, lines(10, 11), lines(5, 11)},
		"no commit, any seq":  {lines(57, 60), Mark{}, 0, lines(57, 60), lines(57, 60)},
		"empty and no commit": {"", Mark{}, 0, "", ""},
	} {
		path := fileWith(t, c.content)
		got, _, err := readBack(t, mustOpen(t, path), c.mark, c.seq)
		if err != nil || got != c.got || contentOf(t, path) != c.after {
			t.Errorf("%s: read back %q, %v, left %q", name, got, err, contentOf(t, path))
		}
	}
}

// TestReadBackLongLines has lines around the sizes of the buffers.
func TestReadBackLongLines(t *testing.T) {
	var whole []string
	for i, size := range []int{100, readBuffer - 1, readBuffer, readBuffer + 1, 50, 2 * readBuffer, 3*readBuffer + 7, firstStep, 20} {
		head := fmt.Sprintf(`{"seq":%d,"x":"`, i+1)
		whole = append(whole, head+strings.Repeat(string(rune('a'+i)), max(0, size-len(head)-3))+"\"}\n")
	}
	all := strings.Join(whole, "")
	for n := range whole {
		before := strings.Join(whole[:n], "")
		mark, seq := Mark{FirstSeq: 1, Offset: int64(len(before))}, uint64(n)
		path := fileWith(t, all+`{"seq":99`)
		got, cut, err := readBack(t, mustOpen(t, path), mark, seq)
		if err != nil || cut != int64(len(`{"seq":99`)) {
			t.Fatalf("from seq %d: cut %d, %v", n, cut, err)
		}
		if got != all[len(before):] {
			t.Fatalf("from seq %d: read back %d bytes, want %d", n, len(got), len(all)-len(before))
		}
	}
}

// FuzzReadBack appends any bytes to a journal whose first lines are committed,
// or takes any bytes for one: what comes out is whole lines in order, and the
// file afterwards is a beginning of what it was.
func FuzzReadBack(f *testing.F) {
	f.Add(0, []byte(lines(1, 3)))
	f.Add(3, []byte(lines(4, 5)+`{"seq":6`))
	f.Add(3, []byte("\x00\x00\n"+numbered(4)))
	f.Add(1, []byte(numbered(3)+numbered(2)))
	f.Add(0, []byte(`{"seq":1`))
	f.Add(3, []byte("{\"seq\":4A\n"))
	f.Add(0, []byte(`{"seq":18446744073709551615,}`+"\n"+numbered(0)))
	f.Fuzz(func(t *testing.T, committed int, tail []byte) {
		seq := uint64(min(max(committed, 0), 9))
		head := lines(1, seq)
		var mark Mark
		if seq > 0 {
			mark = Mark{FirstSeq: 1, Offset: int64(len(head))}
		}
		whole := head + string(tail)
		path := fileWith(t, whole)
		j, err := OpenFile(path, Options{})
		if err != nil {
			if !errors.Is(err, ErrNotJournal) || contentOf(t, path) != whole {
				t.Fatalf("OpenFile = %v", err)
			}
			return
		}
		defer j.Close()
		last := seq
		var got []byte
		found, err := j.ReadBack(mark, seq, false, func(l []byte, n uint64) error {
			if !json.Valid(l) {
				return ErrBadLine
			}
			if last != 0 && n != last+1 || bytes.IndexByte(l, '\n') >= 0 {
				t.Fatalf("line %q after seq %d", l, last)
			}
			last = n
			got = append(append(got, l...), '\n')
			return nil
		})
		after := contentOf(t, path)
		if err != nil {
			if !errors.Is(err, ErrDamaged) || seq > 0 || after != whole {
				t.Fatalf("ReadBack = %v, file touched: %v", err, after != whole)
			}
			return
		}
		if after != head+string(got) || !strings.HasPrefix(whole, after) || found.Cut != int64(len(whole)-len(after)) {
			t.Fatalf("read back %q, cut %d, left %q of %q", got, found.Cut, after, whole)
		}
		if j.Mark().Offset != int64(len(after)) {
			t.Fatalf("mark %+v with %d bytes", j.Mark(), len(after))
		}
		again, cut, err := readBack(t, j, mark, seq)
		if err != nil || cut != 0 || !slices.Equal([]byte(again), got) {
			t.Fatalf("the second time: %q, cut %d, %v", again, cut, err)
		}
	})
}

// Where there was no line when the checkpoint was begun, nothing is lost by
// cutting what no commit knows of.
func TestReadBackBegun(t *testing.T) {
	path := fileWith(t, lines(1, 3)+"\x00\x00\n"+lines(5, 6))
	var got []uint64
	tail, err := mustOpen(t, path).ReadBack(Mark{}, 0, true, func(_ []byte, n uint64) error {
		got = append(got, n)
		return nil
	})
	if err != nil || !slices.Equal(got, []uint64{1, 2, 3}) || tail.Cut != int64(3+len(lines(5, 6))) || contentOf(t, path) != lines(1, 3) {
		t.Errorf("read back %v, cut %d, %v", got, tail.Cut, err)
	}
}

// TestReadBackLongest has a line of the greatest length, and one that is longer.
func TestReadBackLongest(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	longest := func(n int) string {
		l := numbered(2)
		return strings.Replace(l, `{"seq":2`, `{"seq":2,"pad":"`+strings.Repeat("x", n-len(l)-len(`,"pad":""`))+`"`, 1)
	}
	committed := numbered(1)
	mark := Mark{FirstSeq: 1, Offset: int64(len(committed))}
	for n, kept := range map[int]bool{line.MaxLine: true, line.MaxLine + 1<<20: false} {
		j, err := OpenFile(fileWith(t, committed+longest(n)+numbered(3)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, cut, err := readBack(t, j, mark, 1)
		if err != nil || (len(got) == n+len(numbered(3))) != kept || (cut == 0) != kept {
			t.Errorf("%d bytes: read back %d, cut %d, %v", n, len(got), cut, err)
		}
		j.Close()
	}
}
