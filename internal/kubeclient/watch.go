package kubeclient

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"kubejournal/internal/event"
)

// watchGrace is how long after its time a watch may end by itself before it is
// cut: the connection is then dead, or the server has no timeouts.
const watchGrace = time.Minute

// Event is one event of a watch. Its type is never event.Error: that is an error.
type Event struct {
	Type   event.Type
	Object []byte // as the server sent it
}

// WatchReader reads a watch event by event. Not for concurrent use.
type WatchReader struct {
	frames *frameReader
	body   io.Closer
	cut    context.CancelFunc // ends the watch
	late   *time.Timer        // calls cut; nil before the first wait
	silent bool               // it has
}

// Watch opens a watch that the server is asked to end after timeout, in whole
// seconds, and that is cut a while later. When it returns, the server has begun
// to answer and the cluster behind it is the expected one. The watch ends with
// ctx, and must be closed.
func (c *Client) Watch(ctx context.Context, t Target, o v1.ListOptions, timeout time.Duration) (*WatchReader, error) {
	seconds := int64(timeout / time.Second)
	o.TimeoutSeconds = &seconds
	o.LabelSelector, o.FieldSelector = t.LabelSelector, t.FieldSelector
	ctx, cancel := context.WithTimeout(ctx, timeout+watchGrace)
	body, err := c.watch(ctx, cancel, t, o)
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

// watch returns the body of the answer.
func (c *Client) watch(ctx context.Context, cancel context.CancelFunc, t Target, o v1.ListOptions) (io.ReadCloser, error) {
	if err := c.watches.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for a watch's turn: %w", err)
	}
	taken := &bodyTaker{}
	client, err := c.with(rawSerializer{taken})
	if err != nil {
		return nil, err
	}
	w, err := answered(ctx, cancel, func(ctx context.Context) (watch.Interface, error) {
		return dynamic.New(client).Resource(t.Resource).Namespace(t.Namespace).Watch(ctx, o)
	})
	if err != nil {
		return nil, err
	}
	for range w.ResultChan() {
		continue // client-go has nothing to read; its goroutine ends
	}
	if taken.body == nil {
		// The connection ended before there was an answer: client-go then
		// returns a watch that has nothing in it.
		return nil, fmt.Errorf("connection lost before the watch was answered: %w", io.ErrUnexpectedEOF)
	}
	return taken.body, nil
}

// Next waits for an event, but no longer than patience: then the watch is cut,
// and the error is ErrSilent. It is ErrWatchEnded where the server has ended the
// watch, an API error where it has sent one, and wraps ErrBadFrame where what
// came is no event. The event is valid until the next call.
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
	case t == event.Error:
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

// More reports whether Next returns an event without waiting. It leaves the
// event of the last Next as it is.
func (w *WatchReader) More() bool { return w.frames.Buffered() }

// Close ends the watch.
func (w *WatchReader) Close() {
	if w.late != nil {
		w.late.Stop()
	}
	w.cut()
	_ = w.body.Close() // it was only read from
}

// statusError turns the object of an ERROR event into the error that it stands
// for.
func statusError(object []byte) error {
	var status v1.Status
	if err := runtime.DecodeInto(statusDecoder, object, &status); err != nil || status.Status != v1.StatusFailure {
		return fmt.Errorf("%w: ERROR event without a status (%d bytes)", ErrBadFrame, len(object))
	}
	return apierrors.FromObject(&status)
}

// rawSerializer is the runtime.NegotiatedSerializer of the dynamic client. It
// decodes nothing but the Status of a refusal.
//
// client-go reads a watch on a goroutine of its own and hands decoded events
// through a channel. Here it is given an empty body, ends at once, and leaves the
// real one to the caller, who reads it on its own goroutine. There is one
// serializer for each watch.
type rawSerializer struct {
	taker *bodyTaker // nil where no watch is asked for
}

var statusDecoder = func() runtime.Serializer {
	scheme := runtime.NewScheme()
	v1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
}()

// SupportedMediaTypes returns JSON.
func (s rawSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType:        "application/json",
		MediaTypeType:    "application",
		MediaTypeSubType: "json",
		EncodesAsText:    true,
		Serializer:       statusDecoder,
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    statusDecoder,
			Framer:        s.taker,
		},
	}}
}

// EncoderForVersion is never used: kubejournal sends no objects.
func (rawSerializer) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

// DecoderToVersion returns d: there are no versions to convert between.
func (rawSerializer) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// bodyTaker is the runtime.Framer of one watch. client-go calls NewFrameReader
// with the answer's body before its Watch returns.
type bodyTaker struct {
	body io.ReadCloser // the caller's to close
}

// NewFrameReader takes the body and gives client-go an empty one.
func (t *bodyTaker) NewFrameReader(body io.ReadCloser) io.ReadCloser {
	t.body = body
	return http.NoBody
}

// NewFrameWriter is never used.
func (*bodyTaker) NewFrameWriter(io.Writer) io.Writer { return io.Discard }
