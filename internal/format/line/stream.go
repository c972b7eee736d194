package line

import (
	"net/url"
	"strings"
)

// StreamName is what a stream is called: its resource, and of which objects of that it has all changes. As text it is
// RESOURCE?namespace=N&labelSelector=L&fieldSelector=F&shard=S, without what is empty, with values as in a URL's query.
type StreamName struct {
	Resource      string // with its group, as kubectl names it: deployments.apps
	Namespace     string // "" is all of them
	LabelSelector string // canonical, as FieldSelector
	FieldSelector string
	Shard         string // 0-of-4; "" is all objects

	rest string // of a name that others gave, what is none of these; as it stands
}

// ParseStreamName reads the name of a stream. It takes any text, for a journal may be anybody's.
func ParseStreamName(text string) (n StreamName) {
	resource, scope, _ := strings.Cut(text, "?")
	if scope == "" {
		return StreamName{Resource: text}
	}
	n.Resource = resource
	for part := range strings.SplitSeq(scope, "&") {
		key, escaped, _ := strings.Cut(part, "=")
		value, err := url.QueryUnescape(escaped)
		field := n.field(key)
		if err != nil || value == "" || field == nil || *field != "" || url.QueryEscape(value) != escaped {
			return StreamName{Resource: resource, rest: scope}
		}
		*field = value
	}
	if n.String() != text {
		return StreamName{Resource: resource, rest: scope}
	}
	return n
}

func (n *StreamName) field(key string) *string {
	switch key {
	case "namespace":
		return &n.Namespace
	case "labelSelector":
		return &n.LabelSelector
	case "fieldSelector":
		return &n.FieldSelector
	case "shard":
		return &n.Shard
	}
	return nil
}

// String returns the name as text: a position is kept under it.
func (n StreamName) String() string { return strings.TrimSuffix(n.Resource+"?"+n.Scope(), "?") }

// Scope is what of the text follows the question mark; "" for all objects of a resource.
func (n StreamName) Scope() string {
	if n.rest != "" {
		return n.rest
	}
	var parts []string
	for _, key := range [...]string{"namespace", "labelSelector", "fieldSelector", "shard"} {
		if value := *n.field(key); value != "" {
			parts = append(parts, key+"="+url.QueryEscape(value))
		}
	}
	return strings.Join(parts, "&")
}

// Selects reports whether the stream has selectors. So may one whose scope cannot be read.
func (n StreamName) Selects() bool {
	return n.LabelSelector != "" || n.FieldSelector != "" || n.rest != ""
}

// Readable reports whether all of the name is known.
func (n StreamName) Readable() bool { return n.rest == "" }

// Whole returns the name of the stream of all shards.
func (n StreamName) Whole() StreamName {
	n.Shard = ""
	return n
}
