package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"kubejournal/internal/ask/follow"
)

// printer writes what people see.
type printer struct {
	w     io.Writer
	style follow.Style
}

func newPrinter(w io.Writer) *printer { return &printer{w, follow.Terminal(w, os.Getenv)} }

// The colours of a terminal, as it numbers them.
const (
	bold = "1"
	dim  = "2"
)

func (p *printer) paint(colour, text string) string {
	if !p.style.Colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p *printer) title(number int, text string) {
	fmt.Fprintf(p.w, "\n%s\n\n", p.paint(bold, fmt.Sprintf("%d. %s", number, text)))
}

// command shows what a user would type.
func (p *printer) command(text string) { fmt.Fprintf(p.w, "   $ %s\n", text) }

// ask shows a question to kubejournal; the answer stands below it.
func (p *printer) ask(args string) { fmt.Fprintf(p.w, "\n   $ kubejournal %s\n\n", args) }

// note shows what was done that nobody types.
func (p *printer) note(text string) { fmt.Fprintf(p.w, "   %s\n", p.paint(dim, "# "+text)) }

// lines shows a step's journal lines as 'kubejournal tail' does, and one of them as it is.
func (p *printer) lines(lines []line, s step) error {
	fmt.Fprintln(p.w)
	rows := follow.NewPrinter(p.w, p.style)
	var rest []string
	for i := range lines {
		if l := &lines[i]; !shown(l, s) {
			rest = append(rest, l.Stream)
		} else if _, err := rows.Write(l.raw); err != nil {
			return err
		}
	}
	if err := rows.End(); err != nil {
		return err
	}
	if more := len(rest); more > 0 {
		slices.Sort(rest)
		p.note(fmt.Sprintf("and %d more, of the cluster's own objects and of the streams %s", more,
			strings.Join(slices.Compact(rest), ", ")))
	}
	for i := range lines {
		if s.full != "" && strings.Join(describe(&lines[i]), " ") == s.full {
			p.full(&lines[i])
		}
	}
	return nil
}

func shown(l *line, s step) bool {
	about := l.Type != "GAP" && l.Type != "SYNCED"
	return about && matters(l) || slices.Contains(s.focus, l.Stream)
}

// full shows a line as it is, broken up to be read.
func (p *printer) full(l *line) {
	var text bytes.Buffer
	if err := json.Indent(&text, l.raw, "   ", "  "); err != nil {
		return // it was read as JSON before
	}
	fmt.Fprintf(p.w, "\n   One of these lines in full (in the journal it is a single one):\n   %s\n", text.Bytes())
}
