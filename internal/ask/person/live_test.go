package person

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/segment"
)

// logged is an event of a log, and when it is there to be read.
type logged struct {
	at    time.Time
	event audit.Request
}

// play lets a Live follow a history as it is written, in rounds, with restarts, and returns what it names.
func (s *server) play(t *testing.T, journal string, log []byte, most int, complete bool) map[int]audit.Entry {
	t.Helper()
	var events []logged
	_, err := audit.Read(bytes.NewReader(log), func(r audit.Request) {
		if !complete && s.pick(2) { // another server's
			return
		}
		late := time.Duration(s.rand.IntN(30_000)) * time.Millisecond // a log in batches
		events = append(events, logged{r.Answered.Add(late), r})
	}, func(line int, why string) { t.Fatalf("line %d: %s", line, why) })
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(events, func(a, b logged) int { return a.at.Compare(b.at) })
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	var l *Live
	written, read := 0, 0
	start := time.Date(2026, 11, 20, 13, 59, 0, 0, time.UTC)
	for now := start; now.Before(s.now.Add(2 * time.Minute)); now = now.Add(time.Duration(1+s.rand.IntN(20)) * time.Second) {
		var text strings.Builder
		for ; written < len(s.lines) && !segment.TimeOf([]byte(s.lines[written])).After(now); written++ {
			text.WriteString(s.lines[written] + "\n")
		}
		if text.Len() > 0 {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text.String()); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if l == nil || s.pick(20) { // killed
			if l, _, err = NewLive(path, complete); err != nil {
				t.Fatal(err)
			}
			l.most, read = most, 0
		}
		for ; read < len(events) && !events[read].at.After(now); read++ {
			l.Add(events[read].event)
		}
		add, err := l.Match(t.Context(), now.Add(-Wait))
		if err == nil && !s.pick(5) { // else killed before it writes
			err = audit.Append(path, 0, add)
		} else {
			l = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(l.orEmpty().recent); n > most+most/4 {
			t.Fatalf("%d requests are kept", n)
		}
	}
	is := entries(t, path, s)
	if complete { // what a run over the same log makes of it is what it makes of a journal of which nothing was known
		r := match(t, path, log)
		last := audit.Entry{Seq: 1 << 40, Person: audit.Person{User: "x"}} // so that the blocks are the same
		for _, path := range []string{path, journal} {
			for _, add := range [][]audit.Entry{r.Entries, {last}} {
				if _, err := audit.Merge(path, 0, add); err != nil {
					t.Fatal(err)
				}
			}
		}
		both, err := os.ReadFile(segment.AuditPath(path))
		alone, errAlone := os.ReadFile(segment.AuditPath(journal))
		if len(r.Entries) > 0 && (err != nil || errAlone != nil || !bytes.Equal(both, alone)) {
			t.Errorf("the files differ: %v %v\n%v\n%v", err, errAlone, entries(t, path, s), entries(t, journal, s))
		}
	}
	return is
}

func (l *Live) orEmpty() *Live {
	if l == nil {
		return new(Live)
	}
	return l
}

// entries returns what a side file says of the lines of a history, by seq.
func entries(t *testing.T, path string, s *server) map[int]audit.Entry {
	t.Helper()
	is := map[int]audit.Entry{}
	x, err := audit.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for i, text := range s.lines {
		var l struct{ ID string }
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if p := x.Of(uint64(i+1), []byte(l.ID)); p != nil {
			is[i+1] = audit.Entry{Seq: uint64(i + 1), Person: *p}
		}
	}
	return is
}

// TestLive follows random histories with restarts. Nobody is named who is not with all logs at once, and only where few
// requests are kept, or some of the logs are missing, fewer are.
func TestLive(t *testing.T) {
	for _, c := range []struct {
		name, level string
		most        int
		complete    bool
	}{
		{"RequestResponse", "RequestResponse", 1000, true}, {"Metadata", "Metadata", 1000, true}, {"Request", "Request", 1000, true},
		{"few are kept", "RequestResponse", 8, true}, {"few are kept of Metadata", "Metadata", 8, true},
		{"a part of the logs", "RequestResponse", 1000, false}, {"a part of the logs of Metadata", "Metadata", 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			live, batch := 0, 0
			for seed := range uint64(*histories) / 6 {
				s := &server{
					rand: rand.New(rand.NewPCG(seed, 8)), level: c.level, fields: seed%2 == 0,
					now: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), objects: map[string]*thing{}, truth: map[int]string{},
					unsure: map[int]bool{}, last: map[string]*write{}, rv: 100,
				}
				s.offset = time.Duration(s.rand.IntN(2000)-1000) * time.Millisecond
				for range 100 {
					s.step()
				}
				if len(s.lines) == 0 {
					continue
				}
				journal, log := s.write(t)
				is := s.play(t, journal, log, c.most, c.complete)
				for _, e := range match(t, journal, log).Entries {
					known, ok := is[int(e.Seq)]
					delete(is, int(e.Seq))
					if ok && !c.complete && known.AuditID != s.truth[int(e.Seq)] && !s.unsure[int(e.Seq)] {
						t.Errorf("seed %d: seq %d is by %s, not %+v", seed, e.Seq, s.truth[int(e.Seq)], known.Person)
					}
					if ok && c.complete && (known.User != e.User || known.AuditID != e.AuditID || known.Match != e.Match) {
						t.Errorf("seed %d: seq %d: %+v, not %+v", seed, e.Seq, known.Person, e.Person)
					}
					if e.User == "" {
						continue
					}
					batch++
					if ok {
						live++
					}
				}
				for seq, e := range is {
					t.Errorf("seed %d: seq %d is by %+v, of which nothing is known", seed, seq, e)
				}
			}
			t.Logf("%d of %d are named", live, batch)
			switch {
			case c.most == 1000 && c.complete && live < batch, live == 0 && c.name != "a part of the logs of Metadata":
				t.Errorf("%d of %d are named", live, batch)
			}
		})
	}
}
