package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"go.uber.org/goleak"

	"kubejournal/test/invariant"
	"kubejournal/test/loggingtest"
	"kubejournal/test/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(loggingtest.Hold(m)) }

// What a newcomer must see, and how often: in a step, and as an answer. It is written down here apart from the steps, which
// check themselves.
var mustShow = map[string]int{
	`ADDED +namespaces +kube-system +- +snapshot`:                                   1,
	`ADDED +deployments.apps +shop/web +kubectl-create +generation 1`:               2,
	`MODIFIED +deployments.apps +shop/web +kubectl-patch +spec.replicas 2→5`:        2,
	`MODIFIED +configmaps +shop/web-settings +kubectl-patch +data.theme light→dark`: 1,
	`ADDED +secrets +shop/web-login +kubectl-create\n`:                              2,
	`"password": "REDACTED"`:                                                 1,
	`DELETED +configmaps +shop/web-settings +-\n`:                            2,
	`GAP +secrets +- +- +\d+s: Expired, resourceVersion \d+→`:                1,
	`GAP +deployments.apps +- +- +\d+s: Expired, resourceVersion \d+→`:       2,
	`DELETED +secrets +shop/web-login +- +relist, final state not known`:     1,
	`MODIFIED +deployments.apps +shop/web +- +spec.replicas 3→1, relist`:     2,
	`SYNCED +deployments.apps +- +- +modified 1\n`:                           1,
	`in the gap +\d+ +\| +theme: light\n`:                                    1,
	`kubejournal: secret shop/web-login: refused: redacted: data.password\n`: 1,
	`    theme: light\n  kind: ConfigMap\n`:                                  1,
	`ADDED +configmaps +shop/web-settings +kubectl-client-side-apply\n`:      1,
	`seq 1 to \d+ without a hole`:                                            1,
	`see README.md`:                                                          1,
}

func TestDemo(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), &stdout, &stderr); status != 0 {
		t.Fatalf("exit status %d\n%s\n%s", status, &stdout, &stderr)
	}
	for pattern, want := range mustShow {
		if n := len(regexp.MustCompile(pattern).FindAllIndex(stdout.Bytes(), -1)); n != want {
			t.Errorf("shown %d times, want %d: %s", n, want, pattern)
		}
	}
	for _, r := range stdout.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%q in the output, want plain text", r)
		}
	}
	if t.Failed() {
		t.Logf("%s", &stdout)
	}
	wantEmpty(t, temp)
}

// TestInterrupted presses Ctrl-C in the middle.
func TestInterrupted(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout := &tripwire{mark: "2. Somebody", trip: cancel}
	var stderr bytes.Buffer
	if status := run(ctx, stdout, &stderr); status != exitInterrupted {
		t.Errorf("exit status %d, want %d\n%s", status, exitInterrupted, &stderr)
	}
	if !strings.HasSuffix(stderr.String(), "interrupted; everything it started is down\n") {
		t.Errorf("stderr does not say that it was interrupted: %s", &stderr)
	}
	if strings.Contains(stdout.text.String(), "3. ") {
		t.Error("it went on after the interrupt")
	}
	wantEmpty(t, temp)
}

// tripwire calls trip when mark is written.
type tripwire struct {
	mark string
	trip func()
	once sync.Once
	text strings.Builder
}

func (w *tripwire) Write(p []byte) (int, error) {
	w.text.Write(p)
	if strings.Contains(w.text.String(), w.mark) {
		w.once.Do(w.trip)
	}
	return len(p), nil
}

// wantEmpty demands that nothing is left: no folder, and no process that runs from one.
func wantEmpty(t *testing.T, temp string) {
	t.Helper()
	entries, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left behind: %s", e.Name())
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline") // none where there is no /proc
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		// A process that has ended since has no file any more.
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(temp)) {
			t.Errorf("still running: %s", bytes.ReplaceAll(content, []byte{0}, []byte(" ")))
		}
	}
}

func TestCompare(t *testing.T) {
	added := line{Line: invariant.Line{Type: "ADDED", Origin: "watch", Stream: "configmaps", Namespace: shop, Name: "a", Manager: "m"}}
	foreign := line{Line: invariant.Line{Type: "ADDED", Origin: "watch", Stream: "configmaps", Namespace: "kube-system", Name: "a"}}
	gap := line{Line: invariant.Line{Type: "GAP", Stream: "configmaps", Reason: "Expired"}}
	const want = "ADDED watch configmaps shop/a"
	for _, tc := range []struct {
		name             string
		want             []string
		lines            []line
		missing, surplus []string
	}{
		{"there once", []string{want}, []line{added}, nil, nil},
		{"missing", []string{want}, nil, []string{want}, nil},
		{"twice", []string{want}, []line{added, added}, nil, []string{want + " m -"}},
		{"wanted twice", []string{want, want}, []line{added}, []string{want}, nil},
		{"whole words only", []string{"ADDED watch configmaps shop/"}, []line{added}, []string{"ADDED watch configmaps shop/"}, []string{want + " m -"}},
		{"the cluster's own", nil, []line{foreign}, nil, nil},
		{"a gap nobody expects", nil, []line{gap}, nil, []string{"GAP - configmaps - - reason=Expired"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			missing, surplus := compare(tc.want, tc.lines)
			if !slices.Equal(missing, tc.missing) || !slices.Equal(surplus, tc.surplus) {
				t.Errorf("missing %q, surplus %q; want %q, %q", missing, surplus, tc.missing, tc.surplus)
			}
		})
	}
}

func TestJournalRefresh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := &journal{tail: program.NewTail(path)}
	defer j.tail.Close()
	grow := func(text string) error {
		t.Helper()
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return j.refresh()
	}
	if err := j.refresh(); err != nil {
		t.Fatalf("a file that is not there yet: %v", err)
	}
	for _, tc := range []struct {
		text  string
		lines int
	}{{`{"seq":1}` + "\n" + `{"se`, 1}, {`q":2`, 1}, {"}\n", 2}} {
		if err := grow(tc.text); err != nil || len(j.lines) != tc.lines {
			t.Fatalf("after %q: %d lines, %v; want %d", tc.text, len(j.lines), err, tc.lines)
		}
	}
	if err := grow(`{"seq":4}` + "\n"); err == nil {
		t.Error("a hole in seq passed")
	}
}
