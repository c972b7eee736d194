package answer

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"time"

	"kubejournal/internal/changes"
	"kubejournal/internal/coverage"
	"kubejournal/internal/display"
	"kubejournal/internal/line"
	"kubejournal/internal/query"
	"kubejournal/internal/rawjson"
	"kubejournal/internal/tail"
	"kubejournal/internal/yamltext"
)

// History says which versions are shown, and how.
type History struct {
	Since, Until query.Moment
	By           string // a field manager, with or without its subresource; * stands for anything
	Field        Path
	Deleted      bool // deletions alone
	All          bool // noise too
	Owned        bool // what controllers made too, and Events
	Patch        bool // with the difference of each version
	One          bool // an object was named
	Format       string
	Style        tail.Style
}

// history prints one answer.
type history struct {
	*History
	o      *Output
	p      *tail.Printer
	gaps   map[string]*line.Fields // by stream, not shown yet
	since  map[string]time.Time    // by stream: when the last gap began
	uids   map[string]string       // of the last line of a name
	hidden display.Hidden
	quiet  int // gaps behind which nothing had changed
	first  int // objects that existed at first sight
	shown  int
	ops    []byte

	outages []query.Outage // that are not drawn yet
	last    time.Time      // of the line before
}

// Print shows the versions of the selected objects.
func (h *History) Print(ctx context.Context, j *query.Journal, s *query.Selection, o *Output) error {
	p := &history{History: h, o: o, p: tail.NewPrinter(o, h.Style), gaps: map[string]*line.Fields{}, since: map[string]time.Time{}, uids: map[string]string{}}
	p.outages = j.Outages(s)
	for v, err := range j.History(ctx, s, h.Since, h.Until) {
		if err == nil {
			err = p.outage(v)
		}
		if err == nil {
			err = p.version(ctx, v)
		}
		if err != nil {
			return err
		}
	}
	if err := p.p.End(); err != nil {
		return err
	}
	p.explain()
	return nil
}

func (h *history) version(ctx context.Context, v *query.Version) error {
	if h.Format == "json" && !h.filters() {
		h.shown++
		return h.p.Print(v.Fields)
	}
	if v.AboutStream() {
		return h.mark(v)
	}
	if h.Deleted && string(v.Text(line.Type)) != "DELETED" || !h.isBy(v) {
		return nil
	}
	previous, err := v.Previous(ctx)
	if err != nil {
		return err
	}
	if err := h.compare(v, previous); err != nil {
		return err
	}
	if len(h.Field) > 0 && !h.Field.touched(v.Value(line.Changes), v.Object) {
		return nil
	}
	if !h.All {
		if string(v.Text(line.Origin)) == "snapshot" && !h.One {
			h.first++
			return nil
		}
		if class := h.noise(v); class != display.NoNoise {
			h.hidden[class]++
			return nil
		}
	}
	if err := h.pending(string(v.Text(line.Stream))); err != nil {
		return err
	}
	h.shown++
	return h.show(v, previous)
}

// outage draws the times before a line in which nobody watched, where the silence is: what was read later comes behind it.
func (h *history) outage(v *query.Version) error {
	silence := time.Duration(0)
	if !h.last.IsZero() {
		silence = v.Time.Sub(h.last)
	}
	h.last = v.Time
	for len(h.outages) > 0 {
		o := h.outages[0]
		if silent := v.Time.After(o.From) && silence > o.To.Sub(o.From)/2; !silent && v.Time.Before(o.To) {
			return nil
		}
		h.outages = h.outages[1:]
		if h.Format != "text" || h.Since.After(0, o.To) {
			continue
		}
		streams := fmt.Sprintf("%d streams were", o.Streams)
		if o.Streams == 1 {
			streams = "1 stream was"
		}
		why := map[string]string{
			coverage.Unknown: "the daemon was killed", coverage.Stopped: "the daemon was stopped",
			coverage.Interrupted: "the server could not be read", coverage.Removed: "not in the config",
		}[o.Reason]
		if err := h.p.Note(fmt.Sprintf("%s to %s: %s not followed, %s", clock(o.From), clock(o.To), streams, why)); err != nil {
			return err
		}
	}
	return nil
}

func clock(t time.Time) string { return t.Local().Format("15:04:05") }

// filters reports whether lines are left out.
func (h *history) filters() bool {
	return h.Deleted || h.By != "" || len(h.Field) > 0 || !h.All
}

func (h *history) isBy(v *query.Version) bool {
	if h.By == "" {
		return true
	}
	manager := string(v.Text(line.Manager))
	if string(v.Text(line.Type)) == "DELETED" || manager == "" {
		return false
	}
	full := manager
	if sub := v.Text(line.Subresource); len(sub) > 0 {
		full += "/" + string(sub)
	}
	for _, is := range []string{manager, full} {
		if ok, err := path.Match(h.By, is); ok && err == nil || is == h.By {
			return true
		}
	}
	return false
}

// compare gives a line the changes from the version before, where it does not have them.
func (h *history) compare(v *query.Version, previous *line.Fields) error {
	if len(v.Value(line.Changes)) > 0 || previous == nil || string(v.Text(line.Type)) != "MODIFIED" || len(v.Object) == 0 || len(previous.Object) == 0 {
		return nil
	}
	ops, err := changes.Append(h.ops[:0], previous.Object, v.Object)
	if err != nil {
		return fmt.Errorf("compare line %d with line %d: %w", v.Seq, previous.Seq, err)
	}
	h.ops = ops
	v.Set(line.Changes, ops)
	return nil
}

// noise returns which class of noise a version is.
func (h *history) noise(v *query.Version) display.Noise {
	class := display.NoiseOf(v.Fields, v.Value(line.Changes))
	switch {
	case class == display.EventObject && h.Owned:
		return display.NoNoise
	case class == display.NoNoise && !h.Owned && owned(v):
		return display.Owned
	}
	return class
}

// owned reports whether a version is what a controller does with an object that it has made: all but what becomes of it.
func owned(v *query.Version) bool {
	controlled := false
	for owner := range rawjson.Elements(rawjson.At(v.Object, []byte("/metadata/ownerReferences"))) {
		controlled = controlled || string(rawjson.Pick(owner, "controller")[0]) == "true"
	}
	resource := string(v.Text(line.Resource))
	controlled = controlled || resource == "endpoints" || resource == "endpointslices"
	if !controlled || string(v.Text(line.Type)) != "MODIFIED" {
		return controlled
	}
	status := []byte("[")
	for op := range rawjson.Elements(v.Value(line.Changes)) {
		if path := rawjson.Inside(rawjson.Pick(op, "path")[0]); bytes.HasPrefix(path, []byte("/status")) {
			status = append(append(status, op...), ',')
		}
	}
	if len(status) == 1 {
		return true
	}
	status[len(status)-1] = ']'
	return display.NoiseOf(v.Fields, status) != display.NoNoise
}

// mark takes note of a GAP or a SYNCED. A gap is drawn unless nothing had changed.
func (h *history) mark(v *query.Version) error {
	stream := string(v.Text(line.Stream))
	if string(v.Text(line.Type)) == "GAP" {
		gap := &line.Fields{}
		if err := gap.Parse(bytes.Clone(v.Raw)); err != nil {
			return err
		}
		h.gaps[stream] = gap
		h.since[stream], _ = time.Parse(time.RFC3339Nano, string(v.Text(line.FromTime))) // or it is unknown
		return nil
	}
	gap := h.gaps[stream]
	if gap == nil {
		if h.All {
			return h.p.Print(v.Fields)
		}
		return nil // of a first list, or of a gap that was shown
	}
	if unchanged(v.Fields) && !h.All {
		delete(h.gaps, stream)
		h.quiet++
		return nil
	}
	if err := h.pending(stream); err != nil {
		return err
	}
	return h.p.Print(v.Fields)
}

// pending shows the GAP line of a stream that was held back.
func (h *history) pending(stream string) error {
	gap := h.gaps[stream]
	if gap == nil {
		return nil
	}
	delete(h.gaps, stream)
	return h.p.Print(gap)
}

func (h *history) show(v *query.Version, previous *line.Fields) error {
	if h.Format == "yaml" {
		return h.object(v)
	}
	if h.One && h.Format != "json" {
		name, uid := string(v.Text(line.Namespace))+"/"+string(v.Text(line.Name)), string(v.Text(line.UID))
		if before, there := h.uids[name]; there && before != uid {
			if err := h.p.Note("another object of that name: uid " + printable(uid)); err != nil {
				return err
			}
		}
		h.uids[name] = uid
	}
	err := h.p.Print(v.Fields)
	if from := h.since[string(v.Text(line.Stream))]; err == nil && h.Format != "json" && !from.IsZero() &&
		string(v.Text(line.Type)) == "DELETED" && string(v.Text(line.Origin)) == "relist" {
		err = h.p.Note(fmt.Sprintf("deleted between %s and %s", clock(from), clock(v.Time)))
	}
	if err != nil || !h.Patch || h.Format == "json" {
		return err
	}
	return h.patch(v, previous)
}

func (h *history) object(v *query.Version) error {
	if len(v.Object) == 0 {
		return nil
	}
	text, err := yamltext.Append(nil, v.Object, yamltext.Options{})
	if err != nil {
		return fmt.Errorf("line %d: %w", v.Seq, err)
	}
	_, err = fmt.Fprintf(h.o, "---\n# seq %d, %s, %s\n%s", v.Seq, moment(v.Time), v.Text(line.Type), text)
	return err
}

// patch shows the difference from the version before.
func (h *history) patch(v *query.Version, previous *line.Fields) error {
	if err := h.p.Flush(); err != nil {
		return err
	}
	from, to := yamltext.Side{Title: "/dev/null"}, yamltext.Side{Title: "/dev/null"}
	if previous != nil && len(previous.Object) > 0 && string(v.Text(line.Type)) != "ADDED" {
		from = side(previous)
	}
	if string(v.Text(line.Type)) != "DELETED" {
		to = side(v.Fields)
	}
	text := yamltext.AppendDiff(nil, from, to, h.Style.Colour)
	if len(text) > 0 {
		text = append(text, '\n')
	}
	_, err := h.o.Write(text)
	return err
}

// side is an object of a line as one side of a difference.
func side(l *line.Fields) yamltext.Side {
	name := string(l.Text(line.Name))
	if namespace := l.Text(line.Namespace); len(namespace) > 0 {
		name = string(namespace) + "/" + name
	}
	s := yamltext.Side{Title: fmt.Sprintf("%s %s  %s  seq %d", l.Text(line.Kind), name, moment(l.Time), l.Seq)}
	if len(l.Object) == 0 {
		return s
	}
	text, err := yamltext.Append(nil, l.Object, yamltext.Options{Without: yamltext.Bookkeeping, Lines: true})
	if err != nil {
		text = fmt.Appendf(nil, "# cannot be read: %v\n", err)
	}
	s.Text = text
	return s
}

// explain counts what was hidden, and says why an empty answer is empty.
func (h *history) explain() {
	if h.first > 0 {
		h.o.note("hidden: %s that existed at first sight (--all shows them)", count(h.first, "object"))
	}
	if h.quiet > 0 {
		h.o.note("hidden: %s behind which nothing had changed (--all shows them)", count(h.quiet, "gap"))
	}
	text := h.hidden.String()
	if text != "" {
		h.o.note("%s", text)
	}
	if h.shown+h.first+h.quiet == 0 && text == "" {
		h.o.note("nothing changed in that time")
	}
}

// unchanged reports whether a SYNCED says that nothing had changed.
func unchanged(l *line.Fields) bool { return tail.Unchanged(l) }
