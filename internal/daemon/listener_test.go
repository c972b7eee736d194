package daemon

import (
	"testing"

	"go.uber.org/zap"

	"kubejournal/internal/config"
)

// Rates are sampled from when the daemon first listens until it ends, whatever the address is meanwhile.
func TestSamplesOnceItListens(t *testing.T) {
	cfg, err := config.Load("", config.Overrides{Resources: []string{"pods"}}, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	d := New(cfg, Options{Log: zap.NewNop()})
	listen := func(address string) {
		server, err := d.listenOn(address, "")
		if err != nil {
			t.Fatal(err)
		}
		d.answerOn(server)
	}
	listen("")
	if d.stopSampling != nil {
		t.Error("it samples and listens nowhere")
	}
	listen("127.0.0.1:0")
	if d.stopSampling == nil {
		t.Fatal("it listens and does not sample")
	}
	stop, stopped := d.stopSampling, 0
	d.stopSampling = func() {
		stop()
		stopped++
	}
	for _, address := range []string{"127.0.0.1:0", "", "127.0.0.1:0"} {
		listen(address)
		if stopped != 0 {
			t.Errorf("it forgets the rates with the address %q", address)
		}
	}
	if err := d.close(); err != nil || stopped != 1 || d.server != nil {
		t.Errorf("closed: %v; it stops sampling %d times", err, stopped)
	}
}
