package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/event"
	"kubejournal/internal/recorder"
)

const (
	// watchTimeout is the least time that a watch is asked to last; the actual
	// one is up to twice that, so that streams do not end together (as in
	// client-go's Reflector).
	watchTimeout = 5 * time.Minute
	// listTimeout is the same for a watch that begins with a list, which a
	// slow reader must be able to finish.
	listTimeout = 30 * time.Minute
	// watchGrace is how long after its time a watch may end by itself before
	// it is cut: the connection is then dead, or the server has no timeouts.
	watchGrace = time.Minute
	// watchSilence is how long a watch may bring nothing where the server sends
	// bookmarks, which it does about once a minute.
	watchSilence = 3 * time.Minute
)

// watch reads events from the position on. It always returns an error: why the
// watch ended.
func (s *Stream) watch(ctx context.Context) error {
	options := v1.ListOptions{ResourceVersion: s.state.ResourceVersion, AllowWatchBookmarks: true}
	return s.open(ctx, options, watchTimeout, func(f *frames) error { return s.follow(ctx, f) })
}

// tryWatch watches from the version rv for a second, and drops what comes. It
// returns nil where that ends in good order.
func (s *Stream) tryWatch(ctx context.Context, rv string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	second := int64(1)
	options := v1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &second}
	err := s.client.watch(ctx, cancel, s.spec.Target, options, func(r *event.FrameReader) error {
		for f := (frames{r: r, cut: cancel}); ; {
			frame, err := f.next(answerTimeout)
			if err != nil {
				return err
			}
			t, object, err := event.SplitWatch(frame)
			switch {
			case err != nil:
				return fmt.Errorf("%w: %w", errBadFrame, err)
			case t == event.Error:
				return statusError(object)
			}
		}
	})
	if errors.Is(err, errWatchEnded) {
		return nil
	}
	return err
}

// open opens a watch, has it read, and closes it. The watch's deadline is that
// of its connection only: what came in before it is written, however long that
// takes, and so read waits with the stream's context.
func (s *Stream) open(ctx context.Context, options v1.ListOptions, least time.Duration, read func(*frames) error) error {
	timeout := least + rand.N(least)
	seconds := int64(timeout / time.Second)
	options.TimeoutSeconds = &seconds
	ctx, cancel := context.WithTimeout(ctx, timeout+watchGrace)
	defer cancel()
	return s.client.watch(ctx, cancel, s.spec.Target, options, func(r *event.FrameReader) error {
		return read(&frames{r: r, cut: cancel})
	})
}

// frames is a watch as it is read.
type frames struct {
	r    *event.FrameReader
	cut  context.CancelFunc // ends the watch
	late *time.Timer        // calls cut
	was  bool               // it has
}

// next waits for a frame, but no longer than patience: then the watch is cut,
// and the error is errSilent. It is errWatchEnded where the server has ended
// the watch. The frame is valid until the next one.
func (f *frames) next(patience time.Duration) ([]byte, error) {
	if f.late == nil {
		f.late = time.AfterFunc(patience, f.cut)
	} else {
		f.late.Reset(patience)
	}
	frame, err := f.r.Next()
	if !f.late.Stop() {
		f.was = true
	}
	if err != nil && f.was {
		return nil, errSilent
	}
	return frame, ended(err)
}

// more returns a frame that is at hand, if there is one.
func (f *frames) more() (frame []byte, ok bool, err error) {
	if !f.r.Buffered() {
		return nil, false, nil
	}
	frame, err = f.r.Next()
	return frame, true, ended(err)
}

// ended tells the end of a watch in good order from others.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return errWatchEnded
	}
	return err
}

// follow reads a watch that stands at the stream's position, until it ends or
// is silent for too long.
func (s *Stream) follow(ctx context.Context, f *frames) error {
	reason := ""
	if s.reason == reasonSilent || s.reason == reasonTimeout {
		reason = s.reason // it may go on like this
	}
	s.setState(Watching, reason)
	for {
		// How long the writing takes is not the server's silence.
		frame, err := f.next(s.silence())
		if err != nil {
			if errors.Is(err, errSilent) {
				s.bookmarks = false
			}
			return err
		}
		if err := s.take(ctx, f, frame, time.Now()); err != nil {
			return err
		}
	}
}

// silence is how long the watch may bring nothing before it counts as dead: not
// much longer than the time between two bookmarks where the server sends them,
// else the longest time that an ordinary watch lasts. See the package's
// documentation.
func (s *Stream) silence() time.Duration {
	if s.bookmarks {
		return s.spec.Silence
	}
	return 2*watchTimeout + watchGrace
}

// chunkBytes is how much of what is at hand is taken together, in bytes.
const chunkBytes = 128 << 10

// take writes the events of a frame and of those that are at hand behind it,
// and moves the position past them. The error is why the watch is over, after
// all that came before it was submitted.
func (s *Stream) take(ctx context.Context, f *frames, frame []byte, received time.Time) error {
	b := s.lane.Batch()
	s.version = s.version[:0]
	size := len(frame)
	why := s.takeFrame(b, frame, received)
	for why == nil && size < chunkBytes {
		next, ok, err := f.more()
		if !ok {
			break
		}
		if why = err; why == nil {
			size += len(next)
			why = s.takeFrame(b, next, received)
		}
	}
	if len(s.version) > 0 {
		b.Changes.State = s.moved(string(s.version))
	}
	if b.Empty() {
		b.Release()
		return why
	}
	if err := s.rec.Submit(ctx, b); err != nil {
		return err
	}
	return why
}

// takeFrame turns one frame into a line. s.version becomes the version that it
// moves the position to.
func (s *Stream) takeFrame(b *recorder.Batch, frame []byte, received time.Time) error {
	t, object, err := event.SplitWatch(frame)
	if err != nil {
		return fmt.Errorf("%w: %w", errBadFrame, err)
	}
	if t == event.Error {
		return statusError(object)
	}
	o := &s.object
	if err := s.scan(object); err != nil {
		return err
	}
	switch t {
	case event.Bookmark:
		s.bookmarks = true
		if event.Later(s.state.ResourceVersion, string(o.ResourceVersion)) {
			return nil // a position does not go back
		}
	case event.Added, event.Modified, event.Deleted:
		if err := identifies(o); err != nil {
			return err
		}
		line, err := s.encoder.add(b, event.Line{Type: t, Origin: event.FromWatch, Received: received}, o)
		if err != nil {
			return err
		}
		b.Changes.Apply(&line)
	default:
		return fmt.Errorf("%w: type %q", errBadFrame, t)
	}
	if isPosition(o.ResourceVersion) {
		s.version = append(s.version[:0], o.ResourceVersion...)
	}
	return nil
}
