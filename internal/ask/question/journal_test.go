package question

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// written is one line of a random journal.
type written struct {
	text                         string
	seq                          uint64
	stream, namespace, name, uid string
	typ, origin                  string
	received, made               time.Time // made is zero where the line was not late
}

// jumps are those of a clock that somebody sets.
var jumps = []time.Duration{
	-26 * time.Hour, -3 * time.Hour, -90 * time.Minute, 5 * time.Hour, 4 * 365 * 24 * time.Hour, -4 * 365 * 24 * time.Hour,
}

// random makes a journal of random lines in segments of so many at most, some of them compressed, and some with an index.
func random(t testing.TB, r *rand.Rand, segments, most int) (path string, all []written) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "journal.jsonl")
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alive := map[string]string{} // uids; and origins, by stream
	seq := uint64(0)
	var base []*index.Index
	for n := range segments {
		at = at.Add([]time.Duration{0, 20 * time.Minute, 2 * time.Hour}[r.IntN(3)])
		var content strings.Builder
		for range 1 + r.IntN(most) {
			seq++
			at = at.Add(time.Duration(r.IntN(2000)-200) * time.Millisecond)
			if jump := r.IntN(3 * most); jump < len(jumps) { // somebody sets the clock
				at = at.Add(jumps[jump])
			}
			w := randomLine(r, seq, at, alive)
			all = append(all, w)
			content.WriteString(w.text + "\n")
		}
		if n == segments-1 {
			writeFile(t, path, content.String()+`{"seq":`+fmt.Sprint(seq+1)+`,"torn`)
			break
		}
		name := filepath.Join(dir, fmt.Sprintf("journal-2026-11-20T16-10-%02d.123.jsonl", n))
		if r.IntN(3) > 0 {
			writeFile(t, name+".gz", content.String())
		} else {
			writeFile(t, name, content.String())
		}
		x := indexFile(t, path, name, base)
		if x.Since > 0 {
			base = nil
		}
		if base = append(base, x); r.IntN(4) == 0 {
			if err := os.Remove(segment.IndexPath(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return path, all
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z := gzip.NewWriter(f)
		_, err = z.Write([]byte(content))
		err = errors.Join(err, z.Close())
	} else {
		_, err = f.WriteString(content)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// indexFile writes the index of a segment, as the daemon does.
func indexFile(t testing.TB, active, path string, base []*index.Index) *index.Index {
	t.Helper()
	all, err := segment.List(active)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s segment.Segment) bool { return strings.HasPrefix(s.Path, path) })
	s := &archive.Segment{Segment: all[i]}
	if len(base) < 2 {
		base = nil
	}
	content, err := s.BuildIndex(t.Context(), base, 1)
	if err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segment.IndexPath(path), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return x
}

func randomLine(r *rand.Rand, seq uint64, at time.Time, alive map[string]string) written {
	w := written{seq: seq, received: at, stream: []string{"pods", "deployments.apps", "events", "pods?namespace=a"}[r.IntN(4)]}
	resource, group, _ := strings.Cut(w.stream, ".")
	resource, _, _ = strings.Cut(resource, "?")
	head := fmt.Sprintf(`{"seq":%d,"time":%q,`, seq, at.Format(time.RFC3339Nano))
	tail := fmt.Sprintf(`"stream":%q,"group":%q,"version":"v1","resource":%q,"kind":%q`, w.stream, group, resource, "K"+resource)
	if r.IntN(30) == 0 {
		w.typ = []string{"GAP", "SYNCED"}[r.IntN(2)]
		w.text = head + fmt.Sprintf(`"type":%q,%s}`, w.typ, tail)
		delete(alive, w.stream)
		return w
	}
	if r.IntN(60) == 0 {
		alive[w.stream] = "snapshot" // up to the next mark
	}
	w.origin = cmp.Or(alive[w.stream], "watch")
	w.namespace, w.name = []string{"a", "b"}[r.IntN(2)], fmt.Sprintf("n-%d", r.IntN(12))
	if w.stream == "pods?namespace=a" {
		w.namespace = "a"
	}
	key := w.stream + " " + w.namespace + "/" + w.name
	w.uid, w.typ = alive[key], "MODIFIED"
	switch {
	case w.uid == "":
		w.uid, w.typ = fmt.Sprintf("00000000-0000-0000-0000-0000000000%02d", r.IntN(2)), "ADDED"
		alive[key] = w.uid
	case r.IntN(3) == 0:
		w.typ = "DELETED"
		delete(alive, key)
	}
	late := ""
	if r.IntN(5) == 0 && w.origin == "watch" {
		w.made = at.Add(-time.Duration(4+r.IntN(60)) * time.Second).Truncate(time.Second)
		late = fmt.Sprintf(`"writtenAt":%q,`, w.made.Format(time.RFC3339))
	}
	w.text = head + fmt.Sprintf(`"type":%q,"origin":%q,%s%s,"namespace":%q,"name":%q,"uid":%q,"object":{"metadata":{"name":%q},"seq":%d}}`,
		w.typ, w.origin, late, tail, w.namespace, w.name, w.uid, w.name, seq)
	return w
}

// selects says independently what a selection selects.
type selects struct {
	argument.Selection
	is func(w *written) bool
}

func selections(t testing.TB) []selects {
	obj := func(text string) argument.Object {
		o, err := argument.ParseObject(text)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	of := func(w *written, resource string) bool {
		name, _, _ := strings.Cut(strings.ReplaceAll(w.stream, "?", "."), ".")
		return name == resource
	}
	return []selects{
		{argument.Selection{}, func(*written) bool { return true }},
		{argument.Selection{Objects: []argument.Object{obj("pods")}}, func(w *written) bool { return of(w, "pods") }},
		{argument.Selection{Objects: []argument.Object{obj("pods/n-1"), obj("deploy")}, Namespaces: []string{"b"}}, func(w *written) bool {
			return w.namespace == "b" && (of(w, "pods") && w.name == "n-1" || of(w, "deployments"))
		}},
		{argument.Selection{Namespaces: []string{"b", "a"}}, func(w *written) bool { return true }},
		{argument.Selection{Objects: []argument.Object{obj("*/n-11"), obj("events/n-3")}}, func(w *written) bool { return w.name == "n-11" || of(w, "events") && w.name == "n-3" }},
	}
}

func (w *written) about() bool { return w.typ != "GAP" && w.typ != "SYNCED" }

// state is the seqs of the last lines of what is there, without any index. live are the streams that were followed.
func state(all []written, s selects, m argument.Moment, live map[string]bool) []uint64 {
	type stream struct{ stream, namespace, name, uid string }
	begun := map[string]uint64{} // of streams, anew
	list, mark := map[string]uint64{}, map[string]string{}
	last := map[stream]*written{} // by stream; an object of the same name was deleted before
	for i := range all {
		w := &all[i]
		counts := w.seq <= m.Seq
		if m.Seq == 0 {
			counts = !w.received.After(m.Time) || !live[w.stream] && !w.made.IsZero() && !w.made.After(m.Time) || passedBy(all, i, m, live)
		}
		if w.about() && w.origin == "snapshot" && list[w.stream] == 0 {
			list[w.stream] = w.seq
		}
		if !w.about() {
			if counts && w.typ == "SYNCED" && list[w.stream] > 0 {
				begun[w.stream] = list[w.stream]
			} else if counts && w.typ == "SYNCED" && mark[w.stream] == "SYNCED" {
				begun[w.stream] = w.seq
			}
			list[w.stream], mark[w.stream] = 0, w.typ
		}
		if counts && w.about() && s.is(w) {
			last[stream{w.stream, w.namespace, w.name, ""}] = w
		}
	}
	newest := map[stream]*written{} // by resource
	for k, w := range last {
		k.uid = w.uid
		if k.stream, _, _ = strings.Cut(k.stream, "?"); w.typ == "DELETED" || w.seq < begun[w.stream] {
			continue // in one stream
		}
		if other := newest[k]; other == nil || other.seq < w.seq {
			newest[k] = w
		}
	}
	var seqs []uint64
	for _, w := range newest {
		seqs = append(seqs, w.seq)
	}
	slices.Sort(seqs)
	return seqs
}

// passedBy reports whether a line that does not say when it was made was made by a moment all the same: a later one of its stream
// says so, and came late as well.
func passedBy(all []written, i int, m argument.Moment, live map[string]bool) bool {
	w := &all[i]
	if isLive, covered := live[w.stream]; isLive || !covered || m.Seq > 0 || m.Time.IsZero() ||
		!w.about() || w.origin == "snapshot" || !w.made.IsZero() || w.received.Before(m.Time) {
		return false
	}
	for n := range all {
		switch of := &all[n]; {
		case of.stream != w.stream || !of.received.After(m.Time):
		case of.typ == "GAP":
			return false
		case n > i && !of.made.IsZero() && !of.made.After(m.Time):
			return true
		}
	}
	return false
}

func TestStateAndHistory(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 2))
		path, all := random(t, r, 1+r.IntN(6), 200)
		for range 12 {
			w := all[r.IntN(len(all))]
			m := argument.Moment{Seq: w.seq}
			if r.IntN(2) == 0 {
				m = argument.Moment{Time: w.received.Add(time.Duration(r.IntN(20)-10) * time.Second)}
				switch r.IntN(4) {
				case 0:
					m.Time = m.Time.Add(time.Hour / time.Duration(2+4*r.IntN(2)))
				case 1:
					if m.Time = w.received; !w.made.IsZero() {
						m.Time = w.made
					}
				}
			}
			for n, s := range selections(t) {
				opened, err := archive.Open(path, func(text string) { t.Errorf("notice: %s", text) })
				if err != nil {
					t.Fatal(err)
				}
				j := Of(opened)
				live := covered(j, r, all)
				checkState(t, j, all, s, m, live, fmt.Sprintf("seed %d, selection %d, at %v (%d)", seed, n, m.Time, m.Seq))
				checkHistory(t, j, all, s, m, live, fmt.Sprintf("seed %d, selection %d, since %v (%d)", seed, n, m.Time, m.Seq))
				if m.Seq > 0 {
					checkCompare(t, j, all, s, 1+r.Uint64N(m.Seq), m.Seq)
				}
				j.Close()
			}
		}
	}
}

// wasSet reports whether somebody has set the clock while lines were written.
func wasSet(all []written) bool {
	for i := range all[1:] {
		if d := all[i+1].received.Sub(all[i].received); d < -clockJitter || d > 3*time.Hour {
			return true
		}
	}
	return false
}

func checkState(t *testing.T, j *Journal, all []written, s selects, m argument.Moment, live map[string]bool, what string) {
	t.Helper()
	st, err := j.State(t.Context(), &s.Selection, m)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var got []uint64
	for _, item := range st.Items {
		got = append(got, item.Last.Seq)
	}
	err = j.Read(t.Context(), st.Items, func(i int, l *line.Fields) error {
		item := st.Items[i]
		if l.Seq != item.Last.Seq || string(l.Raw) != all[l.Seq-1].text || string(l.Text(line.FieldName)) != item.Name || string(l.Text(line.FieldNamespace)) != item.Namespace {
			t.Errorf("%s: item %+v is read as %s", what, item, l.Raw)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	slices.Sort(got)
	if m.Seq == 0 && wasSet(all) {
		return // at a time that a clock passed twice there is a doubt, see TestClockSet
	}
	if want := state(all, s, m, live); !slices.Equal(got, want) {
		t.Fatalf("%s: the state is\n%v, want\n%v", what, got, want)
	}
}

// covered lets a journal say how its streams were covered: not at all, or at all times, live or late. It returns those that
// are live.
func covered(j *Journal, r *rand.Rand, all []written) map[string]bool {
	live := map[string]bool{}
	if r.IntN(3) == 0 {
		return live
	}
	var streams []coverage.Stream
	for _, name := range []string{"deployments.apps", "events", "pods", "pods?namespace=a"} {
		live[name] = r.IntN(4) > 0
		in := coverage.Interval{From: all[0].received, To: all[0].received, Late: !live[name]}
		for _, w := range all {
			if w.received.Before(in.From) {
				in.From = w.received
			}
			if w.received.After(in.To) {
				in.To = w.received
			}
		}
		in.From, in.To = in.From.Add(-24*time.Hour), in.To.Add(24*time.Hour)
		streams = append(streams, coverage.Stream{Name: name, Intervals: []coverage.Interval{in}})
	}
	j.SetCoverage(streams)
	return live
}

// checkCompare checks what changed between two lines, and what came and went.
func checkCompare(t *testing.T, j *Journal, all []written, s selects, from, to uint64) {
	t.Helper()
	type object struct{ resource, namespace, name, uid string }
	of := func(seq uint64) object {
		w := &all[seq-1]
		resource, _, _ := strings.Cut(strings.ReplaceAll(w.stream, "?", "."), ".")
		return object{resource, w.namespace, w.name, w.uid}
	}
	lines, before, after := map[object]int{}, map[object]uint64{}, map[object]uint64{}
	for i := range all {
		if w := &all[i]; from < w.seq && w.seq <= to && w.about() && s.is(w) {
			lines[of(w.seq)]++
		}
	}
	for _, seq := range state(all, s, argument.Moment{Seq: from}, nil) {
		before[of(seq)] = seq
	}
	for _, seq := range state(all, s, argument.Moment{Seq: to}, nil) {
		after[of(seq)] = seq
	}
	c, err := j.Compare(t.Context(), &s.Selection, argument.Moment{Seq: from}, argument.Moment{Seq: to})
	if err != nil {
		t.Fatal(err)
	}
	seq := func(i *Item) uint64 {
		if i == nil {
			return 0
		}
		return i.Last.Seq
	}
	changed, passed := map[object]bool{}, map[object]bool{}
	for _, ch := range c.Changes {
		k := of(ch.Item().Last.Seq)
		if changed[k] = true; seq(ch.Before) != before[k] || seq(ch.After) != after[k] || before[k] == after[k] || ch.Versions != lines[k] {
			t.Fatalf("from %d to %d: %+v, %d lines, want %d to %d, %d lines", from, to, ch, ch.Versions, before[k], after[k], lines[k])
		}
	}
	for _, ch := range c.Passed {
		k := of(ch.Item().Last.Seq)
		if passed[k] = true; before[k] != 0 || after[k] != 0 || ch.Before != nil || ch.Versions != lines[k] {
			t.Fatalf("from %d to %d: came and went %+v, want %d to %d, %d lines", from, to, ch, before[k], after[k], lines[k])
		}
	}
	for k := range lines {
		if is := before[k] != after[k]; changed[k] != is || passed[k] != (before[k] == 0 && after[k] == 0) {
			t.Fatalf("from %d to %d: %v changed: %t, passed: %t", from, to, k, changed[k], passed[k])
		}
	}
}

func checkHistory(t *testing.T, j *Journal, all []written, s selects, since argument.Moment, live map[string]bool, what string) {
	t.Helper()
	until := argument.Moment{}
	if since.Seq == 0 {
		until.Time = since.Time.Add(40 * time.Second)
	}
	before := since // what is of that time is in the history
	if !since.Time.IsZero() {
		before.Time = since.Time.Add(-1)
	}
	inside := func(w *written) bool {
		i := int(w.seq) - 1 //nolint:gosec // they are few
		at := w.received
		if !w.made.IsZero() {
			at = w.made
		}
		return !since.After(w.seq, at) && !passedBy(all, i, before, live) && (until.IsZero() || !until.Before(w.seq, at) || passedBy(all, i, until, live))
	}
	got := map[uint64]bool{}
	last := uint64(0)
	for v, err := range j.History(t.Context(), &s.Selection, since, until) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		w := all[v.Seq-1]
		if v.Seq <= last || string(v.Raw) != w.text {
			t.Fatalf("%s: line %d behind %d: %s", what, v.Seq, last, v.Raw)
		}
		got[v.Seq], last = true, v.Seq
		if !w.about() {
			if !inside(&w) {
				t.Errorf("%s: line %d is outside", what, v.Seq)
			}
			continue
		}
		before := uint64(0)
		for _, b := range all[:v.Seq-1] {
			if b.stream == w.stream && b.namespace == w.namespace && b.name == w.name && b.uid == w.uid {
				before = b.seq
			}
		}
		p, err := v.Previous(t.Context())
		if err != nil {
			t.Fatalf("%s: before line %d: %v", what, v.Seq, err)
		}
		// What was deleted before a segment is not known in it any more, nor what was there before its stream was begun anew.
		anew := slices.ContainsFunc(all[before:v.Seq-1], func(b written) bool { return b.stream == w.stream && b.typ == "SYNCED" })
		if p == nil && before > 0 && all[before-1].typ != "DELETED" && !anew || p != nil && p.Seq != before {
			t.Errorf("%s: before line %d is %+v, want %d", what, v.Seq, p, before)
		}
	}
	for i := range all {
		if w := &all[i]; w.about() && got[w.seq] != (s.is(w) && inside(w)) {
			t.Fatalf("%s: line %d is in the history: %t", what, w.seq, got[w.seq])
		}
	}
}

// TestDamagedIndex flips each byte of an index, cuts it everywhere, and puts others in its place: answers stay as they are, and
// it is said that the index is not used.
func TestDamagedIndex(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	var r *rand.Rand
	var path string
	var all []written
	var names []string
	var good []byte
	for seed, full := uint64(0), false; !full; seed++ {
		r = rand.New(rand.NewPCG(seed, 3))
		path, all = random(t, r, 4, 30)
		var err error
		if names, err = filepath.Glob(filepath.Join(filepath.Dir(path), "*.index")); err != nil || len(names) < 3 {
			continue
		}
		good = readFile(t, names[2])
		x, err := index.Open(bytes.NewReader(good), int64(len(good)))
		full = err == nil && x.Since > 0
	}
	name := names[2]
	s := selections(t)[1]
	ask := func(what string, content []byte) (notices int) {
		t.Helper()
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := archive.Open(path, func(string) { notices++ })
		if err != nil {
			t.Fatal(err)
		}
		j := Of(opened)
		defer j.Close()
		m := argument.Moment{Seq: 1 + r.Uint64N(uint64(len(all)))}
		checkState(t, j, all, s, m, nil, what)
		checkHistory(t, j, all, s, m, nil, what)
		if r.IntN(4) == 0 {
			checkState(t, j, all, s, argument.Moment{Time: all[m.Seq-1].received}, nil, what)
			checkCompare(t, j, all, s, 1+r.Uint64N(m.Seq), m.Seq)
		}
		if err := j.Resolve(t.Context(), &argument.Selection{Objects: s.Objects}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return notices
	}
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 1 << r.IntN(8)
		ask(fmt.Sprintf("byte %d", i), bad)
		if i%8 == 0 && ask(fmt.Sprintf("cut to %d", i), good[:i]) == 0 {
			t.Errorf("cut to %d: nothing is said", i)
		}
	}
	version := slices.Clone(good)
	version[16]++
	binary.LittleEndian.PutUint32(version[68:], crc32.Checksum(version[:68], crc32.MakeTable(crc32.Castagnoli)))
	another, _ := random(t, r, 5, 30)
	others, err := filepath.Glob(filepath.Join(filepath.Dir(another), "*.index"))
	if err != nil || len(others) == 0 {
		t.Fatalf("%q: %v", others, err)
	}
	for what, content := range map[string][]byte{
		"another segment's": readFile(t, names[0]), "another version's": version, "another journal's": readFile(t, others[0]), "empty": nil,
	} {
		if ask(what, content) == 0 {
			t.Errorf("%s: nothing is said", what)
		}
	}
	if ask("right", good) > 0 {
		t.Error("the right one is not used")
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestReplaced deletes objects of which some are made again.
func TestReplaced(t *testing.T) {
	j := openSmall(t, small(t, "DELETED a/gone u1", "DELETED a/twice u1", "ADDED a/twice u2", "DELETED a/again u1", "DELETED a/twice u2", "ADDED a/again u2",
		"ADDED a/other u1", "DELETED b/again u1"))
	s := &argument.Selection{}
	items, _, err := j.Deleted(t.Context(), s, argument.Moment{}, argument.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := j.Replaced(t.Context(), s, items)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64]bool{}
	for i := range items {
		got[items[i].Last.Seq] = replaced[i]
	}
	if want := map[uint64]bool{1: false, 2: true, 4: true, 5: false, 8: false}; !maps.Equal(got, want) {
		t.Errorf("replaced: %v, want %v", got, want)
	}
}

// TestNamespaceItself asks for all of a namespace, which it is a part of.
func TestNamespaceItself(t *testing.T) {
	j := openSmall(t, small(t, "ADDED namespaces:/a u1", "ADDED namespaces:/b u2", "ADDED nodes:/a u3", "ADDED a/web u4", "ADDED b/web u5"))
	for args, want := range map[string][]uint64{
		"-n a": {1, 4}, "* -n a": {1, 4}, "*,ns -n a": {1, 2, 4}, "*,no -n b": {2, 3, 5}, "po -n a": {4}, "ns -n a": {1, 2}, "*": {1, 2, 3, 4, 5}, "ns/a -n b": {1},
	} {
		words, namespace, _ := strings.Cut(args, "-n ")
		objects, err := argument.Objects(strings.Fields(words))
		if err != nil {
			t.Fatal(err)
		}
		s := &argument.Selection{Objects: objects}
		if namespace != "" {
			s.Namespaces = []string{namespace}
		}
		st, err := j.State(t.Context(), s, argument.Moment{Seq: 5})
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, item := range st.Items {
			got = append(got, item.Last.Seq)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: lines %d, want %d", args, got, want)
		}
	}
}
