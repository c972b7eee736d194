package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kubejournal/internal/format/object"
)

// How a request ends where the server has not said so itself.
var (
	// ErrNoAnswer says that the server took a request and did not answer in time, or stopped in the middle.
	ErrNoAnswer = fmt.Errorf("no complete answer in time: %w", context.DeadlineExceeded)
	// ErrWatchEnded says that the server has ended a watch in good order.
	ErrWatchEnded = errors.New("the server ended the watch")
	// ErrSilent says that a watch was cut because nothing came.
	ErrSilent = errors.New("the watch brings neither event nor bookmark")
	// ErrBadFrame says that the server sent what is not a watch event, or an object that cannot be named.
	ErrBadFrame = errors.New("malformed watch event")
	// ErrNoVersion says that a list or an object has no resourceVersion.
	ErrNoVersion = errors.New("no resourceVersion to go on from; the server of this resource does not support " +
		"watching it")
)

// IsPosition reports whether a watch can begin at a resourceVersion: "0" and
// none mean any version.
func IsPosition[S ~string | ~[]byte](rv S) bool { return len(rv) > 0 && string(rv) != "0" }

// IsWaiting reports whether a resource is not there, or not for us.
func IsWaiting(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 5 * time.Minute

// RetryAfter is how long the server asks to be left alone, 0 when it does not say.
func RetryAfter(err error) time.Duration {
	if s, ok := apierrors.SuggestsClientDelay(err); ok && s > 0 {
		return min(time.Duration(s)*time.Second, maxRetryAfter)
	}
	return 0
}

// IsUnreachable reports whether a request failed because the API server could not be reached, and whether somebody
// answered: with unreachable, that was a load balancer or the like.
func IsUnreachable(err error) (unreachable, answered bool) {
	if u := new(UnconfirmedError); errors.As(err, &u) {
		err = u.Reason
	}
	switch StatusCode(err) {
	case 0:
		return IsUntrusted(err) || IsConnectionLost(err) || IsTimeout(err) ||
			errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*net.OpError)), false
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return !apierrors.HasStatusCause(err, v1.CauseTypeResourceVersionTooLarge), true
	}
	return false, true
}

// IsExpired recognises both shapes of 410: the reasons Expired and Gone.
func IsExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// IsMalformed reports whether what came is not what the API serves.
func IsMalformed(err error) bool {
	return errors.Is(err, ErrBadFrame) || errors.Is(err, object.ErrTooLarge) ||
		errors.As(err, new(*object.SyntaxError))
}

// IsBadRequest reports whether the server rejects the request itself.
func IsBadRequest(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// IsUntrusted reports whether the certificate of the server was not accepted.
func IsUntrusted(err error) bool { return errors.As(err, new(*tls.CertificateVerificationError)) }

// IsConnectionLost reports whether the connection ended before the answer did.
func IsConnectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err)
}

// IsTimeout reports whether the network was too slow.
func IsTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// IsServerError reports whether the server answered with a status of 500 or above.
func IsServerError(err error) bool { return StatusCode(err) >= http.StatusInternalServerError }

// IsInternal reports whether the server answered with status 500. It looks at the code: what is not an API error of the
// server's own has no reason.
func IsInternal(err error) bool { return StatusCode(err) == http.StatusInternalServerError }

// StatusCode is the HTTP status that the server answered with, 0 where it did not.
func StatusCode(err error) int {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return int(status.Status().Code)
}
