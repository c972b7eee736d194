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
	"strings"
	"syscall"
	"testing"

	"kubejournal/internal/host/disk"
)

// numbered is one journal line of a length that depends on its seq, with its end.
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
	j, err := OpenFile(path, Options{})
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
	tail, err := j.ReadBack(from, seq, false, func(l []byte, n uint64) error {
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
	return b.String(), tail.Cut, err
}

func TestOpenFileRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"text":             "Dear diary\n",
		"other JSON lines": `{"level":"info","msg":"hello"}` + "\n",
		"no number":        `{"seq":"1","time":""}` + "\n",
		"blank before":     " " + numbered(1),
		"array":            "[]",
		"zeros and text":   "\x00\x00hello",
		"one byte":         "x",
		"seq 0":            numbered(0),
		"seq only":         `{"seq":12345678901234567890123}` + "\n",
	} {
		path := fileWith(t, content)
		_, err := OpenFile(path, Options{})
		if !errors.Is(err, ErrNotJournal) {
			t.Errorf("%s: OpenFile = %v", name, err)
		}
		if contentOf(t, path) != content {
			t.Errorf("%s: the file was touched", name)
		}
	}
	dir := t.TempDir()
	for name, path := range map[string]string{"folder": dir, "device": os.DevNull, "missing folder": filepath.Join(dir, "none", "j")} {
		if _, err := OpenFile(path, Options{}); err == nil || errors.Is(err, disk.ErrLocked) {
			t.Errorf("%s: OpenFile = %v", name, err)
		}
	}
}

const helperEnv = "KUBEJOURNAL_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		j, err := OpenFile(path, Options{})
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
	if _, err := j.Write([]byte(numbered(1))); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path, Options{}); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("second OpenFile = %v", err)
	}
	if got := contentOf(t, path); got != numbered(1) {
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
	if _, err := OpenFile(path, Options{}); !errors.Is(err, disk.ErrLocked) {
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
// stands for a full disk) and continues from there, as the recorder does.
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
	if !j.active.unsynced {
		t.Error("nothing to sync in a file that another process wrote")
	}
	if err := j.Sync(); err != nil || j.active.unsynced {
		t.Errorf("Sync = %v", err)
	}
	if _, _, err := readBack(t, j, Mark{}, 0); err != nil || !j.active.unsynced {
		t.Errorf("nothing to sync after a cut, %v", err)
	}
	if _, err := j.Write([]byte(numbered(3))); err != nil {
		t.Fatal(err)
	}
	j.active.f.Close()
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
	s := NewStdout(&b)
	if n, err := s.Write([]byte(numbered(1))); n != len(numbered(1)) || err != nil || b.String() != numbered(1) {
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
		n, err := NewStdout(failingWriter{3, c.err}).Write([]byte("12345"))
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
	if _, err := NewStdout(w).Write([]byte(numbered(1))); !errors.Is(err, ErrClosed) {
		t.Errorf("Write to a pipe without a reader = %v", err)
	}
}
