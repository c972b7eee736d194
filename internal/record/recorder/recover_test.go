package recorder

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/faultdisk"
)

// history is a journal with what each line stands for.
type history struct {
	first   uint64 // seq of the first line
	journal []byte
	ends    []int // of line n; ends[0] is 0
	streams []string
	changes []checkpoint.Changes
	after   []content // what committing the first n lines gives
}

func newHistory(t testing.TB, first uint64, n int, seed uint64) *history {
	t.Helper()
	sources := []*source{newSource(t, "pods", seed), newSource(t, selected, seed+1), newSource(t, "a", seed+2)}
	h := &history{first: first, ends: []int{0}}
	store := tempStore(t)
	h.after = append(h.after, contentOf(t, store))
	for i := range n {
		s := sources[sources[0].rand.IntN(len(sources))]
		var c checkpoint.Changes
		h.journal = line.AppendSeq(h.journal, first+uint64(i))
		h.journal, _, _ = s.next(t, h.journal, &c)
		h.ends = append(h.ends, len(h.journal))
		h.streams, h.changes = append(h.streams, s.name), append(h.changes, c)
		mustCommit(t, store, h.batch(i, i+1, true))
		h.after = append(h.after, contentOf(t, store))
	}
	return h
}

// batch is what the lines from..to stand for; unless it is whole, the known
// objects alone, as Recover commits them on its way.
func (h *history) batch(from, to int, whole bool) *checkpoint.Batch {
	b := checkpoint.NewBatch()
	for i := from; i < to; i++ {
		c := h.changes[i]
		if !whole {
			c.State = nil
		}
		b.Add(h.streams[i], &c)
	}
	if whole {
		b.SetMark(checkpoint.Mark{Seq: h.first + uint64(to) - 1, FirstSeq: h.first, Offset: int64(h.ends[to])})
	}
	return b
}

func openJournal(t testing.TB, path string, content []byte) *journal.File {
	t.Helper()
	if err := os.WriteFile(path, content, 0o640); err != nil {
		t.Fatal(err)
	}
	j, err := journal.OpenFile(path, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// TestRecover cuts a journal after each line, and in the middle of the next,
// with each earlier line as the last that was committed.
func TestRecover(t *testing.T) {
	for _, first := range []uint64{1, 96} {
		const n = 48
		h := newHistory(t, first, n, 10+first)
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		for upTo := 0; upTo <= n; upTo++ {
			step := 1 + upTo/6
			for committed := upTo; committed >= 0; committed -= step {
				what := fmt.Sprintf("first seq %d, %d lines, %d committed", first, upTo, committed)
				torn := []byte(nil)
				if upTo < n && (upTo+committed)%2 == 0 {
					torn = h.journal[h.ends[upTo] : (h.ends[upTo]+h.ends[upTo+1])/2]
				}
				j := openJournal(t, path, append(h.journal[:h.ends[upTo]:h.ends[upTo]], torn...))
				store := tempStore(t)
				if committed > 0 {
					mustCommit(t, store, h.batch(0, committed, true))
				}
				want := Recovered{Seq: h.first + uint64(upTo) - 1, Lines: upTo - committed, Cut: int64(len(torn))}
				if upTo == 0 {
					want.Seq = 0
				}
				if got, err := Recover(t.Context(), j, store); err != nil || got != want {
					t.Fatalf("%s: Recover = %+v, %v, want %+v", what, got, err, want)
				}
				same(t, what, h.after[upTo], contentOf(t, store))
				want.Lines, want.Cut = 0, 0
				if got, err := Recover(t.Context(), j, store); err != nil || got != want {
					t.Fatalf("%s, again: Recover = %+v, %v, want %+v", what, got, err, want)
				}
				same(t, what+", again", h.after[upTo], contentOf(t, store))
				if got, _ := os.ReadFile(path); string(got) != string(h.journal[:h.ends[upTo]]) {
					t.Fatalf("%s: the journal is not its complete lines", what)
				}
				j.Close()
				store.Close()
			}
		}
	}
}

// TestRecoverAfterCrash begins where a crash between two commits of Recover
// leaves it: a part of the lines is in the checkpoint, its mark is the old one.
func TestRecoverAfterCrash(t *testing.T) {
	const n = 40
	h := newHistory(t, 1, n, 77)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	for _, committed := range []int{0, 1, 7, 20} {
		for middle := committed; middle <= n; middle++ {
			j := openJournal(t, path, h.journal)
			store := tempStore(t)
			if committed > 0 {
				mustCommit(t, store, h.batch(0, committed, true))
			}
			if middle > committed {
				mustCommit(t, store, h.batch(committed, middle, false))
			}
			if _, err := Recover(t.Context(), j, store); err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%d committed, crash after %d", committed, middle), h.after[n], contentOf(t, store))
			j.Close()
			store.Close()
		}
	}
}

// Of lines that are read back, coverage has not heard: they may show that pulses were wrong.
func TestReadBackIsMissed(t *testing.T) {
	lines := ""
	for n, more := range []string{``, `,"writtenAt":"2026-11-20T16:10:20Z"`, `,"writtenAt":"2026-11-20T16:10:21Z"`} {
		lines += fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T16:10:2%dZ","type":"ADDED","origin":"watch","id":"u%[1]d/%[1]d/ADDED","stream":"pods",`+
			`"version":"v1","resource":"pods","kind":"Pod","name":"x%[1]d","uid":"u%[1]d","resourceVersion":"%[1]d"%[3]s}`+"\n", n+1, n+2, more)
	}
	first := strings.Index(lines, "\n") + 1
	at := func(second int) int64 { return time.Date(2026, 11, 20, 16, 10, second, 0, time.UTC).UnixNano() }
	future := strings.ReplaceAll(lines[first:], "16:10:20Z", "18:10:20Z")
	for text, from := range map[string]int64{lines: 0, lines[first:]: at(20), future: 0} {
		store := tempStore(t)
		if _, err := Recover(t.Context(), openJournal(t, filepath.Join(t.TempDir(), "j"), []byte(text)), store); err != nil {
			t.Fatal(err)
		}
		states, err := store.Streams()
		if got := states["pods"].Coverage; err != nil || got.Missed != at(24) || got.MissedFrom != from {
			t.Errorf("%+v, %v, want what was missed from %d on", got, err, from)
		}
	}
}

// TestRecoverLong reads back more than Recover holds between two commits.
func TestRecoverLong(t *testing.T) {
	s := newSource(t, "pods", 1)
	var (
		lines []byte
		k     object.Known
		size  int
		n     uint64
		want  []object.Known
	)
	for size < 2*recoverBytes+recoverBytes/2 {
		n++
		k = object.Known{Namespace: strings.Repeat("n", 60), Name: strings.Repeat("x", 240) + fmt.Sprintf("%07d", n), UID: "u", ResourceVersion: fmt.Sprint(n)}
		raw := fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":"u","resourceVersion":"%d"}}`, k.Namespace, k.Name, n)
		if err := s.render.Scan([]byte(raw), &s.object); err != nil {
			t.Fatal(err)
		}
		var err error
		if lines, err = s.render.AppendLine(line.AppendSeq(lines, n), object.Line{Type: line.Added, Origin: line.FromWatch, Received: received}, &s.object); err != nil {
			t.Fatal(err)
		}
		want = append(want, object.Known{Namespace: k.Namespace, Name: k.Name, UID: k.UID, ResourceVersion: k.ResourceVersion})
		size += len(k.Namespace) + len(k.Name)
	}
	j := openJournal(t, filepath.Join(t.TempDir(), "j"), lines)
	store := tempStore(t)
	got, err := Recover(t.Context(), j, store)
	if err != nil || got != (Recovered{Seq: n, Lines: int(n)}) {
		t.Fatalf("Recover = %+v, %v, want %d lines", got, err, n)
	}
	same(t, "long", content{
		Mark:    checkpoint.Mark{Seq: n, FirstSeq: 1, Offset: int64(len(lines))},
		Streams: map[string]checkpoint.Stream{"pods": {ResourceVersion: fmt.Sprint(n)}},
		Known:   map[string][]object.Known{"pods": want},
	}, contentOf(t, store))
}

func TestRecoverBadLines(t *testing.T) {
	h := newHistory(t, 1, 20, 5)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	for name, bad := range map[string]string{
		"no JSON":   `{"seq":21,"time":` + "\n",
		"no stream": `{"seq":21,"time":"2026-11-20T16:10:22Z","type":"ADDED","id":"a/1/ADDED"}` + "\n",
		"joined":    string(h.journal[:40]) + string(h.journal[:h.ends[1]]),
		"half":      `{"seq":21` + "\n",
	} {
		whole := string(h.journal) + bad
		// Behind a commit it goes.
		store := tempStore(t)
		mustCommit(t, store, h.batch(0, 12, true))
		j := openJournal(t, path, []byte(whole))
		got, err := Recover(t.Context(), j, store)
		if err != nil || got != (Recovered{Seq: 20, Lines: 8, Cut: int64(len(bad))}) {
			t.Errorf("%s: Recover = %+v, %v", name, got, err)
		}
		same(t, name, h.after[20], contentOf(t, store))
		j.Close()
		// Without one nothing is touched.
		store = tempStore(t)
		if err := store.SetLost(); err != nil {
			t.Fatal(err)
		}
		j = openJournal(t, path, []byte(whole))
		if _, err := Recover(t.Context(), j, store); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("%s, no commit: %v", name, err)
		}
		same(t, name+", no commit", h.after[0], contentOf(t, store))
		if after, _ := os.ReadFile(path); string(after) != whole {
			t.Errorf("%s, no commit: the journal was touched", name)
		}
		j.Close()
	}
}

// TestRecoverOtherFile has a checkpoint and no journal to it, and one to which
// it does not belong.
func TestRecoverOtherFile(t *testing.T) {
	h := newHistory(t, 1, 20, 6)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	t.Run("moved away", func(t *testing.T) {
		store := tempStore(t)
		mustCommit(t, store, h.batch(0, 20, true))
		j := openJournal(t, path, nil)
		got, err := Recover(t.Context(), j, store)
		if err != nil || got != (Recovered{Seq: 20, Gone: 20}) {
			t.Fatalf("Recover = %+v, %v", got, err)
		}
		want := h.after[20]
		want.Mark = checkpoint.Mark{Seq: 20}
		same(t, "moved away", want, contentOf(t, store))
		if got, err := Recover(t.Context(), j, store); err != nil || got != (Recovered{Seq: 20}) {
			t.Fatalf("again: Recover = %+v, %v; told twice of what is gone", got, err)
		}
	})
	t.Run("cut short", func(t *testing.T) {
		store := tempStore(t)
		mustCommit(t, store, h.batch(0, 20, true))
		j := openJournal(t, path, h.journal[:h.ends[17]+5])
		got, err := Recover(t.Context(), j, store)
		if err != nil || got != (Recovered{Seq: 20, Cut: 5, Gone: 3, Hole: true}) {
			t.Fatalf("Recover = %+v, %v", got, err)
		}
	})
	t.Run("another one", func(t *testing.T) {
		other := newHistory(t, 1, 30, 1234)
		store := tempStore(t)
		mustCommit(t, store, h.batch(0, 20, true))
		j := openJournal(t, path, other.journal[:other.ends[19]])
		if _, err := Recover(t.Context(), j, store); err != nil {
			t.Fatal(err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(other.journal[:other.ends[19]]) {
			t.Error("lines of another journal were cut")
		}
	})
}

// TestRecoverInPlaceOfALostCheckpoint: what the journal tells is known, but each
// stream owes a GAP, also after a crash of the next start.
func TestRecoverInPlaceOfALostCheckpoint(t *testing.T) {
	const n = 40
	h := newHistory(t, 1, n, 5)
	j := openJournal(t, filepath.Join(t.TempDir(), "journal.jsonl"), h.journal)
	store := tempStore(t)
	if err := store.SetLost(); err != nil {
		t.Fatal(err)
	}
	want := h.after[n]
	want.Streams = maps.Clone(want.Streams)
	for name := range want.Known {
		s := want.Streams[name]
		s.PendingGap, s.Confirmed = line.CheckpointLost, 0
		want.Streams[name] = s
	}
	for name, s := range want.Streams {
		s.PendingGap, s.Confirmed = line.CheckpointLost, 0
		want.Streams[name] = s
	}
	for _, what := range []string{"first", "again"} {
		if _, err := Recover(t.Context(), j, store); err != nil {
			t.Fatal(err)
		}
		same(t, what, want, contentOf(t, store))
	}
}

// TestRecoverSinceALostCheckpoint: once a mark is committed in the place of a lost checkpoint, no stream owes a GAP for
// that again, also while others are still to write theirs.
func TestRecoverSinceALostCheckpoint(t *testing.T) {
	h := newHistory(t, 1, 30, 5)
	store := tempStore(t)
	mustCommit(t, store, h.batch(0, 15, true))
	if err := store.SetLost(); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, filepath.Join(t.TempDir(), "journal.jsonl"), h.journal)
	if _, err := Recover(t.Context(), j, store); err != nil {
		t.Fatal(err)
	}
	same(t, "lost before", h.after[30], contentOf(t, store))
}

// TestRecoverHole: committed lines are missing from the file, so that nobody
// knows what the reader has: each stream owes a GAP, and every object is in doubt.
func TestRecoverHole(t *testing.T) {
	const n = 20
	h := newHistory(t, 1, n, 6)
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	store := tempStore(t)
	before := h.batch(0, n, true)
	var previous checkpoint.Changes
	previous.KeepHeader([]byte{1})
	before.Add("pods", &previous)
	mustCommit(t, store, before)
	got, err := Recover(t.Context(), openJournal(t, path, h.journal[:h.ends[15]]), store)
	if err != nil || !got.Hole || got.Seq != n {
		t.Fatalf("Recover = %+v, %v", got, err)
	}
	is, was := contentOf(t, store), h.after[n]
	for name, st := range is.Streams {
		if st.PendingGap != line.JournalTruncated || st.ResourceVersion != was.Streams[name].ResourceVersion {
			t.Errorf("stream %s: %+v", name, st)
		}
	}
	objects := 0
	for name, known := range is.Known {
		for i, k := range known {
			before := was.Known[name][i]
			if before.Doubtful = true; k != before {
				t.Errorf("stream %s knows %+v, knew %+v", name, k, before)
			}
			objects++
		}
	}
	if objects == 0 || len(is.Streams) == 0 {
		t.Error("nothing was known")
	}
	if _, kept, err := store.KeptHeader("pods"); err != nil || kept {
		t.Errorf("previous versions are kept, so that objects to be written again would be unchanged: %v, %v", kept, err)
	}
}

// TestRecoverForgotten: lines of a stream that was reset after a crash are not
// taken in again; those of others are.
func TestRecoverForgotten(t *testing.T) {
	const n = 30
	h := newHistory(t, 1, n, 7)
	store := tempStore(t)
	mustCommit(t, store, h.batch(0, 10, true))
	if err := store.Forget("pods"); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, filepath.Join(t.TempDir(), "journal.jsonl"), h.journal)
	got, err := Recover(t.Context(), j, store)
	if err != nil || got.Seq != n || got.Lines != n-10 {
		t.Fatalf("Recover = %+v, %v", got, err)
	}
	want := h.after[n]
	if _, told := want.Streams["pods"]; !told {
		t.Fatal("the history has no pods")
	}
	want.Streams, want.Known = maps.Clone(want.Streams), maps.Clone(want.Known)
	delete(want.Streams, "pods")
	delete(want.Known, "pods")
	same(t, "forgotten", want, contentOf(t, store))
	if again, err := Recover(t.Context(), j, store); err != nil || again.Lines != 0 {
		t.Fatalf("again: Recover = %+v, %v", again, err)
	}
}

// TestRecoverSyncs: the process that wrote the lines may have been killed before its sync. So they are synced before
// they are committed, also by a call that is interrupted.
func TestRecoverSyncs(t *testing.T) {
	h := newHistory(t, 1, 20, 8)
	for _, lines := range []int{5, 1 << 20} { // until ctx ends
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		openJournal(t, path, h.journal).Close()
		syncs := 0
		j, err := journal.OpenFile(path, journal.Options{Disk: faultdisk.New(func(op faultdisk.Op) faultdisk.Fault {
			if op.Kind == faultdisk.Sync && op.Path == path {
				syncs++
			}
			return faultdisk.None
		})})
		if err != nil {
			t.Fatal(err)
		}
		store := tempStore(t)
		mustCommit(t, store, h.batch(0, 3, true))
		_, err = Recover(&countdown{t.Context(), lines}, j, store)
		_, interrupted, readErr := store.Recovery()
		if interrupted != (err != nil) || interrupted != (lines == 5) || readErr != nil {
			t.Fatalf("Recover = %v, interrupted: %v, %v", err, interrupted, readErr)
		}
		if syncs == 0 {
			t.Errorf("interrupted: %v, committed without a sync", interrupted)
		}
		j.Close()
	}
}

// TestRecoverReleases: what Recover has committed is not read back any more, so that the journal may compress it.
func TestRecoverReleases(t *testing.T) {
	h := newHistory(t, 1, 20, 9)
	dir := t.TempDir()
	rotated := filepath.Join(dir, "journal-2026-11-20T16-10-22.000.jsonl")
	if err := os.WriteFile(rotated, h.journal[:h.ends[10]], 0o640); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "journal.jsonl")
	if err := os.WriteFile(path, h.journal[h.ends[10]:], 0o640); err != nil {
		t.Fatal(err)
	}
	j, err := journal.OpenFile(path, journal.Options{Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := Recover(t.Context(), j, tempStore(t)); err != nil {
		t.Fatal(err)
	}
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		if _, err := os.Stat(rotated + ".gz"); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the rotated file is not compressed")
		}
	}
}
