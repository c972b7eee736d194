package client

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
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
	client, err := New(&rest.Config{Host: "http://" + l.Addr().String(), Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var pods = Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}

// readWatch reads a watch to its end: its objects, how often it waited for one,
// and why it ended.
func readWatch(t *testing.T, client *Client) (all []string, waits int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w, err := client.Watch(ctx, pods, metav1.ListOptions{}, time.Minute)
	if err != nil {
		return nil, 0, err
	}
	defer w.Close()
	for {
		if !w.More() {
			waits++
		}
		e, err := w.Next(time.Minute)
		if err != nil {
			return all, waits, err
		}
		if e.Type != line.Modified {
			t.Errorf("type %s", e.Type)
		}
		all = append(all, string(e.Object))
	}
}

func podJSON(i, size int) string {
	return fmt.Sprintf(`{"metadata":{"name":"pod-%d","resourceVersion":"%d"},"pad":"%s"}`, i, i, strings.Repeat("x", size))
}

func frame(i, size int) string { return `{"type":"MODIFIED","object":` + podJSON(i, size) + `}` }

func TestWatchFrames(t *testing.T) {
	for name, c := range map[string]struct {
		frames, size int
		indent       bool
		flush        bool // after each frame
	}{
		"one":                  {1, 10, false, false},
		"many at once":         {2000, 100, false, false},
		"one by one":           {200, 100, false, true},
		"larger than a buffer": {3, 3 * fastBuffer, false, false},
		"too large to keep":    {3, 1<<20 + 10, false, false},
		"indented":             {500, 100, true, false},
		"indented, one by one": {100, 100, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for i := range c.frames {
				want = append(want, podJSON(i, c.size))
			}
			client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
				for i := range c.frames {
					f := frame(i, c.size)
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
			got, waits, err := readWatch(t, client)
			if !errors.Is(err, ErrWatchEnded) {
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
func TestWatchEnds(t *testing.T) {
	whole := frame(1, 10) + "\n" + frame(2, 10) + "\n"
	for name, c := range map[string]struct {
		rest string
		cut  bool // the connection is dropped
		is   error
	}{
		"in good order":           {"", false, ErrWatchEnded},
		"dropped between frames":  {"", true, io.ErrUnexpectedEOF},
		"end within a frame":      {frame(3, 10)[:30], false, io.ErrUnexpectedEOF},
		"dropped within a frame":  {frame(3, 10)[:30], true, io.ErrUnexpectedEOF},
		"text":                    {"<html>upstream connect error</html>\n", false, nil},
		"text after a connection": {"upstream connect error", true, nil},
		"too large":               {`{"type":"ADDED","object":{"pad":"` + strings.Repeat("y", object.MaxObject) + `"}}` + "\n", false, object.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
				_, _ = io.WriteString(w, whole+c.rest)
				flush()
				if c.cut {
					panic(http.ErrAbortHandler)
				}
			})
			got, _, err := readWatch(t, client)
			if len(got) != 2 {
				t.Errorf("%d whole frames before the end", len(got))
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			if c.is == nil && !errors.As(err, new(*object.SyntaxError)) {
				t.Errorf("got %v, want a syntax error", err)
			}
		})
	}
}

// A watch that is cut leaves nothing behind, wherever it is: while it waits for
// the server, and while what it brought is being taken.
func TestWatchCut(t *testing.T) {
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
			w, err := client.Watch(ctx, pods, metav1.ListOptions{}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			for range taken {
				if _, err := w.Next(time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			for err == nil {
				_, err = w.Next(time.Minute)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A watch that is silent for too long is cut.
func TestWatchSilent(t *testing.T) {
	release := make(chan struct{})
	client := serveWatch(t, func(w http.ResponseWriter, flush func()) {
		_, _ = io.WriteString(w, frame(1, 10)+"\n")
		flush()
		<-release
	})
	defer close(release)
	w, err := client.Watch(t.Context(), pods, metav1.ListOptions{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seen := -1
	for ; err == nil; seen++ {
		_, err = w.Next(50 * time.Millisecond)
	}
	if !errors.Is(err, ErrSilent) || seen > 1 {
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
func TestWatchCutByLastFrame(t *testing.T) {
	ctx, cut := context.WithCancel(t.Context())
	w := &WatchReader{frames: newFrameReader(&waitsForCut{cut: ctx.Done()}, object.MaxObject), body: http.NoBody, cut: cut}
	defer w.Close()
	if got, err := w.Next(time.Millisecond); err != nil || string(got.Object) != podJSON(1, 10) {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := w.Next(time.Minute); !errors.Is(err, ErrSilent) {
		t.Errorf("then %v", err)
	}
}

// A connection that ends before there is an answer is a lost one.
func TestWatchNoAnswer(t *testing.T) {
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
	client, err := New(&rest.Config{Host: "http://" + l.Addr().String(), Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Watch(t.Context(), pods, metav1.ListOptions{}, time.Minute); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

// Many watches are read at once, each told apart by what it is sent: none may
// see another's bytes.
func TestWatchMany(t *testing.T) {
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
			got, _, err := readWatch(t, client)
			if !errors.Is(err, ErrWatchEnded) || len(got) != frames {
				t.Errorf("%d frames: %v", len(got), err)
				return
			}
			var mine int
			if _, err := fmt.Sscanf(got[0], `{"metadata":{"name":"pod-%d"`, &mine); err != nil {
				t.Error(err)
			}
			for i, f := range got {
				if want := podJSON(mine+i, (mine/1_000_000*i)%700); f != want {
					t.Errorf("frame %d of watch %d: %.120s", i, mine, f)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestStatusError(t *testing.T) {
	expired := func(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
	isBadFrame := func(err error) bool { return errors.Is(err, ErrBadFrame) }
	for name, c := range map[string]struct {
		object string
		is     func(error) bool
	}{
		"expired": {`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (5)","reason":"Expired","code":410}`, expired},
		"gone":    {`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"gone","reason":"Gone","code":410}`, expired},
		// client-go recognises this one by its code.
		"410 only":           {`{"kind":"Status","apiVersion":"v1","status":"Failure","code":410}`, expired},
		"500":                {`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}`, apierrors.IsInternalError},
		"403":                {`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, apierrors.IsForbidden},
		"success":            {`{"kind":"Status","apiVersion":"v1","status":"Success"}`, isBadFrame},
		"no status":          {`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, isBadFrame},
		"another's, no kind": {`{"error":"upstream"}`, isBadFrame},
		"null":               {`null`, isBadFrame},
		"not JSON":           {`<html>`, isBadFrame},
	} {
		t.Run(name, func(t *testing.T) {
			err := statusError([]byte(c.object))
			if err == nil {
				t.Fatal("no error")
			}
			if !c.is(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A Secret may stand in what the server calls an ERROR: no more of it than is
// needed may come into the log.
func TestStatusErrorIsShort(t *testing.T) {
	err := statusError([]byte(`{"kind":"Secret","data":"` + strings.Repeat("x", 5000) + `"}`))
	if n := len(err.Error()); n > 400 {
		t.Errorf("%d bytes", n)
	}
}
