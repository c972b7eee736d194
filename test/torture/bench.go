package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/proxy"
	"kubejournal/test/workload"
)

const (
	patience  = 2 * time.Minute  // with conditions that come in seconds on a machine that is not busy
	stopLimit = 10 * time.Second // from SIGTERM to the end; the daemon promises 5 s
	spareTime = time.Hour        // of the control plane beyond what was asked for: it is killed then at the latest
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
	var race []string
	if !b.options.noRace {
		race = []string{"-race"}
	}
	if b.program, err = program.Build(ctx, b.dir, race...); err != nil {
		return err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		TimeLimit: b.timeLimit(), APIServerFlags: serverFlags,
	})
	if err != nil {
		return err
	}
	b.kubeconfig = b.cluster.Kubeconfig()
	if b.author, err = newAuthor(b.cluster, sources()); err != nil {
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
	return b.options.length + spareTime + time.Duration(b.options.kills+b.options.takeovers)*5*time.Second
}

func newAuthor(c *cluster.Cluster, sources []workload.Source) (author, error) {
	client, transport, err := workload.Connect(c.RESTConfig())
	return author{workload.Author{Client: client, Ledger: &workload.Ledger{Sources: sources}}, transport}, err
}

// author writes to one of the clusters.
type author struct {
	workload.Author
	transport *http.Client
}

// fill makes the definition, the namespaces, and so many objects that begin with name.
func (a author) fill(ctx context.Context, name string, count int) error {
	if err := workload.Define(ctx, a.Client, workload.Definition("widgets", "Widget", "v1")); err != nil {
		return err
	}
	for _, ns := range namespaces {
		if err := workload.MakeNamespace(ctx, a.Client, ns); err != nil {
			return err
		}
	}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range count {
		o := workload.Object{Kind: everyKind[i%len(everyKind)], Namespace: namespaces[0],
			Name: fmt.Sprintf("%s-%d", name, i), App: "web"}
		group.Go(func() error { return a.Create(ctx, &o, i) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("make ballast: %w", err)
	}
	a.Ledger.Reset()
	return nil
}

// churn starts writers; name is part of their objects' names.
func (a author) churn(ctx context.Context, name string, perSecond float64, seed uint64) *workload.Writers {
	return a.Churn(ctx,
		workload.Churn{Kinds: everyKind, Namespaces: namespaces, Name: name, Rate: perSecond, Seed: seed, Clear: true})
}

// close takes everything down. With an error it keeps the folder, and the error says where it is.
func (b *bench) close(err error) error {
	if b.daemon != nil {
		b.daemon.process.End()
	}
	if b.proxy != nil {
		b.proxy.Close()
	}
	for _, a := range []author{b.author, b.other} {
		if a.transport != nil {
			a.transport.CloseIdleConnections()
		}
	}
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
	for _, w := range b.Ledger.Writes() {
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

func eventually(ctx context.Context, what string, check func() error) error {
	return program.Eventually(ctx, patience, what, check)
}

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
