package config

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File  string // the config file, or the flag or variable that the value came from
	Line  int    // in File, from 1; 0 where there is none
	Entry string // the list entry, e.g. resources[2]; "" for a key outside a list
	Field string // the key, dotted; below Entry where that is set
	Msg   string // what is wrong and what to write instead
}

// Error returns the fault as one line: file:line: entry.field: message.
func (f Fault) Error() string {
	parts := []string{f.File, f.path(), oneLine(f.Msg)}
	if f.Line > 0 {
		parts[0] += ":" + strconv.Itoa(f.Line)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// path is the fault's place inside the file, e.g. resources[2].labelSelector.
func (f Fault) path() string {
	if f.Entry == "" || f.Field == "" || f.Field[0] == '[' {
		return f.Entry + f.Field
	}
	return f.Entry + "." + f.Field
}

// Faults is every fault of a configuration, in the order of the file.
type Faults []Fault

// Error returns one line per fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// err sorts the faults by line and returns them as an error; nil when there is none, since a nil slice in an error
// interface is not nil.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b Fault) int { return a.Line - b.Line })
	return fs
}

// oneLine keeps a message that quotes the user or another library on one printable line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// source records where the values of a Config were written and which of them could not be read, so that a fault is
// reported once.
type source struct {
	file    string            // "" when the resources came from the command line
	hash    string            // of the file
	lines   map[string]int    // path, e.g. resources[2].labelSelector -> line in file
	from    map[string]string // key -> flag or variable that set it in place of the file
	short   map[string]bool   // entries that are a name alone, without keys
	faulted map[string]bool   // paths with a fault from reading
}

func newSource(file string) *source {
	return &source{file: file, lines: map[string]int{}, from: map[string]string{}, short: map[string]bool{}, faulted: map[string]bool{}}
}

// outward yields a path and everything around it, e.g. resources[2].types[0], resources[2].types, resources[2], resources.
func outward(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for p := path; p != "" && yield(p); p = p[:max(strings.LastIndexAny(p, ".["), 0)] {
		}
	}
}

// fault places a message: at the path's own line, else at the line of the nearest thing around it.
func (s *source) fault(entry, field, msg string) Fault {
	f := Fault{Entry: entry, Field: field, Msg: msg}
	if s == nil {
		return f
	}
	path := f.path()
	if from, ok := s.from[path]; ok {
		f.File = from
		return f
	}
	f.File = s.file
	for p := range outward(path) {
		if line, ok := s.lines[p]; ok {
			f.Line = line
			break
		}
	}
	return f
}

// isFaulted reports whether the path, or something around it, could not be read.
func (s *source) isFaulted(path string) bool {
	if s == nil {
		return false
	}
	for p := range outward(path) {
		if s.faulted[p] {
			return true
		}
	}
	return false
}
