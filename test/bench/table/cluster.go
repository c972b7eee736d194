package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The tables of docs/scale.md.

// split is a way to share a cluster among daemons.
type split struct {
	daemons   int
	way, name string
}

var splits = []split{
	{1, "whole", "one daemon"},
	{4, "shard4-selected", "each of 4, the server selects"},
	{4, "shard4", "each of 4, the daemon selects"},
	{16, "shard16-selected", "each of 16, the server selects"},
	{16, "shard16", "each of 16, the daemon selects"},
}

// retriesPerSecond is the default retryPeriod of 2 s.
const retriesPerSecond = 0.5

// clusterTables prints what daemons take in clusters, a table for each size that was measured.
func clusterTables(w io.Writer, r results) {
	for _, nodes := range r.clusters() {
		of := func(s split, unit string) float64 {
			return valueOf(r[measure{fmt.Sprintf("BenchmarkScale/run=cluster/nodes=%d/way=%s", nodes, s.way),
				unit}]).median
		}
		fmt.Fprintf(w, "\n%s nodes: %s objects, %s events per second\n\n|", number(float64(nodes)),
			number(of(splits[0], "objects")), number(of(splits[0], "events/s")))
		for _, s := range splits {
			fmt.Fprintf(w, " | %s", s.name)
		}
		fmt.Fprintf(w, " |\n|%s\n", strings.Repeat(" --- |", 1+len(splits)))
		for _, c := range []struct {
			name string
			cost func(split) float64
			unit string
		}{
			{"CPU of a core", func(s split) float64 { return of(s, "cpu-%") }, "%"},
			{"with a standby, both together", func(s split) float64 { return of(s, "cpu-%") * r.pair() }, "%"},
			{"memory at the most", func(s split) float64 { return of(s, "rss-anon-MiB") }, "MiB"},
			{"memory after the first sync", func(s split) float64 { return of(s, "rss-anon-now-MiB") }, "MiB"},
			{"from the API server, per second", func(s split) float64 { return of(s, "wire-MiB/s") }, "MiB"},
			{"the same, all daemons together", func(s split) float64 {
				return of(s, "wire-MiB/s") * float64(s.daemons)
			}, "MiB"},
			{"journal per day", func(s split) float64 { return of(s, "journal-MiB/s") * 86400 / 1024 }, "GiB"},
			{"the same, compressed", func(s split) float64 {
				return of(s, "journal-MiB/s") * 86400 / 1024 * valueOf(r[rotate("kubejournal", "zip-%")]).median / 100
			}, "GiB"},
			{"CPU of compression", func(s split) float64 {
				return of(s,
					"journal-MiB/s") * (1 << 20) / 1e9 * valueOf(r[rotate("kubejournal", "cpu-s/GB")]).median * 100
			}, "%"},
			{"checkpoint", func(s split) float64 { return of(s, "checkpoint-MiB") }, "MiB"},
			{"writes to Leases per second, all leaders", func(s split) float64 {
				return float64(s.daemons) * retriesPerSecond * valueOf(r[standby("leader",
					"lease-writes/retry")]).median
			}, ""},
			{"reads, all standbys", func(s split) float64 {
				return float64(s.daemons) * retriesPerSecond * valueOf(r[standby("leader", "lease-reads/retry")]).median
			}, ""},
		} {
			fmt.Fprintf(w, "| %s", c.name)
			for _, s := range splits {
				text := "-"
				if cost := c.cost(s); cost > 0 {
					text = inUnit(cost, c.unit)
				}
				fmt.Fprintf(w, " | %s", text)
			}
			fmt.Fprintln(w, " |")
		}
	}
}

// pair is what a leader and its standby take of CPU, by a single daemon.
func (r results) pair() (sum float64) {
	for _, way := range []string{"leader", "standby"} {
		sum += ratio(r[standby(way, "cpu-us/event")], r[standby("single", "cpu-us/event")]).median
	}
	return sum
}

// clusters are the sizes that were measured.
func (r results) clusters() (nodes []int) {
	for m := range r {
		rest, ok := strings.CutPrefix(m.bench, "BenchmarkScale/run=cluster/nodes=")
		text, _, _ := strings.Cut(rest, "/")
		if n, err := strconv.Atoi(text); ok && err == nil && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes
}
