package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a server behind the proxy. At /stream it sends what is put into its channel, at /text a text of 26 bytes.
type backend struct {
	*httptest.Server
	name   string
	stream chan string
	seen   chan *http.Request
}

const text = "abcdefghijklmnopqrstuvwxyz"

func newBackend(t *testing.T, name string) *backend {
	t.Helper()
	b := &backend{name: name, stream: make(chan string), seen: make(chan *http.Request, 100)}
	b.Server = httptest.NewTLSServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.Close)
	return b
}

func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	b.seen <- r
	switch r.URL.Path {
	case "/name":
		_, _ = io.WriteString(w, b.name)
	case "/text":
		_, _ = io.WriteString(w, text)
	case "/stream":
		w.(http.Flusher).Flush()
		for {
			select {
			case s, ok := <-b.stream:
				if !ok {
					return
				}
				_, _ = io.WriteString(w, s)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func (b *backend) server() Server {
	return Server{b.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})}
}

func start(t *testing.T, to Server, o Options) *Proxy {
	t.Helper()
	p, err := Start(to, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func client(t *testing.T, p *Proxy) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.Authority())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// answer is one whose body is closed at the end of the test.
type answer struct {
	status int
	proto  string
	header http.Header
	body   *bufio.Reader
}

func get(t *testing.T, c *http.Client, url string) (answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token")
	response, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	t.Cleanup(func() { response.Body.Close() })
	return answer{response.StatusCode, response.Proto, response.Header, bufio.NewReader(response.Body)}, nil
}

// read reads an answer to its end, or to where it breaks off.
func read(t *testing.T, c *http.Client, url string) (int, string, error) {
	t.Helper()
	a, err := get(t, c, url)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(a.body)
	return a.status, string(content), err
}

// Without a fault the proxy is not to be noticed, in any of its forms.
func TestForward(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		proto   string
	}{
		"TLS":          {Options{}, "HTTP/2.0"},
		"TLS HTTP/1.1": {Options{HTTP1: true}, "HTTP/1.1"},
		"plain":        {Options{Plain: true}, "HTTP/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, "a")
			var observed atomic.Int64
			tc.options.Observe = func(*http.Request) { observed.Add(1) }
			p := start(t, b.server(), tc.options)
			c := client(t, p)
			stream, err := get(t, c, p.URL()+"/stream?watch=1")
			if err != nil || stream.proto != tc.proto {
				t.Fatalf("%+v, %v", stream, err)
			}
			if got := <-b.seen; got.Header.Get("Authorization") != "Bearer token" || got.URL.RawQuery != "watch=1" {
				t.Errorf("the server has got %+v", got)
			}
			for _, want := range []string{"one\n", "two\n"} { // each comes on before there is another
				b.stream <- want
				if got, err := stream.body.ReadString('\n'); got != want || err != nil {
					t.Errorf("%q, %v, want %q", got, err, want)
				}
			}
			close(b.stream)
			if got, err := io.ReadAll(stream.body); len(got) > 0 || err != nil {
				t.Errorf("%q, %v behind the end", got, err)
			}
			if n := observed.Load(); n != 1 {
				t.Errorf("%d requests observed", n)
			}
		})
	}
}

// What faults make of an answer of 26 bytes.
func TestFaults(t *testing.T) {
	b := newBackend(t, "a")
	p := start(t, b.server(), Options{})
	c := client(t, p)
	for name, tc := range map[string]struct {
		fault  Fault
		status int
		body   string
		cut    bool
		least  time.Duration
	}{
		"none":               {Fault{}, 200, text, false, 0},
		"answer":             {Fault{Answer: Page(429, "text/plain", "7", "later")}, 429, "later", false, 0},
		"gateway":            {Fault{Answer: BadGateway}, 502, "", false, 0},
		"delay":              {Fault{Delay: 100 * time.Millisecond}, 200, text, false, 100 * time.Millisecond},
		"cut behind bytes":   {Fault{CutBytes: 10}, 200, text[:10], true, 0},
		"cut behind the end": {Fault{CutBytes: 26}, 200, text, false, 0},
		"cut in time":        {Fault{Hold: true, HoldBytes: 3, CutAfter: 100 * time.Millisecond}, 200, text[:3], true, 100 * time.Millisecond},
		"cut before":         {Fault{Delay: time.Hour, CutAfter: 50 * time.Millisecond}, 0, "", true, 50 * time.Millisecond},
		"slow":               {Fault{BytesPerSecond: 100}, 200, text, false, 200 * time.Millisecond},
		"another's":          {Fault{Match: Streamed, Answer: BadGateway}, 200, text, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p.Set(tc.fault)
			began := time.Now()
			status, body, err := read(t, c, p.URL()+"/text")
			if tc.body == "" {
				tc.body = body
			}
			if status != tc.status || body != tc.body || (err != nil) != tc.cut {
				t.Errorf("%d %q, %v", status, body, err)
			}
			if took := time.Since(began); took < tc.least {
				t.Errorf("took %s", took)
			}
		})
	}
	p.Set(Fault{Match: Streamed, Answer: BadGateway}, Fault{Answer: Page(503, "text/html", "", "")})
	for query, want := range map[string]int{"?sendInitialEvents=true&watch=true": 502, "?watch=true": 503} {
		if got, _, err := read(t, c, p.URL()+"/text"+query); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", query, got, err, want)
		}
	}
	p.Set(Fault{Answer: Page(429, "text/plain", "7", "later")})
	if a, err := get(t, c, p.URL()+"/text"); err != nil || a.header.Get("Retry-After") != "7" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A fault works on answers under way, and what was held continues at its end.
func TestUnderWay(t *testing.T) {
	b := newBackend(t, "a")
	p := start(t, b.server(), Options{})
	c := client(t, p)
	stream, err := get(t, c, p.URL()+"/stream")
	if err != nil {
		t.Fatal(err)
	}
	b.stream <- "one\n"
	if got, err := stream.body.ReadString('\n'); got != "one\n" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	p.Set(Fault{Hold: true, HoldBytes: 6})
	b.stream <- "two\n"
	half := make([]byte, 2)
	if _, err := io.ReadFull(stream.body, half); string(half) != "tw" || err != nil {
		t.Fatalf("%q, %v", half, err)
	}
	var released atomic.Bool
	rest := make(chan string)
	go func() {
		got, err := stream.body.ReadString('\n')
		rest <- fmt.Sprint(got, err, released.Load())
	}()
	b.stream <- "three\n"
	released.Store(true)
	p.Set()
	if got := <-rest; got != "o\n<nil> true" {
		t.Errorf("%q, which was held", got)
	}
	if got, err := stream.body.ReadString('\n'); got != "three\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for name, cut := range map[string]func(){
		"cut":        p.Cut,
		"disconnect": p.Disconnect,
		"bound":      func() { p.Set(Fault{CutAfter: time.Nanosecond}) },
	} {
		p.Set()
		stream, err := get(t, c, p.URL()+"/stream")
		if err != nil {
			t.Fatal(err)
		}
		cut()
		if got, err := io.ReadAll(stream.body); len(got) > 0 || err == nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Behind a switch is another server, for whoever holds on to a connection too.
func TestSwitch(t *testing.T) {
	a, b := newBackend(t, "a"), newBackend(t, "b")
	p := start(t, a.server(), Options{})
	c := client(t, p)
	stream, err := get(t, c, p.URL()+"/stream")
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []*backend{a, b, a} {
		if err := p.Switch(to.server()); err != nil {
			t.Fatal(err)
		}
		if _, got, err := read(t, c, p.URL()+"/name"); got != to.name || err != nil {
			t.Errorf("%q, %v, want %s", got, err, to.name)
		}
	}
	if got, err := io.ReadAll(stream.body); len(got) > 0 || err == nil {
		t.Errorf("a request from before: %q, %v", got, err)
	}
	if err := p.Switch(Server{a.URL, []byte("none")}); err == nil {
		t.Error("an authority that is none is taken")
	}
}

func TestNoServer(t *testing.T) {
	a := newBackend(t, "a")
	p := start(t, a.server(), Options{})
	a.Close()
	if status, body, err := read(t, client(t, p), p.URL()+"/name"); status != 502 || !strings.HasPrefix(body, "<html>") || err != nil {
		t.Errorf("%d %q, %v", status, body, err)
	}
}

// Close ends what is under way, held and delayed.
func TestClose(t *testing.T) {
	b := newBackend(t, "a")
	p := start(t, b.server(), Options{})
	c := client(t, p)
	p.Set(Fault{Match: func(r *http.Request) bool { return r.URL.Path == "/text" }, Delay: time.Hour}, Fault{Hold: true})
	broken := make(chan error, 3)
	for _, path := range []string{"/stream", "/text", "/name"} {
		go func() {
			_, _, err := read(t, c, p.URL()+path)
			broken <- err
		}()
	}
	var seen []string
	for range 2 { // the delayed one does not come to the server
		seen = append(seen, (<-b.seen).URL.Path)
	}
	if slices.Sort(seen); !slices.Equal(seen, []string{"/name", "/stream"}) {
		t.Errorf("the server has seen %v", seen)
	}
	p.Close()
	for range 3 {
		if err := <-broken; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	}
}
