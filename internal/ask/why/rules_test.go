package why

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestRulesInDocs holds the table of rules on docs/find-out.md in step.
func TestRulesInDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/find-out.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, r := range deletions() {
		best := r.level.String()
		if deleters[r.name].only {
			best += "; certain with its account"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", r.name, r.looks, best)
	}
	if !strings.Contains(string(page), "| rule | looks at | at best |\n| --- | --- | --- |\n"+table.String()+"\n") {
		t.Errorf("docs/find-out.md does not have\n%s", table.String())
	}
}
