package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"kubejournal/internal/format/rawjson"
)

// Header is what a line says beside its object: a field for each member that anything reads back.
type Header struct {
	Seq    uint64
	Term   uint64 // 0 without leader election
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

// ParseHeader reads a line back, with or without its newline. Anything but one complete JSON object with the members
// that every line has is an error, so a torn line is one.
func ParseHeader(line []byte, h *Header) error {
	var (
		s       rawjson.Scanner
		compact []byte
	)
	defer s.Release()
	s.Reset(rawjson.TrimSpace(line))
	err := readCompact(&s, &compact, func() error { return h.parse(&s) })
	switch {
	case err != nil:
		err = fmt.Errorf("parse line: %w", err)
	case h.Seq == 0 || h.Time.IsZero() || h.Type == "" || h.ID == "" || h.Stream == "":
		err = errNotLine
	default:
		return nil
	}
	*h = Header{}
	return err
}

// parse is ParseHeader for the compact JSON that the scanner has.
func (h *Header) parse(s *rawjson.Scanner) error {
	*h = Header{}
	b := s.Text()
	if len(b) == 0 || b[0] != '{' {
		return &SyntaxError{Msg: "expected an object"}
	}
	if s.Control() {
		return errControl
	}
	i, more := s.Open(0, 0)
	for more {
		key, value := s.Key(i)
		if value < 0 {
			return s.Err()
		}
		if i = s.Skip(value, 1); i < 0 {
			return s.Err()
		}
		if err := h.set(key, b[value:i]); err != nil {
			return err
		}
		i, more = s.More(i, '}')
	}
	return s.End(i)
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
	case "term":
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return fmt.Errorf("read term: %w", err)
		}
		h.Term = n
	case "time":
		if err := h.Time.UnmarshalJSON(value); err != nil {
			return fmt.Errorf("read time: %w", err)
		}
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
		h.Count = &Count{}
		if err := json.Unmarshal(value, h.Count); err != nil {
			return fmt.Errorf("read count: %w", err)
		}
	case "object":
		h.Object = value
	case "truncated":
		h.Truncated = string(value) == "true"
	}
	return nil
}

func text[T ~string](to *T, key, value []byte) error {
	inside := rawjson.Inside(value)
	if inside == nil {
		return fmt.Errorf("read %s: not a string", key)
	}
	s, _ := rawjson.Text(inside) // its escapes have been checked
	*to = T(s)
	return nil
}
