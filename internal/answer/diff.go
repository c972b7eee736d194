package answer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"kubejournal/internal/changes"
	"kubejournal/internal/display"
	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/internal/yamltext"
)

// ErrDifferent says that two states differ. It was shown.
var ErrDifferent = errors.New("different")

// Diff says how the difference of two states is shown.
type Diff struct {
	Stat     bool // a row for each object
	All      bool // noise too
	Named    bool // resources were named: nothing of them is noise but by its changes
	Colour   bool
	External string // the program that shows it, "" for none
}

// pair is an object at both moments. Its sides are empty where it was not there.
type pair struct {
	*query.Change
	from, to yamltext.Side
	class    display.Noise
	same     bool
}

// Print shows what differs, and counts what changed in between and does not differ.
func (d *Diff) Print(ctx context.Context, j *query.Journal, c *query.Comparison, o *Output) error {
	var (
		different, gone int
		back            []string
		hidden          display.Hidden
		external        *yamltext.External
		stat            = tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	)
	if d.External != "" {
		var err error
		if external, err = yamltext.NewExternal(d.External); err != nil {
			return err
		}
		defer external.Close() //nolint:errcheck // folders of its own
	}
	for i := range c.Changes {
		p, err := d.pair(ctx, j, &c.Changes[i])
		if err != nil {
			return err
		}
		switch {
		case p == nil:
			gone++
			continue
		case p.class != display.NoNoise && !d.All:
			hidden[p.class]++
			continue
		case p.same:
			back = append(back, fmt.Sprintf("%s (%d versions)", title(p.Item()), p.Versions))
			continue
		}
		different++
		switch {
		case d.Stat:
			fmt.Fprintln(stat, p.row())
		case external != nil:
			s := p.Item().Stream
			err = external.Add(yamltext.FileName(s.Group, s.Version, s.Kind, p.Item().Namespace, p.Item().Name), p.from.Text, p.to.Text)
		default:
			_, err = o.Write(yamltext.AppendDiff(nil, p.from, p.to, d.Colour))
		}
		if err != nil {
			return err
		}
	}
	if err := stat.Flush(); err != nil {
		return err
	}
	if external != nil && different > 0 {
		if _, err := external.Run(ctx, o, o.Notes); err != nil {
			return err
		}
	}
	d.explain(c, back, &hidden, gone, different, o)
	doubt := o.Doubt(c.Doubts)
	if different > 0 {
		return ErrDifferent
	}
	return doubt
}

// pair reads an object at both moments; nil where one of its lines is gone.
func (d *Diff) pair(ctx context.Context, j *query.Journal, c *query.Change) (*pair, error) {
	p := &pair{Change: c}
	var objects [2][]byte
	for n, of := range []struct {
		item *query.Item
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
		*of.side, objects[n] = side(l), append([]byte(nil), l.Object...)
		if n == 1 {
			p.class = d.noise(l, objects[0], c)
		}
	}
	if c.After == nil && c.Before.Stream.Resource == "events" && !d.Named {
		p.class = display.EventObject
	}
	p.same = c.Before != nil && c.After != nil && string(p.from.Text) == string(p.to.Text)
	return p, nil
}

// noise returns which class of noise the difference is.
func (d *Diff) noise(l *line.Fields, before []byte, c *query.Change) display.Noise {
	var ops []byte
	if c.Before != nil && len(before) > 0 && len(l.Object) > 0 {
		ops, _ = changes.Append(nil, before, l.Object) // what cannot be compared is shown
	}
	class := display.NoiseOf(l, ops)
	if class == display.EventObject && d.Named {
		return display.NoNoise
	}
	return class
}

// row is an object's row of --stat.
func (p *pair) row() string {
	what := "changed"
	switch {
	case p.Before == nil:
		what = "added"
	case p.After == nil:
		what = "deleted"
	}
	added, removed := 0, 0
	for _, text := range strings.Split(string(yamltext.AppendDiff(nil, p.from, p.to, false)), "\n")[2:] {
		switch {
		case strings.HasPrefix(text, "+"):
			added++
		case strings.HasPrefix(text, "-"):
			removed++
		}
	}
	return fmt.Sprintf("%s\t%s\t+%d -%d\t%s", title(p.Item()), what, added, removed, count(p.Versions, "version"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// explain counts what the difference does not show.
func (d *Diff) explain(c *query.Comparison, back []string, hidden *display.Hidden, gone, different int, o *Output) {
	if len(back) > 0 {
		o.note("changed and changed back: %s", some(back))
	}
	if len(c.Passed) > 0 {
		kinds := map[string]int{}
		var order []string
		for i := range c.Passed {
			k := kind(c.Passed[i].Item().Stream)
			if kinds[k]++; kinds[k] == 1 {
				order = append(order, k)
			}
		}
		for i, k := range order {
			var names []string
			for n := range c.Passed {
				if kind(c.Passed[n].Item().Stream) == k {
					names = append(names, c.Passed[n].Item().Name)
				}
			}
			order[i] = fmt.Sprintf("%d %s (%s)", kinds[k], printable(k), printable(some(names)))
		}
		o.note("came and went in between: %s", strings.Join(order, ", "))
	}
	text := hidden.String()
	if text != "" {
		o.note("%s", text)
	}
	if gone > 0 {
		o.note("%s cannot be compared: the files with their lines were removed", count(gone, "object"))
	}
	if different+len(back)+len(c.Passed)+gone == 0 && text == "" {
		o.note("nothing changed between %s and %s", c.From, c.To)
	}
}
