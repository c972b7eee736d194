package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kubejournal/test/invariant"
)

// writing is something that is done to one object, and what the lines about it say: type, manager/subresource or -, and
// "at" where they say when it was written. Of the stream without changes, what they say must be the same or left out.
type writing struct {
	name string
	do   func(w *writerTest)
	want []string
}

// writerTest writes as people, controllers and kubelets do.
type writerTest struct {
	*testing.T
	server  *server
	ns, dir string
	kubectl string
}

// run runs kubectl, with text as the file that - is.
func (w *writerTest) run(text string, args ...string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), w.kubectl, append(args, "--namespace", w.ns)...)
	cmd.Stdin = strings.NewReader(text)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.server.Kubeconfig(), "KUBE_EDITOR=sed -i s/first/second/", "HOME="+w.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// patch is what a client of this name writes.
func (w *writerTest) patch(by string, gvr schema.GroupVersionResource, name, patch string, subresources ...string) {
	w.Helper()
	_, err := w.server.client.Resource(gvr).Namespace(w.ns).
		Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: by}, subresources...)
	if err != nil {
		w.Fatal(err)
	}
}

// post creates a subresource.
func (w *writerTest) post(gvr schema.GroupVersionResource, name string, o object, subresource string) {
	w.Helper()
	o["metadata"] = map[string]any{"name": name, "namespace": w.ns}
	_, err := w.server.client.Resource(gvr).Namespace(w.ns).Create(w.Context(), o.unstructured(), metav1.CreateOptions{}, subresource)
	if err != nil {
		w.Fatal(err)
	}
}

func (w *writerTest) deployment(image string, replicas int, more string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"%s},"spec":{"replicas":%d,`+
		`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":%q}]}}}}`,
		more, replicas, image)
}

func (w *writerTest) configMap(data string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":` + data + `}`
}

const podOf = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s"},"spec":{"containers":[{"name":"c","image":"i"}]}}`

var writings = []writing{
	{"apply", func(w *writerTest) { w.run(w.deployment("first", 1, ""), "apply", "-f", "-") },
		[]string{"ADDED kubectl-client-side-apply at"}},
	{"apply again", func(w *writerTest) { w.run(w.deployment("first", 2, ""), "apply", "-f", "-") },
		[]string{"MODIFIED kubectl-client-side-apply at"}},
	{"scale", func(w *writerTest) { w.run("", "scale", "deployment", "web", "--replicas=3") }, []string{"MODIFIED kubectl/scale"}},
	{"scale again", func(w *writerTest) { w.run("", "scale", "deployment", "web", "--replicas=5") }, []string{"MODIFIED kubectl/scale"}},
	{"edit", func(w *writerTest) { w.run("", "edit", "deployment", "web") }, []string{"MODIFIED kubectl-edit at"}},
	{"set image", func(w *writerTest) { w.run("", "set", "image", "deployment/web", "c=third") }, []string{"MODIFIED kubectl-set at"}},
	{"patch", func(w *writerTest) { w.run("", "patch", "deployment", "web", "-p", `{"spec":{"paused":true}}`) },
		[]string{"MODIFIED kubectl-patch at"}},
	{"label", func(w *writerTest) { w.run("", "label", "deployment", "web", "x=y") }, []string{"MODIFIED kubectl-label at"}},
	{"label removed", func(w *writerTest) { w.run("", "label", "deployment", "web", "x-") }, []string{"MODIFIED -"}},
	{"controller status", func(w *writerTest) {
		w.patch("kube-controller-manager", deployments.Resource, "web", `{"status":{"replicas":1,"observedGeneration":3}}`, "status")
	}, []string{"MODIFIED kube-controller-manager/status at"}},
	{"autoscaler", func(w *writerTest) {
		w.patch("autoscaler", deployments.Resource, "web", `{"spec":{"replicas":9}}`, "scale")
	}, []string{"MODIFIED autoscaler/scale"}},
	{"four writers within a second", func(w *writerTest) {
		w.patch("a", deployments.Resource, "web", `{"metadata":{"annotations":{"x":"1"}}}`)
		w.patch("b", deployments.Resource, "web", `{"metadata":{"annotations":{"x":"2"}}}`)
		w.patch("kube-controller-manager", deployments.Resource, "web", `{"status":{"replicas":2}}`, "status")
		w.patch("a", deployments.Resource, "web", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"n"}]}]}}}}`)
	}, []string{"MODIFIED a at", "MODIFIED b at", "MODIFIED kube-controller-manager/status at", "MODIFIED a at"}},
	{"finalizer", func(w *writerTest) {
		w.patch("op", deployments.Resource, "web", `{"metadata":{"finalizers":["example.com/f"]}}`)
	}, []string{"MODIFIED op? at?"}}, // received late: known unless it is the second of the one before
	{"delete", func(w *writerTest) { w.run("", "delete", "deployment", "web", "--wait=false") }, []string{"MODIFIED - at"}},
	{"finalizer removed", func(w *writerTest) {
		w.patch("op", deployments.Resource, "web", `{"metadata":{"finalizers":null}}`)
	}, []string{"DELETED -"}},

	{"server-side apply", func(w *writerTest) {
		w.run(w.configMap(`{"a":"1","b":"1"}`), "apply", "--server-side", "--field-manager=gitops", "-f", "-")
	}, []string{"ADDED gitops at"}},
	{"server-side apply, one less", func(w *writerTest) {
		w.run(w.configMap(`{"a":"1"}`), "apply", "--server-side", "--field-manager=gitops", "-f", "-")
	}, []string{"MODIFIED gitops? at?"}}, // known unless it is the second of the one before
	{"another owner of the same", func(w *writerTest) {
		w.run(w.configMap(`{"a":"1"}`), "apply", "--server-side", "--field-manager=second", "-f", "-")
	}, []string{"MODIFIED second? at?"}},
	{"taken over", func(w *writerTest) { w.run("", "patch", "configmap", "settings", "-p", `{"data":{"a":"2"}}`) },
		[]string{"MODIFIED kubectl-patch at"}},
	{"deleted", func(w *writerTest) { w.run("", "delete", "configmap", "settings") }, []string{"DELETED -"}},
	{"recreated", func(w *writerTest) { w.run("", "create", "configmap", "settings", "--from-literal=a=1") },
		[]string{"ADDED kubectl-create at"}},

	{"pod", func(w *writerTest) { w.run(fmt.Sprintf(podOf, "p"), "create", "-f", "-") }, []string{"ADDED kubectl-create at"}},
	{"not scheduled", func(w *writerTest) {
		w.patch("kube-scheduler", podsResource, "p",
			`{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`, "status")
	}, []string{"MODIFIED kube-scheduler/status at"}},
	{"bound", func(w *writerTest) {
		w.post(podsResource, "p", object{"apiVersion": "v1", "kind": "Binding", "target": object{"kind": "Node", "name": "n"}}, "binding")
	}, []string{"MODIFIED -"}},
	{"kubelet", func(w *writerTest) {
		w.patch("kubelet", podsResource, "p", `{"status":{"phase":"Running","startTime":"2026-01-01T00:00:00Z"}}`, "status")
	}, []string{"MODIFIED kubelet/status at"}},
	{"evicted", func(w *writerTest) {
		w.post(podsResource, "p", object{"apiVersion": "policy/v1", "kind": "Eviction"}, "eviction")
	}, []string{"MODIFIED -", "MODIFIED - at"}},
	{"gone", func(w *writerTest) { w.run("", "delete", "pod", "p", "--force") }, []string{"MODIFIED -", "DELETED -"}},
}

// Of each way to write, manager, subresource and writtenAt are right or left out.
func TestWhoWrote(t *testing.T) {
	kubectl, err := filepath.Abs("../../bin/kubectl")
	if err == nil {
		_, err = os.Stat(kubectl)
	}
	if err != nil {
		t.Fatalf("make bin/kubectl builds what this test needs: %v", err)
	}
	s := shared.get(t)
	ns := s.namespaces(t, 1)[0]
	w := &writerTest{T: t, server: s, ns: ns, dir: t.TempDir(), kubectl: kubectl}
	var daemons []*daemon
	for _, changes := range []bool{true, false} {
		d := newDaemon(t, s.Kubeconfig(), nil)
		var resources []any
		for _, r := range []string{"deployments.apps", "configmaps", "pods"} {
			resources = append(resources, object{"resource": r, "namespaces": []any{ns}, "changes": changes})
		}
		d.rewrite(d.content(s.Kubeconfig(), resources, nil))
		d.start()
		daemons = append(daemons, d)
	}
	seen := make([]int, len(daemons))
	for _, d := range daemons {
		d.awaitSnapshot()
	}
	for i, d := range daemons {
		seen[i] = len(d.watched())
	}
	for _, c := range writings {
		away := c.name == "finalizer" || c.name == "delete"
		if away { // what it stores of the versions before outlasts it
			daemons[0].stop()
		}
		began := time.Now()
		c.do(w)
		ended := time.Now()
		if away {
			daemons[0].start()
		}
		for i, d := range daemons {
			eventually(t, later, c.name, func() error {
				if n := len(d.watched()) - seen[i]; n < len(c.want) {
					return fmt.Errorf("%d lines of %d", n, len(c.want))
				}
				return nil
			})
			lines := d.watched()[seen[i]:]
			if len(lines) != len(c.want) {
				t.Errorf("%s: %d lines, want %d", c.name, len(lines), len(c.want))
			}
			for k, l := range lines[:min(len(lines), len(c.want))] {
				if err := checkWho(l, c.want[k], began, ended, i > 0); err != nil {
					t.Errorf("%s, changes %v: %v", c.name, i == 0, err)
				}
			}
			seen[i] += len(lines)
		}
	}
	for _, d := range daemons {
		d.stop()
	}
}

func (d *daemon) awaitSnapshot() {
	eventually(d.t, later, "synced", func() error {
		if open := listing(d.tell()); open != "" {
			return errors.New(open)
		}
		return nil
	})
}

// watched returns the lines of watch events.
func (d *daemon) watched() (lines []invariant.Line) {
	for _, l := range d.tell() {
		if l.Origin == invariant.FromWatch {
			lines = append(lines, l)
		}
	}
	return lines
}

// checkWho compares a line with what it must say; what ends in ? may also be left out, as all may with optional.
func checkWho(l invariant.Line, want string, began, ended time.Time, optional bool) error {
	words := append(strings.Fields(want), "")
	who := l.Manager
	if l.Subresource != "" {
		who += "/" + l.Subresource
	}
	wantWho, maybe := strings.CutSuffix(words[1], "?")
	said := cmp.Or(who, "-")
	if l.Type != words[0] || said != wantWho && (who != "" || !maybe && !optional) {
		return fmt.Errorf("%s: %s by %s, want %s", l.Where, l.Type, said, want)
	}
	at, maybe := strings.CutSuffix(words[2], "?")
	if l.WrittenAt == "" {
		if at == "at" && !maybe && !optional {
			return fmt.Errorf("%s: no writtenAt, want %s", l.Where, want)
		}
		return nil
	}
	written, err := time.Parse(time.RFC3339, l.WrittenAt)
	if err != nil || at == "" || written.Before(began.Truncate(time.Second)) || written.After(ended) {
		return fmt.Errorf("%s: writtenAt %s, want %s between %v and %v: %w", l.Where, l.WrittenAt, want, began, ended, err)
	}
	return nil
}
