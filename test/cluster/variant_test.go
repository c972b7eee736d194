package cluster

import (
	"strings"
	"testing"

	"kubejournal/test/program"
)

func TestChooseVariant(t *testing.T) {
	root, err := program.Root()
	must(t, err)
	choose := func(environ ...string) (Variant, error) {
		return chooseVariant(root, func(name string) string {
			for _, each := range environ {
				if value, ok := strings.CutPrefix(each, name+"="); ok {
					return value
				}
			}
			return ""
		})
	}
	for _, want := range append(Variants(), Variant{}, Variant{Kubernetes: "v1.34", NoWatchList: true}) {
		if got, err := choose(want.Environ()...); err != nil || got != want {
			t.Errorf("%s: chosen by its own environment is %s (%v)", want, got, err)
		}
	}
	if got, err := choose(); err != nil || got != (Variant{}) {
		t.Errorf("without a choice: %s (%v)", got, err)
	}
	for environ, want := range map[string]string{
		kubernetesVariable + "=v1.2":  `"v1.2" but v1.32, v1.34`,
		kubernetesVariable + "=1.32":  `"1.32" but v1.32, v1.34`,
		kubernetesVariable + "=.":     `"." but`,
		kubernetesVariable + "=.bin":  `".bin" but`,
		watchListVariable + "=false":  `"false" is not off`,
		watchListVariable + "=off ":   `"off " is not off`,
		kubernetesVariable + "=../..": `"../.." but`,
	} {
		v, err := choose(environ)
		name, _, _ := strings.Cut(environ, "=")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %s (%v), want an error that says %s", environ, v, err, want)
		}
	}
}

// Each variant is another server, and says which.
func TestVariants(t *testing.T) {
	releases := make(map[string]bool)
	for _, v := range append(Variants(), Variant{}) {
		release, err := v.Release(t.Context())
		must(t, err)
		if !strings.HasPrefix(release, v.Kubernetes) {
			t.Errorf("%s pins %s", v, release)
		}
		if v.NoWatchList {
			release += " without " + watchListGate
		}
		if releases[release] {
			t.Errorf("%s is there twice", release)
		}
		releases[release] = true
	}
}
