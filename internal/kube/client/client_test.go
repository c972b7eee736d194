package client

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"
)

// silent gives its bytes and then nothing, until its context ends.
type silent struct {
	ctx   context.Context
	bytes int
}

func (s *silent) Read(p []byte) (int, error) {
	if s.bytes == 0 {
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	select {
	case <-time.After(answerTimeout - time.Second):
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	s.bytes--
	return 1, nil
}

// A body that comes in drops is read for a while.
func TestPatientReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		b, err := io.ReadAll(&patientReader{&silent{ctx, 1 << 30}, cancel, 5 * time.Minute})
		if took := time.Since(began); !errors.Is(err, ErrNoAnswer) || took != 5*time.Minute || len(b) == 0 {
			t.Errorf("read %d bytes in %v: %v", len(b), took, err)
		}
	})
}

// A body that continues, if slowly, is read; one that stops is given up.
func TestPatientReaderIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		b, err := io.ReadAll(&patientReader{&silent{ctx, 5}, cancel, time.Hour})
		if !errors.Is(err, ErrNoAnswer) || len(b) != 5 {
			t.Errorf("read %d bytes, %v; want 5 and %v", len(b), err, ErrNoAnswer)
		}
		if took, want := time.Since(began), 5*(answerTimeout-time.Second)+answerTimeout; took != want {
			t.Errorf("gave up after %v, want %v", took, want)
		}
	})
}

// A server that takes a request and never answers costs answerTimeout.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		_, err := answered(ctx, cancel, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, ErrNoAnswer) || time.Since(began) != answerTimeout {
			t.Errorf("answered = %v after %v, want %v after %v", err, time.Since(began), ErrNoAnswer, answerTimeout)
		}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		if v, err := answered(ctx, cancel, func(context.Context) (int, error) { return 1, nil }); v != 1 || err != nil {
			t.Errorf("answered = %d, %v, want 1", v, err)
		}
		time.Sleep(2 * answerTimeout) //nolint:forbidigo // the time of a synctest bubble
		if ctx.Err() != nil {
			t.Error("what was answered in time was cancelled later")
		}
	})
}

// What a server sends and nobody reads is bounded, and comes once somebody does.
// So the test fails too where client-go has hidden its transport deeper than
// boundBuffers looks.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const total = 16 << 20
	blocked := make(chan int, 1) // bytes sent when no more went through
	read := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked with %s", r.Proto)
		}
		pieces := make(chan int)
		go func() {
			defer close(pieces)
			piece := make([]byte, 64<<10)
			for range total / len(piece) {
				n, err := w.Write(piece)
				if err != nil {
					return
				}
				pieces <- n
			}
		}()
		sent := 0
		for idle := time.NewTimer(time.Minute); ; {
			select {
			case n, ok := <-pieces:
				if !ok {
					select {
					case blocked <- sent: // it never was
					default:
					}
					return
				}
				sent += n
				idle.Reset(time.Second) // a second without progress is blocked
			case <-idle.C:
				blocked <- sent
				<-read
			}
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	access, err := NewAccess(func() (*rest.Config, error) {
		return &rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{
			CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
		}}, nil
	}, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer access.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := access.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if sent := <-blocked; sent > answerBuffer+(256<<10) { // and what the server's own buffers hold
		t.Errorf("%d bytes went to a client that does not read, %d should", sent, answerBuffer)
	}
	close(read)
	if n, err := io.Copy(io.Discard, response.Body); n != total || err != nil {
		t.Errorf("read %d of %d bytes, %v", n, total, err)
	}
}

// The transport that programs share is not changed.
func TestBoundBuffersLeavesTheDefault(t *testing.T) {
	if newGuard(http.DefaultTransport, true); http.DefaultTransport.(*http.Transport).HTTP2 != nil {
		t.Error("http.DefaultTransport was changed")
	}
}

func TestIsNear(t *testing.T) {
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://[::1]:6443": true, "https://10.96.0.1:443": true, "https://192.168.1.5": true,
		"https://172.16.0.1": true, "https://[fd00::1]:443": true, "https://169.254.1.1": true,
		"https://203.0.113.5:6443": false, "https://[2001:db8::1]": false, "https://172.32.0.1": false,
		"https://kubernetes.default.svc": false, "https://api.example.com:6443": false, "https://localhost:6443": false,
	} {
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		if got := isNear(u); got != want {
			t.Errorf("%s: %v", server, got)
		}
	}
}

// Lists ask a near server for plain text, and leave it to client-go with others.
func TestListCompression(t *testing.T) {
	asked := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Accept-Encoding")
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	defer srv.Close()
	for host, want := range map[string]string{srv.URL: "identity", strings.Replace(srv.URL, "127.0.0.1", "localhost", 1): "gzip"} {
		c, err := New(&rest.Config{Host: host, Transport: srv.Client().Transport})
		if err != nil {
			t.Fatal(err)
		}
		if version, err := c.Version(t.Context(), Target{}); version != "7" || err != nil {
			t.Errorf("%s: version %q, %v", host, version, err)
		}
		if got := <-asked; got != want {
			t.Errorf("%s: asked for %q, want %q", host, got, want)
		}
	}
}
