package follow

import (
	"fmt"
	"slices"
	"strings"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// ParseType reads a line's type, in upper or lower case.
func ParseType(text string) (string, error) {
	if t := strings.ToUpper(text); slices.Contains(index.Types, t) {
		return t, nil
	}
	last := len(index.Types) - 1
	return "", fmt.Errorf("%q is not known; write %s or %s", text, strings.Join(index.Types[:last], ", "),
		index.Types[last])
}

// separates reports whether a GAP may pass without its SYNCED.
func separates(f *argument.Filter) bool {
	return len(f.Types) > 0 && !slices.Contains(f.Types, string(line.Synced))
}
