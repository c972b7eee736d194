package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const patience = 30 * time.Second

// role makes the test binary the program that the tests run.
const role = "KUBEJOURNAL_PROGRAM_ROLE"

func TestMain(m *testing.M) {
	if is := os.Getenv(role); is != "" {
		os.Exit(play(is))
	}
	goleak.VerifyTestMain(m)
}

func play(is string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	switch is {
	case "serve":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 2
		}
		answer := func(path, text string) {
			http.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
		}
		answer("/readyz", "ok\n")
		answer("/streams", `[{"stream":"pods","state":"Watching"},{"stream":"jobs","state":"Pending","reason":"Forbidden"}]`)
		answer("/metrics", "# TYPE a counter\na 2\nb{le=\"0.5\",x=\"y z\"} 1e3\n")
		answer("/environ", strings.Join(os.Environ(), "\n"))
		fmt.Fprintf(os.Stderr, "{\"msg\":\"starting\"}\n{\"msg\":\"listening\",\"address\":%q}\n", l.Addr())
		go http.Serve(l, nil)
	case "lines":
		fmt.Print("a\nb\nhalf")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "racy":
		fmt.Fprintln(os.Stderr, "WARNING: DATA RACE")
	case "fails":
		fmt.Fprintln(os.Stderr, "last words")
		return 3
	}
	fmt.Fprintln(os.Stderr, "up")
	<-ended
	if is == "fails at stop" {
		return 4
	}
	return 0
}

// launch starts the test binary in a role and waits until it is up, unless it ends at once.
func launch(t *testing.T, is, log string, out *Output) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir = t.TempDir()
	cmd.Env = Environ(cmd.Dir, role+"="+is)
	if out != nil {
		cmd.Stdout = out
	}
	if log == "" {
		log = filepath.Join(cmd.Dir, "log")
	}
	p, err := Start(cmd, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.End)
	err = p.Wait(t.Context(), patience, "up", func() error {
		if text := mustLog(t, p); !strings.Contains(text, "up\n") {
			return fmt.Errorf("log: %q", text)
		}
		return nil
	})
	if (err != nil) != (is == "fails") {
		t.Fatal(err)
	}
	return p
}

func mustLog(t *testing.T, p *Process) string {
	t.Helper()
	log, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// A program is started twice on one log, asked, and stopped.
func TestLife(t *testing.T) {
	t.Setenv("KUBEJOURNAL_OF_THE_DEVELOPER", "1")
	log := filepath.Join(t.TempDir(), "log")
	for range 2 {
		p := launch(t, "serve", log, nil)
		if err := p.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		streams, err := p.Streams(t.Context())
		if want := "[{pods Watching } {jobs Pending Forbidden}]"; err != nil || fmt.Sprint(streams) != want {
			t.Errorf("streams are %v (%v), want %s", streams, err, want)
		}
		metrics, err := p.Metrics(t.Context())
		if err != nil || len(metrics) != 2 || metrics["a"] != 2 || metrics[`b{le="0.5",x="y z"}`] != 1000 {
			t.Errorf("metrics are %v (%v)", metrics, err)
		}
		if _, err := p.Page(t.Context(), "/nowhere"); err == nil || !strings.Contains(err.Error(), "status 404") {
			t.Errorf("a page that is not there: %v", err)
		}
		environ, err := p.Page(t.Context(), "/environ")
		if err != nil || strings.Contains(environ, "DEVELOPER") || !strings.Contains(environ, "HOME="+p.cmd.Dir) {
			t.Errorf("environment is %q (%v)", environ, err)
		}
		if !p.Alive() || p.State() != nil {
			t.Error("it does not count as running")
		}
		if err := p.Stop(patience); err != nil {
			t.Error(err)
		}
		if p.Alive() || p.State().ExitCode() != 0 || p.Killed(syscall.SIGTERM) {
			t.Errorf("ended: %s", p.State())
		}
		if text := mustLog(t, p); strings.Count(text, "listening") != 1 {
			t.Errorf("the log of one run is %q", text)
		}
		if _, _, err := p.Get(t.Context(), "/readyz"); !errors.Is(err, ErrEnded) {
			t.Errorf("a program that has ended is asked: %v", err)
		}
	}
}

func TestStopFaults(t *testing.T) {
	for is, want := range map[string]string{
		"stubborn":      "still runs after 200ms",
		"racy":          "a race or a panic",
		"fails at stop": "exit status 4",
	} {
		limit := patience
		if is == "stubborn" {
			limit = 200 * time.Millisecond
		}
		p := launch(t, is, "", nil)
		err := p.Stop(limit)
		if err == nil || !strings.Contains(err.Error(), want) || p.Alive() {
			t.Errorf("%s: %v, want %q", is, err, want)
		}
		if errors.Is(err, ErrEnded) != (is == "fails at stop") {
			t.Errorf("%s: ErrEnded is told wrongly: %v", is, err)
		}
		if log := mustLog(t, p); strings.Contains(log, "SIGQUIT") != (is == "stubborn") {
			t.Errorf("%s: the log is %q", is, log)
		}
	}
}

func TestKill(t *testing.T) {
	p := launch(t, "idle", "", nil)
	before := time.Now()
	if at, err := p.Kill(); err != nil || at.Before(before) || !p.Killed(syscall.SIGKILL) {
		t.Errorf("killed at %s: %v, %s", at, err, p.State())
	}
	p.End() // nothing is left to end
	p = nil
	p.End()
	if p.Alive() {
		t.Error("no process is alive")
	}
	p = launch(t, "fails", "", nil)
	if _, err := p.Kill(); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "last words") {
		t.Errorf("a program that had ended by itself: %v", err)
	}
}

func TestWait(t *testing.T) {
	p := launch(t, "fails", "", nil)
	never := errors.New("never")
	err := p.Wait(t.Context(), patience, "it", func() error { return never })
	if !errors.Is(err, ErrEnded) || !errors.Is(err, never) || !strings.Contains(err.Error(), "last words") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("waiting for a program that has ended: %v", err)
	}
	looks := 0
	if err := p.Wait(t.Context(), patience, "it", func() error {
		if looks++; looks == 1 {
			return never
		}
		return nil
	}); err != nil {
		t.Errorf("what it did last is not seen: %v", err)
	}
	if err := Eventually(t.Context(), 10*time.Millisecond, "it", func() error { return never }); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, never) {
		t.Errorf("behind the limit: %v", err)
	}
	if err := Eventually(t.Context(), patience, "it", func() error { return fmt.Errorf("more: %w", Final(never)) }); err == nil || err.Error() != "it: more: never" {
		t.Errorf("a final error: %v", err)
	}
}

func TestStartFault(t *testing.T) {
	cmd := exec.Command(filepath.Join(t.TempDir(), "none"))
	if _, err := Start(cmd, filepath.Join(t.TempDir(), "log")); err == nil || !strings.HasPrefix(err.Error(), "start none: ") {
		t.Error(err)
	}
}

func TestOutput(t *testing.T) {
	var out Output
	p := launch(t, "lines", "", &out)
	if err := p.Stop(patience); err != nil {
		t.Fatal(err)
	}
	if got := string(out.Text()); got != "a\nb\n" {
		t.Errorf("output is %q", got)
	}
	if log := mustLog(t, p); log != "up\n" {
		t.Errorf("log is %q", log)
	}
}

// A file grows by parts of lines.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	tail := NewTail(path)
	defer tail.Close()
	var got []string
	read := func() {
		t.Helper()
		text, err := tail.Next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(text))
	}
	read() // it is not there yet
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, part := range []string{"a\nb", "b", "b\n", "\nc\nd", ""} {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
		read()
	}
	if want := "|a\n||bbb\n|\nc\n|"; strings.Join(got, "|") != want {
		t.Errorf("lines are %q", got)
	}
}

func TestUsage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is read from /proc")
	}
	p := launch(t, "idle", "", nil)
	if _, err := p.CPU(); err != nil {
		t.Error(err)
	}
	if m, err := p.Memory("VmHWM", "RssAnon"); err != nil || m[0] < 1<<20 || m[1] < 1<<10 || m[1] > m[0] {
		t.Errorf("memory is %d (%v)", m, err)
	}
	if _, err := p.Memory("VmNone"); err == nil {
		t.Error("a key that is not there is found")
	}
	p.End()
	if cpu, err := p.CPU(); err != nil || cpu <= 0 {
		t.Errorf("a program that has ended used %s (%v)", cpu, err)
	}
}

func TestListening(t *testing.T) {
	for log, want := range map[string]string{
		"": "",
		`{"msg":"starting"}` + "\n" + `{"msg":"listening","address":"127.0.0.1:1"}` + "\n": "127.0.0.1:1",
		`{"msg":"not listening","address":"127.0.0.1:1"}` + "\n":                           "",
		`{"msg":"listening","addr`: "",
	} {
		if got := Listening([]byte(log)); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}

// Who comes second waits.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that is held: %v", err)
	}
	unlock()
	if unlock, err = Lock(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestRoot(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "test", "program", "program_test.go")); err != nil {
		t.Error(err)
	}
	t.Chdir(filepath.Join(root, "test", "controlplane")) // its go.mod is not the main one
	if inner, err := Root(); err != nil || inner != root {
		t.Errorf("from another module: %s (%v), want %s", inner, err, root)
	}
	t.Chdir(t.TempDir())
	if got, err := Root(); err == nil {
		t.Errorf("outside: %s, want an error", got)
	}
}
