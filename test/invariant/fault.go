package invariant

import (
	"fmt"
	"strings"
)

const maxFaults = 12 // shown of one check

// faults collects what one check finds.
type faults struct {
	check string
	text  []string
	more  int
}

func (f *faults) at(l *Line, format string, args ...any) {
	f.add("%s (seq %d, %s): %s", l.Where, l.Seq, l.ID, fmt.Sprintf(format, args...))
}

func (f *faults) add(format string, args ...any) {
	if len(f.text) == maxFaults {
		f.more++
		return
	}
	f.text = append(f.text, fmt.Sprintf(format, args...))
}

func (f *faults) err() error {
	if len(f.text) == 0 {
		return nil
	}
	if f.more > 0 {
		f.text = append(f.text, fmt.Sprintf("and %d more", f.more))
	}
	return fmt.Errorf("%s:\n  %s", f.check, strings.Join(f.text, "\n  "))
}
