package invariant

import (
	"slices"
	"time"
)

// Write is a write that the server has acknowledged, as the stream of the object should tell it. A deletion has no
// version: the server does not say which one it was.
type Write struct {
	Stream          string
	Epoch           int // of the stream when the write was made
	Type            string
	UID             string
	ResourceVersion string
	What            string // for people
	Time            time.Time
}

// Covered checks that each write at a time that is covered stands in the journal, as it was and not as a net result,
// with a line that came at once where the cover is not late. It takes lines of a journal that may end anywhere.
func Covered(lines []Line, writes []Write, covered func(stream string, t time.Time) (is, late bool)) error {
	type told struct {
		stream       string
		epoch        int
		uid, rv, typ string
	}
	times, epochs := make(map[told]string), epochs{}
	for i := range lines {
		l := &lines[i]
		epoch := epochs.of(l)
		if l.about() && l.FinalStateKnown == nil && l.Origin != FromRelist {
			k := told{l.Stream, epoch, l.UID, l.ResourceVersion, l.Type}
			if l.Type == Deleted {
				k.rv = "" // as of a write
			}
			times[k] = l.Time
		}
	}
	const atOnce = 10 * time.Second
	f := faults{check: "covered"}
	for _, w := range writes {
		is, late := covered(w.Stream, w.Time)
		if !is {
			continue
		}
		text, ok := times[told{w.Stream, w.Epoch, w.UID, w.ResourceVersion, w.Type}]
		at, _ := time.Parse(time.RFC3339Nano, text)
		switch {
		case !ok:
			f.add("%s: %s/%s/%s at %v of %s is not there", w.What, w.UID, w.ResourceVersion, w.Type, w.Time, w.Stream)
		case !late && at.Sub(w.Time) > atOnce:
			f.add("%s: %s/%s/%s at %v of %s came at %v", w.What, w.UID, w.ResourceVersion, w.Type, w.Time, w.Stream, at)
		}
	}
	return f.err()
}

// Writes checks that each write stands in the journal exactly once. Where the stream tells the net result only, it may
// stand there once, or have been overtaken; but what is deleted must have ended for the reader too.
func Writes(lines []Line, writes []Write) error {
	type version struct {
		stream  string
		epoch   int
		uid, rv string
	}
	type object struct {
		stream string
		uid    string
	}
	type step struct {
		epoch int
		typ   string
	}
	told, steps, epochs := make(map[version][]string), make(map[object][]step), epochs{}
	for i := range lines {
		l := &lines[i]
		epoch := epochs.of(l)
		if !l.about() {
			continue
		}
		steps[object{l.Stream, l.UID}] = append(steps[object{l.Stream, l.UID}], step{epoch, l.Type})
		// On a DELETED that a relist found, the version is not of this event.
		if l.FinalStateKnown == nil {
			v := version{l.Stream, epoch, l.UID, l.ResourceVersion}
			told[v] = append(told[v], l.Type)
		}
	}
	f, net := faults{check: "writes"}, windows(lines)
	for _, w := range writes {
		if w.ResourceVersion == "" {
			added, deleted := 0, 0
			for _, s := range steps[object{w.Stream, w.UID}] {
				switch {
				case s.epoch > w.Epoch:
				case s.typ == Added:
					added++
				case s.typ == Deleted:
					deleted++
				}
			}
			if added != deleted {
				f.add("%s: deletion of %s: ADDED %d times, DELETED %d times", w.What, w.UID, added, deleted)
			}
			continue
		}
		got := told[version{w.Stream, w.Epoch, w.UID, w.ResourceVersion}]
		n, _ := number(w.ResourceVersion)
		inside := slices.ContainsFunc(net[w.Stream], func(v window) bool {
			return v.epoch == w.Epoch && v.from < n && n <= v.to
		})
		switch {
		case len(got) > 1:
			f.add("%s: %s/%s stands there %d times: %v", w.What, w.UID, w.ResourceVersion, len(got), got)
		case inside:
		case len(got) == 0:
			f.add("%s: %s/%s/%s is missing", w.What, w.UID, w.ResourceVersion, w.Type)
		case got[0] != w.Type:
			f.add("%s: %s/%s is told as %s, was %s", w.What, w.UID, w.ResourceVersion, got[0], w.Type)
		}
	}
	return f.err()
}
