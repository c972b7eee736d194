package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// restart also drops the connections that the client keeps: it may not have
// noticed yet that the server has closed them.
func restart(t *testing.T, c *client, target Target) {
	t.Helper()
	if err := target.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The client may learn later than this that its connections are gone: one that
	// still counts a stream that has just ended is not idle. A request that is
	// answered has found a new one.
	eventually(t, "server answers after its restart", func() bool {
		utilnet.CloseIdleConnectionsFor(c.http.Transport)
		return c.answers(t)
	})
}

func compact(t *testing.T, target Target) {
	t.Helper()
	if err := target.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var customTests = []test{
	{"comes and goes", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		path := s.path(CustomGroup + "/" + CustomVersion + "/" + CustomPlural)
		c.get(t, path).want(t, http.StatusNotFound)
		if err := target.AddCustom(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "custom resource is served", func() bool { return c.get(t, path).status == http.StatusOK })
		eventually(t, "custom resource is discovered", func() bool {
			a := c.get(t, "/apis/"+CustomGroup+"/"+CustomVersion)
			return a.status == http.StatusOK &&
				find(a.object(t)["resources"], "name", CustomPlural)["kind"] == CustomKind
		})
		empty := c.get(t, path).want(t, http.StatusOK)
		if want := `{"apiVersion":"` + CustomGroup + `/v1","items":[],"kind":"WidgetList","metadata":{"continue":"",` +
			`"resourceVersion":"`; !strings.HasPrefix(string(empty.body), want) {
			t.Errorf("empty list %s", empty.body)
		}
		widget := func(name string) map[string]any {
			return map[string]any{"apiVersion": CustomGroup + "/v1", "kind": CustomKind,
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": 1}}
		}
		w := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", path, version(empty.object(t))))
		a := c.do(t, http.MethodPost, path, widget("a")).want(t, http.StatusCreated).object(t)
		c.do(t, http.MethodPost, path, widget("b")).want(t, http.StatusCreated)
		e := w.want("ADDED", "a")
		if e.Object["kind"] != CustomKind || at(e.Object, "metadata", "generation") != float64(1) ||
			at(e.Object, "spec", "size") != float64(1) {
			t.Errorf("got %s", e.raw)
		}
		w.want("ADDED", "b")

		list := c.get(t, path).want(t, http.StatusOK)
		if want := `{"apiVersion":"` + CustomGroup + `/v1","items":[{"apiVersion":"` + CustomGroup +
			`/v1","kind":"Widget","metadata":{"`; !strings.HasPrefix(string(list.body), want) {
			t.Errorf("list begins %.300s", list.body)
		}
		page := c.get(t, path+"?limit=1").want(t, http.StatusOK).object(t)
		if str(page, "metadata", "continue") == "" || at(page, "metadata", "remainingItemCount") != float64(1) {
			t.Errorf("page %v", page["metadata"])
		}
		if target.NoWatchList {
			refusesInitialEvents(t, c, path+"?"+initialEvents)
		} else {
			streamed := c.watch(t, path+"?"+initialEvents)
			streamed.want("ADDED", "a")
			streamed.want("ADDED", "b")
			end := streamed.next()
			blueprint := c.blueprint(`{"apiVersion":"` + CustomGroup + `/v1","items":[],"kind":"WidgetList"}` + "\n")
			want := fmt.Sprintf(`{"type":"BOOKMARK","object":{"apiVersion":"%s/v1","kind":"Widget","metadata":{`+
				`"annotations":{"k8s.io/initial-events-end":"true"%s},"resourceVersion":"%d"}}}`+"\n", CustomGroup,
				blueprint, end.version())
			if end.raw != want {
				t.Errorf("got  %swant %s", end.raw, want)
			}
		}
		for _, missing := range []string{s.path(CustomGroup + "/v1/nothings"),
			s.path(CustomGroup + "/v0/" + CustomPlural)} {
			if a := c.get(t, missing).want(t, http.StatusNotFound); string(a.body) != "404 page not found\n" {
				t.Errorf("%s: %s", missing, a.body)
			}
		}
		c.get(t, path+"?fieldSelector=spec.size%3D1").wantStatus(t, http.StatusBadRequest, "BadRequest")

		if err := target.RemoveCustom(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Its objects go first, each with an event; then its watches end.
		gone := w.want("DELETED", "a")
		for gone.Type == "MODIFIED" {
			gone = w.next()
		}
		if gone.version() <= version(a) {
			t.Errorf("deleted at %d", gone.version())
		}
		w.want("DELETED", "b")
		if more := w.rest(); len(more) != 0 {
			t.Errorf("and then %v", more)
		}
		eventually(t, "custom resource is gone", func() bool { return c.get(t, path).status == http.StatusNotFound })
		if a := c.get(t, path+"?watch=true").want(t, http.StatusNotFound); string(a.body) != "404 page not found\n" {
			t.Errorf("got %s", a.body)
		}
	}},
}

var historyTests = []test{
	{"restart ends watches", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		w := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("configmaps"), s.now()))
		restart(t, c, target)
		for {
			if _, err := w.read(); err != nil {
				return // in good order or not
			}
		}
	}},
	{"restart expires watches", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		before := s.now()
		s.create(configMap("a", "1"))
		last := s.update(configMap("a", "2"))
		restart(t, c, target)
		w := c.watch(t,
			fmt.Sprintf("%s?watch=true&allowWatchBookmarks=true&resourceVersion=%d", s.path("configmaps"), before))
		e := w.next()
		if e.Type != "ERROR" {
			t.Fatalf("got %s", e.raw)
		}
		checkStatus(t, e.Object, http.StatusGone, "Expired")
		if !strings.HasPrefix(str(e.Object, "message"), fmt.Sprintf("too old resource version: %d (", before)) {
			t.Errorf("message %v", e.Object["message"])
		}
		if more := w.rest(); len(more) != 0 {
			t.Errorf("and then %v", more)
		}
		// etcd still has the history.
		list := c.get(t, fmt.Sprintf("%s?resourceVersionMatch=Exact&resourceVersion=%d", s.path("configmaps"),
			before)).want(t, http.StatusOK).object(t)
		if got := names(list); len(got) != 0 {
			t.Errorf("at %d there was %v", before, got)
		}
		// And where the server stands now, a watch can begin.
		w = c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("configmaps"), s.now()))
		after := s.create(configMap("b", "1"))
		if version(after) <= version(last) {
			t.Errorf("version went from %d to %d", version(last), version(after))
		}
		w.want("ADDED", "b")
	}},
	{"restart leaves watches of events", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		before := s.now()
		c.do(t, http.MethodPost, s.path("events"), coreEvent(s, "a")).want(t, http.StatusCreated)
		restart(t, c, target)
		c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("events"), before)).want("ADDED", "a")
	}},
	{"compaction leaves the watch cache", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		before := s.now()
		s.create(configMap("a", "1"))
		s.update(configMap("a", "2"))
		compact(t, target)
		w := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("configmaps"), before))
		w.want("ADDED", "a")
		w.want("MODIFIED", "a")
	}},
	{"compaction expires watches of events", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		before := s.now()
		for _, name := range []string{"a", "b", "c"} {
			c.do(t, http.MethodPost, s.path("events"), coreEvent(s, name)).want(t, http.StatusCreated)
		}
		compact(t, target)
		w := c.watch(t, fmt.Sprintf("%s?watch=true&resourceVersion=%d", s.path("events"), before))
		e := w.next()
		if e.Type != "ERROR" {
			t.Fatalf("got %s", e.raw)
		}
		checkStatus(t, e.Object, http.StatusGone, "Expired")
		if more := w.rest(); len(more) != 0 {
			t.Errorf("and then %v", more)
		}
	}},
	{"compaction and restart expire pages", func(t *testing.T, c *client, target Target) {
		s := newSpace(t, c)
		for _, name := range []string{"a", "b", "c"} {
			s.create(configMap(name, "1"))
		}
		first := c.get(t, s.path("configmaps")+"?limit=2").want(t, http.StatusOK).object(t)
		s.create(configMap("aa", "1"))
		s.create(configMap("d", "1"))
		compact(t, target)
		restart(t, c, target)
		st := c.get(t, s.path("configmaps")+"?limit=1&continue="+str(first, "metadata", "continue")).wantStatus(t,
			http.StatusGone, "Expired")
		token := str(st, "metadata", "continue")
		if token == "" || !strings.HasPrefix(str(st, "message"),
			"The provided continue parameter is too old to display a consistent list result.") {
			t.Fatalf("got %v", st)
		}
		// The rest is of now: what came before the page's key stays unseen.
		rest := c.get(t, s.path("configmaps")+"?limit=1&continue="+token).want(t, http.StatusOK).object(t)
		if got := names(rest); !slices.Equal(got, []string{"c"}) || version(rest) <= version(first) {
			t.Fatalf("got %v at %d, first page was at %d", got, version(rest), version(first))
		}
		last := c.get(t, s.path("configmaps")+"?limit=1&continue="+str(rest, "metadata", "continue")).want(t,
			http.StatusOK).object(t)
		if got := names(last); !slices.Equal(got, []string{"d"}) || version(last) != version(rest) {
			t.Errorf("got %v at %d", got, version(last))
		}
		old := c.get(t, fmt.Sprintf("%s?resourceVersionMatch=Exact&resourceVersion=%d", s.path("configmaps"),
			version(first))).wantStatus(t, http.StatusGone, "Expired")
		if old["message"] != "The resourceVersion for the provided list is too old." {
			t.Errorf("message %v", old["message"])
		}
	}},
}
