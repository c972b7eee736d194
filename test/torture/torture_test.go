package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"kubejournal/test/invariant"
	"kubejournal/test/loggingtest"
	"kubejournal/test/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(loggingtest.Hold(m)) }

// TestTorture is the short form that belongs to every run of the tests: a daemon built with the race detector is
// killed 25 times under churn, while its journal rotates all the time, the API server is restarted in the middle, and a
// proxy answers 503 for a while at the end.
func TestTorture(t *testing.T) {
	o := defaultOptions()
	o.maxSize, o.ballast, o.seed = "16KiB", 100, uint64(time.Now().UnixNano())
	var err error
	if o.faults, err = choose("503"); err != nil {
		t.Fatal(err)
	}
	b, err := newBench(t.Context(), o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(b.close(errors.New("failed")))
		} else if err := b.close(nil); err != nil {
			t.Error(err)
		}
	}()
	d, err := newDaemon(b, filepath.Join(b.dir, "daemon"), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.daemon = d
	// A busy machine takes longer to start the daemon: after a kill that came before, the next one comes later.
	patience := time.Duration(1)
	shots := func(count int) error {
		for i := range count {
			starting := b.report.starting
			if err := b.shoot(t.Context(), d, patience*b.moment(i)); err != nil {
				return err
			}
			if b.report.starting > starting {
				patience = min(2*patience, 32)
			} else {
				patience = max(patience/2, 1)
			}
		}
		return nil
	}
	writers := b.churn(t.Context(), "churn", o.rate, o.seed)
	err = shots(10)
	if err == nil {
		var group errgroup.Group
		group.Go(func() error { return b.disturb(t.Context(), faultNamed("API server restarted (SIGTERM)"), b.random) })
		group.Go(func() error { return shots(15) })
		err = group.Wait()
	}
	for more := 0; err == nil && b.report.readBack == 0 && more < 30; more++ {
		err = shots(1)
	}
	if err == nil {
		err = b.misbehave(t.Context(), d, o.faults[0], b.random)
	}
	if writers.Stop(); err != nil {
		t.Fatal(err)
	}
	p, err := b.prove(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if p.fault != nil {
		t.Error(p.fault)
	}
	b.report.add(p)
	b.report.finish(b.Ledger, &b.meter)
	var table bytes.Buffer
	b.report.print(&table)
	t.Logf("\n%s", table.Bytes())
	if got := b.report.times[daemonKilled]; got < 20 { // a start while the server was away may have given up
		t.Errorf("%d kills", got)
	}
	if p.rotations < 3 || b.report.readBack == 0 {
		t.Errorf("%d rotations, %d starts that read lines back: this proves little", p.rotations, b.report.readBack)
	}
}

func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"":                                  "",
		"-for 10s -round 5s -norace":        "",
		"-kills 3 -output stdout":           "",
		"-kills 3 -output pipe":             "-output is file or stdout",
		"-output stdout":                    "-output stdout needs -kills",
		"-kills -1":                         "out of range",
		"-for 0s":                           "out of range",
		"30m":                               `unknown argument "30m"`,
		"-hurry":                            "-hurry",
		"-kills 3 -folder 0 -output stdout": "out of range",
		"-proxy swap,503":                   "",
		"-proxy none":                       "",
		"-proxy 503,502":                    `-proxy: no fault "502", there are list-time, `,
	} {
		var stderr bytes.Buffer
		o, err := parse(strings.Fields(args), &stderr)
		if want == "" && (err != nil || o.seed == 0) {
			t.Errorf("%q: %v, seed %d", args, err, o.seed)
		}
		if want != "" && (err == nil || !strings.Contains(stderr.String(), want)) {
			t.Errorf("%q: %v, stderr %q", args, err, stderr.String())
		}
	}
}

// line is an ADDED of an object of its own name, unless the type says otherwise.
func line(seq uint64, typ, uid, version string) invariant.Line {
	return invariant.Line{
		Seq: seq, Type: typ, Stream: "pods", UID: uid, ResourceVersion: version, ID: uid + "/" + version + "/" + typ,
		Time: time.Unix(int64(seq), 0).UTC().Format(time.RFC3339Nano),
	}
}

// GAPs need faults that explain them.
func TestPlausible(t *testing.T) {
	r := newReport(defaultOptions())
	r.count(daemonKilled)
	if err := r.plausible(nil, 5); err != nil {
		t.Error(err)
	}
	for _, reason := range []string{expired, invariant.Interrupted, invariant.Ahead, "CheckpointLost"} {
		if err := r.plausible(map[string]int{reason: 1}, 5); err == nil {
			t.Errorf("a GAP %s without a fault of the servers is let through", reason)
		}
	}
	r.count(faults[0].name)
	if err := r.plausible(map[string]int{expired: 5}, 5); err != nil {
		t.Error(err)
	}
	for reason, n := range map[string]int{expired: 6, invariant.Interrupted: 1, invariant.Ahead: 1} {
		if err := r.plausible(map[string]int{reason: n}, 5); err == nil {
			t.Errorf("%d GAPs %s after one fault are let through", n, reason)
		}
	}
}

// A daemon that repeats a request without a pause is found, one that is started again and again is not.
func TestMeter(t *testing.T) {
	const streams, bound = 3, 63
	now := time.Unix(0, 0)
	m := meter{streams: streams}
	ask := func(count int, each time.Duration) error {
		for range count {
			now = now.Add(each)
			m.request(now)
		}
		_, _, err := m.result()
		return err
	}
	if err := ask(1000, meterWindow/(bound-1)); err != nil {
		t.Error(err)
	}
	for range 10 {
		m.launch(now)
		if err := ask(bound, time.Millisecond); err != nil {
			t.Error(err)
		}
	}
	now = now.Add(3 * meterWindow)
	m.launch(now)
	now = now.Add(meterWindow - time.Millisecond) // a start may take that long
	if err := ask(2*bound, time.Millisecond); err != nil {
		t.Error(err)
	}
	now = now.Add(3 * meterWindow)
	if err := ask(bound, time.Millisecond); err != nil {
		t.Error(err)
	}
	want := "64 requests in 10s, more than 20 for each of 3 streams and 3 pulses of 1 runs"
	if err := ask(1, time.Millisecond); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a request too many: %v", err)
	}
	if total, worst, _ := m.result(); total != 1000+13*bound+1 || worst < 10*bound {
		t.Errorf("%d requests, worst %d", total, worst)
	}
}

// Lines of the other cluster are those of its objects, and no others.
func TestForeign(t *testing.T) {
	own := `{"seq":1,"name":"r1-0-1","object":{"metadata":{"name":"r1-0-1"},"data":{"text":"other-cluster-1"}}}` + "\n"
	other := `{"seq":2,"name":"other-cluster-1-0-1"}` + "\n"
	if err := foreign("journal.jsonl", []byte(own+own)); err != nil {
		t.Error(err)
	}
	err := foreign("/x/journal.jsonl", []byte(own+other+other))
	if err == nil || !strings.HasPrefix(err.Error(), `journal.jsonl: 2 lines of the other cluster, the first: {"seq":2,`) {
		t.Error(err)
	}
}

// Each fault of the proxy comes once before one comes again.
func TestNextFault(t *testing.T) {
	b := &bench{options: options{faults: proxyFaults}}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		seen := make(map[string]bool)
		for range proxyFaults {
			seen[b.nextFault(r).key] = true
		}
		if len(seen) != len(proxyFaults) {
			t.Errorf("%d of %d faults", len(seen), len(proxyFaults))
		}
	}
}

// What is told again on stdout must be from shortly before the kill, and nothing may be left out.
func TestMerge(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	first := run{[]invariant.Line{line(1, invariant.Added, "a", "1"), line(2, invariant.Added, "b", "2"), line(3, invariant.Added, "c", "3")}, at(4)}
	for name, tc := range map[string]struct {
		next            run
		lines, again    int
		repeated        int
		oldest          time.Duration
		fault           string
		firstWasNoDeath bool
	}{
		"goes on":          {next: run{lines: []invariant.Line{line(4, invariant.Added, "d", "4")}}, lines: 4},
		"tells again":      {next: run{lines: []invariant.Line{line(3, invariant.Added, "c", "3"), line(4, invariant.Added, "d", "4")}}, lines: 4, again: 1, oldest: time.Second},
		"too old":          {next: run{lines: first.lines[1:]}, lines: 3, again: 2, repeated: 1, oldest: 2 * time.Second, fault: "2s before the kill"},
		"leaves one out":   {next: run{lines: []invariant.Line{line(5, invariant.Added, "d", "4")}}, lines: 4, fault: "begins at seq 5"},
		"a hole":           {next: run{lines: []invariant.Line{line(4, invariant.Added, "d", "4"), line(6, invariant.Added, "e", "6")}}, lines: 5, fault: "seq is not 5"},
		"after a good end": {next: run{lines: first.lines[2:]}, lines: 3, again: 1, fault: "not killed", firstWasNoDeath: true},
		"no line":          {next: run{}, lines: 3},
	} {
		before := first
		if tc.firstWasNoDeath {
			before.killed = time.Time{}
		}
		lines, p := merge([]run{before, tc.next}, time.Second)
		if len(lines) != tc.lines || p.again != tc.again || p.repeated != tc.repeated || p.oldest != tc.oldest {
			t.Errorf("%s: %d lines, %+v", name, len(lines), p)
		}
		if (tc.fault == "") != (p.fault == nil) || !strings.Contains(fmt.Sprint(p.fault), tc.fault) {
			t.Errorf("%s: %v, want %q", name, p.fault, tc.fault)
		}
	}
}

// A mark counts when a watch told of it, in a line that has its end; an earlier one does too.
func TestStrike(t *testing.T) {
	for text, want := range map[string]bool{
		"": false,
		`{"id":"u/1/ADDED","origin":"watch"}` + "\n":                           true,
		`{"origin":"watch","id":"u/1/ADDED"}` + "\n":                           true,
		`{"origin":"watch","id":"u/1/ADDED"}`:                                  false,
		`{"origin":"snapshot","id":"u/1/ADDED"}` + "\n" + `{"origin":"watch"}`: false,
		`{"origin":"watch","id":"v/1/ADDED"}` + "\n":                           false,
		"{}\n" + `{"origin":"watch","id":"u/1/ADDED"}` + "\n{\"origin\":\"rel": true,
	} {
		marks := map[string]workload.Source{`"id":"u/`: {}, `"id":"later/`: {}}
		if strike([]byte(text), marks); len(marks) != map[bool]int{true: 0, false: 2}[want] {
			t.Errorf("%q: %d marks left", text, len(marks))
		}
	}
}
