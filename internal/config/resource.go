package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kubejournal/internal/format/object"
	"kubejournal/internal/record/filter"
)

// types are those of lines about objects, in the order of a canonical entry.
var types = []string{"ADDED", "MODIFIED", "DELETED"}

// typed is a resource's name split as far as that is possible without a server.
type typed struct {
	resource, version, group string
	hasGroup                 bool // false: the server decides
}

var apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// parseName reads resource, resource.group or resource.version.group. Only a server knows an odd version from the
// first word of a group; what looks like a version is taken for one.
func parseName(name string) typed {
	resource, rest, dotted := strings.Cut(name, ".")
	t := typed{resource: strings.ToLower(resource), group: rest, hasGroup: dotted}
	if version, group, ok := strings.Cut(rest, "."); ok && apiVersion.MatchString(version) {
		t.version, t.group = version, group
	}
	return t
}

// anyVersion is parseName without the version: a resource is the same in all of them.
func anyVersion(name string) typed {
	t := parseName(name)
	t.version = ""
	return t
}

var nameForm = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?$`)

// badName returns what is wrong with a resource's name, or "". "*" alone is right in the long form only.
func badName(name string) string {
	resource, group, _ := strings.Cut(name, ".")
	switch {
	case name == "":
		return "names no resource; write a name as kubectl takes it, e.g. pods"
	case name == Wildcard:
		return `"*" does not name a group; in a config write resource: "*" with group: "*" for everything that can be watched`
	case resource == Wildcard && !strings.Contains(group, Wildcard):
		return fmt.Sprintf("%q: write resource: \"*\" with group: %q", name, group)
	case group == Wildcard && !strings.Contains(resource, Wildcard):
		return fmt.Sprintf("%q: write resource: %s with group: \"*\"", name, resource)
	case strings.Contains(name, Wildcard):
		return fmt.Sprintf(
			"%q: a wildcard is \"*\" alone, for every name; write that, or one entry for each resource", name,
		)
	case strings.EqualFold(name, "all"):
		return `"all" is a category of kubectl, not a resource; write one entry for each resource`
	case strings.Contains(name, ","):
		return fmt.Sprintf("%q names several resources; write one entry for each", name)
	case strings.Contains(name, "/"):
		return fmt.Sprintf(
			"%q names an object or a subresource; write the resource alone, and fieldSelector: metadata.name=... for one object",
			name,
		)
	case !nameForm.MatchString(name) || len(name) > validation.DNS1123SubdomainMaxLength:
		return fmt.Sprintf(
			"%q is not the name of a resource; write it as kubectl takes it, e.g. pods or deployments.apps", name,
		)
	}
	return ""
}

// badExactName is badName where a wildcard cannot be written, but one of something for each resource.
func badExactName(name, one string) string {
	if strings.Contains(name, Wildcard) {
		return fmt.Sprintf("%q: wildcards are not supported here; write one %s for each resource", name, one)
	}
	return badName(name)
}

// badNamespace returns what is wrong with a namespace's name, or "".
func badNamespace(name string) string {
	if strings.Contains(name, "*") {
		return fmt.Sprintf(
			"%q: wildcards are not supported here; name each namespace, or leave namespaces out for all", name,
		)
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Sprintf(
			"%q is not the name of a namespace; it takes lower-case letters, digits and -, at most 63", name,
		)
	}
	return ""
}

// names checks what an entry says of its resource: name, group, version and, of a wildcard, what it does not cover.
// Whether the server has any of it is for discovery to check.
func (k *checker) names(r Resource) {
	name, msg := parseName(r.Name), badName(r.Name)
	star := r.Name == Wildcard && !k.src.short[r.Entry]
	k.refuse(!star && msg != "", r.Entry, "resource", "%s", msg)
	k.refuse(msg == "" && r.Group != nil && name.hasGroup, r.Entry, "group",
		"is set twice, here and in resource: %s; write resource: %s", r.Name, name.resource)
	k.refuse(msg == "" && r.Version != "" && name.version != "", r.Entry, "version",
		"is set twice, here and in resource: %s; keep one", r.Name)

	// Left out it would be the core group, which is not what a star looks like.
	k.refuse(star && r.Group == nil, r.Entry, "group",
		`is missing beside resource: "*"; write "*" for every group, "" for core, or the name of one`)
	group := *cmp.Or(r.Group, new(string))
	wild := strings.Contains(group, Wildcard)
	k.refuse(
		group == Wildcard && r.Version != "", r.Entry, "version",
		`is that of one group; leave it out beside group: "*"`,
	)
	k.refuse(wild && group != Wildcard, r.Entry, "group",
		`%q: a wildcard is "*" alone, for every group; write that, or one entry for each group`, group)
	k.refuse(!wild && group != "" && len(validation.IsDNS1123Subdomain(group)) > 0, r.Entry, "group",
		`%q is not the name of an API group; write e.g. apps, or "" for core`, group)
	k.refuse(r.Version != "" && len(validation.IsDNS1123Label(r.Version)) > 0, r.Entry, "version",
		"%q is not a version of an API; write e.g. v1, or leave it out for the server's preferred one", r.Version)

	if r.IsWildcard() {
		k.each(
			r.Entry, "exclude", r.Exclude,
			once(anyVersion, func(name string) string { return badExactName(name, "name") }),
		)
	} else {
		k.refuse(len(r.Exclude) > 0, r.Entry, "exclude", `goes with resource: "*" or group: "*" only; leave it out`)
	}
}

// resource checks the rest of an entry.
func (k *checker) resource(r Resource) {
	entry := r.Entry
	k.refuse(
		r.Namespaces != nil && len(r.Namespaces) == 0, entry, "namespaces",
		"is empty; name some, or leave it out for all",
	)
	k.each(entry, "namespaces", r.Namespaces, once(itself, badNamespace))
	k.each(
		entry, "excludeNamespaces", r.ExcludeNamespaces,
		once(itself, func(glob string) string { return k.badExclusion(glob, r) }),
	)
	_, err := CanonicalLabels(r.LabelSelector)
	k.refuse(
		err != nil, entry, "labelSelector", "%q: %v; write a selector as kubectl takes it, e.g. app=web",
		r.LabelSelector, err,
	)
	_, err = CanonicalFields(r.FieldSelector)
	k.refuse(err != nil, entry, "fieldSelector",
		"%q: %v; write a selector as kubectl takes it, e.g. spec.nodeName=node-1", r.FieldSelector, err)
	k.refuse(r.Types != nil && len(r.Types) == 0, entry, "types",
		"is empty; name some of ADDED, MODIFIED and DELETED, or leave it out for all")
	k.each(entry, "types", r.Types, once(itself, badType))
	if r.Filter != "" {
		_, err := filter.Compile(r.Filter)
		k.refuse(err != nil, entry, "filter", "%v", err)
	}
	k.oneOf(entry, "initial", r.Initial, Snapshot, Skip)
	k.oneOf(entry, "payload", r.Payload, PayloadObject, PayloadMetadata, PayloadNone)
	k.each(entry, "ignoreFields", r.IgnoreFields, func(p string) string {
		return strings.TrimPrefix(badPath(object.Shape{Drop: []string{p}}), "drop ")
	})
}

func badType(t string) string {
	switch upper := strings.ToUpper(t); {
	case slices.Contains(types, t):
		return ""
	case slices.Contains(types, upper):
		return fmt.Sprintf("%q is not a type; write %s", t, upper)
	case upper == "GAP" || upper == "SYNCED":
		return fmt.Sprintf("%q is about the stream and always written; write ADDED, MODIFIED or DELETED", t)
	}
	return notOneOf(t, types)
}

// badExclusion returns what is wrong with a pattern of excludeNamespaces, or "".
func (k *checker) badExclusion(glob string, r Resource) string {
	if msg := badGlob(glob); msg != "" {
		return msg
	}
	by, remedy := "namespaces", "keep one of the two"
	if k.src.inherits(r.Entry, "excludeNamespaces") {
		by, remedy = r.Entry+".namespaces", "write excludeNamespaces: [] there, or keep one of the two"
	}
	if i := slices.IndexFunc(r.Namespaces, func(ns string) bool { return matches(glob, ns) }); i >= 0 {
		return fmt.Sprintf("%q excludes the namespace %s, which %s names; %s", glob, r.Namespaces[i], by, remedy)
	}
	if r.Namespace != "" && matches(glob, r.Namespace) {
		return fmt.Sprintf("%q excludes the namespace %s, which -n names; nothing would be written", glob, r.Namespace)
	}
	return ""
}

// duplicates finds entries that resolve to the same stream on any server. Only discovery knows that two names (po and
// pods) are one resource, or what a wildcard covers, unless two wildcards are equal.
func (k *checker) duplicates() {
	type stream struct {
		typed
		namespace, labels, fields string
		exclude                   string // of a wildcard
	}
	first := map[stream]Resource{}
	for _, r := range k.Resources {
		name := anyVersion(r.Name)
		if r.Group != nil {
			name.group, name.hasGroup = *r.Group, true
		}
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
			if other, taken := first[s]; !taken {
				first[s] = r
			} else if other.Entry != r.Entry || r.Line == 0 {
				k.refuse(true, r.Entry, "", "%s", sameStream(r, other, ns))
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
