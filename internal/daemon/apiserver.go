package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapio"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/internal/access"
	"kubejournal/internal/config"
	"kubejournal/internal/discovery"
	"kubejournal/internal/kubeclient"
)

const (
	// reachTimeout is how long a start waits for an API server that does not answer: a node's boot, a server's restart.
	reachTimeout = 15 * time.Second
	reachPause   = 500 * time.Millisecond
	// discoveryRate is in requests per second: servers without aggregated discovery are asked once per group and
	// version.
	discoveryRate = 50
)

// apiServer is the connection to the API server and what the server serves.
type apiServer struct {
	warnings rest.WarningHandler // logs each of the server's warnings once, not at every request
	access   *kubeclient.Access
	client   *kubeclient.Client // goes through access
	resolver *discovery.Resolver
}

// host is the server's address, for people.
func (s *apiServer) host() string { return access.Redacted(s.access.Host()) }

// connect finds the API server, and finds it again when requests fail.
func (d *Daemon) connect(context.Context) (err error) {
	d.warnings = rest.NewWarningWriter(&zapio.Writer{Log: d.Log, Level: zap.WarnLevel}, rest.WarningWriterOptions{Deduplicate: true})
	if d.access, err = kubeclient.NewAccess(d.finder(d.cfg.Kubernetes), d.sameCluster, d.Log); err != nil {
		return access.NotFound(err)
	}
	d.client, err = kubeclient.New(d.access.Config())
	return err
}

// finder returns what finds the API server that k names, anew each time.
func (d *Daemon) finder(k config.Kubernetes) func() (*rest.Config, error) {
	return func() (*rest.Config, error) {
		c, err := d.Server(k)
		if err != nil {
			return nil, err
		}
		c.WarningHandler = d.warnings
		return c, nil
	}
}

// identify makes sure that the checkpoint belongs to this cluster, and that the streams use no answer of another one.
func (d *Daemon) identify(ctx context.Context) error {
	d.startup.setText("asking the API server")
	var id string
	err := d.reach(ctx, func(ctx context.Context) (err error) {
		id, err = d.client.ClusterID(ctx)
		return err
	})
	switch {
	case kubeclient.IsUnreadable(err):
		d.Log.Warn("the namespace kube-system cannot be read: cannot check that the checkpoint belongs to this cluster", zap.Error(err))
	case err != nil:
		return err
	}
	if d.clusterUID, err = d.store.Cluster(); err != nil {
		return err
	}
	if d.clusterUID != "" && id != "" && d.clusterUID != id {
		return fmt.Errorf("checkpoint.path: %s belongs to another cluster (%s; this one, %s, is %s); name another checkpoint and output for this cluster",
			d.cfg.Checkpoint.Path, d.clusterUID, d.host(), id)
	}
	if d.clusterUID == "" && id != "" {
		if err := d.store.SetCluster(id); err != nil {
			return err
		}
		d.clusterUID = id
	}
	d.client.Expect(kubeclient.Cluster{ID: d.clusterUID, Learn: d.store.SetCluster, Readable: id != ""})
	return nil
}

// discover asks the server what it serves.
func (d *Daemon) discover(ctx context.Context) error {
	d.startup.setText("asking the API server what it serves")
	c := d.access.Config()
	c.QPS, c.Burst = discoveryRate, 2*discoveryRate
	client, err := clientdiscovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	d.resolver = discovery.New(client)
	err = d.reach(ctx, d.resolver.Refresh)
	if partial := new(discovery.PartialError); errors.As(err, &partial) {
		d.Log.Warn("discovery is incomplete", zap.Error(err))
		return nil
	}
	return err
}

// reach asks the server something, and asks again for a while where there is no answer.
func (d *Daemon) reach(ctx context.Context, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for logged := false; ; {
		err := ask(limited)
		partial := new(discovery.PartialError)
		switch {
		case err == nil, errors.As(err, &partial), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return err
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("the API server %s does not accept these credentials: %w; check the kubeconfig and its context", d.host(), err)
		case isTransient(err) && limited.Err() == nil:
			if !logged {
				logged = true
				d.Log.Info("waiting for the API server", zap.String("server", d.host()), zap.Duration("atMost", reachTimeout), zap.Error(err))
			}
			d.startup.setText(fmt.Sprintf("waiting for the API server %s: %v", d.host(), err))
			if pause(limited, reachPause) {
				continue
			}
		}
		return fmt.Errorf("ask the API server %s: %w", d.host(), err)
	}
}

// isTransient reports whether an error is that of a server, or of a proxy before it, that is just starting.
func isTransient(err error) bool {
	var n net.Error
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError {
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		errors.As(err, &n) && n.Timeout() || apierrors.IsTooManyRequests(err)
}

// pause waits for d and reports whether it passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sameCluster makes sure that new credentials, or a server that the config names anew, lead to the cluster that is
// journalled. An identity that may not read kube-system, and could not since the start, can have its credentials
// replaced at the same address only: that is no more of a risk than the start was.
func (d *Daemon) sameCluster(ctx context.Context, c *kubeclient.Client, moved bool) error {
	cluster, identified := d.client.Cluster()
	if !identified {
		return nil // the start is still to ask
	}
	host := access.Redacted(c.Host())
	id, err := c.ClusterID(ctx)
	switch {
	case kubeclient.IsUnreadable(err) && (cluster.Readable || moved):
		return fmt.Errorf("cannot tell whether %s is the same cluster: %w; allow get of the namespace kube-system", host, err)
	case kubeclient.IsUnreadable(err):
		return nil
	case err != nil:
		return err
	case cluster.ID == "" && moved:
		return fmt.Errorf("cannot tell whether %s is the same cluster, as the namespace kube-system could not be read before; restart kubejournal", host)
	case cluster.ID != "" && id != cluster.ID:
		return fmt.Errorf("%s is another cluster, %s; the one that is journalled is %s", host, id, cluster.ID)
	}
	return nil
}

// explainCluster adds to the error of a server that has become another cluster what can be done about it.
func (d *Daemon) explainCluster(err error) error {
	if !errors.As(err, new(*kubeclient.ClusterError)) {
		return err
	}
	return fmt.Errorf("%s: %w, and nothing of it was written; have the address lead to the journalled cluster again, "+
		"or name another checkpoint and output for this one", d.host(), err)
}
