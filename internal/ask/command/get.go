package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/selector"
)

// Get asks for objects as they were. Its formats are table, wide, name, yaml, json, and answer.Lines.
type Get struct {
	At, Since, Until argument.Moment
	Deleted, Clean   bool
	Labels, Fields   string // selectors

	selector *selector.Selector
	wide     bool
}

// Prepare checks the question.
func (g *Get) Prepare(r *Request) error {
	var err error
	switch {
	case len(r.Objects) == 0:
		err = errors.New("name a RESOURCE, e.g. deploy/web, pods or '*'")
	case g.Deleted && !g.At.IsZero():
		err = errors.New("--deleted takes --since and --until, not --at")
	case !g.Deleted && !(g.Since.IsZero() && g.Until.IsZero()):
		err = errors.New("--since and --until go with --deleted; for a state write --at")
	case g.Clean && r.Output != "" && r.Output != "yaml" && r.Output != "json" && r.Output != answer.Lines:
		err = fmt.Errorf("--clean writes yaml or json, not %s", r.Output)
	case g.Clean && r.Output == "":
		r.Output = "yaml"
	}
	r.Output = cmp.Or(r.Output, "table")
	if err == nil {
		g.selector, err = selector.Parse(g.Labels, g.Fields)
	}
	if err != nil {
		return UsageError{err}
	}
	if err := CheckTimes(g.Since, g.Until); err != nil {
		return err
	}
	if r.About.To, r.About.State = g.At, true; g.Deleted {
		r.About.Begin, r.About.To, r.About.State = g.Since, g.Until, false
	}
	if g.wide = r.Output == "wide"; g.wide {
		r.Output = "table"
	}
	switch {
	case g.Clean:
		r.applied = "--clean"
	case r.Output == answer.Lines:
		r.applied = "get"
	case r.Output != "table":
		r.applied = "-o " + r.Output
	}
	return nil
}

// Answer prints the objects.
func (g *Get) Answer(ctx context.Context, r *Request, all []answer.Asked, o *answer.Output) error {
	if g.wide {
		o.Width = 0
	}
	if g.At.IsZero() && !g.Deleted {
		g.At = argument.Latest()
	}
	s := all[0].Selection
	p := &answer.Get{Format: r.Output, At: g.At, Deleted: g.Deleted,
		One: len(s.Objects) == 1 && s.Objects[0].Name != ""}
	p.Namespace = r.namespace()
	if g.Labels != "" || g.Fields != "" {
		p.Match = g.selector.Match
	}
	found := make([]answer.Found, len(all))
	for n := range all {
		found[n].Asked = all[n]
		if err := g.find(ctx, &found[n]); err != nil {
			return err
		}
	}
	if !g.Clean {
		return p.Items(ctx, found, o)
	}
	if g.Deleted {
		var err error
		if p.Replaced, err = all[0].Journal.Replaced(ctx, s, found[0].Items); err != nil {
			return err
		}
	}
	return p.Cleaned(ctx, &found[0])
}

// find finds the objects of a cluster.
func (g *Get) find(ctx context.Context, found *answer.Found) error {
	j, s := found.Journal, found.Selection
	if err := checkVersions(s, g.At); err != nil {
		return err
	}
	atVersions, err := versionLines(ctx, j, s, &g.Since, &g.Until)
	if err != nil {
		return err
	}
	if !g.Deleted {
		st, err := j.State(ctx, s, g.At)
		if err == nil {
			found.Items, found.Doubts = st.Items, st.Doubts
		}
		return err
	}
	items, doubts, err := j.Deleted(ctx, s, g.Since, g.Until)
	found.Items, found.Doubts = items, slices.Concat(atVersions, doubts)
	return err
}
