package answer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
	"unicode"

	"kubejournal/internal/display"
	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/internal/rawjson"
	"kubejournal/internal/tail"
)

// Asked is a cluster that is asked: its journals as one, what is selected of them, and where its answer goes.
type Asked struct {
	Cluster   string // empty where one is asked alone
	Journal   *query.Journal
	Selection *query.Selection
	Output    *Output
}

// Several reports whether several clusters are asked, also where one of them has an answer.
func Several(all []Asked) bool { return len(all) > 0 && all[0].Cluster != "" }

// Of returns the output of one of several clusters: its notes begin with the cluster's name.
func (o *Output) Of(cluster string) *Output {
	of := *o
	of.cluster = cluster
	return &of
}

func (o *Output) prefix() string {
	if o.cluster == "" {
		return ""
	}
	return printable(o.cluster) + ": "
}

// Heading begins the answer of one of several clusters, in text.
func (o *Output) Heading() error {
	if o.cluster == "" {
		return nil
	}
	_, err := fmt.Fprintln(o, heading(o.cluster))
	return err
}

func heading(cluster string) string { return "-- cluster " + printable(cluster) }

// Each calls fn for each of several, and returns what the answers come to together. A fault ends it.
func Each[T any](all []T, fn func(T) error) error {
	var result error
	for _, one := range all {
		err := fn(one)
		if err != nil && !IsResult(err) {
			return err
		}
		result = errors.Join(result, err)
	}
	return result
}

// IsResult reports whether an error is what an answer has come to, and no fault.
func IsResult(err error) bool {
	return errors.Is(err, ErrNotCovered) || errors.Is(err, ErrDifferent) || errors.Is(err, ErrRefused)
}

// rows is what a history is shown with: a tail.Printer, or a queue that others take them from. See tail.Printer.
type rows interface {
	Print(l *line.Fields) error
	Hold(l *line.Fields) error
	Withdraw(stream []byte) bool
	Note(at time.Time, text string) error
	Text(text []byte) error
	End() error
}

// row is one of a history, or a remark or text between them.
type row struct {
	at     time.Time    // zero for text, which directly follows the row before
	line   *line.Fields // nil for any other
	closed *line.Fields // the SYNCED of a GAP, which is shown with it
	text   string
	remark bool
	open   bool // a GAP that waits for its stream's next line
}

// rowQueue yields the rows of one cluster's history in order. Rows after a GAP that waits for its stream's next line, which
// may be shown with it or withdraw it, wait too.
type rowQueue struct {
	yield func(row) bool
	json  bool
	held  []row
}

// maxHeld is how many rows wait at most.
const maxHeld = 1000

// errStopped says that no more rows are wanted.
var errStopped = errors.New("no more rows are wanted")

// Print adds a line, which need not be valid any longer than that.
func (q *rowQueue) Print(l *line.Fields) error {
	return q.add(l, string(l.Text(line.Type)) == "GAP" && !q.json)
}

// Hold adds a GAP, which may be withdrawn.
func (q *rowQueue) Hold(l *line.Fields) error { return q.add(l, true) }

func (q *rowQueue) add(l *line.Fields, open bool) error {
	next := row{at: l.Time, line: l, open: open}
	if i := q.waiting(l.Text(line.Stream)); i >= 0 {
		if string(l.Text(line.Type)) == "SYNCED" && tail.Unchanged(l) && !q.json {
			next.line, next.closed = q.held[i].line, l
			q.held = slices.Delete(q.held, i, i+1)
		} else {
			q.held[i].open = false
		}
	}
	return q.put(next)
}

// waiting returns the index of the GAP of a stream that waits, -1 for none.
func (q *rowQueue) waiting(stream []byte) int {
	return slices.IndexFunc(q.held, func(r row) bool { return r.open && bytes.Equal(r.line.Text(line.Stream), stream) })
}

// put adds a row behind those that are held.
func (q *rowQueue) put(r row) error {
	if err := q.release(); err != nil {
		return err
	}
	if len(q.held) == 0 && !r.open {
		return q.next(r)
	}
	for _, l := range []**line.Fields{&r.line, &r.closed} {
		if *l != nil {
			own := &line.Fields{}
			if err := own.Parse(bytes.Clone((*l).Raw)); err != nil {
				return err
			}
			own.Set(line.Changes, bytes.Clone((*l).Value(line.Changes))) // which may be of another place
			*l = own
		}
	}
	if q.held = append(q.held, r); len(q.held) > maxHeld {
		q.held[0].open = false
		return q.release()
	}
	return nil
}

// release yields what waits for nothing.
func (q *rowQueue) release() error {
	for len(q.held) > 0 && !q.held[0].open {
		if err := q.next(q.held[0]); err != nil {
			return err
		}
		q.held = q.held[1:]
	}
	return nil
}

func (q *rowQueue) next(r row) error {
	if !q.yield(r) {
		return errStopped
	}
	return nil
}

// Withdraw drops the GAP of a stream that waits. It reports whether there was one.
func (q *rowQueue) Withdraw(stream []byte) bool {
	i := q.waiting(stream)
	if i >= 0 {
		q.held = slices.Delete(q.held, i, i+1)
	}
	return i >= 0
}

// Note adds a remark.
func (q *rowQueue) Note(at time.Time, text string) error {
	return q.put(row{at: at, text: text, remark: true})
}

// Text adds text.
func (q *rowQueue) Text(text []byte) error { return q.put(row{text: string(text)}) }

// End yields all that is held.
func (q *rowQueue) End() error {
	for i := range q.held {
		q.held[i].open = false
	}
	return q.release()
}

// inOrder shows the rows of several histories in the order of their times, each with the index of its history. Those of one
// history stay in their order, and text follows its row.
func inOrder(all []iter.Seq2[row, error], show func(n int, r *row) error) error {
	type head struct {
		row
		pull  func() (row, error, bool)
		there bool
	}
	heads := make([]head, len(all))
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	step := func(n int) (err error) {
		h := &heads[n]
		h.row, err, h.there = h.pull()
		return err
	}
	for n, one := range all {
		pull, stop := iter.Pull2(one)
		heads[n].pull, stops = pull, append(stops, stop)
		if err := step(n); err != nil {
			return err
		}
	}
	for last := 0; ; {
		first := -1
		for n := range heads {
			n = (last + n) % len(heads) // of the same time, those of one history stay together
			if heads[n].there && (first < 0 || heads[n].at.Before(heads[first].at)) {
				first = n
			}
		}
		if first < 0 {
			return nil
		}
		if err := show(first, &heads[first].row); err != nil {
			return err
		}
		last = first
		if err := step(first); err != nil {
			return err
		}
	}
}

// clusterTable shows the rows of several clusters, in text with a column for the cluster after the time.
type clusterTable struct {
	p     *tail.Printer
	style tail.Style
	one   bytes.Buffer // what the printer has written
	w     *bufio.Writer
	width int // of the column
}

const clusterHeading = "CLUSTER"

// mostOfCluster is how wide the column is at most where rows are cut.
const mostOfCluster = 24

func newClusterTable(o *Output, style tail.Style, all []Asked) *clusterTable {
	t := &clusterTable{style: style, w: bufio.NewWriterSize(o, 64<<10), width: len(clusterHeading)}
	for _, a := range all {
		t.width = max(t.width, display.Columns([]byte(printable(a.Cluster))))
	}
	if width := style.Width; width != nil {
		if !style.Wide {
			t.width = min(t.width, mostOfCluster)
		}
		style.Width = func() int { return max(width()-t.width-between, 1) }
	}
	t.p = tail.NewPrinter(&t.one, style)
	return t
}

const between = 2 // columns between two cells

// show shows a row of a cluster.
func (t *clusterTable) show(cluster string, r *row) error {
	var err error
	switch {
	case r.closed != nil:
		if err = t.p.Hold(r.line); err == nil {
			err = t.p.Print(r.closed)
		}
	case r.line != nil && t.style.JSON:
		l := *r.line
		l.Raw = withCluster(l.Raw, cluster)
		err = t.p.Print(&l)
	case r.line != nil:
		err = t.p.Print(r.line)
	case r.remark:
		err = t.p.Note(r.at, printable(cluster)+": "+r.text)
	default:
		err = t.p.Text([]byte(r.text))
	}
	if err := errors.Join(err, t.p.End()); err != nil {
		return err
	}
	text := t.one.Bytes()
	defer t.one.Reset()
	if t.style.JSON || r.line == nil && !r.remark {
		_, err := t.w.Write(text)
		return err
	}
	var out []byte
	for l := range bytes.Lines(text) {
		rest := bytes.TrimPrefix(l, []byte("\x1b[2m"))
		switch at := bytes.Index(l, []byte("TYPE")); {
		case bytes.HasPrefix(rest, []byte("TIME ")) && at > 0:
			out = t.insert(out, l, at, clusterHeading)
		case r.line != nil && isRow(l):
			out = t.insert(out, l, bytes.IndexFunc(l, beginsType), cluster)
		default:
			out = append(out, l...)
		}
	}
	_, err = t.w.Write(out)
	return err
}

// isRow reports whether a line of text begins with the time of a row, not with a date.
func isRow(l []byte) bool { return len(l) > 2 && (l[2] == ':' || l[2] == '-') && l[0] != '-' }

// beginsType reports whether a rune is the first one after a row's time: of its type, or of the type's colour.
func beginsType(r rune) bool { return r == '\x1b' || unicode.IsLetter(r) }

// insert appends a line with a cell before a place in it.
func (t *clusterTable) insert(dst, l []byte, at int, cell string) []byte {
	dst = append(dst, l[:at]...)
	start := len(dst)
	dst = append(dst, printable(cell)...)
	if t.style.Width != nil && !t.style.Wide {
		dst = display.CutMiddle(dst, start, t.width)
	}
	dst = display.Pad(dst, t.width-display.Columns(dst[start:])+between)
	return append(dst, l[at:]...)
}

// end writes what is left.
func (t *clusterTable) end() error { return t.w.Flush() }

// withCluster returns a line as JSON with its cluster's name.
func withCluster(raw []byte, cluster string) []byte {
	member := fmt.Appendf(nil, "\"cluster\":\"%s\"", rawjson.AppendEscaped(nil, cluster))
	c := rawjson.NewCursor(raw)
	behind := 0 // the member before
	for more := c.Take('{'); more; more = c.Take(',') {
		begin := c.Offset()
		key, ok := c.Key()
		if value := c.Value(); !ok || value == nil {
			return raw // which Parse does not take
		}
		switch string(key) {
		case "cluster":
			return slices.Concat(raw[:begin], member, raw[c.Offset():])
		case "stream":
			behind = c.Offset()
		}
	}
	return slices.Concat(raw[:behind], []byte{','}, member, raw[behind:])
}
