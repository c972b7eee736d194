package kubefake

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// serverVersion is the release that this package imitates.
var serverVersion = version.Info{
	Major: "1", Minor: "36", GitVersion: "v1.36.3", GitTreeState: "clean", Platform: "linux/amd64", Compiler: "gc",
}

// serveDiscovery answers all paths that are no resource.
func (s *Server) serveDiscovery(w *recorder, r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var answer any
	var err error
	switch {
	case r.URL.Path == "/version":
		answer = serverVersion
	case slices.Contains([]string{"/readyz", "/livez", "/healthz"}, r.URL.Path):
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("ok"))
		return nil
	case len(parts) == 1 && (parts[0] == "api" || parts[0] == "apis"):
		if v := s.aggregatedVersion(r); v != "" {
			w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v="+v+";as=APIGroupDiscoveryList")
			w.Write(marshal(s.aggregated(parts[0] == "api", v)))
			return nil
		}
		answer = s.groupList(parts[0] == "api")
	case len(parts) == 2 && parts[0] == "api":
		answer, err = s.resourceList(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 2 && parts[0] == "apis":
		if g, ok := s.group(parts[1]); ok {
			g.Kind, g.APIVersion = "APIGroup", "v1"
			answer = g
		}
	case len(parts) == 3 && parts[0] == "apis":
		answer, err = s.resourceList(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	if err != nil {
		return err
	}
	if answer == nil {
		http.NotFound(w, r)
		return nil
	}
	writeJSON(w, http.StatusOK, marshal(answer))
	return nil
}

// aggregatedVersion is that of the aggregated form which the client prefers to
// the old one, or "".
func (s *Server) aggregatedVersion(r *http.Request) string {
	if s.opts.NoAggregatedDiscovery {
		return ""
	}
	for _, clause := range strings.Split(r.Header.Get("Accept"), ",") {
		media := strings.ReplaceAll(clause, " ", "")
		if !strings.HasPrefix(media, "application/json") {
			continue
		}
		if !strings.Contains(media, "as=APIGroupDiscoveryList") {
			return ""
		}
		for _, v := range []string{"v2", "v2beta1"} {
			if slices.Contains(strings.Split(media, ";"), "v="+v) {
				return v
			}
		}
	}
	return ""
}

// groups lists group versions in the order of their resources, each group's
// preferred version first.
func (s *Server) groups() (names []string, versions map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions = map[string][]string{}
	for _, r := range s.resources {
		if !slices.Contains(names, r.Group) {
			names = append(names, r.Group)
		}
		for _, v := range r.versions() {
			if !slices.Contains(versions[r.Group], v) {
				versions[r.Group] = append(versions[r.Group], v)
			}
		}
	}
	return names, versions
}

func (s *Server) group(name string) (metav1.APIGroup, bool) {
	_, versions := s.groups()
	if name == "" || versions[name] == nil {
		return metav1.APIGroup{}, false
	}
	g := metav1.APIGroup{Name: name}
	for _, v := range versions[name] {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g, true
}

func (s *Server) groupList(core bool) any {
	if core {
		return metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
			Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
				{ClientCIDR: "0.0.0.0/0", ServerAddress: s.conns.Addr().String()},
			},
		}
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	names, _ := s.groups()
	for _, name := range names {
		if g, ok := s.group(name); ok {
			list.Groups = append(list.Groups, g)
		}
	}
	return list
}

func (s *Server) resourceList(gv schema.GroupVersion) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale[gv] {
		return nil, apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv.String()}
	if gv.Group != "" {
		list.APIVersion = "v1"
	}
	for _, r := range s.resources {
		if r.Group != gv.Group || !r.serves(gv.Version) {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Resource.Resource, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories, StorageVersionHash: s.storageHash(r),
		})
		for _, sub := range r.Subresources {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Resource.Resource + "/" + sub, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: []string{"get", "patch", "update"},
			})
		}
	}
	if list.APIResources == nil {
		return nil, nil
	}
	return list, nil
}

// storageHash says under which group and version the objects are stored. Of
// two resources over one store it is that of the first. Called with mu held.
func (s *Server) storageHash(r *resource) string {
	for _, other := range s.resources {
		if other.store == r.store {
			r = other
			break
		}
	}
	sum := sha256.Sum256([]byte(r.Group + "/" + r.Version + "/" + r.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// aggregated is the whole of discovery in one document. It is built from maps:
// the types for it are in a module that only this package would need.
func (s *Server) aggregated(core bool, version string) map[string]any {
	names, versions := s.groups()
	items := []any{}
	for _, name := range names {
		if (name == "") != core {
			continue
		}
		var list []any
		for _, v := range versions[name] {
			list = append(list, s.aggregatedGroupVersion(schema.GroupVersion{Group: name, Version: v}))
		}
		items = append(items, map[string]any{"metadata": map[string]any{"name": name}, "versions": list})
	}
	return map[string]any{
		"kind": "APIGroupDiscoveryList", "apiVersion": fmt.Sprintf("apidiscovery.k8s.io/%s", version),
		"metadata": map[string]any{}, "items": items,
	}
}

func (s *Server) aggregatedGroupVersion(gv schema.GroupVersion) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale[gv] {
		return map[string]any{"version": gv.Version, "freshness": "Stale"}
	}
	var list []any
	for _, r := range s.resources {
		if r.Group != gv.Group || !r.serves(gv.Version) {
			continue
		}
		kind := map[string]any{"group": r.Group, "version": gv.Version, "kind": r.Kind}
		scope := "Cluster"
		if r.Namespaced {
			scope = "Namespaced"
		}
		entry := map[string]any{
			"resource": r.Resource.Resource, "responseKind": kind, "scope": scope,
			"singularResource": r.Singular, "verbs": r.Verbs,
		}
		if len(r.ShortNames) > 0 {
			entry["shortNames"] = r.ShortNames
		}
		if len(r.Categories) > 0 {
			entry["categories"] = r.Categories
		}
		var subs []any
		for _, sub := range r.Subresources {
			subs = append(subs, map[string]any{"subresource": sub, "responseKind": kind, "verbs": []string{"get", "patch", "update"}})
		}
		if subs != nil {
			entry["subresources"] = subs
		}
		list = append(list, entry)
	}
	return map[string]any{"version": gv.Version, "resources": list, "freshness": "Current"}
}
