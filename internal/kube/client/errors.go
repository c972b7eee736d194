package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
