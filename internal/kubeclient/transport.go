package kubeclient

import (
	"errors"
	"net/http"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// answerBuffer is what may come in of one answer over HTTP/2 before it is
// read: client-go's 4 MiB are memory, as soon as the output blocks and nobody
// reads. A server takes some 100 answers per connection, so that this bounds
// those as well. The connection's own window stays as large as it is: were
// it used up by some streams, the others would take their own wait for the
// server's silence. At 5 ms to the server one answer still brings 50 MB/s.
const answerBuffer = 256 << 10

// Guard has config's clients refuse a change of protocol, bound what they keep of
// answers, and make a connection of its own for a request that asks for one. It
// is called once for each transport.
func Guard(config *rest.Config) {
	own := config.Transport == nil // client-go will make one
	if own {
		config.Wrap(boundBuffers)
	}
	config.Wrap(refuseUpgrade)
	if _, plain := config.Transport.(*http.Transport); own || plain { // any other decides by itself
		config.WrapTransport = transport.Wrappers(withOwnConnections, config.WrapTransport)
	}
}

// bounding is held while a transport is changed.
var bounding sync.Mutex

// refuseUpgrade makes an error of an answer that switches the protocol: nobody
// asks for that, and reading its body would end with the connection only.
func refuseUpgrade(t http.RoundTripper) http.RoundTripper { return upgradeRefuser{t} }

type upgradeRefuser struct{ http.RoundTripper }

var errUpgrade = errors.New("the server answered 101 Switching Protocols")

// RoundTrip implements http.RoundTripper.
func (u upgradeRefuser) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := u.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		return response, err
	}
	return nil, errors.Join(errUpgrade, response.Body.Close())
}

// WrappedRoundTripper is for client-go.
func (u upgradeRefuser) WrappedRoundTripper() http.RoundTripper { return u.RoundTripper }

// boundBuffers bounds what the transport at the bottom of t keeps of answers that
// nobody reads. client-go has no option for it. It shares transports: one that was
// changed is in use, and not changed again.
func boundBuffers(t http.RoundTripper) http.RoundTripper {
	bounding.Lock()
	defer bounding.Unlock()
	if bottom, ok := innermost(t).(*http.Transport); ok && bottom.HTTP2 == nil && bottom != http.DefaultTransport {
		bottom.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: answerBuffer}
	}
	return t
}

// apart is the key by which a request's context asks for a connection of its own.
type apart struct{}

// connections sends requests over connections that are kept, and those that ask
// for it over connections of their own.
type connections struct {
	http.RoundTripper
	own *http.Transport
}

// withOwnConnections lets requests ask for a connection of their own, where t is
// an http.Transport at its bottom.
func withOwnConnections(t http.RoundTripper) http.RoundTripper {
	kept, ok := innermost(t).(*http.Transport)
	if !ok {
		return t
	}
	own := kept.Clone()
	own.DisableKeepAlives = true
	if kept.TLSNextProto["h2"] != nil {
		own.TLSNextProto = nil // which would share kept's connections
		own.ForceAttemptHTTP2 = true
	}
	return &connections{t, own}
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(apart{}) != nil {
		return c.own.RoundTrip(r)
	}
	return c.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper is for client-go.
func (c *connections) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }

// innermost is the transport at the bottom of t.
func innermost(t http.RoundTripper) http.RoundTripper {
	for wrapper, ok := t.(utilnet.RoundTripperWrapper); ok; wrapper, ok = t.(utilnet.RoundTripperWrapper) {
		t = wrapper.WrappedRoundTripper()
	}
	return t
}
