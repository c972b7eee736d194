package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/sys/unix"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/format/schema"
	"kubejournal/internal/kube/fake"
)

// screen holds what many goroutines write to it.
type screen struct {
	mu   sync.Mutex
	text []byte
	more chan struct{} // closed when more has come
}

func newScreen() *screen { return &screen{more: make(chan struct{})} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := max(0, len(s.text)-1) // one read may end between the two
	more := slices.Concat(s.text[from:], b)
	s.text = append(s.text[:from], bytes.ReplaceAll(more, []byte("\r\n"), []byte("\n"))...)
	close(s.more)
	s.more = make(chan struct{})
	return len(b), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// until waits until the screen matches.
func (s *screen) until(t *testing.T, pattern string) string {
	t.Helper()
	want, late := regexp.MustCompile(pattern), time.After(soon)
	for {
		s.mu.Lock()
		text, more := string(s.text), s.more
		s.mu.Unlock()
		if want.MatchString(text) {
			return text
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("never shown: %s\n%q", pattern, text)
		}
	}
}

// pseudoTerminal is one: what is written to tty comes out on the screen.
type pseudoTerminal struct {
	*screen
	tty *os.File
}

func newTerminal(t *testing.T, width uint16) *pseudoTerminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: width}); err != nil {
		t.Fatal(err)
	}
	s := newScreen()
	go func() { // until the master is closed
		_, _ = io.Copy(s, master)
	}()
	return &pseudoTerminal{screen: s, tty: tty}
}

func TestTailOnTerminal(t *testing.T) {
	clearEnv(t)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	t.Setenv("TZ", "UTC")
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	line := func(seq int) string {
		return `{"seq":` + strconv.Itoa(seq) + `,"time":"2026-11-20T16:10:22.123456789Z","type":"MODIFIED","origin":"watch","id":"u/1/MODIFIED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"shop","name":"web-` + strconv.Itoa(seq) + "\u009b2J" + `","manager":"` + strings.Repeat("x", 300) + `","object":{}}` + "\n"
	}
	writeFile(t, path, line(1))
	s := newTerminal(t, 100)
	stop := beside(t, s.tty, "tail", path)
	text := s.until(t, `(?s)TIME.*WHAT.*\x1b\[33mMOD\x1b\[0m +pods shop/web-1\\u009b2J.*…`)
	for l := range strings.Lines(text) {
		plain := regexp.MustCompile(`\x1b\[[0-9]*m|\n`).ReplaceAllString(l, "")
		if n := len([]rune(plain)); n > 100 {
			t.Errorf("%d columns: %q", n, plain)
		}
	}
	// It continues, and ends with Ctrl-C, as a good end.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line(2)); err != nil {
		t.Fatal(err)
	}
	s.until(t, `shop/web-2`)
	stop()

	// JSON on a terminal has its escapes too.
	s = newTerminal(t, 100)
	if status := run(t.Context(), []string{"tail", "-o", "json", "--no-follow", path}, nil, s.tty, io.Discard); status != 0 {
		t.Errorf("status %d", status)
	}
	if text := s.until(t, `"name":"web-2.*\n`); strings.Contains(text, "\u009b") || !strings.Contains(text, `"web-2\u009b2J"`) {
		t.Errorf("JSON: %q", text)
	}
}

// beside runs the program beside the test. stop ends it as Ctrl-C does, and wants a good end.
func beside(t *testing.T, stdout io.Writer, args ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var (
		log    bytes.Buffer
		status int
	)
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		status = run(ctx, args, nil, stdout, &log)
	}()
	end := func() {
		cancel()
		wait(t, exited)
	}
	t.Cleanup(end)
	return func() {
		t.Helper()
		if end(); status != 0 {
			t.Errorf("status %d\n%s", status, log.String())
		}
	}
}

// running is 'kubejournal run' beside the test, on an API server in the process.
func running(t *testing.T, stdout io.Writer, args ...string) (srv *fake.Server, stop func()) {
	t.Helper()
	srv = fake.New(fake.Options{})
	t.Cleanup(srv.Close)
	kubeconfig, err := srv.Kubeconfig(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return srv, beside(t, stdout, append([]string{"run", "--kubeconfig", kubeconfig}, args...)...)
}

var configmaps = apischema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func configmap(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": name}}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestRunOnTerminal(t *testing.T) {
	clearEnv(t)
	t.Setenv("NO_COLOR", "1")
	s := newTerminal(t, 140)
	srv, stop := running(t, s.tty, "configmaps")
	s.until(t, `(?s)TIME.*SYNCED    configmaps`)
	must[map[string]any](t)(srv.Create(configmaps, configmap("first")))
	s.until(t, `\n\d\d:\d\d:\d\d\.\d{3}  ADDED     configmaps  default/first +kubefake`)
	must[map[string]any](t)(srv.Delete(configmaps, "default", "first"))
	s.until(t, `DELETED   configmaps  default/first`)
	stop()

	s = newTerminal(t, 120)
	_, stop = running(t, s.tty, "configmaps", "--format", "json")
	s.until(t, `"type":"SYNCED".*\n`)
	stop()
}

// stuck is an output that takes nothing any more.
type stuck struct {
	writing, over chan struct{}
	first         sync.Once
}

func (s *stuck) Write([]byte) (int, error) {
	s.first.Do(func() { close(s.writing) })
	<-s.over
	return 0, io.ErrClosedPipe
}

// The program ends though nobody reads what it shows.
func TestStopBesideABlockedReader(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	clearEnv(t)
	s := &stuck{writing: make(chan struct{}), over: make(chan struct{})}
	t.Cleanup(func() { close(s.over) })
	running(t, s, "configmaps", "--format", "text")
	wait(t, s.writing)
} // and waits for the end

// Into a pipe it is JSON, and text where one asks for it.
func TestRunIntoPipe(t *testing.T) {
	clearEnv(t)
	for format, want := range map[string]string{"": `^\{"seq":1,.*"type":"SYNCED"`, "text": `(?s)^\d{4}-\d\d-\d\d \S+\n\d\d:\d\d.*SYNCED +configmaps`} {
		s := newScreen()
		_, stop := running(t, s, "configmaps", "--format", format)
		s.until(t, want)
		stop()
	}
}

// Lines of a real run are what the schema says they are.
func TestRunMatchesSchema(t *testing.T) {
	clearEnv(t)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.Line()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("line.json", doc); err != nil {
		t.Fatal(err)
	}
	validator := must[*jsonschema.Schema](t)(c.Compile("line.json"))

	out := newScreen()
	srv, stop := running(t, out, "configmaps", "secrets", "namespaces")
	out.until(t, `(?s)(SYNCED.*){6}`) // the type and the id of each
	for i := range 5 {
		name := "c" + strconv.Itoa(i)
		must[map[string]any](t)(srv.Create(configmaps, configmap(name)))
		must[map[string]any](t)(srv.Patch(configmaps, "default", name, map[string]any{"data": map[string]any{"k": name}}))
		must[map[string]any](t)(srv.Delete(configmaps, "default", name))
	}
	text := out.until(t, `"type":"DELETED".*"name":"c4".*\n`)
	stop()
	lines := 0
	for line := range strings.Lines(text) {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := validator.Validate(v); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		lines++
	}
	if lines < 20 {
		t.Errorf("only %d lines", lines)
	}
}
