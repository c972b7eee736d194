package checkpoint

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/format/object"
)

var writeFormat = flag.Bool("write-format", false, "write testdata/schema3.* with this version: only for a new schema, under a new name")

// dump is everything that a file of schema 3 holds, as JSON.
func dump(t *testing.T, s *Store) string {
	t.Helper()
	all := make(map[string]any)
	var errs [12]error
	all["schema"], errs[0] = s.Schema()
	all["cluster"], errs[1] = s.Cluster()
	all["lost"], errs[2] = s.Lost()
	all["mark"], errs[3] = s.Mark()
	all["marked"], errs[4] = s.Marked()
	all["recovery"], _, errs[5] = s.Recovery()
	all["streams"], errs[6] = s.Streams()
	all["forgotten"], errs[7] = s.Forgotten()
	all["headers"], errs[8] = s.KeptHeaders()
	all["knowing"], errs[9] = s.Knowing()
	for _, name := range []string{"pods", "odd"} {
		known, kept := ranged(t, s, name), make(map[string]string)
		for _, k := range known {
			v, ok, err := s.Kept(nil, name, []byte(k.Namespace), []byte(k.Name))
			if errs[10] = errors.Join(errs[10], err); ok {
				kept[k.Name] = string(v)
			}
		}
		n, err := s.Count(name)
		if errs[11] = errors.Join(errs[11], err); n != len(known) {
			t.Errorf("%s: Count is %d, Range gives %d", name, n, len(known))
		}
		all[name], all["kept of "+name] = known, kept
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// writeSchema3 makes a file with each kind of record, and a compaction under way.
func writeSchema3(t *testing.T, path string) {
	s := mustOpen(t, path)
	b := NewBatch()
	state := func(c *Changes, text string) {
		c.State = new(Stream)
		if err := json.Unmarshal([]byte(text), c.State); err != nil {
			t.Fatal(err)
		}
	}
	var pods, odd, closing Changes
	for i := range 60 {
		put(&pods, numbered(i, 1000+i))
	}
	pods.KeepHeader([]byte("header"))
	pods.Keep([]byte("n1"), []byte("o0001"), []byte("a version"))
	state(&pods, `{"resourceVersion":"1200"}`)
	for i, v := range oddities {
		put(&odd, object.Known{Name: fmt.Sprint("text-", i), UID: v, ResourceVersion: v})
	}
	odd.put([]byte("n"), []byte("withheld"), []byte(uuid(1)), []byte("7"), flagWithheld)
	odd.Redeliver(object.Known{Namespace: "n", Name: "doubtful", UID: uuid(2), ResourceVersion: "8", Withheld: true})
	state(&odd, `{"resourceVersion":"5","owed":"Expired","open":{"fromResourceVersion":"5","resourceVersion":"9","added":1,"modified":2,"deleted":3}}`)
	state(&closing, `{"resourceVersion":"6","closing":{"added":4,"modified":5,"deleted":6,"unchanged":7}}`)
	b.Add("pods", &pods)
	b.Add("odd", &odd)
	b.Add("closing?namespace=web", &closing)
	b.SetMark(Mark{Seq: 123, Stdout: true, File: FileMark{Seq: 100, FirstSeq: 90, Offset: 4567}})
	mustCommit(t, s, b)
	s.policy = policy{entries: 8, batch: 1 << 12, total: 1 << 20}
	for version, n := range []int{8, 4} {
		var c Changes
		for i := range n {
			k := numbered(6*i+version, 1100+version)
			if i%3 == 2 {
				c.Delete([]byte(k.Namespace), []byte(k.Name))
				continue
			}
			put(&c, k)
		}
		b := NewBatch()
		b.Add("pods", &c)
		mustCommit(t, s, b)
	}
	b = NewBatch()
	b.SetRecovery(Recovery{From: &Mark{Seq: 123}, Mark: Mark{Seq: 130, FirstSeq: 90, Offset: 9876}, Anchored: true, Hole: true, Lines: 7, Streams: map[string]Stream{"pods": {ResourceVersion: "1300"}}})
	mustCommit(t, s, b)
	if err := errors.Join(s.Forget("secrets"), s.SetLost(), s.SetCluster("11111111-2222-3333-4444-555555555555")); err != nil {
		t.Fatal(err)
	}
	content := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(read(t, path)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), os.MkdirAll("testdata", 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, "testdata/schema3.db.gz", packed.Bytes())
	write(t, "testdata/schema3.json", []byte(content))
}

// TestEarlierFile: a file that an earlier version has written opens with all that is
// in it, and is gone on with: a compaction that was under way ends.
func TestEarlierFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	if *writeFormat {
		writeSchema3(t, filepath.Join(t.TempDir(), "new.db"))
	}
	z, err := gzip.NewReader(bytes.NewReader(read(t, "testdata/schema3.db.gz")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, b)
	s := mustOpen(t, path)
	var wrote, is any
	if err := errors.Join(json.Unmarshal(read(t, "testdata/schema3.json"), &wrote), json.Unmarshal([]byte(dump(t, s)), &is)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wrote, is); diff != "" {
		t.Fatalf("(-written +read):\n%s", diff)
	}
	log := s.logOf("pods")
	if log.until == 0 || len(log.order) == 0 {
		t.Fatalf("no compaction under way: %+v", log)
	}
	want := ranged(t, s, "pods")
	s.policy = policy{entries: 1 << 10, batch: 1 << 12, total: 1 << 20}
	for i := 0; s.logOf("pods").until != 0; i++ {
		if i == 100 {
			t.Fatal("the compaction does not end")
		}
		want[i%len(want)].ResourceVersion = fmt.Sprint(2000 + i)
		var c Changes
		put(&c, want[i%len(want)])
		b := NewBatch()
		b.Add("pods", &c)
		b.SetMark(Mark{Seq: uint64(200 + i)})
		mustCommit(t, s, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path)
	if got := ranged(t, s, "pods"); !slices.Equal(got, want) {
		t.Errorf("after the compaction:\n%s", cmp.Diff(want, got))
	}
}
