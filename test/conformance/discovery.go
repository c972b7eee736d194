package conformance

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

var discoveryTests = []test{
	{"version", func(t *testing.T, c *client, _ Target) {
		v := c.get(t, "/version").want(t, http.StatusOK).object(t)
		if v["major"] != "1" || !strings.HasPrefix(str(v, "gitVersion"), "v1.") {
			t.Errorf("got %v", v)
		}
	}},
	{"ready", func(t *testing.T, c *client, _ Target) {
		if a := c.get(t, "/readyz").want(t, http.StatusOK); string(a.body) != "ok" {
			t.Errorf("got %q", a.body)
		}
	}},
	{"core versions", func(t *testing.T, c *client, _ Target) {
		v := c.get(t, "/api").want(t, http.StatusOK).object(t)
		if v["kind"] != "APIVersions" || !slices.Equal(v["versions"].([]any), []any{"v1"}) {
			t.Errorf("got %v", v)
		}
	}},
	{"groups", func(t *testing.T, c *client, _ Target) {
		list := c.get(t, "/apis").want(t, http.StatusOK).object(t)
		if list["kind"] != "APIGroupList" || list["apiVersion"] != "v1" {
			t.Errorf("got %v", list["kind"])
		}
		apps := find(list["groups"], "name", "apps")
		if str(apps, "preferredVersion", "groupVersion") != "apps/v1" {
			t.Errorf("apps: %v", apps)
		}
		one := c.get(t, "/apis/apps").want(t, http.StatusOK).object(t)
		if one["kind"] != "APIGroup" || one["name"] != "apps" || str(one, "preferredVersion", "version") != "v1" {
			t.Errorf("got %v", one)
		}
	}},
	{"resources", func(t *testing.T, c *client, _ Target) {
		core := c.get(t, "/api/v1").want(t, http.StatusOK).object(t)
		if core["kind"] != "APIResourceList" || core["groupVersion"] != "v1" {
			t.Errorf("got kind %v of %v", core["kind"], core["groupVersion"])
		}
		pods := find(core["resources"], "name", "pods")
		if pods["singularName"] != "pod" || pods["kind"] != "Pod" || pods["namespaced"] != true ||
			!slices.Contains(pods["shortNames"].([]any), any("po")) {
			t.Errorf("pods: %v", pods)
		}
		for _, verb := range []string{"create", "delete", "deletecollection", "get", "list", "patch",
			"update", "watch"} {
			if !slices.Contains(pods["verbs"].([]any), any(verb)) {
				t.Errorf("pods: no %s in %v", verb, pods["verbs"])
			}
		}
		if ns := find(core["resources"], "name", "namespaces"); ns["namespaced"] != false {
			t.Errorf("namespaces: %v", ns)
		}
		if status := find(core["resources"], "name", "pods/status"); status == nil ||
			slices.Contains(status["verbs"].([]any), any("list")) {
			t.Errorf("pods/status: %v", status)
		}
		if deploy := find(c.get(t, "/apis/apps/v1").object(t)["resources"], "name",
			"deployments"); deploy["kind"] != "Deployment" {
			t.Errorf("deployments: %v", deploy)
		}
	}},
	{"one store under two groups", func(t *testing.T, c *client, _ Target) {
		old := find(c.get(t, "/api/v1").object(t)["resources"], "name", "events")
		young := find(c.get(t, "/apis/events.k8s.io/v1").object(t)["resources"], "name", "events")
		if h := str(old, "storageVersionHash"); h == "" || h != str(young, "storageVersionHash") {
			t.Errorf("hashes %v and %v", old["storageVersionHash"], young["storageVersionHash"])
		}
		pods := find(c.get(t, "/api/v1").object(t)["resources"], "name", "pods")
		if got := str(pods, "storageVersionHash"); got != "xPOwRZ+Yhw8=" {
			t.Errorf("hash of pods %q", got)
		}
	}},
	{"aggregated", func(t *testing.T, c *client, _ Target) {
		const form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		for path, want := range map[string]string{"/api": "pods", "/apis": "deployments"} {
			a := c.get(t, path, "Accept", form+",application/json").want(t, http.StatusOK)
			if got := a.header.Get("Content-Type"); got != form {
				t.Errorf("%s: content type %q", path, got)
			}
			list := a.object(t)
			if list["kind"] != "APIGroupDiscoveryList" || list["apiVersion"] != "apidiscovery.k8s.io/v2" {
				t.Errorf("%s: %v %v", path, list["kind"], list["apiVersion"])
			}
			var found map[string]any
			for _, g := range list["items"].([]any) {
				for _, v := range g.(map[string]any)["versions"].([]any) {
					v := v.(map[string]any)
					if v["freshness"] != "Current" {
						t.Errorf("%s: freshness %v", path, v["freshness"])
					}
					if r := find(v["resources"], "resource", want); r != nil && v["version"] == "v1" {
						found = r
					}
				}
			}
			if found["scope"] != "Namespaced" || found["singularResource"] != strings.TrimSuffix(want, "s") ||
				find(found["subresources"], "subresource", "status") == nil {
				t.Errorf("%s: %v", want, found)
			}
		}
	}},
	{"what is not served", func(t *testing.T, c *client, _ Target) {
		// In plain text where the whole group is unknown, and for all that is no
		// resource of a known one.
		for _, path := range []string{"/apis/no.such.group", "/apis/no.such.group/v1", "/apis/no.such.group/v1/things",
			"/apis/no.such.group/v1/things?watch=true"} {
			a := c.get(t, path).want(t, http.StatusNotFound)
			if got := string(a.body); got != "404 page not found\n" {
				t.Errorf("%s: %q", path, got)
			}
			if got := a.header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("%s: content type %q", path, got)
			}
		}
		for _, path := range []string{
			"/api/v1/nothings", "/api/v1/namespaces/default/nothings", "/api/v1/nothings?watch=true",
			"/apis/apps/v1/nothings", "/apis/apps/v0/deployments",
		} {
			st := c.get(t, path).wantStatus(t, http.StatusNotFound, "NotFound")
			if st["message"] != "the server could not find the requested resource" || st["details"] == nil {
				t.Errorf("%s: %v", path, st)
			}
		}
	}},
	{"wrong token", func(t *testing.T, c *client, _ Target) {
		for _, path := range []string{"/api/v1/pods", "/api/v1/pods?watch=true", "/apis", "/version"} {
			st := c.doAs(t, c.stranger, http.MethodGet, path, nil).wantStatus(t, http.StatusUnauthorized,
				"Unauthorized")
			if st["message"] != "Unauthorized" {
				t.Errorf("%s: %v", path, st)
			}
		}
	}},
	{"no identity", func(t *testing.T, c *client, _ Target) {
		for path, want := range map[string]string{
			"/api/v1/pods": `pods is forbidden: User "system:anonymous" cannot list ` +
				`resource "pods" in API group "" at the cluster scope`,
			"/api/v1/pods?watch=true": `pods is forbidden: User "system:anonymous" cannot watch ` +
				`resource "pods" in API group "" at the cluster scope`,
			"/apis/apps/v1/namespaces/a/deployments": `deployments.apps is forbidden: User "system:anonymous" cannot ` +
				`list resource "deployments" in API group "apps" in the namespace "a"`,
			"/api/v1/namespaces/a/secrets/b": `secrets "b" is forbidden: User "system:anonymous" cannot get resource ` +
				`"secrets" in API group "" in the namespace "a"`,
			"/api/v1/nothings": `nothings is forbidden: User "system:anonymous" cannot list resource "nothings" ` +
				`in API group "" at the cluster scope`,
			"/api/v1/namespaces/a": `namespaces "a" is forbidden: User "system:anonymous" cannot get resource ` +
				`"namespaces" in API group "" in the namespace "a"`,
			"/apis": `forbidden: User "system:anonymous" cannot get path "/apis"`,
		} {
			st := c.doAs(t, c.anonymous, http.MethodGet, path, nil).wantStatus(t, http.StatusForbidden, "Forbidden")
			if st["message"] != want {
				t.Errorf("%s:\n got %v\nwant %s", path, st["message"], want)
			}
		}
	}},
	{"access review", func(t *testing.T, c *client, _ Target) {
		review := map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"spec": map[string]any{"resourceAttributes": map[string]any{"verb": "watch", "resource": "pods"}},
		}
		got := c.do(t, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).want(t,
			http.StatusCreated).object(t)
		if at(got, "status", "allowed") != true {
			t.Errorf("got %v", got["status"])
		}
	}},
}

// find returns the entry of a list in which key has this value, or nil.
func find(list any, key, value string) map[string]any {
	entries, _ := list.([]any)
	for _, e := range entries {
		if m := e.(map[string]any); m[key] == value {
			return m
		}
	}
	return nil
}
