package main

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/ask/auditlog"
	"kubejournal/internal/config"
	"kubejournal/internal/record/daemon"
	"kubejournal/internal/record/metrics"
)

// followAudit follows the audit logs that the config names at the moment. A fault is logged once, shown, and what failed
// is tried again.
func followAudit(log *zap.Logger) daemon.Beside {
	return func(ctx context.Context, current func() *config.Config, show func(*metrics.Audit)) {
		var f *auditlog.Follower
		defer func() { f.Close() }()
		var complete bool
		var failed uint64
		fault := ""
		tick := time.NewTicker(auditlog.Every)
		defer tick.Stop()
		for {
			is := current()
			if f != nil && (len(is.Audit.Paths) == 0 || is.Audit.Complete != complete) {
				f.Close()
				f = nil
				show(nil)
			}
			if f == nil && len(is.Audit.Paths) > 0 {
				complete = is.Audit.Complete
				f = auditlog.New(is.Output.Path, complete)
				log.Info("following audit logs", zap.Strings("paths", is.Audit.Paths), zap.Bool("complete", complete))
			}
			if f != nil {
				now := ""
				if err := f.Round(ctx, is.Audit.Paths, time.Now()); err != nil && ctx.Err() == nil {
					now = err.Error()
					failed++
				}
				if now != fault && now != "" {
					log.Warn("audit logs are not followed, trying again", zap.String("reason", now))
				}
				fault = now
				show(&metrics.Audit{
					Files: f.Files, Events: f.Events, Damaged: f.Damaged, Lines: maps.Clone(f.Lines), Errors: failed,
					Decided: f.Decided, Err: fault,
				})
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}
