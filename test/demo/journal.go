package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubejournal/test/invariant"
	"kubejournal/test/program"
)

// line is a journal line.
type line struct {
	invariant.Line
	raw []byte // as it is in the journal
}

// object is the object that the line is about, as NAMESPACE/NAME or NAME; "" for a line about a stream.
func (l *line) object() string {
	if l.Namespace == "" {
		return l.Name
	}
	return l.Namespace + "/" + l.Name
}

// field is a value in the line's object as text, and "" where there is none.
func (l *line) field(path ...string) string {
	var object map[string]any
	if json.Unmarshal(l.Object, &object) != nil {
		return ""
	}
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	if !found || err != nil {
		return ""
	}
	return fmt.Sprint(value)
}

// journal reads a journal file while it grows.
type journal struct {
	tail  *program.Tail
	lines []line
}

// refresh reads the lines that are new and complete. A file that is not there yet has none.
func (j *journal) refresh() error {
	text, err := j.tail.Next()
	if err != nil {
		return err
	}
	for raw := range bytes.Lines(text) {
		lines, err := invariant.Parse("journal.jsonl", len(j.lines)+1, raw)
		if err == nil {
			err = invariant.Sequence(lines, uint64(len(j.lines)+1))
		}
		if err != nil {
			return err
		}
		j.lines = append(j.lines, line{lines[0], raw})
	}
	return nil
}
