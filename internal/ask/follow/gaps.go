package follow

import (
	"bytes"
	"slices"
	"time"

	"kubejournal/internal/format/line"
)

// patience is how long a GAP line is held back while its stream's next line is waited for.
const patience = 2 * time.Second

// maxHeld bounds what is held back: the first of it is shown when there is more.
const maxHeld = 1000

// Row is what a Printer shows: a line, or a remark or text between lines.
type Row struct {
	At     time.Time    // zero for text, which directly follows the row before
	Line   *line.Fields // nil for any other
	Closed *line.Fields // the SYNCED line of a GAP that is shown with it, else nil
	Text   string
	Remark bool // the text is one

	// What appends what is to be said of the line, in so many columns if it can; nil for what happened.
	What func(dst []byte, columns int) []byte
}

// held is a GAP line that waits for its stream's next line, which shows whether there was a difference, or what came
// after it: rows keep their order.
type held struct {
	Row
	bad   []byte // text that is no journal line, else nil
	size  int    // bytes
	open  bool   // a GAP that waits
	since time.Time
}

// Hold shows a GAP line where it stands among the others, once its stream's next line has come, unless Withdraw comes
// first.
func (p *Printer) Hold(l *line.Fields) error {
	p.enqueue(l, true)
	return p.flushIfFull()
}

// Withdraw drops the GAP line of a stream that is held back. It reports whether there was one.
func (p *Printer) Withdraw(stream []byte) bool {
	i := p.waiting(stream)
	if i < 0 {
		return false
	}
	p.drop(i)
	p.release()
	return true
}

// waiting returns the index of the GAP line of a stream that waits; -1 for none.
func (p *Printer) waiting(stream []byte) int {
	return slices.IndexFunc(
		p.held, func(h held) bool { return h.open && bytes.Equal(h.Line.Text(line.FieldStream), stream) },
	)
}

func (p *Printer) drop(i int) {
	p.heldSize -= p.held[i].size
	p.held = slices.Delete(p.held, i, i+1)
}

// enqueue shows a line, or holds it back after a GAP that waits, or as one that does. A GAP with a SYNCED that has no
// difference becomes one row, at the time of that.
func (p *Printer) enqueue(l *line.Fields, wait bool) {
	next := held{Row: Row{At: l.Time, Line: l}, size: len(l.Raw), open: wait}
	if len(p.held) == 0 && !wait {
		p.show(&next)
		return
	}
	if i := p.waiting(l.Text(line.FieldStream)); i >= 0 {
		if l.Type() == line.Synced && unchanged(l) != nil && !p.style.JSON {
			next.Line, next.Closed = p.held[i].Line, l
			p.drop(i)
		} else {
			p.held[i].open = false
		}
		p.release()
	}
	if len(p.held) == 0 && !wait {
		p.show(&next)
		return
	}
	own := &line.Fields{}
	if own.Parse(bytes.Clone(l.Raw)) != nil {
		return // it did before
	}
	own.Set(line.FieldChanges, bytes.Clone(l.Value(line.FieldChanges))) // which may be of another place
	if next.Line == l {
		next.Line = own
	} else {
		next.Closed = own
	}
	p.wait(next)
}

// wait holds something back.
func (p *Printer) wait(h held) {
	h.since = time.Now()
	p.held = append(p.held, h)
	p.heldSize += h.size
	for len(p.held) > maxHeld || p.heldSize > maxKept && len(p.held) > 0 {
		p.held[0].open = false
		p.release()
	}
}

// release shows what waits for nothing.
func (p *Printer) release() {
	for len(p.held) > 0 && !p.held[0].open {
		first := p.held[0]
		p.drop(0)
		p.show(&first)
	}
}

// releaseGaps shows the GAP lines that have been held back that long.
func (p *Printer) releaseGaps(long time.Duration) {
	for len(p.held) > 0 && time.Since(p.held[0].since) >= long {
		p.held[0].open = false
		p.release()
	}
}

func (p *Printer) show(h *held) {
	switch {
	case p.yield != nil && p.stopped == nil:
		p.stopped = p.yield(&h.Row)
	case p.yield != nil:
	case h.bad != nil:
		p.appendBad(h.bad)
	case h.Line == nil && !h.Remark:
		p.out = append(p.out, h.Text...)
	case h.Line == nil:
		p.layOut()
		p.appendDate(h.At.Local())
		p.appendDim([]byte("-- " + h.Text))
	case p.style.JSON:
		p.appendJSON(h.Line)
	default:
		p.appendRow(&h.Row)
	}
}
