package discovery

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/format/line"
	"kubejournal/internal/kube/client"
)

const (
	// crdTimeout is the least time that a watch of CRDs is asked to last, and half of the longest.
	crdTimeout = 5 * time.Minute
	// crdRetry is how soon a watch of CRDs that the server does not allow is tried again: rights are given rarely.
	crdRetry = 5 * time.Minute
	// fastPoll is how often the server is asked what it serves for entries with a wildcard, slowPoll the same while
	// CRDs are watched: an aggregated API has none.
	fastPoll = 15 * time.Second
	slowPoll = time.Minute

	// The pauses before the server is asked what it serves, once a definition has changed: a little, since definitions
	// come in heaps; and again, since what the server serves, and what it says that it serves, both come some time
	// later.
	askFirst  = 300 * time.Millisecond
	askSecond = time.Second
	askThird  = 2 * time.Second
	// Definitions that change all the time have the server asked in rounds that come further and further apart, up to
	// askApart; after a quiet time of askCalm the next round is at once again.
	askApart = 15 * time.Second
	askCalm  = time.Minute
)

var crds = client.Target{Resource: schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}}

// CRDWatcher watches the CustomResourceDefinitions and says when to ask the server what it serves. It is no stream:
// nothing of it is written, and what it misses is found by asking now and then. Its methods are for one goroutine.
type CRDWatcher struct {
	client  *client.Client
	log     *zap.Logger
	changed chan struct{} // holds one
	live    atomic.Bool   // a watch is open

	// The plan of when to ask.
	timer *time.Timer
	first bool            // the timer runs for the first time of a round
	left  []time.Duration // the pauses before those that follow
	began time.Time       // the round
	apart time.Duration   // from it to the next

	cancel  context.CancelFunc // ends the goroutine that watches; nil where there is none
	running sync.WaitGroup     // that goroutine
}

// NewCRDWatcher returns a watcher that is off.
func NewCRDWatcher(client *client.Client, log *zap.Logger) *CRDWatcher {
	w := &CRDWatcher{client: client, log: log, changed: make(chan struct{}, 1), timer: time.NewTimer(0)}
	w.timer.Stop()
	return w
}

// Set starts to watch, until ctx ends, or stops, where that is not so yet.
func (w *CRDWatcher) Set(ctx context.Context, on bool) {
	switch running := w.cancel != nil; {
	case on && !running:
		ctx, w.cancel = context.WithCancel(ctx)
		w.running.Go(func() { w.run(ctx) })
	case !on && running:
		w.cancel()
		w.running.Wait()
		w.cancel = nil
	}
}

// Close stops to watch, and plans nothing any more.
func (w *CRDWatcher) Close() {
	w.Set(context.Background(), false)
	w.timer.Stop()
}

// Changed receives when a CRD has changed, or may have. Plan is to be called then.
func (w *CRDWatcher) Changed() <-chan struct{} { return w.changed }

// Plan plans a round of asking the server what it serves, which was asked last this long ago.
func (w *CRDWatcher) Plan(ago time.Duration) {
	if w.first {
		return
	}
	now := time.Now()
	since := now.Sub(w.began)
	if since > askCalm {
		w.apart = 0
	}
	pause := max(askFirst, askSecond-ago, w.apart-since)
	w.first, w.left = true, []time.Duration{askSecond, askThird}
	w.began, w.apart = now.Add(pause), min(max(2*w.apart, askSecond), askApart)
	w.timer.Reset(pause)
}

// Due receives when the server is to be asked what it serves. Asked is to be called then.
func (w *CRDWatcher) Due() <-chan time.Time { return w.timer.C }

// Asked plans the next time of the round.
func (w *CRDWatcher) Asked() {
	w.first = false
	if len(w.left) > 0 {
		w.timer.Reset(w.left[0])
		w.left = w.left[1:]
	}
}

// PollInterval is how often an entry with a wildcard has to ask by itself.
func (w *CRDWatcher) PollInterval() time.Duration {
	if w.live.Load() {
		return slowPoll
	}
	return fastPoll
}

// run watches until ctx ends.
func (w *CRDWatcher) run(ctx context.Context) {
	var pauses client.Backoff
	for {
		began := time.Now()
		err := w.session(ctx)
		healthy := time.Since(began) >= client.HealthyAfter
		if healthy {
			pauses.Reset()
		}
		var pause time.Duration
		switch {
		case ctx.Err() != nil:
			return
		case client.IsWaiting(err):
			w.log.Info("definitions of custom resources cannot be watched, asking for new resources now and then",
				zap.Duration("every", fastPoll), zap.String("reason", string(apierrors.ReasonForError(err))),
				zap.Error(err))
			pause = crdRetry
		case !errors.Is(err, client.ErrWatchEnded) || !healthy:
			if errors.Is(err, client.ErrNoAnswer) {
				w.client.CloseIdleConnections()
			}
			pause = pauses.Pause(client.RetryAfter(err))
		}
		if !client.Sleep(ctx, pause) {
			return
		}
	}
}

// session watches from the server's version of now on, until that ends. What came before counts as a change.
func (w *CRDWatcher) session(ctx context.Context) error {
	version, err := w.client.Version(ctx, crds)
	if err != nil {
		return err
	}
	options := v1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}
	r, err := w.client.MetadataOnly().Watch(ctx, crds, options, crdTimeout+rand.N(crdTimeout))
	if err != nil {
		return err
	}
	defer r.Close()
	w.live.Store(true)
	defer w.live.Store(false)
	for e := (client.Event{}); err == nil; e, err = r.Next(3 * crdTimeout) { // longer than the watch lasts
		if e.Type == line.Bookmark {
			continue
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	return err
}
