package watcher_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	resources "kubejournal/internal/record/discovery"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

// soon is how long a condition may take to come true on a machine under load.
const soon = 20 * time.Second

// daemon is a daemon's parts on an API server with real connections and real
// time, which TLS and what is below it need. It journals configmaps.
type daemon struct {
	t       *testing.T
	srv     *fake.Server
	dir     string
	access  *client.Access
	manager *streams.Manager
	log     syncBuffer
	writes  []invariant.Write
	serial  int
}

// noLeaks looks for goroutines that the test, with its subtests, leaves behind. Subtests that run in parallel would
// see each other's.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// watched starts a server and a daemon that finds it by load, and runs test on
// them. The caller looks for leaks.
func watched(t *testing.T, o streams.Options, load func(*fake.Server, string) func() (*rest.Config, error), test func(*daemon)) {
	t.Helper()
	d := &daemon{t: t, srv: fake.New(fake.Options{}), dir: t.TempDir()}
	defer d.srv.Close()
	log := zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()), &d.log, zap.InfoLevel))
	defer func() {
		if t.Failed() {
			t.Logf("daemon's log:\n%s", d.log.String())
		}
	}()

	cluster, err := d.id(d.srv)
	must(t, err)
	d.access, err = client.NewAccess(load(d.srv, d.dir), func(ctx context.Context, c *client.Client, _ bool) error {
		id, err := c.ClusterID(ctx)
		if err == nil && id != cluster {
			err = fmt.Errorf("another cluster: %s", id)
		}
		return err
	}, log)
	must(t, err)
	defer d.access.CloseIdleConnections()
	api, err := client.New(d.access.Config())
	must(t, err)
	kinds, err := discovery.NewDiscoveryClientForConfig(d.access.Config())
	must(t, err)
	resolver := resources.New(kinds)
	must(t, resolver.Refresh(t.Context()))

	file, err := journal.OpenFile(d.journal(), journal.Options{})
	must(t, err)
	store, err := checkpoint.Open(filepath.Join(d.dir, "checkpoint.db"))
	must(t, err)
	m := metrics.New("", "")
	rec := recorder.New(file, store, recorder.Config{Interval: 50 * time.Millisecond, NoSync: true, Metrics: m, Log: log})
	o.Resources = entries("configmaps")
	d.manager = streams.New(api, resolver, store, rec, o, m, log)
	ctx, stop := context.WithCancel(t.Context())
	managed, written := make(chan error, 1), make(chan error, 1)
	go func() { written <- rec.Run(context.WithoutCancel(ctx)) }()
	go func() {
		err := d.manager.Run(ctx)
		rec.Close()
		managed <- err
	}()
	defer func() {
		stop()
		must(t, errors.Join(<-managed, <-written, store.Close(), file.Close()))
	}()
	d.until("it watches", d.watching)
	test(d)
}

func (d *daemon) journal() string { return filepath.Join(d.dir, "journal.jsonl") }

// id is the uid of a server's namespace kube-system.
func (d *daemon) id(srv *fake.Server) (string, error) {
	c, err := client.New(srv.Config())
	if err != nil {
		return "", err
	}
	return c.ClusterID(d.t.Context())
}

// until waits for a condition.
func (d *daemon) until(what string, condition func() bool) {
	d.t.Helper()
	deadline, tick := time.NewTimer(soon), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			d.t.Fatalf("not so after %v: %s", soon, what)
		}
	}
}

func (d *daemon) watching() bool {
	all := d.manager.Streams()
	return len(all) == 1 && all[0].State == watcher.Watching
}

// endWatches ends all watches; those of now will not tell what is written from
// here on.
func (d *daemon) endWatches() {
	d.t.Helper()
	d.srv.EndWatches()
	d.until("no watch is open", func() bool { return d.srv.OpenWatches("") == 0 })
}

// put creates or changes a configmap.
func (d *daemon) put(name string) {
	d.t.Helper()
	d.serial++
	object := map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"data":     map[string]any{"serial": fmt.Sprint(d.serial)},
	}
	typ, write := invariant.Modified, d.srv.Update
	if _, err := d.srv.Get(configMaps, "default", name); err != nil {
		typ, write = invariant.Added, d.srv.Create
	}
	stored, err := write(configMaps, object)
	must(d.t, err)
	meta := stored["metadata"].(map[string]any)
	d.writes = append(d.writes, invariant.Write{
		Stream: "configmaps", Type: typ, UID: meta["uid"].(string), ResourceVersion: meta["resourceVersion"].(string),
		What: fmt.Sprintf("write %d of %s", d.serial, name),
	})
}

// noise moves the server's version, for bookmarks to tell of.
func (d *daemon) noise() {
	d.t.Helper()
	_, err := d.srv.Create(secrets, map[string]any{"metadata": map[string]any{"generateName": "noise-", "namespace": "default"}})
	must(d.t, err)
}

func (d *daemon) lines() []invariant.Line {
	d.t.Helper()
	lines, err := invariant.Read(d.journal())
	must(d.t, err)
	return lines
}

// told waits until the journal holds this many lines.
func (d *daemon) told(n int) {
	d.t.Helper()
	d.until(fmt.Sprintf("%d lines", n), func() bool { return len(d.lines()) >= n })
}

// check is the end of a test: all writes are told, once, and there was no gap.
func (d *daemon) check() {
	d.t.Helper()
	d.until("the journal has every write", func() bool { return invariant.Writes(d.lines(), d.writes) == nil })
	lines := d.lines()
	if err := errors.Join(invariant.All(lines, invariant.Options{}), invariant.Writes(lines, d.writes)); err != nil {
		d.t.Error(err)
	}
	if got := briefs(lines); slices.ContainsFunc(lines, func(l invariant.Line) bool { return l.Type == invariant.Gap }) {
		d.t.Errorf("the history was there, and the journal has a gap: %q", got)
	}
}

// requests counts those after the nth, by status; of a watch that was let in, 200.
func (d *daemon) requests(n int) map[int]int {
	byStatus := make(map[int]int)
	for _, r := range d.srv.Requests()[n:] {
		byStatus[r.Status]++
	}
	return byStatus
}

// proxy stands between the daemon and its server.
type proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu     sync.Mutex
	frozen map[net.Conn]bool // every open connection: whether what is sent over it vanishes; guarded by mu
	closed bool              // guarded by mu
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: l, target: target, frozen: make(map[net.Conn]bool)}
	p.running.Go(p.accept)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.link(client, server)
	}
}

// link forwards between two connections, in both directions.
func (p *proxy) link(a, b net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		a.Close()
		b.Close()
		return
	}
	p.frozen[a], p.frozen[b] = false, false
	p.running.Go(func() { p.forward(a, b) })
	p.running.Go(func() { p.forward(b, a) })
}

// forward copies until one side ends. Of a frozen connection not even the end is
// passed on.
func (p *proxy) forward(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		frozen := p.frozen[from]
		p.mu.Unlock()
		if !frozen {
			_, werr := to.Write(buffer[:n])
			err = errors.Join(err, werr)
		}
		if err == nil {
			continue
		}
		if !frozen {
			to.Close()
		}
		return
	}
}

// freeze lets all that is sent over the connections of now vanish, and returns
// how many there are. New ones work.
func (p *proxy) freeze() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.frozen {
		p.frozen[c] = true
	}
	return len(p.frozen)
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.frozen {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
