package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIndex damages a journal of three files, verifies it, writes its indexes again and asks it.
func TestIndex(t *testing.T) {
	clearEnv(t)
	t.Chdir(t.TempDir())
	theStory(t, "journal.jsonl")
	whole := map[string]string{}
	for _, path := range glob(t, "*") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[path] = string(content)
	}
	rotated := glob(t, "journal-*.gz")
	if len(rotated) != 2 {
		t.Fatalf("%q", rotated)
	}
	one, two := rotated[0], rotated[1]
	oneIndex, twoIndex := strings.Replace(one, ".gz", ".index", 1), strings.Replace(two, ".gz", ".index", 1)
	question := []string{"get", "*", "--at", "2026-11-20T14:12:00Z", "-o", "yaml", "--journal", "journal.jsonl"}
	_, answer, notes := execute(t, question...)
	if answer == "" {
		t.Fatal(notes)
	}
	flip := func(path string) {
		content := []byte(whole[path])
		content[len(content)/2] ^= 4
		writeFile(t, path, string(content))
	}
	first := 1 + strings.Count(unzip(t, whole[one]), "\n")
	last := first - 1 + strings.Count(unzip(t, whole[two]), "\n")
	missing := fmt.Sprintf("lines %d to %d are missing before journal.jsonl\n", first, last)
	const agrees = " lines, none missing; every file can be read, and every index agrees\n"
	for _, c := range []struct {
		what   string
		damage func()
		faults string // that --verify finds
		wrote  string // by index; then there are no faults any more
		rest   string // of the faults
		lost   bool   // lines: the answer may be another one
	}{
		{what: "whole", damage: func() {}},
		{what: "an index is missing", damage: func() { remove(t, oneIndex) }, faults: one + " has no index\n", wrote: oneIndex},
		{what: "an index is damaged", damage: func() { flip(twoIndex) }, faults: twoIndex + " cannot be used: damaged index\n", wrote: twoIndex},
		{what: "an index is cut", damage: func() { writeFile(t, twoIndex, whole[twoIndex][:90]) }, faults: twoIndex + " cannot be used: damaged index\n", wrote: twoIndex},
		{what: "an index is that of another file", damage: func() { writeFile(t, oneIndex, whole[twoIndex]) }, faults: oneIndex + " cannot be used: about another segment: damaged index\n", wrote: oneIndex},
		{what: "compressed in one piece, without indexes", damage: func() {
			remove(t, oneIndex, twoIndex, two)
			writeFile(t, strings.TrimSuffix(two, ".gz"), unzip(t, whole[two]))
			writeFile(t, one, zipped(t, unzip(t, whole[one])))
		}, faults: one + " has no index\n" + strings.TrimSuffix(two, ".gz") + " has no index\n", wrote: oneIndex + "\nwrote " + twoIndex},
		{what: "a file is missing", damage: func() { remove(t, two, twoIndex) }, faults: missing, rest: missing, lost: true},
		{what: "a file cannot be read, and another has no index", damage: func() {
			flip(one)
			remove(t, oneIndex, twoIndex)
		}, faults: one + " has no index\n", wrote: twoIndex, rest: one + " has no index\n", lost: true},
		{what: "a file is damaged", damage: func() { flip(two) }, faults: two + " cannot be read: ", rest: two + " cannot be read: ", lost: true},
		{what: "a file begins with damage", damage: func() { writeFile(t, one, "X"+whole[one]) }, faults: one + " cannot be read: gzip: invalid header\n", rest: one + " cannot be read: ", lost: true},
		{what: "the active file begins with damage", damage: func() { writeFile(t, "journal.jsonl", "X"+whole["journal.jsonl"]) },
			faults: "journal.jsonl cannot be read: it does not begin with a line of a journal\n", rest: "journal.jsonl cannot be read: ", lost: true},
		{what: "a line is damaged", damage: func() {
			remove(t, two)
			writeFile(t, strings.TrimSuffix(two, ".gz"), strings.Replace(unzip(t, whole[two]), fmt.Sprintf(`"seq":%d`, first+1), fmt.Sprintf(`"seq"*%d`, first+1), 1))
		}, faults: strings.TrimSuffix(two, ".gz") + " has ", rest: strings.TrimSuffix(two, ".gz") + " has ", lost: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, path := range glob(t, "*") {
				remove(t, path)
			}
			for path, content := range whole {
				writeFile(t, path, content)
			}
			c.damage()
			verify := func(faults string) {
				t.Helper()
				status, stdout, stderr := execute(t, "index", "--verify", "--journal", "journal.jsonl")
				stdout = strings.ReplaceAll(stdout, dir(t), "")
				if faults == "" && (status != 0 || !strings.HasSuffix(stdout, agrees) || stderr != "") || faults != "" && (status != exitFault || !strings.HasPrefix(stdout, faults) || !strings.Contains(stderr, " fault")) {
					t.Errorf("status %d, %s%s, want %s", status, stdout, stderr, faults)
				}
			}
			verify(c.faults)
			if _, is, notes := execute(t, question...); is != answer && !c.lost {
				t.Errorf("another answer:\n%s%s", is, notes)
			}
			status, stdout, stderr := execute(t, "index", "--journal", "journal.jsonl")
			stdout = strings.ReplaceAll(stdout, dir(t), "")
			switch {
			case c.lost: // what can be read has its index afterwards
				if c.wrote != "" && (stdout != "wrote "+c.wrote+"\n" || !strings.Contains(stderr, "read ") || status != exitFault) {
					t.Errorf("index: status %d, %s%s", status, stdout, stderr)
				}
			case c.wrote == "" && (stdout != "" || !strings.Contains(stderr, "every rotated file has its index")), c.wrote != "" && stdout != "wrote "+c.wrote+"\n", status != 0:
				t.Errorf("index: status %d, %s%s", status, stdout, stderr)
			}
			verify(c.rest)
			if _, is, notes := execute(t, question...); is != answer && !c.lost {
				t.Errorf("another answer:\n%s%s", is, notes)
			}
		})
	}
	// Without the lines of an active file that cannot be read, no answer is whole.
	writeFile(t, "journal.jsonl", "X"+whole["journal.jsonl"])
	for _, args := range [][]string{{"get", "cm", "--at", "2026-11-20T14:46:00Z"}, {"history", "nodes"}} {
		if status, _, notes := execute(t, append(args, "--journal", "journal.jsonl")...); status != exitNotCovered || !strings.Contains(notes, "not covered: "+dir(t)+"journal.jsonl cannot be read: ") {
			t.Errorf("%q: status %d, %s", args, status, notes)
		}
	}
	writeFile(t, "journal.jsonl", whole["journal.jsonl"])
	writeFile(t, one, "X")
	if status, _, notes := execute(t, question...); status != exitNotCovered || !strings.Contains(notes, fmt.Sprintf("lines before line %d are not in files that can be read: ", first)) {
		t.Errorf("without the first file: status %d, %s", status, notes)
	}
	writeFile(t, "empty.jsonl", "")
	writeFile(t, "none.yaml", "resources: [pods]\n")
	for args, want := range map[string]int{"--journal nothing": exitFault, "--journal none.yaml": exitFault, "--verify --journal none.yaml": exitFault, "--journal .": exitFault, "--journal empty.jsonl": 0, "--verify --journal empty.jsonl": 0, "pods": exitUsage, "": exitUsage} {
		if status, stdout, stderr := execute(t, append([]string{"index"}, strings.Fields(args)...)...); status != want || status != 0 && stdout != "" {
			t.Errorf("index %s: status %d, want %d: %s%s", args, status, want, stdout, stderr)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func remove(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// dir returns the folder of the files in the program's output, with a slash.
func dir(t *testing.T) string {
	t.Helper()
	wd, err := os.Getwd()
	if err == nil {
		wd, err = filepath.EvalSymlinks(wd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return wd + "/"
}

func unzip(t *testing.T, content string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// zipped returns text in one gzip member.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
