package scenario

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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

// loaded returns whether the last load of the config was successful, and the hash of the config in effect.
func (d *daemon) loaded() (ok bool, hash string) {
	d.t.Helper()
	for name, value := range d.metrics() {
		if name == "kubejournal_config_last_reload_successful" {
			ok = value == 1
		}
		if label, found := strings.CutPrefix(name, `kubejournal_config_info{hash="`); found {
			hash = strings.TrimSuffix(label, `"}`)
		}
	}
	return ok, hash
}

// Reloads under churn, valid and not, by SIGHUP and by what is seen of the file: streams that an edit does not touch ask
// the server for nothing, one that comes and goes resumes, and no event is lost or told twice.
func TestReload(t *testing.T) {
	s := own.get(t)
	ns := s.namespaces(t, 3)
	steady := every(ns[0])
	coming := entry{Kind: configMaps, Namespaces: ns[1:2]}
	sc := play(t, s, append(steady, coming))
	m := &mounted{daemon: sc.daemon}
	var entries []any // of the steady streams
	for _, e := range steady {
		entries = append(entries, object{"resource": e.Kind.Resource.Resource, "group": e.Kind.Resource.Group, "namespaces": e.Namespaces})
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
	unchanged := func() (asked map[string]bool, watches int) {
		t.Helper()
		requests, err := s.Requests()
		if err != nil {
			t.Fatal(err)
		}
		asked = make(map[string]bool)
		for _, r := range requests {
			// A busy stream asks for the server's version now and then; one that is started anew also watches.
			version := r.Verb == "list" && (strings.Contains(r.RequestURI, "limit=1&") || strings.HasSuffix(r.RequestURI, "limit=1"))
			if r.Agent == "kubejournal" && r.Namespace == ns[0] && !version {
				asked[r.ID+" "+r.Verb+" "+r.Resource] = true
				if r.Verb == "watch" {
					watches++
				}
			}
		}
		return asked, watches
	}
	var before map[string]bool
	eventually(t, soon, "the audit log has the steady streams' watches", func() (err error) {
		var watches int
		if before, watches = unchanged(); watches < len(steady) {
			err = fmt.Errorf("it tells of %v", before)
		}
		return err
	})

	var inEffect string // hash of the config that is to be in effect
	for i := range reloads {
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
			m.process.signal(syscall.SIGHUP)
		}
		if valid {
			inEffect = fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		}
		// States, not moments: one edit may be noticed twice, the second time while the next is being written.
		eventually(t, soon, fmt.Sprintf("reload %d", i), func() error {
			if ok, hash := m.loaded(); ok != valid || hash != inEffect {
				return fmt.Errorf("successful %t with %s in effect, want %t and %s", ok, hash, valid, inEffect)
			}
			return nil
		})
	}
	m.rewrite(edit([]any{comes, changing(0)}, nil))
	m.await(sc.Ledger.Sources[len(steady)].Stream(), "Watching")
	writers.more(20)
	writers.Stop()
	sc.caughtUp()
	after, _ := unchanged()
	maps.DeleteFunc(after, func(request string, _ bool) bool { return before[request] })
	if len(after) > 0 {
		t.Errorf("streams that no edit touched asked the server: %v", after)
	}
	noGap(t, sc.verify(false))
}
