// Package failure says what follows from a failed request of a stream, or from the end of one of its sessions.
package failure

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
	"kubejournal/internal/record/takeover"
)

// Action is what follows from the end of a session.
type Action int

// The actions.
const (
	Retry  Action = iota // open the watch again at the same position, after a pause
	Relist               // the position is not valid any more
	Wait                 // the resource is not there, or not for us: pending
	Stop                 // the stream is stopped
)

// Outcome is why a session ended and what to do.
type Outcome struct {
	Action Action
	Reason string        // one CamelCase word, for logs, metrics and GAP lines
	After  time.Duration // at least this long, as the server asks (Retry-After)
	Clean  bool          // the server ended a healthy watch: no need to back off
	Habit  bool          // the server contradicts itself or the API, and may do so each time
}

// Gap is what the GAP line says of a position that is lost for this reason.
func (o Outcome) Gap() line.Reason {
	switch reason := line.Reason(o.Reason); reason {
	case line.Expired, line.PositionAheadOfServer, line.PositionRefused:
		return reason
	}
	return line.PositionRefused // the server does not watch from there as it should
}

// Reasons of what goes wrong, beside those of GAP lines.
const (
	ReasonTimeout        = "Timeout"          // no answer in time
	ReasonSilent         = "Silent"           // a watch has brought nothing for too long
	ReasonNotFound       = "NotFound"         // the server does not have it
	ReasonStandby        = "Standby"          // another replica writes
	reasonOtherKind      = "OtherKind"        // an object is of another kind than discovery has said
	reasonOtherScope     = "OtherScope"       // or has no namespace, where it must have one
	reasonUnauthorized   = "Unauthorized"     // the server does not accept the credentials
	reasonUnreadable     = "ObjectUnreadable" // a list fails for the sake of objects in it
	reasonClusterUnknown = "ClusterUnknown"   // the server does not let its cluster's uid be read any more
)

// Errors by which a session says why it ended, where no server did.
var (
	ErrAhead     = errors.New("the position is ahead of the server's version")
	ErrRefused   = errors.New("the server does not watch from this position")
	ErrNoListEnd = errors.New("the list does not come to its end")
	ErrNotExact  = errors.New("the server does not list at an exact version")

	// ErrStore says that the checkpoint cannot be read: no stream can continue.
	ErrStore = errors.New("read checkpoint")
)

// Contradictions that a session ends with.
var (
	ErrStartsOver = errors.New("the watch does not continue from its position: it sends what was there before")
	ErrOutOfOrder = errors.New("the watch sends an event whose version does not come after that of the one before")
	ErrMissed     = errors.New("the watch has left out an event")
	ErrIncomplete = errors.New("the list leaves out an object that the server has")
	ErrMiscounted = errors.New("the list has fewer objects than its pages have counted")
	ErrListBehind = errors.New("the list has an object at a later version than its own")
)

// outcomes are tried in their order.
var outcomes = []struct {
	matches func(error) bool
	Outcome
}{
	{is(client.ErrWatchEnded), Outcome{Reason: "Closed", Clean: true}},
	{is(ErrAhead), Outcome{Action: Relist, Reason: string(line.PositionAheadOfServer), Habit: true}},
	{is(ErrRefused), Outcome{Action: Relist, Reason: string(line.PositionRefused)}},
	{is(client.ErrSilent), Outcome{Reason: ReasonSilent}},
	{is(ErrStartsOver), Outcome{Action: Relist, Reason: "WatchStartsOver", Habit: true}},
	{is(ErrOutOfOrder), Outcome{Action: Relist, Reason: "EventsOutOfOrder", Habit: true}},
	{is(ErrMissed), Outcome{Action: Relist, Reason: "EventsLeftOut", Habit: true}},
	{is(ErrMiscounted), Outcome{Reason: "ListIncomplete", Habit: true}},
	{is(ErrIncomplete), Outcome{Reason: "ListIncomplete", Habit: true}},
	{is(ErrListBehind), Outcome{Reason: "ListVersionTooLow", Habit: true}},
	{is(decode.ErrOtherKind), Outcome{Reason: reasonOtherKind, Habit: true}},
	{is(decode.ErrOtherScope), Outcome{Reason: reasonOtherScope, Habit: true}},
	{is(decode.ErrUnselected), Outcome{Reason: "SelectorIgnored", Habit: true}},
	{IsUnreadable, Outcome{Reason: reasonUnreadable}},
	{is(ErrNoListEnd), Outcome{Reason: "NoListEnd"}},
	{is(ErrNotExact), Outcome{Reason: "NotExact"}},
	{is(takeover.ErrStandby), Outcome{Reason: ReasonStandby}},
	{is(client.ErrNoVersion), Outcome{Reason: "NoResourceVersion", Habit: true}},
	{client.IsExpired, Outcome{Action: Relist, Reason: string(line.Expired)}},
	{apierrors.IsNotFound, Outcome{Action: Wait, Reason: ReasonNotFound}},
	{apierrors.IsForbidden, Outcome{Action: Wait, Reason: "Forbidden"}},
	{apierrors.IsMethodNotSupported, Outcome{Action: Wait, Reason: "MethodNotAllowed"}},
	{apierrors.IsUnauthorized, Outcome{Reason: reasonUnauthorized}},
	{apierrors.IsTooManyRequests, Outcome{Reason: "TooManyRequests"}},
	{apierrors.IsTimeout, Outcome{Reason: ReasonTimeout}},
	{apierrors.IsServerTimeout, Outcome{Reason: ReasonTimeout}},
	{client.IsServerError, Outcome{Reason: "ServerError"}},
	{client.IsBadRequest, Outcome{Reason: "BadRequest"}},
	{client.IsUntrusted, Outcome{Reason: "UntrustedServer"}},
	{is(syscall.ECONNREFUSED), Outcome{Reason: "ConnectionRefused"}},
	{client.IsConnectionLost, Outcome{Reason: "ConnectionLost"}},
	{is(context.DeadlineExceeded), Outcome{Reason: ReasonTimeout}},
	{client.IsTimeout, Outcome{Reason: ReasonTimeout}},
	{client.IsMalformed, Outcome{Reason: "BadFrame"}},
}

// Classify says what follows from a session's error. Every error of the API concepts page ("410 Gone responses",
// "Efficient detection of changes") and of the connection is among the outcomes; what is unknown is tried again.
func Classify(ctx context.Context, err error) Outcome {
	if ctx.Err() != nil {
		return Outcome{Action: Stop, Reason: "Stopped"}
	}
	// What kept the cluster from being confirmed is to retry: nothing of the answer was used.
	if u := new(client.UnconfirmedError); errors.As(err, &u) {
		if client.IsUnreadable(u.Reason) {
			return Outcome{Reason: reasonClusterUnknown}
		}
		o := Classify(ctx, u.Reason)
		return Outcome{Reason: o.Reason, After: o.After}
	}
	o := Outcome{Reason: "Error"}
	for _, c := range outcomes {
		if c.matches(err) {
			o = c.Outcome
			break
		}
	}
	if o.Action == Retry {
		o.After = client.RetryAfter(err)
	}
	return o
}

// ReasonOf returns the reason that a stream would show for an error of a request.
func ReasonOf(err error) string { return Classify(context.Background(), err).Reason }

// IsOurs reports whether a reason is for this daemon's user to mend, by other rights, credentials or another config.
// Any other reason, also one that is new, is the server's.
func IsOurs(reason string, t client.Target) bool {
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

// Of describes a failed request of a stream, or of none, to package outage, and reports whether the server may
// be what fails: it could not be reached, or does not accept the credentials. Rights are of single resources.
func Of(stream string, err error) (f outage.Failure, serverFails bool) {
	reason := ReasonOf(err)
	unreachable, answered := client.IsUnreachable(err)
	f = outage.Failure{
		Stream: stream, Reason: reason, Answered: answered,
		Refused: IsOurs(reason, client.Target{}) && answered, Err: err,
	}
	return f, unreachable || reason == reasonUnauthorized
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// RefusesStreamedList reports whether the answer to sendInitialEvents means that the server does not support it, or
// cannot now: 422 without the feature gate WatchList, 400 from servers that check their parameters, 500 in front of an
// etcd that reports no progress (older than 3.4.31, or 3.5.0 to 3.5.12), a watch without the bookmark that ends the
// list from those that ignore it.
func RefusesStreamedList(err error) bool {
	return client.IsBadRequest(err) || client.IsInternal(err) || client.IsMalformed(err) ||
		errors.Is(err, ErrNoListEnd) || errors.Is(err, ErrIncomplete)
}

// BlamesForm reports whether a list may have failed because of the form that it was asked for in. What never reached
// the server has not, nor what this identity may not read, in whatever form.
func BlamesForm(err error) bool {
	return !errors.Is(err, ErrStore) && !errors.Is(err, syscall.ECONNREFUSED) &&
		!client.IsWaiting(err) && !apierrors.IsUnauthorized(err)
}

// RefusesShards reports whether the server does not take the shard selector of a target that has one, as one may do
// that has another form of it: it is an alpha feature. kube-apiserver answers 500, "invalid shard selector". The word
// alone proves nothing: it may be a part of the name of a kind or of a webhook.
func RefusesShards(t client.Target, err error) bool {
	if t.Shard == (client.Shard{}) || !client.IsBadRequest(err) && !client.IsInternal(err) {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "shardselector") || strings.Contains(text, "shard selector")
}

// BlamesPosition reports whether a watch may have failed because of the position that it was to begin at. Servers
// answer a malformed one with 422, 400 or 500.
func BlamesPosition(err error) bool {
	return client.IsBadRequest(err) || client.IsInternal(err) || client.IsMalformed(err) ||
		apierrors.HasStatusCause(err, v1.CauseTypeResourceVersionTooLarge)
}

// IsUnreadable reports whether a list was read but for its holes.
func IsUnreadable(err error) bool { return errors.As(err, new(*detour.Error)) }
