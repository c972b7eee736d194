package daemon

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/format/apidocs"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// An edit of the file takes effect, and leaves alone what it does not change. One
// with a fault changes nothing, is reported, and is forgotten with the next.
func TestReload(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps, secrets"))
	l.start()
	l.watched("configmaps", "secrets")
	l.inEffect()
	asked := l.asked("configmaps")

	writeFile(t, l.config(), l.text("configmaps, pods"))
	l.inEffect()
	l.watched("configmaps", "pods")
	if l.logged(`"streamsAdded":1,"streamsRemoved":1,"streamsChanged":0,"streamsUnchanged":1`) != 1 {
		t.Error("the log does not say what has changed")
	}
	for _, want := range []string{"kubejournal_config_last_reload_successful 1", `stream="pods"`, `kubejournal_tracked_objects{group="",resource="pods"}`,
		`kubejournal_filesystem_free_bytes{path="output"}`, `kubejournal_filesystem_size_bytes{path="checkpoint"}`} {
		if got := l.get("/metrics"); !strings.Contains(got, want) || strings.Contains(got, `stream="secrets"`) {
			t.Errorf("metrics lack %s, or have what is gone", want)
		}
	}

	writeFile(t, l.config(), l.text("configmaps, nodez, [", "resorces: []"))
	l.refused("kubejournal.yaml:")
	l.watched("configmaps", "pods")
	if got := l.get("/readyz?verbose"); !strings.Contains(got, "[+]config ok: reload at ") || !strings.Contains(got, "failed") {
		t.Errorf("readiness says %s", got)
	}
	writeFile(t, l.config(), l.text("configmaps, pods", "redact: [{resource: confgmaps, fields: [data.password]}]"))
	l.refused(`redact[0].resource: the server has no resource "confgmaps" (did you mean configmaps?); nothing would be redacted`)
	faults := l.logged("config not reloaded")
	if err := os.Chtimes(l.config(), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	// Two faults, one line each, naming the line of the file.
	writeFile(t, l.config(), l.text("configmaps", "logg: {}", "redactSecrets: maybe"))
	l.refused("logg: unknown key")
	if n := l.logged("config not reloaded") - faults; n != 2 {
		t.Errorf("%d more faults, want 2", n)
	}
	for _, want := range []string{"kubejournal.yaml:5: logg: unknown key", "kubejournal.yaml:6: redactSecrets: "} {
		if l.logged(want) != 1 {
			t.Errorf("no fault %q", want)
		}
	}

	well := func() {
		t.Helper()
		l.until("it is well again", func() bool {
			return strings.Contains(l.get("/metrics"), "kubejournal_config_last_reload_successful 1") &&
				strings.Contains(l.get("/readyz?verbose"), "[+]config ok: reloaded at ")
		})
	}
	writeFile(t, l.config(), l.text("configmaps, pods")) // as it is in effect
	well()
	writeFile(t, l.config(), l.text("configmaps"))
	l.inEffect()
	l.watched("configmaps")
	well()
	if got := l.asked("configmaps"); got != asked {
		t.Errorf("%d requests for what has stayed the same", got-asked)
	}
	l.put(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "a")
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	lines, err := invariant.Read(l.journal())
	if err != nil {
		t.Fatal(err)
	}
	if err := invariant.All(lines, invariant.Options{}); err != nil {
		t.Error(err)
	}
}

// SIGHUP asks for the same; where the file is as before nothing is touched, and
// where there is none nothing happens.
func TestHangUp(t *testing.T) {
	t.Run("with a config", func(t *testing.T) {
		l := newLive(t)
		writeFile(t, l.config(), l.text("configmaps"))
		l.start()
		l.watched("configmaps")
		asked := l.asked("configmaps")
		l.hangUp()
		l.reloaded(1)
		l.hangUp()
		l.reloaded(2)
		if got := l.asked("configmaps"); got != asked {
			t.Errorf("%d requests", got-asked)
		}
	})
	t.Run("without", func(t *testing.T) {
		l := newLive(t)
		l.start("configmaps")
		l.watched("configmaps")
		l.hangUp()
		l.until("it says so", func() bool { return l.logged("SIGHUP: there is no config file") == 1 })
		l.watched("configmaps")
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("during the start", func(t *testing.T) {
		l := newLive(t)
		l.srv.StopAPIServer()
		writeFile(t, l.config(), l.text("configmaps"))
		l.start()
		l.until("it waits for the server", func() bool { return l.logged("waiting for the API server") == 1 })
		l.hangUp()
		writeFile(t, l.config(), l.text("secrets"))
		if err := l.srv.StartAPIServer(); err != nil {
			t.Fatal(err)
		}
		l.watched("secrets")
	})
}

// A file that is empty for a moment, as between the two steps of a write, is
// waited for.
func TestConfigIsEmptyForAMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubejournal.yaml")
	for name, before := range map[string]func(){
		"empty":     func() { writeFile(t, path, "") },
		"not there": func() { os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before()
				r := &reloader{d: &Daemon{Options: Options{ConfigPath: path}}}
				written := make(chan struct{})
				go func() {
					synctest.Wait() // it has found nothing
					writeFile(t, path, "whole")
					close(written)
				}()
				content, err := r.read(t.Context())
				if <-written; err != nil || string(content) != "whole" {
					t.Errorf("read %q, %v", content, err)
				}
			})
		})
	}
}

// A file that stays away is a fault, and changes nothing.
func TestConfigGoesAndComesBack(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	if err := os.Remove(l.config()); err != nil {
		t.Fatal(err)
	}
	l.refused("no such file")
	l.watched("configmaps")
	writeFile(t, l.config(), l.text("configmaps, secrets"))
	l.until("it is well again", func() bool {
		return strings.Contains(l.get("/metrics"), "kubejournal_config_last_reload_successful 1")
	})
}

// What cannot change while it runs is refused, each key by its name, and nothing
// else of the same edit takes effect either.
func TestReloadOfFixedKeys(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	text := strings.ReplaceAll(l.text("secrets", "log: {format: console}", "output: {path: elsewhere.jsonl}"), "c.db", "d.db")
	writeFile(t, l.config(), text)
	l.refused("kubejournal.yaml:4: log.format: cannot change from")
	for _, want := range []string{"kubejournal.yaml:5: output.path: cannot change from", "kubejournal.yaml:2: checkpoint.path: cannot change from"} {
		if l.logged(want) != 1 {
			t.Errorf("no fault %q", want)
		}
	}
	l.watched("configmaps")
}

// What is not about streams takes effect as well.
func TestReloadOfTheRest(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	l := newLive(t)
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	out := func(more string) string { return fmt.Sprintf("output: {path: %q%s}", l.journal(), more) }
	writeFile(t, l.config(), l.text("configmaps", out("")))
	l.start()
	l.watched("configmaps")
	first := l.address()

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	writeFile(t, l.config(), l.text("configmaps", out(""), "listen: "+taken.Addr().String()))
	l.refused("listen: listen on " + taken.Addr().String() + ": ")
	if l.address() != first {
		t.Error("it says that it listens elsewhere")
	}
	// What was wrong was not in the file: the next look at it, the same as it is, is enough.
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, l.config(), l.text("configmaps", out(""), "listen: "+taken.Addr().String()))
	l.until("it listens where it could not", func() bool { return l.address() == taken.Addr().String() })
	first = l.address()

	rated := func() bool { return strings.Contains(l.get("/streams"), `"eventsPerSecond"`) }
	l.until("it knows how many lines are written", rated)
	writeFile(t, l.config(), l.text("configmaps", out(", maxSize: 4KiB, compress: false, sync: never"), `listen: "localhost:0"`, "log: {level: error}"))
	l.until("it listens elsewhere", func() bool { return l.address() != first })
	if !rated() {
		t.Error("it forgets the rates with its address")
	}
	l.watched("configmaps")
	if conn, err := net.Dial("tcp", first); err == nil {
		conn.Close()
		t.Error("it listens where it did before, too")
	}
	for i := range 20 {
		l.put(configMaps, fmt.Sprint("a", i))
	}
	l.until("the journal is rotated", func() bool {
		rotated, err := filepath.Glob(filepath.Join(l.dir, "journal-*.jsonl"))
		return err == nil && len(rotated) > 0
	})
	if l.logged("rotated the journal") > 0 {
		t.Error("the level of the log is as before")
	}
}

// The kubeconfig that the config names may change as long as it leads to the same
// cluster.
func TestReloadOfTheKubeconfig(t *testing.T) {
	l := newLive(t)
	other := fake.New(fake.Options{})
	defer other.Close()
	copied, foreign := t.TempDir(), t.TempDir()
	same, err := l.srv.Kubeconfig(copied)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := other.Kubeconfig(foreign)
	if err != nil {
		t.Fatal(err)
	}
	named := func(path string) string { return fmt.Sprintf("kubernetes: {kubeconfig: %q}", path) }
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	writeFile(t, l.config(), l.text("secrets", named(elsewhere)))
	l.refused("kubernetes.kubeconfig: cannot be used while kubejournal runs: ")
	if l.logged(" is another cluster, ") == 0 {
		t.Error("the fault does not say why")
	}
	writeFile(t, l.config(), l.text("configmaps, secrets", named(filepath.Join(foreign, "nothing"))))
	l.refused(filepath.Join(foreign, "nothing"))
	l.watched("configmaps")
	writeFile(t, l.config(), l.text("configmaps, secrets", named(same)))
	l.watched("configmaps", "secrets")
	// From here on it is that file which is looked at.
	l.srv.SetToken("another")
	if _, err := l.srv.Kubeconfig(copied); err != nil {
		t.Fatal(err)
	}
	l.until("the new token is used", func() bool { return l.logged("the credentials have changed, using the new ones") == 1 })
	for _, r := range other.Requests() {
		if r.Path != "/api/v1/namespaces/kube-system" {
			t.Errorf("asked the other cluster for %s", r.Path)
		}
	}
}

// A kubeconfig that is replaced is noticed while requests still work.
func TestKubeconfigIsReplaced(t *testing.T) {
	l := newLive(t)
	l.pulse = time.Hour // the old token is refused before the new one is noticed
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	// What the daemon asks for beside the streams, as it starts, is asked for.
	l.until("the API documents are recorded", func() bool {
		f, err := apidocs.Open(l.journal())
		if err != nil || f == nil {
			return false
		}
		defer f.Close()
		return len(f.Spans()) > 0
	})
	l.srv.SetToken("another")
	if _, err := l.srv.Kubeconfig(l.dir); err != nil {
		t.Fatal(err)
	}
	l.until("it is noticed", func() bool { return l.logged("the credentials have changed, using the new ones") == 1 })
	l.srv.EndWatches()
	l.put(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "a")
	l.until("a is written", func() bool {
		content, err := os.ReadFile(l.journal())
		return err == nil && strings.Contains(string(content), `"name":"a"`)
	})
	for _, r := range l.srv.Requests() {
		if r.Status == http.StatusUnauthorized {
			t.Errorf("refused: %s", r.Path)
		}
	}
}

// Edits that come one after the other while the one before is applied: the last
// file wins.
func TestTheLastFileWins(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	for i := range 40 {
		writeFile(t, l.config(), l.text([]string{"pods", "secrets, pods", "pods, configmaps", "pods, ["}[i%4]))
		l.hangUp()
	}
	writeFile(t, l.config(), l.text("secrets"))
	l.watched("secrets")
}

// A file that is written in place while it is read, again and again, is never taken for a config with faults: what is
// looked at and what is loaded are the same bytes.
func TestReloadBesideWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	for i := range 300 {
		writeFile(t, l.config(), l.text("configmaps", fmt.Sprintf("cluster: c%d", i)))
		l.hangUp()
	}
	writeFile(t, l.config(), l.text("secrets"))
	l.watched("secrets")
	// On a busy machine each of several reads can come between two steps of a write, where the file is empty.
	if n := l.logged("config not reloaded") - l.logged("is empty"); n > 0 {
		t.Errorf("%d faults of files that have none", n)
	}
}

// TestEmptiedDuringStart: a file that was emptied before the daemon was up is refused, as any later.
func TestEmptiedDuringStart(t *testing.T) {
	l := newLive(t)
	l.srv.StopAPIServer()
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.until("waits for the server", func() bool { return l.logged("waiting for the API server") == 1 })
	writeFile(t, l.config(), "")
	if err := l.srv.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
	l.watched("configmaps")
	l.refused("is empty")
}

// An edit of the defaults changes the streams that take them, and no others; an edit that means the same changes none.
func TestReloadOfDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	l := newLive(t)
	const entries = "configmaps, {resource: secrets, changes: false}, {resource: pods, changes: true, payload: object}"
	writeFile(t, l.config(), l.text(entries))
	l.start()
	l.watched("configmaps", "pods", "secrets")
	l.inEffect()
	for i, edit := range []struct{ defaults, want string }{
		{"defaults: {changes: true}", `"streamsChanged":1,"streamsUnchanged":2`},
		{"defaults: {changes: true, payload: metadata}", `"streamsChanged":2,"streamsUnchanged":1`},
		{"defaults: {payload: metadata, changes: true, ignoreFields: []}", `"streamsChanged":0,"streamsUnchanged":3`},
		{"", `"streamsChanged":2,"streamsUnchanged":1`},
	} {
		before := l.logged(`"streamsAdded":0,"streamsRemoved":0,` + edit.want)
		writeFile(t, l.config(), l.text(entries, edit.defaults))
		l.reloaded(i + 1)
		if l.logged(`"streamsAdded":0,"streamsRemoved":0,`+edit.want) != before+1 {
			t.Errorf("%q: the log does not have %s", edit.defaults, edit.want)
		}
	}
	l.watched("configmaps", "pods", "secrets")
	heldBack := []string{}
	writeFile(t, l.config(), l.text("configmaps, {resource: secrets, types: [ADDED]}, pods", "defaults: {filter: 'true', ignoreFields: [metadata.labels], initial: skip}"))
	l.until("the coverage names the keys", func() bool {
		streams, err := coverage.Read(l.journal())
		heldBack = heldBack[:0]
		for _, s := range streams {
			heldBack = append(heldBack, fmt.Sprint(s.Name, s.Intervals[len(s.Intervals)-1].HeldBack))
		}
		return err == nil && slices.Equal(heldBack, []string{
			"configmaps[filter ignoreFields initial]", "pods[filter ignoreFields initial]", "secrets[types filter ignoreFields initial]",
		})
	})
	writeFile(t, l.config(), l.text(entries, "defaults: {group: apps}"))
	l.refused("kubejournal.yaml:5: defaults.group: cannot be a default: ")
	if err := l.stop(); err != nil {
		t.Error(err)
	}
}
