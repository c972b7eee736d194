package discovery

import (
	"context"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Right is to do one thing.
type Right struct {
	Verb      string
	Resource  schema.GroupResource
	Namespace string // "" is all of them, or none
	Name      string // "" is all objects
}

// Rights returns what a stream needs: a list also returns the version of the server before a watch resumes.
func (s Stream) Rights() []Right {
	list := Right{Verb: "list", Resource: s.GVR.GroupResource(), Namespace: s.Namespace, Name: OneName(s.FieldSelector)}
	watch := list
	watch.Verb = "watch"
	return []Right{list, watch}
}

// OneName returns the name of the one object that a field selector lets through, "" where it does not bind it to one.
// The server takes such a request for one about this object.
func OneName(fieldSelector string) string {
	selector, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	return name
}

// Allowed asks the server whether this identity has a right. The reason is the server's, and may be empty.
func Allowed(ctx context.Context, client rest.Interface, right Right) (allowed bool, reason string, err error) {
	question, err := json.Marshal(&authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: right.Verb, Group: right.Resource.Group, Resource: right.Resource.Resource,
			Namespace: right.Namespace, Name: right.Name,
		}},
	})
	if err != nil {
		return false, "", err
	}
	raw, err := client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept",
		"application/json").Body(question).Do(ctx).Raw()
	var answer authorizationv1.SelfSubjectAccessReview
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil {
		return false, "", fmt.Errorf("ask for the right to %s %s: %w", right.Verb, right.Resource, err)
	}
	return answer.Status.Allowed, answer.Status.Reason, nil
}
