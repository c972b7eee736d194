package scenario

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// Secrets as people make them, the values of which are in no file of the daemon, by none of their ways: snapshot,
// watch, and what is read back after a crash. Which values were rotated is in their lines, also after a restart; but not
// of what happened before it was complete.
func TestSecretsAreRedacted(t *testing.T) {
	s := shared.get(t)
	ns := s.namespaces(t, 1)[0]
	sc := play(t, s, []entry{{Kind: secrets, Namespaces: []string{ns}, Changes: true}})
	api := s.client.Resource(secrets.Resource).Namespace(ns)
	const applied = "kubectl.kubernetes.io/last-applied-configuration"
	value := func(n int) string {
		return base64.StdEncoding.EncodeToString([]byte(workload.SecretValue + fmt.Sprint(n)))
	}
	apply := func(name string, n int) {
		t.Helper()
		// What kubectl apply does: the whole of what was applied becomes an annotation.
		o := object{
			"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
			"metadata":   map[string]any{"name": name, "namespace": ns},
			"data":       map[string]any{"password": value(n), "empty": ""},
			"stringData": map[string]any{"plain": workload.SecretValue + fmt.Sprint(n)},
		}
		last, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		o["metadata"].(map[string]any)["annotations"] = map[string]any{applied: string(last), "mine": "stays"}
		body, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		made, err := api.Patch(t.Context(), name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "kubectl"})
		if err != nil {
			t.Fatal(err)
		}
		before := ""
		if n > 0 {
			before = "x"
		}
		sc.Ledger.Acknowledge(live{Kind: secrets, Namespace: ns, Name: name, UID: string(made.GetUID())}, before, "x", made.GetResourceVersion())
	}
	apply("snapshot", 0)
	sc.daemon.start()
	apply("watch", 0)
	apply("snapshot", 1)
	sc.caughtUp()
	sc.daemon.launchAgain(func() { apply("watch", 1) })
	sc.daemon.await("secrets?namespace="+ns, "Watching")
	apply("watch", 2)
	apply("snapshot", 2)
	sc.caughtUp()
	if err := api.Delete(t.Context(), "snapshot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rotated := make(map[string][]string)
	for _, l := range sc.verify(true) {
		if l.Type == invariant.Synced {
			continue
		}
		if l.Type == invariant.Modified {
			rotated[l.Name] = append(rotated[l.Name], rotation(t, l))
		}
		var o struct {
			Metadata struct{ Annotations map[string]string }
			Data     map[string]string
		}
		if err := json.Unmarshal(l.Object, &o); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(o.Data); got != "map[empty:REDACTED password:REDACTED plain:REDACTED]" {
			t.Errorf("%s: data is %s", l.Where, got)
		}
		if got := fmt.Sprint(o.Metadata.Annotations); got != "map[mine:stays]" {
			t.Errorf("%s: annotations are %s", l.Where, got)
		}
	}
	const both = " /data/password /data/plain"
	for name, want := range map[string][]string{"snapshot": {both, both}, "watch": {"", both}} {
		if !slices.Equal(rotated[name], want) {
			t.Errorf("of %s were rotated %q, want %q", name, rotated[name], want)
		}
	}
	// The search itself must be able to find something.
	for name, content := range sc.daemon.files() {
		if name == sc.daemon.journal() && !bytes.Contains(content, []byte("REDACTED")) {
			t.Errorf("%s was not searched", name)
		}
	}
}

// rotation is what a line says of a Secret's data: that values were replaced, and nothing of the values.
func rotation(t *testing.T, l invariant.Line) (paths string) {
	t.Helper()
	for _, c := range changes(t, l) {
		if !strings.HasPrefix(c.Path, "/data") {
			continue
		}
		paths += " " + c.Path
		if got := fmt.Sprintf("%s %s %s", c.Op, c.Old, c.Value); got != `replace "REDACTED" "REDACTED"` {
			t.Errorf("%s: %s: %s", l.Where, c.Path, got)
		}
	}
	return paths
}

// launchAgain kills the daemon, has something happen, and starts it again.
func (d *daemon) launchAgain(meanwhile func()) {
	d.t.Helper()
	d.kill()
	meanwhile()
	d.start()
}
