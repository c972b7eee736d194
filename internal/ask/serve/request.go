package serve

import (
	"net/url"
	"strings"
)

// target is what the path of a request names.
type target struct {
	group, version       string
	resource             string // empty for the API group version itself
	namespace, name, sub string
	watch                bool // by the old form of a path
	proxy                bool
}

// parsePath reads the path of an API request. ok is false for any other path.
func parsePath(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		t.version, parts = parts[1], parts[2:]
	case len(parts) >= 3 && parts[0] == "apis":
		t.group, t.version, parts = parts[1], parts[2], parts[3:]
		if t.group == "" {
			return t, false
		}
	default:
		return t, false
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return t, false
		}
	}
	if len(parts) > 1 && (parts[0] == "watch" || parts[0] == "proxy") {
		t.watch, t.proxy, parts = parts[0] == "watch", parts[0] == "proxy", parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.namespace, parts = parts[1], parts[2:]
	}
	names := [...]*string{&t.resource, &t.name, &t.sub}
	for i, part := range parts {
		if i >= len(names) {
			t.sub += "/" + part
			continue
		}
		*names[i] = part
	}
	return t, true
}

// truth reads a parameter that is true or false, as a Kubernetes API server does: present without a value is true.
func truth(query url.Values, name string) bool {
	values, there := query[name]
	if !there || len(values) == 0 {
		return false
	}
	return values[0] != "0" && !strings.EqualFold(values[0], "false")
}
