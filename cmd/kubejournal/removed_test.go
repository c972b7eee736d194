package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/journal"
	"kubejournal/test/journaltest"
)

// Lines of the largest namespace were removed: each question about others has the answer that it had before, and each that
// these lines may have been part of is in doubt.
func TestRemovedLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	start := time.Now().Add(-40 * time.Minute).Truncate(time.Second)
	j := journaltest.New(t, path, start)
	configmaps, deployments, nodes := j.Stream("configmaps", "ConfigMap"), j.Stream("deployments.apps", "Deployment"), j.Stream("nodes", "Node")
	all := []*journaltest.Stream{configmaps, deployments, nodes}
	object := func(namespace, name, uid string, n int) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":%q},"data":{"n":"%d"}}`, namespace, name, uid, n)
	}
	for _, s := range all {
		s.Snapshot()
		if s == configmaps {
			s.Put("", object("shop", "old", "a1", 0))
			s.Put("", object("evil", "there-before", "b1", 0))
		}
		s.Synced()
	}
	random := rand.New(rand.NewPCG(1, 2))
	for minute := range 30 {
		j.Now = start.Add(time.Duration(minute) * time.Minute)
		configmaps.Put("alice", object("shop", "settings", "a2", minute))
		deployments.Put("bob", object("evil", "miner", "c1", minute))
		nodes.Put("kubelet", fmt.Sprintf(`{"metadata":{"name":"node-1","uid":"d1"},"data":{"n":"%d"}}`, minute))
		for n := range 20 {
			j.Now = j.Now.Add(time.Second)
			configmaps.Put("mallory", fmt.Sprintf(`{"metadata":{"namespace":"evil","name":"pad-%d-%d","uid":"e%d"},"data":{"n":"%x%x%x%x%x%x%x%x"}}`, minute, n, 100*minute+n,
				random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()))
		}
		if minute == 12 {
			configmaps.Delete("b1")
		}
		if minute%5 == 4 {
			j.Rotate()
		}
		j.Confirm(false, all...)
	}
	confirmNow(t, j, path, all...)
	at := func(minute int) string {
		return start.Add(time.Duration(minute)*time.Minute + 30*time.Second).Format(time.RFC3339)
	}
	others := [][]string{
		{"history", "-n", "shop"},
		{"history", "-n", "shop", "cm/settings", "--since", at(3), "--until", at(9)},
		{"history", "deploy/miner", "-n", "evil"},
		{"history", "nodes"},
		{"get", "cm", "-n", "shop"},
		{"get", "cm", "-n", "shop", "--at", at(7), "-o", "json"},
		{"get", "deploy", "-A", "--at", at(7)},
		{"get", "nodes", "--at", at(20), "-o", "yaml"},
		{"diff", "cm/settings", "-n", "shop", "--at", at(2), "--and", at(8)},
		{"blame", "cm/settings", "-n", "shop"},
		{"blame", "node/node-1", "--at", at(6)},
		{"coverage", "-n", "shop", "--until", at(25)},
	}
	theirs := [][]string{
		{"history", "cm", "-n", "evil"},
		{"history", "-n", "evil"},
		{"history", "cm/pad-2-3", "-n", "evil"},
		{"history", "-A", "--since", at(1), "--until", at(2)},
		{"get", "cm", "-n", "evil", "--at", at(4)},
		{"get", "cm", "-A", "--at", at(4)},
		{"history", "--deleted", "-n", "evil"},
		{"history", "cm/never-there", "-n", "evil"},
		{"get", "cm/pad-2-3", "-n", "evil", "--at", at(4)},
	}
	ask := func(args []string) (int, string, string) {
		t.Helper()
		return execute(t, append(args, "--journal", path)...)
	}
	before := make(map[string]string)
	for _, args := range others {
		status, stdout, _ := ask(args)
		before[strings.Join(args, " ")] = fmt.Sprint(status, stdout)
	}
	kept, err := journal.Measure(path)
	if err != nil {
		t.Fatal(err)
	}
	j.Compact(kept.Size * 6 / 10)
	confirmNow(t, j, path, all...)
	check := func(when string) {
		t.Helper()
		for _, args := range others {
			status, stdout, stderr := ask(args)
			if got, want := fmt.Sprint(status, stdout), before[strings.Join(args, " ")]; got != want {
				t.Errorf("%s: %q: %s%s\nwant %s", when, args, got, stderr, want)
			}
		}
		for _, args := range theirs {
			status, stdout, stderr := ask(args)
			if status != 3 || !strings.Contains(stderr, "removed") {
				t.Errorf("%s: %q: status %d\n%s%s", when, args, status, stdout, stderr)
			}
		}
	}
	check("compacted")
	if status, stdout, stderr := ask([]string{"index", "--verify"}); status != 0 {
		t.Errorf("verify: status %d\n%s%s", status, stdout, stderr)
	}
	if status, stdout, stderr := ask([]string{"tail", "--no-follow", "-N", "all"}); status != 0 || !strings.Contains(stdout, "lines are gone") {
		t.Errorf("tail: status %d\n%.2000s%s", status, stdout, stderr)
	}
	// Without indexes, and with new ones.
	indexes, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.index"))
	if err != nil || len(indexes) == 0 {
		t.Fatal(indexes, err)
	}
	for _, index := range indexes {
		if err := os.Remove(index); err != nil {
			t.Fatal(err)
		}
	}
	check("without indexes")
	if status, _, stderr := ask([]string{"index"}); status != 0 {
		t.Fatalf("index: %s", stderr)
	}
	check("with new indexes")
}
