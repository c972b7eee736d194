package command

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/report"
)

// Report asks for a page about an incident.
type Report struct {
	report.Report
	Related bool                     // its owners, what it owns, and Events
	Take    func(*report.Page) error // takes the page, also where it is not covered
}

// Prepare checks the question.
func (p *Report) Prepare(r *Request) error {
	r.About.From, r.About.Begin, r.About.To = p.Since, p.Since, p.Until
	r.lines, r.applied = archive.AllLines, "a page"
	return CheckTimes(p.Since, p.Until)
}

// Answer gathers a page from the journal of a cluster.
func (p *Report) Answer(ctx context.Context, r *Request, all []answer.Asked, _ *answer.Output) (err error) {
	a := &all[0]
	p.Args, p.Flags = p.args(r), r.Flags
	title := "What happened to " + cmp.Or(strings.Join(r.Objects, " "), "everything")
	if len(r.Namespaces) > 0 {
		title += " in " + strings.Join(r.Namespaces, ", ")
	}
	p.Title = cmp.Or(p.Title, title)
	if p.Doubts, err = versionLines(ctx, a.Journal, a.Selection, &p.Since, &p.Until); err != nil {
		return err
	}
	if p.Related {
		if a.Selection, err = a.Journal.Related(ctx, a.Selection, p.Since, p.Until); err != nil {
			return err
		}
	}
	page, err := p.Gather(ctx, a)
	if err != nil && !answer.IsResult(err) {
		return err
	}
	return errors.Join(p.Take(page), err)
}

// args returns what is selected as arguments of another command.
func (p *Report) args(r *Request) []string {
	args := r.Objects[:len(r.Objects):len(r.Objects)]
	for _, namespace := range r.Namespaces {
		args = append(args, "-n", namespace)
	}
	if p.Related {
		args = append(args, "--related")
	}
	if !p.Since.IsZero() {
		args = append(args, "--since", p.Since.Text())
	}
	if !p.Until.IsZero() {
		args = append(args, "--until", p.Until.Text())
	}
	return args
}
