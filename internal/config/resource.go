package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// typed is a resource's name taken apart as far as that goes without a server.
type typed struct {
	resource string
	version  string
	group    string
	hasGroup bool // false: the server decides
}

var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// parseName reads resource, resource.group or resource.version.group. Only a server can tell an odd version from the
// first word of a group; one that looks like a version is taken for one.
func parseName(name string) typed {
	resource, rest, dotted := strings.Cut(name, ".")
	t := typed{resource: strings.ToLower(resource), group: rest, hasGroup: dotted}
	if version, group, ok := strings.Cut(rest, "."); ok && apiVersion.MatchString(version) {
		t.version, t.group = version, group
	}
	return t
}

var nameForm = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?$`)

// IsWildcard tells whether the entry stands for all resources of a group, or for a resource of every group.
func (r Resource) IsWildcard() bool {
	return r.Name == Wildcard || r.Group != nil && *r.Group == Wildcard
}

// badWildcard returns what is wrong with a name that has a star in it; "*" alone is right in the long form only.
func badWildcard(name string) string {
	resource, group, _ := strings.Cut(name, ".")
	switch {
	case name == Wildcard:
		return `"*" does not say of which group; in a config write resource: "*" with group: "*" for everything that can be watched`
	case resource == Wildcard && !strings.Contains(group, Wildcard):
		return fmt.Sprintf("%q: write resource: \"*\" with group: %q", name, group)
	case group == Wildcard && !strings.Contains(resource, Wildcard):
		return fmt.Sprintf("%q: write resource: %s with group: \"*\"", name, resource)
	}
	return fmt.Sprintf("%q: a wildcard is \"*\" alone, for every name; write that, or one entry for each resource", name)
}

// badName returns what is wrong with a resource's name, or "".
func badName(name string) string {
	switch {
	case strings.Contains(name, Wildcard):
		return badWildcard(name)
	case strings.EqualFold(name, "all"):
		return `"all" is a category of kubectl, not a resource; write one entry for each resource`
	case strings.Contains(name, ","):
		return fmt.Sprintf("%q names several resources; write one entry for each", name)
	case strings.Contains(name, "/"):
		return fmt.Sprintf("%q names an object or a subresource; write the resource alone, and fieldSelector: metadata.name=... for one object", name)
	case !nameForm.MatchString(name) || len(name) > validation.DNS1123SubdomainMaxLength:
		return fmt.Sprintf("%q is not the name of a resource; write it as kubectl takes it, e.g. pods or deployments.apps", name)
	}
	return ""
}

// badNamespace returns what is wrong with a namespace's name, or "".
func badNamespace(name string) string {
	if strings.Contains(name, "*") {
		return fmt.Sprintf("%q: wildcards are not supported here; name each namespace, or leave namespaces out for all", name)
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Sprintf("%q is not the name of a namespace; it takes lower-case letters, digits and -, at most 63", name)
	}
	return ""
}

// nameField is the key that holds an entry's name; the short form and an argument have none.
func (k *checker) nameField(entry string) string {
	if k.src != nil && k.src.short[entry] {
		return ""
	}
	return "resource"
}

func (k *checker) resource(r Resource) {
	entry := r.Entry
	switch {
	case r.Name == "":
		k.add(entry, k.nameField(entry), "names no resource; write a name as kubectl takes it, e.g. pods")
	default:
		if r.Name == Wildcard && k.nameField(entry) != "" {
			break
		}
		if msg := badName(r.Name); msg != "" {
			k.add(entry, k.nameField(entry), "%s", msg)
			break
		}
		name := parseName(r.Name)
		if r.Group != nil && name.hasGroup {
			k.add(entry, "group", "is said twice, here and in resource: %s; write resource: %s", r.Name, name.resource)
		}
		if r.Version != "" && name.version != "" {
			k.add(entry, "version", "is said twice, here and in resource: %s; keep one", r.Name)
		}
	}
	k.groupVersion(r)
	k.exclude(r)
	k.namespaces(r)
	if _, err := CanonicalLabels(r.LabelSelector); err != nil {
		k.add(entry, "labelSelector", "%q: %v; write a selector as kubectl takes it, e.g. app=web", r.LabelSelector, err)
	}
	if _, err := CanonicalFields(r.FieldSelector); err != nil {
		k.add(entry, "fieldSelector", "%q: %v; write a selector as kubectl takes it, e.g. spec.nodeName=node-1", r.FieldSelector, err)
	}
	if r.Initial != Snapshot && r.Initial != Skip {
		k.add(entry, "initial", "%s", notOneOf(r.Initial, []string{Snapshot, Skip}))
	}
	k.written(r)
}

func (k *checker) groupVersion(r Resource) {
	switch {
	case r.Group == nil:
		// Left out it would be the core group, which is not what a star looks like.
		if r.Name == Wildcard && k.nameField(r.Entry) != "" {
			k.add(r.Entry, "group", `is missing beside resource: "*"; write "*" for every group, "" for core, or the name of one`)
		}
	case *r.Group == Wildcard:
		if r.Version != "" {
			k.add(r.Entry, "version", `is that of one group; leave it out beside group: "*"`)
		}
	case strings.Contains(*r.Group, Wildcard):
		k.add(r.Entry, "group", `%q: a wildcard is "*" alone, for every group; write that, or one entry for each group`, *r.Group)
	case *r.Group != "":
		if len(validation.IsDNS1123Subdomain(*r.Group)) > 0 {
			k.add(r.Entry, "group", "%q is not the name of an API group; write e.g. apps, or \"\" for core", *r.Group)
		}
	}
	if r.Version != "" && len(validation.IsDNS1123Label(r.Version)) > 0 {
		k.add(r.Entry, "version", "%q is not a version of an API; write e.g. v1, or leave it out for the server's preferred one", r.Version)
	}
}

// exclude checks the names that a wildcard does not cover. Whether the server has them is for discovery to say.
func (k *checker) exclude(r Resource) {
	if len(r.Exclude) > 0 && !r.IsWildcard() {
		k.add(r.Entry, "exclude", `goes with resource: "*" or group: "*" only; leave it out`)
		return
	}
	seen := map[typed]bool{}
	for i, name := range r.Exclude {
		field := fmt.Sprintf("exclude[%d]", i)
		switch {
		case name == "":
			k.add(r.Entry, field, "names no resource; write a name as kubectl takes it, e.g. events")
			continue
		case strings.Contains(name, Wildcard):
			k.add(r.Entry, field, "%q: wildcards are not supported here; write one name for each resource", name)
			continue
		}
		if msg := badName(name); msg != "" {
			k.add(r.Entry, field, "%s", msg)
			continue
		}
		t := parseName(name)
		t.version = "" // a resource is left out in all of its versions
		if seen[t] {
			k.add(r.Entry, field, "%q stands in this list twice; keep one", name)
		}
		seen[t] = true
	}
}

func (k *checker) namespaces(r Resource) {
	if r.Namespaces != nil && len(r.Namespaces) == 0 {
		k.add(r.Entry, "namespaces", "is empty; name some, or leave it out for all")
	}
	seen := map[string]bool{}
	for i, ns := range r.Namespaces {
		field := fmt.Sprintf("namespaces[%d]", i)
		if msg := badNamespace(ns); msg != "" {
			k.add(r.Entry, field, "%s", msg)
		} else if seen[ns] {
			k.add(r.Entry, field, "%q stands in this list twice; keep one", ns)
		}
		seen[ns] = true
	}
}

// duplicates finds entries that come to the same stream whatever the server says. Two names of one resource (po and
// pods) are told apart by discovery only, and so is what a wildcard covers, unless two of them are equal.
func (k *checker) duplicates(resources []Resource) {
	type stream struct {
		typed
		namespace, labels, fields string
		exclude                   string // of a wildcard
	}
	first := map[stream]Resource{}
	for _, r := range resources {
		name := parseName(r.Name)
		if r.Group != nil {
			name.group, name.hasGroup = *r.Group, true
		}
		name.version = "" // another version of the same resource is the same stream
		labels, errL := CanonicalLabels(r.LabelSelector)
		fields, errF := CanonicalFields(r.FieldSelector)
		if r.Name == "" || r.Name == Wildcard && r.Group == nil || errL != nil || errF != nil {
			continue
		}
		namespaces := r.Namespaces
		if namespaces == nil {
			namespaces = []string{r.Namespace}
		}
		for _, ns := range namespaces {
			s := stream{name, ns, labels, fields, strings.Join(slices.Sorted(slices.Values(r.Exclude)), ",")}
			other, taken := first[s]
			if !taken {
				first[s] = r
				continue
			}
			if other.Entry != r.Entry || r.Line == 0 {
				k.add(r.Entry, "", "%s", sameStream(r, other, ns))
				break
			}
		}
	}
}

func sameStream(r, other Resource, namespace string) string {
	where := other.Entry
	if other.Line > 0 {
		where += fmt.Sprintf(" (line %d)", other.Line)
	}
	in := ""
	if namespace != "" {
		in = " in namespace " + namespace
	}
	if r.IsWildcard() {
		return fmt.Sprintf("resource: %q with group: %q%s covers the same as %s; keep one", r.Name, *r.Group, in, where)
	}
	return fmt.Sprintf("%s%s is the same stream as %s; keep one", r.Name, in, where)
}
