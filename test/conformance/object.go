package conformance

import (
	"net/http"
	"strings"
	"testing"
)

var objectTests = []test{
	{"create", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		a := c.do(t, http.MethodPost, s.path("configmaps"), configMap("a", "1")).want(t, http.StatusCreated)
		if want := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"` + s.name +
			`","uid":"`; !strings.HasPrefix(string(a.body), want) {
			t.Errorf("body begins %.200s", a.body)
		}
		if n := strings.Count(string(a.body), "\n"); n != 1 || !strings.HasSuffix(string(a.body), "}\n") {
			t.Errorf("%d lines: %q", n, a.body)
		}
		o := a.object(t)
		if version(o) == 0 || str(o, "metadata", "creationTimestamp") == "" || at(o, "metadata", "generation") != nil {
			t.Errorf("metadata %v", o["metadata"])
		}
		entry, _ := at(o, "metadata", "managedFields").([]any)
		if len(entry) != 1 || str(entry[0].(map[string]any), "manager") != "conformance" ||
			str(entry[0].(map[string]any), "operation") != "Update" ||
			at(entry[0].(map[string]any), "fieldsV1", "f:data", "f:key") == nil ||
			str(entry[0].(map[string]any), "time") == "" {
			t.Errorf("managedFields %v", entry)
		}
	}},
	{"create what is there", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		st := c.do(t, http.MethodPost, s.path("configmaps"), configMap("a", "2")).wantStatus(t, http.StatusConflict,
			"AlreadyExists")
		if st["message"] != `configmaps "a" already exists` {
			t.Errorf("got %v", st["message"])
		}
	}},
	{"get what is not there", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		st := c.get(t, s.path("configmaps/a")).wantStatus(t, http.StatusNotFound, "NotFound")
		if st["message"] != `configmaps "a" not found` || str(st, "details", "kind") != "configmaps" ||
			str(st, "details", "name") != "a" {
			t.Errorf("got %v", st)
		}
	}},
	{"generation", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		path := s.path("apps/v1/deployments")
		o := c.do(t, http.MethodPost, path, deployment("a")).want(t, http.StatusCreated).object(t)
		if at(o, "metadata", "generation") != float64(1) {
			t.Errorf("generation %v", at(o, "metadata", "generation"))
		}
		merge := []string{"Content-Type", "application/merge-patch+json"}
		o = c.do(t, http.MethodPatch, path+"/a", map[string]any{"spec": map[string]any{"replicas": 3}},
			merge...).want(t, http.StatusOK).object(t)
		if at(o, "metadata", "generation") != float64(2) {
			t.Errorf("generation after a change of spec %v", at(o, "metadata", "generation"))
		}
		o = c.do(t, http.MethodPatch, path+"/a",
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}},
			merge...).want(t, http.StatusOK).object(t)
		if at(o, "metadata", "generation") != float64(2) {
			t.Errorf("generation after a change of labels %v", at(o, "metadata", "generation"))
		}
	}},
	{"update", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		first := s.create(configMap("a", "1"))
		second := s.update(configMap("a", "2"))
		if version(second) <= version(first) || str(second, "metadata", "uid") != str(first, "metadata", "uid") {
			t.Errorf("from %v to %v", first["metadata"], second["metadata"])
		}
		stale := configMap("a", "3")
		stale["metadata"].(map[string]any)["resourceVersion"] = str(first, "metadata", "resourceVersion")
		c.do(t, http.MethodPut, s.path("configmaps/a"), stale).wantStatus(t, http.StatusConflict, "Conflict")
		c.do(t, http.MethodPut, s.path("configmaps/b"), configMap("a", "3")).wantStatus(t, http.StatusBadRequest,
			"BadRequest")
	}},
	{"update that changes nothing", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		first := s.create(configMap("a", "1"))
		if again := s.update(configMap("a", "1")); version(again) != version(first) {
			t.Errorf("version went from %d to %d", version(first), version(again))
		}
		if again := s.patch(map[string]any{"data": map[string]any{"key": "1"}}); version(again) != version(first) {
			t.Errorf("version went from %d to %d by a patch", version(first), version(again))
		}
	}},
	{"merge patch", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		o := s.patch(map[string]any{"data": map[string]any{"key": nil, "other": "2"}})
		if at(o, "data", "key") != nil || str(o, "data", "other") != "2" {
			t.Errorf("got %v", o["data"])
		}
	}},
	{"delete", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		o := s.create(configMap("a", "1"))
		st := c.do(t, http.MethodDelete, s.path("configmaps/a"), nil).want(t, http.StatusOK).object(t)
		if st["kind"] != "Status" || st["status"] != "Success" || str(st, "details", "kind") != "configmaps" ||
			str(st, "details", "uid") != str(o, "metadata", "uid") {
			t.Errorf("got %v", st)
		}
		c.do(t, http.MethodDelete, s.path("configmaps/a"), nil).wantStatus(t, http.StatusNotFound, "NotFound")
		again := s.create(configMap("a", "1"))
		if str(again, "metadata", "uid") == str(o, "metadata", "uid") {
			t.Error("created again under the same uid")
		}
	}},
	{"delete with preconditions", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		o := s.create(configMap("a", "1"))
		options := func(uid string) map[string]any {
			return map[string]any{"apiVersion": "v1", "kind": "DeleteOptions",
				"preconditions": map[string]any{"uid": uid}}
		}
		c.do(t, http.MethodDelete, s.path("configmaps/a"),
			options("00000000-0000-0000-0000-000000000000")).wantStatus(t, http.StatusConflict, "Conflict")
		c.do(t, http.MethodDelete, s.path("configmaps/a"), options(str(o, "metadata", "uid"))).want(t, http.StatusOK)
	}},
	{"delete a collection", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1", "app", "x"))
		s.create(configMap("b", "1"))
		list := c.do(t, http.MethodDelete, s.path("configmaps")+"?labelSelector=app%3Dx", nil).want(t,
			http.StatusOK).object(t)
		if got := names(list); len(got) != 1 || got[0] != "a" {
			t.Errorf("deleted %v", got)
		}
		if got := names(c.get(t, s.path("configmaps")).object(t)); len(got) != 1 || got[0] != "b" {
			t.Errorf("left %v", got)
		}
	}},
	{"one event under two groups", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		c.do(t, http.MethodPost, s.path("events"), map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "a"},
			"involvedObject": map[string]any{"kind": "Pod", "namespace": s.name, "name": "p"},
			"reason":         "Started", "message": "began", "type": "Normal", "count": 3,
			"firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z",
			"source": map[string]any{"component": "kubelet"},
		}).want(t, http.StatusCreated)
		o := c.get(t, s.path("events.k8s.io/v1/events/a")).want(t, http.StatusOK).object(t)
		if o["apiVersion"] != "events.k8s.io/v1" || o["note"] != "began" || str(o, "regarding", "name") != "p" ||
			o["deprecatedCount"] != float64(3) || o["deprecatedLastTimestamp"] != "2026-01-02T03:04:06Z" ||
			str(o, "deprecatedSource", "component") != "kubelet" || o["message"] != nil {
			t.Errorf("got %v", o)
		}
	}},
	{"unknown media types", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		c.get(t, s.path("configmaps"), "Accept", "text/html").want(t, http.StatusNotAcceptable)
		c.do(t, http.MethodPost, s.path("configmaps"), configMap("a", "1"), "Content-Type", "text/html").want(t,
			http.StatusUnsupportedMediaType)
		c.do(t, http.MethodPut, s.path("configmaps"), configMap("a", "1")).wantStatus(t, http.StatusMethodNotAllowed,
			"MethodNotAllowed")
	}},
}

func deployment(name string) map[string]any {
	labels := map[string]any{"app": name}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"replicas": 1,
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
			},
		},
	}
}
