package suggest

import "testing"

func TestNear(t *testing.T) {
	names := []string{"pods", "deployments", "deployments.apps", "po", "pod", "deployment", "cronjobs", "gadgets.example.com", "leases.coordination.k8s.io"}
	for name, want := range map[string]string{
		"podz":                      "pods",
		"pop":                       "po", // the first of several
		"pdo":                       "po",
		"Deployments":               "deployments",
		"deploymnets":               "deployments",
		"deploymnet":                "deployment",
		"deployments.aps":           "deployments.apps",
		"deploymnets.app":           "deployments.apps",
		"cornjobz":                  "cronjobs",
		"gizmos":                    "",
		"widgets.example.com":       "", // two slips in the seven letters that differ
		"gadgest.example.com":       "gadgets.example.com",
		"gadgets.exmaple.com":       "gadgets.example.com",
		"leases.cordination.k8s.io": "leases.coordination.k8s.io",
		"poods":                     "pods",
		"poodz":                     "", // two slips are too many in five letters
		"gizmos.example.x":          "",
		"xy":                        "", // too short for a slip
		"":                          "",
	} {
		if got := Near(name, names); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
