package config

import (
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File string // the config file, or the flag or variable that the value came from
	Line int    // in File, from 1; 0 where there is none
	Path string // the value, e.g. log.level or resources[2].labelSelector; "" is none
	Msg  string // what is wrong and what to write instead
}

// Error returns the fault as one line: file:line: path: message.
func (f Fault) Error() string {
	parts := []string{f.File, f.Path, oneLine(f.Msg)}
	if f.Line > 0 {
		parts[0] += ":" + strconv.Itoa(f.Line)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
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

// err sorts the faults by line and returns them as an error, or nil: an empty Faults would be an error that is not nil.
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
// reported once. Of a Config that was not loaded it is empty.
type source struct {
	file    string            // "" when the resources came from the command line
	hash    string            // of the file
	lines   map[string]int    // path, e.g. resources[2].labelSelector -> line in file
	from    map[string]string // path -> flag or variable that set it in place of the file
	short   map[string]bool   // entries that are a name alone, without keys
	faulted map[string]bool   // paths with a fault from reading
}

// Fault places a message at a key of an entry, or at a key outside of entries where entry is "": at its own line, else
// at that of the nearest thing around it. A resource that is written as its name alone has no keys. A key that the
// entry leaves to the defaults is theirs.
func (c *Config) Fault(entry, field, msg string) Fault {
	path := join(entry, field)
	switch key, _, _ := strings.Cut(field, "["); {
	case c.src.inherits(entry, key):
		path = join("defaults", field)
	case c.src.short[entry]:
		path = entry
	}
	if from, ok := c.src.from[path]; ok {
		return Fault{File: from, Path: path, Msg: msg}
	}
	return Fault{c.src.file, around(c.src.lines, path), path, msg}
}

// inherits reports whether an entry takes the file's default for a key.
func (s *source) inherits(entry, key string) bool {
	_, own := s.lines[join(entry, key)]
	_, set := s.lines[join("defaults", key)]
	return set && !own && entry != "" && key != ""
}

func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// around returns what m has for a path, else for the nearest thing around it: for resources[2].types[0],
// resources[2].types, resources[2] and resources.
func around[V any](m map[string]V, path string) (v V) {
	for ; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if v, ok := m[path]; ok {
			return v
		}
	}
	return v
}
