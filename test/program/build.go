package program

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const mainModule = "kubejournal"

// Root is the folder of the main module. It walks up from the working folder, which for a test is its package's.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			for line := range strings.Lines(string(content)) {
				if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" &&
					fields[1] == mainModule {
					return dir, nil
				}
			}
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("find repository: no go.mod of module %s in or above %s", mainModule, start)
		}
	}
}

// Build builds kubejournal into dir and returns its path. args are go build's flags, and then packages that are built
// beside it, named from the root of the module. A copy stays in the repository's bin/, so that the packages of one run
// of all tests link each form of the program once.
func Build(ctx context.Context, dir string, args ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	sources := []string{"cmd", "internal", "go.mod"}
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			sources = append(sources, arg)
		}
	}
	if err := note(root, sources); err != nil {
		return "", err
	}
	form := fnv.New32()
	fmt.Fprint(form, args)
	shared := filepath.Join(root, "bin", "test", fmt.Sprintf("%x", form.Sum32()))
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return "", fmt.Errorf("build kubejournal: %w", err)
	}
	unlock, err := Lock(ctx, filepath.Join(shared, ".lock"))
	if err != nil {
		return "", fmt.Errorf("build kubejournal: %w", err)
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "go",
		slices.Concat([]string{"build", "-buildvcs=false", "-o", shared}, args, []string{"./cmd/kubejournal"})...)
	cmd.Dir = root
	// An interrupt lets the go command remove its work folder and end its compilers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubejournal: %w\n%s", err, out)
	}
	if err := copyPrograms(dir, shared); err != nil {
		return "", fmt.Errorf("build kubejournal: %w", err)
	}
	return filepath.Join(dir, "kubejournal"), nil
}

// copyPrograms makes a running program's file nobody else's: a build beside it may replace the shared one.
func copyPrograms(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), content, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// note looks at each file that a program is built from. The go tool repeats a test's last result while the files that
// the test itself has looked at stay the same, and does not see what a build in another process reads.
func note(root string, sources []string) error {
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(root, source), func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return nil // an editor's, gone since the folder was read
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("look at sources: %w", err)
		}
	}
	return nil
}

// Lock takes the lock on a file for this process, or waits for it until ctx ends. The kernel drops it with the process,
// so a killed build leaves nothing to clear away.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	const limit = time.Hour // ctx is the caller's
	err = Eventually(ctx, limit, "lock "+filepath.Base(path), func() error {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			err = Final(err)
		}
		return err
	})
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
