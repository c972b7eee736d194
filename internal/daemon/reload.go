package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"kubejournal/internal/access"
	"kubejournal/internal/config"
	"kubejournal/internal/filewatch"
	"kubejournal/internal/journal"
	"kubejournal/internal/manager"
	"kubejournal/internal/ops"
)

// emptyPause is how long a reload waits for a config file that is empty or missing: some tools write one in two steps.
const emptyPause = time.Second

// reloader brings an edit of the config file into effect: all of it, or none. What can be wrong is looked for before
// anything is touched. Its goroutine owns all fields down to inEffect once it has started.
type reloader struct {
	d       *Daemon
	path    string // of the config file; "" is none
	changed <-chan struct{}
	files   *filewatch.Watcher // signals changed; nil where a test does

	cfg  *config.Config // in effect
	seen []byte         // what the file held at the last attempt, or why it could not be read; nil before the first
	// refused reports that the last config is right by itself and could not be brought into effect.
	refused bool
	fault   string // what was wrong at the last attempt, as it was logged; "" for nothing

	inEffect atomic.Pointer[config.Config] // cfg, for others
	last     atomic.Pointer[ops.Reload]    // what came of the last reload, for others
}

func newReloader(d *Daemon) *reloader {
	r := &reloader{d: d, path: d.ConfigPath, changed: d.Changed, cfg: d.cfg}
	r.inEffect.Store(d.cfg)
	r.last.Store(new(ops.Reload))
	if info, err := os.Stat(r.path); r.path != "" && err == nil && !info.Mode().IsRegular() {
		r.path = "" // a pipe, whose content is read
	}
	if r.changed == nil {
		r.files = filewatch.New(r.paths, d.Log)
		r.changed = r.files.C
	}
	return r
}

// start applies edits until the function that it returns is called, which waits for the end of what is under way.
func (r *reloader) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	if r.files != nil {
		parts.Go(func() { r.files.Run(ctx) })
	}
	parts.Go(func() { r.run(ctx) })
	return func() {
		cancel()
		parts.Wait()
	}
}

// paths are the files that are read again when they change.
func (r *reloader) paths() []string {
	files := access.Files(r.inEffect.Load().Kubernetes)
	if r.path != "" {
		files = append(files, r.path)
	}
	return files
}

func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.d.Hangup:
			if r.path == "" {
				r.d.Log.Info("SIGHUP: there is no config file to read again, nothing changes")
			} else {
				r.reload(ctx, true)
			}
		case <-r.changed:
			if r.path != "" {
				r.reload(ctx, false)
			}
		}
		r.d.access.Look(ctx)
	}
}

// reload reads the file and applies it. Unless it was asked for, a file that holds the same as at the last attempt is
// left alone.
func (r *reloader) reload(ctx context.Context, asked bool) {
	content, err := r.read(ctx)
	seen := append([]byte{}, content...)
	if err != nil {
		seen = []byte(err.Error())
	}
	first, same := r.seen == nil, bytes.Equal(seen, r.seen)
	if ctx.Err() != nil || !asked && !first && same && !r.refused {
		return
	}
	r.seen, r.refused = seen, false
	var next *config.Config
	if err == nil {
		next, err = r.d.Parse(content)
	}
	if err == nil && first && !asked && next.Same(r.cfg) {
		r.d.metrics.SetConfig(next.Hash()) // of other bytes, perhaps, that say the same
		return                             // it is as it was at the start
	}
	var d manager.Difference
	if err == nil {
		d, err = r.apply(ctx, next)
		// What is wrong is not in the file, or not there alone: a port that is taken, a server that does not answer. It
		// may pass.
		r.refused = err != nil
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		r.succeeded(next, d)
	case !same || asked || strings.Join(faultLines(err), "; ") != r.fault: // else it was logged
		r.failed(faultLines(err))
	}
}

// read returns what the file holds. Where that is nothing, or cannot be read, it waits and reads once more.
func (r *reloader) read(ctx context.Context) ([]byte, error) {
	for waited := false; ; waited = true {
		content, err := config.Read(r.path)
		empty := len(bytes.TrimSpace(content)) == 0
		if !empty || waited || !pause(ctx, emptyPause) {
			return content, err
		}
	}
}

// apply brings next into effect. On an error, which is config.Faults, nothing has changed.
func (r *reloader) apply(ctx context.Context, next *config.Config) (d manager.Difference, err error) {
	faults := FixedKeys(r.cfg, next)
	useAccess := r.prepareAccess(ctx, next, &faults)
	server := r.prepareServer(next, &faults)
	file, _ := r.d.output.(*journal.File)
	if file != nil {
		if err := file.CheckLimits(journalOptions(next.Output)); err != nil {
			faults = append(faults, next.At("output.maxSize", err.Error()))
		}
	}
	options := r.d.streamOptions(next)
	faults = append(faults, asFaults(r.d.manager.CheckOptions(options))...)
	if len(faults) == 0 {
		if d, err = r.d.manager.Apply(ctx, options); err != nil {
			faults = asFaults([]error{err})
		}
	}
	if len(faults) > 0 {
		if server != nil {
			_ = server.Close() // it has not answered yet
		}
		return manager.Difference{}, faults
	}
	// From here on nothing can fail.
	useAccess()
	r.inEffect.Store(next)
	if r.cfg.Kubernetes != next.Kubernetes && r.files != nil {
		r.files.Again()
	}
	if file != nil {
		file.SetLimits(journalOptions(next.Output))
	}
	r.d.rec.SetCommits(next.Checkpoint.Interval, next.Output.Sync == config.SyncNever)
	if r.cfg.Listen != next.Listen {
		r.d.listener.use(server, r.d.Log)
	}
	r.cfg = next
	return d, nil
}

// FixedKeys names the keys that differ and cannot change while the daemon runs.
func FixedKeys(now, next *config.Config) config.Faults {
	var faults config.Faults
	for _, k := range []struct{ key, now, next string }{
		{"output.path", now.Output.Path, next.Output.Path},
		{"checkpoint.path", now.Checkpoint.Path, next.Checkpoint.Path},
		{"log.format", now.Log.Format, next.Log.Format},
	} {
		if k.now != k.next {
			faults = append(faults, next.At(k.key, fmt.Sprintf("cannot change from %q to %q while kubejournal runs; restart it, or put the old value back", k.now, k.next)))
		}
	}
	return faults
}

// prepareAccess opens the connection to the API server that next names, where that is another one.
func (r *reloader) prepareAccess(ctx context.Context, next *config.Config, faults *config.Faults) (use func()) {
	if next.Kubernetes == r.cfg.Kubernetes {
		return func() {}
	}
	use, err := r.d.access.Prepare(ctx, r.d.finder(next.Kubernetes))
	if err == nil {
		return use
	}
	key := "kubernetes.context"
	if next.Kubernetes.Kubeconfig != r.cfg.Kubernetes.Kubeconfig {
		key = "kubernetes.kubeconfig"
	}
	*faults = append(*faults, next.At(key, fmt.Sprintf("cannot be used while kubejournal runs: %v; restart it, or put the old value back", err)))
	return func() {}
}

// prepareServer listens where next says, if that is another address; nil listens nowhere.
func (r *reloader) prepareServer(next *config.Config, faults *config.Faults) *ops.Server {
	if next.Listen == r.cfg.Listen || next.Listen == "" {
		return nil
	}
	server, err := ops.Listen(next.Listen, r.d.listener.site)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && samePort(next.Listen, r.cfg.Listen):
		*faults = append(*faults, next.At("listen", fmt.Sprintf("%v: kubejournal itself holds this port on %s; name another port, or restart it", err, r.cfg.Listen)))
	case err != nil:
		*faults = append(*faults, next.At("listen", fmt.Sprintf("%v; name another address, or \"\" for none", err)))
	}
	return server
}

func samePort(a, b string) bool {
	_, p, err := net.SplitHostPort(a)
	_, q, other := net.SplitHostPort(b)
	return err == nil && other == nil && p == q
}

// failed logs and shows why a config is not in effect.
func (r *reloader) failed(faults []string) {
	r.d.metrics.ReloadOK.Set(0)
	for _, f := range faults {
		r.d.Log.Error("config not reloaded, the running one stays", zap.String("fault", f))
	}
	r.fault = strings.Join(faults, "; ")
	r.last.Store(&ops.Reload{At: time.Now(), Fault: r.fault})
}

// succeeded logs and shows that next is in effect.
func (r *reloader) succeeded(next *config.Config, d manager.Difference) {
	r.fault = ""
	r.d.metrics.ReloadOK.Set(1)
	r.d.metrics.ReloadTime.SetToCurrentTime()
	r.d.metrics.SetConfig(next.Hash())
	// Logged at the more verbose of both levels: whoever asks for silence sees that the request was heard.
	level, levelErr := zapcore.ParseLevel(next.Log.Level)
	if levelErr == nil && level < r.d.Level.Level() {
		r.d.Level.SetLevel(level)
	}
	r.d.Log.Info("config reloaded", zap.Int("streamsAdded", d.Added), zap.Int("streamsRemoved", d.Removed),
		zap.Int("streamsChanged", d.Changed), zap.Int("streamsUnchanged", d.Unchanged))
	if levelErr == nil {
		r.d.Level.SetLevel(level)
	}
	r.last.Store(&ops.Reload{At: time.Now()})
}

// faultLines are the faults of a config, one line each.
func faultLines(err error) []string {
	var faults config.Faults
	if !errors.As(err, &faults) {
		return []string{strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	var lines []string
	for _, f := range faults {
		lines = append(lines, f.Error())
	}
	return slices.Compact(lines)
}

// note is the last reload in words; empty before the first. Safe for concurrent use.
func (r *reloader) note() string {
	last := r.last.Load()
	at := last.At.UTC().Format(time.RFC3339)
	switch {
	case last.At.IsZero():
		return ""
	case last.Fault != "":
		return "reload at " + at + " failed, the config from before runs: " + last.Fault
	}
	return "reloaded at " + at
}
