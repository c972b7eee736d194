package discovery

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// valid returns what is in a server's answer under names that Kubernetes allows, as it would of a
// CustomResourceDefinition or an APIService, and says what is left out; "" is nothing. What an aggregated API answers
// is passed on by the server as it is, and becomes names of streams, rules of roles and entries of configs. Resources
// that cannot be watched are left out silently.
func valid(groups []*metav1.APIGroup,
	lists []*metav1.APIResourceList) ([]*metav1.APIGroup, []*metav1.APIResourceList, string) {
	var (
		left       []string
		goodGroups []*metav1.APIGroup
		goodLists  []*metav1.APIResourceList
	)
	for _, g := range groups {
		if !isGroup(g.Name) {
			left = append(left, fmt.Sprintf("group %s", quoted(g.Name)))
			continue
		}
		good := *g
		good.Versions = slices.DeleteFunc(slices.Clone(g.Versions), func(v metav1.GroupVersionForDiscovery) bool {
			bad := !isLabel(v.Version) ||
				v.GroupVersion != (schema.GroupVersion{Group: g.Name, Version: v.Version}).String()
			if bad {
				left = append(left, fmt.Sprintf("version %s of group %q", quoted(v.Version), g.Name))
			}
			return bad
		})
		if !slices.Contains(good.Versions, g.PreferredVersion) {
			good.PreferredVersion = metav1.GroupVersionForDiscovery{}
			if len(good.Versions) > 0 {
				good.PreferredVersion = good.Versions[0]
			}
		}
		goodGroups = append(goodGroups, &good)
	}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil || !isGroup(gv.Group) || !isLabel(gv.Version) {
			left = append(left, fmt.Sprintf("version %s", quoted(l.GroupVersion)))
			continue
		}
		good := *l
		good.APIResources = nil
		for _, r := range l.APIResources {
			if validResource(&r) {
				good.APIResources = append(good.APIResources, r)
			} else if (served{APIResource: r}).watchable() && !strings.Contains(r.Name, "/") {
				left = append(left, fmt.Sprintf("resource %s (%s) of %s", quoted(r.Name), quoted(r.Kind), gv))
			}
		}
		goodLists = append(goodLists, &good)
	}
	return goodGroups, goodLists, sentence(left)
}

// validResource reports whether a resource has a name, and takes other names from it that it cannot have.
func validResource(r *metav1.APIResource) bool {
	name, _, _ := strings.Cut(r.Name, "/") // a subresource, of which nothing is used
	if !isLabel(name) || r.Kind != "" && !isLabel(strings.ToLower(r.Kind)) || r.Group != "" && !isGroup(r.Group) ||
		r.Version != "" && !isLabel(r.Version) {
		return false
	}
	bad := func(name string) bool { return !isLabel(name) }
	if bad(r.SingularName) {
		r.SingularName = ""
	}
	r.ShortNames = slices.DeleteFunc(slices.Clone(r.ShortNames), bad)
	r.Categories = slices.DeleteFunc(slices.Clone(r.Categories), bad)
	return true
}

func isLabel(name string) bool { return len(validation.IsDNS1035Label(name)) == 0 }

func isGroup(name string) bool { return name == "" || len(validation.IsDNS1123Subdomain(name)) == 0 }

// quoted shows a name that may be anything.
func quoted(name string) string {
	const longest = 80 // bytes
	if len(name) > longest {
		return fmt.Sprintf("%+q and so on", name[:longest])
	}
	return fmt.Sprintf("%+q", name)
}

// sentence says what is left out, in one line.
func sentence(left []string) string {
	const few = 3
	slices.Sort(left) // the lists come in any order, and the same answer is to be the same sentence
	switch {
	case len(left) == 0:
		return ""
	case len(left) > few:
		left = append(left[:few:few], fmt.Sprintf("%d more", len(left)-few))
	}
	return "the server offers what has no name that Kubernetes allows, which is left out: " + strings.Join(left, ", ")
}
