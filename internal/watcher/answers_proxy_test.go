package watcher_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// request is a kind of request that a daemon makes.
type request string

const (
	askVersion  request = "version"  // list, limit=1
	askFirst    request = "page"     // list, first page
	askLater    request = "later"    // list, continue
	askWhole    request = "whole"    // list without a limit, once pages have expired
	askStreamed request = "streamed" // watch, sendInitialEvents=true
	askWatch    request = "watch"    // watch from a position
	askIdentity request = "identity" // get of namespace kube-system
	askServed   request = "served"   // discovery
)

// listRequests are those that bring objects.
var listRequests = []request{askFirst, askLater, askWhole, askStreamed}

// journalled are the resources whose requests a proxy tampers with; those of others pass.
var journalled = []string{"configmaps", "secrets"}

// requestOf returns the kind of a request, and the resource that it is for; "" for others.
func requestOf(r *http.Request) (kind request, resource string) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		return askIdentity, ""
	case parts[0] == "api" && len(parts) <= 2, parts[0] == "apis" && len(parts) <= 3:
		return askServed, ""
	}
	resource, q := path.Base(r.URL.Path), r.URL.Query()
	switch {
	case !slices.Contains(journalled, resource):
		return "", resource
	case q.Get("sendInitialEvents") != "":
		return askStreamed, resource
	case q.Get("watch") != "":
		return askWatch, resource
	case q.Get("limit") == "":
		return askWhole, resource
	case q.Get("continue") != "":
		return askLater, resource
	case q.Get("limit") == "1":
		return askVersion, resource
	}
	return askFirst, resource
}

// badProxy is a proxy on the way to the server. It answers some requests by itself, in HTTP/1.1 as text: what a client
// makes of a broken answer is for net/http to say.
type badProxy struct {
	server http.RoundTripper // the real one
	own    *http.Transport   // connections to the proxy itself
	page   string            // the limit that pages of a list are asked for with

	mu       sync.Mutex
	requests []request // to answer; guarded by mu
	answer   *answer   // guarded by mu
	left     int       // how many more; -1 for any number; guarded by mu
	given    int       // guarded by mu
	asked    []arrival // guarded by mu

	mended, closed context.Context // of the proxy
	mend, close    context.CancelFunc
}

// arrival is a request that was made.
type arrival struct {
	kind     request
	resource string
	at       time.Time
}

func newBadProxy() *badProxy {
	p := &badProxy{page: "2"}
	p.own = &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go p.serve(server)
		return client, nil
	}}
	p.closed, p.close = context.WithCancel(context.Background())
	p.mended, p.mend = context.WithCancel(p.closed)
	return p
}

// WrappedRoundTripper is for client-go.
func (p *badProxy) WrappedRoundTripper() http.RoundTripper { return p.server }

// through is a world's wrap.
func (p *badProxy) through(server http.RoundTripper) http.RoundTripper {
	p.server = server
	return p
}

// tamper gives an answer to the next n requests of some kinds; -1 is all of them until repair.
func (p *badProxy) tamper(a *answer, n int, requests ...request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.requests, p.left, p.asked = a, requests, n, nil
}

// repair ends it. What was promised slowly or without an end breaks off; what hangs still hangs.
func (p *badProxy) repair() {
	p.mu.Lock()
	p.left = 0
	p.mu.Unlock()
	p.mend()
}

// answers is how many requests were tampered with.
func (p *badProxy) answers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.given
}

// count is how many requests were made since tamper, of one kind or for one resource.
func (p *badProxy) count(which func(arrival) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.asked {
		if which(a) {
			n++
		}
	}
	return n
}

// take notes a request, and returns the answer that is not the server's.
func (p *badProxy) take(r *http.Request) *answer {
	kind, resource := requestOf(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Response == nil { // not one that follows a redirect
		p.asked = append(p.asked, arrival{kind, resource, time.Now()})
	}
	// Another cluster's namespace goes with its other answers.
	mine := slices.Contains(p.requests, kind) || p.answer != nil && p.answer.cluster != nil && kind == askIdentity
	if p.left == 0 || !mine {
		return nil
	}
	if p.left > 0 {
		p.left--
	}
	if slices.Contains(p.requests, kind) {
		p.given++
	}
	return p.answer
}

// RoundTrip implements http.RoundTripper.
func (p *badProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == "nowhere.invalid" {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}}
	}
	if q := r.URL.Query(); q.Get("limit") == "500" {
		r = r.Clone(r.Context())
		q.Set("limit", p.page)
		r.URL.RawQuery = q.Encode()
	}
	if r.URL.Path == "/login" {
		return p.own.RoundTrip(r)
	}
	a := p.take(r)
	switch {
	case a == nil:
		return p.server.RoundTrip(r)
	case a.cluster != nil:
		return a.cluster().RoundTrip(r)
	case a.refused:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return p.own.RoundTrip(r)
}

// serve answers the one request of a connection.
func (p *badProxy) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	ctx, gone := context.WithCancel(p.closed)
	defer gone()
	go func() {
		defer gone()
		_, _ = io.Copy(io.Discard, in) // ends when the client closes
	}()
	x := &exchange{proxy: p, conn: conn, r: r, ctx: ctx}
	if x.kind, _ = requestOf(r); r.URL.Path == "/login" {
		x.whole(http.StatusOK, "text/html", loginPage)
		return
	}
	p.mu.Lock()
	a := p.answer
	p.mu.Unlock()
	a.write(x)
	if x.real != nil {
		x.real.Body.Close()
	}
}

const loginPage = "<!DOCTYPE html>\n<html><body>Please log in</body></html>\n"

// exchange is one request at the proxy, and the connection that its answer goes to. What is written after the
// client's back is lost, as on any connection.
type exchange struct {
	proxy *badProxy
	conn  net.Conn
	r     *http.Request
	kind  request
	ctx   context.Context // ends when the client closes the connection
	real  *http.Response  // the server's answer, once it was asked
}

func (x *exchange) send(text string) { _, _ = io.WriteString(x.conn, text) }

// head sends the head of an answer; header is "Name: value" each.
func (x *exchange) head(code int, header ...string) {
	x.send(fmt.Sprintf("HTTP/1.1 %03d %s\r\n%s\r\n\r\n", code, http.StatusText(code), strings.Join(header, "\r\n")))
}

// whole sends an answer with all that belongs to it.
func (x *exchange) whole(code int, contentType, body string, header ...string) {
	header = append(header, fmt.Sprintf("Content-Length: %d", len(body)))
	if contentType != "" {
		header = append(header, "Content-Type: "+contentType)
	}
	x.head(code, header...)
	x.send(body)
}

// begin sends the head of an answer of unknown length.
func (x *exchange) begin(header ...string) {
	if !slices.ContainsFunc(header, func(h string) bool { return strings.HasPrefix(h, "Content-Type:") }) {
		header = append(header, "Content-Type: "+x.contentType())
	}
	x.head(http.StatusOK, append(header, "Transfer-Encoding: chunked")...)
}

func (x *exchange) chunk(b []byte) {
	if len(b) > 0 {
		x.send(fmt.Sprintf("%x\r\n%s\r\n", len(b), b))
	}
}

func (x *exchange) end() { x.send("0\r\n\r\n") }

// hang keeps the connection open and says nothing more.
func (x *exchange) hang() { <-x.ctx.Done() }

// pause waits, and reports whether the client is still there and the proxy not repaired.
func (x *exchange) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-x.ctx.Done():
	case <-x.proxy.mended.Done():
	}
	return false
}

// ask asks the server, once: for what was asked, or with change for something else.
func (x *exchange) ask(change func(map[string][]string)) error {
	if x.real != nil {
		return nil
	}
	r := x.r.Clone(x.ctx)
	r.RequestURI, r.URL.Scheme, r.URL.Host, r.Close = "", "http", x.r.Host, false
	r.Header.Del("Connection")
	r.Header.Del("Accept-Encoding")
	if change != nil {
		q := r.URL.Query()
		change(q)
		r.URL.RawQuery = q.Encode()
	}
	var err error
	x.real, err = x.proxy.server.RoundTrip(r) //nolint:bodyclose // serve closes it
	return err
}

// contentType is that of the server's answer, where it is not always the same.
func (x *exchange) contentType() string {
	if x.kind == askServed && x.ask(nil) == nil {
		return x.real.Header.Get("Content-Type")
	}
	return "application/json"
}

// isWatch reports whether the answer is a sequence of events.
func (x *exchange) isWatch() bool { return x.kind == askWatch || x.kind == askStreamed }

// pieces calls yield with the parts of the server's answer until that returns false: events of a watch as they come;
// of a list what is before the first object, each object, and what is behind the last; two halves of anything else.
func (x *exchange) pieces(change func(map[string][]string), yield func([]byte) bool) {
	if x.ask(change) != nil {
		return
	}
	if x.isWatch() {
		for in := bufio.NewReader(x.real.Body); ; {
			event, err := in.ReadBytes('\n')
			if err != nil || !yield(event) {
				return
			}
		}
	}
	body, err := io.ReadAll(x.real.Body)
	if err != nil {
		return
	}
	for _, p := range split(body) {
		if !yield(p) {
			return
		}
	}
}

// listBody is a list as the server sends it.
type listBody struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   map[string]any    `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
}

func split(body []byte) [][]byte {
	var l listBody
	if err := json.Unmarshal(body, &l); err != nil || l.Items == nil {
		half := len(body) / 2
		return [][]byte{body[:half], body[half:]}
	}
	meta, _ := json.Marshal(l.Metadata)
	all := [][]byte{fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, l.Kind, l.APIVersion, meta)}
	for i, item := range l.Items {
		if i > 0 {
			item = append([]byte{','}, item...)
		}
		all = append(all, item)
	}
	return append(all, []byte("]}\n"))
}

// relay sends the server's answer, each piece as edit returns it; nil leaves them as they are.
func (x *exchange) relay(edit func([]byte) []byte, header ...string) {
	x.begin(header...)
	x.pieces(nil, func(p []byte) bool {
		if edit != nil {
			p = edit(p)
		}
		x.chunk(p)
		return x.ctx.Err() == nil && x.proxy.mended.Err() == nil
	})
	x.end()
}

// alter sends the server's answer with other metadata of the list and other objects. What a watch says of itself it says in
// bookmarks.
func (x *exchange) alter(meta func(map[string]any), object func(map[string]any)) {
	edit := func(m map[string]any, how func(map[string]any)) {
		if m != nil && how != nil {
			how(m)
		}
	}
	x.relay(func(p []byte) []byte {
		if x.isWatch() {
			var e struct {
				Type   string         `json:"type"`
				Object map[string]any `json:"object"`
			}
			if json.Unmarshal(p, &e) != nil {
				return p
			}
			if e.Type == "BOOKMARK" {
				m, _ := e.Object["metadata"].(map[string]any)
				edit(m, meta)
			} else if e.Type != "ERROR" {
				edit(e.Object, object)
			}
			b, _ := json.Marshal(e)
			return append(b, '\n')
		}
		text := string(p)
		switch {
		case strings.HasSuffix(text, `"items":[`):
			var l listBody
			if json.Unmarshal([]byte(text+"]}"), &l) != nil {
				return p
			}
			edit(l.Metadata, meta)
			l.Items = []json.RawMessage{}
			b, _ := json.Marshal(l)
			return bytes.TrimSuffix(b, []byte("]}"))
		case strings.HasPrefix(text, "]"):
			return p
		}
		rest, comma := strings.CutPrefix(text, ",")
		var o map[string]any
		if json.Unmarshal([]byte(rest), &o) != nil {
			return p
		}
		edit(o, object)
		b, _ := json.Marshal(o)
		if comma {
			b = append([]byte{','}, b...)
		}
		return b
	})
}

// phase is how far an answer comes.
type phase string

const (
	beforeHead   phase = "before the headers"
	afterHead    phase = "after the headers"
	withinObject phase = "in the first object"
	afterObject  phase = "after the first object"
	beforeBrace  phase = "before the last brace"
	afterAll     phase = "after the last byte"
)

// upTo sends the server's answer up to a phase.
func (x *exchange) upTo(ph phase) {
	if ph == beforeHead {
		return
	}
	x.begin()
	n := 0
	var held []byte // the last piece, which may be cut
	x.pieces(nil, func(p []byte) bool {
		if ph == afterHead {
			return false
		}
		x.chunk(held)
		held = bytes.Clone(p)
		n++
		isObject := x.isWatch() || n == 2 || x.kind == askIdentity || x.kind == askServed
		early := isObject && (ph == withinObject || ph == afterObject)
		return !early && !bytes.Contains(p, []byte("k8s.io/initial-events-end"))
	})
	switch ph {
	case withinObject:
		held = held[:len(held)/2]
	case beforeBrace:
		held = held[:max(0, bytes.LastIndexByte(held, '}'))]
	}
	x.chunk(held)
}
