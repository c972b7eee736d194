package fake

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	req := parseRequest(r)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	s.handlers.Add(1)
	defer s.handlers.Done()
	s.requests = append(s.requests, req)
	rec := &recorder{ResponseWriter: w, server: s, index: len(s.requests) - 1, left: -1}
	choose := s.fault
	s.notify()
	s.mu.Unlock()

	f := &Fault{}
	if choose != nil {
		if chosen := choose(req); chosen != nil {
			f = chosen
		}
	}
	if f.CutAfterBytes > 0 {
		rec.left = f.CutAfterBytes
	}
	if f.answer(rec, r) {
		return
	}
	if err := s.serve(rec, r, req, f); err != nil {
		writeError(rec, err)
	}
}

// parseRequest returns what a request is about from its path and query, whether
// or not such a resource is served.
func parseRequest(r *http.Request) Request {
	req := Request{Time: time.Now(), Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		req.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		req.Group, req.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return req
	}
	if parts[0] == "namespaces" && len(parts) >= 3 {
		req.Namespace, parts = parts[1], parts[2:]
	}
	req.Resource = parts[0]
	if len(parts) >= 2 {
		req.Name = strings.Join(parts[1:], "/")
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		watch := req.Query.Get("watch")
		switch {
		case req.Name != "": // also with watch=true, as in the real server
			req.Verb = "get"
		case watch == "true" || watch == "1":
			req.Verb = "watch"
		default:
			req.Verb = "list"
		}
	case http.MethodPost:
		req.Verb = "create"
	case http.MethodPut:
		req.Verb = "update"
	case http.MethodPatch:
		req.Verb = "patch"
	case http.MethodDelete:
		req.Verb = "delete"
		if req.Name == "" {
			req.Verb = "deletecollection"
		}
	}
	return req
}

// serve answers; an error that it returns is still to be written.
func (s *Server) serve(w *recorder, r *http.Request, req Request, f *Fault) error {
	if err := s.authorize(r, req); err != nil {
		return err
	}
	if req.Resource == "" {
		return s.serveDiscovery(w, r)
	}
	if req.Group == "authorization.k8s.io" && req.Resource == "selfsubjectaccessreviews" && req.Verb == "create" {
		return s.reviewAccess(w, r)
	}
	s.mu.Lock()
	res := s.lookup(schema.GroupVersionResource{Group: req.Group, Version: req.Version, Resource: req.Resource})
	s.mu.Unlock()
	if res == nil || strings.Contains(req.Name, "/") || res.Namespaced && req.Namespace == "" && req.Name != "" ||
		!res.Namespaced && req.Namespace != "" {
		return s.notServed(w, r, req)
	}
	everywhere := res.Namespaced && req.Namespace == ""
	badName := req.Verb == "create" && req.Name != "" || (req.Verb == "update" || req.Verb == "patch") && req.Name == ""
	if !slices.Contains(res.Verbs, req.Verb) || everywhere && req.Verb != "list" && req.Verb != "watch" || badName {
		return &apierrors.StatusError{ErrStatus: methodNotAllowed()}
	}
	as, err := negotiate(r, req.Verb)
	if err != nil {
		return err
	}
	switch req.Verb {
	case "list":
		return s.serveList(w, r, req, res, as)
	case "watch":
		return s.serveWatch(w, r, req, res, as, f)
	default:
		return s.serveObject(w, r, req, res, as)
	}
}

// notServed answers for a resource that is not there: with a Status in a group
// that the server is compiled with, with plain text in any other.
func (s *Server) notServed(w *recorder, r *http.Request, req Request) error {
	s.mu.Lock()
	compiled := slices.ContainsFunc(s.resources, func(r *resource) bool { return r.Compiled && r.Group == req.Group })
	s.mu.Unlock()
	if !compiled {
		http.NotFound(w, r)
		return nil
	}
	st := statusFor(http.StatusNotFound, metav1.StatusReasonNotFound,
		"the server could not find the requested resource")
	st.Details = &metav1.StatusDetails{}
	return &apierrors.StatusError{ErrStatus: st}
}

func methodNotAllowed() metav1.Status {
	st := statusFor(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		"the server does not allow this method on the requested resource")
	st.Details = &metav1.StatusDetails{}
	return st
}

func unauthorized() error {
	return failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
}

// authorize answers 401 to a wrong token or client certificate and 403 to none, except for what the
// server tells everyone.
func (s *Server) authorize(r *http.Request, req Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := r.Header.Get("Authorization")
	user := "kubefake"
	if given == "" && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if !bytes.Equal(r.TLS.PeerCertificates[0].Raw, s.client) {
			return unauthorized()
		}
		given = user
	} else if given == "" {
		user = "system:anonymous"
	} else if given != "Bearer "+s.token {
		return unauthorized()
	}
	if req.Resource == "" {
		if given == "" && !slices.Contains([]string{"/version", "/readyz", "/livez", "/healthz"}, r.URL.Path) {
			st := statusFor(http.StatusForbidden, metav1.StatusReasonForbidden,
				fmt.Sprintf("forbidden: User %q cannot get path %q", user, r.URL.Path))
			st.Details = &metav1.StatusDetails{}
			return &apierrors.StatusError{ErrStatus: st}
		}
		return nil
	}
	gr := schema.GroupResource{Group: req.Group, Resource: req.Resource}
	asked := Attributes{req.Verb, req.Group, req.Resource, req.Namespace, req.Name}
	if sel, err := fields.ParseSelector(req.Query.Get("fieldSelector")); err == nil &&
		(req.Verb == "list" || req.Verb == "watch") {
		asked.Name, _ = sel.RequiresExactMatch("metadata.name")
	}
	if allowed, _ := s.allows(asked); allowed && given != "" {
		return nil
	}
	scope := "at the cluster scope"
	if req.Namespace == "" && gr.Resource == "namespaces" && gr.Group == "" {
		req.Namespace = req.Name // what the server takes a namespace itself to be in
	}
	if req.Namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", req.Namespace)
	}
	//nolint:staticcheck // ST1005: the server's own words
	return apierrors.NewForbidden(gr, req.Name, fmt.Errorf("User %q cannot %s resource %q in API group %q %s",
		user, req.Verb, req.Resource, req.Group, scope))
}

// negotiate picks the form that the client accepts.
func negotiate(r *http.Request, verb string) (form, error) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return whole, nil
	}
	for _, clause := range strings.Split(accept, ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		if media != "application/json" && media != "application/*" && media != "*/*" {
			continue
		}
		switch as := params["as"]; {
		case as == "":
			return whole, nil
		case params["g"] == "meta.k8s.io" && params["v"] == "v1" &&
			(as == "PartialObjectMetadata" || as == "PartialObjectMetadataList" && verb == "list"):
			return metaOnly, nil
		}
	}
	return whole, failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: application/json")
}
