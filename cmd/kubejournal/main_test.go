package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// soon is how long a condition may take to come true on a machine under load.
const soon = time.Minute

// TestMain lets the scripts run this very program as kubejournal. Tests have UTC as local time; it is set once, since connections
// of earlier tests may still ask for the time.
func TestMain(m *testing.M) {
	if strings.HasSuffix(os.Args[0], ".test") {
		time.Local = time.UTC
	}
	testscript.Main(m, map[string]func(){"kubejournal": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   filepath.Join("testdata", "script"),
		Setup: withServer,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": wantStatus, "checkpoint": makeCheckpoint, "holding": whileHeld, "damage": damage, "newer": makeNewer,
			"server": startServer, "deny": deny, "serve": serve, "stale": stale, "namespace": makeNamespace,
			"answer": answerLists,
		},
	})
}

// wantStatus is the script command "status N program args...": it runs a program and wants that very exit status,
// where the built-in "! exec" takes any but 0.
func wantStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// The first signal asks for a clean stop, a later one exits at once.
func TestSignals(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			exited := make(chan int, 100)
			ctx := interruptible(context.Background(), func(status int) { exited <- status })
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			if ctx.Err() != nil {
				t.Fatal("ended before any signal")
			}
			if err := self.Signal(signal); err != nil {
				t.Fatal(err)
			}
			wait(t, ctx.Done())
			if len(exited) > 0 {
				t.Fatal("the first signal exited")
			}
			limit, again := time.After(soon), time.NewTicker(sameRequest/4)
			defer again.Stop()
			for { // until one is late enough
				select {
				case status := <-exited:
					if status != exitFault {
						t.Errorf("status %d, want %d", status, exitFault)
					}
					return
				case <-again.C:
					if err := self.Signal(signal); err != nil {
						t.Fatal(err)
					}
				case <-limit:
					t.Fatal("no signal exited")
				}
			}
		})
	}
}

// Signals that come with the first one are the same request.
func TestSignalsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		stops, exits := 0, 0
		go obey(signals, func() { stops++ }, func(int) { exits++ })
		send := func(after time.Duration, wantExits int) {
			t.Helper()
			time.Sleep(after) //nolint:forbidigo // of the bubble's clock
			signals <- syscall.SIGTERM
			synctest.Wait()
			if stops != 1 || exits != wantExits {
				t.Errorf("asked to stop %d times and to exit %d times, want 1 and %d", stops, exits, wantExits)
			}
		}
		send(time.Hour, 0)
		send(0, 0)
		send(sameRequest-1, 0)
		send(1, 1)
		close(signals)
	})
}

func wait[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(soon):
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

func TestReadBuild(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Path: "kubejournal", Version: "v1.2.3"},
		Deps:     []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.37.2"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	}
	if b := readBuild(info, true); b.version != "v1.2.3" || b.commit != "abc (modified)" || b.clientGo != "v0.37.2" {
		t.Errorf("got %+v", b)
	}
	info.Main.Version, info.Settings = "(devel)", nil
	if b := readBuild(info, true); b.version != "devel" || b.commit != "unknown" {
		t.Errorf("working tree: got %+v", b)
	}
	if b := readBuild(nil, false); b.version != "unknown" || b.clientGo != "unknown" {
		t.Errorf("no build information: got %+v", b)
	}
	version, commit = "v9", "def"
	t.Cleanup(func() { version, commit = "", "" })
	if b := readBuild(info, true); b.version != "v9" || b.commit != "def" {
		t.Errorf("linked in: got %+v", b)
	}
}
