package filter

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
)

// example stands in faults that have nothing better to offer.
const example = `object.status.phase == "Failed"`

func isBlank(expr string) bool { return strings.TrimSpace(expr) == "" }

// explainIssues makes one line of the first of the compiler's complaints: the others mostly follow from it.
func explainIssues(issues []*common.Error) error {
	first := slices.MinFunc(issues, func(a, b *common.Error) int {
		if a.Location.Line() != b.Location.Line() {
			return a.Location.Line() - b.Location.Line()
		}
		return a.Location.Column() - b.Location.Column()
	})
	if first.Location.Line() < 1 { // of the expression as a whole: its size, its depth
		return fmt.Errorf("%s; write a shorter one", oneLine(first.Message))
	}
	return fmt.Errorf("%s: %s", place(first.Location), oneLine(reword(first.Message)))
}

var (
	notToken   = regexp.MustCompile(`^Syntax error: token recognition error at: '(.*)'$`)
	unexpected = regexp.MustCompile(`^Syntax error: (?:mismatched|extraneous) input '(.*)' expecting `)
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	overload   = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
)

// wordOperators are what other languages write.
var wordOperators = map[string]string{"and": "&&", "or": "||", "not": "!", "=": "==", "&": "&&", "|": "||"}

// reword says what to do about the compiler's most frequent complaints; it speaks of tokens and overloads.
func reword(msg string) string {
	if m := notToken.FindStringSubmatch(msg); m != nil {
		what := strings.TrimSpace(m[1])
		switch {
		case wordOperators[what] != "":
			return fmt.Sprintf("%q is no operator; write %s", what, wordOperators[what])
		case strings.HasPrefix(what, `'`) || strings.HasPrefix(what, `"`):
			return "a text has no closing quote; write one"
		case strings.ContainsAny(what, "“”‘’„"):
			return `a typographic quote; write "`
		case what == "$":
			return "variables of the environment are not put into a filter; write the value"
		}
		return fmt.Sprintf("%q is not known here; write an expression such as %s", what, example)
	}
	if m := unexpected.FindStringSubmatch(msg); m != nil {
		switch {
		case m[1] == "<EOF>":
			return "the expression ends too early; write what is missing, e.g. " + example
		case wordOperators[m[1]] != "":
			return fmt.Sprintf("%q is no operator; write %s", m[1], wordOperators[m[1]])
		}
		return fmt.Sprintf("%q is not expected here; write one expression, its parts joined by && or ||", m[1])
	}
	if m := undeclared.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("%q is not known; there are object and type, and the functions of CEL", m[1])
	}
	if m := overload.FindStringSubmatch(msg); m != nil {
		return fmt.Sprintf("%s does not take %s; give it values that fit together", operatorName(m[1]), m[2])
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

// operatorName gives an operator as it is written: _==_ is ==.
func operatorName(function string) string {
	if symbol, ok := operators.FindReverse(function); ok && symbol != "" {
		return symbol
	}
	return strings.Trim(function, "_@")
}

// place names a position as editors count.
func place(l common.Location) string {
	if l.Line() > 1 {
		return fmt.Sprintf("line %d, column %d", l.Line(), l.Column()+1)
	}
	return fmt.Sprintf("column %d", l.Column()+1)
}

// describe names a type in a sentence.
func describe(t *cel.Type) string {
	switch t.Kind() {
	case types.StringKind:
		return "text"
	case types.IntKind, types.UintKind, types.DoubleKind:
		return "a number"
	case types.ListKind:
		return "a list"
	case types.MapKind:
		return "a map"
	case types.NullTypeKind:
		return "null"
	}
	return t.TypeName()
}

// oneLine keeps what quotes the expression on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

var eventTypes = []string{"ADDED", "MODIFIED", "DELETED"}

// checkTypes finds a comparison of type with what it never is: it would be false, or true, for ever.
func checkTypes(a *ast.AST, where positions) error {
	var err error
	shadowed := false
	never := func(other ast.Expr) {
		if word, ok := literal(other); ok && err == nil && !slices.Contains(eventTypes, word) {
			err = fmt.Errorf("%s: type is never %s; write ADDED, MODIFIED or DELETED", place(where.of(other.ID())), strconv.Quote(word))
		}
	}
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			shadowed = shadowed || c.IterVar() == typeVariable || c.IterVar2() == typeVariable
		case ast.CallKind:
			args := e.AsCall().Args()
			switch e.AsCall().FunctionName() {
			case operators.Equals, operators.NotEquals:
				if isType(args[0]) {
					never(args[1])
				} else if isType(args[1]) {
					never(args[0])
				}
			case operators.In:
				if isType(args[0]) && args[1].Kind() == ast.ListKind {
					for _, element := range args[1].AsList().Elements() {
						never(element)
					}
				}
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

// positions is what faults of an evaluation are explained by: all that it tells comes from the expression.
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

var errCost = errors.New("takes more than is allowed of one expression; look at fewer elements, or at a narrower field")

// explain says why an evaluation failed. CEL's own text may quote the object, so only what is known to come from the
// expression or from CEL itself is taken over.
func (p positions) explain(err error) error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return errCost
	}
	var fault *types.Err
	if !errors.As(err, &fault) {
		return errors.New("cannot be evaluated")
	}
	at := place(p.of(fault.NodeID()))
	text := fault.String()
	if key, ok := strings.CutPrefix(text, "no such key: "); ok {
		if p.keys[key] {
			return fmt.Errorf("%s: no such key: %s; ask with has() first, or write .?%s", at, key, key)
		}
		return fmt.Errorf("%s: no such key; ask with in first", at)
	}
	for _, plain := range []string{"division by zero", "modulus by zero", "integer overflow", "index out of bounds"} {
		if strings.HasPrefix(text, plain) {
			return fmt.Errorf("%s: %s", at, plain)
		}
	}
	if strings.HasPrefix(text, "no such overload") || strings.HasPrefix(text, "unsupported index type") {
		return fmt.Errorf("%s: a value is of another type than the expression takes it for", at)
	}
	return fmt.Errorf("%s: a function does not take the value that it gets", at)
}
