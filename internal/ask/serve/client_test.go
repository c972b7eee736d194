package serve

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func configOf(t *testing.T, s *Server) *rest.Config {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1, WarningHandler: rest.NoWarnings{}}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestClients(t *testing.T) {
	d := newDay(t)
	config := configOf(t, serveAt(t, d, minute(3.5)))
	client := must[dynamic.Interface](t)(dynamic.NewForConfig(config))
	list := must[*unstructured.UnstructuredList](t)(client.Resource(podResource).Namespace("a").List(t.Context(), metav1.ListOptions{Limit: 1}))
	if len(list.Items) != 1 || list.GetContinue() == "" || list.Items[0].GetName() != "db1" || list.Items[0].GetKind() != "Pod" {
		t.Error(list)
	}
	teams := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "teams"}
	if red := must[*unstructured.Unstructured](t)(client.Resource(teams).Namespace("a").Get(t.Context(), "red", metav1.GetOptions{})); red.GetKind() != "Team" {
		t.Error(red)
	}
	err := client.Resource(podResource).Namespace("a").Delete(t.Context(), "db1", metav1.DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), "this is the past") {
		t.Error(err)
	}
	// A typed client asks for protobuf first, and sends it.
	binary := rest.CopyConfig(config)
	binary.ContentType, binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	typed := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(binary))
	pod := must[*corev1.Pod](t)(typed.CoreV1().Pods("a").Get(t.Context(), "db1", metav1.GetOptions{}))
	if pod.Status.Phase != corev1.PodRunning || pod.ResourceVersion != "105" {
		t.Error(pod)
	}
	if secret := must[*corev1.Secret](t)(typed.CoreV1().Secrets("a").Get(t.Context(), "key", metav1.GetOptions{})); len(secret.Data) != 1 {
		t.Error(secret)
	}
	partial := must[metadata.Interface](t)(metadata.NewForConfig(config))
	some := must[*metav1.PartialObjectMetadataList](t)(partial.Resource(podResource).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"}))
	if len(some.Items) != 2 || some.Items[0].Labels["app"] != "web" {
		t.Error(some)
	}
	discover := must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(config))
	groups, resources, err := discover.ServerGroupsAndResources()
	if err != nil || len(groups) < 10 {
		t.Error(err, groups)
	}
	if !slices.ContainsFunc(resources, func(l *metav1.APIResourceList) bool {
		return l.GroupVersion == "example.com/v1" && l.APIResources[0].Name == "teams" && l.APIResources[0].Namespaced
	}) {
		t.Error(resources)
	}
	if version := must[interface{ String() string }](t)(discover.ServerVersion()); version.String() == "" {
		t.Error("no version")
	}
}

// follow has an informer write down what it sees until there is as much as is wanted.
func follow(t *testing.T, s *Server, want []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	informer := dynamicinformer.NewDynamicSharedInformerFactory(must[dynamic.Interface](t)(dynamic.NewForConfig(configOf(t, s))), 0).ForResource(podResource).Informer()
	seen := make(chan string, 100)
	note := func(what string, o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		is := o.(*unstructured.Unstructured)
		seen <- what + " " + is.GetName() + " " + is.GetResourceVersion()
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note("add", o) },
		UpdateFunc: func(_, o any) { note("update", o) },
		DeleteFunc: func(o any) { note("delete", o) },
	}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("no sync")
	}
	var all []string
	for len(all) < len(want) {
		select {
		case what := <-seen:
			all = append(all, what)
		case <-ctx.Done():
			t.Fatalf("%q, want %q", all, want)
		}
	}
	slices.Sort(all[:3]) // what was there is in no order
	if !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
	cancel()
	<-done
}

// An informer of this client-go streams its list, and ends its initial state by the bookmark alone.
func TestInformer(t *testing.T) {
	if !features.FeatureGates().Enabled(features.WatchListClient) {
		t.Fatal("an informer would list")
	}
	d := newDay(t)
	follow(t, serveAt(t, d, minute(3.5)), []string{"add db1 105", "add web2 41", "add web3 115"})
	follow(t, serveWith(t, Options{Paths: []string{d.Path}, From: minute(0.5), Speed: 20}), []string{
		"add db1 51", "add web1 31", "add web2 41", "update db1 105", "add web3 115", "delete web1 125",
	})
}

// FuzzRequests sends requests of any form: none ends the server, and each is answered as it may be.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"/api/v1/pods?watch=1&timeoutSeconds=1", "/api/v1/namespaces/a/pods/db1?pretty=true", "/apis/example.com/v1/teams?limit=1&continue=x",
		"/api/v1/pods?fieldSelector=a%3Db,c%21%3Dd&labelSelector=x+in+(y)", "/apis//v1/x", "/api/v1/namespaces//pods", "/api/v1/../v1/pods",
		"/apis/a/b/c/d/e/f/g", "/openapi/v3/x", "/api/v1/namespaces/a/pods/%00", "/api/v1/watch/pods/x", "/api/v1/pods?resourceVersion=5&resourceVersionMatch=Exact",
		"/api/v1/namespaces/a/pods/db1/status?includeObject=Object",
	} {
		for n, accept := range []string{"", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			f.Add(seed, accept, n)
		}
	}
	var s *Server
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
	known := []int{200, 201, 400, 403, 404, 405, 406, 410, 414, 422, 504}
	f.Fuzz(func(t *testing.T, target, accept string, n int) {
		if s == nil {
			var err error
			d := newDay(t)
			if s, err = New(context.WithoutCancel(t.Context()), Options{Paths: []string{d.Path}, From: minute(1), Speed: 1}); err != nil {
				t.Fatal(err)
			}
		}
		r := httptest.NewRequest(methods[0], "/", strings.NewReader("{}"))
		u, err := r.URL.Parse(target)
		if err != nil || u.Host != "" {
			return
		}
		r.Method, r.URL, r.Host = methods[max(n, -n, 0)%len(methods)], u, "localhost"
		r.Header.Set("Accept", accept)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // which ends a watch
		defer cancel()
		w := httptest.NewRecorder()
		defer func() {
			if p := recover(); p != nil && ctx.Err() == nil {
				t.Fatal(p)
			}
		}()
		s.ServeHTTP(w, r.WithContext(ctx))
		if !slices.Contains(known, w.Code) && ctx.Err() == nil {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	})
}
