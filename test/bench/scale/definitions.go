package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"kubejournal/test/cluster"
	"kubejournal/test/workload"
)

// definitionsLimit is when the control plane of that run is killed at the latest.
const definitionsLimit = 15 * time.Minute

// definitions measures what CustomResourceDefinitions cost under a wildcard, on a real API server: each is a stream.
// It is run only if their number is named, as the server takes minutes to serve so many.
func (b *bench) definitions(ctx context.Context, name string) (err error) {
	n := b.options.definitions
	if n == 0 {
		fmt.Fprintln(b.notes, "# name their number, e.g. -definitions 1000")
		return nil
	}
	d, err := b.newDaemon(name)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{TimeLimit: definitionsLimit})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	began := time.Now()
	if err := define(ctx, c, n); err != nil {
		return err
	}
	fmt.Fprintf(b.notes, "# %d definitions were served after %.0f s\n", n, time.Since(began).Seconds())

	config := fmt.Sprintf("kubernetes: {kubeconfig: %s}\nresources:\n  - {resource: '*', group: %s}\n"+
		"output: {path: %s}\ncheckpoint: {path: %s}\nlisten: 127.0.0.1:0\n", c.Kubeconfig(), workload.Group, d.journal,
		d.checkpoint())
	path := filepath.Join(d.dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	for _, start := range []string{"first", "again"} {
		if err := b.startDefined(ctx, d, c, path, start, n); err != nil {
			return err
		}
	}
	return nil
}

// define makes definitions, and waits until all are served.
func define(ctx context.Context, c *cluster.Cluster, n int) error {
	client, transport, err := workload.Connect(c.RESTConfig())
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	all := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	create, each := errgroup.WithContext(ctx)
	create.SetLimit(8)
	for i := range n {
		create.Go(func() error {
			one := workload.Definition("thing"+digits(i, 5), "Thing"+digits(i, 5), "v1")
			_, err := all.Create(each, one, metav1.CreateOptions{})
			return err
		})
	}
	if err := create.Wait(); err != nil {
		return fmt.Errorf("make definitions: %w", err)
	}
	offers, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		served := 0
		list, err := offers.ServerResourcesForGroupVersion(workload.Group + "/v1")
		if err == nil {
			for _, r := range list.APIResources {
				if !strings.Contains(r.Name, "/") {
					served++
				}
			}
		}
		if served == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d are served: %w", served, n, errors.Join(ctx.Err(), err))
		case <-again.C:
		}
	}
}

// startDefined runs the daemon until each definition's stream is synced, and then for a while.
func (b *bench) startDefined(ctx context.Context, d *daemon, c *cluster.Cluster, config, start string, n int) error {
	before, err := requestsTo(ctx, c)
	if err != nil {
		return err
	}
	d.runs++
	p, err := launch(d.dir, "kubejournal-"+strconv.Itoa(d.runs), nil, b.program, "run", "--config", config)
	if err != nil {
		return err
	}
	defer p.end()
	watching := func() error {
		streams, err := p.Streams(ctx)
		if err != nil {
			return err
		}
		open := 0
		for _, s := range streams {
			if s.State == "Watching" {
				open++
			}
		}
		if open < n {
			return fmt.Errorf("%d of %d watch", open, n)
		}
		return nil
	}
	if err := p.Wait(ctx, runLimit, "wait for streams", watching); err != nil {
		return err
	}
	took := time.Since(p.Started())
	after, err := requestsTo(ctx, c)
	if err != nil {
		return err
	}
	first, err := p.CPU()
	if err != nil {
		return err
	}
	if err := pause(ctx, b.options.idle); err != nil {
		return err
	}
	rested, err := requestsTo(ctx, c)
	if err != nil {
		return err
	}
	used, err := p.CPU()
	if err != nil {
		return err
	}
	now, err := p.usage()
	if err != nil {
		return err
	}
	b.line("run=definitions/start="+start+"/definitions="+strconv.Itoa(n)+"/way=kubejournal",
		took.Seconds(), "s", after-before, "requests", first.Seconds(), "cpu-s",
		mebibytes(p.peaks().anon), "peak-MiB", mebibytes(now.anon), "MiB",
		100*(used-first).Seconds()/b.options.idle.Seconds(), "cpu-%",
		(rested-after)/b.options.idle.Seconds(), "requests/s")
	return p.Stop(stopLimit)
}

// requestsTo is how many requests the server has had about the group and its discovery, those of open watches not
// among them.
func requestsTo(ctx context.Context, c *cluster.Cluster) (total float64, err error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig())
	if err != nil {
		return 0, err
	}
	page, err := client.RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	lines := bufio.NewScanner(strings.NewReader(string(page)))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "apiserver_longrunning_requests{") &&
			!strings.HasPrefix(line, "apiserver_request_total{") ||
			!strings.Contains(line, `group="`+workload.Group+`"`) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("read metrics: %w", err)
		}
		total += value
	}
	return total, lines.Err()
}
