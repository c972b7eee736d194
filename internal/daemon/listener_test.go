package daemon

import (
	"testing"

	"go.uber.org/zap"

	"kubejournal/internal/manager"
	"kubejournal/internal/metrics"
	"kubejournal/internal/ops"
)

// Rates are known from when the daemon listens to when it does no longer, wherever
// it listens meanwhile.
func TestSamplesWhileItListens(t *testing.T) {
	site := ops.NewSite(metrics.New("", "").Registry, nil, func() []manager.StreamStatus { return nil }, func() ops.About { return ops.About{} })
	listen := func() *ops.Server {
		server, err := ops.Listen("127.0.0.1:0", site)
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	l := &listener{site: site}
	l.use(nil, zap.NewNop())
	if l.stopSampling != nil {
		t.Error("it samples and listens nowhere")
	}
	for range 2 {
		l.use(listen(), zap.NewNop())
		if l.stopSampling == nil {
			t.Fatal("it listens and does not sample")
		}
		stop, stopped := l.stopSampling, 0
		l.stopSampling = func() {
			stop()
			stopped++
		}
		l.use(listen(), zap.NewNop())
		if stopped != 0 {
			t.Error("it forgets with each other address")
		}
		l.use(nil, zap.NewNop())
		if stopped != 1 || l.stopSampling != nil || l.server != nil {
			t.Errorf("it stops sampling %d times when it listens no longer", stopped)
		}
	}
}
