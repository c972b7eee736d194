package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

func commitKept(t testing.TB, s *Store, stream string, change func(*Changes)) {
	t.Helper()
	var c Changes
	change(&c)
	b := NewBatch()
	b.Add(stream, &c)
	mustCommit(t, s, b)
}

func kept(t testing.TB, s *Store, stream, name string) string {
	t.Helper()
	v, ok, err := s.Kept([]byte("before:"), stream, []byte("default"), []byte(name))
	if err != nil || ok != (len(v) > len("before:")) {
		t.Fatalf("Kept = %q, %v, %v", v, ok, err)
	}
	return string(v[len("before:"):])
}

// What is kept is there after the file is opened again, which checks its sum, and
// what is dropped is not.
func TestKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	s := mustOpen(t, path)
	reopen := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, path)
	}
	expect := func(stream, header string, want map[string]string) {
		t.Helper()
		if got, ok, err := s.KeptHeader(stream); err != nil || string(got) != header || ok != (header != "") {
			t.Errorf("%s: header %q, %v, %v, want %q", stream, got, ok, err, header)
		}
		for name, value := range want {
			if got := kept(t, s, stream, name); got != value {
				t.Errorf("%s: kept of %s is %.40q, want %.40q", stream, name, got, value)
			}
		}
	}
	if schema, err := s.Schema(); err != nil || schema != schemaPlain {
		t.Fatalf("schema %d, %v", schema, err)
	}
	expect("pods", "", map[string]string{"a": ""})

	long := string(bytes.Repeat([]byte("long"), 5000)) // over several pages
	for _, stream := range []string{"pods", "secrets"} {
		commitKept(t, s, stream, func(c *Changes) {
			c.KeepHeader([]byte("header"))
			for i := range 300 {
				name := fmt.Appendf(nil, "x%d", i)
				c.Put([]byte("default"), name, []byte("u"), []byte("1"))
				c.Keep([]byte("default"), name, name)
			}
			c.Keep([]byte("default"), []byte("a"), []byte("first"))
			c.Keep([]byte("default"), []byte("a"), []byte("last"))
			c.Keep([]byte("default"), []byte("b"), []byte(long))
			c.Keep([]byte("default"), []byte("c"), []byte("gone"))
			c.Unkeep([]byte("default"), []byte("c"))
		})
	}
	reopen()
	if schema, err := s.Schema(); err != nil || schema != schemaKept {
		t.Fatalf("schema %d, %v", schema, err)
	}
	expect("pods", "header", map[string]string{"a": "last", "b": long, "c": "", "x7": "x7"})
	if n, err := s.Count("pods"); err != nil || n != 300 {
		t.Errorf("%d objects known, %v", n, err)
	}

	// A log that is made later leaves the schema.
	s.policy = policy{entries: 8, share: 0, batch: 1 << 12, total: 1 << 20}
	commitKept(t, s, "pods", func(c *Changes) {
		c.Put([]byte("default"), []byte("x7"), []byte("u"), []byte("2"))
		c.Unkeep([]byte("default"), []byte("a"))
		c.Unkeep([]byte("default"), []byte("never there"))
		c.Keep([]byte("default"), []byte("b"), []byte("short"))
	})
	reopen()
	expect("pods", "header", map[string]string{"a": "", "b": "short", "x7": "x7"})
	if headers, err := s.KeptHeaders(); err != nil || len(headers) != 2 || string(headers["secrets"]) != "header" {
		t.Errorf("headers %q, %v", headers, err)
	}

	if err := errors.Join(s.DropKept("pods"), s.DropKept("never there")); err != nil {
		t.Fatal(err)
	}
	reopen()
	expect("pods", "", map[string]string{"b": "", "x7": ""})
	expect("secrets", "header", map[string]string{"b": long})
	if n, err := s.Count("pods"); err != nil || n != 300 {
		t.Errorf("%d objects known, %v", n, err)
	}
	if err := s.Forget("secrets"); err != nil {
		t.Fatal(err)
	}
	reopen()
	expect("secrets", "", map[string]string{"b": "", "x7": ""})
	if schema, err := s.Schema(); err != nil || schema != schemaKept {
		t.Errorf("schema %d, %v", schema, err)
	}
}

// An object that the filter has kept from the reader, and one that it may not have
// been told of, are both known as such, wherever they stand: in the tree, in the log
// or in both, and after the file is opened again.
func TestWithheld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	for name, p := range map[string]policy{"tree": usualPolicy, "log": {entries: 1 << 10, batch: 1 << 12, total: 1 << 20}, "compaction": {batch: 1 << 12, total: 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			path := path + name
			s := mustOpen(t, path)
			s.policy = p
			commitKept(t, s, "pods", func(c *Changes) {
				for i := range 20 {
					c.Put([]byte("default"), fmt.Appendf(nil, "x%d", i), []byte("u"), []byte("1"))
				}
				for _, name := range []string{"withheld", "withheld in doubt"} {
					c.Apply(&Transition{Type: line.Modified, Withheld: true, HeldBack: true, Namespace: []byte("default"), Name: []byte(name), UID: []byte("u"), ResourceVersion: []byte("1")})
				}
				for _, name := range []string{"told", "in doubt"} {
					c.Put([]byte("default"), []byte(name), []byte("u"), []byte("1"))
				}
			})
			commitKept(t, s, "pods", func(c *Changes) {
				for _, name := range []string{"withheld in doubt", "in doubt"} {
					k, ok, err := s.Get("pods", "default", name)
					if err != nil || !ok {
						t.Fatal(k, ok, err)
					}
					c.Redeliver(k)
				}
			})
			for range 2 {
				for name, want := range map[string]object.Known{
					"told": {}, "withheld": {Withheld: true}, "in doubt": {Doubtful: true}, "withheld in doubt": {Withheld: true, Doubtful: true},
				} {
					want.Namespace, want.Name, want.UID, want.ResourceVersion = "default", name, "u", "1"
					if k, ok, err := s.Get("pods", "default", name); !ok || err != nil || k != want {
						t.Errorf("%+v, %v, %v, want %+v", k, ok, err, want)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, path)
			}
		})
	}
}
