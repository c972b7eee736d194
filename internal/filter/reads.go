package filter

import (
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// fields is a part of an object: what an expression looks at below one of its values. Most expressions look at one or
// two fields of an object of many kilobytes, and the rest need not be decoded.
type fields struct {
	whole bool // with all that is below
	below map[string]*fields
}

// member returns the part below a key, or nil.
func (f *fields) member(key []byte) *fields {
	if f.whole {
		return f
	}
	return f.below[string(key)]
}

func (f *fields) reach(key string) *fields {
	if f.below == nil {
		f.below = map[string]*fields{}
	}
	if f.below[key] == nil {
		f.below[key] = &fields{}
	}
	return f.below[key]
}

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
	switch e.Kind() {
	case ast.IdentKind:
		if strings.TrimPrefix(e.AsIdent(), ".") == objectVariable {
			return f
		}
	case ast.SelectKind:
		if part := f.at(e.AsSelect().Operand()); part != nil {
			return part.reach(e.AsSelect().FieldName())
		}
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		default:
			return nil
		}
		key, ok := literal(call.Args()[1])
		if !ok {
			return nil
		}
		if part := f.at(call.Args()[0]); part != nil {
			return part.reach(key)
		}
	}
	return nil
}

// literal returns the text of an expression that is one.
func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
