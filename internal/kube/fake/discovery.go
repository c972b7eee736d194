package fake

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
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
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups: []metav1.APIGroup{}}
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
				Name: r.Resource.Resource + "/" + sub, Namespaced: r.Namespaced, Kind: r.Kind,
				Verbs: []string{"get", "patch", "update"},
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

// aggregated is the whole of discovery in one document.
func (s *Server) aggregated(core bool, version string) apidiscovery.APIGroupDiscoveryList {
	names, versions := s.groups()
	all := apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + version},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	for _, name := range names {
		if (name == "") != core {
			continue
		}
		group := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, v := range versions[name] {
			group.Versions = append(group.Versions, s.aggregatedVersionOf(schema.GroupVersion{Group: name, Version: v}))
		}
		all.Items = append(all.Items, group)
	}
	return all
}

func (s *Server) aggregatedVersionOf(gv schema.GroupVersion) apidiscovery.APIVersionDiscovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stale[gv] {
		return apidiscovery.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscovery.DiscoveryFreshnessStale}
	}
	all := apidiscovery.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	for _, r := range s.resources {
		if r.Group != gv.Group || !r.serves(gv.Version) {
			continue
		}
		entry := apidiscovery.APIResourceDiscovery{
			Resource: r.Resource.Resource, SingularResource: r.Singular, Scope: apidiscovery.ScopeCluster,
			ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: gv.Version, Kind: r.Kind},
			Verbs:        r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		}
		if r.Namespaced {
			entry.Scope = apidiscovery.ScopeNamespace
		}
		for _, sub := range r.Subresources {
			entry.Subresources = append(entry.Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource: sub, ResponseKind: entry.ResponseKind, Verbs: []string{"get", "patch", "update"},
			})
		}
		all.Resources = append(all.Resources, entry)
	}
	return all
}
