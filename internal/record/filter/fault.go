package filter

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// example is in faults that have nothing better to offer.
const example = `object.status.phase == "Failed"`

// explainIssues makes one line of the first of the compiler's complaints: the others mostly follow from it.
func explainIssues(issues []*common.Error) error {
	first := slices.MinFunc(issues, func(a, b *common.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()),
			cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	if first.Location.Line() < 1 { // of the expression as a whole: its size, its depth
		return fmt.Errorf("%s; write a shorter one", oneLine(first.Message))
	}
	return fmt.Errorf("%s: %s", place(first.Location), oneLine(reword(first.Message)))
}

var (
	// badToken finds a token that CEL does not have, or one that it has and does not expect.
	badToken = regexp.MustCompile(`^Syntax error: (?:token recognition error at: '(.*)'$|(?:mismatched|extraneous) ` +
		`input '(.*)' expecting )`)
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	overload   = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
)

// wordOperators are what other languages write.
var wordOperators = map[string]string{"and": "&&", "or": "||", "not": "!", "=": "==", "&": "&&", "|": "||"}

// reword says what to do about the compiler's most frequent complaints; it speaks of tokens and overloads.
func reword(msg string) string {
	if m := badToken.FindStringSubmatch(msg); m != nil {
		switch what := strings.TrimSpace(m[1] + m[2]); {
		case wordOperators[what] != "":
			return fmt.Sprintf("%q is no operator; write %s", what, wordOperators[what])
		case what == "<EOF>":
			return "the expression ends too early; write what is missing, e.g. " + example
		case m[2] != "":
			return fmt.Sprintf("%q is not expected here; write one expression, its parts joined by && or ||", what)
		case strings.HasPrefix(what, `'`) || strings.HasPrefix(what, `"`):
			return "a text has no closing quote; write one"
		case strings.ContainsAny(what, "“”‘’„"):
			return `a typographic quote; write "`
		case what == "$":
			return "variables of the environment are not put into a filter; write the value"
		default:
			return fmt.Sprintf("%q is not known here; write an expression such as %s", what, example)
		}
	}
	if m := undeclared.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("%q is not known; there are object and type, and the functions of CEL", m[1])
	}
	if m := overload.FindStringSubmatch(msg); m != nil {
		symbol, _ := operators.FindReverse(m[1]) // _==_ is ==
		return fmt.Sprintf("%s does not take %s; give it values that fit together",
			cmp.Or(symbol, strings.Trim(m[1], "_@")), m[2])
	}
	msg = strings.TrimPrefix(msg, "Syntax error: ")
	switch {
	case strings.HasSuffix(msg, " at '<EOF>'"):
		return strings.TrimSuffix(msg, " at '<EOF>'") + " at the end; write it"
	case strings.HasPrefix(msg, "expected type "):
		return msg + "; the values of a list or map are all of one type"
	case strings.Contains(msg, "has() macro"):
		return "has() takes a field; write e.g. has(object.status)"
	}
	return msg + "; write an expression such as " + example
}

// place names a position as editors count.
func place(l common.Location) string {
	if l.Line() > 1 {
		return fmt.Sprintf("line %d, column %d", l.Line(), l.Column()+1)
	}
	return fmt.Sprintf("column %d", l.Column()+1)
}

// typeNames are names of types in a sentence.
var typeNames = map[string]string{
	"string": "text", "int": "a number", "uint": "a number", "double": "a number", "list": "a list", "map": "a map",
	"null_type": "null",
}

// describe names a type in a sentence.
func describe(t ref.Type) string { return cmp.Or(typeNames[t.TypeName()], t.TypeName()) }

// oneLine keeps what quotes the expression on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

var eventTypes = []string{"ADDED", "MODIFIED", "DELETED"}

// checkTypes finds a comparison of type with what it never is: it would be false, or true, for ever.
func checkTypes(a *ast.AST, where positions) error {
	var err error
	shadowed := false
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		var others []ast.Expr // that type is compared with
		switch e.Kind() {
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			shadowed = shadowed || c.IterVar() == typeVariable || c.IterVar2() == typeVariable
		case ast.CallKind:
			args := e.AsCall().Args()
			switch name := e.AsCall().FunctionName(); {
			case name == operators.In && isType(args[0]) && args[1].Kind() == ast.ListKind:
				others = args[1].AsList().Elements()
			case name != operators.Equals && name != operators.NotEquals:
			case isType(args[0]):
				others = args[1:]
			case isType(args[1]):
				others = args[:1]
			}
		}
		for _, other := range others {
			if word, ok := literal(other); ok && err == nil && !slices.Contains(eventTypes, word) {
				err = fmt.Errorf("%s: type is never %q; write ADDED, MODIFIED or DELETED",
					place(where.of(other.ID())), word)
			}
		}
	}))
	if shadowed {
		return nil
	}
	return err
}

func isType(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && strings.TrimPrefix(e.AsIdent(), ".") == typeVariable
}

// positions is what faults of an evaluation are explained by: all of it comes from the expression.
type positions struct {
	info *ast.SourceInfo
	keys map[string]bool // that the expression names
}

func positionsOf(a *ast.AST) positions {
	p := positions{info: a.SourceInfo(), keys: map[string]bool{}}
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.SelectKind {
			p.keys[e.AsSelect().FieldName()] = true
		} else if key, ok := literal(e); ok {
			p.keys[key] = true
		}
	}))
	return p
}

func (p positions) of(id int64) common.Location { return p.info.GetStartLocation(id) }

// explain says why an evaluation failed. CEL's own text may quote the object, so only what is known to come from the
// expression or from CEL itself is taken over.
func (p positions) explain(err error) error {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok &&
		cancelled.Cause == interpreter.CostLimitExceeded {
		return errors.New("takes more than is allowed of one expression; look at fewer elements, or at a " +
			"narrower field")
	}
	fault, ok := errors.AsType[*types.Err](err)
	if !ok {
		return errors.New("cannot be evaluated")
	}
	text, why := fault.String(), "a function does not take the value that it gets"
	if key, ok := strings.CutPrefix(text, "no such key: "); ok {
		why = "no such key; ask with in first"
		if p.keys[key] {
			why = fmt.Sprintf("no such key: %s; ask with has() first, or write .?%s", key, key)
		}
	}
	for _, plain := range []string{"division by zero", "modulus by zero", "integer overflow", "index out of bounds"} {
		if strings.HasPrefix(text, plain) {
			why = plain
		}
	}
	if strings.HasPrefix(text, "no such overload") || strings.HasPrefix(text, "unsupported index type") {
		why = "a value is of another type than the expression takes it for"
	}
	return fmt.Errorf("%s: %s", place(p.of(fault.NodeID())), why)
}
