package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// rows takes of what a command prints as JSON what an answer has room for.
type rows struct {
	limit   int
	lines   bool   // a row each; else documents, or a list of rows
	without string // a member that rows are shown without
	byLine  bool   // rows are in the order of lines, so that since can name the first that is left out
	less    string // what makes the answer shorter

	found     int // rows, of all
	taken     []any
	size      int
	last      []any  // summaries, which are always shown
	rest      uint64 // seq of the first row that was left out
	leftOut   int
	shortened int
}

// maxRow is the size of a row that is not shortened. A document may take all the room.
const maxRow = 16 << 10

// read reads what a command prints.
func (r *rows) read(in io.Reader) error {
	if r.lines {
		for b := bufio.NewReader(in); ; {
			row, err := b.ReadBytes('\n')
			if row = bytes.TrimSpace(row); len(row) > 0 {
				r.take(row)
			}
			if err != nil {
				return atEnd(err)
			}
		}
	}
	for d := json.NewDecoder(in); ; {
		var row json.RawMessage
		if err := d.Decode(&row); err != nil {
			return atEnd(err)
		}
		var b bytes.Buffer
		if err := json.Compact(&b, row); err != nil {
			return err
		}
		if row = b.Bytes(); row[0] != '[' {
			r.take(row)
			continue
		}
		for one := range rawjson.Elements(row) {
			r.take(one)
		}
	}
}

func atEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// take takes a row if there is room. After one that is left out there are no more.
func (r *rows) take(row []byte) {
	is := rawjson.Pick(row, "change", "seq")
	if string(is[0]) == `"SUMMARY"` {
		row, _ = shorten(row, maxRow)
		r.last = append(r.last, json.RawMessage(row))
		return
	}
	r.found++
	if r.leftOut > 0 || len(r.taken) >= r.limit {
		r.leave(is[1])
		return
	}
	if r.without != "" {
		row = without(row, r.without)
	}
	room := maxBytes - r.size
	most := room
	if r.lines {
		most = maxRow
	}
	row, shortened := shorten(row, most)
	if len(row) > room {
		r.leave(is[1])
		return
	}
	if shortened {
		r.shortened++
	}
	r.taken, r.size = append(r.taken, json.RawMessage(row)), r.size+len(row)
}

func (r *rows) leave(seq []byte) {
	if r.leftOut++; r.leftOut == 1 {
		_ = json.Unmarshal(seq, &r.rest) // 0 where there is none
	}
}

// shown returns the rows, and what was left out.
func (r *rows) shown(namespaces []string, oneJournal bool) ([]any, *leftOut) {
	all := append(append([]any{}, r.taken...), r.last...)
	if r.leftOut+r.shortened == 0 {
		return all, nil
	}
	is := &leftOut{Rows: r.leftOut, Shortened: r.shortened}
	var how []string
	if r.leftOut > 0 {
		if r.byLine && oneJournal && r.rest > 0 {
			is.Since = fmt.Sprintf("seq:%d", r.rest)
			how = append(how, "ask the same with since "+is.Since)
		}
		less := "narrow it with " + r.less
		if len(namespaces) == 0 {
			less += " or a namespace"
		}
		if how = append(how, less); r.limit < maxRows && r.size < maxBytes/2 {
			how = append(how, fmt.Sprintf("raise limit, up to %d", maxRows))
		}
	}
	if r.shortened > 0 {
		how = append(how, "the whole of a shortened row is in what the command prints with -o json")
	}
	is.How = strings.Join(how, "; ")
	return all, is
}

// without returns an object without a member.
func without(object []byte, member string) []byte {
	rest := []byte{'{'}
	for key, value := range rawjson.Members(object) {
		if string(key) == member {
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = slices.Concat(rest, []byte{'"'}, key, []byte(`":`), value)
	}
	return append(rest, '}')
}

// maxDepth is how deep a row is shown: parsers have bounds of their own.
const maxDepth = 100

// shorten returns JSON of at most so many bytes, with what a terminal would act on escaped. Long texts and lists are
// cut where they are, and what is nested deep: a text ends with … and its length, a list or an object with how many
// more there are. Of an object itself all members stay.
func shorten(row []byte, most int) (short []byte, shortened bool) {
	if row = terminal.AppendSafeJSON(nil, row); len(row) <= most && !deep(row) {
		return row, false
	}
	d := json.NewDecoder(bytes.NewReader(row))
	d.UseNumber()
	var of map[string]any
	err := d.Decode(&of) // which may be nested too deep
	for n := 1024; err == nil && n > 0; n /= 2 {
		is := make(map[string]any)
		for key, v := range of {
			is[key] = cut(v, n, maxDepth)
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err = e.Encode(is)
		if text := terminal.AppendSafeJSON(nil, bytes.TrimSpace(b.Bytes())); err == nil && len(text) <= most {
			return text, true
		}
	}
	return fmt.Appendf(nil, `{"%s":"a row of %d bytes"}`, terminal.Ellipsis, len(row)), true
}

// deep reports whether JSON is nested deeper than maxDepth.
func deep(row []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(row); i++ {
		switch c := row[i]; {
		case c == '"':
			text = !text
		case text && c == '\\':
			i++
		case text:
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// cutText returns the first n bytes of a text, and how many it has.
func cutText(text string, n int) string {
	return strings.ToValidUTF8(text[:n], "") + fmt.Sprintf("%s (%d bytes)", terminal.Ellipsis, len(text))
}

// cut cuts the texts in a value to n bytes, lists to n/4 elements, and what is nested deeper than depth.
func cut(v any, n, depth int) any {
	const mark = terminal.Ellipsis
	switch v := v.(type) {
	case string:
		if len(v) > n {
			return cutText(v, n)
		}
	case []any:
		if depth == 0 {
			return mark
		}
		all := []any{}
		for _, one := range v[:min(len(v), n/4)] {
			all = append(all, cut(one, n, depth-1))
		}
		if more := len(v) - len(all); more > 0 {
			all = append(all, fmt.Sprintf("%s %d more", mark, more))
		}
		return all
	case map[string]any:
		if depth == 0 {
			return mark
		}
		keys := slices.Sorted(maps.Keys(v))
		all := make(map[string]any)
		for _, key := range keys[:min(len(keys), n/4)] {
			name, _ := cut(key, n, depth).(string)
			all[name] = cut(v[key], n, depth-1)
		}
		if more := len(keys) - len(all); more > 0 {
			all[mark] = fmt.Sprintf("%d more", more)
		}
		return all
	}
	return v
}
