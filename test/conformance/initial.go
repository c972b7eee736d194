package conformance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
)

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
			if end.Type != "BOOKMARK" || str(end.Object, "metadata", "annotations",
				"k8s.io/initial-events-end") != "true" || end.version() < version(last) {
				t.Fatalf("want the end of the initial events, got %s", end.raw)
			}
			blueprint := c.blueprint(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":null}` + "\n")
			want := fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{`+
				`"resourceVersion":"%d"%s,"annotations":{"k8s.io/initial-events-end":"true"%s}}}}`+"\n", end.version(),
				c.noCreation(), blueprint)
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
		w := c.watch(t, s.path("configmaps")+
			"?timeoutSeconds=1&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
		if got := kinds(w.rest()); !slices.Equal(got, []string{"ADDED"}) {
			t.Errorf("got %v", got)
		}
	}},
	{"declined", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		w := c.watch(t, s.path("configmaps")+
			"?timeoutSeconds=4&watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
		s.create(configMap("b", "1"))
		w.want("ADDED", "b")
	}},
	{"of events", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		c.do(t, http.MethodPost, s.path("events"), coreEvent(s, "a")).want(t, http.StatusCreated)
		w := c.watch(t, s.path("events")+"?"+initialEvents)
		w.want("ADDED", "a")
		if e := w.next(); e.Type != "BOOKMARK" ||
			str(e.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
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
		refusesInitialEvents(t, c, s.path("configmaps")+"?"+initialEvents)
	}},
}

// noInitialEventsTests are in place of initialEventsTests for a server that has
// the feature, and has it switched off. What is left to a client is in listTests
// and watchTests: pages, and a watch from where they were of.
var noInitialEventsTests = []test{
	{"refused", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for _, path := range []string{s.path("configmaps"), s.path("events"), s.path("apps/v1/deployments"),
			"/api/v1/configmaps"} {
			for _, query := range []string{
				initialEvents, initialEvents + "&resourceVersion=0",
				initialEvents + "&resourceVersion=" + fmt.Sprint(s.now()+far),
				initialEvents + "&labelSelector=app%3Dx",
				"watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
				"watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", // declining it is no better
			} {
				refusesInitialEvents(t, c, path+"?"+query)
			}
		}
	}},
	{"granted where the feature is on", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		if err := target.SetWatchList(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := target.SetWatchList(t.Context(), false); err != nil {
				t.Error(err)
			}
		}()
		w := c.watch(t, s.path("configmaps")+"?"+initialEvents)
		w.want("ADDED", "a")
		if e := w.next(); e.Type != "BOOKMARK" ||
			str(e.Object, "metadata", "annotations", "k8s.io/initial-events-end") != "true" {
			t.Errorf("got %s", e.raw)
		}
	}},
}

func refusesInitialEvents(t *testing.T, c *client, path string) {
	t.Helper()
	st := c.get(t, path).wantStatus(t, http.StatusUnprocessableEntity, "Invalid")
	if cause := find(at(st, "details", "causes"), "field",
		"sendInitialEvents"); cause["reason"] != "FieldValueForbidden" {
		t.Errorf("%s: got %v", path, st)
	}
}

// noCreation is what a server before 1.34 puts into the metadata of a bookmark
// of a compiled kind, after the version.
func (c *client) noCreation() string {
	if c.minor < 34 {
		return `,"creationTimestamp":null`
	}
	return ""
}

// blueprint is the annotation that a server before 1.34 puts after the end
// mark: an empty list of the kind, which tells a client nothing new.
func (c *client) blueprint(list string) string {
	if c.minor < 34 {
		return `,"kubernetes.io/initial-events-list-blueprint":` +
			strconv.Quote(base64.StdEncoding.EncodeToString([]byte(list)))
	}
	return ""
}
