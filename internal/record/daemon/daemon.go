// Package daemon is the process that watches and writes: what is opened in which order, what an edit of the config
// changes, and what a stop waits for.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/format/line"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/access"
	"kubejournal/internal/record/apilist"
	"kubejournal/internal/record/discovery"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/status"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/record/takeover"
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
	// ConfigPath is the config file; "" is none. Parse makes a config of its content and what overrides it.
	ConfigPath string
	Parse      func(content []byte) (*config.Config, error)
	// Hangup asks for a reload with each signal; nil never does.
	Hangup <-chan os.Signal
	Beside Beside // nil is nothing

	// What tests replace; nil is the real thing.

	Disk    disk.FS                                       // of the journal
	Server  func(config.Kubernetes) (*rest.Config, error) // finds the API server
	Changed <-chan struct{}                               // the config file or the kubeconfig may have changed
	// WrapRecording wraps what the recorder writes to.
	WrapRecording func(recorder.Output, recorder.Checkpoint) (recorder.Output, recorder.Checkpoint)
	// PulseEvery is as in streams.Manager.Pulse; default streams.PulseEvery.
	PulseEvery time.Duration
	// Assembled is called with what runs, before it does.
	Assembled func(*client.Client, *streams.Manager, *metrics.Metrics)
}

// Daemon is one run of kubejournal: a field for each part that runs, in the order in which the start makes them.
type Daemon struct {
	Options
	cfg        *config.Config // at the start
	about      status.About   // as of the start
	metrics    *metrics.Metrics
	startup    startup
	site       *status.Site
	output     recorder.Output
	store      *checkpoint.Store
	access     *client.Access
	client     *client.Client    // goes through access
	clusterUID string            // of the checkpoint's cluster; "" is unknown
	recording  recorder.Config   // from where on lines are written
	coverage   *coverage.File    // nil where the output is not a file
	elector    *takeover.Elector // nil where there is one replica
	lease      string            // namespace of the Lease
	clean      bool              // everything is written and committed
	resolver   *discovery.Resolver
	rec        *recorder.Recorder
	manager    *streams.Manager
	apis       *apilist.Recorder // nil where the output is not a file
	reload     *reloader

	server  *status.Server // answers with site; nil: nowhere. The start owns it, then the reloader, then close
	closers []func() error // of what was opened, in that order
}

// New returns a daemon that is still to run, once.
func New(cfg *config.Config, o Options) *Daemon {
	if o.Server == nil {
		o.Server = access.Find
	}
	if info, err := os.Stat(o.ConfigPath); err == nil && !info.Mode().IsRegular() {
		o.ConfigPath = "" // a pipe, whose content is read
	}
	d := &Daemon{Options: o, cfg: cfg, metrics: metrics.New(o.Version, o.Commit), about: status.About{
		Version: o.Version, Commit: o.Commit, Started: time.Now(), Cluster: cfg.Cluster,
		Config: absolute(o.ConfigPath), Output: absolute(cfg.Output.Path), Checkpoint: absolute(cfg.Checkpoint.Path),
	}}
	d.metrics.ReloadOK.Set(1)
	d.metrics.ReloadTime.SetToCurrentTime()
	d.metrics.SetConfig(cfg.Hash())
	d.startup.setText("opening the output and the checkpoint")
	d.site = status.NewSite(d.metrics.Registry,
		[]status.Check{{Name: "startup", Err: d.startup.err}},
		func() []streams.Status { return nil },
		func() status.About { return d.about })
	return d
}

// Run starts everything and runs until ctx ends, or until something breaks that only a restart can mend.
func (d *Daemon) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	stopSampling := d.site.Sample() // of the lines that the streams write
	defer stopSampling()

	// Start. What is on this machine comes first: a fault there is found at once. What may take long comes when the
	// daemon already answers over HTTP, and the journal is read when it is known which cluster it must be of.
	for _, step := range []func(context.Context) error{
		d.openOutput,
		d.listen,
		d.withRoom(d.openCheckpoint),
		d.checkShard,
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
		zap.String("output", d.about.Output), zap.String("checkpoint", d.about.Checkpoint),
		zap.Uint64("seq", d.recording.Seq))

	// Reload, until everything else has ended.
	reloads, stopReloads := context.WithCancel(ctx)
	var reloading sync.WaitGroup
	reloading.Go(func() { d.reload.run(reloads) })

	stopBeside := d.runBeside()
	defer stopBeside()

	// Take part in the election until everything is written and committed: who takes over then repeats nothing.
	stopElection := d.elect()
	defer stopElection()

	// Run the streams until ctx ends, and the recorder until it has written and committed what they have left. After
	// ctx's end that takes at most stopTimeout, whatever a part waits for.
	running, stopStreams := context.WithCancel(ctx)
	writing, stopWriting := context.WithCancel(context.Background())
	defer stopWriting()
	limit := stopTimeout
	if d.elector != nil {
		limit -= takeover.ReleaseTimeout
	}
	defer context.AfterFunc(running, func() { time.AfterFunc(limit, stopWriting) })()
	streamsEnded := make(chan error, 1)
	go func() {
		pulses, stopPulses := context.WithCancel(running)
		var pulsing sync.WaitGroup
		if d.coverage != nil {
			pulsing.Go(func() { d.manager.Pulse(pulses, cmp.Or(d.PulseEvery, streams.PulseEvery)) })
		}
		err := d.manager.Run(running)
		stopPulses()
		pulsing.Wait()
		d.rec.Close()
		streamsEnded <- err
	}()
	err = d.rec.Run(writing)
	stopStreams() // without a recorder they would wait for ever

	// Shut down.
	fault := errors.New("stop streams: one does not answer")
	select {
	case fault = <-streamsEnded:
	case <-writing.Done():
		if len(streamsEnded) > 0 { // both came at once
			fault = <-streamsEnded
		}
	}
	stopReloads()
	reloading.Wait()
	stopBeside()
	stopElection()
	if err = errors.Join(fault, err); err == nil && ctx.Err() != nil {
		d.clean = true
		d.Log.Info("stopped, everything is written and committed")
	}
	if errors.As(err, new(*client.ClusterError)) {
		return fmt.Errorf("%s: %w, and nothing of it was written; have the address lead to the journalled "+
			"cluster again, or name another checkpoint and output for this one", d.host(), err)
	}
	return err
}

// close closes what was opened, the latest first.
func (d *Daemon) close() error {
	d.answerOn(nil)
	var errs []error
	for _, closeOne := range slices.Backward(d.closers) {
		errs = append(errs, closeOne())
	}
	return errors.Join(errs...)
}

// assemble makes the parts that run, of what the steps before it have opened, and shows them over HTTP.
func (d *Daemon) assemble(context.Context) error {
	out, store := d.output, recorder.Checkpoint(d.store)
	if d.WrapRecording != nil {
		out, store = d.WrapRecording(out, store)
	}
	d.recording.Interval, d.recording.NoSync = d.cfg.Checkpoint.Interval, d.cfg.Output.Sync == config.SyncNever
	d.recording.Metrics, d.recording.Log, d.recording.Cluster = d.metrics, d.Log, d.cfg.Cluster
	if d.cfg.LeaderElection.LeaseName != "" {
		d.recording.Replica = takeover.NewReplica()
	}
	d.rec = recorder.New(out, store, d.recording)
	if err := d.joinElection(); err != nil {
		return err
	}
	d.manager = streams.New(d.client, d.resolver, d.store, d.rec, d.streamOptions(d.cfg), d.metrics, d.Log)
	faults := append(unknownArguments(d.cfg, d.resolver), asFaults(d.manager.CheckOptions(d.streamOptions(d.cfg)))...)
	if len(faults) > 0 {
		return faults
	}
	if file, ok := d.output.(*journal.File); ok {
		d.apis = apilist.New(apilist.Config{
			Server: d.client, Journal: file.Path(), Oldest: func() time.Time { return file.Extent().Oldest },
			Disk: d.Disk, Log: d.Log, Failed: d.metrics.APIErrors.Inc,
		})
		d.manager.Rediscovered = d.apis.Changed
	}
	d.metrics.WatchJournal(d.journal)
	d.metrics.WatchServer(func() float64 {
		if d.manager.Outage().Since.IsZero() {
			return 1
		}
		return 0
	})
	d.reload = &reloader{d: d}
	d.reload.inEffect.Store(d.cfg)
	d.reload.last.Store(new(status.Reload))
	checks := []status.Check{
		// it was loaded, or we would not be here
		{Name: "config", Err: func() error { return nil }, Note: d.reload.note},
		{Name: "output", Err: d.outputError},
		{Name: "checkpoint", Err: d.rec.CheckpointError},
		{Name: status.ServerCheck, Err: d.manager.Reachable, Note: func() string {
			return d.manager.Outage().Text(time.Now())
		}},
		{Name: "streams", Err: d.streamsReady, Note: d.manager.Stalled},
	}
	if d.elector != nil {
		checks = append(checks, status.Check{Name: "leaderElection", Err: d.elector.Err, Note: d.whoWrites})
	}
	d.site.Show(
		checks,
		d.manager.Streams,
		func() status.About {
			about := d.about
			about.Cluster, about.Server = d.reload.inEffect.Load().Cluster, d.host()
			about.Progress, about.Reload = d.rec.Progress(), *d.reload.last.Load()
			about.Journal, about.Outage = d.journal(), d.manager.Outage()
			about.Election, about.Audit = d.election(), d.metrics.Audit()
			about.OutputSpace.Free, about.OutputSpace.Size = d.metrics.Space("output")
			about.CheckpointSpace.Free, about.CheckpointSpace.Size = d.metrics.Space("checkpoint")
			return about
		})
	if d.Assembled != nil {
		d.Assembled(d.client, d.manager, d.metrics)
	}
	return nil
}

// Handler answers what the daemon answers where it listens.
func (d *Daemon) Handler() http.Handler { return d.site }

// absolute is a path for people; "" and "-" stay.
func absolute(path string) string {
	if path == config.Stdout {
		return path
	}
	return disk.Absolute(path)
}

// journal is how far the journal reaches, from the first line to the last.
func (d *Daemon) journal() metrics.Journal {
	is := metrics.Journal{Seq: d.rec.Progress().Written}
	if file, ok := d.output.(*journal.File); ok {
		extent := file.Extent()
		is.Oldest, is.Segments = extent.Oldest, extent.Segments
	}
	return is
}

// outputError is why the output cannot be written, rotated files included.
func (d *Daemon) outputError() error {
	if file, ok := d.output.(*journal.File); ok {
		return errors.Join(d.rec.OutputError(), file.TidyError())
	}
	return d.rec.OutputError()
}

// streamOptions is the part of a config that concerns streams.
func (d *Daemon) streamOptions(cfg *config.Config) streams.Options {
	longest := cfg.Output.MaxLineBytes
	if cfg.LeaderElection.LeaseName != "" && longest > 0 {
		longest -= int64(line.LongestTerm) // which comes when a line is numbered
	}
	return streams.Options{
		Cluster: cfg.Cluster, ClusterUID: d.clusterUID, Resources: cfg.Resources,
		RedactSecrets: cfg.RedactSecrets, Redact: cfg.Redact, DropFields: cfg.DropFields,
		MaxLineBytes: longest,
	}
}

// unknownArguments returns a fault for each argument that names nothing the server has or may get. An entry of a file
// waits instead: a daemon is not to stay down for one of them.
func unknownArguments(cfg *config.Config, resolver *discovery.Resolver) (faults config.Faults) {
	for i, resolved := range resolver.ResolveAll(cfg.Resources) {
		entry := cfg.Resources[i]
		missing, is := errors.AsType[*discovery.NotFoundError](resolved.Err)
		if !is || missing.MayCome() || entry.File != config.CommandLine {
			continue
		}
		msg := missing.Error()
		name, _, _ := strings.Cut(entry.Name, ".")
		if missing.Near == "" {
			msg += "; see 'kubejournal resources' for what it has. A custom resource that is still to come needs its " +
				"group, e.g. " +
				strings.ToLower(name) + ".example.com"
		}
		faults = append(faults, cfg.Fault(entry.Entry, "resource", msg))
	}
	return faults
}

// asFaults makes config faults of what only the server could find.
func asFaults(errs []error) (faults config.Faults) {
	for _, err := range errs {
		faults = append(faults, config.Fault{Msg: err.Error()})
	}
	return faults
}
