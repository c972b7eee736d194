package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/record/metrics"
)

// TestBeside has what runs beside the recording see an edit of the config, and show how far it is.
func TestBeside(t *testing.T) {
	l := newLive(t)
	var seen atomic.Value
	ended := make(chan struct{})
	l.beside = func(ctx context.Context, current func() *config.Config, show func(*metrics.Audit)) {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			seen.Store(fmt.Sprint(current().Audit.Paths))
			show(&metrics.Audit{Files: 2, Events: n, Errors: 3, Lines: map[string]uint64{"exact": 4}, Decided: time.Now(), Err: "a log is locked"})
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	out := fmt.Sprintf("output: {path: %q}", l.journal())
	writeFile(t, l.config(), l.text("configmaps", out))
	l.start()
	l.watched("configmaps")
	writeFile(t, l.config(), l.text("configmaps", out, "audit: {paths: [a.log]}"))
	l.until("the edit is seen", func() bool { return seen.Load() == "[a.log]" })
	for path, want := range map[string]string{
		"/status": `"error": "a log is locked"`, "/metrics": `kubejournal_audit_lines_total{match="exact"} 4`, "/readyz": "ok",
	} {
		if got := l.get(path); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s: %s", path, want, got)
		}
	}
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	<-ended
}

// TestBesideFails has what runs beside the recording panic, and another one that does not end: neither stops it, or
// its end.
func TestBesideFails(t *testing.T) {
	l := newLive(t)
	l.beside = func(context.Context, func() *config.Config, func(*metrics.Audit)) { panic("a fault") }
	writeFile(t, l.config(), l.text("configmaps"))
	l.start()
	l.watched("configmaps")
	l.until("the fault is logged", func() bool { return l.logged("a fault") > 0 })
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	release := make(chan struct{})
	defer close(release)
	l.beside = func(context.Context, func() *config.Config, func(*metrics.Audit)) { <-release }
	l.start()
	l.watched("configmaps")
	if err := l.stop(); err != nil {
		t.Error(err)
	}
}
