package question_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/test/journaltest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func begin(t *testing.T) *journaltest.Journal {
	return journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), noon)
}

func settings(n int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"settings","uid":"c1"},"data":{"n":"%d"}}`, n)
}

// open ends the daemon, so that all is in the files, and opens the journal.
func open(t *testing.T, w *journaltest.Journal) *question.Journal {
	t.Helper()
	w.Kill()
	opened, err := archive.Open(w.Path, func(text string) { t.Errorf("notice: %s", text) })
	if err != nil {
		t.Fatal(err)
	}
	j := question.Of(opened)
	t.Cleanup(j.Close)
	return j
}

func selectionOf(t *testing.T, args ...string) *argument.Selection {
	t.Helper()
	objects, err := argument.Objects(args)
	if err != nil {
		t.Fatal(err)
	}
	return &argument.Selection{Objects: objects}
}

// at returns the state of an open journal: name=data.n of each object, and the reasons to doubt it.
func at(t *testing.T, j *question.Journal, s *argument.Selection, m argument.Moment) (state, doubts string) {
	t.Helper()
	st, err := j.State(t.Context(), s, m)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(st.Items))
	for i := range st.Items {
		if st.Items[i].Gone {
			texts[i] = st.Items[i].Name + " is gone"
		}
	}
	err = j.Read(t.Context(), st.Items, func(i int, l *line.Fields) error {
		texts[i] = st.Items[i].Name + "=" + string(rawjson.Inside(rawjson.At(l.Object, []byte("/data/n"))))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(texts, " "), reasons(st.Doubts)
}

func reasons(doubts []question.Doubt) string {
	var all []string
	for _, d := range doubts {
		all = append(all, d.Stream+": "+d.Reason)
	}
	return strings.Join(all, "; ")
}

// seqs returns the lines of a history.
func seqs(t *testing.T, j *question.Journal, s *argument.Selection, since, until argument.Moment) (all []uint64) {
	t.Helper()
	for v, err := range j.History(t.Context(), s, since, until) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v.Seq)
	}
	return all
}

// TestSelectors has an object in two streams of one resource, by its labels: one of them sees it leave and come, and that is
// no deletion.
func TestSelectors(t *testing.T) {
	w := begin(t)
	all, front := w.Stream("configmaps", "ConfigMap"), w.Stream("configmaps?labelSelector=tier%3Dfront", "ConfigMap")
	for _, s := range []*journaltest.Stream{all, front} {
		s.Snapshot()
		s.Put("", settings(1))
		s.Synced()
	}
	w.Now = noon.Add(time.Minute)
	all.Put("kubectl", settings(2))
	front.Delete("c1")
	w.Confirm(false, all, front)
	w.Now = noon.Add(2 * time.Minute)
	all.Delete("c1")
	w.Confirm(false, all, front)
	w.Now = noon.Add(3 * time.Minute)
	w.Confirm(false, all, front)

	j, s := open(t, w), selectionOf(t, "cm/settings")
	for m, want := range map[time.Duration]string{30 * time.Second: "settings=1", 90 * time.Second: "settings=2", 150 * time.Second: ""} {
		if state, doubts := at(t, j, s, argument.Moment{Time: noon.Add(m)}); state != want || doubts != "" {
			t.Errorf("at %s: %q, %q", m, state, doubts)
		}
	}
	c, err := j.Compare(t.Context(), s, argument.Moment{Time: noon.Add(time.Second)}, argument.Moment{Time: noon.Add(90 * time.Second)})
	if err != nil || len(c.Changes) != 1 || c.Changes[0].After == nil || c.Changes[0].Before == nil || c.Changes[0].Versions != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	// A namespace's stream that was left for a wider one is no doubt once the other one has all of it.
	w = begin(t)
	narrow := w.Stream("pods?namespace=shop", "Pod")
	narrow.Snapshot()
	narrow.Put("", settings(1))
	narrow.Synced()
	w.Now = noon.Add(time.Minute)
	w.Confirm(false, narrow)
	w.Remove(narrow)
	wide := w.Stream("pods", "Pod")
	wide.Snapshot()
	wide.Put("", settings(1))
	wide.Synced()
	w.Now = noon.Add(2 * time.Minute)
	w.Confirm(false, wide)
	j, s = open(t, w), selectionOf(t, "pods")
	m := argument.Moment{Time: noon.Add(90 * time.Second)}
	if state, doubts := at(t, j, s, m); state != "settings=1" || doubts != "" {
		t.Errorf("%q, %q", state, doubts)
	}
	// Before that it had the namespace's objects, and nobody else's.
	early := argument.Moment{Time: noon.Add(30 * time.Second)}
	for n, in := range [][]string{{"shop"}, nil} {
		s.Namespaces = in
		doubts, err := j.Uncovered(t.Context(), s, argument.Moment{Time: noon}, m)
		if err != nil || len(doubts) != n {
			t.Errorf("of namespaces %q: %+v, %v", in, doubts, err)
		}
		if state, doubts := at(t, j, s, early); state != "settings=1" || (doubts != "") != (n == 1) {
			t.Errorf("of namespaces %q: %q, %q", in, state, doubts)
		}
	}
}

// TestShards has a journal that one daemon wrote for all objects, and then for shards: an answer is complete where these are all
// shards, of whatever counts.
func TestShards(t *testing.T) {
	for shards, want := range map[string]string{
		"0-of-1": "", "0-of-2 1-of-2": "", "0-of-3 1-of-3 2-of-3": "", "1-of-2 0-of-4 1-of-4": "", "0-of-2 0-of-3 1-of-3 2-of-3": "",
		"0-of-2": "pods: the journal has shard 0-of-2 of it", "0-of-3 2-of-3": "pods: the journal has shard 0-of-3 and 2-of-3 of it",
		"1-of-2 1-of-4": "pods: the journal has shard 1-of-2 and 1-of-4 of it",
	} {
		for _, after := range []bool{false, true} {
			w := begin(t)
			var before *journaltest.Stream
			if after {
				before = w.Stream("pods", "Pod")
				before.Snapshot()
				before.Put("", settings(1))
				before.Synced()
				w.Now = noon.Add(time.Minute)
				w.Confirm(false, before)
			}
			var streams []*journaltest.Stream
			for n, shard := range strings.Fields(shards) {
				s := w.Stream("pods?shard="+shard, "Pod")
				s.Snapshot()
				if n == 0 {
					s.Put("", settings(1))
				}
				s.Synced()
				streams = append(streams, s)
			}
			if after {
				w.Now = noon.Add(2 * time.Minute)
				w.Confirm(false, before)
				w.Remove(before)
			}
			w.Now = noon.Add(3 * time.Minute)
			streams[0].Put("", settings(2))
			w.Now = noon.Add(4 * time.Minute)
			w.Confirm(false, streams...)
			j, s := open(t, w), selectionOf(t, "pods")
			now, early := argument.Moment{Time: noon.Add(210 * time.Second)}, argument.Moment{Time: noon.Add(30 * time.Second)}
			state, doubts := at(t, j, s, now)
			if state != "settings=2" || !after && doubts != want || after && (doubts == "") != (want == "") {
				t.Errorf("shards %s, after the whole %t: %q, %q, want %q", shards, after, state, doubts, want)
			}
			uncovered, err := j.Uncovered(t.Context(), s, argument.Moment{Time: noon}, now)
			if err != nil || (len(uncovered) == 0) != (want == "") {
				t.Errorf("shards %s, after the whole %t: %+v, %v", shards, after, uncovered, err)
			}
			for _, m := range []argument.Moment{{Seq: 100}, {Version: 1}} {
				if _, doubts := at(t, j, s, m); !after && !strings.Contains(doubts, want) {
					t.Errorf("shards %s, at %+v: %q", shards, m, doubts)
				}
			}
			if !after {
				continue
			}
			if state, doubts := at(t, j, s, early); state != "settings=1" || doubts != "" {
				t.Errorf("shards %s, before them: %q, %q", shards, state, doubts)
			}
		}
	}
}

// TestVersionAndCluster have a resource move to another version, and the cluster get another name: it is the same object.
func TestVersionAndCluster(t *testing.T) {
	w := begin(t)
	s := w.Stream("crontabs.v1beta1.example.com", "CronTab")
	s.Snapshot()
	s.Put("", settings(1))
	s.Synced()
	w.Rotate()
	w.Cluster = "production"
	s = w.Stream("crontabs.v1.example.com", "CronTab")
	w.Now = noon.Add(time.Minute)
	s.Put("kubectl", settings(2))
	w.Now = noon.Add(2 * time.Minute)
	w.Confirm(false, s)

	j := open(t, w)
	for _, name := range []string{"crontabs", "crontabs.example.com", "crontabs.v1.example.com"} {
		of := selectionOf(t, name)
		if err := j.Resolve(t.Context(), of); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if state, doubts := at(t, j, of, argument.Moment{Time: noon.Add(90 * time.Second)}); state != "settings=2" || doubts != "" {
			t.Errorf("%s: %q, %q", name, state, doubts)
		}
	}
	of := selectionOf(t, "crontabs")
	if got := seqs(t, j, of, argument.Moment{}, argument.Moment{}); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("history %d", got)
	}
	c, err := j.Compare(t.Context(), of, argument.Moment{Time: noon.Add(time.Second)}, argument.Moment{Time: noon.Add(90 * time.Second)})
	if err != nil || len(c.Changes) != 1 || c.Changes[0].Before == nil || c.Changes[0].After == nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestClockBack has the clock set back by ten minutes between two lines: a time is the one that was shown, twice.
func TestClockBack(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", settings(1))
	s.Synced()
	for n, minute := range []int{12, 2, 4} {
		w.Rotate()
		w.Now = noon.Add(time.Duration(minute) * time.Minute)
		s.Put("", settings(n+2))
	}
	j, of := open(t, w), selectionOf(t, "cm")
	for minute, want := range map[int]string{1: "settings=1", 3: "settings=3", 5: "settings=4", 13: "settings=4"} {
		if state, _ := at(t, j, of, argument.Moment{Time: noon.Add(time.Duration(minute) * time.Minute)}); state != want {
			t.Errorf("at minute %d: %q, want %q", minute, state, want)
		}
	}
	if got := seqs(t, j, of, argument.Moment{Time: noon.Add(3 * time.Minute)}, argument.Moment{}); !slices.Equal(got, []uint64{3, 5}) {
		t.Errorf("history since minute 3: %d", got)
	}
}

// TestInsideGap cuts at each line of a GAP with a difference and of one without, and at times in them.
func TestInsideGap(t *testing.T) {
	for _, differs := range []bool{true, false} {
		w := begin(t)
		s := w.Stream("configmaps", "ConfigMap")
		s.Snapshot()
		s.Put("", settings(1))
		s.Synced() // line 2
		w.Now = noon.Add(time.Minute)
		w.Confirm(false, s)
		w.Now = noon.Add(2 * time.Minute)
		s.Gap(line.Expired, noon.Add(time.Minute)) // line 3
		after, n := "settings=1", uint64(4)
		if differs {
			s.Put("", settings(2))
			after, n = "settings=2", 5
		}
		w.Now = noon.Add(3 * time.Minute)
		s.Synced()
		w.Now = noon.Add(4 * time.Minute)
		w.Confirm(false, s)

		j, of := open(t, w), selectionOf(t, "cm")
		for seq, certain := range map[uint64]bool{1: false, 2: true, 3: false, n - 1: false, n: true} {
			if _, doubts := at(t, j, of, argument.Moment{Seq: seq}); (doubts == "") != certain {
				t.Errorf("a difference: %t, seq %d: %q", differs, seq, doubts)
			}
		}
		// An object on both sides was not written in between. Others may have come and gone.
		one, never := selectionOf(t, "cm/settings"), selectionOf(t, "cm/never")
		one.Namespaces, never.Namespaces = []string{"shop"}, []string{"shop"}
		for _, of := range []*argument.Selection{of, one, never, selectionOf(t, "cm/settings")} {
			stands := of == one && !differs
			for second, certain := range map[int]bool{-1: false, 30: true, 90: stands, 150: stands, 200: true, 300: false} {
				m := argument.Moment{Time: noon.Add(time.Duration(second) * time.Second)}
				state, doubts := at(t, j, of, m)
				want := map[bool]string{true: "settings=1", false: after}[second < 100]
				if of == never {
					want = ""
				}
				if (doubts == "") != certain || certain && state != want {
					t.Errorf("%v, a difference: %t, second %d: %q, %q", of, differs, second, state, doubts)
				}
				all, err := j.Uncovered(t.Context(), of, argument.Moment{Time: noon}, m)
				if certain = certain && (second < 60 || stands); err != nil || second >= 0 && (len(all) == 0) != certain {
					t.Errorf("%v, a difference: %t, up to second %d: %+v, %v", of, differs, second, all, err)
				}
			}
		}
	}
}

// What a stream receives after a list is not of the gap before it, even where it is late and of the same second.
func TestLateAfterGap(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", settings(1))
	s.Synced()
	w.Now = noon.Add(time.Minute)
	w.Confirm(false, s)
	w.Now = noon.Add(2 * time.Minute)
	s.Gap(line.Expired, noon.Add(time.Minute))
	w.Now = noon.Add(3*time.Minute + time.Second/2)
	s.Synced()
	w.Now, w.Made = noon.Add(3*time.Minute+30*time.Second), noon.Add(3*time.Minute)
	s.Put("kubectl", settings(2))
	w.Confirm(true, s)
	w.Now = noon.Add(5 * time.Minute)
	w.Confirm(false, s)

	j, one := open(t, w), selectionOf(t, "cm/settings")
	one.Namespaces = []string{"shop"}
	state, doubts := at(t, j, one, argument.Moment{Time: noon.Add(90 * time.Second)})
	if state != "settings=1" || doubts != "" {
		t.Errorf("in the gap: %q, %q", state, doubts)
	}
}

// What a stream receives before a GAP, while nothing confirms it, may have been made since it was confirmed.
func TestReceivedBeforeAGap(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Put("", settings(1))
	s.Synced()
	w.Now = noon.Add(time.Minute)
	w.Confirm(false, s)
	w.Kill()
	w.Now = noon.Add(10 * time.Minute)
	w.Start()
	s.Delete("c1") // line 3
	w.Now = noon.Add(11 * time.Minute)
	s.Gap(line.Expired, noon.Add(10*time.Minute))
	w.Now = noon.Add(12 * time.Minute)
	s.Synced()
	w.Now = noon.Add(13 * time.Minute)
	s.Put("", settings(2)) // line 6
	w.Confirm(false, s)

	j := open(t, w)
	want := map[uint64]time.Time{3: noon.Add(time.Minute), 6: {}}
	for v, err := range j.History(t.Context(), selectionOf(t, "cm"), argument.Moment{}, argument.Moment{}) {
		if err != nil {
			t.Fatal(err)
		}
		if from, asked := want[v.Seq]; asked {
			got, err := j.NotBefore(t.Context(), v.Fields)
			if delete(want, v.Seq); err != nil || !got.Equal(from) {
				t.Errorf("line %d was not made before %v, %v; want %v", v.Seq, got, err, from)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
}

// Two GAPs are two, also where nothing was confirmed after the list between them: each has its reason, and an
// object that the first list shows as it was is not in doubt before it.
func TestListBetweenGaps(t *testing.T) {
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	minute := func(n int) { w.Now = noon.Add(time.Duration(n) * time.Minute) }
	s.Snapshot()
	s.Put("", settings(1))
	s.Synced()
	minute(1)
	w.Confirm(false, s)
	minute(2)
	s.Gap(line.Expired, noon.Add(time.Minute))
	minute(3)
	s.Synced()
	minute(4)
	s.Gap(line.PositionRefused, noon.Add(3*time.Minute))
	s.Put("", settings(2))
	minute(5)
	s.Synced()
	minute(6)
	w.Confirm(false, s)

	j, one := open(t, w), selectionOf(t, "cm/settings")
	one.Namespaces = []string{"shop"}
	for second, want := range map[int][2]string{
		30:  {"", ""},
		90:  {"configmaps: Expired", ""},
		170: {"configmaps: Expired", ""},
		210: {"configmaps: PositionRefused", "configmaps: PositionRefused"},
		330: {"", ""},
	} {
		for n, of := range []*argument.Selection{selectionOf(t, "cm"), one} {
			m := argument.Moment{Time: noon.Add(time.Duration(second) * time.Second)}
			if _, doubts := at(t, j, of, m); doubts != want[n] {
				t.Errorf("%v at second %d: %q, want %q", of.Objects, second, doubts, want[n])
			}
		}
	}
	to := argument.Moment{Time: noon.Add(330 * time.Second)}
	all, err := j.Uncovered(t.Context(), selectionOf(t, "cm"), argument.Moment{Time: noon}, to)
	if got := reasons(all); err != nil || got != "configmaps: Expired; configmaps: PositionRefused" {
		t.Errorf("over both: %q, %v", got, err)
	}
}

// TestOutage has lines that came late: those that say when their changes were made are put there, and those that do not are
// a reason to doubt what depends on it.
func TestOutage(t *testing.T) {
	w := begin(t)
	s, other := w.Stream("configmaps", "ConfigMap"), w.Stream("secrets", "Secret")
	for _, of := range []*journaltest.Stream{s, other} {
		of.Snapshot()
		of.Put("", settings(1))
		of.Synced()
	}
	s.Put("", strings.ReplaceAll(settings(7), "settings", "more"))
	w.Now = noon.Add(time.Minute)
	w.Confirm(false, s, other)
	w.Kill()
	w.Now, w.Made = noon.Add(10*time.Minute), noon.Add(5*time.Minute)
	w.Start()
	s.Put("kubectl", settings(2))
	other.Delete("c1")
	w.Confirm(true, s, other)
	w.Now = w.Now.Add(time.Minute)
	w.Confirm(false, s, other)

	j := open(t, w)
	for minute, want := range map[int]string{4: "settings=1", 6: "settings=2", 11: "settings=2"} {
		m := argument.Moment{Time: noon.Add(time.Duration(minute)*time.Minute - time.Second)}
		if state, doubts := at(t, j, selectionOf(t, "cm/settings"), m); state != want || doubts != "" {
			t.Errorf("at minute %d: %q, %q", minute, state, doubts)
		}
		_, doubts := at(t, j, selectionOf(t, "secrets"), m)
		if (doubts == "") != (minute == 11) {
			t.Errorf("at minute %d: %q", minute, doubts)
		}
		all, err := j.Uncovered(t.Context(), selectionOf(t, "secrets"), argument.Moment{Time: noon}, m)
		if err != nil || (len(all) == 0) != (minute == 11) {
			t.Errorf("up to minute %d: %+v, %v", minute, all, err)
		}
	}
	outages := j.Outages(selectionOf(t, "cm,secrets"))
	if len(outages) != 1 || !outages[0].From.Equal(noon.Add(time.Minute)) || outages[0].Streams != 2 || outages[0].Reason != coverage.Unknown {
		t.Errorf("outages %+v", outages)
	}
}

// TestLatest asks for now: a stream that is followed is as good as there, but not for long. An open end claims nothing: the
// answer is as of the last time that is covered, and says so, unless all that was asked for is later.
func TestLatest(t *testing.T) {
	for _, c := range []struct {
		ago     time.Duration
		stopped bool
		certain bool
	}{{5 * time.Second, false, true}, {5 * time.Second, true, false}, {15 * time.Second, false, false}, {time.Hour, false, false}} {
		w := begin(t)
		w.Kill()
		w.Now = time.Now().Add(-c.ago - time.Second)
		w.Start()
		s := w.Stream("configmaps", "ConfigMap")
		s.Snapshot()
		s.Put("", settings(1))
		s.Synced()
		w.Now = w.Now.Add(time.Second)
		w.Confirm(false, s)
		if c.stopped {
			w.Stop()
		}
		j, of := open(t, w), selectionOf(t, "cm")
		state, doubts := at(t, j, of, argument.Latest())
		if state != "settings=1" || (doubts == "") != c.certain {
			t.Errorf("%+v: %q, %q", c, state, doubts)
		}
		if _, doubts := at(t, j, of, argument.Moment{Time: time.Now().Add(-3 * time.Second)}); (doubts == "") != c.certain {
			t.Errorf("%+v, three seconds ago: %q", c, doubts)
		}
		minute, err := argument.ParseMoment("1m", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for name, ends := range map[string]struct {
			since argument.Moment
			open  bool
		}{"everything": {argument.Moment{}, true}, "a time": {argument.Moment{Time: time.Now().Add(-time.Minute)}, c.ago < time.Minute}, "how long ago": {minute, false}} {
			all, err := j.Uncovered(t.Context(), of, ends.since, argument.Moment{})
			if !ends.since.IsZero() { // nothing was watched before
				all = slices.DeleteFunc(all, func(d question.Doubt) bool { return d.From.IsZero() })
			}
			if err != nil || (len(all) == 0) != c.certain || len(all) > 0 && all[0].AsOf != ends.open {
				t.Errorf("%+v, since %s: %+v, %v", c, name, all, err)
			}
		}
		st, err := j.State(t.Context(), of, argument.LastKnown())
		if err != nil || len(st.Items) != 1 || (len(st.Doubts) == 0) != c.certain || !c.certain && !st.Doubts[0].AsOf {
			t.Errorf("%+v, as of when it is: %+v, %v", c, st, err)
		}
	}
}

// TestLargeObjects has versions of 5 MB: memory is bounded by the object, not by their number.
func TestLargeObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const versions, size, most = 24, 5 << 20, 60 << 20
	w := begin(t)
	s := w.Stream("configmaps", "ConfigMap")
	s.NoChanges = true
	s.Snapshot()
	s.Synced()
	large := strings.Repeat("0123456789abcdef", size/16)
	for n := range versions {
		if n%6 == 0 {
			w.Rotate()
		}
		s.Put("kubectl", strings.Replace(settings(n), `"n":`, `"large":"`+large+`","n":`, 1))
	}
	j, of := open(t, w), selectionOf(t, "cm")
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for v, err := range j.History(t.Context(), of, argument.Moment{}, argument.Moment{}) {
		if err != nil {
			t.Fatal(err)
		}
		if v.AboutStream() {
			continue
		}
		previous, err := v.Previous(t.Context())
		if err != nil || (previous == nil) != (n == 0) || previous != nil && len(previous.Object) < size {
			t.Fatalf("version %d: %v, %v", n, previous != nil, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&now)
		if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > most {
			t.Fatalf("version %d: %d MB more are in use", n, grown>>20)
		}
		n++
	}
	if state, _ := at(t, j, of, argument.Moment{Seq: 10}); n != versions || state != "settings=8" {
		t.Errorf("%d versions, %q", n, state)
	}
}
