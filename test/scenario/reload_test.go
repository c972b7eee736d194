package scenario

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const reloads = 100 // of TestReload

// mounted is a config file as a ConfigMap's volume has it: config.yaml leads through ..data to a folder of its own.
type mounted struct {
	*daemon
	edits int
}

// swap writes the config as the kubelet does: a new folder, and the link to it replaced in one step.
func (m *mounted) swap(content []byte) {
	m.t.Helper()
	m.edits++
	folder := fmt.Sprintf("..edit-%d", m.edits)
	check := func(err error) {
		m.t.Helper()
		if err != nil {
			m.t.Fatal(err)
		}
	}
	check(os.Mkdir(filepath.Join(m.dir, folder), 0o700))
	check(os.WriteFile(filepath.Join(m.dir, folder, "config.yaml"), content, 0o600))
	data := filepath.Join(m.dir, "..data")
	check(os.Symlink(folder, data+"_new"))
	before, err := os.Readlink(data)
	check(os.Rename(data+"_new", data))
	if err == nil {
		check(os.RemoveAll(filepath.Join(m.dir, before)))
		return
	}
	check(os.Remove(m.config()))
	check(os.Symlink(filepath.Join("..data", "config.yaml"), m.config()))
}

// reloaded returns whether the last reload was successful, and when the last successful one was.
func (d *daemon) reloaded() (ok bool, at float64) {
	d.t.Helper()
	const prefix = "kubejournal_config_last_reload_success"
	found := 0
	for line := range strings.Lines(d.metrics()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case prefix + "ful":
			ok = value == "1"
			found++
		case prefix + "_timestamp_seconds":
			var err error
			if at, err = strconv.ParseFloat(value, 64); err != nil {
				d.t.Fatal(err)
			}
			found++
		}
	}
	if found != 2 {
		d.t.Fatalf("%d metrics of reloads", found)
	}
	return ok, at
}

// Reloads under churn, valid and not, by SIGHUP and by what is seen of the file: streams that an edit does not touch ask
// the server for nothing, one that comes and goes resumes, and no event is lost or told twice.
func TestReload(t *testing.T) {
	s := shared.disturb(t)
	ns := s.namespaces(t, 3)
	steady := every(ns[0])
	coming := entry{kind: configMaps, namespaces: ns[1:2]}
	sc := play(t, s, append(steady, coming))
	m := &mounted{daemon: sc.daemon}
	var entries []any // of the steady streams
	for _, e := range steady {
		entries = append(entries, object{"resource": e.kind.gvr.Resource, "group": e.kind.gvr.Group, "namespaces": e.namespaces})
	}
	comes := object{"resource": "configmaps", "namespaces": ns[1:2]}
	edit := func(more []any, keys object) []byte {
		return m.content(s.Kubeconfig(), append(entries[:len(entries):len(entries)], more...), keys)
	}
	// What is told of the third changes with each edit; nobody writes there.
	changing := func(n int) object {
		return object{"resource": "configmaps", "namespaces": ns[2:], "types": []string{"ADDED", "MODIFIED", "DELETED"}[:1+n%3]}
	}
	broken := [][]byte{
		[]byte("resources: [\n"),
		edit([]any{comes, comes}, nil),
		edit(nil, object{"colour": "red"}),
		edit([]any{object{"resource": "configmaps", "labelSelector": "app in ("}}, nil),
		edit(nil, object{"output": object{"path": filepath.Join(m.dir, "another.jsonl")}}),
	}
	m.swap(edit([]any{comes, changing(0)}, nil))
	m.start()
	writers := sc.churn(t, ns[:2]...)
	writers.more(20)
	unchanged := func() map[string]bool {
		t.Helper()
		requests, err := s.Requests()
		if err != nil {
			t.Fatal(err)
		}
		asked := make(map[string]bool)
		for _, r := range requests {
			if r.Agent == "kubejournal" && r.Namespace == ns[0] {
				asked[r.ID+" "+r.Verb+" "+r.Resource] = true
			}
		}
		return asked
	}
	before := unchanged()
	if len(before) < len(steady) {
		t.Fatalf("the audit log tells of %v", before)
	}

	for i := range reloads {
		ok, at := m.reloaded()
		content, valid := edit([]any{comes, changing(i)}, nil), true
		switch i % 4 {
		case 0:
			content = edit([]any{changing(i)}, nil) // the stream goes, and comes with the next valid edit
		case 1, 3:
			content, valid = broken[i/2%len(broken)], false
		}
		if i%2 == 0 {
			m.swap(content)
		} else {
			m.rewrite(content)
		}
		if i%5 < 4 { // else it is seen
			m.process.signal(t, syscall.SIGHUP)
		}
		eventually(t, soon, fmt.Sprintf("reload %d", i), func() error {
			okNow, atNow := m.reloaded()
			if okNow != valid || valid && atNow == at || !valid && atNow != at {
				return fmt.Errorf("successful %v at %f, before %v at %f", okNow, atNow, ok, at)
			}
			return nil
		})
	}
	m.rewrite(edit([]any{comes, changing(0)}, nil))
	m.await(sc.ledger.sources[len(steady)].stream(), "Watching")
	writers.more(20)
	writers.stop()
	sc.caughtUp()
	after := unchanged()
	maps.DeleteFunc(after, func(request string, _ bool) bool { return before[request] })
	if len(after) > 0 {
		t.Errorf("streams that no edit touched asked the server: %v", after)
	}
	noGap(t, sc.verify(false))
}
