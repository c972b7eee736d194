package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/proxy"
)

// proxyFault is something that the proxy between daemon and API server does, for a bounded time.
type proxyFault struct {
	key  string // on the command line
	name string
	// setting chooses what the proxy does, and says so in words; path is the end of the paths that it happens to.
	setting func(r *rand.Rand, path string) (faults []proxy.Fault, what string)
	cut     bool // what is under way is broken off when the fault begins
	// pass brings another way to spend the fault's time than waiting.
	pass func(ctx context.Context, p *proxy.Proxy, r *rand.Rand, d time.Duration)
	// relist says that a way is left: the daemon has to list again and to catch up while the fault lasts.
	relist bool
	swap   bool // the proxy leads to another cluster; see swap
}

const (
	shortest = 2 * time.Second // of a fault
	longest  = 12 * time.Second

	listAgain = "etcd compacted, API server killed" // the servers' fault that makes each stream list again
)

var proxyFaults = []proxyFault{
	{key: "list-time", name: "proxy: streamed lists cut by a bound on duration", relist: true,
		setting: func(r *rand.Rand, _ string) ([]proxy.Fault, string) {
			bound := 4*time.Second + upTo(r, 4*time.Second)
			return []proxy.Fault{
				{Match: proxy.Streamed, BytesPerSecond: 500, CutAfter: bound}, // so that none is complete in the time
				{CutAfter: bound},
			}, fmt.Sprintf("each request cut after %s, streamed lists slow", bound.Round(time.Millisecond))
		}},
	{key: "list-bytes", name: "proxy: streamed lists cut after N bytes", relist: true,
		setting: func(r *rand.Rand, _ string) ([]proxy.Fault, string) {
			n := 1 + r.Int64N(4<<10)
			return []proxy.Fault{{Match: proxy.Streamed, CutBytes: n}}, fmt.Sprintf("streamed lists cut after %d bytes",
				n)
		}},
	{key: "429-after", name: "proxy: 429, Retry-After", cut: true,
		setting: func(r *rand.Rand, path string) ([]proxy.Fault, string) {
			return refuse(path, http.StatusTooManyRequests, "text/plain", fmt.Sprint(1+r.IntN(5)),
				"Too many requests, please try again later.\n")
		}},
	{key: "429", name: "proxy: 429, no Retry-After", cut: true,
		setting: func(_ *rand.Rand, path string) ([]proxy.Fault, string) {
			return refuse(path, http.StatusTooManyRequests, "text/plain", "",
				"Too many requests, please try again later.\n")
		}},
	{key: "500", name: "proxy: 500", cut: true, setting: func(_ *rand.Rand, path string) ([]proxy.Fault, string) {
		return refuse(path, http.StatusInternalServerError, "application/json", "",
			status(http.StatusInternalServerError, "InternalError"))
	}},
	{key: "503", name: "proxy: 503", cut: true, setting: func(_ *rand.Rand, path string) ([]proxy.Fault, string) {
		return refuse(path, http.StatusServiceUnavailable, "text/plain", "", "no healthy upstream")
	}},
	{key: "504", name: "proxy: 504", cut: true, setting: func(_ *rand.Rand, path string) ([]proxy.Fault, string) {
		return refuse(path, http.StatusGatewayTimeout, "application/json", "",
			status(http.StatusGatewayTimeout, "Timeout"))
	}},
	{key: "200-html", name: "proxy: 200 with an HTML page", cut: true,
		setting: func(_ *rand.Rand, path string) ([]proxy.Fault, string) {
			return refuse(path, http.StatusOK, "text/html", "",
				"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><form></form></body></html>\n")
		}},
	{key: "502-html", name: "proxy: 502 with an HTML page", cut: true,
		setting: func(_ *rand.Rand, path string) ([]proxy.Fault, string) {
			return []proxy.Fault{{Match: ending(path), Answer: proxy.BadGateway}}, "502" + to(path)
		}},
	{key: "delay", name: "proxy: answers delayed", cut: true,
		setting: func(r *rand.Rand, path string) ([]proxy.Fault, string) {
			delay := 200*time.Millisecond + upTo(r, 5*time.Second)
			return []proxy.Fault{{Match: ending(path), Delay: delay}}, fmt.Sprintf("answers%s take %s longer", to(path),
				delay.Round(time.Millisecond))
		}},
	{key: "silence", name: "proxy: answers silent in the middle", setting: silence},
	{key: "silence-cut", name: "proxy: answers silent in the middle, then cut", setting: silence,
		pass: func(ctx context.Context, p *proxy.Proxy, _ *rand.Rand, d time.Duration) {
			pass(ctx, d)
			p.Cut()
		}},
	{key: "bytes", name: "proxy: answers cut after N bytes",
		setting: func(r *rand.Rand, path string) ([]proxy.Fault, string) {
			n := 1 + r.Int64N(20<<10)
			return []proxy.Fault{{Match: ending(path), CutBytes: n}}, fmt.Sprintf("answers%s cut after %d bytes",
				to(path), n)
		}},
	{key: "connections", name: "proxy: connections cut at random",
		setting: func(*rand.Rand, string) ([]proxy.Fault, string) {
			return nil, "connections and requests cut"
		}, pass: func(ctx context.Context, p *proxy.Proxy, r *rand.Rand, d time.Duration) {
			ctx, cancel := context.WithTimeout(ctx, d)
			defer cancel()
			for pass(ctx, upTo(r, 2*time.Second)) {
				if r.IntN(2) == 0 {
					p.Disconnect()
				} else {
					p.Cut()
				}
			}
		}},
	{key: "swap", name: "proxy: cluster swapped", swap: true},
}

// choose returns the faults of that name each; all and none stand for themselves.
func choose(keys string) ([]proxyFault, error) {
	switch keys {
	case "all":
		return proxyFaults, nil
	case "none":
		return nil, nil
	}
	var chosen []proxyFault
	for key := range strings.SplitSeq(keys, ",") {
		i := slices.IndexFunc(proxyFaults, func(f proxyFault) bool { return f.key == key })
		if i < 0 {
			return nil, fmt.Errorf("-proxy: no fault %q, there are %s", key, strings.Join(faultKeys(), ", "))
		}
		chosen = append(chosen, proxyFaults[i])
	}
	return chosen, nil
}

func faultKeys() []string {
	var keys []string
	for _, f := range proxyFaults {
		keys = append(keys, f.key)
	}
	return keys
}

func refuse(path string, code int, contentType, retryAfter, body string) ([]proxy.Fault, string) {
	what := fmt.Sprintf("%d, %s%s", code, contentType, to(path))
	if retryAfter != "" {
		what += ", Retry-After " + retryAfter
	}
	return []proxy.Fault{{Match: ending(path), Answer: proxy.Page(code, contentType, retryAfter, body)}}, what
}

func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"injected",`+
		`"reason":%q,"code":%d}`, reason, code)
}

func silence(r *rand.Rand, path string) ([]proxy.Fault, string) {
	n := r.Int64N(20 << 10)
	return []proxy.Fault{{Match: ending(path), Hold: true, HoldBytes: n}},
		fmt.Sprintf("answers%s silent behind %d bytes", to(path), n)
}

func ending(path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, path) }
}

// to says in words which requests end so.
func to(path string) string {
	if path == "" {
		return " to everything"
	}
	return " to " + path
}

// otherName begins the name of every object of the other cluster that a stream of the daemon would read, and of none of
// the daemon's own.
const otherName = "other-cluster-"

// openProxy starts the proxy, and where it is to be swapped the other cluster. It returns the kubeconfig that leads
// there.
func (b *bench) openProxy(ctx context.Context) (kubeconfig string, err error) {
	if slices.ContainsFunc(b.options.faults, func(f proxyFault) bool { return f.swap }) {
		if err := b.startOther(ctx); err != nil {
			return "", fmt.Errorf("start the other cluster: %w", err)
		}
	}
	here, err := proxied(b.cluster)
	if err != nil {
		return "", err
	}
	http1 := b.options.seed%2 == 1
	b.proxy, err = proxy.Start(here, proxy.Options{HTTP1: http1, Observe: func(*http.Request) {
		b.meter.request(time.Now())
	}})
	if err != nil {
		return "", fmt.Errorf("start proxy: %w", err)
	}
	fmt.Fprintf(b.progress, "proxy %s, HTTP/1.1 only: %t\n", b.proxy.URL(), http1)
	config, err := clientcmd.LoadFromFile(b.cluster.Kubeconfig())
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = b.proxy.URL(), b.proxy.Authority()
	}
	path := filepath.Join(b.dir, "proxied.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

// startOther starts the other cluster, with objects in what each stream reads.
func (b *bench) startOther(ctx context.Context) (err error) {
	b.otherCluster, err = cluster.Start(ctx, cluster.Options{
		TimeLimit: b.timeLimit(), APIServerFlags: serverFlags, Beside: b.cluster,
	})
	if err != nil {
		return err
	}
	if b.other, err = newAuthor(b.otherCluster, nil); err != nil {
		return err
	}
	return b.other.fill(ctx, otherName+"ballast", b.options.ballast/5)
}

// proxied is a cluster as the proxy sees it.
func proxied(c *cluster.Cluster) (proxy.Server, error) {
	config := c.RESTConfig()
	authority, err := os.ReadFile(config.CAFile)
	if err != nil {
		return proxy.Server{}, fmt.Errorf("read authority: %w", err)
	}
	return proxy.Server{URL: config.Host, Authority: authority}, nil
}

// disturbProxy makes one fault of the proxy after the other until ctx ends. The last one is brought to its end, unless
// life is over.
func (b *bench) disturbProxy(life, ctx context.Context, d *daemon, r *rand.Rand) error {
	for len(b.options.faults) > 0 && pass(ctx, time.Second+upTo(r, 3*time.Second)) {
		if err := b.misbehave(life, d, b.nextFault(r), r); err != nil {
			return err
		}
	}
	return nil
}

// nextFault draws from all of them before one comes again.
func (b *bench) nextFault(r *rand.Rand) proxyFault {
	if len(b.deck) == 0 {
		b.deck = slices.Clone(b.options.faults)
		r.Shuffle(len(b.deck), func(i, j int) { b.deck[i], b.deck[j] = b.deck[j], b.deck[i] })
	}
	last := len(b.deck) - 1
	f := b.deck[last]
	b.deck = b.deck[:last]
	return f
}

// misbehave makes one fault of the proxy and lets it end. Then every stream has to catch up, which nothing else
// disturbs; and where the fault leaves a way, also while it lasts.
func (b *bench) misbehave(ctx context.Context, d *daemon, f proxyFault, r *rand.Rand) error {
	alone := f.relist || f.swap
	if alone {
		b.calm.Lock()
		defer b.calm.Unlock()
	}
	b.report.count(f.name)
	if f.swap {
		if err := b.swap(ctx, d, r); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	} else if err := b.setFault(ctx, d, f, r); err != nil {
		return err
	}
	if !alone {
		b.calm.Lock()
		defer b.calm.Unlock()
	}
	return b.expectProgress(ctx, d, f.name+", after its end")
}

func (b *bench) setFault(ctx context.Context, d *daemon, f proxyFault, r *rand.Rand) error {
	b.trouble.begin()
	defer b.trouble.end()
	path := ""
	if r.IntN(3) == 0 {
		path = "/" + everyKind[r.IntN(len(everyKind))].Resource.Resource
	}
	faults, what := f.setting(r, path)
	length := shortest + upTo(r, longest-shortest)
	if f.relist {
		b.say("proxy: %s, until the daemon has listed and caught up", what)
	} else {
		b.say("proxy: %s, for %s", what, length.Round(time.Millisecond))
	}
	defer b.proxy.Set()
	b.proxy.Set(faults...)
	if f.cut {
		b.proxy.Cut()
	}
	if f.relist {
		if err := b.disturb(ctx, faultNamed(listAgain), r); err != nil {
			return err
		}
		return b.expectProgress(ctx, d, f.name+", while it lasts: a way is left")
	}
	if f.pass != nil {
		f.pass(ctx, b.proxy, r, length)
	} else {
		pass(ctx, length)
	}
	return nil
}

// expectProgress waits until the watch of each stream has told of an object that is made now. Where that takes too
// long, it is a stall.
func (b *bench) expectProgress(ctx context.Context, d *daemon, since string) error {
	err := b.follow(ctx, d)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		b.report.stalled()
		err = fmt.Errorf("stall, %s: %w\n%s", since, err, d.status(ctx))
	}
	return err
}

// swap puts the other cluster behind the proxy, while objects change there too. The daemon must end with status 1 and
// have written nothing of it. Then its own is put back.
func (b *bench) swap(ctx context.Context, d *daemon, r *rand.Rand) error {
	here, err := proxied(b.cluster)
	if err != nil {
		return err
	}
	there, err := proxied(b.otherCluster)
	if err != nil {
		return err
	}
	// The checkpoint of a daemon that has caught up belongs to its cluster.
	if err := b.expectProgress(ctx, d, "before it"); err != nil {
		return err
	}
	b.swaps++
	running, disconnected := r.IntN(3) > 0, r.IntN(2) == 0
	b.say("proxy: another cluster; daemon running: %t, its connections closed: %t", running, disconnected)
	churn := b.other.churn(ctx, fmt.Sprint(otherName, b.swaps), b.options.rate/4, r.Uint64())
	defer churn.Stop()
	if !running {
		if err := b.kill(d); err != nil {
			return err
		}
	}
	if err := b.proxy.Switch(there); err != nil {
		return err
	}
	if disconnected {
		b.proxy.Disconnect()
	}
	if !running {
		if err := d.launch(); err != nil {
			return err
		}
	}
	err = eventually(ctx, "wait for the daemon's end", func() error {
		if err := d.look(foreign); err != nil {
			return program.Final(err)
		}
		if d.process.Alive() {
			return errors.New("the daemon still runs, and must end with status 1")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, d.status(ctx))
	}
	p := d.process
	d.process = nil
	if code := p.State().ExitCode(); code != 1 {
		return p.Fault(fmt.Errorf("the daemon ended with status %d, want 1", code))
	}
	if err := errors.Join(p.Sound(), d.look(foreign)); err != nil {
		return err
	}
	b.say("proxy: the daemon has ended with status 1: %s", lastWords(p))
	return b.proxy.Switch(here)
}

// foreign finds a line of the other cluster in what was written.
func foreign(file string, data []byte) error {
	name := []byte(`"name":"` + otherName)
	n := 0
	var first []byte
	for line := range bytes.Lines(data) {
		if !bytes.Contains(line, name) {
			continue
		}
		if n++; n == 1 {
			first = line
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d lines of the other cluster, the first: %.300s", filepath.Base(file), n, first)
}

// lastWords is the last line of a run's log.
func lastWords(p *program.Process) string {
	log, err := p.Log()
	if err != nil {
		return err.Error()
	}
	log = bytes.TrimSpace(log)
	return string(log[bytes.LastIndexByte(log, '\n')+1:])
}
