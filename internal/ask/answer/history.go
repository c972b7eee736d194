package answer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/follow"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/rows"
	"kubejournal/internal/ask/search"
	"kubejournal/internal/ask/yamltext"
	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// History says which versions are shown, and how.
type History struct {
	Since, Until argument.Moment
	By           string // a field manager, with or without its subresource; * stands for anything
	Field        Path
	Pattern      *search.Pattern  // where objects have it; nil for all versions
	Progress     *search.Progress // of that; may be nil
	Deleted      bool             // deletions alone
	Warnings     bool             // Events of type Warning alone
	GiveBack     string           // the command that makes again what the deletions are of; "" for none
	All          bool             // noise too
	Owned        bool             // what controllers made too, and Events
	Related      bool             // the selection is of one object and those that belong to it
	Patch        bool             // with the difference of each version
	One          bool             // an object was named
	Doubts       []question.Doubt // of Since and Until
	Format       string
	Style        follow.Style
}

// history prints one answer.
type history struct {
	*History
	a      *Asked
	o      *Output // of a
	p      *follow.Printer
	among  bool                    // its rows are among those of other clusters
	gaps   map[string]*line.Fields // by stream: GAP lines that have not ended
	ended  map[uint64]bool         // SYNCED lines that were counted as gaps
	seen   map[string]bool         // streams of which a version was there
	uids   map[string]string       // of the last line of a name
	back   map[string]bool         // uids of deleted objects that can be given back
	hidden rows.Hidden
	ops    []byte

	shown, others    int // versions that match, and that do not
	unknown, unnamed int // of others: whose writer is not known, and of whose writers the API has no record
	removed          int // what changed is not known, as the lines before them were removed
	untyped          int // of others: Events whose lines do not have the type
	truncated        int // of others: whose lines do not have all changes, so that they may have changed the field

	remarks *follow.Remarks // nil but for text

	searched *search.Result // nil without a pattern
}

// SetAsked finds out what clusters are asked for: objects that are named, and what rows need not repeat, as a namespace
// that is the only one.
func (h *History) SetAsked(all []Asked, namespace string) {
	var objects []argument.Object
	for _, a := range all {
		objects = append(objects, a.Selection.Objects...)
	}
	h.One = !h.Warnings && len(objects) > 0 &&
		!slices.ContainsFunc(objects, func(o argument.Object) bool { return o.Name == "" })
	if h.Format == "text" && h.Style.Width != nil && !h.Style.Wide {
		h.Style.Same = h.sameRows(all, namespace)
	}
}

// sameRows returns what a question says already of all rows.
func (h *History) sameRows(all []Asked, namespace string) (is follow.Same) {
	j, s, several := all[0].Journal, all[0].Selection, Several(all)
	// Of Kubernetes' own managers the subresource may tell more.
	is.Who = h.By != "" && !strings.ContainsAny(h.By, `*?[\`) && !strings.HasPrefix(h.By, "kube")
	is.Object = h.One && !h.Related && !several && h.Pattern == nil
	is.Warning = h.Warnings
	is.Kind = h.Warnings || len(s.Objects) == 1 && !h.Related && !several && j.OneResource(s)
	is.Namespace = namespace
	return is
}

// Print shows the versions of the selected objects, of several clusters in the order of their times.
func (h *History) Print(ctx context.Context, all []Asked, o *Output) error {
	of := make([]*history, len(all))
	for n := range all {
		of[n] = &history{
			History: h, a: &all[n], o: all[n].Output, among: Several(all),
			uids: map[string]string{}, back: map[string]bool{}, ended: map[uint64]bool{}, seen: map[string]bool{},
		}
	}
	if !Several(all) && h.Pattern != nil {
		return of[0].printFound(ctx, o)
	}
	if !Several(all) {
		of[0].p = follow.NewPrinter(o.Writer, h.Style)
		if err := of[0].lines(ctx); err != nil {
			return err
		}
		return of[0].finish(ctx)
	}
	style := h.Style
	each := make([]iter.Seq2[*follow.Row, error], len(all))
	for n := range all {
		each[n], style.Clusters = of[n].rows(ctx), append(style.Clusters, all[n].Cluster)
		if h.Pattern != nil {
			each[n] = of[n].found(ctx)
		}
	}
	p := follow.NewPrinter(o.Writer, style)
	err := inOrder(each, func(n int, r *follow.Row) error { return showOf(p, all[n].Cluster, r, style.JSON) })
	if err := errors.Join(err, p.End()); err != nil {
		return err
	}
	return Each(of, func(one *history) error { return one.finish(ctx) })
}

// rows yields what the history shows.
func (h *history) rows(ctx context.Context) iter.Seq2[*follow.Row, error] {
	return func(yield func(*follow.Row, error) bool) {
		h.p = follow.NewQueue(h.Style, func(r *follow.Row) error {
			if !yield(r, nil) {
				return errStopped
			}
			return nil
		})
		if err := h.lines(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// lines shows the lines.
func (h *history) lines(ctx context.Context) error {
	j, s := h.a.Journal, h.a.Selection
	if h.Format == "text" {
		h.remarks = follow.NewRemarks(h.p, j, s, h.Since, h.Until)
	}
	sections := []question.Span{{End: math.MaxUint64}}
	if h.One && !h.Related && !h.among && h.Format != "json" {
		all, err := j.Objects(ctx, s, h.Since, h.Until)
		if err != nil {
			return err
		}
		if len(all) > 1 || len(all) == 1 && h.Style.Same.Object {
			sections = all
		}
	}
	for n := range sections {
		if err := h.section(ctx, j, s, sections, n); err != nil {
			return err
		}
	}
	if !h.Narrow() {
		if err := h.remarks.End(); err != nil {
			return err
		}
	}
	return h.p.End()
}

// finish says what was left out, and why there may be more.
func (h *history) finish(ctx context.Context) error {
	doubts, err := h.a.Journal.Uncovered(ctx, h.a.Selection, h.Since, h.Until)
	if err != nil {
		return err
	}
	doubts = append(slices.Clone(h.Doubts), doubts...)
	h.explain(len(doubts) > 0)
	if err := h.giveBack(ctx); err != nil {
		return err
	}
	hides := h.searched != nil && h.searched.Doubt
	if err := h.o.Doubt(doubts); err != nil || h.unknown+h.untyped+h.truncated+h.removed == 0 && !hides {
		return err
	}
	return ErrNotCovered // the manager may have written those, and they may have changed anything, or warn
}

// section shows one of several objects, with the gaps and outages from its first line up to the next one's; or all
// lines, where there is one section.
func (h *history) section(
	ctx context.Context, j *question.Journal, s *argument.Selection, all []question.Span, n int,
) error {
	h.gaps = map[string]*line.Fields{}
	h.remarks.Restart()
	is, end := all[n], uint64(math.MaxUint64)
	if len(all) > 1 {
		of := *s
		of.UIDs = map[string]bool{is.UID: true}
		s = &of
	}
	if n+1 < len(all) {
		end = max(is.End, all[n+1].Begin-1)
	}
	headed := is.Stream == nil // all lines
	for v, err := range j.History(ctx, s, h.Since, h.Until) {
		if err != nil {
			return err
		}
		if v.Seq > end && len(h.gaps) == 0 {
			break
		}
		if v.Seq > end && h.gaps[string(v.Text(line.FieldStream))] == nil {
			continue // up to the end of a gap
		}
		if n > 0 && v.Seq < is.Begin { // a gap in which the object came belongs to it
			if err := h.hold(v); err != nil {
				return err
			}
			continue
		}
		if !headed {
			headed = true
			text := title(&is.Item)
			if len(all) > 1 {
				text = fmt.Sprintf("%s, uid %s (%d of %d)", text, printable(is.UID), n+1, len(all))
			}
			if err := h.remark(v.Time, text); err != nil {
				return err
			}
			bySeq := func(a, b *line.Fields) int { return cmp.Compare(a.Seq, b.Seq) }
			for _, gap := range slices.SortedFunc(maps.Values(h.gaps), bySeq) {
				if h.Format == "yaml" {
					break
				}
				if err := h.p.Hold(gap); err != nil {
					return err
				}
			}
		}
		if !h.Narrow() {
			if err := h.remarks.Before(v.Fields); err != nil {
				return err
			}
		}
		if err := h.version(ctx, v); err != nil {
			return err
		}
	}
	h.dropOpenGaps()
	return nil
}

// remark shows a line of text between rows.
func (h *history) remark(at time.Time, text string) error {
	if h.Format == "yaml" {
		_, err := fmt.Fprintf(terminal.Raw(h.o.Writer), "# %s\n", printable(text))
		return err
	}
	return h.p.Note(at, text)
}

func (h *history) version(ctx context.Context, v *archive.Version) error {
	if h.Format == "json" && !h.filters() {
		h.shown++
		return h.p.Print(v.Fields)
	}
	if v.AboutStream() {
		return h.mark(v)
	}
	h.seen[string(v.Text(line.FieldStream))] = true
	if h.Warnings && !h.warns(v) {
		h.others++
		return nil
	}
	by := h.isBy(v)
	if h.Deleted && v.Type() != line.Deleted || !by && !h.mayBeBy(v) {
		h.others++
		return nil
	}
	partial, err := Compare(ctx, v, &h.ops)
	removed := errors.Is(err, archive.ErrRemoved)
	if err != nil && !removed {
		return err
	}
	if v.Type() == line.Added && len(h.Field) > 0 {
		if h.ops = h.Field.appendAdded(h.ops[:0], "", v.Object); len(h.ops) > 0 {
			v.Set(line.FieldChanges, slices.Concat([]byte{'['}, h.ops, []byte{']'}))
		}
	}
	if len(h.Field) > 0 && !h.Field.touched(v.Value(line.FieldChanges), v.Object) {
		h.others++
		if partial {
			h.truncated++
		}
		if removed {
			h.removed++
		}
		return nil
	}
	if !by {
		h.others++
		if h.All || h.noise(v) == rows.NoNoise {
			h.countUnknown(v)
		}
		return nil
	}
	if !h.All {
		if firstSight(v) && !h.One && !h.Warnings {
			h.hidden[rows.FirstSight]++
			return nil
		}
		if class := h.noise(v); class != rows.NoNoise {
			h.hidden[class]++
			return nil
		}
	}
	if h.Narrow() {
		if h.shown == 0 {
			h.remarks.Since(v.Time)
		}
		if err := h.remarks.Before(v.Fields); err != nil {
			return err
		}
	}
	h.shown++
	h.restorable(v)
	if removed {
		h.removed++
	}
	if err := h.another(v); err != nil {
		return err
	}
	return h.show(ctx, v)
}

// filters reports whether lines are left out.
func (h *history) filters() bool {
	return h.Deleted || h.Warnings || h.By != "" || len(h.Field) > 0 || !h.All
}

// warns reports whether a version is an Event of type Warning that is there. It counts those that may be one.
func (h *history) warns(v *archive.Version) bool {
	if rows.NoiseOf(v.Fields, nil) != rows.EventObject || v.Type() == line.Deleted && !h.All && !h.Deleted {
		return false
	}
	kind := rawjson.Pick(v.Object, "type")[0]
	if kind == nil && v.Type() != line.Deleted {
		h.untyped++
	}
	return string(kind) == `"Warning"`
}

func (h *history) isBy(v *archive.Version) bool {
	if h.By == "" {
		return true
	}
	user, as := v.Person()
	names := []string{user, as}
	if full := string(v.Text(line.FieldManager)); v.Type() != line.Deleted {
		names = append(names, full, rows.Manager(full))
		if sub := v.Text(line.FieldSubresource); len(sub) > 0 {
			full += "/" + string(sub)
			names = append(names, full, rows.Manager(full))
		}
	}
	return slices.ContainsFunc(names, func(is string) bool {
		ok, err := path.Match(h.By, is)
		return is != "" && (ok && err == nil || is == h.By)
	})
}

// mayBeBy reports whether the manager that is asked for may have written a version of which no writer is known.
func (h *history) mayBeBy(v *archive.Version) bool {
	return len(v.Text(line.FieldManager)) == 0 && !firstSight(v) || v.Type() == line.Deleted
}

// firstSight reports whether a version existed when its stream began. A change between two attempts at a first list did
// not.
func firstSight(v *archive.Version) bool { return v.Snapshot() && v.Type() == line.Added }

// countUnknown counts a version whose writer is not known. Who deletes an object, or binds a pod to a node, is in no
// managedFields, as docs/line.md says: of these, it is not known of any.
func (h *history) countUnknown(v *archive.Version) {
	unnamed := v.Type() == line.Deleted
	for op := range rawjson.Elements(v.Value(line.FieldChanges)) {
		switch string(rawjson.Inside(rawjson.Pick(op, "path")[0])) {
		case "/metadata/deletionTimestamp":
			unnamed = true
		case "/spec/nodeName":
			unnamed = unnamed || string(v.Text(line.FieldResource)) == "pods"
		}
	}
	if unnamed {
		h.unnamed++
		return
	}
	h.unknown++
}

// Compare gives a line the changes from the version before, where it does not have them. They are in ops. partial
// reports whether there may be more changes than the line then has, since it or the one before is truncated. The
// error is archive.ErrRemoved where that was removed.
func Compare(ctx context.Context, v *archive.Version, ops *[]byte) (partial bool, err error) {
	if len(v.Value(line.FieldChanges)) > 0 || v.Type() == line.Deleted {
		return len(v.Value(line.FieldChangesOmitted)) > 0, nil
	}
	if v.Incomplete() {
		return true, nil
	}
	if v.Type() != line.Modified || len(v.Object) == 0 {
		return false, nil
	}
	previous, err := v.Previous(ctx)
	if err != nil || previous == nil {
		return false, err
	}
	if previous.Incomplete() {
		return true, nil // what is cut of it is no change
	}
	if len(previous.Object) == 0 {
		return false, nil
	}
	if *ops, err = changes.Append((*ops)[:0], previous.Object, v.Object); err != nil {
		return false, fmt.Errorf("compare line %d with line %d: %w", v.Seq, previous.Seq, err)
	}
	v.Set(line.FieldChanges, *ops)
	return false, nil
}

// noise returns which class of noise a version is.
func (h *history) noise(v *archive.Version) rows.Noise {
	class := rows.NoiseOf(v.Fields, v.Value(line.FieldChanges))
	switch {
	case class == rows.EventObject && h.Owned:
		return rows.NoNoise
	case class == rows.NoNoise && !h.Owned && owned(v):
		return rows.Owned
	}
	return class
}

// owned reports whether a version is what a controller does with an object that it has made: all but what becomes of
// it.
func owned(v *archive.Version) bool {
	controlled := false
	for owner := range rawjson.Elements(rawjson.At(v.Object, []byte("/metadata/ownerReferences"))) {
		controlled = controlled || string(rawjson.Pick(owner, "controller")[0]) == "true"
	}
	resource := string(v.Text(line.FieldResource))
	controlled = controlled || resource == "endpoints" || resource == "endpointslices"
	if !controlled || v.Type() != line.Modified {
		return controlled
	}
	status := []byte("[")
	for op := range rawjson.Elements(v.Value(line.FieldChanges)) {
		if path := rawjson.Inside(rawjson.Pick(op, "path")[0]); bytes.HasPrefix(path, []byte("/status")) {
			status = append(append(status, op...), ',')
		}
	}
	if len(status) == 1 {
		return true
	}
	status[len(status)-1] = ']'
	return rows.NoiseOf(v.Fields, status) != rows.NoNoise
}

// hold takes note of a GAP or a SYNCED without showing it.
func (h *history) hold(v *archive.Version) error {
	h.remarks.Gap(v.Fields)
	stream := string(v.Text(line.FieldStream))
	if v.Type() != line.Gap {
		delete(h.gaps, stream)
		return nil
	}
	gap := &line.Fields{}
	if err := gap.Parse(bytes.Clone(v.Raw)); err != nil {
		return err
	}
	h.gaps[stream] = gap
	return nil
}

// mark shows a GAP and the SYNCED that ends it, unless nothing had changed.
func (h *history) mark(v *archive.Version) error {
	stream := string(v.Text(line.FieldStream))
	if v.Type() == line.Gap {
		if err := h.hold(v); err != nil || h.Format == "yaml" {
			return err
		}
		if h.Narrow() && h.shown > 0 {
			if err := h.remarks.Before(v.Fields); err != nil {
				return err
			}
		}
		return h.p.Hold(h.gaps[stream])
	}
	gap, class := h.gaps[stream], rows.Gap
	if err := h.hold(v); err != nil {
		return err
	}
	if follow.Unchanged(v.Fields) {
		class = rows.QuietGap
	}
	switch {
	case gap == nil && !h.All: // the end of a first list
		return nil
	case h.All, !h.Narrow() && class == rows.Gap:
		return h.row(v.Fields)
	case h.Format != "yaml" && !h.p.Withdraw([]byte(stream)): // the GAP was shown
		if h.Narrow() {
			return nil
		}
		return h.row(v.Fields)
	case !h.ended[v.Seq]:
		h.ended[v.Seq] = true
		h.countGap(stream, class)
	}
	return nil
}

// countGap counts a gap that is not shown, unless nothing of its stream is.
func (h *history) countGap(stream string, class rows.Noise) {
	if !h.Related || h.Format != "text" || h.seen[stream] {
		h.hidden[class]++
	}
}

// dropOpenGaps counts the gaps that no SYNCED ends, where rows are about less than streams and none is of what
// followed.
func (h *history) dropOpenGaps() {
	if !h.Narrow() {
		return
	}
	for _, stream := range slices.Sorted(maps.Keys(h.gaps)) {
		if h.p.Withdraw([]byte(stream)) {
			h.countGap(stream, rows.Gap)
		}
	}
}

// Narrow reports whether rows are about less than streams, so that gaps after which none of them is are counted.
func (h *History) Narrow() bool {
	return h.Format == "text" && !h.All &&
		(h.One || h.Related || h.Deleted || h.Warnings || h.By != "" || len(h.Field) > 0)
}

// row shows a line; of those about a stream YAML has none.
func (h *history) row(l *line.Fields) error {
	if h.Format == "yaml" {
		return nil
	}
	return h.p.Print(l)
}

// another remarks where a name is another object's from now on, in a table of several objects.
func (h *history) another(v *archive.Version) error {
	if !h.One || !h.Related && !h.among || h.Format != "text" {
		return nil
	}
	name, uid := strings.Join(
		[]string{
			string(v.Text(line.FieldResource)), string(v.Text(line.FieldNamespace)), string(v.Text(line.FieldName)),
		},
		"/",
	), string(v.Text(line.FieldUID))
	before, there := h.uids[name]
	if h.uids[name] = uid; !there || before == uid {
		return nil
	}
	return h.p.Note(v.Time, "another object of that name: uid "+printable(uid))
}

func (h *history) show(ctx context.Context, v *archive.Version) error {
	if h.Format == "yaml" {
		return h.object(v)
	}
	err := h.p.Print(v.Fields)
	if err == nil {
		err = h.remarks.After(ctx, v.Fields)
	}
	if err != nil || !h.Patch || h.Format == "json" {
		return err
	}
	return h.patch(ctx, v)
}

func (h *history) object(v *archive.Version) error {
	var text []byte
	if why := lacking(v.Fields); why != "" {
		text = fmt.Appendf(text, "# incomplete: %s\n", printable(detailed(why, v.Fields)))
	}
	if len(v.Object) > 0 {
		var err error
		if text, err = yamltext.Append(text, v.Object, yamltext.Options{}); err != nil {
			return fmt.Errorf("line %d: %w", v.Seq, err)
		}
	}
	if h.Style.Width != nil { // to a terminal, and no longer what it means
		text = terminal.AppendLines(nil, text)
	}
	_, err := fmt.Fprintf(
		terminal.Raw(h.o.Writer), "---\n# seq %d, %s, %s\n%s", v.Seq, local(v.Time),
		terminal.Line(string(v.Text(line.FieldType))), text,
	)
	return err
}

// patch shows the difference from the version before.
func (h *history) patch(ctx context.Context, v *archive.Version) error {
	previous, err := v.Previous(ctx)
	if err != nil && !errors.Is(err, archive.ErrRemoved) { // which is counted
		return err
	}
	from, to := yamltext.Side{Title: "/dev/null"}, yamltext.Side{Title: "/dev/null"}
	if previous != nil && v.Type() != line.Added {
		from = side(previous)
	}
	if v.Type() != line.Deleted {
		to = side(v.Fields)
	}
	var text []byte
	why := lacking(v.Fields)
	if previous != nil && v.Type() == line.Modified && lacksOther(lacking(previous), why) {
		text = fmt.Appendf(text, "--- %s\n+++ %s\n", printable(from.Title), printable(to.Title))
		from.Text, to.Text = nil, nil
		if why == "" {
			why = fmt.Sprintf("seq %d: %s", previous.Seq, lacking(previous))
		}
	}
	text = yamltext.AppendDiff(text, from, to, h.Style.Colour)
	if why != "" {
		text = fmt.Appendf(text, "# incomplete: %s\n", printable(detailed(why, v.Fields)))
	}
	if len(text) > 0 {
		text = append(text, '\n')
	}
	return h.p.Text(text)
}

// side is an object of a line as one side of a difference.
func side(l *line.Fields) yamltext.Side {
	name := string(l.Text(line.FieldName))
	if namespace := l.Text(line.FieldNamespace); len(namespace) > 0 {
		name = string(namespace) + "/" + name
	}
	s := yamltext.Side{Title: fmt.Sprintf("%s %s  %s  seq %d", l.Text(line.FieldKind), name, local(l.Time), l.Seq)}
	if user := rows.User(l); user != "" {
		s.Title += "  by " + user
	}
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
func (h *history) explain(doubtful bool) {
	hidden := h.hidden.String()
	if hidden != "" {
		h.o.note("%s", hidden)
	}
	if h.unknown+h.unnamed > 0 {
		h.o.note("%s", h.writers())
	}
	if h.untyped > 0 {
		h.o.note("%s may be a Warning: the line does not have the type", count(h.untyped, "Event version"))
	}
	if h.truncated > 0 {
		h.o.note("%s may match: of a truncated line, or after one, not all changes are known",
			count(h.truncated, "version"))
	}
	if h.removed > 0 {
		h.o.note("what %s changed is not known: lines before were removed", count(h.removed, "version"))
	}
	switch filtered := h.Deleted || h.By != "" || len(h.Field) > 0; {
	case h.searched != nil:
		h.explainFound()
	case h.shown > 0:
	case h.Warnings && !filtered && h.others > 0:
		h.o.note("none of %s of Events is a Warning%s", count(h.others, "version"), h.beyond())
	case h.Warnings && !filtered:
		h.o.note("the journal has no Event about that%s", h.beyond())
	case filtered && h.others > 0:
		h.o.note("none of %s matches", count(h.others, "version"))
	case filtered:
		h.o.note("no version matches")
	case hidden == "" && doubtful:
		h.o.note("the journal has no line about that in that time")
	case hidden == "":
		h.o.note("nothing changed in that time")
	}
}

// beyond says where more Warnings may be.
func (h *history) beyond() string {
	if h.Related || len(h.a.Selection.UIDs) == 0 {
		return ""
	}
	return "; --related has those about what belongs to it too"
}

// writers says of how many versions that are not shown the manager that is asked for may be the writer.
func (h *history) writers() string {
	var parts []string
	if h.unknown > 0 {
		parts = append(parts, terminal.Count(h.unknown, "version has", "versions have")+" no known writer")
	}
	if h.unnamed > 0 {
		parts = append(parts, "the API names no writer of "+
			terminal.Count(h.unnamed, "deletion or binding", "deletions and bindings"))
	}
	return strings.Join(parts, "; ")
}
