package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/status"
)

// journalled runs a daemon on a server until it has written a SYNCED line, and
// ends it.
func journalled(t *testing.T, names ...string) *live {
	t.Helper()
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	for _, name := range names {
		l.put(configMaps, name)
	}
	l.start()
	l.until("it is synced", func() bool { return bytes.Contains(read(t, l.journal()), []byte(`"type":"SYNCED"`)) })
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	return l
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

// Lines about a stream name the cluster.
func TestClusterUID(t *testing.T) {
	l := journalled(t, "a")
	uid := clusterOf(t, l)
	if !strings.Contains(string(read(t, l.journal())), fmt.Sprintf(`"clusterUID":%q,"resourceVersion"`, uid)) {
		t.Errorf("no cluster %s in\n%s", uid, read(t, l.journal()))
	}
}

func clusterOf(t *testing.T, l *live) (uid string) {
	t.Helper()
	store := checkpointOf(t, l)
	defer store.Close()
	uid, err := store.Cluster()
	if err != nil || uid == "" {
		t.Fatalf("cluster %q, %v", uid, err)
	}
	return uid
}

func checkpointOf(t *testing.T, l *live) *checkpoint.Store {
	t.Helper()
	store, err := checkpoint.OpenReadOnly(filepath.Join(l.dir, "c.db"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// A journal of another cluster is refused before anything of it is taken.
func TestJournalOfAnotherCluster(t *testing.T) {
	own, other := journalled(t, "a"), journalled(t, "x", "y", "z")
	if kubeconfig, err := own.srv.Kubeconfig(own.dir); err != nil {
		t.Fatal(err)
	} else {
		t.Setenv("KUBECONFIG", kubeconfig)
	}
	foreign := read(t, other.journal())
	ownLines, checkpoint := read(t, own.journal()), filepath.Join(own.dir, "c.db")
	for name, c := range map[string]struct {
		journal []byte
		keep    bool // the checkpoint
	}{
		"and a checkpoint of this one": {foreign, true},
		"and a new checkpoint":         {foreign, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.keep {
				writeFile(t, filepath.Join(dir, "c.db"), string(read(t, checkpoint)))
			}
			l := &live{t: t, srv: own.srv, dir: dir}
			writeFile(t, l.journal(), string(c.journal))
			writeFile(t, l.config(), l.text("configmaps"))
			for round := range 2 { // nothing of the first start makes the second one go through
				l.start()
				l.until("it is refused", func() bool {
					return l.logged("kubejournal: output.path: ") > round || bytes.Contains(read(t, l.journal()), []byte("CheckpointLost"))
				})
				if err := l.stop(); err == nil {
					t.Errorf("it ended without an error\n%s", l.log.String())
				}
			}
			for _, want := range []string{l.journal() + " is the journal of another cluster (line 4: " + clusterOf(t, other), "this cluster is " + clusterOf(t, own), "name another output"} {
				if l.logged(want) != 2 {
					t.Errorf("not twice %q in\n%s", want, l.log.String())
				}
			}
			if !bytes.Equal(read(t, l.journal()), c.journal) {
				t.Error("the journal was touched")
			}
			// The right journal is all that it takes.
			writeFile(t, l.journal(), string(ownLines))
			l.start()
			l.until("it runs", func() bool { return l.logged(`"running"`) > 0 })
			l.put(configMaps, "b-"+strings.ReplaceAll(name, " ", "-"))
			l.until("it goes on", func() bool {
				return bytes.Contains(read(t, l.journal()), []byte(`"name":"b-`+strings.ReplaceAll(name, " ", "-")))
			})
			l.stop()
			if after := read(t, l.journal()); bytes.Contains(after, []byte("DELETED")) || !bytes.HasPrefix(after, ownLines) {
				t.Errorf("the other cluster's objects are in it:\n%s", after)
			}
		})
	}
}

// Two daemons of one cluster whose journals got exchanged: each says that lines
// are missing, writes a GAP and reports every object again.
func TestExchangedJournals(t *testing.T) {
	one := journalled(t, "a", "b")
	other := &live{t: t, srv: one.srv, dir: t.TempDir()}
	writeFile(t, other.config(), other.text("secrets, configmaps", "cluster: other"))
	other.put(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "s")
	other.start()
	other.until("both are synced", func() bool { return bytes.Count(read(t, other.journal()), []byte(`"type":"SYNCED"`)) == 2 })
	other.stop()
	mine, others := read(t, one.journal()), read(t, other.journal())
	writeFile(t, one.journal(), string(others))
	writeFile(t, other.journal(), string(mine))
	for l, before := range map[*live][]byte{one: others, other: mine} {
		l.start()
		l.until("it reports them again", func() bool {
			after := read(t, l.journal())[len(before):]
			return bytes.Contains(after, []byte(`"reason":"JournalTruncated"`)) && bytes.Contains(after, []byte(`"SYNCED"`))
		})
		l.stop()
		if l.logged("committed lines are missing") != 1 {
			t.Errorf("it does not say so:\n%s", l.log.String())
		}
	}
}

// writeJournal writes a journal of that many lines about a cluster, in a stream that
// the config does not name.
func writeJournal(t *testing.T, path, cluster string, lines int) {
	t.Helper()
	render, err := object.NewRenderer(object.Source{Stream: "pods", Version: "v1", Resource: "pods", Kind: "Pod", ClusterUID: cluster}, object.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	var raw object.Object
	b := render.AppendSynced(line.AppendSeq(nil, 1), time.Now(), "1", line.Count{})
	for n := 1; n < lines; n++ {
		if err := render.Scan(fmt.Appendf(nil, `{"metadata":{"namespace":"n","name":"p-%d","uid":"u-%d","resourceVersion":"%d"}}`, n, n, n+1), &raw); err != nil {
			t.Fatal(err)
		}
		if b, err = render.AppendLine(line.AppendSeq(b, uint64(n+1)), object.Line{Type: line.Added, Origin: line.FromWatch, Received: time.Now()}, &raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// slowDisk blocks reads of a file from an offset on.
type slowDisk struct {
	disk.FS
	from int64
	wait chan struct{} // until it is closed
}

// blockReads makes the daemons that are started from now on read a journal up to an offset only, until they may continue.
func (l *live) blockReads(from int64) (goOn func()) {
	slow := slowDisk{disk.OS, from, make(chan struct{})}
	goOn = sync.OnceFunc(func() { close(slow.wait) })
	l.disk = slow
	l.t.Cleanup(goOn)
	return goOn
}

func (d slowDisk) OpenFile(path string, flag int, mode fs.FileMode) (disk.File, error) {
	f, err := d.FS.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d}, nil
}

type slowFile struct {
	disk.File
	d slowDisk
}

func (f slowFile) ReadAt(p []byte, at int64) (int, error) {
	if at >= f.d.from {
		<-f.d.wait
	}
	return f.File.ReadAt(p, at)
}

// newSlowStart is a daemon to be started that has lost the checkpoint to a journal
// of some megabytes.
func newSlowStart(t *testing.T) *live {
	t.Helper()
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	system, err := l.srv.Get(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	writeJournal(t, l.journal(), system["metadata"].(map[string]any)["uid"].(string), 20000)
	return l
}

// reads matches what a daemon shows that has read some megabytes of its journal.
var reads = regexp.MustCompile(`recovering: read [1-9][0-9.]* MB of `)

// While the journal is read back the daemon answers over HTTP: it is alive, not
// ready, and says how far it is.
func TestAnswersWhileItRecovers(t *testing.T) {
	l := newSlowStart(t)
	goOn := l.blockReads(2 << 20)
	l.start()
	l.until("it listens", func() bool { return l.address() != "" })
	l.until("it reads", func() bool { return reads.MatchString(l.get("/readyz")) })
	if got := l.get("/readyz"); !strings.HasPrefix(got, "[-]startup failed: recovering: read ") {
		t.Errorf("/readyz says %q", got)
	}
	if got := l.get("/livez"); got != "ok\n" {
		t.Errorf("/livez says %q", got)
	}
	if got := l.get("/streams"); got != "[]\n" {
		t.Errorf("/streams says %q", got)
	}
	if got := l.get("/metrics"); !strings.Contains(got, "kubejournal_build_info") {
		t.Errorf("/metrics says %.200q", got)
	}
	if got := l.get("/"); !strings.Contains(got, "Not ready (startup). No stream yet") {
		t.Errorf("the page says %q", got)
	}
	if now, err := status.FetchStatus(t.Context(), l.address()); err != nil || now.Ready || now.Version != "v1.2.3" || len(now.Checks) != 1 ||
		!reads.MatchString(now.Checks[0].Text) || len(now.Streams) != 0 {
		t.Errorf("/status says %+v, %v", now, err)
	}
	goOn()
	l.until("it is ready", func() bool { return l.get("/readyz") == "ok\n" })
	if got := l.get("/readyz?verbose"); strings.Contains(got, "startup") || !strings.Contains(got, "[+]streams ok") {
		t.Errorf("/readyz says %q", got)
	}
	if !strings.Contains(l.get("/"), `data-key="configmaps"`) {
		t.Error("the page does not show the stream")
	}
}

// A stop while the journal is read back is one as any, and the next start continues
// where it was.
func TestStopWhileItRecovers(t *testing.T) {
	l := newSlowStart(t)
	goOn := l.blockReads(2 << 20)
	l.start()
	l.until("it reads", func() bool {
		return l.address() != "" && reads.MatchString(l.get("/readyz"))
	})
	l.cancel()
	goOn()
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	store := checkpointOf(t, l)
	if at, _, err := store.Recovery(); err != nil || at.Mark.Seq == 0 {
		t.Errorf("the checkpoint does not say how far it came: %+v, %v", at, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	l.start()
	l.until("it runs", func() bool { return l.logged(`"running"`) > 0 })
	if l.logged(`"lines":20000,`) != 1 || l.logged(`"resumedAtSeq":0`) != 0 {
		t.Error("it began anew")
	}
}

// Where files are is said in full, wherever the daemon was started.
func TestRunningNamesFiles(t *testing.T) {
	l := newLive(t)
	t.Chdir(l.dir)
	writeFile(t, l.config(), "resources: [configmaps]\noutput: {path: j.jsonl}\ncheckpoint: {path: c.db}\nlisten: ''\n")
	l.start()
	l.until("it runs", func() bool {
		return l.logged(`"msg":"running"`) > 0 && l.logged(`"output":"`+filepath.Join(l.dir, "j.jsonl")+`"`) > 0 &&
			l.logged(`"checkpoint":"`+filepath.Join(l.dir, "c.db")+`"`) > 0
	})
}

// A daemon that waits for the API server says so.
func TestAnswersWhileItWaitsForTheServer(t *testing.T) {
	l := newLive(t)
	writeFile(t, l.config(), l.text("configmaps"))
	l.srv.StopAPIServer()
	l.start()
	l.until("it listens", func() bool { return l.address() != "" })
	l.until("it says what it waits for", func() bool {
		return strings.Contains(l.get("/readyz"), "[-]startup failed: waiting for the API server http")
	})
	if got := l.get("/livez"); got != "ok\n" {
		t.Errorf("/livez says %q", got)
	}
	if err := l.srv.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
	l.until("it is ready", func() bool { return l.get("/readyz") == "ok\n" })
}

// Limits that do not fit are logged at the start and after a reload, one line each, and the daemon runs.
func TestLimitsDoNotFit(t *testing.T) {
	l := newLive(t)
	out := func(limits string) string { return fmt.Sprintf("output: {path: %q, %s}", l.journal(), limits) }
	writeFile(t, l.config(), l.text("configmaps", out("maxTotalSize: 1000TiB, maxFiles: 0")))
	l.start()
	l.watched("configmaps")
	const volume = "output.maxTotalSize: warning: 1000TiB and one file of maxSize (100MiB), for one that is being compressed, " +
		"are more than the volume has ("
	if all, this := l.logged("limits of the journal"), l.logged(volume); all != 1 || this != 1 {
		t.Errorf("%d warnings, %d of them of the volume", all, this)
	}
	writeFile(t, l.config(), l.text("configmaps", out("maxTotalSize: 1MiB, maxFiles: 0")))
	l.until("it warns of the new limit", func() bool {
		return l.logged("output.maxTotalSize: warning: 1MiB is less than two files of maxSize (100MiB)") == 1
	})
	writeFile(t, l.config(), l.text("configmaps", out("maxTotalSize: 1MiB, maxFiles: 0, maxSize: 4KiB")))
	l.until("it has reloaded twice", func() bool { return l.logged("config reloaded") == 2 })
	if n := l.logged("limits of the journal"); n != 2 {
		t.Errorf("%d warnings", n)
	}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	writeFile(t, l.config(), l.text("configmaps", out("maxTotalSize: 8KiB, maxFiles: 0, maxSize: 4KiB")))
	l.until("it has reloaded", func() bool { return l.logged("config reloaded") == 3 })
	for i := range 40 {
		l.put(configMaps, fmt.Sprint("a", i))
	}
	l.until("the size removes files", func() bool { return l.logged(`"limit":"maxTotalSize"`) > 0 })
}

// A start that gives up says what the server answered, not that the time was up while it asked once more.
func TestReachTellsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		find := func() (*rest.Config, error) { return &rest.Config{Host: "https://127.0.0.1:1"}, nil }
		found, err := client.NewAccess(find, nil, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		d := &Daemon{Options: Options{Log: zap.NewNop()}, access: found}
		asked := 0
		err = d.reach(t.Context(), func(ctx context.Context) error {
			if asked++; asked == 1 {
				return fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if asked != 2 || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after %d questions it says: %v", asked, err)
		}
	})
}
