package kubeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// An address can come to lead to another cluster while the daemon runs: a VIP, a
// DNS name, a proxy. So once an answer has begun, and before any of it is used, the
// cluster's uid is read over a new connection: an old one may still lead to the
// previous cluster. This notices an address that has changed once, and may not
// notice one that leads to two clusters by turns.
//
//	a watch, streamed lists included    by Watch, before it returns
//	a page of a list                    by the caller, before its first object
//	the version that a GAP names        by the caller, before the line is written
//	a refusal of the position           by the caller, before it counts
//
// The request for the current version before a watch, a client of metadata only, and
// the list that fills in previous versions, write no line and are not confirmed.

// Requests per second for the cluster's uid that streams share, so that hundreds
// of watches opened together cost a few.
const (
	confirmRate  = 5
	confirmBurst = 10
)

// Cluster is the cluster that a Client's answers must come from.
type Cluster struct {
	// ID is the uid of its namespace kube-system, "" while it is not known: then
	// the first one that can be read is taken for it, and told to Learn.
	ID    string
	Learn func(id string) error
	// Readable reports whether this process has read it. From then on a server
	// that does not let it be read may be another one.
	Readable bool
}

// ClusterError is the answer of another cluster than the one that is journalled.
// No stream can go on there.
type ClusterError struct{ Want, Got string }

func (e *ClusterError) Error() string {
	return fmt.Sprintf("another cluster answers (the uid of its namespace kube-system is %s; that of the journalled one, %s)", e.Got, e.Want)
}

// UnconfirmedError is why the cluster cannot be told. It hides the server's
// error: a 403 or 410 to this request says nothing of the resource or position.
type UnconfirmedError struct{ Reason error }

func (e *UnconfirmedError) Error() string { return fmt.Sprintf("confirm cluster: %v", e.Reason) }

// IsUnreadable reports whether a server has refused to tell its cluster's uid.
func IsUnreadable(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// verifier makes sure that a client's answers come from one cluster.
type verifier struct {
	read  func(context.Context) (id string, err error)
	turns *rate.Limiter
	busy  chan struct{} // holds one while a shared check runs

	mu      sync.Mutex
	cluster *Cluster // nil: any cluster may answer; guarded by mu
	next    *check   // the shared check that has yet to begin, if any; guarded by mu
}

func newVerifier(read func(context.Context) (string, error)) *verifier {
	return &verifier{read: read, turns: rate.NewLimiter(confirmRate, confirmBurst), busy: make(chan struct{}, 1)}
}

// check is one shared request for the cluster's uid.
type check struct {
	cancel  context.CancelFunc
	waiting int           // guarded by verifier.mu; nobody: it is cancelled
	done    chan struct{} // closed once err is set
	err     error
}

// Expect has the client use no answer of another cluster from now on.
func (c *Client) Expect(cluster Cluster) {
	c.verifier.mu.Lock()
	defer c.verifier.mu.Unlock()
	c.verifier.cluster = &cluster
}

// Cluster returns what Expect was told, with what has been read since, and
// whether it was called.
func (c *Client) Cluster() (cluster Cluster, ok bool) {
	c.verifier.mu.Lock()
	defer c.verifier.mu.Unlock()
	if c.verifier.cluster == nil {
		return Cluster{}, false
	}
	return *c.verifier.cluster, true
}

// expects reports whether one cluster is expected to answer.
func (v *verifier) expects() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.cluster != nil
}

// Confirm returns nil once a request that was made after the call has shown that
// the address leads to the expected cluster, or where none is expected. The error
// is a *ClusterError or an *UnconfirmedError. Callers share requests.
func (c *Client) Confirm(ctx context.Context) error { return c.verifier.confirm(ctx) }

// ConfirmNow is Confirm with a request of its own: it waits for no others, so
// that a list of many pages takes no turns.
func (c *Client) ConfirmNow(ctx context.Context) error { return c.verifier.ask(ctx) }

// confirm returns nil once a request that was made after the call has shown that
// the address leads to the expected cluster. The caller shares it with others.
func (v *verifier) confirm(ctx context.Context) error {
	if !v.expects() {
		return nil
	}
	v.mu.Lock()
	c := v.next
	if c == nil {
		shared, cancel := context.WithCancel(context.Background())
		c = &check{cancel: cancel, done: make(chan struct{})}
		v.next = c
		go v.run(shared, c)
	}
	c.waiting++
	v.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
		v.begin(c)
	}
	return &UnconfirmedError{ctx.Err()}
}

// run does a shared check once it is its turn.
func (v *verifier) run(ctx context.Context, c *check) {
	defer close(c.done)
	defer c.cancel()
	select {
	case v.busy <- struct{}{}:
		defer func() { <-v.busy }()
	case <-ctx.Done():
		return // nobody waits
	}
	if err := v.turns.Wait(ctx); err != nil {
		return // the same
	}
	v.mu.Lock()
	v.begin(c)
	v.mu.Unlock()
	c.err = v.ask(ctx)
}

// begin lets nobody else wait for a check. It is called with mu held.
func (v *verifier) begin(c *check) {
	if v.next == c {
		v.next = nil
	}
}

// ask asks for the cluster's uid now.
func (v *verifier) ask(ctx context.Context) error {
	if !v.expects() {
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

// ClusterID returns the uid of the namespace kube-system, by which a cluster
// is known. It asks over a connection of its own.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, apart{}, true), answerTimeout)
	defer cancel()
	// Not DoRaw, whose errors lack the server's words.
	answer, err := c.rest.Get().AbsPath("/api/v1/namespaces/kube-system").Stream(ctx)
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
