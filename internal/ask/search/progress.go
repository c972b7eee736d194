package search

import (
	"fmt"
	"io"
	"strings"
	"time"

	"kubejournal/internal/host/terminal"
)

// Progress draws how far a search has come, on a terminal, once it takes longer than a second. A nil one draws nothing.
// It is for one goroutine.
type Progress struct {
	w     io.Writer
	width func() int
	now   func() time.Time

	begun, drawn time.Time // zero before
	total, done  int64     // bytes of lines
	stopped      bool
}

// NewProgress returns one that draws on w, a terminal of so many columns.
func NewProgress(w io.Writer, width func() int) *Progress {
	return &Progress{w: w, width: width, now: time.Now}
}

const (
	quiet     = time.Second // before it draws
	drawEvery = 200 * time.Millisecond
)

// add says that so many bytes are to be searched.
func (p *Progress) add(bytes int64) {
	if p == nil {
		return
	}
	if p.total += bytes; p.begun.IsZero() {
		p.begun = p.now()
	}
}

// pass says that so many bytes were searched, or passed over.
func (p *Progress) pass(bytes int64) {
	if p == nil || p.stopped {
		return
	}
	p.done += bytes
	now := p.now()
	if now.Sub(p.begun) < quiet || now.Sub(p.drawn) < drawEvery {
		return
	}
	p.drawn = now
	_, _ = fmt.Fprintf(p.w, "\r%s\x1b[K", terminal.Head([]byte(p.text(now)), p.width()-1)) // if it fails, nobody looks
}

// text returns what is drawn.
func (p *Progress) text(now time.Time) string {
	const columns = 20
	part := float64(p.done) / float64(max(p.total, 1))
	rate := float64(p.done) / now.Sub(p.begun).Seconds()
	left := time.Duration(float64(p.total-p.done)/max(rate, 1)) * time.Second
	filled := min(int(part*columns), columns)
	return fmt.Sprintf("[%s%s] %s of %s, %s/s, %s left", strings.Repeat("=", filled), strings.Repeat(" ", columns-filled),
		terminal.Bytes(p.done), terminal.Bytes(p.total), terminal.Bytes(rate), max(left, 0))
}

// Clear removes what was drawn. It may be drawn again.
func (p *Progress) Clear() {
	if p == nil || p.drawn.IsZero() {
		return
	}
	p.drawn = time.Time{}
	_, _ = io.WriteString(p.w, "\r\x1b[K") // as above
}

// Stop removes what was drawn, and draws nothing more: something else is written to the terminal.
func (p *Progress) Stop() {
	if p != nil {
		p.Clear()
		p.stopped = true
	}
}
