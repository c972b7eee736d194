package daemon

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"

	"kubejournal/internal/config"
	"kubejournal/internal/format/journal"
	"kubejournal/internal/host/filewatch"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/access"
	"kubejournal/internal/record/status"
	"kubejournal/internal/record/streams"
)

// A config file that is empty or missing is read again so often, with a pause before each: some tools write one in two
// steps.
const (
	emptyReads = 10
	emptyPause = 100 * time.Millisecond
)

// reloader brings an edit of the config file into effect: all of it, or none. What can be wrong is looked for before
// anything is touched.
type reloader struct {
	d        *Daemon
	inEffect atomic.Pointer[config.Config] // set by run alone
	last     atomic.Pointer[status.Reload] // what came of the last reload; set by run alone
	// what the file held at the last attempt, or why it could not be read; owned by run
	seen *string
}

// paths are the files that are read again when they change.
func (r *reloader) paths() []string {
	files := access.Files(r.inEffect.Load().Kubernetes)
	if r.d.ConfigPath != "" {
		return append(files, r.d.ConfigPath)
	}
	return files
}

// run applies edits until ctx ends.
func (r *reloader) run(ctx context.Context) {
	changed := r.d.Changed
	if changed == nil {
		c := make(chan struct{}, 1)
		changed = c
		var watching sync.WaitGroup
		watching.Go(func() { filewatch.Run(ctx, r.paths, c) })
		defer watching.Wait()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.d.Hangup:
			if r.d.ConfigPath == "" {
				r.d.Log.Info("SIGHUP: there is no config file to read again, nothing changes")
			}
			r.reload(ctx, true)
		case <-changed:
			r.reload(ctx, false)
		}
		r.d.access.Look(ctx)
	}
}

// reload reads the file and applies it. Unless it was asked for, a file that holds the same as at the last attempt is
// left alone, if that one succeeded. What fails is retried: a port that was taken or a server that did not answer may
// be there now.
func (r *reloader) reload(ctx context.Context, asked bool) {
	if r.d.ConfigPath == "" {
		return
	}
	content, err := r.read(ctx)
	seen := string(content)
	if err != nil {
		seen = err.Error()
	}
	fault, same := r.last.Load().Fault, r.seen != nil && seen == *r.seen
	if ctx.Err() != nil || !asked && same && fault == "" {
		return
	}
	r.seen = &seen
	var next *config.Config
	if err == nil {
		next, err = r.d.Parse(content)
	}
	if err == nil && !asked && fault == "" && next.Hash() == r.inEffect.Load().Hash() {
		return // the file is the one in effect
	}
	var diff streams.Difference
	if err == nil {
		diff, err = r.apply(ctx, next)
	}
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.succeeded(next, diff)
		return
	}
	lines := slices.Compact(strings.Split(err.Error(), "\n"))
	if asked || !same || strings.Join(lines, "; ") != fault { // otherwise the same fault was logged before
		r.failed(lines)
	}
}

// read returns what the file holds. Where that is nothing, or cannot be read, it waits for another writer to finish.
func (r *reloader) read(ctx context.Context) (content []byte, err error) {
	content, err = config.Read(r.d.ConfigPath)
	for n := 0; n < emptyReads && len(bytes.TrimSpace(content)) == 0 && client.Sleep(ctx, emptyPause); n++ {
		content, err = config.Read(r.d.ConfigPath)
	}
	return content, err
}

// apply brings next into effect. On an error, which has one line per fault, nothing has changed.
func (r *reloader) apply(ctx context.Context, next *config.Config) (diff streams.Difference, err error) {
	d, now := r.d, r.inEffect.Load()
	faults := FixedKeys(now, next)
	useAccess := func() {}
	if now.Kubernetes != next.Kubernetes {
		key := "kubernetes.context"
		if now.Kubernetes.Kubeconfig != next.Kubernetes.Kubeconfig {
			key = "kubernetes.kubeconfig"
		}
		if use, err := d.access.Prepare(ctx, func() (*rest.Config, error) {
			return d.Server(next.Kubernetes)
		}); err == nil {
			useAccess = use
		} else {
			faults = append(faults, next.At(key,
				fmt.Sprintf("cannot be used while kubejournal runs: %v; restart it, or put the old value back", err)))
		}
	}
	var server *status.Server // nil listens nowhere
	if now.Listen != next.Listen {
		if server, err = d.listenOn(next.Listen, now.Listen); err != nil {
			faults = append(faults, next.At("listen", err.Error()))
		}
	}
	file, isFile := d.output.(*journal.File)
	if isFile {
		if err := file.CheckLimits(journalOptions(next.Output)); err != nil {
			faults = append(faults, next.At("output.maxSize", err.Error()))
		}
	}
	for _, rule := range next.Redact {
		if err := d.resolver.CheckRule(rule.Resource); err != nil {
			faults = append(faults, next.Fault(rule.Entry, "resource", err.Error()+"; nothing would be redacted"))
		}
	}
	options := d.streamOptions(next)
	faults = append(faults, asFaults(d.manager.CheckOptions(options))...)
	if len(faults) > 0 {
		err = faults
	} else {
		diff, err = d.manager.Apply(ctx, options)
	}
	if err != nil {
		if server != nil {
			_ = server.Close() // it has not answered yet
		}
		return diff, err
	}
	// From here on nothing can fail.
	useAccess()
	r.inEffect.Store(next)
	if isFile {
		file.SetLimits(journalOptions(next.Output))
		d.warnOfLimits(next)
	}
	d.rec.SetCommits(next.Checkpoint.Interval, next.Output.Sync == config.SyncNever)
	if now.Listen != next.Listen {
		d.answerOn(server)
	}
	return diff, nil
}

// FixedKeys names the keys that differ and cannot change while the daemon runs.
func FixedKeys(now, next *config.Config) (faults config.Faults) {
	for _, k := range []struct{ key, now, next string }{
		{"output.path", now.Output.Path, next.Output.Path},
		{"leaderElection.leaseName", now.LeaderElection.LeaseName, next.LeaderElection.LeaseName},
		{"leaderElection.leaseNamespace", now.LeaderElection.LeaseNamespace, next.LeaderElection.LeaseNamespace},
		{"leaderElection.leaseDuration", now.LeaderElection.LeaseDuration.String(),
			next.LeaderElection.LeaseDuration.String()},
		{"leaderElection.renewDeadline", now.LeaderElection.RenewDeadline.String(),
			next.LeaderElection.RenewDeadline.String()},
		{"leaderElection.retryPeriod", now.LeaderElection.RetryPeriod.String(),
			next.LeaderElection.RetryPeriod.String()},
		{"checkpoint.path", now.Checkpoint.Path, next.Checkpoint.Path},
		{"log.format", now.Log.Format, next.Log.Format},
	} {
		if k.now != k.next {
			faults = append(faults, next.At(k.key,
				fmt.Sprintf("cannot change from %q to %q while kubejournal runs; restart it, or put the old value back",
					k.now, k.next)))
		}
	}
	if was, is := now.Shard.String(), next.Shard.String(); was != is {
		faults = append(faults,
			next.At("shard",
				fmt.Sprintf("cannot change from %s to %s: these are other streams, and what happens before they "+
					"begin would be missing; start new daemons with files of their own beside the old ones",
					shardText(was), shardText(is))))
	}
	return faults
}

// failed logs and shows why a config is not in effect.
func (r *reloader) failed(faults []string) {
	r.d.metrics.ReloadOK.Set(0)
	for _, f := range faults {
		r.d.Log.Error("config not reloaded, the running one stays", zap.String("fault", f))
	}
	r.last.Store(&status.Reload{At: time.Now(), Fault: strings.Join(faults, "; ")})
}

// succeeded logs and shows that next is in effect.
func (r *reloader) succeeded(next *config.Config, diff streams.Difference) {
	r.d.metrics.ReloadOK.Set(1)
	r.d.metrics.ReloadTime.SetToCurrentTime()
	r.d.metrics.SetConfig(next.Hash())
	// Logged at the more verbose of both levels: whoever asks for silence sees that the request was heard.
	level, _ := zapcore.ParseLevel(next.Log.Level) // which is valid: the config is
	r.d.Level.SetLevel(min(level, r.d.Level.Level()))
	r.d.Log.Info("config reloaded", zap.Int("streamsAdded", diff.Added), zap.Int("streamsRemoved", diff.Removed),
		zap.Int("streamsChanged", diff.Changed), zap.Int("streamsUnchanged", diff.Unchanged))
	r.d.Level.SetLevel(level)
	r.last.Store(&status.Reload{At: time.Now()})
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
