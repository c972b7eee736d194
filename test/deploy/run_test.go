package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kubejournal/test/program"
)

const nodeName = "node-1"

// ask runs the program to its end, in a folder, with the environment that the manifests give it.
func ask(t *testing.T, m manifests, folder string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(kubejournal(t), args...)
	cmd.Dir, cmd.Env = folder, m.environment(t, nodeName)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.Bytes())
	}
	return stdout.Bytes()
}

// checkRun sends everything to the server, keeps there what gives the daemon its rights, and runs it with them and no
// others. Everything that its config names must be watched.
func checkRun(t *testing.T, m manifests) {
	t.Helper()
	s := theServer(t)
	namespaces := m.ofKind("Namespace")
	if len(namespaces) == 0 { // helm install makes it
		namespaces = parse(t, fmt.Appendf(nil, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", m.namespace(t)))
	}
	s.apply(t, false, namespaces...)
	s.apply(t, true, m...)
	for _, shard := range m.shards() {
		checkAdmission(t, s, shard)
	}
	s.grant(t, m)
	for _, shard := range m.shards() {
		p := launch(t, shard, s.kubeconfig(t, m))
		eventually(t, "every stream watches", p.watching)
		p.stop()
	}
}

// grant gives the daemon of the manifests its account and its rights, until the test ends, and returns when the server
// goes by them: it learns of roles by a watch of its own.
func (s *server) grant(t *testing.T, m manifests) {
	t.Helper()
	objects := m.ofKind("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
	s.apply(t, false, objects...)
	t.Cleanup(func() { s.remove(t, objects) })
	user := "system:serviceaccount:" + m.namespace(t) + ":" + m.ofKind("ServiceAccount")[0].GetName()
	for namespace, rules := range m.rights(t) {
		for _, r := range rules {
			asked := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: r.Verbs[0], Group: r.APIGroups[0], Resource: r.Resources[0]}
			if len(r.ResourceNames) > 0 {
				asked.Name = r.ResourceNames[0]
			}
			question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &asked}}
			eventually(t, "rights are in force", func() error {
				answer, err := s.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), question, metav1.CreateOptions{})
				if err == nil && !answer.Status.Allowed {
					err = fmt.Errorf("%s may not %s %s", user, asked.Verb, asked.Resource)
				}
				return err
			})
		}
	}
}

// remove takes objects off the server.
func (s *server) remove(t *testing.T, objects manifests) {
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			t.Fatal(err)
		}
		resource := s.any.Resource(mapping.Resource)
		if o.GetNamespace() == "" {
			err = resource.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
		} else {
			err = resource.Namespace(o.GetNamespace()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
		}
		if err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// token is one of the manifests' service account.
func (s *server) token(t *testing.T, m manifests) string {
	t.Helper()
	account := m.ofKind("ServiceAccount")[0]
	seconds := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := s.client.CoreV1().ServiceAccounts(account.GetNamespace()).CreateToken(t.Context(), account.GetName(), request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// kubeconfig is that of the manifests' service account.
func (s *server) kubeconfig(t *testing.T, m manifests) string {
	t.Helper()
	config := s.RESTConfig()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"test": {Server: config.Host, CertificateAuthority: config.CAFile}},
		AuthInfos:      map[string]*api.AuthInfo{"test": {Token: s.token(t, m)}},
		Contexts:       map[string]*api.Context{"test": {Cluster: "test", AuthInfo: "test", Namespace: m.namespace(t)}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// command is the program with nothing of the environment here.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(kubejournal(t), args...)
	cmd.Env = []string{}
	return cmd
}

// process is a running daemon, or another program.
type process struct {
	*program.Process
	t *testing.T
}

// launch runs the daemon of the manifests here, with files of its own.
func launch(t *testing.T, m manifests, kubeconfig string) *process {
	t.Helper()
	dir := t.TempDir()
	config := m.config(t)
	content, err := os.ReadFile(config)
	if err == nil { // this is no pod, whose token says in which namespace it is
		content = bytes.Replace(content, []byte("leaderElection:\n"), []byte("leaderElection:\n  leaseNamespace: "+m.namespace(t)+"\n"), 1)
		err = os.WriteFile(config, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(kubejournal(t), append(slices.Clone(daemon(t, m.pod(t).Spec).Args),
		"--kubeconfig", kubeconfig, "--config", config, // the last one counts
		"--output", filepath.Join(dir, "journal.jsonl"), "--checkpoint", filepath.Join(dir, "kubejournal.db"), "--listen", "127.0.0.1:0")...)
	cmd.Env = m.environment(t, nodeName)
	return start(t, cmd)
}

// start starts a program, which ends with the test at the latest. Its environment is that of cmd: a container's has
// nothing else in it.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	p, err := program.Start(cmd, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.End()
		if t.Failed() {
			t.Log(p.Fault(errors.New("in a test that failed")))
		}
	})
	return &process{p, t}
}

func (p *process) log() []byte {
	content, err := p.Log()
	if err != nil {
		p.t.Fatal(err)
	}
	return content
}

// address is where the daemon listens, which it does.
func (p *process) address() string {
	p.t.Helper()
	address, err := p.Address()
	if err != nil {
		p.t.Fatal(err)
	}
	return address
}

// get asks the daemon over HTTP.
func (p *process) get(path string) (string, error) { return p.Page(p.t.Context(), path) }

// watching has no error once the daemon is ready and each of its streams watches. One that is pending, for want of a
// right, is an error for good.
func (p *process) watching() error {
	if err := p.Ready(p.t.Context()); err != nil {
		return err
	}
	streams, err := p.Streams(p.t.Context())
	if err != nil {
		return err
	}
	for _, s := range streams {
		if s.State == program.Pending {
			p.t.Fatalf("%s is pending: %s", s.Stream, s.Reason)
		}
		if s.State != program.Watching {
			return fmt.Errorf("%s is %s", s.Stream, s.State)
		}
	}
	if len(streams) == 0 {
		return errors.New("no streams")
	}
	return nil
}

// stop ends the daemon as a kubelet would.
func (p *process) stop() {
	p.t.Helper()
	if err := p.Stop(patience); err != nil {
		p.t.Error(err)
	}
}

// kill ends the daemon with no chance to do anything.
func (p *process) kill() {
	p.t.Helper()
	if _, err := p.Kill(); err != nil {
		p.t.Fatal(err)
	}
}
