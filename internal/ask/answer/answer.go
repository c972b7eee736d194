// Package answer prints what package question finds in a journal: tables and YAML for people, JSON for programs.
package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// ErrNotCovered says that the answer depends on a time at which a stream was not watched, or on what is gone. The
// reasons have been printed.
var ErrNotCovered = errors.New("not covered")

// Output is where an answer goes: the data, and what explains it.
type Output struct {
	io.Writer
	Notes    io.Writer
	Said     func(Note) // takes notes in the place of Notes, if it is set
	Terminal bool       // the data is for one
	Width    int        // its columns; 0 where there is none

	cluster string // whose answer it is, where several are asked
}

// Note is a printable sentence about an answer.
type Note struct {
	Text  string
	Doubt bool // it says why the answer may not be complete
}

// Raw returns what the data is written to once it is escaped. It makes an Output one that terminal.Raw looks into.
func (o *Output) Raw() io.Writer { return terminal.Raw(o.Writer) }

// JSON writes a value, on one line or indented, unless it is nested too deep for that. What a terminal would act on is
// escaped there.
func (o *Output) JSON(v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	text := b.Bytes()
	if indent != "" && !nestedDeep(text) {
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", indent); err != nil {
			return err
		}
		text = indented.Bytes()
	}
	if o.Terminal {
		text = safeJSON(text)
	}
	_, err := terminal.Raw(o.Writer).Write(text)
	return err
}

// safeJSON returns JSON on several lines with escapes in the place of what a terminal would act on.
func safeJSON(text []byte) (safe []byte) {
	for l := range bytes.Lines(text) {
		l, ended := bytes.CutSuffix(l, []byte("\n"))
		if safe = terminal.AppendSafeJSON(safe, l); ended {
			safe = append(safe, '\n')
		}
	}
	return safe
}

// note writes a sentence without its full stop.
func (o *Output) note(format string, args ...any) { o.say(fmt.Sprintf(format, args...), false) }

func (o *Output) say(text string, doubt bool) {
	if text = o.prefix() + text; o.Said != nil {
		o.Said(Note{terminal.Line(text), doubt})
		return
	}
	terminal.Note(o.Notes, text)
}

// Note writes a sentence without its full stop, which begins with the cluster where several are asked.
func (o *Output) Note(format string, args ...any) { o.note(format, args...) }

// Doubt says why an answer may be incomplete, a line for each cause, and as of when it is. It returns ErrNotCovered
// where there is a reason for doubt.
func (o *Output) Doubt(doubts []question.Doubt) error {
	const most = 5 // lines
	causes := causesOf(doubts)
	for i, c := range causes {
		if i == most && len(causes) > most+1 {
			o.say(fmt.Sprintf("not covered: %d more times; 'kubejournal coverage' shows them", len(causes)-most), true)
			break
		}
		o.say(c.words(), !c.AsOf)
	}
	if slices.ContainsFunc(doubts, func(d question.Doubt) bool { return !d.AsOf }) {
		return ErrNotCovered
	}
	return nil
}

// cause is why several streams may lack changes, and the time from the first of them to the last.
type cause struct {
	question.Doubt
	streams []string
	objects []string // those in doubt, if it is not all of them
	differ  bool     // their times differ
}

// causesOf puts doubts of one reason together whose times overlap or are close, in the order of these times. As of when
// an answer is comes last.
func causesOf(doubts []question.Doubt) (all []cause) {
	doubts = slices.SortedStableFunc(slices.Values(doubts), func(a, b question.Doubt) int {
		if a.AsOf != b.AsOf {
			if a.AsOf {
				return 1
			}
			return -1
		}
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To))
	})
	for _, d := range doubts {
		stream, objects := printable(d.Stream), objectsOf(d)
		i := slices.IndexFunc(all, func(c cause) bool { return c.joins(&d) })
		if i < 0 {
			all = append(all, cause{Doubt: d, streams: []string{stream}, objects: objects})
			continue
		}
		c := &all[i]
		if c.objects = append(c.objects, objects...); !slices.Contains(c.streams, stream) {
			c.streams = append(c.streams, stream)
		}
		c.differ = c.differ || !c.AsOf && (d.From.Sub(c.From) > near || d.To.Sub(c.To).Abs() > near)
		switch {
		case c.AsOf:
			if c.To = d.From; c.Reason != d.Reason {
				c.Reason = question.NotConfirmed
			}
		case d.To.IsZero() || !c.To.IsZero() && d.To.After(c.To):
			c.To = d.To
		}
	}
	for i := range all {
		slices.Sort(all[i].streams)
	}
	return all
}

// objectsOf returns the objects of a doubt with their resource.
func objectsOf(d question.Doubt) (all []string) {
	resource := line.ParseStreamName(d.Stream).Resource
	for _, o := range d.Objects {
		all = append(all, printable(resource+" "+o))
	}
	return all
}

// near is how far apart the times of one cause may be: streams do not confirm together.
const near = 5 * time.Second

// joins reports whether a doubt that begins later has the same cause. As of when an answer is has one line.
func (c *cause) joins(d *question.Doubt) bool {
	if c.AsOf || d.AsOf {
		return c.AsOf && d.AsOf
	}
	return c.Reason == d.Reason && c.Stream != "" && d.Stream != "" && len(c.objects) > 0 == (len(d.Objects) > 0) &&
		(c.To.IsZero() || d.From.Sub(c.To) < near)
}

// words returns a cause in words.
func (c *cause) words() string {
	if !c.AsOf {
		return "not covered: " + words(c)
	}
	when := Why(c.Reason)
	switch {
	case c.Reason == question.NotConfirmed:
		when = "this was last confirmed"
	case c.Reason == coverage.Removed:
		when = "it was " + when
	case isGap(c.Reason):
		when = "the server's history was lost (" + c.Reason + ")"
	}
	as := local(c.From)
	if c.To.Sub(c.From) > near {
		as += " to " + local(c.To)
	}
	return fmt.Sprintf("as of %s, when %s: %s", as, when, some(c.streams))
}

// HeldBack says which streams may have had changes that the journal is not to have.
func (o *Output) HeldBack(held []archive.Held) {
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
		if keys := slices.DeleteFunc(slices.Clone(h.Keys), func(key string) bool {
			return key == coverage.LeaderElection
		}); len(keys) > 0 {
			names = append(names, fmt.Sprintf("%s (%s)", name, strings.Join(keys, ", ")))
		}
	}
	const few = 3
	switch {
	case len(names) > few:
		o.note("the config kept changes of %d of these streams out of the journal; 'kubejournal coverage -o json' "+
			"has them", len(names))
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

// words returns what is in doubt, when, and why.
func words(c *cause) string {
	var b strings.Builder
	switch {
	case c.Stream == "":
	case len(c.objects) > 0:
		b.WriteString(some(c.objects))
	case len(c.streams) == 1:
		b.WriteString("stream " + c.streams[0])
	default:
		fmt.Fprintf(&b, "%d streams (%s)", len(c.streams), some(c.streams))
	}
	if c.differ {
		b.WriteString(", at different times")
	}
	switch {
	case c.Stream == "":
	case !c.From.IsZero() && !c.To.IsZero():
		fmt.Fprintf(&b, " from %s to %s: ", local(c.From), local(c.To))
	case !c.From.IsZero():
		fmt.Fprintf(&b, " since %s: ", local(c.From))
	case !c.To.IsZero():
		fmt.Fprintf(&b, " until %s: ", local(c.To))
	default:
		b.WriteString(": ")
	}
	b.WriteString(printable(Why(c.Reason)))
	return b.String()
}

// Why says in words why a stream was not followed, by coverage's reasons.
func Why(reason string) string {
	if isGap(reason) {
		return "GAP " + reason
	}
	return coverage.Words(reason)
}

func isGap(reason string) bool { return slices.Contains(gaps, line.Reason(reason)) }

var gaps = []line.Reason{
	line.Expired, line.PositionAheadOfServer, line.PositionRefused, line.CheckpointLost, line.JournalTruncated,
}

// kind returns a resource as kubectl -o name has it, kind in lower case and group.
func kind(s *index.Stream) string {
	name := strings.ToLower(s.Kind)
	if s.Group != "" {
		name += "." + s.Group
	}
	return name
}

// title returns an object as a person would name it.
func title(i *question.Item) string {
	name := i.Name
	if i.Namespace != "" {
		name = i.Namespace + "/" + name
	}
	return printable(kind(i.Stream) + " " + name)
}

func printable(text string) string { return string(terminal.AppendRaw(nil, []byte(text))) }
