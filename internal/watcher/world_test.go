package watcher_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	process "kubejournal/internal/record/daemon"
	"kubejournal/internal/record/discovery"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// patience is how long, in the bubble's time, a condition may take to come true:
// longer than any pause between two attempts.
const patience = 3 * time.Minute

// shownLines is how much of its journal a failed test shows.
const shownLines = 40

// clusterUID is the uid of the namespace kube-system in every world.
const clusterUID = "11111111-2222-3333-4444-555555555555"

// harness is an API server and a daemon's files, with or without the daemon
// between them. All of it lives in one bubble of testing/synctest.
type harness struct {
	t       *testing.T
	srv     *fake.Server
	dir     string
	entries []config.Resource
	options streams.Options // Resources is set at each start
	output  journal.Options
	atStart *injection   // what the disk does to the next start
	plain   bool         // the daemon has the real disk, which does nothing to it
	lease   string       // name of the Lease by which one of several daemons writes; "" where there is one
	wrote   func([]byte) // called before each write; nil does nothing

	life *instance // nil while no daemon runs

	read      []invariant.Line // of the journal, up to readBytes
	readBytes int64

	log  syncBuffer
	wrap func(http.RoundTripper) http.RoundTripper // of the daemon's requests; nil does nothing

	pulse     time.Duration // from one pulse to the next; 0 is the daemon's own
	maxObject int           // bytes; 0 is the daemon's own limit
	assembled func()        // called before the streams start; nil does nothing

	// writes is what the server has acknowledged to streams of whole resources.
	writes []invariant.Write
	epoch  int // how often the server was restored
	serial int // makes every write another content
	pad    int // bytes that are added to every object
	// interrupted says that a list may have begun again on the way.
	interrupted bool
}

// instance is one run of the daemon.
type instance struct {
	gate    *gate
	manager *streams.Manager
	metrics *metrics.Metrics
	http    http.Handler // what it answers where it listens

	cancel context.CancelFunc // as SIGTERM
	ended  chan error         // holds why it has ended
}

// bubble runs test on a new world; entries are resources as a user names them.
func bubble(t *testing.T, o fake.Options, entries []config.Resource, test func(*harness)) {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, o, entries)
		defer w.end()
		test(w)
	})
}

// newWorld must be called in a bubble.
func newWorld(t *testing.T, o fake.Options, entries []config.Resource) *harness {
	o.InMemory = true
	if o.BookmarkInterval == 0 {
		o.BookmarkInterval = time.Minute // as the real server
	}
	o.ClusterUID = clusterUID
	w := &harness{t: t, srv: fake.New(o), dir: t.TempDir(), entries: entries}
	w.options = streams.Options{ClusterUID: clusterUID, RedactSecrets: true, DropFields: []string{"metadata.managedFields"}}
	return w
}

func (w *harness) end() {
	if w.life != nil {
		w.kill()
	}
	w.srv.Close()
	if w.t.Failed() {
		w.t.Logf("daemon's log:\n%s", w.log.String())
		w.dump()
	}
}

// entry is one resource of a config.
func entry(name string) config.Resource {
	return config.Resource{Name: name, Initial: config.Snapshot, Entry: "resources." + name}
}

func entries(names ...string) []config.Resource {
	var all []config.Resource
	for _, n := range names {
		all = append(all, entry(n))
	}
	return all
}

func (w *harness) journal() string { return filepath.Join(w.dir, "journal.jsonl") }
func (w *harness) db() string      { return filepath.Join(w.dir, "checkpoint.db") }

// start starts the daemon itself, with the world's disk, server and config.
func (w *harness) start() {
	w.t.Helper()
	if err := w.tryStart(); err != nil {
		w.t.Fatal(err)
	}
}

// tryStart returns what the disk, the server or the config is at fault for; the daemon has then ended.
func (w *harness) tryStart() error {
	w.t.Helper()
	l := &instance{gate: newGate(), ended: make(chan error, 1)}
	l.gate.injected, w.atStart = w.atStart, nil
	l.gate.wrote = w.wrote
	server := w.srv.Config()
	if w.wrap != nil {
		server.Transport = w.wrap(server.Transport)
	}
	var files disk.FS = l.gate.disk
	if w.plain {
		files = disk.OS
	}
	assembled := make(chan struct{})
	d := process.New(w.config(), process.Options{
		Log:        zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()), &w.log, zap.InfoLevel)),
		Disk:       files,
		Server:     func(config.Kubernetes) (*rest.Config, error) { return server, nil },
		Changed:    make(chan struct{}), // never
		PulseEvery: w.pulse,
		WrapRecording: func(out recorder.Output, store recorder.Checkpoint) (recorder.Output, recorder.Checkpoint) {
			l.gate.file, l.gate.store = out.(*journal.File), store.(*checkpoint.Store)
			return l.gate, l.gate
		},
		Assembled: func(c *client.Client, manager *streams.Manager, m *metrics.Metrics) {
			l.manager, l.metrics = manager, m
			if w.maxObject > 0 {
				c.MaxObject = w.maxObject
			}
			if w.assembled != nil {
				w.assembled()
			}
			close(assembled)
		},
	})
	l.http = d.Handler()
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() { l.ended <- d.Run(ctx) }()
	select {
	case <-assembled:
		w.life = l
		return nil
	case err := <-l.ended:
		select {
		case <-assembled: // it has started, and ended since
			l.ended <- err
			w.life = l
			return nil
		default:
		}
		cancel()
		l.gate.die()
		if strings.Contains(err.Error(), "checkpoint.path: ") && !strings.Contains(err.Error(), "another cluster") {
			w.t.Fatal(err)
		}
		return err
	}
}

// config is what the daemon is started with.
func (w *harness) config() *config.Config {
	cfg, err := config.Parse([]byte("resources: [pods]"), "kubejournal.yaml", config.Overrides{}, func(string) (string, bool) { return "", false })
	must(w.t, err)
	o := w.options
	for _, e := range w.entries {
		cfg.Shard = e.Shard // that of all
	}
	cfg.Resources, cfg.Cluster, cfg.RedactSecrets, cfg.Redact, cfg.DropFields = w.entries, o.Cluster, o.RedactSecrets, o.Redact, o.DropFields
	cfg.Output = config.Output{Path: w.journal(), MaxSize: w.output.MaxSize, Compress: w.output.Compress, MaxLineBytes: o.MaxLineBytes}
	cfg.Checkpoint.Path, cfg.Listen = w.db(), ""
	cfg.LeaderElection.LeaseName, cfg.LeaderElection.LeaseNamespace = w.lease, "default"
	return cfg
}

// stop ends the daemon as SIGTERM does: everything is written and committed.
func (w *harness) stop() {
	w.t.Helper()
	w.life.cancel()
	if err := <-w.life.ended; err != nil {
		w.t.Errorf("stop: %v", err)
	}
	w.life = nil
	store, err := checkpoint.Open(w.db())
	must(w.t, err)
	defer store.Close()
	mark, err := store.Mark()
	must(w.t, err)
	if lines := w.lines(); len(lines) > 0 && lines[len(lines)-1].Seq != mark.Seq {
		w.t.Errorf("stopped with seq %d in the journal and %d in the checkpoint", lines[len(lines)-1].Seq, mark.Seq)
	}
}

// kill ends the daemon as SIGKILL does: nothing reaches a file any more.
func (w *harness) kill() {
	w.t.Helper()
	w.interrupted = true
	w.life.gate.die()
	_ = w.ended() // what it could not write any more
}

// ended waits for the daemon's end, and returns why it ended.
func (w *harness) ended() error {
	w.t.Helper()
	w.life.cancel()
	err := <-w.life.ended
	w.life = nil
	return err
}

// pass lets time go by, and all that it brings happen.
func (w *harness) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of a synctest bubble
	synctest.Wait()
}

// await returns once condition holds.
func (w *harness) await(what string, condition func() bool) {
	w.t.Helper()
	w.awaitFor(patience, what, condition)
}

func (w *harness) awaitFor(limit time.Duration, what string, condition func() bool) {
	w.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) { //nolint:forbidigo // the time of a synctest bubble
		synctest.Wait()
		if condition() {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("not so after %v: %s", limit, what)
		}
	}
}

// synced waits until all streams watch and the journal says what the server
// has.
func (w *harness) synced() {
	w.t.Helper()
	w.await("every stream watches", w.watching)
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) { //nolint:forbidigo // the time of a synctest bubble
		synctest.Wait()
		if err = w.compare(); err == nil {
			return
		}
	}
	w.t.Fatalf("the journal does not come to what the server has: %v", err)
}

func (w *harness) watching() bool {
	all := w.life.manager.Streams()
	return len(all) > 0 && !slices.ContainsFunc(all, func(s streams.Status) bool { return s.State != watcher.Watching })
}

// state is that of one stream.
func (w *harness) state(name string) watcher.Status {
	for _, s := range w.life.manager.Streams() {
		if s.Name == name {
			return s.Status
		}
	}
	return watcher.Status{}
}

// lines are the journal's whole lines. What has been read is not read again.
func (w *harness) lines() []invariant.Line {
	w.t.Helper()
	f, err := os.Open(w.journal())
	must(w.t, err)
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, w.readBytes, 1<<40))
	must(w.t, err)
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	more, err := invariant.Parse(filepath.Base(w.journal()), len(w.read)+1, data)
	must(w.t, err)
	w.read, w.readBytes = append(w.read, more...), w.readBytes+int64(len(data))
	return slices.Clip(w.read)
}

// compare lays the journal beside the server.
func (w *harness) compare() error {
	told, err := invariant.Replay(w.lines())
	if err != nil {
		return err
	}
	live := w.live()
	if err := invariant.Compare(told, live); err != nil {
		return err
	}
	want := make(map[string]int)
	for k := range live {
		want[k.Group+"/"+k.Resource]++
	}
	return w.tracks(want)
}

// tracks compares tracked_objects with the number of objects that streams know
// together, by group and resource.
func (w *harness) tracks(want map[string]int) error {
	families, err := w.life.metrics.Registry.Gather()
	must(w.t, err)
	got := make(map[string]int)
	for _, f := range families {
		if f.GetName() != "kubejournal_tracked_objects" {
			continue
		}
		for _, m := range f.GetMetric() {
			if n := int(m.GetGauge().GetValue()); n != 0 {
				got[m.GetLabel()[0].GetValue()+"/"+m.GetLabel()[1].GetValue()] = n
			}
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("tracked_objects says %v, known are %v", got, want)
	}
	return nil
}

// live is what the server has of the resources that are journalled whole.
func (w *harness) live() invariant.State {
	all := make(invariant.State)
	for _, e := range w.entries {
		gvr := resourceOf(e)
		objects, err := w.srv.List(gvr, "")
		if err != nil {
			continue // not served
		}
		for _, o := range objects {
			meta := o["metadata"].(map[string]any)
			namespace, _ := meta["namespace"].(string)
			if !client.Shard(e.Shard).Has([]byte(meta["uid"].(string))) {
				continue
			}
			if e.Namespaces != nil && !slices.Contains(e.Namespaces, namespace) {
				continue
			}
			if key, value, ok := strings.Cut(e.LabelSelector, "="); ok {
				if labels, _ := meta["labels"].(map[string]any); labels[key] != value {
					continue
				}
			}
			content, err := json.Marshal(o)
			must(w.t, err)
			k := invariant.Key{Group: gvr.Group, Resource: gvr.Resource, Namespace: namespace, Name: meta["name"].(string)}
			all[k], err = invariant.Expect(k, content)
			must(w.t, err)
		}
	}
	return all
}

// resourceOf is the entry's resource: these tests name them in full.
func resourceOf(e config.Resource) schema.GroupVersionResource {
	resource, group, _ := strings.Cut(e.Name, ".")
	version := e.Version
	if version == "" {
		version = "v1"
	}
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// check is the end of a test: all that holds for every journal.
func (w *harness) check() {
	w.t.Helper()
	w.synced()
	lines, err := invariant.Read(w.journal())
	must(w.t, err)
	if err := errors.Join(
		invariant.All(lines, invariant.Options{Interrupted: w.interrupted}),
		invariant.Writes(lines, w.writes),
	); err != nil {
		w.t.Error(err)
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// dump shows the journal's lines where a test has failed.
func (w *harness) dump() {
	lines, err := invariant.ReadJournal(w.journal())
	if err != nil {
		w.t.Log(err)
	}
	if n := len(lines) - shownLines; n > 0 {
		w.t.Logf("without the first %d lines:", n)
		lines = lines[n:]
	}
	for _, l := range lines {
		w.t.Logf("%4d %s %s rv %s from %s uid %s", l.Seq, l.Stream, brief(l), l.ResourceVersion, l.FromResourceVersion, l.UID)
	}
}

// brief is what most tests say of a line.
func brief(l invariant.Line) string {
	switch l.Type {
	case invariant.Gap:
		return "GAP " + l.Reason
	case invariant.Synced:
		return fmt.Sprintf("SYNCED +%d ~%d -%d =%d", l.Count.Added, l.Count.Modified, l.Count.Deleted, l.Count.Unchanged)
	}
	name := l.Name
	if l.Namespace != "default" && l.Namespace != "" {
		name = l.Namespace + "/" + l.Name
	}
	return l.Type + " " + l.Origin + " " + name
}

func briefs(lines []invariant.Line) []string {
	all := []string{}
	for _, l := range lines {
		all = append(all, brief(l))
	}
	return all
}

// tell checks that the lines after the first n are these, and returns how many
// there are now.
func (w *harness) tell(n int, want ...string) int {
	w.t.Helper()
	lines := w.lines()
	if got := briefs(lines[n:]); !slices.Equal(got, want) {
		w.t.Fatalf("lines after %d:\n  got  %q\n  want %q", n, got, want)
	}
	return len(lines)
}

// put creates or changes an object in the namespace default.
func (w *harness) put(gvr schema.GroupVersionResource, name string) {
	w.putIn(gvr, "default", name, nil)
}

func (w *harness) putIn(gvr schema.GroupVersionResource, namespace, name string, labels map[string]any) {
	w.t.Helper()
	w.serial++
	object := map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels}}
	if labels == nil {
		delete(object["metadata"].(map[string]any), "labels")
	}
	if w.pad > 0 {
		object["pad"] = strings.Repeat("p", w.pad)
	}
	if gvr.Group == "" {
		object["data"] = map[string]any{"serial": fmt.Sprint(w.serial)}
	} else {
		object["spec"] = map[string]any{"serial": w.serial}
	}
	typ, write := invariant.Modified, w.srv.Update
	if _, err := w.srv.Get(gvr, namespace, name); err != nil {
		typ, write = invariant.Added, w.srv.Create
	}
	stored, err := write(gvr, object)
	must(w.t, err)
	w.acknowledged(gvr, typ, stored)
}

func (w *harness) remove(gvr schema.GroupVersionResource, name string) {
	w.t.Helper()
	stored, err := w.srv.Delete(gvr, "default", name)
	must(w.t, err)
	w.acknowledged(gvr, invariant.Deleted, stored)
}

// acknowledged notes a write to a resource that one stream tells as a whole.
func (w *harness) acknowledged(gvr schema.GroupVersionResource, typ string, stored map[string]any) {
	for _, e := range w.entries {
		if resourceOf(e).GroupResource() != gvr.GroupResource() || e.Namespaces != nil || e.LabelSelector != "" || e.FieldSelector != "" {
			continue
		}
		meta := stored["metadata"].(map[string]any)
		if !client.Shard(e.Shard).Has([]byte(meta["uid"].(string))) {
			continue
		}
		write := invariant.Write{
			Stream: discovery.Stream{GVR: gvr, Entry: e}.Name(), Epoch: w.epoch, Type: typ, UID: meta["uid"].(string),
			What: fmt.Sprintf("write %d of %s", w.serial, meta["name"]),
		}
		if typ != invariant.Deleted {
			write.ResourceVersion = meta["resourceVersion"].(string)
		}
		w.writes = append(w.writes, write)
	}
}

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

// Sync makes it a zapcore.WriteSyncer.
func (b *syncBuffer) Sync() error { return nil }

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// forget takes the checkpoint away.
func (w *harness) forget() { must(w.t, os.Remove(w.db())) }
