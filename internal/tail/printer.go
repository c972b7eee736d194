package tail

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"time"
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
	// Width returns the columns of the terminal that is written to, and may change; nil where it is none: then there
	// are no headings, and nothing is cut.
	Width func() int
}

// Printer shows lines, with times in the local time zone. It is for one goroutine. What it has buffered when a write
// fails is dropped: a caller that continues after an error shows the line again.
type Printer struct {
	w     io.Writer
	style Style
	out   []byte // not written yet
	rest  []byte // of Write: a line whose end is not there yet
	line  Line

	day   int                 // of the last line's date, as year*1000 + day of the year
	zone  string              // of that date
	full  int                 // columns of the terminal; 0 before anything was shown
	width [len(adaptable)]int // of these columns
	limit [len(adaptable)]int // what width grows up to
}

// adaptable are the columns that are as wide as the widest cell so far, within bounds. In front of them are time and type,
// behind them is what happened.
var adaptable = [...]struct {
	heading     string
	least, most int // columns; where it is no terminal, longer cells stick out
	share       int // of a terminal, in 35ths of what the others leave
	appendTo    func(dst []byte, l *Line) []byte
	cut         func(dst []byte, start, limit int) []byte
}{
	{"RESOURCE", 8, 32, 7, appendResource, cutEnd},
	{"OBJECT", 16, 56, 14, appendObject, cutMiddle},
	{"WHO", 10, 28, 5, appendWho, cutEnd},
}

const (
	timeLayout = "15:04:05.000"
	typeWidth  = len("MODIFIED")
	gap        = 2 // columns between two
	headWidth  = len(timeLayout) + gap + typeWidth + gap
)

// NewPrinter returns a Printer that writes to w.
func NewPrinter(w io.Writer, style Style) *Printer { return &Printer{w: w, style: style} }

// Print shows a line. It may hold it back until Flush.
func (p *Printer) Print(l *Line) error {
	switch {
	case !p.style.JSON:
		p.appendRow(l)
	case p.style.Width != nil:
		p.out = append(appendSafeJSON(p.out, l.Raw), '\n')
	default:
		p.out = append(append(p.out, l.Raw...), '\n')
	}
	return p.flushIfFull()
}

// bad shows, as text, a line that is none of a journal.
func (p *Printer) bad(raw []byte) error {
	p.layOut()
	p.out = pad(append(p.out, '-'), len(timeLayout)-1+gap)
	p.appendType([]byte("BAD"))
	start := len(p.out)
	p.out = append(cutEnd(describeBad(p.out, raw), start, p.full-headWidth), '\n')
	return p.flushIfFull()
}

// describeBad appends the beginning of a line that cannot be read, printable.
func describeBad(dst, raw []byte) []byte {
	if len(raw) == 0 {
		return append(dst, "(empty)"...)
	}
	dst = appendRaw(dst, raw[:min(len(raw), maxBad)])
	if len(raw) > maxBad {
		dst = fmt.Appendf(dst, "%s (%d bytes)", ellipsis, len(raw))
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
		err = show(&p.line, raw, &Options{}, p)
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

// Flush writes what is held back.
func (p *Printer) Flush() error {
	var err error
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
		return nil
	}
	return p.Flush()
}

// layOut reads the terminal's width, once for each batch of lines, and shares its columns out. What happened gets what
// the others leave, at least a quarter.
func (p *Printer) layOut() {
	if len(p.out) > 0 {
		return
	}
	full := math.MaxInt
	if p.style.Width != nil {
		full = p.style.Width()
	}
	if full == p.full {
		return
	}
	first := p.full == 0
	p.full = full
	free := max(full-headWidth-len(adaptable)*gap, 20)
	for i, c := range adaptable {
		p.limit[i] = c.most
		if p.style.Width != nil {
			p.limit[i] = min(free*c.share/35, c.most)
		}
		p.width[i] = min(c.least, p.limit[i])
	}
	if first && p.style.Width != nil {
		p.appendHeadings()
	}
}

func (p *Printer) appendHeadings() {
	row := fmt.Appendf(nil, "%-*s%-*s", len(timeLayout)+gap, "TIME", typeWidth+gap, "TYPE")
	for i, c := range adaptable {
		row = fmt.Appendf(row, "%-*s", p.width[i]+gap, c.heading)
	}
	p.appendDim(head(append(row, "WHAT"...), p.full))
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

func (p *Printer) appendRow(l *Line) {
	p.layOut()
	local := l.Time.Local()
	p.appendDate(local)
	p.out = pad(local.AppendFormat(p.out, timeLayout), gap)
	p.appendType(l.text(typeKey))
	left := p.full - headWidth
	for i := range adaptable {
		c, start := &adaptable[i], len(p.out)
		if p.out = c.appendTo(p.out, l); len(p.out) == start {
			p.out = append(p.out, '-')
		}
		n := columns(p.out[start:])
		p.width[i] = min(max(p.width[i], n), p.limit[i])
		if p.style.Width != nil && n > p.limit[i] {
			p.out = c.cut(p.out, start, p.limit[i])
			n = columns(p.out[start:])
		}
		fill := max(p.width[i]-n, 0) + gap
		p.out = pad(p.out, fill)
		left -= n + fill
	}
	left = max(left, 1)
	start := len(p.out)
	p.out = cutEnd(appendWhat(p.out, l, left), start, left)
	p.out = append(bytes.TrimRight(p.out, " "), '\n')
}

// colours are the terminal's codes for a line's type.
var colours = map[string]string{"ADDED": "32", "MODIFIED": "33", "DELETED": "31", "GAP": "35", "SYNCED": "34"}

// appendType writes a line's type, in its colour, and the blanks behind it.
func (p *Printer) appendType(t []byte) {
	if p.style.Colour {
		colour, ok := colours[string(t)]
		if !ok {
			colour = "7" // inverse
		}
		p.out = append(append(append(p.out, "\x1b["...), colour...), 'm')
	}
	start := len(p.out)
	p.out = cutEnd(appendText(p.out, t), start, typeWidth)
	n := columns(p.out[start:])
	if p.style.Colour {
		p.out = append(p.out, "\x1b[0m"...)
	}
	p.out = pad(p.out, typeWidth-n+gap)
}
