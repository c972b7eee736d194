package watcher

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/event"
)

const (
	// definitionsRetry is how soon a watch of definitions that the server does
	// not allow is tried again: rights are given rarely.
	definitionsRetry = 5 * time.Minute
	// wildcardPoll is how often the server is asked what it serves for entries
	// with a wildcard, while its definitions are watched: an aggregated API has
	// none.
	wildcardPoll = time.Minute
)

var definitionsTarget = Target{Resource: schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}}

// definitions watches the definitions of custom resources while somebody waits
// for a resource to come. It is no stream: nothing of it is written, and whatever
// it misses the Manager finds by asking now and then.
type definitions struct {
	client *Client
	log    *zap.Logger
	news   chan struct{} // holds one: the server may serve other resources
	live   atomic.Bool   // a watch is open

	// Of the goroutine that watches; nil where there is none. The Manager's.
	cancel context.CancelFunc
	done   chan struct{}
}

func newDefinitions(client *Client, log *zap.Logger) *definitions {
	return &definitions{client: client, log: log, news: make(chan struct{}, 1)}
}

// set begins to watch, or stops, where that is not so yet.
func (d *definitions) set(ctx context.Context, on bool) {
	switch {
	case !on:
		d.stop()
	case d.cancel == nil:
		ctx, cancel := context.WithCancel(ctx)
		d.cancel, d.done = cancel, make(chan struct{})
		go func() {
			defer close(d.done)
			d.run(ctx)
		}()
	}
}

func (d *definitions) stop() {
	if d.cancel == nil {
		return
	}
	d.cancel()
	<-d.done
	d.cancel = nil
}

// pollPause is how often an entry with a wildcard has to ask by itself.
func (d *definitions) pollPause() time.Duration {
	if d.live.Load() {
		return wildcardPoll
	}
	return pendingMax
}

// run watches until ctx ends.
func (d *definitions) run(ctx context.Context) {
	var pauses backoff
	for {
		began := time.Now()
		err := d.session(ctx)
		d.live.Store(false)
		o := classify(ctx, err)
		healthy := time.Since(began) >= healthyAfter
		if healthy {
			pauses.reset()
		}
		pause := time.Duration(0)
		switch {
		case o.action == actionStop:
			return
		case o.action == actionWait:
			d.log.Info("definitions of custom resources cannot be watched, asking for new resources now and then",
				zap.Duration("every", pendingMax), zap.String("reason", o.reason), zap.Error(err))
			pause = definitionsRetry
		case !o.clean || !healthy:
			if errors.Is(err, errNoAnswer) {
				d.client.doubt()
			}
			pause = pauses.pause(o.after)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// session watches from the server's version of now on. What came before is news
// as well.
func (d *definitions) session(ctx context.Context) error {
	version, err := d.client.version(ctx, definitionsTarget)
	if err != nil {
		return err
	}
	client, err := d.client.metadataOnly()
	if err != nil {
		return err
	}
	timeout := watchTimeout + rand.N(watchTimeout)
	seconds := int64(timeout / time.Second)
	ctx, cancel := context.WithTimeout(ctx, timeout+watchGrace)
	defer cancel()
	options := v1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds}
	return client.watch(ctx, cancel, definitionsTarget, options, d.read)
}

// read takes note of each event of a watch.
func (d *definitions) read(r *event.FrameReader) error {
	d.live.Store(true)
	d.tell()
	for {
		frame, err := r.Next()
		if err != nil {
			return ended(err)
		}
		switch t, object, err := event.SplitWatch(frame); {
		case err != nil:
			return fmt.Errorf("%w: %w", errBadFrame, err)
		case t == event.Error:
			return statusError(object)
		case t != event.Bookmark:
			d.tell()
		}
	}
}

func (d *definitions) tell() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// The pauses before the server is asked what it serves, once a definition has
// changed: a little, since definitions come in heaps; and again, since what the
// server serves, and what it says that it serves, both come some time later.
const (
	lookFirst  = 300 * time.Millisecond
	lookSecond = time.Second
	lookThird  = 2 * time.Second
)

// Definitions that change all the time are looked at in rounds that come further
// and further apart, up to lookApart; after a quiet time of lookCalm the next round
// is at once again.
const (
	lookApart = 15 * time.Second
	lookCalm  = time.Minute
)

// looks is when the server is asked. The zero value waits for nothing.
type looks struct {
	timer *time.Timer
	first bool            // the timer runs for the first look
	left  []time.Duration // the pauses before those that follow
	began time.Time       // the round
	apart time.Duration   // from it to the next
}

// begin plans a round of looks, the first one not sooner than lookSecond after the
// look before, which was this long ago.
func (l *looks) begin(ago time.Duration) {
	if l.first {
		return
	}
	now := time.Now()
	since := now.Sub(l.began)
	if since > lookCalm {
		l.apart = 0
	}
	pause := max(lookFirst, lookSecond-ago, l.apart-since)
	l.first, l.left = true, []time.Duration{lookSecond, lookThird}
	l.began, l.apart = now.Add(pause), min(max(2*l.apart, lookSecond), lookApart)
	l.arm(pause)
}

// next plans the look after one that is due.
func (l *looks) next() {
	l.first = false
	if len(l.left) > 0 {
		l.arm(l.left[0])
		l.left = l.left[1:]
	}
}

func (l *looks) arm(pause time.Duration) {
	if l.timer == nil {
		l.timer = time.NewTimer(pause)
		return
	}
	l.timer.Reset(pause)
}

func (l *looks) due() <-chan time.Time {
	if l.timer == nil {
		return nil
	}
	return l.timer.C
}

func (l *looks) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
