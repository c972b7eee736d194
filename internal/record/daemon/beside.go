package daemon

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/record/metrics"
)

const (
	besidePause = time.Minute // before what has panicked is run again
	besideStop  = time.Second // is waited for at most: nothing of the recording depends on it
)

// Beside runs beside the recording until ctx ends, and reads what is written. current returns the config in effect,
// and what show is called with is shown.
type Beside func(ctx context.Context, current func() *config.Config, show func(*metrics.Audit))

// runBeside runs Options.Beside and the record of the API until stop is called. Whatever becomes of them, the recording
// goes on.
func (d *Daemon) runBeside() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	start := func(fault string, run func(context.Context)) {
		running.Go(func() {
			for again := true; again; again = client.Sleep(ctx, besidePause) {
				if err := guarded(ctx, run); err != nil {
					d.Log.Error(fault+" for a minute: a fault of kubejournal", zap.Error(err))
				}
			}
		})
	}
	if d.Options.Beside != nil {
		start("audit logs are not followed", func(ctx context.Context) {
			d.Options.Beside(ctx, d.reload.inEffect.Load, d.metrics.ShowAudit)
		})
	}
	if d.apis != nil {
		start("what the API server serves is not recorded", d.apis.Run)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Wait()
	}()
	return sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(besideStop):
		}
	})
}

// guarded runs run, and returns the fault with which it panicked.
func guarded(ctx context.Context, run func(context.Context)) (fault error) {
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	run(ctx)
	return nil
}
