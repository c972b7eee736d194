package past

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/apidocs"
	"kubejournal/test/program"
)

// commands are what kubectl is asked, of the API server and of its past.
var commands = []string{
	"explain pods",
	"explain deployment.spec.strategy --recursive",
	"explain hpa --api-version=autoscaling/v1",
	"explain team",
	"explain teams.spec --recursive",
	"explain nothing",
	"explain pods --output=plaintext-openapiv2",
	"api-resources",
	"api-resources --verbs=list --namespaced -o name",
	"api-resources --categories=people",
	"api-versions",
	"get --raw /openapi/v3",
	"get --raw /openapi/v3/apis/example.com/v1",
	"get --raw /openapi/v2",
	"get --raw /version",
	"get --raw /apis",
	"get --raw /apis/autoscaling",
	"create --dry-run=client --validate=strict -o name -f deployment.yaml",
}

// unwatched are commands about what no stream has, and what kubectl says of the past. The API server has some of it.
var unwatched = map[string]string{
	"get leases -A": "Warning: not covered: no stream was watched that has such objects\nNo resources found\nstatus 0\n",
	"get teams -A":  "Warning: not covered: no stream was watched that has such objects\nNo resources found\nstatus 0\n",
	"get nothing":   "error: the server doesn't have a resource type \"nothing\"\nstatus 1\n",
	"get cm -A -o name --field-selector=metadata.name=none": "status 0\n",
}

// said is what kubectl has printed, by command.
type said map[string]string

// kubectl asks each command.
func (s *stage) kubectl(kubeconfig string, commands iter.Seq[string]) said {
	s.t.Helper()
	root, err := program.Root()
	if err != nil {
		s.t.Fatal(err)
	}
	all, cache := said{}, s.t.TempDir()
	for command := range commands {
		cmd := exec.CommandContext(s.t.Context(), filepath.Join(root, "bin", "kubectl"),
			append(strings.Fields(command), "--kubeconfig="+kubeconfig, "--cache-dir="+cache)...)
		var out bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, &out, &out
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			s.t.Fatalf("%v (make bin/kubectl builds it)", err)
		}
		all[command] = fmt.Sprintf("%sstatus %d\n", out.String(), cmd.ProcessState.ExitCode())
	}
	return all
}

// past has kubejournal serve a moment, and kubectl ask it.
func (s *stage) past(at time.Time) said {
	s.t.Helper()
	dir := s.t.TempDir()
	kubeconfig := filepath.Join(dir, "past.yaml")
	cmd := exec.Command(s.program, "serve", "--journal", filepath.Join(s.dir, "journal.jsonl"), "--listen=127.0.0.1:0", "--kubeconfig="+kubeconfig,
		"--at="+at.Format(time.RFC3339Nano))
	cmd.Dir, cmd.Env = dir, program.Environ(dir)
	p, err := program.Start(cmd, filepath.Join(dir, "serve.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer p.End()
	if err := p.Wait(s.t.Context(), patience, "the past is served", func() error {
		_, err := os.Stat(kubeconfig)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	is := s.kubectl(kubeconfig, slices.Values(commands))
	maps.Copy(is, s.kubectl(kubeconfig, maps.Keys(unwatched)))
	return is
}

// seen has kubectl ask the API server while it serves the same all the time, as the daemon saw it. What it serves goes on
// changing for a while after a definition has.
func (s *stage) seen() (is said, at time.Time) {
	s.t.Helper()
	for range 10 {
		begun := time.Now()
		is = s.kubectl(s.cluster.Kubeconfig(), slices.Values(commands))
		at = time.Now()
		same := false
		s.until("the daemon has asked", func() bool {
			d, err := apidocs.Open(filepath.Join(s.dir, "journal.jsonl"))
			if err != nil {
				s.t.Fatal(err)
			}
			defer d.Close()
			for _, m := range d.Spans() {
				if same = m.Since.Before(begun) && m.Until.After(at); same || m.Since.After(begun) {
					return true
				}
			}
			return false
		})
		if same {
			return is, at
		}
	}
	s.t.Fatal("the API server serves something else again and again")
	return nil, at
}

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replica":1}}`

// TestKubectl has a custom resource change and go, and kubectl ask the API server what it serves. What it says of the
// past is the same, though the daemon has streams of two resources only. A third one, which the server does not have,
// has it watch definitions.
func TestKubectl(t *testing.T) {
	s := open(t)
	writeFile(t, filepath.Join(s.dir, "kubejournal.yaml"), strings.Replace(config, `{resource: "*", group: "*"}`,
		"configmaps, customresourcedefinitions.apiextensions.k8s.io, things.example.com", 1))
	writeFile(t, filepath.Join(s.dir, "deployment.yaml"), deployment)
	s.setUp()
	s.start()
	type moment struct {
		said
		at time.Time
	}
	var all []moment
	see := func(command string) {
		t.Helper()
		is, at := s.seen()
		if n := len(all); n > 0 && all[n-1].said[command] == is[command] {
			t.Errorf("kubectl %s says the same as before:\n%s", command, is[command])
		}
		all = append(all, moment{is, at})
	}
	see("")
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/teams.example.com"
	s.write(http.MethodPatch, path, `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":`+
		`{"type":"object","properties":{"spec":{"type":"object","properties":{"weight":{"type":"integer"}}}}}}}]}}`)
	s.until("the schema has changed", func() bool {
		return strings.Contains(s.send(http.MethodGet, "/openapi/v3/apis/example.com/v1", "", "").Body, "weight")
	})
	see("explain teams.spec --recursive")
	s.write(http.MethodDelete, path, "")
	s.until("it is gone", func() bool { return s.send(http.MethodGet, "/apis/example.com", "", "").Status == http.StatusNotFound })
	see("api-resources")
	if err := s.daemon.Stop(patience); err != nil {
		t.Fatal(err)
	}
	for n, m := range all {
		is := s.past(m.at)
		if n == 0 {
			maps.Copy(m.said, unwatched)
		}
		for command := range m.said {
			if is[command] != m.said[command] {
				t.Errorf("moment %d, kubectl %s: %s", n, command, Difference(Answer{Body: is[command]}, Answer{Body: m.said[command]}))
			}
		}
	}
}

// until waits for a condition.
func (s *stage) until(what string, is func() bool) {
	s.t.Helper()
	if err := program.Eventually(s.t.Context(), patience, what, func() error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
