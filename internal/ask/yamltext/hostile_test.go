package yamltext

import (
	"testing"

	"kubejournal/test/hostileyaml"
)

// Each string that a parser of YAML could take for anything else is read back as it was, as a key and as a value.
func TestHostileStrings(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	all := hostileyaml.Strings()
	if len(all) < 1796 {
		t.Fatalf("%d strings", len(all))
	}
	for n, text := range all {
		checkYAML(t, text)
		if t.Failed() {
			t.Fatalf("string %d, %q", n, text)
		}
	}
	// And beside each other, where one may end or begin what another is.
	for n := range all {
		next := all[(n+1)%len(all)]
		checkYAML(t, all[n]+"\n"+next)
		checkYAML(t, all[n]+": "+next)
	}
}
