package command

import (
	"context"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
)

// Diff asks what differs between two times. Its formats are text and json.
type Diff struct {
	answer.Diff
	Since, Until argument.Moment
}

// Prepare checks the question.
func (d *Diff) Prepare(r *Request) error {
	if d.Since.IsZero() {
		return usagef("--since TIME is missing")
	}
	r.About.Begin, r.About.To = d.Since, d.Until
	return CheckTimes(d.Since, d.Until)
}

// Answer prints what differs.
func (d *Diff) Answer(ctx context.Context, r *Request, all []answer.Asked, o *answer.Output) error {
	if d.Until.IsZero() {
		d.Until = argument.EndOf(d.Since)
	}
	compared := make([]answer.Compared, len(all))
	for n, a := range all {
		if err := checkVersions(a.Selection, d.Since, d.Until); err != nil {
			return err
		}
		c, err := a.Journal.Compare(ctx, a.Selection, d.Since, d.Until)
		if err != nil {
			return err
		}
		compared[n] = answer.Compared{Asked: a, Comparison: c}
	}
	d.Format, d.Named = r.Output, len(r.Objects) > 0
	return d.Print(ctx, compared, o)
}
