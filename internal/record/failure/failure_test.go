package failure

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
		{fmt.Errorf("%w: damaged", ErrStore), false},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), false},
		{apierrors.NewUnauthorized("who"), false},
		{apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil), false},
		{fmt.Errorf("read page: %w", io.ErrUnexpectedEOF), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
	} {
		if got := BlamesForm(c.err); got != c.want {
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
		if RefusesShards(client.Target{}, c.err) {
			t.Errorf("without shards: %v", c.err)
		}
		if got := RefusesShards(client.Target{Shard: client.Shard{Count: 2}}, c.err); got != c.sharded {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	if !RefusesStreamedList(apierrors.NewInternalError(webhook)) || !BlamesForm(apierrors.NewInternalError(webhook)) {
		t.Error("such an error keeps a stream from reading pages")
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
		want Outcome
	}{
		"end of watch":         {client.ErrWatchEnded, Outcome{Action: Retry, Reason: "Closed", Clean: true}},
		"ahead":                {fmt.Errorf("%w: 9", ErrAhead), Outcome{Action: Relist, Reason: "PositionAheadOfServer", Habit: true}},
		"410 Expired":          {apierrors.NewResourceExpired("too old"), Outcome{Action: Relist, Reason: "Expired"}},
		"410 Gone":             {apierrors.NewGone("gone"), Outcome{Action: Relist, Reason: "Expired"}}, //nolint:staticcheck // SA1019: what old servers answer
		"404":                  {apierrors.NewNotFound(pods, ""), Outcome{Action: Wait, Reason: "NotFound"}},
		"403":                  {apierrors.NewForbidden(pods, "", errors.New("no")), Outcome{Action: Wait, Reason: "Forbidden"}},
		"405":                  {apierrors.NewMethodNotSupported(pods, "watch"), Outcome{Action: Wait, Reason: "MethodNotAllowed"}},
		"401":                  {apierrors.NewUnauthorized("who"), Outcome{Action: Retry, Reason: "Unauthorized"}},
		"429":                  {slow, Outcome{Action: Retry, Reason: "TooManyRequests", After: 7 * time.Second}},
		"wrapped 429":          {fmt.Errorf("list: %w", slow), Outcome{Action: Retry, Reason: "TooManyRequests", After: 7 * time.Second}},
		"504":                  {apierrors.NewTimeoutError("late", 3), Outcome{Action: Retry, Reason: "Timeout", After: 3 * time.Second}},
		"500 server timeout":   {apierrors.NewServerTimeout(pods, "list", 2), Outcome{Action: Retry, Reason: "Timeout", After: 2 * time.Second}},
		"500":                  {apierrors.NewInternalError(errors.New("etcd")), Outcome{Action: Retry, Reason: "ServerError"}},
		"503":                  {apierrors.NewServiceUnavailable("starting"), Outcome{Action: Retry, Reason: "ServerError"}},
		"502 without a reason": {status(502, ""), Outcome{Action: Retry, Reason: "ServerError"}},
		"400":                  {apierrors.NewBadRequest("selector"), Outcome{Action: Retry, Reason: "BadRequest"}},
		"422":                  {apierrors.NewInvalid(schema.GroupKind{}, "", nil), Outcome{Action: Retry, Reason: "BadRequest"}},
		"refused":              {dial, Outcome{Action: Retry, Reason: "ConnectionRefused"}},
		"EOF":                  {&url.Error{Op: "Get", Err: io.EOF}, Outcome{Action: Retry, Reason: "ConnectionLost"}},
		"cut":                  {fmt.Errorf("read frame: %w", io.ErrUnexpectedEOF), Outcome{Action: Retry, Reason: "ConnectionLost"}},
		"reset":                {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, Outcome{Action: Retry, Reason: "ConnectionLost"}},
		"no answer to a ping":  {errors.New("read frame: http2: client connection lost"), Outcome{Action: Retry, Reason: "ConnectionLost"}},
		"GOAWAY":               {errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=5"), Outcome{Action: Retry, Reason: "ConnectionLost"}},
		"silent watch":         {client.ErrSilent, Outcome{Action: Retry, Reason: "Silent"}},
		"unknown authority": {
			&url.Error{Op: "Get", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
			Outcome{Action: Retry, Reason: "UntrustedServer"},
		},
		"deadline of a watch": {context.DeadlineExceeded, Outcome{Action: Retry, Reason: "Timeout"}},
		"timeout of a read":   {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, Outcome{Action: Retry, Reason: "Timeout"}},
		"bad frame":           {fmt.Errorf("%w: x", client.ErrBadFrame), Outcome{Action: Retry, Reason: "BadFrame"}},
		"too large":           {fmt.Errorf("read frame: %w", object.ErrTooLarge), Outcome{Action: Retry, Reason: "BadFrame"}},
		"unknown":             {errors.New("surprise"), Outcome{Action: Retry, Reason: "Error"}},
		"no JSON":             {fmt.Errorf("read frame: %w", &object.SyntaxError{}), Outcome{Action: Retry, Reason: "BadFrame"}},
		"no answer":           {client.ErrNoAnswer, Outcome{Action: Retry, Reason: "Timeout"}},
		"no version":          {client.ErrNoVersion, Outcome{Action: Retry, Reason: "NoResourceVersion", Habit: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Classify(t.Context(), c.err); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if got := Classify(t.Context(), fmt.Errorf("wrapped: %w", c.err)); got != c.want {
				t.Errorf("wrapped: got  %+v\nwant %+v", got, c.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if got := Classify(ctx, c.err); got.Action != Stop {
				t.Errorf("of a stopped stream: got %+v", got)
			}
		})
	}
}

// What comes out of client-go for the faults of a server, for a watch and for a
// list: the errors that Classify is given in life.
func TestClassifyAnswers(t *testing.T) {
	const html = "<html>nginx</html>"
	for name, c := range map[string]struct {
		fault *fake.Fault // nil: the server is down
		want  Outcome
		watch string // reason where a watch is told otherwise
	}{
		"410":            {&fake.Fault{Status: 410}, Outcome{Action: Relist, Reason: "Expired"}, ""},
		"410 gone":       {&fake.Fault{Status: 410, Reason: metav1.StatusReasonGone}, Outcome{Action: Relist, Reason: "Expired"}, ""},
		"410 text":       {&fake.Fault{Status: 410, Body: html}, Outcome{Action: Relist, Reason: "Expired"}, ""},
		"404":            {&fake.Fault{Status: 404}, Outcome{Action: Wait, Reason: "NotFound"}, ""},
		"404 text":       {&fake.Fault{Status: 404, Body: "404 page not found\n"}, Outcome{Action: Wait, Reason: "NotFound"}, ""},
		"403 text":       {&fake.Fault{Status: 403, Body: html}, Outcome{Action: Wait, Reason: "Forbidden"}, ""},
		"405":            {&fake.Fault{Status: 405}, Outcome{Action: Wait, Reason: "MethodNotAllowed"}, ""},
		"401":            {&fake.Fault{Status: 401}, Outcome{Action: Retry, Reason: "Unauthorized"}, ""},
		"429":            {&fake.Fault{Status: 429, RetryAfter: 9}, Outcome{Action: Retry, Reason: "TooManyRequests", After: 9 * time.Second}, ""},
		"429 text":       {&fake.Fault{Status: 429, RetryAfter: 9, Body: html}, Outcome{Action: Retry, Reason: "TooManyRequests", After: 9 * time.Second}, ""},
		"503 text":       {&fake.Fault{Status: 503, RetryAfter: 4, Body: html}, Outcome{Action: Retry, Reason: "ServerError", After: 4 * time.Second}, ""},
		"500":            {&fake.Fault{Status: 500}, Outcome{Action: Retry, Reason: "ServerError"}, ""},
		"504":            {&fake.Fault{Status: 504}, Outcome{Action: Retry, Reason: "Timeout"}, ""},
		"400":            {&fake.Fault{Status: 400}, Outcome{Action: Retry, Reason: "BadRequest"}, ""},
		"server is down": {nil, Outcome{Action: Retry, Reason: "ConnectionRefused"}, ""},
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
				if got := Classify(t.Context(), err); got != c.want {
					t.Errorf("watch: got %+v for %v, want %+v", got, err, c.want)
				}
				_, err = api.List(t.Context(), target, metav1.ListOptions{Limit: 1})
				if got := Classify(t.Context(), err); got != c.want {
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
		{ErrNoListEnd, true},
		{fmt.Errorf("wrapped: %w", ErrNoListEnd), true},
		{apierrors.NewInternalError(errors.New("x")), true},
		{fmt.Errorf("%w: x", client.ErrBadFrame), true},
		{apierrors.NewResourceExpired("x"), false},
		{apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
		{apierrors.NewTooManyRequests("x", 1), false},
		{io.ErrUnexpectedEOF, false},
		{apierrors.NewServiceUnavailable("x"), false},
		{apierrors.NewTimeoutError("x", 0), false},
	} {
		if got := RefusesStreamedList(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}
