package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

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
	return s.open(ctx, options, watchTimeout, func(w watch.Interface) error { return s.follow(ctx, w) })
}

// open opens a watch, has it read, and closes it. The watch's deadline is that
// of its connection only: what came in before it is written, however long that
// takes, and so read waits with the stream's context.
func (s *Stream) open(ctx context.Context, options v1.ListOptions, least time.Duration, read func(watch.Interface) error) error {
	timeout := least + rand.N(least)
	seconds := int64(timeout / time.Second)
	options.TimeoutSeconds = &seconds
	ctx, cancel := context.WithTimeout(ctx, timeout+watchGrace)
	defer cancel()
	w, err := s.client.watch(ctx, cancel, s.spec.Target, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	return read(w)
}

// follow reads chunks of a watch that stands at the stream's position, until it
// ends or is silent for too long.
func (s *Stream) follow(ctx context.Context, w watch.Interface) error {
	s.setState(Watching, "")
	idle := time.NewTimer(s.silence())
	defer idle.Stop()
	for {
		c, err := nextChunk(ctx, w, idle.C)
		if err != nil {
			if errors.Is(err, errSilent) {
				s.bookmarks = false
			}
			return err
		}
		err = s.take(ctx, c, 0)
		c.release()
		if err != nil {
			return err
		}
		idle.Reset(s.silence()) // how long the writing took is not the server's silence
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

// nextChunk waits for a chunk of w, or for idle to fire.
func nextChunk(ctx context.Context, w watch.Interface, idle <-chan time.Time) (*chunk, error) {
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return nil, errWatchEnded
		}
		if c, ok := e.Object.(*chunk); ok {
			return c, nil
		}
		// client-go's own, where a decoder failed; ours does not.
		return nil, fmt.Errorf("%w: %v", errBadFrame, e.Object)
	case <-idle:
		return nil, errSilent
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take writes the events of a chunk from its frame first on, and moves the
// position past them. The error is why the watch is over, after all that came
// before it was submitted.
func (s *Stream) take(ctx context.Context, c *chunk, first int) error {
	b := s.lane.Batch()
	var (
		why   error
		start int
	)
	s.version = s.version[:0]
	if first > 0 {
		start = c.ends[first-1]
	}
	for _, end := range c.ends[first:] {
		frame := c.data[start:end]
		start = end
		if why = s.takeFrame(b, frame, c.received); why != nil {
			break
		}
	}
	if why == nil {
		why = c.end()
	}
	if len(s.version) > 0 {
		state := s.moved(string(s.version))
		b.Changes.State = &state
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
	if err := s.render.Scan(object, o); err != nil {
		return fmt.Errorf("%w: %w", errBadFrame, err)
	}
	switch t {
	case event.Bookmark:
		s.bookmarks = true
	case event.Added, event.Modified, event.Deleted:
		lines, err := s.render.AppendEvent(b.Lines(), t, event.FromWatch, received, o)
		if err != nil {
			return fmt.Errorf("%w: %w", errBadFrame, err)
		}
		b.AddLine(lines, t, event.FromWatch, received)
		if t == event.Deleted {
			b.Changes.Delete(o.Namespace, o.Name)
		} else {
			b.Changes.Put(o.Namespace, o.Name, o.UID, o.ResourceVersion)
		}
	default:
		return fmt.Errorf("%w: type %q", errBadFrame, t)
	}
	if len(o.ResourceVersion) > 0 {
		s.version = append(s.version[:0], o.ResourceVersion...)
	}
	return nil
}

// end says why no chunk follows this one; nil when one may.
func (c *chunk) end() error {
	if errors.Is(c.err, io.EOF) {
		return errWatchEnded
	}
	return c.err
}
