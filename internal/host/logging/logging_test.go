package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLogger returns a logger and what it wrote.
func newLogger(t *testing.T, level, format string) (*zap.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	log, _, err := New(level, format, zapcore.AddSync(&out))
	if err != nil {
		t.Fatal(err)
	}
	return log, &out
}

// lines decodes what a JSON logger wrote.
func lines(t *testing.T, out *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// The level may change while the log is written.
func TestLevelChanges(t *testing.T) {
	var out bytes.Buffer
	log, level, err := New("error", "json", zapcore.AddSync(&out))
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not written")
	level.SetLevel(zapcore.DebugLevel)
	log.Named("a").Debug("written")
	if got := lines(t, &out); len(got) != 1 || got[0]["msg"] != "written" {
		t.Errorf("got %v", got)
	}
}

func TestJSON(t *testing.T) {
	log, out := newLogger(t, "info", "json")
	log.Debug("not written")
	log.Named("stream").Error("watch broke", zap.String("stream", "pods"), zap.Error(errors.New("cut")), zap.Duration("after", time.Second))
	got := lines(t, out)
	if len(got) != 1 {
		t.Fatalf("got %d lines: %s", len(got), out)
	}
	for key, want := range map[string]any{
		"level": "error", "logger": "stream", "msg": "watch broke", "stream": "pods", "error": "cut", "after": "1s",
	} {
		if got[0][key] != want {
			t.Errorf("%s is %v, want %v", key, got[0][key], want)
		}
	}
	stamp, _ := got[0]["time"].(string)
	if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil || !strings.HasSuffix(stamp, "Z") || len(stamp) != 30 {
		t.Errorf("time %q is not UTC with nanoseconds: %v", stamp, err)
	}
	if len(got[0]) != 7 {
		t.Errorf("more than asked for (a stack trace?): %v", got[0])
	}
}

func TestConsole(t *testing.T) {
	log, out := newLogger(t, "warn", "console")
	log.Info("not written")
	log.Warn("slow", zap.Int("n", 3))
	if got := out.String(); !strings.HasSuffix(got, "Z warn slow {\"n\": 3}\n") {
		t.Errorf("got %q", got)
	}
}

// A message or a value with an end of line or an escape is one line, and no terminal acts on it.
func TestHostileValues(t *testing.T) {
	const evil = "a\nEVIL\x1b[2J\u009b\u202e\u2028\x7f\xff"
	for _, format := range []string{"json", "console"} {
		log, out := newLogger(t, "info", format)
		log.Info(evil, zap.String(evil, evil), zap.Error(errors.New(evil)))
		raw := func(r rune) bool { return r < ' ' || r > '~' && r != utf8.RuneError }
		if got := strings.TrimSuffix(out.String(), "\n"); strings.ContainsFunc(got, raw) || !utf8.ValidString(got) {
			t.Errorf("%s: %q", format, got)
		}
		if format == "json" {
			if got := lines(t, out); len(got) != 1 || got[0]["msg"] != strings.ToValidUTF8(evil, "\ufffd") {
				t.Errorf("got %q", got)
			}
		}
	}
}

// A fault that lasts repeats its line; none may be held back.
func TestNoSampling(t *testing.T) {
	log, out := newLogger(t, "info", "json")
	for range 5000 {
		log.Info("again")
	}
	if n := strings.Count(out.String(), "\n"); n != 5000 {
		t.Errorf("%d lines, want 5000", n)
	}
}

func TestBadLevelAndFormat(t *testing.T) {
	for _, tc := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, _, err := New(tc[0], tc[1], zapcore.AddSync(&bytes.Buffer{})); err == nil {
			t.Errorf("%v was taken", tc)
		}
	}
}

// Not parallel, as all that follows: klog's logger and the error handlers belong to the process.
func route(t *testing.T, log *zap.Logger) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	RouteKubernetes(log)
	t.Cleanup(func() {
		klog.ClearLogger()
		utilruntime.ErrorHandlers = handlers
		rest.SetDefaultWarningHandler(rest.WarningLogger{})
	})
}

// A warning of the API server is logged once, not at every request.
func TestServerWarnings(t *testing.T) {
	log, out := newLogger(t, "info", "json")
	route(t, log)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "policy/v1beta1 is deprecated"`)
	}))
	defer server.Close()
	client, err := rest.RESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme()),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Client.Transport)
	for range 2 {
		if err := client.Get().AbsPath("/").Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if got := lines(t, out); len(got) != 1 || got[0]["level"] != "warn" || !strings.Contains(got[0]["msg"].(string), "policy/v1beta1 is deprecated") {
		t.Errorf("got %v", got)
	}
}

func TestRouteKubernetes(t *testing.T) {
	for level, want := range map[string][]string{
		"debug": {"info: plain", "info: structured", "error: bad", "error: unreturnable", "error: handled"},
		"info":  {"info: plain", "info: structured", "error: bad", "error: unreturnable", "error: handled"},
		"error": {"error: bad", "error: unreturnable", "error: handled"},
	} {
		t.Run(level, func(t *testing.T) {
			log, out := newLogger(t, level, "json")
			route(t, log)
			klog.Info("plain")
			klog.InfoS("structured", "key", "value")
			klog.ErrorS(errors.New("cause"), "bad")
			klog.V(1).Info("chatter")
			klog.FromContext(context.Background()).V(4).Info("more chatter")
			klog.FromContext(context.Background()).V(1).Info("chatter with a context")
			utilruntime.HandleErrorWithContext(context.Background(), errors.New("cause"), "unreturnable", "key", "value")
			utilruntime.HandleErrorWithContext(context.Background(), nil, "handled")

			var got []string
			for _, l := range lines(t, out) {
				if l["logger"] != "client-go" {
					t.Errorf("logger is %v", l["logger"])
				}
				got = append(got, l["level"].(string)+": "+l["msg"].(string))
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if strings.Contains(out.String(), "goroutine") || strings.Contains(out.String(), "stacktrace") {
				t.Errorf("stack trace in %s", out)
			}
		})
	}
}

func TestRouteKeepsValues(t *testing.T) {
	log, out := newLogger(t, "info", "json")
	route(t, log)
	utilruntime.HandleErrorWithContext(context.Background(), errors.New("cause"), "unreturnable", "key", "value")
	got := lines(t, out)
	if len(got) != 1 || got[0]["error"] != "cause" || got[0]["key"] != "value" {
		t.Errorf("got %v", got)
	}
}
