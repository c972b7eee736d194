package answer

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestColumns has paths as CustomResourceDefinitions have them, and those whose work would grow with each step.
func TestColumns(t *testing.T) {
	const object = `{"spec":{"a":1,"b.c":"x","list":[{"type":"Ready","status":"True"},{"type":"Other","status":"False"}]}}`
	var decoded any
	if err := json.Unmarshal([]byte(object), &decoded); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		".spec.a":                               "1",
		`.spec.b\.c`:                            "x",
		`.spec['b\.c']`:                         "x",
		".spec.none":                            "",
		".spec.list[1].type":                    "Other",
		".spec.list[*].type":                    "Ready Other",
		`.spec.list[?(@.type=="Ready")].status`: "True",
	} {
		c, ok := NewColumn("A", path)
		if got := c.cell(decoded); !ok || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, ok, want)
		}
	}
	for _, path := range []string{
		".spec..a..a..a", ".spec..a", ".spec.list[0,0,0][0,0]", ".a}{.a", ".a}text{.a", ".list[?(@..a==1)]", ".list[?(1==@['a','a'])]",
		"range .items[*]", ".a[", strings.Repeat(".a", 1000),
	} {
		if _, ok := NewColumn("A", path); ok {
			t.Errorf("%s is taken", path)
		}
	}
	decoded = map[string]any{"a": strings.Repeat("ä", 1000)}
	c, _ := NewColumn(strings.Repeat("N", 5000), ".a")
	if got := c.cell(decoded); len(got) > maxCell+3 || !strings.HasSuffix(got, "ä…") || len(c.Name) > maxCell+3 {
		t.Errorf("a cell of %d bytes, a name of %d", len(got), len(c.Name))
	}
}
