// Package merge makes one journal of those of several daemons: of replicas, of which one wrote at a time, and of
// shards.
//
// Lines of replicas are in one order, by term and seq (see internal/record/takeover), lines of shards by time. After a
// takeover the merged journal does not have all that the replicas wrote, or not as they wrote it:
//
//	a replica wrote                                 the merged journal has
//	----------------------------------------------  --------------------------------------------------------
//	a watch's line about a version and type of an   the first line; ids may differ for a while, as the
//	object that the stream has already              replicas' entries did
//	the same after a GAP PositionAheadOfServer or   both: versions start over at the GAP, and once more at
//	PositionRefused                                 its SYNCED
//	a list that it did not finish, since another    nothing of it: the other one writes everything from the
//	took over                                       position before it
//	a list after a GAP that was finished and not    the list, after what the next leader's watch brings up
//	published when the other took over              to the version of the list's SYNCED
//
// A replica that has not followed the one before it to its end, and finds that the history is lost, lists. Its GAP then
// is from where the replicas together had come, and the lines of its list become:
//
//	line of the list                                becomes
//	----------------------------------------------  --------------------------------------------------------
//	an object at the version written last           nothing, it is a repeat
//	DELETED of an object that is gone already       nothing
//	ADDED of an object that is there                MODIFIED
//	MODIFIED of an object that is not there         ADDED
//	DELETED                                         DELETED, with the object as it was written last
//	no line about an object that was written after  DELETED, which is added; not where the replicas' filters
//	the version that the GAP is from                hold lines of the stream back
package merge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// Source is a journal that is merged.
type Source struct {
	Name string // for errors and Hole
	// Lines yields its lines in the order of seq, none twice: all of them, or with the GAP and SYNCED lines of a stream
	// those about some of its objects. A line is valid until the next one. It is called more than once.
	Lines func(context.Context) iter.Seq2[Line, error]
	// Streams names streams that it has lines of, in case Lines does not yield them all. Sources with a stream in
	// common are in one order.
	Streams []string
}

// Line is a line of a source.
type Line struct {
	*line.Fields
	// how many lines are missing directly before it, or before others since the one before that are not asked for
	Missing uint64
}

// Output takes the merged journal.
type Output interface {
	// Late reports that a repeat was dropped whose replica had received the event earlier than the one whose line is in
	// the merged journal.
	Late(stream string, earlier, later time.Time)
	// Relisted reports a list after a GAP: of what was changed between the stream's last line before the GAP and the
	// SYNCED, it may have no more than the difference. from is zero where no line came before.
	Relisted(stream string, from, to time.Time)
	// Hole says that so many lines of a source are missing before the next one, which has that seq there.
	Hole(source string, count, seq uint64) error
	// Next returns the seq of the next line.
	Next() uint64
	// Write writes a line, and returns where Read finds it.
	Write(l []byte) (at int64, err error)
	Read(at int64) (*line.Fields, error)
}

// Merge merges the journals.
func (p *Plan) Merge(ctx context.Context, out Output) error {
	m := &merger{Plan: p, out: out}
	var err error
	if m.spool, err = p.keep(ctx); err != nil {
		return err
	}
	defer m.spool.close()
	defer func() {
		for _, h := range m.heads {
			h.stop()
		}
	}()
	for _, source := range p.sources {
		next, stop := iter.Pull2(source.Lines(ctx))
		m.heads = append(m.heads, &head{name: source.Name, pull: next, stop: stop})
	}
	for _, h := range m.heads {
		if err := h.step(); err != nil {
			return err
		}
	}
	for {
		first := p.order.First(func(n int) *line.Fields { return m.heads[n].line.Fields })
		if first < 0 {
			return m.end()
		}
		if err := m.next(m.heads[first]); err != nil {
			return err
		}
	}
}

// head is the next line of a source.
type head struct {
	name string
	pull func() (Line, error, bool)
	stop func()
	line Line // without Fields at the end
}

// step reads on, or begins.
func (h *head) step() error {
	l, err, ok := h.pull()
	if err != nil {
		return err
	}
	if h.line = l; !ok {
		h.line = Line{}
	}
	return nil
}

func positionOf(l *line.Fields) position {
	term, _ := strconv.ParseUint(string(l.Value(line.FieldTerm)), 10, 64) // 0 without leader election
	return position{term, l.Seq}
}

// merger is a merge under way.
type merger struct {
	*Plan
	out   Output
	heads []*head // by source
	spool *spool
}

// state is what has come of a stream.
type state struct {
	highest string    // version of its lines
	term    uint64    // of its last line
	stretch int       // counts how often lines of another term began
	last    time.Time // of its last line
	gap     *openGap
	events  map[string]time.Time // those that may come again, as EventOf has them, with the times of their lines
	live    map[string]*known    // by uid; only where a replica may have to find out what is gone
	names   map[string]string    // uids of what is live, by namespace and name
	absent  map[string]bool      // uids of listed that are not live: deleted, or shown only in a list that is left out
}

type openGap struct {
	stretch  int
	from     string
	count    count     // what differs from what the lines after it come to
	due      *incoming // its line, where that is not written unless another one is
	newEpoch bool      // versions start over; a DELETED after it has the one from before
	after    time.Time // when the line before it was received
}

type known struct {
	at      int64
	version string
	stretch int  // in which it was shown last
	undone  bool // version is of a server that was restored since, or of another one: it compares with no later line's
}

// count has the form that a SYNCED line has it in.
type count struct {
	Added     int `json:"added"`
	Modified  int `json:"modified"`
	Deleted   int `json:"deleted"`
	Unchanged int `json:"unchanged"`
}

// next takes the next line of a source.
func (m *merger) next(h *head) error {
	l := h.line.Fields
	if h.line.Missing > 0 {
		if err := m.out.Hole(h.name, h.line.Missing, l.Seq); err != nil {
			return err
		}
	}
	if l.SaysRemoved() || l.SaysSealed() {
		if _, err := m.out.Write(Renumbered(l, m.out.Next())); err != nil {
			return err
		}
		return h.step()
	}
	s := m.stream(l)
	at := positionOf(l)
	switch {
	case s.voids(at):
		if uid := uidOf(l); !l.AboutStream() && s.gaps && s.live[uid] == nil {
			s.isAbsent(uid)
		}
	case s.movedAt(at) == nil:
		for b := s.due(l); b != nil; b = s.due(l) {
			if err := m.takeBlock(s, b); err != nil {
				return err
			}
		}
		if err := m.take(s, l, false); err != nil {
			return fmt.Errorf("%s, line %d: %w", h.name, l.Seq, err)
		}
	}
	return h.step()
}

// end takes the lists that no line has come after.
func (m *merger) end() error {
	for _, name := range slices.Sorted(maps.Keys(m.streams)) {
		s := m.streams[name]
		for b := s.due(nil); b != nil; b = s.due(nil) {
			if err := m.takeBlock(s, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// due returns a list, once, that is to come before a line, or at the end; nil if there is none.
func (s *stream) due(before *line.Fields) *block {
	for _, b := range s.moved {
		if !b.taken && (before == nil || b.to.compare(positionOf(before)) <= 0 &&
			(before.Origin() != line.FromWatch ||
				line.Later(string(before.Text(line.FieldResourceVersion)), b.version))) {
			b.taken = true
			return b
		}
	}
	return nil
}

// takeBlock takes the lines of a list that comes later than it was written.
func (m *merger) takeBlock(s *stream, b *block) error {
	for _, at := range b.lines {
		l, err := m.spool.read(at)
		if err != nil {
			return err
		}
		if err := m.take(s, l, true); err != nil {
			return fmt.Errorf("%s, line %d: %w", m.sources[b.source].Name, l.Seq, err)
		}
	}
	return nil
}

// incoming is a line that is taken.
type incoming struct {
	fact
	edit
	uid string
	// moved says that its list comes later than it was written. Its GAP and SYNCED are written if anything else is.
	moved bool
	// behind says that another replica may have written more than the one knew whose line it is.
	behind bool
	// found says that it is a DELETED which a comparison has found: at a version that was told before, perhaps of
	// another server.
	found bool
}

// take takes a line by its kind.
func (m *merger) take(s *stream, l *line.Fields, moved bool) error {
	in := &incoming{fact: factOf(l), edit: edit{line: l}, moved: moved}
	in.behind = moved || in.term > 0
	if in.term != s.term {
		s.stretch++
	}
	s.term = in.term
	switch in.typ {
	case line.Gap:
		return m.takeGap(s, in)
	case line.Synced:
		return m.takeSynced(s, in)
	}
	in.uid = uidOf(l)
	in.found = in.typ == line.Deleted && string(l.Value(line.FieldFinalStateKnown)) == "false"
	if !in.found {
		s.raise(in.version)
	}
	if in.behind && s.gap != nil && in.origin == line.FromRelist {
		return m.takeListed(s, in)
	}
	return m.takeEvent(s, in)
}

// raise notes a version that the stream has come to.
func (s *stream) raise(version string) {
	if s.highest == "" || line.Later(version, s.highest) {
		s.highest = version
	}
}

// takeGap begins a list. Its GAP is from where the replicas together have come.
func (m *merger) takeGap(s *stream, in *incoming) error {
	reason := line.Reason(in.line.Text(line.FieldReason))
	from := string(in.line.Text(line.FieldFromResourceVersion))
	if in.behind && s.highest != "" && (from == "" || line.Later(s.highest, from)) && reason != line.JournalTruncated {
		in.text(line.FieldFromResourceVersion, s.highest)
		if in.moved && line.Later(s.highest, in.version) { // within its list
			in.text(line.FieldResourceVersion, s.highest)
		}
	}
	if s.gap != nil && s.gap.stretch == s.stretch && from != "" && !line.Later(s.gap.from, from) {
		from = s.gap.from // of a list that continues after another GAP
	}
	after := s.last
	if s.gap != nil {
		after = s.gap.after
	}
	s.gap = &openGap{
		stretch: s.stretch, from: from, newEpoch: in.newEpoch || s.gap != nil && s.gap.newEpoch, after: after,
	}
	if in.newEpoch {
		s.events, s.highest = nil, ""
		for _, last := range s.live {
			last.undone = true
		}
	}
	if in.moved {
		s.gap.due = in
		return nil
	}
	s.raise(in.version)
	return m.add(s, in)
}

// takeSynced ends a list: what it has not shown, and was written after the version that its GAP is from, is gone.
func (m *merger) takeSynced(s *stream, in *incoming) error {
	if s.gap != nil {
		if in.behind && !m.heldBack(s.name) {
			if err := m.unseen(s, in.line); err != nil {
				return err
			}
		}
		gap := s.gap
		if gap.newEpoch {
			s.events = nil
		}
		if s.gap = nil; gap.due != nil {
			return nil
		}
		if in.behind {
			m.out.Relisted(s.name, gap.after, in.line.Time)
		}
		if err := gap.count.addTo(&in.edit); err != nil {
			return err
		}
	}
	s.raise(in.version)
	return m.add(s, in)
}

// takeEvent takes a line of a watch, a first list, or the only journal. A line of a watch that another replica has
// written too is a repeat.
func (m *merger) takeEvent(s *stream, in *incoming) error {
	if before, again := s.events[EventOf(in.line)]; again && in.origin == line.FromWatch {
		if in.line.Time.Before(before) {
			m.out.Late(s.name, in.line.Time, before)
		}
		s.showAgain(in.uid)
		return nil
	}
	return m.add(s, in)
}

// takeListed takes a line of a list after a GAP, whose replica may not have known what others had written: the second
// table of the package comment.
func (m *merger) takeListed(s *stream, in *incoming) error {
	last := s.live[in.uid]
	switch {
	case in.typ == line.Deleted && last == nil && s.absent[in.uid],
		in.typ != line.Deleted && last != nil && last.version == in.version && !last.undone:
		s.gap.count.adjust(in.typ, -1)
		s.showAgain(in.uid)
		return nil
	case in.found && last != nil && last.version != in.version: // this replica had not heard of the last one
		s.gap.count.adjust(in.typ, -1)
		return m.gone(s, in.uid, in.line)
	case in.typ == line.Added && last != nil:
		s.becomes(in, line.Modified)
	case in.typ == line.Modified && last == nil && s.absent[in.uid]:
		s.becomes(in, line.Added)
		in.drop(line.FieldChanges)
	}
	if old := s.names[nameOf(in.line)]; in.typ == line.Added && old != "" && old != in.uid {
		if err := m.gone(s, old, in.line); err != nil {
			return err
		}
	}
	return m.add(s, in)
}

// becomes makes a listed line one of another type.
func (s *stream) becomes(in *incoming, typ line.Type) {
	s.gap.count.adjust(in.typ, -1)
	s.gap.count.adjust(typ, 1)
	in.typ = typ
	in.text(line.FieldType, string(typ))
}

// showAgain notes that a repeat shows an object.
func (s *stream) showAgain(uid string) {
	if last := s.live[uid]; last != nil {
		last.stretch = s.stretch
	}
}

// add writes a line, and remembers what later lines are compared with.
func (m *merger) add(s *stream, in *incoming) error {
	if s.gap != nil && s.gap.due != nil {
		if _, err := m.out.Write(s.gap.due.bytes(m.out.Next())); err != nil {
			return err
		}
		s.gap.due = nil
	}
	at, err := m.out.Write(in.bytes(m.out.Next()))
	if err != nil {
		return err
	}
	s.last = in.line.Time
	if in.line.AboutStream() {
		return nil
	}
	version := number(in.version)
	if in.typ == line.Deleted {
		version = max(version, number(s.highest)) // a server may give it the object's last one
	}
	if in.is[line.FieldID] == nil && s.mayRepeat(in.position, version) {
		if s.events == nil {
			s.events = make(map[string]time.Time)
		}
		s.events[EventOf(in.line)] = in.line.Time
	}
	if !s.gaps {
		return nil
	}
	if s.live == nil {
		s.live, s.names = make(map[string]*known), make(map[string]string)
	}
	if name := nameOf(in.line); in.typ == line.Deleted {
		delete(s.live, in.uid)
		delete(s.names, name)
		s.isAbsent(in.uid)
	} else {
		s.live[in.uid], s.names[name] = &known{at: at, version: in.version, stretch: s.stretch}, in.uid
		delete(s.absent, in.uid)
	}
	return nil
}

// isAbsent notes that an object is not live, if a list may come that says otherwise.
func (s *stream) isAbsent(uid string) {
	if !s.listed[uid] {
		return
	}
	if s.absent == nil {
		s.absent = make(map[string]bool)
	}
	s.absent[uid] = true
}

// uidOf returns the uid of a line's object, or what distinguishes an object without one.
func uidOf(l *line.Fields) string {
	if uid := l.Text(line.FieldUID); len(uid) > 0 {
		return string(uid)
	}
	return "/" + nameOf(l)
}

// EventOf returns what is the same for lines of one event in the journals of replicas: the id without the part that
// depends on which other entries a replica has, and that is the same for all events of a stream.
func EventOf(l *line.Fields) string {
	return uidOf(l) + "/" + string(l.Text(line.FieldResourceVersion)) + "/" + string(l.Text(line.FieldType))
}

func nameOf(l *line.Fields) string {
	return string(l.Text(line.FieldNamespace)) + "/" + string(l.Text(line.FieldName))
}

// unseen adds what a list that is at its end, as its SYNCED says, has not shown.
func (m *merger) unseen(s *stream, synced *line.Fields) error {
	from, to := s.gap.from, string(synced.Text(line.FieldResourceVersion))
	var gone []string
	for uid, last := range s.live {
		if last.stretch < s.gap.stretch && (from == "" ||
			line.Later(last.version, from) && (last.undone || !line.Later(last.version, to))) {
			gone = append(gone, uid)
		}
	}
	slices.SortFunc(gone, func(a, b string) int { return cmp.Compare(s.live[a].at, s.live[b].at) })
	for _, uid := range gone {
		if err := m.gone(s, uid, synced); err != nil {
			return err
		}
	}
	return nil
}

// gone adds that an object is gone, as a line says.
func (m *merger) gone(s *stream, uid string, by *line.Fields) error {
	last, err := m.out.Read(s.live[uid].at)
	if err != nil {
		return err
	}
	e := &incoming{fact: factOf(last), edit: edit{line: last}, uid: uid}
	e.set(line.FieldTerm, by.Value(line.FieldTerm))
	e.set(line.FieldTime, by.Value(line.FieldTime))
	e.text(line.FieldType, string(line.Deleted))
	e.text(line.FieldOrigin, string(line.FromRelist))
	id := string(last.Text(line.FieldID))
	// ids at one version differ in the type alone
	e.text(line.FieldID, id[:strings.LastIndexByte(id, '/')+1]+string(line.Deleted))
	e.set(line.FieldFinalStateKnown, []byte("false"))
	for _, of := range []line.Field{
		line.FieldGeneration, line.FieldManager, line.FieldSubresource, line.FieldWrittenAt, line.FieldPerson,
		line.FieldChanges,
	} {
		e.drop(of)
	}
	s.gap.count.adjust(line.Deleted, 1)
	e.typ, e.position = line.Deleted, positionOf(by)
	return m.add(s, e)
}

func (c *count) adjust(typ line.Type, by int) {
	switch typ {
	case line.Added:
		c.Added += by
	case line.Modified:
		c.Modified += by
	default:
		c.Deleted += by
	}
}

// addTo adds to what a SYNCED says.
func (c *count) addTo(e *edit) error {
	if *c == (count{}) {
		return nil
	}
	var is count
	if err := json.Unmarshal(e.line.Value(line.FieldCount), &is); err != nil {
		return fmt.Errorf("read its count: %w", err)
	}
	is.Added, is.Modified, is.Deleted = is.Added+c.Added, is.Modified+c.Modified, is.Deleted+c.Deleted
	text, err := json.Marshal(is)
	e.set(line.FieldCount, text)
	return err
}

// edit is a line, and what becomes of its members.
type edit struct {
	line *line.Fields
	is   map[line.Field][]byte // values; nil for one that is dropped
}

func (e *edit) set(f line.Field, value []byte) {
	if e.is == nil {
		e.is = make(map[line.Field][]byte)
	}
	e.is[f] = value
}

func (e *edit) text(f line.Field, inside string) {
	e.set(f, append(append([]byte{'"'}, inside...), '"'))
}
func (e *edit) drop(f line.Field) { e.set(f, nil) }

// Renumbered returns a line with another seq.
func Renumbered(l *line.Fields, seq uint64) []byte {
	e := edit{line: l}
	return e.bytes(seq)
}

// bytes returns the line with another seq.
func (e *edit) bytes(seq uint64) []byte {
	raw, head := e.line.Raw, []byte(`{"seq":`)
	if e.is == nil && len(raw) > len(head) && string(raw[:len(head)]) == string(head) {
		dst := strconv.AppendUint(append(make([]byte, 0, len(raw)+8), head...), seq, 10)
		return append(dst, raw[len(head)+len(e.line.Value(line.FieldSeq)):]...)
	}
	e.set(line.FieldSeq, strconv.AppendUint(nil, seq, 10))
	dst, next := []byte{'{'}, line.Field(0)
	member := func(key, value []byte) {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(append(append(dst, '"'), key...), `":`...), value...)
	}
	// A member that is new comes where kubejournal writes it.
	until := func(end line.Field) {
		for ; next < end; next++ {
			if value := e.is[next]; value != nil && e.line.Value(next) == nil {
				member([]byte(next.String()), value)
			}
		}
	}
	for key, value := range rawjson.Members(raw) {
		f, known := line.FieldOf(key)
		if !known {
			f = line.Last + 1
		}
		until(f)
		if changed, is := e.is[f]; is {
			value = changed
		}
		if value != nil {
			member(key, value)
		}
	}
	until(line.Last + 1)
	return append(dst, '}')
}
