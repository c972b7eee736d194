package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/test/program"
)

const (
	// stepPatience is for one block of the page, and for what it shows to come.
	stepPatience = 2 * time.Minute
	// lookInterval is how soon a person looks again.
	lookInterval = time.Second / 2
	// aloneIn is set for the test that has a network and mounts of its own.
	aloneIn = "KUBEJOURNAL_TEST_ALONE"
)

// Whoever follows docs/quickstart.md types what it says and sees what it shows: one shell, from the sources to a daemon in
// the cluster and out again. The server and its controllers are real, and so are kubectl and helm; for the node see there.
func TestQuickstart(t *testing.T) {
	if os.Getenv(aloneIn) == "" {
		theImage(t) // fetches the modules, and what it compiles make build and make image have not to compile again
		alone(t)
		return
	}
	bringUp(t)
	s := theServer(t)
	runControllers(t, s)
	tree := copyTree(t)
	n := startNode(t, s, filepath.Join(tree, "bin", "kubejournal"))
	terminal := openTerminal(t, tree, s.Kubeconfig())

	steps := readSteps(t, filepath.Join(root, "docs", "quickstart.md"))
	began, part, notRun := time.Now(), "", 0
	for _, step := range steps {
		if step.part != part {
			if part != "" {
				t.Logf("%6.1f s  %s", time.Since(began).Seconds(), part)
			}
			began, part = time.Now(), step.part
		}
		if step.how == "push" {
			notRun++
			continue
		}
		terminal.do(n, step)
	}
	t.Logf("%6.1f s  %s", time.Since(began).Seconds(), part)
	if notRun != 1 {
		t.Errorf("%d blocks are not run; only the one that pushes the image is left out, since that takes a registry", notRun)
	}
}

// alone runs the test in a process with a network of its own, where the ports that the page uses are free, and with
// mounts and process ids of its own, so that nothing outlives it.
func alone(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=6m")
	cmd.Env = append(os.Environ(), aloneIn+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%v; run this test as root", err)
	}
}

// bringUp gives the new network its loopback, and the node's address, since no service takes one of the loopback's; and
// shows processes under their new ids.
func bringUp(t *testing.T) {
	t.Helper()
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	address, err := unix.NewIfreq("lo:1")
	if err == nil {
		err = address.SetInet4Addr(net.ParseIP(nodeAddress).To4())
	}
	if err == nil {
		err = errors.Join(unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up), unix.IoctlIfreq(socket, unix.SIOCSIFADDR, address))
	}
	if err != nil {
		t.Fatalf("bring network up: %v", err)
	}
}

// tool is the path of a program that the Makefile builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v (make bin/%s builds it)", err, name)
	}
	return path
}

// runControllers runs kube-controller-manager until the test ends, and returns when it works. It leaves alone the node,
// which does not say every few seconds that it is alive.
func runControllers(t *testing.T, s *server) {
	t.Helper()
	controllers := start(t, exec.Command(tool(t, "kube-controller-manager"), "--kubeconfig="+s.Kubeconfig(), "--root-ca-file="+s.RESTConfig().CAFile,
		"--controllers=*,-node-lifecycle-controller", "--leader-elect=false", "--secure-port=0", "--flex-volume-plugin-dir="+t.TempDir()))
	eventually(t, "controllers work", func() error {
		if !controllers.Alive() {
			return controllers.Fault(program.ErrEnded)
		}
		_, err := s.client.CoreV1().ConfigMaps("default").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// copyTree is what a clone of the sources holds.
func copyTree(t *testing.T) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "kubejournal")
	for _, name := range []string{"cmd", "internal", "configs", "deploy", "docs"} {
		if err := os.CopyFS(filepath.Join(tree, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "Makefile", "Dockerfile", "README.md"} {
		if err := copyFile(filepath.Join(root, name), filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// step is a block of the page that is typed, with what the page shows after it.
type step struct {
	line   int
	part   string // the heading above
	how    string // "": once; look: again until it shows what the page does, as a person looks again; push: not here
	script string
	shown  [][]string // blocks of lines
}

var fence = regexp.MustCompile("^```(\\w*) ?(.*)$")

func readSteps(t *testing.T, path string) []step {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	part, language, block := "", "", []string(nil)
	for i, line := range strings.Split(string(content), "\n") {
		mark := fence.FindStringSubmatch(line)
		switch {
		case mark == nil && language != "":
			block = append(block, line)
		case mark == nil:
			if title, ok := strings.CutPrefix(line, "## "); ok {
				part = title
			}
		case language == "":
			language, block = mark[1], nil
			if language == "sh" {
				steps = append(steps, step{line: i + 1, part: part, how: mark[2]})
			}
		default:
			switch last := len(steps) - 1; language {
			case "sh":
				steps[last].script = strings.Join(block, "\n") + "\n"
			case "text":
				steps[last].shown = append(steps[last].shown, block)
			default:
				t.Fatalf("%s:%d: a block of %q is neither typed (sh) nor shown (text)", path, i+1, language)
			}
			language = ""
		}
	}
	return steps
}

// terminal is an interactive shell, whose output goes to a terminal as a person's does.
type terminal struct {
	t      *testing.T
	stdin  io.Writer
	count  int
	mu     sync.Mutex
	output bytes.Buffer // since it was last taken
}

func openTerminal(t *testing.T, dir, kubeconfig string) *terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 250})
	}
	if err != nil {
		t.Fatalf("make terminal: %v", err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()

	tools, home := t.TempDir(), t.TempDir()
	for _, name := range []string{"kubectl", "helm"} {
		if err := os.Symlink(tool(t, name), filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	shell := exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	shell.Dir = dir
	shell.Env = []string{
		"PATH=" + tools + ":" + os.Getenv("PATH"), "HOME=" + home, "KUBECONFIG=" + kubeconfig, "TMPDIR=" + home,
		"NO_COLOR=1", "TERM=dumb", "PS1=", "PS2=", "TZ=UTC", "LC_ALL=C.UTF-8",
	}
	settings, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(string(settings))
	shell.Env = append(shell.Env, "GOCACHE="+caches[0], "GOMODCACHE="+caches[1])
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.Stdout, shell.Stderr = theirs, theirs
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, stdin: stdin}
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := ours.Read(buffer)
			x.mu.Lock()
			x.output.Write(bytes.ReplaceAll(buffer[:n], []byte("\r"), nil))
			x.mu.Unlock()
			if err != nil { // nobody has the terminal open any more; at the latest when this process ends
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = shell.Process.Kill()
		_ = shell.Wait()
	})
	return x
}

// do types a step and holds what comes against what the page shows.
func (x *terminal) do(n *node, s step) {
	x.t.Helper()
	deadline := time.Now().Add(stepPatience)
	for {
		until := deadline
		if s.how == "look" {
			until = time.Now().Add(lookInterval)
		}
		output, wrong := x.try(n, s, until, deadline)
		if wrong == "" {
			return
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("docs/quickstart.md:%d: %s\nprints\n%s\n%s", s.line, s.script, output, wrong)
		}
	}
}

// try types a step once. When it has ended and until has passed, what has come is all that comes; what a program in the
// background prints may come later than the end. Meanwhile the node works.
func (x *terminal) try(n *node, s step, until, deadline time.Time) (output, wrong string) {
	x.t.Helper()
	x.take()
	x.count++
	end := fmt.Sprintf("end of %d\n", x.count)
	if _, err := io.WriteString(x.stdin, s.script+"echo "+end); err != nil {
		x.t.Fatal(err)
	}
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		n.sync()
		output += x.take()
		before, after, ended := strings.Cut(output, end)
		now := time.Now()
		if ended {
			if wrong = differ(s.shown, before+after); wrong == "" || now.After(until) {
				return before + after, wrong
			}
		} else if now.After(deadline) {
			return output, "it does not end"
		}
		<-ticker.C
	}
}

// take returns what has come since the last time.
func (x *terminal) take() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.output.Reset()
	return x.output.String()
}

// varying is what differs from one time to the next.
var varying = []struct{ what, as string }{
	{`\d{4}-\d\d-\d\d(T[\d:.]+Z?)?( UTC)?`, "DATE"},
	{`\d\d:\d\d:\d\d(\.\d+|\*)?`, "TIME"},
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UID"},
	{`kubejournal-[0-9a-f]{8,10}-[0-9a-z]{5}\b`, "POD"},
	{`^\[\d\] \d+$`, "[JOB] PID"},
	{`^version +\S+`, "version VERSION"},
	{`\bsha256:[0-9a-f]{64}\b`, "DIGEST"},
	{`\b(\d+(\.\d+)?(ms|µs|s|m|h))+\b`, "DURATION"},
	{`\b\d{3,}\b`, "NUMBER"},
	{`\s+`, " "},
}

func plain(line string) string {
	line = strings.TrimSpace(line)
	for _, v := range varying {
		line = regexp.MustCompile(v.what).ReplaceAllString(line, v.as)
	}
	return line
}

// differ says what is wrong with an output, or nothing. Each block must come line by line in its order; blocks may be
// mixed, as those of two programs on one terminal are. What else comes is wrong unless a block has a line "...".
func differ(shown [][]string, output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = plain(line); line != "" {
			lines = append(lines, line)
		}
	}
	elided := false
	for _, block := range shown {
		from := 0
		for _, want := range block {
			switch want = plain(want); want {
			case "":
				continue
			case "...":
				elided = true
				continue
			}
			i := slices.Index(lines[from:], want)
			if i < 0 {
				return "does not print " + want
			}
			from += i
			lines = slices.Delete(lines, from, from+1)
		}
	}
	if len(lines) > 0 && !elided {
		return "also prints " + strings.Join(lines, "\n")
	}
	return ""
}

func TestDiffer(t *testing.T) {
	const first, second, third = "12:00:00.123  ADDED  pods", "12:00:00.124  DELETED  pods  10s ago", "pod/web created"
	blocks := func(all ...[]string) [][]string { return all }
	for name, tc := range map[string]struct {
		shown   [][]string
		printed []string
		wrong   string // what differ says, in part
	}{
		"the same":           {shown: blocks([]string{first, second}), printed: []string{first, second}},
		"another time":       {shown: blocks([]string{first, second}), printed: []string{"01:02:03.4 ADDED pods", "01:02:03.5 DELETED   pods 3m1s ago"}},
		"nothing":            {},
		"mixed programs":     {shown: blocks([]string{third}, []string{first, second}), printed: []string{first, third, second}},
		"more is left out":   {shown: blocks([]string{"...", second}), printed: []string{first, second, third}},
		"one too few":        {shown: blocks([]string{first, second}), printed: []string{first}, wrong: "does not print TIME DELETED"},
		"once and not twice": {shown: blocks([]string{first}), printed: []string{first, first}, wrong: "also prints TIME ADDED"},
		"twice and not once": {shown: blocks([]string{first, first}), printed: []string{first}, wrong: "does not print"},
		"another order":      {shown: blocks([]string{first, second}), printed: []string{second, first}, wrong: "does not print"},
		"an error":           {printed: []string{"error: no server"}, wrong: "also prints error"},
		"another word":       {shown: blocks([]string{first}), printed: []string{"12:00:00.123  ADDED  jobs"}, wrong: "does not print"},
	} {
		t.Run(name, func(t *testing.T) {
			got := differ(tc.shown, strings.Join(tc.printed, "\n")+"\n")
			if (got == "") != (tc.wrong == "") || !strings.Contains(got, tc.wrong) {
				t.Errorf("differ says %q, want %q", got, tc.wrong)
			}
		})
	}
}
