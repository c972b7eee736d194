package answer

import (
	"context"
	"strings"
	"unicode/utf8"

	"k8s.io/client-go/util/jsonpath"

	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/index"
	"kubejournal/internal/host/terminal"
)

// Who may write a CustomResourceDefinition says which columns a table has. These bound what that costs.
const (
	MaxColumns    = 32   // of a table; those after are not shown
	maxColumnPath = 1024 // bytes; a column with a longer path is not shown
	maxCell       = 1024 // bytes of a cell: each row is as wide as the widest
)

// Column is one of the columns that a CustomResourceDefinition gives a table.
type Column struct {
	Name string
	path *jsonpath.JSONPath
}

// columnsOf returns the columns that a CustomResourceDefinition in the journal gives a table of a stream's objects.
func columnsOf(ctx context.Context, j *question.Journal, s *index.Stream) (all []Column, err error) {
	of, err := j.Columns(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, c := range of {
		if c.Priority > 0 || c.Type == "date" {
			continue // of wide tables; ages, which would be those of now
		}
		if column, ok := NewColumn(c.Name, c.JSONPath); ok && len(all) < MaxColumns {
			all = append(all, column)
		}
	}
	return all, nil
}

// NewColumn returns the column with a name and a JSONPath. It has none for a path that is faulty, or that may lead to
// one value several times: with .. or a union, repeated, the work grows with each.
func NewColumn(name, path string) (Column, bool) {
	c := Column{Name: cut(name), path: jsonpath.New(name).AllowMissingKeys(true)}
	text := "{" + path + "}"
	if len(path) > maxColumnPath {
		return c, false
	}
	parsed, err := jsonpath.Parse(name, text)
	if err != nil || len(parsed.Root.Nodes) != 1 {
		return c, false
	}
	list, ok := parsed.Root.Nodes[0].(*jsonpath.ListNode)
	return c, ok && leadsOnce(list) && c.path.Parse(text) == nil
}

// leadsOnce reports whether a path leads to each value no more than once.
func leadsOnce(path *jsonpath.ListNode) bool {
	for _, node := range path.Nodes {
		switch node := node.(type) {
		case *jsonpath.FilterNode:
			if !leadsOnce(node.Left) || !leadsOnce(node.Right) {
				return false
			}
		case *jsonpath.FieldNode, *jsonpath.ArrayNode, *jsonpath.WildcardNode,
			*jsonpath.TextNode, *jsonpath.IntNode, *jsonpath.FloatNode, *jsonpath.BoolNode:
		default:
			return false
		}
	}
	return true
}

// cell returns what the column shows of a decoded object.
func (c *Column) cell(object any) string {
	var text strings.Builder
	if c.path.Execute(&text, object) != nil {
		return ""
	}
	return cut(text.String())
}

// cut returns the beginning of a text that is too long for a cell.
func cut(text string) string {
	if len(text) <= maxCell {
		return text
	}
	n := maxCell
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + terminal.Ellipsis
}
