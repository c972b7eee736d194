package watcher_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/blame"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/test/invariant"
)

// ask asks the journal, and compares its answers with what the server had, where its versions mean one thing: it was not put
// back, nor was the definition of the objects removed; and with what the lines say without any index.
func (m *model) ask(r *rand.Rand) {
	m.t.Helper()
	var paths []string
	var alone []invariant.Line
	lines := m.merged()
	m.each(func() {
		if whole := m.whole(); len(whole) > 0 {
			paths, alone = append(paths, m.journal()), whole
		}
	})
	switch len(paths) {
	case 0:
		return
	case 1:
		lines = alone // of one replica, which lost its checkpoint perhaps: it knew then what it had told itself
	}
	j, err := archive.OpenAll(m.t.Context(), paths, &argument.Selection{}, archive.AllLines, func(text string) { m.t.Errorf("notice: %s", text) })
	must(m.t, err)
	defer j.Close()
	defer func() {
		for i := range lines {
			if l := &lines[i]; m.t.Failed() && len(paths) > 1 {
				m.t.Logf("merged: %d term %d %s %s %s %s %s/%s rv %s from %s uid %s", l.Seq, l.Term, l.Time, l.Stream, l.Type, l.Origin, l.Namespace, l.Name, l.ResourceVersion, l.FromResourceVersion, l.UID)
			}
		}
	}()
	o := &oracle{model: m, journal: question.Of(j), streams: map[string][]modelStream{}, of: perStream(lines)}
	for i, l := range lines {
		at, err := time.Parse(time.RFC3339Nano, l.Time)
		must(m.t, err)
		o.lines = append(o.lines, told{&lines[i], at})
	}
	for _, s := range m.streams {
		if len(o.of[s.name]) > 0 {
			name := s.gvr.GroupResource().String()
			o.streams[name] = append(o.streams[name], s)
		}
	}
	o.history()
	o.covered, _ = j.Coverage(&argument.Selection{}) // or nothing is known
	must(m.t, m.claims(o.covered, lines))
	for _, name := range slices.Sorted(maps.Keys(o.streams)) {
		object, err := argument.ParseObject(name)
		must(m.t, err)
		sel := &argument.Selection{Objects: []argument.Object{object}}
		if !m.restored && (m.defined == 0 || o.streams[name][0].gvr != widgets) {
			o.versions(r, sel, o.streams[name])
		}
		o.seqs(r, sel, o.streams[name])
		o.times(r, sel, o.streams[name])
		o.questions(r, sel, o.streams[name])
	}
	o.blames(r)
	if len(paths) > 1 {
		o.selected(r, paths)
	}
}

// selected asks several journals for one object, of which only its lines are then put together.
func (o *oracle) selected(r *rand.Rand, paths []string) {
	o.t.Helper()
	of := o.lines[r.IntN(len(o.lines))]
	if of.UID == "" {
		return
	}
	name := of.Resource
	if of.Group != "" {
		name += "." + of.Group
	}
	object, err := argument.ParseObject(name + "/" + of.Name)
	must(o.t, err)
	sel := &argument.Selection{Objects: []argument.Object{object}}
	if of.Namespace != "" {
		sel.Namespaces = []string{of.Namespace}
	}
	j, err := archive.OpenAll(o.t.Context(), paths, sel, archive.SelectedLines, func(text string) { o.t.Errorf("notice: %s", text) })
	must(o.t, err)
	defer j.Close()
	var want, got []string
	for _, l := range o.lines {
		if l.UID != "" && l.Resource == of.Resource && l.Group == of.Group && l.Namespace == of.Namespace && l.Name == of.Name {
			want = append(want, l.Stream+" "+l.Type+" "+l.ID)
		}
	}
	for v, err := range question.Of(j).History(o.t.Context(), sel, argument.Moment{}, argument.Moment{}) {
		must(o.t, err)
		if !v.AboutStream() {
			got = append(got, fmt.Sprintf("%s %s %s", v.Text(line.FieldStream), v.Text(line.FieldType), v.Text(line.FieldID)))
		}
	}
	// Where a list comes later than it was written, the lines of other streams that it comes before depend on what is asked.
	for _, lines := range [][]string{got, want} {
		slices.SortStableFunc(lines, func(a, b string) int {
			of, other := strings.Fields(a)[0], strings.Fields(b)[0]
			return strings.Compare(of, other)
		})
	}
	if !slices.Equal(got, want) {
		o.t.Fatalf("of %s/%s/%s there are lines %q, want %q", name, of.Namespace, of.Name, got, want)
	}
}

// oracle knows the answers without an index.
type oracle struct {
	*model
	journal *question.Journal
	streams map[string][]modelStream // of which the journal has lines, by resource
	of      map[string][]invariant.Line
	lines   []told
	covered []coverage.Stream
}

type told struct {
	*invariant.Line
	at time.Time
}

// How many moments of each kind a history is asked about, for each resource.
const (
	askedVersions = 60
	askedMoments  = 12
)

// versions asks for versions of the server. The journal has no doubt where it covers them, and only there.
func (o *oracle) versions(r *rand.Rand, sel *argument.Selection, streams []modelStream) {
	o.t.Helper()
	var covered []uint64
	states := map[uint64]*question.State{}
	last := o.srv.Version()
	for version := uint64(1); version <= last; version++ {
		if last > askedVersions && r.Uint64N(last) >= askedVersions {
			continue
		}
		st, err := o.journal.State(o.t.Context(), sel, argument.Moment{Version: version})
		must(o.t, err)
		is := !slices.ContainsFunc(streams, func(s modelStream) bool { return !coversVersion(o.of[s.name], version) })
		if is != (len(st.Doubts) == 0) {
			o.t.Fatalf("version %d of %v is covered: %t; the journal says %+v", version, streams, is, st.Doubts)
		}
		if !is {
			continue
		}
		want := invariant.State{}
		for _, s := range streams {
			maps.Copy(want, o.expectAt(s, version))
		}
		if err := invariant.Compare(o.readState(st), want); err != nil {
			o.t.Fatalf("at version %d: %v", version, err)
		}
		covered, states[version] = append(covered, version), st
	}
	modelTally.asked.Add(uint64(len(covered)))
	for range min(len(covered), 10) {
		a, b := covered[r.IntN(len(covered))], covered[r.IntN(len(covered))]
		o.leadsTo(sel, states[min(a, b)], states[max(a, b)])
	}
}

// coversVersion reports whether lines of a stream have all that it was at a version: between a list and the GAP that follows
// it, or a line at that version or after.
func coversVersion(lines []invariant.Line, version uint64) bool {
	covered, within := false, false
	for i := range lines {
		l := &lines[i]
		is, _ := strconv.ParseUint(l.ResourceVersion, 10, 64)
		switch l.Type {
		case invariant.Synced:
			if within = is <= version; within {
				covered = is == version
			}
		case invariant.Gap:
			complete, _ := strconv.ParseUint(l.FromResourceVersion, 10, 64)
			if within {
				covered, within = version <= complete, false
			}
		default:
			covered = covered || within && is >= version
		}
	}
	return covered
}

func (o *oracle) readState(st *question.State) invariant.State {
	o.t.Helper()
	state, mu := invariant.State{}, sync.Mutex{}
	must(o.t, o.journal.Read(o.t.Context(), st.Items, func(i int, l *line.Fields) error {
		mu.Lock()
		defer mu.Unlock()
		item := st.Items[i]
		k := invariant.Key{Group: item.Stream.Group, Resource: item.Stream.Resource, Namespace: item.Namespace, Name: item.Name}
		if _, there := state[k]; there {
			return fmt.Errorf("%v is there twice", k)
		}
		is, err := invariant.Expect(k, l.Object)
		state[k] = is
		return err
	}))
	if len(state) != len(st.Items) {
		o.t.Fatalf("%d of %d objects have a line", len(state), len(st.Items))
	}
	return state
}

// identity is one object, whichever stream it is in.
type identity struct{ namespace, name, uid string }

// said is what lines come to.
type said struct {
	last  map[identity]uint64 // the last line about each object that is there
	lines map[identity]int    // how many there are about each
}

// replay takes those lines of some streams that count. An object is there if one of the streams has it, and no other of its
// name since.
func (o *oracle) replay(streams []modelStream, counts func(told) bool) said {
	s := said{map[identity]uint64{}, map[identity]int{}}
	for _, stream := range streams {
		last := map[[2]string]told{}
		for _, l := range o.lines {
			if l.Stream != stream.name || l.UID == "" || !counts(l) {
				continue
			}
			s.lines[identity{l.Namespace, l.Name, l.UID}]++
			last[[2]string{l.Namespace, l.Name}] = l
		}
		for _, l := range last {
			if k := (identity{l.Namespace, l.Name, l.UID}); l.Type != invariant.Deleted {
				s.last[k] = max(s.last[k], l.Seq)
			}
		}
	}
	return s
}

func placesOf(st *question.State) map[identity]index.Place {
	all := map[identity]index.Place{}
	for _, i := range st.Items {
		all[identity{i.Namespace, i.Name, i.UID}] = i.Last
	}
	return all
}

// same checks that a state has the objects that lines come to.
func (o *oracle) same(st *question.State, want said) {
	o.t.Helper()
	got := map[identity]uint64{}
	for k, place := range placesOf(st) {
		got[k] = place.Seq
	}
	if !maps.Equal(got, want.last) || len(got) != len(st.Items) {
		o.t.Fatalf("at %v (%v, seq %d): %v, want %v", st.At, st.At.Time, st.At.Seq, got, want.last)
	}
}

// seqs asks for lines, and for what changed between two of them.
func (o *oracle) seqs(r *rand.Rand, sel *argument.Selection, streams []modelStream) {
	o.t.Helper()
	var before *question.State
	for range askedMoments {
		seq := 1 + r.Uint64N(uint64(len(o.lines)))
		st, err := o.journal.State(o.t.Context(), sel, argument.Moment{Seq: seq})
		must(o.t, err)
		o.same(st, o.replay(streams, func(l told) bool { return l.Seq <= seq }))
		doubts := 0
		for _, s := range streams {
			complete := false
			for _, l := range o.of[s.name] {
				if l.Seq <= seq && (l.Type == invariant.Gap || l.Type == invariant.Synced) {
					complete = l.Type == invariant.Synced
				}
			}
			if !complete {
				doubts++
			}
		}
		if doubts != len(st.Doubts) {
			o.t.Fatalf("at line %d: %d streams have no complete list; the journal says %+v", seq, doubts, st.Doubts)
		}
		if before != nil && before.At.Seq < seq {
			o.leadsTo(sel, before, st)
		}
		before = st
	}
}

// leadsTo checks that the difference of two states makes the second one of the first, and counts what lies between.
func (o *oracle) leadsTo(sel *argument.Selection, a, b *question.State) {
	o.t.Helper()
	c, err := o.journal.Compare(o.t.Context(), sel, a.At, b.At)
	must(o.t, err)
	state, passed := placesOf(a), 0
	var between said
	if a.At.Seq > 0 {
		between = o.replay(o.streams[sel.Objects[0].String()], func(l told) bool { return a.At.Seq < l.Seq && l.Seq <= b.At.Seq })
	}
	for _, ch := range c.Changes {
		i := ch.Item()
		k := identity{i.Namespace, i.Name, i.UID}
		if is, there := state[k]; there != (ch.Before != nil) || there && is != ch.Before.Last {
			o.t.Fatalf("from %v to %v: %+v is not as it was", a.At, b.At, ch)
		}
		if ch.Versions == 0 || between.lines != nil && ch.Versions != between.lines[k] {
			o.t.Fatalf("from %v to %v: %d versions, want %d: %+v", a.At, b.At, ch.Versions, between.lines[k], ch)
		}
		if delete(state, k); ch.After != nil {
			state[k] = ch.After.Last
		}
	}
	want := placesOf(b)
	if !reflect.DeepEqual(state, want) {
		o.t.Fatalf("from %v to %v: %v, want %v", a.At, b.At, state, want)
	}
	before := placesOf(a)
	for k := range between.lines {
		_, was := before[k]
		if _, is := want[k]; !was && !is {
			passed++
		}
	}
	if between.lines != nil && passed != len(c.Passed) {
		o.t.Fatalf("from %v to %v: %d objects came and went, want %d", a.At, b.At, len(c.Passed), passed)
	}
}

// times asks for times: around lines, and any.
func (o *oracle) times(r *rand.Rand, sel *argument.Selection, streams []modelStream) {
	o.t.Helper()
	for range askedMoments {
		at := o.began.Add(time.Duration(r.Int64N(int64(time.Since(o.began)) + 1)))
		if r.IntN(2) == 0 {
			at = o.lines[r.IntN(len(o.lines))].at.Add(time.Duration(r.IntN(4)-1) * time.Second / 2)
		}
		o.time(sel, streams, at)
	}
}

// time asks for one time. What is said without a doubt is what the server had then: where a stream was followed live, up to
// what a watch may lag behind, and up to the second that late lines have.
func (o *oracle) time(sel *argument.Selection, streams []modelStream, at time.Time) {
	o.t.Helper()
	st, err := o.journal.State(o.t.Context(), sel, argument.Moment{Time: at})
	must(o.t, err)
	covered := 0
	late, until := map[string]bool{}, map[string]time.Time{} // by stream
	for _, s := range streams {
		for _, c := range o.covered {
			for _, i := range c.Intervals {
				if c.Name == s.name && !at.Before(i.From) && at.Before(i.To) {
					covered++
					late[s.name] = i.Late
					until[s.name] = waitedBy(c.Intervals, i)
				}
			}
		}
	}
	if covered < len(streams) {
		return // some may be doubted and some not; what that comes to is unit-tested
	}
	o.same(st, o.replay(streams, func(l told) bool {
		if !l.at.After(at) {
			return true
		}
		return late[l.Stream] && !l.at.After(until[l.Stream]) && (o.lateBy(l, at) || o.passed(l, at, until[l.Stream]))
	}))
	if o.restored || o.defined > 0 || len(st.Doubts) > 0 || o.fault.stalled() { // lines after a stall are not known to be late
		return
	}
	modelTally.times.Add(1)
	o.truth(st, streams, func(invariant.Key) bool { return true })
}

// waitedBy returns by when all was received that was made in an interval: a while after a stream has caught up, or
// with the next list.
func waitedBy(all []coverage.Interval, in coverage.Interval) time.Time {
	for n, i := range all {
		switch {
		case i.From.Before(in.From):
		case i.End == coverage.CaughtUp:
			return i.To.Add(10 * time.Second)
		case n+1 < len(all) && all[n+1].From.After(i.To):
			return all[n+1].From
		}
	}
	return time.Now()
}

// lateBy reports whether a line says that it was written by a time, and came late.
func (o *oracle) lateBy(l told, at time.Time) bool {
	written, err := time.Parse(time.RFC3339, l.WrittenAt)
	return err == nil && l.Origin != invariant.FromSnapshot && l.at.Sub(written) > tolerance && !written.After(at)
}

// passed reports whether a line that does not say when it was written stands before one that was written by a time, and came
// late as well, up to another time. A watch brings both in the order in which they were written.
func (o *oracle) passed(l told, at, until time.Time) bool {
	if l.UID == "" || l.WrittenAt != "" || l.Origin == invariant.FromSnapshot {
		return false
	}
	for _, other := range o.lines {
		switch {
		case other.Stream != l.Stream || !other.at.After(at) || other.at.After(until):
		case other.Type == invariant.Gap:
			return false
		case other.Seq > l.Seq && o.lateBy(other, at):
			return true
		}
	}
	return false
}

// tolerance is by how much a line may be late and not be known as such.
const tolerance = 3 * time.Second

// truth checks that each object that is asked for is, or is not there, as at one of the versions that the server had about then.
func (o *oracle) truth(st *question.State, streams []modelStream, asked func(invariant.Key) bool) {
	o.t.Helper()
	version := func(t time.Time) uint64 {
		n := sort.Search(len(o.written), func(i int) bool { return o.written[i].at.After(t) })
		if n == 0 {
			return 0
		}
		return o.written[n-1].version
	}
	from, to := version(st.At.Time.Add(-lagging)), version(st.At.Time.Add(time.Second))
	if from == 0 {
		return
	}
	// Streams that overlap lag each by itself: one may have an object that was made anew while another has the one before it.
	latest := &question.State{At: st.At}
	for i := range st.Items {
		a := &st.Items[i]
		if i+1 < len(st.Items) {
			b := &st.Items[i+1]
			if a.Stream.Name != b.Stream.Name && a.Stream.Group == b.Stream.Group && a.Stream.Resource == b.Stream.Resource && a.Namespace == b.Namespace && a.Name == b.Name {
				continue
			}
		}
		latest.Items = append(latest.Items, *a)
	}
	got, possible := o.readState(latest), map[invariant.Key]map[string]bool{}
	for v := from; v <= to; v++ {
		is := invariant.State{}
		for _, s := range streams {
			maps.Copy(is, o.expectAt(s, v))
		}
		for k, object := range is {
			if possible[k] == nil {
				possible[k] = map[string]bool{"": v > from}
			}
			possible[k][object.UID+" "+object.ResourceVersion] = true
		}
		for k := range possible {
			if _, there := is[k]; !there {
				possible[k][""] = true
			}
		}
	}
	for k, object := range got {
		if asked(k) && !possible[k][object.UID+" "+object.ResourceVersion] {
			o.t.Fatalf("at %v (versions %d to %d), which is not in doubt, %v is %s at %s, the server had %v", st.At.Time, from, to, k, object.UID, object.ResourceVersion, possible[k])
		}
	}
	for k, may := range possible {
		if _, there := got[k]; !there && asked(k) && !may[""] {
			o.t.Fatalf("at %v (versions %d to %d), which is not in doubt, %v is missing: %v", st.At.Time, from, to, k, may)
		}
	}
}

// lagging is how long a line may take that does not count as late.
const lagging = 6 * time.Second

// history asks for all lines. Each has the one before about the same object.
func (o *oracle) history() {
	o.t.Helper()
	n := 0
	type key struct {
		identity
		stream string
	}
	last := map[key]*invariant.Line{}
	for v, err := range o.journal.History(o.t.Context(), &argument.Selection{}, argument.Moment{}, argument.Moment{}) {
		must(o.t, err)
		if n == len(o.lines) {
			o.t.Fatalf("line %d %s is one too many", v.Seq, v.Raw)
		}
		l := o.lines[n]
		if n++; v.Seq != l.Seq || string(v.Text(line.FieldID)) != l.ID || string(v.Text(line.FieldType)) != l.Type {
			o.t.Fatalf("line %d %s follows line %d, want %s %s", v.Seq, v.Raw, l.Seq-1, l.Type, l.ID)
		}
		if l.UID == "" {
			continue
		}
		k := key{identity{l.Namespace, l.Name, l.UID}, l.Stream}
		p, err := v.Previous(o.t.Context())
		must(o.t, err)
		switch before := last[k]; {
		case before == nil || before.Type == invariant.Deleted:
			if p != nil && (before == nil || p.Seq != before.Seq) {
				o.t.Fatalf("before line %d is line %d, want none", v.Seq, p.Seq)
			}
		case p == nil || p.Seq != before.Seq:
			o.t.Fatalf("before line %d is %+v, want line %d", v.Seq, p, before.Seq)
		}
		last[k] = l.Line
	}
	if n != len(o.lines) {
		o.t.Fatalf("a history of %d lines, want %d", n, len(o.lines))
	}
}

// blames asks who wrote the values of some objects that one stream has.
func (o *oracle) blames(r *rand.Rand) {
	o.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(o.streams)) {
		if len(o.streams[name]) > 1 || name == "secrets" {
			continue // a walk does not know that a redacted value has changed
		}
		uids := map[string]bool{}
		for _, l := range o.of[o.streams[name][0].name] {
			if l.UID != "" {
				uids[l.UID] = true
			}
		}
		all := slices.Sorted(maps.Keys(uids))
		for range min(3, len(all)) {
			o.blame(o.streams[name][0], all[r.IntN(len(all))])
		}
	}
}

// blame compares an answer with a walk over all versions: a value is from the last line before which it was another one.
func (o *oracle) blame(s modelStream, uid string) {
	o.t.Helper()
	kind, err := argument.ParseObject(s.gvr.GroupResource().String())
	must(o.t, err)
	var h blame.History
	sel := &argument.Selection{Objects: []argument.Object{kind}, UIDs: map[string]bool{uid: true}}
	for v, err := range o.journal.History(o.t.Context(), sel, argument.Moment{}, argument.Moment{}) {
		must(o.t, err)
		must(o.t, h.Add(v.Fields))
	}
	want, seen := map[string]string{}, uint64(0)
	for _, l := range o.of[s.name] {
		version, _ := strconv.ParseUint(l.ResourceVersion, 10, 64)
		if l.UID != uid || l.Type == invariant.Deleted && (l.FinalStateKnown != nil || s.label != "") || l.Origin != invariant.FromRelist && version <= seen {
			continue
		}
		seen = version
		is, err := invariant.Expect(invariant.Key{}, l.Object)
		must(o.t, err)
		before := want
		want = map[string]string{}
		leaves("", is.Content, func(path, value string) {
			want[path] = fmt.Sprintf("%s from %d", value, l.Seq)
			if was, ok := before[path]; ok && strings.HasPrefix(was, value+" from ") {
				want[path] = was
			}
		})
	}
	result, err := h.Result()
	must(o.t, err)
	got := map[string]string{}
	for _, f := range result.Fields {
		if f.Path != "kind" && f.Path != "apiVersion" {
			got[f.Path] = fmt.Sprintf("%s from %d", strings.Trim(string(f.Value), `"`), f.Seq)
		}
	}
	if !maps.Equal(got, want) {
		o.t.Fatalf("%s of %s: %v, want %v", uid, s.name, got, want)
	}
	modelTally.blamed.Add(uint64(len(got)))
}

// leaves calls fn with the values of an object that hold no others.
func leaves(path string, v any, fn func(path, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			if strings.ContainsAny(k, "./") {
				k = fmt.Sprintf("[%q]", k)
			} else if path != "" {
				k = "." + k
			}
			leaves(path+k, c, fn)
		}
	case []any:
		for _, c := range v {
			leaves(fmt.Sprintf("%s[%v]", path, c), c, fn) // they are texts
		}
	default:
		fn(path, fmt.Sprint(v))
	}
}
