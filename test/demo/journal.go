package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"kubejournal/test/program"
)

// line is a journal line.
type line struct {
	Seq                 int64          `json:"seq"`
	Time                string         `json:"time"`
	Type                string         `json:"type"`
	Origin              string         `json:"origin"`
	Stream              string         `json:"stream"`
	Resource            string         `json:"resource"`
	Namespace           string         `json:"namespace"`
	Name                string         `json:"name"`
	ResourceVersion     string         `json:"resourceVersion"`
	FromResourceVersion string         `json:"fromResourceVersion"`
	Manager             string         `json:"manager"`
	Subresource         string         `json:"subresource"`
	FinalStateKnown     *bool          `json:"finalStateKnown"`
	Reason              string         `json:"reason"`
	Count               *count         `json:"count"`
	Object              map[string]any `json:"object"`

	raw []byte // as it stands in the journal
}

type count struct{ Added, Modified, Deleted, Unchanged int }

// object is the object that the line is about, as NAMESPACE/NAME or NAME; "" for a line about a stream.
func (l *line) object() string {
	if l.Namespace == "" {
		return l.Name
	}
	return l.Namespace + "/" + l.Name
}

// field is a value in the line's object as text, and "" where there is none.
func (l *line) field(path ...string) string {
	var value any = l.Object
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		value = m[key]
	}
	if value == nil {
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
		l := line{raw: bytes.TrimSuffix(raw, []byte("\n"))}
		if err := json.Unmarshal(l.raw, &l); err != nil {
			return fmt.Errorf("read journal line %d: %w", len(j.lines)+1, err)
		}
		if want := int64(len(j.lines) + 1); l.Seq != want {
			return fmt.Errorf("read journal line %d: its seq is %d", want, l.Seq)
		}
		j.lines = append(j.lines, l)
	}
	return nil
}
