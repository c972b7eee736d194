// Package daemon is the process that watches and writes: what is opened in which order, what an edit of the config
// changes, and what a stop waits for.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"kubejournal/internal/access"
	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/disk"
	"kubejournal/internal/journal"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/manager"
	"kubejournal/internal/metrics"
	"kubejournal/internal/ops"
	"kubejournal/internal/recorder"
)

// stopTimeout is how long a stop may take to write and commit what is left, so that the process is gone within 5 s.
const stopTimeout = 4500 * time.Millisecond

// Options is what a run takes besides its config.
type Options struct {
	Version, Commit string
	Log             *zap.Logger
	Level           zap.AtomicLevel // of Log; a reload sets it
	Stdout          io.Writer
	// Display wraps Stdout to show lines to people; nil writes them as they are.
	Display func(io.Writer) io.Writer
	// ProfileAddress is where Go profiles are served, before anything else starts; "" is nowhere.
	ProfileAddress string
	// ConfigPath is the config file; "" is none. Parse makes a config of its content and what overrides it.
	ConfigPath string
	Parse      func(content []byte) (*config.Config, error)
	// Hangup asks for a reload with each signal; nil never does.
	Hangup <-chan os.Signal

	// What tests replace; nil is the real thing.

	Disk disk.FS // of the journal
	// Server finds the API server.
	Server func(config.Kubernetes) (*rest.Config, error)
	// Changed replaces the watch on the config file and the kubeconfig: each of them may have changed.
	Changed <-chan struct{}
	// WrapRecording wraps what the recorder writes to.
	WrapRecording func(recorder.Output, recorder.Checkpoint) (recorder.Output, recorder.Checkpoint)
	// Assembled is called with what runs, before it does.
	Assembled func(*kubeclient.Client, *manager.Manager, *metrics.Metrics)
}

// Daemon is one run of kubejournal. Its fields are in the order in which they are made; close takes them down in the
// opposite order.
type Daemon struct {
	Options
	cfg      *config.Config // at the start
	about    ops.About      // as of the start
	metrics  *metrics.Metrics
	startup  startup
	listener listener
	output   output
	store    *checkpoint.Store
	apiServer
	clusterUID string          // of the checkpoint's cluster; "" is unknown
	recording  recorder.Config // from where on lines are written
	rec        *recorder.Recorder
	manager    *manager.Manager
	reload     *reloader
}

// output is a journal.File or a journal.Stream.
type output interface {
	recorder.Output
	Close() error
}

// New returns a daemon that is still to run, once.
func New(cfg *config.Config, o Options) *Daemon {
	if o.Server == nil {
		o.Server = access.Find
	}
	d := &Daemon{Options: o, cfg: cfg, metrics: metrics.New(o.Version, o.Commit)}
	d.about = ops.About{
		Version: d.Version, Commit: d.Commit, Started: time.Now(), Cluster: cfg.Cluster,
		Config: d.ConfigPath, Output: cfg.Output.Path, Checkpoint: cfg.Checkpoint.Path,
	}
	d.metrics.ReloadOK.Set(1)
	d.metrics.ReloadTime.SetToCurrentTime()
	d.metrics.SetConfig(cfg.Hash())
	d.startup.setText("opening the output and the checkpoint")
	d.listener.site = ops.NewSite(d.metrics.Registry,
		[]ops.Check{{Name: "startup", Err: d.startup.err}},
		func() []manager.StreamStatus { return nil },
		func() ops.About { return d.about })
	return d
}

// Run starts everything and runs until ctx ends, or until something breaks that only a restart can mend.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	if d.ProfileAddress != "" {
		server, err := ops.Listen(d.ProfileAddress, ops.ProfileHandler())
		if err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		server.Serve(d.Log, "serving profiles")
		defer server.Close() //nolint:errcheck // a profile under way does not matter any more
	}
	// What is on this machine comes first: a fault there is found at once. What may take long comes when the daemon
	// already answers over HTTP, and the journal is read when it is known which cluster it must be of.
	for _, step := range []func(context.Context) error{
		d.openOutput,
		d.withRoom(d.openCheckpoint),
		d.listen,
		d.connect,
		d.identify,
		d.withRoom(d.recover),
		d.discover,
		d.assemble,
	} {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				d.Log.Info("stopped before anything began")
				return nil
			}
			return err
		}
	}
	d.Log.Info("running", zap.String("version", d.Version), zap.String("server", d.host()),
		zap.String("output", d.cfg.Output.Path), zap.String("checkpoint", d.cfg.Checkpoint.Path), zap.Uint64("seq", d.recording.Seq))
	stopReloads := d.reload.start(ctx)
	err = d.explainCluster(d.runParts(ctx))
	stopReloads()
	if ctx.Err() != nil && err == nil {
		d.Log.Info("stopped, everything is written and committed")
	}
	return err
}

// assemble makes the parts that run, of what the steps before it have opened, and shows them over HTTP.
func (d *Daemon) assemble(context.Context) error {
	var out recorder.Output = d.output
	var store recorder.Checkpoint = d.store
	if d.WrapRecording != nil {
		out, store = d.WrapRecording(out, store)
	}
	d.recording.Interval, d.recording.NoSync = d.cfg.Checkpoint.Interval, d.cfg.Output.Sync == config.SyncNever
	d.recording.Metrics, d.recording.Log = d.metrics, d.Log
	d.rec = recorder.New(out, store, d.recording)
	d.manager = manager.New(d.client, d.resolver, d.store, d.rec, d.streamOptions(d.cfg), d.metrics, d.Log)
	if errs := d.manager.CheckOptions(d.streamOptions(d.cfg)); len(errs) > 0 {
		return asFaults(errs)
	}
	d.reload = newReloader(d)
	d.listener.site.Show(
		[]ops.Check{
			{Name: "config", Err: func() error { return nil }, Note: d.reload.note}, // it was loaded, or we would not be here
			{Name: "output", Err: d.outputError},
			{Name: "checkpoint", Err: d.rec.CheckpointError},
			{Name: "streams", Err: d.manager.Synced, Note: d.manager.Stalled},
		},
		d.manager.Streams,
		func() ops.About {
			about := d.about
			about.Cluster, about.Config = d.reload.inEffect.Load().Cluster, d.reload.path
			about.Server, about.Progress, about.Reload = d.host(), d.rec.Progress(), *d.reload.last.Load()
			return about
		})
	if d.Assembled != nil {
		d.Assembled(d.client, d.manager, d.metrics)
	}
	return nil
}

// outputError is why the output cannot be written, rotated files included.
func (d *Daemon) outputError() error {
	if file, ok := d.output.(*journal.File); ok {
		return errors.Join(d.rec.OutputError(), file.TidyError())
	}
	return d.rec.OutputError()
}

// streamOptions is the part of a config that concerns streams.
func (d *Daemon) streamOptions(cfg *config.Config) manager.Options {
	return manager.Options{
		Cluster: cfg.Cluster, ClusterUID: d.clusterUID, Resources: cfg.Resources,
		RedactSecrets: cfg.RedactSecrets, Redact: cfg.Redact, DropFields: cfg.DropFields,
		MaxLineBytes: cfg.Output.MaxLineBytes,
	}
}

// asFaults makes config faults of what only the server could find.
func asFaults(errs []error) config.Faults {
	var faults config.Faults
	for _, err := range errs {
		faults = append(faults, config.Fault{Msg: err.Error()})
	}
	return faults
}

// runParts runs the streams and the recorder and stops them in order: streams first, then the recorder, which writes
// and commits what the streams have left. From ctx's end on it takes at most stopTimeout, whatever a part waits for.
func (d *Daemon) runParts(ctx context.Context) error {
	streams, stopStreams := context.WithCancel(ctx)
	defer stopStreams()
	writing, stopWriting := context.WithCancel(context.Background())
	defer stopWriting()
	late := time.AfterFunc(math.MaxInt64, stopWriting)
	defer late.Stop()
	defer context.AfterFunc(streams, func() { late.Reset(stopTimeout) })()

	managed := make(chan error, 1)
	go func() {
		err := d.manager.Run(streams)
		d.rec.Close()
		managed <- err
	}()
	err := d.rec.Run(writing)
	stopStreams() // without a recorder they would wait for ever
	select {
	case other := <-managed:
		return errors.Join(other, err)
	case <-writing.Done():
	}
	select {
	case other := <-managed: // both at once
		return errors.Join(other, err)
	default:
		return errors.Join(errors.New("stop streams: one does not answer"), err)
	}
}

// close takes down what was opened.
func (d *Daemon) close() error {
	d.listener.use(nil, d.Log)
	var errs []error
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.output != nil {
		errs = append(errs, d.output.Close())
	}
	return errors.Join(errs...)
}
