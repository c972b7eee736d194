package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Object is one that the workload has made, or is to make.
type Object struct {
	Kind            Kind
	Namespace, Name string
	App             string // its label
	UID             string
}

// Author makes writes and notes those that were acknowledged, and the objects of those that nobody answered.
type Author struct {
	Client dynamic.Interface
	Ledger *Ledger
}

// request bounds one write, which a stop of its writer does not break off: that would make its fate unknown.
func request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

func (a Author) in(o Object) dynamic.ResourceInterface {
	return a.Client.Resource(o.Kind.Resource).Namespace(o.Namespace)
}

// Create makes an object with the content of n, and notes its uid in o.
func (a Author) Create(ctx context.Context, o *Object, n int) error {
	ctx, cancel := request(ctx)
	defer cancel()
	made, err := a.in(*o).Create(ctx, o.Kind.object(*o, n), metav1.CreateOptions{})
	if err != nil {
		return a.failed(err, *o)
	}
	o.UID = string(made.GetUID())
	a.Ledger.Acknowledge(*o, "", o.App, made.GetResourceVersion())
	return nil
}

// Update gives an object the content of n and another label.
func (a Author) Update(ctx context.Context, o *Object, app string, n int) error {
	ctx, cancel := request(ctx)
	defer cancel()
	patch, err := o.Kind.patch(o.Namespace, app, n)
	if err != nil {
		return err
	}
	made, err := a.in(*o).Patch(ctx, o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return a.failed(err, *o)
	}
	a.Ledger.Acknowledge(*o, o.App, app, made.GetResourceVersion())
	o.App = app
	return nil
}

// Delete deletes an object.
func (a Author) Delete(ctx context.Context, o Object) error {
	ctx, cancel := request(ctx)
	defer cancel()
	if err := a.in(o).Delete(ctx, o.Name, metav1.DeleteOptions{}); err != nil {
		return a.failed(err, o)
	}
	a.Ledger.Acknowledge(o, o.App, "", "")
	return nil
}

// errNotMade is a write that surely was not made.
var errNotMade = errors.New("not made")

// failed tells writes that never reached the server from those of unknown fate.
func (a Author) failed(err error, o Object) error {
	if errors.Is(err, syscall.ECONNREFUSED) || apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("%w: %w", errNotMade, err)
	}
	a.Ledger.doubt(o)
	return err
}

// Settle finds out about the objects of unknown fate and deletes those that are there. The server must be well, and the
// writers at rest.
func (a Author) Settle(ctx context.Context) error {
	doubtful := a.Ledger.takeDoubtful()
	for i, o := range doubtful {
		if err := a.settle(ctx, o); err != nil {
			a.Ledger.putBack(doubtful[i:])
			return fmt.Errorf("settle %s %s/%s: %w", o.Kind.Resource.Resource, o.Namespace, o.Name, err)
		}
	}
	return nil
}

func (a Author) settle(ctx context.Context, o Object) error {
	got, err := a.in(o).Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	o.UID, o.App = string(got.GetUID()), got.GetLabels()["app"]
	return a.Delete(ctx, o)
}

// Churn is what writers do.
type Churn struct {
	Kinds      []Kind
	Namespaces []string
	Name       string  // begins the names of the objects, and is no other churn's
	Rate       float64 // writes per second, of all writers
	Seed       uint64  // of what each writer does
	// Clear makes the writers delete every other object in the end, so that what stays of many churns does not pile up.
	Clear bool
}

// Writers are at work until they are stopped.
type Writers struct {
	cancel context.CancelFunc
	group  errgroup.Group
}

// Churn starts writers on objects of their own.
func (a Author) Churn(ctx context.Context, c Churn) *Writers {
	ctx, cancel := context.WithCancel(ctx)
	all := &Writers{cancel: cancel}
	limit := rate.NewLimiter(rate.Limit(c.Rate), 1)
	for i := range writers {
		w := &writer{Author: a, Churn: c, random: rand.New(rand.NewPCG(c.Seed, uint64(i)))}
		w.Name = fmt.Sprintf("%s-%d", c.Name, i)
		all.group.Go(func() error {
			w.run(ctx, limit)
			return nil
		})
	}
	return all
}

// Stop ends the writers and waits for them.
func (w *Writers) Stop() {
	w.cancel()
	_ = w.group.Wait() // writers return no error: a write that fails is part of many a test
}

// writer changes objects of its own.
type writer struct {
	Author
	Churn
	random  *rand.Rand
	objects []Object
	n       int // of the next write
}

func (w *writer) run(ctx context.Context, limit *rate.Limiter) {
	for limit.Wait(ctx) == nil {
		w.step(ctx)
	}
	for i, o := range w.objects {
		if w.Clear && i%2 == 0 {
			_ = w.Delete(ctx, o) // a write like any other
		}
	}
}

var apps = []string{"web", "web", "db"}

func (w *writer) step(ctx context.Context) {
	w.n++
	r := w.random
	if len(w.objects) < 2 || len(w.objects) < enough && r.IntN(10) < 4 {
		o := Object{
			Kind: w.Kinds[r.IntN(len(w.Kinds))], Namespace: w.Namespaces[r.IntN(len(w.Namespaces))],
			Name: fmt.Sprintf("%s-%d", w.Name, w.n), App: apps[r.IntN(len(apps))],
		}
		if w.Create(ctx, &o, w.n) == nil {
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
		if err = w.Delete(ctx, o); err == nil {
			if r.IntN(2) == 0 || w.Create(ctx, &o, w.n) != nil { // the same name, another object
				return
			}
		}
	default:
		err = w.Update(ctx, &o, apps[r.IntN(len(apps))], w.n)
	}
	// Of one whose fate is unknown nobody makes another write, until it is settled.
	if err == nil || errors.Is(err, errNotMade) {
		w.objects = append(w.objects, o)
	}
}
