package checkpoint

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/event"
)

// TestTransitions says what each line, or event without one, makes of a stream's state.
func TestTransitions(t *testing.T) {
	at := Stream{ResourceVersion: "90"}
	open := Stream{ResourceVersion: "90", Open: &Gap{FromResourceVersion: "90", ResourceVersion: "100", Count: event.Count{Added: 1}}}
	behind := func(rv string, c event.Count) Stream {
		return Stream{ResourceVersion: "90", Open: &Gap{FromResourceVersion: "90", ResourceVersion: rv, Count: c}}
	}
	line := func(typ event.Type, from event.Origin, rv string) Transition {
		return Transition{Type: typ, Origin: from, Name: []byte("a"), UID: []byte("u"), ResourceVersion: []byte(rv)}
	}
	heldBack := line(event.Modified, event.FromRelist, "120")
	heldBack.HeldBack = true
	for name, c := range map[string]struct {
		before Stream
		l      Transition
		want   Stream
	}{
		"event":                  {at, line(event.Modified, event.FromWatch, "95"), Stream{ResourceVersion: "95"}},
		"event without version":  {at, line(event.Modified, event.FromWatch, ""), at},
		"event ends a gap":       {open, line(event.Added, event.FromWatch, "130"), Stream{ResourceVersion: "130"}},
		"first sync":             {Stream{}, line(event.Added, event.FromSnapshot, "95"), Stream{}},
		"GAP":                    {Stream{ResourceVersion: "90", PendingGap: event.Expired}, Transition{Type: event.Gap, FromResourceVersion: []byte("90"), ResourceVersion: []byte("100")}, behind("100", event.Count{})},
		"GAP within a GAP":       {open, Transition{Type: event.Gap, FromResourceVersion: []byte("90"), ResourceVersion: []byte("101")}, behind("101", event.Count{})},
		"list, later":            {open, line(event.Modified, event.FromRelist, "120"), behind("120", event.Count{Added: 1, Modified: 1})},
		"list, earlier":          {open, line(event.Added, event.FromRelist, "99"), behind("100", event.Count{Added: 2})},
		"list, gone later":       {open, line(event.Deleted, event.FromRelist, "120"), behind("100", event.Count{Added: 1, Deleted: 1})},
		"list, held back":        {open, heldBack, behind("120", event.Count{Added: 1})},
		"SYNCED":                 {open, Transition{Type: event.Synced, ResourceVersion: []byte("140")}, Stream{ResourceVersion: "140"}},
		"SYNCED, GAP due":        {Stream{ResourceVersion: "90", PendingGap: event.JournalTruncated, Closing: &event.Count{}}, Transition{Type: event.Synced, ResourceVersion: []byte("90")}, Stream{ResourceVersion: "90", PendingGap: event.JournalTruncated}},
		"SYNCED of a first sync": {Stream{}, Transition{Type: event.Synced, ResourceVersion: []byte("140")}, Stream{ResourceVersion: "140"}},
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
		"new": {Stream{}, false, ""}, "watching": {at, true, "90"}, "GAP due": {Stream{ResourceVersion: "90", PendingGap: event.Expired}, false, "90"},
		"gap": {open, false, "100"}, "SYNCED due": {Stream{ResourceVersion: "90", Closing: &event.Count{}}, true, "90"},
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
