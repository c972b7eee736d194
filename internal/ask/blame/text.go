package blame

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/rows"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

const (
	timeForm = time.DateTime
	between  = "  " // columns
	least    = 7    // columns of a manager: MANAGER
)

// WriteText writes the lines for people, each after the time, the manager and the seq of its write, then what was
// removed. Times are in the local zone, which the heading names. On a terminal of width columns lines are cut, and what
// a line has in common with the one above it is not repeated; 0 is for anything else, where each line says all. What
// does not print is escaped.
func (r *Result) WriteText(to io.Writer, width int) error {
	who, seq, widest, zones := least, len("SEQ"), 0, []string{}
	for _, l := range r.Lines {
		widest = max(widest, len(l.Text))
	}
	for w := range r.writes {
		who, seq = max(who, terminal.Columns(appendWho(nil, w, width))), max(seq, len(fmt.Append(nil, w.Seq)))
		if zone, _ := w.When().Local().Zone(); !slices.Contains(zones, zone) {
			zones = append(zones, zone)
		}
	}
	if width > 0 {
		who = min(who, max(width-widest-seq-len(timeForm)-len(between+between+between+"| "), width/6, least))
	}
	var out []byte
	start := 0
	row := func(when, manager []byte, number any, text []byte) {
		start = len(out)
		out = terminal.Pad(append(out, when...), len(timeForm)-terminal.Columns(when))
		begin := len(out) + len(between)
		if out = append(append(out, between...), manager...); width > 0 {
			out = terminal.CutStart(out, begin, who)
		}
		out = terminal.Pad(out, who-terminal.Columns(out[begin:]))
		out = fmt.Appendf(out, "%s%*v%s| ", between, seq, number, between)
		if out = append(out, text...); width > 0 {
			out = terminal.CutEnd(out, start, width)
		}
		out = append(bytes.TrimRight(out, " "), '\n')
	}
	slices.Sort(zones)
	row(fmt.Appendf(nil, "TIME (%s)", strings.Join(zones, "/")), []byte("MANAGER"), "SEQ", nil)
	var above *Write
	show := func(w *Write, text []byte) {
		if w == above && width > 0 {
			row(nil, nil, "", text)
			return
		}
		above = w
		row(w.When().Local().AppendFormat(nil, timeForm), appendWho(nil, w, width), w.Seq, text)
	}
	for _, l := range r.Lines {
		show(l.Write, terminal.AppendRaw(nil, []byte(l.Text)))
	}
	if len(r.Removed) > 0 {
		above = nil
		row(nil, nil, "", nil)
		row([]byte(line.Removed), nil, "", nil)
	}
	for _, f := range r.Removed {
		show(f.Write, terminal.AppendSafeJSON(terminal.AppendRaw(nil, []byte(f.Path+": ")), f.Value))
	}
	_, err := to.Write(out)
	return err
}

// writes yields the writes that are shown.
func (r *Result) writes(yield func(*Write) bool) {
	for _, l := range r.Lines {
		if !yield(l.Write) {
			return
		}
	}
	for _, f := range r.Removed {
		if !yield(f.Write) {
			return
		}
	}
}

// appendWho appends who made a write, on a terminal of width columns as people know it, or what is known of it in the
// place of that.
func appendWho(dst []byte, w *Write, width int) []byte {
	switch {
	case w.Origin == Gap:
		return append(dst, "in the gap"...)
	case w.Origin == Older:
		return append(dst, "or before"...)
	case w.Origin == Between:
		return fmt.Appendf(dst, "since seq %d", w.After.Seq)
	case w.who != "" && width > 0:
		return terminal.AppendRaw(dst, []byte(w.who))
	case w.Manager == "" && w.user == "":
		return append(dst, '-')
	}
	if width == 0 && w.user != "" {
		if dst = terminal.AppendRaw(dst, []byte(w.user)); w.Manager == "" {
			return dst
		}
		dst = append(dst, ", "...)
	}
	who := w.Manager
	if w.Subresource != "" {
		who += "/" + w.Subresource
	}
	if width > 0 {
		who = rows.Manager(who)
	}
	return terminal.AppendRaw(dst, []byte(who))
}

// Notes returns sentences, without full stops, about what is not known exactly, with times in the local zone.
func (r *Result) Notes() []string {
	var notes []string
	at := func(t time.Time) string { return t.Local().Format(timeForm + " MST") }
	seen := map[*Write]bool{}
	for w := range r.writes {
		if seen[w] {
			continue
		}
		seen[w] = true
		switch after := w.After; {
		case w.Origin == Gap && !after.Time.IsZero():
			notes = append(notes,
				fmt.Sprintf("seq %d: written in the gap between %s and %s", w.Seq, at(after.Time), at(w.When())))
		case w.Origin == Older:
			notes = append(notes,
				fmt.Sprintf("seq %d: the journal's first version of these values, which were written at %s or before",
					w.Seq, at(w.When())))
		case w.Origin == Between:
			notes = append(notes,
				fmt.Sprintf("seq %d: written since seq %d, %s; not every line between has the object and its changes",
					w.Seq, after.Seq, at(after.Time)))
		}
	}
	if r.Missed.Seq > 0 {
		notes = append(notes,
			fmt.Sprintf("this is the object of seq %d; from seq %d on, %s, lines do not have all of it", r.Seq,
				r.Missed.Seq, at(r.Missed.Time)))
	}
	if r.Deleted.Seq > 0 {
		notes = append(notes,
			fmt.Sprintf("the object was deleted: its DELETED line is seq %d, %s", r.Deleted.Seq, at(r.Deleted.Time)))
	}
	if r.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d values that were removed earlier are not listed", r.Dropped))
	}
	return notes
}
