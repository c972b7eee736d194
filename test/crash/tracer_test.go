//go:build linux && amd64

package crash

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// subjectStep is one durable step of the subject, and what stands in the folder after it: to be seen, and after a power cut.
type subjectStep struct {
	does  string
	seen  string
	safe  string
	trace string
}

var subjectSteps = []subjectStep{
	{"create f", "f=", "", "create other f"},
	{"write f hello", "f=hello", "", "write other f [0+5]"},
	{"sync f", "f=hello", "", "sync other f"},
	{"sync .", "f=hello", "f=hello", "sync folder ."},
	{"pwrite f 0 J", "f=Jello", "f=hello", "write other f [0+1]"},
	{"pwrite f 7 !!", "f=Jello\x00\x00!!", "f=hello", "write other f [7+2]"},
	{"rename f g", "g=Jello\x00\x00!!", "f=hello", "rename other f -> g"},
	{"sync g", "g=Jello\x00\x00!!", "f=Jello\x00\x00!!", "sync other g"},
	{"link g h", "g=Jello\x00\x00!! h=Jello\x00\x00!!", "f=Jello\x00\x00!!", "link other g -> h"},
	{"unlink g", "h=Jello\x00\x00!!", "f=Jello\x00\x00!!", "unlink other g"},
	{"sync .", "h=Jello\x00\x00!!", "h=Jello\x00\x00!!", "sync folder ."},
	{"truncate h 2", "h=Je", "h=Jello\x00\x00!!", "truncate other h 2"},
	{"allocate h 4", "h=Je\x00\x00", "h=Jello\x00\x00!!", "allocate other h 4"},
	{"chmod h", "h=Je\x00\x00", "h=Jello\x00\x00!!", "chmod other h"},
	{"sync h", "h=Je\x00\x00", "h=Je\x00\x00", "sync other h"},
	{"open h", "h=Je\x00\x00", "h=Je\x00\x00", "open other h"},
	{"append h ly", "h=Je\x00\x00ly", "h=Je\x00\x00", "write other h [4+2]"},
	{"empty h", "h=", "h=Je\x00\x00", "truncate other h 0"},
	{"create k", "h= k=", "h=Je\x00\x00", "create other k"},
	{"write k new", "h= k=new", "h=Je\x00\x00", "write other k [0+3]"},
	{"rename k h", "h=new", "h=Je\x00\x00", "rename other k -> h"},
	{"unlink h", "", "h=Je\x00\x00", "unlink other h"},
	{"sync .", "", "", "sync folder ."},
}

// subjectPlan does verdicts at the begins and ends of operations.
type subjectPlan struct {
	begin, end map[int]Verdict
	image      *Image
	ops        []string
	err        error
}

func (p *subjectPlan) Begin(op *Operation) Verdict {
	_, text, _ := strings.Cut(op.String(), " ")
	p.ops = append(p.ops, text)
	if p.image != nil && p.err == nil {
		p.err = p.image.Begin(op)
	}
	return p.begin[op.N]
}

func (p *subjectPlan) End(op *Operation) Verdict {
	v := p.end[op.N]
	seen := *op
	if v.Fail != 0 {
		seen.Result = -int64(v.Fail)
	}
	if p.image != nil && p.err == nil {
		p.err = p.image.End(&seen)
	}
	return v
}

// laboratory runs the subject.
type laboratory struct {
	t        *testing.T
	programs programs
	folder   string
}

// run runs the subject in a new folder, and returns what it said.
func (l *laboratory) run(p *subjectPlan, cut bool, steps ...string) (said []string, status unix.WaitStatus, err error) {
	l.t.Helper()
	dir := l.t.TempDir()
	l.folder = filepath.Join(dir, "data")
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer stderr.Close()
	if err := os.Mkdir(l.folder, 0o700); err != nil {
		l.t.Fatal(err)
	}
	if cut {
		grave := filepath.Join(dir, "grave")
		if err := os.Mkdir(grave, 0o700); err != nil {
			l.t.Fatal(err)
		}
		if p.image, err = NewImage(l.folder, grave); err != nil {
			l.t.Fatal(err)
		}
	}
	process, err := Start(Command{
		Confine: l.programs.confine, Args: append([]string{l.programs.subject}, steps...),
		Dir: l.folder, Stderr: stderr, Folder: l.folder,
	}, p)
	if err != nil {
		l.t.Fatal(err)
	}
	<-process.Done()
	if p.err != nil {
		l.t.Fatal(p.err)
	}
	content, err := os.ReadFile(stderr.Name())
	if err != nil {
		l.t.Fatal(err)
	}
	status, err = process.Status()
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n"), status, err
}

// stands describes the folder.
func (l *laboratory) stands() string {
	l.t.Helper()
	entries, err := os.ReadDir(l.folder)
	if err != nil {
		l.t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(l.folder, e.Name()))
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, e.Name()+"="+string(content))
	}
	return strings.Join(all, " ")
}

func TestTracer(t *testing.T) {
	l := &laboratory{t: t, programs: build(t)}
	var steps, want []string
	for _, s := range subjectSteps {
		steps, want = append(steps, s.does), append(want, s.trace)
	}
	before := func(n int) string {
		if n == 1 {
			return ""
		}
		return subjectSteps[n-2].seen
	}
	check := func(n int, what, want string) {
		t.Helper()
		if got := l.stands(); got != want {
			t.Errorf("%s %d %s: the folder holds %q, want %q", what, n, steps[n-1], got, want)
		}
	}

	p := &subjectPlan{}
	said, status, err := l.run(p, false, steps...)
	if err != nil || !status.Exited() || status.ExitStatus() != 0 {
		t.Fatalf("status %#x, error %v: %q", int(status), err, said)
	}
	for i, line := range said {
		if line != steps[i]+": <nil>" {
			t.Errorf("step %d: %s", i+1, line)
		}
	}
	if !slices.Equal(p.ops, want) {
		t.Fatalf("operations:\n%s\nwant:\n%s", strings.Join(p.ops, "\n"), strings.Join(want, "\n"))
	}

	die := Verdict{Kill: true}
	all := Keep{Names: func(n int) int { return n }, Change: func() bool { return true }}
	none := Keep{Names: func(int) int { return 0 }, Change: func() bool { return false }}
	for i, s := range subjectSteps {
		n := i + 1
		killed := func(what string, p *subjectPlan, cut bool) {
			t.Helper()
			if _, status, err := l.run(p, cut, steps...); err != nil || !status.Signaled() || status.Signal() != unix.SIGKILL {
				t.Errorf("%s %d: status %#x, error %v", what, n, int(status), err)
			}
		}
		killed("kill before", &subjectPlan{begin: map[int]Verdict{n: die}}, false)
		check(n, "kill before", before(n))
		killed("kill after", &subjectPlan{end: map[int]Verdict{n: die}}, false)
		check(n, "kill after", s.seen)

		for _, cut := range []struct {
			keep Keep
			want string
		}{{none, s.safe}, {all, s.seen}} {
			p := &subjectPlan{end: map[int]Verdict{n: die}}
			killed("power cut", p, true)
			if err := p.image.Cut(cut.keep); err != nil {
				t.Fatal(err)
			}
			check(n, "power cut", cut.want)
		}
		// The last step has no next one to die at.
		if n == len(steps) {
			break
		}
		for _, failure := range []struct {
			what string
			plan *subjectPlan
			want string
		}{
			{"fails", &subjectPlan{begin: map[int]Verdict{n: {Fail: syscall.ENOSPC}, n + 1: die}}, before(n)},
			{"done, but fails", &subjectPlan{begin: map[int]Verdict{n + 1: die}, end: map[int]Verdict{n: {Fail: syscall.ENOSPC}}}, s.seen},
		} {
			said, _, err := l.run(failure.plan, false, steps...)
			if want := s.does + ": " + syscall.ENOSPC.Error(); err != nil || len(said) < n || said[i] != want {
				t.Errorf("%s %d: said %q, want %q last; error %v", failure.what, n, said, want, err)
			}
			check(n, failure.what, failure.want)
		}
	}

	if _, _, err := l.run(&subjectPlan{begin: map[int]Verdict{2: {Short: 2}}}, false, steps[:2]...); err != nil {
		t.Error(err)
	}
	check(2, "short", "f=he")

	_, status, err = l.run(&subjectPlan{}, false, "mkdir d")
	if err == nil || !strings.Contains(err.Error(), "not known to the tracer") || !status.Signaled() {
		t.Errorf("a call that the tracer does not know: status %#x, error %v", int(status), err)
	}
}

// A sync that fails loses for good what it was for; what is written again is there again.
func TestSyncLoses(t *testing.T) {
	l := &laboratory{t: t, programs: build(t)}
	steps := []string{"create f", "sync .", "write f abcd", "sync f", "pwrite f 0 AB", "sync f", "pwrite f 4 ef", "sync f"}
	fail := map[int]Verdict{6: {Fail: syscall.EIO}}
	kept := Keep{Names: func(n int) int { return n }, Change: func() bool { return true }}
	for _, c := range []struct {
		steps []string
		want  string
	}{{steps, "f=abcdef"}, {append(steps, "pwrite f 1 B", "sync f"), "f=aBcdef"}, {append(steps, "pwrite f 0 ABC"), "f=ABCdef"}} {
		p := &subjectPlan{end: fail}
		if _, _, err := l.run(p, true, c.steps...); err != nil {
			t.Fatal(err)
		}
		if err := p.image.Cut(kept); err != nil {
			t.Fatal(err)
		}
		if got := l.stands(); got != c.want {
			t.Errorf("%v: the folder holds %q, want %q", c.steps, got, c.want)
		}
	}
}
