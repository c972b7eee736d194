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

// runBeside runs Options.Beside until stop is called. Whatever becomes of it, the recording goes on.
func (d *Daemon) runBeside() (stop func()) {
	if d.Options.Beside == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for again := true; again; again = client.Sleep(ctx, besidePause) {
			if fault := d.guarded(ctx); fault != nil {
				d.Log.Error("audit logs are not followed for a minute: a fault of kubejournal", zap.Error(fault))
			}
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(besideStop):
		}
	})
}

// guarded runs Options.Beside, and returns the fault with which it panicked.
func (d *Daemon) guarded(ctx context.Context) (fault error) {
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	d.Options.Beside(ctx, d.reload.inEffect.Load, d.metrics.ShowAudit)
	return nil
}
