package report

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"kubejournal/internal/ask/blame"
	"kubejournal/internal/ask/yamltext"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// document is an object as YAML, version by version. Each line begins with the seq of the write that it is from, as
// blame has it, and a tab. A letter after seq says that the write is not known exactly: its origin's first. No seq says
// that the write is older than the page.
type document struct {
	blame.History
	first uint64 // seq of the first version on the page
	lines []byte
}

// A hunk replaces lines of a document: from where on, how many, and by which.
type hunk struct {
	At, Count int
	Lines     string
}

// MarshalJSON makes a hunk as small as it gets.
func (h hunk) MarshalJSON() ([]byte, error) {
	text, err := marshal(h.Lines)
	return fmt.Appendf(nil, "[%d,%d,%s]", h.At, h.Count, text), err
}

// next takes a version, and returns what it changes in the document. known is false where the line does not have the
// object.
func (d *document) next(l *line.Fields) (hunks []hunk, known bool, err error) {
	if err := d.Add(l); err != nil {
		return nil, false, err
	}
	if l.Incomplete() || len(l.Object) == 0 {
		return nil, false, nil
	}
	r, err := d.Result(yamltext.Bookkeeping...)
	if errors.Is(err, blame.ErrNoObject) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var now bytes.Buffer
	for _, l := range r.Lines {
		if w := l.Write; w != nil && w.Seq >= d.first {
			now.WriteString(strconv.FormatUint(w.Seq, 10))
			if w.Origin != blame.Watch {
				now.WriteByte(w.Origin[0])
			}
		}
		now.WriteByte('\t')
		now.WriteString(terminal.Line(l.Text))
		now.WriteByte('\n')
	}
	hunks = between(d.lines, now.Bytes())
	d.lines = now.Bytes()
	return hunks, true, nil
}

// between returns what differs between two texts.
func between(was, is []byte) (hunks []hunk) {
	if len(was) == 0 {
		return []hunk{{0, 0, string(is)}}
	}
	text := diff.Diff("", was, "", is)
	at, added := 0, new(strings.Builder)
	var h *hunk
	end := func() {
		if h != nil {
			h.Lines = added.String()
			hunks = append(hunks, *h)
			added.Reset()
			h = nil
		}
	}
	n := 0
	for l := range bytes.Lines(text) {
		if n++; n <= 3 { // diff, ---, +++
			continue
		}
		switch l[0] {
		case '@':
			end()
			_, _ = fmt.Sscanf(string(l), "@@ -%d", &at)
			at-- // where a text is empty it would be 0: none is
		case ' ':
			end()
			at++
		case '-', '+':
			if h == nil {
				h = &hunk{At: at}
			}
			if l[0] == '+' {
				added.Write(l[1:])
			} else {
				h.Count++
				at++
			}
		}
	}
	end()
	return hunks
}
