package deploy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// volume is the size of the volume that the journal is on; 0 where it has none, such as a folder of the node.
func (m manifests) volume(t *testing.T) int64 {
	t.Helper()
	for _, o := range m.ofKind("PersistentVolumeClaim") {
		return decode[corev1.PersistentVolumeClaim](t, o).Spec.Resources.Requests.Storage().Value()
	}
	for _, o := range m.ofKind("StatefulSet") {
		set := decode[appsv1.StatefulSet](t, o)
		return set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value()
	}
	for _, v := range m.pod(t).Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
			return v.EmptyDir.SizeLimit.Value()
		}
	}
	return 0
}

// What the journal may take fits its volume, with a tenth of that for the checkpoint, and is not far below it.
func TestLimitsFitTheVolume(t *testing.T) {
	for name, values := range map[string]string{
		"deployment":     "mode: deployment",
		"everything":     "preset: everything",
		"statefulset":    "{mode: statefulset, persistence: {size: 100Gi}}",
		"shards":         "{mode: statefulset, shards: 2, persistence: {size: 1.5Ti}}",
		"sidecar":        "mode: sidecar",
		"decimal":        "persistence: {size: 20G}",
		"daemonset":      "mode: daemonset",
		"own limit":      "{config: {output: {maxTotalSize: 4500MiB}}}",
		"existing claim": "persistence: {existingClaim: mine, size: 50Gi}",
	} {
		t.Run(name, func(t *testing.T) {
			m, _, err := helmed(t, values)
			if err != nil {
				t.Fatal(err)
			}
			volume := m.volume(t)
			switch name {
			case "daemonset":
				volume = 2 << 30
			case "existing claim":
				volume = 50 << 30
			}
			checkLimits(t, m, volume)
		})
	}
	for _, overlay := range []string{"deployment", "statefulset"} {
		t.Run("overlay "+overlay, func(t *testing.T) {
			m := mustKustomize(t, overlay)
			checkLimits(t, m, m.volume(t))
		})
	}
}

func checkLimits(t *testing.T, m manifests, volume int64) {
	t.Helper()
	text, err := os.ReadFile(m.config(t))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Output struct {
			MaxTotalSize, MaxSize string
			MaxFiles              *int
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	bytes := func(size string) int64 {
		q, err := resource.ParseQuantity(strings.TrimSuffix(size, "B"))
		if err != nil {
			t.Fatalf("%q: %v", size, err)
		}
		return q.Value()
	}
	total, file := bytes(config.Output.MaxTotalSize), bytes(config.Output.MaxSize)
	if says := fmt.Sprintf("maxTotalSize %d and maxSize %d, the volume has %d", total, file, volume); total+file > volume*9/10 {
		t.Errorf("too much: %s", says)
	} else if total < volume/2-1<<20 {
		t.Errorf("too little: %s", says)
	}
	if files := config.Output.MaxFiles; files == nil || *files != 0 {
		t.Errorf("maxFiles is %v, and would keep less", files)
	}
}
