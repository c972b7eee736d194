package filter

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"kubejournal/internal/format/rawjson"
)

// fields is a part of an object: what an expression looks at below one of its values. Most expressions look at one or
// two fields of an object of many kilobytes, and the rest need not be decoded.
type fields struct {
	whole bool // with all that is below
	below map[string]*fields
}

// everything is asked of a value of which nothing particular is.
var everything = &fields{whole: true}

// readsOf returns the part of the object that an expression looks at; nil where it looks at none. It may be more than
// needed, where a variable of a macro is called object, never less.
func readsOf(a *ast.AST) *fields {
	root := &fields{}
	root.collect(ast.NavigateAST(a))
	if !root.whole && root.below == nil {
		return nil
	}
	return root
}

func (f *fields) collect(e ast.NavigableExpr) {
	if part := f.at(e); part != nil {
		part.whole = true
		return
	}
	for _, child := range e.Children() {
		f.collect(child)
	}
}

// at returns the part that an expression names: object itself, or a key, known beforehand, of such a part. It is nil
// for any other expression.
func (f *fields) at(e ast.Expr) *fields {
	var of ast.Expr
	key, ok := "", true
	switch e.Kind() {
	case ast.IdentKind:
		if strings.TrimPrefix(e.AsIdent(), ".") == objectVariable {
			return f
		}
		return nil
	case ast.SelectKind:
		of, key = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			of = call.Args()[0]
			key, ok = literal(call.Args()[1])
		}
	}
	if of == nil || !ok {
		return nil
	}
	part := f.at(of)
	if part == nil {
		return nil
	}
	if part.below == nil {
		part.below = map[string]*fields{}
	}
	if part.below[key] == nil {
		part.below[key] = &fields{}
	}
	return part.below[key]
}

// literal returns the text of an expression that is one.
func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// decode returns the part of a JSON object that is asked for, as CEL takes it: map[string]any, []any, string, bool,
// nil, int64 for what is written as a whole number and fits, float64 for any other. That is how Kubernetes decodes an
// object without a schema. The error says where, not what: the text may hold what nobody is to see.
func decode(b []byte, want *fields) (any, error) {
	d := decoder{rawjson.NewCursor(b)}
	isObject := d.Peek() == '{'
	v, ok := d.value(want, 0)
	if !ok || !isObject || len(d.Rest()) > 0 {
		return nil, fmt.Errorf("is not a valid JSON object at byte %d", d.Offset())
	}
	return v, nil
}

// decoder reads JSON that is known to be valid; of what is passed over, only the end is looked for.
type decoder struct{ rawjson.Cursor }

// value reads the value that comes next. depth is the number of containers around it.
func (d *decoder) value(want *fields, depth int) (any, bool) {
	if depth > rawjson.MaxDepth {
		return nil, false
	}
	switch d.Peek() {
	case '{':
		return d.object(want, depth+1)
	case '[':
		return d.array(depth + 1)
	}
	return scalar(d.Value())
}

func (d *decoder) object(want *fields, depth int) (any, bool) {
	m := make(map[string]any, min(len(want.below), 8))
	for more := d.Take('{') && d.Peek() != '}'; more; more = d.Take(',') {
		key, ok := d.Key()
		if ok && bytes.IndexByte(key, '\\') >= 0 {
			var text string
			text, ok = rawjson.Text(key)
			key = []byte(text)
		}
		if !ok {
			return nil, false
		}
		part := want
		if !want.whole {
			part = want.below[string(key)]
		}
		if part == nil {
			if d.Value() == nil {
				return nil, false
			}
			continue
		}
		v, ok := d.value(part, depth)
		if !ok {
			return nil, false
		}
		m[string(key)] = v
	}
	return m, d.Take('}')
}

// array reads all of an array: which of its elements are looked at is not known beforehand.
func (d *decoder) array(depth int) (any, bool) {
	list := []any{}
	for more := d.Take('[') && d.Peek() != ']'; more; more = d.Take(',') {
		v, ok := d.value(everything, depth)
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	return list, d.Take(']')
}

// scalar decodes a string, a number or a literal; it is false for anything else.
func scalar(text []byte) (any, bool) {
	if inside := rawjson.Inside(text); inside != nil {
		return rawjson.Text(inside)
	}
	switch string(text) {
	case "true":
		return true, true
	case "false":
		return false, true
	case "null":
		return nil, true
	}
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return nil, false
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}
