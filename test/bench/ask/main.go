// Command ask measures how long the program takes to answer questions to a journal, each in a process of its own, and
// what one would use without it, for four of the questions: what a namespace had at a time, what happened to an
// object, where a text stands, and what the journal is made of. These read the last few files alone, and their times
// are multiplied to those of all files. It prints lines as go test -bench does.
//
//	go run ./test/bench/ask -program bin/kubejournal -duckdb bin/duckdb bin/archive/journal.jsonl
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("ask", flag.ContinueOnError)
	flags.SetOutput(stderr)
	program := flags.String("program", "bin/kubejournal", "the `file` to run")
	count := flags.Int("count", 6, "how often the program is asked each question")
	files := flags.Int("files", 3, "compressed files that others are asked of, the last ones; 0 for all")
	duckdb := flags.String("duckdb", "", "the `folder` that make bin/duckdb makes; without it DuckDB is left out")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: ask [-program FILE] [-count N] [-files N] [-duckdb FOLDER] JOURNAL")
		return 2
	}
	a, err := look(flags.Arg(0), *files)
	if err == nil {
		err = errors.Join(
			a.product(stdout, *program, *count), a.unindexed(stdout, *program), a.others(stdout, *duckdb))
	}
	if err != nil {
		fmt.Fprintln(stderr, "ask:", err)
		return 1
	}
	return 0
}

// archive is what is asked.
type archive struct {
	journal              string
	paths                []string // of compressed files
	bytes, all           int64    // of their lines, and of all compressed files'
	namespace, pod, last string   // a pod that has a line at the end, and the time of the last line
	goneIn, gone         string   // the last pod of a ReplicaSet that was deleted
}

// product asks the program. Each answer must have rows.
func (a *archive) product(out io.Writer, program string, count int) error {
	last, err := time.Parse(time.RFC3339Nano, a.last)
	if err != nil {
		return err
	}
	// A little before the end, up to which all streams are covered.
	from, at := last.Add(-time.Hour).Format(time.RFC3339Nano), last.Add(-time.Minute).Format(time.RFC3339Nano)
	for _, q := range []struct {
		name string
		args []string
		ok   int // exit status
	}{
		{"namespace", []string{"get", "pods", "-n", a.namespace, "--at", at, "-o", "json"}, 0},
		{"namespace-table", []string{"get", "pods", "-n", a.namespace, "--at", at}, 0},
		{"all-names", []string{"get", "pods", "--at", at, "-o", "name"}, 0},
		{"all-table", []string{"get", "pods", "--at", at}, 0},
		{"all-json", []string{"get", "pods", "--at", at, "-o", "json"}, 0},
		// there is a gap
		{"history", []string{"history", "pod/" + a.pod, "-n", a.namespace, "--all", "-o", "json", "--until", at}, 3},
		{"blame", []string{"blame", "pod/" + a.pod, "-n", a.namespace, "--at", at}, 0},
		{"why", []string{"why", "pod/" + a.gone, "-n", a.goneIn}, 0},
		{"diff-hour", []string{"diff", "-n", a.namespace, "--since", from, "--until", at, "--stat", "--all"}, 1},
		{"grep", []string{"history", "--grep", a.pod, "--until", at}, 3},
		{"stats", []string{"stats", "--until", at}, 3}, // the same
		{"verify", []string{"index", "--verify"}, 0},
	} {
		n, read := count, int64(0)
		if q.name == "verify" || q.name == "grep" {
			read = a.all
		}
		if q.name == "verify" {
			n = 1
		}
		for range n {
			rows := lines(0)
			c, err := command(nil, &rows, program, append(q.args, "--journal", a.journal)...)
			if status := (*exec.ExitError)(nil); errors.As(err, &status) && status.ExitCode() == q.ok {
				err = nil
			}
			if err == nil && rows == 0 && q.name != "verify" {
				err = errors.New("no answer")
			}
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			report(out, q.name, "kubejournal", c, c.wall.Seconds(), int(rows), read)
		}
	}
	return a.served(out, program, at, count)
}

// unindexed asks the program what the files are made of without their indexes, so that it reads all of them.
func (a *archive) unindexed(out io.Writer, program string) error {
	dir, err := os.MkdirTemp(filepath.Dir(a.journal), "unindexed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, path := range a.paths {
		if err := os.Link(path, filepath.Join(dir, filepath.Base(path))); err != nil {
			return err
		}
	}
	rows := lines(0)
	c, err := command(nil, &rows, program, "stats", "--journal", filepath.Join(dir, filepath.Base(a.journal)))
	if status := (*exec.ExitError)(nil); errors.As(err, &status) && status.ExitCode() == 3 { // without coverage
		err = nil
	}
	if err != nil || rows == 0 {
		return fmt.Errorf("stats without indexes: %d rows, %w", rows, err)
	}
	report(out, "stats", "no-index", c, c.wall.Seconds()*float64(a.all)/float64(a.bytes), int(rows), 0)
	return nil
}

// report prints what an answer took; seconds are those for all files. read is how many bytes of lines were read, where
// that is known.
func report(out io.Writer, question, way string, c cost, seconds float64, rows int, read int64) {
	fmt.Fprintf(out, "BenchmarkAsk/question=%s/way=%s 1 %d ns/op %.4f s %.3f cpu-s %.1f rss-MiB %d rows",
		question, way, c.wall.Nanoseconds(), seconds, c.cpu.Seconds(), float64(c.memory)/1024, rows)
	if read > 0 {
		mb := float64(read) / 1e6
		fmt.Fprintf(out, " %.0f MB/s %.0f MB/cpu-s", mb/c.wall.Seconds(), mb/c.cpu.Seconds())
	}
	fmt.Fprintln(out)
}

// others asks what one would use without the program.
func (a *archive) others(out io.Writer, duckdb string) error {
	for _, q := range a.questions() {
		for _, way := range []struct {
			name string
			run  func() (int, cost, error)
		}{
			{"zcat-jq", func() (int, cost, error) { return a.shell("zcat \"$@\" | jq -c -n " + quote(q.jq)) }},
			{"zcat-grep", func() (int, cost, error) { return a.shell("zcat \"$@\" | " + q.grep) }},
			{"duckdb", func() (int, cost, error) { return a.duckdb(duckdb, q.sql) }},
		} {
			if way.name == "duckdb" && duckdb == "" {
				continue
			}
			rows, c, err := way.run()
			if err == nil && rows == 0 {
				err = errors.New("no answer")
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", q.name, way.name, err)
			}
			report(out, q.name, way.name, c, c.wall.Seconds()*float64(a.all)/float64(a.bytes), rows, a.bytes)
		}
	}
	return nil
}

// look reads which files there are, and finds a pod to ask about.
func look(path string, files int) (*archive, error) {
	all, err := segment.List(path)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s segment.Segment) bool { return !s.Gzip })
	a := &archive{journal: path}
	for _, s := range all {
		x, in, err := s.OpenIndex()
		if err != nil {
			return nil, fmt.Errorf("index of %s: %w", s.Path, err)
		}
		a.all += x.Size
		_ = in.Close() // it is only read
	}
	if files > 0 && len(all) > files {
		all = all[len(all)-files:]
	}
	lines, most := make(map[string]int), 0 // of each pod
	var r segment.Reader
	defer r.Close()
	for _, s := range all {
		a.paths = append(a.paths, s.Path)
		if err := r.Open(s, 0); err != nil {
			return nil, err
		}
		for {
			raw, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			a.bytes += int64(len(raw.Bytes) + 1)
			var l line.Fields
			if err := l.Parse(raw.Bytes); err != nil {
				return nil, err
			}
			a.last = string(l.Text(line.FieldTime))
			if string(l.Text(line.FieldStream)) != "pods" || l.AboutStream() {
				continue
			}
			namespace, name := string(l.Text(line.FieldNamespace)), string(l.Text(line.FieldName))
			if l.Type() == line.Deleted && bytes.Contains(l.Object, []byte(`"kind":"ReplicaSet"`)) {
				a.goneIn, a.gone = namespace, name
			}
			if lines[name]++; lines[name] > most {
				a.namespace, a.pod, most = namespace, name, lines[name]
			}
		}
	}
	if a.pod == "" || a.gone == "" {
		return nil, errors.New("the journal has no compressed file with a pod, or with none that was deleted")
	}
	return a, nil
}

// question is one, for each way to ask it.
type question struct{ name, jq, grep, sql string }

func (a *archive) questions() []question {
	return []question{
		{
			"stats",
			`reduce inputs as $line ({}; .[$line.stream].lines += 1 |
				.[$line.stream].bytes += ($line | tojson | length)) | to_entries[]`,
			`grep -o '"stream":"[^"]*"' | sort | uniq -c`, // without bytes
			`SELECT stream, count(*), sum(length(CAST(object AS VARCHAR))) FROM journal GROUP BY stream`,
		},
		{
			"namespace",
			fmt.Sprintf(`reduce (inputs | select(.resource == "pods" and .namespace == %q and .time <= %q)) as $line `+
				`({}; if $line.type == "DELETED" then del(.[$line.uid]) else .[$line.uid] = $line.object end) | .[]`,
				a.namespace, a.last),
			// the lines, not the state
			fmt.Sprintf(`grep -F '"resource":"pods","kind":"Pod","namespace":"%s"'`, a.namespace),
			fmt.Sprintf(`SELECT object FROM journal WHERE resource = 'pods' AND namespace = '%s' AND time <= '%s'
				QUALIFY row_number() OVER (PARTITION BY uid ORDER BY seq DESC) = 1 AND type <> 'DELETED'`, a.namespace,
				strings.TrimSuffix(a.last, "Z")),
		},
		{
			"history",
			fmt.Sprintf(`inputs | select(.resource == "pods" and .namespace == %q and .name == %q)`,
				a.namespace, a.pod),
			fmt.Sprintf(`grep -F '"resource":"pods","kind":"Pod","namespace":"%s","name":"%s"'`, a.namespace, a.pod),
			fmt.Sprintf(`SELECT seq, time, type, manager, changes FROM journal
				WHERE resource = 'pods' AND namespace = '%s' AND name = '%s' ORDER BY seq`, a.namespace, a.pod),
		},
		{
			"grep",
			fmt.Sprintf(`inputs | select(.object | tostring | contains(%q))`, a.pod),
			fmt.Sprintf(`grep -F '%s'`, a.pod),
			fmt.Sprintf(`SELECT seq FROM journal WHERE contains(CAST(object AS VARCHAR), '%s')`, a.pod),
		},
	}
}

// cost is what a command took, with all that it started.
type cost struct {
	wall, cpu time.Duration
	memory    int64 // the largest process, in KiB
}

// shell runs a script with the files as its arguments, and counts the lines that it prints.
func (a *archive) shell(script string) (rows int, c cost, err error) {
	var out lines
	c, err = command(nil, &out, "sh", append([]string{"-c", script, "sh"}, a.paths...)...)
	return int(out), c, err
}

// duckdb asks DuckDB, with the view that docs/sql.md makes.
func (a *archive) duckdb(folder, question string) (rows int, c cost, err error) {
	page, err := os.ReadFile(filepath.Join("docs", "sql.md"))
	if err != nil {
		return 0, c, err
	}
	_, view, _ := strings.Cut(string(page), "```sql\n")
	view, _, _ = strings.Cut(view, ";\n```")
	quoted := make([]string, len(a.paths))
	for i, path := range a.paths {
		quoted[i] = "'" + path + "'"
	}
	view = strings.Replace(view, "'journal*.jsonl', 'journal*.jsonl.gz'", strings.Join(quoted, ", "), 1)
	in, err := json.Marshal([]string{view, question})
	if err != nil {
		return 0, c, err
	}
	var out bytes.Buffer
	if c, err = command(bytes.NewReader(in), &out, "node", filepath.Join(folder, "run.mjs")); err != nil {
		return 0, c, err
	}
	_, answer, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	var result struct{ Rows [][]string }
	err = json.Unmarshal(answer, &result)
	return len(result.Rows), c, err
}

// lines counts the ends of lines in what is written. Keeping that would count as memory of the next process: what it
// has from its parent before it begins is a part of its peak.
type lines int

func (l *lines) Write(p []byte) (int, error) {
	*l += lines(bytes.Count(p, []byte("\n")))
	return len(p), nil
}

// command runs a program and writes to out what it prints.
func command(in io.Reader, out io.Writer, name string, args ...string) (cost, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
	start := time.Now()
	err := cmd.Run()
	c := cost{wall: time.Since(start)}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		c.memory = usage.Maxrss
	}
	return c, err
}

// quote quotes a text without quotes for a shell.
func quote(s string) string { return "'" + s + "'" }
