package follow

import (
	"context"
	"fmt"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// Remarks are what stands between the rows of a history: the times in which nobody watched, and between which times a
// change was made that does not say so. A nil one says nothing.
type Remarks struct {
	p            *Printer
	j            *question.Journal
	since, until argument.Moment
	outages      []question.Outage    // that are not drawn yet
	last         time.Time            // of the line before
	gaps         map[string]time.Time // when those began that have not ended, by stream; zero where that is not known
}

// NewRemarks returns the remarks of a history of the selected objects between two moments, each of which may be zero.
func NewRemarks(p *Printer, j *question.Journal, s *argument.Selection, since, until argument.Moment) *Remarks {
	return &Remarks{p: p, j: j, since: since, until: until, outages: j.Outages(s), gaps: make(map[string]time.Time)}
}

// Restart says that the rows to come are about another object, from its first line on.
func (r *Remarks) Restart() {
	if r == nil {
		return
	}
	r.last = time.Time{}
	clear(r.gaps)
}

// Since leaves out what ended before a time.
func (r *Remarks) Since(at time.Time) {
	if r != nil {
		r.since = argument.Moment{Time: at}
	}
}

// print shows a line, and what there is to say before it and after it.
func (r *Remarks) print(ctx context.Context, l *line.Fields) error {
	if l.AboutStream() {
		r.Gap(l)
	}
	if err := r.Before(l); err != nil {
		return err
	}
	if err := r.p.Print(l); err != nil {
		return err
	}
	return r.After(ctx, l)
}

// Before draws the times before a line in which nobody watched, where the silence is: what was read later comes after
// it.
func (r *Remarks) Before(l *line.Fields) error {
	if r == nil {
		return nil
	}
	silence, at := time.Duration(0), l.Time
	if !r.last.IsZero() {
		silence = at.Sub(r.last)
	}
	r.last = at
	written, late := l.Late()
	for len(r.outages) > 0 {
		o := r.outages[0]
		silent := silence > o.To.Sub(o.From)/2 || late && !written.Before(o.From.Truncate(time.Second))
		if at.Before(o.To) && !(silent && at.After(o.From)) {
			return nil
		}
		r.outages = r.outages[1:]
		if err := r.draw(o); err != nil {
			return err
		}
	}
	return nil
}

// End draws what is left, unless it may be behind the line at which the history ends.
func (r *Remarks) End() error {
	if r == nil {
		return nil
	}
	for _, o := range r.outages {
		if r.until.Seq > 0 {
			break
		}
		if err := r.draw(o); err != nil {
			return err
		}
	}
	return nil
}

func (r *Remarks) draw(o question.Outage) error {
	if r.since.After(0, o.To) || !r.until.Time.IsZero() && r.until.Before(0, o.From) {
		return nil
	}
	streams := terminal.Count(o.Streams, "stream was", "streams were")
	what := "not followed, " + coverage.Words(o.Reason)
	if o.Reason == coverage.Silent { // the watches may have been open
		what = "not confirmed, and may have been read later"
	}
	return r.p.Note(o.From, fmt.Sprintf("%s to %s: %s %s", clock(o.From), clock(o.To), streams, what))
}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

// Gap takes note of a line that begins or ends a gap, shown or not.
func (r *Remarks) Gap(l *line.Fields) {
	if r == nil {
		return
	}
	stream := string(l.Text(line.FieldStream))
	if l.Type() != line.Gap {
		delete(r.gaps, stream)
		return
	}
	var from time.Time
	_ = from.UnmarshalText(l.Text(line.FieldFromTime)) // zero where it is not known
	r.gaps[stream] = from
}

// After says when it was that an object was deleted in a gap, or changed where that was received late and does not say
// so.
func (r *Remarks) After(ctx context.Context, l *line.Fields) (err error) {
	if r == nil {
		return nil
	}
	typ := l.Type()
	did := map[line.Type]string{line.Deleted: "deleted", line.Modified: "changed"}[typ]
	if did == "" {
		return nil
	}
	from, inGap := r.gaps[string(l.Text(line.FieldStream))]
	switch {
	case !inGap:
		from, err = r.j.NotBefore(ctx, l)
	case typ != line.Deleted || l.Origin() != line.FromRelist:
		from = time.Time{}
	}
	if err != nil || from.IsZero() {
		return err
	}
	return r.p.Note(l.Time, fmt.Sprintf("%s between %s and %s", did, clock(from), clock(l.Time)))
}
