// Package yamlflow writes strings, lists and objects as YAML on one line, in flow style.
package yamlflow

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Pair is a member of an object.
type Pair struct {
	Key   string
	Value any
}

// Inline returns a string, a []string or a []Pair of such as YAML on one line, in flow style.
func Inline(v any) string { return marshal(inline(v)) }

func inline(v any) *yaml.Node {
	switch v := v.(type) {
	case string:
		return scalar(v)
	case []string:
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, s := range v {
			list.Content = append(list.Content, scalar(s))
		}
		return list
	case []Pair:
		object := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for _, p := range v {
			object.Content = append(object.Content, scalar(p.Key), inline(p.Value))
		}
		return object
	}
	panic(fmt.Sprintf("no YAML for %T", v))
}

// scalar returns a string, in quotes where it could be taken for anything else. The encoder writes several lines as
// such, some of which it cannot read, and merges what << has.
func scalar(s string) *yaml.Node {
	var n yaml.Node
	if strings.Contains(s, "\n") || n.Encode(s) != nil || n.Tag == "!!merge" {
		return quoted(s)
	}
	return &n
}

func quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
}

// Quoted returns strings as a list on one line, each in double quotes.
func Quoted(all ...string) string {
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range all {
		list.Content = append(list.Content, quoted(s))
	}
	return marshal(list)
}

func marshal(n *yaml.Node) string {
	text, err := yaml.Marshal(n)
	if err != nil {
		panic(fmt.Sprintf("write YAML: %v", err)) // of a node that inline has made
	}
	return string(bytes.TrimSuffix(text, []byte("\n")))
}
