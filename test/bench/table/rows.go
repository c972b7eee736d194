package main

import "strings"

// The table's rows, in the order of the goals, then what they are made of.

// sections is the table.
var sections = []section{
	{"Goals", goalRows()},
	{"From the wire to the file, by object (CPU per event)", wireRows()},
	{"What an entry may ask for on top: changes of pods of 6 KB, wire to file (CPU per event)", onTopRows()},
	{"With a real API server, whole process", realRows()},
	{"One of four shards, of pods of 2 KB from a real API server, by the events of all shards", shardRows()},
	{"A leader and its standby beside a single daemon, 250 changes per second of pods of 2 KB from a real API server",
		standbyRows()},
	{"Received to written, 1,000 events per second", latencyRows()},
	{"A million objects", scaleRows()},
	{"The checkpoint", checkpointRows()},
	{"Questions to a journal of 10 GB in 100 files, a process each", askRows()},
	{"Rotation: a file of 100 MB is compressed and indexed", rotateRows()},
	{"Steps, each alone", stepRows()},
}

var (
	kinds = []string{"pod-2KB", "pod-6KB", "pod-6KB-each", "pod-60KB", "configmap-1KB", "configmap-200KB",
		"event-1KB"}
	baselines = []string{"raw", "informer", "reflector"}
)

func wire(kind, way, unit string) measure {
	return measure{"BenchmarkWire/object=" + kind + "/way=" + way, unit}
}

func realServer(history, way, unit string) measure {
	return measure{"BenchmarkReal/history=" + history + "/way=" + way, unit}
}

func latency(way, unit string) measure {
	return measure{"BenchmarkLatency/rate=1000/way=" + way, unit}
}

func standby(way, unit string) measure { return measure{"BenchmarkStandby/way=" + way, unit} }

func ask(question, way, unit string) measure {
	return measure{"BenchmarkAsk/question=" + question + "/way=" + way, unit}
}

func rotate(way, unit string) measure { return measure{"BenchmarkRotate/way=" + way, unit} }

func scale(run, way, unit string) measure {
	return measure{"BenchmarkScale/run=" + run + "/way=" + way, unit}
}

func commit(known, way, unit string) measure {
	return measure{"BenchmarkCommit/known=" + known + "/way=" + way, unit}
}

const (
	million   = "/objects=1000000"
	wholeOpen = "BenchmarkOpen" + million + "/way="
)

// informerOfMillion is the memory of a dynamic informer, measured on a tenth.
var informerOfMillion = beside{"informer (of 100,000, times 10)",
	scale("first-sync-streamed/objects=100000", "informer", "rss-anon-MiB"), 10}

// What a rotation was before there were indexes.
var (
	oneStreamCPU  = beside{name: "compress/gzip, one stream, no index", of: rotate("one-stream", "cpu-s/GB")}
	oneStreamSize = beside{name: "compress/gzip, one stream, no index", of: rotate("one-stream", "zip-%")}
)

// questions are what the program is asked.
var questions = []struct{ of, name string }{
	{"namespace", "get: a namespace's pods at a time, JSON"},
	{"namespace-table", "get: a namespace's pods at a time, table"},
	{"all-names", "get: all 20,000 pods at a time, names"},
	{"all-table", "get: all 20,000 pods at a time, table"},
	{"all-json", "get: all 20,000 pods at a time, JSON"},
	{"history", "history of a pod"},
	{"blame", "blame of a pod"},
	{"why", "why a pod is gone"},
	{"diff-hour", "diff of a namespace over an hour"},
	{"grep", "history --grep of a pod's name, which reads all"},
	{"stats", "stats"},
	{"verify", "index --verify, which reads all"},
}

// requests are what a server of the past is asked.
var requests = []struct{ of, name string }{
	{"start", "serve: the start"},
	{"namespace", "serve: a namespace's pods, JSON"},
	{"namespace-table", "serve: a namespace's pods, table"},
	{"20-clients", "serve: the same for 20 clients at once, until the last has it"},
	{"all-table", "serve: all 20,000 pods, table, in pages of 500"},
	{"all-json", "serve: all 20,000 pods, JSON, in pages of 500"},
	{"20-clients-all", "serve: all 20,000 pods as a table for 20 clients at once"},
}

func goalRows() []row {
	var memory []measure
	for _, q := range questions {
		memory = append(memory, ask(q.of, "kubejournal", "rss-MiB"))
	}
	cpu := func(name, kind string) row {
		of := func(way string) measure { return wire(kind, way, "cpu-us/event") }
		raw, informer := beside{name: "raw copy", of: of("raw")}, beside{name: "informer", of: of("informer")}
		return row{
			name, "us", of("kubejournal"),
			[]beside{raw, informer, {name: "reflector", of: of("reflector")}},
			[]goal{{most: 1.0 / 30, over: &informer}, {most: 4, over: &raw}},
		}
	}
	rawTLS := beside{name: "raw copy", of: realServer("replay", "raw", "cpu-us/event")}
	rawDelay := beside{name: "raw copy", of: latency("raw", "p99-ms")}
	single := beside{name: "a single daemon", of: standby("single", "cpu-us/event")}
	few := beside{name: "among 1,000", of: commit("1000", "kubejournal", "ns/op"), scale: 1}
	var allocs []measure
	for _, k := range kinds {
		allocs = append(allocs, wire(k, "kubejournal", "allocs/event"))
	}
	return []row{
		cpu("CPU per event, changes of pods of 6 KB, wire to file, checkpoint on", "pod-6KB"),
		cpu("the same, each event of a pod not known before", "pod-6KB-each"),
		{
			"allocations per event, pods of 6 KB; the goal is for every kind and size", "",
			wire("pod-6KB-each", "kubejournal", "allocs/event"),
			[]beside{{name: "informer", of: wire("pod-6KB-each", "informer", "allocs/event")}},
			[]goal{{most: 4, every: allocs}},
		},
		{
			"CPU per event, real API server over TLS, pods of 2 KB, whole process, checkpoint on", "us",
			realServer("replay", "kubejournal", "cpu-us/event"),
			[]beside{rawTLS, {name: "informer", of: realServer("replay", "informer", "cpu-us/event")}},
			[]goal{{most: 1.5, over: &rawTLS}},
		},
		{
			"p99 from sent by the server to readable in the file, 1,000 events/s, whole process", "ms",
			latency("kubejournal", "p99-ms"), []beside{rawDelay}, []goal{{most: 5}},
		},
		{
			"peak anonymous RSS, first sync of 1,000,000 objects of 1 KB, streamed", "MiB",
			scale("first-sync-streamed"+million, "kubejournal", "rss-anon-MiB"), []beside{informerOfMillion},
			[]goal{{most: 120}},
		},
		{
			"peak anonymous RSS, first sync of 1,000,000 objects of 1 KB, paged lists", "MiB",
			scale("first-sync-paged"+million, "kubejournal", "rss-anon-MiB"), []beside{informerOfMillion},
			[]goal{{most: 120}},
		},
		{
			"peak anonymous RSS, relist of 1,000,000 with 1 % changed, streamed", "MiB",
			scale("relist-streamed"+million, "kubejournal", "rss-anon-MiB"), nil, []goal{{most: 150}},
		},
		{
			"peak anonymous RSS, relist of 1,000,000 with 1 % changed, paged lists", "MiB",
			scale("relist-paged"+million, "kubejournal", "rss-anon-MiB"), nil, []goal{{most: 150}},
		},
		{
			"checkpoint bytes per known object, of 1,000,000", "B", measure{wholeOpen + "kubejournal", "B/object"},
			nil, []goal{{most: 100}},
		},
		{
			"start to resumed, 1,000,000 known objects", "s", scale("resume"+million, "kubejournal", "start-s"),
			nil, []goal{{most: 1}},
		},
		{
			"RSS, 300 idle streams", "MiB", scale("idle/streams=300", "kubejournal", "rss-MiB"),
			nil, []goal{{most: 60}},
		},
		{
			"commit of 1,000 changes among 1,000,000 known", "ns", commit("1000000", "kubejournal", "ns/op"),
			[]beside{few}, []goal{{most: 5, over: &few}},
		},
		{
			"CPU of a standby per event, changes as they are made", "us", standby("standby", "cpu-us/event"),
			[]beside{single, {name: "its leader", of: standby("leader", "cpu-us/event")}},
			[]goal{{most: 1.2, over: &single}},
		},
		{"memory of a standby, more than of a single daemon", "MiB", standby("standby", "more-rss-MiB"), nil,
			[]goal{{most: 64}}},
		{"writes to the Lease per retryPeriod, by leader and standby", "", standby("leader", "lease-writes/retry"), nil,
			[]goal{{most: 1}}},
		{
			"get: a namespace's pods at a time, of a journal of 10 GB in 100 files, as JSON", "s",
			ask("namespace", "kubejournal", "s"), otherWays("namespace"), []goal{{most: 0.1}},
		},
		{"get: all 20,000 pods at a time, as a table", "s", ask("all-table", "kubejournal", "s"), nil,
			[]goal{{most: 1}}},
		{
			"history of a pod", "s", ask("history", "kubejournal", "s"),
			otherWays("history"), []goal{{most: 0.05}},
		},
		{"why a pod is gone", "s", ask("why", "kubejournal", "s"), nil, []goal{{most: 0.3}}},
		{"serve: a namespace's pods, table", "s", ask("namespace-table", "serve", "s"),
			[]beside{{name: "get, a process each", of: ask("namespace-table", "kubejournal", "s")}}, []goal{{most: 0.2}}},
		{"serve: all 20,000 pods, table, in pages of 500", "s", ask("all-table", "serve", "s"),
			[]beside{{name: "get, a process each", of: ask("all-table", "kubejournal", "s")}}, []goal{{most: 1}}},
		{"serve: memory of all requests but those of 20 clients", "MiB", ask("all-table", "serve", "rss-MiB"), nil,
			[]goal{{most: 100}}},
		{"memory of these and of blame and diff, the most", "MiB", ask("all-table", "kubejournal", "rss-MiB"), nil,
			[]goal{{most: 100, every: memory}}},
		{"indexes, of the bytes of lines", "%", rotate("all", "index-%"), nil, []goal{{most: 2}}},
		{"CPU of a rotation", "s/GB", rotate("kubejournal", "cpu-s/GB"), []beside{oneStreamCPU},
			[]goal{{most: 1.05, over: &oneStreamCPU}}},
		{"compressed size", "%", rotate("kubejournal", "zip-%"), []beside{oneStreamSize},
			[]goal{{most: 1.1, over: &oneStreamSize}}},
	}
}

// otherWays are what one would ask without the program. They were timed on a few files.
func otherWays(question string) (all []beside) {
	for _, way := range []string{"zcat-jq", "zcat-grep", "duckdb"} {
		all = append(all,
			beside{name: strings.ReplaceAll(way, "-", " | ") + " (3 files, multiplied)", of: ask(question, way, "s")})
	}
	return all
}

func askRows() (rows []row) {
	for _, q := range questions {
		rows = append(rows, row{q.name, "s", ask(q.of, "kubejournal", "s"), nil, nil},
			row{q.name + ", memory", "MiB", ask(q.of, "kubejournal", "rss-MiB"), nil, nil})
	}
	for _, q := range requests {
		rows = append(rows, row{q.name, "s", ask(q.of, "serve", "s"), nil, nil},
			row{q.name + ", memory", "MiB", ask(q.of, "serve", "rss-MiB"), nil, nil})
	}
	grep := beside{name: "zcat | grep", of: ask("grep", "zcat-grep", "MB/s")}
	rows = append(rows, row{"history --grep, bytes of lines", "MB/s", ask("grep", "kubejournal", "MB/s"), []beside{grep}, nil})
	for _, way := range []string{"zcat-jq", "duckdb"} {
		rows = append(rows, row{"memory of " + way + ", a namespace's pods of 3 files", "MiB",
			ask("namespace", way, "rss-MiB"), nil, nil})
	}
	return rows
}

func rotateRows() []row {
	return []row{
		{"CPU", "s/GB", rotate("kubejournal", "cpu-s/GB"), []beside{oneStreamCPU}, nil},
		{"compressed, of the bytes of lines", "%", rotate("kubejournal", "zip-%"), []beside{oneStreamSize}, nil},
		{"index, of the bytes of lines", "%", rotate("all", "index-%"), nil, nil},
	}
}

func wireRows() (rows []row) {
	for _, k := range kinds {
		var all []beside
		for _, way := range baselines {
			all = append(all, beside{name: way, of: wire(k, way, "cpu-us/event")})
		}
		rows = append(rows, row{k, "us", wire(k, "kubejournal", "cpu-us/event"), all, nil})
	}
	for _, k := range kinds {
		rows = append(rows, row{
			"allocations per event, " + k, "", wire(k, "kubejournal", "allocs/event"),
			[]beside{{name: "informer", of: wire(k, "informer", "allocs/event")}}, nil,
		}, row{
			"bytes allocated per event, " + k, "B", wire(k, "kubejournal", "B/event"),
			[]beside{{name: "informer", of: wire(k, "informer", "B/event")}}, nil,
		})
	}
	return rows
}

func onTopRows() (rows []row) {
	plain := beside{name: "without", of: wire("pod-6KB", "kubejournal", "cpu-us/event")}
	informer := beside{name: "informer, which does none of it", of: wire("pod-6KB", "informer", "cpu-us/event")}
	for _, o := range []struct{ name, way string }{
		{"changes", "changes"},
		{"changes, payload none", "changes-only"},
		{"ignoreFields, every event held back", "ignoreFields"},
		{"filter on a field, every event written", "filter"},
		{"types, every event written", "types"},
		{"one of 4 shards, every event received", "shard"},
	} {
		rows = append(rows,
			row{o.name, "us", wire("pod-6KB", "kubejournal+"+o.way, "cpu-us/event"), []beside{plain, informer}, nil})
	}
	return rows
}

func realRows() (rows []row) {
	for _, h := range []struct{ name, of string }{
		{"replay", "CPU per event, history read at full speed"},
		{"live", "CPU per event, changes as they are made, all ways at once"},
	} {
		var all []beside
		for _, way := range baselines {
			all = append(all, beside{name: way, of: realServer(h.name, way, "cpu-us/event")})
		}
		rows = append(rows, row{h.of, "us", realServer(h.name, "kubejournal", "cpu-us/event"), all, nil})
	}
	var all []beside
	for _, way := range baselines {
		all = append(all, beside{name: way, of: realServer("replay", way, "start-cpu-ms")})
	}
	return append(rows, row{"CPU of start and end, which is within the above", "ms",
		realServer("replay", "kubejournal", "start-cpu-ms"), all, nil})
}

func shardRows() (rows []row) {
	for _, selects := range []string{"server", "daemon"} {
		for _, f := range []struct{ name, unit, text string }{
			{"events", "%-of-events", "%"}, {"CPU per event", "cpu-us/event", "us"},
			{"bytes from the server per event", "read-B/event", "B"}, {"memory at the most", "rss-MiB", "MiB"},
		} {
			of := func(way string) measure {
				return measure{"BenchmarkShard/selects=" + selects + "/way=" + way, f.unit}
			}
			all := []beside{{name: "the whole", of: of("whole")}}
			if f.unit == "cpu-us/event" {
				all = append(all, beside{name: "raw copy of the whole", of: of("raw")})
			}
			rows = append(rows, row{f.name + ", the " + selects + " selects", f.text, of("shard"), all, nil})
		}
	}
	return rows
}

func standbyRows() (rows []row) {
	for _, way := range []string{"leader", "standby"} {
		rows = append(rows,
			row{"CPU of a " + way + " per event", "us", standby(way, "cpu-us/event"),
				[]beside{{name: "a single daemon", of: standby("single", "cpu-us/event")}}, nil},
			row{"memory of a " + way + " at the most", "MiB", standby(way, "rss-MiB"),
				[]beside{{name: "a single daemon", of: standby("single", "rss-MiB")}}, nil},
		)
	}
	return append(rows,
		row{"reads of the Lease per retryPeriod", "", standby("leader", "lease-reads/retry"), nil, nil},
		row{"positions of 300 streams in the Lease", "B",
			measure{"BenchmarkPositions/streams=300", "B/lease"}, nil, nil},
		row{"the same, CPU of a renewal", "ns", measure{"BenchmarkPositions/streams=300", "ns/op"}, nil, nil},
	)
}

func latencyRows() (rows []row) {
	for _, q := range []string{"p50", "p99", "max"} {
		rows = append(rows, row{
			q + ", sent to readable", "ms", latency("kubejournal", q+"-ms"),
			[]beside{{name: "raw", of: latency("raw", q+"-ms")}}, nil,
		})
	}
	return append(rows,
		row{"p99, field time to readable", "ms", latency("kubejournal-received", "p99-ms"), nil, nil},
		row{"p99, bucket of kubejournal_event_write_seconds", "ms", latency("kubejournal-metric", "p99-ms"), nil, nil},
	)
}

func scaleRows() (rows []row) {
	for _, run := range []string{"first-sync-streamed", "first-sync-paged", "relist-streamed", "relist-paged"} {
		rows = append(rows,
			row{run + ", time", "s", scale(run+million, "kubejournal", "wall-s"), nil, nil},
			row{run + ", CPU", "s", scale(run+million, "kubejournal", "cpu-s"), nil, nil},
		)
	}
	return append(rows,
		row{"300 idle streams, goroutines per stream", "",
			scale("idle/streams=300", "kubejournal", "goroutines/stream"), nil, nil},
		row{"300 idle streams, CPU per minute", "ms", scale("idle/streams=300", "kubejournal", "cpu-ms/min"), nil, nil},
		row{
			"lists of 100,000 in pages, gzip, CPU", "s", scale("list-gzip-on/objects=100000", "kubejournal", "cpu-s"),
			[]beside{{name: "no gzip", of: scale("list-gzip-off/objects=100000", "kubejournal", "cpu-s")}}, nil,
		},
		row{
			"the same, bytes on the wire", "MiB", scale("list-gzip-on/objects=100000", "kubejournal", "wire-MiB"),
			[]beside{{name: "no gzip", of: scale("list-gzip-off/objects=100000", "kubejournal", "wire-MiB")}}, nil,
		},
		row{"anonymous RSS, blocked output under 100 fast watches of 200 KB objects", "MiB",
			scale("blocked/streams=100", "kubejournal", "rss-anon-MiB"), nil, nil},
	)
}

func checkpointRows() []row {
	return []row{
		{
			"open of 1,000,000 known objects, every byte checked", "ns", measure{wholeOpen + "kubejournal", "ns/op"},
			[]beside{{name: "reading the file", of: measure{wholeOpen + "read", "ns/op"}}}, nil,
		},
		{
			"commit of 1,000 changes among 1,000 known", "ns", commit("1000", "kubejournal", "ns/op"),
			[]beside{{name: "plain bbolt, JSON", of: commit("1000", "plain", "ns/op")}}, nil,
		},
		{
			"commit of 1,000 changes among 1,000,000 known", "ns", commit("1000000", "kubejournal", "ns/op"),
			[]beside{{name: "plain bbolt, JSON", of: commit("1000000", "plain", "ns/op")}}, nil,
		},
		{
			"the same, CPU", "us", commit("1000000", "kubejournal", "cpu-us/op"),
			[]beside{{name: "plain bbolt, JSON", of: commit("1000000", "plain", "cpu-us/op")}}, nil,
		},
	}
}

func stepRows() (rows []row) {
	step := func(bench, size string) measure { return measure{"Benchmark" + bench + "/pod=" + size, "ns/op"} }
	for _, s := range []struct{ name, bench, beside, than string }{
		{"frame: find an event in the stream", "Frame", "copy", "Copy"},
		{"extract: check the JSON, find what a line needs", "Scan", "json.Valid", "JSONValid"},
		{"the same with redacted fields", "Redact", "json.Valid", "JSONValid"},
		{"append: write the line", "Append", "copy", "Copy"},
		{"all of these: stream to line", "Path", "json.Unmarshal", "JSONDecode"},
	} {
		for _, size := range []string{"2KB", "6KB", "60KB"} {
			rows = append(rows, row{s.name + ", pod of " + size, "ns", step(s.bench, size),
				[]beside{{name: s.beside, of: step(s.than, size)}}, nil})
		}
	}
	for _, size := range []string{"2KB", "6KB", "60KB"} {
		of := func(way string) measure { return measure{"BenchmarkJournal/line=" + size + "/way=" + way, "ns/op"} }
		rows = append(rows, row{"journal: write a line of " + size, "ns", of("kubejournal"),
			[]beside{{name: "File.Write", of: of("plain")}}, nil})
	}
	return append(rows, row{
		"diff: remember an object of a list", "ns",
		measure{"BenchmarkDiff/known=none/objects=1000000/way=kubejournal", "ns/op"},
		[]beside{{name: "a map", of: measure{"BenchmarkDiff/known=none/objects=1000000/way=plain", "ns/op"}}}, nil,
	}, row{
		"diff: the same, compared with the checkpoint, of a relist of 100,000", "ns",
		measure{"BenchmarkRelist/known=100000/way=kubejournal", "ns/object"},
		[]beside{{name: "all of it in maps", of: measure{"BenchmarkRelist/known=100000/way=plain", "ns/object"}}}, nil,
	})
}
