package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"go.etcd.io/bbolt"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/format/line"
)

// makeCheckpoint is the script command "checkpoint FILE": it makes a checkpoint with a stream in each state.
func makeCheckpoint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: checkpoint FILE")
	}
	ts.Check(fillCheckpoint(ts.MkAbs(args[0])))
}

func fillCheckpoint(path string) error {
	s, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	b := checkpoint.NewBatch()
	for name, st := range map[string]*checkpoint.Stream{
		"pods":               {ResourceVersion: "4711"},
		"configmaps":         {ResourceVersion: "4000", PendingGap: "Expired"},
		"secrets":            {ResourceVersion: "12", Open: &checkpoint.Gap{FromResourceVersion: "12", ResourceVersion: "99", Count: line.Count{Added: 1}}},
		"deployments.apps":   nil, // a snapshot that was cut short
		"pods?namespace=web": {ResourceVersion: "4712"},
	} {
		c := checkpoint.Changes{State: st}
		for i := range len(name) {
			if name != "pods?namespace=web" { // knows nothing
				c.Put([]byte("web"), []byte(strconv.Itoa(i)), []byte("u"), []byte("1"))
			}
		}
		b.Add(name, &c)
	}
	b.SetMark(checkpoint.Mark{Seq: 1234, FirstSeq: 1000, Offset: 56789})
	if err := s.SetCluster("11111111-2222-3333-4444-555555555555"); err != nil {
		return err
	}
	if err := s.Commit(b); err != nil {
		return err
	}
	return s.Close()
}

// whileHeld is the script command "holding FILE N program args...": it runs a program while the file is held as a
// daemon holds it, and wants that exit status.
func whileHeld(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: holding FILE N program args...")
	}
	s, err := checkpoint.OpenExisting(ts.MkAbs(args[0]))
	ts.Check(err)
	defer s.Close()
	wantStatus(ts, false, args[1:])
}

// damage is the script command "damage FILE TEXT": it changes one letter of the text wherever it stands in the file.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage FILE TEXT")
	}
	b, changed := []byte(ts.ReadFile(args[0])), []byte(args[1])
	if !bytes.Contains(b, changed) {
		ts.Fatalf("%s holds no %s", args[0], args[1])
	}
	changed[0]++
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.ReplaceAll(b, []byte(args[1]), changed), 0o600))
}

// makeNewer is the script command "newer FILE": it gives a checkpoint the schema of a version to come.
func makeNewer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: newer FILE")
	}
	db, err := bbolt.Open(ts.MkAbs(args[0]), 0o600, nil)
	ts.Check(err)
	defer db.Close()
	schema := binary.AppendUvarint(nil, checkpoint.SchemaVersion+1)
	schema = binary.BigEndian.AppendUint32(schema, crc32.Checksum(schema, crc32.MakeTable(crc32.Castagnoli)))
	ts.Check(db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), schema) }))
}

func TestCheckpointJSON(t *testing.T) {
	clearEnv(t)
	path := filepath.Join(t.TempDir(), "c.db")
	if err := fillCheckpoint(path); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := execute(t, "checkpoint", "reset", "pods", "--checkpoint", path); status != exitOK {
		t.Fatalf("reset: status %d, %s", status, stderr)
	}
	status, stdout, stderr := execute(t, "checkpoint", "show", "--checkpoint", path, "-o", "json")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d, stderr %s", status, stderr)
	}
	var got checkpoint.Summary
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Summary{
		Path: path, Size: info.Size(), Cluster: "11111111-2222-3333-4444-555555555555", Schema: 1,
		Journal: checkpoint.Mark{Seq: 1234, FirstSeq: 1000, Offset: 56789},
		Streams: []checkpoint.StreamSummary{
			{Stream: "configmaps", ResourceVersion: "4000", State: "gap owed", Reason: "Expired", Known: 10},
			{Stream: "deployments.apps", State: "first sync", Known: 16},
			{Stream: "pods", State: "reset"},
			{Stream: "pods?namespace=web", ResourceVersion: "4712", State: "synced"},
			{
				Stream: "secrets", ResourceVersion: "12", State: "gap open", Known: 7,
				Gap: &checkpoint.Gap{FromResourceVersion: "12", ResourceVersion: "99", Count: line.Count{Added: 1}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A path that comes from nowhere is the user's fault; each source wins over the next.
func TestCheckpointPath(t *testing.T) {
	clearEnv(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"flag.db", "env.db", "file.db"} {
		if err := fillCheckpoint(name); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := execute(t, append([]string{"checkpoint", "show", "-o", "json"}, args...)...)
		if status != exitOK {
			return strconv.Itoa(status) + " " + stderr
		}
		var c checkpoint.Summary
		if err := json.Unmarshal([]byte(stdout), &c); err != nil {
			t.Fatal(err)
		}
		dir, name := filepath.Split(c.Path)
		if !filepath.IsAbs(dir) {
			t.Errorf("%v: %s is shown", args, c.Path)
		}
		return name
	}
	expect := func(want string, args ...string) {
		t.Helper()
		if got := shown(args...); got != want {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
	expect("2 kubejournal: no checkpoint named; name one with --checkpoint PATH, or its config with --config FILE; see 'kubejournal checkpoint show --help'\n")
	writeFile(t, "c.yaml", "resources: [pods]\ncheckpoint: {path: file.db}\n")
	expect("file.db", "--config", "c.yaml")
	t.Setenv(config.PathEnv, "c.yaml")
	expect("file.db")
	t.Setenv(checkpointEnv, "env.db")
	expect("env.db")
	expect("env.db", "--config", "c.yaml")
	expect("flag.db", "--checkpoint", "flag.db")
	t.Setenv(checkpointEnv, "")
	writeFile(t, "none.yaml", "resources: [pods]\ncheckpoint: {path: \"\"}\n")
	expect("2 kubejournal: none.yaml keeps no checkpoint: its checkpoint.path is empty; name one with --checkpoint PATH; see 'kubejournal checkpoint show --help'\n", "--config", "none.yaml")
	writeFile(t, "bad.yaml", "resources: []\n")
	expect("2 bad.yaml:1: resources: names no resource; list what to journal, e.g. resources: [pods, deployments.apps]\n", "--config", "bad.yaml")
}
