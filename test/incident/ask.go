package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"kubejournal/test/cluster"
	"kubejournal/test/program"
)

// ask asks all questions, keeps what a person sees, and checks what a program gets.
func (x *incident) ask() error {
	lines, err := x.read()
	if err != nil {
		return err
	}
	writes, err := x.truth()
	if err != nil {
		return err
	}
	var faults []error
	for _, q := range x.questions(lines, writes) {
		shown := x.onTerminal(q.file, q.args, q.status)
		r, status, err := x.piped(q.args)
		if err == nil && !isStatus(status, q.status) {
			err = fmt.Errorf("exit status %d, not %d", status, q.status)
		}
		if err = errors.Join(shown, err, q.check(r)); err != nil {
			faults = append(faults, fmt.Errorf("kubejournal %s: %w\n%s%s", q.args, err, r.stdout, r.stderr))
		}
	}
	return errors.Join(faults...)
}

func (x *incident) keep(file, text string) error {
	return os.WriteFile(filepath.Join(x.out, file), []byte(text), 0o600)
}

// piped asks as a program does.
func (x *incident) piped(args string) (*reply, int, error) {
	var stdout, stderr strings.Builder
	cmd := x.shell(`exec "$KUBEJOURNAL" ` + args)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	status, err := statusOf(cmd.Run())
	return &reply{stdout.String(), stderr.String()}, status, err
}

func (x *incident) shell(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = x.out
	cmd.Env = program.Environ(x.work, "KUBEJOURNAL="+x.program, "KUBECTL="+filepath.Join(x.bin, "kubectl"),
		"KUBECONFIG="+x.cluster.Kubeconfig(), "TZ=UTC")
	return cmd
}

// statusOf returns the exit status of a process that has ended.
func statusOf(err error) (int, error) {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return ended.ExitCode(), nil
	}
	return 0, err
}

func isStatus(got, want int) bool { return got == want || want == answered && (got == 0 || got == 3) }

// moment and during are times as arguments.
func moment(t time.Time) string { return t.UTC().Format("'2006-01-02 15:04:05.000'") }

func during(since, until time.Time) string {
	return "--since " + moment(since) + " --until " + moment(until)
}

// row is a version as history shows it.
type row struct {
	at                             time.Time
	typ, stream, object, who, what string
}

var (
	dayRow     = regexp.MustCompile(`^(\d{4}-\d\d-\d\d) UTC$`)
	versionRow = regexp.MustCompile(`^(\d\d:\d\d:\d\d(?:\.\d{3})?)\*? +(\S+) +(\S+) +(\S+) +(\S+) *(.*)$`)
)

func (r *reply) rows() (all []row) {
	day := ""
	for text := range strings.Lines(r.stdout) {
		text = strings.TrimSuffix(text, "\n")
		if d := dayRow.FindStringSubmatch(text); d != nil {
			day = d[1]
		} else if v := versionRow.FindStringSubmatch(text); v != nil {
			when, _ := time.Parse(time.DateTime, day+" "+v[1])
			all = append(all, row{when, v[2], v[3], v[4], v[5], v[6]})
		}
	}
	return all
}

// expected is a row that a step brought about.
type expected struct{ step, pattern string }

// rows checks that rows are there, once each, in this order and at the time of their step; if only, that there are no
// others.
func (x *incident) rows(want []expected, only bool) func(*reply) error {
	return func(r *reply) error {
		var faults []error
		rows := r.rows()
		if only && len(rows) != len(want) {
			faults = append(faults, fmt.Errorf("%d rows, not %d", len(rows), len(want)))
		}
		last := -1
		for _, w := range want {
			pattern := regexp.MustCompile("^" + w.pattern)
			is := func(r row) bool {
				return pattern.MatchString(strings.Join([]string{r.typ, r.stream, r.object, r.who, r.what}, " "))
			}
			i := slices.IndexFunc(rows, is)
			switch {
			case i < 0:
				faults = append(faults, fmt.Errorf("no row is %s", w.pattern))
			case slices.ContainsFunc(rows[i+1:], is):
				faults = append(faults, fmt.Errorf("more than one row is %s", w.pattern))
			case i < last:
				faults = append(faults, fmt.Errorf("too early: %s", w.pattern))
			default:
				last = i
				faults = append(faults, x.inStep(w.step, rows[i].at))
			}
		}
		return errors.Join(faults...)
	}
}

// inStep checks a time that is rounded down to a second, or to a millisecond, and may be that of the end of an outage.
func (x *incident) inStep(name string, at time.Time) error {
	s := x.ledger.step(name)
	until := s.Until
	for _, o := range x.ledger.Outages {
		if !s.Until.Before(o.From) && !s.From.After(o.Until) {
			until = o.Until
		}
	}
	if at.Before(s.From.Truncate(time.Second)) || at.After(until.Add(delay)) {
		return fmt.Errorf("%s is not the time of %q, %s to %s", clock(at), s.Name, clock(s.From), clock(until))
	}
	return nil
}

// blamed checks lines of blame: manager and text.
func (x *incident) blamed(want []expected) func(*reply) error {
	return func(r *reply) error {
		var faults []error
		for _, w := range want {
			found := false
			for text := range strings.Lines(r.stdout) {
				left, right, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "|")
				cells := strings.Fields(left)
				if len(cells) < 4 || !strings.HasPrefix(strings.Join(cells[2:len(cells)-1], " ")+" "+
					strings.TrimSpace(right), w.pattern) {
					continue
				}
				when, err := time.Parse(time.DateTime, cells[0]+" "+cells[1])
				found, faults = true, append(faults, err, x.inStep(w.step, when))
			}
			if !found {
				faults = append(faults, fmt.Errorf("nothing is %s", w.pattern))
			}
		}
		return errors.Join(faults...)
	}
}

// podsThat returns the pods of which a kubelet said so within a minute, sorted.
func podsThat(writes *cluster.Writes, since time.Time, field, is string) []string {
	found := map[string]bool{}
	for _, by := range writes.Made {
		r := by[0]
		var pod map[string]any
		if r.Resource != "pods/status" || r.Namespace != shop || r.Received.Before(since) ||
			r.Answered.After(since.Add(time.Minute)) || json.Unmarshal(r.Object, &pod) != nil ||
			value(pod, field) != is {
			continue
		}
		found[shop+"/"+r.Name] = true
	}
	return sorted(found)
}

// names returns the objects of some rows, each once, sorted.
func names(r *reply, which func(row) bool) []string {
	found := map[string]bool{}
	for _, row := range r.rows() {
		if which(row) {
			found[row.object] = true
		}
	}
	return sorted(found)
}

func sorted(set map[string]bool) []string {
	all := []string{}
	for name := range set {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// agree compares what somebody says with an answer.
func agree(who string, want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("not as %s has it (-want +got):\n%s", who, diff)
	}
	return nil
}

func has(text string, patterns ...string) error {
	var faults []error
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			faults = append(faults, fmt.Errorf("nothing is %s", p))
		}
	}
	return errors.Join(faults...)
}
