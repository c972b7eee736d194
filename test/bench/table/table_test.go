package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// some is what go test prints, with words around it.
const some = `goos: linux
pkg: kubejournal/internal/watcher
BenchmarkWire/object=pod-6KB-each/way=raw-2                3   93697964 ns/op   3.00 cpu-us/event   0.01 allocs/event
BenchmarkWire/object=pod-6KB-each/way=kubejournal-2        3  514704403 ns/op   9.00 cpu-us/event   1.50 allocs/event
BenchmarkWire/object=pod-6KB-each/way=informer-2           3 2543895889 ns/op   600 cpu-us/event   1434 allocs/event
BenchmarkWire is a name in a sentence
BenchmarkWire/object=pod-6KB-each/way=raw-2                3   93697964 ns/op   4.00 cpu-us/event
BenchmarkWire/object=pod-6KB-each/way=kubejournal-2        3  514704403 ns/op   10.00 cpu-us/event   2.50 allocs/event
BenchmarkWire/object=pod-6KB-each/way=informer-2           3 2543895889 ns/op   700 cpu-us/event   1434 allocs/event
BenchmarkReal/history=replay/way=raw	25000	20 cpu-us/event	10.22 start-cpu-ms
BenchmarkReal/history=replay/way=kubejournal	25000	31 cpu-us/event	29.21 start-cpu-ms
PASS
`

func mustRead(t *testing.T, text string) results {
	t.Helper()
	r := results{}
	if err := r.read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

// line is the row of the goals that begins with a figure.
func line(t *testing.T, r results, figure string) string {
	t.Helper()
	for _, o := range goalRows() {
		if strings.HasPrefix(o.figure, figure) {
			var out bytes.Buffer
			o.print(&out, r)
			return out.String()
		}
	}
	t.Fatalf("no row begins with %q", figure)
	return ""
}

func TestJudge(t *testing.T) {
	r := mustRead(t, some)
	for figure, want := range map[string]string{
		// 9/3 and 10/4: 2.75 in the middle; 9/600 and 10/700.
		"the same, each event": "| 9.5 us ±5% | raw copy 3.5 us ±14% (2.75 x); informer 650 us ±8% (1/68.3); reflector - | ≤ 1/30 informer; ≤ 4 x raw copy | met; met |\n",
		// Met by this kind; the others were not measured.
		"allocations":                   "| 2 ±25% | informer 1,434 ±0% (1/717) | ≤ 4 | not measured |\n",
		"CPU per event, real":           "| 31 us | raw copy 20 us (1.55 x); informer - | ≤ 1.5 x raw copy | **not met** |\n",
		"RSS, 300":                      "| - |  | ≤ 60 MiB | not measured |\n",
		"commit of 1,000 changes among": "| - | among 1,000 - | ≤ 5 x among 1,000 | not measured |\n",
	} {
		if got := line(t, r, figure); !strings.HasSuffix(got, want) {
			t.Errorf("row is\n%s\nand should end in\n%s", got, want)
		}
	}
}

// TestEvery looks at a goal that holds for several figures: one that misses it is enough.
func TestEvery(t *testing.T) {
	text := ""
	for _, k := range kinds {
		text += "BenchmarkWire/object=" + k + "/way=kubejournal-2 3 3.9 allocs/event\n"
	}
	if got := line(t, mustRead(t, text), "allocations"); !strings.HasSuffix(got, "| met |\n") {
		t.Errorf("row is %s", got)
	}
	text += strings.Repeat("BenchmarkWire/object=configmap-200KB/way=kubejournal-2 3 4.1 allocs/event\n", 2)
	if got := line(t, mustRead(t, text), "allocations"); !strings.HasSuffix(got, "| **not met** |\n") {
		t.Errorf("row is %s", got)
	}
}

// TestScaled judges nothing by what was measured on less, but compares with it.
func TestScaled(t *testing.T) {
	r := mustRead(t, `
BenchmarkScale/run=first-sync-streamed/objects=1000000/way=kubejournal 1	90.5 rss-anon-MiB	41 wall-s
BenchmarkScale/run=first-sync-streamed/objects=100000/way=informer 1	905 rss-anon-MiB
`)
	const want = "| 90.5 MiB | informer (of 100,000, times 10) 9,050 MiB (1/100) | ≤ 120 MiB | met |\n"
	if got := line(t, r, "peak anonymous RSS, first sync"); !strings.HasSuffix(got, want) {
		t.Errorf("row is\n%s\nand should end in\n%s", got, want)
	}
}

func TestReadFaults(t *testing.T) {
	for _, text := range []string{
		"BenchmarkA 1 2 ns/op 3",
		"BenchmarkA 1 two ns/op",
		"BenchmarkA 1 NaN ns/op",
		"BenchmarkA 1 +Inf ns/op",
	} {
		if err := (results{}).read(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.txt")
	if err := os.WriteFile(path, []byte(some), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 0},
		{[]string{path}, 0},
		{[]string{"-strict", path}, 1},
		{[]string{path + ".gone"}, 1},
		{[]string{"-no-such-flag"}, 2},
	} {
		var stdout, stderr bytes.Buffer
		if got := run(c.args, strings.NewReader(some), &stdout, &stderr); got != c.want {
			t.Errorf("run(%q) = %d, want %d: %s", c.args, got, c.want, stderr.String())
		}
		if c.want == 0 && strings.Count(stdout.String(), header) != 1 {
			t.Errorf("run(%q) prints\n%s", c.args, stdout.String())
		}
	}
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0", 0.00834: "0.0083", 0.25: "0.25", 1.5: "1.5", 2.749: "2.75", 41: "41", 99.94: "99.9", 717.2: "717", 1234567: "1,234,567", -1234: "-1,234", -0.5: "-0.5",
	} {
		if got := number(f); got != want {
			t.Errorf("number(%g) = %s, want %s", f, got, want)
		}
	}
	for f, want := range map[float64]string{830: "830 ns", 21_400: "21.4 us", 5.5e6: "5.5 ms", 2e9: "2 s", 7e12: "7,000 s"} {
		if got := inUnit(f, "ns"); got != want {
			t.Errorf("inUnit(%g) = %s, want %s", f, got, want)
		}
	}
	if got, want := inUnit(9457, "us")+inUnit(8300, "MiB")+inUnit(2, ""), "9.46 ms8,300 MiB2"; got != want {
		t.Errorf("units are %s, want %s", got, want)
	}
}

// TestLeftOut prints the goals always, and other rows where there is a figure.
func TestLeftOut(t *testing.T) {
	var out bytes.Buffer
	missed := 0
	for _, s := range sections {
		missed += s.print(&out, mustRead(t, "BenchmarkFrame/pod=6KB-2 100 600 ns/op"))
	}
	goals := 0
	for _, o := range goalRows() {
		goals += len(o.goals)
	}
	if missed != goals {
		t.Errorf("%d of %d goals are missed", missed, goals)
	}
	if got, want := strings.Count(out.String(), "\n"), 1+len(goalRows())+2; got != want {
		t.Errorf("%d lines, want %d:\n%s", got, want, out.String())
	}
}

// TestRowsOnce finds a figure that stands in the table for two things, and a row without a name.
func TestRowsOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sections {
		for _, o := range s.rows {
			if key := s.title + o.figure; o.figure == "" || seen[key] {
				t.Errorf("%s: %q stands there twice or has no name", s.title, o.figure)
			}
			seen[s.title+o.figure] = true
			if !strings.HasPrefix(o.of.bench, "Benchmark") || o.of.unit == "" {
				t.Errorf("%s: %q is of %v", s.title, o.figure, o.of)
			}
		}
	}
}

// TestClusters computes costs of a cluster from what was measured of others too.
func TestClusters(t *testing.T) {
	var stdout, stderr bytes.Buffer
	text := `BenchmarkScale/run=cluster/nodes=5000/way=whole 1	876 events/s	646000 objects	12 cpu-%	2 wire-MiB/s	4 journal-MiB/s
BenchmarkScale/run=cluster/nodes=5000/way=shard4 1	876 events/s	160000 objects	10 cpu-%	2 wire-MiB/s	1 journal-MiB/s
BenchmarkScale/run=cluster/nodes=1000/way=whole 1	175 events/s	130000 objects	3 cpu-%
BenchmarkStandby/way=single-2	10000	100 cpu-us/event
BenchmarkStandby/way=leader-2	10000	110 cpu-us/event	0.9 lease-writes/retry
BenchmarkStandby/way=standby-2	10000	90 cpu-us/event
BenchmarkRotate/way=kubejournal 1	8 cpu-s/GB	10 zip-%
`
	if got := run([]string{"-clusters"}, strings.NewReader(text), &stdout, &stderr); got != 0 {
		t.Fatalf("status %d: %s", got, stderr.String())
	}
	small, large, both := strings.Cut(stdout.String(), "\n5,000 nodes: 646,000 objects, 876 events per second\n")
	if !both || !strings.HasPrefix(small, "\n1,000 nodes: 130,000 objects") {
		t.Errorf("the tables are\n%s", stdout.String())
	}
	for _, want := range []string{
		"| CPU of a core | 12 % | - | 10 % | - | - |\n",
		"| with a standby, both together | 24 % | - | 20 % | - | - |\n",
		"| the same, all daemons together | 2 MiB | - | 8 MiB | - | - |\n",
		"| journal per day | 338 GiB | - | 84.4 GiB | - | - |\n",
		"| the same, compressed | 33.8 GiB | - | 8.44 GiB | - | - |\n",
		"| CPU of compression | 3.36 % | - | 0.839 % | - | - |\n",
		"| writes to Leases per second, all leaders | 0.45 | 1.8 | 1.8 | 7.2 | 7.2 |\n",
	} {
		if !strings.Contains(large, want) {
			t.Errorf("there is no row %sin\n%s", want, large)
		}
	}
}
