package command

import (
	"context"
	"strings"

	"kubejournal/internal/ask/answer"
	"kubejournal/internal/ask/archive"
)

// Coverage asks from when to when streams were watched. Its formats are table and json.
type Coverage struct{}

// Prepare takes several arguments as resources.
func (Coverage) Prepare(r *Request) error {
	r.lines = archive.NoLines
	if all := strings.Join(r.Objects, ","); len(r.Objects) > 1 && !strings.Contains(all, "/") {
		r.Objects = []string{all}
	}
	return nil
}

// Answer prints the intervals of each stream.
func (Coverage) Answer(_ context.Context, r *Request, all []answer.Asked, o *answer.Output) error {
	return answer.Coverage(all, r.Output, o)
}
