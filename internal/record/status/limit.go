package status

import (
	"bytes"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// limitListener keeps at most max connections open. When one more is accepted, the address that has the most loses its
// oldest. A client that opens many and holds them therefore shuts out itself, and not the kubelet or Prometheus.
type limitListener struct {
	*net.TCPListener

	max  int
	drop func(address netip.Addr, open int) // called before a connection is closed; open counts those of the address

	mu   sync.Mutex
	open []*limitedConn // oldest first
}

// limitedConn leaves its listener's list when it is closed.
type limitedConn struct {
	*net.TCPConn

	listener *limitListener
	address  netip.Addr
}

func (l *limitListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{conn, l, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()}
	if oldest, count := l.add(c); oldest != nil {
		l.drop(oldest.address, count)
		_ = oldest.Close() // it is dropped either way
	}
	return c, nil
}

// add returns the connection that has to go for c, and how many its address has; nil where there is room.
func (l *limitListener) add(c *limitedConn) (oldest *limitedConn, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	if len(l.open) <= l.max {
		return nil, 0
	}
	counts := make(map[netip.Addr]int)
	for _, o := range l.open {
		counts[o.address]++
		count = max(count, counts[o.address])
	}
	return l.open[slices.IndexFunc(l.open, func(o *limitedConn) bool { return counts[o.address] == count })], count
}

// Close may be called more than once.
func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	l.open = slices.DeleteFunc(l.open, func(o *limitedConn) bool { return o == c })
	l.mu.Unlock()
	return c.TCPConn.Close()
}

// turns has at most a few requests be answered at once: an answer can take CPU time and memory in proportion to the
// number of streams. Each is rendered into memory first, so that a client that reads slowly does not keep others
// waiting.
type turns chan struct{}

func (t turns) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case t <- struct{}{}:
		case <-r.Context().Done():
			return // the client went away
		}
		b := buffered{ResponseWriter: w, status: http.StatusOK}
		func() {
			defer func() { <-t }()
			h.ServeHTTP(&b, r)
		}()
		w.WriteHeader(b.status)
		_, _ = w.Write(b.body.Bytes()) // the client went away: nobody to report to
	})
}

// buffered keeps a response until its handler has returned.
type buffered struct {
	http.ResponseWriter

	status int
	body   bytes.Buffer
}

func (b *buffered) WriteHeader(status int)      { b.status = status }
func (b *buffered) Write(p []byte) (int, error) { return b.body.Write(p) }
