package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubejournal/test/program"
)

const lineTimeout = 30 * time.Second // for a step's lines to appear; a second is usual

// step is one act of the demo.
type step struct {
	title string
	do    func(ctx context.Context) error
	// want is the lines that must come of it, in the words of describe and in any order; a last word may be left out.
	want []string
	// focus is the streams whose other lines are worth showing too.
	focus []string
	full  string // the line that is also shown in full: one of want
}

// play does a step, waits for its lines and shows them.
func (d *demo) play(ctx context.Context, s step) error {
	d.steps++
	d.out.title(d.steps, s.title)
	if err := s.do(ctx); err != nil {
		return err
	}
	return d.expect(ctx, s)
}

func (d *demo) expect(ctx context.Context, s step) error {
	from := d.seen
	err := d.daemon.wait(ctx, "wait until the journal has the lines of this step", lineTimeout, func() error {
		if err := d.journal.refresh(); err != nil {
			return program.Final(err)
		}
		if missing, _ := compare(s.want, d.journal.lines[from:]); len(missing) > 0 {
			return fmt.Errorf("%d lines are missing", len(missing))
		}
		return nil
	})
	lines := d.journal.lines[from:]
	d.seen = len(d.journal.lines)
	err = errors.Join(err, d.out.lines(lines, s))
	missing, surplus := compare(s.want, lines)
	if len(missing) > 0 || len(surplus) > 0 {
		return errors.Join(err, mismatch(missing, surplus))
	}
	d.matched += len(s.want)
	return err
}

// compare pairs what must be there with the lines that matter, one to one, and returns what is left of both.
func compare(want []string, lines []line) (missing, surplus []string) {
	missing = slices.Clone(want)
	for i := range lines {
		if !matters(&lines[i]) {
			continue
		}
		got := strings.Join(describe(&lines[i]), " ")
		found := slices.IndexFunc(missing, func(w string) bool { return strings.HasPrefix(got+" ", w+" ") })
		if found < 0 {
			surplus = append(surplus, got)
			continue
		}
		missing = slices.Delete(missing, found, found+1)
	}
	return missing, surplus
}

// matters reports whether a line is one of those that the demo answers for: the API server has objects of its own, and
// changes them as it likes.
func matters(l *line) bool {
	return l.Type == "GAP" || l.Type == "SYNCED" || l.Namespace == shop || l.Resource == "namespaces" && l.Name == shop
}

func mismatch(missing, surplus []string) error {
	var text strings.Builder
	for _, m := range missing {
		fmt.Fprintf(&text, "\n  not in the journal:  %s", m)
	}
	for _, s := range surplus {
		fmt.Fprintf(&text, "\n  once too often:      %s", s)
	}
	return errors.New("the journal is not what it must be:" + text.String())
}

// describe is a line in a few words: type, origin, stream, object, who wrote, and what there is to see in it.
func describe(l *line) []string {
	who := l.Manager
	if l.Subresource != "" {
		who += "/" + l.Subresource
	}
	words := []string{l.Type, l.Origin, l.Stream, l.object(), who, remark(l)}
	for i, w := range words {
		if w == "" {
			words[i] = "-"
		}
	}
	return words
}

func remark(l *line) string {
	switch {
	case l.FinalStateKnown != nil && !*l.FinalStateKnown:
		return "finalStateKnown=false"
	case l.Type == "GAP":
		return "reason=" + l.Reason
	case l.Count != nil:
		return fmt.Sprintf("added=%d modified=%d deleted=%d unchanged=%d",
			l.Count.Added, l.Count.Modified, l.Count.Deleted, l.Count.Unchanged)
	}
	for _, path := range [][]string{{"spec", "replicas"}, {"data", "theme"}, {"data", "password"}} {
		if value := l.field(path...); value != "" {
			return strings.Join(path, ".") + "=" + value
		}
	}
	return ""
}
