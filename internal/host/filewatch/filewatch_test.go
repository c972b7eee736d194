package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon is how long a change may take to be told on a machine under load; far
// less than poll.
const soon = 20 * time.Second

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

// begun looks out for a path, from when the folders are watched.
func begun(t *testing.T, path string) *Watcher {
	t.Helper()
	l := New(func() []string { return []string{path} }, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	l.heard(t) // what may have changed before
	return l
}

func (w *Watcher) heard(t *testing.T) {
	t.Helper()
	select {
	case <-w.C:
	case <-time.After(soon):
		t.Fatal("not told")
	}
}

// Whatever way a file is written in, that is told; also the second time, when
// the file may be another one.
func TestWaysToWrite(t *testing.T) {
	type way struct {
		make   func(t *testing.T, dir string) (path string)
		change func(t *testing.T, dir, content string)
	}
	plain := func(t *testing.T, dir string) string {
		path := filepath.Join(dir, "config.yaml")
		write(t, path, "a")
		return path
	}
	swap := func(t *testing.T, dir, content string) {
		// As the kubelet does with a ConfigMap.
		next, err := os.MkdirTemp(dir, "..2026_")
		must(t, err)
		write(t, filepath.Join(next, "config.yaml"), content)
		data := filepath.Join(dir, "..data")
		before, err := os.Readlink(data)
		was := err == nil
		must(t, os.Symlink(filepath.Base(next), data+"_tmp"))
		must(t, os.Rename(data+"_tmp", data))
		if was {
			must(t, os.RemoveAll(filepath.Join(dir, before)))
		}
	}
	for name, w := range map[string]way{
		"in place": {plain, func(t *testing.T, dir, content string) { write(t, filepath.Join(dir, "config.yaml"), content) }},
		"renamed over": {plain, func(t *testing.T, dir, content string) {
			write(t, filepath.Join(dir, "new"), content)
			must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "config.yaml")))
		}},
		"moved away and made": {plain, func(t *testing.T, dir, content string) {
			must(t, os.Rename(filepath.Join(dir, "config.yaml"), filepath.Join(dir, "config.yaml~")))
			write(t, filepath.Join(dir, "config.yaml"), content)
		}},
		"removed and made": {plain, func(t *testing.T, dir, content string) {
			must(t, os.Remove(filepath.Join(dir, "config.yaml")))
			write(t, filepath.Join(dir, "config.yaml"), content)
		}},
		"ConfigMap": {func(t *testing.T, dir string) string {
			swap(t, dir, "a")
			path := filepath.Join(dir, "config.yaml")
			must(t, os.Symlink(filepath.Join("..data", "config.yaml"), path))
			return path
		}, swap},
		"link to elsewhere": {func(t *testing.T, dir string) string {
			must(t, os.Mkdir(filepath.Join(dir, "there"), 0o700))
			write(t, filepath.Join(dir, "there", "real.yaml"), "a")
			must(t, os.Mkdir(filepath.Join(dir, "here"), 0o700))
			path := filepath.Join(dir, "here", "config.yaml")
			must(t, os.Symlink("../there/real.yaml", path))
			return path
		}, func(t *testing.T, dir, content string) { write(t, filepath.Join(dir, "there", "real.yaml"), content) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := begun(t, w.make(t, dir))
			for _, content := range []string{"b", "c"} {
				w.change(t, dir, content)
				l.heard(t)
			}
		})
	}
}

// What happens beside a file is not told, however much it is, and does not keep
// what happens to the file from being told.
func TestBusyFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	write(t, path, "a")
	l := begun(t, path)
	journal, err := os.Create(filepath.Join(dir, "journal.jsonl"))
	must(t, err)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := journal.WriteString("line\n"); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	select {
	case <-l.C:
		t.Error("told of a file beside it")
	case <-time.After(2 * settle):
	}
	write(t, path, "b")
	l.heard(t)
	close(stop)
	<-stopped
	must(t, journal.Close())
}

// An edit of several steps is told once they are over. A machine that is busy may make several edits of it: what is
// told comes after silence, each time.
func TestOneEditIsOneChange(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, "a")
	l := begun(t, path)
	began := time.Now()
	for range 20 {
		write(t, path, "")
		write(t, path, "b")
		must(t, os.Chmod(path, 0o640))
	}
	l.heard(t)
	for told := time.Duration(1); ; told++ {
		if took := time.Since(began); told*settle > took {
			t.Fatalf("told %d times within %s", told, took)
		}
		select {
		case <-l.C:
		case <-time.After(2 * settle):
			return
		}
	}
}

func TestOnTheWay(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	must(t, os.MkdirAll(in("real", "sub"), 0o700))
	must(t, os.Symlink("real", in("data")))
	must(t, os.Symlink(in("data", "sub"), in("real", "loop")))
	must(t, os.Symlink("self", in("self")))
	for path, want := range map[string][]string{
		in("real", "f"):            {in("real", "f")},
		in("data", "sub", "f"):     {in("data"), in("real", "sub", "f")},
		in("data", "loop", "f"):    {in("data"), in("real", "loop"), in("data"), in("real", "sub", "f")},
		in("nothing", "there"):     {in("nothing", "there")},
		in("real", "..", "real/f"): {in("real", "f")},
	} {
		if got := onTheWay(path); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := onTheWay(in("self")); len(got) == 0 || got[len(got)-1] != in("self") {
		t.Errorf("a link to itself: %q", got)
	}
}
