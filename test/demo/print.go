package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// printer writes what people see.
type printer struct {
	w      io.Writer
	colour bool
}

func newPrinter(w io.Writer) *printer {
	file, ok := w.(*os.File)
	return &printer{w: w, colour: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// The colours of a terminal, as it numbers them.
const (
	bold    = "1"
	dim     = "2"
	red     = "31"
	green   = "32"
	yellow  = "33"
	magenta = "35"
	cyan    = "36"
)

var typeColour = map[string]string{"ADDED": green, "MODIFIED": yellow, "DELETED": red, "GAP": magenta, "SYNCED": cyan}

func (p *printer) paint(colour, text string) string {
	if !p.colour || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p *printer) title(number int, text string) {
	fmt.Fprintf(p.w, "\n%s\n\n", p.paint(bold, fmt.Sprintf("%d. %s", number, text)))
}

// command shows what a user would type.
func (p *printer) command(text string) { fmt.Fprintf(p.w, "   $ %s\n", text) }

// note shows what was done that nobody types.
func (p *printer) note(text string) { fmt.Fprintf(p.w, "   %s\n", p.paint(dim, "# "+text)) }

const columns = "%-12s  %s  %-8s  %-16s  %-18s  %-14s  %s\n"

// lines shows a step's journal lines as a table, and one of them as it is.
func (p *printer) lines(lines []line, s step) {
	fmt.Fprintln(p.w)
	head := strings.TrimRight(fmt.Sprintf(columns, "TIME (UTC)", "TYPE    ", "ORIGIN", "STREAM", "OBJECT", "LAST WRITER", "WHAT"), "\n")
	fmt.Fprintf(p.w, "   %s\n", p.paint(dim, head))
	var rest []string
	more := 0
	for i := range lines {
		l := &lines[i]
		if !shown(l, s) {
			more++
			rest = append(rest, l.Stream)
			continue
		}
		w := describe(l)
		kind := p.paint(typeColour[l.Type], fmt.Sprintf("%-8s", l.Type))
		fmt.Fprintf(p.w, "   "+columns, clock(l.Time), kind, w[1], w[2], w[3], w[4], w[5])
	}
	if more > 0 {
		slices.Sort(rest)
		p.note(fmt.Sprintf("and %d more, of the cluster's own objects and of the streams %s", more, strings.Join(slices.Compact(rest), ", ")))
	}
	for i := range lines {
		if s.full != "" && strings.Join(describe(&lines[i]), " ") == s.full {
			p.full(&lines[i])
		}
	}
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

// clock is the time of day of an RFC 3339 time, to the millisecond.
func clock(time string) string {
	const from, to = len("2006-01-02T"), len("2006-01-02T15:04:05.000")
	if len(time) < to {
		return time
	}
	return time[from:to]
}
