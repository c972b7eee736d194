package question

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/coverage"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// small makes a journal of hand-written lines: "ADDED a/x u1 7" is about pod x in namespace a, with its uid and version, and
// "ADDED nodes:/x u1" about a node. Each is received a minute after the one before, "ADDED a/x u1 7 late" 90 seconds after it was
// made; "GAP 20 14" is from version 14. What follows "--" is in the next segment, and what follows "term 2" is of that term.
func small(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	var content strings.Builder
	seq, files, term := 0, 0, ""
	for _, text := range lines {
		if n, ok := strings.CutPrefix(text, "term "); ok {
			term = fmt.Sprintf(`"term":%s,`, n)
			continue
		}
		if text == "--" {
			writeFile(t, filepath.Join(filepath.Dir(path), fmt.Sprintf("journal-2026-11-20T16-10-%02d.123.jsonl", files)), content.String())
			content.Reset()
			files++
			continue
		}
		seq++
		f := append(strings.Fields(text), "", "", "", "")
		at := noon.Add(time.Duration(seq) * time.Minute)
		resource, object, ok := strings.Cut(f[1], ":")
		if !ok {
			resource, object = "pods", f[1]
		}
		fmt.Fprintf(&content, `{"seq":%d,%s"time":%q,"type":%q,"stream":%[5]q,"version":"v1","resource":%[5]q,"kind":"K%[5]s",`, seq, term, at.Format(time.RFC3339), f[0], resource)
		switch f[0] {
		case "GAP":
			fmt.Fprintf(&content, `"resourceVersion":%q,"fromResourceVersion":%q}`, f[1], f[2])
		case "SYNCED":
			fmt.Fprintf(&content, `"resourceVersion":%q}`, f[1])
		default:
			namespace, name, _ := strings.Cut(object, "/")
			origin, written := "watch", ""
			switch f[4] {
			case "late":
				written = fmt.Sprintf(`"writtenAt":%q,`, at.Add(-90*time.Second).Format(time.RFC3339))
			case "snapshot", "relist":
				origin = f[4]
			}
			fmt.Fprintf(&content, `"origin":%q,%s"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q,"object":{}}`, origin, written, namespace, name, f[2], f[3])
		}
		content.WriteString("\n")
	}
	writeFile(t, path, content.String())
	return path
}

func openSmall(t *testing.T, path string) *Journal {
	t.Helper()
	opened, err := archive.Open(path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	j := Of(opened)
	t.Cleanup(j.Close)
	return j
}

func selected(t *testing.T, object string, namespaces ...string) *argument.Selection {
	t.Helper()
	o, err := argument.ParseObject(object)
	if err != nil {
		t.Fatal(err)
	}
	return &argument.Selection{Objects: []argument.Object{o}, Namespaces: namespaces}
}

// seqs are the seqs of a state's objects, and how many doubts there are.
func seqs(st *State) string {
	var all []uint64
	for _, i := range st.Items {
		all = append(all, i.Last.Seq)
	}
	return fmt.Sprintf("%v %d", all, len(st.Doubts))
}

func TestAtVersion(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  map[uint64]string
	}{
		{
			[]string{
				"ADDED a/x u1 5 snapshot", "SYNCED 10", "MODIFIED a/x u1 11", "--", "ADDED a/y u2 13", "GAP 20 14", "DELETED a/y u2 13 relist",
				"MODIFIED a/x u1 18 relist", "SYNCED 20", "--", "MODIFIED a/x u1 22", "ADDED a/z u3 24",
			},
			map[uint64]string{
				9: "[] 1", 10: "[1] 0", 11: "[3] 0", 12: "[3] 0", 13: "[3 4] 0", 14: "[3 4] 0", 15: "[3 4] 1", 19: "[3 4] 1", 20: "[7] 0",
				21: "[7] 0", 22: "[9] 0", 23: "[9] 0", 24: "[9 10] 0", 25: "[9 10] 1",
			},
		},
		{[]string{"ADDED a/x u1 5 snapshot", "SYNCED 10"}, map[uint64]string{10: "[1] 0", 11: "[1] 1"}},
		{ // begun anew: what was before the second list is not known
			[]string{"ADDED a/x u1 5 snapshot", "SYNCED 10", "MODIFIED a/x u1 12", "ADDED a/x u1 16 snapshot", "SYNCED 20", "MODIFIED a/x u1 21"},
			map[uint64]string{12: "[] 1", 15: "[] 1", 20: "[4] 0", 21: "[6] 0"},
		},
		{ // a replica that lost its checkpoint, twice, and wrote some lines again
			[]string{
				"term 1", "ADDED a/x u1 5 snapshot", "SYNCED 10", "MODIFIED a/x u1 11", "ADDED a/y u2 13", "MODIFIED a/x u1 15",
				"term 3", "MODIFIED a/x u1 11", "--", "ADDED a/y u2 13", "term 4", "MODIFIED a/x u1 11",
			},
			map[uint64]string{10: "[1] 0", 11: "[3] 0", 12: "[3] 0", 13: "[3 4] 0", 14: "[3 4] 0", 15: "[5 4] 0", 16: "[8 7] 1"},
		},
	} {
		j := openSmall(t, small(t, c.lines...))
		for version, want := range c.want {
			st, err := j.State(t.Context(), &argument.Selection{}, argument.Moment{Version: version})
			if err != nil || seqs(st) != want {
				t.Errorf("at version %d: %s, %v, want %s", version, seqs(st), err, want)
			}
		}
	}
}

// A history since or up to a version of the server has the lines since the first one that is at it or later, or up to the last
// one that is not later.
func TestVersionLines(t *testing.T) {
	j := openSmall(t, small(t,
		"ADDED a/x u1 5 snapshot", "SYNCED 10", "MODIFIED a/x u1 11", "--", "ADDED a/y u2 13", "GAP 20 14", "DELETED a/y u2 13 relist",
		"MODIFIED a/x u1 18 relist", "SYNCED 20", "--", "MODIFIED a/x u1 22", "ADDED a/z u3 24",
	))
	for version, want := range map[uint64]string{ // lines since it, lines up to it, doubts
		9:  "[1 2 3 4 5 6 7 8 9 10] [] 1",
		10: "[3 4 5 6 7 8 9 10] [1 2] 0", 11: "[3 4 5 6 7 8 9 10] [1 2 3] 0",
		12: "[4 5 6 7 8 9 10] [1 2 3] 0", 13: "[4 5 6 7 8 9 10] [1 2 3 4 5] 0",
		14: "[5 6 7 8 9 10] [1 2 3 4 5] 0", 15: "[5 6 7 8 9 10] [1 2 3 4 5] 1", 19: "[5 6 7 8 9 10] [1 2 3 4 5] 1",
		20: "[9 10] [1 2 3 4 5 6 7 8] 0", 21: "[9 10] [1 2 3 4 5 6 7 8] 0", 22: "[9 10] [1 2 3 4 5 6 7 8 9] 0", 24: "[10] [1 2 3 4 5 6 7 8 9 10] 0",
		25: "[] [1 2 3 4 5 6 7 8 9 10] 1",
	} {
		var got []string
		all := 0
		for _, m := range [][2]argument.Moment{{{Version: version}, {}}, {{}, {Version: version}}} {
			since, until, doubts, err := j.VersionLines(t.Context(), &argument.Selection{}, m[0], m[1])
			if err != nil {
				t.Fatal(err)
			}
			seqs := []uint64{}
			for v, err := range j.History(t.Context(), &argument.Selection{}, since, until) {
				if err != nil {
					t.Fatal(err)
				}
				seqs = append(seqs, v.Seq)
			}
			got, all = append(got, fmt.Sprint(seqs)), max(all, len(doubts))
		}
		if is := strings.Join(append(got, fmt.Sprint(all)), " "); is != want {
			t.Errorf("version %d: %s, want %s", version, is, want)
		}
	}
	// Other moments stay as they are.
	m := argument.Moment{Time: noon}
	since, until, doubts, err := j.VersionLines(t.Context(), &argument.Selection{}, m, argument.Moment{Seq: 3})
	if since != m || until != (argument.Moment{Seq: 3}) || doubts != nil || err != nil {
		t.Error(since, until, doubts, err)
	}
}

// Behind a GAP nothing is sure until the list is complete, also where it has no difference: what came and went is not known.
func TestCoveredGap(t *testing.T) {
	j := openSmall(t, small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10", "GAP 20 10", "SYNCED 20"))
	for differences, want := range []string{"[1] 1", "[1] 1"} {
		j.SetCoverage([]coverage.Stream{{Name: "pods", Intervals: []coverage.Interval{
			{From: noon.Add(2 * time.Minute), To: noon.Add(3 * time.Minute), End: "Expired", Differences: new(int64(differences))},
			{From: noon.Add(4 * time.Minute), To: noon.Add(time.Hour)},
		}}})
		st, err := j.State(t.Context(), &argument.Selection{}, argument.Moment{Time: noon.Add(3*time.Minute + time.Second)})
		if err != nil || seqs(st) != want {
			t.Errorf("%d differences: %s, %v, want %s", differences, seqs(st), err, want)
		}
	}
}

// A late line without a time is doubted while it may have been written by the moment or not.
func TestUndated(t *testing.T) {
	j := openSmall(t, small(t,
		"ADDED a/x u1 5 snapshot", "ADDED a/y u2 6 snapshot", "SYNCED 10", "DELETED a/y u2 11", "ADDED a/y u3 12 late", "MODIFIED a/x u1 13 late", "MODIFIED a/x u1 14"))
	in := coverage.Interval{From: noon.Add(3 * time.Minute), To: noon.Add(6*time.Minute + 30*time.Second), Late: true}
	ask := func(want map[time.Duration]string) {
		t.Helper()
		j.SetCoverage([]coverage.Stream{{Name: "pods", Intervals: []coverage.Interval{in}}})
		for at, want := range want {
			st, err := j.State(t.Context(), &argument.Selection{}, argument.Moment{Time: noon.Add(at * time.Second)})
			if err != nil || seqs(st) != want {
				t.Errorf("at second %d: %s, %v, want %s", at, seqs(st), err, want)
			}
		}
	}
	// y was deleted before it was made anew, and that line says when it was; line 7 was not received late.
	ask(map[time.Duration]string{190: "[1 2] 1", 210: "[1 5] 0", 270: "[6 5] 0", 380: "[6 5] 0"})
	j = openSmall(t, small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10", "MODIFIED a/x u1 11", "MODIFIED a/x u1 12 late", "DELETED a/x u1 13"))
	in.From, in.To = noon.Add(2*time.Minute), noon.Add(5*time.Minute)
	ask(map[time.Duration]string{130: "[1] 1", 150: "[4] 1", 299: "[4] 1"})
	st, err := j.State(t.Context(), selected(t, "pods/other"), argument.Moment{Time: noon.Add(3 * time.Minute)})
	if err != nil || len(st.Doubts) > 0 {
		t.Errorf("of another object: %+v, %v", st, err)
	}
	// A second that a line says is no reason to put it before others, once the stream had caught up before them.
	for end, want := range map[string]string{coverage.CaughtUp: "[1] 0", coverage.Interrupted: "[3 4] 0"} {
		j = openSmall(t, small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10", "MODIFIED a/x u1 11", "ADDED a/y u2 12 late"))
		in.From, in.To, in.End = noon.Add(2*time.Minute), noon.Add(160*time.Second), end
		later := coverage.Interval{
			From: in.To, To: noon.Add(5 * time.Minute), Late: end == coverage.Interrupted, End: coverage.CaughtUp,
		}
		j.SetCoverage([]coverage.Stream{{Name: "pods", Intervals: []coverage.Interval{in, later}}})
		st, err := j.State(t.Context(), &argument.Selection{}, argument.Moment{Time: noon.Add(155 * time.Second)})
		if err != nil || seqs(st) != want {
			t.Errorf("%s: %s, %v, want %s", end, seqs(st), err, want)
		}
	}
	// Which objects were deleted depends on DELETED lines alone.
	for name, want := range map[string][2]int{"MODIFIED": {1, 0}, "DELETED": {1, 1}} {
		j = openSmall(t, small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10", name+" a/x u1 11"))
		in.From, in.To = noon.Add(2*time.Minute), noon.Add(5*time.Minute)
		j.SetCoverage([]coverage.Stream{{Name: "pods", Intervals: []coverage.Interval{in}}})
		since, until := argument.Moment{Time: in.From}, argument.Moment{Time: noon.Add(150 * time.Second)}
		all, err := j.Uncovered(t.Context(), &argument.Selection{}, since, until)
		_, deletions, err2 := j.Deleted(t.Context(), &argument.Selection{}, since, until)
		if got := [2]int{len(all), len(deletions)}; got != want || err != nil || err2 != nil {
			t.Errorf("%s: %v doubts, %v, %v, want %v", name, got, err, err2, want)
		}
	}
}

// What a stream that is not watched any more says does not count beside another one that has its objects.
func TestGoneStream(t *testing.T) {
	path := small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10")
	content := string(readFile(t, path))
	writeFile(t, path, content+strings.NewReplacer(`"seq":1,`, `"seq":3,`, `"seq":2,`, `"seq":4,`, `"pods","version`, `"pods?namespace=a","version`).Replace(content))
	j := openSmall(t, path)
	at := func(from, to int) []coverage.Interval {
		return []coverage.Interval{{From: noon.Add(time.Duration(from) * time.Minute), To: noon.Add(time.Duration(to) * time.Minute), End: coverage.Removed}}
	}
	for _, c := range []struct {
		all, one []coverage.Interval
		want     string
	}{
		{at(1, 60), at(1, 60), "[3] 0"}, {at(1, 60), at(1, 5), "[1] 0"}, {at(1, 5), at(1, 60), "[3] 1"}, {at(1, 5), at(1, 5), "[3] 2"}, {at(1, 10), at(1, 10), "[3] 2"},
	} {
		j.SetCoverage([]coverage.Stream{{Name: "pods", Intervals: c.all}, {Name: "pods?namespace=a", Intervals: c.one}})
		st, err := j.State(t.Context(), &argument.Selection{}, argument.Moment{Time: noon.Add(10 * time.Minute)})
		if err == nil && seqs(st) != c.want {
			t.Errorf("%+v: %s, want %s", c, seqs(st), c.want)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// 'checkpoint reset' begins a stream anew: what was deleted meanwhile has no line, and is not there any more.
func TestBegunAnew(t *testing.T) {
	j := openSmall(t, small(t,
		"ADDED a/x u1 5 snapshot", "ADDED a/y u2 6 snapshot", "SYNCED 10", "--", "ADDED a/x u1 5 snapshot", "ADDED a/z u3 15 snapshot", "--", "SYNCED 20", "MODIFIED a/z u3 21", "SYNCED 30"))
	// Up to line 5 the list is not complete yet.
	for seq, want := range map[uint64]string{3: "[1 2] 0", 4: "[4 2] 1", 5: "[4 2 5] 1", 6: "[4 5] 0", 7: "[4 7] 0", 8: "[] 0"} {
		st, err := j.State(t.Context(), &argument.Selection{}, argument.Moment{Seq: seq})
		if err != nil || seqs(st) != want {
			t.Errorf("at line %d: %s, %v, want %s", seq, seqs(st), err, want)
		}
	}
	c, err := j.Compare(t.Context(), &argument.Selection{}, argument.Moment{Seq: 3}, argument.Moment{Seq: 7})
	if err != nil || len(c.Changes) != 3 || c.Changes[1].After != nil || c.Changes[1].Before.Last.Seq != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	one, _, err := j.One(t.Context(), &argument.Selection{UIDs: map[string]bool{"u2": true}}, argument.Moment{Seq: 7})
	if err != nil || one == nil || !one.Deleted || one.Last.Seq != 2 {
		t.Errorf("what is gone: %+v, %v", one, err)
	}
	for v, err := range j.History(t.Context(), &argument.Selection{}, argument.Moment{Seq: 4}, argument.Moment{}) {
		if err != nil {
			t.Fatal(err)
		}
		if p, err := v.Previous(t.Context()); v.Seq == 7 && (err != nil || p == nil || p.Seq != 5) {
			t.Errorf("before line 7: %+v, %v", p, err)
		}
	}
}

// A line is compared with the one before it, also where that begins a list.
func TestPreviousBeginsAList(t *testing.T) {
	j := openSmall(t, small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10", "--", "MODIFIED a/x u1 11"))
	for v, err := range j.History(t.Context(), &argument.Selection{}, argument.Moment{Seq: 2}, argument.Moment{}) {
		if err != nil {
			t.Fatal(err)
		}
		if p, err := v.Previous(t.Context()); v.Seq == 3 && (err != nil || p == nil || p.Seq != 1) {
			t.Errorf("before line 3: %+v, %v", p, err)
		}
	}
}

// What was written between two versions ends with the second, and is without the first.
func TestBetween(t *testing.T) {
	j := openSmall(t, small(t, "ADDED a/x u1 5", "ADDED a/y u2 6", "MODIFIED a/x u1 7", "MODIFIED a/y u2 8", "MODIFIED a/x u1 9",
		"MODIFIED a/y u2 10", "MODIFIED a/x u1 11"))
	c, err := j.Compare(t.Context(), &argument.Selection{}, argument.Moment{Seq: 3}, argument.Moment{Seq: 6})
	if err != nil || len(c.Changes) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	got := make(map[string][]uint64)
	err = j.Between(t.Context(), c, []*Change{&c.Changes[0], &c.Changes[1]}, func(i int, v *archive.Version) error {
		name := c.Changes[i].After.Name
		got[name] = append(got[name], v.Seq)
		return nil
	})
	if want := "map[x:[5] y:[4 6]]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v, want %s", got, err, want)
	}
}

func TestMissingSegment(t *testing.T) {
	path := small(t, "ADDED a/x u1 5 snapshot", "SYNCED 10", "--", "DELETED a/x u1 11", "--", "ADDED a/y u2 12", "--", "MODIFIED a/y u2 13")
	all, err := filepath.Glob(filepath.Join(filepath.Dir(path), "journal-*"))
	if err != nil || len(all) != 3 {
		t.Fatalf("%q, %v", all, err)
	}
	for i, want := range []string{"[5] 2", "[1 5] 1", "[5] 1"} { // the first has the only list
		content := readFile(t, all[i])
		if err := os.Remove(all[i]); err != nil {
			t.Fatal(err)
		}
		st, err := openSmall(t, path).State(t.Context(), &argument.Selection{}, argument.Moment{Seq: 5})
		if err != nil || seqs(st) != want {
			t.Errorf("without %s: %s, %v, want %s", all[i], seqs(st), err, want)
		}
		writeFile(t, all[i], string(content))
	}
}

func TestOne(t *testing.T) {
	j := openSmall(t, small(t, "ADDED a/x u1 5", "DELETED a/x u1 6", "ADDED a/x u2 7", "DELETED a/x u2 8", "ADDED b/x u3 9"))
	name := selected(t, "pods/x", "a")
	for seq, want := range map[uint64]string{1: "1 false", 2: "2 true", 3: "3 false", 5: "4 true"} {
		one, _, err := j.One(t.Context(), name, argument.Moment{Seq: seq})
		if err != nil || fmt.Sprint(one.Last.Seq, one.Deleted) != want {
			t.Errorf("at line %d: %+v, %v, want %s", seq, one, err, want)
		}
	}
	if one, _, err := j.One(t.Context(), &argument.Selection{UIDs: map[string]bool{"u9": true}}, argument.Moment{Seq: 5}); one != nil || err != nil {
		t.Errorf("nothing: %+v, %v", one, err)
	}
	name.Namespaces = nil
	if _, _, err := j.One(t.Context(), name, argument.Moment{Seq: 5}); err == nil || !strings.Contains(err.Error(), "a/x") || !strings.Contains(err.Error(), "b/x") {
		t.Errorf("of two namespaces: %v", err)
	}
}

func TestDeleted(t *testing.T) {
	j := openSmall(t, small(t, "ADDED a/x u1 5", "DELETED a/x u1 6", "--", "ADDED a/y u2 7", "DELETED a/y u2 8", "ADDED b/z u3 9"))
	minute := func(n time.Duration) argument.Moment { return argument.Moment{Time: noon.Add(n * time.Minute)} }
	for _, c := range []struct {
		since, until argument.Moment
		want         []uint64
	}{
		{want: []uint64{2, 4}}, {since: argument.Moment{Seq: 3}, want: []uint64{4}}, {until: argument.Moment{Seq: 3}, want: []uint64{2}},
		{since: minute(3), until: argument.Moment{Seq: 3}}, {since: minute(4), until: minute(4), want: []uint64{4}},
	} {
		items, _, err := j.Deleted(t.Context(), &argument.Selection{}, c.since, c.until)
		var got []uint64
		for _, i := range items {
			got = append(got, i.Last.Seq)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("from %+v to %+v: %v, %v, want %v", c.since, c.until, got, err, c.want)
		}
	}
}

func TestOutages(t *testing.T) {
	in := func(from, to int, end string, late bool) coverage.Interval {
		return coverage.Interval{From: noon.Add(time.Duration(from) * time.Minute), To: noon.Add(time.Duration(to) * time.Minute), End: end, Late: late}
	}
	j := openSmall(t, small(t, "SYNCED 1"))
	j.SetCoverage([]coverage.Stream{
		{Name: "pods", Intervals: []coverage.Interval{in(0, 10, coverage.Interrupted, false), in(10, 20, coverage.CaughtUp, true), in(20, 30, "Expired", false), in(35, 50, "", false)}},
		{Name: "secrets", Intervals: []coverage.Interval{
			in(0, 12, coverage.Stopped, false), in(18, 40, coverage.Unknown, false),
			in(45, 55, coverage.Silent, false), in(55, 60, "", true),
		}},
	})
	var got []string
	for _, o := range j.Outages(&argument.Selection{}) {
		got = append(got, fmt.Sprintf("%v-%v %d %s", o.From.Sub(noon), o.To.Sub(noon), o.Streams, o.Reason))
	}
	want := []string{"12m0s-18m0s 2 Interrupted", "40m0s-45m0s 1 Unknown", "55m0s-1h0m0s 1 Silent"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
