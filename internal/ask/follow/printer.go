package follow

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

const (
	flushAt = 64 << 10 // bytes that are held back at most, but for one longer line
	maxKept = 1 << 20  // bytes; a larger buffer is released
	maxBad  = 1 << 10  // bytes shown of a line that cannot be read
)

// Style says how a Printer shows lines.
type Style struct {
	JSON   bool // lines as they are
	Colour bool // for a line's type
	Wide   bool // nothing is cut or left out, on a terminal too
	Same   Same
	// Clusters are those that rows may be of, as Show says; none where there is no column for them.
	Clusters []string
	// Width returns the columns of the terminal that is written to, and may change; nil where it is none: then there
	// are no headings, and nothing is cut or left out.
	Width func() int
}

// Printer shows lines, with times in the local time zone. It is for one goroutine. What it has buffered when a write
// fails is dropped: a caller that continues after an error shows the line again.
type Printer struct {
	w     io.Writer
	style Style
	out   []byte // not written yet
	rest  []byte // of Write: a line whose end is not there yet
	line  line.Fields

	held     []held
	heldSize int              // bytes
	separate bool             // GAP and SYNCED lines are shown as they come, since not all of them do
	changed  []rows.Change    // scratch
	cluster  string           // of the row
	yield    func(*Row) error // shows the rows in the place of w; nil for w
	stopped  error            // what it returned

	day  int    // of the last line's date, as year*1000 + day of the year
	zone string // of that date
	screen
}

// NewPrinter returns a Printer that writes to w, text through a terminal.Writer.
func NewPrinter(w io.Writer, style Style) *Printer {
	if w = terminal.Raw(w); !style.JSON {
		w = terminal.NewWriter(w, style.Colour)
	}
	return &Printer{w: w, style: style, screen: screen{asked: style.Same}}
}

// NewQueue returns a Printer that gives its rows to yield. A row is valid until the next one. Once yield has returned
// an error there are no more rows, and that is the error of all methods.
func NewQueue(style Style, yield func(*Row) error) *Printer {
	return &Printer{style: style, yield: yield}
}

// Show shows a row of a queue, at once.
func (p *Printer) Show(cluster string, r *Row) error {
	p.cluster = cluster
	p.show(&held{Row: *r})
	return p.flushIfFull()
}

// cuts reports whether rows are made to fit a terminal.
func (p *Printer) cuts() bool { return p.style.Width != nil && !p.style.Wide }

// Print shows a line. It may hold it back until Flush.
func (p *Printer) Print(l *line.Fields) error {
	p.enqueue(l, l.Type() == line.Gap && !p.separate && !p.style.JSON)
	return p.flushIfFull()
}

// appendJSON writes a line as it is.
func (p *Printer) appendJSON(l *line.Fields) {
	if p.style.Width != nil {
		p.out = append(terminal.AppendSafeJSON(p.out, l.Raw), '\n')
		return
	}
	p.out = append(append(p.out, l.Raw...), '\n')
}

// Note shows a remark about a time between lines.
func (p *Printer) Note(at time.Time, text string) error {
	return p.between(held{Row: Row{At: at, Text: text, Remark: true}, size: len(text)})
}

// Text shows text as it is between lines.
func (p *Printer) Text(text []byte) error {
	return p.between(held{Row: Row{Text: string(text)}, size: len(text)})
}

// bad shows, as text, what is no journal line.
func (p *Printer) bad(raw []byte) error {
	text := describeBad(nil, raw)
	return p.between(held{bad: text, size: len(text)})
}

// between shows a remark or text at its place among the lines.
func (p *Printer) between(h held) error {
	if len(p.held) > 0 {
		p.wait(h)
	} else {
		p.show(&h)
	}
	return p.flushIfFull()
}

func (p *Printer) appendBad(text []byte) {
	p.layOut()
	p.out = terminal.Pad(append(p.out, '-'), len(p.time)-1+gap)
	p.appendType([]byte("BAD"))
	start := len(p.out)
	p.out = append(terminal.CutEnd(append(p.out, text...), start, p.full-p.head()), '\n')
}

// describeBad appends the beginning of a line that cannot be read, printable.
func describeBad(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "(empty)"...)
	}
	dst = terminal.AppendRaw(dst, raw[:min(len(raw), maxBad)])
	if len(raw) > maxBad {
		dst = fmt.Appendf(dst, "%s (%d bytes)", terminal.Ellipsis, len(raw))
	}
	return dst
}

// Write shows the lines of b, and flushes. A line without its end waits for the Write that brings it.
func (p *Printer) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	rest, err := p.rest, error(nil)
	for err == nil {
		raw, behind, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			break
		}
		rest = behind
		err = p.showParsed(&p.line, raw, p.line.Parse(raw) == nil, &Options{})
	}
	if err == nil {
		err = p.Flush()
	}
	if err != nil {
		p.rest = p.rest[:0]
		return 0, err
	}
	if p.rest = append(p.rest[:0], rest...); len(rest) == 0 && cap(p.rest) > maxKept {
		p.rest = nil
	}
	return len(b), nil
}

// Flush writes what is held back, but for GAP lines that came just now.
func (p *Printer) Flush() error {
	p.releaseGaps(patience)
	return p.flush()
}

// End writes all that is held back: nothing more will come.
func (p *Printer) End() error {
	p.releaseGaps(0)
	return p.flush()
}

func (p *Printer) flush() error {
	err := p.stopped
	if len(p.out) > 0 {
		_, err = p.w.Write(p.out)
	}
	if p.out = p.out[:0]; cap(p.out) > maxKept {
		p.out = nil
	}
	return err
}

func (p *Printer) flushIfFull() error {
	if len(p.out) < flushAt {
		return p.stopped
	}
	return p.flush()
}

// appendDate writes a line with the date where it is another than that of the line before.
func (p *Printer) appendDate(t time.Time) {
	zone, _ := t.Zone()
	if day := t.Year()*1000 + t.YearDay(); day != p.day || zone != p.zone {
		p.day, p.zone = day, zone
		p.appendDim(t.AppendFormat(nil, "2006-01-02 MST"))
	}
}

func (p *Printer) appendDim(text []byte) {
	if p.style.Colour {
		text = fmt.Appendf(nil, "\x1b[2m%s\x1b[0m", text)
	}
	p.out = append(append(p.out, text...), '\n')
}
