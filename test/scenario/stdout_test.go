package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"kubejournal/test/invariant"
)

// pipe is the reader of a program's stdout.
type pipe struct {
	read, write *os.File
	done        chan struct{} // closed at the end of the output

	mu   sync.Mutex
	text strings.Builder // whole lines; guarded by mu
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{read: r, write: w, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for in := bufio.NewReader(r); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return // what has no end is lost with the program that wrote it
			}
			p.mu.Lock()
			p.text.WriteString(line)
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = w.Close() // both may be closed already
		_ = r.Close()
		<-p.done
	})
	return p
}

// launch starts the program with the pipe's end as its stdout, and lets go of that end.
func (p *pipe) launch(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	run := launch(t, dir, p.write, args...)
	if err := p.write.Close(); err != nil {
		t.Fatal(err)
	}
	return run
}

func (p *pipe) lines(t *testing.T) []invariant.Line {
	t.Helper()
	p.mu.Lock()
	text := p.text.String()
	p.mu.Unlock()
	lines, err := invariant.Parse("stdout", 1, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// rest waits for the end of the output and returns all of it.
func (p *pipe) rest(t *testing.T) []invariant.Line {
	t.Helper()
	<-p.done
	return p.lines(t)
}

func (p *pipe) await(t *testing.T, what string, found func([]invariant.Line) error) {
	t.Helper()
	eventually(t, soon, what, func() error { return found(p.lines(t)) })
}

// look makes a scenario of config maps in one namespace without a config, and the command line that looks at them.
func look(t *testing.T) (sc *scenario, dir string, args []string) {
	t.Helper()
	s := shared.get(t)
	ns := s.namespaces(t, 1)
	sc = play(t, s, []entry{{kind: configMaps, namespaces: ns}})
	return sc, t.TempDir(), []string{"run", "configmaps", "-n", ns[0], "--kubeconfig", s.Kubeconfig()}
}

func TestStdoutIsJSONLines(t *testing.T) {
	t.Parallel()
	sc, dir, args := look(t)
	ns := sc.ledger.sources[0].namespace
	out := newPipe(t)
	run := out.launch(t, dir, args...)
	writers := sc.churn(t, ns)
	writers.more(60)
	writers.stop()
	out.await(t, "writes", func(lines []invariant.Line) error { return invariant.Writes(lines, sc.ledger.all()) })
	run.signal(t, syscall.SIGTERM)
	if status := run.exit(t); status != 0 {
		t.Errorf("exit status %d after SIGTERM", status)
	}
	lines := out.rest(t)
	if err := invariant.All(lines, invariant.Options{}); err != nil {
		t.Error(err)
	}
	sc.same(lines)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || files[0] != run.stderr {
		t.Errorf("it leaves files behind: %v", files)
	}
}

// same checks that the lines tell what the server has.
func (s *scenario) same(lines []invariant.Line) {
	s.t.Helper()
	told, err := invariant.Replay(lines)
	if err != nil {
		s.t.Fatal(err)
	}
	is, err := s.live()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := invariant.Compare(told, is); err != nil {
		s.t.Error(err)
	}
}

// The reader of stdout goes away.
func TestStdoutClosed(t *testing.T) {
	t.Parallel()
	sc, dir, args := look(t)
	out := newPipe(t)
	run := out.launch(t, dir, args...)
	out.await(t, "SYNCED", func(lines []invariant.Line) error {
		if len(lines) == 0 {
			return errors.New("no line")
		}
		return nil
	})
	if err := out.read.Close(); err != nil {
		t.Fatal(err)
	}
	writers := sc.churn(t, sc.ledger.sources[0].namespace)
	writers.more(10)
	writers.stop()
	if status := run.exit(t); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	var faults []string
	for line := range strings.Lines(string(run.log(t))) {
		if strings.HasPrefix(line, "kubejournal: ") {
			faults = append(faults, line)
		}
	}
	if len(faults) != 1 || !strings.Contains(faults[0], "output is closed") {
		t.Errorf("faults on stderr: %q", faults)
	}
}

// On stdout with a checkpoint a kill -9 may have lines told again, by the same ids, and loses none.
func TestStdoutKillNine(t *testing.T) {
	t.Parallel()
	sc, dir, args := look(t)
	args = append(args, "--checkpoint", filepath.Join(dir, "journal.db"))
	writers := sc.churn(t, sc.ledger.sources[0].namespace)
	writers.more(20)
	var (
		all  []invariant.Line
		seen = make(map[string]bool)
	)
	// take adds the lines of one run, and returns how many were told before.
	take := func(lines []invariant.Line) (repeated int) {
		t.Helper()
		if len(lines) == 0 {
			t.Fatal("a run without a line")
		}
		if err := invariant.Sequence(lines, lines[0].Seq); err != nil {
			t.Error(err)
		}
		for _, l := range lines {
			if seen[l.ID] {
				repeated++
				continue
			}
			seen[l.ID] = true
			all = append(all, l)
		}
		return repeated
	}
	for round := range 5 {
		out := newPipe(t)
		run := out.launch(t, dir, args...)
		out.await(t, "lines", func(lines []invariant.Line) error {
			news := 0
			for _, l := range lines {
				if !seen[l.ID] {
					news++
				}
			}
			if news < 15 {
				return fmt.Errorf("%d new lines", news)
			}
			return nil
		})
		if round == 0 { // the first sync is over and committed
			run.signal(t, syscall.SIGTERM)
			run.exit(t)
		} else {
			run.kill(t)
		}
		t.Logf("%d lines told again", take(out.rest(t)))
	}
	out := newPipe(t)
	run := out.launch(t, dir, args...)
	out.await(t, "a line", func(lines []invariant.Line) error {
		if len(lines) == 0 {
			return errors.New("no line")
		}
		return nil
	})
	writers.stop()
	out.await(t, "writes", func(lines []invariant.Line) error {
		var now []invariant.Line
		for _, l := range lines {
			if !seen[l.ID] {
				now = append(now, l)
			}
		}
		return invariant.Writes(append(all[:len(all):len(all)], now...), sc.ledger.all())
	})
	run.signal(t, syscall.SIGTERM)
	if status := run.exit(t); status != 0 {
		t.Errorf("exit status %d after SIGTERM", status)
	}
	take(out.rest(t))
	for _, check := range []error{
		invariant.Shape(all), invariant.Unique(all), invariant.Objects(all), invariant.Streams(all, true),
		invariant.Writes(all, sc.ledger.all()),
	} {
		if check != nil {
			t.Error(check)
		}
	}
	noGap(t, all)
	sc.same(all)
}

// Once a reader of stdout was told SYNCED, what happens to the objects is told too, or a GAP says that it is not: also
// where a kill -9 came before the first commit.
func TestStdoutKillNineAfterFirstSync(t *testing.T) {
	t.Parallel()
	sc, dir, args := look(t)
	args = append(args, "--checkpoint", filepath.Join(dir, "journal.db"))
	o, err := sc.create(t.Context(), configMaps, sc.ledger.sources[0].namespace, "gone", "web", 1)
	if err != nil {
		t.Fatal(err)
	}
	synced := func(lines []invariant.Line) error {
		if len(lines) == 0 || lines[len(lines)-1].Type != invariant.Synced {
			return fmt.Errorf("not synced: %d lines", len(lines))
		}
		return nil
	}
	out := newPipe(t)
	run := out.launch(t, dir, args...)
	out.await(t, "SYNCED", synced)
	run.kill(t)
	if err := sc.delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	out = newPipe(t)
	out.launch(t, dir, args...)
	out.await(t, "the deletion or a GAP", func(lines []invariant.Line) error {
		for _, l := range lines {
			if l.Type == invariant.Gap || l.Type == invariant.Deleted && l.UID == o.uid {
				return nil
			}
		}
		return fmt.Errorf("neither in %d lines", len(lines))
	})
}
