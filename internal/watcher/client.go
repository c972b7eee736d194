package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
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

	// answerBuffer is what may come in of one answer over HTTP/2 before it is
	// read: client-go's 4 MiB are memory, as soon as the output blocks and nobody
	// reads. A server takes some 100 answers per connection, so that this bounds
	// those as well. The connection's own window stays as large as it is: were
	// it used up by some streams, the others would take their own wait for the
	// server's silence. At 5 ms to the server one answer still brings 50 MB/s.
	answerBuffer = 256 << 10
)

// Client reads from one API server: watches through the dynamic client, with a
// decoder that keeps the bytes, and lists as streams of bytes. It never
// repeats a request by itself; when to try again is the stream's decision.
type Client struct {
	config *rest.Config // all but the serializer
	http   *http.Client
	rest   noRetry

	// client-go would not limit watches, and would take the wait for a list's
	// turn for the server's.
	lists, watches *rate.Limiter

	verifier *verifier // of the cluster that answers
	moved    bool      // as in Moved

	maxObject int // event.MaxObject, but in tests
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
	config.QPS = -1 // the limits are the Client's
	if config.UserAgent == "" {
		config.UserAgent = "kubejournal"
	}
	withOwnConnections(config)
	config.Wrap(refuseUpgrade)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	c := &Client{
		config: config, http: client,
		lists:   rate.NewLimiter(requestRate, requestBurst),
		watches: rate.NewLimiter(requestRate, requestBurst),

		maxObject: event.MaxObject,
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

// metadataOnly returns a client on the same connections and with the same limits
// that asks for the metadata of objects alone, where the server can, and answers
// whatever cluster it comes from.
func (c *Client) metadataOnly() (*Client, error) {
	config := *c.config
	config.AcceptContentTypes = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
	narrow := *c
	narrow.config, narrow.verifier = &config, newVerifier(nil)
	var err error
	narrow.rest, err = narrow.with(rawSerializer{})
	return &narrow, err
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

// doubt lets further requests make connections of their own: one has turned out
// to be dead, and those that wait to be used again may be so as well.
func (c *Client) doubt() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// Target is what a stream reads: a resource, in one namespace or all, and a
// pair of selectors.
type Target struct {
	Resource                     schema.GroupVersionResource
	Namespace                    string
	LabelSelector, FieldSelector string
}

// errNoAnswer says that the server took a request and did not answer in time, or
// stopped in the middle.
var errNoAnswer = fmt.Errorf("no complete answer in time: %w", context.DeadlineExceeded)

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

// watch opens a watch and has read read it, which returns why it ended. That is
// then returned, or why there was nothing to read. cancel is that of ctx, which
// is the watch's own.
func (c *Client) watch(ctx context.Context, cancel context.CancelFunc, t Target, o v1.ListOptions, read func(*event.FrameReader) error) error {
	o.LabelSelector, o.FieldSelector = t.LabelSelector, t.FieldSelector
	if err := c.watches.Wait(ctx); err != nil {
		return fmt.Errorf("wait for a watch's turn: %w", err)
	}
	raw := &rawWatch{maxObject: c.maxObject, err: errNoWatch, read: func(f *event.FrameReader) error {
		if err := c.verifier.confirm(ctx); err != nil {
			return err
		}
		return read(f)
	}}
	client, err := c.with(rawSerializer{raw})
	if err != nil {
		return err
	}
	w, err := answered(ctx, cancel, func(ctx context.Context) (watch.Interface, error) {
		return dynamic.New(client).Resource(t.Resource).Namespace(t.Namespace).Watch(ctx, o)
	})
	if err != nil && o.ResourceVersion != "" {
		return c.attest(ctx, err)
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	for range w.ResultChan() {
		continue // client-go's own word for the end; read has said why
	}
	return raw.err
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
	if isNear(r.URL()) {
		r = r.SetHeader("Accept-Encoding", "identity")
	}
	return answered(ctx, cancel, r.Stream)
}

// isNear tells whether a server is where compressed lists cost more than they
// save: in the same cluster or on the same network, by its address. A server
// compresses pages above 128 KiB, and never a watch, which is how newer ones
// stream lists. Measured (test/bench/scale, 100,000 objects of 1 KB): 70 MB less
// to transfer for 0.9 s more of our CPU and 1.4 s more of the server's, which a
// network of more than 250 Mbit/s does not give back. To any other server it is
// left to client-go, which asks for gzip unless the kubeconfig says
// disable-compression.
func isNear(server *url.URL) bool {
	at, err := netip.ParseAddr(server.Hostname())
	return err == nil && (at.IsLoopback() || at.IsPrivate() || at.IsLinkLocalUnicast())
}

// patientReader cancels a request whose body stays silent for answerTimeout while
// it is read, or is waited for longer than that altogether: one that comes in
// drops would never end. Time between two reads does not count.
type patientReader struct {
	r        io.Reader
	cancel   context.CancelFunc
	patience time.Duration // for the rest of the body
}

func newPatientReader(r io.Reader, cancel context.CancelFunc, patience time.Duration) io.Reader {
	return &patientReader{r, cancel, patience}
}

func (r *patientReader) Read(p []byte) (int, error) {
	began := time.Now()
	late := time.AfterFunc(min(answerTimeout, r.patience), r.cancel)
	n, err := r.r.Read(p)
	if !late.Stop() && err != nil {
		err = errNoAnswer
	}
	r.patience -= time.Since(began)
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
	l := event.NewListReader(newPatientReader(body, cancel, listWait), c.maxObject)
	for {
		_, err := l.Next()
		if errors.Is(err, io.EOF) || err == nil && l.MetaSeen() {
			if !isPosition(l.Meta().ResourceVersion) {
				return "", errNoVersion
			}
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

// Moved reports whether the client, offered to Access's accept, uses another
// address or proxy than the current one.
func (c *Client) Moved() bool { return c.moved }

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
