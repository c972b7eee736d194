package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/ask/why"
	"kubejournal/internal/format/builtin"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// Why says up to when the journal is asked, and how the answer is shown.
type Why struct {
	At     argument.Moment // zero: up to its end
	Format string          // text, wide or json; cells for text with tabs between cells
	Flags  []string        // with which kubejournal reads the same journal, each with its value after it
}

// Print shows why the one object that is selected is as it is. doubts are about the moment.
func (w *Why) Print(ctx context.Context, a *answer.Asked, doubts []question.Doubt) error {
	p := &past{j: a.Journal, until: w.At}
	of, err := p.one(ctx, a.Selection)
	if err != nil {
		return err
	}
	if of == nil {
		at := w.At
		if at.IsZero() {
			at = argument.LastKnown()
		}
		a.Output.Note("no such object was there at %s", at)
		more, err := a.Journal.Uncovered(ctx, a.Selection, argument.Moment{}, w.At)
		if err != nil {
			return err
		}
		return a.Output.Doubt(slices.Concat(doubts, more))
	}
	is, err := archive.Again(a.Journal.Journal, func() (*why.Answer, error) { return why.Ask(ctx, p, *of) })
	if err != nil {
		return err
	}
	if len(is.Versions) == 0 {
		return a.Output.Doubt(doubts) // its lines were removed meanwhile
	}
	more, err := p.doubts(ctx, is)
	if err != nil {
		return err
	}
	doubts = slices.Concat(doubts, more)
	back := w.giveBack(is, a)
	if w.Format == "json" {
		err = a.Output.JSON(struct {
			Cluster string `json:"cluster,omitempty"`
			why.Ref
			*why.Answer
			GiveBack string           `json:"giveBack,omitempty"`
			Doubts   []question.Doubt `json:"notCovered,omitempty"`
		}{a.Cluster, *of, is, back, doubts}, "  ")
	} else {
		err = w.text(a.Output, is, back)
	}
	if err != nil {
		return err
	}
	return a.Output.Doubt(doubts)
}

// one returns the object that is asked about: of those that have had its name the one that is there, else the last.
func (p *past) one(ctx context.Context, s *argument.Selection) (*why.Ref, error) {
	all, err := archive.Again(p.j.Journal, func() ([][]*why.Version, error) {
		return p.read(ctx, s, argument.Moment{}, p.until, false)
	})
	if err != nil {
		return nil, err
	}
	var last *why.Version
	for _, versions := range all {
		is := versions[len(versions)-1]
		for _, v := range slices.Backward(versions) {
			if !v.Selects { // a stream without a selector has it
				is = v
				break
			}
		}
		if last != nil && (is.Kind != last.Kind || is.Group != last.Group || is.Namespace != last.Namespace) {
			return nil, argument.Unknownf("several objects have that name: %s; name its namespace with -n",
				argument.Some([]string{place(is.Ref), place(last.Ref)}))
		}
		gone := is.Type == line.Deleted
		went := last != nil && last.Type == line.Deleted
		if last == nil || went && !gone || went == gone && last.Seq < is.Seq {
			last = is
		}
	}
	if last == nil {
		return nil, nil
	}
	name := last.Ref
	name.UID = ""
	p.remember(name, all)
	p.asked = last
	if p.until.Seq > 0 {
		l, err := p.j.LineOf(ctx, p.until.Seq)
		if err != nil {
			return nil, err
		}
		if l != nil && !l.AboutStream() {
			p.asked = versionOf(l)
		}
	}
	return &last.Ref, nil
}

func place(r why.Ref) string {
	name := strings.ToLower(r.Kind) + " " + r.Name
	if r.Namespace != "" {
		name = strings.ToLower(r.Kind) + " " + r.Namespace + "/" + r.Name
	}
	return name
}

// doubts returns what may be wrong with an answer: what may have happened to the objects it depends on, between its
// links and in the minute before the last one, without a line.
func (p *past) doubts(ctx context.Context, is *why.Answer) ([]question.Doubt, error) {
	from, to := is.Versions[0].Made, is.Versions[0]
	first, last := map[string]time.Time{}, map[string]time.Time{} // by stream, what its lines confirm
	for _, v := range is.Versions {
		if v.Made.Before(from) {
			from = v.Made
		}
		if v.Seq > to.Seq {
			to = v
		}
		if v.Origin != line.FromWatch {
			continue
		}
		if v.Time.After(last[v.Stream]) {
			last[v.Stream] = v.Time
		}
		if was, known := first[v.Stream]; !known || v.Time.Before(was) {
			first[v.Stream] = v.Time
		}
	}
	refs := slices.Clone(is.Looked)
	for _, v := range is.Versions {
		refs = append(refs, v.Ref)
	}
	every, err := p.selection(ctx, refs)
	if err != nil {
		return nil, err
	}
	p.unsure(is, every, from, to.Time)
	s, err := p.selection(ctx, is.Looked)
	if err != nil || len(s.Objects) == 0 {
		return nil, err
	}
	end := p.until.OfTime()
	if end.IsZero() {
		end.Seq = to.Seq
	}
	all, err := p.j.Uncovered(ctx, s, argument.Moment{Time: from.Add(-lately)}, end)
	if err != nil {
		return nil, err
	}
	begun := map[string]time.Time{} // by stream, when the first of its objects was created
	for i, ref := range is.Looked {
		streams, err := p.streams(ctx, ref.Group, ref.Kind)
		if err != nil {
			return nil, err
		}
		for _, s := range streams {
			if first, known := begun[s.Name]; !known || is.Begun[i].Before(first) {
				begun[s.Name] = is.Begun[i]
			}
		}
	}
	return slices.DeleteFunc(all, func(d question.Doubt) bool {
		switch {
		case !d.To.IsZero() && !d.To.After(begun[d.Stream]):
			return true // none of them was there then
		case d.From.IsZero():
			// What was there when the journal began is known. A line says that its stream was watched.
			watched, known := first[d.Stream]
			return !d.To.IsZero() && (!d.To.After(from) || known && d.To.After(watched))
		case d.From.Before(last[d.Stream]): // a line confirms its stream
			d.From = last[d.Stream]
		}
		return !d.From.Before(to.Time)
	}), nil
}

// selection returns objects as a selection, as far as they are watched: where one is not and that matters, the answer
// says so.
func (p *past) selection(ctx context.Context, refs []why.Ref) (*argument.Selection, error) {
	s := &argument.Selection{}
	for _, l := range refs {
		resource, err := p.Watched(ctx, l.Group, l.Kind)
		if err != nil {
			return nil, err
		}
		if resource == "" {
			continue
		}
		o, err := argument.ParseObject(resource + "." + l.Group + "/" + l.Name)
		if err != nil {
			continue // it is no name that the API takes
		}
		s.Objects = append(s.Objects, o)
		if l.Namespace != "" && !slices.Contains(s.Namespaces, l.Namespace) {
			s.Namespaces = append(s.Namespaces, l.Namespace)
		}
	}
	return s, nil
}

// unsure takes back that links are certain where the config has kept versions out of the journal: whole ones, so that
// it is not sure which of them was the first, and who wrote it; or those of ignored fields, for what follows from that
// there was none.
func (p *past) unsure(is *why.Answer, s *argument.Selection, from, to time.Time) {
	var ignoring []string // resources
	whole := false
	for _, h := range p.j.HeldBack(s, argument.Moment{Time: from}, argument.Moment{Time: to}) {
		whole = whole || slices.Contains(h.Keys, "types") || slices.Contains(h.Keys, "filter")
		if slices.Contains(h.Keys, "ignoreFields") {
			ignoring = append(ignoring, line.ParseStreamName(h.Stream).Resource)
		}
	}
	for i := range is.Links {
		l := &is.Links[i]
		ignores := func(resource string) bool {
			is, _, _ := strings.Cut(resource, ".")
			return slices.Contains(why.Absent(l), is)
		}
		l.Certain = l.Certain && !whole && !slices.ContainsFunc(ignoring, ignores)
		own := slices.ContainsFunc(ignoring, func(resource string) bool {
			is, _, _ := strings.Cut(resource, ".")
			return is == l.Resource
		})
		// The version has the changes of others too.
		if l.Person != nil && is.Versions[i].Type == line.Modified && (whole || own && l.Manager == "" && l.Changed()) {
			l.Person = nil
			if is.Ends == "" {
				is.Ends = "the config keeps versions out of the journal: it is not sure whose change this is"
			}
		}
	}
}

// giveBack returns the command that gives back what is gone, "" where there is nothing.
func (w *Why) giveBack(is *why.Answer, a *answer.Asked) string {
	if len(is.Restore) == 0 {
		return ""
	}
	args := []string{"kubejournal", "get"}
	namespace := ""
	for _, r := range is.Restore {
		if r.Kind == "Namespace" && r.Group == "" && is.Links[0].Kind == "Namespace" {
			args = append(args, terminal.ShellWord("*")) // with all that was in it
			namespace = r.Name
			continue
		}
		kind := strings.ToLower(r.Kind)
		if r.Group != "" && !builtin.HasGroup(r.Group) {
			kind += "." + r.Group
		}
		args = append(args, terminal.ShellWord(kind+"/"+r.Name))
		namespace = cmp.Or(namespace, r.Namespace)
	}
	if namespace != "" {
		args = append(args, "-n", terminal.ShellWord(namespace))
	}
	at := argument.Moment{Seq: is.RestoreAt}
	if a.Journal.Merged() { // whose lines have no numbers of their own
		at = argument.Moment{Time: is.RestoreBefore.Add(-1)}
	}
	args = append(args, "--at", at.Text(), "--clean")
	flags := w.Flags
	if a.Cluster != "" {
		flags = append(slices.Clip(flags), "--cluster", a.Cluster)
	}
	for pair := range slices.Chunk(flags, 2) {
		args = append(args, pair[0], terminal.ShellWord(pair[1]))
	}
	return strings.Join(args, " ") + " | kubectl apply -f -"
}

// text shows an answer as a table.
func (w *Why) text(o *answer.Output, is *why.Answer, back string) error {
	if err := o.Heading(); err != nil {
		return err
	}
	width := o.Width
	if w.Format == "wide" {
		width = 0
	}
	t := table{wide: w.Format == "wide", cells: w.Format == "cells", width: width, terminal: o.Width > 0}
	for i := range is.Links {
		t.add(&is.Links[i])
	}
	begun := len(t.rows)
	for i := range is.Before {
		t.add(&is.Before[i])
	}
	lines := t.lines()
	if begun > 0 {
		day := is.Links[0].Time.Local()
		fmt.Fprintln(o, day.Format("2006-01-02 MST"))
	}
	for i, l := range lines[:begun] {
		fmt.Fprintln(o, l)
		printChanges(o, &is.Links[i], width)
	}
	if len(lines) > begun {
		fmt.Fprintln(o, "in the minute before:")
	}
	for _, l := range lines[begun:] {
		fmt.Fprintln(o, l)
	}
	if is.Ends != "" {
		fmt.Fprintln(o, "to go on: "+terminal.Line(is.Ends))
	}
	if back != "" {
		fmt.Fprintln(o, "give it back: "+back)
	}
	return nil
}

// printChanges shows what a change changed, a line each.
func printChanges(o *answer.Output, l *why.Link, width int) {
	const indent, most = "          ", 6
	limit := rows.Unlimited
	if width > 0 {
		limit = max(width-len(indent), len(indent))
	}
	all := rows.AppendOperations(nil, l.Changes)
	if len(all) == 1 && strings.Contains(l.What, "→") {
		return // that says it
	}
	for i := range all {
		if i == most && width > 0 && len(all) > most+1 {
			fmt.Fprintf(o, "%s+%d more\n", indent, len(all)-most)
			break
		}
		fmt.Fprintf(o, "%s%s\n", indent, rows.AppendChanges(nil, all[i:i+1], l.Object(), limit))
	}
}

// table holds rows. On a narrow terminal the third cell of each is cut.
type table struct {
	wide, cells, terminal bool
	width                 int
	rows                  [][4]string
	day                   string // of the first row
}

func (t *table) add(l *why.Link) {
	at := l.Time.Local()
	when := at.Format("15:04:05")
	if day := at.Format("2006-01-02"); t.day == "" {
		t.day = day
	} else if day != t.day {
		when = at.Format("01-02 15:04:05")
	}
	reason := l.Why
	switch {
	case reason == "":
	case t.wide && l.Certain:
		reason = "certain (" + l.Rule + "): " + reason
	case !l.Certain && l.Rule != "":
		reason = "likely (" + l.Rule + "): " + reason
	}
	by := l.Manager
	if t.terminal && !t.wide {
		by = rows.Manager(by)
	}
	if user := t.user(l); user != "" && by != "" {
		by = user + ", " + by
	} else if user != "" {
		agent, _, _ := strings.Cut(l.Person.Agent, " ")
		by = strings.TrimSuffix(user+", "+strings.TrimSpace(agent+" "+l.Person.Verb), ", ")
	}
	if by != "" {
		if reason != "" {
			reason += ", "
		}
		reason += "by " + by
	}
	seq := fmt.Sprintf("seq %d", l.Seq)
	if t.wide {
		for _, n := range l.Lines {
			seq += fmt.Sprintf(", %d", n)
		}
	}
	if l.Person != nil && l.Person.AuditID != "" && t.user(l) != "" {
		const short = 6
		id := l.Person.AuditID
		if len(id) > short && !t.wide {
			id = id[:short] + "…"
		}
		seq += "  audit " + terminal.Line(id)
	}
	what := strings.ToLower(l.Kind) + " " + l.Name
	if strings.Contains(l.What, " ") && !strings.HasPrefix(l.What, "created") {
		what += ":"
	}
	t.rows = append(t.rows, [4]string{when, terminal.Line(what + " " + l.What), terminal.Line(reason), seq})
}

// user returns who did so where that tells more than the manager or the rule does.
func (t *table) user(l *why.Link) string {
	if l.Person == nil {
		return ""
	}
	of, own := strings.CutPrefix(l.Person.User, "system:")
	switch account, is := strings.CutPrefix(of, "serviceaccount:"); {
	case l.Person.Impersonated != "":
		return l.Person.User + " as " + l.Person.Impersonated
	case !own:
		return of
	case (l.Own || l.Manager != "") && !t.wide:
		return ""
	case is:
		return strings.Replace(account, ":", "/", 1)
	}
	return of
}

// lines returns the rows in columns.
func (t *table) lines() (all []string) {
	var widths [4]int
	for _, r := range t.rows {
		for n, cell := range r {
			widths[n] = max(widths[n], terminal.Columns([]byte(cell)))
		}
	}
	if left := t.width - widths[0] - widths[3] - 6; t.width > 0 && widths[1]+widths[2] > left {
		const least = 24
		widths[1] = min(widths[1], max(left/2, left-widths[2]))
		widths[2] = max(left-widths[1], least)
	}
	for _, r := range t.rows {
		if t.cells {
			all = append(all, strings.Join(r[:], "\t"))
			continue
		}
		var b []byte
		for n, cell := range r {
			start := len(b)
			b = append(b, cell...)
			if t.width > 0 && n == 1 {
				b = terminal.CutMiddle(b, start, widths[n])
			} else if t.width > 0 && n == 2 {
				b = terminal.CutEnd(b, start, widths[n])
			}
			if n < len(r)-1 {
				b = terminal.Pad(b, widths[n]-terminal.Columns(b[start:])+2)
			}
		}
		all = append(all, string(b))
	}
	return all
}
