package deploy

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is generated")

var overlays = []string{"deployment", "statefulset", "daemonset", "sidecar"}

func TestKustomize(t *testing.T) {
	for _, name := range overlays {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(root, "deploy", "kustomize", "overlays", name)
			m := kustomized(t, folder)
			checkPolicy(t, m)
			m.checkNodes(t)
			checkRBACFile(t, m, folder)
			checkRun(t, m)
		})
	}
	for _, name := range []string{"deployment", "statefulset", "sidecar"} {
		t.Run(name+" on OpenShift", func(t *testing.T) {
			s := kustomized(t, withComponent(t, name, "openshift")).pod(t).Spec.SecurityContext
			if s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("prepare-node", func(t *testing.T) {
		m := kustomized(t, withComponent(t, "daemonset", "prepare-node"))
		checkPolicy(t, m)
		checkRun(t, m)
	})
}

// The overlays can be applied side by side: no object is in two of them.
func TestKustomizeTogether(t *testing.T) {
	seen := map[string]string{}
	for _, name := range overlays {
		for _, o := range mustKustomize(t, name) {
			id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			if other, is := seen[id]; is {
				t.Errorf("%s is in %s and in %s", id, other, name)
			}
			seen[id] = name
		}
	}
}

// withComponent is an overlay with a component turned on, in a folder of the repository, since
// kustomize takes no resource from elsewhere.
func withComponent(t *testing.T, overlay string, components ...string) string {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Join(root, "bin"), "kustomize-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) }) // bin is not kept
	content := "resources: [../../deploy/kustomize/overlays/" + overlay + "]\ncomponents:\n"
	for _, c := range components {
		content += "  - ../../deploy/kustomize/components/" + c + "\n"
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// checkRBACFile reports whether rbac.yaml is what the program prints for the config beside it, word for word.
func checkRBACFile(t *testing.T, m manifests, folder string) {
	t.Helper()
	args := []string{"rbac", "--config", "kubejournal.yaml", "--offline"}
	if ns := m.namespace(t); ns != "kubejournal" { // else what it does by itself
		args = append(args, "--name", ns, "--namespace", ns, "--service-account", "kubejournal")
	}
	printed := ask(t, m, folder, args...)
	file := filepath.Join(folder, "rbac.yaml")
	if *update {
		if err := os.WriteFile(file, printed, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(printed), string(kept)); diff != "" {
		t.Errorf("%s is not what kubejournal rbac prints (-printed +kept); run make test-deploy DEPLOY_FLAGS=-update\n%s", file, diff)
	}
	// Kustomize must not change what it says.
	if diff := cmp.Diff(append(parse(t, printed), m.ofKind("ServiceAccount")...).rights(t), m.rights(t)); diff != "" {
		t.Error(diff)
	}
}

// mustKustomize renders an overlay for what another test needs of it.
func mustKustomize(t *testing.T, overlay string) manifests {
	t.Helper()
	return kustomized(t, filepath.Join(root, "deploy", "kustomize", "overlays", overlay))
}
