package watcher

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kubejournal/internal/event"
)

func (e *spooled) clone() spooled {
	c := *e
	for _, b := range []*[]byte{&c.namespace, &c.name, &c.uid, &c.version, &c.line} {
		*b = bytes.Clone(*b)
	}
	return c
}

func (e *spooled) String() string {
	return fmt.Sprintf("%s %s %s/%s %s %s %d bytes %.40q", e.typ, e.received.Format(time.RFC3339Nano), e.namespace, e.name, e.uid, e.version, len(e.line), e.line)
}

func equal(a, b *spooled) bool {
	return a.typ == b.typ && a.received.Equal(b.received) && bytes.Equal(a.namespace, b.namespace) && bytes.Equal(a.name, b.name) &&
		bytes.Equal(a.uid, b.uid) && bytes.Equal(a.version, b.version) && bytes.Equal(a.line, b.line)
}

// lines makes entries with lines of up to size bytes of any value.
func spoolLines(n, size int) []spooled {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]spooled, n)
	for i := range all {
		line := make([]byte, r.IntN(size+1))
		for j := range line {
			line[j] = byte(r.Uint32())
		}
		all[i] = spooled{
			typ:       []event.Type{event.Added, event.Modified, event.Deleted}[i%3],
			received:  time.Unix(0, int64(r.Uint64())),
			namespace: fmt.Appendf(nil, "ns-%d", i%4), name: fmt.Appendf(nil, "name-%d", i),
			uid: fmt.Append(nil, r.Uint64()), version: fmt.Append(nil, i), line: line,
		}
		if i%7 == 0 {
			all[i].namespace, all[i].uid = nil, nil
		}
	}
	return all
}

func TestSpool(t *testing.T) {
	for name, c := range map[string]struct {
		lines, size int
		file        bool
	}{
		"nothing":             {0, 0, false},
		"memory":              {100, 1000, false},
		"just memory":         {1, spoolMemory - 200, false},
		"one long line":       {1, 3 * spoolMemory, true},
		"file":                {5000, 2000, true},
		"lines of every size": {40, 300 << 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := spool{dir: dir}
			defer s.close()
			want := spoolLines(c.lines, c.size)
			for i := range want {
				scratch := want[i].clone()
				if err := s.add(&scratch); err != nil {
					t.Fatal(err)
				}
				// What add was given is its caller's again.
				for _, b := range [][]byte{scratch.namespace, scratch.name, scratch.uid, scratch.version, scratch.line} {
					clear(b)
				}
			}
			if c.size > 0 && (s.file != nil) != (c.file && len(want[0].line) > 0) {
				t.Errorf("file: %v, want %v", s.file != nil, c.file)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("the folder holds %v", left)
			}
			for round := range 2 { // replaying changes nothing
				i := 0
				err := s.replay(func(e *spooled) error {
					if i >= len(want) {
						return fmt.Errorf("too many: %v", e)
					}
					if !equal(e, &want[i]) {
						return fmt.Errorf("entry %d\n got  %v\n want %v", i, e, &want[i])
					}
					i++
					return nil
				})
				if err != nil || i != len(want) {
					t.Fatalf("round %d: %d of %d entries: %v", round, i, len(want), err)
				}
			}
			s.close()
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("the folder holds %v after close", left)
			}
		})
	}
}

func TestSpoolMemoryIsBounded(t *testing.T) {
	s := spool{dir: t.TempDir()}
	defer s.close()
	for _, e := range spoolLines(3000, 4000) {
		if err := s.add(&e); err != nil {
			t.Fatal(err)
		}
		if len(s.buf) >= spoolMemory {
			t.Fatalf("%d bytes in memory", len(s.buf))
		}
	}
	if s.size == 0 || cap(s.buf) > 2*spoolMemory {
		t.Errorf("%d bytes in the file, %d in memory", s.size, cap(s.buf))
	}
}

func TestSpoolStops(t *testing.T) {
	s := spool{dir: t.TempDir()}
	defer s.close()
	for _, e := range spoolLines(10, 100) {
		if err := s.add(&e); err != nil {
			t.Fatal(err)
		}
	}
	enough, n := errors.New("enough"), 0
	err := s.replay(func(*spooled) error {
		if n++; n == 4 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 4 {
		t.Errorf("after %d entries: %v", n, err)
	}
}

func TestSpoolDiskErrors(t *testing.T) {
	long := spooled{typ: event.Added, line: make([]byte, spoolMemory)}
	t.Run("no folder", func(t *testing.T) {
		s := spool{dir: filepath.Join(t.TempDir(), "missing")}
		defer s.close()
		if err := s.add(&long); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("write", func(t *testing.T) {
		s := spool{dir: t.TempDir()}
		defer s.close()
		if err := s.add(&long); err != nil {
			t.Fatal(err)
		}
		s.file.Close()
		if err := s.add(&long); !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("write of the rest", func(t *testing.T) {
		s := spool{dir: t.TempDir()}
		defer s.close()
		for _, line := range [][]byte{long.line, []byte("short")} {
			if err := s.add(&spooled{typ: event.Added, line: line}); err != nil {
				t.Fatal(err)
			}
		}
		s.file.Close()
		if err := s.replay(func(*spooled) error { return nil }); !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("file cut short", func(t *testing.T) {
		s := spool{dir: t.TempDir()}
		defer s.close()
		if err := s.add(&long); err != nil {
			t.Fatal(err)
		}
		if err := s.file.Truncate(s.size - 1); err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := s.replay(func(*spooled) error { n++; return nil }); err == nil || n > 0 {
			t.Errorf("%d entries, %v", n, err)
		}
	})
}
