package command

import (
	"context"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/explain"
)

// Why asks why an object is gone, does not run, or has changed. Its formats are text, wide and json.
type Why struct{ At argument.Moment }

// Prepare notes the moment, and that all lines may be needed.
func (w *Why) Prepare(r *Request) error {
	r.About.To, r.About.State = w.At, true
	r.lines = archive.AllLines
	return nil
}

// Answer prints the causes, of the object of each cluster.
func (w *Why) Answer(ctx context.Context, r *Request, all []answer.Asked, _ *answer.Output) error {
	return answer.Each(all, func(a answer.Asked) error {
		s := a.Selection
		if len(s.Objects) != 1 || !s.Objects[0].IsOne() {
			return usagef("name one object, e.g. pod/web-0")
		}
		is := &explain.Why{At: w.At, Format: r.Output, Flags: r.Flags}
		var since argument.Moment
		doubts, err := versionLines(ctx, a.Journal, s, &since, &is.At)
		if err != nil {
			return err
		}
		return is.Print(ctx, &a, doubts)
	})
}
