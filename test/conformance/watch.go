package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

var watchTests = []test{
	{"from a version", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		created := s.create(configMap("a", "1"))
		updated := s.update(configMap("a", "2"))
		s.create(configMap("b", "1"))
		w := c.watch(t, s.path("configmaps")+"?watch=true&resourceVersion="+fmt.Sprint(from))
		if got := w.resp.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("content type %q", got)
		}
		e := w.want("ADDED", "a")
		if e.version() != version(created) || str(e.Object, "data", "key") != "1" {
			t.Errorf("first event is of %d with %v", e.version(), e.Object["data"])
		}
		if want := `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a",` +
			`"namespace":"` + s.name + `",`; !strings.HasPrefix(e.raw, want) {
			t.Errorf("frame begins %.200s", e.raw)
		}
		if e = w.want("MODIFIED", "a"); e.version() != version(updated) {
			t.Errorf("second event is of %d", e.version())
		}
		w.want("ADDED", "b")
		// From here on it is live.
		s.remove("a")
		e = w.want("DELETED", "a")
		if e.version() <= version(updated) || str(e.Object, "data", "key") != "2" {
			t.Errorf("deletion is of %d with %v", e.version(), e.Object["data"])
		}
		again := s.create(configMap("a", "3"))
		if e = w.want("ADDED", "a"); str(e.Object, "metadata", "uid") != str(again, "metadata", "uid") {
			t.Error("event of the object that was created again has another uid")
		}
	}},
	{"the version itself is not sent", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		a := s.create(configMap("a", "1"))
		w := c.watch(t, s.path("configmaps")+"?watch=true&resourceVersion="+fmt.Sprint(version(a)))
		s.create(configMap("b", "1"))
		w.want("ADDED", "b")
	}},
	{"from where pages were of", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for _, name := range []string{"a", "b", "c"} {
			s.create(configMap(name, "1"))
		}
		first := c.get(t, s.path("configmaps")+"?limit=2").want(t, http.StatusOK).object(t)
		changed := s.update(configMap("c", "2"))
		s.remove("a")
		last := c.get(t, s.path("configmaps")+"?limit=2&continue="+str(first, "metadata", "continue")).want(t,
			http.StatusOK).object(t)
		if got := names(last); !slices.Equal(got, []string{"c"}) || version(last) != version(first) {
			t.Fatalf("last page %v at %d, the first was at %d", got, version(last), version(first))
		}
		w := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("configmaps"), version(last)))
		if e := w.want("MODIFIED", "c"); e.version() != version(changed) {
			t.Errorf("first event is of %d, want %d", e.version(), version(changed))
		}
		w.want("DELETED", "a")
	}},
	{"of everything from now", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		for _, query := range []string{"", "&resourceVersion=0", "&resourceVersion="} {
			c.do(t, http.MethodPost, s.path("configmaps"), configMap("b", "1")) // is there from the second time on
			s.cached(s.create(configMap("a", "1")))
			w := c.watch(t, s.path("configmaps")+"?watch=true&allowWatchBookmarks=true"+query)
			plain := c.watch(t, s.path("configmaps")+"?watch=true"+query)
			for _, w := range []*stream{w, plain} {
				got := []string{w.next().String(), w.next().String()}
				if target.NoWatchList {
					slices.Sort(got) // in no order that the API promises
				}
				if !strings.HasPrefix(got[0], "ADDED a@") || !strings.HasPrefix(got[1], "ADDED b@") {
					t.Fatalf("got %v", got)
				}
			}
			// Where initial events are streamed, such a watch is made a streamed
			// list: the state in key order, and a mark at its end where bookmarks
			// are allowed. Else nothing tells where the state ends.
			if !target.NoWatchList {
				if e := w.next(); e.Type != "BOOKMARK" ||
					str(e.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
					t.Fatalf("got %s", e.raw)
				}
			}
			s.remove("a")
			w.want("DELETED", "a")
			plain.want("DELETED", "a")
		}
	}},
	{"at a version ahead", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=3&allowWatchBookmarks=true&resourceVersion=%d",
			s.path("configmaps"), s.now()+far))
		s.create(configMap("a", "1"))
		if events := w.rest(); len(events) != 0 {
			t.Errorf("got %v from a watch that is ahead of the server", events)
		}
	}},
	{"at a malformed version", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		st := c.get(t, s.path("configmaps")+"?watch=true&resourceVersion=abc").wantStatus(t,
			http.StatusInternalServerError, "")
		if !strings.HasPrefix(str(st, "message"), `resourceVersion: Invalid value: "abc": `) {
			t.Errorf("got %v", st["message"])
		}
	}},
	{"malformed parameters", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for _, query := range []string{"fieldSelector=data.key%3D1", "labelSelector=a+in+(b"} {
			c.get(t, s.path("configmaps")+"?watch=true&"+query).wantStatus(t, http.StatusBadRequest, "BadRequest")
		}
		for _, query := range []string{"resourceVersionMatch=NotOlderThan&resourceVersion=1", "sendInitialEvents=true",
			"sendInitialEvents=true&resourceVersionMatch=Exact"} {
			c.get(t, s.path("configmaps")+"?watch=true&"+query).wantStatus(t, http.StatusUnprocessableEntity, "Invalid")
		}
	}},
	{"ends in good order at its timeout", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		s.create(configMap("a", "1"))
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=1&resourceVersion=%d", s.path("configmaps"), from))
		if events := w.rest(); len(events) != 1 {
			t.Errorf("got %v", events)
		}
	}},
	{"bookmark before the timeout", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		s.create(configMap("a", "1"))
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion=%d",
			s.path("configmaps"), from))
		w.want("ADDED", "a")
		// A bookmark is sent only once the server is past what the watch began
		// with, which includes the events that were waiting for it.
		b := s.create(configMap("b", "1"))
		w.want("ADDED", "b")
		e := w.next()
		if e.Type != "BOOKMARK" || e.version() < version(b) {
			t.Fatalf("got %v", e)
		}
		want := fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{`+
			`"resourceVersion":"%d"%s}}}`+"\n", e.version(), c.noCreation())
		if e.raw != want {
			t.Errorf("got  %swant %s", e.raw, want)
		}
		for _, e := range w.rest() {
			if e.Type != "BOOKMARK" {
				t.Errorf("got %v", e)
			}
		}
	}},
	{"no bookmark unless asked for", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		s.create(configMap("a", "1"))
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=3&resourceVersion=%d", s.path("configmaps"), from))
		w.want("ADDED", "a")
		if events := w.rest(); len(events) != 0 {
			t.Errorf("got %v", events)
		}
	}},
	{"into and out of a selection", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		w := c.watch(t,
			fmt.Sprintf("%s?watch=true&labelSelector=app%%3Dx&resourceVersion=%d", s.path("configmaps"), from))
		s.create(configMap("other", "1"))
		s.create(configMap("a", "1"))
		in := s.patch(map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}})
		if e := w.want("ADDED", "a"); e.version() != version(in) {
			t.Errorf("entered at %d, want %d", e.version(), version(in))
		}
		s.patch(map[string]any{"data": map[string]any{"key": "2"}})
		w.want("MODIFIED", "a")
		out := s.patch(map[string]any{"data": map[string]any{"key": "3"},
			"metadata": map[string]any{"labels": map[string]any{"app": "y"}}})
		e := w.want("DELETED", "a")
		if e.version() != version(out) || str(e.Object, "data", "key") != "2" ||
			str(e.Object, "metadata", "labels", "app") != "x" {
			t.Errorf("left with the new state, or not at the new version: %s", e.raw)
		}
		s.remove("a")
		s.create(configMap("b", "1", "app", "x"))
		w.want("ADDED", "b")
	}},
	{"of one object", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		w := c.watch(t, fmt.Sprintf("%s?watch=true&fieldSelector=metadata.name%%3Db&resourceVersion=%d",
			s.path("configmaps"), from))
		s.create(configMap("a", "1"))
		s.create(configMap("b", "1"))
		w.want("ADDED", "b")
		// Under the object's own path it is no watch, whatever the query says.
		if o := c.get(t, s.path("configmaps/b")+"?watch=true").want(t,
			http.StatusOK).object(t); o["kind"] != "ConfigMap" {
			t.Errorf("got %v", o)
		}
	}},
	{"over all namespaces", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		w := c.watch(t,
			fmt.Sprintf("/api/v1/configmaps?watch=true&labelSelector=all%%3D%s&resourceVersion=%d", s.name, s.now()))
		other := newSpace(t, c)
		s.create(configMap("a", "1", "all", s.name))
		other.create(configMap("b", "1", "all", s.name))
		w.want("ADDED", "a")
		w.want("ADDED", "b")
	}},
	{"finalizers", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		o := configMap("a", "1")
		o["metadata"].(map[string]any)["finalizers"] = []any{"kubejournal.example/hold"}
		s.create(o)
		s.remove("a")
		s.patch(map[string]any{"metadata": map[string]any{"finalizers": nil}})
		w := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("configmaps"), from))
		w.want("ADDED", "a")
		marked := w.want("MODIFIED", "a")
		if str(marked.Object, "metadata", "deletionTimestamp") == "" {
			t.Errorf("not marked: %s", marked.raw)
		}
		if gone := w.want("DELETED", "a"); gone.version() <= marked.version() {
			t.Errorf("deletion at %d, mark at %d", gone.version(), marked.version())
		}
	}},
	{"metadata only", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion=%d",
			s.path("configmaps"), s.now()),
			"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		s.create(configMap("a", "1"))
		e := w.want("ADDED", "a")
		if e.Object["kind"] != "PartialObjectMetadata" || e.Object["apiVersion"] != "meta.k8s.io/v1" ||
			e.Object["data"] != nil {
			t.Errorf("got %s", e.raw)
		}
		if e = w.next(); e.Type != "BOOKMARK" || e.Object["kind"] != "PartialObjectMetadata" {
			t.Errorf("got %s", e.raw)
		}
	}},
	{"under two groups", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		c.do(t, http.MethodPost, s.path("events"), coreEvent(s, "a")).want(t, http.StatusCreated)
		old := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("events"), from)).want("ADDED", "a")
		young := c.watch(t,
			fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("events.k8s.io/v1/events"), from)).want("ADDED", "a")
		if old.version() != young.version() ||
			str(old.Object, "metadata", "uid") != str(young.Object, "metadata", "uid") {
			t.Errorf("%v and %v", old.Object["metadata"], young.Object["metadata"])
		}
		if old.Object["message"] != "began" || young.Object["note"] != "began" {
			t.Errorf("%s%s", old.raw, young.raw)
		}
	}},
}

func coreEvent(s space, name string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name},
		"involvedObject": map[string]any{"kind": "Pod", "namespace": s.name, "name": "p"},
		"reason":         "Started", "message": "began", "type": "Normal",
	}
}

func kinds(events []event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}
