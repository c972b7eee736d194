// Package serve answers as a Kubernetes API server that can be read only: with what a journal's files say was there at
// a moment. Each file of it has one job: serve.go starts and routes, guard.go says who is let in, and moment.go which
// moment is served; request.go, options.go and accept.go read requests; kinds.go finds what is served, discovery.go
// says so, and documents.go gives what the API server said of itself; read.go answers with objects and lists, table.go
// with tables, watch.go with events; past.go opens the journals, and rows.go keeps what was answered.
package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/ask/argument"
)

// Options say what is served.
type Options struct {
	Paths []string // of the journals, all of one cluster
	Flags []string // with which the commands read the same journals
	// At is the moment that is served; the zero Moment is now, as far as the journals say.
	At argument.Moment
	// From is where the moment begins that moves on, Speed times as fast as time goes. Zero: it does not.
	From  time.Time
	Speed float64

	Token  string // that requests must have; empty: none
	Hosts  []string
	Notice func(string) // gets sentences about the journals' files, and faults
}

// Server answers requests. It is an http.Handler.
type Server struct {
	Options
	source  *source
	served  atomic.Pointer[served]
	moving  sync.Mutex    // is held to change served
	ending  chan struct{} // closed by Close
	watches chan struct{} // has one for each that is open
	pages   chan struct{} // has one for each that is gathered
}

// What a client may cost.
const (
	headerTime = 10 * time.Second
	writeTime  = 2 * time.Minute
	idleTime   = 5 * time.Minute
	headerSize = 64 << 10
	maxURL     = 16 << 10
	maxBody    = 1 << 20
	maxPages   = 1 // gathered at once
)

// New returns a server of the past, which opens its journals now.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{
		Options: o, ending: make(chan struct{}), watches: make(chan struct{}, maxWatches),
		pages:  make(chan struct{}, maxPages),
		source: &source{paths: o.Paths, notice: o.Notice},
	}
	first := newServed(o.At, 0)
	switch {
	case !o.From.IsZero():
		first = newServed(argument.Moment{Time: o.From}, o.Speed)
	case o.At.IsZero():
		first = newServed(argument.Latest(), 0)
	}
	first, err := s.source.moved(ctx, first)
	s.served.Store(first)
	return s, err
}

// Close lets go of the journals, and ends watches.
func (s *Server) Close() {
	close(s.ending)
	s.source.close()
}

// Serve answers requests on a listener until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, ReadTimeout: time.Minute, WriteTimeout: writeTime,
		IdleTimeout: idleTime, MaxHeaderBytes: headerSize,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(within) != nil {
			_ = server.Close() // who still reads has had its time
		}
	})
	defer stop()
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// moment returns the moment that is served.
func (s *Server) moment() argument.Moment { return s.served.Load().moment() }

// When says which moment is served.
func (s *Server) When() string { return s.served.Load().String() }

// timeOf returns the time of a moment that is none: a line, or a version of the server.
func (s *Server) timeOf(ctx context.Context, p *past, at argument.Moment) (time.Time, error) {
	if at.Seq == 0 {
		return s.moment().Time, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.j.TimeOf(ctx, at.Seq)
}

func (s *Server) notice(text string) {
	if s.Notice != nil {
		s.Notice(text)
	}
}

// broken ends an answer that has begun and cannot be ended as it should: the client sees that it is not whole.
func (s *Server) broken(err error) {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, errGone) {
		s.notice("an answer was broken off: " + err.Error())
	}
	panic(http.ErrAbortHandler)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache, private")
	h.Set("X-Content-Type-Options", "nosniff")
	if err := s.admit(r); err != nil {
		if status := statusOf(err); status.Code == http.StatusUnauthorized && r.URL.Path == "/" {
			h.Set("WWW-Authenticate", `Basic realm="kubejournal: the token, as the password"`)
		}
		s.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := s.route(w, r); err != nil {
		s.fail(w, r, err)
	}
}

// route answers a request that was let in.
func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	if path == pathOfMoment {
		return s.tellMoment(w, r)
	}
	if r.Method == http.MethodPost {
		if review, ok := reviews[strings.TrimRight(path, "/")]; ok {
			return s.review(w, r, review)
		}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		what := strings.ToLower(r.Method)
		if t, _ := parsePath(path); t.sub != "" {
			what = t.resource + "/" + strings.TrimPrefix(t.sub, "/")
		}
		return s.readOnly(what)
	}
	switch path {
	case "/":
		return s.page(w, r)
	case "/healthz", "/livez", "/readyz":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok")) // a client that has gone
		return nil
	case "/version", "/version/":
		err := s.document(w, r, "/version")
		if errors.Is(err, errUnrecorded) || errors.Is(err, errNoPath) {
			return writeDocument(w, r, assumed)
		}
		return err
	}
	if path == "/openapi/v2" || path == "/openapi/v3" || strings.HasPrefix(path, "/openapi/v3/") {
		err := s.document(w, r, path)
		if errors.Is(err, errUnrecorded) {
			warn(w, err.Error()) // clients have words of their own for the error
			err = failed(http.StatusNotFound, metav1.StatusReasonNotFound, "%v", err)
		}
		return err
	}
	return s.api(w, r)
}

// api answers what is below /api and /apis.
func (s *Server) api(w http.ResponseWriter, r *http.Request) error {
	t, isTarget := parsePath(r.URL.Path)
	trimmed := strings.Trim(r.URL.Path, "/")
	group, isGroup := strings.CutPrefix(trimmed, "apis/")
	if !isTarget && trimmed != "api" && trimmed != "apis" && (!isGroup || strings.Contains(group, "/")) {
		return errNoPath
	}
	switch {
	case t.proxy:
		return s.readOnly("proxy")
	case t.sub != "" && t.sub != "status":
		return s.readOnly(t.resource + "/" + strings.TrimPrefix(t.sub, "/"))
	}
	// The past is read on and on by a client that reads on.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // there is none in a recorder
	var then func(context.Context) error
	if err := s.source.ask(r.Context(), func(p *past) error {
		all, err := s.kinds(r.Context(), p)
		if err != nil {
			return err
		}
		if t.resource == "" {
			if err := p.warn(r.Context(), w, s.moment()); err != nil {
				return err
			}
		}
		switch {
		case trimmed == "api" || trimmed == "apis":
			return s.discover(w, r, all, trimmed == "api")
		case !isTarget:
			return s.discoverGroup(w, r, all, group)
		case t.resource == "":
			return s.discoverVersion(w, r, all, t.group, t.version)
		}
		then, err = s.objects(w, r, p, all, t)
		return err
	}); err != nil || then == nil {
		return err
	}
	return then(r.Context())
}

// objects answers a request for objects. Of a watch, then answers the rest.
func (s *Server) objects(
	w http.ResponseWriter, r *http.Request, p *past, all apis, t target,
) (then func(context.Context) error, err error) {
	k, _ := all.find(t.group, t.version, t.resource)
	if k == nil || t.namespace != "" && !k.Namespaced || t.name != "" && t.namespace == "" && k.Namespaced {
		return nil, errNoPath
	}
	o, err := s.parseOptions(r, k, t)
	if err != nil {
		return nil, err
	}
	v, err := s.view(r.Context(), p, k, t, o)
	if err != nil {
		return nil, err
	}
	switch {
	case o.watch:
		return s.open(r.Context(), w, v)
	case t.name != "":
		return nil, v.get(r.Context(), w)
	}
	return nil, v.list(r.Context(), w)
}

// open begins a watch.
func (s *Server) open(
	ctx context.Context, w http.ResponseWriter, v *view,
) (then func(context.Context) error, err error) {
	select {
	case s.watches <- struct{}{}:
	default:
		return nil, failed(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many watches are open")
	}
	begun := false
	defer func() {
		if !begun {
			<-s.watches
		}
	}()
	timeout := v.timeout
	if timeout == 0 {
		timeout = minWatch
	}
	run, err := v.watch(ctx, w)
	if err != nil {
		return nil, err
	}
	begun = true
	return func(ctx context.Context) error {
		defer func() { <-s.watches }()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := run(ctx); err != nil && ctx.Err() == nil {
			s.broken(err)
		}
		return nil
	}, nil
}
