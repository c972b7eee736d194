package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kubefake"
	"kubejournal/test/invariant"
)

// soon is how long a condition may take to come true on a machine under load.
const soon = time.Minute

// syncBuffer is a buffer that many goroutines write into.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// live is a daemon that runs in the test's process, against a server in it.
type live struct {
	t    *testing.T
	srv  *kubefake.Server
	dir  string
	log  syncBuffer
	stop func() int
}

// newLive makes a server and a folder; the daemon is still to be started.
func newLive(t *testing.T) *live {
	t.Helper()
	clearEnv(t)
	l := &live{t: t, srv: kubefake.New(kubefake.Options{}), dir: t.TempDir()}
	t.Cleanup(l.srv.Close)
	kubeconfig, err := l.srv.Kubeconfig(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon's log:\n%s", l.log.String())
		}
	})
	return l
}

// start runs the daemon with these arguments. It ends with the test.
func (l *live) start(args ...string) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	exited := make(chan int, 1)
	go func() { exited <- run(ctx, append([]string{"run"}, args...), nil, io.Discard, &l.log) }()
	ended := sync.OnceValue(func() int {
		cancel()
		return wait(l.t, exited)
	})
	l.stop = ended
	l.t.Cleanup(func() { ended() })
}

func (l *live) config() string  { return filepath.Join(l.dir, "kubejournal.yaml") }
func (l *live) journal() string { return filepath.Join(l.dir, "journal.jsonl") }

// text is a config with these resources and more lines.
func (l *live) text(resources string, more ...string) string {
	all := []string{
		"resources: [" + resources + "]",
		fmt.Sprintf("checkpoint: {path: %q, interval: 50ms}", filepath.Join(l.dir, "c.db")),
	}
	if !strings.Contains(strings.Join(more, "\n"), "output:") {
		all = append(all, fmt.Sprintf("output: {path: %q}", l.journal()))
	}
	if !strings.Contains(strings.Join(more, "\n"), "listen:") {
		all = append(all, "listen: 127.0.0.1:0")
	}
	return strings.Join(append(all, more...), "\n") + "\n"
}

func (l *live) until(what string, condition func() bool) {
	l.t.Helper()
	deadline, tick := time.NewTimer(soon), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			l.t.Fatalf("not so after %v: %s", soon, what)
		}
	}
}

func (l *live) logged(text string) int { return strings.Count(l.log.String(), text) }

// address is where the daemon listens now.
func (l *live) address() string {
	address := ""
	for line := range strings.Lines(l.log.String()) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			address = entry.Address
		}
	}
	return address
}

func (l *live) get(path string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + l.address() + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// watched waits until these streams, and no others, watch.
func (l *live) watched(want ...string) {
	l.t.Helper()
	l.until(fmt.Sprintf("%q watch", want), func() bool {
		var streams []struct{ Stream, State string }
		if l.address() == "" || json.Unmarshal([]byte(l.get("/streams")), &streams) != nil {
			return false
		}
		var got []string
		for _, s := range streams {
			if s.State == "Watching" {
				got = append(got, s.Stream)
			}
		}
		return slices.Equal(got, want) && len(streams) == len(got)
	})
}

// reloaded waits until a config has been applied n times.
func (l *live) reloaded(n int) {
	l.t.Helper()
	l.until(fmt.Sprintf("%d reloads", n), func() bool { return l.logged(`"msg":"config reloaded"`) >= n })
}

// refused waits until the last reload has failed with this fault among others: readiness says so after the log and the metric.
func (l *live) refused(fault string) {
	l.t.Helper()
	l.until("it is refused: "+fault, func() bool {
		_, faults, found := strings.Cut(l.get("/readyz?verbose"), " failed, the config from before runs: ")
		return found && strings.Contains(faults, fault)
	})
	if !strings.Contains(l.get("/metrics"), "kubejournal_config_last_reload_successful 0") {
		l.t.Errorf("refused for %s, and the metric does not say so", fault)
	}
}

// inEffect waits until the config file as it is now is the one in effect.
func (l *live) inEffect() {
	l.t.Helper()
	content, err := os.ReadFile(l.config())
	if err != nil {
		l.t.Fatal(err)
	}
	want := fmt.Sprintf("kubejournal_config_info{hash=\"sha256:%x\"} 1\n", sha256.Sum256(content))
	l.until("it has "+want, func() bool { return strings.Contains(l.get("/metrics"), want) })
}

func (l *live) put(gvr schema.GroupVersionResource, name string) {
	l.t.Helper()
	if _, err := l.srv.Create(gvr, map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}}); err != nil {
		l.t.Fatal(err)
	}
}

// asked counts the requests for a resource.
func (l *live) asked(resource string) int {
	n := 0
	for _, r := range l.srv.Requests() {
		if r.Resource == resource {
			n++
		}
	}
	return n
}

func (l *live) hangUp() {
	l.t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		l.t.Fatal(err)
	}
}

// An edit of the file takes effect, and leaves alone what it does not change. One
// with a fault changes nothing, is told of, and is forgotten with the next.
func TestReload(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps, secrets"))
	l.start("--config", l.config())
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

	writeFile(t, l.config(), l.text("configmaps"))
	l.inEffect()
	l.watched("configmaps")
	l.until("it is well again", func() bool {
		return strings.Contains(l.get("/metrics"), "kubejournal_config_last_reload_successful 1") &&
			strings.Contains(l.get("/readyz?verbose"), "[+]config ok: reloaded at ")
	})
	if got := l.asked("configmaps"); got != asked {
		t.Errorf("%d requests for what has stayed the same", got-asked)
	}
	l.put(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "a")
	if status := l.stop(); status != 0 {
		t.Errorf("status %d", status)
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
		l.start("--config", l.config())
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
		l.start("configmaps", "--listen", "127.0.0.1:0")
		l.watched("configmaps")
		l.hangUp()
		l.until("it says so", func() bool { return l.logged("SIGHUP: there is no config file") == 1 })
		l.watched("configmaps")
		if status := l.stop(); status != 0 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("during the start", func(t *testing.T) {
		l := newLive(t)
		l.srv.StopAPIServer()
		writeFile(t, l.config(), l.text("configmaps"))
		l.start("--config", l.config())
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
				r := &reloader{manner: manner{path: path}}
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
	l.start("--config", l.config())
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
	l.start("--config", l.config())
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
	l := newLive(t)
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	out := func(more string) string { return fmt.Sprintf("output: {path: %q%s}", l.journal(), more) }
	writeFile(t, l.config(), l.text("configmaps", out("")))
	l.start("--config", l.config())
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

	writeFile(t, l.config(), l.text("configmaps", out(", maxSize: 4KiB, compress: false, sync: never"), `listen: "localhost:0"`, "log: {level: error}"))
	l.until("it listens elsewhere", func() bool { return l.address() != first })
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
	other := kubefake.New(kubefake.Options{})
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
	l.start("--config", l.config())
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
	writeFile(t, l.config(), l.text("configmaps"))
	l.start("--config", l.config())
	l.watched("configmaps")
	l.srv.SetToken("another")
	if _, err := l.srv.Kubeconfig(l.dir); err != nil {
		t.Fatal(err)
	}
	l.until("it is noticed", func() bool { return l.logged("the credentials have changed, using the new ones") == 1 })
	l.srv.EndWatches()
	l.put(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "a")
	l.until("a is told", func() bool {
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
	l.start("--config", l.config())
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
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.start("--config", l.config())
	l.watched("configmaps")
	for i := range 300 {
		writeFile(t, l.config(), l.text("configmaps", fmt.Sprintf("cluster: c%d", i)))
		l.hangUp()
	}
	writeFile(t, l.config(), l.text("secrets"))
	l.watched("secrets")
	if n := l.logged("config not reloaded"); n > 0 {
		t.Errorf("%d faults of files that have none", n)
	}
}

func TestStatus(t *testing.T) {
	l := newLive(t)
	l.srv.Forbid(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	writeFile(t, l.config(), l.text("configmaps, secrets"))
	l.start("--config", l.config())
	l.until("it listens", func() bool { return l.address() != "" })
	l.until("secrets are pending", func() bool { return strings.Contains(l.get("/streams"), "Forbidden") })
	l.until("configmaps are watched", func() bool { return strings.Contains(l.get("/streams"), `"Watching"`) })
	status, stdout, stderr := execute(t, "status", "--address", l.address())
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{"address  " + l.address(), "ready    yes", "up       ", "version  ", "no progress: secrets", "\nconfigmaps  Watching             ", "\nsecrets     Pending (Forbidden)  -", "s ago  "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "version  go1") {
		t.Errorf("Go's version in place of ours:\n%s", stdout)
	}
	status, stdout, _ = execute(t, "status", "--address", l.address(), "-o", "json")
	var streams []map[string]any
	if err := json.Unmarshal([]byte(stdout), &streams); status != 0 || err != nil || len(streams) != 2 {
		t.Errorf("status %d, %v: %s", status, err, stdout)
	}
}

func TestStatusFaults(t *testing.T) {
	clearEnv(t)
	dir := t.TempDir()
	t.Chdir(dir)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := silent.Addr().String()
	silent.Close()
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go web.Serve(at)
	defer web.Close()
	_, port, err := net.SplitHostPort(nobody)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, "every.yaml", "resources: [pods]\nlisten: \":"+port+"\"\n")
	writeFile(t, "bad.yaml", "resorces: [pods]\nlisten: \":"+port+"\"\n")
	writeFile(t, "off.yaml", "resources: [pods]\nlisten: \"\"\n")
	writeFile(t, "any.yaml", "resources: [pods]\nlisten: \"127.0.0.1:0\"\n")
	writeFile(t, "broken.yaml", "resources: [\n")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--address", nobody}, 1, "no kubejournal answers at " + nobody + ": connect: connection refused; is it running"},
		{[]string{"--config", "every.yaml"}, 1, "no kubejournal answers at 127.0.0.1:" + port},
		{[]string{"--config", "bad.yaml"}, 1, "no kubejournal answers at 127.0.0.1:" + port},
		{[]string{"--address", at.Addr().String()}, 1, "is no kubejournal: 404 Not Found"},
		{[]string{"--config", "off.yaml"}, 2, "listens nowhere"},
		{[]string{"--config", "any.yaml"}, 2, "any free port"},
		{[]string{"--config", "broken.yaml"}, 2, "broken.yaml:"},
		{[]string{"--address", "8080"}, 2, "--address: \"8080\" is no address and port"},
		{[]string{"-o", "xml"}, 2, "--output: \"xml\" is not known"},
		{[]string{"pods"}, 2, "unexpected argument"},
	} {
		status, stdout, stderr := execute(t, append([]string{"status"}, c.args...)...)
		if status != c.status || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want %d and %q", c.args, status, stdout, stderr, c.status, c.want)
		}
	}
}
