package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/restore"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// Get says how objects are shown.
type Get struct {
	Format string // table, name, yaml or json
	// Match selects by what the object of a line has; nil takes all. It is not known of a line that may lack just that.
	Match func(l *line.Fields) (matches, known bool)
	One   bool // an object was named: it is shown itself, not in a list
	// Deleted says that the objects are those that were deleted, as they were last.
	Deleted bool
	// Replaced says of each deleted object whether another one took its name, which applying it would overwrite.
	Replaced []bool
	At       argument.Moment
	// Namespace is the one that was asked for, which the table does not repeat; empty for several.
	Namespace string
}

// Found is a cluster with the objects that were there, and why that may not be all.
type Found struct {
	Asked
	Items  []question.Item
	Doubts []question.Doubt

	lost, shown int
	truncated   bool // an object was shown that is not whole
	mayMatch    *names
}

// names are titles of objects. They can be added to from several goroutines.
type names struct {
	mu  sync.Mutex
	all []string
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, name)
}

// noteMayMatch says which objects may match, and reports whether there are any.
func (f *Found) noteMayMatch() bool {
	all := f.mayMatch.all
	if len(all) > 0 {
		slices.Sort(all)
		f.Output.note("%s: not known whether it matches: %s", some(all), truncated)
	}
	return len(all) > 0
}

// drop reports whether the object of a line is not asked for.
func (g *Get) drop(f *Found, i *question.Item, l *line.Fields) bool {
	if g.Match == nil {
		return false
	}
	matches, known := g.Match(l)
	if !known {
		f.mayMatch.add(title(i))
	}
	return !matches
}

// found is an object to show in a table.
type found struct {
	*question.Item
	cluster string
	cells   []string
	by      string // the user who deleted it
}

// Items shows objects as they were. Those of several clusters are in one table: any other form, which kubectl takes,
// does not say where an object is.
func (g *Get) Items(ctx context.Context, all []Found, o *Output) error {
	var rows []found
	for n := range all {
		f := &all[n]
		f.mayMatch = &names{}
		f.Items = slices.DeleteFunc(slices.Clone(f.Items), func(i question.Item) bool {
			if i.Gone {
				f.lost++
			}
			return i.Gone && g.Format != "name"
		})
		if g.Format != "name" && !(g.Format == "table" && g.Deleted) {
			if err := f.Journal.Describe(ctx, f.Items); err != nil {
				return err
			}
		}
	}
	columns, err := g.columns(ctx, all)
	if err != nil {
		return err
	}
	for n := range all {
		f := &all[n]
		if g.Format != "name" && g.Format != "table" {
			f.shown, err = g.objects(ctx, f)
		} else {
			var more []found
			more, err = g.rows(ctx, f, columns)
			f.shown, rows = len(more), append(rows, more...)
		}
		if err != nil {
			return err
		}
	}
	switch g.Format {
	case "table":
		err = g.table(rows, columns, o)
	case "name":
		err = g.names(rows, o)
	}
	if err != nil {
		return err
	}
	return Each(all, func(f Found) error {
		if f.lost > 0 {
			f.Output.note("%d objects were there whose last lines are in files that were removed", f.lost)
		}
		if f.shown+f.lost == 0 {
			g.nothing(f.Output)
		}
		err := f.Output.Doubt(f.Doubts)
		if mayMatch := f.noteMayMatch(); mayMatch || f.lost > 0 || f.truncated {
			err = ErrNotCovered
		}
		return err
	})
}

// rows returns the objects of a cluster that match.
func (g *Get) rows(ctx context.Context, f *Found, columns []Column) ([]found, error) {
	shown := make([]found, len(f.Items))
	for i := range f.Items {
		shown[i].Item, shown[i].cluster = &f.Items[i], f.Cluster
	}
	for i := range shown {
		if at := shown[i].Last; g.Deleted && g.Format == "table" && f.Journal.Named() && !shown[i].Gone {
			if l, err := f.Journal.Line(ctx, at); err != nil {
				return nil, err
			} else if l != nil && l.Type() == line.Deleted {
				shown[i].by = rows.User(l)
			}
		}
	}
	if g.Match == nil && len(columns) == 0 {
		return shown, nil
	}
	dropped := make([]bool, len(f.Items))
	var one sync.Mutex // of the columns
	err := f.Journal.Read(ctx, f.Items, func(i int, l *line.Fields) error {
		if dropped[i] = g.drop(f, &f.Items[i], l); dropped[i] || len(columns) == 0 {
			return nil
		}
		var object any
		_ = json.Unmarshal(l.Object, &object) // nothing is there where there is no object
		one.Lock()
		defer one.Unlock()
		for n := range columns {
			shown[i].cells = append(shown[i].cells, columns[n].cell(object))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	kept := shown[:0]
	for i := range shown {
		if !dropped[i] {
			kept = append(kept, shown[i])
		}
	}
	return kept, nil
}

func (g *Get) names(all []found, o *Output) error {
	for _, f := range all {
		if _, err := fmt.Fprintf(o, "%s/%s\n", printable(kind(f.Stream)), printable(f.Name)); err != nil {
			return err
		}
		g.between(f.Item, o)
	}
	return nil
}

// columns returns those of a table of one kind: in several clusters, those that the first one gives it which has such
// objects.
func (g *Get) columns(ctx context.Context, all []Found) ([]Column, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(f Found) bool { return len(f.Items) == 0 })
	if g.Format != "table" || len(all) == 0 {
		return nil, nil
	}
	first := all[0].Items[0].Stream
	if slices.ContainsFunc(all, func(f Found) bool { return severalKinds(first, f.Items) }) {
		return nil, nil
	}
	return columnsOf(ctx, all[0].Journal, first)
}

func severalKinds(first *index.Stream, items []question.Item) bool {
	return slices.ContainsFunc(items, func(i question.Item) bool {
		return i.Stream.Resource != first.Resource || i.Stream.Group != first.Group
	})
}

// Cleaned shows objects as kubectl apply takes them. What controllers make again is left out, and what the journal does
// not have in full is refused: ErrRefused.
func (g *Get) Cleaned(ctx context.Context, f *Found) error {
	j, items, o := f.Journal, f.Items, f.Output
	f.mayMatch = &names{}
	cleaned, verdicts := make([]restore.Object, len(items)), make([]restore.Verdict, len(items))
	dropped := make([]bool, len(items))
	err := j.Read(ctx, items, func(i int, l *line.Fields) error {
		if dropped[i] = g.drop(f, &items[i], l); !dropped[i] {
			cleaned[i], verdicts[i] = restore.Clean(l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var objects []restore.Object
	leftOut := make(map[string][]string) // titles of objects, by the reason
	leave := func(i int, reason string) { leftOut[reason] = append(leftOut[reason], title(&items[i])) }
	refused, lost, named := 0, 0, 0
	for i := range items {
		if dropped[i] {
			continue
		}
		named++
		switch v := &verdicts[i]; {
		case len(g.Replaced) > 0 && g.Replaced[i]:
			leave(i, "another one has taken the name since")
		case items[i].Gone:
			lost++
			o.note("%s: refused: the file with its last line was removed", title(&items[i]))
		case v.Outcome == restore.Cleaned:
			objects = append(objects, cleaned[i])
			if cleaned[i].ServerSide {
				o.note("%s: larger than the annotation in which kubectl apply keeps a copy; use kubectl apply "+
					"--server-side",
					title(&items[i]))
			}
		case v.Outcome == restore.LeftOut:
			leave(i, v.Reason)
		default:
			refused++
			o.note("%s: refused: %s", title(&items[i]), printable(v.Reason))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(leftOut)) {
		names := strings.Join(leftOut[reason], ", ")
		if reason == restore.Report {
			names = some(leftOut[reason]) // there may be thousands
		}
		o.note("left out, %s: %s", printable(reason), names)
	}
	restore.Sort(objects)
	if len(objects) > 0 {
		err = g.give(objects, o)
	} else if named == 0 {
		g.nothing(o)
	}
	doubt, mayMatch := o.Doubt(f.Doubts), f.noteMayMatch()
	switch {
	case err != nil:
		return err
	case refused+lost > 0:
		return ErrRefused
	case mayMatch:
		return ErrNotCovered
	}
	return doubt
}

// give writes objects as kubectl apply takes them.
func (g *Get) give(objects []restore.Object, o *Output) error {
	out := newObjects(o, g.Format)
	if !g.One || len(objects) > 1 {
		out.begin()
	}
	for _, object := range objects {
		if err := out.add(object.JSON); err != nil {
			return fmt.Errorf("%s %s: %w", object.Kind, object.Name, err)
		}
	}
	return out.end()
}

// ErrRefused says that an object cannot be given back. It was said.
var ErrRefused = errors.New("refused")

func (g *Get) table(all []found, columns []Column, o *Output) error {
	if len(all) == 0 {
		return nil
	}
	at, zones := g.At.Time, zones{}
	several, namespaced, by := false, false, false
	for _, f := range all {
		if g.At.Time.IsZero() && f.Made.After(at) {
			at = f.Made
		}
		zones.add(f.Made, f.Ended, f.EndedAfter)
		by = by || f.by != ""
		several = several || f.Stream.Resource != all[0].Stream.Resource || f.Stream.Group != all[0].Stream.Group
		namespaced = namespaced || f.Namespace != "" && g.Namespace == "" || f.Namespace != all[0].Namespace
	}
	clusters := all[0].cluster != ""
	var head []string
	var cut []int // the first to be cut is last
	if clusters {
		cut, head = append(cut, len(head)), append(head, "CLUSTER")
	}
	if namespaced {
		cut, head = append(cut, len(head)), append(head, "NAMESPACE")
	}
	cut, head = append(cut, len(head)), append(head, "NAME")
	for _, c := range columns {
		cut = append(cut, len(head))
		head = append(head, strings.ToUpper(printable(c.Name)))
	}
	if head = append(head, "AGE"); g.Deleted {
		if head = append(head, fmt.Sprintf("DELETED (%s)", zones)); by {
			cut, head = append(cut, len(head)), append(head, "BY")
		}
	} else {
		cut = append(cut, len(head)+1)
		head = append(head, fmt.Sprintf("LAST CHANGE (%s)", zones), "BY")
	}
	cells := [][]string{head}
	for _, f := range all {
		var row []string
		if clusters {
			row = append(row, f.cluster)
		}
		if namespaced {
			row = append(row, or(f.Namespace))
		}
		name, then, age := f.Name, at, "-"
		if several {
			name = kind(f.Stream) + "/" + name
		}
		row = append(row, name)
		for i := range columns {
			row = append(row, or(f.cells[i]))
		}
		if f.Deleted {
			then = f.Ended
		}
		if !f.Created.IsZero() {
			age = duration(then.Sub(f.Created))
		}
		if row = append(row, age); g.Deleted {
			if row = append(row, ended(f.Item)); by {
				row = append(row, or(f.by))
			}
		} else {
			by := f.Writer
			if o.Width > 0 {
				by = rows.Manager(by)
			}
			row = append(row, local(f.Made), or(by))
		}
		cells = append(cells, row)
	}
	return writeRows(cells, cut, o)
}

// ended says when an object was deleted, as far as that is known.
func ended(i *question.Item) string {
	if i.EndedAfter.IsZero() || i.EndedAfter.Unix() == i.Ended.Unix() {
		return local(i.Ended)
	}
	return local(i.EndedAfter) + " to " + until(i.EndedAfter, i.Ended)
}

// zones has the names of local time zones.
type zones []string

func (z *zones) add(times ...time.Time) {
	for _, t := range times {
		if zone, _ := t.Local().Zone(); !t.IsZero() && !slices.Contains(*z, zone) {
			*z = append(*z, zone)
		}
	}
}

func (z zones) String() string { return strings.Join(z, "/") }

// writeRows writes the rows of a table, the first of which is its heading. On a terminal the columns in cut become
// shorter, the last of them first, until a row fits. A row that has its first cell alone is as wide as that.
func writeRows(rows [][]string, cut []int, o *Output) error {
	const between, least = "  ", 9
	widths, all := make([]int, len(rows[0])), -len(between)
	for n := range widths {
		for _, row := range rows {
			if len(row) == 1 {
				continue
			}
			row[n] = printable(row[n])
			widths[n] = max(widths[n], terminal.Columns([]byte(row[n])))
		}
		all += widths[n] + len(between)
	}
	for _, n := range slices.Backward(cut) {
		if o.Width > 0 && all > o.Width && widths[n] > least {
			is := widths[n]
			widths[n] = max(least, is-(all-o.Width))
			all -= is - widths[n]
		}
	}
	var out []byte
	for _, row := range rows {
		start := len(out)
		if len(row) == 1 {
			out = append(out, printable(row[0])...)
			row = nil
		}
		for n, cell := range row {
			at := len(out)
			if out = append(out, cell...); rows[0][n] == "BY" {
				out = terminal.CutStart(out, at, widths[n])
			} else {
				out = terminal.CutMiddle(out, at, widths[n])
			}
			out = append(terminal.Pad(out, widths[n]-terminal.Columns(out[at:])), between...)
		}
		if out = bytes.TrimRight(out, " "); o.Width > 0 {
			out = terminal.CutEnd(out, start, o.Width)
		}
		out = append(out, '\n')
	}
	_, err := o.Write(out)
	return err
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// duration returns an age as kubectl shows it, roughly: in one unit.
func duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// batch bounds the objects that are in memory, in bytes of lines.
const batch = 8 << 20

// objects writes YAML or JSON, and returns how many objects there were. Of an object that was named and was not there,
// there is nothing.
func (g *Get) objects(ctx context.Context, f *Found) (shown int, err error) {
	j, items, o := f.Journal, f.Items, f.Output
	out := newObjects(o, g.Format)
	if !g.One || len(items) > 1 {
		out.begin()
	}
	lack := make(map[string][]string) // names of objects, by why they are not whole
	more := make(map[string]string)   // by one of those names: what is cut
	for len(items) > 0 {
		n, size := 0, int64(0)
		for ; n < len(items) && (n == 0 || size+items[n].Size <= batch); n++ {
			size += items[n].Size
		}
		objects, why, cut := make([][]byte, n), make([]string, n), make([]string, n)
		err := j.Read(ctx, items[:n], func(i int, l *line.Fields) (err error) {
			if g.drop(f, &items[i], l) {
				return nil
			}
			why[i], objects[i] = lacking(l), objectOf(l, &items[i])
			cut[i] = detailed(why[i], l)
			if out.json {
				objects[i], err = sorted(objects[i])
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		for i, object := range objects {
			if object == nil {
				continue
			}
			item := &items[i]
			if err := out.add(object); err != nil {
				return 0, fmt.Errorf("%s: %w", title(item), err)
			}
			if shown++; why[i] != "" {
				lack[why[i]] = append(lack[why[i]], title(item))
				more[title(item)] = cut[i]
				if why[i] == truncated {
					f.truncated = true
				}
			}
			g.between(item, o)
		}
		items = items[n:]
	}
	for _, why := range slices.Sorted(maps.Keys(lack)) {
		names := lack[why]
		if len(names) == 1 {
			why = more[names[0]]
		}
		o.note("%s: %s", some(names), printable(why))
	}
	return shown, out.end()
}

// objectOf returns a copy of a line's object, with what names it where there is no more.
func objectOf(l *line.Fields, item *question.Item) []byte {
	apiVersion := strings.TrimPrefix(string(l.Text(line.FieldGroup))+"/"+string(l.Text(line.FieldVersion)), "/")
	if object := named(l.Object, apiVersion, item.Stream.Kind); len(object) > 0 {
		return bytes.Clone(object)
	}
	namespace := ""
	if item.Namespace != "" {
		namespace = fmt.Sprintf(`"namespace":%q,`, item.Namespace)
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,%s"uid":%q}}`, apiVersion,
		item.Stream.Kind, item.Name, namespace, item.UID)
}

// between says when it was that an object was deleted in a gap.
func (g *Get) between(i *question.Item, o *Output) {
	if !i.EndedAfter.IsZero() && i.EndedAfter.Unix() != i.Ended.Unix() {
		o.note("%s: deleted between %s and %s", title(i), local(i.EndedAfter), until(i.EndedAfter, i.Ended))
	}
}

// nothing says why an empty answer is empty.
func (g *Get) nothing(o *Output) {
	switch at := g.At.String(); {
	case g.Deleted:
		o.note("no such object was deleted in that time")
	case at == "now":
		o.note("no such object is there now")
	default:
		o.note("no such object was there at %s", at)
	}
}

// some lists the first of some names.
func some(names []string) string {
	const few = 3
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
