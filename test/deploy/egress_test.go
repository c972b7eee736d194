package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// Where the API server is known, nothing else can be reached; where it is not, nothing on another port.
func TestEgress(t *testing.T) {
	for values, want := range map[string][]string{
		"mode: deployment": nil,
		"networkPolicy: {apiServerCIDRs: [10.96.0.1/32, 'fd00::1/128']}": {"10.96.0.1/32", "fd00::1/128"},
	} {
		m, _, err := helmed(t, values)
		if err != nil {
			t.Fatal(err)
		}
		egress := one[networkingv1.NetworkPolicy](t, m, "NetworkPolicy").Spec.Egress
		if len(egress) != 1 || len(egress[0].Ports) != 5 {
			t.Fatalf("%s: lets out %+v", values, egress)
		}
		var got []string
		for _, peer := range egress[0].To {
			got = append(got, peer.IPBlock.CIDR)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: leads to %v, want %v", values, got, want)
		}
	}
}

// A digest takes the place of the tag, of every image that the manifests name.
func TestImagesByDigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	byDigest := func(m manifests) {
		t.Helper()
		spec := m.pod(t).Spec
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			if !strings.HasSuffix(c.Image, "@"+digest) {
				t.Errorf("%s runs %s", c.Name, c.Image)
			}
		}
	}
	for _, values := range []string{
		"{mode: deployment, image: {digest: 'DIGEST'}}", "{mode: statefulset, image: {digest: 'DIGEST'}}",
		"{mode: daemonset, image: {digest: 'DIGEST'}, node: {prepare: true, prepareImage: 'busybox@DIGEST'}}",
		"{mode: sidecar, image: {digest: 'DIGEST'}, sidecar: {container: {image: 'busybox@DIGEST'}}}",
	} {
		m, _, err := helmed(t, strings.ReplaceAll(values, "DIGEST", digest))
		if err != nil {
			t.Fatal(err)
		}
		byDigest(m)
	}
	for overlay, components := range map[string][]string{"deployment": nil, "statefulset": nil, "sidecar": nil, "daemonset": {"prepare-node"}} {
		dir := withComponent(t, overlay, components...)
		path := filepath.Join(dir, "kustomization.yaml")
		own, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		images := "\nimages:\n  - {name: registry.example.com/kubejournal, digest: " + digest + "}\n  - {name: busybox, digest: " + digest + "}\n"
		if err := os.WriteFile(path, append(own, images...), 0o600); err != nil {
			t.Fatal(err)
		}
		byDigest(kustomized(t, dir))
	}
}
