package config

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := envOf("A", "1", "B", "$(A)", "E", "")
	for in, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"$(A)":           "1",
		"x$(A)y$(A)z":    "x1y1z",
		"$(B)":           "$(A)", // what a variable holds is not read again
		"$$(A)":          "$(A)",
		"$$(A)$(A)":      "$(A)1",
		"$(E)":           "",
		"$$A":            "$A",
		"$${A}-$(A)":     "${A}-1",
		"cost is 5$":     "cost is 5$",
		"$$":             "$$",
		"$$(UNKNOWN) ok": "$(UNKNOWN) ok",
	} {
		if got, fault := expandOne(in, env); got != want || fault != "" {
			t.Errorf("%q: got %q, fault %q, want %q", in, got, fault, want)
		}
	}
	for _, in := range []string{"$(UNKNOWN)", "$(A", "$()", "${}", "${A", "{{}}", "$(A)$A"} {
		if got, fault := expandOne(in, env); fault == "" {
			t.Errorf("%q: got %q, want a fault", in, got)
		}
	}
	for in, want := range map[string]string{
		"$A":                   "$A is not replaced here; write $(A) for the value of an environment variable, or $$A for the text itself",
		"x=${A}":               "${A} is not replaced here; write $(A) for",
		"${A:-1}":              "${A:-1} is not replaced here; write $(A) for",
		"${env:A}":             "${env:A} is not replaced here; write $(A) for",
		"$(A)-{{ .Values.a }}": "{{ .Values.a }} is not replaced here; write $(NAME) for the value of an environment variable",
		"%A%":                  "%A% is not replaced here; write $(A) for the value of an environment variable",
	} {
		if _, fault := expandOne(in, env); !strings.HasPrefix(fault, want) {
			t.Errorf("%q: fault %q, want %q", in, fault, want)
		}
	}
}

// Another program's placeholders are a fault wherever they stand, and never a name or a selector that matches nothing.
func TestPlaceholders(t *testing.T) {
	env := envOf("NODE_NAME", "node-1")
	for yaml, want := range map[string]string{
		"resources:\n- {resource: pods, fieldSelector: 'spec.nodeName=${NODE_NAME}'}": "c.yaml:2: resources[0].fieldSelector: ${NODE_NAME} is not replaced here; write $(NODE_NAME) ",
		"resources:\n- {resource: pods, fieldSelector: spec.nodeName=$NODE_NAME}":     "c.yaml:2: resources[0].fieldSelector: $NODE_NAME is not replaced here; ",
		"resources:\n- {resource: pods, labelSelector: 'app={{ .app }}'}":             "c.yaml:2: resources[0].labelSelector: {{ .app }} is not replaced here; ",
		"resources:\n- {resource: pods, namespaces: [a, '${NS}']}":                    "c.yaml:2: resources[0].namespaces[1]: ${NS} is not replaced here; ",
		"resources:\n- {resource: pods, excludeNamespaces: ['$NS-*']}":                "c.yaml:2: resources[0].excludeNamespaces[0]: $NS is not replaced here; ",
		"defaults: {fieldSelector: 'spec.nodeName=$NODE_NAME'}\nresources: [pods]":    "c.yaml:1: defaults.fieldSelector: $NODE_NAME is not replaced here; ",
		"resources: [pods]\nshard: {count: 2, index: '${I}'}":                         "c.yaml:2: shard.index: ${I} is not replaced here; ",
		"resources: [pods]\noutput: {path: '/data/$(NODE_NAME).jsonl'}":               "c.yaml:2: output.path: $(NODE_NAME) is not replaced here; write the value itself, or set --output or KUBEJOURNAL_OUTPUT",
		"resources: [pods]\ncheckpoint: {path: '${HOME}/c.db'}":                       "c.yaml:2: checkpoint.path: ${HOME} is not replaced here; ",
		"resources: [pods]\nkubernetes: {kubeconfig: $HOME/.kube/config}":             "c.yaml:2: kubernetes.kubeconfig: $HOME is not replaced here; ",
		"resources: [pods]\ncluster: '{{ cluster }}'":                                 "c.yaml:2: cluster: {{ cluster }} is not replaced here; write the value itself",
		"resources: [{resource: pods, ignoreFields: ['spec.${F}']}]":                  `c.yaml:1: resources[0].ignoreFields[0]: path "spec.${F}": '{' in a key, which must then be written ["..."]`,
		"resources: [pods]\ndropFields: ['spec.{{ .f }}']":                            `c.yaml:2: dropFields[0]: drop path "spec.{{ `,
		"resources: [pods]\nredact: [{resource: configmaps, fields: [data.$(F)]}]":    `c.yaml:2: redact[0].fields[0]: redact path "data.$(F)": '(' in a key, `,
		"resources: [pods]\nleaderElection: {leaseName: '$(POD)'}":                    "c.yaml:2: leaderElection.leaseName: $(POD) is not replaced here; ",
	} {
		_, err := Parse([]byte(yaml), "c.yaml", Overrides{}, env)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n%v\nwant %s", yaml, err, want)
		}
	}
	// What a variable or a flag holds is not looked at: a shell has replaced what it replaces.
	c := mustLoad(t,
		"resources: [{resource: pods, namespaces: [a], fieldSelector: metadata.name=$(N)}]\noutput: {path: a}\n",
		Overrides{Flags: map[string]string{"output": "/a/$b"}}, envOf("N", "${x}"))
	if c.Resources[0].FieldSelector != "metadata.name=${x}" || c.Output.Path != "/a/$b" {
		t.Errorf("%q, %q", c.Resources[0].FieldSelector, c.Output.Path)
	}
}
