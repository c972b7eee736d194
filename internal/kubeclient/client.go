// Package kubeclient reads lists and watches of any resource from an API server as raw JSON.
package kubeclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"kubejournal/internal/event"
)

// Requests per second to the server, for lists and for watches each: enough to
// start hundreds of streams in seconds, and a ceiling whatever goes wrong.
const (
	requestRate  = 50
	requestBurst = 100

	// answerTimeout is how long a server may take to begin an answer. client-go
	// notices a dead connection by itself, but not a server that hangs.
	answerTimeout = 30 * time.Second
)

// Client reads from one API server. Watch and List return readers that the
// caller pulls raw JSON from, on its own goroutine. It never repeats a request
// by itself; when to try again is the caller's decision.
type Client struct {
	config *rest.Config // all but the serializer
	http   *http.Client
	rest   noRetry

	// client-go would not limit watches, and would take the wait for a list's
	// turn for the server's.
	lists, watches *rate.Limiter

	verifier *verifier // of the cluster that answers
	moved    bool      // as in Moved

	// MaxObject bounds one object, in bytes. It is event.MaxObject, but in tests.
	MaxObject int
}

// noRetry keeps client-go from repeating requests on 429 and 5xx, which would
// keep the reason from us.
type noRetry struct{ rest.Interface }

func (c noRetry) Get() *rest.Request { return c.Interface.Get().MaxRetries(0) }

// New returns a client for the server that config names. config is not
// changed.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	if _, guarded := config.Transport.(*Access); !guarded {
		Guard(config)
	}
	return newClient(config)
}

// newClient is New for a configuration whose transport is guarded, which it changes.
func newClient(config *rest.Config) (*Client, error) {
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/" // every request names its whole path
	config.AcceptContentTypes = "application/json"
	config.ContentType = "application/json"
	config.QPS = -1 // the limits are the Client's
	if config.UserAgent == "" {
		config.UserAgent = "kubejournal"
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	c := &Client{
		config: config, http: client,
		lists:   rate.NewLimiter(requestRate, requestBurst),
		watches: rate.NewLimiter(requestRate, requestBurst),

		MaxObject: event.MaxObject,
	}
	c.verifier = newVerifier(c.ClusterID)
	if c.rest, err = c.with(rawSerializer{}); err != nil {
		return nil, err
	}
	return c, nil
}

// with returns a REST client, on the same connections, that reads answers with s.
func (c *Client) with(s rawSerializer) (noRetry, error) {
	config := *c.config
	config.NegotiatedSerializer = s
	r, err := rest.UnversionedRESTClientForConfigAndClient(&config, c.http)
	if err != nil {
		return noRetry{}, fmt.Errorf("create client: %w", err)
	}
	return noRetry{r}, nil
}

// MetadataOnly returns a client on the same connections and with the same limits
// that asks for the metadata of objects alone, where the server can, and answers
// whatever cluster it comes from.
func (c *Client) MetadataOnly() (*Client, error) {
	config := *c.config
	config.AcceptContentTypes = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
	narrow := *c
	narrow.config, narrow.verifier = &config, newVerifier(nil)
	var err error
	narrow.rest, err = narrow.with(rawSerializer{})
	return &narrow, err
}

// Host is the server's address.
func (c *Client) Host() string {
	u := c.rest.Get().URL()
	return u.Scheme + "://" + u.Host
}

// Moved reports whether the client, offered to Access's accept, uses another
// address or proxy than the current one.
func (c *Client) Moved() bool { return c.moved }

// CloseIdleConnections has further requests make new connections: one has turned
// out to be dead, and those that wait to be used again may be so as well.
func (c *Client) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Target is what a stream reads: a resource, in one namespace or all, and a
// pair of selectors.
type Target struct {
	Resource                     schema.GroupVersionResource
	Namespace                    string
	LabelSelector, FieldSelector string
}

func path(t Target) []string {
	p := []string{"apis", t.Resource.Group, t.Resource.Version}
	if t.Resource.Group == "" {
		p = []string{"api", t.Resource.Version}
	}
	if t.Namespace != "" {
		p = append(p, "namespaces", t.Namespace)
	}
	return append(p, t.Resource.Resource)
}

// answered makes a request and gives up when no answer has begun within
// answerTimeout. What do returns may use its context until the caller calls
// the cancel function that goes with ctx.
func answered[T any](ctx context.Context, cancel context.CancelFunc, do func(context.Context) (T, error)) (T, error) {
	late := time.AfterFunc(answerTimeout, cancel)
	v, err := do(ctx)
	if !late.Stop() && err != nil {
		err = ErrNoAnswer
	}
	return v, err
}

// patientReader cancels a request whose body stays silent for answerTimeout while
// it is read, or is waited for longer than that altogether: one that comes in
// drops would never end. Time between two reads does not count.
type patientReader struct {
	r        io.Reader
	cancel   context.CancelFunc
	patience time.Duration // for the rest of the body
}

func (r *patientReader) Read(p []byte) (int, error) {
	began := time.Now()
	late := time.AfterFunc(min(answerTimeout, r.patience), r.cancel)
	n, err := r.r.Read(p)
	if !late.Stop() && err != nil {
		err = ErrNoAnswer
	}
	r.patience -= time.Since(began)
	return n, err
}
