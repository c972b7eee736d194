package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// far is how much further than the server a version is that is ahead of it.
const far = 1_000_000

var listTests = []test{
	{"shape", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("b", "1"))
		s.create(configMap("a", "1"))
		a := c.get(t, s.path("configmaps")).want(t, http.StatusOK)
		if want := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{` +
			`"resourceVersion":"`; !strings.HasPrefix(string(a.body), want) {
			t.Errorf("body begins %.200s", a.body)
		}
		if !strings.Contains(string(a.body), `"},"items":[{"metadata":{"name":"a","namespace":`) {
			t.Errorf("items of a compiled kind have no kind and no apiVersion: %.400s", a.body)
		}
		list := a.object(t)
		if got := names(list); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("items %v", got)
		}
		if meta := list["metadata"].(map[string]any); len(meta) != 1 {
			t.Errorf("metadata of a whole list %v", meta)
		}
	}},
	{"empty", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		a := c.get(t, s.path("configmaps")).want(t, http.StatusOK)
		if !strings.Contains(string(a.body), `"items":[]`) {
			t.Errorf("got %s", a.body)
		}
	}},
	{"key order over namespaces", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		other := space{t, c, s.name + "-more"} // sorts before <name>/
		c.do(t, http.MethodPost, "/api/v1/namespaces",
			map[string]any{"metadata": map[string]any{"name": other.name}}).want(t, http.StatusCreated)
		s.create(configMap("a", "1", "order", s.name))
		other.create(configMap("b", "1", "order", s.name))
		list := c.get(t, "/api/v1/configmaps?labelSelector=order%3D"+s.name).want(t, http.StatusOK).object(t)
		if got := names(list); !slices.Equal(got, []string{"b", "a"}) {
			t.Errorf("order %v", got)
		}
	}},
	{"selectors", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1", "app", "x"))
		s.create(configMap("b", "1", "app", "y"))
		s.create(configMap("c", "1"))
		for query, want := range map[string][]string{
			"labelSelector=app%3Dx":                             {"a"},
			"labelSelector=app+in+(x,y)":                        {"a", "b"},
			"labelSelector=!app":                                {"c"},
			"labelSelector=app!%3Dx":                            {"b", "c"},
			"fieldSelector=metadata.name%3Db":                   {"b"},
			"fieldSelector=metadata.name!%3Db":                  {"a", "c"},
			"fieldSelector=metadata.namespace%3Dnowhere":        {},
			"labelSelector=app&fieldSelector=metadata.name%3Da": {"a"},
		} {
			if got := names(c.get(t, s.path("configmaps")+"?"+query).want(t,
				http.StatusOK).object(t)); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
		for _, query := range []string{"labelSelector=a+in+(b", "fieldSelector=data.key%3D1", "fieldSelector=a",
			"limit=x", "continue=x"} {
			c.get(t, s.path("configmaps")+"?"+query).wantStatus(t, http.StatusBadRequest, "BadRequest")
		}
	}},
	{"pods by node", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for name, node := range map[string]string{"a": "n1", "b": "n2"} {
			c.do(t, http.MethodPost, s.path("pods"), map[string]any{
				"metadata": map[string]any{"name": name},
				"spec": map[string]any{"nodeName": node,
					"containers": []any{map[string]any{"name": "c", "image": "i"}}},
			}).want(t, http.StatusCreated)
		}
		if got := names(c.get(t, s.path("pods")+"?fieldSelector=spec.nodeName%3Dn2").want(t,
			http.StatusOK).object(t)); !slices.Equal(got, []string{"b"}) {
			t.Errorf("got %v", got)
		}
	}},
	{"pages", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			s.create(configMap(name, "1"))
		}
		first := c.get(t, s.path("configmaps")+"?limit=2").want(t, http.StatusOK).object(t)
		if got := names(first); !slices.Equal(got, []string{"a", "b"}) ||
			at(first, "metadata", "remainingItemCount") != float64(3) {
			t.Fatalf("first page %v %v", got, first["metadata"])
		}
		// All pages are of the first one's version.
		s.update(configMap("d", "2"))
		s.remove("e")
		s.create(configMap("f", "1"))
		second := c.get(t, s.path("configmaps")+"?limit=2&continue="+str(first, "metadata", "continue")).want(t,
			http.StatusOK).object(t)
		if got := names(second); !slices.Equal(got, []string{"c", "d"}) || version(second) != version(first) ||
			at(second, "metadata", "remainingItemCount") != float64(1) {
			t.Fatalf("second page %v %v", got, second["metadata"])
		}
		if v := str(second["items"].([]any)[1].(map[string]any), "data", "key"); v != "1" {
			t.Errorf("second page has d as of later: %v", v)
		}
		third := c.get(t, s.path("configmaps")+"?limit=2&continue="+str(second, "metadata", "continue")).want(t,
			http.StatusOK).object(t)
		if got := names(third); !slices.Equal(got, []string{"e"}) || version(third) != version(first) ||
			str(third, "metadata", "continue") != "" {
			t.Fatalf("third page %v %v", got, third["metadata"])
		}
		c.get(t, s.path("configmaps")+"?limit=2&resourceVersion=1&continue="+
			str(first, "metadata", "continue")).wantStatus(t, http.StatusBadRequest, "BadRequest")
	}},
	{"pages of a selection", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		for i := range 6 {
			s.create(configMap(fmt.Sprint("m", i), "1", "even", fmt.Sprint(i%2 == 0)))
		}
		first := c.get(t, s.path("configmaps")+"?limit=2&labelSelector=even%3Dtrue").want(t, http.StatusOK).object(t)
		if got := names(first); !slices.Equal(got, []string{"m0", "m2"}) ||
			at(first, "metadata", "remainingItemCount") != nil || str(first, "metadata", "continue") == "" {
			t.Fatalf("first page %v %v", got, first["metadata"])
		}
		second := c.get(t, s.path("configmaps")+"?limit=2&labelSelector=even%3Dtrue&continue="+
			str(first, "metadata", "continue")).want(t, http.StatusOK).object(t)
		if got := names(second); !slices.Equal(got, []string{"m4"}) {
			t.Errorf("second page %v", got)
		}
	}},
	{"limit 1 tells the current version", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		o := s.create(configMap("b", "1"))
		if now := s.now(); now != version(o) && now < version(o) {
			t.Errorf("list says %d after a write of %d", now, version(o))
		}
	}},
	{"at an exact version", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		b := s.create(configMap("b", "1"))
		s.update(configMap("a", "2"))
		s.remove("b")
		q := url.Values{"resourceVersion": {str(b, "metadata", "resourceVersion")}, "resourceVersionMatch": {"Exact"}}
		list := c.get(t, s.path("configmaps")+"?"+q.Encode()).want(t, http.StatusOK).object(t)
		if got := names(list); !slices.Equal(got, []string{"a", "b"}) || version(list) != version(b) {
			t.Errorf("got %v at %d", got, version(list))
		}
	}},
	{"not older than", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		first := s.create(configMap("a", "1"))
		second := s.create(configMap("b", "1"))
		q := url.Values{"resourceVersion": {str(first, "metadata", "resourceVersion")},
			"resourceVersionMatch": {"NotOlderThan"}}
		list := c.get(t, s.path("configmaps")+"?"+q.Encode()).want(t, http.StatusOK).object(t)
		if version(list) < version(second) && len(names(list)) != 1 {
			t.Errorf("got %v at %d", names(list), version(list))
		}
	}},
	{"at a version ahead", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		ahead := s.now() + far
		for _, query := range []string{
			"resourceVersionMatch=NotOlderThan&resourceVersion=%d", "resourceVersion=%d",
			"resourceVersionMatch=Exact&resourceVersion=%d", "resourceVersion=%d&limit=1",
			"resourceVersionMatch=NotOlderThan&resourceVersion=%d&limit=1",
		} {
			a := c.get(t, s.path("configmaps")+"?"+fmt.Sprintf(query, ahead))
			if c.minor < 34 && (strings.Contains(query, "Exact") || query == "resourceVersion=%d&limit=1") {
				// A list that etcd is asked for, and its own answer.
				if st := a.wantStatus(t, http.StatusInternalServerError,
					""); st["message"] != "etcdserver: mvcc: required revision is a future revision" {
					t.Errorf("%s: %v", query, st["message"])
				}
				continue
			}
			st := a.wantStatus(t, http.StatusGatewayTimeout, "Timeout")
			if !strings.HasPrefix(str(st, "message"),
				fmt.Sprintf("Timeout: Too large resource version: %d, current: ", ahead)) {
				t.Errorf("%s: %v", query, st["message"])
			}
			if cause := find(at(st, "details", "causes"), "reason",
				"ResourceVersionTooLarge"); cause["message"] != "Too large resource version" {
				t.Errorf("%s: details %v", query, st["details"])
			}
			if at(st, "details", "retryAfterSeconds") != float64(1) || a.header.Get("Retry-After") != "1" {
				t.Errorf("%s: Retry-After %q, details %v", query, a.header.Get("Retry-After"), st["details"])
			}
		}
	}},
	{"malformed parameters", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		code, reason, message := http.StatusBadRequest, "BadRequest", `invalid resource version: `
		if c.minor < 34 {
			code, reason, message = http.StatusInternalServerError, "", `resourceVersion: Invalid value: "abc": `
		}
		st := c.get(t, s.path("configmaps")+"?resourceVersion=abc").wantStatus(t, code, reason)
		if !strings.HasPrefix(str(st, "message"), message) {
			t.Errorf("got %v", st["message"])
		}
		for _, query := range []string{
			"resourceVersionMatch=Exact", "resourceVersionMatch=Exact&resourceVersion=0",
			"resourceVersionMatch=Nonsense&resourceVersion=1",
			"sendInitialEvents=true",
		} {
			c.get(t, s.path("configmaps")+"?"+query).wantStatus(t, http.StatusUnprocessableEntity, "Invalid")
		}
	}},
	{"metadata only", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "1"))
		a := c.get(t, s.path("configmaps"), "Accept",
			"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").want(t, http.StatusOK)
		if want := `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{` +
			`"resourceVersion":"`; !strings.HasPrefix(string(a.body), want) {
			t.Errorf("body begins %.200s", a.body)
		}
		item := a.object(t)["items"].([]any)[0].(map[string]any)
		if item["kind"] != "PartialObjectMetadata" || item["apiVersion"] != "meta.k8s.io/v1" ||
			str(item, "metadata", "name") != "a" || item["data"] != nil {
			t.Errorf("got %v", item)
		}
		if got := a.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("content type %q", got)
		}
	}},
	{"items come as in a get", func(t *testing.T, c *client, _ Target) {
		s := newSpace(t, c)
		s.create(configMap("a", "<&>"))
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(c.get(t, s.path("configmaps")).body, &list); err != nil {
			t.Fatal(err)
		}
		whole := string(c.get(t, s.path("configmaps/a")).body)
		if want := `{"kind":"ConfigMap","apiVersion":"v1",` + string(list.Items[0][1:]) + "\n"; whole != want {
			t.Errorf("get  %s\nlist %s", whole, want)
		}
	}},
}
