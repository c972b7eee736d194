package main

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"kubejournal/internal/kubeclient"
)

// identify makes sure that the checkpoint belongs to this cluster, and that the
// streams use no answer of another one.
func (d *daemon) identify(ctx context.Context) error {
	d.startup.says("asking the API server")
	var id string
	err := d.reach(ctx, func(ctx context.Context) (err error) {
		id, err = d.client.ClusterID(ctx)
		return err
	})
	switch {
	case kubeclient.IsUnreadable(err):
		d.log.Warn("the namespace kube-system cannot be read: cannot tell whether the checkpoint belongs to this cluster", zap.Error(err))
	case err != nil:
		return err
	}
	known, err := d.store.Cluster()
	if err != nil {
		return err
	}
	if known != "" && id != "" && known != id {
		return fmt.Errorf("checkpoint.path: %s belongs to another cluster (%s; this one, %s, is %s); name another checkpoint and output for this cluster",
			d.cfg.Checkpoint.Path, known, withoutPassword(d.rest.Host), id)
	}
	if known == "" && id != "" {
		if err := d.store.SetCluster(id); err != nil {
			return err
		}
		known = id
	}
	d.client.Expect(kubeclient.Cluster{ID: known, Learn: d.store.SetCluster, Readable: id != ""})
	return nil
}

// sameCluster makes sure that new credentials, or a server that the config names
// anew, lead to the cluster that is journalled. Who may not read kube-system, and
// could not since the start, can have credentials replaced at the same address
// alone: that is no more of a risk than the start was.
func (d *daemon) sameCluster(ctx context.Context, c *kubeclient.Client) error {
	cluster, identified := d.client.Cluster()
	if !identified {
		return nil // the start is still to ask
	}
	host := withoutPassword(c.Host())
	id, err := c.ClusterID(ctx)
	switch {
	case kubeclient.IsUnreadable(err) && (cluster.Readable || c.Moved()):
		return fmt.Errorf("cannot tell whether %s is the same cluster: %w; allow get of the namespace kube-system", host, err)
	case kubeclient.IsUnreadable(err):
		return nil
	case err != nil:
		return err
	case cluster.ID == "" && c.Moved():
		return fmt.Errorf("cannot tell whether %s is the same cluster, as the namespace kube-system could not be read before; restart kubejournal", host)
	case cluster.ID != "" && id != cluster.ID:
		return fmt.Errorf("%s is another cluster, %s; the one that is journalled is %s", host, id, cluster.ID)
	}
	return nil
}

// asForeign adds to the error of a server that has become another cluster what
// can be done about it.
func (d *daemon) asForeign(err error) error {
	if !errors.As(err, new(*kubeclient.ClusterError)) {
		return err
	}
	return fmt.Errorf("%s: %w, and nothing of it was written; have the address lead to the journalled cluster again, "+
		"or name another checkpoint and output for this one", withoutPassword(d.access.Host()), err)
}
