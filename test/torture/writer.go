package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	writers      = 6
	writeTimeout = 5 * time.Second
	enough       = 15 // objects of one writer, from which it rather deletes than creates
)

// live is an object that the workload has made.
type live struct {
	kind            kind
	namespace, name string
	uid             string
	app             string
}

// author makes writes and notes those that were acknowledged, and the objects of those that nobody answered.
type author struct {
	client    dynamic.Interface
	ledger    *ledger
	transport *http.Client // the client's
}

func (a author) close() {
	if a.transport != nil {
		a.transport.CloseIdleConnections()
	}
}

// request bounds one write, which a stop of its writer does not break off: it would only make its fate unknown.
func request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

func (a author) create(ctx context.Context, o *live, n int) error {
	ctx, cancel := request(ctx)
	defer cancel()
	made, err := a.client.Resource(o.kind.gvr).Namespace(o.namespace).
		Create(ctx, o.kind.named(o.namespace, o.name, o.app, n), metav1.CreateOptions{})
	if err != nil {
		return a.failed(err, *o)
	}
	o.uid = string(made.GetUID())
	a.ledger.add(o.kind, o.namespace, o.name, "", o.app, o.uid, made.GetResourceVersion())
	return nil
}

// update returns the version that it made.
func (a author) update(ctx context.Context, o *live, app string, n int) (string, error) {
	ctx, cancel := request(ctx)
	defer cancel()
	patch, err := o.kind.patch(o.namespace, app, n)
	if err != nil {
		return "", err
	}
	made, err := a.client.Resource(o.kind.gvr).Namespace(o.namespace).
		Patch(ctx, o.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return "", a.failed(err, *o)
	}
	a.ledger.add(o.kind, o.namespace, o.name, o.app, app, o.uid, made.GetResourceVersion())
	o.app = app
	return made.GetResourceVersion(), nil
}

func (a author) delete(ctx context.Context, o live) error {
	ctx, cancel := request(ctx)
	defer cancel()
	err := a.client.Resource(o.kind.gvr).Namespace(o.namespace).Delete(ctx, o.name, metav1.DeleteOptions{})
	if err != nil {
		return a.failed(err, o)
	}
	a.ledger.add(o.kind, o.namespace, o.name, o.app, "", o.uid, "")
	return nil
}

// errNotMade is a write that surely was not made.
var errNotMade = errors.New("not made")

// failed tells writes that never reached the server from those of unknown fate.
func (a author) failed(err error, o live) error {
	if errors.Is(err, syscall.ECONNREFUSED) || apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("%w: %w", errNotMade, err)
	}
	a.ledger.doubt(o)
	return err
}

// settle finds out about the objects of unknown fate and deletes those that are there. The server must be well, and
// the writers at rest.
func (a author) settle(ctx context.Context) error {
	doubtful := a.ledger.takeDoubtful()
	for i, o := range doubtful {
		if err := a.settleOne(ctx, o); err != nil {
			a.ledger.putBack(doubtful[i:])
			return fmt.Errorf("settle %s %s/%s: %w", o.kind.gvr.Resource, o.namespace, o.name, err)
		}
	}
	return nil
}

func (a author) settleOne(ctx context.Context, o live) error {
	got, err := a.client.Resource(o.kind.gvr).Namespace(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	o.uid, o.app = string(got.GetUID()), got.GetLabels()["app"]
	return a.delete(ctx, o)
}

// churn is writers at work.
type churn struct {
	cancel context.CancelFunc
	group  *errgroup.Group
}

// churn starts writers on objects of all kinds; stop ends them. name is part of their objects' names.
func (a author) churn(ctx context.Context, name string, perSecond float64, seed uint64) *churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &churn{cancel: cancel, group: new(errgroup.Group)}
	limit := rate.NewLimiter(rate.Limit(perSecond), 1)
	for i := range writers {
		w := &writer{author: a, name: fmt.Sprintf("%s-%d", name, i), limit: limit, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		c.group.Go(func() error { return w.run(ctx) })
	}
	return c
}

// stop ends the writers, waits for them and returns an error that is not a failed write.
func (c *churn) stop() error {
	c.cancel()
	return c.group.Wait()
}

// writer changes objects of its own, and deletes them in the end.
type writer struct {
	author
	name    string
	limit   *rate.Limiter
	random  *rand.Rand
	objects []live
	n       int // of the next write
}

func (w *writer) run(ctx context.Context) error {
	for w.limit.Wait(ctx) == nil {
		w.step(ctx)
	}
	// The next churn has other names: what stays would pile up from one to the next. Half of it does stay, for a first
	// sync to find.
	for i, o := range w.objects {
		if i%2 == 0 {
			_ = w.delete(ctx, o) // a write like any other: one that fails is part of the torture
		}
	}
	return nil
}

var apps = []string{"web", "web", "db"}

func (w *writer) step(ctx context.Context) {
	w.n++
	r := w.random
	if len(w.objects) < 2 || len(w.objects) < enough && r.IntN(10) < 4 {
		o := live{
			kind: everyKind[r.IntN(len(everyKind))], namespace: namespaces[r.IntN(len(namespaces))],
			name: fmt.Sprintf("%s-%d", w.name, w.n), app: apps[r.IntN(len(apps))],
		}
		if w.create(ctx, &o, w.n) == nil {
			w.objects = append(w.objects, o)
		}
		return
	}
	i := r.IntN(len(w.objects))
	o := w.objects[i]
	w.objects = append(w.objects[:i], w.objects[i+1:]...)
	var err error
	switch r.IntN(10) {
	case 0, 1, 2:
		if err = w.delete(ctx, o); err == nil {
			if r.IntN(2) == 0 || w.create(ctx, &o, w.n) != nil { // the same name, another object
				return
			}
		}
	default:
		_, err = w.update(ctx, &o, apps[r.IntN(len(apps))], w.n)
	}
	if err == nil || errors.Is(err, errNotMade) {
		w.objects = append(w.objects, o)
	}
}
