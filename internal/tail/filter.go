package tail

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Types are the types of a line, in the order in which a user meets them.
var Types = []string{"ADDED", "MODIFIED", "DELETED", "GAP", "SYNCED"}

// Filter says which lines to show. What is empty lets every line pass.
type Filter struct {
	Resources  []Resource
	Namespaces []string
	Types      []string // of Types
	Since      time.Time
}

// Resource is a resource as kubectl lets one name it.
type Resource struct {
	name           string // lower case; plural, or singular
	version, group string
	hasGroup       bool // false: every group; "" is core
}

var (
	resourceForm = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9]*(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?$`)
	versionForm  = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// shortNames are kubectl's for the resources that every cluster has: there is no server to ask.
var shortNames = map[string]string{
	"cm": "configmaps", "cs": "componentstatuses", "ep": "endpoints", "ev": "events", "limits": "limitranges",
	"ns": "namespaces", "no": "nodes", "pvc": "persistentvolumeclaims", "pv": "persistentvolumes", "po": "pods",
	"rc": "replicationcontrollers", "quota": "resourcequotas", "sa": "serviceaccounts", "svc": "services",
	"crd": "customresourcedefinitions", "crds": "customresourcedefinitions", "ds": "daemonsets", "deploy": "deployments",
	"rs": "replicasets", "sts": "statefulsets", "hpa": "horizontalpodautoscalers", "cj": "cronjobs",
	"csr": "certificatesigningrequests", "ing": "ingresses", "netpol": "networkpolicies", "pdb": "poddisruptionbudgets",
	"pc": "priorityclasses", "sc": "storageclasses",
}

// ParseResource reads pods, po, pod, deployments.apps or deployments.v1.apps.
func ParseResource(text string) (Resource, error) {
	if !resourceForm.MatchString(text) {
		return Resource{}, fmt.Errorf("%q is not the name of a resource; write it as kubectl takes it, e.g. pods or deployments.apps", text)
	}
	name, rest, dotted := strings.Cut(text, ".")
	r := Resource{name: strings.ToLower(name), group: rest, hasGroup: dotted}
	if version, group, ok := strings.Cut(rest, "."); ok && versionForm.MatchString(version) {
		r.version, r.group = version, group
	}
	if long, ok := shortNames[r.name]; ok {
		r.name = long
	}
	return r, nil
}

// match reports whether a line is about the resource. The singular is the kind in lower case, as in every API that
// follows the conventions.
func (r *Resource) match(l *Line) bool {
	if string(l.text(resourceKey)) != r.name && !strings.EqualFold(string(l.text(kindKey)), r.name) {
		return false
	}
	return (!r.hasGroup || string(l.text(groupKey)) == r.group) && (r.version == "" || string(l.text(versionKey)) == r.version)
}

// ParseType reads a line's type, in upper or lower case.
func ParseType(text string) (string, error) {
	if t := strings.ToUpper(text); slices.Contains(Types, t) {
		return t, nil
	}
	return "", fmt.Errorf("%q is not known; write %s or %s", text, strings.Join(Types[:len(Types)-1], ", "), Types[len(Types)-1])
}

// ParseSince reads how long ago, 90s or 2h, or a time as RFC 3339 has it.
func ParseSince(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return time.Time{}, fmt.Errorf("%q is negative; write how long ago, such as 10m or 2h", text)
		}
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a duration nor a time; write e.g. 10m, 2h or 2026-11-20T16:10:22Z", text)
	}
	return t, nil
}

// Match reports whether to show the line.
func (f *Filter) Match(l *Line) bool {
	return !l.Time.Before(f.Since) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, string(l.text(typeKey)))) &&
		(len(f.Resources) == 0 || slices.ContainsFunc(f.Resources, func(r Resource) bool { return r.match(l) })) &&
		(len(f.Namespaces) == 0 || f.inNamespace(l))
}

// inNamespace lets GAP and SYNCED, which are about a whole stream, pass where the stream has objects of the namespace.
func (f *Filter) inNamespace(l *Line) bool {
	if !l.aboutStream() {
		return slices.Contains(f.Namespaces, string(l.text(namespaceKey)))
	}
	scope, err := url.ParseQuery(string(l.scope()))
	return err != nil || !scope.Has("namespace") || slices.Contains(f.Namespaces, scope.Get("namespace"))
}
