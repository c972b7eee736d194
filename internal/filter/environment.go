package filter

import (
	"sync"

	"cel.dev/cel-go/cel"
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
