package line

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"kubejournal/internal/format/rawjson"
)

// Header is what a line says beside its object: a field for each member that the daemon reads back.
type Header struct {
	Seq    uint64
	Term   uint64 // 0 without leader election
	Time   time.Time
	Type   Type
	Origin Origin
	ID     string
	Stream string

	Namespace, Name, UID, ResourceVersion string

	ClusterUID          string // of a GAP or SYNCED
	Reason              Reason // of a GAP
	FromResourceVersion string // the same
	Count               *Count // of a SYNCED

	Object    []byte // as the line has it, compact; its bytes are the line's own, or a copy's
	Truncated bool   // Object is less than the stream's lines have
}

var errControl = errors.New("control character in a string")

// ParseHeader reads a line back, with or without its newline. Anything but one complete JSON object with the members
// that every line has is an error, so a torn line is one. Unlike Fields.Parse it checks all of the line.
func ParseHeader(raw []byte, h *Header) error {
	var (
		s       rawjson.Scanner
		compact []byte
		l       Fields
	)
	defer s.Release()
	s.Reset(rawjson.TrimSpace(raw))
	err := s.ReadCompact(&compact, func() error { return l.parseWhole(&s) })
	if err == nil {
		err = h.take(&l)
	}
	if err != nil {
		*h = Header{}
		return fmt.Errorf("parse line: %w", err)
	}
	return nil
}

// take takes what a line has, which is valid JSON.
func (h *Header) take(l *Fields) error {
	*h = Header{Seq: l.Seq, Time: l.Time, Object: l.Object, Truncated: l.Incomplete()}
	for _, m := range [...]struct {
		field Field
		to    *string
	}{
		{FieldType, (*string)(&h.Type)},
		{FieldOrigin, (*string)(&h.Origin)},
		{FieldID, &h.ID},
		{FieldStream, &h.Stream},
		{FieldNamespace, &h.Namespace},
		{FieldName, &h.Name},
		{FieldUID, &h.UID},
		{FieldResourceVersion, &h.ResourceVersion},
		{FieldClusterUID, &h.ClusterUID},
		{FieldReason, (*string)(&h.Reason)},
		{FieldFromResourceVersion, &h.FromResourceVersion},
	} {
		value := l.values[m.field]
		if value == nil {
			continue
		}
		inside := rawjson.Inside(value)
		if inside == nil {
			return fmt.Errorf("read %s: not a string", m.field)
		}
		*m.to, _ = rawjson.Text(inside) // its escapes have been checked
	}
	if h.ID == "" {
		return errNotLine
	}
	if value := l.values[FieldTerm]; value != nil {
		if err := json.Unmarshal(value, &h.Term); err != nil {
			return fmt.Errorf("read term: %w", err)
		}
	}
	if value := l.values[FieldCount]; value != nil {
		if err := json.Unmarshal(value, &h.Count); err != nil {
			return fmt.Errorf("read count: %w", err)
		}
	}
	return nil
}
