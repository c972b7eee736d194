package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// server is the synthetic API server: one resource, lists in pages or streamed, watches with bookmarks, 410 for what is
// too old.
type server struct {
	world    world
	stream   bool          // streams lists (sendInitialEvents)
	bookmark time.Duration // between two bookmarks of a watch
	events   int           // of each watch, as fast as they go
	large    int           // bytes of an object in those events

	load      load          // whose changes come once begun is closed
	steadyFor time.Duration // how long they come
	shards    int           // how many share the objects
	selects   bool          // the server sends a shard its own alone
	begin     sync.Once
	begun     chan struct{}

	mu  sync.Mutex
	log *json.Encoder // one request per line; guarded by mu

	sent    atomic.Int64 // bytes, on all connections
	watches atomic.Int64 // open

	steadySent atomic.Bool // all of the load
}

// asked is what the server tells of a request.
type asked struct {
	At              int64  `json:"at"`   // Unix nanoseconds
	Verb            string `json:"verb"` // ready (once, with Address), list or watch
	Address         string `json:"address,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Initial         bool   `json:"initial,omitempty"` // a watch that begins with a list
}

// stats is what the server tells about itself at /stats.
type stats struct {
	Sent    int64 `json:"sent"`    // bytes, on all connections
	Watches int64 `json:"watches"` // open now
	Steady  bool  `json:"steady"`  // all of the load was sent
}

// serve is the server's process. It tells of requests on stdout.
func serve(ctx context.Context, args []string, stdout io.Writer) error {
	s := &server{log: json.NewEncoder(stdout), begun: make(chan struct{})}
	f := flag.NewFlagSet(roleServe, flag.ContinueOnError)
	dir := f.String("dir", "", "where the certificate is")
	f.IntVar(&s.world.objects, "objects", 1000, "objects")
	f.IntVar(&s.world.namespace, "namespace", 1000, "objects per namespace")
	f.IntVar(&s.world.generation, "generation", 1, "1, or 2 for the same with some changes")
	f.IntVar(&s.world.size, "size", 1024, "bytes of an object")
	f.BoolVar(&s.stream, "stream", true, "stream lists")
	f.DurationVar(&s.bookmark, "bookmark", time.Minute, "between two bookmarks")
	f.IntVar(&s.events, "events", 0, "events of each watch")
	f.IntVar(&s.large, "large", 200<<10, "bytes of an object in those events")
	f.IntVar(&s.load.nodes, "nodes", 0, "send the changes of a cluster of so many nodes, once /begin was asked for")
	f.DurationVar(&s.steadyFor, "steady", 0, "how long")
	f.IntVar(&s.shards, "shards", 1, "shards; requests are of the first")
	f.BoolVar(&s.selects, "selects", false, "select the objects of the shard")
	if err := f.Parse(args); err != nil {
		return err
	}
	return s.run(ctx, *dir)
}

func (s *server) run(ctx context.Context, dir string) error {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return fmt.Errorf("load certificate: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	h := &http.Server{
		Handler:   s,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		// As kube-apiserver has it.
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 100},
		ReadHeaderTimeout: time.Minute,
		// Watches end with the server.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = h.Close() }) // nobody waits for answers any more
	defer stop()
	s.tell(asked{Verb: "ready", Address: "https://" + l.Addr().String()})
	if err := h.ServeTLS(&countedListener{l, &s.sent}, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func (s *server) tell(a asked) {
	a.At = time.Now().UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.log.Encode(a) // the parent has gone: so will this process
}

// countedListener counts what its connections send.
type countedListener struct {
	net.Listener
	sent *atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{c, l.sent}, nil
}

type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// answer writes a document as JSON.
func answer(w http.ResponseWriter, code int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(document) // a client that has gone cannot be told
}

// status answers with a Status.
func status(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": message, "reason": reason, "code": code,
	})
}

// flushing is a response that is sent in large pieces.
type flushing struct {
	*bufio.Writer
	response http.ResponseWriter
}

func newFlushing(w http.ResponseWriter) *flushing {
	return &flushing{bufio.NewWriterSize(w, 64<<10), w}
}

// flush sends what is there.
func (f *flushing) flush() error {
	if err := f.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(f.response).Flush()
}
