package status

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// dial connects from an address of this machine and sends a text.
func dial(t *testing.T, s *Server, from, text string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

func serve(t *testing.T, h http.Handler, log *zap.Logger) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(log, "listening")
	t.Cleanup(func() { s.Close() })
	return s
}

func ok(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

const request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"

// ask sends a request over an open connection and returns the status line.
func ask(t *testing.T, conn net.Conn, r *bufio.Reader, text string) string {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.Status
}

// One address opens thousands of connections: idle ones, ones that never end their header, and ones that are new. It holds no
// more than the limit, and another address keeps the connection that it has.
func TestConnectionsOfOneAddress(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	s := serve(t, http.HandlerFunc(ok), zap.New(core))
	kubelet := dial(t, s, "127.0.0.2", "")
	read := bufio.NewReader(kubelet)
	if got := ask(t, kubelet, read, request); got != "200 OK" {
		t.Fatal(got)
	}
	for i := range 3000 {
		dial(t, s, "127.0.0.1", []string{request, "GET /livez HTTP/1.1\r\nHost: ", ""}[i%3])
	}
	if got := ask(t, kubelet, read, request); got != "200 OK" {
		t.Error("the connection from before:", got)
	}
	other := dial(t, s, "127.0.0.3", "")
	if got := ask(t, other, bufio.NewReader(other), request); got != "200 OK" {
		t.Error("a new connection:", got)
	}
	s.listener.mu.Lock()
	open := len(s.listener.open)
	s.listener.mu.Unlock()
	if open > maxConnections {
		t.Errorf("%d connections are open", open)
	}
	if all := logged.All(); len(all) == 0 || len(all) > 2 || all[0].ContextMap()["address"] != "127.0.0.1" {
		t.Errorf("logged %v", all)
	}
}

// A request with a body is answered without waiting for it, and its connection ends.
func TestBodyIsNotRead(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", ok)
	s := serve(t, mux, zap.NewNop())
	for _, header := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked"} {
		for method, want := range map[string]string{"POST": "405 Method Not Allowed", "GET": "200 OK"} {
			conn := dial(t, s, "127.0.0.1", "")
			read := bufio.NewReader(conn)
			if got := ask(t, conn, read, method+" /livez HTTP/1.1\r\nHost: x\r\n"+header+"\r\n\r\n"); got != want {
				t.Errorf("%s with %s: %s", method, header, got)
			}
			if n, err := read.Discard(1); n != 0 || err == nil {
				t.Errorf("%s with %s: the connection stays open", method, header)
			}
		}
	}
	conn := dial(t, s, "127.0.0.1", "")
	got := ask(t, conn, bufio.NewReader(conn), "GET /livez HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	if got != "431 Request Header Fields Too Large" {
		t.Error("a header of 64 KiB:", got)
	}
}

// Clients that do not read their answers do not keep others from getting theirs.
func TestTurnsOfSlowReaders(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 16<<20)
	s := serve(t, make(turns, 1).wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(large) // the client is gone
	})), zap.NewNop())
	for range 5 {
		dial(t, s, "127.0.0.1", request)
	}
	conn := dial(t, s, "127.0.0.1", "")
	if got := ask(t, conn, bufio.NewReader(conn), request); got != "202 Accepted" {
		t.Error(got)
	}
}
