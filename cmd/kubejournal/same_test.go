package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/test/journaltest"
)

var sameQuestions = flag.Int("same.questions", 200, "how many questions TestSameAnswers asks")

// TestSameAnswers asks history and tail the same random questions, of one journal and of those of several replicas: of
// names, namespaces, types, times of late lines and of clocks that were set back, and of the last lines. They give the
// same lines.
func TestSameAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	clearEnv(t)
	t.Setenv("TMPDIR", t.TempDir())
	const perJournal = 20
	shown, unknown := 0, 0
	for seed := uint64(0); int(seed)*perJournal < *sameQuestions; seed++ {
		r := rand.New(rand.NewPCG(seed, 38))
		path := randomJournal(t, r)
		lines := strings.Split(strings.TrimSuffix(wholeJournal(t, path), "\n"), "\n")
		paths := []string{path}
		if seed%2 == 1 {
			paths = replicasOf(t, r, lines, 2+r.IntN(2))
		}
		for range min(perJournal, *sameQuestions-int(seed)*perJournal) {
			q := ask(r, lines, paths)
			n, ok := sameAnswer(t, q)
			if !ok {
				t.Fatalf("seed %d", seed)
			}
			if n < 0 {
				unknown++
			} else if n > 0 {
				shown++
			}
		}
	}
	if shown < *sameQuestions/3 || unknown < *sameQuestions/100 {
		t.Errorf("of %d questions, %d had lines and %d were of unknown names", *sameQuestions, shown, unknown)
	}
}

// sameQuestion is what both commands are asked.
type sameQuestion struct {
	args  []string // of both
	types []string
	last  int // -1 for all
}

// ask makes a random question.
func ask(r *rand.Rand, lines, paths []string) (q sameQuestion) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	q.args = []string{"-o", "json"}
	for _, path := range paths {
		q.args = append(q.args, "--journal", path)
	}
	switch r.IntN(8) {
	case 0, 1, 2:
	case 3:
		q.args = append(q.args, pick("pods", "po", "deploy", "Deployment", "deployments.apps", "ns", "no", "*", "pods,deploy",
			"events", "pdos", "services"))
	default:
		q.args = append(q.args, pick("po/n-1", "pod/n-2", "deploy/n-3", "no/n-1", "ns/a", "*/n-2", "deploy/tpyo",
			"pods/n-99", "services/n-1"))
		if r.IntN(3) == 0 {
			q.args = append(q.args, pick("po/n-3", "deploy/n-1", "ns/b", "services/x"))
		}
	}
	for range r.IntN(3) {
		q.args = append(q.args, "-n", pick("a", "b", "b", "nowhere"))
	}
	var at [2]line.Fields
	moment := func(n int) string {
		of, offset := pick(lines...), time.Duration(r.IntN(5)-2)*time.Second
		if err := at[n].Parse([]byte(of)); err != nil {
			panic(err)
		}
		if r.IntN(4) == 0 && len(paths) == 1 {
			return "seq:" + strconv.FormatUint(at[n].Seq, 10)
		}
		if made, ok := at[n].Written(); ok && r.IntN(2) == 0 {
			at[n].Time = made
		}
		at[n].Time = at[n].Time.Add(offset)
		return at[n].Time.Format(time.RFC3339Nano)
	}
	since, until := r.IntN(3) == 0, r.IntN(3) == 0
	from, to := moment(0), moment(1)
	if since && until {
		reversed := at[1].Seq < at[0].Seq || at[1].Time.Before(at[0].Time)
		if since = strings.HasPrefix(from, "seq:") != strings.HasPrefix(to, "seq:") || !reversed; !since {
			until = r.IntN(2) == 0
		}
	}
	if since {
		q.args = append(q.args, "--since", from)
	}
	if until {
		q.args = append(q.args, "--until", to)
	}
	if q.last = -1; r.IntN(2) == 0 {
		q.last = r.IntN(20)
	}
	for _, typ := range []string{"ADDED", "MODIFIED", "DELETED", "GAP", "SYNCED"} {
		if r.IntN(8) == 0 {
			q.types = append(q.types, typ)
		}
	}
	return q
}

// sameAnswer asks both commands. It returns how many lines there are, -1 for an unknown name.
func sameAnswer(t *testing.T, q sameQuestion) (int, bool) {
	t.Helper()
	status, all, why := execute(t, slices.Concat([]string{"history", "--all"}, q.args)...)
	tail := []string{"tail", "--no-follow", "--lines", "all"}
	if q.last >= 0 {
		tail[3] = strconv.Itoa(q.last)
	}
	for _, typ := range q.types {
		tail = append(tail, "--type", typ)
	}
	tail = append(tail, q.args...)
	isStatus, is, says := execute(t, tail...)
	first, _, _ := strings.Cut(why, "\n")
	if strings.HasPrefix(first, "kubejournal: the journal has no line about") && !strings.HasSuffix(first, "in that time") {
		// Of a name that is unknown history says too whether it was watched.
		said := strings.Contains("\n"+says, "\n"+first+"\n")
		if is != "" || all != "" || !said || isStatus != status && isStatus != 1 {
			t.Errorf("%q: status %d, %q, %s\nhistory: status %d, %s", tail, isStatus, is, says, status, why)
			return -1, false
		}
		return -1, true
	}
	var want []string
	for l := range strings.Lines(all) {
		var f line.Fields
		if err := f.Parse([]byte(l)); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if len(q.types) == 0 || slices.Contains(q.types, string(f.Text(line.FieldType))) {
			want = append(want, l)
		}
	}
	if q.last >= 0 {
		want = want[max(len(want)-q.last, 0):]
	}
	if is != strings.Join(want, "") || isStatus != 0 && isStatus != 3 || status != 0 && status != 3 {
		t.Errorf("%q: status %d\n%s%s\nhistory has %d lines, status %d\n%s%s",
			tail, isStatus, is, says, len(want), status, strings.Join(want, ""), why)
		return 0, false
	}
	if timed := slices.Contains(q.args, "--since") || slices.Contains(q.args, "--until"); timed && doubts(says) != doubts(why) {
		t.Errorf("%q: status %d\n%s\nhistory: status %d\n%s", tail, isStatus, says, status, why)
		return 0, false
	}
	return len(want), true
}

// doubts returns what an answer says of the time in which lines may be missing.
func doubts(notes string) (all string) {
	for l := range strings.Lines(notes) {
		if strings.HasSuffix(l, ": nobody watched them\n") { // tail says so at once
			continue
		}
		if strings.HasPrefix(l, "kubejournal: not covered: ") || strings.HasPrefix(l, "kubejournal: as of ") {
			all += l
		}
	}
	return all
}

// randomJournal makes a journal of some files, with late lines, gaps and a clock that is set.
func randomJournal(t *testing.T, r *rand.Rand) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	names := []string{"pods", "deployments.apps", "namespaces", "nodes", "pods?namespace=a", "events"}
	kinds := []string{"Pod", "Deployment", "Namespace", "Node", "Pod", "Event"}
	var streams []*journaltest.Stream
	uids := make([]map[string]bool, len(names))
	put := func(n int) {
		uid := fmt.Sprintf("%x%x", 10+n, r.IntN(8))
		name, namespace := "n-"+uid[1:], ""
		switch names[n] {
		case "namespaces":
			name = []string{"a", "b"}[r.IntN(2)]
			uid = "f" + name
		case "nodes":
		case "pods?namespace=a":
			namespace = "a"
		default:
			namespace = []string{"a", "b"}[r.IntN(2)]
			uid += namespace
		}
		uids[n][uid] = true
		streams[n].Put([]string{"", "kubectl", "kubelet/status"}[r.IntN(3)],
			fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q},"data":{"x":"%d"}}`, namespace, name, uid, r.IntN(100)))
	}
	for n, name := range names {
		uids[n] = map[string]bool{}
		streams = append(streams, j.Stream(name, kinds[n]))
		streams[n].Snapshot()
		for range r.IntN(3) {
			put(n)
		}
		streams[n].Synced()
	}
	for range 60 + r.IntN(100) {
		j.Now = j.Now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		if j.Made = (time.Time{}); r.IntN(5) == 0 {
			j.Made = j.Now.Add(-time.Duration(4+r.IntN(60)) * time.Second)
		}
		n := r.IntN(len(streams))
		there := make([]string, 0, len(uids[n]))
		for uid := range uids[n] {
			there = append(there, uid)
		}
		slices.Sort(there)
		switch op := r.IntN(40); {
		case op == 0:
			j.Now = j.Now.Add([]time.Duration{-time.Hour, -time.Minute, 20 * time.Minute}[r.IntN(3)])
		case op == 1:
			j.Rotate()
			put(n)
		case op == 2:
			j.Made = time.Time{}
			streams[n].Gap(line.Expired, j.Now.Add(-time.Minute))
			put(n)
			streams[n].Synced()
		case op < 8 && len(there) > 0:
			uid := there[r.IntN(len(there))]
			delete(uids[n], uid)
			streams[n].Delete(uid)
		case op == 8:
			j.Confirm(r.IntN(2) == 0, streams...)
		default:
			put(n)
		}
	}
	j.Confirm(false, streams...)
	j.Kill()
	return path
}

// wholeJournal returns the lines of a journal.
func wholeJournal(t *testing.T, path string) string {
	t.Helper()
	_, out, _ := execute(t, "history", "--all", "-o", "json", "--journal", path)
	return out
}

// replicasOf writes the lines of one journal as those of replicas, each of which wrote for some terms. One that takes
// over repeats some lines.
func replicasOf(t *testing.T, r *rand.Rand, lines []string, count int) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	content := make([]bytes.Buffer, count)
	seqs, leader, term, files := make([]int, count), 0, 1, 0
	write := func(l string) {
		seqs[leader]++
		_, rest, _ := strings.Cut(l, ",")
		fmt.Fprintf(&content[leader], `{"seq":%d,"term":%d,%s`+"\n", seqs[leader], term, rest)
	}
	for n, l := range lines {
		if r.IntN(25) == 0 {
			leader, term = r.IntN(count), term+1
			back := n
			for back > 0 && n-back < r.IntN(6) && strings.Contains(lines[back-1], `"origin":"watch"`) {
				back--
			}
			for _, again := range lines[back:n] {
				write(again)
			}
		}
		write(l)
		if r.IntN(60) == 0 && content[leader].Len() > 0 { // others rotate
			files++
			name := filepath.Join(dir, fmt.Sprintf("%d-2026-11-20T16-10-%02d.123.jsonl", leader, files))
			writeFile(t, name, content[leader].String())
			content[leader].Reset()
		}
	}
	for n := range content {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.jsonl", n)))
		if err := os.WriteFile(paths[n], content[n].Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}
