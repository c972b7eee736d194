package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/access"
	"kubejournal/internal/record/discovery"
	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/status"
)

const (
	// fullPause is between two attempts of a start on a full disk.
	fullPause = 2 * time.Second
	// reachTimeout is how long a start waits for an API server that does not answer: a node's boot, a server's restart.
	reachTimeout = 15 * time.Second
	reachPause   = 500 * time.Millisecond
	// discoveryRate is in requests per second: servers without aggregated discovery are asked once per group and
	// version.
	discoveryRate = 50
)

// startup is what a start is doing, for /readyz. Safe for concurrent use.
type startup struct{ doing atomic.Pointer[func() string] }

// set sets what the start is doing from now on; doing is called for each request.
func (s *startup) set(doing func() string) { s.doing.Store(&doing) }

// setText is set with a fixed text.
func (s *startup) setText(text string) { s.set(func() string { return text }) }

// err is why the daemon is not ready: it starts.
func (s *startup) err() error { return errors.New((*s.doing.Load())()) }

// withRoom repeats a step of the start while the disk is full: a daemon that has started would wait for space too.
func (d *Daemon) withRoom(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for logged := false; ; logged = true {
			err := step(ctx)
			if !isDiskFull(err) {
				return err
			}
			if !logged {
				d.Log.Error("the disk is full, waiting for space to start", zap.Error(err))
			}
			d.startup.setText("the disk is full, waiting for space: " + err.Error())
			if !client.Sleep(ctx, fullPause) {
				return err
			}
		}
	}
}

// isDiskFull looks at the words too: bbolt does not wrap what it could not do.
func isDiskFull(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error()))
}

// openOutput opens the journal file, or takes stdout.
func (d *Daemon) openOutput(context.Context) error {
	if d.cfg.Output.Path == config.Stdout {
		stdout := d.Stdout
		if f, ok := stdout.(*os.File); ok && wasClosed(f) {
			return errors.New("output.path: stdout is closed; open it, or name a file")
		}
		if d.Display != nil {
			stdout = d.Display(terminal{stdout})
		}
		d.output = journal.NewStdout(stdout)
		return nil
	}
	o := journalOptions(d.cfg.Output)
	o.Disk, o.Log, o.Failed = d.Disk, d.Log, func(error) {
		d.metrics.OutputErrors.WithLabelValues(metrics.Rotate).Inc()
	}
	o.Removed = func(limit string, lines int) {
		if lines == 0 {
			d.metrics.RemovedFiles.WithLabelValues(limit).Inc()
		}
		d.metrics.RemovedLines.Add(float64(lines))
	}
	f, err := journal.OpenFile(d.cfg.Output.Path, o)
	if err != nil {
		return fmt.Errorf("output.path: %w%s", err, remedy(err, d.cfg.Output.Path))
	}
	d.output = f
	d.closers = append(d.closers, f.Close)
	d.metrics.WatchFilesystem("output", filepath.Dir(f.Path()))
	d.warnOfLimits(d.cfg)
	return nil
}

// journalOptions is the part of a config that concerns the journal's files.
func journalOptions(o config.Output) journal.Options {
	return journal.Options{
		MaxSize: o.MaxSize, MaxAge: o.MaxAge, MaxFiles: o.MaxFiles, MinAge: o.MinAge, MaxTotalSize: o.MaxTotalSize,
		Compress: o.Compress, Seal: o.Seal,
	}
}

// LimitWarnings returns which limits of a config contradict each other, the volume of the journal, or what is in it.
func LimitWarnings(cfg *config.Config) config.Faults {
	if cfg.Output.Path == config.Stdout {
		return nil
	}
	var at config.Disk // what cannot be found out here is left out: the daemon may run elsewhere
	path := disk.Real(cfg.Output.Path)
	if _, size, err := disk.Space(filepath.Dir(path)); err == nil {
		at.Volume = size
	}
	if kept, err := journal.Measure(path); err == nil && kept.Files > 0 {
		at.Files, at.Size, at.Reach = kept.Files, kept.Size, time.Since(kept.Oldest)
	}
	return cfg.CheckLimits(at)
}

// warnOfLimits logs what LimitWarnings returns.
func (d *Daemon) warnOfLimits(cfg *config.Config) {
	for _, w := range LimitWarnings(cfg) {
		d.Log.Warn("the limits of the journal do not fit", zap.String("limit", w.Error()))
	}
}

// terminal is a stdout that people look at. It reports that it was closed as a pipe does: SIGHUP, by which other
// programs learn of it, does not end this one.
type terminal struct{ io.Writer }

func (t terminal) Write(p []byte) (int, error) {
	n, err := t.Writer.Write(p)
	if errors.Is(err, syscall.EIO) {
		err = errors.Join(io.ErrClosedPipe, err)
	}
	return n, err
}

// wasClosed reports whether a standard stream was closed when the process began: Go's runtime then opens /dev/null in
// its place, for reading and writing, and every line would seem to be written.
func wasClosed(f *os.File) bool {
	is, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	if err != nil || nullErr != nil || !os.SameFile(is, null) {
		return err != nil
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

// listen answers over HTTP from now on.
func (d *Daemon) listen(context.Context) error {
	server, err := d.listenOn(d.cfg.Listen, "")
	d.answerOn(server)
	return err
}

// listenOn opens an address to answer on, while another one is held; nil is that of "", which is nowhere.
func (d *Daemon) listenOn(address, held string) (*status.Server, error) {
	if address == "" {
		return nil, nil
	}
	server, err := status.Listen(address, d.site)
	port := address[strings.LastIndexByte(address, ':')+1:]
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && strings.HasSuffix(held, ":"+port):
		return nil, fmt.Errorf("%w: kubejournal itself holds this port on %s; name another port, or restart it", err,
			held)
	case err != nil:
		return nil, fmt.Errorf("%w; name another address, or \"\" for none", err)
	}
	return server, nil
}

// answerOn answers on server from now on, and no longer on the one before; nil is none.
func (d *Daemon) answerOn(server *status.Server) {
	if d.server != nil {
		_ = d.server.Close() // what it was answering does not matter any more
	}
	if d.server = server; server != nil {
		server.Serve(d.Log, "listening")
	}
}

// openCheckpoint opens the checkpoint. A damaged one is set aside under another name, and what is lost with it shows in
// the journal as GAP lines.
func (d *Daemon) openCheckpoint(context.Context) (err error) {
	path := d.cfg.Checkpoint.Path
	if path == "" {
		if d.store, err = checkpoint.OpenTemp(); err != nil {
			return fmt.Errorf("checkpoint.path is empty, and none can be kept while it runs: %w; set TMPDIR to a "+
				"folder that can be written, or name a file", err)
		}
		d.closers = append(d.closers, d.store.Close)
		return nil
	}
	store, err := checkpoint.Open(path)
	if errors.Is(err, checkpoint.ErrDamaged) {
		aside, asideErr := checkpoint.SetAside(path, time.Now())
		if asideErr != nil {
			return fmt.Errorf("checkpoint.path: %w: %w", err, asideErr)
		}
		d.Log.Error("checkpoint is damaged, beginning a new one", zap.Error(err), zap.String("kept", aside))
		store, err = checkpoint.Open(path)
	}
	if err != nil {
		return fmt.Errorf("checkpoint.path: %w%s", err, remedy(err, path))
	}
	if err := markLost(store, path); err != nil {
		return errors.Join(err, store.Close()) // the step may be repeated
	}
	d.store = store
	d.closers = append(d.closers, store.Close)
	if err := store.OwnerError(); err != nil {
		d.Log.Warn(err.Error(), zap.String("path", store.Path()))
	}
	d.metrics.WatchFilesystem("checkpoint", filepath.Dir(store.Path()))
	return nil
}

// markLost notes in a new checkpoint that it takes the place of a damaged one, which an earlier start may have set
// aside.
func markLost(store *checkpoint.Store, path string) error {
	if marked, err := store.Marked(); err != nil || marked {
		return err
	}
	// Also where an earlier start set it aside and came no further.
	if checkpoint.WasSetAside(path) {
		return store.SetLost()
	}
	return nil
}

// remedy is what a user can do about a file that cannot be opened.
func remedy(err error, path string) string {
	switch {
	case errors.Is(err, disk.ErrNoLocks):
		return "; mount it with locks (NFS: version 4, or local_lock=flock; CIFS: nobrl), or name a file on " +
			"another volume"
	case errors.Is(err, disk.ErrNoMapping):
		return "; name a file on another volume, such as a local disk"
	case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, disk.ErrLocked):
		return "; stop the other kubejournal, or name another file"
	case errors.Is(err, checkpoint.ErrNewerSchema):
		return "; run that version, or name another file"
	case errors.Is(err, fs.ErrNotExist):
		return "; create its folder, or name another file"
	case errors.Is(err, fs.ErrPermission):
		if owner := disk.DescribeOwner(path); owner != "" {
			return "; " + owner +
				"; let it write there (fsGroup, chown, or the volume's mount option uid), or name another file"
		}
		return "; name a file that can be written here"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EISDIR):
		return "; name a file that can be written here"
	}
	return ""
}

// host is the server's address, for people.
func (d *Daemon) host() string { return access.Redacted(d.access.Host()) }

// connect finds the API server, and finds it again when requests fail.
func (d *Daemon) connect(context.Context) (err error) {
	find := func() (*rest.Config, error) { return d.Server(d.cfg.Kubernetes) }
	if d.access, err = client.NewAccess(find, d.sameCluster, d.Log); err != nil {
		return access.NotFound(err)
	}
	if proxy := d.access.EnvironmentProxy(); proxy != nil {
		d.logProxy(proxy)
	}
	d.client, err = client.New(d.access.Config())
	return err
}

// logProxy names the proxy that HTTPS_PROXY puts before the API server. One that is meant for what lies outside of the
// cluster rarely reaches its own API server, and ends its watches when it does.
func (d *Daemon) logProxy(proxy *url.URL) {
	server, through := zap.String("server", d.host()), zap.String("proxy", access.Redacted(proxy.String()))
	if access.InCluster(d.access.Host()) {
		d.Log.Warn("this cluster's own API server is asked through the proxy of the environment; add its address to "+
			"NO_PROXY",
			server, through)
		return
	}
	d.Log.Info("the API server is asked through the proxy of the environment", server, through)
}

// sameCluster makes sure that new credentials, or another server in the config, lead to the cluster that is journalled.
// If kube-system has been unreadable since the start, new credentials are accepted only for the same address, since the
// cluster cannot be checked.
func (d *Daemon) sameCluster(ctx context.Context, c *client.Client, moved bool) error {
	cluster, identified := d.client.Cluster()
	if !identified {
		return nil // the start is still to ask
	}
	host := access.Redacted(c.Host())
	id, err := c.ClusterID(ctx)
	switch {
	case client.IsUnreadable(err) && (cluster.Readable || moved):
		return fmt.Errorf("cannot tell whether %s is the same cluster: %w; allow get of the namespace kube-system",
			host, err)
	case client.IsUnreadable(err):
		return nil
	case err != nil:
		return err
	case cluster.ID == "" && moved:
		return fmt.Errorf("cannot tell whether %s is the same cluster, as the namespace kube-system could not be "+
			"read before; restart kubejournal", host)
	case cluster.ID != "" && id != cluster.ID:
		return fmt.Errorf("%s is another cluster, %s; the one that is journalled is %s", host, id, cluster.ID)
	}
	return nil
}

// identify makes sure that the checkpoint belongs to this cluster, and that the streams use no answer of another one.
func (d *Daemon) identify(ctx context.Context) error {
	d.startup.setText("asking the API server")
	var id string
	err := d.reach(ctx, func(ctx context.Context) (err error) {
		if id, err = d.client.ClusterID(ctx); client.IsUnreadable(err) {
			d.Log.Warn("the namespace kube-system cannot be read: cannot check that the checkpoint belongs to "+
				"this cluster", zap.Error(err))
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if d.clusterUID, err = d.store.Cluster(); err != nil {
		return err
	}
	switch {
	case id == "" || id == d.clusterUID:
	case d.clusterUID != "":
		return fmt.Errorf("checkpoint.path: %s belongs to another cluster (%s; this one, %s, is %s); name another "+
			"checkpoint and output for this cluster",
			d.store.Path(), d.clusterUID, d.host(), id)
	default:
		if err := d.store.SetCluster(id); err != nil {
			return err
		}
		d.clusterUID = id
	}
	d.client.Expect(client.Cluster{ID: d.clusterUID, Learn: d.store.SetCluster, Readable: id != ""})
	return nil
}

// reach asks the server something, and asks again for a while where there is no answer.
func (d *Daemon) reach(ctx context.Context, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	var last error // of the question before
	for logged := false; ; logged = true {
		err := ask(limited)
		if err != nil && last != nil && limited.Err() != nil {
			err = last // that the time is up says nothing about the server
		}
		last = err
		switch {
		case err == nil:
			return nil
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("the API server %s does not accept these credentials: %w; check the kubeconfig and "+
				"its context", d.host(), err)
		case isTransient(err) && limited.Err() == nil:
			if !logged {
				d.Log.Info("waiting for the API server", zap.String("server", d.host()),
					zap.Duration("atMost", reachTimeout), zap.Error(err))
			}
			d.startup.setText(fmt.Sprintf("waiting for the API server %s: %v", d.host(), err))
			if client.Sleep(limited, reachPause) {
				continue
			}
		}
		advice := access.Remedy(err, d.access.Host(), d.access.EnvironmentProxy())
		return fmt.Errorf("ask the API server %s: %w%s", d.host(), err, advice)
	}
}

// isTransient reports whether an error is that of a server, or of a proxy before it, that is just starting.
func isTransient(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError ||
		apierrors.IsTooManyRequests(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// recover takes what a crash left in the journal into the checkpoint.
func (d *Daemon) recover(ctx context.Context) error {
	file, ok := d.output.(*journal.File)
	if !ok {
		mark, err := d.store.Mark()
		last := mark.LastFile()
		d.recording.Seq, d.recording.File, d.recording.Rotated = mark.Seq, &last, mark.Rotated
		return err
	}
	d.startup.set(func() string {
		passed, total := file.Progress()
		return fmt.Sprintf("recovering: read %.1f MB of %.1f MB", float64(passed)/1e6, float64(total)/1e6)
	})
	found, err := recorder.Recover(ctx, file, d.store)
	if other := new(recorder.ClusterError); errors.As(err, &other) {
		return fmt.Errorf("output.path: %s is the journal of another cluster (line %d: %s; this cluster is %s); name "+
			"another output for this cluster, or its own",
			file.Path(), other.Seq, other.Journal, other.Checkpoint)
	}
	if err != nil {
		return err
	}
	d.recording.Seq, d.recording.Rotated = found.Seq, found.Rotated
	d.metrics.LastCommit.SetToCurrentTime()
	logRecovery(d.Log.With(zap.String("path", file.Path())), found, file.LastSeq())
	return d.openCoverage(file.Path(), found)
}

// openCoverage takes over the journal's coverage file, for which no line waits.
func (d *Daemon) openCoverage(path string, found recorder.Recovered) (err error) {
	var lease time.Duration
	if d.cfg.LeaderElection.LeaseName != "" {
		lease = d.cfg.LeaderElection.LeaseDuration
	}
	d.coverage, err = coverage.Open(path, coverage.Options{
		Hole: found.Hole, Elsewhere: found.Stdout > 0, LeaseDuration: lease,
		Disk: d.Disk, Log: d.Log, Failed: d.metrics.CoverageErrors.Inc,
	})
	if errors.Is(err, coverage.ErrForeign) || errors.Is(err, coverage.ErrNewer) {
		d.metrics.CoverageErrors.Inc()
		d.Log.Error("coverage is not recorded; move the file away", zap.Error(err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("output.path: %w", err)
	}
	d.recording.Coverage = d.coverage
	d.closers = append(d.closers, func() error { d.coverage.Close(d.clean); return nil })
	return nil
}

// logRecovery logs what a recovery found that an operator should know of. lastSeq is the journal's own.
func logRecovery(log *zap.Logger, found recorder.Recovered, lastSeq uint64) {
	if found.Stdout > 0 {
		log.Warn("lines were written to stdout since the last write to this file; the file continues with its own seq",
			zap.Uint64("fileSeq", found.Seq), zap.Uint64("checkpointSeq", found.Stdout))
	}
	switch {
	case found.Lost:
		log.Warn("there is a journal but no checkpoint: each stream lists again and writes a GAP where it finds one")
	case found.Hole:
		log.Error("committed lines are missing, or this is another daemon's journal: each stream writes a GAP and "+
			"reports every object again",
			zap.Uint64("fileSeq", lastSeq), zap.Uint64("checkpointSeq", found.Seq))
	case found.Misplaced:
		log.Warn("the last committed line is in a different file than when it was committed; if output.path belongs "+
			"to another daemon, stop and give each its own",
			zap.Uint64("seq", found.Seq))
	case found.Gone > 0:
		log.Warn("lines that were written are not among the journal's files any more: they were moved away, removed "+
			"or emptied",
			zap.Uint64("fromSeq", found.Seq-found.Gone+1), zap.Uint64("toSeq", found.Seq))
	}
	if found.Cut > 0 || found.Lines > 0 {
		log.Info("read back the journal's tail", zap.Int("lines", found.Lines), zap.Int64("cutBytes", found.Cut),
			zap.Uint64("seq", found.Seq), zap.Uint64("resumedAtSeq", found.Resumed))
	}
}

// discover asks the server what it serves.
func (d *Daemon) discover(ctx context.Context) error {
	d.startup.setText("asking the API server what it serves")
	c := d.access.Config()
	c.QPS, c.Burst = discoveryRate, 2*discoveryRate
	api, err := clientdiscovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	d.resolver = discovery.New(api)
	d.resolver.Warn = func(text string) { d.Log.Warn("discovery has invalid names", zap.String("reason", text)) }
	return d.reach(ctx, func(ctx context.Context) error {
		err := d.resolver.Refresh(ctx)
		if errors.As(err, new(*discovery.PartialError)) {
			d.Log.Warn("discovery is incomplete", zap.Error(err))
			return nil
		}
		return err
	})
}
