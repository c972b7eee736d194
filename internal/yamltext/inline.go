package yamltext

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Inline returns a value as YAML on one line, in flow style.
func Inline(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		panic(err) // of a type that YAML has not
	}
	inLine(&n)
	return marshal(&n)
}

// Quoted returns strings as a list on one line, each in double quotes.
func Quoted(all ...string) string {
	list := yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range all {
		var n yaml.Node
		n.SetString(s)
		n.Style |= yaml.DoubleQuotedStyle
		list.Content = append(list.Content, &n)
	}
	inLine(&list)
	return marshal(&list)
}

func inLine(n *yaml.Node) {
	switch {
	case n.Kind != yaml.ScalarNode:
		n.Style = yaml.FlowStyle
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		n.Style = yaml.DoubleQuotedStyle
	case n.Tag == "!!merge":
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		inLine(child)
	}
}

func marshal(n *yaml.Node) string {
	text, err := yaml.Marshal(n)
	if err != nil {
		panic(fmt.Sprintf("write YAML: %v", err)) // of a node that inLine has seen
	}
	return string(bytes.TrimSuffix(text, []byte("\n")))
}
