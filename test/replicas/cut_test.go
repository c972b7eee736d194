package replicas_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"kubejournal/test/invariant"
	"kubejournal/test/replicas"
)

var (
	cutSeed = flag.Int64("cut.seed", -1, "cut the journal of this seed only")
	cuts    = flag.Int("cut.count", 1000, "how many journals TestCut cuts")
)

// entry is a line of the journal that is cut.
type entry struct {
	stream, typ, origin, name, uid string
	version, from                  int
	at                             int // when it was received
	count                          [3]int
}

func (e entry) about() bool { return e.uid != "" }

// text is its line; other is of a replica that received it at another time.
func (e entry) text(seq, term, other int) string {
	l := fmt.Sprintf(`{"seq":%d,"term":%d,"time":"2026-11-20T16:%02d:%02d.%09dZ","type":%q`,
		seq, term, e.at/60, e.at%60, other, e.typ)
	rest := fmt.Sprintf(`"stream":%q,"version":"v1","resource":%[1]q,"kind":"X","resourceVersion":"%d"`,
		e.stream, e.version)
	switch e.typ {
	case invariant.Gap:
		return l + fmt.Sprintf(`,"id":"%s/%d/GAP",%s,"reason":"Expired","fromResourceVersion":"%d"}`,
			e.stream, e.version, rest, e.from)
	case invariant.Synced:
		return l + fmt.Sprintf(`,"id":"%s/%d/SYNCED",%s,"count":{"added":%d,"modified":%d,"deleted":%d,"unchanged":0}}`,
			e.stream, e.version, rest, e.count[0], e.count[1], e.count[2])
	}
	if e.typ == invariant.Deleted && e.origin == invariant.FromRelist {
		rest += `,"finalStateKnown":false`
	}
	return l + fmt.Sprintf(`,"origin":%q,"id":"%s/%d/%s",%s,"name":%q,"uid":%q,"object":{"v":%d}}`,
		e.origin, e.uid, e.version, e.typ, rest, e.name, e.uid, e.version)
}

// made is a journal of one daemon: first lists, watches, and lists after a GAP, each in one piece.
type made struct {
	r       *rand.Rand
	all     []entry
	version int
	uids    int
}

// state returns what the lines of a stream come to: by uid, the last one about each object.
func state(lines []entry, stream string) map[string]entry {
	live := make(map[string]entry)
	for _, e := range lines {
		switch {
		case e.stream != stream || !e.about():
		case e.typ == invariant.Deleted:
			delete(live, e.uid)
		default:
			live[e.uid] = e
		}
	}
	return live
}

// change makes a change of a stream that its lines can tell.
func (m *made) change(stream, origin string, at int, but map[string]bool) (entry, bool) {
	m.version++
	e := entry{stream: stream, origin: origin, name: string(rune('a' + m.r.IntN(5))), version: m.version, at: at}
	for _, o := range state(m.all, stream) {
		if o.name == e.name {
			e.uid = o.uid
			e.typ = invariant.Modified
			if m.r.IntN(3) == 0 {
				e.typ = invariant.Deleted
			}
			if e.typ == invariant.Deleted && origin == invariant.FromRelist {
				e.version = o.version
			}
		}
	}
	if e.uid == "" {
		m.uids++
		e.uid, e.typ = fmt.Sprintf("u%d", m.uids), invariant.Added
	}
	return e, !but[e.uid]
}

// list writes a list: the first one of a stream, or one after a GAP.
func (m *made) list(stream string, first bool) {
	at, origin := len(m.all), invariant.FromRelist
	if first {
		origin = invariant.FromSnapshot
	} else {
		m.version++
		m.all = append(m.all, entry{
			stream: stream, typ: invariant.Gap, from: m.reached(stream), version: m.version + 100, at: at,
		})
	}
	end, shown := entry{stream: stream, typ: invariant.Synced, at: at}, make(map[string]bool)
	for range m.r.IntN(6) {
		if e, ok := m.change(stream, origin, at, shown); ok && (!first || e.typ == invariant.Added) {
			shown[e.uid] = true
			m.all = append(m.all, e)
			end.count[slices.Index([]string{invariant.Added, invariant.Modified, invariant.Deleted}, e.typ)]++
		}
	}
	m.version += 100
	end.version = m.version
	m.all = append(m.all, end)
}

// reached is the version that a stream has come to.
func (m *made) reached(stream string) (version int) {
	for _, e := range m.all {
		if e.stream == stream {
			version = max(version, e.version)
		}
	}
	return version
}

func makeJournal(r *rand.Rand) *made {
	m, streams := &made{r: r}, []string{"pods", "nodes"}[:1+r.IntN(2)]
	for _, s := range streams {
		m.list(s, true)
	}
	for range r.IntN(40) {
		stream := streams[r.IntN(len(streams))]
		if r.IntN(8) == 0 {
			m.list(stream, false)
			continue
		}
		if e, ok := m.change(stream, invariant.FromWatch, len(m.all), nil); ok {
			m.all = append(m.all, e)
		}
	}
	return m
}

// cutter makes of a journal those of replicas, as the docs say that they write ("Several replicas").
type cutter struct {
	*made
	texts     []string // of the replicas' journals
	seqs      []int
	leader    int
	term      int
	published map[string]int // by stream: the first line that the next leader may write
	moved     bool           // a list comes later than it was written
	// open has, by stream, who has begun a list and not finished, while nobody else has written of the stream: with its
	// next line it would continue, and what it writes after another's turn is a list of everything.
	open map[string]int
}

func (c *cutter) write(e entry, again bool) {
	other := 0
	if again {
		other = 1 + c.r.IntN(9)
	}
	if who, is := c.open[e.stream]; is && who != c.leader {
		delete(c.open, e.stream)
	}
	c.seqs[c.leader]++
	c.texts[c.leader] += e.text(c.seqs[c.leader], c.term, other) + "\n"
}

// lead begins a replica's turn.
func (c *cutter) lead(leader int) {
	c.leader, c.term = leader, c.term+1+c.r.IntN(2)
}

// others returns who may lead next.
func (c *cutter) others() (all []int) {
	for n := range c.texts {
		if n != c.leader && !slices.Contains(slices.Collect(maps.Values(c.open)), n) {
			all = append(all, n)
		}
	}
	return all
}

// takeover begins the turn of another replica before a line, or of several in a row, and has the last one come to the
// line. There must be others.
func (c *cutter) takeover(before int) {
	for others := c.others(); len(others) > 0; others = c.others() {
		c.lead(others[c.r.IntN(len(others))])
		if c.again(before) {
			return
		}
	}
	c.lead(c.leader)
	for !c.again(before) {
		c.lead(c.leader)
	}
}

// again writes what the new leader of a turn writes again, of the lines before one: those of a stream from where it was
// published, in order. It reports whether the turn has not ended meanwhile.
func (c *cutter) again(before int) bool {
	for n, e := range c.all[:before] {
		first, there := c.published[e.stream]
		if !there {
			first = before
		}
		if n >= first && e.origin == invariant.FromWatch {
			if c.r.IntN(20) == 0 {
				return false
			}
			c.write(e, true)
		}
	}
	return true
}

// publish moves what is published on, somewhere up to a line, not within what a list stands in.
func (c *cutter) publish(upTo int) {
	for n, e := range c.all[:upTo] {
		if e.origin != invariant.FromWatch || c.r.IntN(3) == 0 {
			c.published[e.stream] = max(c.published[e.stream], n+1)
		}
	}
}

// behind is what a replica writes of a list, of whose stream it knows the lines before one alone.
func (c *cutter) behind(gap, end, known int) (raw []entry) {
	stream := c.all[gap].stream
	then, now, after := state(c.all[:known], stream), state(c.all[:gap], stream), state(c.all[:end], stream)
	first, last := c.all[gap], c.all[end]
	first.from, last.count = 0, [3]int{}
	for _, e := range c.all[:known] {
		if e.stream == stream {
			first.from = max(first.from, e.version)
		}
	}
	kind := func(uid string) string {
		if _, there := then[uid]; there {
			return invariant.Modified
		}
		return invariant.Added
	}
	raw = append(raw, first)
	for _, e := range c.all[gap+1 : end] {
		before, there := then[e.uid]
		switch {
		case e.typ == invariant.Deleted && !there:
			continue
		case e.typ == invariant.Deleted:
			e.version = before.version
		default:
			e.typ = kind(e.uid)
		}
		raw = append(raw, e)
	}
	for _, uid := range slices.Sorted(maps.Keys(then)) { // gone, and this one has not heard of it
		if _, there := now[uid]; !there {
			e := then[uid]
			e.typ, e.origin, e.at = invariant.Deleted, invariant.FromRelist, first.at
			raw = append(raw, e)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(after)) { // as it was written already
		e := after[uid]
		if e.origin == invariant.FromRelist && e.at == first.at || e.version == then[uid].version {
			continue
		}
		e.typ, e.origin, e.at = kind(uid), invariant.FromRelist, first.at
		raw = append(raw, e)
	}
	for _, e := range raw[1:] {
		last.count[slices.Index([]string{invariant.Added, invariant.Modified, invariant.Deleted}, e.typ)]++
	}
	return append(raw, last)
}

// endOf is where the list ends that a line is the first of; 0 where it is none.
func (c *cutter) endOf(at int) int {
	e := c.all[at]
	inside := at > 0 && c.all[at-1].origin == invariant.FromSnapshot && c.all[at-1].stream == e.stream
	if e.typ != invariant.Gap && (e.origin != invariant.FromSnapshot || inside) {
		return 0
	}
	for c.all[at].typ != invariant.Synced {
		at++
	}
	return at
}

// continues writes the next line, or the list that it is the first of, and returns where the next one is.
func (c *cutter) continues(at, end int) int {
	for end = max(at, end); at <= end; at++ {
		c.write(c.all[at], false)
	}
	return at
}

func cut(m *made, count int) *cutter {
	c := &cutter{
		made: m, texts: make([]string, count), seqs: make([]int, count), term: 1,
		published: make(map[string]int), open: make(map[string]int),
	}
	for at := 0; at < len(c.all); {
		end := c.endOf(at)
		switch what := c.r.IntN(10); {
		case len(c.others()) == 0:
			at = c.continues(at, end)
		case what == 0: // a takeover
			c.publish(at)
			c.takeover(at)
		case what < 4 && end > at: // one in a list, which is void
			for _, e := range c.all[at : at+1+c.r.IntN(end-at)] {
				c.write(e, true)
			}
			c.open[c.all[at].stream] = c.leader
			c.publish(at)
			c.takeover(at)
		case what < 6 && end > at && c.all[at].typ == invariant.Gap: // one by who had not heard of all
			c.publish(at)
			known := max(c.published[c.all[at].stream], 1)
			stream := c.all[at].stream
			c.published[stream] = at // it does not write them again
			c.takeover(at)
			for _, e := range c.behind(at, end, known) {
				c.write(e, false)
			}
			c.published[stream] = end + 1
			at = end + 1
		default:
			// a list that is not published when the next one leads; one that shows nothing new then would be left out
			if next := c.watches(at); next > at && c.all[next+1].typ != invariant.Synced && c.r.IntN(2) == 0 {
				c.moved = true
				end, lister := c.endOf(next), c.leader
				for _, e := range c.behind(next, end, at) {
					c.write(e, false)
				}
				c.publish(at)
				others := c.others()
				c.lead(others[c.r.IntN(len(others))])
				for _, e := range c.all[at:next] {
					c.write(e, false)
				}
				c.lead(lister)
				c.published[c.all[end].stream] = end + 1
				at = end + 1
				continue
			}
			at = c.continues(at, end)
		}
	}
	return c
}

// watches returns where the GAP of a stream's list is, if there are watch lines of it alone until then.
func (c *cutter) watches(at int) int {
	for n := at; n < len(c.all) && c.all[n].stream == c.all[at].stream; n++ {
		if c.all[n].typ == invariant.Gap {
			return n
		}
		if c.all[n].origin != invariant.FromWatch {
			break
		}
	}
	return at
}

// shown is what a reader goes by: a line without seq and term, and of a list without the id, which is as it was
// written. The lines of a list are in no order.
func shown(t *testing.T, lines []invariant.Line, stream string) (all []string) {
	t.Helper()
	for _, l := range lines {
		if stream != "" && l.Stream != stream {
			continue
		}
		var members map[string]any
		if err := json.Unmarshal(l.Text(), &members); err != nil {
			t.Fatal(err)
		}
		delete(members, "term")
		if stream != "" {
			delete(members, "seq")
		}
		if l.Origin == invariant.FromRelist {
			delete(members, "id")
			delete(members, "seq")
		}
		text, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cmp.Or(map[bool]string{true: "L"}[l.Origin == invariant.FromRelist], "-")+string(text))
	}
	for from := 0; from < len(all); from++ {
		to := from
		for to < len(all) && all[to][0] == 'L' {
			to++
		}
		slices.Sort(all[from:to])
		from = max(from, to-1)
	}
	return all
}

// A journal that is cut into those of replicas, with the repeats, unfinished lists and lists by who has not heard of
// all that the docs allow, is merged to what it was.
func TestCut(t *testing.T) {
	var again, lines, moved int
	if testing.Short() {
		*cuts /= 10
	}
	for seed := range uint64(*cuts) {
		if *cutSeed >= 0 {
			seed = uint64(*cutSeed)
		}
		r := rand.New(rand.NewPCG(seed, 1))
		c := cut(makeJournal(r), 2+r.IntN(2))
		var one string
		for n, e := range c.all {
			one += e.text(n+1, 1, 0) + "\n"
		}
		var journals [][]invariant.Line
		for n, text := range append(c.texts, one) {
			read, err := invariant.Parse(fmt.Sprint("journal ", n), 1, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			journals = append(journals, read)
		}
		want := journals[len(c.texts)]
		set := &invariant.Replicas{Journals: journals[:len(c.texts)]}
		merged, err := replicas.Merge(set.Journals...)
		if err != nil {
			t.Fatal(err)
		}
		// A list that comes later stands between lines of other streams.
		streams := []string{"pods", "nodes"}
		if !c.moved {
			streams = append(streams, "")
		} else {
			moved++
		}
		for _, stream := range streams {
			if got, want := shown(t, merged, stream), shown(t, want, stream); !slices.Equal(got, want) {
				t.Fatalf("seed %d, stream %q (-was +merged):\n%s\nof\n%s", seed, stream, diff.Diff(want, got),
					strings.Join(c.texts, "\n"))
			}
		}
		lines, again = lines+len(want), again+len(set.Repeated())
		if *cutSeed >= 0 {
			break
		}
	}
	t.Logf("%d lines, %d again, %d with lists that come later", lines, again, moved)
	if *cutSeed < 0 && (again == 0 || moved == 0) {
		t.Error("nothing was cut")
	}
}
