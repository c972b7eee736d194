package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
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

// Client reads from one API server: watches through the dynamic client, with a
// decoder that keeps the bytes, and lists as streams of bytes. It never
// repeats a request by itself; when to try again is the stream's decision.
type Client struct {
	rest    noRetry
	dynamic *dynamic.DynamicClient

	transport http.RoundTripper

	// client-go would not limit watches, and would take the wait for a list's
	// turn for the server's.
	lists, watches *rate.Limiter
}

// noRetry keeps client-go from repeating requests on 429 and 5xx, which would
// keep the reason from us.
type noRetry struct{ rest.Interface }

func (c noRetry) Get() *rest.Request { return c.Interface.Get().MaxRetries(0) }

// NewClient returns a client for the server that config names. config is not
// changed.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/" // every request names its whole path
	config.AcceptContentTypes = "application/json"
	config.ContentType = "application/json"
	config.NegotiatedSerializer = rawSerializer{}
	config.QPS = -1 // the limits are the Client's
	if config.UserAgent == "" {
		config.UserAgent = "kubejournal"
	}
	c, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &Client{
		rest: noRetry{c}, dynamic: dynamic.New(noRetry{c}), transport: c.Client.Transport,
		lists:   rate.NewLimiter(requestRate, requestBurst),
		watches: rate.NewLimiter(requestRate, requestBurst),
	}, nil
}

// doubt lets further requests make connections of their own: one has turned out
// to be dead, and those that wait to be used again may be so as well.
func (c *Client) doubt() { utilnet.CloseIdleConnectionsFor(c.transport) }

// Target is what a stream reads: a resource, in one namespace or all, and a
// pair of selectors.
type Target struct {
	Resource                     schema.GroupVersionResource
	Namespace                    string
	LabelSelector, FieldSelector string
}

// errNoAnswer says that the server took a request and did not answer, or
// stopped in the middle.
var errNoAnswer = fmt.Errorf("no answer within %s: %w", answerTimeout, context.DeadlineExceeded)

// answered makes a request and gives up when no answer has begun within
// answerTimeout. What do returns may use its context until the caller calls
// the cancel function that goes with ctx.
func answered[T any](ctx context.Context, cancel context.CancelFunc, do func(context.Context) (T, error)) (T, error) {
	late := time.AfterFunc(answerTimeout, cancel)
	v, err := do(ctx)
	if !late.Stop() && err != nil {
		err = errNoAnswer
	}
	return v, err
}

// watch opens a watch. Its events carry chunks. cancel is that of ctx, which
// must last as long as the watch.
func (c *Client) watch(ctx context.Context, cancel context.CancelFunc, t Target, o v1.ListOptions) (watch.Interface, error) {
	o.LabelSelector, o.FieldSelector = t.LabelSelector, t.FieldSelector
	if err := c.watches.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for a watch's turn: %w", err)
	}
	return answered(ctx, cancel, func(ctx context.Context) (watch.Interface, error) {
		return c.dynamic.Resource(t.Resource).Namespace(t.Namespace).Watch(ctx, o)
	})
}

// list opens a list; limit 0 asks for all of it in one answer. cancel is that
// of ctx, which must last as long as the body is read.
func (c *Client) list(ctx context.Context, cancel context.CancelFunc, t Target, limit int64, token string) (io.ReadCloser, error) {
	if err := c.lists.Wait(ctx); err != nil {
		return nil, fmt.Errorf("wait for a list's turn: %w", err)
	}
	q := url.Values{}
	set := func(key, value string) {
		if value != "" {
			q.Set(key, value)
		}
	}
	set("labelSelector", t.LabelSelector)
	set("fieldSelector", t.FieldSelector)
	set("continue", token)
	if limit > 0 {
		q.Set("limit", strconv.FormatInt(limit, 10))
	}
	r := c.rest.Get().AbsPath(path(t)...)
	for key := range q {
		r = r.Param(key, q.Get(key))
	}
	return answered(ctx, cancel, r.Stream)
}

// idleReader cancels a request whose body stays silent for answerTimeout while
// it is read.
type idleReader struct {
	r      io.Reader
	cancel context.CancelFunc
}

func newIdleReader(r io.Reader, cancel context.CancelFunc) io.Reader { return &idleReader{r, cancel} }

func (i *idleReader) Read(p []byte) (int, error) {
	late := time.AfterFunc(answerTimeout, i.cancel)
	n, err := i.r.Read(p)
	if !late.Stop() && err != nil {
		err = errNoAnswer
	}
	return n, err
}

// version asks for the server's current version of a resource, which a list of
// one object tells.
func (c *Client) version(ctx context.Context, t Target) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := c.list(ctx, cancel, t, 1, "")
	if err != nil {
		return "", err
	}
	defer body.Close()
	l := event.NewListReader(newIdleReader(body, cancel), maxObject)
	for {
		_, err := l.Next()
		if errors.Is(err, io.EOF) || err == nil && l.MetaSeen() {
			return l.Meta().ResourceVersion, nil
		}
		if err != nil {
			return "", listError(err)
		}
	}
}

// Host is the server's address.
func (c *Client) Host() string {
	u := c.rest.Get().URL()
	return u.Scheme + "://" + u.Host
}

// ClusterID returns the uid of the namespace kube-system, by which a cluster
// is known.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	// Not DoRaw, whose errors lack the server's words.
	answer, err := c.rest.Get().AbsPath("/api/v1/namespaces/kube-system").Stream(ctx)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer)
	if err := errors.Join(err, answer.Close()); err != nil {
		return "", fmt.Errorf("read namespace kube-system: %w", err)
	}
	r, err := event.NewRenderer(event.Source{Stream: "namespaces", Version: "v1", Resource: "namespaces", Kind: "Namespace"}, event.Shape{})
	if err != nil {
		return "", err
	}
	var o event.Object
	if err := r.Scan(body, &o); err != nil {
		return "", fmt.Errorf("read namespace kube-system: %w", err)
	}
	return string(o.UID), nil
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
