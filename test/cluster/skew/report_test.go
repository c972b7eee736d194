package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const release = "v1.32.13"

// good is a run in which all is well.
func good() []event {
	var events []event
	for i, pkg := range packages {
		first := tests[:1] // of the conformance suite
		if i > 0 {
			first = tests[1:]
		}
		for _, name := range first {
			events = append(events,
				event{Action: "run", Package: pkg, Test: name},
				event{Action: "output", Package: pkg, Test: name, Output: "words of " + name + "\n"},
				event{Action: "pass", Package: pkg, Test: name + "/part"},
				event{Action: "pass", Package: pkg, Test: name},
			)
		}
		events = append(events,
			event{Action: "attr", Package: pkg, Test: first[0], Key: serverAttribute, Value: release},
			event{Action: "pass", Package: pkg},
		)
	}
	return events
}

func readAll(t *testing.T, events []event) (report, string) {
	t.Helper()
	var in, out strings.Builder
	for _, e := range events {
		if err := json.NewEncoder(&in).Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	r := newReport()
	if err := r.read(strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

func TestReport(t *testing.T) {
	r, out := readAll(t, good())
	if err := r.check(release); err != nil || out != "" {
		t.Errorf("%v, output %q", err, out)
	}
	if want := 2 * len(tests); r.passed != want {
		t.Errorf("%d tests, want %d", r.passed, want)
	}
	if got := r.servers(); !slices.Equal(got, []string{release}) {
		t.Errorf("servers %v", got)
	}
	for name, tc := range map[string]struct {
		change func(events []event) []event
		want   string
	}{
		"failed": {func(events []event) []event {
			events[3].Action = "fail"
			return events
		}, "1 failures"},
		"a part was skipped": {func(events []event) []event {
			events[2].Action = "skip"
			return events
		}, tests[0] + "/part was skipped"},
		"did not run": {func(events []event) []event {
			return slices.Delete(events, 10, 14)
		}, tests[2] + " did not run"},
		"on another server": {func(events []event) []event {
			events[4].Value = "v1.36.3"
			return events
		}, packages[0] + ` ran on servers ["v1.36.3"], want ` + release},
		"on no server": {func(events []event) []event {
			events[4].Key = "weather"
			return events
		}, packages[0] + " ran on servers []"},
		"nothing": {func([]event) []event { return nil }, tests[0] + " did not run"},
	} {
		t.Run(name, func(t *testing.T) {
			r, out := readAll(t, tc.change(good()))
			if err := r.check(release); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want an error that says %s", err, tc.want)
			}
			want := ""
			if name == "failed" {
				want = "words of " + tests[0] + "\n"
			}
			if out != want {
				t.Errorf("output %q, want %q", out, want)
			}
		})
	}
	t.Run("no events", func(t *testing.T) {
		r := newReport()
		if err := r.read(strings.NewReader("panic: no JSON\n"), new(strings.Builder)); err == nil {
			t.Error("text was taken for events")
		}
	})
}

// A test that was given another name would be found missing only by a run that takes minutes.
func TestTestsAreThere(t *testing.T) {
	there := make(map[string]bool)
	for _, folder := range []string{"../../conformance", "../../scenario"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
					there[f.Name.Name] = true
				}
			}
		}
	}
	for _, name := range tests {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
}
