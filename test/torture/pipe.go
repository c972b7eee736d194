package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"kubejournal/test/invariant"
)

// commitSlack is what a commit itself may take on a busy machine: a line that comes while one is under way is covered
// by the next only.
const commitSlack = 500 * time.Millisecond

// keep parses all that a run wrote to stdout. It also goes into a file, for whoever has to find out.
func keep(text []byte, file string) ([]invariant.Line, error) {
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("keep stdout: %w", err)
	}
	lines, err := invariant.Parse("stdout", 1, text)
	if err == nil {
		err = invariant.Shape(lines)
	}
	return lighten(lines), err
}

// run is what one run wrote to its stdout.
type run struct {
	lines  []invariant.Line
	killed time.Time // when; zero where it ended by itself
}

// merge puts the lines of all runs together, each event once, and looks at what was told again: that must have been
// told for the last time within one checkpoint interval before the kill of the run that told it.
func merge(runs []run, interval time.Duration) (all []invariant.Line, p proof) {
	type last struct {
		at     string // the time of the line
		killed time.Time
	}
	told := make(map[string]last)
	var faults []error
	next := uint64(1)
	for n, r := range runs {
		if len(r.lines) == 0 {
			continue
		}
		if first := r.lines[0].Seq; first > next {
			faults = append(faults,
				fmt.Errorf("run %d begins at seq %d, the one before ended before %d", n+1, first, next))
		}
		if err := invariant.Sequence(r.lines, r.lines[0].Seq); err != nil {
			faults = append(faults, err)
		}
		next = r.lines[len(r.lines)-1].Seq + 1
		for _, l := range r.lines {
			before, again := told[l.ID]
			told[l.ID] = last{l.Time, r.killed}
			if !again {
				all = append(all, l)
				continue
			}
			p.again++
			if before.killed.IsZero() {
				faults = append(faults, fmt.Errorf("run %d tells %s again after a run that was not killed", n+1, l.ID))
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, before.at)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			age := before.killed.Sub(at)
			p.oldest = max(p.oldest, age)
			if age > interval+commitSlack {
				p.repeated++
				if len(faults) < 10 {
					faults = append(faults,
						fmt.Errorf("run %d tells %s again: it was told %s before the kill", n+1, l.ID, age))
				}
			}
		}
	}
	p.fault = errors.Join(faults...)
	return all, p
}
