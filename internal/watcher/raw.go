package watcher

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"kubejournal/internal/event"
)

const (
	// maxObject bounds one object of a watch or list, in bytes. etcd takes 1.5
	// MiB by default, aggregated servers may have more.
	maxObject = 64 << 20
	// chunkBytes is how much a chunk takes of what is there already, before it
	// is handed on.
	chunkBytes = 64 << 10
	// maxPooledChunk is the size in bytes up to which a chunk is used again.
	maxPooledChunk = 1 << 20
)

// The decoder that client-go is given for watches does not decode. A watch
// hands its events on one by one through a channel, each as an object; ours
// hands on chunks: all the frames that have come in, as the bytes they came
// in. Three parts play together, one set per watch, since the negotiator asks
// for the supported media types anew each time:
//
//   - the framer's Read reads frames into the set's chunk and gives client-go
//     nothing to look at;
//   - the stream serializer answers with a watch event that carries nothing;
//   - the object decoder answers with the chunk.
//
// An error of the connection comes in a chunk as well, since client-go keeps
// most of them from its caller.

// chunk is what one read of a watch brought: whole frames, in order. It is
// handed through client-go as a runtime.Object.
type chunk struct {
	data     []byte
	ends     []int     // where each frame ends in data
	received time.Time // when the first of them was complete
	err      error     // why there will be no more; io.EOF when the server ended the watch
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// release gives a chunk's memory back. Nothing may point into it any more.
func (c *chunk) release() {
	if cap(c.data) > maxPooledChunk {
		return
	}
	c.data, c.ends, c.err = c.data[:0], c.ends[:0], nil
	chunks.Put(c)
}

// GetObjectKind makes a chunk a runtime.Object.
func (c *chunk) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject makes a chunk a runtime.Object. Nobody copies one.
func (c *chunk) DeepCopyObject() runtime.Object {
	return &chunk{data: append([]byte(nil), c.data...), ends: append([]int(nil), c.ends...), received: c.received, err: c.err}
}

// rawSerializer is the runtime.NegotiatedSerializer of the dynamic client.
type rawSerializer struct{}

var statusDecoder = func() runtime.Serializer {
	scheme := runtime.NewScheme()
	v1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
}()

// SupportedMediaTypes returns JSON, with a new set of stream decoders.
func (rawSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	w := new(rawWatch)
	return []runtime.SerializerInfo{{
		MediaType:        "application/json",
		MediaTypeType:    "application",
		MediaTypeSubType: "json",
		EncodesAsText:    true,
		Serializer:       rawObjects{statusDecoder, w},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    rawEvents{statusDecoder},
			Framer:        w,
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

// rawWatch reads one watch. It is used by the one goroutine that client-go
// starts per watch; only Close is called from another one.
type rawWatch struct {
	body   io.Closer
	frames *event.FrameReader
	next   *chunk
	ended  error
}

// NewFrameReader implements runtime.Framer for the one body of this watch.
func (w *rawWatch) NewFrameReader(body io.ReadCloser) io.ReadCloser {
	w.body, w.frames = body, event.NewFrameReader(body, maxObject)
	return w
}

// NewFrameWriter implements runtime.Framer. kubejournal writes no frames.
func (w *rawWatch) NewFrameWriter(io.Writer) io.Writer { return io.Discard }

// Read waits for a frame and takes all that have come in with it. It puts
// nothing into p.
func (w *rawWatch) Read([]byte) (int, error) {
	if w.ended != nil {
		return 0, io.EOF
	}
	c := chunks.Get().(*chunk)
	for len(c.ends) == 0 || len(c.data) < chunkBytes && w.frames.Buffered() {
		frame, err := w.frames.Next()
		if err != nil {
			w.ended, c.err = err, err
			break
		}
		if len(c.ends) == 0 {
			c.received = time.Now()
		}
		c.data = append(c.data, frame...)
		c.ends = append(c.ends, len(c.data))
	}
	w.next = c
	return 0, nil
}

// Close ends the watch.
func (w *rawWatch) Close() error { return w.body.Close() }

// rawEvents answers for the envelope of a watch event: its kind and object are
// inside the chunk.
type rawEvents struct{ runtime.Encoder }

func (rawEvents) Identifier() runtime.Identifier { return "kubejournal-events" }

func (rawEvents) Decode(_ []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	e, ok := into.(*v1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("decode watch event into %T", into)
	}
	e.Type = string(event.Added) // client-go insists on one that it knows
	return e, nil, nil
}

// rawObjects answers with the chunk where client-go decodes a watch event's
// object, and decodes Status objects where it looks at an error response.
type rawObjects struct {
	runtime.Serializer
	watch *rawWatch
}

var errNoChunk = errors.New("decode watch: no frame was read")

func (o rawObjects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if o.watch.frames == nil {
		return o.Serializer.Decode(data, defaults, into)
	}
	c := o.watch.next
	if c == nil {
		return nil, nil, errNoChunk
	}
	o.watch.next = nil
	return c, nil, nil
}
