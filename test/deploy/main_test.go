package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"kubejournal/test/cluster"
	"kubejournal/test/loggingtest"
	"kubejournal/test/program"
)

const (
	root     = "../.." // of the repository
	patience = 3 * time.Minute
)

// shared is what all tests use, made when the first one asks.
var shared struct {
	server  func() (*server, error)
	program func() (string, error)
	image   func() (layout, error)
	dir     string
	running *server
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kubejournal-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	shared.server = sync.OnceValues(startServer)
	shared.program = sync.OnceValues(func() (string, error) { return build(filepath.Join(dir, "tree")) })
	shared.image = sync.OnceValues(func() (layout, error) {
		if _, err := shared.program(); err != nil {
			return "", err
		}
		return makeImage(filepath.Join(dir, "tree"))
	})
	code := loggingtest.Hold(m).Run()
	if s := shared.running; s != nil {
		if err := s.Close(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// build builds the program as a release is built, from a copy of the sources that it makes at tree, as the Dockerfile does.
func build(tree string) (path string, err error) {
	for _, name := range []string{"cmd", "internal", "deploy/image", "go.mod", "go.sum", "Makefile", "Dockerfile"} {
		from, to := filepath.Join(root, name), filepath.Join(tree, name)
		if info, statErr := os.Stat(from); statErr == nil && info.IsDir() {
			err = os.CopyFS(to, os.DirFS(from))
		} else {
			err = copyFile(from, to)
		}
		if err != nil {
			return "", fmt.Errorf("copy sources: %w", err)
		}
	}
	cmd := exec.Command("make", "--no-print-directory", "build", "VERSION="+version, "COMMIT="+commit)
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make build: %w\n%s", err, out)
	}
	return filepath.Join(tree, "bin", "kubejournal"), nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644) //nolint:gosec // sources
}

// kubejournal is the path of the program under test.
func kubejournal(t *testing.T) string {
	t.Helper()
	path, err := shared.program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// installed is the path of a program that a package of Debian holds.
func installed(t *testing.T, name, debian string) string {
	t.Helper()
	for _, candidate := range []string{name, filepath.Join("/usr/sbin", name)} { // not on everybody's PATH
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not on PATH; install it, on Debian: apt-get install --no-install-recommends %s", name, debian)
	return ""
}

// server is a real API server and the administrator's ways to it.
type server struct {
	*cluster.Cluster
	client kubernetes.Interface
	any    dynamic.Interface
	mapper meta.RESTMapper
}

func startServer() (*server, error) {
	c, err := cluster.Start(context.Background(), cluster.Options{})
	if err != nil {
		return nil, err
	}
	s := &server{Cluster: c}
	shared.running = s
	config := c.RESTConfig()
	config.Timeout = patience
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if s.any, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClient(s.client.Discovery().RESTClient()))
	s.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	return s, err
}

func theServer(t *testing.T) *server {
	t.Helper()
	s, err := shared.server()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// apply sends objects to the server as kubectl apply --server-side does. With dry, the server does all but keep them:
// it defaults, validates and asks every admission plugin.
func (s *server) apply(t *testing.T, dry bool, objects ...*unstructured.Unstructured) {
	t.Helper()
	options := metav1.ApplyOptions{FieldManager: "deploy", Force: true}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			t.Fatal(err)
		}
		var in dynamic.ResourceInterface = s.any.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			in = s.any.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		if _, err := in.Apply(t.Context(), o.GetName(), o, options); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// eventually waits until try has no error.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	if err := program.Eventually(t.Context(), patience, what, try); err != nil {
		t.Fatal(err)
	}
}
