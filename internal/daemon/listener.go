package daemon

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"kubejournal/internal/ops"
)

// listener is where the daemon answers over HTTP. The start owns it, then the reloader.
type listener struct {
	site         *ops.Site
	server       *ops.Server // nil: nowhere
	stopSampling func()      // nil: rates are not sampled
}

// listen answers over HTTP from now on, once.
func (d *Daemon) listen(context.Context) error {
	if d.cfg.Listen == "" || d.listener.server != nil {
		return nil
	}
	server, err := ops.Listen(d.cfg.Listen, d.listener.site)
	if err != nil {
		return fmt.Errorf("%w; name another address, or \"\" for none", err)
	}
	d.listener.use(server, d.Log)
	return nil
}

// use answers on server from now on, and no longer on the one before; nil is none. Rates are known from when the daemon
// first listens: another address is no reason to forget them.
func (l *listener) use(server *ops.Server, log *zap.Logger) {
	if l.server != nil {
		_ = l.server.Close() // what it was answering does not matter any more
	}
	l.server = server
	if server != nil {
		server.Serve(log, "listening")
	}
	switch {
	case server != nil && l.stopSampling == nil:
		l.stopSampling = l.site.Sample()
	case server == nil && l.stopSampling != nil:
		l.stopSampling()
		l.stopSampling = nil
	}
}
