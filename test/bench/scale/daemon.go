package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// daemon is the program with a config, a journal and a checkpoint, over more than one run.
type daemon struct {
	bench   *bench
	dir     string
	journal string // path; "-" is stdout
	streams int    // 0 is one for all namespaces
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
func (d *daemon) start(stdout *os.File) (*process, error) {
	resource := map[string]any{"resource": "configmaps"}
	if d.streams > 0 {
		var names []string
		for i := range d.streams {
			names = append(names, "ns-"+digits(i, 5))
		}
		resource["namespaces"] = names
	}
	// As it comes, but that all of the journal stays, to be read back, and is not compressed for that.
	config, err := json.Marshal(map[string]any{ // which is YAML
		"kubernetes": map[string]any{"kubeconfig": filepath.Join(d.dir, "kubeconfig")},
		"resources":  []any{resource},
		"output":     map[string]any{"path": d.journal, "maxFiles": 0, "maxAge": "0s", "compress": false},
		"checkpoint": map[string]any{"path": d.checkpoint()},
		"listen":     "127.0.0.1:0",
	})
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

// logged is what the bench looks for in the daemon's log.
type logged struct {
	Msg     string `json:"msg"`
	Address string `json:"address"`
}

// awaitSynced waits until n streams have told that they are synced.
func awaitSynced(ctx context.Context, p *process, n int) error {
	return p.follow(ctx, func(line []byte) bool {
		var l logged
		if json.Unmarshal(line, &l) == nil && l.Msg == "synced" {
			n--
		}
		return n <= 0
	})
}

// metric reads one of the daemon's metrics that has no labels.
func (d *daemon) metric(ctx context.Context, p *process, name string) (v float64, err error) {
	var address string
	err = p.follow(ctx, func(line []byte) bool {
		var l logged
		if json.Unmarshal(line, &l) == nil && l.Msg == "listening" {
			address = l.Address
		}
		return address != ""
	})
	if err != nil {
		return 0, err
	}
	var found error = fmt.Errorf("no metric %s", name)
	err = d.bench.get(ctx, "http://"+address+"/metrics", func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
				v, found = strconv.ParseFloat(value, 64)
			}
		}
		return lines.Err()
	})
	return v, errors.Join(err, found)
}
