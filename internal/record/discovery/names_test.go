package discovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/config"
)

// TestInvalidNames has an API that offers what has no name.
func TestInvalidNames(t *testing.T) {
	long := strings.Repeat("a", 100<<10)
	bothForms(t, func(t *testing.T, s *server, r *Resolver) {
		var warnings []string
		r.Warn = func(text string) { warnings = append(warnings, text) }
		s.set(func(s *server) {
			s.groups = append(s.groups, group{"evil.example.com", []version{{"v1", []metav1.APIResource{
				res("things", "th\x1bing", "Thing", true, readOnly, "th", "t\x1b[2J", "", "*"),
				res("a\"]\n  verbs: [\"*\"]\n- apiGroups: [\"*", "", "Evil", true, readOnly),
				res("b\x1b[2J", "", "Evil", true, readOnly), res("$(id)", "", "Evil", true, readOnly), res("*", "", "Evil", true, readOnly),
				res("Upper", "", "Evil", true, readOnly), res(long, "", "Evil", true, readOnly), res("", "", "Evil", true, readOnly),
				res("kinds", "", "Evil\n# x", true, readOnly), res("metric:name", "", "Metric", true, metav1.Verbs{"get"}),
				res("things/a b", "", "Thing", true, readOnly),
			}}}}, group{"two.example.com.\u202e", []version{{"v1", []metav1.APIResource{res("evils", "", "Evil", true, readOnly)}}}})
		})
		mustRefresh(t, r)
		mustRefresh(t, r)
		var found []string
		for _, o := range r.Offers() {
			if strings.HasPrefix(o.GVR.Group, "evil") || o.Kind == "Evil" {
				found = append(found, fmt.Sprint(o.GVR.GroupResource(), o.ShortNames))
			}
		}
		if want := []string{"things.evil.example.com [th]"}; !slices.Equal(found, want) {
			t.Errorf("offers %q, want %q", found, want)
		}
		if streams, err := r.Resolve(config.Resource{Name: "*", Group: ptr("evil.example.com")}); err != nil || len(streams) != 1 {
			t.Errorf("streams %v: %v", streams, err)
		}
		if len(warnings) != 1 || len(warnings[0]) > 1000 || strings.ContainsFunc(warnings[0], func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("warnings %q", warnings)
		}
		s.set(func(s *server) { s.groups = cluster() })
		if mustRefresh(t, r); len(warnings) != 1 {
			t.Errorf("warnings %q", warnings)
		}
	})
}

// FuzzDiscovery has any names in an answer: what is known afterwards has the names that Kubernetes allows, by a list of letters of
// its own, and a valid resource beside them stays.
func FuzzDiscovery(f *testing.F) {
	f.Add("example.com", "v1", "widgets", "Widget", "wd", "widget", "all")
	f.Add("a\n", "v\x1b", "w\"]", "K d", "", "*", "~")
	f.Add("", "v1", "a/b", "", "é", "A", "-")
	allowed := func(name, more string, longest int) bool {
		const letters = "abcdefghijklmnopqrstuvwxyz0123456789-"
		return len(name) <= longest && strings.Trim(name, letters+more) == ""
	}
	f.Fuzz(func(t *testing.T, group, version, name, kind, short, singular, category string) {
		gv := strings.TrimPrefix(group+"/"+version, "/")
		groups := []*metav1.APIGroup{
			{Name: group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: gv, Version: version}}, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}},
			{Name: "good.example.com", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "good.example.com/v1", Version: "v1"}}},
		}
		evil := res(name, singular, kind, true, readOnly, short, "ok")
		evil.Categories = []string{category}
		lists := []*metav1.APIResourceList{
			{GroupVersion: gv, APIResources: []metav1.APIResource{evil, res("things", "thing", "Thing", true, readOnly)}},
			{GroupVersion: "good.example.com/v1", APIResources: []metav1.APIResource{evil, res("things", "thing", "Thing", true, readOnly)}},
		}
		groups, lists, left := valid(groups, lists)
		if strings.ContainsFunc(left, func(r rune) bool { return r < ' ' || r > '~' }) || len(left) > 2000 {
			t.Errorf("left out: %q", left)
		}
		r := &Resolver{}
		r.known.Store(newSnapshot(groups, lists, &PartialError{}, r.snapshot()))
		good := false
		for s := range r.snapshot().within(nil, "") {
			good = good || s.gvr.Group == "good.example.com" && s.Name == "things"
			names := append(slices.Concat(s.ShortNames, s.Categories), s.Name, strings.ToLower(s.Kind), s.SingularName, s.gvr.Version)
			for _, n := range names {
				if !allowed(n, "", 63) {
					t.Errorf("%q is known: %+v", n, s)
				}
			}
			if !allowed(s.gvr.Group, ".", 253) {
				t.Errorf("group %q is known", s.gvr.Group)
			}
		}
		if !good {
			t.Error("a good resource is lost")
		}
	})
}
