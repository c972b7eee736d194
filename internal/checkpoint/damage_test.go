package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
)

// openDamaged opens a damaged file: it must be refused and untouched, or open
// with one of the contents that had been committed.
func openDamaged(t *testing.T, what string, b []byte, allowed ...content) (opened bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.db")
	write(t, path, b)
	defer os.Remove(path)
	s, err := Open(path)
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerSchema) {
			t.Errorf("%s: Open = %v", what, err)
		}
		if !bytes.Equal(read(t, path), b) {
			t.Errorf("%s: the file was touched", what)
		}
		return false
	}
	defer s.Close()
	got := contentOf(t, s, "pods", "configmaps")
	for _, c := range allowed {
		if cmp.Equal(c, got) {
			return true
		}
	}
	t.Errorf("%s: opened with another content", what)
	return true
}

func TestOpenTruncated(t *testing.T) {
	want, whole := filled(t, filepath.Join(t.TempDir(), "c.db"))
	page := os.Getpagesize()
	lengths := []int{1, 7, 100, page - 1, page, page + 1, 2*page - 1}
	for n := 2 * page; n < len(whole); n += page {
		lengths = append(lengths, n, n+1, n+page/2, n+page-1)
	}
	for _, n := range lengths {
		openDamaged(t, fmt.Sprintf("cut to %d of %d bytes", n, len(whole)), whole[:min(n, len(whole))], want)
	}
	if !openDamaged(t, "whole", whole, want) {
		t.Error("the whole file does not open")
	}
}

// TestOpenFlippedMeta flips bytes of the two meta pages. One good page is
// enough; it may be the older one, whose commit is then the last.
func TestOpenFlippedMeta(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	old, _ := filled(t, path)
	s := mustOpen(t, path)
	if err := s.SetCluster("c-2"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	now := old
	now.Cluster = "c-2"
	whole := read(t, path)
	whole = whole[:min(len(whole), 1<<20)]
	page := os.Getpagesize()
	damaged := 0
	for at := 0; at < 100; at += 3 { // page header and meta
		for _, both := range []bool{false, true} {
			for which := range 2 {
				b := bytes.Clone(whole)
				b[which*page+at] ^= 0xff
				if both {
					b[(1-which)*page+16+at%64] ^= 0x55
				}
				if !openDamaged(t, fmt.Sprintf("byte %d of meta %d, both %v", at, which, both), b, old, now) {
					damaged++
				}
			}
		}
	}
	if damaged == 0 {
		t.Error("nothing of it was found damaged")
	}
}

// TestOpenDamagedPages overwrites pages of data. What is found out at Open can
// be set aside; a flipped bit inside a value may go unseen, so only calls that
// panic or end the process count here, and pages that are gone as a whole.
func TestOpenDamagedPages(t *testing.T) {
	want, whole := filled(t, filepath.Join(t.TempDir(), "c.db"))
	page := os.Getpagesize()
	damaged := 0
	for n := 2 * page; n+page <= len(whole); n += page {
		for name, fill := range map[string]byte{"zeros": 0, "ones": 0xff} {
			b := bytes.Clone(whole)
			copy(b[n:n+page], bytes.Repeat([]byte{fill}, page))
			if !openDamaged(t, fmt.Sprintf("page %d of %s", n/page, name), b, want) {
				damaged++
			}
		}
		// The end of a page that a power cut never wrote: in the middle of values.
		b := bytes.Clone(whole)
		clear(b[n+16 : n+page])
		openDamaged(t, fmt.Sprintf("page %d without its entries", n/page), b, want)
	}
	if damaged == 0 {
		t.Error("nothing of it was found damaged")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := bytes.Clone(whole)
		b[2*page+r.IntN(len(b)-2*page)] ^= byte(1 + r.IntN(255))
		path := filepath.Join(t.TempDir(), "c.db")
		write(t, path, b)
		s, err := Open(path)
		if err == nil {
			contentOf(t, s, "pods", "configmaps")
			s.Close()
		}
		os.Remove(path)
	}
}

// TestOpenDamagedValues has pages in order and values that nobody can read:
// found at Open, not later.
func TestOpenDamagedValues(t *testing.T) {
	for name, damage := range map[string]func(*bbolt.Tx) error{
		"mark":   func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyJournal, []byte(`{"seq":`)) },
		"stream": func(tx *bbolt.Tx) error { return tx.Bucket(bucketStreams).Put([]byte("pods"), []byte(`]`)) },
		"known": func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketKnown).Bucket([]byte("pods")).Put([]byte("no zero byte"), []byte{1})
		},
		"known value": func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketKnown).Bucket([]byte("pods")).Put([]byte("a\x00b"), []byte{0, 1, 2})
		},
		"no streams": func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketStreams) },
	} {
		path := filepath.Join(t.TempDir(), "c.db")
		filled(t, path)
		s := mustOpen(t, path)
		if err := s.db.Update(damage); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := Open(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: Open = %v", name, err)
		}
	}
}
