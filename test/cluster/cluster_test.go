package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kubejournal/test/program"
)

func pid(s *server) int { return s.running().PID() }

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	must(t, program.Eventually(t.Context(), 30*time.Second, what, func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	}))
}

// gone says that no process has this id. One that ended but was not waited for still has it.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func startCluster(t *testing.T, options Options) *Cluster {
	t.Helper()
	began := time.Now()
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// request answers with the status code and the body of one request with this access.
func request(t *testing.T, config *rest.Config, path string) (int, string) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: transport, DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+config.BearerToken)
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	// One line is enough: the body of a watch continues.
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil && line == "" && response.ContentLength != 0 {
		t.Fatalf("GET %s: %v", path, err)
	}
	return response.StatusCode, line
}

func expect(t *testing.T, config *rest.Config, path string, code int) string {
	t.Helper()
	got, body := request(t, config, path)
	if got != code {
		t.Fatalf("GET %s: status %d, want %d: %s", path, got, code, body)
	}
	return body
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func makeConfigMap(t *testing.T, c *Cluster, name string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.call(t.Context(), http.MethodPost, configMaps, object, nil); err != nil {
		t.Fatal(err)
	}
}

// watch closes answered once its watch is open, and returns when the server ends it.
func (c *Cluster) watch(ctx context.Context, answered chan<- struct{}) error {
	request, err := newRequest(ctx, http.MethodGet, c.url()+configMaps+"?watch=1&timeoutSeconds=600", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	admin, err := c.adminClient()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: admin.Transport} // with no time limit
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	close(answered)
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func resourceVersion(t *testing.T, c *Cluster) int {
	t.Helper()
	var list metav1.PartialObjectMetadataList
	if err := c.call(t.Context(), http.MethodGet, configMaps+"?limit=1", nil, &list); err != nil {
		t.Fatal(err)
	}
	version, err := strconv.Atoi(list.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCluster(t *testing.T) {
	c := startCluster(t, Options{Audit: AuditRequests})
	admin := c.RESTConfig()

	t.Run("version is that of the pinned module", func(t *testing.T) {
		want, err := c.Variant().Release(t.Context())
		must(t, err)
		got, err := c.Version(t.Context())
		must(t, err)
		if got != want {
			t.Errorf("version %s, want %s", got, want)
		}
		var version struct{ Major, Minor string }
		must(t, c.call(t.Context(), http.MethodGet, "/version", nil, &version))
		if !strings.HasPrefix(want, "v"+version.Major+"."+version.Minor+".") {
			t.Errorf("version %+v, want %s", version, want)
		}
	})

	t.Run("kubeconfig", func(t *testing.T) {
		info, err := os.Stat(c.Kubeconfig())
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, want 0600", info.Mode().Perm())
		}
		config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
		must(t, err)
		expect(t, config, "/api/v1/secrets", http.StatusOK)
		expect(t, admin, "/api/v1/secrets", http.StatusOK)
		config.BearerToken = "wrong"
		expect(t, config, "/api/v1/secrets", http.StatusUnauthorized)
	})

	t.Run("audit log", func(t *testing.T) {
		expect(t, admin, "/api/v1/secrets?marker=audited", http.StatusOK)
		await(t, "audit log", func() bool { // it is written after the answer
			content, err := os.ReadFile(c.AuditLog())
			must(t, err)
			return strings.Contains(string(content), "marker=audited")
		})
	})

	t.Run("kill -9 and restart", func(t *testing.T) {
		makeConfigMap(t, c, "outlives-kill")
		for _, one := range []struct {
			server      *server
			kill, stop  func() error
			start, both func(context.Context) error
		}{
			{&c.apiserver, c.KillAPIServer, c.StopAPIServer, c.StartAPIServer, c.RestartAPIServer},
			{&c.etcd, c.KillEtcd, c.StopEtcd, c.StartEtcd, c.RestartEtcd},
		} {
			t.Run(one.server.name, func(t *testing.T) {
				first := pid(one.server)
				must(t, one.kill())
				if !gone(first) {
					t.Errorf("process %d is still there", first)
				}
				if one.kill() == nil || one.stop() == nil {
					t.Error("a server that is down was stopped again")
				}
				began := time.Now()
				must(t, one.start(t.Context()))
				t.Logf("start after kill -9: %s", time.Since(began).Round(time.Millisecond))
				expect(t, admin, configMaps+"/outlives-kill", http.StatusOK)
				if one.start(t.Context()) == nil {
					t.Error("a server that is up was started again")
				}
				second := pid(one.server)
				began = time.Now()
				must(t, one.both(t.Context()))
				t.Logf("restart by SIGTERM: %s", time.Since(began).Round(time.Millisecond))
				if !gone(second) {
					t.Errorf("process %d is still there", second)
				}
				expect(t, admin, configMaps+"/outlives-kill", http.StatusOK)
			})
		}
	})

	t.Run("a watch does not hold up a stop", func(t *testing.T) {
		answered, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- c.watch(t.Context(), answered)
		}()
		select {
		case <-answered:
		case err := <-done:
			t.Fatal(err)
		}
		began := time.Now()
		must(t, c.StopAPIServer())
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("stop took %s", took)
		}
		must(t, <-done)
		must(t, c.StartAPIServer(t.Context()))
	})

	t.Run("pause", func(t *testing.T) {
		for _, one := range []struct {
			name          string
			pause, resume func() error
		}{
			{"kube-apiserver", c.PauseAPIServer, c.ResumeAPIServer},
			{"etcd", c.PauseEtcd, c.ResumeEtcd},
		} {
			t.Run(one.name, func(t *testing.T) {
				must(t, one.pause())
				must(t, one.pause()) // once more is no fault
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				// A get by name reads etcd, so it hangs whichever of the two is held.
				err := c.call(ctx, http.MethodGet, configMaps+"/outlives-kill", nil, nil)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("paused: got %v, want no answer", err)
				}
				must(t, one.resume())
				must(t, c.apiserver.wait(t.Context(), c.apiServerReady))
			})
		}
		t.Run("a paused server can be stopped", func(t *testing.T) {
			must(t, c.PauseAPIServer())
			must(t, c.RestartAPIServer(t.Context()))
		})
	})

	t.Run("snapshot and restore", func(t *testing.T) {
		makeConfigMap(t, c, "before-snapshot")
		began := time.Now()
		snapshot, err := c.Snapshot(t.Context())
		t.Logf("snapshot: %s", time.Since(began).Round(time.Millisecond))
		must(t, err)
		expect(t, admin, configMaps+"/before-snapshot", http.StatusOK)
		for n := range 100 {
			makeConfigMap(t, c, "after-snapshot-"+strconv.Itoa(n))
		}
		ahead := resourceVersion(t, c)
		began = time.Now()
		must(t, c.Restore(t.Context(), snapshot))
		t.Logf("restore: %s", time.Since(began).Round(time.Millisecond))
		if got := resourceVersion(t, c); got >= ahead {
			t.Errorf("resourceVersion %d after restore, was %d", got, ahead)
		}
		expect(t, admin, configMaps+"/before-snapshot", http.StatusOK)
		expect(t, admin, configMaps+"/after-snapshot-0", http.StatusNotFound)
		if c.Restore(t.Context(), c.file("no-snapshot")) == nil {
			t.Error("restored what is not there")
		}
		must(t, c.Restore(t.Context(), snapshot)) // a second time
		expect(t, admin, configMaps+"/before-snapshot", http.StatusOK)
	})

	t.Run("user", func(t *testing.T) {
		read := func(resource string) []rbacv1.PolicyRule {
			return []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{resource}}}
		}
		path, err := c.User(t.Context(), "narrow", read("configmaps"))
		must(t, err)
		user, err := clientcmd.BuildConfigFromFlags("", path)
		must(t, err)
		expect(t, user, "/api/v1/configmaps", http.StatusOK)
		expect(t, user, "/api/v1/secrets", http.StatusForbidden)
		expect(t, user, "/api/v1/namespaces/kube-system", http.StatusForbidden)

		must(t, c.Grant(t.Context(), "narrow", "default", read("secrets")))
		expect(t, user, "/api/v1/namespaces/default/secrets", http.StatusOK)
		expect(t, user, "/api/v1/secrets", http.StatusForbidden)

		must(t, c.Grant(t.Context(), "narrow", "", nil))
		expect(t, user, "/api/v1/configmaps", http.StatusForbidden)
		expect(t, user, "/api/v1/namespaces/default/secrets", http.StatusOK)

		must(t, c.RestartAPIServer(t.Context()))
		expect(t, user, "/api/v1/namespaces/default/secrets", http.StatusOK)
		if _, err := c.User(t.Context(), "narrow", nil); err == nil {
			t.Error("made the same user twice")
		}
	})

	t.Run("feature gates", func(t *testing.T) {
		stream := configMaps + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
		asItComes := http.StatusOK
		if c.Variant().NoWatchList {
			asItComes = http.StatusUnprocessableEntity
		}
		expect(t, admin, stream, asItComes)
		must(t, c.SetFeatureGates(t.Context(), map[string]bool{"WatchList": true}))
		expect(t, admin, stream, http.StatusOK)
		must(t, c.SetFeatureGates(t.Context(), map[string]bool{"WatchList": false}))
		body := expect(t, admin, stream, http.StatusUnprocessableEntity)
		if !strings.Contains(body, "sendInitialEvents") {
			t.Errorf("refused for another reason: %s", body)
		}
		err := c.SetFeatureGates(t.Context(), map[string]bool{"NoSuchGate": true})
		if err == nil || !strings.Contains(err.Error(), "NoSuchGate") {
			t.Errorf("error %v does not show the server's log", err)
		}
		must(t, c.SetFeatureGates(t.Context(), nil)) // though the server is down
		expect(t, admin, stream, asItComes)
	})

	t.Run("close", func(t *testing.T) {
		left := []int{pid(&c.apiserver), pid(&c.etcd)}
		for _, p := range left {
			t.Logf("process %d: peak memory %s", p, peakMemory(p))
		}
		must(t, c.PauseEtcd()) // also this one must go
		must(t, c.Close())
		for _, p := range left {
			if !gone(p) {
				t.Errorf("process %d is still there", p)
			}
		}
		if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder %s is still there: %v", c.dir, err)
		}
		if err := c.StartAPIServer(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("start after close: %v", err)
		}
		must(t, c.Close())
	})
}

// Without the watch cache the API server's history is etcd's, so that a compaction shows by itself.
func TestCompact(t *testing.T) {
	c := startCluster(t, Options{APIServerFlags: []string{"--watch-cache=false"}})
	before := resourceVersion(t, c)
	makeConfigMap(t, c, "one")
	makeConfigMap(t, c, "two")
	watch := fmt.Sprintf("%s?watch=1&resourceVersion=%d&timeoutSeconds=5", configMaps, before)
	type event struct {
		Type   string
		Object struct {
			Code     int
			Metadata metav1.ObjectMeta
		}
	}
	first := func() (got event) {
		t.Helper()
		code, body := request(t, c.RESTConfig(), watch)
		must(t, json.Unmarshal([]byte(body), &got))
		if code == http.StatusGone {
			got.Object.Code = code
		}
		return got
	}
	if got := first(); got.Type != "ADDED" || got.Object.Metadata.Name != "one" {
		t.Fatalf("before: first event %+v, want one added", got)
	}
	must(t, c.Compact(t.Context()))
	if got := first(); got.Object.Code != http.StatusGone {
		t.Fatalf("after: first event %+v, want an error 410", got)
	}
}

func peakMemory(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}

// etcd runs without fsync, which must cost nothing when only the process is killed.
// A cluster beside another knows the same administrator and none of its objects.
func TestBeside(t *testing.T) {
	a := startCluster(t, Options{})
	b := startCluster(t, Options{Beside: a})
	uids := make(map[string]bool)
	for _, c := range []*Cluster{a, b} {
		var ns corev1.Namespace
		if err := c.call(t.Context(), http.MethodGet, "/api/v1/namespaces/kube-system", nil, &ns); err != nil {
			t.Fatal(err)
		}
		uids[string(ns.UID)] = true
	}
	if len(uids) != 2 || a.token != b.token || a.url() == b.url() {
		t.Errorf("%d clusters by their uid, at %s and %s", len(uids), a.url(), b.url())
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := a.call(t.Context(), http.MethodGet, "/readyz", nil, nil); err != nil {
		t.Errorf("after the end of the other: %v", err)
	}
}

func TestKillKeepsAcknowledgedWrites(t *testing.T) {
	c := startCluster(t, Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	acknowledged := make(chan []string)
	go func() {
		var names []string
		for n := 0; ctx.Err() == nil; n++ {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "write-" + strconv.Itoa(n)}}
			if err := c.call(ctx, http.MethodPost, configMaps, object, nil); err == nil {
				names = append(names, object.Name)
			}
		}
		acknowledged <- names
	}()
	rounds := []struct {
		kill  func() error
		start func(context.Context) error
	}{{c.KillEtcd, c.StartEtcd}, {c.KillAPIServer, c.StartAPIServer}, {c.KillEtcd, c.StartEtcd}}
	for _, round := range rounds {
		before := resourceVersion(t, c)
		await(t, "writes", func() bool { return resourceVersion(t, c) > before+20 })
		must(t, round.kill())
		must(t, round.start(t.Context()))
	}
	stop()
	names := <-acknowledged
	t.Logf("%d writes acknowledged", len(names))
	if len(names) < 60 {
		t.Errorf("only %d writes acknowledged", len(names))
	}
	for _, name := range names {
		expect(t, c.RESTConfig(), configMaps+"/"+name, http.StatusOK)
	}
}
