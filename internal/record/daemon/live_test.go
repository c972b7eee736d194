package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/host/disk"
	"kubejournal/internal/host/logging"
	"kubejournal/internal/kube/fake"
)

// soon is how long a condition may take to come true on a machine under load.
const soon = time.Minute

// syncBuffer is a buffer that many goroutines write into.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// live is a daemon that runs in the test's process, against a server in it.
type live struct {
	t      *testing.T
	srv    *fake.Server
	dir    string
	disk   disk.FS        // of the journal; nil is the real one
	pulse  time.Duration  // from one pulse to the next; 0 is the daemon's own
	hangup chan os.Signal // of the daemon that was started last
	beside Beside
	log    syncBuffer         // the last line of one that failed is its error, as main writes it
	cancel context.CancelFunc // asks it to stop
	stop   func() error       // does so too, and waits
}

// newLive makes a server and a folder; the daemon is still to be started.
func newLive(t *testing.T) *live {
	t.Helper()
	l := &live{t: t, srv: fake.New(fake.Options{}), dir: t.TempDir()}
	t.Cleanup(l.srv.Close)
	kubeconfig, err := l.srv.Kubeconfig(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon's log:\n%s", l.log.String())
		}
	})
	return l
}

// start runs the daemon with the config file or, without one, with these resources. It ends with the test.
func (l *live) start(resources ...string) {
	l.t.Helper()
	path, over := l.config(), config.Overrides{Resources: resources}
	if len(resources) > 0 {
		path, over.Flags = "", map[string]string{"listen": "127.0.0.1:0"}
	}
	noEnv := func(string) (string, bool) { return "", false }
	cfg, err := config.Load(path, over, noEnv)
	if err != nil {
		l.t.Fatal(err)
	}
	log, level, err := logging.New(cfg.Log.Level, cfg.Log.Format, zapcore.AddSync(&l.log))
	if err != nil {
		l.t.Fatal(err)
	}
	l.hangup = make(chan os.Signal, 1)
	d := New(cfg, Options{
		Version: "v1.2.3", Log: log, Level: level, Stdout: io.Discard, ConfigPath: path, Hangup: l.hangup, Beside: l.beside, Disk: l.disk, PulseEvery: l.pulse,
		Parse: func(content []byte) (*config.Config, error) { return config.Parse(content, path, over, noEnv) },
	})
	ctx, cancel := context.WithCancel(l.t.Context())
	l.cancel = cancel
	exited := make(chan error, 1)
	go func() {
		err := d.Run(ctx)
		if err != nil {
			fmt.Fprintf(&l.log, "kubejournal: %v\n", err)
		}
		exited <- err
	}()
	ended := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-exited:
			return err
		case <-time.After(soon):
			return errors.New("it does not stop")
		}
	})
	l.stop = ended
	l.t.Cleanup(func() { ended() })
}

func (l *live) config() string  { return filepath.Join(l.dir, "kubejournal.yaml") }
func (l *live) journal() string { return filepath.Join(l.dir, "journal.jsonl") }

// text is a config with these resources and more lines.
func (l *live) text(resources string, more ...string) string {
	all := []string{
		"resources: [" + resources + "]",
		fmt.Sprintf("checkpoint: {path: %q, interval: 50ms}", filepath.Join(l.dir, "c.db")),
	}
	if !strings.Contains(strings.Join(more, "\n"), "output:") {
		all = append(all, fmt.Sprintf("output: {path: %q}", l.journal()))
	}
	if !strings.Contains(strings.Join(more, "\n"), "listen:") {
		all = append(all, "listen: 127.0.0.1:0")
	}
	return strings.Join(append(all, more...), "\n") + "\n"
}

func (l *live) until(what string, condition func() bool) {
	l.t.Helper()
	deadline, tick := time.NewTimer(soon), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			l.t.Fatalf("not so after %v: %s", soon, what)
		}
	}
}

func (l *live) logged(text string) int { return strings.Count(l.log.String(), text) }

// address is where the daemon listens now.
func (l *live) address() string {
	address := ""
	for line := range strings.Lines(l.log.String()) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			address = entry.Address
		}
	}
	return address
}

func (l *live) get(path string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + l.address() + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// watched waits until these streams, and no others, watch.
func (l *live) watched(want ...string) {
	l.t.Helper()
	l.until(fmt.Sprintf("%q watch", want), func() bool {
		var streams []struct{ Stream, State string }
		if l.address() == "" || json.Unmarshal([]byte(l.get("/streams")), &streams) != nil {
			return false
		}
		var got []string
		for _, s := range streams {
			if s.State == "Watching" {
				got = append(got, s.Stream)
			}
		}
		return slices.Equal(got, want) && len(streams) == len(got)
	})
}

// reloaded waits until a config has been applied n times.
func (l *live) reloaded(n int) {
	l.t.Helper()
	l.until(fmt.Sprintf("%d reloads", n), func() bool { return l.logged(`"msg":"config reloaded"`) >= n })
}

// refused waits until the last reload has failed with this fault among others: readiness says so after the log and the metric.
func (l *live) refused(fault string) {
	l.t.Helper()
	l.until("it is refused: "+fault, func() bool {
		_, faults, found := strings.Cut(l.get("/readyz?verbose"), " failed, the config from before runs: ")
		return found && strings.Contains(faults, fault)
	})
	if !strings.Contains(l.get("/metrics"), "kubejournal_config_last_reload_successful 0") {
		l.t.Errorf("refused for %s, and the metric does not say so", fault)
	}
}

// inEffect waits until the config file as it is now is the one in effect.
func (l *live) inEffect() {
	l.t.Helper()
	content, err := os.ReadFile(l.config())
	if err != nil {
		l.t.Fatal(err)
	}
	want := fmt.Sprintf("kubejournal_config_info{hash=\"sha256:%x\"} 1\n", sha256.Sum256(content))
	l.until("it has "+want, func() bool { return strings.Contains(l.get("/metrics"), want) })
}

func (l *live) put(gvr schema.GroupVersionResource, name string) {
	l.t.Helper()
	if _, err := l.srv.Create(gvr, map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}}); err != nil {
		l.t.Fatal(err)
	}
}

// asked counts the requests for a resource.
func (l *live) asked(resource string) int {
	n := 0
	for _, r := range l.srv.Requests() {
		if r.Resource == resource {
			n++
		}
	}
	return n
}

func (l *live) hangUp() {
	select {
	case l.hangup <- syscall.SIGHUP:
	default: // as the signal package
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
