package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"kubejournal/test/invariant"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

// daemon is the program with a config, a journal and a checkpoint, over as many runs as it dies.
type daemon struct {
	program string
	dir     string
	pipe    bool             // the journal goes to stdout
	process *program.Process // the present run; nil while it is down
	output  *program.Output  // of the latest run, with pipe
	told    []run            // what came out of the pipe until then
	runs    int
	meter   *meter

	searched map[string]bool // rotated files that marks were looked for in, without .gz
}

// newDaemon makes a daemon's folder and config, with others of its keys.
func newDaemon(b *bench, dir string, others map[string]any) (*daemon, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make daemon's folder: %w", err)
	}
	d := &daemon{program: b.program, dir: dir, pipe: b.options.stdout, meter: &b.meter, searched: make(map[string]bool)}
	output := map[string]any{"path": "-"}
	if !d.pipe {
		output = map[string]any{
			"path": d.journal(), "maxSize": b.options.maxSize,
			"maxAge": "0s", "maxFiles": 0, "compress": true, // every line stays
		}
	}
	content, err := yaml.Marshal(merged(map[string]any{
		"cluster":    "torture",
		"kubernetes": map[string]any{"kubeconfig": b.kubeconfig},
		"resources":  workload.Configs(entries),
		"output":     output,
		"checkpoint": map[string]any{"path": filepath.Join(dir, "journal.db"), "interval": b.options.interval.String()},
		"listen":     "127.0.0.1:0",
	}, others))
	if err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	if err := os.WriteFile(d.config(), content, 0o600); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return d, nil
}

func (d *daemon) config() string  { return filepath.Join(d.dir, "config.yaml") }
func (d *daemon) journal() string { return filepath.Join(d.dir, "journal.jsonl") }

func (d *daemon) launch() (err error) {
	d.runs++
	d.meter.launch(time.Now())
	cmd := exec.Command(d.program, "run", "--config", d.config())
	cmd.Dir = d.dir
	if d.pipe {
		d.output = new(program.Output)
		cmd.Stdout = d.output
	}
	d.process, err = program.Start(cmd, filepath.Join(d.dir, fmt.Sprintf("stderr-%05d", d.runs)))
	return err
}

// wait waits for a time, or for the daemon's end by itself; false says that ctx ended first.
func (d *daemon) wait(ctx context.Context, limit time.Duration) (ended, ok bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-d.process.Done():
		return true, true
	case <-timer.C:
		return false, true
	case <-ctx.Done():
		return false, false
	}
}

// drain takes what the run that has just ended left in its pipe. killed is zero where it was not killed.
func (d *daemon) drain(killed time.Time) error {
	if !d.pipe {
		return nil
	}
	lines, err := keep(d.output.Text(), filepath.Join(d.dir, fmt.Sprintf("stdout-%05d", d.runs)))
	d.told = append(d.told, run{lines, killed})
	return err
}

// status is how the daemon says that its streams stand, for an error.
func (d *daemon) status(ctx context.Context) string {
	address, err := d.process.Address()
	if err != nil {
		return fmt.Sprintf("the daemon cannot be asked: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	table, err := exec.CommandContext(ctx, d.program, "status", "--address", address).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", table, err)
	}
	return string(table)
}

// remains is what a kill left in the folder.
type remains struct {
	plain   bool // a rotated file that was not compressed yet
	partial bool // a compressed one that was not complete
}

func (d *daemon) remains() (remains, error) {
	var r remains
	files, err := os.ReadDir(d.dir)
	if err != nil {
		return r, fmt.Errorf("list daemon's folder: %w", err)
	}
	for _, e := range files {
		name := e.Name()
		r.partial = r.partial || strings.HasSuffix(name, ".gz.tmp")
		r.plain = r.plain || strings.HasPrefix(name, "journal-") && strings.HasSuffix(name, ".jsonl")
	}
	return r, nil
}

// skipRotated says that what was rotated until now holds no marks to come.
func (d *daemon) skipRotated() error {
	if d.pipe {
		return nil
	}
	files, err := invariant.JournalFiles(d.journal())
	for _, f := range files {
		if f != d.journal() {
			d.searched[strings.TrimSuffix(f, ".gz")] = true
		}
	}
	return err
}

// strike takes the marks away of the streams whose watch has told of one.
func (d *daemon) strike(marks map[string]workload.Source) error {
	if d.pipe {
		strike(d.output.Text(), marks)
		return nil
	}
	return d.look(func(_ string, data []byte) error {
		strike(data, marks)
		return nil
	})
}

// look has check look at the journal's files. Rotated ones do not change and are looked at once.
func (d *daemon) look(check func(file string, data []byte) error) error {
	files, err := invariant.JournalFiles(d.journal())
	if err != nil {
		return err
	}
	for _, f := range files {
		plain := strings.TrimSuffix(f, ".gz")
		if d.searched[plain] {
			continue
		}
		data, err := invariant.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // renamed meanwhile: the next look finds it
		}
		if err != nil {
			return err
		}
		if err := check(f, data); err != nil {
			return err
		}
		d.searched[plain] = f != d.journal()
	}
	return nil
}

func strike(data []byte, marks map[string]workload.Source) {
	for m, source := range marks {
		at := bytes.Index(data, []byte(m))
		if at < 0 {
			continue
		}
		line := data[bytes.LastIndexByte(data[:at], '\n')+1:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 && bytes.Contains(line[:end], []byte(`"origin":"watch"`)) {
			maps.DeleteFunc(marks, func(_ string, other workload.Source) bool {
				return other.Stream() == source.Stream()
			})
		}
	}
}

// told is what a run says of itself in its log.
type told struct {
	running  bool // it came to the end of its start
	readBack int  // lines of the journal that no commit knew of
	torn     bool // the journal had a torn last line
}

func toldBy(p *program.Process) (told, error) {
	log, err := p.Log()
	var t told
	for line := range bytes.Lines(log) {
		var entry struct {
			Msg             string
			Lines, CutBytes int
		}
		if json.Unmarshal(line, &entry) != nil {
			continue // half a line of a log that was killed
		}
		switch entry.Msg {
		case "running":
			t.running = true
		case "read back the journal's tail":
			t.readBack, t.torn = entry.Lines, entry.CutBytes > 0
		}
	}
	return t, err
}
