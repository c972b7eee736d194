package serve

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

// reading is what can be done with objects of the past.
var reading = []string{"get", "list", "watch"}

// assumed is the version of Kubernetes that is named where the journal does not have the server's: the one whose
// resources package builtin knows.
var assumed = version.Info{
	Major: "1", Minor: "36", GitVersion: "v1.36.0+kubejournal", GitTreeState: "archive", Platform: "past",
}

const (
	discoveryGroup = "apidiscovery.k8s.io"
	discoveryList  = "APIGroupDiscoveryList"
)

// ofDiscovery reports whether discovery can be answered in a form.
func ofDiscovery(f form) bool {
	return f == form{} || f.kind == discoveryList && f.group == discoveryGroup &&
		(f.version == "v2" || f.version == "v2beta1")
}

// discover answers /api and /apis, which core has alone or not.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, all apis, core bool) error {
	f, err := negotiate(r.Header.Get("Accept"), ofDiscovery)
	if err != nil {
		return err
	}
	var of apis
	for _, k := range all {
		if (k.Group == "") == core {
			of = append(of, k)
		}
	}
	w.Header().Set("Vary", "Accept")
	switch {
	case f != form{}:
		w.Header().Set("Content-Type", jsonType+";g="+discoveryGroup+";v="+f.version+";as="+discoveryList)
		return writeDocument(w, r, aggregated(of, f))
	case core:
		return writeDocument(w, r, metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: versions(of, ""),
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
				{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host},
			},
		})
	}
	list := metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	for _, group := range groups(of) {
		list.Groups = append(list.Groups, groupOf(of, group))
	}
	return writeDocument(w, r, list)
}

// groups returns the names of the groups, in order.
func groups(all apis) (names []string) {
	for _, k := range all {
		if n := len(names); n == 0 || names[n-1] != k.Group {
			names = append(names, k.Group)
		}
	}
	return names
}

// versions returns those of a group, in order.
func versions(all apis, group string) (names []string) {
	for _, k := range all {
		if n := len(names); k.Group == group && (n == 0 || names[n-1] != k.Version) {
			names = append(names, k.Version)
		}
	}
	return names
}

// of returns the resources of a version.
func (a apis) of(group, version string) (all apis) {
	for _, k := range a {
		if k.Group == group && k.Version == version && k.Resource.Resource != "" {
			all = append(all, k)
		}
	}
	return all
}

// verbs returns what can be done with the objects of a kind. What could not be read is named as it was: nothing of it
// can be done.
func (k *kind) verbs() []string {
	if k.said == nil {
		return reading
	}
	is := slices.DeleteFunc(slices.Clone(reading), func(verb string) bool {
		return !slices.Contains(k.said.Verbs, verb)
	})
	if len(is) == 0 {
		return k.said.Verbs
	}
	return is
}

func groupOf(all apis, group string) metav1.APIGroup {
	g := metav1.APIGroup{Name: group}
	for _, v := range versions(all, group) {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + v, Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

// discoverGroup answers /apis/GROUP.
func (s *Server) discoverGroup(w http.ResponseWriter, r *http.Request, all apis, group string) error {
	if group == "" || versions(all, group) == nil {
		return errNoPath
	}
	g := groupOf(all, group)
	g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	return writeDocument(w, r, g)
}

// discoverVersion answers /api/v1 and /apis/GROUP/VERSION.
func (s *Server) discoverVersion(w http.ResponseWriter, r *http.Request, all apis, group, version string) error {
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: strings.TrimPrefix(group+"/"+version, "/"), APIResources: []metav1.APIResource{},
	}
	for _, k := range all.of(group, version) {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.Resource.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind,
			Verbs: k.verbs(), ShortNames: k.ShortNames, Categories: k.Categories,
		})
	}
	if _, known := all.find(group, version, ""); !known {
		return errNoPath
	}
	return writeDocument(w, r, list)
}

func aggregated(all apis, f form) discoveryv2.APIGroupDiscoveryList {
	list := discoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: discoveryList, APIVersion: f.apiVersion()},
		Items:    []discoveryv2.APIGroupDiscovery{},
	}
	for _, group := range groups(all) {
		g := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group}}
		for _, version := range versions(all, group) {
			v := discoveryv2.APIVersionDiscovery{Version: version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
			for _, k := range all.of(group, version) {
				kind := &metav1.GroupVersionKind{Kind: k.Kind} // of this group and version, as the server has it
				if k.Custom {
					kind.Group, kind.Version = group, version
				}
				if k.said != nil && k.said.ResponseKind != nil {
					kind = k.said.ResponseKind
				}
				scope := discoveryv2.ScopeCluster
				if k.Namespaced {
					scope = discoveryv2.ScopeNamespace
				}
				v.Resources = append(v.Resources, discoveryv2.APIResourceDiscovery{
					Resource: k.Resource.Resource, Scope: scope, SingularResource: k.Singular, Verbs: k.verbs(),
					ResponseKind: kind, ShortNames: k.ShortNames, Categories: k.Categories,
				})
			}
			g.Versions = append(g.Versions, v)
		}
		list.Items = append(list.Items, g)
	}
	return list
}

// writeDocument answers with a value, indented for people.
func writeDocument(w http.ResponseWriter, r *http.Request, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if isPretty(r) {
		text = indented(text)
	}
	writeJSON(w, http.StatusOK, text)
	return nil
}
