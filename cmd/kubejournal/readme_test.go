package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestReadmeHelp holds what the README shows of the commands against their own help.
// With -update it writes that part anew.
func TestReadmeHelp(t *testing.T) {
	const begin, end = "<!-- help: written by go test ./cmd/kubejournal -run TestReadmeHelp -update -->\n", "<!-- help ends -->\n"
	var want strings.Builder
	for _, path := range commandPaths(newRootCommand()) {
		var out, fault bytes.Buffer
		if status := run(t.Context(), append(slices.Clone(path), "--help"), strings.NewReader(""), &out, &fault); status != 0 || fault.Len() > 0 {
			t.Fatalf("%v --help: status %d, %s", path, status, fault.String())
		}
		fmt.Fprintf(&want, "<details><summary><code>%s</code></summary>\n\n```text\n%s\n```\n\n</details>\n",
			strings.Join(append([]string{"kubejournal"}, path...), " "), strings.TrimRight(out.String(), "\n"))
	}
	name := filepath.Join("..", "..", "README.md")
	readme, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(readme), begin)
	shown, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("the README has no place between %q and %q", begin, end)
	}
	if shown == want.String() {
		return
	}
	if !*update {
		t.Fatal("the README shows other help than the commands; run this test with -update")
	}
	if err := os.WriteFile(name, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// commandPaths are the arguments that name each command, the program itself first.
// How completion is set up in each shell is cobra's to say.
func commandPaths(c *cobra.Command, before ...string) [][]string {
	all := [][]string{before}
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		all = append(all, commandPaths(sub, append(slices.Clone(before), sub.Name())...)...)
	}
	return all
}
