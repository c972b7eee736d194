// Command ask measures what one would use to question a journal without an index, on the same files and for the same two
// questions: what a namespace had at a time, and what happened to an object. It prints lines as go test -bench does.
//
//	go run ./test/bench/ask -files 3 -duckdb bin/duckdb bin/archive/journal.jsonl
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

	"kubejournal/internal/journal"
	"kubejournal/internal/line"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("ask", flag.ContinueOnError)
	flags.SetOutput(stderr)
	files := flags.Int("files", 3, "compressed files that are asked, the last ones; 0 for all")
	duckdb := flags.String("duckdb", "", "the `folder` that make bin/duckdb makes; without it DuckDB is left out")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: ask [-files N] [-duckdb FOLDER] JOURNAL")
		return 2
	}
	if err := measure(stdout, flags.Arg(0), *files, *duckdb); err != nil {
		fmt.Fprintln(stderr, "ask:", err)
		return 1
	}
	return 0
}

// archive is what is asked.
type archive struct {
	paths                []string // of compressed files
	bytes                int64    // of lines
	namespace, pod, last string   // a pod that has a line at the end, and the time of the last line
}

func measure(out io.Writer, path string, files int, duckdb string) error {
	a, err := look(path, files)
	if err != nil {
		return err
	}
	for _, q := range a.questions() {
		for _, way := range []struct {
			name string
			run  func() (int, cost, error)
		}{
			{"zcat-jq", func() (int, cost, error) { return a.shell("zcat \"$@\" | jq -c -n "+quote(q.jq), nil) }},
			{"zcat-grep", func() (int, cost, error) { return a.shell("zcat \"$@\" | "+q.grep, nil) }},
			{"duckdb", func() (int, cost, error) { return a.duckdb(duckdb, q.sql) }},
		} {
			if way.name == "duckdb" && duckdb == "" {
				continue
			}
			rows, c, err := way.run()
			if err != nil {
				return fmt.Errorf("%s: %s: %w", q.name, way.name, err)
			}
			if rows == 0 {
				return fmt.Errorf("%s: %s: no answer", q.name, way.name)
			}
			gb := float64(a.bytes) / 1e9
			fmt.Fprintf(out, "BenchmarkAsk/question=%s/way=%s 1 %d ns/op %.3f s/GB %.3f cpu-s/GB %.0f rss-MiB %d rows\n", q.name, way.name,
				c.wall.Nanoseconds(), c.wall.Seconds()/gb, c.cpu.Seconds()/gb, float64(c.memory)/1024, rows)
		}
	}
	return nil
}

// look reads which files there are, and finds a pod to ask about.
func look(path string, files int) (*archive, error) {
	all, err := journal.Segments(path)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(s journal.Segment) bool { return !s.Gzip })
	if files > 0 && len(all) > files {
		all = all[len(all)-files:]
	}
	a := &archive{}
	lines, most := make(map[string]int), 0 // of each pod
	var r journal.Reader
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
			a.last = string(l.Text(line.Time))
			if string(l.Text(line.Stream)) != "pods" || l.AboutStream() {
				continue
			}
			namespace, name := string(l.Text(line.Namespace)), string(l.Text(line.Name))
			if lines[name]++; lines[name] > most {
				a.namespace, a.pod, most = namespace, name, lines[name]
			}
		}
	}
	if a.pod == "" {
		return nil, errors.New("the journal has no compressed file with a pod")
	}
	return a, nil
}

// question is one, for each way to ask it.
type question struct{ name, jq, grep, sql string }

func (a *archive) questions() []question {
	return []question{
		{
			"namespace",
			fmt.Sprintf(`reduce (inputs | select(.resource == "pods" and .namespace == %q and .time <= %q)) as $line ({}; if $line.type == "DELETED" then del(.[$line.uid]) else .[$line.uid] = $line.object end) | .[]`, a.namespace, a.last),
			fmt.Sprintf(`grep -F '"resource":"pods","kind":"Pod","namespace":"%s"'`, a.namespace), // the lines, not the state
			fmt.Sprintf(`SELECT object FROM journal WHERE resource = 'pods' AND namespace = '%s' AND time <= '%s'
				QUALIFY row_number() OVER (PARTITION BY uid ORDER BY seq DESC) = 1 AND type <> 'DELETED'`, a.namespace, strings.TrimSuffix(a.last, "Z")),
		},
		{
			"history",
			fmt.Sprintf(`inputs | select(.resource == "pods" and .namespace == %q and .name == %q)`, a.namespace, a.pod),
			fmt.Sprintf(`grep -F '"resource":"pods","kind":"Pod","namespace":"%s","name":"%s"'`, a.namespace, a.pod),
			fmt.Sprintf(`SELECT seq, time, type, manager, changes FROM journal
				WHERE resource = 'pods' AND namespace = '%s' AND name = '%s' ORDER BY seq`, a.namespace, a.pod),
		},
	}
}

// cost is what a command took, with all that it started.
type cost struct {
	wall, cpu time.Duration
	memory    int64 // the largest process, in KiB
}

// shell runs a script with the files as its arguments, and counts the lines that it prints.
func (a *archive) shell(script string, in io.Reader) (rows int, c cost, err error) {
	out, c, err := command(in, "sh", append([]string{"-c", script, "sh"}, a.paths...)...)
	return bytes.Count(out, []byte("\n")), c, err
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
	out, c, err := command(bytes.NewReader(in), "node", filepath.Join(folder, "run.mjs"))
	if err != nil {
		return 0, c, err
	}
	_, out, _ = bytes.Cut(out, []byte("\n"))
	var result struct{ Rows [][]string }
	err = json.Unmarshal(out, &result)
	return len(result.Rows), c, err
}

// command runs a program and returns what it prints.
func command(in io.Reader, name string, args ...string) ([]byte, cost, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stderr = in, os.Stderr
	start := time.Now()
	out, err := cmd.Output()
	c := cost{wall: time.Since(start)}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		c.memory = usage.Maxrss
	}
	return out, c, err
}

// quote quotes a text without quotes for a shell.
func quote(s string) string { return "'" + s + "'" }
