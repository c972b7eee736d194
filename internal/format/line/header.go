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
	*h = Header{}
	var (
		s       rawjson.Scanner
		compact []byte
		l       Fields
	)
	defer s.Release()
	s.Reset(rawjson.TrimSpace(raw))
	if err := s.ReadCompact(&compact, func() error { return l.parseWhole(&s) }); err != nil {
		return fmt.Errorf("parse line: %w", err)
	}
	is := Header{Seq: l.Seq, Time: l.Time, Object: l.Object, Truncated: l.Incomplete()}
	for _, m := range []struct {
		field Field
		to    *string
	}{
		{FieldType, (*string)(&is.Type)},
		{FieldOrigin, (*string)(&is.Origin)},
		{FieldID, &is.ID},
		{FieldStream, &is.Stream},
		{FieldNamespace, &is.Namespace},
		{FieldName, &is.Name},
		{FieldUID, &is.UID},
		{FieldResourceVersion, &is.ResourceVersion},
		{FieldClusterUID, &is.ClusterUID},
		{FieldReason, (*string)(&is.Reason)},
		{FieldFromResourceVersion, &is.FromResourceVersion},
	} {
		value := l.values[m.field]
		inside := rawjson.Inside(value)
		if value != nil && inside == nil {
			return fmt.Errorf("parse line: read %s: not a string", m.field)
		}
		*m.to, _ = rawjson.Text(inside) // its escapes have been checked
	}
	if is.ID == "" {
		return fmt.Errorf("parse line: %w", errNotLine)
	}
	if value := l.values[FieldTerm]; value != nil {
		if err := json.Unmarshal(value, &is.Term); err != nil {
			return fmt.Errorf("parse line: read term: %w", err)
		}
	}
	if value := l.values[FieldCount]; value != nil {
		if err := json.Unmarshal(value, &is.Count); err != nil {
			return fmt.Errorf("parse line: read count: %w", err)
		}
	}
	*h = is
	return nil
}
