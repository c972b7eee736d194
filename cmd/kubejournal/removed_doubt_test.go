package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kubejournal/test/journaltest"
)

// flooded is a journal in which namespace evil has a file full of lines that are about to be removed.
type flooded struct {
	*journaltest.Journal
	t          *testing.T
	start      time.Time
	configmaps *journaltest.Stream
	all        []*journaltest.Stream
	random     *rand.Rand
	pads       int
}

// newFlooded begins with evil/x and shop/y in a file of their own, which is too small to lose lines.
func newFlooded(t *testing.T, more ...*journaltest.Stream) *flooded {
	start := time.Now().Add(-40 * time.Minute).Truncate(time.Second)
	j := journaltest.New(t, filepath.Join(t.TempDir(), "journal.jsonl"), start)
	f := &flooded{Journal: j, t: t, start: start, configmaps: j.Stream("configmaps", "ConfigMap"), random: rand.New(rand.NewPCG(3, 4))}
	f.all = slices.Concat(more, []*journaltest.Stream{f.configmaps})
	f.configmaps.Snapshot()
	f.put("x", "old")
	f.configmaps.Put("", `{"metadata":{"namespace":"shop","name":"y","uid":"b1"},"data":{"n":"0"}}`)
	f.configmaps.Synced()
	return f
}

func (f *flooded) minute(n float64) { f.Now = f.start.Add(time.Duration(n * float64(time.Minute))) }

func (f *flooded) at(n float64) string {
	return f.start.Add(time.Duration(n * float64(time.Minute))).Format(time.RFC3339)
}

// put writes a version of an object of namespace evil.
func (f *flooded) put(name, value string) {
	f.configmaps.Put("mallory", fmt.Sprintf(`{"metadata":{"namespace":"evil","name":%q,"uid":"a1"},"data":{"n":%q}}`, name, value))
}

func (f *flooded) shop(value string) {
	f.configmaps.Put("alice", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"y","uid":"b1"},"data":{"n":%q}}`, value))
}

// pad writes what takes room.
func (f *flooded) pad(by string) {
	for range 100 {
		f.pads++
		f.configmaps.Put(by, fmt.Sprintf(`{"metadata":{"namespace":"evil","name":"pad-%d","uid":"%x"},"data":{"n":"%s"}}`, f.pads, 0xe00000+f.pads, noise(f.random)))
	}
}

func noise(random *rand.Rand) string {
	b := make([]byte, 600)
	for i := range b {
		b[i] = "0123456789abcdef"[random.IntN(16)]
	}
	return string(b)
}

// rotate makes the next line the first of another file.
func (f *flooded) rotate() {
	f.Confirm(false, f.all...)
	f.Rotate()
}

// compare asks before lines are removed, and after: what has status 0 then had it before, and is the same.
func (f *flooded) compare(questions ...[]string) {
	f.t.Helper()
	confirmNow(f.t, f.Journal, f.Path, f.all...)
	ask := func(args []string) (int, string, string) {
		f.t.Helper()
		return execute(f.t, append(args, "--journal", f.Path)...)
	}
	type answer struct {
		status         int
		stdout, stderr string
	}
	var before []answer
	for _, q := range questions {
		status, stdout, stderr := ask(q)
		before = append(before, answer{status, stdout, stderr})
	}
	f.Compact(12 << 10)
	confirmNow(f.t, f.Journal, f.Path, f.all...)
	for i, q := range questions {
		status, stdout, stderr := ask(q)
		f.t.Logf("%q: %d, then %d", q, before[i].status, status)
		if status == 0 && (before[i].status != 0 || stdout != before[i].stdout) {
			f.t.Errorf("%q: status 0, and was %d\n%s%s\nbefore\n%s%s", q, before[i].status, stdout, stderr, before[i].stdout, before[i].stderr)
		}
	}
}

// The net difference of a gap was removed: an object that has the same last line before and after it need not stand.
func TestRemovedInGap(t *testing.T) {
	f := newFlooded(t)
	f.minute(1)
	f.rotate()
	f.minute(2)
	f.shop("1")
	f.Confirm(false, f.all...)
	confirmed := f.Now
	f.minute(6)
	f.configmaps.Gap("Expired", confirmed)
	f.put("x", "new")
	f.pad("")
	f.configmaps.Synced()
	f.minute(7)
	f.rotate()
	f.shop("2")
	f.compare(
		[]string{"get", "cm/x", "-n", "evil", "--at", f.at(4), "-o", "json"},
		[]string{"history", "cm/x", "-n", "evil", "--until", f.at(4)},
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(3), "--until", f.at(4)},
		[]string{"get", "cm/y", "-n", "shop", "--at", f.at(8)},
	)
}

// The clock was set back after the lines that were removed.
func TestRemovedClockBack(t *testing.T) {
	f := newFlooded(t)
	f.minute(1)
	f.rotate()
	f.minute(12)
	f.put("x", "new")
	f.pad("mallory")
	f.minute(5)
	f.shop("1")
	f.rotate()
	f.minute(6)
	f.shop("2")
	f.compare(
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(9)},
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(11), "--until", f.at(13)},
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(4), "--until", f.at(5.5)},
		[]string{"get", "cm/x", "-n", "evil", "--at", f.at(12.5)},
	)
}

// Rows within which the clock was set back.
func TestRemovedClockBackWithin(t *testing.T) {
	f := newFlooded(t)
	f.minute(1)
	f.rotate()
	f.minute(12)
	f.pad("mallory")
	f.minute(5)
	f.put("x", "new")
	f.minute(13)
	f.pad("mallory")
	f.rotate()
	f.minute(14)
	f.shop("2")
	f.compare(
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(4), "--until", f.at(6)},
		[]string{"history", "cm/x", "-n", "evil", "--until", f.at(6)},
		[]string{"get", "cm/x", "-n", "evil", "--at", f.at(6)},
	)
}

// A version of the server was a removed line's.
func TestRemovedVersion(t *testing.T) {
	f := newFlooded(t)
	f.minute(1)
	f.rotate()
	f.minute(2)
	f.shop("1") // 40
	f.pad("mallory")
	f.put("x", "new")
	f.shop("2")
	f.minute(3)
	f.rotate()
	f.shop("3")
	var questions [][]string
	for _, rv := range []string{"20", "22", "32", "42", "52", "102", "1022", "1042", "1052", "1062"} {
		questions = append(questions,
			[]string{"history", "cm", "-A", "--since", "rv:" + rv},
			[]string{"history", "cm", "-A", "--until", "rv:" + rv},
			[]string{"history", "cm", "-n", "evil", "--since", "rv:" + rv},
			[]string{"get", "cm", "-A", "--at", "rv:" + rv},
			[]string{"get", "cm", "-n", "shop", "--at", "rv:" + rv, "-o", "json"},
			[]string{"history", "cm", "-n", "shop", "--since", "rv:" + rv},
		)
	}
	f.compare(questions...)
}

// The version before one in the window was removed.
func TestRemovedPrevious(t *testing.T) {
	f := newFlooded(t)
	f.configmaps.NoChanges = true
	f.minute(1)
	f.rotate()
	f.minute(2)
	f.put("x", "middle")
	f.pad("mallory")
	f.minute(3)
	f.rotate()
	f.shop("1")
	f.minute(6)
	f.put("x", "new")
	f.configmaps.NoChanges = false
	f.put("x", "newer")
	f.compare(
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(5)},
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(5), "-o", "json"},
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(5), "--field", "data.n"},
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(5), "--field", "data"},
		[]string{"diff", "cm/x", "-n", "evil", "--at", f.at(4), "--and", f.at(8)},
		[]string{"blame", "cm/x", "-n", "evil"},
	)
}

// The last state of a deleted object was removed.
func TestRemovedLastState(t *testing.T) {
	f := newFlooded(t)
	f.minute(1)
	f.rotate()
	f.minute(2)
	f.put("x", "middle")
	f.pad("mallory")
	f.minute(3)
	f.rotate()
	f.shop("1")
	f.Confirm(false, f.all...)
	f.minute(6)
	f.configmaps.Gap("Expired", f.Now.Add(-time.Second))
	f.configmaps.Forgotten("a1")
	f.configmaps.Synced()
	f.compare(
		[]string{"history", "--deleted", "-n", "evil", "--since", f.at(5)},
		[]string{"history", "--deleted", "-n", "evil", "--since", f.at(5), "-o", "json"},
		[]string{"get", "--deleted", "cm", "-n", "evil", "--since", f.at(5), "-o", "json"},
		[]string{"history", "cm", "-n", "evil", "--since", f.at(5), "-o", "json"},
	)
}

// Events about an object in no namespace were removed.
func TestRemovedRelated(t *testing.T) {
	f := newFlooded(t)
	nodes, leases, events := f.Stream("nodes", "Node"), f.Stream("leases.coordination.k8s.io", "Lease"), f.Stream("events", "Event")
	f.all = append(f.all, nodes, leases, events)
	for _, s := range []*journaltest.Stream{nodes, leases, events} {
		s.Snapshot()
		s.Synced()
	}
	f.minute(1)
	nodes.Put("kubelet", `{"metadata":{"name":"node-1","uid":"d1"}}`)
	leases.Put("kubelet", fmt.Sprintf(`{"metadata":{"namespace":"kube-node-lease","name":"node-1","uid":"d2","ownerReferences":[{"apiVersion":"v1","kind":"Node",`+
		`"name":"node-1","uid":%q}]}}`, journaltest.UID("d1")))
	f.rotate()
	f.minute(2)
	for n := range 100 {
		events.Put("kubelet", fmt.Sprintf(`{"metadata":{"namespace":"default","name":"node-1.%d","uid":"f%d"},"involvedObject":{"kind":"Node","name":"node-1",`+
			`"uid":%q},"reason":"NodeNotReady","message":"%s"}`, n, n, journaltest.UID("d1"), noise(f.random)))
	}
	f.minute(3)
	f.rotate()
	nodes.Put("kubelet", `{"metadata":{"name":"node-1","uid":"d1","labels":{"a":"b"}}}`)
	f.compare(
		[]string{"history", "node/node-1", "--related"},
		[]string{"history", "node/node-1", "--related", "--since", f.at(1.5), "--until", f.at(2.5)},
		[]string{"history", "node/node-1"},
	)
}

// Lines that were received late and do not say when they were made were removed.
func TestRemovedLate(t *testing.T) {
	f := newFlooded(t)
	f.minute(1)
	f.rotate()
	f.minute(2)
	f.shop("1")
	f.Confirm(false, f.all...)
	f.Stop()
	f.minute(6)
	f.Start()
	f.Made = f.start.Add(3 * time.Minute)
	f.configmaps.Put("", `{"metadata":{"namespace":"evil","name":"x","uid":"a1"},"data":{"n":"new"}}`)
	f.Made = time.Time{}
	f.pad("mallory")
	f.Confirm(true, f.all...)
	f.minute(7)
	f.rotate()
	f.shop("2")
	f.compare(
		[]string{"get", "cm/x", "-n", "evil", "--at", f.at(4), "-o", "json"},
		[]string{"history", "cm/x", "-n", "evil", "--until", f.at(4)},
		[]string{"history", "cm/x", "-n", "evil", "--since", f.at(3), "--until", f.at(4)},
		[]string{"history", "--deleted", "-n", "evil", "--since", f.at(3), "--until", f.at(4)},
		[]string{"get", "cm/y", "-n", "shop", "--at", f.at(4)},
		[]string{"get", "cm/y", "-n", "shop", "--at", f.at(8)},
	)
}
