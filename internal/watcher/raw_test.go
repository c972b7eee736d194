package watcher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/internal/event"
)

// serveWatch answers every watch with what write writes, over loopback HTTP, and
// returns a client of it.
func serveWatch(t *testing.T, write func(w http.ResponseWriter, flush func())) *Client {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after the server's own
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		write(w, func() { _ = http.NewResponseController(w).Flush() })
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // ErrServerClosed
	}()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-served
	})
	client, err := NewClient(&rest.Config{Host: "http://" + l.Addr().String(), Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var pods = Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}

// readFrames reads a watch to its end: its frames, how often it waited for one,
// and why it ended.
func readFrames(t *testing.T, client *Client) (all []string, waits int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = client.watch(ctx, cancel, pods, metav1.ListOptions{}, func(r *event.FrameReader) error {
		f := &frames{r: r, cut: cancel}
		for {
			frame, err := f.next(time.Minute)
			for ok := true; ok && err == nil; {
				all = append(all, string(frame))
				frame, ok, err = f.more()
			}
			if err != nil {
				return err
			}
			waits++
		}
	})
	return all, waits, err
}

func frame(i, size int) string {
	return fmt.Sprintf(`{"type":"MODIFIED","object":{"metadata":{"name":"pod-%d","resourceVersion":"%d"},"pad":"%s"}}`, i, i, strings.Repeat("x", size))
}

func TestRawFrames(t *testing.T) {
	for name, c := range map[string]struct {
		frames, size int
		indent       bool
		flush        bool // after each frame
	}{
		"one":                  {1, 10, false, false},
		"many at once":         {2000, 100, false, false},
		"one by one":           {200, 100, false, true},
		"larger than a batch":  {3, 3 * chunkBytes, false, false},
		"too large to keep":    {3, 1<<20 + 10, false, false},
		"indented":             {500, 100, true, false},
		"indented, one by one": {100, 100, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for i := range c.frames {
				want = append(want, frame(i, c.size))
			}
			client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
				for _, f := range want {
					var b bytes.Buffer
					b.WriteString(f)
					if c.indent {
						b.Reset()
						_ = json.Indent(&b, []byte(f), "", "  ") // it is JSON
					}
					b.WriteByte('\n')
					_, _ = w.Write(b.Bytes())
					if c.flush {
						flush()
					}
				}
			})
			got, waits, err := readFrames(t, client)
			if !errors.Is(err, errWatchEnded) {
				t.Errorf("ended with %v", err)
			}
			if len(got) != len(want) {
				t.Fatalf("%d frames, want %d", len(got), len(want))
			}
			for i := range got {
				var compact bytes.Buffer
				if err := json.Compact(&compact, []byte(got[i])); err != nil || compact.String() != want[i] {
					t.Fatalf("frame %d: %.200s (%v)", i, got[i], err)
				}
			}
			if c.frames >= 500 && waits > c.frames/5 {
				t.Errorf("%d frames were waited for %d times", c.frames, waits)
			}
		})
	}
}

// How a watch ends comes out, after every whole frame that came before.
func TestRawEnds(t *testing.T) {
	whole := frame(1, 10) + "\n" + frame(2, 10) + "\n"
	for name, c := range map[string]struct {
		rest string
		cut  bool // the connection is dropped
		want string
		is   error
	}{
		"in good order":           {"", false, "Closed", errWatchEnded},
		"dropped between frames":  {"", true, "ConnectionLost", io.ErrUnexpectedEOF},
		"end within a frame":      {frame(3, 10)[:30], false, "ConnectionLost", io.ErrUnexpectedEOF},
		"dropped within a frame":  {frame(3, 10)[:30], true, "ConnectionLost", io.ErrUnexpectedEOF},
		"text":                    {"<html>upstream connect error</html>\n", false, "BadFrame", nil},
		"text after a connection": {"upstream connect error", true, "BadFrame", nil},
		"too large":               {`{"type":"ADDED","object":{"pad":"` + strings.Repeat("y", event.MaxObject) + `"}}` + "\n", false, "BadFrame", event.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
				_, _ = io.WriteString(w, whole+c.rest)
				flush()
				if c.cut {
					panic(http.ErrAbortHandler)
				}
			})
			got, _, err := readFrames(t, client)
			if len(got) != 2 {
				t.Errorf("%d whole frames before the end", len(got))
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			if o := classify(t.Context(), err); o.reason != c.want || o.action != actionRetry {
				t.Errorf("%v is taken for %+v, want %s", err, o, c.want)
			}
		})
	}
}

// A watch that is cut leaves nothing behind, wherever it is: while it waits for
// the server, and while what it brought is being taken.
func TestRawCut(t *testing.T) {
	for name, taken := range map[string]int{"before the first frame is taken": 0, "while it waits for the server": 1} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
				_, _ = io.WriteString(w, frame(1, 10)+"\n")
				flush()
				<-release
			})
			defer close(release) // before the server is closed
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := client.watch(ctx, cancel, pods, metav1.ListOptions{}, func(r *event.FrameReader) error {
				f := &frames{r: r, cut: cancel}
				for range taken {
					if _, err := f.next(time.Minute); err != nil {
						return err
					}
				}
				cancel()
				for {
					if _, err := f.next(time.Minute); err != nil {
						return err
					}
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A watch that is silent for too long is cut.
func TestRawSilent(t *testing.T) {
	release := make(chan struct{})
	client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
		_, _ = io.WriteString(w, frame(1, 10)+"\n")
		flush()
		<-release
	})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	err := client.watch(ctx, cancel, pods, metav1.ListOptions{}, func(r *event.FrameReader) error {
		f := &frames{r: r, cut: cancel}
		for {
			if _, err := f.next(50 * time.Millisecond); err != nil {
				return err
			}
			seen++
		}
	})
	if !errors.Is(err, errSilent) || seen > 1 {
		t.Errorf("%d frames, then %v", seen, err)
	}
}

// waitsForCut brings a frame at the very moment when the watch is cut.
type waitsForCut struct {
	cut  <-chan struct{}
	sent bool
}

func (r *waitsForCut) Read(p []byte) (int, error) {
	if r.sent {
		return 0, context.Canceled
	}
	<-r.cut
	r.sent = true
	return copy(p, frame(1, 10)+"\n"), nil
}

// A frame that comes as the patience ends is taken; what ended the watch is the
// silence all the same.
func TestRawCutByLastFrame(t *testing.T) {
	ctx, cut := context.WithCancel(t.Context())
	f := &frames{r: event.NewFrameReader(&waitsForCut{cut: ctx.Done()}, 0), cut: cut}
	if got, err := f.next(time.Millisecond); err != nil || string(got) != frame(1, 10) {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := f.next(time.Minute); !errors.Is(err, errSilent) {
		t.Errorf("then %v", err)
	}
}

// A connection that ends before there is an answer is a lost one.
func TestRawNoAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed below
			}
			_, _ = c.Read(make([]byte, 1)) // the request
			c.Close()
		}
	}()
	defer func() {
		l.Close()
		<-closed
	}()
	client, err := NewClient(&rest.Config{Host: "http://" + l.Addr().String(), Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = client.watch(ctx, cancel, pods, metav1.ListOptions{}, func(*event.FrameReader) error {
		return errors.New("a watch was opened")
	})
	if o := classify(t.Context(), err); o.action != actionRetry || o.reason != "ConnectionLost" {
		t.Errorf("%v is taken for %+v", err, o)
	}
}

// Many watches are read at once, each told apart by what it is sent: none may
// see another's bytes.
func TestRawMany(t *testing.T) {
	var (
		mu     sync.Mutex
		served int
	)
	const frames = 300
	client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
		mu.Lock()
		mine := served
		served++
		mu.Unlock()
		for i := range frames {
			_, _ = io.WriteString(w, frame(mine*1_000_000+i, (mine*i)%700)+"\n")
			if i%7 == 0 {
				flush()
			}
		}
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, _, err := readFrames(t, client)
			if !errors.Is(err, errWatchEnded) || len(got) != frames {
				t.Errorf("%d frames: %v", len(got), err)
				return
			}
			var mine int
			if _, err := fmt.Sscanf(got[0], `{"type":"MODIFIED","object":{"metadata":{"name":"pod-%d"`, &mine); err != nil {
				t.Error(err)
			}
			for i, f := range got {
				if want := frame(mine+i, (mine/1_000_000*i)%700); f != want {
					t.Errorf("frame %d of watch %d: %.120s", i, mine, f)
					return
				}
			}
		})
	}
	wg.Wait()
}
