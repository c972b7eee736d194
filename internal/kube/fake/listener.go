package fake

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// listener hands the http server its connections, from a loopback port or from
// memory, and can cut them all or refuse new ones while the server stays up.
type listener struct {
	addr   net.Addr
	accept chan net.Conn
	done   chan struct{} // closed by Close

	mu     sync.Mutex // guards all below
	closed bool
	down   bool         // new connections are refused
	tcp    net.Listener // nil in memory, and while down
	conns  map[net.Conn]struct{}
	turned []time.Time    // when a connection in memory was refused
	loops  sync.WaitGroup // the goroutine that accepts from tcp
}

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "kubefake.invalid" }

func newListener(inMemory bool) *listener {
	l := &listener{
		addr:   memoryAddr{},
		accept: make(chan net.Conn),
		done:   make(chan struct{}),
		conns:  map[net.Conn]struct{}{},
	}
	if inMemory {
		return l
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("fake: listen: %v", err))
	}
	l.addr = tcp.Addr()
	l.listen(tcp)
	return l
}

// listen is called with mu held, or before anyone else knows the listener.
func (l *listener) listen(tcp net.Listener) {
	l.tcp = tcp
	l.loops.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return // closed by stop or Close
			}
			l.deliver(context.Background(), c)
		}
	})
}

// deliver gives one connection to the http server.
func (l *listener) deliver(ctx context.Context, c net.Conn) error {
	select {
	case l.accept <- c:
		return nil
	case <-l.done:
	case <-ctx.Done():
	}
	c.Close()
	return refused()
}

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: memoryAddr{}, Err: syscall.ECONNREFUSED}
}

// dial is the client's side of a server in memory.
func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.mu.Lock()
	down := l.down || l.closed
	if down {
		l.turned = append(l.turned, time.Now())
	}
	l.mu.Unlock()
	if down {
		return nil, refused()
	}
	client, server := net.Pipe()
	if err := l.deliver(ctx, server); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		t := &trackedConn{Conn: c, owner: l}
		l.mu.Lock()
		if l.down || l.closed {
			c.Close()
		}
		l.conns[t] = struct{}{}
		l.mu.Unlock()
		return t, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	if l.tcp != nil {
		l.tcp.Close()
		l.tcp = nil
	}
	l.mu.Unlock()
	l.loops.Wait()
	return nil
}

// cut closes every connection from the server's side.
func (l *listener) cut() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

func (l *listener) stop() {
	l.mu.Lock()
	l.down = true
	if l.tcp != nil {
		l.tcp.Close()
		l.tcp = nil
	}
	l.mu.Unlock()
	l.cut()
}

func (l *listener) start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down || l.closed {
		return nil
	}
	if _, inMemory := l.addr.(memoryAddr); !inMemory {
		tcp, err := net.Listen("tcp", l.addr.String())
		if err != nil {
			return fmt.Errorf("listen again: %w", err)
		}
		l.listen(tcp)
	}
	l.down = false
	return nil
}

type trackedConn struct {
	net.Conn
	owner *listener
}

func (c *trackedConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.conns, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
