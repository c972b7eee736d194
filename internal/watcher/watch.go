package watcher

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/recorder"
)

const (
	// watchTimeout is the least time that a watch is asked to last; the actual one is up to twice that, so that streams
	// do not end together (as in client-go's Reflector). listTimeout is the same for a watch that begins with a list,
	// which a slow reader must be able to finish.
	watchTimeout = 5 * time.Minute
	listTimeout  = 30 * time.Minute
	watchSilence = 3 * time.Minute              // three times the usual interval of bookmarks, see silence
	watchEnd     = 2*watchTimeout + time.Minute // when a watch is over at the latest, with time to end by itself
	tryTime      = 30 * time.Second             // for the server's verdict in canWatch
	chunkBytes   = 128 << 10                    // how much of what is at hand becomes one batch
)

// watch reads events from the position on. It always returns an error: why the watch ended.
func (s *Stream) watch(ctx context.Context) error {
	options := v1.ListOptions{ResourceVersion: s.state.ResourceVersion, AllowWatchBookmarks: true}
	w, err := s.client.Watch(ctx, s.spec.Target, options, watchTimeout+rand.N(watchTimeout))
	if err != nil {
		return s.attest(ctx, err)
	}
	defer w.Close()
	return s.follow(ctx, w)
}

// follow reads a watch from the stream's position on, until it ends or is silent for too long. What has arrived
// together becomes one batch.
func (s *Stream) follow(ctx context.Context, w *client.WatchReader) error {
	reason := ""
	if s.reason == failure.ReasonSilent || s.reason == failure.ReasonTimeout {
		reason = s.reason // the new watch may be silent too
	}
	s.setState(Watching, cmp.Or(reason, s.habit.reason))
	s.note(func(n *Status) { n.passing = reason == "" })
	s.reached()
	s.outages.Watched(s.spec.Name)
	s.pace.began()
	s.order = order{last: s.order.last[:0], this: s.order.this}
	s.order.version, _ = line.VersionNumber([]byte(s.state.ResourceVersion))
	for {
		// How long the writing takes is not the server's silence.
		asked := time.Now()
		s.waits(asked)
		e, err := w.Next(s.silence())
		s.waits(time.Time{})
		switch {
		case errors.Is(err, client.ErrSilent):
			s.bookmarks = false
		case errors.Is(err, client.ErrWatchEnded):
			s.pace.ended()
		}
		if err != nil {
			return err
		}
		received := time.Now()
		confirmed := s.pace.waited(asked, received)
		b := s.producer.Batch()
		s.version = s.version[:0]
		for e, err = range arrived(w, e) {
			before := b
			if err == nil {
				b, err = s.takeEvent(ctx, b, e, received)
			}
			if err != nil {
				break // and the watch is over, once all that came before is submitted
			}
			if b != before {
				break // a commit was waited for, and what has come meanwhile was not received then
			}
		}
		if err := s.submitWatched(ctx, b, confirmed); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if s.pace.asks(received) {
			s.ask(ctx)
		}
	}
}

// arrived yields an event and those that have arrived since, without waiting, or why there are no more.
func arrived(w *client.WatchReader, e client.Event) iter.Seq2[client.Event, error] {
	return func(yield func(client.Event, error) bool) {
		var err error
		for size := 0; yield(e, err) && err == nil; {
			if size += len(e.Object); size >= chunkBytes || !w.More() {
				return
			}
			e, err = w.Next(0)
		}
	}
}

// takeEvent adds the line of an event to the batch, and returns the batch to continue with. It sets s.version to the
// version that the event moves the position to, if it moves it.
func (s *Stream) takeEvent(
	ctx context.Context, b *recorder.Batch, e client.Event, received time.Time,
) (*recorder.Batch, error) {
	o := &s.object
	mine, err := s.decoder.Scan(e.Type, e.Object, o)
	if err != nil {
		return b, err
	}
	s.order.read(o.ResourceVersion)
	switch {
	case e.Type == line.Bookmark:
		s.bookmarks = true
	case mine:
		repeated, err := s.contradicts(e.Type, false)
		if errors.Is(err, errNotCommitted) {
			full := b
			b = s.producer.Batch()
			if err := s.submitWatched(ctx, full, false); err != nil {
				return b, err
			}
			if err := s.rec.Flush(ctx); err != nil {
				return b, err
			}
			repeated, err = s.contradicts(e.Type, true)
		}
		if err != nil || repeated {
			return b, err
		}
		s.noteEvent()
		t, err := s.encoder.Add(b, object.Line{Type: e.Type, Origin: line.FromWatch, Received: received}, o, false)
		if err != nil {
			return b, err
		}
		written := s.encoder.LastWrite()
		if written.After(received) { // clients may write any time into an object: that proves nothing
			written = time.Time{}
		}
		from, missed := s.pace.brought(received, written)
		if missed && !t.HeldBack { // else nothing is missing, as far as this event shows
			s.state.Miss(received, from)
		}
		if !written.IsZero() {
			s.state.Reach(received, written)
		}
		b.Changes.Apply(&t)
	}
	if s.order.move(o.ResourceVersion) {
		s.version = append(s.version[:0], o.ResourceVersion...)
	}
	return b, nil
}

// submitWatched submits what a watch has brought, with the position that it moves to.
func (s *Stream) submitWatched(ctx context.Context, b *recorder.Batch, confirmed bool) error {
	if len(s.version) > 0 {
		b.Changes.State = s.moved(string(s.version), confirmed)
		s.version = s.version[:0]
	}
	if b.Empty() {
		b.Release()
		return nil
	}
	return s.rec.Submit(ctx, b)
}

// silence is how long the watch may bring nothing before it is opened again, even if its connection looks alive. With
// HTTP/2, client-go's pings find a dead connection in 45 s; this is for HTTP/1.1, and for a proxy that answers pings on
// behalf of a server that is gone.
//
// Silence proves nothing where no bookmark was sent yet: some resources are served without a watch cache and so without
// bookmarks, and the server sends none before its version has moved past that of the watch's beginning. Such a watch is
// left to the end that it was given when it was opened; the one after a streamed list is given up after the same time.
// If a server stops sending bookmarks, the watch is restarted once and no longer expects any.
func (s *Stream) silence() time.Duration {
	if s.bookmarks {
		return s.spec.Silence
	}
	return watchEnd
}

// attest returns err, by which a server has refused a position, or in its place why it must not cost the position: the
// server may be another cluster's.
func (s *Stream) attest(ctx context.Context, err error) error {
	if !client.IsExpired(err) && !errors.Is(err, failure.ErrAhead) && !failure.BlamesPosition(err) {
		return err
	}
	return cmp.Or(s.client.Confirm(ctx), err)
}

// canWatch watches from the version rv for a second, drops what comes, and reports whether that ends in good order.
func (s *Stream) canWatch(ctx context.Context, rv string) bool {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	w, err := s.client.Watch(ctx, s.spec.Target, v1.ListOptions{ResourceVersion: rv}, time.Second)
	if err != nil {
		return false
	}
	defer w.Close()
	for err == nil {
		_, err = w.Next(tryTime)
	}
	return errors.Is(err, client.ErrWatchEnded)
}
