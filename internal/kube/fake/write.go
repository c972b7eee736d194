package fake

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// body reads an object that a client sent.
func body(r *http.Request, types ...string) (map[string]any, error) {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if media != "" && !slices.Contains(types, media) {
		return nil, failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s",
				strings.Join(types, ", ")))
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(data) == 0 {
		return map[string]any{}, nil
	}
	object, err := decodeObject(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

// serveObject answers everything that is neither a list nor a watch.
func (s *Server) serveObject(w *recorder, r *http.Request, req Request, res *resource, as form) error {
	var sent map[string]any
	var err error
	switch req.Verb {
	case "create", "update", "delete", "deletecollection":
		sent, err = body(r, "application/json")
	case "patch":
		sent, err = body(r, string(types.MergePatchType), string(types.StrategicMergePatchType))
	}
	if err != nil {
		return err
	}
	manager := req.Query.Get("fieldManager")
	if manager == "" {
		manager, _, _ = strings.Cut(r.UserAgent(), "/")
	}
	code, answer, err := s.act(req, res, sent, manager, as)
	if err != nil {
		return err
	}
	writeJSON(w, code, answer)
	return nil
}

// act does what a request for an object asks for, and returns the answer.
func (s *Server) act(req Request, res *resource, sent map[string]any, manager string, as form) (int, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := http.StatusOK
	var rec *record
	var err error
	if h := s.habits[res.groupResource()]; h != nil && req.Verb != "create" && h.isUnreadable(req.Name) {
		return 0, nil, unreadable()
	}
	switch req.Verb {
	case "get":
		rec, err = s.get(res, req.Namespace, req.Name)
	case "create":
		code = http.StatusCreated
		rec, err = s.create(res, req.Namespace, sent, manager)
	case "update":
		if name := text(metadata(sent), "name"); name != req.Name {
			return 0, nil, apierrors.NewBadRequest(fmt.Sprintf(
				"the name of the object (%s) does not match the name on the URL (%s)", name, req.Name))
		}
		rec, err = s.update(res, req.Namespace, req.Name, sent, manager)
	case "patch":
		rec, err = s.patch(res, req.Namespace, req.Name, sent, manager)
	case "delete":
		given, _ := sent["preconditions"].(map[string]any)
		rec, err = s.remove(res, req.Namespace, req.Name, given)
		if err == nil && rec.deleted && res.Kind != "Pod" {
			return code, marshal(res.deletion(rec)), nil
		}
	case "deletecollection":
		return s.removeAll(req, res, as)
	}
	if err != nil {
		return 0, nil, err
	}
	return code, res.encode(rec, req.Version, as), nil
}

// deletion is the answer to the deletion of most kinds.
func (r *resource) deletion(rec *record) metav1.Status {
	m := metadata(rec.object)
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name:  text(m, "name"),
			Group: r.Group,
			Kind:  r.Resource.Resource,
			UID:   types.UID(text(m, "uid")),
		},
	}
}

// removeAll deletes one object after the other, each with a version of its own.
func (s *Server) removeAll(req Request, res *resource, as form) (int, []byte, error) {
	sel, err := res.parseSelection(req.Namespace, "", req.Query)
	if err != nil {
		return 0, nil, err
	}
	var items [][]byte
	for _, rec := range res.store.at(s.version, prefixOf(req.Namespace)) {
		if !sel.matches(rec) {
			continue
		}
		m := metadata(rec.object)
		if _, err := s.remove(res, text(m, "namespace"), text(m, "name"), nil); err != nil {
			return 0, nil, err
		}
		items = append(items, res.encode(rec, req.Version, as.ofItem()))
	}
	return http.StatusOK, res.listOf(res.apiVersion(req.Version), items,
		listMeta{ResourceVersion: formatVersion(s.version)}, as), nil
}

// reviewAccess answers a SelfSubjectAccessReview by what Forbid has taken and SetPolicy decides.
func (s *Server) reviewAccess(w *recorder, r *http.Request) error {
	review, err := body(r, "application/json")
	if err != nil {
		return err
	}
	spec, _ := review["spec"].(map[string]any)
	asked, _ := spec["resourceAttributes"].(map[string]any)
	s.mu.Lock()
	allowed, reason := s.allows(Attributes{
		Verb: text(asked, "verb"), Group: text(asked, "group"), Resource: text(asked, "resource"),
		Namespace: text(asked, "namespace"), Name: text(asked, "name"),
	})
	s.mu.Unlock()
	status := map[string]any{"allowed": allowed}
	if reason != "" {
		status["reason"] = reason
	}
	review["status"] = status
	writeJSON(w, http.StatusCreated, marshal(review))
	return nil
}
