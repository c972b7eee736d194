package scenario

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kubejournal/internal/logging/loggingtest"
	"kubejournal/test/cluster"
)

// The patience of a condition that should come at once, and of one that waits for servers or for a daemon's pauses.
const (
	soon  = 30 * time.Second
	later = 2 * time.Minute

	pollInterval = 25 * time.Millisecond
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
	once sync.Once
	dir  string
	err  error
}

func program(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "kubejournal-scenario-"); binary.err != nil {
			return
		}
		if binary.err = noteSources("../../cmd", "../../internal", "../../go.mod"); binary.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-race", "-o", binary.dir, "kubejournal/cmd/kubejournal").CombinedOutput()
		if err != nil {
			binary.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "kubejournal")
}

// noteSources looks at each file that the program is built from. The go tool repeats a test's last result while the
// files that the test itself has looked at stay the same, and does not see what a build in another process reads.
func noteSources(roots ...string) error {
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if _, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return nil // an editor's, gone since the folder was read
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("look at sources: %w", err)
		}
	}
	return nil
}

// server is a cluster and the administrator's access to it.
type server struct {
	*cluster.Cluster
	transport *http.Client
	client    dynamic.Interface
}

// serverOf connects to a cluster and teaches it the widgets of the workload.
func serverOf(ctx context.Context, c *cluster.Cluster) (*server, error) {
	config := c.RESTConfig()
	config.Timeout = soon
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, err
	}
	s := &server{Cluster: c, transport: transport, client: client}
	err = s.define(ctx, definition("widgets", "Widget", "v1"))
	return s, err
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

// eventually polls check until it returns nil.
func eventually(t *testing.T, patience time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}

// define makes a custom resource and waits until it is served.
func (s *server) define(ctx context.Context, crd object) error {
	_, err := s.client.Resource(definitions).Create(ctx, crd.unstructured(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("define custom resource: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if _, err = s.client.Resource(crd.serves()).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for custom resource: %w", err)
		}
	}
}
