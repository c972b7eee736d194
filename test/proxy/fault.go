package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Fault says what happens to a request. The zero value is none. Durations and bytes count from the request's beginning,
// also where the fault was set later.
type Fault struct {
	Match  func(*http.Request) bool // which requests; nil: all of them
	Answer http.Handler             // in the server's place, of requests to come
	Delay  time.Duration            // before a request continues

	CutAfter       time.Duration // the request is broken off then
	CutBytes       int64         // the answer is broken off after so many bytes of its body
	Hold           bool          // the answer goes silent, after HoldBytes of its body, until the fault ends
	HoldBytes      int64
	BytesPerSecond int64 // of a body
}

// Streamed matches requests for a list that is streamed as the initial events of a watch.
func Streamed(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// Page answers with this status, content type and body. A retryAfter other than "" is in the header.
func Page(status int, contentType, retryAfter, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may have gone
	})
}

// BadGateway is what proxies answer for a server that they cannot reach.
var BadGateway = Page(http.StatusBadGateway, "text/html", "", "<html><head><title>502 Bad Gateway</title></head>\n"+
	"<body><center><h1>502 Bad Gateway</h1></center></body></html>\n")

// exchange is a request under way and its answer.
type exchange struct {
	request *http.Request
	cancel  context.CancelFunc // of the request
	began   time.Time

	mu      sync.Mutex
	current Fault         // guarded by mu, as the rest
	changed chan struct{} // closed when current changes
	timer   *time.Timer   // cuts; nil where nothing does
}

func newExchange(r *http.Request, cancel context.CancelFunc) *exchange {
	return &exchange{request: r, cancel: cancel, began: time.Now(), changed: make(chan struct{})}
}

// set changes the fault in effect.
func (e *exchange) set(f Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if f.CutAfter > 0 {
		e.timer = time.AfterFunc(time.Until(e.began.Add(f.CutAfter)), e.cancel)
	}
	e.current = f
	close(e.changed)
	e.changed = make(chan struct{})
}

// fault is the one in effect; changed is closed when that ends.
func (e *exchange) fault() (f Fault, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current, e.changed
}

// wait waits for over, where it is not nil, or the fault's end. false says that the request was broken off.
func (e *exchange) wait(over <-chan time.Time, changed <-chan struct{}) bool {
	select {
	case <-over:
	case <-changed:
	case <-e.request.Context().Done():
	}
	return e.request.Context().Err() == nil
}

// delay is the Delay of the fault.
func (e *exchange) delay() bool {
	f, changed := e.fault()
	return f.Delay == 0 || e.wait(time.After(time.Until(e.began.Add(f.Delay))), changed)
}

// body is an answer's. What the server has sent is read first, and then continues as far as the fault of that moment
// lets it.
type body struct {
	io.ReadCloser
	exchange *exchange
	buffer   [16 << 10]byte
	rest     []byte // of buffer: read and not passed on
	end      error  // behind rest
	passed   int64
}

var errCut = errors.New("cut")

func (b *body) Read(p []byte) (int, error) {
	if len(b.rest) == 0 && b.end == nil {
		var n int
		n, b.end = b.ReadCloser.Read(b.buffer[:])
		b.rest = b.buffer[:n]
	}
	allowed, ok := b.allow(int64(min(len(p), len(b.rest))))
	if !ok || b.exchange.request.Context().Err() != nil { // of what was broken off, no end is a good one
		b.exchange.cancel()
		return 0, errCut
	}
	n := copy(p, b.rest[:allowed])
	b.rest, b.passed = b.rest[n:], b.passed+int64(n)
	if len(b.rest) == 0 {
		return n, b.end
	}
	return n, nil
}

const throttleStep = 100 * time.Millisecond

// allow returns how many of n bytes may continue, once any may; for no bytes, whether the end may. false is a cut.
func (b *body) allow(n int64) (int64, bool) {
	for {
		f, changed := b.exchange.fault()
		if f.CutBytes > 0 && n > 0 {
			if b.passed >= f.CutBytes {
				return 0, false
			}
			n = min(n, f.CutBytes-b.passed)
		}
		if f.Hold {
			if b.passed >= f.HoldBytes {
				if !b.exchange.wait(nil, changed) {
					return 0, false
				}
				continue
			}
			n = min(n, f.HoldBytes-b.passed)
		}
		if f.BytesPerSecond > 0 && n > 0 {
			n = min(n, max(1, f.BytesPerSecond*int64(throttleStep)/int64(time.Second)))
			if !b.exchange.wait(time.After(throttleStep), changed) {
				return 0, false
			}
		}
		return n, true
	}
}
