package question

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/journal"
)

// TestWhileWritten asks a journal while it is written, rotated and compressed: it answers from the files as they were when it was
// opened.
func TestWhileWritten(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const questions, lines = 15, 60
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := journal.OpenFile(path, journal.Options{MaxSize: 2000, Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var written atomic.Uint64
	write := func() error {
		seq := written.Load() + 1
		at := time.Date(2026, 11, 20, 12, 0, 0, int(seq), time.UTC).Format(time.RFC3339Nano)
		text := fmt.Sprintf(`{"seq":%d,"time":%q,"type":"ADDED","origin":"watch","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"a","name":"n-%d","uid":"u-%d","object":{}}`+"\n", seq, at, seq, seq)
		for p := []byte(text); len(p) > 0; {
			n, err := j.Write(p)
			if p = p[n:]; err != nil {
				return err
			}
		}
		written.Store(seq)
		if seq%5 == 0 {
			if err := j.Sync(); err != nil {
				return err
			}
			j.Committed(seq)
		}
		return nil
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	for range questions {
		var writer sync.WaitGroup
		writer.Go(func() {
			for range lines {
				if err := write(); err != nil {
					t.Error(err)
					return
				}
			}
		})
		if err := askAll(t, path, &written); err != nil {
			t.Error(err)
		}
		writer.Wait()
	}
}

// askAll checks that the history has each line that was there when it was asked for, and the state an object for each.
func askAll(t *testing.T, path string, written *atomic.Uint64) error {
	least := written.Load()
	opened, err := archive.Open(path, func(string) {})
	if err != nil {
		return err
	}
	j := Of(opened)
	defer j.Close()
	most := written.Load() + 1 // the last line may be there before that is known
	history := uint64(0)
	for v, err := range j.History(t.Context(), &argument.Selection{}, argument.Moment{}, argument.Moment{}) {
		if err != nil {
			return err
		}
		if history++; v.Seq != history {
			return fmt.Errorf("line %d is the history's number %d", v.Seq, history)
		}
	}
	if history < least || history > most {
		return fmt.Errorf("a history of %d lines, when there were %d to %d", history, least, most)
	}
	st, err := j.State(t.Context(), &argument.Selection{}, argument.Moment{Seq: 1 << 60})
	if err == nil && uint64(len(st.Items)) != history {
		err = fmt.Errorf("%d objects of %d lines", len(st.Items), history)
	}
	return err
}
