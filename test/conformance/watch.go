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
		if want := `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"` + s.name + `",`; !strings.HasPrefix(e.raw, want) {
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
	{"of everything from now", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for _, query := range []string{"", "&resourceVersion=0", "&resourceVersion="} {
			for _, name := range []string{"b", "a"} {
				c.do(t, http.MethodPost, s.path("configmaps"), configMap(name, "1"))
			}
			// Such a watch is made a streamed list: the state in key order, and a
			// mark at its end where bookmarks are allowed.
			w := c.watch(t, s.path("configmaps")+"?watch=true&allowWatchBookmarks=true"+query)
			w.want("ADDED", "a")
			w.want("ADDED", "b")
			if e := w.next(); e.Type != "BOOKMARK" || str(e.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
				t.Fatalf("got %s", e.raw)
			}
			plain := c.watch(t, s.path("configmaps")+"?watch=true"+query)
			plain.want("ADDED", "a")
			plain.want("ADDED", "b")
			s.remove("a")
			w.want("DELETED", "a")
			plain.want("DELETED", "a")
		}
	}},
	{"at a version ahead", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=3&allowWatchBookmarks=true&resourceVersion=%d", s.path("configmaps"), s.now()+far))
		s.create(configMap("a", "1"))
		if events := w.rest(); len(events) != 0 {
			t.Errorf("got %v from a watch that is ahead of the server", events)
		}
	}},
	{"at a malformed version", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		st := c.get(t, s.path("configmaps")+"?watch=true&resourceVersion=abc").wantStatus(t, http.StatusInternalServerError, "")
		if !strings.HasPrefix(str(st, "message"), `resourceVersion: Invalid value: "abc": `) {
			t.Errorf("got %v", st["message"])
		}
	}},
	{"malformed parameters", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for _, query := range []string{"fieldSelector=data.key%3D1", "labelSelector=a+in+(b"} {
			c.get(t, s.path("configmaps")+"?watch=true&"+query).wantStatus(t, http.StatusBadRequest, "BadRequest")
		}
		for _, query := range []string{"resourceVersionMatch=NotOlderThan&resourceVersion=1", "sendInitialEvents=true", "sendInitialEvents=true&resourceVersionMatch=Exact"} {
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
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion=%d", s.path("configmaps"), from))
		w.want("ADDED", "a")
		// A bookmark is sent only once the server is past what the watch began
		// with, which includes the events that were waiting for it.
		b := s.create(configMap("b", "1"))
		w.want("ADDED", "b")
		e := w.next()
		if e.Type != "BOOKMARK" || e.version() < version(b) {
			t.Fatalf("got %v", e)
		}
		want := fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}}`+"\n", e.version())
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
		w := c.watch(t, fmt.Sprintf("%s?watch=true&labelSelector=app%%3Dx&resourceVersion=%d", s.path("configmaps"), from))
		s.create(configMap("other", "1"))
		s.create(configMap("a", "1"))
		in := s.patch(map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}})
		if e := w.want("ADDED", "a"); e.version() != version(in) {
			t.Errorf("entered at %d, want %d", e.version(), version(in))
		}
		s.patch(map[string]any{"data": map[string]any{"key": "2"}})
		w.want("MODIFIED", "a")
		out := s.patch(map[string]any{"data": map[string]any{"key": "3"}, "metadata": map[string]any{"labels": map[string]any{"app": "y"}}})
		e := w.want("DELETED", "a")
		if e.version() != version(out) || str(e.Object, "data", "key") != "2" || str(e.Object, "metadata", "labels", "app") != "x" {
			t.Errorf("left with the new state, or not at the new version: %s", e.raw)
		}
		s.remove("a")
		s.create(configMap("b", "1", "app", "x"))
		w.want("ADDED", "b")
	}},
	{"of one object", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		from := s.now()
		w := c.watch(t, fmt.Sprintf("%s?watch=true&fieldSelector=metadata.name%%3Db&resourceVersion=%d", s.path("configmaps"), from))
		s.create(configMap("a", "1"))
		s.create(configMap("b", "1"))
		w.want("ADDED", "b")
		// Under the object's own path it is no watch, whatever the query says.
		if o := c.get(t, s.path("configmaps/b")+"?watch=true").want(t, http.StatusOK).object(t); o["kind"] != "ConfigMap" {
			t.Errorf("got %v", o)
		}
	}},
	{"over all namespaces", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		w := c.watch(t, fmt.Sprintf("/api/v1/configmaps?watch=true&labelSelector=all%%3D%s&resourceVersion=%d", s.name, s.now()))
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
		w := c.watch(t, fmt.Sprintf("%s?watch=true&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion=%d", s.path("configmaps"), s.now()),
			"Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		s.create(configMap("a", "1"))
		e := w.want("ADDED", "a")
		if e.Object["kind"] != "PartialObjectMetadata" || e.Object["apiVersion"] != "meta.k8s.io/v1" || e.Object["data"] != nil {
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
		young := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("events.k8s.io/v1/events"), from)).want("ADDED", "a")
		if old.version() != young.version() || str(old.Object, "metadata", "uid") != str(young.Object, "metadata", "uid") {
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

// initialEvents is the query for a streamed list.
const initialEvents = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

var initialEventsTests = []test{
	{"state, end mark, then live", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("b", "1"))
		s.create(configMap("a", "1"))
		last := s.update(configMap("b", "2"))
		for _, query := range []string{"", "&resourceVersion=0", "&resourceVersion=" + fmt.Sprint(version(last))} {
			w := c.watch(t, s.path("configmaps")+"?"+initialEvents+query)
			w.want("ADDED", "a")
			if b := w.want("ADDED", "b"); b.version() != version(last) {
				t.Errorf("b as of %d", b.version())
			}
			end := w.next()
			if end.Type != "BOOKMARK" || str(end.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" || end.version() < version(last) {
				t.Fatalf("want the end of the initial events, got %s", end.raw)
			}
			want := fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", end.version())
			if end.raw != want {
				t.Errorf("got  %swant %s", end.raw, want)
			}
			s.create(configMap("c", "1"))
			if e := w.want("ADDED", "c"); e.version() <= end.version() {
				t.Errorf("event of %d after the end at %d", e.version(), end.version())
			}
			s.remove("c")
			w.want("DELETED", "c")
		}
	}},
	{"of nothing", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		if e := c.watch(t, s.path("configmaps")+"?"+initialEvents).next(); e.Type != "BOOKMARK" || e.version() == 0 {
			t.Errorf("got %s", e.raw)
		}
	}},
	{"of a selection", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		s.create(configMap("b", "1", "app", "x"))
		w := c.watch(t, s.path("configmaps")+"?labelSelector=app%3Dx&"+initialEvents)
		w.want("ADDED", "b")
		if e := w.next(); e.Type != "BOOKMARK" {
			t.Errorf("got %s", e.raw)
		}
	}},
	{"bookmarks after the end mark carry no mark", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		w := c.watch(t, s.path("configmaps")+"?timeoutSeconds=4&"+initialEvents)
		if e := w.next(); e.Type != "BOOKMARK" {
			t.Fatalf("got %s", e.raw)
		}
		s.create(configMap("a", "1"))
		w.want("ADDED", "a")
		more := w.rest()
		if len(more) == 0 {
			t.Error("no bookmark before the timeout")
		}
		for _, e := range more {
			if e.Type != "BOOKMARK" || at(e.Object, "metadata", "annotations") != nil {
				t.Errorf("got %s", e.raw)
			}
		}
	}},
	{"without bookmarks there is no end mark", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		w := c.watch(t, s.path("configmaps")+"?timeoutSeconds=1&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
		if got := kinds(w.rest()); !slices.Equal(got, []string{"ADDED"}) {
			t.Errorf("got %v", got)
		}
	}},
	{"declined", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		w := c.watch(t, s.path("configmaps")+"?timeoutSeconds=4&watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
		s.create(configMap("b", "1"))
		w.want("ADDED", "b")
	}},
	{"of events", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		c.do(t, http.MethodPost, s.path("events"), coreEvent(s, "a")).want(t, http.StatusCreated)
		w := c.watch(t, s.path("events")+"?"+initialEvents)
		w.want("ADDED", "a")
		if e := w.next(); e.Type != "BOOKMARK" || str(e.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
			t.Errorf("got %s", e.raw)
		}
	}},
	{"at a version ahead", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		ahead := s.now() + far
		w := c.watch(t, fmt.Sprintf("%s?%s&resourceVersion=%d", s.path("configmaps"), initialEvents, ahead))
		e := w.next()
		if e.Type != "ERROR" {
			t.Fatalf("got %s", e.raw)
		}
		checkStatus(t, e.Object, http.StatusGatewayTimeout, "Timeout")
		if find(at(e.Object, "details", "causes"), "reason", "ResourceVersionTooLarge") == nil {
			t.Errorf("got %s", e.raw)
		}
		if more := w.rest(); len(more) != 0 {
			t.Errorf("and then %v", more)
		}
	}},
	{"refused where the feature is off", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		if err := target.SetWatchList(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := target.SetWatchList(t.Context(), true); err != nil {
				t.Error(err)
			}
		}()
		st := c.get(t, s.path("configmaps")+"?"+initialEvents).wantStatus(t, http.StatusUnprocessableEntity, "Invalid")
		if cause := find(at(st, "details", "causes"), "field", "sendInitialEvents"); cause["reason"] != "FieldValueForbidden" {
			t.Errorf("got %v", st)
		}
	}},
}

func kinds(events []event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}
