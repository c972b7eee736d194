package watcher

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/format/line"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
	"kubejournal/internal/record/decode"
	"kubejournal/internal/record/outage"
	"kubejournal/internal/record/recorder"
)

// action is what follows from the end of a session.
type action int

const (
	actionRetry  action = iota // open the watch again at the same position, after a pause
	actionRelist               // the position is not valid any more
	actionWait                 // the resource is not there, or not for us: pending
	actionStop                 // the stream is stopped
)

// outcome is why a session ended and what to do.
type outcome struct {
	action action
	reason string        // one CamelCase word, for logs, metrics and GAP lines
	after  time.Duration // at least this long, as the server asks (Retry-After)
	clean  bool          // the server ended a healthy watch: no need to back off
	habit  bool          // the server contradicts itself or the API, and may do so each time
}

// gap is what the GAP line says of a position that is lost for this reason.
func (o outcome) gap() line.Reason {
	switch reason := line.Reason(o.reason); reason {
	case line.Expired, line.PositionAheadOfServer, line.PositionRefused:
		return reason
	}
	return line.PositionRefused // the server does not watch from there as it should
}

// Reasons of what goes wrong, beside those of GAP lines.
const (
	reasonTimeout        = "Timeout"          // no answer in time
	reasonSilent         = "Silent"           // a watch has brought nothing for too long
	ReasonNotFound       = "NotFound"         // the server does not have it
	reasonStandby        = "Standby"          // another replica writes
	reasonOtherKind      = "OtherKind"        // an object is of another kind than discovery has said
	reasonOtherScope     = "OtherScope"       // or has no namespace, where it must have one
	reasonUnauthorized   = "Unauthorized"     // the server does not accept the credentials
	reasonUnreadable     = "ObjectUnreadable" // a list fails for the sake of objects in it
	reasonClusterUnknown = "ClusterUnknown"   // the server does not let its cluster's uid be read any more
)

// Errors by which a session says why it ended, where no server did.
var (
	errAhead     = errors.New("the position is ahead of the server's version")
	errRefused   = errors.New("the server does not watch from this position")
	errNoListEnd = errors.New("the list does not come to its end")
	errNotExact  = errors.New("the server does not list at an exact version")

	// errStore says that the checkpoint cannot be read: no stream can continue.
	errStore = errors.New("read checkpoint")
)

// Contradictions that a session ends with.
var (
	errStartsOver = errors.New("the watch does not continue from its position: it sends what was there before")
	errOutOfOrder = errors.New("the watch sends an event whose version does not come after that of the one before")
	errMissed     = errors.New("the watch has left out an event")
	errIncomplete = errors.New("the list leaves out an object that the server has")
	errMiscounted = errors.New("the list has fewer objects than its pages have counted")
	errListBehind = errors.New("the list has an object at a later version than its own")
)

// outcomes are tried in their order.
var outcomes = []struct {
	matches func(error) bool
	outcome
}{
	{is(client.ErrWatchEnded), outcome{reason: "Closed", clean: true}},
	{is(errAhead), outcome{action: actionRelist, reason: string(line.PositionAheadOfServer), habit: true}},
	{is(errRefused), outcome{action: actionRelist, reason: string(line.PositionRefused)}},
	{is(client.ErrSilent), outcome{reason: reasonSilent}},
	{is(errStartsOver), outcome{action: actionRelist, reason: "WatchStartsOver", habit: true}},
	{is(errOutOfOrder), outcome{action: actionRelist, reason: "EventsOutOfOrder", habit: true}},
	{is(errMissed), outcome{action: actionRelist, reason: "EventsLeftOut", habit: true}},
	{is(errMiscounted), outcome{reason: "ListIncomplete", habit: true}},
	{is(errIncomplete), outcome{reason: "ListIncomplete", habit: true}},
	{is(errListBehind), outcome{reason: "ListVersionTooLow", habit: true}},
	{is(decode.ErrOtherKind), outcome{reason: reasonOtherKind, habit: true}},
	{is(decode.ErrOtherScope), outcome{reason: reasonOtherScope, habit: true}},
	{is(decode.ErrUnselected), outcome{reason: "SelectorIgnored", habit: true}},
	{isUnreadable, outcome{reason: reasonUnreadable}},
	{is(errNoListEnd), outcome{reason: "NoListEnd"}},
	{is(errNotExact), outcome{reason: "NotExact"}},
	{is(recorder.ErrStandby), outcome{reason: reasonStandby}},
	{is(client.ErrNoVersion), outcome{reason: "NoResourceVersion", habit: true}},
	{client.IsExpired, outcome{action: actionRelist, reason: string(line.Expired)}},
	{apierrors.IsNotFound, outcome{action: actionWait, reason: ReasonNotFound}},
	{apierrors.IsForbidden, outcome{action: actionWait, reason: "Forbidden"}},
	{apierrors.IsMethodNotSupported, outcome{action: actionWait, reason: "MethodNotAllowed"}},
	{apierrors.IsUnauthorized, outcome{reason: reasonUnauthorized}},
	{apierrors.IsTooManyRequests, outcome{reason: "TooManyRequests"}},
	{apierrors.IsTimeout, outcome{reason: reasonTimeout}},
	{apierrors.IsServerTimeout, outcome{reason: reasonTimeout}},
	{client.IsServerError, outcome{reason: "ServerError"}},
	{client.IsBadRequest, outcome{reason: "BadRequest"}},
	{client.IsUntrusted, outcome{reason: "UntrustedServer"}},
	{is(syscall.ECONNREFUSED), outcome{reason: "ConnectionRefused"}},
	{client.IsConnectionLost, outcome{reason: "ConnectionLost"}},
	{is(context.DeadlineExceeded), outcome{reason: reasonTimeout}},
	{client.IsTimeout, outcome{reason: reasonTimeout}},
	{client.IsMalformed, outcome{reason: "BadFrame"}},
}

// classify says what follows from a session's error. Every error of the API concepts page ("410 Gone responses",
// "Efficient detection of changes") and of the connection is among the outcomes; what is unknown is tried again.
func classify(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return outcome{action: actionStop, reason: "Stopped"}
	}
	// What kept the cluster from being confirmed is to retry: nothing of the answer was used.
	if u := new(client.UnconfirmedError); errors.As(err, &u) {
		if client.IsUnreadable(u.Reason) {
			return outcome{reason: reasonClusterUnknown}
		}
		o := classify(ctx, u.Reason)
		return outcome{reason: o.reason, after: o.after}
	}
	o := outcome{reason: "Error"}
	for _, c := range outcomes {
		if c.matches(err) {
			o = c.outcome
			break
		}
	}
	if o.action == actionRetry {
		o.after = client.RetryAfter(err)
	}
	return o
}

// ReasonOf returns the reason that a stream would show for an error of a request.
func ReasonOf(err error) string { return classify(context.Background(), err).reason }

// isOurs reports whether a reason is for this daemon's user to mend, by other rights, credentials or another config.
// Any other reason, also one that is new, is the server's.
func isOurs(reason string, t client.Target) bool {
	switch reason {
	case "Forbidden", reasonUnauthorized, "UntrustedServer", reasonClusterUnknown:
		return true
	case "BadRequest":
		return t.FieldSelector != "" // by a field that the resource does not have, say
	}
	return false
}

// BlamesDiscovery reports whether a reason may be that the server has come to serve another kind under the name, or in
// another scope.
func BlamesDiscovery(reason string) bool {
	return reason == reasonOtherKind || reason == reasonOtherScope
}

// FailureOf describes a failed request of a stream, or of none, to package outage, and reports whether the server may
// be what fails: it could not be reached, or does not accept the credentials. Rights are of single resources.
func FailureOf(stream string, err error) (f outage.Failure, serverFails bool) {
	reason := ReasonOf(err)
	unreachable, answered := client.IsUnreachable(err)
	f = outage.Failure{
		Stream: stream, Reason: reason, Answered: answered,
		Refused: isOurs(reason, client.Target{}) && answered, Err: err,
	}
	return f, unreachable || reason == reasonUnauthorized
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// refusesStreamedList reports whether the answer to sendInitialEvents means that the server does not support it, or
// cannot now: 422 without the feature gate WatchList, 400 from servers that check their parameters, 500 in front of an
// etcd that reports no progress (older than 3.4.31, or 3.5.0 to 3.5.12), a watch without the bookmark that ends the
// list from those that ignore it.
func refusesStreamedList(err error) bool {
	return client.IsBadRequest(err) || client.IsInternal(err) || client.IsMalformed(err) ||
		errors.Is(err, errNoListEnd) || errors.Is(err, errIncomplete)
}

// blamesForm reports whether a list may have failed because of the form that it was asked for in. What never reached
// the server has not, nor what this identity may not read, in whatever form.
func blamesForm(err error) bool {
	return !errors.Is(err, errStore) && !errors.Is(err, syscall.ECONNREFUSED) &&
		!client.IsWaiting(err) && !apierrors.IsUnauthorized(err)
}

// refusesShards reports whether the server does not take the shard selector of a target that has one, as one may do
// that has another form of it: it is an alpha feature. kube-apiserver answers 500, "invalid shard selector". The word
// alone proves nothing: it may be a part of the name of a kind or of a webhook.
func refusesShards(t client.Target, err error) bool {
	if t.Shard == (client.Shard{}) || !client.IsBadRequest(err) && !client.IsInternal(err) {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "shardselector") || strings.Contains(text, "shard selector")
}

// blamesPosition reports whether a watch may have failed because of the position that it was to begin at. Servers
// answer a malformed one with 422, 400 or 500.
func blamesPosition(err error) bool {
	return client.IsBadRequest(err) || client.IsInternal(err) || client.IsMalformed(err) ||
		apierrors.HasStatusCause(err, v1.CauseTypeResourceVersionTooLarge)
}

func isUnreadable(err error) bool { return errors.As(err, new(*detour.Error)) }
