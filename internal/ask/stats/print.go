package stats

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/index"
	"kubejournal/internal/host/terminal"
)

// Stats says what is counted, and how it is shown.
type Stats struct {
	Since, Until argument.Moment
	Top          int    // rows of each table; 0 is all
	Format       string // text or json
}

// found is what was found out about a cluster.
type found struct {
	*Counts
	objects     Top[Object]
	sample      *Sample
	suggestions []Suggestion
	doubts      []question.Doubt
}

// Print shows what the journals of each cluster are made of.
func (s *Stats) Print(ctx context.Context, all []answer.Asked, o *answer.Output) error {
	return answer.Each(all, func(a answer.Asked) error {
		f, err := s.find(ctx, &a)
		if err != nil {
			return err
		}
		of := o.Of(a.Cluster)
		if s.Format == "json" {
			err = of.JSON(s.document(a.Cluster, f), "  ")
		} else if err = of.Heading(); err == nil {
			err = s.text(f, of)
		}
		if err != nil {
			return err
		}
		if n := len(a.Journal.Each()); n > 1 {
			a.Output.Note("each of %d journals is counted: a line that two replicas have counts twice", n)
		}
		return a.Output.Doubt(f.doubts)
	})
}

func (s *Stats) find(ctx context.Context, a *answer.Asked) (f *found, err error) {
	f = &found{}
	var each []*question.Journal
	for _, j := range a.Journal.Each() {
		if !j.Empty() {
			each = append(each, question.Of(j))
		}
	}
	if f.Counts, err = Of(ctx, each, a.Selection, s.Since, s.Until); err != nil {
		return nil, err
	}
	if f.objects, err = f.TopObjects(ctx, each, a.Selection, s.Top); err != nil {
		return nil, err
	}
	if f.sample, err = f.Read(ctx, each, a.Selection); err != nil {
		return nil, err
	}
	f.suggestions = f.Suggest(f.sample)
	if f.doubts, err = a.Journal.Uncovered(ctx, a.Selection, s.Since, s.Until); err != nil || !a.Journal.Merged() {
		return f, err
	}
	for _, j := range each {
		gone, err := j.Gone(ctx, a.Selection, s.Since, s.Until)
		if err != nil {
			return nil, err
		}
		f.doubts = append(f.doubts, gone...)
	}
	return f, nil
}

// text shows tables, and after them what would make the journal smaller.
func (s *Stats) text(f *found, o *answer.Output) error {
	p := &printer{total: f.Total(), width: o.Width}
	noun := "lines"
	if p.total.Lines == 1 {
		noun = "line"
	}
	p.printf("%s %s, %s", thousands(p.total.Lines), noun, terminal.Bytes(p.total.Bytes))
	first, last := f.Received()
	if p.total.Lines > 0 {
		p.printf(", received from %s to %s", argument.Moment{Time: first}, argument.Moment{Time: last})
	}
	p.printf("\n")
	types := Top[string]{}
	for _, t := range typeOrder {
		if n := f.Types[t]; n.Lines > 0 {
			types.Rows = append(types.Rows, Row[string]{typeName(t), n})
		}
	}
	types.Many = len(types.Rows)
	table(p, "TYPE", types, func(name string) string { return name })
	p.streams(f.TopStreams(s.Top), f.Streams)
	table(p, "NAMESPACE", top(f.Namespaces, s.Top), func(name string) string { return name })
	table(p, "OBJECT", f.objects, func(o Object) string {
		if o.Namespace == "" {
			return o.Resource + " " + o.Name
		}
		return o.Resource + " " + o.Namespace + "/" + o.Name
	})
	table(p, "WHO", top(f.Managers, s.Top), func(name string) string {
		if name == "" {
			return "(not known)"
		}
		return rows.Manager(name)
	})
	zone, _ := last.Local().Zone()
	table(p, "HOUR ("+zone+")", f.TopHours(s.Top), func(at int64) string {
		return time.Unix(at, 0).Local().Format("2006-01-02 15:04")
	})
	p.suggestions(f)
	_, err := o.Write(p.out)
	return err
}

// printer makes text.
type printer struct {
	out   []byte
	total Count
	width int
}

func (p *printer) printf(format string, args ...any) { p.out = fmt.Appendf(p.out, format, args...) }

// line ends a row with a name, which a narrow terminal cuts.
func (p *printer) line(numbers, name string) {
	start := len(p.out)
	p.out = append(append(p.out, numbers...), "  "...)
	at := len(p.out)
	p.out = terminal.AppendRaw(p.out, []byte(name))
	if p.width > 0 {
		p.out = terminal.CutMiddle(p.out, at, max(8, p.width-terminal.Columns(p.out[start:at])))
	}
	p.out = append(p.out, '\n')
}

// numbers are the columns that every table has.
func (p *printer) numbers(n Count) string {
	return fmt.Sprintf("%8s  %5s  %9s", terminal.Bytes(n.Bytes), percent(n.Bytes, p.total.Bytes), thousands(n.Lines))
}

const numbersHeading = "   BYTES      %      LINES"

// table shows rows of one kind.
func table[K any](p *printer, heading string, t Top[K], name func(K) string) {
	if t.Many == 0 {
		return
	}
	p.line("\n"+numbersHeading, heading)
	for _, r := range t.Rows {
		p.line(p.numbers(r.Count), name(r.Of))
	}
	p.others(t.Many-len(t.Rows), t.Others, "")
}

// others counts the rows that are not shown.
func (p *printer) others(many int, n Count, between string) {
	if many > 0 {
		p.line(p.numbers(n)+between, "and "+terminal.Count(many, "other", "others"))
	}
}

// streams shows streams, with how many of their lines are of each type.
func (p *printer) streams(t Top[string], all map[string]*ByType) {
	if t.Many == 0 {
		return
	}
	p.line("\n"+numbersHeading+"      ADDED   MODIFIED    DELETED", "STREAM")
	for _, r := range t.Rows {
		types, columns := all[r.Of], ""
		for _, of := range []index.Type{index.Added, index.Modified, index.Deleted} {
			columns += fmt.Sprintf("  %9s", thousands(types[of].Lines))
		}
		p.line(p.numbers(r.Count)+columns, r.Of)
	}
	p.others(t.Many-len(t.Rows), t.Others, strings.Repeat(" ", len("      ADDED   MODIFIED    DELETED")))
}

// suggestions shows what would make the journal smaller, as YAML.
func (p *printer) suggestions(f *found) {
	if len(f.suggestions) == 0 {
		return
	}
	p.printf("\nTO MAKE IT SMALLER, any of these; two together may save less than their sum\n")
	sampled := false
	for _, s := range f.suggestions {
		about := ""
		if s.Sampled {
			about, sampled = "about ", true
		}
		share := percent(s.Bytes, p.total.Bytes)
		p.printf("\n# %s%s, %s less. Lost: %s\n", about, share, terminal.Bytes(s.Bytes), s.Loses)
		p.out = append(p.out, s.YAML...)
	}
	if sampled {
		p.printf("\n\"about\" is by a sample of %s lines, %s of %s\n", thousands(f.sample.Lines),
			terminal.Bytes(f.sample.Bytes), terminal.Bytes(p.total.Bytes))
	}
}

// typeOrder is the order in which types are shown.
var typeOrder = []index.Type{
	index.Added, index.Modified, index.Deleted, index.Gap, index.Synced, index.Removed, index.Sealed, 0,
}

func typeName(t index.Type) string {
	if t == 0 {
		return "OTHER"
	}
	return index.Types[t-1]
}

// percent is a share for people.
func percent(n, all int64) string {
	share := float64(n) * 100 / float64(max(all, 1))
	switch {
	case n > 0 && share < 0.1:
		return "<0.1%"
	case share < 9.95:
		return fmt.Sprintf("%.1f%%", share)
	}
	return fmt.Sprintf("%.0f%%", share)
}

// thousands is a number with a comma between thousands.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
