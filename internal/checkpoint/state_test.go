package checkpoint

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/line"
)

// TestTransitions says what each line, or event without one, makes of a stream's state.
func TestTransitions(t *testing.T) {
	at := Stream{ResourceVersion: "90"}
	open := Stream{ResourceVersion: "90", Open: &Gap{FromResourceVersion: "90", ResourceVersion: "100", Count: line.Count{Added: 1}}}
	behind := func(rv string, c line.Count) Stream {
		return Stream{ResourceVersion: "90", Open: &Gap{FromResourceVersion: "90", ResourceVersion: rv, Count: c}}
	}
	step := func(typ line.Type, from line.Origin, rv string) Transition {
		return Transition{Type: typ, Origin: from, Name: []byte("a"), UID: []byte("u"), ResourceVersion: []byte(rv)}
	}
	heldBack := step(line.Modified, line.FromRelist, "120")
	heldBack.HeldBack = true
	for name, c := range map[string]struct {
		before Stream
		l      Transition
		want   Stream
	}{
		"event":                  {at, step(line.Modified, line.FromWatch, "95"), Stream{ResourceVersion: "95"}},
		"event without version":  {at, step(line.Modified, line.FromWatch, ""), at},
		"event ends a gap":       {open, step(line.Added, line.FromWatch, "130"), Stream{ResourceVersion: "130"}},
		"first sync":             {Stream{}, step(line.Added, line.FromSnapshot, "95"), Stream{}},
		"GAP":                    {Stream{ResourceVersion: "90", PendingGap: line.Expired}, Transition{Type: line.Gap, FromResourceVersion: []byte("90"), ResourceVersion: []byte("100")}, behind("100", line.Count{})},
		"GAP within a GAP":       {open, Transition{Type: line.Gap, FromResourceVersion: []byte("90"), ResourceVersion: []byte("101")}, behind("101", line.Count{})},
		"list, later":            {open, step(line.Modified, line.FromRelist, "120"), behind("120", line.Count{Added: 1, Modified: 1})},
		"list, earlier":          {open, step(line.Added, line.FromRelist, "99"), behind("100", line.Count{Added: 2})},
		"list, gone later":       {open, step(line.Deleted, line.FromRelist, "120"), behind("100", line.Count{Added: 1, Deleted: 1})},
		"list, held back":        {open, heldBack, behind("120", line.Count{Added: 1})},
		"SYNCED":                 {open, Transition{Type: line.Synced, ResourceVersion: []byte("140")}, Stream{ResourceVersion: "140"}},
		"SYNCED, GAP due":        {Stream{ResourceVersion: "90", PendingGap: line.JournalTruncated, Closing: &line.Count{}}, Transition{Type: line.Synced, ResourceVersion: []byte("90")}, Stream{ResourceVersion: "90", PendingGap: line.JournalTruncated}},
		"SYNCED of a first sync": {Stream{}, Transition{Type: line.Synced, ResourceVersion: []byte("140")}, Stream{ResourceVersion: "140"}},
	} {
		got := c.before.Clone()
		got.Apply(&c.l, new(Changes))
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if open.Open.Added != 1 || open.Open.ResourceVersion != "100" {
		t.Errorf("a clone changed its original: %+v", open.Open)
	}
	for name, c := range map[string]struct {
		s     Stream
		valid bool
		from  string
	}{
		"new": {Stream{}, false, ""}, "watching": {at, true, "90"}, "GAP due": {Stream{ResourceVersion: "90", PendingGap: line.Expired}, false, "90"},
		"gap": {open, false, "100"}, "SYNCED due": {Stream{ResourceVersion: "90", Closing: &line.Count{}}, true, "90"},
	} {
		if c.s.Valid() != c.valid || c.s.From() != c.from {
			t.Errorf("%s: valid %v from %q, want %v from %q", name, c.s.Valid(), c.s.From(), c.valid, c.from)
		}
	}
}

// Of lines that may be older than a pulse, the earliest counts, where they come together or in one commit.
func TestMiss(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	var s Stream
	s.Pulse = at(20).UnixNano()
	s.Miss(at(30), at(15))
	s.Miss(at(30), at(17))
	if s.Missed != at(30).UnixNano() || s.MissedFrom != at(15).UnixNano() || s.Pulse != 0 {
		t.Errorf("%+v", s.Coverage)
	}
	for name, tt := range map[string]struct {
		first, later, want time.Time
	}{
		"the first": {at(15), at(32), at(15)},
		"the later": {at(15), at(12), at(12)},
		"unknown":   {time.Time{}, at(32), time.Unix(0, 0)},
	} {
		var first, later Stream
		first.Miss(at(30), tt.first)
		later.Miss(at(40), tt.later)
		b := NewBatch()
		b.Add("pods", &Changes{State: &first})
		b.Add("pods", &Changes{State: &later})
		for _, s := range b.States() {
			if s.Missed != at(40).UnixNano() || s.MissedFrom != tt.want.UnixNano() {
				t.Errorf("%s: %+v", name, s.Coverage)
			}
		}
	}
}

// What was made before a change has been read, as far as it was received by then, until something confirms more.
func TestReach(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	var s Stream
	for _, step := range []struct{ received, made, want int64 }{
		{30, 15, 15}, {31, 12, 15}, {32, 20, 20}, {33, 90, 33}, {34, 21, 33},
	} {
		if s.Reach(at(step.received), at(step.made)); s.Read != at(step.want).UnixNano() {
			t.Errorf("%+v: %v", step, time.Unix(0, s.Read))
		}
	}
	if s.Confirm(at(40), time.Time{}); s.Read != 0 {
		t.Errorf("confirmed: %+v", s.Coverage)
	}
}
