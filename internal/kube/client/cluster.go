package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// An address can come to lead to another cluster while the daemon runs: a VIP, a DNS name, a proxy. So once an answer
// has begun, and before any of it is used, the cluster's uid is read over a new connection: an old one may still lead
// to the previous cluster. This notices an address that has changed once, and may not notice one that leads to two
// clusters by turns.
//
//	a watch, streamed lists included    by Watch, before it returns
//	a page of a list                    by the caller, before its first object
//	the version that a GAP names        by the caller, before the line is written
//	a refusal of the position           by the caller, before it counts
//
// The request for the current version before a watch, a client of metadata only, and the list that fills in previous
// versions, write no line and are not confirmed.

// Requests per second for the cluster's uid that streams share: hundreds of watches opened together cost a few.
const (
	confirmRate  = 5
	confirmBurst = 10
)

// Cluster is the cluster that a Client's answers must come from.
type Cluster struct {
	// ID is the uid of its namespace kube-system, "" while it is not known: then the first one that can be read is
	// taken for it, and passed to Learn.
	ID    string
	Learn func(id string) error
	// Readable reports whether this process has read it. From then on a server that does not let it be read may be
	// another one.
	Readable bool
}

// ClusterError is the answer of another cluster than the one that is journalled. No stream can continue there.
type ClusterError struct{ Want, Got string }

func (e *ClusterError) Error() string {
	return fmt.Sprintf("another cluster answers (the uid of its namespace kube-system is %s; that of the journalled "+
		"one, %s)", e.Got, e.Want)
}

// UnconfirmedError is why the cluster cannot be confirmed. It hides the server's error: a 403 or 410 to this request
// says nothing of the resource or position.
type UnconfirmedError struct{ Reason error }

func (e *UnconfirmedError) Error() string { return fmt.Sprintf("confirm cluster: %v", e.Reason) }

// IsUnreadable reports whether a server has refused to show its cluster's uid.
func IsUnreadable(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// verifier makes sure that a client's answers come from one cluster.
type verifier struct {
	read  func(context.Context) (id string, err error)
	turns *rate.Limiter
	begun atomic.Int64 // shared requests so far

	busy chan struct{} // holds one during a shared request
	last int64         // the number of the last shared request that has ended; guarded by busy
	err  error         // and what came of it; guarded by busy

	mu      sync.Mutex
	cluster *Cluster // nil: any cluster may answer; guarded by mu
}

func newVerifier(read func(context.Context) (string, error)) *verifier {
	return &verifier{read: read, turns: rate.NewLimiter(confirmRate, confirmBurst), busy: make(chan struct{}, 1)}
}

// Expect has the client use no answer of another cluster from now on.
func (v *verifier) Expect(cluster Cluster) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cluster = &cluster
}

// Cluster returns what Expect was called with, with what has been read since, and whether it was called.
func (v *verifier) Cluster() (cluster Cluster, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cluster == nil {
		return Cluster{}, false
	}
	return *v.cluster, true
}

// Confirm returns nil once a request that was made after the call has shown that the address leads to the expected
// cluster, or where none is expected. The error is a *ClusterError or an *UnconfirmedError. Callers share requests.
func (v *verifier) Confirm(ctx context.Context) error {
	if _, expected := v.Cluster(); !expected {
		return nil
	}
	before := v.begun.Load()
	select {
	case v.busy <- struct{}{}:
		defer func() { <-v.busy }()
	case <-ctx.Done():
		return &UnconfirmedError{ctx.Err()}
	}
	if v.last > before {
		return v.err
	}
	if err := v.turns.Wait(ctx); err != nil {
		return &UnconfirmedError{err}
	}
	n := v.begun.Add(1)
	err := v.ConfirmNow(ctx)
	if ctx.Err() == nil { // else it says nothing to those who still wait
		v.last, v.err = n, err
	}
	return err
}

// ConfirmNow is Confirm with a request of its own: it waits for no others, so that a list of many pages takes no turns.
func (v *verifier) ConfirmNow(ctx context.Context) error {
	if _, expected := v.Cluster(); !expected {
		return nil
	}
	id, err := v.read(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.cluster
	switch {
	case IsUnreadable(err) && !known.Readable:
		return nil // as at the start, which has warned
	case err != nil:
		return &UnconfirmedError{err}
	case known.ID == "":
		if known.Learn != nil {
			if err := known.Learn(id); err != nil {
				return &UnconfirmedError{err}
			}
		}
		known.ID = id
	case known.ID != id:
		return &ClusterError{Want: known.ID, Got: id}
	}
	known.Readable = true
	return nil
}

// ClusterID returns the uid of the namespace kube-system, by which a cluster is known. It asks over a connection of its
// own.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, apart{}, true), answerTimeout)
	defer cancel()
	return c.clusterID(ctx)
}

// probeTime is how long the server may take to answer Probe.
const probeTime = 3 * time.Second

// Probe returns nil where the server answers now, over the connection of the watches if they share one, accepts these
// credentials, and is the expected cluster's. Where the namespace may not be read, t is listed, an object at most.
func (c *Client) Probe(ctx context.Context, t Target) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	known, expected := c.Cluster()
	if expected && !known.Readable {
		_, err := c.Version(ctx, t)
		return err
	}
	id, err := c.clusterID(ctx)
	if err == nil && expected && known.ID != "" && id != known.ID {
		return &ClusterError{Want: known.ID, Got: id}
	}
	return err
}

func (c *Client) clusterID(ctx context.Context) (string, error) {
	// Not DoRaw, whose errors lack the server's words.
	answer, err := c.rest.Get().MaxRetries(0).AbsPath("/api/v1/namespaces/kube-system").Stream(ctx)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer)
	if err := errors.Join(err, answer.Close()); err != nil {
		return "", fmt.Errorf("read namespace kube-system: %w", err)
	}
	var o struct{ Metadata struct{ Name, UID string } }
	if err := json.Unmarshal(body, &o); err != nil {
		return "", fmt.Errorf("read namespace kube-system: %w", err)
	}
	if o.Metadata.Name != "kube-system" || o.Metadata.UID == "" {
		return "", errors.New("read namespace kube-system: the answer is something else")
	}
	return o.Metadata.UID, nil
}
