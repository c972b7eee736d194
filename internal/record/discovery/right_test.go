package discovery

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"kubejournal/internal/kube/fake"
)

// The answer about a right is what becomes of the request that needs it.
func TestAllowed(t *testing.T) {
	srv := fake.New(fake.Options{})
	t.Cleanup(srv.Close)
	const reason = "only web, and one of db"
	srv.SetPolicy(func(a fake.Attributes) (bool, string) {
		if a.Resource != "configmaps" || a.Verb == "list" && (a.Namespace == "web" || a.Namespace == "db" && a.Name == "one") {
			return true, ""
		}
		return false, reason
	})
	asking, err := discovery.NewDiscoveryClientForConfig(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	reading, err := dynamic.NewForConfig(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for _, tc := range []struct {
		stream Stream
		list   bool
	}{
		{Stream{GVR: gvr}, false},
		{Stream{GVR: gvr, Namespace: "web"}, true},
		{Stream{GVR: gvr, Namespace: "db"}, false},
		{Stream{GVR: gvr, Namespace: "db", FieldSelector: "metadata.name=one"}, true},
		{Stream{GVR: gvr, Namespace: "db", FieldSelector: "metadata.name=two"}, false},
		{Stream{GVR: gvr, Namespace: "db", FieldSelector: "metadata.name!=one"}, false},
		{Stream{GVR: gvr, Namespace: "db", FieldSelector: "metadata.name=one,metadata.namespace=db"}, true},
	} {
		for i, right := range tc.stream.Rights() {
			want := tc.list && i == 0
			allowed, why, err := Allowed(t.Context(), asking.RESTClient(), right)
			if err != nil || allowed != want || !allowed && why != reason {
				t.Errorf("%+v: got %v, %q, %v, want %v", right, allowed, why, err, want)
			}
		}
		_, err := reading.Resource(gvr).Namespace(tc.stream.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: tc.stream.FieldSelector})
		if apierrors.IsForbidden(err) == tc.list {
			t.Errorf("list of %s: %v", tc.stream.Name(), err)
		}
	}
	srv.SetToken("another")
	if _, _, err := Allowed(t.Context(), asking.RESTClient(), Stream{GVR: gvr}.Rights()[0]); !apierrors.IsUnauthorized(err) {
		t.Errorf("with an old token: %v", err)
	}
}
