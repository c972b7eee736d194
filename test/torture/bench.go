package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubejournal/test/cluster"
	"kubejournal/test/proxy"
)

const (
	pollInterval = 50 * time.Millisecond
	patience     = 2 * time.Minute // with conditions that come in seconds on a machine that is not busy
	spareTime    = time.Hour       // of the control plane beyond what was asked for: it is killed then at the latest
)

// bench is all that a run needs.
type bench struct {
	author
	options    options
	progress   io.Writer
	random     *rand.Rand // of the goroutine that runs the mode
	dir        string     // everything but the control plane's own; kept when something was found
	program    string
	cluster    *cluster.Cluster
	kubeconfig string  // the daemon's
	daemon     *daemon // the latest
	marks      int     // objects made so far to catch up by
	report     report
	trouble    trouble
	calm       sync.RWMutex // held for reading by whoever disturbs servers or daemon

	// With faults of a proxy only.
	proxy        *proxy.Proxy
	deck         []proxyFault     // to come before one comes again
	other        author           // in the cluster that the proxy is swapped to
	otherCluster *cluster.Cluster // nil without swaps
	swaps        int
	meter        meter
}

// newBench builds the program, starts a control plane and fills it.
func newBench(ctx context.Context, o options, progress io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp("", "kubejournal-torture-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	b := &bench{
		options: o, progress: progress, random: rand.New(rand.NewPCG(o.seed, 1)), dir: dir,
		report: newReport(o), meter: meter{streams: len(sources())},
	}
	fmt.Fprintf(progress, "seed %d, folder %s\n", o.seed, dir)
	if err := b.setUp(ctx); err != nil {
		_ = b.close(errInterrupted) // nothing there is worth keeping
		return nil, err
	}
	b.report.began = time.Now()
	return b, nil
}

func (b *bench) setUp(ctx context.Context) (err error) {
	if b.program, err = build(ctx, b.dir, !b.options.noRace); err != nil {
		return err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		TimeLimit: b.timeLimit(), APIServerFlags: serverFlags,
	})
	if err != nil {
		return err
	}
	b.kubeconfig = b.cluster.Kubeconfig()
	if b.author, err = newAuthor(b.cluster, &ledger{sources: sources()}); err != nil {
		return err
	}
	if err := b.fill(ctx, "ballast", b.options.ballast); err != nil {
		return err
	}
	if len(b.options.faults) > 0 {
		b.kubeconfig, err = b.openProxy(ctx)
	}
	return err
}

// serverFlags are the API server's: events go only when a writer deletes them.
var serverFlags = []string{"--event-ttl=24h"}

// timeLimit is when a control plane is killed at the latest.
func (b *bench) timeLimit() time.Duration {
	return b.options.length + spareTime + time.Duration(b.options.kills)*5*time.Second
}

func newAuthor(c *cluster.Cluster, g *ledger) (author, error) {
	config := c.RESTConfig()
	config.Timeout = 30 * time.Second
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return author{}, fmt.Errorf("make client: %w", err)
	}
	client, err := dynamic.NewForConfigAndClient(config, transport)
	if err != nil {
		return author{}, fmt.Errorf("make client: %w", err)
	}
	return author{client: client, ledger: g, transport: transport}, nil
}

// fill makes the definition, the namespaces, and so many objects that begin with name.
func (a author) fill(ctx context.Context, name string, count int) error {
	if err := a.make(ctx, definitionResource, definition()); err != nil {
		return err
	}
	for _, ns := range namespaces {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns},
		}}
		if err := a.make(ctx, namespaceResource, o); err != nil {
			return err
		}
	}
	err := eventually(ctx, "wait for custom resource", func() error {
		_, err := a.client.Resource(widgets.gvr).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range count {
		o := live{kind: everyKind[i%len(everyKind)], namespace: namespaces[0], name: fmt.Sprintf("%s-%d", name, i), app: "web"}
		group.Go(func() error { return a.create(ctx, &o, i) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("make ballast: %w", err)
	}
	a.ledger.reset()
	return nil
}

func (a author) make(ctx context.Context, resource schema.GroupVersionResource, o *unstructured.Unstructured) error {
	if _, err := a.client.Resource(resource).Create(ctx, o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make %s %s: %w", resource.Resource, o.GetName(), err)
	}
	return nil
}

// close takes everything down. With an error it keeps the folder, and the error says where it is.
func (b *bench) close(err error) error {
	if b.daemon != nil {
		b.daemon.end()
	}
	if b.proxy != nil {
		b.proxy.Close()
	}
	b.author.close()
	b.other.close()
	keep := err != nil && !errors.Is(err, errInterrupted)
	if keep {
		err = fmt.Errorf("%w\nkept in %s", errors.Join(err, b.keep()), b.dir)
	}
	for _, c := range []*cluster.Cluster{b.otherCluster, b.cluster} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	if !keep {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}

// keep puts the servers' logs and the acknowledged writes beside what the daemon has written.
func (b *bench) keep() error {
	for _, path := range []string{b.cluster.APIServerLog(), b.cluster.EtcdLog()} {
		log, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.dir, filepath.Base(path)), log, 0o600)
		}
		if err != nil {
			return fmt.Errorf("keep log: %w", err)
		}
	}
	file, err := os.Create(filepath.Join(b.dir, "writes.jsonl"))
	if err != nil {
		return fmt.Errorf("keep writes: %w", err)
	}
	out := json.NewEncoder(file)
	for _, w := range b.ledger.all() {
		if err := out.Encode(w); err != nil {
			return errors.Join(fmt.Errorf("keep writes: %w", err), file.Close())
		}
	}
	return file.Close()
}

// say tells how far it is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%8s  %s\n", time.Since(b.report.began).Round(time.Second), fmt.Sprintf(format, args...))
}

// eventually polls check until it returns nil.
func eventually(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check()
		if stop := (fatal{}); err == nil || errors.As(err, &stop) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w, last: %w", what, ctx.Err(), err)
		}
	}
}

// fatal is an error that no waiting mends.
type fatal struct{ error }

// trouble knows when the servers were disturbed: a daemon may then end by itself, since its start waits 15 s for a
// server and no longer.
type trouble struct {
	mu   sync.Mutex
	open int       // disturbances under way; guarded by mu
	last time.Time // end of the last one
}

func (t *trouble) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open++
}

func (t *trouble) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	t.last = time.Now()
}

func (t *trouble) since(at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open > 0 || t.last.After(at)
}
