package scenario

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubejournal/test/invariant"
)

// look makes a scenario of config maps in one namespace without a config, and the command line that looks at them.
func look(t *testing.T) (sc *scenario, dir string, args []string) {
	t.Helper()
	s := shared.get(t)
	ns := s.namespaces(t, 1)
	sc = play(t, s, []entry{{Kind: configMaps, Namespaces: ns}})
	return sc, t.TempDir(), []string{"run", "configmaps", "-n", ns[0], "--kubeconfig", s.Kubeconfig()}
}

func TestStdoutIsJSONLines(t *testing.T) {
	sc, dir, args := look(t)
	ns := sc.Ledger.Sources[0].Namespace
	run := launchTeller(t, dir, args...)
	writers := sc.churn(t, ns)
	writers.more(60)
	writers.Stop()
	run.await("writes", func(lines []invariant.Line) error { return invariant.Writes(lines, sc.Ledger.Writes()) })
	run.signal(syscall.SIGTERM)
	if status := run.exit(); status != 0 {
		t.Errorf("exit status %d after SIGTERM", status)
	}
	lines := run.lines()
	if err := invariant.All(lines, invariant.Options{}); err != nil {
		t.Error(err)
	}
	sc.same(lines)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || files[0] != run.LogPath() {
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
	sc, dir, args := look(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	run := launch(t, dir, write, args...)
	if err := write.Close(); err != nil { // the program has its own
		t.Fatal(err)
	}
	_, err = bufio.NewReader(read).ReadString('\n')
	if err = errors.Join(err, read.Close()); err != nil {
		t.Fatal(err)
	}
	writers := sc.churn(t, sc.Ledger.Sources[0].Namespace)
	writers.more(10)
	writers.Stop()
	if status := run.exit(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	var faults []string
	for line := range strings.Lines(run.log()) {
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
	sc, dir, args := look(t)
	args = append(args, "--checkpoint", filepath.Join(dir, "journal.db"))
	writers := sc.churn(t, sc.Ledger.Sources[0].Namespace)
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
		run := launchTeller(t, dir, args...)
		run.await("lines", func(lines []invariant.Line) error {
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
			run.signal(syscall.SIGTERM)
			run.exit()
		} else {
			run.kill()
		}
		t.Logf("%d lines told again", take(run.lines()))
	}
	run := launchTeller(t, dir, args...)
	run.await("a line", func(lines []invariant.Line) error {
		if len(lines) == 0 {
			return errors.New("no line")
		}
		return nil
	})
	writers.Stop()
	run.await("writes", func(lines []invariant.Line) error {
		var now []invariant.Line
		for _, l := range lines {
			if !seen[l.ID] {
				now = append(now, l)
			}
		}
		return invariant.Writes(append(all[:len(all):len(all)], now...), sc.Ledger.Writes())
	})
	run.signal(syscall.SIGTERM)
	if status := run.exit(); status != 0 {
		t.Errorf("exit status %d after SIGTERM", status)
	}
	take(run.lines())
	for _, check := range []error{
		invariant.Shape(all), invariant.Unique(all), invariant.Objects(all), invariant.Streams(all, true),
		invariant.Writes(all, sc.Ledger.Writes()),
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
	sc, dir, args := look(t)
	args = append(args, "--checkpoint", filepath.Join(dir, "journal.db"))
	o := sc.made(configMaps, sc.Ledger.Sources[0].Namespace, "gone", 1)
	synced := func(lines []invariant.Line) error {
		if len(lines) == 0 || lines[len(lines)-1].Type != invariant.Synced {
			return fmt.Errorf("not synced: %d lines", len(lines))
		}
		return nil
	}
	run := launchTeller(t, dir, args...)
	run.await("SYNCED", synced)
	run.kill()
	sc.must(sc.Delete(t.Context(), o))
	run = launchTeller(t, dir, args...)
	run.await("the deletion or a GAP", func(lines []invariant.Line) error {
		for _, l := range lines {
			if l.Type == invariant.Gap || l.Type == invariant.Deleted && l.UID == o.UID {
				return nil
			}
		}
		return fmt.Errorf("neither in %d lines", len(lines))
	})
}
