// Package restore records a namespace of a real cluster, deletes it, and gives it back from the journal.
package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kubejournal/test/cluster"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

const (
	patience  = 3 * time.Minute
	timeLimit = 10 * time.Minute
)

var (
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	claims     = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	quotas     = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	accounts   = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	endpoints  = schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	roles      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	widgets    = schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "widgets"}
)

// config has everything journalled, and Secrets as they are, so that they too can be given back.
const config = `
resources: [{resource: "*", group: "*"}]
redactSecrets: false
output: {path: journal.jsonl, maxSize: 1MiB}
checkpoint: {path: kubejournal.db}
listen: 127.0.0.1:0
`

// shop is a cluster with its controllers, and kubejournal.
type shop struct {
	t          *testing.T
	cluster    *cluster.Cluster
	controller *program.Process
	client     dynamic.Interface
	discovery  *discovery.DiscoveryClient
	kubectlBin string
	program    string // kubejournal
	daemon     *program.Process
	dir        string
}

func open(t *testing.T) *shop {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, dir: t.TempDir(), kubectlBin: filepath.Join(root, "bin", "kubectl")}
	if s.cluster, err = cluster.Start(t.Context(), cluster.Options{TimeLimit: timeLimit, Accounts: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command(filepath.Join(root, "bin", "kube-controller-manager"), "--kubeconfig="+s.cluster.Kubeconfig(), "--leader-elect=false",
		"--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400", "--flex-volume-plugin-dir="+s.dir,
		"--root-ca-file="+s.cluster.RESTConfig().CAFile, "--service-account-private-key-file="+s.cluster.ServiceAccountKey())
	cmd.Dir = s.dir
	if s.controller, err = program.Start(cmd, filepath.Join(s.dir, "controller.log")); err != nil {
		t.Fatalf("%v (make bin/kube-controller-manager builds it)", err)
	}
	t.Cleanup(s.controller.End)
	s.journal()
	access := s.cluster.RESTConfig()
	access.WarningHandler = rest.NoWarnings{}
	client, transport, err := workload.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = client
	if s.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(access, transport); err != nil {
		t.Fatal(err)
	}
	return s
}

// journal starts kubejournal.
func (s *shop) journal() {
	s.t.Helper()
	var err error
	if s.program, err = program.Build(s.t.Context(), s.dir); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "kubejournal.yaml"), []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(s.program, "run")
	cmd.Dir, cmd.Env = s.dir, program.Environ(s.dir, "KUBECONFIG="+s.cluster.Kubeconfig())
	if s.daemon, err = program.Start(cmd, filepath.Join(s.dir, "kubejournal.log")); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.daemon.End)
	s.eventually("kubejournal is ready", s.daemon.Ready)
}

// ask returns what kubejournal answers.
func (s *shop) ask(args ...string) (stdout, stderr string, status int) {
	s.t.Helper()
	var out, notes bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = &out, &notes, s.dir, program.Environ(s.dir, "TZ=UTC")
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		s.t.Fatal(err)
	} else if ok {
		status = ended.ExitCode()
	}
	return out.String(), notes.String(), status
}

// kubectl returns what it writes, and fails the test unless it ends with status 0 and writes nothing to stderr but lines that
// have one of the warnings.
func (s *shop) kubectl(stdin []byte, warnings []string, args ...string) string {
	s.t.Helper()
	stdout, stderr, err := s.try(stdin, args...)
	for text := range strings.Lines(stderr) {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(text, w) }) && err == nil {
			err = errors.New("it complains")
		}
	}
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

func (s *shop) try(stdin []byte, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.kubectlBin, args...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &complaints
	cmd.Env = program.Environ(s.dir, "KUBECONFIG="+s.cluster.Kubeconfig())
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

func (s *shop) eventually(what string, check func(context.Context) error) {
	s.t.Helper()
	err := s.controller.Wait(s.t.Context(), patience, what, func() error { return check(s.t.Context()) })
	if err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until the controllers have done what they do about the namespace.
func (s *shop) settled() {
	s.t.Helper()
	s.eventually("the controllers have nothing to do", func(ctx context.Context) error {
		for _, c := range []struct {
			of        schema.GroupVersionResource
			namespace string
			name      string
			path      string
			want      string
		}{
			{configMaps, "shop", "kube-root-ca.crt", "metadata.name", "kube-root-ca.crt"},
			{accounts, "shop", "default", "metadata.name", "default"},
			{claims, "shop", "data", "status.phase", "Bound"},
			{claims, "shop", "chosen", "status.phase", "Bound"},
			{claims, "shop", "files-db-0", "metadata.ownerReferences", "StatefulSet"},
			{endpoints, "shop", "web-node", "metadata.labels", "endpoint-controller"},
			{quotas, "shop", "most", "status.used", "cpu"},
			{secrets, "shop", "web-token", "data", "token"},
			{roles, "", "shop-all", "rules", "pods"},
		} {
			o, err := s.client.Resource(c.of).Namespace(c.namespace).Get(ctx, c.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			value, _, err := unstructured.NestedFieldNoCopy(o.Object, strings.Split(c.path, ".")...)
			if text := fmt.Sprint(value); err != nil || !strings.Contains(text, c.want) {
				return fmt.Errorf("%s of %s is %s", c.path, c.name, text)
			}
		}
		list, err := s.client.Resource(pods).Namespace("shop").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 7 { // debug, two of web, one each of old, bare, db and migrate
			err = fmt.Errorf("there are %d pods", len(list.Items))
		}
		return err
	})
}

// key names an object: its kind in lower case, with its group.
type key struct{ kind, namespace, name string }

func keyOf(o *unstructured.Unstructured) key {
	gk := o.GroupVersionKind().GroupKind()
	return key{strings.ToLower(gk.String()), o.GetNamespace(), o.GetName()}
}

// take returns all objects of the shop: what is in the namespace, and labelled elsewhere.
func (s *shop) take() map[key]*unstructured.Unstructured {
	s.t.Helper()
	resources, err := s.discovery.ServerPreferredResources()
	if err != nil {
		s.t.Fatal(err)
	}
	objects := make(map[key]*unstructured.Unstructured)
	for _, group := range resources {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "watch") {
				continue
			}
			options := metav1.ListOptions{}
			if !r.Namespaced {
				options.LabelSelector = "of=shop"
			}
			list, err := s.client.Resource(gv.WithResource(r.Name)).List(s.t.Context(), options)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, o := range list.Items {
				if !r.Namespaced || o.GetNamespace() == "shop" {
					objects[keyOf(&o)] = &o
				}
			}
		}
	}
	return objects
}

// Kinds outside of the namespace, and those that may only be there when its objects are: nobody answers these webhooks.
const (
	outside = "crd,pv,storageclass,csidriver,volumeattributesclass,priorityclass,runtimeclass,ingressclass,deviceclass,clusterrole,clusterrolebinding," +
		"flowschema,prioritylevelconfiguration,validatingadmissionpolicy,validatingadmissionpolicybinding"
	webhooks = "validatingwebhookconfiguration,mutatingwebhookconfiguration"
)

// leftOut is what kubejournal says of objects that are not for applying, and titled is one of them.
var (
	leftOut = regexp.MustCompile(`(?m)^kubejournal: left out, (.*?): (.*)\n`)
	titled  = regexp.MustCompile(`^(\S+) (?:(\S+)/)?(\S+)$`)
)

// unconfirmed is what it says of a time that is less than a minute ago.
var unconfirmed = regexp.MustCompile(`(?m)^kubejournal: not covered: (stream \S+ since .*: not confirmed any further|\d+ more .*)\n`)

// clean returns the objects of the shop as they were, for kubectl apply, and which they are; and why others are left out.
func (s *shop) clean(at, format string) (lists []byte, objects []key, without map[key]string) {
	s.t.Helper()
	without = make(map[key]string)
	for _, args := range [][]string{{outside, "-l", "of=shop"}, {"*", "-n", "shop"}, {webhooks, "-l", "of=shop"}} {
		args = append([]string{"get", "--at", at, "--clean", "-o", format}, args...)
		list, notes, status := s.ask(args...)
		for _, m := range leftOut.FindAllStringSubmatch(notes, -1) {
			for title := range strings.SplitSeq(m[2], ", ") {
				if of := titled.FindStringSubmatch(title); of != nil {
					without[key{of[1], of[2], of[3]}] = m[1]
				}
			}
		}
		rest := leftOut.ReplaceAllString(notes, "")
		if late := unconfirmed.ReplaceAllString(rest, ""); late != "" || status != 0 && (status != 3 || rest == "") {
			s.t.Errorf("kubejournal %q: status %d\n%s", args, status, rest)
		}
		var of struct{ Items []unstructured.Unstructured }
		if err := yaml.Unmarshal([]byte(list), &of); err != nil {
			s.t.Fatal(err)
		}
		for i := range of.Items {
			objects = append(objects, keyOf(&of.Items[i]))
		}
		if lists = append(lists, list...); format == "yaml" {
			lists = append(lists, "---\n"...)
		}
	}
	return lists, objects, without
}

// destroy deletes everything that take returns, definitions of custom resources only if asked to.
func (s *shop) destroy(definitions bool) {
	s.t.Helper()
	s.kubectl(nil, nil, "-n", "shop", "patch", "configmap", "web-settings", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	// There is no kubelet that would end it.
	s.kubectl(nil, []string{"Warning: Immediate deletion"}, "-n", "shop", "delete", "pod", "debug", "--force", "--grace-period=0")
	s.kubectl(nil, nil, "delete", "--wait=false", "-f", "testdata/webhooks.yaml")
	s.kubectl(nil, nil, "delete", "namespace", "shop")
	kinds := outside
	if !definitions {
		kinds = strings.TrimPrefix(kinds, "crd,")
	}
	s.kubectl(nil, nil, "delete", kinds, "-l", "of=shop")
}

func TestNamespaceGivenBack(t *testing.T) {
	s := open(t)
	warnings := []string{"v1 Endpoints is deprecated", "would violate PodSecurity"}
	s.kubectl(nil, nil, "apply", "-f", "testdata/cluster.yaml")
	s.kubectl(nil, nil, "wait", "--for=condition=Established", "crd", "-l", "of=shop", "--timeout=60s")
	s.kubectl(nil, warnings, "create", "-f", "testdata/namespace.yaml")
	s.kubectl(nil, nil, "apply", "-f", "testdata/applied.yaml")
	s.bind("debug")
	s.own("empty")
	s.settled()
	s.kubectl(nil, nil, "create", "-f", "testdata/webhooks.yaml")

	before := s.take()
	kinds := make(map[string]bool)
	for k := range before {
		if k.namespace != "" {
			kinds[k.kind] = true
		}
	}
	if len(kinds) < 30 {
		t.Errorf("%d kinds of objects in the namespace: %v", len(kinds), kinds)
	}
	first := s.record()
	list, objects, without := s.clean(first.at, "json")
	text, _, _ := s.clean(first.at, "yaml")
	s.diff("nothing was deleted", list)

	s.destroy(false)
	s.kubectl(list, warnings, "apply", "-f", "-")
	s.settled()
	after := s.take()
	same(t, before, after, objects)
	for k := range before {
		if reason, left := without[k]; left == slices.Contains(objects, k) && !strings.HasPrefix(k.kind, "event") { // not all are named
			t.Errorf("%v is given back: %t; left out: %q", k, !left, reason)
		}
	}
	for k, reason := range without {
		if _, ok := after[k]; !ok && strings.HasPrefix(reason, "made by") && k.kind != "csistoragecapacity.storage.k8s.io" {
			t.Errorf("%v is not there again; it was left out: %s", k, reason)
		}
	}

	s.diff("it is given back", list)
	s.diff("it is given back, as YAML", text)
	// Of these kubectl sends a patch that changes nothing: the order of lists into which the server has put something, and a
	// selector, which it replaces.
	anyway := []string{"pod/debug configured\n", "poddisruptionbudget.policy/web configured\n"}
	for result := range strings.Lines(s.kubectl(text, warnings, "apply", "-f", "-")) {
		if !strings.HasSuffix(result, " unchanged\n") && !slices.Contains(anyway, result) {
			t.Errorf("applied again: %s", result)
		}
	}

	second := s.record()

	// kubectl looks for the kinds of all objects before it makes the first, so custom resources come with a second run.
	s.destroy(true)
	stdout, stderr, err := s.try(list, "apply", "--server-side", "--cache-dir="+t.TempDir(), "-f", "-") // another one knows the kinds
	if err == nil || !strings.Contains(stderr, `no matches for kind "Widget"`) {
		t.Errorf("with a definition that is not there: %v\n%s%s", err, stdout, stderr)
	}
	s.kubectl(nil, nil, "wait", "--for=condition=Established", "crd", "-l", "of=shop", "--timeout=60s")
	s.kubectl(list, warnings, "apply", "--server-side", "-f", "-")
	s.settled()
	same(t, before, s.take(), objects)

	s.checkMoment(first)
	s.checkMoment(second)
	s.checkVersions()
}

// bind does what the scheduler does.
func (s *shop) bind(pod string) {
	s.t.Helper()
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": pod},
		"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-a"},
	}}
	binding.SetName(pod)
	if _, err := s.client.Resource(pods).Namespace("shop").Create(s.t.Context(), binding, metav1.CreateOptions{}, "binding"); err != nil {
		s.t.Fatal(err)
	}
}

// own gives a ConfigMap an owner that is no controller.
func (s *shop) own(name string) {
	s.t.Helper()
	owner, err := s.client.Resource(widgets).Namespace("shop").Get(s.t.Context(), "first", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"shop.example.com/v1","kind":"Widget","name":"first","uid":%q}]}}`, owner.GetUID())
	s.kubectl(nil, nil, "-n", "shop", "patch", "configmap", name, "--type=merge", "-p", patch)
}

// diff fails the test if kubectl diff shows a difference or complains.
func (s *shop) diff(when string, list []byte) {
	s.t.Helper()
	stdout, stderr, err := s.try(list, "diff", "-f", "-")
	if err != nil || stdout != "" {
		s.t.Errorf("kubectl diff while %s: %v\n%s%s", when, err, stdout, stderr)
	}
}

// same compares what was applied, but for what cannot be the same.
func same(t *testing.T, before, after map[key]*unstructured.Unstructured, objects []key) {
	t.Helper()
	for _, k := range objects {
		is, ok := after[k]
		if !ok {
			t.Errorf("%v is not there again", k)
			continue
		}
		if diff := cmp.Diff(comparableOf(t, k, before[k]), comparableOf(t, k, is)); diff != "" {
			t.Errorf("%v (-before +after):\n%s", k, diff)
		}
	}
}

// comparableOf returns an object without what cannot be the same. It does not use the package that it checks.
func comparableOf(t *testing.T, k key, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	o := object.DeepCopy().Object
	cut := func(path ...string) { unstructured.RemoveNestedField(o, path...) }
	cut("status")
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"} {
		cut("metadata", name)
	}
	cut("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if a, _, _ := unstructured.NestedMap(o, "metadata", "annotations"); len(a) == 0 {
		cut("metadata", "annotations")
	}
	switch k.kind {
	case "service":
		if ip, _, _ := unstructured.NestedString(o, "spec", "clusterIP"); ip != "None" && k.name != "web-fixed" {
			cut("spec", "clusterIP")
			cut("spec", "clusterIPs")
		}
		cut("spec", "healthCheckNodePort")
		list, _, _ := unstructured.NestedSlice(o, "spec", "ports")
		for _, p := range list {
			if p := p.(map[string]any); p["nodePort"] != int64(30080) {
				delete(p, "nodePort")
			}
		}
		if len(list) > 0 {
			o["spec"].(map[string]any)["ports"] = list
		}
	case "secret":
		if o["type"] == "kubernetes.io/service-account-token" {
			cut("data", "token")
			cut("metadata", "annotations", "kubernetes.io/service-account.uid")
		}
	case "serviceaccount":
		o["secrets"] = slices.DeleteFunc(o["secrets"].([]any), func(s any) bool { return s.(map[string]any)["name"] == "web-token-x7f2b" })
	case "persistentvolume":
		cut("spec", "claimRef", "uid")
		cut("spec", "claimRef", "resourceVersion")
		cut("metadata", "annotations", "pv.kubernetes.io/bound-by-controller")
		if a, _, _ := unstructured.NestedMap(o, "metadata", "annotations"); len(a) == 0 {
			cut("metadata", "annotations")
		}
	case "job.batch":
		if k.name != "by-hand" {
			cut("spec", "selector")
			for _, uid := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
				cut("spec", "template", "metadata", "labels", uid)
				cut("metadata", "labels", uid)
			}
		}
	case "pod":
		cut("spec", "nodeName")
		text, _ := json.Marshal(o)
		token := "kube-api-access-"
		if i := bytes.Index(text, []byte(token)); i >= 0 {
			token = string(text[i : i+len(token)+5])
		}
		if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(token), []byte("token")), &o); err != nil {
			t.Fatal(err)
		}
	}
	return o
}
