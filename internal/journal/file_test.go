package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// line is one journal line of a length that depends on its seq, with its end.
func line(seq uint64) string {
	return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T16:10:22.000000000Z","type":"ADDED","id":"%s/1/ADDED"}`, seq, strings.Repeat("u", int(seq*7%23))) + "\n"
}

func lines(from, to uint64) string {
	var b strings.Builder
	for seq := from; seq <= to; seq++ {
		b.WriteString(line(seq))
	}
	return b.String()
}

func fileWith(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustOpen(t testing.TB, path string) *File {
	t.Helper()
	j, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func contentOf(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readBack is ReadBack with the lines that it gives, each with its end again.
// Like the recorder it refuses what is not JSON.
func readBack(t testing.TB, j *File, from Mark, seq uint64) (got string, cut int64, err error) {
	t.Helper()
	var b strings.Builder
	next := uint64(0)
	cut, err = j.ReadBack(from, seq, func(l []byte, n uint64) error {
		if !json.Valid(l) {
			return ErrBadLine
		}
		if next != 0 && n != next {
			t.Errorf("seq %d where %d was due", n, next)
		}
		next = n + 1
		b.Write(l)
		b.WriteByte('\n')
		return nil
	})
	return b.String(), cut, err
}

// TestReadBackCutAnywhere cuts a journal at every byte, and reads it back from
// every line that may have been committed.
func TestReadBackCutAnywhere(t *testing.T) {
	const first, last = 8, 12 // over the step from one digit to two
	whole := lines(first, last)
	ends := []int{0}
	for seq := uint64(first); seq <= last; seq++ {
		ends = append(ends, ends[len(ends)-1]+len(line(seq)))
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
			j, err := OpenFile(path)
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
			// The journal goes on where it was cut.
			next := line(uint64(first + 100))
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

// TestReadBackGarbage has behind a commit what a crash or a power cut leaves:
// it goes, and with it all that follows.
func TestReadBackGarbage(t *testing.T) {
	committed, tail := lines(1, 5), lines(6, 8)
	mark := Mark{FirstSeq: 1, Offset: int64(len(committed))}
	for name, garbage := range map[string]string{
		"zeros":                 strings.Repeat("\x00", 4096),
		"zeros, then a line":    strings.Repeat("\x00", 4096) + "\n" + line(9),
		"half a line":           line(9)[:20],
		"half a line, then one": line(9)[:20] + line(10),
		"empty lines":           "\n\n",
		"a skipped seq":         line(10),
		"a repeated seq":        line(8),
		"a committed seq":       line(3) + line(9),
		"seq 0":                 line(0),
		"no seq":                `{"time":"2026-11-20T16:10:22Z"}` + "\n",
		"negative seq":          `{"seq":-9,"time":""}` + "\n",
		"a huge seq":            `{"seq":99999999999999999999999,"time":""}` + "\n",
		"only a seq":            `{"seq":9` + "\n" + line(9),
		"text":                  "out of disk\n",
		"more than a buffer":    strings.Repeat("x", 3*readBuffer) + "\n" + line(9),
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
		cut, err := mustOpen(t, path).ReadBack(mark, 2, refuse(5, ErrBadLine))
		if err != nil || contentOf(t, path) != lines(1, 4) || cut != int64(len(lines(5, 6))) {
			t.Errorf("cut %d, %v", cut, err)
		}
	})
	t.Run("without a commit", func(t *testing.T) {
		path := fileWith(t, whole)
		_, err := mustOpen(t, path).ReadBack(Mark{}, 0, refuse(5, ErrBadLine))
		if !errors.Is(err, ErrDamaged) || contentOf(t, path) != whole {
			t.Errorf("%v", err)
		}
	})
	t.Run("another error", func(t *testing.T) {
		other := errors.New("checkpoint is read-only")
		path := fileWith(t, whole+"torn")
		_, err := mustOpen(t, path).ReadBack(mark, 2, refuse(5, other))
		if !errors.Is(err, other) || contentOf(t, path) != whole+"torn" {
			t.Errorf("%v", err)
		}
	})
}

// TestReadBackDamaged has no commit to start from: lines behind a bad one would
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
		"seq 0":                 {lines(1, 2) + line(0), Mark{}, 0},
		"begins again":          {lines(1, 3) + lines(1, 3), Mark{}, 0},
		"another file, later":   {lines(20, 30), Mark{FirstSeq: 1, Offset: 100}, 9},
		"another file, garbage": {lines(5, 9) + "garbage\n" + line(10), Mark{FirstSeq: 1, Offset: 1 << 20}, 9},
		// The same first seq, and long enough, but not what was committed there.
		"took the file's place": {lines(1, 9) + line(9) + line(30), Mark{FirstSeq: 1, Offset: int64(len(lines(1, 9))) + 5}, 9},
		"another line there":    {lines(1, 9) + line(30) + torn, Mark{FirstSeq: 1, Offset: int64(len(lines(1, 9)))}, 7},
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
		"rotated, torn":       {lines(10, 12) + line(13)[:9], mark, 9, lines(10, 12), lines(10, 12)},
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

func TestOpenFileRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"text":             "Dear diary\n",
		"other JSON lines": `{"level":"info","msg":"hello"}` + "\n",
		"no number":        `{"seq":"1","time":""}` + "\n",
		"blank before":     " " + line(1),
		"array":            "[]",
		"zeros":            strings.Repeat("\x00", 5000),
		"one byte":         "x",
		"seq 0":            line(0),
		"seq only":         `{"seq":12345678901234567890123}` + "\n",
	} {
		path := fileWith(t, content)
		_, err := OpenFile(path)
		if !errors.Is(err, ErrNotJournal) {
			t.Errorf("%s: OpenFile = %v", name, err)
		}
		if contentOf(t, path) != content {
			t.Errorf("%s: the file was touched", name)
		}
	}
	dir := t.TempDir()
	for name, path := range map[string]string{"folder": dir, "device": os.DevNull, "missing folder": filepath.Join(dir, "none", "j")} {
		if _, err := OpenFile(path); err == nil || errors.Is(err, ErrLocked) {
			t.Errorf("%s: OpenFile = %v", name, err)
		}
	}
}

const helperEnv = "KUBEJOURNAL_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		j, err := OpenFile(path)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		defer j.Close()
		fmt.Println("held")
		os.Stdin.Read(make([]byte, 1)) // until the parent closes it
		return
	}
	os.Exit(m.Run())
}

func TestOpenFileLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := mustOpen(t, path)
	if _, err := j.Write([]byte(line(1))); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second OpenFile = %v", err)
	}
	if got := contentOf(t, path); got != line(1) {
		t.Errorf("a reader gets %q", got)
	}
	j.Close()

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4)
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "held" {
		t.Fatalf("the other process said %q, %v", said, err)
	}
	if _, err := OpenFile(path); !errors.Is(err, ErrLocked) {
		t.Errorf("OpenFile while another process holds it = %v", err)
	}
	in.Close()
	cmd.Wait()
	mustOpen(t, path)
}

func TestFileMode(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	mustOpen(t, path)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestMarkFollowsWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := mustOpen(t, path)
	if j.Mark() != (Mark{}) {
		t.Errorf("mark of an empty file %+v", j.Mark())
	}
	if _, err := j.Write([]byte(lines(41, 43))); err != nil {
		t.Fatal(err)
	}
	want := Mark{FirstSeq: 41, Offset: int64(len(lines(41, 43)))}
	if j.Mark() != want {
		t.Errorf("mark %+v, want %+v", j.Mark(), want)
	}
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if j = mustOpen(t, path); j.Mark() != want {
		t.Errorf("mark after opening %+v, want %+v", j.Mark(), want)
	}
}

// TestPartialWrite lets the kernel take a part (a limit on the file's size
// stands for a full disk) and goes on from there, as the recorder does.
func TestPartialWrite(t *testing.T) {
	path := os.Getenv("KUBEJOURNAL_TEST_PARTIAL")
	if path == "" {
		path = filepath.Join(t.TempDir(), "journal.jsonl")
		cmd := exec.Command(os.Args[0], "-test.run=^TestPartialWrite$")
		cmd.Env = append(os.Environ(), "KUBEJOURNAL_TEST_PARTIAL="+path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := contentOf(t, path); got != lines(1, 60) {
			t.Errorf("the file holds %d bytes, want %d", len(got), len(lines(1, 60)))
		}
		return
	}
	const limit = 1000 // within a line; how much of a write fits below it is the kernel's choice
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, path)
	p := []byte(lines(1, 60))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	done, err := j.Write(p[:limit/2])
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		n, err := j.Write(p[done:])
		if done += n; done > limit || !errors.Is(err, syscall.EFBIG) {
			t.Fatalf("Write = %d, %v", n, err)
		}
		// There may be more in the file than os.File.WriteAt admits.
		got := contentOf(t, path)
		if j.Mark() != (Mark{FirstSeq: 1, Offset: int64(done)}) || len(got) < done || !strings.HasPrefix(string(p), got) {
			t.Fatalf("mark %+v after %d bytes, the file holds %q", j.Mark(), done, got)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if n, err := j.Write(p[done:]); n != len(p)-done || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
}

// TestSyncAfterOpen: what a killed predecessor wrote, and what ReadBack cut, is
// on disk only after a sync of ours.
func TestSyncAfterOpen(t *testing.T) {
	path := fileWith(t, lines(1, 2)+"torn")
	j := mustOpen(t, path)
	if !j.unsynced.Load() {
		t.Error("nothing to sync in a file that another process wrote")
	}
	if err := j.Sync(); err != nil || j.unsynced.Load() {
		t.Errorf("Sync = %v", err)
	}
	if _, _, err := readBack(t, j, Mark{}, 0); err != nil || !j.unsynced.Load() {
		t.Errorf("nothing to sync after a cut, %v", err)
	}
	if _, err := j.Write([]byte(line(3))); err != nil {
		t.Fatal(err)
	}
	j.f.Close()
	for range 2 { // a failed sync is not forgotten
		if err := j.Sync(); err == nil {
			t.Error("Sync of a closed file succeeded")
		}
	}
}

type failingWriter struct {
	n   int
	err error
}

func (w failingWriter) Write([]byte) (int, error) { return w.n, w.err }

func TestStream(t *testing.T) {
	var b bytes.Buffer
	s := NewStream(&b)
	if n, err := s.Write([]byte(line(1))); n != len(line(1)) || err != nil || b.String() != line(1) {
		t.Errorf("Write = %d, %v", n, err)
	}
	if err := errors.Join(s.Sync(), s.Close()); err != nil || s.Mark() != (Mark{}) {
		t.Errorf("%v, mark %+v", err, s.Mark())
	}
	for _, c := range []struct {
		err    error
		closed bool
	}{
		{&os.PathError{Op: "write", Path: "stdout", Err: syscall.EPIPE}, true},
		{io.ErrClosedPipe, true},
		{syscall.ENOSPC, false},
		{syscall.EAGAIN, false},
	} {
		n, err := NewStream(failingWriter{3, c.err}).Write([]byte("12345"))
		if n != 3 || !errors.Is(err, c.err) || errors.Is(err, ErrClosed) != c.closed {
			t.Errorf("Write with %v = %d, %v", c.err, n, err)
		}
	}
}

func TestStreamPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	if _, err := NewStream(w).Write([]byte(line(1))); !errors.Is(err, ErrClosed) {
		t.Errorf("Write to a pipe without a reader = %v", err)
	}
}

// FuzzReadBack appends any bytes to a journal whose first lines are committed,
// or takes any bytes for one: what comes out is whole lines in order, and the
// file afterwards is a beginning of what it was.
func FuzzReadBack(f *testing.F) {
	f.Add(0, []byte(lines(1, 3)))
	f.Add(3, []byte(lines(4, 5)+`{"seq":6`))
	f.Add(3, []byte("\x00\x00\n"+line(4)))
	f.Add(1, []byte(line(3)+line(2)))
	f.Add(0, []byte(`{"seq":1`))
	f.Add(3, []byte("{\"seq\":4A\n"))
	f.Add(0, []byte(`{"seq":18446744073709551615,}`+"\n"+line(0)))
	f.Fuzz(func(t *testing.T, committed int, tail []byte) {
		seq := uint64(min(max(committed, 0), 9))
		head := lines(1, seq)
		var mark Mark
		if seq > 0 {
			mark = Mark{FirstSeq: 1, Offset: int64(len(head))}
		}
		whole := head + string(tail)
		path := fileWith(t, whole)
		j, err := OpenFile(path)
		if err != nil {
			if !errors.Is(err, ErrNotJournal) || contentOf(t, path) != whole {
				t.Fatalf("OpenFile = %v", err)
			}
			return
		}
		defer j.Close()
		last := seq
		var got []byte
		cut, err := j.ReadBack(mark, seq, func(l []byte, n uint64) error {
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
		if after != head+string(got) || !strings.HasPrefix(whole, after) || cut != int64(len(whole)-len(after)) {
			t.Fatalf("read back %q, cut %d, left %q of %q", got, cut, after, whole)
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
