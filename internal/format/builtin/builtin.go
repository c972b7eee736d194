// Package builtin knows which resources are Kubernetes' own, without a server.
package builtin

import (
	_ "embed"
	"iter"
	"regexp"
	"strings"
	"sync"
)

// table is what a kube-apiserver v1.36 serves by itself that can be watched, one resource a line:
// resource.version.group, kind, scope, short names. A test on a real one holds it in step.
//
//go:embed builtin.txt
var table string

// Resource is one of Kubernetes' own.
type Resource struct {
	Resource, Version, Group, Kind string
	Namespaced                     bool
	ShortNames                     []string
}

// All yields Kubernetes' own resources that can be watched, core first.
func All() iter.Seq[Resource] {
	return func(yield func(Resource) bool) {
		for line := range strings.Lines(table) {
			fields := append(strings.Fields(line), "")
			r := Resource{Kind: fields[1], Namespaced: fields[2] == "namespaced"}
			r.Resource, r.Version, _ = strings.Cut(fields[0], ".")
			r.Version, r.Group, _ = strings.Cut(r.Version, ".")
			r.ShortNames = strings.FieldsFunc(fields[3], func(c rune) bool { return c == ',' })
			if !yield(r) {
				return
			}
		}
	}
}

var groups = sync.OnceValue(func() map[string]bool {
	all := make(map[string]bool)
	for r := range All() {
		all[r.Group] = true
	}
	return all
})

// HasGroup reports whether a group is one of Kubernetes' own: its resources come with the server and need no
// CustomResourceDefinition.
func HasGroup(group string) bool { return groups()[group] }

// apiVersion matches v1, v1beta1 and the like.
var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// IsCustom reports whether a name, as kubectl takes it, has the group of custom resources, or of another API server.
// Kubernetes' own groups have no dot, or are in the table.
func IsCustom(name string) bool {
	_, group, _ := strings.Cut(strings.ToLower(name), ".")
	if version, rest, ok := strings.Cut(group, "."); ok && apiVersion.MatchString(version) {
		group = rest
	}
	return strings.Contains(group, ".") && !HasGroup(group)
}
