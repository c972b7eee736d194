package command

import (
	"context"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
)

// Blame asks who set each field of an object. Its formats are text, wide and json.
type Blame struct{ answer.Blame }

// Prepare notes the moment.
func (b *Blame) Prepare(r *Request) error {
	r.About.To, r.About.State = b.At, true
	return nil
}

// Answer prints the object of each cluster.
func (b *Blame) Answer(ctx context.Context, r *Request, all []answer.Asked, _ *answer.Output) error {
	if b.OrLast = b.At.IsZero(); b.OrLast {
		b.At = argument.LastKnown()
	}
	b.Format = r.Output
	return answer.Each(all, func(a answer.Asked) error {
		if s := a.Selection; len(s.Objects) != 1 || s.Objects[0].Name == "" {
			return usagef("name one object, e.g. deploy/web")
		}
		return b.Print(ctx, &a)
	})
}
