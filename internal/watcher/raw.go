package watcher

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"kubejournal/internal/event"
)

// rawSerializer is the runtime.NegotiatedSerializer of the dynamic client. It
// decodes nothing but the Status of a refusal.
//
// A watch of client-go reads events with a decoder on a goroutine of its own
// and hands them on one by one through a channel. Ours has one serializer per
// watch, which has the whole watch read inside the first Read of its framer:
// the bytes go from the connection to their lines on that goroutine, and the
// channel brings nothing but its own end.
type rawSerializer struct {
	watch *rawWatch // nil where no watch is asked for
}

// rawWatch is one watch. read is called on client-go's goroutine, err is what
// it returned, to be looked at when the watch's channel is closed.
type rawWatch struct {
	read      func(*event.FrameReader) error
	maxObject int
	err       error

	body   io.ReadCloser
	frames *event.FrameReader // nil until there is an answer, and once it has been read
}

// errNoWatch is what became of a watch whose connection ended before there was an
// answer: client-go then gives out one that has nothing in it.
var errNoWatch = fmt.Errorf("connection lost before the watch was answered: %w", io.ErrUnexpectedEOF)

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
			Framer:        s.watch,
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

// NewFrameReader implements runtime.Framer for the one body of this watch.
func (w *rawWatch) NewFrameReader(body io.ReadCloser) io.ReadCloser {
	w.body, w.frames = body, event.NewFrameReader(body, w.maxObject)
	return w
}

// NewFrameWriter implements runtime.Framer. kubejournal writes no frames.
func (*rawWatch) NewFrameWriter(io.Writer) io.Writer { return io.Discard }

// Read reads the whole watch, and then says that there is nothing.
func (w *rawWatch) Read([]byte) (int, error) {
	if w.frames == nil {
		return 0, io.EOF
	}
	w.err = w.read(w.frames)
	w.frames = nil
	return 0, io.EOF
}

// Close ends the watch. It may be called while Read runs.
func (w *rawWatch) Close() error { return w.body.Close() }
