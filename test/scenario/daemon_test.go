package scenario

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kubejournal/test/invariant"
	"kubejournal/test/program"
	"kubejournal/test/workload"
)

// daemon is the program with a config, a journal file and a checkpoint, over as many runs as a scenario likes.
type daemon struct {
	t       *testing.T
	dir     string
	process *process // the latest run

	tail  *program.Tail    // of the journal
	lines []invariant.Line // as far as they were read
}

// newDaemon makes a daemon that does not run yet.
func newDaemon(t *testing.T, kubeconfig string, entries []entry) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: t.TempDir()}
	d.tail = program.NewTail(d.journal())
	t.Cleanup(d.tail.Close)
	d.configure(kubeconfig, entries)
	return d
}

func (d *daemon) config() string     { return filepath.Join(d.dir, "config.yaml") }
func (d *daemon) journal() string    { return filepath.Join(d.dir, "journal.jsonl") }
func (d *daemon) checkpoint() string { return filepath.Join(d.dir, "journal.db") }

// configure writes the config file, which the next start reads.
func (d *daemon) configure(kubeconfig string, entries []entry) {
	d.t.Helper()
	d.rewrite(d.content(kubeconfig, workload.Configs(entries), nil))
}

// rewrite writes the config file.
func (d *daemon) rewrite(content []byte) {
	d.t.Helper()
	if err := os.WriteFile(d.config(), content, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// content is a config file. keys are more of it, or replace what all daemons of the tests have.
func (d *daemon) content(kubeconfig string, resources []any, keys object) []byte {
	d.t.Helper()
	config := object{
		"cluster":    "scenario",
		"kubernetes": object{"kubeconfig": kubeconfig},
		"resources":  resources,
		"output":     object{"path": d.journal()},
		"checkpoint": object{"path": d.checkpoint()},
		"listen":     "127.0.0.1:0",
	}
	for key, value := range keys {
		if more, ok := value.(object); ok && config[key] != nil {
			maps.Copy(config[key].(object), more)
			continue
		}
		config[key] = value
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		d.t.Fatal(err)
	}
	return content
}

// launch starts the daemon and waits for nothing.
func (d *daemon) launch() {
	d.t.Helper()
	d.process = launch(d.t, d.dir, nil, "run", "--config", d.config())
}

// start starts the daemon and waits until it is ready.
func (d *daemon) start() {
	d.t.Helper()
	d.launch()
	d.ready()
}

func (d *daemon) ready() {
	d.t.Helper()
	eventually(d.t, later, "ready", func() error { return d.process.Ready(d.t.Context()) })
}

// get asks the daemon's HTTP server.
func (d *daemon) get(path string) (status int, body string, err error) {
	return d.process.Get(d.t.Context(), path)
}

// state returns the state of a stream, or of an entry that is pending under the name of its resource.
func (d *daemon) state(name string) (string, error) {
	streams, err := d.process.Streams(d.t.Context())
	if err != nil {
		return "", err
	}
	for _, s := range streams {
		if s.Stream == name {
			return s.State, nil
		}
	}
	return "", fmt.Errorf("no stream %s in %v", name, streams)
}

// await waits until a stream is in a state.
func (d *daemon) await(name, state string) {
	d.t.Helper()
	eventually(d.t, later, name, func() error {
		is, err := d.state(name)
		if err == nil && is != state {
			err = fmt.Errorf("it is %s, not %s", is, state)
		}
		return err
	})
}

// kill ends the daemon by SIGKILL.
func (d *daemon) kill() {
	d.t.Helper()
	d.process.kill()
}

// stop ends the daemon by SIGTERM, which must be clean, and soon enough for a pod.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.process.Stop(soon); err != nil {
		d.t.Fatal(err)
	}
}

// tell returns all lines of the journal so far. A last line that has no end yet is left for the next time.
func (d *daemon) tell() []invariant.Line {
	d.t.Helper()
	data, err := d.tail.Next()
	if err != nil {
		d.t.Fatal(err)
	}
	lines, err := invariant.Parse("journal.jsonl", len(d.lines)+1, data)
	if err != nil {
		d.t.Fatal(err)
	}
	d.lines = append(d.lines, lines...)
	return d.lines
}

// gaps returns the GAP lines among the lines.
func gaps(lines []invariant.Line) []invariant.Line {
	var found []invariant.Line
	for _, l := range lines {
		if l.Type == invariant.Gap {
			found = append(found, l)
		}
	}
	return found
}

// noGap fails where the history was there and a GAP was written all the same.
func noGap(t *testing.T, lines []invariant.Line) {
	t.Helper()
	for _, l := range gaps(lines) {
		t.Errorf("%s: GAP %s of %s from %s to %s, want none", l.Where, l.Reason, l.Stream, l.FromResourceVersion, l.ResourceVersion)
	}
}

// files returns what the daemon has written, by name.
func (d *daemon) files() map[string][]byte {
	d.t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(d.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.HasSuffix(path, ".yaml") {
			return err
		}
		all[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}
