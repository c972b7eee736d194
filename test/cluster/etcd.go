package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// etcdClient keeps no connection open: see adminClient.
var etcdClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// StartEtcd starts etcd on its old port and data and waits until it is ready, and the API server too if that is
// running and not paused.
func (c *Cluster) StartEtcd(ctx context.Context) error {
	if err := c.etcd.start(c.life, c.options.Binaries.Etcd, c.etcdFlags()); err != nil {
		return err
	}
	if err := c.etcd.wait(ctx, c.etcdReady); err != nil {
		return err
	}
	if c.apiserver.running() == nil || c.apiserver.paused.Load() {
		return nil
	}
	return c.apiserver.wait(ctx, c.apiServerReady)
}

// StopEtcd ends etcd by SIGTERM and waits for its end, some seconds while an API server holds watches. The API server
// stays up, and is not ready until etcd is back.
func (c *Cluster) StopEtcd() error { return c.etcd.stop(syscall.SIGTERM) }

// KillEtcd ends etcd by SIGKILL.
func (c *Cluster) KillEtcd() error { return c.etcd.stop(syscall.SIGKILL) }

// RestartEtcd is StopEtcd and StartEtcd.
func (c *Cluster) RestartEtcd(ctx context.Context) error {
	if err := c.StopEtcd(); err != nil {
		return err
	}
	return c.StartEtcd(ctx)
}

// PauseEtcd holds etcd by SIGSTOP: its connections stay open and nothing comes.
func (c *Cluster) PauseEtcd() error { return c.etcd.pause() }

// ResumeEtcd undoes PauseEtcd.
func (c *Cluster) ResumeEtcd() error { return c.etcd.resume() }

// Compact drops all history from etcd up to now. The API server's watch cache keeps what it has in memory: together
// with RestartAPIServer a watch from before is sure to be refused.
func (c *Cluster) Compact(ctx context.Context) error {
	var now struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	anyKey := map[string]string{"key": base64.StdEncoding.EncodeToString([]byte("/"))}
	if err := c.callEtcd(ctx, "/v3/kv/range", anyKey, &now); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	upTo := map[string]any{"revision": now.Header.Revision, "physical": true}
	if err := c.callEtcd(ctx, "/v3/kv/compaction", upTo, nil); err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	return nil
}

// Store writes objects to etcd, past the API server and what it checks: by key, each with its encoding, which may be
// JSON. The API server hears of them as of another replica's writes.
func (c *Cluster) Store(ctx context.Context, objects map[string][]byte) error {
	const most = 100 // etcd refuses more than 128 in one transaction
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(objects)), most) {
		var puts []any
		for _, key := range keys {
			puts = append(puts, map[string]any{"requestPut": map[string][]byte{"key": []byte(key), "value": objects[key]}})
		}
		if err := c.callEtcd(ctx, "/v3/kv/txn", map[string]any{"success": puts}, nil); err != nil {
			return fmt.Errorf("store objects in etcd: %w", err)
		}
	}
	return nil
}

// Snapshot copies etcd's data and returns the path of the copy, which lives as long as the cluster. etcd is killed for
// that, which is quick and leaves what it has acknowledged on disk; the API server stays up, and both are ready when
// Snapshot returns.
func (c *Cluster) Snapshot(ctx context.Context) (string, error) {
	c.mu.Lock()
	c.snapshots++
	path := c.file("snapshot-" + strconv.Itoa(c.snapshots))
	c.mu.Unlock()
	if err := c.KillEtcd(); err != nil {
		return "", err
	}
	if err := copyFolder(path, c.etcdData()); err != nil {
		return "", errors.Join(fmt.Errorf("copy etcd data: %w", err), c.StartEtcd(ctx))
	}
	return path, c.StartEtcd(ctx)
}

// Restore puts a Snapshot back, as one does from a backup: with both servers down, and both ready when it returns. The
// server's resourceVersion is then again what it was at the snapshot. The snapshot can be used again.
func (c *Cluster) Restore(ctx context.Context, snapshot string) error {
	if _, err := os.Stat(filepath.Join(snapshot, "member")); err != nil {
		return fmt.Errorf("restore etcd data: %w", err)
	}
	if c.apiserver.running() != nil {
		if err := c.KillAPIServer(); err != nil {
			return err
		}
	}
	if c.etcd.running() != nil {
		if err := c.KillEtcd(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(c.etcdData()); err != nil {
		return fmt.Errorf("restore etcd data: %w", err)
	}
	if err := copyFolder(c.etcdData(), snapshot); err != nil {
		return fmt.Errorf("restore etcd data: %w", err)
	}
	if err := c.StartEtcd(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

func copyFolder(to, from string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

func (c *Cluster) etcdData() string { return c.file("etcd") }

func (c *Cluster) etcdFlags() []string {
	client := "http://" + address(c.etcdPort)
	flags := []string{
		"--data-dir=" + c.etcdData(),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=http://127.0.0.1:0", // it has no peers
		"--log-level=warn",
	}
	if !c.options.Fsync {
		flags = append(flags, "--unsafe-no-fsync")
	}
	return flags
}

func (c *Cluster) etcdReady(ctx context.Context) error {
	request, err := newRequest(ctx, http.MethodGet, "http://"+address(c.etcdPort)+"/health", nil)
	if err != nil {
		return err
	}
	return do(etcdClient, request, nil)
}

// callEtcd uses etcd's own gateway from JSON to gRPC: keys are base64, 64-bit numbers are strings.
func (c *Cluster) callEtcd(ctx context.Context, path string, in, out any) error {
	request, err := newRequest(ctx, http.MethodPost, "http://"+address(c.etcdPort)+path, in)
	if err != nil {
		return err
	}
	return do(etcdClient, request, out)
}
