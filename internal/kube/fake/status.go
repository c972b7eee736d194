package fake

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf is the Status that an error is answered with.
func statusOf(err error) metav1.Status {
	var se *apierrors.StatusError
	if !errors.As(err, &se) {
		// The server gives no reason for what is not an API error of its own.
		return statusFor(http.StatusInternalServerError, "", err.Error())
	}
	st := se.ErrStatus
	st.Kind, st.APIVersion = "Status", "v1"
	return st
}

func statusFor(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reason,
		Message:  message,
	}
}

// failure is an error that is answered with this Status.
func failure(code int, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: statusFor(code, reason, message)}
}

func writeError(w http.ResponseWriter, err error) { writeStatus(w, statusOf(err)) }

func writeStatus(w http.ResponseWriter, st metav1.Status) {
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	writeJSON(w, int(st.Code), marshal(st))
}

func writeJSON(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(body) // may be shared: nothing may be appended to it
	w.Write([]byte{'\n'})
}

func expired(version, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

// compactedPage carries a token with which the rest can still be listed, at the
// newest version and so inconsistent with the pages before.
func compactedPage(token string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list " +
		"result. You can start a new list without the continue parameter, or use the continue token in this response " +
		"to retrieve the remainder of the results. Continuing with the provided token results in an " +
		"inconsistent list - objects that were created, modified, or deleted between the time the first chunk was " +
		"returned and now may show up in the list.")
	err.ErrStatus.ListMeta.Continue = token
	return err
}

func tooLarge(version, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: "Too large resource version",
	}}
	return err
}
