package invariant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// The types of lines, the origins, and the reasons of a GAP that change what can be compared or what may come before
// it.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Gap      = "GAP"
	Synced   = "SYNCED"
	Removed  = "REMOVED" // of whole files; a compacted file is not read by these checks
	Sealed   = "SEALED"

	FromSnapshot = "snapshot"
	FromWatch    = "watch"
	FromRelist   = "relist"

	Ahead            = "PositionAheadOfServer"
	Interrupted      = "RelistInterrupted"
	CheckpointLost   = "CheckpointLost"
	JournalTruncated = "JournalTruncated"
	Refused          = "PositionRefused"
)

// Line is one line of a journal.
type Line struct {
	Seq                 uint64          `json:"seq"`
	Term                uint64          `json:"term"`
	Time                string          `json:"time"`
	Type                string          `json:"type"`
	Origin              string          `json:"origin"`
	ID                  string          `json:"id"`
	Stream              string          `json:"stream"`
	Cluster             string          `json:"cluster"`
	Group               string          `json:"group"`
	Version             string          `json:"version"`
	Resource            string          `json:"resource"`
	Kind                string          `json:"kind"`
	Namespace           string          `json:"namespace"`
	Name                string          `json:"name"`
	UID                 string          `json:"uid"`
	ResourceVersion     string          `json:"resourceVersion"`
	FinalStateKnown     *bool           `json:"finalStateKnown"`
	ClusterUID          string          `json:"clusterUID"`
	Reason              string          `json:"reason"`
	FromResourceVersion string          `json:"fromResourceVersion"`
	Count               *Count          `json:"count"`
	Removed             *Range          `json:"removed"`
	Sealed              *Range          `json:"sealed"`
	Manager             string          `json:"manager"`
	Subresource         string          `json:"subresource"`
	WrittenAt           string          `json:"writtenAt"`
	Event               *Event          `json:"event"`
	Object              json.RawMessage `json:"object"`
	Truncated           bool            `json:"truncated"`

	Where  string // file and line, for people
	raw    []byte
	fields map[string]json.RawMessage
}

// Text returns the line as it is written, without its end.
func (l *Line) Text() []byte { return l.raw }

// Raw returns a member of the line as it is written, nil where there is none.
func (l *Line) Raw(member string) json.RawMessage { return l.fields[member] }

// Count is what a SYNCED line closes.
type Count struct {
	Added     int `json:"added"`
	Modified  int `json:"modified"`
	Deleted   int `json:"deleted"`
	Unchanged int `json:"unchanged"`
}

// Range is which lines a REMOVED or SEALED line is about.
type Range struct {
	From uint64 `json:"fromSeq"`
	To   uint64 `json:"toSeq"`
}

// Event is the one shape of the events of both API groups.
type Event struct {
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Type      string `json:"type"`
	Count     int    `json:"count"`
	FirstTime string `json:"firstTime"`
	LastTime  string `json:"lastTime"`
	Reporter  string `json:"reporter"`
	Regarding struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"regarding"`
}

// Read reads journal files in the order given. A last line without its end is an error.
func Read(paths ...string) ([]Line, error) {
	var all []Line
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		lines, err := Parse(filepath.Base(path), 1, data)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, nil
}

// Parse reads whole lines, of which the first has the number first in the file called name.
func Parse(name string, first int, data []byte) ([]Line, error) {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return nil, fmt.Errorf("%s: the last line has no end", name)
	}
	var lines []Line
	for raw := range bytes.Lines(data) {
		l := Line{Where: fmt.Sprintf("%s:%d", name, first+len(lines))}
		if err := l.parse(raw[:len(raw)-1]); err != nil {
			return nil, fmt.Errorf("%s: %w: %.300q", l.Where, err, raw)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (l *Line) parse(raw []byte) error {
	if !utf8.Valid(raw) {
		return errors.New("not UTF-8")
	}
	fields, err := members(raw)
	if err != nil {
		return err
	}
	l.raw, l.fields = raw, fields
	// The object, by far the largest, is left as it is: tests read the same journal again and again.
	object, ok := fields["object"]
	if !ok {
		return json.Unmarshal(raw, l)
	}
	at := cap(raw) - cap(object) // it is a part of raw
	small := slices.Concat(raw[:at], []byte("null"), raw[at+len(object):])
	if err := json.Unmarshal(small, l); err != nil {
		return err
	}
	l.Object = object
	return nil
}

// members reads one JSON object whose names are told apart as a strict reader would: none twice. The values are parts
// of raw.
func members(raw []byte) (map[string]json.RawMessage, error) {
	var first json.RawMessage
	if err := json.Unmarshal(raw, &first); err != nil { // all of it, with nothing after
		return nil, err
	}
	i := space(raw, 0)
	if raw[i] != '{' {
		return nil, errors.New("not a JSON object")
	}
	fields := make(map[string]json.RawMessage)
	for i = space(raw, i+1); raw[i] != '}'; {
		if raw[i] == ',' {
			i = space(raw, i+1)
		}
		end := skip(raw, i)
		var name string
		if err := json.Unmarshal(raw[i:end], &name); err != nil {
			return nil, err
		}
		i = space(raw, space(raw, end)+1) // behind the colon
		end = skip(raw, i)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("field %q stands twice", name)
		}
		fields[name] = raw[i:end]
		i = space(raw, end)
	}
	return fields, nil
}

// space returns where the white space that begins at i ends.
func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n') {
		i++
	}
	return i
}

// skip returns where the value that begins at i ends; raw is valid JSON.
func skip(raw []byte, i int) int {
	for depth := 0; ; {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n': // within an object or array
			i++
			continue
		default: // a number or a word
			for i < len(raw) && strings.IndexByte(",}] \t\r\n", raw[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// about reports whether the line is about an object.
func (l *Line) about() bool { return l.Type == Added || l.Type == Modified || l.Type == Deleted }
