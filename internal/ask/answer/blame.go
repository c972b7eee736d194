package answer

import (
	"context"
	"errors"
	"fmt"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/blame"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
)

// Blame says of which object the writes are shown, and how.
type Blame struct {
	At      argument.Moment
	OrLast  bool   // of an object that is gone, as it was last
	Spec    bool   // without its status
	Removed bool   // fields that are gone too
	Format  string // text, wide or json
}

// Print shows the one object that is selected, and who wrote each of its values.
func (b *Blame) Print(ctx context.Context, a *Asked) error {
	j, s, o := a.Journal, a.Selection, a.Output
	item, doubts, err := j.One(ctx, s, b.At)
	if err == nil && item == nil && b.OrLast {
		item, doubts, err = lastOne(ctx, j, s) // it is gone
	}
	if err != nil {
		return err
	}
	if item == nil {
		o.Note("no such object was there at %s", b.At)
		return o.Doubt(doubts)
	}
	r, err := b.follow(ctx, j, s, item)
	if errors.Is(err, blame.ErrNoObject) {
		return fmt.Errorf("%w: its lines are truncated, or its stream has another payload than object", err)
	}
	if err != nil {
		return err
	}
	if !b.Removed {
		r.Removed = nil
	}
	if b.Format == "wide" {
		o.Width = 0
	}
	return b.show(r, doubts, a)
}

// show shows the fields with their writes, and what is in doubt.
func (b *Blame) show(r *blame.Result, doubts []question.Doubt, a *Asked) error {
	o := a.Output
	var err error
	if b.Format == "json" {
		err = o.JSON(struct {
			Cluster string `json:"cluster,omitempty"`
			*blame.Result
			Doubts []question.Doubt `json:"notCovered,omitempty"`
		}{a.Cluster, r, doubts}, "  ")
	} else if err = o.Heading(); err == nil {
		err = r.WriteText(o, o.Width)
	}
	if err != nil {
		return err
	}
	for _, note := range r.Notes() {
		o.Note("%s", note)
	}
	doubt := o.Doubt(doubts)
	if r.Missed.Seq != 0 {
		return ErrNotCovered // the object is another one since
	}
	return doubt
}

// lastOne returns the object at the last line about it.
func lastOne(
	ctx context.Context, j *question.Journal, s *argument.Selection,
) (*question.Item, []question.Doubt, error) {
	last := uint64(0)
	for v, err := range j.History(ctx, s, argument.Moment{}, argument.Moment{}) {
		if err != nil {
			return nil, nil, err
		}
		if !v.AboutStream() {
			last = v.Seq
		}
	}
	return j.One(ctx, s, argument.Moment{Seq: last})
}

// follow follows an object up to its last line.
func (b *Blame) follow(
	ctx context.Context, j *question.Journal, s *argument.Selection, item *question.Item,
) (*blame.Result, error) {
	var h blame.History
	one := &argument.Selection{Objects: s.Objects, Namespaces: s.Namespaces, UIDs: map[string]bool{item.UID: true}}
	for v, err := range j.History(ctx, one, argument.Moment{}, argument.Moment{Seq: item.Last.Seq}) {
		if err != nil {
			return nil, err
		}
		if !v.AboutStream() && !v.Is(line.FieldName, item.Name) {
			continue
		}
		if err := h.Add(v.Fields); err != nil {
			return nil, err
		}
	}
	var without []string
	if b.Spec {
		without = []string{"/status", "/metadata/resourceVersion", "/metadata/generation"} // these change with it
	}
	return h.Result(without...)
}
