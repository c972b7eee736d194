package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// delay is how much later than it was seen a change may come to kubejournal.
const delay = 30 * time.Second

// journal is the lines, and those of each object.
type journal struct {
	lines []invariant.Line
	of    map[string][]*invariant.Line // by uid
}

func newJournal(lines []invariant.Line) *journal {
	j := &journal{lines: lines, of: make(map[string][]*invariant.Line)}
	for i := range lines {
		j.of[lines[i].UID] = append(j.of[lines[i].UID], &lines[i])
	}
	return j
}

func (x *incident) read() (*journal, error) {
	lines, err := invariant.ReadJournal(filepath.Join(x.out, "journal.jsonl"))
	return newJournal(lines), err
}

// find returns the line of a change. The error says why the last line that could be it is not.
func (j *journal) find(c Change, outages []Outage) (*invariant.Line, error) {
	err := errors.New("no line of this type")
	var before map[string]any
	for _, l := range j.of[c.UID] {
		var object map[string]any
		if err := json.Unmarshal(l.Object, &object); l.Object != nil && err != nil {
			return nil, err
		}
		was, is := value(before, c.Field), value(object, c.Field)
		before = object
		if l.Type != c.Type {
			continue
		}
		if c.Field != "" && c.To != redacted {
			if !same(is, c.To) || same(was, c.To) || c.From != nil && !same(was, c.From) {
				continue
			}
			if !touches(l, c.Field) {
				err = fmt.Errorf("seq %d: its changes do not have the field", l.Seq)
				continue
			}
		}
		if timeErr := j.timely(l, c, outages); timeErr != nil {
			err = fmt.Errorf("seq %d: %w", l.Seq, timeErr)
			continue
		}
		return l, nil
	}
	return nil, fmt.Errorf("%s %s %s/%s %s %v: %w", c.Type, c.Resource, c.Namespace, c.Name, c.Field, c.To, err)
}

// timely checks that the line came when it could have, by the way it could have.
func (j *journal) timely(l *invariant.Line, c Change, outages []Outage) error {
	from, until, origin := c.NotBefore, c.NotAfter, invariant.FromWatch
	if c.Learned != live {
		for _, o := range outages {
			if c.NotBefore.After(o.From) {
				from, until = o.Until, o.Until.Add(patience) // a stream may be in a long pause
			}
		}
	}
	if c.Learned == missed {
		origin = invariant.FromRelist
		gap := func(g invariant.Line) bool { return g.Stream == l.Stream && g.Type == invariant.Gap && g.Seq < l.Seq }
		if !slices.ContainsFunc(j.lines, gap) {
			return errors.New("there is no GAP before it")
		}
	}
	at, err := time.Parse(time.RFC3339Nano, l.Time)
	switch {
	case err != nil:
		return err
	case l.Origin != origin:
		return fmt.Errorf("origin %s, not %s", l.Origin, origin)
	case at.Before(from) || at.After(until.Add(delay)):
		return fmt.Errorf("time %s is not between %s and %s", l.Time, clock(from), clock(until))
	case c.Type == invariant.Deleted && (l.FinalStateKnown == nil) != (c.Learned != missed):
		return errors.New("finalStateKnown is wrong")
	}
	return nil
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// touches reports whether the line's changes have an operation on the field, or above or below it.
func touches(l *invariant.Line, field string) bool {
	var operations []struct{ Path string }
	return json.Unmarshal(l.Raw("changes"), &operations) == nil && slices.ContainsFunc(operations, func(o struct{ Path string }) bool {
		return o.Path == field || strings.HasPrefix(field, o.Path+"/") || strings.HasPrefix(o.Path, field+"/")
	})
}

// answers counts how a question is answered that the journal need not be able to answer, but not wrongly.
type answers struct {
	right, absent int
	wrong         []string
}

func (a *answers) add(c Change, got, want string, right bool) {
	switch {
	case got == "":
		a.absent++
	case right:
		a.right++
	default:
		a.wrong = append(a.wrong, fmt.Sprintf("%s %s/%s %s: %s, not %s", c.Resource, c.Namespace, c.Name, c.Field, got, want))
	}
}

func (a *answers) String() string {
	text := fmt.Sprintf("%d right, %d absent, %d wrong", a.right, a.absent, len(a.wrong))
	for _, w := range a.wrong {
		text += "\n    " + w
	}
	return text
}

// check holds the journal against the ledger.
func (x *incident) check(strict bool) (report string, err error) {
	j, err := x.read()
	if err != nil {
		return "", err
	}
	faults := []error{invariant.All(j.lines, invariant.Options{}), x.leaks()}
	var who, when, rotations answers
	changes := 0
	for _, s := range x.ledger.Steps {
		for _, c := range s.Changes {
			changes++
			l, err := j.find(c, x.ledger.Outages)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", s.Name, err))
				continue
			}
			if c.Manager != "" {
				is, want := by{l.Manager, l.Subresource}, by{c.Manager, c.Subresource}
				who.add(c, is.String(), want.String(), is == want)
			}
			var written string
			_ = json.Unmarshal(l.Raw("writtenAt"), &written) // nil where there is none
			at, timeErr := time.Parse(time.RFC3339, written)
			when.add(c, written, clock(c.NotBefore)+" to "+clock(c.NotAfter),
				timeErr == nil && !at.Before(c.NotBefore.Truncate(time.Second)) && !at.After(c.NotAfter))
			if strict && c.Learned == late && c.Field == image && written == "" {
				faults = append(faults, fmt.Errorf("seq %d was written late, and nothing says so", l.Seq))
			}
			if c.To == redacted && touches(l, c.Field) {
				rotations.add(c, redacted, redacted, true)
			} else if c.To == redacted {
				rotations.absent++
			}
		}
	}
	if strict {
		if n := len(who.wrong) + len(when.wrong); n > 0 {
			faults = append(faults, fmt.Errorf("%d wrong answers", n))
		}
		if rotations.absent > 0 {
			faults = append(faults, errors.New("a rotated password is no change"))
		}
	}
	report = fmt.Sprintf("%d lines, %d changes by %d steps\n  who made them: %s\n  when: %s\n  rotated passwords: %s",
		len(j.lines), changes, len(x.ledger.Steps), &who, &when, &rotations)
	return report, errors.Join(faults...)
}

func (b by) String() string {
	if b.subresource == "" {
		return b.manager
	}
	return b.manager + "/" + b.subresource
}

// caughtUp waits until the journal has all changes of the ledger.
func (x *incident) caughtUp(ctx context.Context) error {
	return x.daemon.Wait(ctx, patience, "the journal has all changes", func() error {
		j, err := x.read()
		if err != nil {
			return err // or the last line is just being written
		}
		for _, s := range x.ledger.Steps {
			for _, c := range s.Changes {
				if _, err := j.find(c, x.ledger.Outages); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// atRest waits until replaying the journal gives the objects that the server has.
func (x *incident) atRest(ctx context.Context) error {
	return x.daemon.Wait(ctx, patience, "the journal has what the server has", func() error {
		j, err := x.read()
		if err != nil {
			return err
		}
		told, err := invariant.Replay(j.lines)
		if err != nil {
			return err
		}
		is, err := workload.Live(ctx, x.client, j.sources())
		if err != nil {
			return err
		}
		return invariant.Compare(told, is)
	})
}

// sources is what the streams read, but of the definition that was deleted.
func (j *journal) sources() []workload.Source {
	all := make(map[schema.GroupVersionResource]workload.Source)
	for i := range j.lines {
		if l := &j.lines[i]; l.Type == invariant.Synced && l.Group != coupons.Group {
			r := schema.GroupVersionResource{Group: l.Group, Version: l.Version, Resource: l.Resource}
			all[r] = workload.Source{Entry: workload.Entry{Kind: workload.Kind{Resource: r}}}
		}
	}
	return slices.Collect(maps.Values(all))
}

// leaks looks for the passwords in all that kubejournal has written.
func (x *incident) leaks() error {
	return filepath.WalkDir(x.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := invariant.ReadFile(path)
		if err != nil {
			return err
		}
		return workload.Leak(path, content)
	})
}

// value is what a JSON Pointer leads to, nil where that is nothing.
func value(in any, pointer string) any {
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch of := in.(type) {
		case map[string]any:
			in = of[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(of) {
				return nil
			}
			in = of[i]
		default:
			return nil
		}
	}
	return in
}

// same compares values of a field, whatever kinds of numbers they were read as.
func same(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
