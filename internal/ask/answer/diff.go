package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/ask/yamltext"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// ErrDifferent says that two states differ. It was shown.
var ErrDifferent = errors.New("different")

// Diff says how the difference of two states is shown.
type Diff struct {
	Format   string // text or json
	Stat     bool   // a row for each object
	All      bool   // noise too
	Named    bool   // resources were named: nothing of them is noise but by its changes
	Colour   bool
	External string // the program that shows it, "" for none
}

// diff prints one answer.
type diff struct {
	*Diff
	c        *Compared
	o        *Output // of c
	stat     *tabwriter.Writer
	external *yamltext.External

	different, gone int
	back, lacking   []string
	hidden          rows.Hidden
}

// pair is an object at both moments. Its sides are empty where it was not there.
type pair struct {
	*question.Change
	from, to yamltext.Side
	points   [2]*Point
	ops      []byte // what changed, if it was there at both
	class    rows.Noise
	lacking  string // why the lines do not have all of it
	hides    bool   // it has redacted values

	// What the versions in between show, once they were looked at.
	news     bool     // one of them was no noise
	partial  bool     // not all changes of one of them are known
	redacted [][]byte // operations on redacted values that changed
}

// same reports whether the object is there at both moments, and reads the same.
func (p *pair) same() bool {
	return p.Before != nil && p.After != nil && bytes.Equal(p.from.Text, p.to.Text)
}

// Compared is a cluster with its states at two moments.
type Compared struct {
	Asked
	*question.Comparison
}

// Print shows what differs, and counts what changed in between and does not differ.
func (d *Diff) Print(ctx context.Context, all []Compared, o *Output) error {
	stat := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	var external *yamltext.External
	if d.External != "" && d.Format == "text" && !d.Stat {
		var err error
		if external, err = yamltext.NewExternal(d.External); err != nil {
			return err
		}
		defer external.Close() //nolint:errcheck // folders of its own
	}
	of, different := make([]*diff, len(all)), 0
	for n := range all {
		of[n] = &diff{Diff: d, c: &all[n], o: all[n].Output, stat: stat, external: external}
		if err := of[n].all(ctx, all[n].Journal, all[n].Comparison); err != nil {
			return err
		}
		different += of[n].different
	}
	if err := stat.Flush(); err != nil {
		return err
	}
	if external != nil && different > 0 {
		if _, err := external.Run(ctx, terminal.NewWriter(o.Writer, true), o.Notes); err != nil {
			return err
		}
	}
	return Each(of, (*diff).finish)
}

// finish says what the difference does not show.
func (d *diff) finish() error {
	c := d.c.Comparison
	d.explain(c)
	if d.Format == "json" {
		if err := d.summary(c); err != nil {
			return err
		}
	}
	doubt := d.o.Doubt(c.Doubts)
	if d.different > 0 {
		return ErrDifferent
	}
	return doubt
}

// all shows all objects. Those that need the versions in between come last: objects that read the same, and objects
// with redacted values.
func (d *diff) all(ctx context.Context, j *question.Journal, c *question.Comparison) error {
	var (
		later []*pair
		of    []*question.Change
	)
	for i := range c.Changes {
		p, err := d.pair(ctx, j, &c.Changes[i])
		switch {
		case err != nil:
			return err
		case p == nil:
			d.gone++
		case p.Before != nil && p.After != nil && p.lacking == "" && (p.hides || p.same()):
			later, of = append(later, p), append(of, p.Change)
		default:
			if err := d.show(p); err != nil {
				return err
			}
		}
	}
	var ops []byte
	err := j.Between(ctx, c, of, func(i int, v *archive.Version) error {
		return later[i].look(ctx, v, &ops)
	})
	if err != nil {
		return err
	}
	for _, p := range later {
		if p.partial {
			p.news = true
			if p.hides {
				p.lacking = "a line in between is truncated: redacted values may have changed"
			}
		}
		if err := d.show(p); err != nil {
			return err
		}
	}
	return d.passed(c)
}

// look takes a version in between into account.
func (p *pair) look(ctx context.Context, v *archive.Version, ops *[]byte) error {
	partial, err := Compare(ctx, v, ops)
	removed := errors.Is(err, archive.ErrRemoved) // the doubts say so
	if err != nil && !removed {
		return err
	}
	p.partial = p.partial || partial || removed || v.Incomplete()
	all := v.Value(line.FieldChanges)
	p.news = p.news || v.Type() != line.Modified || rows.NoiseOf(v.Fields, all) == rows.NoNoise
	for op := range rawjson.Elements(all) {
		of := rawjson.Pick(op, "old", "value")
		known := slices.ContainsFunc(p.redacted, func(other []byte) bool { return bytes.Equal(other, op) })
		if string(of[0]) == redacted && string(of[1]) == redacted && !known {
			p.redacted = append(p.redacted, bytes.Clone(op))
		}
	}
	return nil
}

const redacted = `"REDACTED"`

// pair reads an object at both moments; nil where one of its lines is gone.
func (d *diff) pair(ctx context.Context, j *question.Journal, c *question.Change) (*pair, error) {
	p := &pair{Change: c}
	var before []byte
	var lack [2]string
	for n, of := range []struct {
		item *question.Item
		side *yamltext.Side
	}{{c.Before, &p.from}, {c.After, &p.to}} {
		of.side.Title = "/dev/null"
		if of.item == nil {
			continue
		}
		if of.item.Gone {
			return nil, nil
		}
		l, err := j.Line(ctx, of.item.Last)
		if err != nil || l == nil {
			return nil, err
		}
		*of.side, p.points[n] = side(l), pointOf(l)
		of.side.Title = d.o.prefix() + of.side.Title
		p.hides = p.hides || bytes.Contains(l.Object, []byte(redacted))
		if lack[n] = lacking(l); lack[n] != "" {
			p.lacking = detailed(lack[n], l)
		}
		if n == 0 {
			before = bytes.Clone(l.Object)
			continue
		}
		switch {
		case c.Before != nil && lacksOther(lack[0], lack[1]):
			p.from.Text, p.to.Text = nil, nil
		case c.Before != nil && len(before) > 0 && len(l.Object) > 0:
			p.ops, _ = changes.Append(nil, before, l.Object) // what cannot be compared is shown
		}
		p.class = rows.NoiseOf(l, p.ops)
	}
	if c.After == nil && c.Before.Stream.Resource == "events" {
		p.class = rows.EventObject
	}
	if p.class == rows.EventObject && d.Named {
		p.class = rows.NoNoise
	}
	return p, nil
}

const truncated = "its line is truncated"

// detailed adds to what lacking says of a line what of the object is cut.
func detailed(why string, l *line.Fields) string {
	if cut := l.Cut(); why == truncated && len(cut) > 0 {
		return why + ", cut: " + some(cut)
	}
	return why
}

// lacksOther reports whether of two versions, which lack something for reasons as lacking has them, one may lack what
// the other has: a difference would show it as removed.
func lacksOther(before, after string) bool { return before != after || after == truncated }

// lacking says why a line does not have all of its object.
func lacking(l *line.Fields) string {
	switch {
	case l.Incomplete():
		return truncated
	case len(l.Object) == 0:
		return "its stream keeps no objects (payload: none)"
	}
	for key := range rawjson.Members(l.Object) {
		if string(key) != "metadata" {
			return ""
		}
	}
	return "its stream keeps metadata alone (payload: metadata)"
}

// show shows an object, or counts it.
func (d *diff) show(p *pair) error {
	differs := !p.same() || len(p.redacted) > 0 || p.lacking != ""
	switch {
	case differs && p.class != rows.NoNoise && len(p.redacted) == 0 && !d.All && p.lacking == "":
		d.hidden[p.class]++
		return nil
	case !differs && !p.news && !d.All:
		d.hidden[rows.MetadataOnly]++
		return nil
	case !differs:
		d.back = append(d.back, fmt.Sprintf("%s (%s)", title(p.Item()), count(p.Versions, "version")))
		return d.json("REVERTED", p)
	}
	d.different++
	if p.lacking != "" {
		d.lacking = append(d.lacking, title(p.Item())+": "+p.lacking)
	}
	switch {
	case d.Format == "json":
		return d.json(strings.ToUpper(p.what()), p)
	case d.Stat:
		row := p.row()
		if d.c.Cluster != "" {
			row = printable(d.c.Cluster) + "\t" + row
		}
		_, err := fmt.Fprintln(d.stat, row)
		return err
	case d.external != nil:
		s := p.Item().Stream
		for _, op := range p.redacted {
			d.lacking = append(d.lacking, title(p.Item())+": "+short(op))
		}
		namespace := p.Item().Namespace
		if d.c.Cluster != "" {
			namespace = d.c.Cluster + "." + namespace
		}
		return d.external.Add(yamltext.FileName(s.Group, s.Version, s.Kind, namespace, p.Item().Name),
			p.from.Text, p.to.Text)
	}
	text := yamltext.AppendDiff(nil, p.from, p.to, d.Colour)
	if len(text) == 0 {
		text = fmt.Appendf(text, "--- %s\n+++ %s\n", printable(p.from.Title), printable(p.to.Title))
	}
	for _, op := range p.redacted {
		text = fmt.Appendf(text, "# %s\n", short(op))
	}
	if p.lacking != "" {
		text = fmt.Appendf(text, "# incomplete: %s\n", printable(p.lacking))
	}
	_, err := terminal.NewWriter(d.o.Writer, d.Colour).Write(text)
	return err
}

// short is an operation in short.
func short(op []byte) string {
	list := slices.Concat([]byte{'['}, op, []byte{']'})
	return string(rows.AppendChanges(nil, rows.AppendOperations(nil, list), nil, rows.Unlimited))
}

func (p *pair) what() string {
	switch {
	case p.Before == nil:
		return "added"
	case p.After == nil:
		return "deleted"
	}
	return "modified"
}

// row is an object's row of --stat.
func (p *pair) row() string {
	added, removed := 0, 0
	for n, text := range strings.Split(string(yamltext.AppendDiff(nil, p.from, p.to, false)), "\n") {
		switch {
		case n < 2: // the titles
		case strings.HasPrefix(text, "+"):
			added++
		case strings.HasPrefix(text, "-"):
			removed++
		}
	}
	row := fmt.Sprintf("%s\t%s\t+%d -%d\t%s", title(p.Item()), p.what(), added, removed, count(p.Versions, "version"))
	switch {
	case p.lacking != "":
		row += ", incomplete"
	case len(p.redacted) > 0:
		row += ", " + count(len(p.redacted), "redacted value")
	}
	return row
}

func count(n int, what string) string {
	return terminal.Count(n, what, what+"s")
}

// passed prints what came and went in between, for programs; explain counts it for people.
func (d *diff) passed(c *question.Comparison) error {
	if d.Format != "json" {
		return nil
	}
	for i := range c.Passed {
		if err := d.json("TRANSIENT", &pair{Change: &c.Passed[i]}); err != nil {
			return err
		}
	}
	return nil
}

// Difference is what diff -o json prints of an object. Fields may be added to it.
type Difference struct {
	// Change is ADDED, MODIFIED or DELETED; REVERTED for what changed and changed back, TRANSIENT for what came and
	// went.
	Change    string          `json:"change"`
	Cluster   string          `json:"cluster,omitempty"` // where several are asked
	Group     string          `json:"group,omitempty"`
	Version   string          `json:"version"`
	Resource  string          `json:"resource"`
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	UID       string          `json:"uid"`
	Versions  int             `json:"versions"` // lines about it in between
	Before    *Point          `json:"before,omitempty"`
	After     *Point          `json:"after,omitempty"`
	Changes   json.RawMessage `json:"changes,omitempty"`    // from one to the other, as in a line
	Lacking   string          `json:"incomplete,omitempty"` // why the lines do not have all of it
}

// Point is a line with an object's state.
type Point struct {
	Seq             uint64    `json:"seq"`
	Time            time.Time `json:"time"`
	WrittenAt       time.Time `json:"writtenAt,omitzero"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Manager         string    `json:"manager,omitempty"`
	Subresource     string    `json:"subresource,omitempty"`
	// as a line of history -o json has it
	Person json.RawMessage `json:"person,omitempty"`
}

func pointOf(l *line.Fields) *Point {
	text := func(f line.Field) string { return string(rawjson.Unquote(nil, l.Text(f))) }
	p := &Point{
		Seq: l.Seq, Time: l.Time, ResourceVersion: text(line.FieldResourceVersion), Manager: text(line.FieldManager),
		Subresource: text(line.FieldSubresource), Person: bytes.Clone(l.Value(line.FieldPerson)),
	}
	p.WrittenAt, _ = l.Written()
	return p
}

// Summary is the last line of diff -o json. Fields may be added to it.
type Summary struct {
	Change    string           `json:"change"`            // SUMMARY
	Cluster   string           `json:"cluster,omitempty"` // where several are asked: each has its own
	Since     string           `json:"since"`
	Until     string           `json:"until"`
	Different int              `json:"different"` // objects that are ADDED, MODIFIED or DELETED
	Reverted  int              `json:"reverted"`
	Transient int              `json:"transient"`
	Hidden    map[string]int   `json:"hidden,omitempty"` // by the class of noise
	Gone      int              `json:"gone,omitempty"`   // objects with lines in files that were removed
	Doubts    []question.Doubt `json:"notCovered,omitempty"`
}

// json prints an object for programs.
func (d *diff) json(change string, p *pair) error {
	if d.Format != "json" {
		return nil
	}
	i, all := p.Item(), p.ops
	if len(p.redacted) > 0 {
		list := slices.Concat(bytes.TrimSuffix(bytes.TrimPrefix(all, []byte("[")), []byte("]")), []byte{','},
			bytes.Join(p.redacted, []byte{','}))
		all = slices.Concat([]byte{'['}, bytes.TrimPrefix(list, []byte{','}), []byte{']'})
	}
	return d.o.JSON(&Difference{
		Change: change, Cluster: d.c.Cluster,
		Group: i.Stream.Group, Version: i.Stream.Version, Resource: i.Stream.Resource, Kind: i.Stream.Kind,
		Namespace: i.Namespace, Name: i.Name, UID: i.UID, Versions: p.Versions, Before: p.points[0], After: p.points[1],
		Changes: all, Lacking: p.lacking,
	}, "")
}

func (d *diff) summary(c *question.Comparison) error {
	return d.o.JSON(&Summary{
		Change: "SUMMARY", Cluster: d.c.Cluster, Since: c.From.Text(), Until: c.To.Text(),
		Different: d.different, Reverted: len(d.back), Transient: len(c.Passed),
		Hidden: d.hidden.ByClass(), Gone: d.gone, Doubts: c.Doubts,
	}, "")
}

// explain counts what the difference does not show.
func (d *diff) explain(c *question.Comparison) {
	if len(d.back) > 0 {
		d.o.note("changed and changed back: %s", some(d.back))
	}
	if len(c.Passed) > 0 {
		d.o.note("came and went in between: %s", strings.Join(byKind(c.Passed), ", "))
	}
	for _, text := range d.lacking {
		d.o.note("%s", text)
	}
	hidden := d.hidden.String()
	if hidden != "" {
		d.o.note("%s", hidden)
	}
	if d.gone > 0 {
		d.o.note("%s cannot be compared: the files with their lines were removed", count(d.gone, "object"))
	}
	if d.different+len(d.back)+len(c.Passed)+d.gone == 0 && hidden == "" {
		what := "nothing changed"
		if len(c.Doubts) > 0 {
			what = "no change is known"
		}
		d.o.note("%s between %s and %s", what, c.From, c.To)
	}
}

// byKind counts objects by their kinds, and names some of each.
func byKind(all []question.Change) []string {
	names := map[string][]string{}
	var order []*index.Stream
	for i := range all {
		item := all[i].Item()
		k := kind(item.Stream)
		if names[k] == nil {
			order = append(order, item.Stream)
		}
		names[k] = append(names[k], item.Name)
	}
	texts := make([]string, len(order))
	for i, s := range order {
		of := names[kind(s)]
		what := kind(s)
		if len(of) > 1 {
			what = strings.TrimSuffix(s.Resource+"."+s.Group, ".")
		}
		texts[i] = fmt.Sprintf("%d %s (%s)", len(of), printable(what), printable(some(of)))
	}
	return texts
}
