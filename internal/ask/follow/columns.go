package follow

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/host/terminal"
)

// column is one that is as wide as its widest cell so far, within bounds.
type column struct {
	heading     string
	least, most int     // columns; where it is no terminal, longer cells stick out
	share       float64 // of what a terminal has for these columns and what happened
	appendTo    func(dst []byte, l *line.Fields, same *Same) []byte
	// for a cell that is too wide, before it is cut; may be nil
	short func(dst []byte, l *line.Fields, same *Same) []byte
	cut   func(dst []byte, start, limit int) []byte
}

// Same is what every row would say, and a reader knows: it is left out where rows are cut.
type Same struct {
	Kind      bool   // the objects are of one resource
	Namespace string // that objects are in; empty for none
	Object    bool   // rows are about one object, which a remark names
	Who       bool   // one manager wrote
	Warning   bool   // the objects are Events of type Warning: rows name what they are about
}

// rowLayout is how rows are put together: the time, the type, some columns, and what happened.
type rowLayout struct {
	time     string // form of the time of day, as wide as its column
	otherDay string // form of a time of another day, less wide
	types    int    // columns of a type
	columns  []column
}

var (
	// wide is for terminals from wideFrom columns on, and where there is none.
	wide = rowLayout{"15:04:05.000", "01-02 15:04", len("MODIFIED"), []column{
		{kindHeading, 8, 32, 0.16, appendResource, appendKind, cutKind},
		{objectHeading, 16, 56, 0.29, appendObject, nil, terminal.CutMiddle},
		{whoHeading, 10, 28, 0.15, appendWho, appendManager, terminal.CutStart},
	}}
	// narrow has room for "pods shop/web-778fcb6d7-cdktc" and "…controller-manager" in 100 columns, says what kind of
	// object it is even where a name is cut, and leaves what these columns do not need to what happened.
	narrow = rowLayout{"15:04:05", "01-02", len("SYNC"), []column{
		{objectHeading, 20, 60, 0.375, appendKindAndObject, nil, cutObject},
		{whoHeading, 13, 28, 0.24, appendWho, appendManager, terminal.CutStart},
	}}
	// whole is for what is not cut: every column, and managers as the API names them.
	whole = rowLayout{wide.time, wide.otherDay, wide.types, []column{
		{kindHeading, 8, 32, 0, appendResource, nil, nil},
		{objectHeading, 16, 56, 0, appendObject, nil, nil},
		{whoHeading, 10, 28, 0, appendFullWho, nil, nil},
	}}
	shortTypes = map[string]string{"ADDED": "ADD", "MODIFIED": "MOD", "DELETED": "DEL", "SYNCED": "SYNC",
		"REMOVED": "REM", "SEALED": "SEAL"}
)

const (
	kindHeading   = "RESOURCE"
	objectHeading = "OBJECT"
	whoHeading    = "WHO"

	clusterHeading = "CLUSTER"
	clusterMost    = 24 // columns, where rows are cut

	nameLeast = 12 // columns of a name alone

	wideFrom = 140
	gap      = 2 // columns between two
)

// screen is the layout for a width.
type screen struct {
	rowLayout
	asked Same   // what every row would say
	same  Same   // what of it is left out
	full  int    // columns of the terminal; 0 before anything was shown
	first int    // columns of the cluster and the gap after it; 0 where there is no such column
	width [3]int // of the layout's columns
	limit [3]int // what width grows up to
}

// head is how many columns are in front of the layout's.
func (s *screen) head() int { return len(s.time) + gap + s.first + s.types + gap }

// fit shares the columns of a terminal out. full is math.MaxInt where it is none.
func (s *screen) fit(full int) {
	s.full, s.rowLayout, s.same = full, wide, s.asked
	switch {
	case full == math.MaxInt:
		s.rowLayout, s.same = whole, Same{}
	case full < wideFrom:
		s.rowLayout = narrow
	}
	s.columns = slices.DeleteFunc(slices.Clone(s.columns), func(c column) bool {
		return c.heading == kindHeading && (s.same.Kind || s.same.Object) ||
			c.heading == objectHeading && s.same.Object || c.heading == whoHeading && s.same.Who
	})
	free := max(full-s.head()-len(s.columns)*gap, 20)
	for i, c := range s.columns {
		s.limit[i] = c.most
		if full < math.MaxInt {
			s.limit[i] = min(int(float64(free)*c.share), c.most)
			if s.same.Object { // there is room for kube-controller-manager
				s.limit[i] = min(int(float64(free)*0.32), c.most)
			}
		}
		s.width[i] = min(c.least, s.limit[i])
		if s.same.Kind && c.heading == objectHeading {
			s.width[i] = min(nameLeast, s.limit[i])
		}
	}
}

// layOut reads the terminal's width, once for each batch of lines.
func (p *Printer) layOut() {
	if len(p.out) > 0 {
		return
	}
	full := math.MaxInt
	if p.cuts() {
		full = p.style.Width()
	}
	if full == p.full {
		return
	}
	first, before := p.full == 0, p.rowLayout.time
	p.fitClusters()
	p.fit(full)
	if p.style.Width != nil && (first || before != p.rowLayout.time) {
		p.appendHeadings()
	}
}

// fitClusters makes the column for the cluster as wide as the longest name.
func (p *Printer) fitClusters() {
	if len(p.style.Clusters) == 0 {
		return
	}
	width := len(clusterHeading)
	for _, cluster := range p.style.Clusters {
		width = max(width, terminal.Columns(terminal.AppendText(nil, []byte(cluster))))
	}
	if p.cuts() {
		width = min(width, clusterMost)
	}
	p.first = width + gap
}

func (p *Printer) appendCluster() {
	if p.first == 0 {
		return
	}
	start := len(p.out)
	p.out = terminal.AppendText(p.out, []byte(p.cluster))
	if p.cuts() {
		p.out = terminal.CutMiddle(p.out, start, p.first-gap)
	}
	p.out = terminal.Pad(p.out, p.first-terminal.Columns(p.out[start:]))
}

func (p *Printer) appendHeadings() {
	row := fmt.Appendf(nil, "%-*s", len(p.time)+gap, "TIME")
	if p.first > 0 {
		row = fmt.Appendf(row, "%-*s", p.first, clusterHeading)
	}
	row = fmt.Appendf(row, "%-*s", p.types+gap, "TYPE")
	for i, c := range p.columns {
		row = fmt.Appendf(row, "%-*s", p.width[i]+gap, c.heading)
	}
	p.appendDim(terminal.Head(append(row, "WHAT"...), p.full))
}

// appendRow shows the row of a line.
func (p *Printer) appendRow(r *Row) {
	p.layOut()
	l, closed := r.Line, r.Closed
	at := l.Time
	if closed != nil {
		at = closed.Time
	}
	local := at.Local()
	p.appendDate(local)
	p.appendTime(l, local)
	p.appendCluster()
	p.appendType(l.Text(line.FieldType))
	left := p.full - p.head()
	for i := range p.columns {
		c, start := &p.columns[i], len(p.out)
		if p.out = c.appendTo(p.out, l, &p.same); len(p.out) == start {
			p.out = append(p.out, '-')
		}
		n := terminal.Columns(p.out[start:])
		if n > p.limit[i] && c.short != nil {
			p.out = c.short(p.out[:start], l, &p.same)
			n = terminal.Columns(p.out[start:])
		}
		p.width[i] = min(max(p.width[i], n), p.limit[i])
		if c.cut != nil && n > p.limit[i] {
			p.out = c.cut(p.out, start, p.limit[i])
			n = terminal.Columns(p.out[start:])
		}
		fill := max(p.width[i]-n, 0) + gap
		p.out = terminal.Pad(p.out, fill)
		left -= n + fill
	}
	left = max(left, 1)
	start := len(p.out)
	switch {
	case r.What != nil:
		p.out = r.What(p.out, left)
	case closed != nil:
		p.out = appendGap(p.out, l, unchanged(closed))
	default:
		p.out = appendWhat(p.out, l, left, &p.changed, &p.same)
	}
	p.out = append(bytes.TrimRight(terminal.CutEnd(p.out, start, left), " "), '\n')
}

// appendTime appends when the line was received or, with a mark, when a change was made that was received late: by then
// others were.
func (p *Printer) appendTime(l *line.Fields, local time.Time) {
	written, late := l.Late()
	if !late {
		p.out = terminal.Pad(local.AppendFormat(p.out, p.time), gap)
		return
	}
	start, form := len(p.out), "15:04:05"
	if written = written.Local(); written.YearDay() != local.YearDay() || written.Year() != local.Year() {
		form = p.otherDay
	}
	p.out = append(written.AppendFormat(p.out, form), '*')
	p.out = terminal.Pad(p.out, len(p.time)+gap-(len(p.out)-start))
}

// colours are the terminal's codes for a line's type.
var colours = map[string]string{"ADDED": "32", "MODIFIED": "33", "DELETED": "31", "GAP": "35", "SYNCED": "34",
	"REMOVED": "35", "SEALED": "34"}

// appendType writes a line's type, in its colour, and the blanks after it.
func (p *Printer) appendType(t []byte) {
	if p.style.Colour {
		colour, ok := colours[string(t)]
		if !ok {
			colour = "7" // inverse
		}
		p.out = append(append(append(p.out, "\x1b["...), colour...), 'm')
	}
	start := len(p.out)
	short := ""
	if len(t) > p.types {
		short = shortTypes[string(t)]
	}
	if p.out = append(p.out, short...); short == "" {
		p.out = terminal.CutEnd(terminal.AppendText(p.out, t), start, p.types)
	}
	n := terminal.Columns(p.out[start:])
	if p.style.Colour {
		p.out = append(p.out, "\x1b[0m"...)
	}
	p.out = terminal.Pad(p.out, p.types-n+gap)
}

// cutKind cuts the end of what has a group, and the middle of other resources: they differ in their ends.
func cutKind(dst []byte, start, limit int) []byte {
	if bytes.IndexByte(dst[start:], '.') >= 0 {
		return terminal.CutEnd(dst, start, limit)
	}
	return terminal.CutMiddle(dst, start, limit)
}

// cutObject cuts a cell of appendKindAndObject: the namespace first, the name more than that, and the kind last.
func cutObject(dst []byte, start, limit int) []byte {
	const least = 11 // columns of the object
	kind, object, found := strings.Cut(string(dst[start:]), " ")
	dst = cutKind(append(dst[:start], kind...), start, max(limit-1-least, limit/2))
	left := limit - 1 - terminal.Columns(dst[start:])
	if !found || left < 1 {
		return dst
	}
	dst = append(dst, ' ')
	if namespace, name, ok := strings.Cut(object, "/"); ok {
		at := len(dst)
		dst = append(terminal.CutEnd(append(dst, namespace...), at, max(left/4, 4)), '/')
		left, object = left-terminal.Columns(dst[at:]), name
	}
	return terminal.CutMiddle(append(dst, object...), len(dst), left)
}
