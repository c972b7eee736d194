package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/follow"
	"kubejournal/internal/ask/search"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// printFound shows where one cluster's objects have the pattern.
func (h *history) printFound(ctx context.Context, o *Output) error {
	p := follow.NewPrinter(o.Writer, h.Style)
	for r, err := range h.found(ctx) {
		if err == nil {
			err = p.Show("", r)
		}
		if err != nil {
			return err
		}
	}
	if err := p.End(); err != nil {
		return err
	}
	return h.finish(ctx)
}

// found yields a row for each field that has the pattern, and after it a remark on later versions that have the same.
func (h *history) found(ctx context.Context) iter.Seq2[*follow.Row, error] {
	return func(yield func(*follow.Row, error) bool) {
		show := func(r *follow.Row) error {
			if h.o.Terminal {
				h.Progress.Stop()
			}
			if !yield(r, nil) {
				return errStopped
			}
			return nil
		}
		var last *search.Row
		alike := 0 // rows up to last that one remark is about
		remark := func() error {
			if last == nil || last.More == 0 || h.Format == "json" {
				return nil
			}
			at, text := last.Line.Time, "and"
			if alike > 1 {
				text = "the same in"
			}
			text += " " + count(last.More, "more version") + " until " + until(at, last.Last.Time)
			return show(&follow.Row{At: at, Text: text, Remark: true})
		}
		s := &search.Search{
			Pattern: h.Pattern, Field: h.Field, Whole: h.Format == "json", Wanted: h.wanted, Progress: h.Progress,
		}
		var err error
		h.searched, err = s.Run(ctx, h.a.Journal, h.a.Selection, h.Since, h.Until, func(r *search.Row) error {
			if last != nil && (r.Line.Seq != last.Line.Seq || r.More != last.More || r.Last != last.Last) {
				if err := remark(); err != nil {
					return err
				}
				alike = 0
			}
			last = r
			alike++
			h.shown++
			row := &follow.Row{At: r.Line.Time, Line: r.Line}
			if h.Format == "json" {
				if err := setMatch(r); err != nil {
					return err
				}
			} else {
				row.What = func(dst []byte, columns int) []byte { return appendMatch(dst, &r.Match, columns) }
			}
			return show(row)
		})
		if err == nil {
			err = remark()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// wanted reports whether a version is asked for, or may be as its writer is not known. It counts those that match.
func (h *history) wanted(l *line.Fields, matches bool) (wanted, may bool) {
	v := &archive.Version{Fields: l}
	if h.Deleted && v.Type() != line.Deleted {
		return false, false
	}
	wanted = h.isBy(v)
	if may = !wanted && h.mayBeBy(v); may && matches {
		h.countUnknown(v)
	}
	return wanted, may
}

// setMatch makes the JSON of a row's line what is shown of the row.
func setMatch(r *search.Row) error {
	type point struct {
		Seq  uint64    `json:"seq"`
		Time time.Time `json:"time"`
	}
	is := struct {
		Path     string          `json:"path"`
		In       string          `json:"in"`
		Value    json.RawMessage `json:"value"`
		Versions int             `json:"versions"`
		Last     point           `json:"last"`
		Gone     *point          `json:"gone,omitempty"`
	}{Path: r.Path, In: "value", Value: r.Value, Versions: r.More + 1, Last: point(r.Last)}
	if r.Key {
		is.In = "key"
	}
	if r.Gone.Seq > 0 {
		gone := point(r.Gone)
		is.Gone = &gone
	}
	b := bytes.NewBuffer(append(bytes.TrimSuffix(bytes.Clone(r.Line.Raw), []byte("}")), `,"match":`...))
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(is); err != nil {
		return fmt.Errorf("line %d: %w", r.Line.Seq, err)
	}
	r.Line.Raw = append(bytes.TrimSuffix(b.Bytes(), []byte("\n")), '}')
	return nil
}

// appendMatch appends where a text is: the path, and the value around the text. Both are shortened to fit, unless
// columns is so large that nothing is to be.
func appendMatch(dst []byte, m *search.Match, columns int) []byte {
	const least = 14 // columns of a value, before its path is cut
	path, suffix := []byte(m.Path), ""
	value := slices.Concat([]byte(printable(m.Text.Before)), []byte(printable(m.Text.Match+m.Text.After)))
	switch {
	case m.Key:
		suffix, value = " (key)", nil
	case m.Text.Line > 0:
		suffix = fmt.Sprintf(" (line %d)", m.Text.Line)
	}
	if columns < math.MaxInt/2 {
		room, needs := columns-len(suffix), 0
		if !m.Key {
			needs = terminal.Columns(value) + 1
		}
		if terminal.Columns(path)+needs > room {
			path = telling(path)
		}
		path = cutSteps(path, max(room-needs, room-least-1))
		if room -= terminal.Columns(path) + 1; !m.Key && needs > room+1 {
			value = around(m, room)
		}
	}
	if dst = append(dst, path...); !m.Key {
		dst = append(append(dst, ' '), value...)
	}
	return append(dst, suffix...)
}

// around returns a match with as much of what is around it as there is room for.
func around(m *search.Match, room int) []byte {
	before, match := []byte(printable(m.Text.Before)), []byte(printable(m.Text.Match))
	rest := append(bytes.Clone(match), printable(m.Text.After)...)
	free := room - terminal.Columns(match)
	before = terminal.CutStart(before, 0, max(1, free/2, room-terminal.Columns(rest)))
	return terminal.CutEnd(append(before, rest...), 0, room)
}

// cutSteps leaves out the beginning of a path, whole steps of it unless that is all.
func cutSteps(path []byte, limit int) []byte {
	if terminal.Columns(path) <= limit {
		return path
	}
	if begin, slash := bytes.LastIndex(path, []byte(`["`)), bytes.LastIndexByte(path, '/'); 0 < begin && begin < slash {
		path = slices.Concat(path[:begin], []byte(`["`+terminal.Ellipsis), path[slash:]) // of annotations and labels
	}
	if terminal.Columns(path) <= limit {
		return path
	}
	path = terminal.CutStart(path, 0, limit)
	rest := bytes.TrimPrefix(path, []byte(terminal.Ellipsis))
	if n := bytes.Index(rest, []byte(terminal.Ellipsis+"/")); n >= 0 {
		return rest[n:]
	}
	if n := bytes.IndexAny(rest, ".["); n >= 0 && len(rest) < len(path) {
		rest = rest[n:]
		return append([]byte(terminal.Ellipsis), bytes.TrimPrefix(rest, []byte{'.'})...)
	}
	return path
}

// telling returns a path without a beginning that goes without saying.
func telling(path []byte) []byte {
	for _, beginning := range []string{
		"spec.jobTemplate.spec.template.spec.", "spec.template.spec.", "spec.template.metadata.", "spec.template.",
		"metadata.",
	} {
		if rest, ok := bytes.CutPrefix(path, []byte(beginning)); ok {
			return rest
		}
	}
	return path
}

// explainFound says what was not searched, and why there is no row.
func (h *history) explainFound() {
	is := h.searched
	var parts []string
	for _, l := range is.Lacking {
		switch objects := count(l.Objects, "object"); l.Kind {
		case search.Redacted:
			parts = append(parts, count(l.Fields, "redacted value")+" of "+objects)
		case search.Cut:
			parts = append(parts, count(l.Fields, "cut value")+" of "+objects)
		case search.NoContent:
			parts = append(parts, objects+" of which lines do not have all (payload)")
		case search.Damaged:
			parts = append(parts, objects+" that cannot be read")
		}
	}
	if len(parts) > 0 {
		h.o.note("not searched: %s", strings.Join(parts, ", "))
	}
	if is.More > 0 {
		h.o.note("not shown: %s of versions with more than %d", count(is.More, "field"), search.MaxMatches)
	}
	if h.shown == 0 {
		h.o.note("none of %s has it", count(is.Versions, "version"))
	}
}
