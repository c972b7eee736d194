package command

import (
	"context"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/stats"
)

// Stats asks what journals are made of. Its formats are text and json.
type Stats struct{ stats.Stats }

// Prepare checks the question.
func (s *Stats) Prepare(r *Request) error {
	r.lines = archive.EachJournal
	if err := CheckTimes(s.Since, s.Until); err != nil {
		return err
	}
	if s.Since.Version+s.Until.Version > 0 {
		return usagef("stats takes no rv:; 'kubejournal history' does")
	}
	if s.Top < 0 {
		return usagef("--top %d is no number of rows; 0 is all", s.Top)
	}
	r.About.From, r.About.Begin, r.About.To = s.Since, s.Since, s.Until
	return nil
}

// Answer prints what there is.
func (s *Stats) Answer(ctx context.Context, r *Request, all []answer.Asked, o *answer.Output) error {
	s.Format = r.Output
	return s.Print(ctx, all, o)
}
