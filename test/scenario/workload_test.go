package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kubejournal/test/invariant"
)

const (
	writers      = 4
	writeRate    = 120 // per second, of all writers
	writeTimeout = 5 * time.Second
	enough       = 12 // objects of one writer, from which it rather deletes than creates
)

// ledger remembers what the server acknowledged, as the streams of the sources should tell it.
type ledger struct {
	sources []source

	mu     sync.Mutex
	epoch  int // guarded by mu
	writes []invariant.Write
}

// add notes a write. An object comes to a stream and leaves it by its label, app before and after; "" is no object.
func (g *ledger) add(k kind, namespace, name, before, after, uid, rv string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sources {
		had := before != "" && s.covers(k, namespace, before)
		has := after != "" && s.covers(k, namespace, after)
		w := invariant.Write{
			Stream: s.stream(), Epoch: g.epoch, UID: uid, ResourceVersion: rv,
			What: fmt.Sprintf("%s %s/%s", s.stream(), namespace, name),
		}
		switch {
		case has && had:
			w.Type = invariant.Modified
		case has:
			w.Type = invariant.Added
		case had:
			w.Type = invariant.Deleted
		default:
			continue
		}
		g.writes = append(g.writes, w)
	}
}

func (g *ledger) all() []invariant.Write {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes[:len(g.writes):len(g.writes)]
}

// restored says that the server was put back to an earlier state.
func (g *ledger) restored() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch++
}

// live is an object that the workload has made.
type live struct {
	kind            kind
	namespace, name string
	uid             string
	app             string
}

// author makes writes and notes those that were acknowledged. What comes of one that was not, nobody knows: the author
// does not touch that object again.
type author struct {
	client dynamic.Interface
	ledger *ledger
}

func (a author) create(ctx context.Context, k kind, namespace, name, app string, n int) (live, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	made, err := a.client.Resource(k.gvr).Namespace(namespace).
		Create(ctx, k.named(namespace, name, map[string]any{"app": app}, n), metav1.CreateOptions{})
	if err != nil {
		return live{}, err
	}
	o := live{k, namespace, name, string(made.GetUID()), app}
	a.ledger.add(k, namespace, name, "", app, o.uid, made.GetResourceVersion())
	return o, nil
}

func (a author) update(ctx context.Context, o *live, app string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := o.kind.patch(map[string]any{"app": app}, n)
	if err != nil {
		return err
	}
	made, err := a.client.Resource(o.kind.gvr).Namespace(o.namespace).
		Patch(ctx, o.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	a.ledger.add(o.kind, o.namespace, o.name, o.app, app, o.uid, made.GetResourceVersion())
	o.app = app
	return nil
}

func (a author) delete(ctx context.Context, o live) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := a.client.Resource(o.kind.gvr).Namespace(o.namespace).Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	a.ledger.add(o.kind, o.namespace, o.name, o.app, "", o.uid, "")
	return nil
}

// churn is writers at work.
type churn struct {
	t      *testing.T
	cancel context.CancelFunc
	group  *errgroup.Group
	ledger *ledger
}

// churn starts writers on all kinds in the namespaces; stop ends them.
func (a author) churn(t *testing.T, namespaces ...string) *churn {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &churn{t: t, cancel: cancel, group: new(errgroup.Group), ledger: a.ledger}
	limit := rate.NewLimiter(writeRate, 1)
	run := rand.Uint32()
	for i := range writers {
		w := writer{author: a, name: fmt.Sprintf("%x-%d", run, i), namespaces: namespaces, limit: limit}
		c.group.Go(func() error { return w.run(ctx) })
	}
	t.Cleanup(c.stop)
	return c
}

// stop ends the writers and waits for them.
func (c *churn) stop() {
	c.cancel()
	_ = c.group.Wait() // writers return no error: a write that fails is part of many a scenario
}

// more waits until that many more writes were acknowledged.
func (c *churn) more(n int) {
	c.t.Helper()
	began := len(c.ledger.all())
	eventually(c.t, later, "writes", func() error {
		if now := len(c.ledger.all()); now < began+n {
			return fmt.Errorf("%d of %d acknowledged", now-began, n)
		}
		return nil
	})
}

// writer changes objects of its own.
type writer struct {
	author
	name       string
	namespaces []string
	limit      *rate.Limiter
	objects    []live
	n          int // of the next write
}

func (w *writer) run(ctx context.Context) error {
	for w.limit.Wait(ctx) == nil {
		w.step(ctx)
	}
	return nil
}

var apps = []string{"web", "web", "db"}

func (w *writer) step(ctx context.Context) {
	w.n++
	if len(w.objects) < 2 || len(w.objects) < enough && rand.N(10) < 4 {
		k, ns := everyKind[rand.N(len(everyKind))], w.namespaces[rand.N(len(w.namespaces))]
		w.keep(w.create(ctx, k, ns, fmt.Sprintf("%s-%d", w.name, w.n), apps[rand.N(len(apps))], w.n))
		return
	}
	i := rand.N(len(w.objects))
	o := w.objects[i]
	w.objects = append(w.objects[:i], w.objects[i+1:]...)
	if rand.N(10) < 7 {
		err := w.update(ctx, &o, apps[rand.N(len(apps))], w.n)
		w.keep(o, err)
		return
	}
	if w.delete(ctx, o) == nil && rand.N(2) == 0 {
		w.keep(w.create(ctx, o.kind, o.namespace, o.name, o.app, w.n))
	}
}

// keep goes on with an object unless the last write to it failed.
func (w *writer) keep(o live, err error) {
	if err == nil {
		w.objects = append(w.objects, o)
	}
}
