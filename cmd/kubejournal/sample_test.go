package main

import (
	"testing"

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
	r := &reloader{site: site}
	r.use(nil)
	if r.stopSampling != nil {
		t.Error("it samples and listens nowhere")
	}
	for range 2 {
		r.use(listen())
		if r.stopSampling == nil {
			t.Fatal("it listens and does not sample")
		}
		stop, stopped := r.stopSampling, 0
		r.stopSampling = func() {
			stop()
			stopped++
		}
		r.use(listen())
		if stopped != 0 {
			t.Error("it forgets with each other address")
		}
		r.use(nil)
		if stopped != 1 || r.stopSampling != nil || r.server != nil {
			t.Errorf("it stops sampling %d times when it listens no longer", stopped)
		}
	}
}
