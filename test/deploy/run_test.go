package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const nodeName = "node-1"

// ask runs the program to its end, in a folder, with the environment that the manifests give it.
func ask(t *testing.T, m manifests, folder string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(program(t), args...)
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
	checkAdmission(t, s, m)
	s.grant(t, m)
	p := launch(t, m, s.kubeconfig(t, m))
	eventually(t, "every stream watches", p.watching)
	p.stop()
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
	cmd := exec.Command(program(t), args...)
	cmd.Env = []string{}
	return cmd
}

// process is a running daemon.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr string        // path
	done   chan struct{} // closed when it has ended
}

// launch runs the daemon of the manifests here, with files of its own.
func launch(t *testing.T, m manifests, kubeconfig string) *process {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(program(t), append(slices.Clone(daemon(t, m.pod(t).Spec).Args),
		"--kubeconfig", kubeconfig, "--config", m.config(t), // the last one counts
		"--output", filepath.Join(dir, "journal.jsonl"), "--checkpoint", filepath.Join(dir, "kubejournal.db"), "--listen", "127.0.0.1:0")...)
	cmd.Env = m.environment(t, nodeName)
	return start(t, cmd)
}

// start starts a daemon, which ends with the test at the latest.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "stderr-")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, stderr: log.Name(), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // has ended, as a rule
		<-p.done
		if t.Failed() {
			t.Logf("the log of %s:\n%s", filepath.Base(cmd.Path), p.log())
		}
	})
	return p
}

func (p *process) log() []byte {
	content, err := os.ReadFile(p.stderr)
	if err != nil {
		p.t.Fatal(err)
	}
	return content
}

var listening = regexp.MustCompile(`"msg":"listening"[^\n]*"address":"([^"]+)"`)

// get asks the daemon over HTTP.
func (p *process) get(path string) ([]byte, error) {
	select {
	case <-p.done:
		p.t.Fatalf("the daemon has ended: %s", p.cmd.ProcessState)
	default:
	}
	address := listening.FindSubmatch(p.log())
	if address == nil {
		return nil, errors.New("not listening yet")
	}
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+string(address[1])+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return body, err
}

// watching has no error once the daemon is ready and each of its streams watches. One that is pending, for want of a
// right, is an error for good.
func (p *process) watching() error {
	if _, err := p.get("/readyz"); err != nil {
		return err
	}
	body, err := p.get("/streams")
	if err != nil {
		return err
	}
	var streams []struct{ Stream, State, Reason string }
	if err := json.Unmarshal(body, &streams); err != nil {
		return err
	}
	for _, s := range streams {
		if s.State == "Pending" {
			p.t.Fatalf("%s is pending: %s", s.Stream, s.Reason)
		}
		if s.State != "Watching" {
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
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s ended with %d", filepath.Base(p.cmd.Path), code)
	}
}

// kill ends the daemon with no chance to do anything.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.done
}
