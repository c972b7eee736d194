package client

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// answerBuffer is what may come in of one answer over HTTP/2 before it is read: client-go's 4 MiB are memory, as soon
// as the output blocks and nobody reads. A server takes some 100 answers per connection, so that this bounds those as
// well. The connection's own window stays as large as it is: were it used up by some streams, the others would take
// their own wait for the server's silence. At 5 ms to the server one answer still brings 50 MB/s.
const answerBuffer = 256 << 10

// Guard has config's clients refuse answers that cannot be read, bound what they keep of others, and make a connection
// of its own for a request that asks for one. It is called once for each transport.
func Guard(config *rest.Config) {
	made := config.Transport == nil // client-go will make one
	config.WrapTransport = transport.Wrappers(func(t http.RoundTripper) http.RoundTripper {
		return newGuard(t, made)
	}, config.WrapTransport)
}

// apart is the key by which a request's context asks for a connection of its own.
type apart struct{}

// guard is a transport that Guard was called for.
type guard struct {
	http.RoundTripper
	own *http.Transport // keeps no connections; nil where t is not client-go's or the standard library's
}

// newGuard guards t. client-go wraps those that it makes; any other wrapper decides about connections by itself.
func newGuard(t http.RoundTripper, made bool) *guard {
	g := &guard{RoundTripper: t}
	if made {
		t = innermost(t)
	}
	kept, ok := t.(*http.Transport)
	if !ok {
		return g
	}
	if made {
		boundBuffers(kept)
	}
	g.own = kept.Clone()
	g.own.DisableKeepAlives = true
	if kept.TLSNextProto["h2"] != nil {
		g.own.TLSNextProto = nil // which would share kept's connections
		g.own.ForceAttemptHTTP2 = true
	}
	return g
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	send := g.RoundTripper
	if g.own != nil && r.Context().Value(apart{}) != nil {
		send = g.own
	}
	response, err := send.RoundTrip(r)
	if err != nil {
		return response, err
	}
	if err := refusal(r, response); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

// refusal returns why an answer is not read. A body after 101 ends with the connection only; a watch that is not one,
// such as a proxy's login page, says nothing about the position that was asked for.
func refusal(r *http.Request, response *http.Response) error {
	code := response.StatusCode
	watch := r.URL.Query().Has("watch")
	if code == http.StatusSwitchingProtocols || watch && code > http.StatusOK && code < http.StatusMultipleChoices {
		return fmt.Errorf("the server answered %d %s", code, http.StatusText(code))
	}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if watch && code == http.StatusOK && err == nil && media != runtime.ContentTypeJSON {
		return fmt.Errorf("the server answered a watch with %s", media)
	}
	return nil
}

// WrappedRoundTripper is for client-go.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.RoundTripper }

// bounding is held while a transport is changed.
var bounding sync.Mutex

// boundBuffers bounds what a transport keeps of answers that nobody reads. client-go has no option for it. It shares
// transports: one that was changed is in use, and not changed again.
func boundBuffers(t *http.Transport) {
	bounding.Lock()
	defer bounding.Unlock()
	if t.HTTP2 == nil && t != http.DefaultTransport {
		t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: answerBuffer}
	}
}

// innermost is the transport at the bottom of t.
func innermost(t http.RoundTripper) http.RoundTripper {
	for wrapper, ok := t.(utilnet.RoundTripperWrapper); ok; wrapper, ok = t.(utilnet.RoundTripperWrapper) {
		t = wrapper.WrappedRoundTripper()
	}
	return t
}
