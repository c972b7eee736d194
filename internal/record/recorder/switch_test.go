package recorder

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/record/metrics"
)

// versionOf is the version of event i of a stream, over a step in the number of
// digits.
func versionOf(i int) string { return fmt.Sprint(95 + i) }

// watched appends a line about event i of a stream.
func watched(t testing.TB, dst []byte, stream string, i int, c *checkpoint.Changes) []byte {
	t.Helper()
	render, err := object.NewRenderer(object.Source{Stream: stream, Cluster: "c", Version: "v1", Resource: "pods", Kind: "Pod"}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	rv, name, uid := versionOf(i), fmt.Sprintf("o-%d", i), fmt.Sprintf("0000%04x-7c1e-4a5b-9d3f-000000000001", i)
	var o object.Object
	if err := render.Scan([]byte(fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":%q}}`, name, uid, rv)), &o); err != nil {
		t.Fatal(err)
	}
	if dst, err = render.AppendLine(dst, object.Line{Type: line.Added, Origin: line.FromWatch, Received: received}, &o); err != nil {
		t.Fatal(err)
	}
	c.Put(nil, []byte(name), []byte(uid), []byte(rv))
	c.State = &checkpoint.Stream{ResourceVersion: rv}
	return dst
}

// runOnce is a run that tells of the events from..to of streams, in turn, and ends well.
func runOnce(t *testing.T, out Output, store *checkpoint.Store, cfg Config, from, to int, streams ...string) {
	t.Helper()
	cfg.Metrics, cfg.Log = metrics.New("", ""), zap.NewNop()
	rec := New(out, store, cfg)
	done := make(chan error, 1)
	go func() { done <- rec.Run(t.Context()) }()
	for i := from; i < to; i++ {
		for _, stream := range streams {
			b := newProducer(stream).Batch()
			b.AddLine(watched(t, b.Lines(), stream, i, &b.Changes), line.Added, line.FromWatch, received, nil)
			if err := rec.Submit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	rec.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func commitMark(t *testing.T, store *checkpoint.Store) checkpoint.Mark {
	t.Helper()
	m, err := store.Mark()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A file that was renamed is followed by an empty one, then by stdout, then by the file again: its seq continues.
func TestStdoutBehindAnEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	store := tempStore(t)
	file := openJournal(t, path, nil)
	runOnce(t, file, store, Config{}, 0, 5, "pods")
	file.Close()
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	file = openJournal(t, path, nil)
	if _, err := Recover(t.Context(), file, store); err != nil {
		t.Fatal(err)
	}
	file.Close()
	m := commitMark(t, store)
	last := m.LastFile()
	runOnce(t, journal.NewStdout(new(bytes.Buffer)), store, Config{Seq: m.Seq, File: &last}, 5, 9, "pods")
	file = openJournal(t, path, nil)
	defer file.Close()
	if found, err := Recover(t.Context(), file, store); err != nil || found.Seq != 5 || found.Stdout != 9 {
		t.Errorf("Recover = %+v, %v; want seq 5, and 9 on stdout", found, err)
	}
}

// TestStdoutInBetween: a run to the file is killed within a write, one or two to
// stdout follow with the same checkpoint, and then one to the file again. Its torn line
// is cut off, seq continues from its last one, what stdout was told meanwhile leaves no
// gap, and the events of the file's uncommitted lines are not told in it again.
func TestStdoutInBetween(t *testing.T) {
	const events = 6 // of each of two streams in the file
	const torn = `{"seq":13,"time":"2026-11-20T16:10:22Z","ty`
	for _, old := range []bool{false, true} { // the checkpoint of a version that did not note how far the file was
		for committed := 1; committed <= events; committed++ {
			for _, told := range []int{committed, committed + 1, events, 2*events + 3} { // events of one stream on stdout
				t.Run(fmt.Sprint(old, committed, told), func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "journal.jsonl")
					store := tempStore(t)
					file := openJournal(t, path, nil)
					runOnce(t, file, store, Config{}, 0, committed, "pods", "a")
					for i := committed; i < events; i++ {
						for j, stream := range []string{"pods", "a"} {
							l := watched(t, line.AppendSeq(nil, uint64(2*i+j+1)), stream, i, new(checkpoint.Changes))
							if _, err := file.Write(l); err != nil {
								t.Fatal(err)
							}
						}
					}
					if _, err := file.Write([]byte(torn)); err != nil {
						t.Fatal(err)
					}
					file.Close()

					var stdout bytes.Buffer
					for from := committed; from < told; from += events {
						m := commitMark(t, store)
						last := m.LastFile()
						runOnce(t, journal.NewStdout(&stdout), store, Config{Seq: m.Seq, File: &last}, from, min(told, from+events), "pods")
					}
					last := commitMark(t, store)
					if old && last.FirstSeq == 0 {
						b := checkpoint.NewBatch()
						b.SetMark(checkpoint.Mark{Seq: last.Seq})
						mustCommit(t, store, b)
					}

					file, err := journal.OpenFile(path, journal.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer file.Close()
					found, err := Recover(t.Context(), file, store)
					if err != nil || found.Seq != 2*events || found.Cut != int64(len(torn)) || found.Hole || found.Gone > 0 || found.Lost {
						t.Fatalf("Recover = %+v, %v", found, err)
					}
					switch {
					case told == committed && found.Stdout > 0, !old && told > committed && found.Stdout != last.Seq,
						old && last.Seq > 2*events && found.Stdout != last.Seq:
						t.Errorf("Recover = %+v, the checkpoint had %+v", found, last)
					}
					states, err := store.Streams()
					if err != nil {
						t.Fatal(err)
					}
					for stream, n := range map[string]int{"pods": max(events, told), "a": events} {
						if want := versionOf(n - 1); states[stream].ResourceVersion != want && !old {
							t.Errorf("stream %s: %+v, want version %s", stream, states[stream], want)
						}
					}
					runOnce(t, file, store, Config{Seq: found.Seq}, 30, 32, "pods", "a")
					b, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					if all := parse(t, b); len(all) != 2*events+4 || all[0].Seq != 1 { // parse checks that seq has no hole
						t.Errorf("%d lines from seq %d", len(all), all[0].Seq)
					}
					if got, err := Recover(t.Context(), file, store); err != nil || got != (Recovered{Seq: 2*events + 4}) {
						t.Errorf("the start after it: %+v, %v", got, err)
					}
				})
			}
		}
	}
}

// Lines that the file should have are missing, whatever went to stdout: that is a GAP.
func TestStdoutInBetweenAndHole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	store := tempStore(t)
	file := openJournal(t, path, nil)
	runOnce(t, file, store, Config{}, 0, 6, "pods")
	file.Close()
	m := commitMark(t, store)
	last := m.LastFile()
	runOnce(t, journal.NewStdout(new(bytes.Buffer)), store, Config{Seq: m.Seq, File: &last}, 6, 9, "pods")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file = openJournal(t, path, b[:len(b)-10])
	found, err := Recover(t.Context(), file, store)
	if err != nil || !found.Hole || found.Seq != 6 || found.Stdout != 9 {
		t.Fatalf("Recover = %+v, %v", found, err)
	}
	if st, _, err := store.Stream("pods"); err != nil || st.PendingGap != line.JournalTruncated {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestIsNews(t *testing.T) {
	at := checkpoint.Stream{ResourceVersion: "99"}
	open := checkpoint.Stream{ResourceVersion: "9", Open: &checkpoint.Gap{ResourceVersion: "99"}}
	for _, c := range []struct {
		what  string
		h     line.Header
		state checkpoint.Stream
		want  bool
	}{
		{"first line of all", line.Header{Type: line.Added, Origin: line.FromSnapshot, ResourceVersion: "5"}, checkpoint.Stream{}, true},
		{"first sync, which stdout has completed", line.Header{Type: line.Added, Origin: line.FromSnapshot, ResourceVersion: "5"}, at, false},
		{"its end", line.Header{Type: line.Synced, ResourceVersion: "98"}, at, false},
		{"event that stdout has", line.Header{Type: line.Modified, Origin: line.FromWatch, ResourceVersion: "99"}, at, false},
		{"event that it has not", line.Header{Type: line.Modified, Origin: line.FromWatch, ResourceVersion: "100"}, at, true},
		{"gap that stdout has told of", line.Header{Type: line.Gap, ResourceVersion: "99"}, at, false},
		{"gap that it has not", line.Header{Type: line.Gap, ResourceVersion: "101"}, at, true},
		{"behind a gap", line.Header{Type: line.Deleted, Origin: line.FromRelist, ResourceVersion: "7"}, open, true},
		{"the gap's end", line.Header{Type: line.Synced, ResourceVersion: "99"}, open, true},
		{"an earlier gap's end", line.Header{Type: line.Synced, ResourceVersion: "98"}, open, false},
	} {
		if got := isNews(&c.h, &c.state); got != c.want {
			t.Errorf("%s: %t, want %t", c.what, got, c.want)
		}
	}
}
