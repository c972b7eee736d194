// Limits runs the daemon under the chart's limit of memory, and does to it what a stranger can: thousands of idle
// connections, requests whose body never comes, an API with thousands of resources under a wildcard, and writes in one
// namespace as fast as the API server takes them, into a journal with little room. It prints what that held, and fails
// where the daemon ended, was not ready, or did not write a change meanwhile.
//
// The limit is a control group's, where one can be made (as root, or where the group is delegated); else only Go's own
// (GOMEMLIMIT) holds, and the figures are compared with the limit. The API server is internal/kube/fake.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/program"
)

// options is the command line.
type options struct {
	connections, bodies, resources int
	tenant                         time.Duration // for how long a namespace writes
	hold                           time.Duration // how long each attack lasts
	limit                          time.Duration // for all of it
	program                        string        // "" builds it
}

func main() {
	o := options{}
	flag.IntVar(&o.connections, "connections", 16_000, "idle keep-alive connections to /livez")
	flag.IntVar(&o.bodies, "bodies", 2_000, "POST requests whose body never comes")
	flag.IntVar(&o.resources, "resources", 6_000, "resources of a foreign API")
	flag.DurationVar(&o.tenant, "tenant", time.Minute, "how long one namespace writes as fast as it can")
	flag.DurationVar(&o.hold, "hold", 10*time.Second, "how long each attack is held")
	flag.DurationVar(&o.limit, "timeout", 9*time.Minute, "for all of it")
	flag.StringVar(&o.program, "program", "", "the kubejournal to run (default: built)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	if err := run(ctx, &o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		os.Exit(1)
	}
}

// chartLimits are the memory limit and GOMEMLIMIT of the chart.
func chartLimits() (limit int64, goLimit string, err error) {
	root, err := program.Root()
	if err != nil {
		return 0, "", err
	}
	b, err := os.ReadFile(filepath.Join(root, "deploy", "helm", "kubejournal", "values.yaml"))
	if err != nil {
		return 0, "", err
	}
	var values struct {
		GoMemoryLimit string `json:"goMemoryLimit"`
		Resources     struct {
			Limits struct{ Memory resource.Quantity }
		}
	}
	if err := yaml.Unmarshal(b, &values); err != nil {
		return 0, "", fmt.Errorf("read the chart's values: %w", err)
	}
	return values.Resources.Limits.Memory.Value(), values.GoMemoryLimit, nil
}

// target is the daemon under attack.
type target struct {
	*program.Process
	server  *fake.Server
	address string
	journal string
	group   *group
	limit   int64

	peak   atomic.Int64 // anonymous memory since the last reset
	asked  atomic.Int64 // probes
	failed atomic.Int64 // of them
	first  atomic.Pointer[string]
	writes int
}

func run(ctx context.Context, o *options, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "kubejournal-limits-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.program == "" {
		if o.program, err = program.Build(ctx, dir); err != nil {
			return err
		}
	}
	if o.program, err = filepath.Abs(o.program); err != nil { // it runs in another folder
		return err
	}
	t, err := start(ctx, o, dir, out)
	if err != nil {
		return err
	}
	defer func() {
		t.End()
		t.server.Close()
		err = errors.Join(err, t.group.remove())
	}()
	watched, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { t.watch(watched) })
	defer func() { stop(); probes.Wait() }()

	fmt.Fprintf(out, "%-44s %9s %10s %9s %8s\n", "attack", "sent", "held", "memory", "probes")
	attacks := []struct {
		name string
		do   func(context.Context, *options) (sent, held int, err error)
	}{
		{"none", func(context.Context, *options) (int, int, error) { return 0, sockets(t.PID()), nil }},
		{"idle keep-alive connections to /livez", t.connections},
		{"POST requests whose body never comes", t.bodies},
		{"writes of one namespace, and of others", t.tenant},
		{"resources of a foreign API, wildcard", t.resources},
	}
	for _, attack := range attacks {
		t.peak.Store(0)
		t.asked.Store(0)
		t.failed.Store(0)
		sent, held, err := attack.do(ctx, o)
		if err == nil {
			err = t.writesOn(ctx)
		}
		fmt.Fprintf(out, "%-44s %9d %10d %7.1f M %4d/%d\n", attack.name, sent, held,
			float64(t.peak.Load())/(1<<20), t.asked.Load()-t.failed.Load(), t.asked.Load())
		if err != nil {
			return fmt.Errorf("%s: %w", attack.name, err)
		}
		if t.failed.Load() > 0 {
			return fmt.Errorf("%s: a probe failed: %s", attack.name, *t.first.Load())
		}
		if t.peak.Load() > t.limit {
			return fmt.Errorf("%s: %d MiB of memory, the limit is %d MiB", attack.name, t.peak.Load()>>20, t.limit>>20)
		}
	}
	if t.group != nil && t.group.killed() > 0 {
		return fmt.Errorf("%d processes were killed for want of memory", t.group.killed())
	}
	fmt.Fprintln(out, "the daemon stayed up and ready, and wrote each change that came meanwhile")
	return nil
}

// start starts the API server, and the daemon under its limit.
func start(ctx context.Context, o *options, dir string, out io.Writer) (*target, error) {
	t := &target{server: fake.New(fake.Options{}), journal: filepath.Join(dir, "journal.jsonl")}
	kubeconfig, err := t.server.Kubeconfig(dir)
	if err != nil {
		return nil, err
	}
	var goLimit string
	if t.limit, goLimit, err = chartLimits(); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("kubernetes: {kubeconfig: %s}\ncheckpoint: {path: %s}\nlisten: 127.0.0.1:0\n"+
		"output: {path: %s, maxSize: 16MiB, maxTotalSize: 64MiB, maxFiles: 0}\n"+
		"resources:\n  - configmaps\n  - {resource: '*', group: '*'}\n", kubeconfig,
		filepath.Join(dir, "kubejournal.db"), t.journal)
	file := filepath.Join(dir, "kubejournal.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(o.program, "run", "--config", file)
	switch t.group, err = newGroup(t.limit); {
	case err == nil:
		// A shell goes into the group, and becomes the daemon.
		cmd = exec.Command("/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, t.group.procs(), o.program, "run",
			"--config", file)
		fmt.Fprintf(out, "memory: a control group's limit of %d MiB, GOMEMLIMIT=%s\n", t.limit>>20, goLimit)
	default:
		t.group = nil
		fmt.Fprintf(out, "memory: NOT LIMITED by the kernel (%v); compared with %d MiB, GOMEMLIMIT=%s\n",
			firstLine(err), t.limit>>20, goLimit)
	}
	cmd.Dir, cmd.Env = dir, program.Environ(dir, "GOMEMLIMIT="+goLimit)
	if t.Process, err = program.Start(cmd, filepath.Join(dir, "log")); err != nil {
		return nil, errors.Join(err, t.group.remove())
	}
	if err := t.until(ctx, "ready", t.Ready); err != nil {
		t.End()
		return nil, errors.Join(err, t.group.remove())
	}
	t.address, err = t.Address()
	return t, err
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// until asks until there is no error.
func (t *target) until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask(ctx)
		switch {
		case err == nil:
			return nil
		case !t.Alive():
			return fmt.Errorf("the daemon has ended: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not %s: %w", what, err)
		case <-again.C:
		}
	}
}

// watch probes as the kubelet does, over new connections from an address of its own, and notes the memory.
func (t *target) watch(ctx context.Context) {
	probe := time.NewTicker(250 * time.Millisecond)
	defer probe.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-probe.C:
		}
		if is := anonymous(t.PID()); is > t.peak.Load() {
			t.peak.Store(is)
		}
		path := []string{"/livez", "/readyz"}[n%2]
		asked, cancel := context.WithTimeout(ctx, 5*time.Second) // as in the manifests
		status, body, err := program.Get(asked, t.address, path)
		cancel()
		if ctx.Err() != nil {
			return
		}
		t.asked.Add(1)
		if err != nil || status != http.StatusOK {
			text := fmt.Sprintf("%s: %d, %v, %.300s", path, status, err, body)
			if t.failed.Add(1) == 1 {
				t.first.Store(&text)
			}
		}
	}
}

// writesOn makes a change, and waits for its line.
func (t *target) writesOn(ctx context.Context) error {
	t.writes++
	name := fmt.Sprintf("change-%d", t.writes)
	_, err := t.server.Create(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		map[string]any{"metadata": map[string]any{"namespace": "default", "name": name}})
	if err != nil {
		return err
	}
	return t.until(ctx, "written", func(context.Context) error {
		found := false
		err := lines(t.journal, func(l *line) { found = found || l.Name == name })
		if err == nil && !found {
			err = fmt.Errorf("no line about %s", name)
		}
		return err
	})
}

// dial connects from an address that is not that of the probes.
func (t *target) dial(ctx context.Context, n int) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n%4))}, Timeout: 10 * time.Second}
	return d.DialContext(ctx, "tcp", t.address)
}

// many does something n times, 64 at once, and holds the connections for a while. It returns how many the daemon
// holds at most.
func (t *target) many(ctx context.Context, o *options, n int, do func(net.Conn) error) (sent, held int, err error) {
	before := sockets(t.PID())
	var (
		mu    sync.Mutex
		conns []net.Conn
		work  sync.WaitGroup
		next  atomic.Int64
		did   atomic.Int64
	)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range 64 {
		work.Go(func() {
			for i := next.Add(1); i <= int64(n) && ctx.Err() == nil && t.Alive(); i = next.Add(1) {
				c, err := t.dial(ctx, int(i))
				if err != nil {
					continue // refused, or none is left on this side
				}
				if do(c) == nil {
					did.Add(1)
				}
				mu.Lock()
				conns = append(conns, c)
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	var end <-chan time.Time
	for {
		held = max(held, sockets(t.PID())-before)
		select {
		case <-ctx.Done():
			<-done
			return int(did.Load()), held, ctx.Err()
		case <-look.C:
		case <-done:
			done, end = nil, time.After(o.hold)
		case <-end:
			if !t.Alive() {
				err = errors.New("the daemon has ended")
			}
			return int(did.Load()), held, err
		}
	}
}

// connections asks for /livez, and leaves each connection open.
func (t *target) connections(ctx context.Context, o *options) (sent, held int, err error) {
	return t.many(ctx, o, o.connections, func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return err
		}
		_, err := bufio.NewReader(c).ReadString('\n')
		return err
	})
}

// bodies announces a body, and sends none.
func (t *target) bodies(ctx context.Context, o *options) (sent, held int, err error) {
	return t.many(ctx, o, o.bodies, func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		const head = "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"
		_, err := io.WriteString(c, head)
		return err
	})
}

// resources adds an API, and waits until the wildcard covers too much.
func (t *target) resources(ctx context.Context, o *options) (sent, held int, err error) {
	for n := range o.resources {
		t.server.AddResource(fake.Resource{
			Group: "foreign.example.com", Version: "v1", Namespaced: true,
			Resource: fmt.Sprintf("things%05d", n), Kind: fmt.Sprintf("Thing%05d", n),
		})
	}
	if err := t.Signal(syscall.SIGHUP); err != nil { // else it asks again only after minutes
		return 0, 0, err
	}
	streams := 0
	err = t.until(ctx, "at the bound", func(ctx context.Context) error {
		all, err := t.Streams(ctx)
		if err != nil {
			return err
		}
		watching, pending := 0, ""
		for _, s := range all {
			if s.State == program.Watching {
				watching++
			} else {
				pending = s.Reason
			}
		}
		if streams = watching; streams < min(o.resources, 900) {
			return fmt.Errorf("%d streams watch, pending: %s", watching, pending)
		}
		return nil
	})
	if err != nil {
		return o.resources, streams, err
	}
	select {
	case <-ctx.Done():
	case <-time.After(o.hold):
	}
	return o.resources, streams, ctx.Err()
}
