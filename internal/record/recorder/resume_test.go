package recorder

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/host/disk"
	"kubejournal/test/faultdisk"
)

// folder is a journal in several files, some of them compressed.
type folder struct {
	path  string
	marks []checkpoint.Mark // behind line n
}

// lay writes a history into files that end at random lines. Files with lines
// behind the first committed ones are compressed only where the checkpoint is
// lost, as the daemon does.
func lay(t *testing.T, h *history, r *rand.Rand, committed int, lost bool) folder {
	t.Helper()
	f := folder{path: filepath.Join(t.TempDir(), "journal.jsonl"), marks: []checkpoint.Mark{{}}}
	n := len(h.ends) - 1
	for from, file := 0, 0; from < n; file++ {
		to := min(n, from+1+r.IntN(n/2))
		content := h.journal[h.ends[from]:h.ends[to]]
		for i := from + 1; i <= to; i++ {
			f.marks = append(f.marks, checkpoint.Mark{Seq: h.first + uint64(i) - 1, FirstSeq: h.first + uint64(from), Offset: int64(h.ends[i] - h.ends[from])})
		}
		name := f.path
		if to < n {
			name = filepath.Join(filepath.Dir(f.path), fmt.Sprintf("journal-2026-11-20T16-10-22.%03d.jsonl", file))
			if r.IntN(2) == 0 && (lost || to <= committed) {
				name += ".gz"
				content = compressed(t, content)
			}
		} else {
			content = append(bytes.Clone(content), `{"seq":9,"ti`...) // torn
		}
		if err := os.WriteFile(name, content, 0o640); err != nil {
			t.Fatal(err)
		}
		from = to
	}
	return f
}

func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// dying is a disk that is killed when so many bytes have been read.
type dying struct {
	*faultdisk.Disk
	left int
}

func (d *dying) OpenFile(name string, flag int, perm os.FileMode) (disk.File, error) {
	f, err := d.Disk.OpenFile(name, flag, perm)
	return dyingFile{f, d}, err
}

type dyingFile struct {
	disk.File
	d *dying
}

func (f dyingFile) ReadAt(p []byte, at int64) (int, error) {
	whole := len(p)
	p = p[:min(whole, f.d.left)]
	n, err := f.File.ReadAt(p, at)
	f.d.left -= n
	if len(p) < whole {
		f.d.Kill()
		return n, faultdisk.ErrKilled
	}
	return n, err
}

// countdown is a context that ends when it was asked so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestRecoverInterrupted stops and kills a recovery at random places, again and
// again, with a stream that is reset in between: what it comes to in the end is
// what it comes to uninterrupted, and no start does again what one before has
// committed.
func TestRecoverInterrupted(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 20))
			n := 20 + r.IntN(120)
			lost := r.IntN(2) == 0
			h := newHistory(t, 1+uint64(r.IntN(2)*40), n, seed)
			committed := 0
			if !lost {
				committed = 1 + r.IntN(n)
			}
			f := lay(t, h, r, committed, lost)
			reset := ""
			if r.IntN(2) == 0 {
				reset = "pods"
			}

			whole := begun(t, h, f, committed, lost)
			forget(t, whole, reset)
			j, err := journal.OpenFile(f.path, journal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want, err := Recover(t.Context(), j, whole)
			if err != nil {
				t.Fatal(err)
			}
			j.Close()
			// The torn line is there again.
			active, _ := os.ReadFile(f.path)
			if err := os.WriteFile(f.path, append(active, `{"seq":9,"ti`...), 0o640); err != nil {
				t.Fatal(err)
			}

			store := begun(t, h, f, committed, lost)
			at := uint64(0)
			for round := 0; ; round++ {
				if round == 2 {
					forget(t, store, reset)
				}
				killed := &dying{Disk: faultdisk.New(nil), left: 1 << 30}
				ctx := &countdown{t.Context(), 1 << 30}
				switch {
				case round >= 3 && r.IntN(6) == 0: // to the end
				case r.IntN(2) == 0:
					ctx.left = r.IntN(n)
				default:
					killed.left = r.IntN(2 * len(h.journal))
				}
				j, err := journal.OpenFile(f.path, journal.Options{Disk: killed})
				if errors.Is(err, faultdisk.ErrKilled) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				got, err := recoverWithin(ctx, j, store, 1+r.IntN(400))
				j.Close()
				if err == nil {
					if round < 3 {
						// It came to its end before it was to be stopped.
						forget(t, store, reset)
					} else if want.Resumed = got.Resumed; got != want && got.Lines != 0 {
						t.Errorf("Recover = %+v, want %+v", got, want)
					}
					break
				}
				if !errors.Is(err, context.Canceled) && !errors.Is(err, faultdisk.ErrKilled) {
					t.Fatal(err)
				}
				was, _, err := store.Recovery()
				if err != nil {
					t.Fatal(err)
				}
				if was.Mark.Seq < at {
					t.Fatalf("read up to %d, then up to %d", at, was.Mark.Seq)
				}
				at = was.Mark.Seq
			}
			same(t, fmt.Sprintf("lost %v, %d of %d committed, reset %q", lost, committed, n, reset), contentOf(t, whole), contentOf(t, store))
			if _, under, err := store.Recovery(); err != nil || under {
				t.Errorf("a recovery is under way: %v", err)
			}
			if is, _ := store.Lost(); is != lost {
				t.Errorf("lost is %v", is)
			}
		})
	}
}

// begun is a checkpoint at the commit of the first lines, or a new one.
func begun(t *testing.T, h *history, f folder, committed int, lost bool) *checkpoint.Store {
	t.Helper()
	if lost {
		store, err := checkpoint.OpenTemp()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	store := tempStore(t)
	b := h.batch(0, committed, true)
	b.SetMark(f.marks[committed])
	mustCommit(t, store, b)
	return store
}

func forget(t *testing.T, store *checkpoint.Store, stream string) {
	t.Helper()
	if stream == "" {
		return
	}
	if err := store.Forget(stream); err != nil {
		t.Fatal(err)
	}
}
