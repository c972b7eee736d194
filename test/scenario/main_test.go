package scenario

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kubejournal/test/cluster"
	"kubejournal/test/loggingtest"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

// The patience of a condition that should come at once, and of one that waits for servers or for a daemon's pauses.
const (
	soon  = 30 * time.Second
	later = 2 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	// A pool's seats bound how many run, not this: who waits for a seat is one of them.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	code := loggingtest.Hold(m).Run()
	shared.close()
	own.close()
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir) // in the temporary folder anyway
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// binary is the program under test, built once.
var binary struct {
	once      sync.Once
	dir, path string
	err       error
}

func kubejournal(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "kubejournal-scenario-"); binary.err == nil {
			binary.path, binary.err = program.Build(context.Background(), binary.dir, "-race")
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

// server is a cluster and the administrator's access to it.
type server struct {
	*cluster.Cluster
	client    dynamic.Interface
	transport *http.Client // the client's
}

// serverOf connects to a cluster and teaches it the widgets of the workload.
func serverOf(ctx context.Context, c *cluster.Cluster) (*server, error) {
	client, transport, err := workload.Connect(c.RESTConfig())
	if err != nil {
		return nil, err
	}
	return &server{c, client, transport}, workload.Define(ctx, client, workload.Definition("widgets", "Widget", "v1"))
}

func (s *server) close() error {
	s.transport.CloseIdleConnections()
	return s.Close()
}

// pool is a cluster for scenarios, some of them at a time.
type pool struct {
	seats chan struct{} // holds one for each scenario that runs
	own   bool          // a scenario has the cluster to itself, and may end and change its servers

	mu     sync.Mutex
	server *server // nil before the first scenario, and after one has left it in disorder; guarded by mu
}

// The scenarios of both run side by side: each waits for servers and for the daemon's pauses most of the time.
var (
	shared = pool{seats: make(chan struct{}, 2)} // for scenarios in namespaces of their own
	own    = pool{seats: make(chan struct{}, 1), own: true}
)

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return
	}
	if err := p.server.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	p.server = nil
}

// get returns the cluster, started for the first to ask, once there is a seat for the test, which becomes parallel.
func (p *pool) get(t *testing.T) *server {
	t.Helper()
	t.Parallel()
	p.seats <- struct{}{}
	t.Cleanup(func() {
		if p.own && t.Failed() { // who knows what it leaves behind: the next gets a new cluster
			p.close()
		}
		<-p.seats
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		limit := 30 * time.Minute
		if deadline, ok := t.Deadline(); ok {
			limit = time.Until(deadline)
		}
		c, err := cluster.Start(t.Context(), cluster.Options{
			TimeLimit: limit,
			Audit:     cluster.AuditRequests,
			// Scenarios clean up some thousand objects.
			APIServerFlags: []string{"--delete-collection-workers=8"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if p.server, err = serverOf(t.Context(), c); err != nil {
			t.Fatal(errors.Join(err, c.Close()))
		}
		version, err := c.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Attr("kubernetes", version) // for who reads the output: which server the scenarios ran on
	}
	return p.server
}

// eventually waits until check returns nil.
func eventually(t *testing.T, patience time.Duration, what string, check func() error) {
	t.Helper()
	if err := program.Eventually(t.Context(), patience, what, check); err != nil {
		t.Fatal(err)
	}
}

func (s *server) define(ctx context.Context, crd *unstructured.Unstructured) error {
	return workload.Define(ctx, s.client, crd)
}
