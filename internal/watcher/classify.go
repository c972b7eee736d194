package watcher

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

	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
)

// action is what follows from the end of a session.
type action int

const (
	actionRetry  action = iota // open the watch again at the same position, after a pause
	actionRelist               // the position is not valid any more
	actionWait                 // the resource is not there, or not for us: pending
	actionStop                 // the stream was told to stop
)

// outcome is why a session ended and what to do.
type outcome struct {
	action action
	reason string        // one CamelCase word, for logs, metrics and GAP lines
	after  time.Duration // at least this long, as the server asks (Retry-After)
	clean  bool          // the server ended a healthy watch: no need to back off
}

// Reasons of what goes wrong, beside those of GAP lines.
const (
	reasonTimeout        = "Timeout"        // no answer in time
	reasonSilent         = "Silent"         // a watch has brought nothing for too long
	ReasonNotFound       = "NotFound"       // the server does not have it
	reasonClusterUnknown = "ClusterUnknown" // the server does not let its cluster's uid be read any more
)

// Errors by which a session says why it ended, where no server did.
var (
	errAhead     = errors.New("the position is ahead of the server's version")
	errRefused   = errors.New("the server does not watch from this position")
	errNoListEnd = errors.New("the list does not come to its end")

	// errStore says that the checkpoint cannot be read: no stream can go on.
	errStore = errors.New("read checkpoint")
)

// classify says what follows from a session's error. Every error of the API
// concepts page ("410 Gone responses", "Efficient detection of changes") and of
// the connection has its case; what is unknown is tried again.
func classify(ctx context.Context, err error) outcome {
	after := kubeclient.RetryAfter(err)
	unconfirmed := new(kubeclient.UnconfirmedError)
	switch {
	case ctx.Err() != nil:
		return outcome{action: actionStop, reason: "Stopped"}
	case errors.As(err, &unconfirmed):
		return classifyUnconfirmed(ctx, unconfirmed.Reason)
	case errors.Is(err, kubeclient.ErrWatchEnded):
		return outcome{action: actionRetry, reason: "Closed", clean: true}
	case errors.Is(err, errAhead):
		return outcome{action: actionRelist, reason: string(event.PositionAheadOfServer)}
	case errors.Is(err, errRefused):
		return outcome{action: actionRelist, reason: string(event.PositionRefused)}
	case errors.Is(err, kubeclient.ErrSilent):
		return outcome{action: actionRetry, reason: reasonSilent}
	case errors.Is(err, errNoListEnd):
		return outcome{action: actionRetry, reason: "NoListEnd"}
	case errors.Is(err, kubeclient.ErrNoVersion):
		return outcome{action: actionRetry, reason: "NoResourceVersion"}
	case isExpired(err):
		return outcome{action: actionRelist, reason: string(event.Expired)}
	case apierrors.IsNotFound(err):
		return outcome{action: actionWait, reason: ReasonNotFound}
	case apierrors.IsForbidden(err):
		return outcome{action: actionWait, reason: "Forbidden"}
	case apierrors.IsMethodNotSupported(err):
		return outcome{action: actionWait, reason: "MethodNotAllowed"}
	case apierrors.IsUnauthorized(err):
		return outcome{action: actionRetry, reason: "Unauthorized", after: after}
	case apierrors.IsTooManyRequests(err):
		return outcome{action: actionRetry, reason: "TooManyRequests", after: after}
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return outcome{action: actionRetry, reason: reasonTimeout, after: after}
	case isServerError(err):
		return outcome{action: actionRetry, reason: "ServerError", after: after}
	case isBadRequest(err):
		return outcome{action: actionRetry, reason: "BadRequest", after: after}
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return outcome{action: actionRetry, reason: "UntrustedServer"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome{action: actionRetry, reason: "ConnectionRefused"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		utilnet.IsHTTP2ConnectionLost(err), utilnet.IsProbableEOF(err):
		return outcome{action: actionRetry, reason: "ConnectionLost"}
	case errors.Is(err, context.DeadlineExceeded), isNetTimeout(err):
		return outcome{action: actionRetry, reason: reasonTimeout}
	case isMalformed(err):
		return outcome{action: actionRetry, reason: "BadFrame"}
	}
	return outcome{action: actionRetry, reason: "Error", after: after}
}

// classifyUnconfirmed is to retry, whatever kept the cluster from being
// confirmed: nothing of the answer was used.
func classifyUnconfirmed(ctx context.Context, err error) outcome {
	o := outcome{reason: reasonClusterUnknown}
	if !kubeclient.IsUnreadable(err) {
		o = classify(ctx, err)
	}
	return outcome{action: actionRetry, reason: o.reason, after: o.after}
}

// isExpired recognises both shapes of 410: the reasons Expired and Gone.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// refusesStreamedList reports whether the answer to sendInitialEvents means that
// the server does not support it, or cannot now: 422 without the feature gate
// WatchList, 400 from servers that check their parameters, 500 in front of an
// etcd that reports no progress (older than 3.4.31, or 3.5.0 to 3.5.12), a
// watch without the bookmark that ends the list from those that ignore it.
func refusesStreamedList(err error) bool {
	return isBadRequest(err) || isInternal(err) || errors.Is(err, errNoListEnd) || isMalformed(err)
}

// blamesForm reports whether a list may have failed because of the form that it
// was asked for in. What never reached the server has not, nor what this
// identity may not read, in whatever form.
func blamesForm(err error) bool {
	return !errors.Is(err, errStore) && !errors.Is(err, syscall.ECONNREFUSED) && !kubeclient.IsWaiting(err) && !apierrors.IsUnauthorized(err)
}

// blamesPosition reports whether a watch may have failed because of the position
// that it was to begin at. Servers answer a malformed one with 422, 400 or 500.
func blamesPosition(err error) bool {
	return isBadRequest(err) || isInternal(err) || isMalformed(err) ||
		apierrors.HasStatusCause(err, v1.CauseTypeResourceVersionTooLarge)
}

func isBadRequest(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// isMalformed reports whether what came is not what the API serves.
func isMalformed(err error) bool {
	return errors.Is(err, kubeclient.ErrBadFrame) || errors.Is(err, event.ErrTooLarge) || errors.As(err, new(*event.SyntaxError))
}

// checkIdentity returns why an object cannot be told from others, or from its next
// version.
func checkIdentity(o *event.Object) error {
	if len(o.Name) == 0 {
		return fmt.Errorf("%w: an object without a name", kubeclient.ErrBadFrame)
	}
	if !kubeclient.IsPosition(o.ResourceVersion) {
		return fmt.Errorf("object %s/%s: %w", o.Namespace, o.Name, kubeclient.ErrNoVersion)
	}
	return nil
}

func isServerError(err error) bool { return codeOf(err) >= http.StatusInternalServerError }

// isInternal goes by the code: what is not an API error of the server's own has
// no reason.
func isInternal(err error) bool { return codeOf(err) == http.StatusInternalServerError }

// codeOf is the HTTP status that the server answered with, 0 where it did not.
func codeOf(err error) int {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return int(status.Status().Code)
}

func isNetTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
