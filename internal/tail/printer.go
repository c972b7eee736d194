package tail

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

const (
	flushAt = 64 << 10 // bytes that are held back at most, but for one longer line
	maxKept = 1 << 20  // bytes; a larger buffer is let go of
	maxBad  = 1 << 10  // bytes shown of a line that cannot be read
)

// Style says how a Printer shows lines.
type Style struct {
	// JSON shows lines as they are.
	JSON bool
	// Width returns the columns of the terminal that is written to, and may change; nil where it is none: then there
	// are no headings, and nothing is cut.
	Width func() int
	// Colour says which type a line is of by a colour too.
	Colour bool
	// Location is the time zone of the times shown. Default time.Local.
	Location *time.Location
}

// Printer shows lines. It is for one goroutine. What it has buffered when a write fails is dropped: a caller that continues
// after an error shows the line again.
type Printer struct {
	w     io.Writer
	style Style
	out   []byte // not written yet
	rest  []byte // of Write: a line whose end is not there yet
	line  Line

	begun bool // something has been shown
	day   int  // of the last line's date, as year*1000 + day of the year
	zone  string
	width [3]int // columns of resource, object and who: as wide as the widest so far, within bounds
	limit [3]int // those bounds
	what  int    // columns that the rest of a line may take; none is 0
	cell  []byte // scratch
	full  int    // columns of the terminal; 0 where it is none
}

// The columns whose width grows, and how wide they begin. Behind them comes what happened.
const (
	resourceColumn = iota
	objectColumn
	whoColumn
)

var (
	leastWidth = [3]int{8, 16, 10}
	mostWidth  = [3]int{32, 56, 28} // where it is not a terminal that says how wide: longer ones stick out
	headings   = [3]string{"RESOURCE", "OBJECT", "WHO"}
)

const (
	timeLayout = "15:04:05.000"
	typeWidth  = len("MODIFIED")
	gap        = 2 // columns between two
)

// NewPrinter returns a Printer that writes to w.
func NewPrinter(w io.Writer, style Style) *Printer {
	if style.Location == nil {
		style.Location = time.Local
	}
	return &Printer{w: w, style: style}
}

// Print shows a line. It may hold it back until Flush.
func (p *Printer) Print(l *Line) error {
	p.begin()
	switch {
	case !p.style.JSON:
		p.appendLine(l)
	case p.style.Width != nil:
		p.out = append(appendSafeJSON(p.out, l.Raw), '\n')
	default:
		p.out = append(append(p.out, l.Raw...), '\n')
	}
	return p.flushIfFull()
}

// Bad shows, as text, a line that is none of a journal. It is false in JSON, where a program reads.
func (p *Printer) Bad(raw []byte) (shown bool, err error) {
	if p.style.JSON {
		return false, nil
	}
	p.begin()
	p.out = pad(append(p.out, '-'), len(timeLayout)-1+gap)
	p.out = p.appendType(p.out, []byte("BAD"))
	p.out = pad(p.out, gap)
	p.cell = describeBad(p.cell[:0], raw)
	if p.full > 0 {
		p.out = cutEnd(p.out, p.cell, p.full-len(timeLayout)-typeWidth-2*gap)
	} else {
		p.out = append(p.out, p.cell...)
	}
	p.out = append(p.out, '\n')
	return true, p.flushIfFull()
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

// Write shows the lines of b. A line without its end waits for the Write that brings it. Whatever Write has shown is
// flushed.
func (p *Printer) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for from := 0; ; {
		i := bytes.IndexByte(p.rest[from:], '\n')
		if i < 0 {
			p.rest = append(p.rest[:0], p.rest[from:]...)
			break
		}
		raw := p.rest[from : from+i]
		from += i + 1
		var err error
		if p.line.Parse(raw) == nil {
			err = p.Print(&p.line)
		} else {
			_, err = p.Bad(raw)
		}
		if err != nil {
			p.rest = p.rest[:0]
			return 0, err
		}
	}
	if err := p.Flush(); err != nil {
		p.rest = p.rest[:0]
		return 0, err
	}
	if len(p.rest) == 0 && cap(p.rest) > maxKept {
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

// begin reads the terminal's width, once for each batch of lines.
func (p *Printer) begin() {
	if len(p.out) > 0 || p.style.JSON {
		return
	}
	full := 0
	if p.style.Width != nil {
		full = p.style.Width()
	}
	if full != p.full || !p.begun {
		p.full = full
		p.layOut()
	}
	if !p.begun && p.full > 0 {
		p.appendHeadings()
	}
	p.begun = true
}

// layOut shares the columns of the terminal out. What happened gets what the others leave, at least a quarter.
func (p *Printer) layOut() {
	p.limit, p.what, p.width = mostWidth, 0, leastWidth
	if p.full > 0 {
		free := max(p.full-len(timeLayout)-typeWidth-5*gap, 20)
		p.limit = [3]int{min(free/5, mostWidth[0]), min(free*2/5, mostWidth[1]), min(free/7, mostWidth[2])}
	}
	for i := range p.width {
		p.width[i] = min(p.width[i], p.limit[i])
	}
}

func (p *Printer) appendHeadings() {
	row := pad(append(p.cell[:0], "TIME"...), len(timeLayout)-len("TIME")+gap)
	row = pad(append(row, "TYPE"...), typeWidth-len("TYPE")+gap)
	for i, h := range headings {
		row = pad(append(row, h...), p.width[i]-len(h)+gap)
	}
	row = append(row, "WHAT"...)
	p.dim(true)
	p.out = append(p.out, head(row, p.full)...)
	p.dim(false)
	p.out = append(p.out, '\n')
	p.cell = row[:0]
}

func (p *Printer) dim(on bool) {
	switch {
	case !p.style.Colour:
	case on:
		p.out = append(p.out, "\x1b[2m"...)
	default:
		p.out = append(p.out, "\x1b[0m"...)
	}
}

// appendDate writes a line with the date where it is another than that of the line before.
func (p *Printer) appendDate(t time.Time) {
	zone, _ := t.Zone()
	day := t.Year()*1000 + t.YearDay()
	if day == p.day && zone == p.zone {
		return
	}
	p.day, p.zone = day, zone
	p.dim(true)
	p.out = t.AppendFormat(p.out, "2006-01-02 MST")
	p.dim(false)
	p.out = append(p.out, '\n')
}

func (p *Printer) appendLine(l *Line) {
	local := l.Time.In(p.style.Location)
	p.appendDate(local)
	start := len(p.out)
	p.out = pad(local.AppendFormat(p.out, timeLayout), gap)
	p.out = pad(p.appendType(p.out, l.Type), gap)
	used := len(timeLayout) + typeWidth + 2*gap

	p.cell = appendResource(p.cell[:0], l)
	used += p.appendCell(resourceColumn, cutEnd)
	p.cell = appendObject(p.cell[:0], l)
	used += p.appendCell(objectColumn, cutMiddle)
	p.cell = appendWho(p.cell[:0], l)
	used += p.appendCell(whoColumn, cutEnd)

	if p.full > 0 {
		p.what = max(p.full-used, 1)
	}
	p.cell = appendWhat(p.cell[:0], l, p.what)
	if p.what > 0 {
		p.out = cutEnd(p.out, p.cell, p.what)
	} else {
		p.out = append(p.out, p.cell...)
	}
	p.out = append(trimRight(p.out, start), '\n')
}

// colours are the terminal's codes for a line's type.
var colours = map[string]string{"ADDED": "32", "MODIFIED": "33", "DELETED": "31", "GAP": "35", "SYNCED": "34"}

// appendType writes a line's type, in its colour, and blanks up to the width of the column.
func (p *Printer) appendType(dst, t []byte) []byte {
	if p.style.Colour {
		colour, ok := colours[string(t)]
		if !ok {
			colour = "7" // inverse
		}
		dst = append(append(append(dst, "\x1b["...), colour...), 'm')
	}
	start := len(dst)
	dst = cutFrom(appendText(dst, t), start, typeWidth)
	n := columns(dst[start:])
	if p.style.Colour {
		dst = append(dst, "\x1b[0m"...)
	}
	return pad(dst, typeWidth-n)
}

// appendCell writes p.cell into a column, whose width grows with it, and the gap behind. It returns the columns taken.
func (p *Printer) appendCell(column int, cut func(dst, b []byte, limit int) []byte) int {
	n := columns(p.cell)
	p.width[column] = min(max(p.width[column], n), p.limit[column])
	if p.full > 0 && n > p.limit[column] {
		start := len(p.out)
		p.out = cut(p.out, p.cell, p.limit[column])
		n = columns(p.out[start:])
	} else {
		p.out = append(p.out, p.cell...)
	}
	fill := max(p.width[column]-n, 0) + gap
	p.out = pad(p.out, fill)
	return n + fill
}
