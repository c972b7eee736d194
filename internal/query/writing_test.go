package query

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"kubejournal/internal/journal"
)

// TestWhileWritten asks a journal that is written, rotated and compressed all the time: it answers from the files as they were
// when it was opened.
func TestWhileWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := journal.OpenFile(path, journal.Options{MaxSize: 2000, Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	seq := uint64(0)
	write := func() {
		seq++
		at := time.Date(2026, 11, 20, 12, 0, 0, int(seq), time.UTC).Format(time.RFC3339Nano)
		text := fmt.Sprintf(`{"seq":%d,"time":%q,"type":"ADDED","origin":"watch","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"a","name":"n-%d","uid":"u-%d","object":{}}`+"\n", seq, at, seq, seq)
		for p := []byte(text); len(p) > 0; {
			n, err := j.Write(p)
			if p = p[n:]; err != nil {
				t.Fatal(err)
			}
		}
		if seq%5 == 0 {
			if err := j.Sync(); err != nil {
				t.Fatal(err)
			}
			j.Committed(seq)
		}
	}
	asked := make(chan error)
	stop := make(chan struct{})
	write()
	go func() {
		defer close(asked)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case asked <- askAll(t, path):
			}
		}
	}()
	for n := 0; n < 12; {
		select {
		case err := <-asked:
			if n++; err != nil {
				t.Error(err)
			}
		default:
			if seq < uint64(n+1)*60 {
				write()
			}
		}
	}
	close(stop)
	for range asked { // the last answer
	}
}

// askAll checks that a state at the end has an object for each line, and that the history has each line.
func askAll(t *testing.T, path string) error {
	j, err := Open(path, func(string) {})
	if err != nil {
		return err
	}
	defer j.Close()
	history := 0
	for v, err := range j.History(t.Context(), &Selection{}, Moment{}, Moment{}) {
		if err != nil {
			return err
		}
		if history++; v.Seq != uint64(history) {
			return fmt.Errorf("line %d is the history's number %d", v.Seq, history)
		}
	}
	st, err := j.State(t.Context(), &Selection{}, Moment{Seq: 1 << 60})
	if err == nil && (len(st.Items) != history || history == 0) {
		err = fmt.Errorf("%d objects of %d lines", len(st.Items), history)
	}
	return err
}
