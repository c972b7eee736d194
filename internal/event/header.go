package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Header is what a line says beside its object.
type Header struct {
	Seq    uint64
	Time   time.Time
	Type   Type
	Origin Origin
	ID     string
	Stream string

	Namespace, Name, UID, ResourceVersion string

	ClusterUID          string    // of a GAP or SYNCED
	Reason              GapReason // of a GAP
	FromResourceVersion string    // the same
	Count               *Count    // of a SYNCED

	Object    []byte // as the line has it; its bytes are the line's own, or a copy's
	Truncated bool   // Object is less than the stream's lines have
}

var errNotLine = errors.New("parse line: no seq, time, type, id or stream")

// ParseHeader reads a line back, with or without its newline. Anything but one
// complete JSON object with the members that every line has is an error, so a
// torn line is one.
func ParseHeader(line []byte, h *Header) error {
	line = trimRight(trimLeft(line))
	err := h.parse(line)
	if err != nil {
		// As in Renderer.Scan: it may only not be compact.
		if compact, ok := appendCompact(nil, line); ok && len(compact) < len(line) {
			err = h.parse(compact)
		}
	}
	if err != nil {
		*h = Header{}
		return fmt.Errorf("parse line: %w", err)
	}
	if h.Seq == 0 || h.Time.IsZero() || h.Type == "" || h.ID == "" || h.Stream == "" {
		*h = Header{}
		return errNotLine
	}
	return nil
}

// parse is ParseHeader for compact JSON.
func (h *Header) parse(b []byte) error {
	*h = Header{}
	if len(b) == 0 || b[0] != '{' {
		return &SyntaxError{Msg: "expected an object"}
	}
	s := scanner{}
	s.reset(b)
	defer s.done()
	if s.x.control {
		return errControl
	}
	i := 1
	if len(b) == 2 && b[1] == '}' {
		return nil
	}
	for {
		key := i
		if i = s.str(i); i < 0 {
			return s.err
		}
		name := b[key+1 : i-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unquote(nil, name)
		}
		if i >= len(b) || b[i] != ':' {
			s.fail(i, "expected a colon")
			return s.err
		}
		start := i + 1
		if i = s.skip(start, 1); i < 0 {
			return s.err
		}
		if err := h.set(name, b[start:i]); err != nil {
			return err
		}
		switch {
		case i < len(b) && b[i] == ',':
			i++
		case i == len(b)-1 && b[i] == '}':
			return nil
		default:
			s.fail(i, "expected a comma or the end")
			return s.err
		}
	}
}

// set takes one member of the line; value is valid JSON.
func (h *Header) set(key, value []byte) error {
	switch string(key) {
	case "seq":
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return fmt.Errorf("read seq: %w", err)
		}
		h.Seq = n
	case "time":
		var s string
		if err := text(&s, key, value); err != nil {
			return err
		}
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return fmt.Errorf("read time: %w", err)
		}
		h.Time = t
	case "type":
		return text(&h.Type, key, value)
	case "origin":
		return text(&h.Origin, key, value)
	case "id":
		return text(&h.ID, key, value)
	case "stream":
		return text(&h.Stream, key, value)
	case "namespace":
		return text(&h.Namespace, key, value)
	case "name":
		return text(&h.Name, key, value)
	case "uid":
		return text(&h.UID, key, value)
	case "resourceVersion":
		return text(&h.ResourceVersion, key, value)
	case "clusterUID":
		return text(&h.ClusterUID, key, value)
	case "reason":
		return text(&h.Reason, key, value)
	case "fromResourceVersion":
		return text(&h.FromResourceVersion, key, value)
	case "count":
		c := &Count{}
		if err := json.Unmarshal(value, c); err != nil {
			return fmt.Errorf("read count: %w", err)
		}
		h.Count = c
	case "object":
		h.Object = value
	case "truncated":
		h.Truncated = string(value) == "true"
	}
	return nil
}

func text[T ~string](to *T, key, value []byte) error {
	if value[0] != '"' {
		return fmt.Errorf("read %s: not a string", key)
	}
	*to = T(stringValue(value))
	return nil
}
