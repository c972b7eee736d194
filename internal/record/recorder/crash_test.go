package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/record/metrics"
	"kubejournal/test/faultdisk"
	"kubejournal/test/invariant"
)

// flaky is the real journal and the real checkpoint, failing now and then:
// before, after or in the middle.
type flaky struct {
	*journal.File
	store *checkpoint.Store
	mu    sync.Mutex
	rand  *rand.Rand
	// left counts commits down; at 0 it closes enough.
	left   int
	enough chan struct{}
}

func (f *flaky) roll(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rand.IntN(n)
}

func (f *flaky) Write(p []byte) (int, error) {
	if f.roll(6) > 0 {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:f.roll(len(p)+1)])
	return n, errors.Join(err, errDisk)
}

func (f *flaky) Commit(b *checkpoint.Batch) error {
	switch f.roll(5) {
	case 0:
		return errDisk
	case 1:
		return errors.Join(f.store.Commit(b), errDisk)
	}
	if f.left--; f.left == 0 {
		close(f.enough)
	}
	return f.store.Commit(b)
}

func (f *flaky) Size() (int64, error) { return f.store.Size() }
func (f *flaky) InPlace() error       { return f.store.InPlace() }

func (f *flaky) Streams() (map[string]checkpoint.Stream, error) { return f.store.Streams() }

// TestCrash runs the recorder on a real journal and checkpoint and stops it
// dead, again and again. After each start the checkpoint says what the lines
// of the journal say, and in the end seq has no hole.
func TestCrash(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			path, db := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "c.db")
			r := rand.New(rand.NewPCG(seed, 4))
			sources := map[string]*source{}
			for _, name := range []string{"a", "b"} {
				sources[name] = newSource(t, name, seed)
			}
			for round := range 8 {
				store, err := checkpoint.Open(db)
				if err != nil {
					t.Fatal(err)
				}
				file, err := journal.OpenFile(path, journal.Options{MaxSize: 4000})
				if err != nil {
					t.Fatal(err)
				}
				found, err := Recover(t.Context(), file, store)
				if err != nil {
					t.Fatal(err)
				}
				got := contentOf(t, store)
				got.Mark.Begins = 0 // no line says it
				same(t, fmt.Sprintf("round %d", round), foldFile(t, path, found.Seq), got)

				f := &flaky{File: file, store: store, rand: rand.New(rand.NewPCG(seed, uint64(round))), left: 1 + r.IntN(4), enough: make(chan struct{})}
				rec := New(f, f, Config{Interval: time.Second, Seq: found.Seq, Metrics: metrics.New("", ""), Log: zap.NewNop()})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- rec.Run(ctx) }()
				var wg sync.WaitGroup
				for _, s := range sources {
					s.resume(t, store)
					wg.Go(func() {
						producer := newProducer(s.name)
						for n := 1; ; n++ {
							b := producer.Batch()
							for range 3 {
								l, typ, origin := s.next(t, b.Lines(), &b.Changes)
								b.AddLine(l, typ, origin, received, nil)
							}
							if rec.Submit(ctx, b) != nil || n%10 == 0 && rec.Flush(ctx) != nil {
								return
							}
						}
					})
				}
				select {
				case <-f.enough:
				case err := <-done:
					t.Fatalf("Run = %v", err)
				}
				cancel()
				wg.Wait()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Fatalf("Run = %v", err)
				}
				synctest.Wait() // a committer may be in the middle of a sync
				if err := errors.Join(file.Close(), store.Close()); err != nil {
					t.Fatal(err)
				}
				tear(t, path, r)
			}
		})
	}
}

// tear appends the beginning of a line.
func tear(t *testing.T, path string, r *rand.Rand) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return // a write was cut off as it is
	}
	torn := `{"seq":9,"time":"2026-11-20T16:10:22Z","ty`
	if err := os.WriteFile(path, append(b, torn[:r.IntN(len(torn))]...), 0o640); err != nil {
		t.Fatal(err)
	}
}

// foldFile is what the lines of a journal say, worked out here.
func foldFile(t *testing.T, path string, seq uint64) content {
	t.Helper()
	files, err := invariant.JournalFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	active := 0 // where its content begins in b
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		active = len(b)
		b = append(b, content...)
	}
	all := parse(t, b)
	if uint64(len(all)) != seq {
		t.Fatalf("%d lines, recovered seq %d", len(all), seq)
	}
	store := tempStore(t)
	defer store.Close()
	batch := checkpoint.NewBatch()
	states := map[string]checkpoint.Stream{}
	start := 0
	for end := range b {
		if b[end] != '\n' {
			continue
		}
		var h line.Header
		if err := line.ParseHeader(b[start:end], &h); err != nil {
			t.Fatal(err)
		}
		start = end + 1
		var c checkpoint.Changes
		st := states[h.Stream]
		switch h.Type {
		case line.Gap:
			st.Coverage = checkpoint.Coverage{}
			st.Open = &checkpoint.Gap{Reason: h.Reason, FromResourceVersion: h.FromResourceVersion, ResourceVersion: h.ResourceVersion}
		case line.Synced:
			st = checkpoint.Stream{ResourceVersion: h.ResourceVersion, Coverage: sinceSynced}
		case line.Deleted:
			if st.Open != nil {
				st.Open.Deleted++
			}
			c.Delete([]byte(h.Namespace), []byte(h.Name))
		case line.Added, line.Modified:
			if st.Open != nil && h.Type == line.Added {
				st.Open.Added++
			} else if st.Open != nil {
				st.Open.Modified++
			}
			if st.Open != nil && line.Later(h.ResourceVersion, st.Open.ResourceVersion) {
				st.Open.ResourceVersion = h.ResourceVersion
			}
			c.Put([]byte(h.Namespace), []byte(h.Name), []byte(h.UID), []byte(h.ResourceVersion))
		}
		if h.Origin == line.FromWatch {
			st.ResourceVersion = h.ResourceVersion
		}
		states[h.Stream] = st
		c.State = &st
		batch.Add(h.Stream, &c)
	}
	m := checkpoint.Mark{Seq: seq, Offset: int64(len(b) - active)}
	if m.Offset > 0 {
		m.FirstSeq = seq + 1 - uint64(bytes.Count(b[active:], []byte{'\n'}))
	}
	batch.SetMark(m)
	mustCommit(t, store, batch)
	return contentOf(t, store)
}

// observed is a checkpoint that reports each commit.
type observed struct {
	*checkpoint.Store
	committed func()
}

func (o observed) Commit(b *checkpoint.Batch) error {
	o.committed()
	return o.Store.Commit(b)
}

// TestTruncatedByOthers: that another process has truncated the journal is on disk before the next commit, also
// where no line comes after it.
func TestTruncatedByOthers(t *testing.T) {
	for _, lines := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			var steps []string
			disk := faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
				if op.Path == path {
					steps = append(steps, string(op.Kind))
				}
				return faultdisk.None
			})
			file, err := journal.OpenFile(path, journal.Options{Disk: disk})
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			store := observed{tempStore(t), func() { steps = append(steps, "commit") }}
			rec := New(file, store, Config{Metrics: metrics.New("", ""), Log: zap.NewNop()})
			done := make(chan error, 1)
			go func() { done <- rec.Run(t.Context()) }()
			flush := func(from, lines int) {
				t.Helper()
				b := newProducer("pods").Batch()
				for i := range lines {
					b.AddLine(watched(t, b.Lines(), "pods", from+i, &b.Changes), line.Added, line.FromWatch, received, nil)
				}
				b.Changes.State = &checkpoint.Stream{ResourceVersion: versionOf(from + lines)}
				if err := errors.Join(rec.Submit(t.Context(), b), rec.Flush(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			flush(0, 5)
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			pass(time.Minute) // the next write looks at the file again
			steps = nil
			flush(5, lines)
			want := []string{"truncate", "sync", "commit"}
			if lines > 0 {
				want = slices.Insert(want, 1, "write")
			}
			if !slices.Equal(steps, want) {
				t.Errorf("%d lines: %v, want %v", lines, steps, want)
			}
			rec.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
