package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"kubejournal/internal/logging/loggingtest"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

// The patience of a condition that should come at once, and of one that waits for servers or for a daemon's pauses.
const (
	soon  = 30 * time.Second
	later = 2 * time.Minute
)

func TestMain(m *testing.M) {
	code := loggingtest.Hold(m).Run()
	shared.close()
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

// pool holds the one cluster of the process.
type pool struct {
	mu     sync.Mutex
	server *server // nil before the first scenario, and after one has left it in disorder
}

var shared pool

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

// get returns the cluster, started for the first to ask.
func (p *pool) get(t *testing.T) *server {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		limit := 30 * time.Minute
		if deadline, ok := t.Deadline(); ok {
			limit = time.Until(deadline)
		}
		c, err := cluster.Start(t.Context(), cluster.Options{
			TimeLimit: limit,
			AuditLog:  true,
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

// disturb returns the cluster for a scenario that ends and changes its servers. It must not run in parallel. One that
// fails leaves who knows what behind: the next gets a new cluster.
func (p *pool) disturb(t *testing.T) *server {
	t.Helper()
	s := p.get(t)
	t.Cleanup(func() {
		if t.Failed() {
			p.close()
		}
	})
	return s
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
