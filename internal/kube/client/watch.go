package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"kubejournal/internal/format/line"
)

// watchGrace is how long after its time a watch may end by itself before it is cut: the connection is then dead, or the
// server has no timeouts.
const watchGrace = time.Minute

// Event is one event of a watch. Its type is never line.Error: that is an error.
type Event struct {
	Type   line.Type
	Object []byte // as the server sent it
}

// WatchReader reads a watch event by event. Not for concurrent use.
type WatchReader struct {
	frames *frameReader
	body   io.Closer
	cut    context.CancelFunc // ends the watch
	late   *time.Timer        // calls cut; nil before the first wait
	silent bool               // late has called cut
}

// Watch opens a watch that the server is asked to end after timeout, in whole seconds, and that is cut a while later.
// When it returns, the server has begun to answer and the cluster behind it is the expected one. The watch ends with
// ctx, and must be closed.
func (c *Client) Watch(ctx context.Context, t Target, o v1.ListOptions, timeout time.Duration) (*WatchReader, error) {
	o.TimeoutSeconds = new(int64(timeout / time.Second))
	t.selectIn(&o)
	ctx, cancel := context.WithTimeout(ctx, timeout+watchGrace)
	body, err := send(ctx, cancel, c.watches, func(ctx context.Context) (io.ReadCloser, error) {
		return c.watch(ctx, t, o)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	w := &WatchReader{frames: newFrameReader(body, c.MaxObject), body: body, cut: cancel}
	if err := c.Confirm(ctx); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// watch returns the body of the answer. The dynamic client reads a watch on a goroutine of its own and hands decoded
// events through a channel. Here bodyTaker keeps the body from it, so that it ends at once and the caller reads.
func (c *Client) watch(ctx context.Context, t Target, o v1.ListOptions) (io.ReadCloser, error) {
	var body io.ReadCloser
	ctx = context.WithValue(ctx, taken{}, &body)
	w, err := dynamic.New(c.rest).Resource(t.Resource).Namespace(t.Namespace).Watch(ctx, o)
	if err != nil {
		if body != nil {
			_ = body.Close() // nobody has read it
		}
		return nil, err
	}
	for range w.ResultChan() {
		continue // client-go's own stream is empty
	}
	if body == nil { // client-go returns an empty watch where the connection ends before there is an answer
		return nil, fmt.Errorf("connection lost before the watch was answered: %w", io.ErrUnexpectedEOF)
	}
	return body, nil
}

// taken is the key by which a request's context has a place for the body of its answer.
type taken struct{}

// bodyTaker puts bodies there. client-go gets an empty one.
type bodyTaker struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bodyTaker) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if body, ok := r.Context().Value(taken{}).(*io.ReadCloser); ok && err == nil &&
		response.StatusCode == http.StatusOK {
		*body, response.Body = response.Body, http.NoBody
	}
	return response, err
}

// WrappedRoundTripper is for client-go.
func (b bodyTaker) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

// Next waits for an event, but no longer than patience: then the watch is cut, and the error is ErrSilent. It is
// ErrWatchEnded where the server has ended the watch, an API error where it has sent one, and wraps ErrBadFrame where
// what came is no event. The event is valid until the next call.
func (w *WatchReader) Next(patience time.Duration) (Event, error) {
	frame, err := w.wait(patience)
	switch {
	case err != nil && w.silent:
		return Event{}, ErrSilent
	case errors.Is(err, io.EOF):
		return Event{}, ErrWatchEnded
	case err != nil:
		return Event{}, err
	}
	t, object, err := splitWatch(frame)
	switch {
	case err != nil:
		return Event{}, fmt.Errorf("%w: %w", ErrBadFrame, err)
	case t == line.Error:
		return Event{}, statusError(object)
	}
	return Event{t, object}, nil
}

// wait returns the next frame. It needs no timer for one that is at hand.
func (w *WatchReader) wait(patience time.Duration) ([]byte, error) {
	if w.More() {
		return w.frames.Next()
	}
	if w.late == nil {
		w.late = time.AfterFunc(patience, w.cut)
	} else {
		w.late.Reset(patience)
	}
	frame, err := w.frames.Next()
	if !w.late.Stop() {
		w.silent = true
	}
	return frame, err
}

// More reports whether Next returns an event without waiting. It leaves the event of the last Next as it is.
func (w *WatchReader) More() bool { return w.frames.Buffered() }

// Close ends the watch.
func (w *WatchReader) Close() {
	if w.late != nil {
		w.late.Stop()
	}
	w.cut()
	_ = w.body.Close() // it was only read from
}

// statusError returns the error that the object of an ERROR event describes.
func statusError(object []byte) error {
	var status v1.Status
	if err := runtime.DecodeInto(statuses, object, &status); err != nil || status.Status != v1.StatusFailure {
		return fmt.Errorf("%w: ERROR event without a status (%d bytes)", ErrBadFrame, len(object))
	}
	return apierrors.FromObject(&status)
}
