package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json, or of its build. Of the fields of both it has those that matter here.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Key     string // of an attribute
	Value   string
}

// serverAttribute is what a test calls the version of the server that it runs on.
const serverAttribute = "kubernetes"

// report is what the tests of one variant came to.
type report struct {
	passed   int                        // tests, and theirs
	done     map[string]bool            // tests of the first order that passed
	notes    map[string]map[string]bool // server versions, by the package that met them
	skipped  []string
	failures int
}

func newReport() report {
	return report{done: make(map[string]bool), notes: make(map[string]map[string]bool)}
}

// read takes the events of a test run up to its end, and writes what the failed tests and builds have said to out.
func (r *report) read(in io.Reader, out io.Writer) error {
	said := make(map[string]*strings.Builder) // by package and test
	decoder := json.NewDecoder(in)
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			// The rest is read, or go test would wait for it to be.
			_, drain := io.Copy(io.Discard, in)
			return errors.Join(fmt.Errorf("read test events: %w", err), drain)
		}
		name := e.Package
		if e.Test != "" {
			name += " " + e.Test
		}
		switch e.Action {
		case "output":
			if said[name] == nil {
				said[name] = new(strings.Builder)
			}
			said[name].WriteString(e.Output)
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "attr":
			if e.Key == serverAttribute {
				if r.notes[e.Package] == nil {
					r.notes[e.Package] = make(map[string]bool)
				}
				r.notes[e.Package][e.Value] = true
			}
		case "pass", "fail", "skip":
			r.end(e, name)
			if text := said[name]; text != nil && e.Action == "fail" {
				fmt.Fprint(out, text.String())
			}
			delete(said, name)
		}
	}
}

func (r *report) end(e event, name string) {
	switch {
	case e.Action == "fail":
		r.failures++
	case e.Test == "": // a package
	case e.Action == "skip":
		r.skipped = append(r.skipped, name)
	default:
		r.passed++
		if !strings.Contains(e.Test, "/") {
			r.done[e.Test] = true
		}
	}
}

// check says what is not as it must be, though go test may be content.
func (r *report) check(release string) error {
	var faults []error
	if r.failures > 0 {
		faults = append(faults, fmt.Errorf("%d failures", r.failures))
	}
	for _, name := range r.skipped {
		faults = append(faults, fmt.Errorf("%s was skipped", name))
	}
	for _, name := range tests {
		if !r.done[name] {
			faults = append(faults, fmt.Errorf("%s did not run", name))
		}
	}
	for _, pkg := range packages {
		if met := slices.Sorted(maps.Keys(r.notes[pkg])); !slices.Equal(met, []string{release}) {
			faults = append(faults, fmt.Errorf("%s ran on servers %q, want %s", pkg, met, release))
		}
	}
	return errors.Join(faults...)
}

// servers are the versions that the tests met.
func (r *report) servers() []string {
	all := make(map[string]bool)
	for _, met := range r.notes {
		maps.Copy(all, met)
	}
	if len(all) == 0 {
		return []string{"no server"}
	}
	return slices.Sorted(maps.Keys(all))
}
