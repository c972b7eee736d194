package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

const patience = 2 * time.Minute

var configmaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// TestFollowed has a daemon follow the audit log while two users write, the server rotates it, and the daemon is killed:
// each change has its user a minute later. What a run over the same logs says then is what is there already.
func TestFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	ctx := t.Context()
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: None, verbs: [get, list, watch]}\n- {level: RequestResponse}\n"
	c, err := cluster.Start(ctx, cluster.Options{Audit: policy, APIServerFlags: []string{"--audit-log-maxsize=1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	users := map[string]dynamic.Interface{}
	all := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	for _, name := range []string{"alice", "bob"} {
		path, err := c.User(ctx, name, all)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		client, transport, err := workload.Connect(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.CloseIdleConnections)
		users[name] = client
	}
	dir := t.TempDir()
	binary, err := program.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	logs := filepath.Join(filepath.Dir(c.AuditLog()), "audit*.log*")
	config := "output: {path: journal.jsonl, maxSize: 256KiB}\ncheckpoint: {path: checkpoint.db}\nlisten: '127.0.0.1:0'\n" +
		"resources: [configmaps]\naudit: {paths: ['" + logs + "'], complete: true}\n"
	if err := os.WriteFile(filepath.Join(dir, "kubejournal.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() *program.Process {
		t.Helper()
		cmd := exec.Command(binary, "run", "--config", "kubejournal.yaml", "--kubeconfig", c.Kubeconfig())
		cmd.Dir = dir
		daemon, err := program.Start(cmd, filepath.Join(dir, "kubejournal.log"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(daemon.End)
		if err := daemon.Wait(ctx, patience, "it is ready", func() error { return daemon.Ready(ctx) }); err != nil {
			t.Fatal(err)
		}
		return daemon
	}
	run := func(args ...string) []byte {
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
	want := map[string]string{} // by name and version
	filler := string(bytes.Repeat([]byte("filler "), 6000))
	write := func(round int) {
		t.Helper()
		for i := range 40 {
			user := []string{"alice", "bob"}[(i+round)%2]
			maps := users[user].Resource(configmaps).Namespace("default")
			name := fmt.Sprintf("map-%d-%d", round, i)
			o := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"a": filler},
			}}
			o.SetNamespace("default")
			made, err := maps.Create(ctx, o, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want[name+"/"+made.GetResourceVersion()] = user
			other := []string{"bob", "alice"}[(i+round)%2]
			patched, err := users[other].Resource(configmaps).Namespace("default").Patch(ctx, name, types.MergePatchType,
				[]byte(`{"data":{"a":"short"}}`), metav1.PatchOptions{FieldManager: "kubectl-patch"})
			if err != nil {
				t.Fatal(err)
			}
			want[name+"/"+patched.GetResourceVersion()] = other
		}
	}
	named := func() error {
		missing := len(want)
		for text := range bytes.Lines(run("history", "--journal", "journal.jsonl", "--all", "-o", "json")) {
			var l struct {
				Seq                         int
				Type, Name, ResourceVersion string
				Person                      *struct{ User string }
			}
			if err := json.Unmarshal(text, &l); err != nil {
				return program.Final(err)
			}
			user, is := want[l.Name+"/"+l.ResourceVersion]
			switch {
			case is && l.Type != "DELETED" && l.Person != nil && l.Person.User != "system:serviceaccount:kube-system:"+user:
				return program.Final(fmt.Errorf("seq %d is by %s, not %+v", l.Seq, user, *l.Person))
			case is && l.Person != nil:
				missing--
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d of %d are missing", missing, len(want))
		}
		return nil
	}
	first := start()
	write(0)
	if err := first.Wait(ctx, patience, "users are named", named); err != nil {
		t.Fatal(err)
	}
	write(1)
	if _, err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	write(2)
	second := start()
	write(3)
	if err := second.Wait(ctx, patience, "users are named after kill -9", named); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(logs)
	if err != nil || len(files) < 3 {
		t.Errorf("the log was not rotated: %v, %v", files, err)
	}
	metrics, err := second.Metrics(ctx)
	if followed := metrics["kubejournal_audit_files"]; err != nil || followed != float64(len(files)) {
		t.Errorf("%v of %d files: %v", followed, len(files), err)
	}
	if failed := metrics["kubejournal_audit_errors_total"]; failed != 0 {
		log, _ := second.Log()
		for l := range bytes.Lines(log) {
			if bytes.Contains(l, []byte("audit logs")) {
				t.Errorf("%v failures: %s", failed, l)
			}
		}
	}
	if err := second.Stop(patience); err != nil {
		t.Fatal(err)
	}
	side := filepath.Join(dir, "journal.jsonl.audit")
	before := run("history", "--journal", "journal.jsonl", "--all", "-o", "json")
	t.Logf("%s", run(append([]string{"audit", "--journal", "journal.jsonl"}, files...)...))
	merged := run("history", "--journal", "journal.jsonl", "--all", "-o", "json")
	if err := os.Remove(side); err != nil {
		t.Fatal(err)
	}
	run(append([]string{"audit", "--journal", "journal.jsonl"}, files...)...)
	if alone := run("history", "--journal", "journal.jsonl", "--all", "-o", "json"); !bytes.Equal(before, alone) || !bytes.Equal(merged, alone) {
		t.Error(errors.New("a run over the same logs says something else"))
	}
}
