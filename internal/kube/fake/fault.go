package fake

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is one request as it came in.
type Request struct {
	Time time.Time
	// Verb is that of the API (get, list, watch, create, update, patch, delete,
	// deletecollection), or "" for a path that is no resource.
	Verb                     string
	Group, Version, Resource string
	Namespace, Name          string
	Path                     string
	Query                    url.Values
	Header                   http.Header
	// Status is 0 until the answer has begun.
	Status int
}

// Fault is what goes wrong with one request.
type Fault struct {
	// Delay passes before anything else happens.
	Delay time.Duration
	// Hang takes the request and never answers.
	Hang bool
	// Status is answered in place of the real answer. Message is that of the
	// Status object; Body, when set, is sent as it stands in place of one.
	Status     int
	Reason     metav1.StatusReason
	Cause      metav1.CauseType
	Message    string
	RetryAfter int // seconds; sent with 429 and 5xx
	Body       string
	// CutAfterBytes cuts the connection after that many bytes of the body.
	CutAfterBytes int

	// The rest is for watches.

	// Stream happens once AfterEvents events have been sent (bookmarks count).
	// With it Status, Reason and Message tell of the ERROR event and leave the
	// answer's own status alone.
	Stream      StreamFault
	AfterEvents int
	// What streamed initial events may be like.
	DuplicateInitialEvents, ReverseInitialEvents, OmitInitialEventsEnd bool
	// DropBookmarks leaves out all bookmarks but the one that ends the initial
	// events.
	DropBookmarks bool
}

// StreamFault is a way for a watch that has begun to go wrong.
type StreamFault uint8

const (
	// NoStreamFault lets the stream continue.
	NoStreamFault StreamFault = iota
	// Gone sends the ERROR event of an expired version and ends the stream.
	Gone
	// Failed sends an ERROR event with the fault's Status and ends the stream.
	Failed
	// CutMidEvent cuts the connection in the middle of the next event.
	CutMidEvent
	// Cut cuts the connection between two events.
	Cut
	// End ends the stream in good order.
	End
	// Silent sends nothing more and keeps the connection open.
	Silent
	// Garbage sends text that is not JSON and ends the stream.
	Garbage
)

// SetFault asks choose for a fault at every request; nil means none. It is
// called from the goroutines of requests, without a lock.
func (s *Server) SetFault(choose func(Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = choose
}

// answer writes the answer that the fault puts in place of the real one, and
// reports whether there was one.
func (f *Fault) answer(w http.ResponseWriter, r *http.Request) bool {
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Hang {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 || f.Stream != NoStreamFault {
		return false
	}
	if f.Body != "" {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(f.Status)
		w.Write([]byte(f.Body))
		return true
	}
	writeStatus(w, f.status())
	return true
}

// usualReason is the reason that the server gives with a status code.
var usualReason = map[int]metav1.StatusReason{
	http.StatusBadRequest:            metav1.StatusReasonBadRequest,
	http.StatusUnauthorized:          metav1.StatusReasonUnauthorized,
	http.StatusForbidden:             metav1.StatusReasonForbidden,
	http.StatusNotFound:              metav1.StatusReasonNotFound,
	http.StatusConflict:              metav1.StatusReasonConflict,
	http.StatusGone:                  metav1.StatusReasonExpired,
	http.StatusRequestEntityTooLarge: metav1.StatusReasonRequestEntityTooLarge,
	http.StatusUnprocessableEntity:   metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:       metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError:   metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:    metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:        metav1.StatusReasonTimeout,
}

func (f *Fault) status() metav1.Status {
	st := statusFor(f.Status, f.Reason, f.Message)
	if st.Reason == "" {
		st.Reason = usualReason[f.Status]
	}
	if st.Message == "" {
		st.Message = http.StatusText(f.Status)
	}
	if f.RetryAfter > 0 {
		st.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(f.RetryAfter)}
	}
	if f.Cause != "" {
		st.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(f.RetryAfter),
			Causes: []metav1.StatusCause{{Type: f.Cause}}}
	}
	return st
}

// recorder notes the status of an answer and cuts it where a fault says so.
type recorder struct {
	http.ResponseWriter
	server *Server
	index  int // of the request in Server.requests
	begun  bool
	left   int // bytes until the cut; -1 for none
}

func (w *recorder) WriteHeader(code int) {
	if !w.begun {
		w.begun = true
		w.server.mu.Lock()
		w.server.requests[w.index].Status = code
		w.server.notify()
		w.server.mu.Unlock()
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *recorder) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.left < 0 || len(p) < w.left {
		n, err := w.ResponseWriter.Write(p)
		if w.left >= 0 {
			w.left -= n
		}
		return n, err
	}
	w.ResponseWriter.Write(p[:w.left])
	w.Flush()
	panic(http.ErrAbortHandler)
}

// Flush sends what has been written so far.
func (w *recorder) Flush() {
	// An error means that the client has gone, which the next write finds too.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}
