// Package person holds what 'kubejournal audit' says of a real API server's audit log against what five users did.
package person

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

const (
	patience = 2 * time.Minute
	secret   = "aHVudGVyMi1pcy1hLXNlY3JldA==" // a value that must be nowhere
)

var (
	configmaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// act is what a user did: a line that is to name them.
type act struct{ typ, name, version, user string }

type story struct {
	t     *testing.T
	users map[string]dynamic.Interface
	acts  []act
}

func (s *story) must(o *unstructured.Unstructured, err error) *unstructured.Unstructured {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// did notes what a user did to an object, as the answer has it.
func (s *story) did(user, typ string, o *unstructured.Unstructured) {
	s.acts = append(s.acts, act{typ, o.GetName(), o.GetResourceVersion(), user})
}

// gone notes a deletion, whose version no answer has.
func (s *story) gone(user, name string) { s.acts = append(s.acts, act{"DELETED", name, "", user}) }

func object(apiVersion, kind, name string, more map[string]any) *unstructured.Unstructured {
	o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "shop", "labels": map[string]any{"app": "x"}}}
	for k, v := range more {
		o[k] = v
	}
	return &unstructured.Unstructured{Object: o}
}

func pod(name string) *unstructured.Unstructured {
	return object("v1", "Pod", name, map[string]any{"spec": map[string]any{"nodeName": "node-a", "containers": []any{map[string]any{"name": "c", "image": "i"}}}})
}

// play has five users do what users do.
func (s *story) play(ctx context.Context) {
	alice, bob, carol, dave, erin := s.users["alice"], s.users["bob"], s.users["carol"], s.users["dave"], s.users["erin"]
	in := func(c dynamic.Interface, r schema.GroupVersionResource) dynamic.ResourceInterface {
		return c.Resource(r).Namespace("shop")
	}
	var create metav1.CreateOptions
	var update metav1.UpdateOptions
	patch := metav1.PatchOptions{FieldManager: "kubectl-patch"}
	dry := []string{metav1.DryRunAll}
	pause := func() { // the next request is in another second: at Metadata only the second tells who wrote
		<-time.After(1100 * time.Millisecond)
	}

	cm := s.must(in(alice, configmaps).Create(ctx, object("v1", "ConfigMap", "settings", map[string]any{"data": map[string]any{"a": "1"}}), create))
	s.did("alice", "ADDED", cm)
	s.must(in(bob, configmaps).Create(ctx, object("v1", "ConfigMap", "other", nil), metav1.CreateOptions{DryRun: dry}))
	pause()
	cm.Object["data"] = map[string]any{"a": "2"}
	stale := cm.DeepCopy()
	cm = s.must(in(bob, configmaps).Update(ctx, cm, update))
	s.did("bob", "MODIFIED", cm)
	if _, err := in(carol, configmaps).Update(ctx, stale, update); err == nil {
		s.t.Error("no conflict")
	}
	pause()
	cm = s.must(in(carol, configmaps).Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"a":"3"}}`), patch))
	s.did("carol", "MODIFIED", cm)
	pause()
	s.must(in(dave, configmaps).Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"a":"3"}}`), patch))                                               // nothing changes
	s.must(in(dave, configmaps).Patch(ctx, "settings", types.MergePatchType, []byte(`{"data":{"a":"4"}}`), metav1.PatchOptions{DryRun: dry, FieldManager: "x"})) // likewise
	applied := object("v1", "ConfigMap", "applied", map[string]any{"data": map[string]any{"a": "1"}})
	s.did("erin", "ADDED", s.must(in(erin, configmaps).Apply(ctx, "applied", applied, metav1.ApplyOptions{FieldManager: "argocd"})))
	pause()
	s.must(in(alice, configmaps).Apply(ctx, "applied", applied, metav1.ApplyOptions{FieldManager: "argocd"})) // nothing changes
	pause()
	applied.Object["data"] = map[string]any{"a": "2"}
	s.did("dave", "MODIFIED", s.must(in(dave, configmaps).Apply(ctx, "applied", applied, metav1.ApplyOptions{FieldManager: "argocd"})))

	s.did("carol", "ADDED", s.must(in(carol, secrets).Create(ctx, object("v1", "Secret", "login", map[string]any{"data": map[string]any{"password": secret}}), create)))

	labels := map[string]any{"app": "web"}
	deployment := object("apps/v1", "Deployment", "web", map[string]any{"spec": map[string]any{"replicas": int64(1), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}}})
	s.did("alice", "ADDED", s.must(in(alice, deployments).Create(ctx, deployment, create)))
	pause()
	scaled := s.must(in(erin, deployments).Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "kubectl"}, "scale"))
	s.did("erin", "MODIFIED", scaled)

	for _, name := range []string{"graceful", "evicted", "many-1", "many-2"} {
		s.did("bob", "ADDED", s.must(in(bob, pods).Create(ctx, pod(name), create)))
	}
	pause()
	check := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	force := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	check(in(dave, pods).Delete(ctx, "graceful", metav1.DeleteOptions{}))
	s.did("dave", "MODIFIED", s.must(in(dave, pods).Get(ctx, "graceful", metav1.GetOptions{})))
	eviction, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: "shop"}})
	check(err)
	_, err = in(erin, pods).Create(ctx, &unstructured.Unstructured{Object: eviction}, create, "eviction")
	check(err)
	s.did("erin", "MODIFIED", s.must(in(dave, pods).Get(ctx, "evicted", metav1.GetOptions{})))
	pause()
	check(in(carol, pods).Delete(ctx, "graceful", force)) // as the kubelet does
	s.gone("dave", "graceful")
	check(in(carol, pods).Delete(ctx, "evicted", force))
	s.gone("erin", "evicted")

	check(in(bob, configmaps).Delete(ctx, "applied", metav1.DeleteOptions{}))
	s.gone("bob", "applied")
	pause()
	for _, name := range []string{"c-1", "c-2", "c-3"} {
		s.did("alice", "ADDED", s.must(in(alice, configmaps).Create(ctx, object("v1", "ConfigMap", name, map[string]any{"data": map[string]any{"a": "1"}}), create)))
	}
	pause()
	check(in(erin, configmaps).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name!=settings,metadata.name!=kube-root-ca.crt"}))
	for _, name := range []string{"c-1", "c-2", "c-3"} {
		s.gone("erin", name)
	}
	pause()
	check(in(dave, configmaps).Delete(ctx, "settings", metav1.DeleteOptions{DryRun: dry}))
	<-time.After(11 * time.Second) // at Metadata the deletions do not differ but by their time
	check(in(carol, configmaps).Delete(ctx, "settings", metav1.DeleteOptions{}))
	s.gone("carol", "settings")
}

type line struct {
	Seq                         int
	Type, Resource, Name, ID    string
	ResourceVersion             string
	Person                      *struct{ User, Impersonated, Match, AuditID string }
	Manager, Subresource, Stage string
}

// run starts a cluster with that level in its audit log, and returns the lines of the journal with their persons.
func run(t *testing.T, level string) (*story, []line) {
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: None, verbs: [get, list, watch]}\n- {level: " + level + "}\n"
	c, err := cluster.Start(t.Context(), cluster.Options{Audit: policy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &story{t: t, users: map[string]dynamic.Interface{}}
	all := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	for _, name := range []string{"alice", "bob", "carol", "dave", "erin"} {
		path, err := c.User(t.Context(), name, all)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		if name == "erin" {
			config.Impersonate = rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}
		}
		config.UserAgent = "kubectl/v1.37.0 (linux/amd64)"
		client, transport, err := workload.Connect(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.CloseIdleConnections)
		s.users[name] = client
	}
	dir := t.TempDir()
	binary, err := program.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	config := "cluster: test\noutput: {path: journal.jsonl}\ncheckpoint: {path: checkpoint.db}\nlisten: '127.0.0.1:0'\nresources:\n"
	for _, r := range []string{"configmaps", "secrets", "pods", "namespaces", "deployments.apps"} {
		config += "- {resource: " + r + ", changes: true}\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kubejournal.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "run", "--config", "kubejournal.yaml", "--kubeconfig", c.Kubeconfig())
	cmd.Dir = dir
	daemon, err := program.Start(cmd, filepath.Join(dir, "kubejournal.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.End()
	if err := daemon.Wait(t.Context(), patience, "it is ready", func() error { return daemon.Ready(t.Context()) }); err != nil {
		t.Fatal(err)
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}}
	s.did("alice", "ADDED", s.must(s.users["alice"].Resource(namespaces).Create(t.Context(), ns, metav1.CreateOptions{})))
	s.play(t.Context())

	ask := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command(binary, args...)
		var stderr bytes.Buffer
		cmd.Dir, cmd.Stderr, cmd.Env = dir, &stderr, program.Environ(dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, stderr.Bytes())
		}
		return out
	}
	if err := daemon.Wait(t.Context(), patience, "the last line is there", func() error {
		content, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
		if err == nil && !bytes.Contains(content[bytes.LastIndexByte(content[:len(content)-1], '\n')+1:], []byte(`"DELETED"`)) {
			return errors.New("not yet")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", level, ask("audit", "--journal", "journal.jsonl", c.AuditLog()))
	before, err := os.ReadFile(filepath.Join(dir, "journal.jsonl.audit"))
	if err != nil {
		t.Fatal(err)
	}
	ask("audit", "--journal", "journal.jsonl", c.AuditLog(), c.AuditLog())
	after, err := os.ReadFile(filepath.Join(dir, "journal.jsonl.audit"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("another run has changed the file: %v", err)
	}
	log, err := os.ReadFile(c.AuditLog())
	if err != nil || (level == "RequestResponse") != bytes.Contains(log, []byte(secret)) {
		t.Errorf("the log of level %s has the secret: %v", level, err)
	}
	t.Logf("\n%s", ask("history", "--journal", "journal.jsonl", "-n", "shop", "--all"))
	out := ask("history", "--journal", "journal.jsonl", "--all", "-o", "json")
	if bytes.Contains(out, []byte(secret)) || bytes.Contains(before, []byte(secret)) {
		t.Error("a secret's value")
	}
	var lines []line
	for text := range bytes.Lines(out) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return s, lines
}

// TestUsers has five users write: with answers in the log each line names who made it, and without them none names
// anybody else.
func TestUsers(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for _, level := range []string{"RequestResponse", "Metadata"} {
		t.Run(level, func(t *testing.T) {
			s, lines := run(t, level)
			named := 0
			for _, a := range s.acts {
				found := false
				for _, l := range lines {
					if l.Type != a.typ || l.Name != a.name || a.version != "" && l.ResourceVersion != a.version {
						continue
					}
					found = true
					what := fmt.Sprintf("seq %d, %s %s/%s at %s, by %s", l.Seq, l.Type, l.Resource, l.Name, l.ResourceVersion, a.user)
					switch {
					case l.Person == nil && level == "Metadata":
						t.Logf("nobody: %s", what)
					case l.Person == nil:
						t.Errorf("%s: nobody is named", what)
					case l.Person.User != "system:serviceaccount:kube-system:"+a.user || (l.Person.Impersonated == "root") != (a.user == "erin"):
						t.Errorf("%s: %+v", what, *l.Person)
					default:
						named++
						t.Logf("%-5s %s", l.Person.Match, what)
					}
				}
				if !found {
					t.Errorf("no line of %+v", a)
				}
			}
			// of what the users did, no other line has one of them
			for _, l := range lines {
				if l.Person == nil || !strings.HasPrefix(l.Person.User, "system:serviceaccount:kube-system:") {
					continue
				}
				known := false
				for _, a := range s.acts {
					known = known || l.Type == a.typ && l.Name == a.name && (a.version == "" || l.ResourceVersion == a.version)
				}
				if !known {
					t.Logf("besides: seq %d %s %s/%s at %s: %+v", l.Seq, l.Type, l.Resource, l.Name, l.ResourceVersion, *l.Person)
				}
			}
			t.Logf("%s: %d of %d", level, named, len(s.acts))
		})
	}
}
