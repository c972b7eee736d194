package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/recorder"
)

const (
	// watchTimeout is the least time that a watch is asked to last; the actual one is up to twice that, so that streams do
	// not end together (as in client-go's Reflector).
	watchTimeout = 5 * time.Minute
	// listTimeout is the same for a watch that begins with a list, which a slow reader must be able to finish.
	listTimeout = 30 * time.Minute
	// watchSilence is how long a watch may bring nothing where the server sends bookmarks: three times their interval.
	watchSilence = 3 * time.Minute
	// watchEnd is when a watch is over at the latest: its longest time, and what it is given to end by itself.
	watchEnd = 2*watchTimeout + time.Minute
	// tryTime is how long tryWatch waits for the server's verdict.
	tryTime = 30 * time.Second
)

// watch reads events from the position on. It always returns an error: why the watch ended.
func (s *Stream) watch(ctx context.Context) error {
	w, err := s.open(ctx, v1.ListOptions{ResourceVersion: s.state.ResourceVersion, AllowWatchBookmarks: true}, watchTimeout)
	if err != nil {
		return s.attest(ctx, err)
	}
	defer w.Close()
	return s.follow(ctx, w)
}

// open opens a watch that lasts between once and twice this time. What came in before it ends is written, however long
// that takes: with ctx, which the watch does not end.
func (s *Stream) open(ctx context.Context, o v1.ListOptions, least time.Duration) (*kubeclient.WatchReader, error) {
	return s.client.Watch(ctx, s.spec.Target, o, least+rand.N(least))
}

// follow reads a watch from the stream's position on, until it ends or is silent for too long. What has arrived together
// becomes one batch.
func (s *Stream) follow(ctx context.Context, w *kubeclient.WatchReader) error {
	reason := ""
	if s.reason == reasonSilent || s.reason == reasonTimeout {
		reason = s.reason // it may go on like this
	}
	s.setState(Watching, reason)
	for {
		// How long the writing takes is not the server's silence.
		e, err := w.Next(s.silence())
		if err != nil {
			if errors.Is(err, kubeclient.ErrSilent) {
				s.bookmarks = false
			}
			return err
		}
		received := time.Now()
		b := s.producer.Batch()
		s.version = s.version[:0]
		for e, err = range atHand(w, e) {
			if err == nil {
				err = s.takeEvent(b, e, received)
			}
			if err != nil {
				break // and the watch is over, once all that came before is submitted
			}
		}
		if len(s.version) > 0 {
			b.Changes.State = s.moved(string(s.version))
		}
		if b.Empty() {
			b.Release()
		} else if err := s.rec.Submit(ctx, b); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
}

// chunkBytes is how much of what is at hand is taken together, in bytes.
const chunkBytes = 128 << 10

// atHand yields an event and those that have arrived behind it, or why there are no more.
func atHand(w *kubeclient.WatchReader, e kubeclient.Event) iter.Seq2[kubeclient.Event, error] {
	return func(yield func(kubeclient.Event, error) bool) {
		var err error
		for size := 0; yield(e, err) && err == nil; {
			if size += len(e.Object); size >= chunkBytes || !w.More() {
				return
			}
			e, err = w.Next(0)
		}
	}
}

// takeEvent adds the line of an event to the batch. s.version becomes the version that it moves the position to.
func (s *Stream) takeEvent(b *recorder.Batch, e kubeclient.Event, received time.Time) error {
	o := &s.object
	if err := s.scan(e.Object); err != nil {
		return err
	}
	switch e.Type {
	case event.Bookmark:
		s.bookmarks = true
		if event.Later(s.state.ResourceVersion, string(o.ResourceVersion)) {
			return nil // a position does not go back
		}
	case event.Added, event.Modified, event.Deleted:
		if err := checkIdentity(o); err != nil {
			return err
		}
		t, err := s.encoder.add(b, event.Line{Type: e.Type, Origin: event.FromWatch, Received: received}, o)
		if err != nil {
			return err
		}
		b.Changes.Apply(&t)
	default:
		return fmt.Errorf("%w: type %q", kubeclient.ErrBadFrame, e.Type)
	}
	if kubeclient.IsPosition(o.ResourceVersion) {
		s.version = append(s.version[:0], o.ResourceVersion...)
	}
	return nil
}

// silence is how long the watch may bring nothing before it counts as dead, even if its connection looks alive, and is
// opened again at the position.
//
// The server sends a bookmark about once a minute to a watch that asks for them. But silence proves nothing where none was
// sent yet: some resources are served without a watch cache and so without bookmarks, and the server sends none before its
// version has moved past that of the watch's beginning. Such a watch is left to the end that it was given when it was
// opened; the one behind a streamed list is given up after the same time. A restart for silence takes the knowledge of
// bookmarks back, until one comes, so that a server that has stopped to send them costs one restart and not one every
// three minutes.
//
// With HTTP/2, client-go's pings find a dead connection in 45 s, for all the watches on it together. This is for HTTP/1.1,
// and for a proxy that answers pings on behalf of a server that is gone.
func (s *Stream) silence() time.Duration {
	if s.bookmarks {
		return s.spec.Silence
	}
	return watchEnd
}

// attest returns err, by which a server has refused a position, or in its place why it must not cost the position: the
// server may be another cluster's.
func (s *Stream) attest(ctx context.Context, err error) error {
	if !isExpired(err) && !errors.Is(err, errAhead) && !blamesPosition(err) {
		return err
	}
	return cmp.Or(s.client.Confirm(ctx), err)
}

// tryWatch watches from the version rv for a second, and drops what comes. It returns nil where that ends in good order.
func (s *Stream) tryWatch(ctx context.Context, rv string) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	w, err := s.client.Watch(ctx, s.spec.Target, v1.ListOptions{ResourceVersion: rv}, time.Second)
	if err != nil {
		return err
	}
	defer w.Close()
	for err == nil {
		_, err = w.Next(tryTime)
	}
	if errors.Is(err, kubeclient.ErrWatchEnded) {
		return nil
	}
	return err
}
