package cluster

import (
	"context"
	"errors"
	"slices"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
)

// ErrUnknown says that no cluster has what is asked for. It was said.
var ErrUnknown = errors.New("unknown")

// Question is what clusters are asked, as far as it matters to what an answer may lack.
type Question struct {
	From, To argument.Moment // changes held back outside this period do not matter; each may be zero
	Begin    argument.Moment // start of the period asked about, which ends at To; zero: the first line
	State    bool            // the question is about the moment To alone, or about now where that is zero
	NoEvents bool            // Events are not shown
}

// Answer calls fn with the clusters that have what is asked for. Then it says what was kept out of the journals, and
// which clusters do not have a name.
func (q *Question) Answer(
	ctx context.Context, opened []*Opened, o *answer.Output, fn func([]answer.Asked, *answer.Output) error,
) error {
	var all []answer.Asked
	for _, of := range opened {
		if of.Known {
			all = append(all, answer.Asked{
				Cluster: of.Cluster, Journal: question.Of(of.Journal), Selection: of.Selection,
				Output: o.Of(of.Cluster),
			})
		}
	}
	err := fn(all, o)
	if err != nil && !answer.IsResult(err) {
		return err
	}
	for _, a := range all {
		noMatter := func(h archive.Held) bool { return q.NoEvents && h.OfEvents() }
		a.Output.HeldBack(slices.DeleteFunc(a.Journal.HeldBack(a.Selection, q.From, q.To), noMatter))
	}
	for _, of := range opened {
		for _, u := range of.Unknown {
			doubt := q.unknown(ctx, question.Of(of.Journal), &u, o.Of(of.Cluster))
			if !of.Known { // else it was said
				o.Of(of.Cluster).HeldBack(of.HeldBack(u.Selection, q.From, q.To))
			}
			if doubt != nil && !answer.IsResult(doubt) {
				return doubt
			}
			err = errors.Join(err, doubt)
		}
	}
	return err
}

// Missing reports the names that no cluster has: then there is no answer, and it returns ErrUnknown or ErrNotCovered.
func (q *Question) Missing(ctx context.Context, opened []*Opened, o *answer.Output) error {
	var result error
	for _, of := range opened {
		for _, u := range of.Unknown {
			if !u.Everywhere {
				continue
			}
			err := q.unknown(ctx, question.Of(of.Journal), &u, o.Of(of.Cluster))
			o.Of(of.Cluster).HeldBack(of.HeldBack(u.Selection, q.From, q.To))
			switch {
			case errors.Is(err, answer.ErrNotCovered):
				result = err
			case err != nil:
				return err
			case result == nil:
				result = ErrUnknown
			}
		}
	}
	return result
}

// unknown explains that nothing has a name, and what may have had it all the same: then it is ErrNotCovered.
func (q *Question) unknown(ctx context.Context, j *question.Journal, u *Unknown, o *answer.Output) error {
	o.Note("%v", u.UnknownError)
	if u.UnknownError.Unwatched {
		return answer.ErrNotCovered
	}
	if u.NoResource {
		return nil
	}
	since, until := q.Begin, q.To
	if q.State && until.IsZero() {
		until = argument.Latest()
	}
	if q.State {
		since = until
	}
	if since.Version+until.Version > 0 {
		since, until = argument.Moment{}, argument.Moment{}
	}
	doubts, err := j.Uncovered(ctx, u.Selection, since, until)
	if err != nil {
		return err
	}
	if q.State { // what was there then may be in lines from before
		before, err := j.RemovedBefore(ctx, u.Selection, q.To)
		if err != nil {
			return err
		}
		for _, d := range before {
			same := func(o question.Doubt) bool { return o.Stream == d.Stream && o.Reason == d.Reason }
			doubts = append(slices.DeleteFunc(doubts, same), d)
		}
	}
	return o.Doubt(doubts)
}
