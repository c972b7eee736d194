package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const defaultTimeLimit = 30 * time.Minute

// Options of a cluster. The zero value is what most tests want.
type Options struct {
	Binaries       Binaries        // default: those of the variant that the environment chooses
	FeatureGates   map[string]bool // of the API server
	APIServerFlags []string        // after the cluster's own, so that they win
	Audit          string          // the policy by which AuditLog() is written; "": it is not
	// pods need a ServiceAccount and mount its token; a controller manager makes accounts
	Accounts  bool
	Fsync     bool          // let etcd wait for the disk: slower, and only a machine's crash needs it
	TimeLimit time.Duration // both servers are killed then; default 30 minutes
	// Beside is a cluster whose etcd this one uses too, under a prefix of its own: another cluster with the same
	// administrator, whose versions come from the same sequence. It is closed before that one.
	Beside *Cluster
}

// Cluster is one API server and its etcd. Its methods may be called from several goroutines, but two that start or
// stop the same server at the same time get an error or each other's result.
type Cluster struct {
	options   Options
	variant   Variant
	dir       string // everything on disk; made by Start, removed by Close
	etcdPort  int    // ports stay the same for the cluster's life
	apiPort   int
	token     string // the administrator's
	apiserver server
	etcd      server
	life      context.Context // no server starts after it
	limit     *time.Timer
	end       context.CancelCauseFunc // ends the life
	ended     chan struct{}           // closed when no server is left

	mu        sync.Mutex
	gates     map[string]bool
	claims    []io.Closer  // to the ports that this cluster picked
	client    *http.Client // the administrator's; set once the API server has a certificate
	grants    int          // how often Grant has run
	snapshots int
}

var errClosed = errors.New("cluster is closed")

// Start runs a new cluster and returns when it is ready: the API server answers, its bootstrap policy is in place,
// and the namespaces kube-system and default exist. ctx bounds the start only; the cluster lives until Close.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.TimeLimit == 0 {
		options.TimeLimit = defaultTimeLimit
	}
	var variant Variant
	if options.Binaries == (Binaries{}) {
		var err error
		if variant, err = ChosenVariant(); err != nil {
			return nil, err
		}
		if options.Binaries, err = variant.Build(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "kubejournal-cluster-")
	if err != nil {
		return nil, fmt.Errorf("make cluster folder: %w", err)
	}
	expired := fmt.Errorf("cluster has reached its time limit of %s", options.TimeLimit)
	life, end := context.WithCancelCause(context.Background())
	c := &Cluster{
		options:   options,
		variant:   variant,
		dir:       dir,
		apiserver: server{name: "kube-apiserver", log: filepath.Join(dir, "kube-apiserver.log")},
		etcd:      server{name: "etcd", log: filepath.Join(dir, "etcd.log")},
		life:      life,
		limit:     time.AfterFunc(options.TimeLimit, func() { end(expired) }),
		end:       end,
		ended:     make(chan struct{}),
		gates:     maps.Clone(options.FeatureGates),
	}
	go c.reap()
	if err := c.bringUp(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) bringUp(ctx context.Context) error {
	var err error
	if c.apiPort, err = c.pickPort(); err != nil {
		return err
	}
	if beside := c.options.Beside; beside != nil {
		c.etcdPort, c.token = beside.etcdPort, beside.token
	} else if c.etcdPort, err = c.pickPort(); err != nil {
		return err
	}
	if err := c.writeCredentials(); err != nil {
		return err
	}
	if c.options.Beside == nil {
		if err := c.StartEtcd(ctx); err != nil {
			return err
		}
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	return WriteKubeconfig(c.Kubeconfig(), c.RESTConfig())
}

// reap kills what is left when the life is over. No server can start after that.
func (c *Cluster) reap() {
	defer close(c.ended)
	<-c.life.Done()
	_ = c.apiserver.stop(syscall.SIGKILL) // an error says that it is down already
	_ = c.etcd.stop(syscall.SIGKILL)
}

// Close kills both servers and removes the cluster's folder. Closing again does nothing.
func (c *Cluster) Close() error {
	c.limit.Stop()
	c.end(errClosed)
	<-c.ended
	c.mu.Lock()
	var errs []error
	for _, claim := range c.claims {
		errs = append(errs, claim.Close())
	}
	c.claims = nil
	c.mu.Unlock()
	if err := os.RemoveAll(c.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove cluster folder: %w", err))
	}
	return errors.Join(errs...)
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.file("admin.kubeconfig") }

// ServiceAccountKey is the path of the key that signs the tokens of ServiceAccounts, for a controller manager.
func (c *Cluster) ServiceAccountKey() string { return c.file("service-account.key") }

// APIServerLog is the path of the API server's log, of all its runs.
func (c *Cluster) APIServerLog() string { return c.apiserver.log }

// EtcdLog is the path of etcd's log, of all its runs; etcd logs warnings and worse only.
func (c *Cluster) EtcdLog() string { return c.etcd.log }

// AuditLog is the path of the audit log, JSON lines of audit.k8s.io/v1; it is written with Options.Audit only.
func (c *Cluster) AuditLog() string { return c.file("audit.log") }

// RESTConfig is the administrator's access, with no rate limit on the client's side. The caller may change it.
func (c *Cluster) RESTConfig() *rest.Config {
	return &rest.Config{
		Host:            c.url(),
		BearerToken:     c.token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.certificate()},
		QPS:             -1,
	}
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) url() string { return "https://" + address(c.apiPort) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// pickPort picks a port below those that the kernel hands out by itself. A server that is down keeps its port only by
// nobody else taking it, and a client that dials it in a loop would sooner or later get that very port from the
// kernel for its own end. Clusters of other processes find the claim to it, which Close gives up.
func (c *Cluster) pickPort() (int, error) {
	const low, high, tries = 20000, 30000, 100
	var last error
	for range tries {
		port := low + rand.IntN(high-low)
		claim, err := claimPort(port)
		if err != nil {
			last = err
			continue
		}
		c.mu.Lock()
		c.claims = append(c.claims, claim)
		c.mu.Unlock()
		listener, err := net.Listen("tcp", address(port))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("find free port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("find free port: %w", last)
}
