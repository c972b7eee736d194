package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kubejournal/test/loggingtest"
)

// The test binary is the server and the informer too.
func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		main()
	}
	goleak.VerifyTestMain(loggingtest.Hold(m))
}

// TestScale does all runs in small. Each checks its own outcome.
func TestScale(t *testing.T) {
	o := defaultOptions()
	o.objects, o.informer, o.streams, o.blocked, o.gzip, o.starts = 20_000, 2_000, 30, 20, 2_000, 1
	o.nodes, o.shards, o.steady = []int{100}, []int{1, 4}, time.Second
	o.idle, o.settle, o.dir = time.Second, time.Second, t.TempDir()
	var lines bytes.Buffer
	if err := measure(t.Context(), o, &lines, t.Output()); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + lines.String())
	form := regexp.MustCompile(`^BenchmarkScale/run=[a-z-]+/(objects|streams|nodes)=\d+/way=[a-z0-9-]+ 1(\t[0-9.]+ [A-Za-z/%-]+)+$`)
	runs := make(map[string]int)
	for line := range strings.Lines(lines.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !form.MatchString(line) {
			t.Errorf("no benchmark line: %q", line)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "BenchmarkScale/run="), "/")
		runs[name]++
	}
	for _, name := range []string{
		"first-sync-streamed", "relist-streamed", "first-sync-paged", "relist-paged", "resume", "idle", "blocked", "list-gzip-on", "list-gzip-off", "cluster",
	} {
		if runs[name] == 0 {
			t.Errorf("no line of %s", name)
		}
	}
}

// TestReplayFindsFaults: what the runs rely on finds a journal that is wrong.
func TestReplayFindsFaults(t *testing.T) {
	w := world{objects: 3, namespace: 10, generation: 1, size: 400}
	line := func(seq int, typ string, number int) string {
		o := object{number: number}
		return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T16:10:22Z","type":%q,"id":"x","stream":"configmaps","name":%q,"resourceVersion":"%d","object":{"name":"other"}}`+"\n",
			seq, typ, o.name(), w.versionOf(o))
	}
	synced := fmt.Sprintf(`{"seq":4,"time":"2026-11-20T16:10:22Z","type":"SYNCED","id":"x","stream":"configmaps","resourceVersion":"%d","count":{"added":3}}`+"\n", w.version())
	right := line(1, "ADDED", 0) + line(2, "ADDED", 1) + line(3, "ADDED", 2) + synced
	for name, c := range map[string]struct {
		journal string
		fault   string
	}{
		"right":           {right, ""},
		"line missing":    {line(1, "ADDED", 0) + line(3, "ADDED", 2) + synced, "seq 3 where 2 should be"},
		"object twice":    {line(1, "ADDED", 0) + line(2, "ADDED", 0), "the object is known"},
		"object missing":  {line(1, "ADDED", 0) + line(2, "ADDED", 1) + strings.Replace(synced, `"seq":4`, `"seq":3`, 1), "object 2"},
		"unknown deleted": {line(1, "DELETED", 0), "the object is known: false"},
		"no SYNCED":       {line(1, "ADDED", 0) + line(2, "ADDED", 1) + line(3, "ADDED", 2), "SYNCED"},
		"wrong count":     {strings.Replace(right, `"added":3`, `"added":2`, 1), "SYNCED"},
		"torn":            {right[:len(right)-5], "read line 4"},
		"not a line":      {"{}\n", "seq"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay(w)
			err := r.read(strings.NewReader(c.journal))
			if err == nil {
				err = r.check(counts{Added: 3})
			}
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("got %v, want %q", err, c.fault)
			}
		})
	}
}

// The world's objects stand in the order of keys, have the size that was asked for, and versions of their own.
func TestWorld(t *testing.T) {
	for generation := 1; generation <= 2; generation++ {
		w := world{objects: 5000, namespace: 100, generation: generation, size: 1024}
		var last string
		versions := make(map[uint64]bool)
		total := 0
		for number := range w.objects {
			objects, n := w.at(number)
			for _, o := range objects[:n] {
				total++
				key := w.namespaceOf(o.number) + "/" + o.name()
				if key <= last {
					t.Fatalf("%s after %s", key, last)
				}
				last = key
				v := w.versionOf(o)
				if versions[v] || v > w.version() {
					t.Fatalf("%s: version %d", key, v)
				}
				versions[v] = true
				if b := w.append(nil, o, true, 0, w.size); len(b) != w.size {
					t.Fatalf("%s: %d bytes", key, len(b))
				}
			}
		}
		d := w.difference()
		if want := map[int]counts{1: {Added: 5000}, 2: {Added: 15, Modified: 25, Deleted: 10, Unchanged: 4965}}[generation]; d != want {
			t.Errorf("generation %d: %+v, want %+v", generation, d, want)
		}
		if total != d.Added+d.Modified+d.Unchanged {
			t.Errorf("generation %d: %d objects", generation, total)
		}
	}
}

func TestOptions(t *testing.T) {
	if o, err := parse([]string{"-objects", "5", "-run", "idle"}, io.Discard); err != nil || o.objects != 5 || o.run.String() != "idle" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-objects", "x"}, {"-run", "("}, {"-unknown"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// The changes of a cluster come in the order of their times, as many of each size as there should be.
func TestLoad(t *testing.T) {
	l := load{5000}
	if got := l.objects(); got != 646_000 {
		t.Errorf("%d objects", got)
	}
	sizes := make(map[int]int)
	next := 0
	err := l.changes(30*time.Second, func(i, size int) error {
		if i != next {
			t.Fatalf("change %d after %d", i, next-1)
		}
		next++
		sizes[size]++
		return nil
	})
	// 720, 140 and 16.67 per second.
	if err != nil || next != 26_300 || sizes[1<<10] != 21_600 || sizes[6<<10] != 4200 || sizes[30<<10] != 500 {
		t.Errorf("%d changes by size: %v, %v", next, sizes, err)
	}
	if err := l.changes(time.Second, func(int, int) error { return io.EOF }); err != io.EOF {
		t.Errorf("the fault of a change is %v", err)
	}
}
