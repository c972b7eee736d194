package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// daemon is the program with a config, a journal and a checkpoint, over more than one run.
type daemon struct {
	bench   *bench
	dir     string
	journal string // path; "-" is stdout
	streams int    // 0 is one for all namespaces
	shards  int    // of how many it is the first; 0 and 1: it has everything
	runs    int
}

// newDaemon makes a folder of its own.
func (b *bench) newDaemon(name string) (*daemon, error) {
	d := &daemon{bench: b, dir: filepath.Join(b.dir, name)}
	d.journal = filepath.Join(d.dir, "journal.jsonl")
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	return d, nil
}

func (d *daemon) checkpoint() string { return filepath.Join(d.dir, "journal.db") }

// start starts the program against the server whose kubeconfig is in its folder.
func (d *daemon) start(stdout io.Writer) (*process, error) {
	resource := map[string]any{"resource": "configmaps"}
	if d.streams > 0 {
		var names []string
		for i := range d.streams {
			names = append(names, "ns-"+digits(i, 5))
		}
		resource["namespaces"] = names
	}
	// As it comes, but that all of the journal stays, to be read back, and is not compressed for that.
	settings := map[string]any{
		"kubernetes": map[string]any{"kubeconfig": filepath.Join(d.dir, "kubeconfig")},
		"resources":  []any{resource},
		"output":     map[string]any{"path": d.journal, "maxFiles": 0, "maxAge": "0s", "compress": false},
		"checkpoint": map[string]any{"path": d.checkpoint()},
		"listen":     "127.0.0.1:0",
	}
	if d.shards > 1 {
		settings["shard"] = map[string]int{"index": 0, "count": d.shards}
	}
	config, err := json.Marshal(settings) // which is YAML
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	path := filepath.Join(d.dir, "config.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	d.runs++
	return launch(d.dir, "kubejournal-"+strconv.Itoa(d.runs), stdout, d.bench.program, "run", "--config", path)
}

// awaitSynced waits until n streams have told that they are synced.
func awaitSynced(ctx context.Context, p *process, n int) error {
	return p.Wait(ctx, runLimit, "wait for streams", func() error {
		log, err := p.Log()
		if synced := bytes.Count(log, []byte(`"msg":"synced"`)); err == nil && synced < n {
			err = fmt.Errorf("%d of %d are synced", synced, n)
		}
		return err
	})
}
