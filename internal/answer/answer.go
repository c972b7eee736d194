// Package answer prints what package query finds in a journal: tables and YAML for people, JSON for programs.
package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/coverage"
	"kubejournal/internal/display"
	"kubejournal/internal/event"
	"kubejournal/internal/index"
	"kubejournal/internal/query"
)

// ErrNotCovered says that the answer depends on a time at which a stream was not watched, or on what is gone. It was said.
var ErrNotCovered = errors.New("not covered")

// Output is where an answer goes: the data, and what explains it.
type Output struct {
	io.Writer
	Notes    io.Writer
	Terminal bool // the data is for one
	Width    int  // its columns; 0 where there is none
}

// JSON writes a value, on one line or indented. What a terminal would act on is escaped there.
func (o *Output) JSON(v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	text := b.Bytes()
	if o.Terminal {
		text = safeJSON(text)
	}
	_, err := o.Write(text)
	return err
}

// safeJSON returns JSON on several lines with escapes in the place of what a terminal would act on.
func safeJSON(text []byte) (safe []byte) {
	for l := range bytes.Lines(text) {
		l, ended := bytes.CutSuffix(l, []byte("\n"))
		if safe = display.AppendSafeJSON(safe, l); ended {
			safe = append(safe, '\n')
		}
	}
	return safe
}

// note writes a sentence without its full stop.
func (o *Output) note(format string, args ...any) {
	fmt.Fprintf(o.Notes, "kubejournal: %s\n", fmt.Sprintf(format, args...))
}

// Doubt says why an answer may be incomplete, a line for each cause, and as of when it is. It returns ErrNotCovered where
// there is a reason for doubt.
func (o *Output) Doubt(doubts []query.Doubt) error {
	const most = 5 // lines
	causes := causesOf(doubts)
	for i, c := range causes {
		if i == most && len(causes) > most+1 {
			o.note("not covered: %d more times; 'kubejournal coverage' shows them", len(causes)-most)
			break
		}
		o.note("%s", c.words())
	}
	if slices.ContainsFunc(doubts, func(d query.Doubt) bool { return !d.AsOf }) {
		return ErrNotCovered
	}
	return nil
}

// cause is what several streams have in common.
type cause struct {
	query.Doubt
	streams []string
}

// causesOf puts doubts of the same time and reason together, in the order of the first of each. As of when an answer is
// comes last.
func causesOf(doubts []query.Doubt) (all []cause) {
	for _, d := range doubts {
		same := func(c cause) bool {
			return c.AsOf == d.AsOf && c.Reason == d.Reason && near(c.From, d.From) && near(c.To, d.To) && c.Stream != "" && d.Stream != ""
		}
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].streams = append(all[i].streams, printable(d.Stream))
			continue
		}
		all = append(all, cause{d, []string{printable(d.Stream)}})
	}
	slices.SortStableFunc(all, func(a, b cause) int {
		switch {
		case a.AsOf == b.AsOf:
			return 0
		case b.AsOf:
			return -1
		}
		return 1
	})
	return all
}

// near reports whether two times may have one cause: streams do not confirm together.
func near(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < 5*time.Second
}

// words returns a cause in words.
func (c *cause) words() string {
	if !c.AsOf {
		return "not covered: " + words(c.Doubt, c.streams)
	}
	when := why(c.Reason)
	switch {
	case c.Reason == query.NotConfirmed:
		when = "this was last confirmed"
	case c.Reason == coverage.Removed:
		when = "it was " + when
	case isGap(c.Reason):
		when = "the server's history was lost (" + c.Reason + ")"
	}
	return fmt.Sprintf("as of %s, when %s: %s", local(c.From), when, some(c.streams))
}

// HeldBack says which streams may have had changes that the journal is not to have.
func (o *Output) HeldBack(held []query.Held) {
	if len(held) == 0 {
		return
	}
	var names, elsewhere, unconfirmed []string
	for _, h := range held {
		name := printable(h.Stream)
		if !h.Since.IsZero() {
			unconfirmed = append(unconfirmed, fmt.Sprintf("%s since %s", name, local(h.Since)))
		}
		if slices.Contains(h.Keys, coverage.LeaderElection) {
			elsewhere = append(elsewhere, name)
		}
		if keys := slices.DeleteFunc(slices.Clone(h.Keys), func(key string) bool { return key == coverage.LeaderElection }); len(keys) > 0 {
			names = append(names, fmt.Sprintf("%s (%s)", name, strings.Join(keys, ", ")))
		}
	}
	const few = 3
	switch {
	case len(names) > few:
		o.note("the config kept changes of %d of these streams out of the journal; 'kubejournal coverage -o json' has them", len(names))
	case len(names) > 0:
		o.note("the config kept changes out of the journal: %s", some(names))
	}
	if len(elsewhere) > 0 {
		o.note("what another replica has written is not in this journal: %s", some(elsewhere))
	}
	if len(unconfirmed) > 0 {
		o.note("another replica, whose journal is not named, may have written: %s", some(unconfirmed))
	}
}

// words returns a doubt in words, of these streams.
func words(d query.Doubt, streams []string) string {
	var b strings.Builder
	if d.Stream != "" {
		if b.WriteString("stream " + streams[0]); len(streams) > 1 {
			b.Reset()
			fmt.Fprintf(&b, "%d streams (%s)", len(streams), some(streams))
		}
		switch {
		case !d.From.IsZero() && !d.To.IsZero():
			fmt.Fprintf(&b, " from %s to %s", local(d.From), local(d.To))
		case !d.From.IsZero():
			fmt.Fprintf(&b, " since %s", local(d.From))
		case !d.To.IsZero():
			fmt.Fprintf(&b, " until %s", local(d.To))
		}
		b.WriteString(": ")
	}
	b.WriteString(printable(why(d.Reason)))
	return b.String()
}

// why says in words why a stream was not followed, by coverage's reasons.
func why(reason string) string {
	switch reason {
	case coverage.Unknown:
		return "the daemon was killed"
	case coverage.Stopped:
		return "the daemon was stopped"
	case coverage.Removed:
		return "removed from the config"
	case coverage.Interrupted:
		return "the server could not be read"
	case coverage.HandedOver:
		return "another replica wrote"
	case coverage.CaughtUp:
		return "caught up"
	}
	if isGap(reason) {
		return "GAP " + reason
	}
	return reason
}

func isGap(reason string) bool { return slices.Contains(gaps, event.GapReason(reason)) }

var gaps = []event.GapReason{event.Expired, event.PositionAheadOfServer, event.PositionRefused, event.CheckpointLost, event.JournalTruncated, event.RelistInterrupted}

// kind returns a resource as kubectl -o name has it, kind in lower case and group.
func kind(s *index.Stream) string {
	name := strings.ToLower(s.Kind)
	if s.Group != "" {
		name += "." + s.Group
	}
	return name
}

// title returns an object as a person would name it.
func title(i *query.Item) string {
	name := i.Name
	if i.Namespace != "" {
		name = i.Namespace + "/" + name
	}
	return printable(kind(i.Stream) + " " + name)
}

func printable(text string) string { return string(display.AppendRaw(nil, []byte(text))) }
