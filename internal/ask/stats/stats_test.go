package stats_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/ask/stats"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

// The counts are those of a judge that reads the lines themselves.
func TestCounts(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var paths []string
			for n := range 1 + random.IntN(3)/2 {
				paths = append(paths, filepath.Join(t.TempDir(), fmt.Sprintf("journal-%d.jsonl", n)))
				writeJournal(t, paths[n], random)
				unpack(t, filepath.Dir(paths[n]), random)
			}
			var raw []rawLine
			for _, path := range paths {
				raw = append(raw, readRaw(t, filepath.Dir(path))...)
			}
			for range 6 {
				args, namespaces, since, until := randomQuestion(random, raw, len(paths))
				t.Log(args, namespaces, since, until)
				check(t, paths, raw, args, namespaces, since, until)
			}
		})
	}
}

// writeJournal writes a journal with several files, of which some lines may be removed.
func writeJournal(t *testing.T, path string, random *rand.Rand) {
	j := journaltest.New(t, path, time.Now().Add(-30*time.Minute).Truncate(time.Second))
	all := []*journaltest.Stream{
		j.Stream("configmaps", "ConfigMap"), j.Stream("nodes", "Node"), j.Stream("deployments.apps", "Deployment"),
		j.Stream("configmaps?namespace=shop", "ConfigMap"),
	}
	there := make(map[string]bool)
	for n := range all {
		all[n].Snapshot()
		if random.IntN(2) == 0 {
			put(all[n], n, random, there)
		}
		all[n].Synced()
	}
	j.Confirm(false, all...)
	files := 0
	for range 40 + random.IntN(60) {
		j.Now = j.Now.Add(time.Duration(random.IntN(20)) * time.Second)
		n := random.IntN(len(all))
		switch random.IntN(12) {
		case 0:
			if files < 5 {
				j.Rotate()
				files++
			}
			put(all[n], n, random, there)
		case 1:
			all[n].Gap(line.Expired, j.Now.Add(-time.Second))
			put(all[n], n, random, there)
			all[n].Synced()
		case 2:
			for uid := range there {
				if uid[0] == byte('a'+n) {
					all[n].Delete(uid)
					delete(there, uid)
					break
				}
			}
		default:
			put(all[n], n, random, there)
		}
		j.Confirm(false, all...)
	}
	if files > 1 && random.IntN(3) == 0 {
		j.Seal()
		j.Confirm(false, all...)
	}
	if random.IntN(4) == 0 {
		for n := range 150 { // a namespace that takes most room
			if j.Now = j.Now.Add(time.Second); n%50 == 49 {
				j.Rotate()
			}
			all[0].Put("mallory", fmt.Sprintf(`{"metadata":{"namespace":"evil","name":"pad-%d","uid":"f%d"},"data":{"n":"%x%x%x%x%x%x%x%x"}}`, n, n,
				random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()))
			put(all[1], 1, random, there)
		}
		j.Confirm(false, all...)
		kept, err := journal.Measure(path)
		if err != nil {
			t.Fatal(err)
		}
		j.Compact(kept.Size * 7 / 10)
	}
	j.Kill()
}

func put(s *journaltest.Stream, n int, random *rand.Rand, there map[string]bool) {
	namespaces := []string{"shop", "evil", "kube-system"}
	at := random.IntN(len(namespaces))
	name := random.IntN(3)
	namespace := fmt.Sprintf(`"namespace":%q,`, namespaces[at])
	switch n {
	case 1:
		namespace, at = "", 0
	case 3:
		namespace, at = `"namespace":"shop",`, 0
	}
	uid := fmt.Sprintf("%c%d%d", 'a'+n, at, name)
	there[uid] = true
	by := []string{"alice", "bob/status", "kubelet", ""}[random.IntN(4)]
	s.Put(by, fmt.Sprintf(`{"metadata":{%s"name":"n-%d","uid":%q},"data":{"n":"%x","pad":%q}}`, namespace, name, uid, random.Uint64(),
		strings.Repeat("x", random.IntN(300))))
}

// unpack leaves some files plain, and some without their index or with a damaged one.
func unpack(t *testing.T, dir string, random *rand.Rand) {
	packed, err := filepath.Glob(filepath.Join(dir, "*.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range packed {
		plain := strings.TrimSuffix(path, ".gz")
		if !strings.Contains(path, "compacted") && random.IntN(3) == 0 {
			if err := os.WriteFile(plain, content(t, path), 0o600); err != nil {
				t.Fatal(err)
			}
			os.Remove(path)
		}
		base, _, _ := strings.Cut(plain, ".jsonl")
		x := base + ".jsonl.index"
		switch random.IntN(4) {
		case 0:
			os.Remove(x)
		case 1: // damaged after the header
			b := content(t, x)
			b[100+random.IntN(len(b)-100)] ^= 1
			if err := os.WriteFile(x, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func content(t *testing.T, path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(bufio.NewReader(f)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rawLine is what the judge knows of a line.
type rawLine struct {
	Seq                                                             uint64
	Time                                                            time.Time
	Type, Stream, Group, Resource, Namespace, Name, Manager, Origin string
	size                                                            int64
}

func readRaw(t *testing.T, dir string) (all []rawLine) {
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "journal") || strings.HasSuffix(f.Name(), ".index") ||
			strings.HasSuffix(f.Name(), ".coverage") || strings.HasSuffix(f.Name(), ".lock") {
			continue
		}
		for text := range strings.Lines(string(content(t, filepath.Join(dir, f.Name())))) {
			l := rawLine{size: int64(len(text))}
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(f.Name(), err)
			}
			all = append(all, l)
		}
	}
	return all
}

func randomQuestion(
	random *rand.Rand, raw []rawLine, journals int,
) (args, namespaces []string, since, until argument.Moment) {
	args = [][]string{nil, nil, nil, {"configmaps"}, {"nodes"}, {"deployments.apps"}, {"configmaps", "n-1"}}[random.IntN(7)]
	if random.IntN(3) == 0 {
		namespaces = [][]string{{"shop"}, {"evil", "shop"}}[random.IntN(2)]
	}
	if random.IntN(2) == 0 {
		a, b := raw[random.IntN(len(raw))], raw[random.IntN(len(raw))]
		if a.Time.After(b.Time) {
			a, b = b, a
		}
		since, until = argument.Moment{Time: a.Time}, argument.Moment{Time: b.Time}
		if journals == 1 && random.IntN(2) == 0 && a.Seq <= b.Seq {
			since, until = argument.Moment{Seq: a.Seq}, argument.Moment{Seq: b.Seq}
		}
		switch random.IntN(3) {
		case 0:
			since = argument.Moment{}
		case 1:
			until = argument.Moment{}
		}
	}
	return args, namespaces, since, until
}

// judged are the counts by what they are of, as text.
type judged map[string]stats.Count

func (j judged) add(key string, c stats.Count) {
	if c.Lines > 0 {
		is := j[key]
		j[key] = stats.Count{Lines: is.Lines + c.Lines, Bytes: is.Bytes + c.Bytes}
	}
}

// judge counts the lines by itself.
func judge(raw []rawLine, args, namespaces []string, since, until argument.Moment) judged {
	all := make(judged)
	for _, l := range raw {
		if since.Seq > 0 && l.Seq < since.Seq || until.Seq > 0 && l.Seq > until.Seq ||
			!since.Time.IsZero() && l.Time.Before(since.Time) || !until.Time.IsZero() && l.Time.After(until.Time) {
			continue
		}
		named := l.Resource
		if l.Group != "" {
			named += "." + l.Group
		}
		about := l.Type == "GAP" || l.Type == "SYNCED"
		ofJournal := l.Type == "REMOVED" || l.Type == "SEALED"
		switch {
		case ofJournal && len(args)+len(namespaces) > 0:
			continue
		case ofJournal:
			l.Stream = "journal"
		case len(args) > 0 && args[0] != named || len(args) > 1 && !about && args[1] != l.Name:
			continue
		case len(namespaces) > 0 && named == "nodes":
			if len(args) == 0 {
				continue // a resource that is named is shown, whatever its namespace is
			}
		case len(namespaces) > 0 && !about && !slices.Contains(namespaces, l.Namespace):
			continue
		case about && strings.Contains(l.Stream, "namespace=shop") && len(namespaces) > 0 && !slices.Contains(namespaces, "shop"):
			continue
		}
		one := stats.Count{Lines: 1, Bytes: l.size}
		all.add("all", one)
		all.add("type "+l.Type, one)
		all.add("stream "+l.Stream+" "+l.Type, one)
		at := l.Time.Local()
		all.add("hour "+at.Format("2006-01-02 15"), one)
		if about || ofJournal {
			continue
		}
		all.add("manager "+l.Manager, one)
		all.add("object "+named+" "+l.Namespace+"/"+l.Name, one)
		if l.Namespace != "" {
			all.add("namespace "+l.Namespace, one)
		}
	}
	return all
}

// check compares the counts with those of the judge.
func check(t *testing.T, paths []string, raw []rawLine, args, namespaces []string, since, until argument.Moment) {
	t.Helper()
	ctx := t.Context()
	objects, err := argument.Objects(args)
	if err != nil {
		t.Fatal(err)
	}
	s := &argument.Selection{Objects: objects, Namespaces: namespaces}
	a, err := archive.OpenAll(ctx, paths, s, archive.EachJournal, func(text string) { t.Log(text) })
	if a != nil {
		defer a.Close()
	}
	if err != nil {
		if want := judge(raw, args, namespaces, argument.Moment{}, argument.Moment{}); len(args) < 2 && len(namespaces) < 2 && want["all"].Lines > 2 {
			t.Errorf("%v %v: %v, want %v", args, namespaces, err, want)
		}
		return
	}
	var each []*question.Journal
	for _, j := range a.Each() {
		each = append(each, question.Of(j))
	}
	c, err := stats.Of(ctx, each, s, since, until)
	if err != nil {
		t.Fatal(err)
	}
	got := make(judged)
	got.add("all", c.Total())
	for n, count := range c.Types {
		if count.Lines > 0 {
			got.add("type "+index.Types[n-1], count)
		}
	}
	for name, types := range c.Streams {
		for n, count := range types {
			if count.Lines > 0 {
				got.add("stream "+name+" "+index.Types[n-1], count)
			}
		}
	}
	for name, count := range c.Namespaces {
		got.add("namespace "+name, count)
	}
	for name, count := range c.Managers {
		got.add("manager "+name, count)
	}
	for _, r := range c.TopHours(0).Rows {
		got.add("hour "+time.Unix(r.Of, 0).Local().Format("2006-01-02 15"), r.Count)
	}
	top, err := c.TopObjects(ctx, each, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range top.Rows {
		got.add("object "+r.Of.Resource+" "+r.Of.Namespace+"/"+r.Of.Name, r.Count)
	}
	want := judge(raw, args, namespaces, since, until)
	for _, key := range slices.Sorted(maps.Keys(mergeKeys(got, want))) {
		if got[key] != want[key] {
			t.Errorf("%s: %+v, want %+v", key, got[key], want[key])
		}
	}
	few, err := c.TopObjects(ctx, each, s, 2)
	if err != nil || len(top.Rows) > 2 && (!reflect.DeepEqual(few.Rows, top.Rows[:2]) || few.Many != top.Many) {
		t.Errorf("the first two are %+v, %v, want those of %+v", few, err, top)
	}
	sum := few.Others
	for _, r := range few.Rows {
		sum = stats.Count{Lines: sum.Lines + r.Lines, Bytes: sum.Bytes + r.Bytes}
	}
	of := stats.Count{}
	for key, count := range want {
		if strings.HasPrefix(key, "object ") {
			of = stats.Count{Lines: of.Lines + count.Lines, Bytes: of.Bytes + count.Bytes}
		}
	}
	if sum != of {
		t.Errorf("objects have %+v, want %+v", sum, of)
	}
	first, last := c.Received()
	if of := want["all"]; (of.Lines == 0) != first.IsZero() || last.Before(first) {
		t.Errorf("%d lines from %s to %s", of.Lines, first, last)
	}
	sample, err := c.Read(ctx, each, s)
	if err != nil || sample.Count != of { // there are few
		t.Errorf("a sample of %+v, %v, want %+v", sample.Count, err, of)
	}
}

func mergeKeys(a, b judged) judged {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// Suggestions save what they say.
func TestSuggestions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Now().Add(-time.Hour))
	nodes, leases, events := j.Stream("nodes", "Node"), j.Stream("leases.coordination.k8s.io", "Lease"), j.Stream("events", "Event")
	endpoints, slicesOf := j.Stream("endpoints", "Endpoints"), j.Stream("endpointslices.discovery.k8s.io", "EndpointSlice")
	all, own := j.Stream("configmaps", "ConfigMap"), j.Stream("configmaps?namespace=shop", "ConfigMap")
	for _, s := range []*journaltest.Stream{nodes, leases, events, endpoints, slicesOf, all, own} {
		s.Snapshot()
		s.Synced()
	}
	object := func(namespace, uid, rest string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":"x","uid":%q},%s}`, namespace, uid, rest)
	}
	for n := range 30 {
		j.Now = j.Now.Add(time.Second)
		at := j.Now.UTC().Format(time.RFC3339)
		ready := "True"
		if n == 20 {
			ready = "False"
		}
		nodes.Put("kubelet", fmt.Sprintf(`{"metadata":{"name":"a","uid":"a1"},"spec":{},"status":{"conditions":[{"type":"Ready","status":%q,"lastHeartbeatTime":%q}]}}`, ready, at))
		leases.Put("kubelet", object("kube-node-lease", "b1", `"spec":{"holderIdentity":"a","renewTime":"`+at+`"}`))
		endpoints.Put("kube-controller-manager", object("shop", "c1", fmt.Sprintf(`"subsets":[{"n":"%d"}]`, n)))
		slicesOf.Put("kube-controller-manager", object("shop", "d1", fmt.Sprintf(`"endpoints":[{"n":"%d"}]`, n)))
		all.Put("alice", object("shop", "e1", fmt.Sprintf(`"data":{"n":"%d"}`, n)))
		own.Put("alice", object("shop", "e1", fmt.Sprintf(`"data":{"n":"%d"}`, n)))
		events.Put("kubelet", object("shop", fmt.Sprintf("f%d", n), `"reason":"BackOff","message":"again"`))
		events.Delete(fmt.Sprintf("f%d", n))
	}
	j.Confirm(false, nodes, leases, events, endpoints, slicesOf, all, own)
	raw := readRaw(t, filepath.Dir(path))
	bytes := func(has func(l *rawLine) bool) (n int64) {
		for i := range raw {
			if has(&raw[i]) {
				n += raw[i].size
			}
		}
		return n
	}
	a, err := archive.Open(path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	each, s := []*question.Journal{question.Of(a)}, &argument.Selection{}
	c, err := stats.Of(t.Context(), each, s, argument.Moment{}, argument.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	sample, err := c.Read(t.Context(), each, s)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for i, one := range c.Suggest(sample) {
		if one.Sampled || i > 0 && one.Bytes > c.Suggest(sample)[i-1].Bytes {
			t.Errorf("%+v", one)
		}
		got[one.Key+" "+one.YAML] = one.Bytes
	}
	of := func(stream, typ string) func(*rawLine) bool {
		return func(l *rawLine) bool { return l.Stream == stream && (typ == "" || l.Type == typ) }
	}
	heartbeats := 0
	want := map[string]int64{
		"exclude resources:\n  - resource: \"*\"\n    group: \"*\"\n    exclude: [leases.coordination.k8s.io]\n": bytes(of("leases.coordination.k8s.io", "")),
		"exclude resources:\n  - resource: \"*\"\n    group: \"*\"\n    exclude: [endpoints]\n":                  bytes(of("endpoints", "")),
		"types resources:\n  - resource: events\n    types: [ADDED, MODIFIED]\n":                                 bytes(of("events", "DELETED")),
		"resources # without this entry\nresources:\n  - resource: configmaps\n    namespaces: [shop]\n":         bytes(of("configmaps?namespace=shop", "")),
		"excludeNamespaces defaults:\n  excludeNamespaces: [shop]\n":                                             bytes(func(l *rawLine) bool { return l.Namespace == "shop" }),
		"ignoreFields resources:\n  - resource: nodes\n    ignoreFields:\n      - status.conditions[*].lastHeartbeatTime\n": bytes(func(l *rawLine) bool {
			if l.Stream != "nodes" || l.Type != "MODIFIED" {
				return false
			}
			heartbeats++
			return heartbeats != 20 && heartbeats != 21 // Ready changed
		}),
		"ignoreFields resources:\n  - resource: leases.coordination.k8s.io\n    ignoreFields:\n      - spec.renewTime\n": bytes(of("leases.coordination.k8s.io", "MODIFIED")),
	}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s: %d bytes, want %d; got %q", key, got[key], n, slices.SortedFunc(maps.Keys(got), cmp.Compare[string]))
		}
	}
}
