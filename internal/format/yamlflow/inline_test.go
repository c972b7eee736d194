package yamlflow

import "testing"

func TestInline(t *testing.T) {
	if got := Inline([]Pair{{"resource", "pods"}, {"namespaces", []string{"web", "null", "a, b"}}}); got != `{resource: pods, namespaces: [web, "null", 'a, b']}` {
		t.Error(got)
	}
	if got := Quoted("", "a\"]\n  verbs: [\"*"); got != `["", "a\"]\n  verbs: [\"*"]` {
		t.Error(got)
	}
}
