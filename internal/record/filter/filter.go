// Package filter decides in CEL what is written of a stream.
//
// An expression sees two variables: object, the object as the server sent it, and type, one of ADDED, MODIFIED and
// DELETED. It is compiled once, with the language and the limits that expressions have in Kubernetes, and may then be
// evaluated from many goroutines.
package filter

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

const (
	objectVariable = "object"
	typeVariable   = "type"
)

// costLimit bounds one evaluation: PerCallLimit of k8s.io/apiserver/pkg/apis/cel, about 0.1 seconds. Kubernetes looks
// every 100 steps (CheckFrequency there) whether a request was given up; nothing gives one up here, so that is not set.
const costLimit = 1_000_000

// environment is the language, made once: the options are those of k8s.io/apiserver/pkg/cel/environment, so that an
// expression from an admission policy reads the same here. The functions that come from Kubernetes itself (quantity,
// url, semver, find) are not among them; regex and math are on top.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable(objectVariable, cel.DynType),
		cel.Variable(typeVariable, cel.StringType),
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
		),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.Lists(ext.ListsVersion(3)),
		ext.TwoVarComprehensions(),
		ext.Network(),
		ext.Regex(),
		ext.Math(),
	)
})

// Program is an expression that was checked. It is safe for concurrent use.
type Program struct {
	known   cel.Program // where the object is known
	unknown cel.Program // evaluates in part; slower
	reads   *fields     // of the object; nil: nothing, so that no object need be at hand
	where   positions
}

// Compile checks an expression and makes a Program of it. The error is one line that says where the fault is in the
// expression and what to do about it.
func Compile(expr string) (*Program, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	if strings.TrimSpace(expr) == "" {
		return nil, errors.New("is empty; write a CEL expression, e.g. " + example + ", or leave it out for everything")
	}
	ast, issues := env.Compile(expr)
	if issues.Err() != nil {
		return nil, explainIssues(issues.Errors())
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the result is %s, not true or false; compare it, e.g. %s", describe(t), example)
	}
	p := &Program{reads: readsOf(ast.NativeRep()), where: positionsOf(ast.NativeRep())}
	if err := checkTypes(ast.NativeRep(), p.where); err != nil {
		return nil, err
	}
	p.known, err = env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(costLimit))
	if err == nil {
		p.unknown, err = env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval),
			cel.CostLimit(costLimit))
	}
	if err != nil {
		return nil, fmt.Errorf("plan the expression: %s; write it in another way", oneLine(err.Error()))
	}
	return p, nil
}

// Match evaluates the expression for one object, as JSON, and the type of what happened to it. With an error there is
// no answer: a key that is not there, a value of another kind, a cost over the limit. The error says nothing of what
// the object holds.
//
// The JSON has been checked when it was received. Of any other text this makes an error or some answer.
func (p *Program) Match(t string, object []byte) (bool, error) {
	vars := variables{kind: t}
	if p.reads != nil {
		v, err := decode(object, p.reads)
		if err != nil {
			return false, fmt.Errorf("evaluate filter: read the object: %w", err)
		}
		vars.object = v
	}
	out, _, err := p.known.Eval(&vars)
	if err != nil {
		return false, fmt.Errorf("evaluate filter: %w", p.where.explain(err))
	}
	match, ok := out.(types.Bool)
	if !ok {
		return false, fmt.Errorf("evaluate filter: the result is %s, not true or false; compare it",
			describe(out.Type()))
	}
	return bool(match), nil
}

// MatchUnknown evaluates the expression for an object whose state is not known. decided is false where the result
// depends on it, or is none.
func (p *Program) MatchUnknown(t string) (match, decided bool) {
	vars, err := cel.PartialVars(&variables{kind: t}, cel.AttributePattern(objectVariable))
	if err != nil {
		return false, false
	}
	out, _, err := p.unknown.Eval(vars)
	if err != nil {
		return false, false
	}
	b, ok := out.(types.Bool)
	return ok && bool(b), ok
}

// variables is what an expression sees; it saves a map for each object.
type variables struct {
	kind   string
	object any
}

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case typeVariable:
		return v.kind, true
	case objectVariable:
		return v.object, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (*variables) Parent() cel.Activation { return nil }
