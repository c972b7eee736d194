package fake_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/internal/kube/fake"
	"kubejournal/test/loggingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(loggingtest.Hold(m)) }

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

func object(name, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}, "data": map[string]any{"key": value}}
}

func start(t *testing.T, o fake.Options) *fake.Server {
	t.Helper()
	srv := fake.New(o)
	t.Cleanup(srv.Close)
	return srv
}

func client(t *testing.T, srv *fake.Server) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(configMaps).Namespace("default")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// open sends a watch request by hand and returns the body.
func open(t *testing.T, srv *fake.Server, query string) io.ReadCloser {
	t.Helper()
	config := srv.Config()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL()+"/api/v1/namespaces/default/configmaps?watch=true"+query, nil))
	req.Header.Set("Authorization", "Bearer "+config.BearerToken)
	transport := config.Transport
	if transport == nil {
		own := &http.Transport{}
		t.Cleanup(own.CloseIdleConnections)
		transport = own
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// TestHistory writes at random, and finds the same in every list and watch that
// begins at any version.
func TestHistory(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) { testHistory(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func testHistory(t *testing.T, random *rand.Rand) {
	srv := fake.New(fake.Options{InMemory: true})
	defer srv.Close()
	c := client(t, srv)
	states := map[uint64]map[string]string{srv.Version(): {}}
	state := map[string]string{}
	for range 60 {
		name := fmt.Sprint("m", random.IntN(6))
		switch _, exists := state[name]; {
		case !exists:
			o := must(srv.Create(configMaps, object(name, "new")))
			state[name] = o["metadata"].(map[string]any)["resourceVersion"].(string)
		case random.IntN(3) == 0:
			must(srv.Delete(configMaps, "default", name))
			delete(state, name)
		default:
			o := must(srv.Update(configMaps, object(name, fmt.Sprint(random.IntN(3)))))
			state[name] = o["metadata"].(map[string]any)["resourceVersion"].(string)
		}
		states[srv.Version()] = maps.Clone(state)
	}
	final := maps.Clone(state)
	for version, want := range states {
		exact := metav1.ListOptions{ResourceVersion: fmt.Sprint(version), ResourceVersionMatch: metav1.ResourceVersionMatchExact, Limit: 2}
		got := map[string]string{}
		for {
			list, err := c.List(t.Context(), exact)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list.Items {
				got[item.GetName()] = item.GetResourceVersion()
			}
			if exact = (metav1.ListOptions{Continue: list.GetContinue(), Limit: 2}); exact.Continue == "" {
				break
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("at %d: %v, want %v", version, got, want)
		}
		w, err := c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(version)})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for len(got) != len(final) || !reflect.DeepEqual(got, final) {
			apply(t, got, <-w.ResultChan())
		}
		w.Stop()
	}
}

func apply(t *testing.T, state map[string]string, e watch.Event) {
	t.Helper()
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("event %v", e)
	}
	switch _, exists := state[o.GetName()]; {
	case e.Type == watch.Added && !exists, e.Type == watch.Modified && exists:
		state[o.GetName()] = o.GetResourceVersion()
	case e.Type == watch.Deleted && exists:
		delete(state, o.GetName())
	default:
		t.Fatalf("%s of %s on %v", e.Type, o.GetName(), state)
	}
}

// TestFakeTime has a bookmark after each interval and the usual end of a watch,
// without waiting for either.
func TestFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := fake.New(fake.Options{InMemory: true, BookmarkInterval: time.Minute})
		defer srv.Close()
		began := time.Now()
		w := must(client(t, srv).Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: fmt.Sprint(srv.Version()), AllowWatchBookmarks: true, TimeoutSeconds: new(int64(300)),
		}))
		synctest.Wait()
		must(srv.Create(pods, object("other", "x"))) // moves the version, not the watch
		var at []time.Duration
		for e := range w.ResultChan() {
			if e.Type != watch.Bookmark {
				t.Errorf("got %v", e)
			}
			at = append(at, time.Since(began))
		}
		want := []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute, 298 * time.Second}
		if !slices.Equal(at, want) || time.Since(began) != 5*time.Minute {
			t.Errorf("bookmarks after %v, end after %v", at, time.Since(began))
		}
	})
}

func TestRestore(t *testing.T) {
	srv := start(t, fake.Options{InMemory: true})
	first := must(srv.Create(configMaps, object("a", "1")))
	backup := srv.Version()
	must(srv.Update(configMaps, object("a", "2")))
	lost := must(srv.Create(configMaps, object("b", "1")))
	body := open(t, srv, "&resourceVersion="+fmt.Sprint(srv.Version()))
	srv.RestoreTo(backup)
	if data, err := io.ReadAll(body); err == nil || len(data) != 0 {
		t.Errorf("watch over a restore: %q, %v", data, err)
	}
	if srv.Version() != backup {
		t.Errorf("version %d, want %d", srv.Version(), backup)
	}
	if list := must(srv.List(configMaps, "")); len(list) != 1 || !reflect.DeepEqual(list[0], first) {
		t.Errorf("after the restore %v", list)
	}
	again := must(srv.Create(configMaps, object("b", "1")))
	if uid(again) == uid(lost) {
		t.Error("uid given out twice")
	}
	// The restored server takes a watch from the lost future and is silent.
	ahead := must(client(t, srv).Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(backup + 2), TimeoutSeconds: new(int64(1))}))
	for e := range ahead.ResultChan() {
		t.Errorf("got %v", e)
	}
}

func uid(o map[string]any) string { return o["metadata"].(map[string]any)["uid"].(string) }

func TestStopAndStart(t *testing.T) {
	for name, inMemory := range map[string]bool{"loopback": false, "memory": true} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, fake.Options{InMemory: inMemory})
			c := client(t, srv)
			must(c.List(t.Context(), metav1.ListOptions{}))
			before := srv.Version()
			srv.StopAPIServer()
			if _, err := c.List(t.Context(), metav1.ListOptions{}); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("while stopped: %v", err)
			}
			must(srv.Create(configMaps, object("a", "1")))
			if err := srv.StartAPIServer(); err != nil {
				t.Fatal(err)
			}
			w := must(c.Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(before)}))
			if err := apierrors.FromObject((<-w.ResultChan()).Object); !apierrors.IsResourceExpired(err) {
				t.Errorf("watch from before: %v", err)
			}
			w.Stop()
		})
	}
}

func TestGone(t *testing.T) {
	for _, asStatus := range []bool{false, true} {
		srv := start(t, fake.Options{InMemory: true, GoneAsStatus: asStatus})
		before := srv.Version()
		must(srv.Create(configMaps, object("a", "1")))
		srv.DropHistory()
		w, err := client(t, srv).Watch(t.Context(), metav1.ListOptions{ResourceVersion: fmt.Sprint(before)})
		if !asStatus {
			err = apierrors.FromObject((<-w.ResultChan()).Object)
			w.Stop()
		}
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("as status %v: %v", asStatus, err)
		}
	}
}

func TestStreamFaults(t *testing.T) {
	const line = `{"type":"ADDED"`
	for name, test := range map[string]struct {
		fault fake.Fault
		check func(events []string, rest string, err error) bool
	}{
		"gone": {fake.Fault{Stream: fake.Gone, AfterEvents: 1}, func(events []string, rest string, err error) bool {
			return len(events) == 2 && strings.Contains(events[1], `"code":410`) && rest == "" && err == nil
		}},
		"failed": {fake.Fault{Stream: fake.Failed, Status: 500}, func(events []string, rest string, err error) bool {
			return len(events) == 1 && strings.Contains(events[0], `"code":500`) && err == nil
		}},
		"cut in an event": {fake.Fault{Stream: fake.CutMidEvent, AfterEvents: 1}, func(events []string, rest string, err error) bool {
			return len(events) == 1 && strings.HasPrefix(rest, line) && errors.Is(err, io.ErrUnexpectedEOF)
		}},
		"cut": {fake.Fault{Stream: fake.Cut, AfterEvents: 2}, func(events []string, rest string, err error) bool {
			return len(events) == 2 && rest == "" && errors.Is(err, io.ErrUnexpectedEOF)
		}},
		"cut at a byte": {fake.Fault{CutAfterBytes: 10}, func(events []string, rest string, err error) bool {
			return len(rest) == 10 && errors.Is(err, io.ErrUnexpectedEOF)
		}},
		"end": {fake.Fault{Stream: fake.End, AfterEvents: 2}, func(events []string, rest string, err error) bool {
			return len(events) == 2 && rest == "" && err == nil
		}},
		"garbage": {fake.Fault{Stream: fake.Garbage}, func(events []string, rest string, err error) bool {
			return len(events) == 1 && strings.HasPrefix(events[0], "<html>") && err == nil
		}},
		"duplicates in reverse, no end mark": {
			fake.Fault{DuplicateInitialEvents: true, ReverseInitialEvents: true, OmitInitialEventsEnd: true, Stream: fake.End, AfterEvents: 6},
			func(events []string, rest string, err error) bool {
				return len(events) == 6 && strings.Contains(events[0], `"name":"c"`) && events[0] == events[3]
			},
		},
		"silent": {fake.Fault{Stream: fake.Silent, AfterEvents: 1}, func(events []string, rest string, err error) bool {
			return len(events) == 1 && err == nil // until the watch's own end
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := fake.New(fake.Options{InMemory: true})
				defer srv.Close()
				for _, name := range []string{"a", "b", "c"} {
					must(srv.Create(configMaps, object(name, "1")))
				}
				srv.SetFault(func(fake.Request) *fake.Fault { return &test.fault })
				body := open(t, srv, "&timeoutSeconds=10&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
				data, err := io.ReadAll(body)
				lines := strings.SplitAfter(string(data), "\n")
				if last := len(lines) - 1; !test.check(lines[:last], lines[last], err) {
					t.Errorf("got %q, %v", data, err)
				}
			})
		})
	}
}

func TestAnswerFaults(t *testing.T) { synctest.Test(t, testAnswerFaults) }

func testAnswerFaults(t *testing.T) {
	srv := fake.New(fake.Options{InMemory: true})
	defer srv.Close()
	c := client(t, srv)
	fault := fake.Fault{Status: http.StatusTooManyRequests, RetryAfter: 7}
	srv.SetFault(func(r fake.Request) *fake.Fault {
		if r.Verb != "watch" || r.Resource != "configmaps" || r.Namespace != "default" {
			t.Errorf("request %+v", r)
		}
		return &fault
	})
	began := time.Now()
	_, err := c.Watch(t.Context(), metav1.ListOptions{})
	if retries := len(srv.Requests()) - 1; time.Since(began) != time.Duration(retries)*7*time.Second {
		t.Errorf("%d retries within %s", retries, time.Since(began))
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 7 {
		t.Errorf("got %v", err)
	}
	fault = fake.Fault{Status: http.StatusBadGateway, Body: "<html>bad gateway</html>"}
	if _, err = c.Watch(t.Context(), metav1.ListOptions{}); err == nil || apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v", err)
	}
	fault = fake.Fault{Hang: true}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err = c.Watch(ctx, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	delay := fake.Fault{Delay: 3 * time.Second}
	srv.SetFault(func(fake.Request) *fake.Fault { return &delay })
	began = time.Now()
	if must(c.List(t.Context(), metav1.ListOptions{})); time.Since(began) != 3*time.Second {
		t.Errorf("answered after %s", time.Since(began))
	}
	requests := slices.DeleteFunc(srv.Requests(), func(r fake.Request) bool { return r.Verb == "list" })
	if n := len(requests); n < 3 || requests[0].Status != 429 || requests[n-1].Status != 0 {
		t.Errorf("requests %+v", requests)
	}
}

func TestIdentity(t *testing.T) {
	srv := start(t, fake.Options{})
	old := client(t, srv)
	srv.Forbid(configMaps, "list")
	if _, err := old.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	w := must(old.Watch(t.Context(), metav1.ListOptions{}))
	w.Stop()
	srv.Allow(configMaps, "list")
	must(old.List(t.Context(), metav1.ListOptions{}))
	srv.SetToken("another")
	if _, err := old.List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
	must(client(t, srv).List(t.Context(), metav1.ListOptions{}))
}

func TestKubeconfig(t *testing.T) {
	srv := start(t, fake.Options{ClusterUID: "6dd1b6d4-0000-4000-8000-000000000001"})
	config := must(clientcmd.BuildConfigFromFlags("", must(srv.Kubeconfig(t.TempDir()))))
	c := must(dynamic.NewForConfig(config))
	system := must(c.Resource(namespaces).Get(t.Context(), "kube-system", metav1.GetOptions{}))
	if system.GetUID() != "6dd1b6d4-0000-4000-8000-000000000001" {
		t.Errorf("uid %s", system.GetUID())
	}
}

func TestDiscoveryClient(t *testing.T) {
	for name, old := range map[string]bool{"aggregated": false, "old form": true} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, fake.Options{NoAggregatedDiscovery: old})
			srv.AddResource(fake.Resource{
				Group: "example.com", Version: "v2", ExtraVersions: []string{"v1"}, Resource: "widgets", Kind: "Widget",
				ShortNames: []string{"wd"}, Verbs: []string{"get", "list"},
			})
			d := must(discovery.NewDiscoveryClientForConfig(srv.Config()))
			groups, lists, err := d.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, list := range lists {
				for _, r := range list.APIResources {
					if !strings.Contains(r.Name, "/") {
						found = append(found, list.GroupVersion+" "+r.Name+" "+strings.Join(r.ShortNames, ","))
					}
				}
			}
			for _, want := range []string{"v1 pods po", "apps/v1 deployments deploy", "events.k8s.io/v1 events ev", "example.com/v2 widgets wd", "example.com/v1 widgets wd"} {
				if !slices.Contains(found, want) {
					t.Errorf("no %q in %q", want, found)
				}
			}
			for _, g := range groups {
				if g.Name == "example.com" && g.PreferredVersion.Version != "v2" {
					t.Errorf("prefers %v", g.PreferredVersion)
				}
			}
			srv.SetStale(schema.GroupVersion{Group: "apps", Version: "v1"}, true)
			if _, _, err = d.ServerGroupsAndResources(); !discovery.IsGroupDiscoveryFailedError(err) {
				t.Errorf("with a stale group: %v", err)
			}
		})
	}
}

func TestIndent(t *testing.T) {
	srv := start(t, fake.Options{InMemory: true})
	srv.AddResource(fake.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Indent: true})
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	must(srv.Create(gvr, map[string]any{"metadata": map[string]any{"name": "a"}}))
	c := must(dynamic.NewForConfig(srv.Config()))
	w := must(c.Resource(gvr).Watch(t.Context(), metav1.ListOptions{}))
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*unstructured.Unstructured).GetName() != "a" {
		t.Errorf("got %v", e)
	}
}

func TestEndAndBreakWatches(t *testing.T) {
	srv := start(t, fake.Options{InMemory: true})
	for name, test := range map[string]struct {
		stop func()
		want error
	}{"end": {srv.EndWatches, nil}, "break": {srv.BreakWatches, io.ErrUnexpectedEOF}} {
		body := open(t, srv, "&resourceVersion="+fmt.Sprint(srv.Version()))
		if err := srv.Await(t.Context(), func() bool { return srv.OpenWatches("configmaps") == 1 }); err != nil {
			t.Fatal(err)
		}
		must(srv.Create(configMaps, object(name, "1")))
		buffer := make([]byte, 16)
		if _, err := io.ReadFull(body, buffer); err != nil { // it is being served
			t.Fatal(err)
		}
		test.stop()
		if _, err := io.ReadAll(body); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := srv.Await(t.Context(), func() bool { return srv.OpenWatches("") == 0 }); err != nil {
			t.Fatal(err)
		}
	}
}

// What stands between a client and the server can be replaced: its certificate
// with the authority, a client's certificate; and a server that is down counts
// who calls.
func TestCredentials(t *testing.T) {
	get := func(c *rest.Config) (int, error) {
		t.Helper()
		client, err := rest.HTTPClientFor(c)
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		resp, err := client.Get(c.Host + "/api/v1/configmaps")
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	s := fake.New(fake.Options{})
	defer s.Close()
	with := func(certificate, key []byte) *rest.Config {
		c := s.Config()
		c.BearerToken, c.CertData, c.KeyData = "", certificate, key
		return c
	}
	first := with(s.IssueClient())
	if code, err := get(first); code != http.StatusOK {
		t.Errorf("with a client certificate: %d, %v", code, err)
	}
	second := with(s.IssueClient())
	if code, err := get(first); code != http.StatusUnauthorized {
		t.Errorf("with the one before: %d, %v", code, err)
	}
	if code, err := get(second); code != http.StatusOK {
		t.Errorf("with the newest: %d, %v", code, err)
	}
	before := s.Config()
	s.SetAuthority()
	var untrusted *tls.CertificateVerificationError
	if _, err := get(before); !errors.As(err, &untrusted) {
		t.Errorf("with the authority of before: %v", err)
	}
	if code, err := get(s.Config()); code != http.StatusOK {
		t.Errorf("with the new authority: %d, %v", code, err)
	}

	down := fake.New(fake.Options{InMemory: true})
	defer down.Close()
	down.StopAPIServer()
	if _, err := get(down.Config()); !errors.Is(err, syscall.ECONNREFUSED) || len(down.Refused()) != 1 {
		t.Errorf("refused %d times, the last with %v", len(down.Refused()), err)
	}
}
