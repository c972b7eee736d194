package command

import (
	"context"
	"slices"
	"strings"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/host/terminal"
)

// History asks what happened. Its formats are text, wide, yaml and json.
type History struct{ answer.History }

// Prepare checks the question.
func (h *History) Prepare(r *Request) error {
	if err := CheckTimes(h.Since, h.Until); err != nil {
		return err
	}
	text := r.Output == "text" || r.Output == "wide"
	if h.Patch && !text {
		return usagef("--patch goes with text, not with -o %s", r.Output)
	}
	if h.Pattern != nil && (h.Patch || r.Output == "yaml") {
		return usagef("--grep goes with text and -o json, not with --patch or -o yaml")
	}
	r.About.From, r.About.Begin, r.About.To = h.Since, h.Since, h.Until
	r.About.NoEvents = len(r.Objects) == 0 && !h.Related && !h.All && h.Pattern == nil
	if h.Warnings {
		switch {
		case h.Pattern != nil:
			return usagef("--warnings does not go with --grep; 'kubejournal history events --grep' searches Events")
		case len(r.Objects) == 0:
			r.Objects = []string{"events"}
		}
	}
	if h.Related || h.Warnings {
		r.lines = archive.AllLines
	}
	if r.Output == "yaml" {
		r.applied = "-o yaml"
	}
	return nil
}

// Answer prints a row for each version.
func (h *History) Answer(ctx context.Context, r *Request, all []answer.Asked, o *answer.Output) error {
	h.Format = r.Output
	h.Style.JSON = r.Output == "json"
	if h.Format == "wide" {
		h.Format, h.Style.Wide = "text", true
	}
	h.Owned = h.Related || len(r.Objects) > 0
	h.SetAsked(all, r.namespace())
	for n := range all {
		a := &all[n]
		doubts, err := versionLines(ctx, a.Journal, a.Selection, &h.Since, &h.Until)
		if h.Doubts = append(h.Doubts, doubts...); err == nil {
			a.Selection, err = h.selected(ctx, a)
		}
		if err != nil {
			return err
		}
	}
	filtered := h.Related || h.By != "" || len(h.Field) > 0 || h.Pattern != nil
	if len(r.Objects) > 0 && len(all) == 1 && h.Deleted && !filtered && h.Format == "text" {
		h.GiveBack = h.giveBack(r, &all[0])
	}
	return h.Print(ctx, all, o)
}

// selected returns what a history is about.
func (h *History) selected(ctx context.Context, a *answer.Asked) (*argument.Selection, error) {
	switch {
	case h.Related:
		return a.Journal.Related(ctx, a.Selection, h.Since, h.Until)
	case h.Warnings && !a.Selection.OnlyEvents():
		return a.Journal.Events(ctx, a.Selection, h.Since, h.Until)
	}
	return a.Selection, nil
}

// giveBack returns the command that makes again the objects whose deletions a history has.
func (h *History) giveBack(r *Request, a *answer.Asked) string {
	words := []string{"kubejournal get"}
	for _, arg := range r.Objects {
		words = append(words, terminal.ShellWord(arg))
	}
	flag := func(name, value string) { words = append(words, name, terminal.ShellWord(value)) }
	for _, namespace := range r.Namespaces {
		flag("-n", namespace)
	}
	words = append(words, "--deleted")
	for _, at := range []struct {
		flag string
		is   argument.Moment
	}{{"--since", h.Since}, {"--until", h.Until}} {
		if at.is.Seq > 0 && a.Journal.Merged() {
			return "" // whose lines have no numbers of their own
		}
		if !at.is.IsZero() {
			flag(at.flag, at.is.Text())
		}
	}
	words = append(words, "--clean")
	for pair := range slices.Chunk(r.Flags, 2) {
		flag(pair[0], pair[1])
	}
	if a.Cluster != "" {
		flag("--cluster", a.Cluster)
	}
	return strings.Join(words, " ") + " | kubectl apply -f -"
}
