package main

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

	"kubejournal/internal/config"
	"kubejournal/internal/journal"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/lookout"
	"kubejournal/internal/manager"
	"kubejournal/internal/ops"
	"kubejournal/internal/recorder"
)

// emptyPause is how much longer a config file is waited for that is empty or
// not there: some tools write one in two steps.
const emptyPause = time.Second

// reloader brings an edit of the config file into effect: all of it, or none.
// What can be wrong is looked for before anything is touched. Its goroutine owns
// all fields down to mu once it has started.
type reloader struct {
	d       *daemon
	manager *manager.Manager
	rec     *recorder.Recorder
	manner
	hangup <-chan os.Signal
	out    *lookout.Lookout
	site   *ops.Site
	server *ops.Server // nil: listens nowhere
	// stopSampling ends what makes the site know rates; nil while it listens nowhere.
	stopSampling func()

	cfg  *config.Config // in effect
	seen []byte         // what the file held when it was tried last, or why it could not be read; nil before the first look
	// refused says that it is right by itself, and could not be brought into effect.
	refused bool
	fault   string // what was wrong at the last try, as it was told; "" for nothing

	inEffect atomic.Pointer[config.Config] // cfg, for others

	mu   sync.Mutex
	last ops.Reload // guarded by mu
}

func newReloader(d *daemon, manager *manager.Manager, rec *recorder.Recorder, told manner, hangup <-chan os.Signal) *reloader {
	r := &reloader{d: d, manager: manager, rec: rec, manner: told, hangup: hangup, cfg: d.cfg}
	r.out = lookout.New(r.files, d.log)
	r.inEffect.Store(d.cfg)
	if info, err := os.Stat(r.path); r.path != "" && err == nil && !info.Mode().IsRegular() {
		r.path = "" // a pipe: what was in it is read
	}
	return r
}

// start looks out for edits until the function that it returns is called, which
// waits for the end of what is under way.
func (r *reloader) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	parts.Go(func() { r.out.Run(ctx) })
	parts.Go(func() { r.run(ctx) })
	return func() {
		cancel()
		parts.Wait()
	}
}

// use answers on server from now on, and no longer on the one before; nil is none.
// Rates are known from when it listens on: another address is no reason to forget
// them.
func (r *reloader) use(server *ops.Server) {
	if r.server != nil {
		_ = r.server.Close() // what it was answering does not matter any more
	}
	r.server = server
	switch {
	case server != nil && r.stopSampling == nil:
		r.stopSampling = r.site.Sample()
	case server == nil && r.stopSampling != nil:
		r.stopSampling()
		r.stopSampling = nil
	}
}

// files are those that are worth a look when they change.
func (r *reloader) files() []string {
	files := kubeconfigRules(r.inEffect.Load().Kubernetes).GetLoadingPrecedence()
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
		case <-r.hangup:
			if r.path == "" {
				r.d.log.Info("SIGHUP: there is no config file to read again, nothing changes")
			} else {
				r.reload(ctx, true)
			}
		case <-r.out.C:
			if r.path != "" {
				r.reload(ctx, false)
			}
		}
		r.d.access.Look(ctx)
	}
}

// reload reads the file and applies it. Unless it was asked for, a file that
// holds the same as when it was tried last is left alone.
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
		next, err = r.parse(content)
	}
	if err == nil && first && !asked && next.Same(r.cfg) {
		r.d.metrics.SetConfig(next.Hash()) // of other bytes, perhaps, that say the same
		return                             // it is as it was at the start
	}
	var d manager.Difference
	if err == nil {
		d, err = r.apply(ctx, next)
		// What is wrong is not in the file, or not there alone: a port that is
		// taken, a server that does not answer. It may pass.
		r.refused = err != nil
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil && same && !asked && strings.Join(faultLines(err), "; ") == r.fault {
		return // it was told
	}
	r.tell(next, d, err)
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

// apply brings next into effect. On an error, which is config.Faults, nothing has
// changed.
func (r *reloader) apply(ctx context.Context, next *config.Config) (manager.Difference, error) {
	faults := fixed(r.cfg, next)
	change, err := r.prepareAccess(ctx, next)
	faults = addFault(faults, err)
	server, err := r.prepareServer(next)
	faults = addFault(faults, err)
	file, _ := r.d.output.(*journal.File)
	if file != nil {
		if err := file.CheckLimits(journalOptions(next.Output)); err != nil {
			faults = append(faults, next.At("output.maxSize", err.Error()))
		}
	}
	options := r.d.streamOptions(next)
	faults = append(faults, asFaults(r.manager.CheckOptions(options))...)
	var d manager.Difference
	if len(faults) == 0 {
		if d, err = r.manager.Apply(ctx, options); err != nil {
			faults = asFaults([]error{err})
		}
	}
	if len(faults) > 0 {
		change.Discard()
		if server != nil {
			_ = server.Close() // nobody knows of it
		}
		return manager.Difference{}, faults
	}
	// From here on nothing can fail.
	change.Use()
	r.inEffect.Store(next)
	if r.cfg.Kubernetes != next.Kubernetes {
		r.out.Again()
	}
	if file != nil {
		file.SetLimits(journalOptions(next.Output))
	}
	r.rec.SetCommits(next.Checkpoint.Interval, next.Output.Sync == config.SyncNever)
	if r.cfg.Listen != next.Listen {
		r.use(server)
		if server != nil {
			r.d.announce("listening", server)
		}
	}
	r.cfg = next
	return d, nil
}

// fixed names what differs and cannot while the daemon runs.
func fixed(now, next *config.Config) config.Faults {
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

// prepareAccess opens the way to the API server that next names, where that is
// another one.
func (r *reloader) prepareAccess(ctx context.Context, next *config.Config) (*kubeclient.Change, error) {
	if next.Kubernetes == r.cfg.Kubernetes {
		return r.d.access.Keep(), nil
	}
	key := "kubernetes.context"
	if next.Kubernetes.Kubeconfig != r.cfg.Kubernetes.Kubeconfig {
		key = "kubernetes.kubeconfig"
	}
	change, err := r.d.access.Prepare(ctx, r.d.find(next.Kubernetes), r.d.sameCluster)
	if err != nil {
		return r.d.access.Keep(), next.At(key, fmt.Sprintf("cannot be used while kubejournal runs: %v; restart it, or put the old value back", err))
	}
	return change, nil
}

// addFault adds an error that is one, if any.
func addFault(faults config.Faults, err error) config.Faults {
	var f config.Fault
	if errors.As(err, &f) {
		return append(faults, f)
	}
	return faults
}

// prepareServer listens where next says, where that is another address.
func (r *reloader) prepareServer(next *config.Config) (*ops.Server, error) {
	if next.Listen == r.cfg.Listen || next.Listen == "" {
		return nil, nil
	}
	server, err := ops.Listen(next.Listen, r.site)
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && samePort(next.Listen, r.cfg.Listen):
		return nil, next.At("listen", fmt.Sprintf("%v: kubejournal itself holds this port on %s; name another port, or restart it", err, r.cfg.Listen))
	case err != nil:
		return nil, next.At("listen", fmt.Sprintf("%v; name another address, or \"\" for none", err))
	}
	return server, nil
}

func samePort(a, b string) bool {
	_, p, err := net.SplitHostPort(a)
	_, q, other := net.SplitHostPort(b)
	return err == nil && other == nil && p == q
}

// tell says what came of a reload: in the log, in metrics, and in what note
// returns.
func (r *reloader) tell(next *config.Config, d manager.Difference, err error) {
	log := r.d.log
	if err != nil {
		r.d.metrics.ReloadOK.Set(0)
		faults := faultLines(err)
		for _, f := range faults {
			log.Error("config not reloaded, the running one stays", zap.String("fault", f))
		}
		r.fault = strings.Join(faults, "; ")
		r.setLast(ops.Reload{At: time.Now(), Fault: r.fault})
		return
	}
	r.fault = ""
	r.d.metrics.ReloadOK.Set(1)
	r.d.metrics.ReloadTime.SetToCurrentTime()
	r.d.metrics.SetConfig(next.Hash())
	// At the more talkative of both levels: who asks for silence sees that it came.
	level, levelErr := zapcore.ParseLevel(next.Log.Level)
	if levelErr == nil && level < r.level.Level() {
		r.level.SetLevel(level)
	}
	log.Info("config reloaded", zap.Int("streamsAdded", d.Added), zap.Int("streamsRemoved", d.Removed),
		zap.Int("streamsChanged", d.Changed), zap.Int("streamsUnchanged", d.Unchanged))
	if levelErr == nil {
		r.level.SetLevel(level)
	}
	r.setLast(ops.Reload{At: time.Now()})
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

func (r *reloader) setLast(result ops.Reload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = result
}

// result is what came of the last reload. Safe for concurrent use.
func (r *reloader) result() ops.Reload {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// note is result in words; empty before the first reload. Safe for concurrent use.
func (r *reloader) note() string {
	last := r.result()
	at := last.At.UTC().Format(time.RFC3339)
	switch {
	case last.At.IsZero():
		return ""
	case last.Fault != "":
		return "reload at " + at + " failed, the config from before runs: " + last.Fault
	}
	return "reloaded at " + at
}
