package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"kubejournal/test/invariant"
)

// daemon is the program with a config, a journal file and a checkpoint, over as many runs as a scenario likes.
type daemon struct {
	t       *testing.T
	dir     string
	process *process // the latest run
	address string   // of its HTTP server

	lines []invariant.Line // of the journal, as far as they were read
	read  int64            // bytes of them
}

// newDaemon makes a daemon that does not run yet.
func newDaemon(t *testing.T, kubeconfig string, entries []entry) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: t.TempDir()}
	d.configure(kubeconfig, entries)
	return d
}

func (d *daemon) config() string     { return filepath.Join(d.dir, "config.yaml") }
func (d *daemon) journal() string    { return filepath.Join(d.dir, "journal.jsonl") }
func (d *daemon) checkpoint() string { return filepath.Join(d.dir, "journal.db") }

// configure writes the config file, which the next start reads.
func (d *daemon) configure(kubeconfig string, entries []entry) {
	d.t.Helper()
	var resources []any
	for _, e := range entries {
		r := object{"resource": e.kind.gvr.Resource, "group": e.kind.gvr.Group}
		if e.version != "" {
			r["version"] = e.version
		}
		if len(e.namespaces) > 0 {
			r["namespaces"] = e.namespaces
		}
		if e.selector != "" {
			r["labelSelector"] = e.selector
		}
		resources = append(resources, r)
	}
	d.rewrite(d.content(kubeconfig, resources, nil))
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
	d.address = ""
}

// start starts the daemon and waits until it is ready.
func (d *daemon) start() {
	d.t.Helper()
	d.launch()
	d.ready()
}

func (d *daemon) ready() {
	d.t.Helper()
	eventually(d.t, later, "ready", func() error {
		status, body, err := d.get("/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, body)
		}
		return err
	})
}

// get asks the daemon's HTTP server.
func (d *daemon) get(path string) (status int, body string, err error) {
	d.t.Helper()
	if !d.process.alive() {
		d.t.Fatalf("the daemon has ended: %s", d.process.cmd.ProcessState)
	}
	if d.address == "" {
		if d.address = listening(d.process.log(d.t)); d.address == "" {
			return 0, "", errors.New("not listening yet")
		}
	}
	request, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+d.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// listening finds the address in a log.
func listening(log []byte) string {
	for line := range bytes.Lines(log) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			return entry.Address
		}
	}
	return ""
}

// state returns the state of a stream, or of an entry that is pending under the name of its resource.
func (d *daemon) state(name string) (string, error) {
	d.t.Helper()
	_, body, err := d.get("/streams")
	if err != nil {
		return "", err
	}
	var streams []struct{ Stream, State string }
	if err := json.Unmarshal([]byte(body), &streams); err != nil {
		return "", err
	}
	for _, s := range streams {
		if s.Stream == name {
			return s.State, nil
		}
	}
	return "", fmt.Errorf("no stream %s in %s", name, body)
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
	d.process.kill(d.t)
}

// stop ends the daemon by SIGTERM, which must be clean, and soon enough for a pod.
func (d *daemon) stop() {
	d.t.Helper()
	d.process.signal(d.t, syscall.SIGTERM)
	if status := d.process.exit(d.t); status != 0 {
		d.t.Fatalf("after SIGTERM: %s", d.process.cmd.ProcessState)
	}
}

// tell returns all lines of the journal so far. A last line that has no end yet is left for the next time.
func (d *daemon) tell() []invariant.Line {
	d.t.Helper()
	f, err := os.Open(d.journal())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, d.read, 1<<40))
	if err != nil {
		d.t.Fatal(err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	lines, err := invariant.Parse("journal.jsonl", len(d.lines)+1, data)
	if err != nil {
		d.t.Fatal(err)
	}
	d.read += int64(len(data))
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
