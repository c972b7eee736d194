// Package client reads lists and watches of any resource from an API server as raw JSON, confirms that they come from
// the journalled cluster, reloads credentials, and keeps the number and pace of requests within limits.
package client

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"kubejournal/internal/format/object"
)

const (
	// Requests per second to the server, for lists and for watches each: enough to start hundreds of streams in
	// seconds.
	requestRate  = 50
	requestBurst = 100

	// answerTimeout is how long a server may take to begin an answer. client-go notices a dead connection, but not a
	// server that hangs.
	answerTimeout = 30 * time.Second
)

// Client reads from one API server. Watch and List return readers that the caller pulls raw JSON from, on its own
// goroutine. It never repeats a request by itself; when to try again is the caller's decision.
type Client struct {
	*verifier // of the cluster that answers

	http *http.Client
	rest once

	// client-go would not limit watches, and would take the wait for a list's turn for the server's.
	lists, watches *rate.Limiter

	// MaxObject bounds one object, in bytes. It is object.MaxObject, but in tests.
	MaxObject int
}

// statuses decodes the Status of a refusal. Nothing else is decoded.
var statuses = func() runtime.Serializer {
	scheme := runtime.NewScheme()
	v1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
}()

// once asks for objects in one form, and has client-go not repeat requests: on a 429 or 5xx that would hide the reason.
type once struct {
	rest.Interface
	accept string
}

func (c once) Get() *rest.Request {
	return c.Interface.Get().MaxRetries(0).SetHeader("Accept", c.accept)
}

// New returns a client for the server that config names. config is not changed.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	if _, guarded := config.Transport.(*Access); !guarded {
		Guard(config)
	}
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/" // every request names its whole path
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{
		MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json",
		Serializer:       statuses,
		StreamSerializer: &runtime.StreamSerializerInfo{Serializer: statuses, Framer: json.Framer},
	})
	config.Wrap(func(t http.RoundTripper) http.RoundTripper { return bodyTaker{t} })
	config.QPS = -1 // the limits are the Client's
	config.UserAgent = cmp.Or(config.UserAgent, "kubejournal")
	c := &Client{
		lists:   rate.NewLimiter(requestRate, requestBurst),
		watches: rate.NewLimiter(requestRate, requestBurst),

		MaxObject: object.MaxObject,
	}
	var err error
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	c.rest = once{client, runtime.ContentTypeJSON}
	c.verifier = newVerifier(c.ClusterID)
	return c, nil
}

// MetadataOnly returns a client on the same connections and with the same limits that asks for the metadata of objects
// alone, where the server can, and takes answers of any cluster.
func (c *Client) MetadataOnly() *Client {
	narrow := *c
	narrow.rest.accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
	narrow.verifier = newVerifier(nil)
	return &narrow
}

// Host is the server's address.
func (c *Client) Host() string {
	u := c.rest.Get().URL()
	return u.Scheme + "://" + u.Host
}

// CloseIdleConnections has further requests make new connections: one has turned out to be dead, and idle ones may be
// too.
func (c *Client) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Target is what a stream reads: a resource, in one namespace or all, a pair of selectors, and the share of objects. A
// server that does not know shards sends all of them.
type Target struct {
	Resource                     schema.GroupVersionResource
	Namespace                    string
	LabelSelector, FieldSelector string
	Shard                        Shard
}

// selectIn puts what the target selects into options.
func (t Target) selectIn(o *v1.ListOptions) {
	o.LabelSelector, o.FieldSelector, o.ShardSelector = t.LabelSelector, t.FieldSelector, t.Shard.Selector()
}

// Path returns the segments of the path at which the server has it.
func (t Target) Path() []string {
	p := []string{"apis", t.Resource.Group, t.Resource.Version}
	if t.Resource.Group == "" {
		p = []string{"api", t.Resource.Version}
	}
	if t.Namespace != "" {
		p = append(p, "namespaces", t.Namespace)
	}
	return append(p, t.Resource.Resource)
}

// get is a request for a list.
func (c *Client) get(t Target, o v1.ListOptions) *rest.Request {
	t.selectIn(&o)
	return c.rest.Get().AbsPath(t.Path()...).
		SpecificallyVersionedParams(&o, v1.ParameterCodec, schema.GroupVersion{Version: "v1"})
}

// send makes a request when it is its turn, and returns the answer's body, which may be read until cancel, the function
// that goes with ctx, is called.
func send(ctx context.Context, cancel context.CancelFunc, turns *rate.Limiter,
	do func(context.Context) (io.ReadCloser, error),
) (io.ReadCloser, error) {
	if err := turns.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for the request's turn: %w", err)
	}
	return answered(ctx, cancel, do)
}

// answered makes a request and cancels it when no answer has begun within answerTimeout.
func answered[T any](ctx context.Context, cancel context.CancelFunc, do func(context.Context) (T, error)) (T, error) {
	late := time.AfterFunc(answerTimeout, cancel)
	v, err := do(ctx)
	if !late.Stop() && err != nil {
		err = ErrNoAnswer
	}
	return v, err
}

// patientReader cancels a request whose body is silent for answerTimeout, or takes longer than patience in all: one
// that comes in drops would never end. Time between two reads does not count.
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
