package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Entries take the defaults of keys that they do not set, names alone too; what an entry sets is its own, also false and
// empty. The values are those of a config without defaults.
func TestDefaults(t *testing.T) {
	const with = `
defaults:
  excludeNamespaces: ["$(NS)-*", dev]
  labelSelector: app=$(NS)
  types: [MODIFIED, ADDED]
  filter: object.a == 1
  initial: skip
  payload: metadata
  changes: true
  ignoreFields: [status, metadata.labels]
resources:
  - pods
  - resource: secrets
    excludeNamespaces: []
    labelSelector: ""
    types: [DELETED, ADDED, MODIFIED]
    filter: ""
    initial: snapshot
    payload: object
    changes: false
    ignoreFields: []
  - {resource: nodes, ignoreFields: [spec]}
`
	const without = `
resources:
  - resource: pods
    excludeNamespaces: [dev, kube-*]
    labelSelector: app=kube
    types: [ADDED, MODIFIED]
    filter: object.a == 1
    initial: skip
    payload: metadata
    changes: true
    ignoreFields: [metadata.labels, status]
  - secrets
  - resource: nodes
    excludeNamespaces: [dev, kube-*]
    labelSelector: app=kube
    types: [ADDED, MODIFIED]
    filter: object.a == 1
    initial: skip
    payload: metadata
    changes: true
    ignoreFields: [spec]
`
	env := envOf("NS", "kube")
	got, want := mustLoad(t, with, Overrides{}, env), mustLoad(t, without, Overrides{}, env)
	if diff := cmp.Diff(want.Resources, got.Resources, ignorePlace); diff != "" {
		t.Errorf("entries (-without +with):\n%s", diff)
	}
	if !got.Same(want) {
		t.Error("not the same config")
	}
	const counts = "changes in 2, excludeNamespaces in 2, filter in 2, ignoreFields in 1, initial in 2, labelSelector in 2, payload in 2, types in 2"
	if got.Inherited() != counts || want.Inherited() != "" {
		t.Errorf("inherited %q and %q, want %q and none", got.Inherited(), want.Inherited(), counts)
	}
}

// A variable's value is not read again, however many entries share a default.
func TestDefaultsExpandedOnce(t *testing.T) {
	c := mustLoad(t, "defaults: {fieldSelector: metadata.name=$(A)}\nresources: [pods, secrets]\n", Overrides{}, envOf("A", "$(A)"))
	for _, r := range c.Resources {
		if r.FieldSelector != "metadata.name=$(A)" {
			t.Errorf("%s: %s", r.Name, r.FieldSelector)
		}
	}
}

// The command line wins over the file's default, that over the program's; an entry's own value over all of them.
func TestChanges(t *testing.T) {
	no, yes := false, true
	for _, tc := range []struct {
		name, yaml string
		over       Overrides
		want       []bool // of each entry
	}{
		{"nothing configured", "resources: [pods]", Overrides{}, []bool{false}},
		{"default", "defaults: {changes: true}\nresources: [pods, {resource: secrets, changes: false}]", Overrides{}, []bool{true, false}},
		{"flag off", "defaults: {changes: true}\nresources: [pods, {resource: secrets, changes: true}]", Overrides{Changes: &no}, []bool{false, true}},
		{"flag on", "resources: [pods, {resource: secrets, changes: false}]", Overrides{Changes: &yes}, []bool{true, false}},
		{"arguments", "", Overrides{Resources: []string{"pods,secrets"}}, []bool{true, true}},
		{"arguments, flag off", "", Overrides{Resources: []string{"pods"}, Changes: &no}, []bool{false}},
		{"arguments and file", "resources: [nodes]", Overrides{Resources: []string{"pods"}}, []bool{false}},
		{"arguments and file with default", "defaults: {changes: true}\nresources: [nodes]", Overrides{Resources: []string{"pods", "secrets"}}, []bool{true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := "test.yaml"
			if tc.yaml == "" {
				file = ""
			}
			c, err := Parse([]byte(tc.yaml), file, tc.over, noEnv)
			if err != nil {
				t.Fatal(err)
			}
			var got []bool
			for _, r := range c.Resources {
				got = append(got, r.Changes)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
