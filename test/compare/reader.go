package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"kubejournal/test/program"
)

const (
	stopLimit = 20 * time.Second // from SIGTERM to a process's end
	outFile   = "out"            // in the folder of every reader
)

// way is one of the programs that are compared, with its config as its own documentation has it.
type way struct {
	name    string
	program string
	args    []string
	config  string // what is written to config.yaml; "" is none
	stdout  bool   // the output is stdout, to be appended to a file
	decode  format // nil: it only counts as a limit, and its output is not judged
}

// Writes of the file exporter are not buffered only where its output is rotated; here it never grows to the size.
const collector = `
extensions: {file_storage: {directory: ., create_directory: true}}
receivers:
  k8sobjects:
    auth_type: kubeConfig
    storage: file_storage
    include_initial_state: %t
    objects: [{name: configmaps, mode: watch}]
exporters: {file: {path: out, rotation: {max_megabytes: 4096}}}
service:
  extensions: [file_storage]
  pipelines: {logs: {receivers: [k8sobjects], exporters: [file]}}
  telemetry: {metrics: {level: none}}
`

var (
	kubejournal = way{
		name: "kubejournal", program: "kubejournal",
		args:   []string{"run", "configmaps", "--changes=false", "--output", outFile, "--checkpoint", "checkpoint.db"},
		decode: journalLine,
	}
	otel = way{
		name: "OTel k8sobjects with file_storage", program: "otelcol", args: []string{"--config", "file:config.yaml"},
		config: fmt.Sprintf(collector, false), decode: otlp,
	}
	otelInitial = way{
		name: "the same with include_initial_state", program: "otelcol", args: otel.args,
		config: fmt.Sprintf(collector, true), decode: otlp,
	}
	informer = way{name: "dynamic informer, by hand", program: "byhand", args: []string{"informer", outFile},
		decode: watchEvent}
	reflector = way{name: "client-go Reflector, by hand", program: "byhand", args: []string{"reflector", outFile},
		decode: watchEvent}
	kubectl = way{
		name: "`kubectl get --watch --output-watch-events -o json`", program: "kubectl",
		args:   []string{"get", "configmaps", "--all-namespaces", "--watch", "--output-watch-events", "-o", "json"},
		stdout: true, decode: watchEvent,
	}
	raw = way{name: "raw copy of the watch with net/http", program: "byhand", args: []string{"raw", outFile}}

	// Two of each, of which one writes; %s is the name of the Lease. The durations are those that both have by default.
	replicated = []way{
		{
			name: "kubejournal", program: "kubejournal",
			args: []string{"run", "--config", "config.yaml", "--changes=false"},
			config: "resources: [configmaps]\noutput: {path: out}\ncheckpoint: {path: checkpoint.db}\nlisten: " +
				"\"\"\nleaderElection: {leaseName: %s, leaseNamespace: default}\n",
			decode: journalLine,
		},
		{name: "OTel k8sobjects with k8s_leader_elector and file_storage", program: "otelcol", args: otel.args,
			config: elected(false), decode: otlp},
		{name: "the same with include_initial_state", program: "otelcol", args: otel.args, config: elected(true),
			decode: otlp},
	}

	keepers  = []way{kubejournal, otel, otelInitial, informer, reflector, kubectl}
	measured = []way{kubejournal, otel, informer, reflector, kubectl, raw}
)

// elected is the collector's config for one of several, with the Lease's name to be filled in.
func elected(initial bool) string {
	config := strings.Replace(fmt.Sprintf(collector, initial), "extensions: {",
		"extensions:\n  k8s_leader_elector: {auth_type: kubeConfig, lease_name: %s, lease_namespace: default}\n  "+
			"file_storage: {", 1)
	config = strings.Replace(config, "file_storage: {file_storage: {directory: ., create_directory: true}}",
		"file_storage: {directory: ., create_directory: true}", 1)
	config = strings.Replace(config, "    storage: file_storage\n",
		"    storage: file_storage\n    k8s_leader_elector: k8s_leader_elector\n", 1)
	return strings.Replace(config, "extensions: [file_storage]", "extensions: [file_storage, k8s_leader_elector]", 1)
}

// reader is a way with a folder of its own, over as many runs as it dies.
type reader struct {
	way
	*program.Process // the latest run; nil before the first
	dir              string
	runs             int
	tail             follower // of its output
	mark             int      // the newest that it has told of
}

// newReader makes a reader that does not run yet.
func (b *bench) newReader(w way) (*reader, error) {
	dir, err := os.MkdirTemp(b.dir, w.program+"-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	r := &reader{way: w, dir: dir, tail: follower{path: filepath.Join(dir, outFile)}}
	if w.config != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(w.config), 0o600); err != nil {
			return nil, fmt.Errorf("write config: %w", err)
		}
	}
	return r, nil
}

func (r *reader) out() string { return filepath.Join(r.dir, outFile) }

// start starts a run, with the output of those before it still there.
func (r *reader) start(b *bench) error {
	r.runs++
	cmd := exec.Command(b.programs[r.program], r.args...)
	cmd.Dir, cmd.Env = r.dir, program.Environ(r.dir, "KUBECONFIG="+b.cluster.Kubeconfig())
	if r.stdout {
		out, err := os.OpenFile(r.out(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
		if err != nil {
			return fmt.Errorf("start %s: %w", r.name, err)
		}
		defer out.Close()
		cmd.Stdout = out
	}
	p, err := program.Start(cmd, filepath.Join(r.dir, fmt.Sprintf("stderr-%d", r.runs)))
	if err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	r.Process = p
	return nil
}

// signal ends the run. It must have lived until then: a reader that gives up by itself is not compared as if it had
// not.
func (r *reader) signal(s syscall.Signal) error {
	if !r.Alive() {
		return r.fault("has ended by itself")
	}
	if err := r.Signal(s); err != nil {
		return err
	}
	if _, err := r.Exit(stopLimit); err != nil {
		r.End()
		return r.fault(err.Error())
	}
	return nil
}

func (r *reader) fault(what string) error {
	return fmt.Errorf("%s: %w", r.name, r.Fault(errors.New(what)))
}

// gapWords are how a program's log may tell that history was gone.
var gapWords = regexp.MustCompile(`\ba 410\b|Gone|Expired|too old resource version`)

// told reads all that the reader has written. logged says that the log of the last run tells of a gap.
func (r *reader) told() (o output, logged bool, err error) {
	data, err := os.ReadFile(r.out())
	if err != nil {
		return o, false, fmt.Errorf("read output of %s: %w", r.name, err)
	}
	log, err := r.Log()
	if err != nil {
		return o, false, err
	}
	return parse(data, r.decode), gapWords.Match(log), nil
}

// follower reads a file that grows.
type follower struct {
	path string
	file *os.File
	rest []byte // the end of what was read
}

// read returns what has come since the last call, after the end of what came before: a word of that length is in what
// is returned once, also where it came in two parts.
func (f *follower) read(word int) ([]byte, error) {
	if f.file == nil {
		file, err := os.Open(f.path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read output: %w", err)
		}
		f.file = file
	}
	var more bytes.Buffer
	if _, err := more.ReadFrom(f.file); err != nil {
		return nil, fmt.Errorf("read output: %w", err)
	}
	if more.Len() == 0 {
		return nil, nil
	}
	text := slices.Concat(f.rest, more.Bytes())
	f.rest = slices.Clone(text[max(0, len(text)-word+1):])
	return text, nil
}

func (f *follower) close() {
	if f.file != nil {
		f.file.Close()
	}
}

// group is readers that live and die together.
type group []*reader

func (b *bench) newGroup(ways []way) (group, error) {
	var g group
	for _, w := range ways {
		r, err := b.newReader(w)
		if err != nil {
			return nil, err
		}
		g = append(g, r)
	}
	return g, nil
}

func (g group) start(b *bench) error {
	for _, r := range g {
		if err := r.start(b); err != nil {
			return err
		}
	}
	return nil
}

func (g group) signal(s syscall.Signal) error {
	var errs []error
	for _, r := range g {
		errs = append(errs, r.signal(s))
	}
	return errors.Join(errs...)
}

// remove ends all runs and removes what they wrote.
func (g group) remove() {
	for _, r := range g {
		r.End()
		r.tail.close()
		_ = os.RemoveAll(r.dir) // what stays goes with the folder of all
	}
}

// caughtUp waits until every reader has told all that was written before the call. It makes marks until each reader
// has told of one, and then once more: what is told of a mark that is younger than the reader's list came by its watch.
func (g group) caughtUp(ctx context.Context, b *bench) error {
	const stages = 2
	for range stages {
		if err := g.marked(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// marked makes marks until every reader has told of one of them.
func (g group) marked(ctx context.Context, b *bench) error {
	const again, patience = time.Second, 2 * time.Minute
	first := b.marks + 1
	var last time.Time
	return program.Eventually(ctx, patience, "catch up", func() error {
		if time.Since(last) > again {
			if err := b.mark(ctx); err != nil {
				return program.Final(err)
			}
			last = time.Now()
		}
		var behind error
		for _, r := range g {
			text, err := r.tail.read(len(markPrefix) + markDigits)
			if err != nil {
				return program.Final(err)
			}
			switch r.mark = max(r.mark, newest(text)); {
			case r.mark >= first:
			case !r.Alive():
				return program.Final(r.fault("has ended by itself"))
			default:
				behind = errors.New(r.name + " is behind")
			}
		}
		return behind
	})
}
