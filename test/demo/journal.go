package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	path  string
	read  int64 // bytes of complete lines
	lines []line
}

// refresh reads the lines that are new and complete. A file that is not there yet has none.
func (j *journal) refresh() error {
	file, err := os.Open(j.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, j.read, 1<<30))
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	for {
		end := bytes.IndexByte(content, '\n')
		if end < 0 {
			return nil
		}
		l := line{raw: content[:end]}
		if err := json.Unmarshal(l.raw, &l); err != nil {
			return fmt.Errorf("read journal line %d: %w", len(j.lines)+1, err)
		}
		if want := int64(len(j.lines) + 1); l.Seq != want {
			return fmt.Errorf("read journal line %d: its seq is %d", want, l.Seq)
		}
		j.lines = append(j.lines, l)
		j.read += int64(end) + 1
		content = content[end+1:]
	}
}
