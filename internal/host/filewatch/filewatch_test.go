package filewatch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file in place, until its time is another one: that of many file systems is as coarse as some
// milliseconds, and no time passes within a bubble.
func write(t *testing.T, path, content string) {
	t.Helper()
	before, statErr := os.Stat(path)
	for {
		must(t, os.WriteFile(path, []byte(content), 0o600))
		is, err := os.Stat(path)
		must(t, err)
		if statErr != nil || !is.ModTime().Equal(before.ModTime()) {
			return
		}
	}
}

// watch watches files within a bubble. What may have changed before has been signaled when it returns.
func watch(t *testing.T, paths func() []string) <-chan struct{} {
	t.Helper()
	changed := make(chan struct{}, 1)
	go Run(t.Context(), paths, changed)
	<-changed
	return changed
}

// wait waits for a signal, but no longer than most, and returns how long that was.
func wait(changed <-chan struct{}, most time.Duration) time.Duration {
	began := time.Now()
	select {
	case <-changed:
	case <-time.After(most):
	}
	return time.Since(began)
}

// A file is signaled however it is written, soon and once; also the second time, when it may be another one.
func TestWaysToWrite(t *testing.T) {
	type way struct {
		make   func(t *testing.T, dir string)
		change func(t *testing.T, dir, content string)
	}
	config := func(dir string) string { return filepath.Join(dir, "config.yaml") }
	inPlace := func(t *testing.T, dir, content string) { write(t, config(dir), content[:1]) }
	plain := func(t *testing.T, dir string) { write(t, config(dir), "a") }
	swap := func(t *testing.T, dir, content string) { // as the kubelet does with a ConfigMap
		next, err := os.MkdirTemp(dir, "..2026_")
		must(t, err)
		write(t, config(next), content)
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
		"in place": {plain, inPlace},
		"in steps": {plain, func(t *testing.T, dir, content string) {
			for range 20 {
				write(t, config(dir), "")
				write(t, config(dir), content)
				must(t, os.Chmod(config(dir), 0o640))
			}
		}},
		"renamed over": {plain, func(t *testing.T, dir, content string) {
			write(t, filepath.Join(dir, "new"), content)
			must(t, os.Rename(filepath.Join(dir, "new"), config(dir)))
		}},
		"moved away and made": {plain, func(t *testing.T, dir, content string) {
			must(t, os.Rename(config(dir), config(dir)+"~"))
			write(t, config(dir), content)
		}},
		"removed and made": {plain, func(t *testing.T, dir, content string) {
			must(t, os.Remove(config(dir)))
			write(t, config(dir), content)
		}},
		"made later": {func(*testing.T, string) {}, inPlace},
		"mode": {plain, func(t *testing.T, dir, content string) {
			must(t, os.Chmod(config(dir), 0o600|fs.FileMode(len(content))))
		}},
		"ConfigMap": {func(t *testing.T, dir string) {
			swap(t, dir, "a")
			must(t, os.Symlink(filepath.Join("..data", "config.yaml"), config(dir)))
		}, swap},
		"link to elsewhere": {func(t *testing.T, dir string) {
			must(t, os.Mkdir(filepath.Join(dir, "there"), 0o700))
			write(t, filepath.Join(dir, "there", "real.yaml"), "a")
			must(t, os.Symlink("there/real.yaml", config(dir)))
		}, func(t *testing.T, dir, content string) { write(t, filepath.Join(dir, "there", "real.yaml"), content) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w.make(t, dir)
			synctest.Test(t, func(t *testing.T) {
				changed := watch(t, func() []string { return []string{config(dir)} })
				for _, content := range []string{"bb", "ccc"} {
					w.change(t, dir, content)
					if took := wait(changed, anyway); took > 2*poll {
						t.Errorf("%q is signaled after %s, want it within %s", content, took, 2*poll)
					}
					if took := wait(changed, anyway-2*poll); took < anyway-2*poll {
						t.Errorf("%q is signaled again after %s", content, took)
					}
				}
			})
		})
	}
}

// What happens beside a file is not signaled. Without any change there is a signal from time to time.
func TestUnchanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	write(t, path, "a")
	synctest.Test(t, func(t *testing.T) {
		changed := watch(t, func() []string { return []string{path, filepath.Join(dir, "none")} })
		write(t, filepath.Join(dir, "journal.jsonl"), "line\n")
		if _, err := os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if took := wait(changed, time.Hour); took != anyway {
				t.Errorf("signaled after %s, want %s", took, anyway)
			}
		}
	})
}

// A file that is written all the time is signaled all the same, and once more for the last write.
func TestWrittenAllTheTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	synctest.Test(t, func(t *testing.T) {
		changed := watch(t, func() []string { return []string{path} })
		stop := make(chan struct{})
		go func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(poll / 5):
					write(t, path, strings.Repeat("a", n))
				}
			}
		}()
		for range 5 {
			if took := wait(changed, anyway); took < settleMax-poll || took > settleMax+poll {
				t.Errorf("signaled after %s, want it after %s", took, settleMax)
			}
		}
		close(stop)
		synctest.Wait()
		write(t, path, "last") // whether the one before came after the signal is not known
		if took := wait(changed, anyway); took > 2*poll {
			t.Errorf("the last write is signaled after %s", took)
		}
	})
}

// Other files are signaled, as they may have changed before they were looked at, and watched from then on.
func TestOtherFiles(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write(t, second, "a")
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		paths := []string{first}
		changed := watch(t, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return paths
		})
		mu.Lock()
		paths = []string{second}
		mu.Unlock()
		for _, content := range []string{"", "b"} {
			if content != "" {
				write(t, second, content)
			}
			if took := wait(changed, anyway); took > 2*poll {
				t.Errorf("signaled after %s", took)
			}
		}
	})
}
