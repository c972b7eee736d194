package config

import (
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
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(f.Line))
	}
	if p := f.path(); p != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(p)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(oneLine(f.Msg))
	return b.String()
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

// err sorts the faults by line and returns them as an error, nil when there is none: a nil slice in an error
// interface would not be nil.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b Fault) int { return a.Line - b.Line })
	return fs
}

// oneLine keeps a message that quotes user input or another library's error on one printable line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// source remembers where the values of a Config were written and which of them are already known to be wrong, so
// that a value that could not even be read is not complained about twice.
type source struct {
	file    string              // "" when the resources came from the command line
	hash    string              // of the file
	lines   map[string]int      // path, e.g. resources[2].labelSelector -> line in file
	from    map[string]string   // key -> flag or variable that set it in place of the file
	short   map[string]bool     // entries that are a name alone, without keys
	faulted map[string]struct{} // paths with a fault from reading
}

func newSource(file string) *source {
	return &source{file: file, lines: map[string]int{}, from: map[string]string{}, short: map[string]bool{}, faulted: map[string]struct{}{}}
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
	for p := path; p != ""; p = p[:max(strings.LastIndexAny(p, ".["), 0)] {
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
	for p := path; p != ""; p = p[:max(strings.LastIndexAny(p, ".["), 0)] {
		if _, ok := s.faulted[p]; ok {
			return true
		}
	}
	return false
}
