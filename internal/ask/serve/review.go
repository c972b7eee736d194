package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const reviewPath = "/apis/authorization.k8s.io/v1/"

// reviews are the requests by which clients ask what they may do, by their paths.
var reviews = map[string]func() runtime.Object{
	reviewPath + "selfsubjectaccessreviews": func() runtime.Object {
		return &authorizationv1.SelfSubjectAccessReview{}
	},
	reviewPath + "selfsubjectrulesreviews": func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} },
	reviewPath + "subjectaccessreviews":    func() runtime.Object { return &authorizationv1.SubjectAccessReview{} },
}

// decoder reads what clients send, in JSON, YAML or protobuf.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	if err := authorizationv1.AddToScheme(scheme); err != nil { // never, of an empty one
		panic(err)
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// review answers what a client may do: read.
func (s *Server) review(w http.ResponseWriter, r *http.Request, newReview func() runtime.Object) error {
	if _, err := negotiate(r.Header.Get("Accept"), func(f form) bool { return f == form{} }); err != nil {
		return err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return failed(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "%v", err)
	}
	asked := newReview()
	gvk := authorizationv1.SchemeGroupVersion.WithKind("")
	if _, _, err := decoder.Decode(body, &gvk, asked); err != nil {
		return badRequest("%v", err)
	}
	var status *authorizationv1.SubjectAccessReviewStatus
	var kind string
	var what *authorizationv1.ResourceAttributes
	var path *authorizationv1.NonResourceAttributes
	switch asked := asked.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		kind, status, what, path = "SelfSubjectAccessReview", &asked.Status, asked.Spec.ResourceAttributes,
			asked.Spec.NonResourceAttributes
	case *authorizationv1.SubjectAccessReview:
		kind, status, what, path = "SubjectAccessReview", &asked.Status, asked.Spec.ResourceAttributes,
			asked.Spec.NonResourceAttributes
	case *authorizationv1.SelfSubjectRulesReview:
		kind = "SelfSubjectRulesReview"
		asked.Status = authorizationv1.SubjectRulesReviewStatus{
			ResourceRules: []authorizationv1.ResourceRule{
				{Verbs: reading, APIGroups: []string{"*"}, Resources: []string{"*"}},
			},
			NonResourceRules: []authorizationv1.NonResourceRule{
				{Verbs: []string{"get"}, NonResourceURLs: []string{"*"}},
			},
		}
	}
	if status != nil {
		reads := what != nil && slices.Contains(reading, what.Verb) &&
			(what.Subresource == "" || what.Subresource == "status")
		*status = authorizationv1.SubjectAccessReviewStatus{Allowed: reads || path != nil && path.Verb == "get"}
		if !status.Allowed {
			status.Reason = "this is the past, " + s.When() + ": it can be read only"
		}
	}
	asked.GetObjectKind().SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind(kind))
	text, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, text)
	return nil
}
