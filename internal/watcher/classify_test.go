package watcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
)

// A list is not asked for in another form after what had nothing to do with its form.
func TestBlamesForm(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("%w: damaged", errStore), false},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), false},
		{apierrors.NewUnauthorized("who"), false},
		{apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil), false},
		{fmt.Errorf("read page: %w", io.ErrUnexpectedEOF), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
	} {
		if got := blamesForm(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// A kind or a webhook may have the word in its name: that is no refusal of the shard selector, and a daemon without
// shards hears of none.
func TestRefusesShards(t *testing.T) {
	webhook := errors.New(`conversion webhook for planetscale.com/v2, Kind=VitessShard failed: Post "https://x": dial tcp: connection refused`)
	for _, c := range []struct {
		err     error
		sharded bool // for a stream of a shard
	}{
		{apierrors.NewInternalError(errors.New("invalid shard selector")), true},
		{apierrors.NewBadRequest(`unknown query parameter "shardSelector"`), true},
		{apierrors.NewInternalError(webhook), false},
		{apierrors.NewBadRequest("VitessShard is not served"), false},
		{apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("shard selector")), false},
	} {
		if refusesShards(client.Target{}, c.err) {
			t.Errorf("without shards: %v", c.err)
		}
		if got := refusesShards(client.Target{Shard: client.Shard{Count: 2}}, c.err); got != c.sharded {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	if !refusesStreamedList(apierrors.NewInternalError(webhook)) || !blamesForm(apierrors.NewInternalError(webhook)) {
		t.Error("such an error keeps a stream from reading pages")
	}
	a, n := adoption{}, 0
	for ; n < 2*maxAdoptFailures && !a.failed(apierrors.NewInternalError(webhook)); n++ {
	}
	if n >= maxAdoptFailures {
		t.Errorf("an adoption is given up after %d failures", n)
	}
}

func TestClassify(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	status := func(code int, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason}}
	}
	slow := apierrors.NewTooManyRequests("slow down", 7)
	dial := &url.Error{Op: "Get", URL: "https://server", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	for name, c := range map[string]struct {
		err  error
		want outcome
	}{
		"end of watch":         {client.ErrWatchEnded, outcome{action: actionRetry, reason: "Closed", clean: true}},
		"ahead":                {fmt.Errorf("%w: 9", errAhead), outcome{action: actionRelist, reason: "PositionAheadOfServer", habit: true}},
		"410 Expired":          {apierrors.NewResourceExpired("too old"), outcome{action: actionRelist, reason: "Expired"}},
		"410 Gone":             {apierrors.NewGone("gone"), outcome{action: actionRelist, reason: "Expired"}}, //nolint:staticcheck // SA1019: what old servers answer
		"404":                  {apierrors.NewNotFound(pods, ""), outcome{action: actionWait, reason: "NotFound"}},
		"403":                  {apierrors.NewForbidden(pods, "", errors.New("no")), outcome{action: actionWait, reason: "Forbidden"}},
		"405":                  {apierrors.NewMethodNotSupported(pods, "watch"), outcome{action: actionWait, reason: "MethodNotAllowed"}},
		"401":                  {apierrors.NewUnauthorized("who"), outcome{action: actionRetry, reason: "Unauthorized"}},
		"429":                  {slow, outcome{action: actionRetry, reason: "TooManyRequests", after: 7 * time.Second}},
		"wrapped 429":          {fmt.Errorf("list: %w", slow), outcome{action: actionRetry, reason: "TooManyRequests", after: 7 * time.Second}},
		"504":                  {apierrors.NewTimeoutError("late", 3), outcome{action: actionRetry, reason: "Timeout", after: 3 * time.Second}},
		"500 server timeout":   {apierrors.NewServerTimeout(pods, "list", 2), outcome{action: actionRetry, reason: "Timeout", after: 2 * time.Second}},
		"500":                  {apierrors.NewInternalError(errors.New("etcd")), outcome{action: actionRetry, reason: "ServerError"}},
		"503":                  {apierrors.NewServiceUnavailable("starting"), outcome{action: actionRetry, reason: "ServerError"}},
		"502 without a reason": {status(502, ""), outcome{action: actionRetry, reason: "ServerError"}},
		"400":                  {apierrors.NewBadRequest("selector"), outcome{action: actionRetry, reason: "BadRequest"}},
		"422":                  {apierrors.NewInvalid(schema.GroupKind{}, "", nil), outcome{action: actionRetry, reason: "BadRequest"}},
		"refused":              {dial, outcome{action: actionRetry, reason: "ConnectionRefused"}},
		"EOF":                  {&url.Error{Op: "Get", Err: io.EOF}, outcome{action: actionRetry, reason: "ConnectionLost"}},
		"cut":                  {fmt.Errorf("read frame: %w", io.ErrUnexpectedEOF), outcome{action: actionRetry, reason: "ConnectionLost"}},
		"reset":                {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, outcome{action: actionRetry, reason: "ConnectionLost"}},
		"no answer to a ping":  {errors.New("read frame: http2: client connection lost"), outcome{action: actionRetry, reason: "ConnectionLost"}},
		"GOAWAY":               {errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=5"), outcome{action: actionRetry, reason: "ConnectionLost"}},
		"silent watch":         {client.ErrSilent, outcome{action: actionRetry, reason: "Silent"}},
		"unknown authority": {
			&url.Error{Op: "Get", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
			outcome{action: actionRetry, reason: "UntrustedServer"},
		},
		"deadline of a watch": {context.DeadlineExceeded, outcome{action: actionRetry, reason: "Timeout"}},
		"timeout of a read":   {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, outcome{action: actionRetry, reason: "Timeout"}},
		"bad frame":           {fmt.Errorf("%w: x", client.ErrBadFrame), outcome{action: actionRetry, reason: "BadFrame"}},
		"too large":           {fmt.Errorf("read frame: %w", object.ErrTooLarge), outcome{action: actionRetry, reason: "BadFrame"}},
		"unknown":             {errors.New("surprise"), outcome{action: actionRetry, reason: "Error"}},
		"no JSON":             {fmt.Errorf("read frame: %w", &object.SyntaxError{}), outcome{action: actionRetry, reason: "BadFrame"}},
		"no answer":           {client.ErrNoAnswer, outcome{action: actionRetry, reason: "Timeout"}},
		"no version":          {client.ErrNoVersion, outcome{action: actionRetry, reason: "NoResourceVersion", habit: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := classify(t.Context(), c.err); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if got := classify(t.Context(), fmt.Errorf("wrapped: %w", c.err)); got != c.want {
				t.Errorf("wrapped: got  %+v\nwant %+v", got, c.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if got := classify(ctx, c.err); got.action != actionStop {
				t.Errorf("of a stopped stream: got %+v", got)
			}
		})
	}
}

// What comes out of client-go for the faults of a server, for a watch and for a
// list: the errors that classify is given in life.
func TestClassifyAnswers(t *testing.T) {
	const html = "<html>nginx</html>"
	for name, c := range map[string]struct {
		fault *fake.Fault // nil: the server is down
		want  outcome
		watch string // reason where a watch is told otherwise
	}{
		"410":            {&fake.Fault{Status: 410}, outcome{action: actionRelist, reason: "Expired"}, ""},
		"410 gone":       {&fake.Fault{Status: 410, Reason: metav1.StatusReasonGone}, outcome{action: actionRelist, reason: "Expired"}, ""},
		"410 text":       {&fake.Fault{Status: 410, Body: html}, outcome{action: actionRelist, reason: "Expired"}, ""},
		"404":            {&fake.Fault{Status: 404}, outcome{action: actionWait, reason: "NotFound"}, ""},
		"404 text":       {&fake.Fault{Status: 404, Body: "404 page not found\n"}, outcome{action: actionWait, reason: "NotFound"}, ""},
		"403 text":       {&fake.Fault{Status: 403, Body: html}, outcome{action: actionWait, reason: "Forbidden"}, ""},
		"405":            {&fake.Fault{Status: 405}, outcome{action: actionWait, reason: "MethodNotAllowed"}, ""},
		"401":            {&fake.Fault{Status: 401}, outcome{action: actionRetry, reason: "Unauthorized"}, ""},
		"429":            {&fake.Fault{Status: 429, RetryAfter: 9}, outcome{action: actionRetry, reason: "TooManyRequests", after: 9 * time.Second}, ""},
		"429 text":       {&fake.Fault{Status: 429, RetryAfter: 9, Body: html}, outcome{action: actionRetry, reason: "TooManyRequests", after: 9 * time.Second}, ""},
		"503 text":       {&fake.Fault{Status: 503, RetryAfter: 4, Body: html}, outcome{action: actionRetry, reason: "ServerError", after: 4 * time.Second}, ""},
		"500":            {&fake.Fault{Status: 500}, outcome{action: actionRetry, reason: "ServerError"}, ""},
		"504":            {&fake.Fault{Status: 504}, outcome{action: actionRetry, reason: "Timeout"}, ""},
		"400":            {&fake.Fault{Status: 400}, outcome{action: actionRetry, reason: "BadRequest"}, ""},
		"server is down": {nil, outcome{action: actionRetry, reason: "ConnectionRefused"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			synctest.Test(t, func(t *testing.T) {
				srv := fake.New(fake.Options{InMemory: true})
				defer srv.Close()
				api, err := client.New(srv.Config())
				if err != nil {
					t.Fatal(err)
				}
				srv.SetFault(func(fake.Request) *fake.Fault { return c.fault })
				if c.fault == nil {
					srv.StopAPIServer()
				}
				target := client.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
				_, err = api.Watch(t.Context(), target, metav1.ListOptions{ResourceVersion: "1"}, time.Minute)
				if got := classify(t.Context(), err); got != c.want {
					t.Errorf("watch: got %+v for %v, want %+v", got, err, c.want)
				}
				_, err = api.List(t.Context(), target, metav1.ListOptions{Limit: 1})
				if got := classify(t.Context(), err); got != c.want {
					t.Errorf("list: got %+v for %v, want %+v", got, err, c.want)
				}
				if n := len(srv.Requests()); c.fault != nil && n != 2 {
					t.Errorf("%d requests for one watch and one list", n)
				}
			})
		})
	}
}

func TestRefusesStreamedList(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewInvalid(schema.GroupKind{}, "", nil), true},
		{apierrors.NewBadRequest("unknown parameter"), true},
		{errNoListEnd, true},
		{fmt.Errorf("wrapped: %w", errNoListEnd), true},
		{apierrors.NewInternalError(errors.New("x")), true},
		{fmt.Errorf("%w: x", client.ErrBadFrame), true},
		{apierrors.NewResourceExpired("x"), false},
		{apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
		{apierrors.NewTooManyRequests("x", 1), false},
		{io.ErrUnexpectedEOF, false},
		{apierrors.NewServiceUnavailable("x"), false},
		{apierrors.NewTimeoutError("x", 0), false},
	} {
		if got := refusesStreamedList(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}
