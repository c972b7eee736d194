package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"kubejournal/internal/kube/client"
)

const (
	clusterID = "3f1f3c8a-6d0e-4c1b-9a51-5d3c7a1e0b11" // uid of the namespace kube-system
	// gzipFrom is the size in bytes from which kube-apiserver compresses, at gzip's level 1; never a watch.
	gzipFrom  = 128 << 10
	gzipLevel = gzip.BestSpeed
)

// ServeHTTP answers what a client of this one resource asks.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch p := r.URL.Path; {
	case p == "/stats":
		answer(w, http.StatusOK, stats{Sent: s.sent.Load(), Watches: s.watches.Load(), Steady: s.steadySent.Load()})
	case p == "/begin":
		s.begin.Do(func() { close(s.begun) })
	case p == "/version":
		answer(w, http.StatusOK, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
	case p == "/api":
		answer(w, http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case p == "/apis":
		answer(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
	case p == "/api/v1":
		answer(w, http.StatusOK,
			map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{map[string]any{
				"name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
				"verbs": []string{"get", "list", "watch"}, "shortNames": []string{"cm"},
			}}})
	case p == "/api/v1/namespaces/kube-system":
		answer(w, http.StatusOK, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]string{
			"name": "kube-system", "uid": clusterID, "resourceVersion": "1",
		}})
	case p == "/api/v1/configmaps":
		s.read(w, r, "")
	case strings.HasPrefix(p, "/api/v1/namespaces/") && strings.HasSuffix(p, "/configmaps"):
		s.read(w, r, strings.TrimSuffix(strings.TrimPrefix(p, "/api/v1/namespaces/"), "/configmaps"))
	default:
		http.NotFound(w, r)
	}
}

// span is the numbers of a namespace, or all.
func (s *server) span(namespace string) (from, to int) {
	if namespace == "" {
		return 0, s.world.objects
	}
	n, err := strconv.Atoi(strings.TrimPrefix(namespace, "ns-"))
	if err != nil {
		return 0, 0
	}
	return min(n*s.world.namespace, s.world.objects), min((n+1)*s.world.namespace, s.world.objects)
}

func (s *server) read(w http.ResponseWriter, r *http.Request, namespace string) {
	q := r.URL.Query()
	if q.Get("watch") == "" {
		s.tell(asked{Verb: "list", Namespace: namespace})
		if err := s.list(w, r, q, namespace); err != nil {
			status(w, http.StatusBadRequest, "BadRequest", err.Error())
		}
		return
	}
	initial := q.Get("sendInitialEvents") == "true"
	if initial && !s.stream {
		status(w, http.StatusUnprocessableEntity, "Invalid",
			"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature "+
				"gate is enabled")
		return
	}
	s.tell(asked{Verb: "watch", Namespace: namespace, ResourceVersion: q.Get("resourceVersion"), Initial: initial})
	s.watches.Add(1)
	defer s.watches.Add(-1)
	s.watch(r.Context(), w, q, namespace, initial)
}

// list answers with a page. The token to continue is the number that comes next.
func (s *server) list(w http.ResponseWriter, r *http.Request, q url.Values, namespace string) error {
	from, to := s.span(namespace)
	if token := q.Get("continue"); token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < from || n > to {
			return fmt.Errorf("continue key %q is not valid", token)
		}
		from = n
	}
	limit := to - from
	if l := q.Get("limit"); l != "" {
		n, err := strconv.Atoi(l)
		if err != nil {
			return fmt.Errorf("limit %q is not valid", l)
		}
		limit = min(limit, n)
	}
	// A page ends with a number, so that of a number with two objects both are in it.
	next := from + limit
	body := append(make([]byte, 0, limit*(s.world.size+64)+256),
		`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"`...)
	body = strconv.AppendUint(body, s.world.version(), 10)
	body = append(body, '"')
	if next < to {
		body = fmt.Appendf(body, `,"continue":"%d","remainingItemCount":%d`, next, to-next)
	}
	body = append(body, `},"items":[`...)
	for first, number := true, from; number < next; number++ {
		objects, n := s.world.at(number)
		for _, o := range objects[:n] {
			if !first {
				body = append(body, ',')
			}
			first = false
			body = s.world.append(body, o, false, 0, s.world.size)
		}
	}
	body = append(body, `]}`...)
	w.Header().Set("Content-Type", "application/json")
	if len(body) > gzipFrom && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z, err := gzip.NewWriterLevel(w, gzipLevel)
		if err != nil {
			return err
		}
		_, _ = z.Write(body) // a client that has gone cannot be told
		_ = z.Close()
		return nil
	}
	_, _ = w.Write(body) // a client that has gone cannot be told
	return nil
}

// watch answers with a watch until the client goes or its time is over.
func (s *server) watch(ctx context.Context, w http.ResponseWriter, q url.Values, namespace string, initial bool) {
	version, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64)
	if !initial && (err != nil || version+1 < s.world.oldest()) {
		status(w, http.StatusGone, "Expired",
			fmt.Sprintf("too old resource version: %s (%d)", q.Get("resourceVersion"), s.world.oldest()))
		return
	}
	if seconds, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	w.Header().Set("Content-Type", "application/json")
	out := newFlushing(w)
	err = out.flush() // the answer begins before there is an event
	if err == nil && initial {
		err = s.initial(ctx, out, namespace, s.shardOf(q))
	}
	if err == nil && s.events > 0 {
		err = s.blast(ctx, out, namespace, version)
	}
	if err == nil && s.load.nodes > 0 {
		err = s.steady(ctx, out, s.shardOf(q))
	}
	tick := time.NewTicker(s.bookmark)
	defer tick.Stop()
	// Events have moved the version in steps of all streams; a bookmark moves it once more.
	version = s.world.version() + uint64(s.events*s.world.objects) + uint64(s.load.rate()*s.steadyFor.Seconds()) + 1
	for ; err == nil; version++ {
		select {
		case <-tick.C:
			_, _ = out.Write(bookmark(nil, version, false)) // the flush tells
			err = out.flush()
		case <-ctx.Done():
			return
		}
	}
}

func bookmark(dst []byte, version uint64, end bool) []byte {
	dst = append(dst,
		`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"`...)
	dst = strconv.AppendUint(dst, version, 10)
	dst = append(dst, `","creationTimestamp":null`...)
	if end {
		dst = append(dst, `,"annotations":{"k8s.io/initial-events-end":"true"}`...)
	}
	return append(dst, "}}}\n"...)
}

// initial streams the objects and the bookmark after them.
func (s *server) initial(ctx context.Context, out *flushing, namespace string, shard client.Shard) error {
	from, to := s.span(namespace)
	var frame []byte
	for number := from; number < to; number++ {
		objects, n := s.world.at(number)
		for _, o := range objects[:n] {
			if shard.Count > 1 && !shard.Has([]byte(o.uid())) {
				continue
			}
			frame = append(frame[:0], `{"type":"ADDED","object":`...)
			frame = s.world.append(frame, o, true, 0, s.world.size)
			frame = append(frame, "}\n"...)
			if _, err := out.Write(frame); err != nil {
				return err
			}
		}
		if number%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	_, _ = out.Write(bookmark(nil, s.world.version(), true)) // the flush tells
	return out.flush()
}

// blast sends events after a version, as fast as they go: in turn of all numbers, of which this watch shows those of
// its namespace.
func (s *server) blast(ctx context.Context, out *flushing, namespace string, after uint64) error {
	from, to := s.span(namespace)
	var frame []byte
	for round := range s.events {
		for number := from; number < to; number++ {
			version := s.world.version() + uint64(round*s.world.objects+number) + 1
			if version <= after {
				continue
			}
			frame = append(frame[:0], `{"type":"MODIFIED","object":`...)
			frame = s.world.append(frame, object{number: number}, true, version, s.large)
			frame = append(frame, "}\n"...)
			if _, err := out.Write(frame); err != nil {
				return err
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
