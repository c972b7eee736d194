package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhySeveralJournals follows causes from one journal into another one, where lines have no numbers of their own.
func TestWhySeveralJournals(t *testing.T) {
	clearEnv(t)
	t.Setenv("TMPDIR", t.TempDir())
	const line = `{"seq":%d,"time":"2026-11-20T11:00:0%d.000000000Z","type":"%s","origin":"watch","id":"%s/%d/%[3]s",` +
		`"stream":"%[6]s","version":"v1","resource":"%[6]s","kind":"%[7]s"%s,"name":"%s","uid":"%[4]s","resourceVersion":"%[5]d",` +
		`"object":{"metadata":{"name":"%[9]s","uid":"%[4]s"%[10]s}}}` + "\n"
	dir := t.TempDir()
	namespaces, rest := filepath.Join(dir, "namespaces.jsonl"), filepath.Join(dir, "rest.jsonl")
	writeFile(t, namespaces,
		fmt.Sprintf(line, 1, 1, "ADDED", "n1", 10, "namespaces", "Namespace", "", "shop", "")+
			fmt.Sprintf(line, 2, 3, "MODIFIED", "n1", 30, "namespaces", "Namespace", "", "shop",
				`,"deletionTimestamp":"2026-11-20T11:00:03Z"`))
	const shop = `,"namespace":"shop"`
	writeFile(t, rest,
		fmt.Sprintf(line, 1, 2, "ADDED", "a", 20, "configmaps", "ConfigMap", shop, "flags", "")+
			fmt.Sprintf(line, 2, 4, "DELETED", "a", 40, "configmaps", "ConfigMap", shop, "flags", ""))
	_, stdout, stderr := execute(t, "why", "cm/flags", "-n", "shop", "--journal", namespaces, "--journal", rest)
	for _, want := range []string{
		"configmap flags deleted", " the namespace was being deleted ", "namespace shop: deletion asked for",
		"kubejournal get namespace/shop configmap/flags -n shop --at 2026-11-20T11:00:02.999999999Z --clean --journal " +
			namespaces + " --journal " + rest + " | kubectl apply -f -",
	} {
		if !strings.Contains(stdout, want) || strings.Contains(stdout, "likely") {
			t.Errorf("no %q in\n%s%s", want, stdout, stderr)
		}
	}
}
