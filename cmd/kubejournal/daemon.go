package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapio"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	resources "kubejournal/internal/discovery"
	"kubejournal/internal/journal"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/logging"
	"kubejournal/internal/manager"
	"kubejournal/internal/metrics"
	"kubejournal/internal/ops"
	"kubejournal/internal/recorder"
)

const (
	// reachTimeout is how long a start waits for an API server that does not
	// answer: a node's boot, a server's restart.
	reachTimeout = 15 * time.Second
	reachPause   = 500 * time.Millisecond
	// fullPause is between two attempts of a start on a full disk.
	fullPause = 2 * time.Second
	// stopTimeout is how long a stop may take to write and commit what is left,
	// so that the process is gone within 5 s.
	stopTimeout = 4500 * time.Millisecond
	// discoveryRate is in requests per second: servers without aggregated
	// discovery are asked once per group and version.
	discoveryRate = 50
)

// daemon is the parts of a running kubejournal, in the order in which they are
// made; close takes them down in the opposite order.
type daemon struct {
	cfg     *config.Config
	log     *zap.Logger
	build   build
	metrics *metrics.Metrics
	access  *kubeclient.Access
	rest    *rest.Config // that goes through access
	client  *kubeclient.Client
	output  output
	store   *checkpoint.Store
	seq     uint64               // of the last line in the journal
	file    *checkpoint.FileMark // of the journal file that came before stdout; nil where the output is a file
	// clusterUID is that of the checkpoint's cluster; "" is unknown.
	clusterUID string
	startup    startup
	site       *ops.Site
	server     *ops.Server // until run has it; nil listens nowhere
	// find returns what finds the API server anew each time.
	find func(config.Kubernetes) func() (*rest.Config, error)

	resolver *resources.Resolver
}

// output is a journal.File or a journal.Stream.
type output interface {
	recorder.Output
	Close() error
}

// manner is what a run is told beside its config.
type manner struct {
	// profile is the address that Go profiles are served on, from before the start on; "" is none.
	profile string
	// show is put in front of stdout; nil writes lines as they are.
	show func(io.Writer) io.Writer
	// path is the config file's; "" is none. parse makes a config of what it
	// holds and of all that is put over it.
	path  string
	parse func(data []byte) (*config.Config, error)
	// level is the log's.
	level zap.AtomicLevel
}

// runDaemon runs until ctx ends or something breaks that cannot be mended while running.
func runDaemon(ctx context.Context, cfg *config.Config, log *zap.Logger, stdout io.Writer, told manner) (err error) {
	logging.RouteKubernetes(log)
	// A reader of stdout that goes away is an error to report, not a signal to die of.
	signal.Ignore(syscall.SIGPIPE)
	// From here on, so that one during the start is neither lost nor the end.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	recorded, _ := debug.ReadBuildInfo()
	info := readBuild(recorded)
	d := &daemon{cfg: cfg, log: log, build: info, metrics: metrics.New(info.version, info.commit)}
	d.metrics.ReloadOK.Set(1)
	d.metrics.ReloadTime.SetToCurrentTime()
	d.metrics.SetConfig(cfg.Hash())
	defer func() { err = errors.Join(err, d.close()) }()
	if told.profile != "" {
		server, err := d.serve("serving profiles", told.profile, ops.ProfileHandler())
		if err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		defer server.Close() //nolint:errcheck // a profile under way does not matter any more
	}
	d.site = d.newSite(told.path)
	// What is on this machine first: it is the cheapest to be wrong. What may take
	// long comes once the daemon answers how far it is, and the journal once it is
	// known of which cluster it must be.
	for _, step := range []func(context.Context) error{
		func(context.Context) error { return d.openOutput(stdout, told.show) },
		d.withRoom(func(context.Context) error { return d.openCheckpoint() }),
		func(context.Context) error { return d.listen() },
		func(context.Context) error { return d.connect() },
		d.identify,
		d.withRoom(d.recover),
		d.discover,
	} {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				log.Info("stopped before anything began")
				return nil
			}
			return err
		}
	}
	return d.run(ctx, told, hangup)
}

// withRoom does a step of the start again while the disk is full: a daemon that
// has started would wait for space too.
func (d *daemon) withRoom(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for told := false; ; told = true {
			err := step(ctx)
			if !diskFull(err) {
				return err
			}
			if !told {
				d.log.Error("the disk is full, waiting for space to start", zap.Error(err))
				if err := d.listen(); err != nil {
					return err
				}
			}
			d.startup.says("the disk is full, waiting for space: " + err.Error())
			if !pause(ctx, fullPause) {
				return err
			}
		}
	}
}

// diskFull looks at the words too: bbolt does not wrap what it could not do.
func diskFull(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || strings.Contains(err.Error(), syscall.ENOSPC.Error()))
}

func (d *daemon) openOutput(stdout io.Writer, show func(io.Writer) io.Writer) error {
	if d.cfg.Output.Path == config.Stdout {
		if f, ok := stdout.(*os.File); ok && wasClosed(f) {
			return errors.New("output.path: stdout is closed; open it, or name a file")
		}
		if show != nil {
			stdout = show(display{stdout})
		}
		d.output = journal.NewStream(stdout)
		return nil
	}
	o := journalOptions(d.cfg.Output)
	o.Log, o.Failed = d.log, func(error) { d.metrics.OutputErrors.Inc() }
	f, err := journal.OpenFile(d.cfg.Output.Path, o)
	if err != nil {
		return fmt.Errorf("output.path: %w%s", err, remedy(err))
	}
	d.output = f
	d.metrics.WatchFilesystem("output", filepath.Dir(f.Path()))
	return nil
}

// display is a stdout that people look at. It reports that it was closed as a pipe
// does: SIGHUP, which tells programs so, does not end this one.
type display struct{ io.Writer }

func (d display) Write(p []byte) (int, error) {
	n, err := d.Writer.Write(p)
	if errors.Is(err, syscall.EIO) {
		err = errors.Join(io.ErrClosedPipe, err)
	}
	return n, err
}

// wasClosed tells whether a standard stream was closed when the process began:
// Go's runtime then opens /dev/null in its place, for reading and writing, and
// every line would seem to be written.
func wasClosed(f *os.File) bool {
	is, err := f.Stat()
	if err != nil {
		return true
	}
	null, err := os.Stat(os.DevNull)
	if err != nil || !os.SameFile(is, null) {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

// openCheckpoint opens the checkpoint. A damaged one is set aside under another
// name, and what is lost with it shows in the journal as GAP lines.
func (d *daemon) openCheckpoint() error {
	path := d.cfg.Checkpoint.Path
	if path == "" {
		store, err := checkpoint.OpenTemp()
		if err != nil {
			return fmt.Errorf("checkpoint.path is empty, and none can be kept while it runs: %w; set TMPDIR to a folder that can be written, or name a file", err)
		}
		d.store = store
		return nil
	}
	store, err := checkpoint.Open(path)
	if errors.Is(err, checkpoint.ErrDamaged) {
		kept, asideErr := checkpoint.SetAside(path, time.Now())
		if asideErr != nil {
			return fmt.Errorf("checkpoint.path: %w: %w", err, asideErr)
		}
		d.log.Error("checkpoint is damaged, beginning a new one", zap.Error(err), zap.String("kept", kept))
		store, err = checkpoint.Open(path)
	}
	if err != nil {
		return fmt.Errorf("checkpoint.path: %w%s", err, remedy(err))
	}
	d.store = store
	if err := store.OwnerError(); err != nil {
		d.log.Warn(err.Error(), zap.String("path", store.Path()))
	}
	d.metrics.WatchFilesystem("checkpoint", filepath.Dir(store.Path()))
	if marked, err := store.Marked(); err != nil || marked {
		return err
	}
	// Also where an earlier start set it aside and came no further.
	lost, err := checkpoint.WasSetAside(path)
	if err == nil && lost {
		err = store.SetLost()
	}
	return err
}

// remedy is what a user can do about a file that cannot be opened.
func remedy(err error) string {
	switch {
	case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, journal.ErrLocked):
		return "; stop the other kubejournal, or name another file"
	case errors.Is(err, checkpoint.ErrNewerSchema):
		return "; run that version, or name another file"
	case errors.Is(err, fs.ErrNotExist):
		return "; create its folder, or name another file"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EISDIR):
		return "; name a file that can be written here"
	}
	return ""
}

// recover takes what a crash left in the journal into the checkpoint.
func (d *daemon) recover(ctx context.Context) error {
	file, ok := d.output.(*journal.File)
	if !ok {
		mark, err := d.store.Mark()
		last := mark.LastFile()
		d.seq, d.file = mark.Seq, &last
		return err
	}
	d.startup.is(func() string { return recovering(file) })
	found, err := recorder.Recover(ctx, file, d.store)
	if other := new(recorder.ClusterError); errors.As(err, &other) {
		return fmt.Errorf("output.path: %s is the journal of another cluster (line %d: %s; this cluster is %s); name another output for this cluster, or its own",
			file.Path(), other.Seq, other.Journal, other.Checkpoint)
	}
	if err != nil {
		return err
	}
	d.seq = found.Seq
	if found.Stdout > 0 {
		d.log.Warn("lines were written to stdout since the last write to this file; the file continues with its own seq",
			zap.String("path", file.Path()), zap.Uint64("fileSeq", found.Seq), zap.Uint64("checkpointSeq", found.Stdout))
	}
	d.metrics.LastCommit.SetToCurrentTime()
	switch {
	case found.Lost:
		d.log.Warn("there is a journal but no checkpoint: each stream lists again, and tells of the gap where it finds one", zap.String("path", file.Path()))
	case found.Hole:
		d.log.Error("committed lines are missing, or this is another daemon's journal: each stream writes a GAP and reports every object again",
			zap.String("path", file.Path()), zap.Uint64("fileSeq", file.LastSeq()), zap.Uint64("checkpointSeq", found.Seq))
	case found.Misplaced:
		d.log.Warn("the last committed line is in a different file than when it was committed; if output.path belongs to another daemon, stop and give each its own",
			zap.String("path", file.Path()), zap.Uint64("seq", found.Seq))
	case found.Gone > 0:
		d.log.Warn("lines that were written are not among the journal's files any more: they were moved away, removed or emptied",
			zap.String("path", file.Path()), zap.Uint64("fromSeq", found.Seq-found.Gone+1), zap.Uint64("toSeq", found.Seq))
	}
	if found.Cut > 0 || found.Lines > 0 {
		d.log.Info("read back the journal's tail", zap.String("path", file.Path()),
			zap.Int("lines", found.Lines), zap.Int64("cutBytes", found.Cut), zap.Uint64("seq", found.Seq), zap.Uint64("resumedAtSeq", found.Resumed))
	}
	return nil
}

// connect finds the API server, as kubectl does; and again when it is not to be
// reached that way any more.
func (d *daemon) connect() error {
	// Each of the server's warnings once, not at every request.
	warnings := rest.NewWarningWriter(&zapio.Writer{Log: d.log, Level: zap.WarnLevel}, rest.WarningWriterOptions{Deduplicate: true})
	d.find = func(k config.Kubernetes) func() (*rest.Config, error) {
		return func() (*rest.Config, error) {
			c, err := serverConfig(k)
			if err != nil {
				return nil, err
			}
			c.WarningHandler = warnings
			return c, nil
		}
	}
	access, err := kubeclient.NewAccess(d.find(d.cfg.Kubernetes), d.sameCluster, d.log)
	if err != nil {
		return noServer(err)
	}
	d.access, d.rest = access, access.Config()
	d.client, err = kubeclient.New(d.rest)
	return err
}

// discover asks the server what it serves.
func (d *daemon) discover(ctx context.Context) error {
	d.startup.says("asking the API server what it serves")
	c := rest.CopyConfig(d.rest)
	c.QPS, c.Burst = discoveryRate, 2*discoveryRate
	client, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	d.resolver = resources.New(client)
	err = d.reach(ctx, d.resolver.Refresh)
	if partial := new(resources.PartialError); errors.As(err, &partial) {
		d.log.Warn("discovery is incomplete", zap.Error(err))
		return nil
	}
	return err
}

// reach asks the server something, for a while again where there is no answer.
func (d *daemon) reach(ctx context.Context, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for told := false; ; {
		err := ask(limited)
		partial := new(resources.PartialError)
		switch {
		case err == nil, errors.As(err, &partial), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return err
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("the API server %s does not accept these credentials: %w; check the kubeconfig and its context", withoutPassword(d.rest.Host), err)
		case mayPass(err) && limited.Err() == nil:
			if !told {
				told = true
				d.log.Info("waiting for the API server", zap.String("server", withoutPassword(d.rest.Host)), zap.Duration("atMost", reachTimeout), zap.Error(err))
			}
			d.startup.says(fmt.Sprintf("waiting for the API server %s: %v", withoutPassword(d.rest.Host), err))
			if pause(limited, reachPause) {
				continue
			}
		}
		return fmt.Errorf("ask the API server %s: %w", withoutPassword(d.rest.Host), err)
	}
}

// pause waits for d and tells whether it passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mayPass reports whether an error is that of a server, or of a proxy before it,
// that is just starting.
func mayPass(err error) bool {
	var n net.Error
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError {
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		errors.As(err, &n) && n.Timeout() || apierrors.IsTooManyRequests(err)
}

// run runs the streams and the recorder until ctx ends.
func (d *daemon) run(ctx context.Context, told manner, hangup <-chan os.Signal) (err error) {
	if d.clusterUID, err = d.store.Cluster(); err != nil {
		return err
	}
	rec := recorder.New(d.output, d.store, recorder.Config{
		Interval: d.cfg.Checkpoint.Interval, NoSync: d.cfg.Output.Sync == config.SyncNever,
		Seq: d.seq, File: d.file, Metrics: d.metrics, Log: d.log,
	})
	manager, err := d.newManager(rec)
	if err != nil {
		return err
	}
	reload := newReloader(d, manager, rec, told, hangup)
	ready := []ops.Check{
		{Name: "config", Err: func() error { return nil }, Note: reload.note}, // it was loaded, or we would not be here
		{Name: "output", Err: d.outputError(rec)},
		{Name: "checkpoint", Err: rec.CheckpointError},
		{Name: "streams", Err: manager.Synced, Note: manager.Stalled},
	}
	d.site.Show(ready, manager.Streams, d.about(reload, rec, time.Now()))
	reload.site = d.site
	reload.use(d.server)
	d.server = nil // reload's
	defer reload.use(nil)
	d.log.Info("running", zap.String("version", d.build.version), zap.String("server", withoutPassword(d.rest.Host)),
		zap.String("output", d.cfg.Output.Path), zap.String("checkpoint", d.cfg.Checkpoint.Path), zap.Uint64("seq", d.seq))
	stopReloads := reload.start(ctx)
	err = d.asForeign(runParts(ctx, manager, rec))
	stopReloads()
	if ctx.Err() != nil && err == nil {
		d.log.Info("stopped, everything is written and committed")
	}
	return err
}

// about returns what says of the daemon itself how it stands.
func (d *daemon) about(reload *reloader, rec *recorder.Recorder, started time.Time) func() ops.About {
	return func() ops.About {
		return ops.About{
			Version: d.build.version, Commit: d.build.commit, Started: started,
			Cluster: reload.inEffect.Load().Cluster, Server: withoutPassword(d.access.Host()), Config: reload.path,
			Output: d.cfg.Output.Path, Checkpoint: d.cfg.Checkpoint.Path, // neither can change while it runs
			Progress: rec.Progress(), Reload: reload.result(),
		}
	}
}

// serve listens on addr and logs that, in the words of msg.
func (d *daemon) serve(msg, addr string, h http.Handler) (*ops.Server, error) {
	server, err := ops.Listen(addr, h)
	if err != nil {
		return nil, err
	}
	d.announce(msg, server)
	return server, nil
}

// announce logs that a server listens, and later that it does no longer.
func (d *daemon) announce(msg string, server *ops.Server) {
	d.log.Info(msg, zap.String("address", server.Addr().String()))
	go func() {
		if err := <-server.Done(); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("no longer "+msg, zap.Error(err))
		}
	}()
}

// outputError is why the output cannot be written, rotated files included.
func (d *daemon) outputError(rec *recorder.Recorder) func() error {
	file, ok := d.output.(*journal.File)
	if !ok {
		return rec.OutputError
	}
	return func() error { return errors.Join(rec.OutputError(), file.TidyError()) }
}

func (d *daemon) newManager(rec *recorder.Recorder) (*manager.Manager, error) {
	manager := manager.New(d.client, d.resolver, d.store, rec, d.streamOptions(d.cfg), d.metrics, d.log)
	if errs := manager.Check(); len(errs) > 0 {
		return nil, asFaults(errs)
	}
	return manager, nil
}

// streamOptions is what a config says of streams.
func (d *daemon) streamOptions(cfg *config.Config) manager.Options {
	return manager.Options{
		Cluster: cfg.Cluster, ClusterUID: d.clusterUID, Resources: cfg.Resources,
		RedactSecrets: cfg.RedactSecrets, Redact: cfg.Redact, DropFields: cfg.DropFields,
		MaxLineBytes: cfg.Output.MaxLineBytes,
	}
}

// journalOptions is what a config says of the journal's files.
func journalOptions(o config.Output) journal.Options {
	return journal.Options{MaxSize: o.MaxSize, MaxAge: o.MaxAge, MaxFiles: o.MaxFiles, Compress: o.Compress}
}

// asFaults makes config faults of what only the server could tell.
func asFaults(errs []error) config.Faults {
	var faults config.Faults
	for _, err := range errs {
		faults = append(faults, config.Fault{Msg: err.Error()})
	}
	return faults
}

// runParts runs both parts and stops them in order: streams first, then the
// recorder, which writes and commits what the streams have left. From ctx's end
// on it takes at most stopTimeout, whatever a part waits for.
func runParts(ctx context.Context, manager *manager.Manager, rec *recorder.Recorder) error {
	streams, stopStreams := context.WithCancel(ctx)
	defer stopStreams()
	writing, stopWriting := context.WithCancel(context.Background())
	defer stopWriting()
	late := time.AfterFunc(math.MaxInt64, stopWriting)
	defer late.Stop()
	defer context.AfterFunc(streams, func() { late.Reset(stopTimeout) })()

	managed := make(chan error, 1)
	go func() {
		err := manager.Run(streams)
		rec.Close()
		managed <- err
	}()
	err := rec.Run(writing)
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

// close takes the parts down.
func (d *daemon) close() error {
	var errs []error
	if d.server != nil {
		_ = d.server.Close() // what it was answering does not matter any more
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	if d.output != nil {
		errs = append(errs, d.output.Close())
	}
	return errors.Join(errs...)
}
