package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errNoPath says that nothing is served at a path: the answer is the text that a Kubernetes API server has for it.
var errNoPath = errors.New("404 page not found")

// errGone says that a client does not take its answer.
var errGone = errors.New("the client has gone")

func gone(err error) error {
	if err != nil {
		return errors.Join(errGone, err)
	}
	return nil
}

// failure is an answer that is a Status.
type failure struct{ status metav1.Status }

func (f *failure) Error() string { return f.status.Message }

func failed(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &failure{metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}

func badRequest(format string, args ...any) error {
	return &failure{apierrors.NewBadRequest(fmt.Sprintf(format, args...)).Status()}
}

func notFound(k *kind, name string) error {
	of := schema.GroupResource{Group: k.Group, Resource: k.Resource.Resource}
	return &failure{apierrors.NewNotFound(of, name).Status()}
}

// expired is the answer to a version whose history is not there, as the server has it.
func expired(text string) error { return &failure{apierrors.NewResourceExpired(text).Status()} }

// readOnly is the answer to everything that does not read the past.
func (s *Server) readOnly(what string) error {
	return failed(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		"this is the past, %s: it can be read only, and %s is not possible", s.When(), what)
}

// statusOf returns the Status that an error is answered with.
func statusOf(err error) metav1.Status {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.status
	}
	return apierrors.NewInternalError(err).Status()
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errNoPath) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, err)
		return
	}
	status := statusOf(err)
	if status.Code == http.StatusInternalServerError {
		s.notice(err.Error())
	}
	if status.Code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD")
	}
	text := encodeStatus(status)
	if isPretty(r) {
		text = indented(text)
	}
	writeJSON(w, int(status.Code), text)
}

func encodeStatus(status metav1.Status) []byte {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	text, err := json.Marshal(status)
	if err != nil { // a Status has only text
		panic(err)
	}
	return text
}

// writeJSON answers with a document.
func writeJSON(w http.ResponseWriter, code int, text []byte) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	w.WriteHeader(code)
	if !bytes.HasPrefix(text, []byte("{\n")) { // indented: the server leaves out the end of the line
		text = append(text, '\n')
	}
	_, _ = w.Write(text) // a client that has gone
}
