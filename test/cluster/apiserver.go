package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// StartAPIServer starts the API server on its old port and waits until it is ready. etcd must be running.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.apiserver.start(c.life, c.options.Binaries.APIServer, c.apiServerFlags()); err != nil {
		return err
	}
	return c.apiserver.wait(ctx, c.apiServerReady)
}

// StopAPIServer ends the API server by SIGTERM and waits for its end.
func (c *Cluster) StopAPIServer() error { return c.apiserver.stop(syscall.SIGTERM) }

// KillAPIServer ends the API server by SIGKILL.
func (c *Cluster) KillAPIServer() error { return c.apiserver.stop(syscall.SIGKILL) }

// RestartAPIServer is StopAPIServer and StartAPIServer.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// PauseAPIServer holds the API server by SIGSTOP: its connections stay open and nothing comes.
func (c *Cluster) PauseAPIServer() error { return c.apiserver.pause() }

// ResumeAPIServer undoes PauseAPIServer.
func (c *Cluster) ResumeAPIServer() error { return c.apiserver.resume() }

// SetFeatureGates restarts the API server with these feature gates instead of the last ones that were set, or starts it
// with them if it is down (as after gates that it refused). What it does not name is as in the variant.
func (c *Cluster) SetFeatureGates(ctx context.Context, gates map[string]bool) error {
	c.mu.Lock()
	c.gates = maps.Clone(gates)
	c.mu.Unlock()
	if c.apiserver.running() == nil {
		return c.StartAPIServer(ctx)
	}
	return c.RestartAPIServer(ctx)
}

func (c *Cluster) apiServerFlags() []string {
	flags := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.apiPort),
		"--cert-dir=" + c.dir,
		"--etcd-servers=http://" + address(c.etcdPort),
		"--etcd-compaction-interval=0", // only Compact takes history away
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--token-auth-file=" + c.file("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("service-account.key"),
		"--service-account-signing-key-file=" + c.file("service-account.key"),
		"--shutdown-watch-termination-grace-period=2s", // else a watch holds a SIGTERM up for a minute
	}
	if !c.options.Accounts { // nobody makes those that pods would need
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	if c.options.Beside != nil {
		flags = append(flags, "--etcd-prefix=/beside-"+strconv.Itoa(c.apiPort))
	}
	if c.options.Audit != "" {
		// MiB: never rotated
		flags = append(flags, "--audit-policy-file="+c.file("audit-policy.yaml"), "--audit-log-path="+c.AuditLog(),
			"--audit-log-maxsize=10000")
	}
	if gates := c.featureGates(); gates != "" {
		flags = append(flags, "--feature-gates="+gates)
	}
	return append(flags, c.options.APIServerFlags...)
}

// featureGates are the variant's and those that a test has set, which win.
func (c *Cluster) featureGates() string {
	gates := make(map[string]bool)
	if c.variant.NoWatchList {
		gates[watchListGate] = false
	}
	c.mu.Lock()
	maps.Copy(gates, c.gates)
	c.mu.Unlock()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		list = append(list, name+"="+strconv.FormatBool(gates[name]))
	}
	return strings.Join(list, ",")
}

// apiServerReady also looks for the namespaces: the server makes them after it has called itself ready, and an etcd
// put back from before that moment has none.
func (c *Cluster) apiServerReady(ctx context.Context) error {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/kube-system", "/api/v1/namespaces/default"} {
		if err := c.call(ctx, http.MethodGet, path, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// statusError is an answer other than success.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.code, strings.TrimSpace(e.body))
}

// call makes one request as the administrator; in and out are JSON, or nil.
func (c *Cluster) call(ctx context.Context, method, path string, in, out any) error {
	client, err := c.adminClient()
	if err != nil {
		return err
	}
	request, err := newRequest(ctx, method, c.url()+path, in)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	return do(client, request, out)
}

func newRequest(ctx context.Context, method, url string, in any) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		content, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	switch {
	case method == http.MethodPatch: // server-side apply; JSON is YAML
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	case in != nil:
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

func do(client *http.Client, request *http.Request, out any) error {
	response, err := client.Do(request)
	if err != nil {
		return err // names method and URL itself
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode < 200 || response.StatusCode > 299) {
		err = &statusError{code: response.StatusCode, body: string(body)}
	}
	if err == nil && out != nil {
		err = json.Unmarshal(body, out)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, err)
	}
	return nil
}
