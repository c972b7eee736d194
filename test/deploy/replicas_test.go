package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Two replicas of the stateful set, with the rights that the manifests give them and no others, are updated one after the other
// while things change. Each waits for the one before to be ready, as the controller does. Read as one, their journals have
// every change once.
func TestReplicas(t *testing.T) {
	s := theServer(t)
	for _, from := range []string{"kustomize", "helm"} {
		t.Run(from, func(t *testing.T) {
			m := mustKustomize(t, "statefulset")
			if from == "helm" {
				var err error
				if m, _, err = helmed(t, "mode: statefulset"); err != nil {
					t.Fatal(err)
				}
				s.apply(t, false, parse(t, fmt.Appendf(nil, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", m.namespace(t)))...)
			} else {
				s.apply(t, false, m.ofKind("Namespace")...)
			}
			s.grant(t, m)
			r := &team{t: t, s: s, m: m, kubeconfig: s.kubeconfig(t, m), dirs: []string{t.TempDir(), t.TempDir()}, of: make([]*process, 2)}
			r.start(0)
			r.start(1)
			for range 3 {
				r.write()
			}
			for i := range r.of {
				r.of[i].stop()
				r.write()
				r.start(i)
				r.write()
			}
			r.check()
		})
	}
}

// team are the replicas.
type team struct {
	t          *testing.T
	s          *server
	m          manifests
	kubeconfig string
	dirs       []string
	of         []*process
	written    []string // versions of a ConfigMap
}

// start starts a replica on its volume, and waits until it is ready.
func (r *team) start(i int) {
	r.t.Helper()
	cmd := exec.Command(kubejournal(r.t), append(slices.Clone(daemon(r.t, r.m.pod(r.t).Spec).Args),
		"--kubeconfig", r.kubeconfig, "--config", r.m.config(r.t), // the last one counts
		"--output", r.journal(i), "--checkpoint", filepath.Join(r.dirs[i], "kubejournal.db"), "--listen", "127.0.0.1:0")...)
	cmd.Env = r.m.environment(r.t, nodeName)
	r.of[i] = start(r.t, cmd)
	eventually(r.t, "every stream watches", r.of[i].watching)
}

func (r *team) journal(i int) string { return filepath.Join(r.dirs[i], "journal.jsonl") }

// write changes something.
func (r *team) write() {
	r.t.Helper()
	maps := r.s.client.CoreV1().ConfigMaps(r.m.namespace(r.t))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "written"}, Data: map[string]string{"n": fmt.Sprint(len(r.written))}}
	write := func() (*corev1.ConfigMap, error) { return maps.Update(r.t.Context(), cm, metav1.UpdateOptions{}) }
	if len(r.written) == 0 {
		write = func() (*corev1.ConfigMap, error) { return maps.Create(r.t.Context(), cm, metav1.CreateOptions{}) }
	}
	is, err := write()
	if err != nil {
		r.t.Fatal(err)
	}
	r.written = append(r.written, is.ResourceVersion)
}

// check asks for all changes, until the last one is there.
func (r *team) check() {
	r.t.Helper()
	eventually(r.t, "the last change is written", func() error {
		cmd := exec.Command(kubejournal(r.t), "history", "cm/written", "-n", r.m.namespace(r.t), "--all", "-o", "json", "--journal", r.journal(0), "--journal", r.journal(1))
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != 3 {
			return fmt.Errorf("%w: %s", err, stderr.Bytes())
		}
		var got, terms []string
		for l := range strings.Lines(stdout.String()) {
			var is struct {
				Type, ResourceVersion string
				Term                  int
			}
			if err := json.Unmarshal([]byte(l), &is); err != nil {
				return err
			}
			switch is.Type {
			case "ADDED", "MODIFIED":
				got, terms = append(got, is.ResourceVersion), append(terms, fmt.Sprint(is.Term))
			case "GAP":
				r.t.Fatalf("there is a gap: %s", l)
			}
		}
		if !slices.Equal(got, r.written) {
			return fmt.Errorf("the journals have versions %v, written were %v", got, r.written)
		}
		if slices.Sort(terms); len(slices.Compact(terms)) < 2 {
			return errors.New("one replica has written everything")
		}
		return nil
	})
}
