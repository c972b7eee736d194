package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"kubejournal/internal/format/object"
	"kubejournal/internal/host/disk"
)

// helperEnv makes the test binary open the checkpoint that it names, and hold it
// until its standard input ends. fileLimitEnv is the largest file in bytes that
// it may write.
const (
	helperEnv    = "KUBEJOURNAL_TEST_HOLD"
	fileLimitEnv = "KUBEJOURNAL_TEST_FILE_LIMIT"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		os.Exit(hold(path))
	}
	status := m.Run()
	removeShared()
	os.Exit(status)
}

func hold(path string) (status int) {
	if limit := os.Getenv(fileLimitEnv); limit != "" {
		n, err := strconv.ParseUint(limit, 10, 64)
		if err == nil {
			signal.Ignore(syscall.SIGXFSZ) // the error is enough
			err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n})
		}
		if err != nil {
			fmt.Println(err)
			return 3
		}
	}
	s, err := Open(path)
	if err != nil {
		fmt.Println(err)
		if errors.Is(err, ErrDamaged) {
			return 2
		}
		return 1
	}
	defer s.Close()
	fmt.Println("held")
	os.Stdin.Read(make([]byte, 1)) // until the parent closes it
	return 0
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// filled makes a checkpoint with something of everything, in pages of all
// kinds, closes it, and returns its content and bytes.
func filled(t testing.TB, path string) (content, []byte) {
	t.Helper()
	s := mustOpen(t, path)
	if err := s.SetCluster("c-1"); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		b := NewBatch()
		for _, name := range []string{"pods", "configmaps"} {
			var c Changes
			for i := range 600 {
				put(&c, object.Known{Namespace: "default", Name: fmt.Sprintf("%s-%04d", name, i), UID: uuid(uint64(i)), ResourceVersion: fmt.Sprint(round*1000 + i)})
			}
			c.State = &Stream{ResourceVersion: fmt.Sprint(round), Open: &Gap{ResourceVersion: "7"}}
			b.Add(name, &c)
		}
		b.SetMark(Mark{Seq: uint64(round + 1), FirstSeq: 1, Offset: 100})
		mustCommit(t, s, b)
	}
	c := contentOf(t, s, "pods", "configmaps")
	used := usedBytes(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// bbolt grows the file by 16 MiB: copies of it are kept small.
	if err := os.Truncate(path, used); err != nil {
		t.Fatal(err)
	}
	return c, read(t, path)
}

func TestOpenCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := mustOpen(t, path)
	if !isNew(t, s) || s.Path() != path {
		t.Errorf("new: %v, Path = %s", isNew(t, s), s.Path())
	}
	if err := s.SetCluster("u"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = mustOpen(t, path)
	if isNew(t, s) {
		t.Error("new on the second Open")
	}
	if uid, err := s.Cluster(); uid != "u" || err != nil {
		t.Errorf("Cluster = %q, %v", uid, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left := names(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("Open left %v", left)
	}
}

// isNew reports whether nothing was committed to a checkpoint.
func isNew(t *testing.T, s *Store) bool {
	t.Helper()
	marked, err := s.Marked()
	uid, err2 := s.Cluster()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return !marked && uid == ""
}

// names are a folder's files, owners' notes left out.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".owner") {
			all = append(all, e.Name())
		}
	}
	return all
}

// TestOpenAfterCrash begins beside what a crash in create left: files under
// temporary names, empty and torn.
func TestOpenAfterCrash(t *testing.T) {
	dir := t.TempDir()
	_, whole := filled(t, filepath.Join(t.TempDir(), "x.db"))
	write(t, filepath.Join(dir, ".c.db.new-1"), nil)
	write(t, filepath.Join(dir, ".c.db.new-2"), whole[:5000])
	s := mustOpen(t, filepath.Join(dir, "c.db"))
	if !isNew(t, s) {
		t.Error("took a leftover for the checkpoint")
	}
	if got := contentOf(t, s, "pods"); len(got.Streams) != 0 || len(got.Known) != 0 {
		t.Errorf("a new checkpoint holds %+v", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := []byte("apiVersion: v1\nkind: ConfigMap\n")
	foreign := filepath.Join(dir, "foreign")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("raft")); return err }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for name, c := range map[string]struct {
		content []byte
		want    error
	}{
		"empty":             {[]byte{}, ErrDamaged},
		"text":              {text, ErrDamaged},
		"long text":         {bytes.Repeat(text, 10000), ErrDamaged},
		"zeros":             {make([]byte, 1<<16), ErrDamaged},
		"another program's": {read(t, foreign), ErrDamaged},
		"newer":             {schemaFile(t, SchemaVersion+1), ErrNewerSchema},
		"much newer":        {schemaFile(t, 1<<40), ErrNewerSchema},
		"schema 0":          {schemaFile(t, 0), ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.db")
			write(t, path, c.content)
			for range 2 { // the second time it is not held either
				if _, err := Open(path); !errors.Is(err, c.want) {
					t.Fatalf("Open = %v, want %v", err, c.want)
				}
			}
			if !bytes.Equal(read(t, path), c.content) {
				t.Error("the file was touched")
			}
		})
	}
}

// schemaFile is a checkpoint that says it has the schema v.
func schemaFile(t *testing.T, v uint64) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.db")
	s := mustOpen(t, path)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(keySchema, encodeSchema(v))
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	return read(t, path)
}

// TestOpenSystemErrors holds errors apart from damage: a file that is merely
// out of reach must not be set aside.
func TestOpenSystemErrors(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	write(t, plain, []byte("x"))
	for name, path := range map[string]string{
		"folder":         dir,
		"device":         os.DevNull,
		"missing folder": filepath.Join(dir, "none", "c.db"),
		"below a file":   filepath.Join(plain, "c.db"),
	} {
		_, err := Open(path)
		if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrLocked) {
			t.Errorf("%s: Open = %v", name, err)
		}
	}
	for cause, want := range map[error]error{
		syscall.ENOLCK: disk.ErrNoLocks, syscall.EOPNOTSUPP: disk.ErrNoLocks, syscall.EACCES: disk.ErrNoLocks,
		syscall.ENODEV: disk.ErrNoMapping,
	} {
		if err := openError("c", cause); !errors.Is(err, want) || !errors.Is(err, cause) {
			t.Errorf("openError(%v) = %v", cause, err)
		}
	}
	for _, cause := range []error{
		syscall.ENOMEM, syscall.ENOLCK, syscall.ENODEV, &fs.PathError{Op: "open", Path: "c", Err: syscall.EACCES},
	} {
		if err := openError("c", cause); errors.Is(err, ErrDamaged) || !errors.Is(err, cause) {
			t.Errorf("openError(%v) = %v", cause, err)
		}
	}
}

func TestOpenWithoutPermission(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	_, before := filled(t, path)
	for _, mode := range []os.FileMode{0, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if os.Geteuid() == 0 { // root may everything
			if err != nil {
				t.Fatalf("mode %v: %v", mode, err)
			}
			s.Close()
			continue
		}
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrDamaged) {
			t.Errorf("mode %v: Open = %v", mode, err)
		}
	}
	os.Chmod(path, 0o600)
	if !bytes.Equal(read(t, path), before) {
		t.Error("the file was touched")
	}
}

func TestOpenExisting(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	for name, open := range map[string]func(string) (*Store, error){"OpenExisting": OpenExisting, "OpenReadOnly": OpenReadOnly} {
		if _, err := open(path); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
			t.Errorf("%s = %v", name, err)
		}
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("made %v", left)
	}
	mustOpen(t, path).Close()
	s, err := OpenExisting(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.SetCluster("u"); err != nil {
		t.Error(err)
	}
}

// TestOpenReadOnly: readers do not hinder each other, hold off a writer, and
// change nothing.
func TestOpenReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	want, before := filled(t, path)
	stat, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var readers [2]*Store
	for i := range readers {
		if readers[i], err = OpenReadOnly(path); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, contentOf(t, readers[i], "pods", "configmaps")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if err := readers[0].SetCluster("x"); err == nil {
		t.Error("wrote through a reader")
	}
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("Open beside readers = %v", err)
	}
	for _, r := range readers {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	after, err := os.Stat(path)
	if err != nil || !after.ModTime().Equal(stat.ModTime()) || after.Size() != stat.Size() || !bytes.Equal(read(t, path), before) {
		t.Errorf("the file was touched: %v", err)
	}
	s := mustOpen(t, path)
	if _, err := OpenReadOnly(path); !errors.Is(err, ErrLocked) {
		t.Errorf("OpenReadOnly beside a writer = %v", err)
	}
	s.Close()
}

func TestOpenLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	check := func(t *testing.T) {
		t.Helper()
		start := time.Now()
		_, err := Open(path)
		if !errors.Is(err, ErrLocked) || errors.Is(err, ErrDamaged) {
			t.Fatalf("Open = %v, want ErrLocked", err)
		}
		if d := time.Since(start); d > 30*lockTimeout {
			t.Errorf("that took %v", d)
		}
	}
	t.Run("by a handle", func(t *testing.T) {
		s := mustOpen(t, path)
		check(t)
		s.Close()
	})
	t.Run("by a process", func(t *testing.T) {
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
		defer cmd.Wait()
		defer in.Close()
		said := make([]byte, 4)
		if _, err := out.Read(said); err != nil || string(said) != "held" {
			t.Fatalf("the other process said %q, %v", said, err)
		}
		check(t)
	})
	mustOpen(t, path) // free again
}

func TestConcurrentOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for range 3 {
		path := filepath.Join(t.TempDir(), "c.db")
		const n = 4
		var (
			wg     sync.WaitGroup
			stores [n]*Store
			errs   [n]error
		)
		for i := range n {
			wg.Go(func() { stores[i], errs[i] = Open(path) })
		}
		wg.Wait()
		var won *Store
		for i, err := range errs {
			switch {
			case err == nil && won == nil:
				won = stores[i]
			case err == nil:
				t.Error("two hold the file")
			case !errors.Is(err, ErrLocked):
				t.Errorf("Open = %v, want ErrLocked", err)
			}
		}
		if won == nil {
			t.Fatalf("nobody holds the file: %v", errs)
		}
		b := NewBatch()
		b.SetMark(Mark{Seq: 5})
		mustCommit(t, won, b)
		won.Close()
		// What the winner wrote stands under the name, not in a file that was replaced.
		s := mustOpen(t, path)
		if m, err := s.Mark(); err != nil || m.Seq != 5 {
			t.Errorf("Mark = %+v, %v", m, err)
		}
		if left := names(t, filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
		s.Close()
	}
}

func TestSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	write(t, path, []byte("broken"))
	if _, err := Open(path); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	kept, err := SetAside(path, time.Date(2026, 11, 20, 17, 10, 22, 123e6, time.FixedZone("", 3600)))
	if err != nil {
		t.Fatal(err)
	}
	if want := path + ".damaged-2026-11-20T16-10-22.123"; kept != want {
		t.Errorf("kept as %s, want %s", kept, want)
	}
	if got := read(t, kept); string(got) != "broken" {
		t.Errorf("kept %q", got)
	}
	if s := mustOpen(t, path); !isNew(t, s) {
		t.Error("the name is not free")
	}
	if _, err := SetAside(filepath.Join(t.TempDir(), "none"), time.Now()); err == nil {
		t.Error("set aside a file that is not there")
	}
}

func TestOpenTemp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	s, err := OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("OpenTemp left %v", left)
	}
	var c Changes
	for i := range 50_000 {
		put(&c, object.Known{Name: fmt.Sprintf("%05d", i)})
	}
	b := NewBatch()
	b.Add("s", &c)
	mustCommit(t, s, b)
	if n := len(ranged(t, s, "s")); n != 50_000 || s.Path() != "" {
		t.Errorf("%d objects, Path %s", n, s.Path())
	}
}

// TestOpenRemovesLeftOver: a crash between the steps of creating leaves a file
// under a temporary name, which the next Open removes, unless it is in use.
func TestOpenRemovesLeftOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c[1].db")
	left, used, other := temporaryOf(path)+"1", temporaryOf(path)+"2", ".c.db.new-1"
	for _, name := range []string{left, used, other} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(filepath.Join(filepath.Dir(path), used))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, want := range map[string]bool{left: false, used: true, other: true} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
