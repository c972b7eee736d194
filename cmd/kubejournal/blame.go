package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/blame"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
)

const blameHelp = `Show an object as YAML, and for each line when its value was written, by which field manager, and the seq of that version's
line in the journal:

  2026-11-20 14:02:11  kubectl set  1234  |         image: registry.example/web:1.5.0

A write that replaced a parent counts for all that is below it, and one that moved an element in its list for the element. "in
the gap" is a value that was written while the server's history was gone; "or before" one that is older than the journal. A
field manager is a program's name, not a person; into a pipe, and with -o wide, as the API has it (kubectl-set).

-o json has what names the object, seq and time of its version, and fields: path, value, and of the write seq, time, writtenAt,
manager, subresource, origin (watch: this line's; gap, between or older: as above, not before what after says); removed in
the same form, missed, deleted, and notCovered. Several clusters have a document each. Fields may be added.
`

func newBlameCommand() *cobra.Command {
	var (
		f             askFlags
		at            argument.Moment
		spec, removed bool
	)
	cmd := &cobra.Command{
		Use:   "blame RESOURCE/NAME [--at TIME]",
		Short: "Show who set each field of an object, and when",
		Long:  blameHelp + timeHelp + versionHelp + pagerHelp + journalHelp + clustersHelp + "\n" + statusHelp,
		Example: `  kubejournal blame deploy/web -n shop --spec

  # as it was at two, with the fields that were gone by then
  kubejournal blame deploy/web -n shop --at 14:02 --removed`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.paged = f.output != "json"
			if err := checkPast(cmd, "at", at); err != nil {
				return err
			}
			f.to, f.state = at, true
			return f.ask(cmd, args, func(all []answer.Asked, _ *answer.Output) error {
				if at.IsZero() {
					at = argument.LastKnown()
				}
				return answer.Each(all, func(a answer.Asked) error {
					j, s, o := a.Journal, a.Selection, a.Output
					if len(s.Objects) != 1 || s.Objects[0].Name == "" {
						return &usageError{cmd, errors.New("name one object, e.g. deploy/web")}
					}
					item, doubts, err := j.One(cmd.Context(), s, at)
					if err == nil && item == nil && !cmd.Flags().Changed("at") {
						item, doubts, err = lastOne(cmd, j, s) // it is gone
					}
					if err != nil {
						return err
					}
					if item == nil {
						o.Note("no such object was there at %s", at)
						return o.Doubt(doubts)
					}
					r, err := blameOf(cmd, j, s, item, spec)
					if errors.Is(err, blame.ErrNoObject) {
						return fmt.Errorf("%w: its lines are truncated, or its stream has another payload than object",
							err)
					}
					if err != nil {
						return err
					}
					if !removed {
						r.Removed = nil
					}
					if f.output == "wide" {
						o.Width = 0
					}
					return showBlame(r, doubts, f.output, &a)
				})
			})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addTime(cmd, &at, "at", "the object as it was at that `TIME`")
	flags.BoolVar(&spec, "spec", false, "leave the status out, and resourceVersion and generation")
	flags.BoolVar(&removed, "removed", false, "list fields that are gone too")
	f.addPager(cmd)
	f.add(cmd, "`FORMAT`: text, wide (nothing cut) or json", "text", "wide", "json")
	return cmd
}

func showBlame(r *blame.Result, doubts []question.Doubt, format string, a *answer.Asked) error {
	o := a.Output
	var err error
	if format == "json" {
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
		return answer.ErrNotCovered // the object is another one since
	}
	return doubt
}

// lastOne returns the object at the last line about it.
func lastOne(cmd *cobra.Command, j *question.Journal, s *argument.Selection) (*question.Item, []question.Doubt, error) {
	last := uint64(0)
	for v, err := range j.History(cmd.Context(), s, argument.Moment{}, argument.Moment{}) {
		if err != nil {
			return nil, nil, err
		}
		if !v.AboutStream() {
			last = v.Seq
		}
	}
	return j.One(cmd.Context(), s, argument.Moment{Seq: last})
}

// blameOf follows an object up to its last line.
func blameOf(
	cmd *cobra.Command, j *question.Journal, s *argument.Selection, item *question.Item, spec bool,
) (*blame.Result, error) {
	var h blame.History
	one := &argument.Selection{Objects: s.Objects, Namespaces: s.Namespaces, UIDs: map[string]bool{item.UID: true}}
	for v, err := range j.History(cmd.Context(), one, argument.Moment{}, argument.Moment{Seq: item.Last.Seq}) {
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
	if spec {
		without = []string{"/status", "/metadata/resourceVersion", "/metadata/generation"} // these change with it
	}
	return h.Result(without...)
}
