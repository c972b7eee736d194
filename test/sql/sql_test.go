// Package sql runs the queries of docs/sql.md with DuckDB, which make test-sql installs.
package sql

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	duckdb = flag.String("duckdb", "", "the `folder` that make bin/duckdb makes; without it nothing is run")
	update = flag.Bool("update", false, "write what the queries print into docs/sql.md")
)

// page is docs/sql.md.
var page = filepath.Join("..", "..", "docs", "sql.md")

// query is a block of SQL on the page, and what it prints after it.
var query = regexp.MustCompile("(?s)```sql\n(.*?);\n```\n(?:\n```text\n(.*?)```\n)?")

// result is what run.mjs prints about a statement.
type result struct {
	Columns, Types []string
	Rows           [][]string
}

// sample is the folder of a journal.
var sample = filepath.Join("..", "sample")

// Each query of the page prints what stands after it.
func TestPage(t *testing.T) {
	if *duckdb == "" {
		t.Skip("make test-sql runs it")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := query.FindAllSubmatch(text, -1)
	statements := make([]string, len(blocks))
	for i, b := range blocks {
		statements[i] = string(b[1])
	}
	results := run(t, sample, append(statements, "DESCRIBE journal", "SELECT * FROM journal"))
	for i, b := range blocks {
		if want := results[i].table(); want != string(b[2]) && !*update {
			t.Errorf("%s\nprints\n%s\nnot\n%s", b[1], want, b[2])
		}
	}
	checkColumns(t, results[len(blocks)], results[len(blocks)+1])
	if !*update {
		return
	}
	n := 0
	text = query.ReplaceAllFunc(text, func([]byte) []byte {
		block, table := fmt.Appendf(nil, "```sql\n%s;\n```\n", statements[n]), results[n].table()
		if n++; table != "" {
			block = fmt.Appendf(block, "\n```text\n%s```\n", table)
		}
		return block
	})
	if err := os.WriteFile(page, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkColumns checks that the view has each line, with each member of it.
func checkColumns(t *testing.T, described, all result) {
	t.Helper()
	columns := map[string]int{}
	for i, row := range described.Rows {
		columns[row[0]] = i
	}
	files, err := filepath.Glob(filepath.Join(sample, "journal*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := filepath.Glob(filepath.Join(sample, "journal*.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]map[string]json.RawMessage{} // by seq
	for _, f := range append(files, zipped...) {
		content, err := exec.Command("gzip", "-dcf", f).Output()
		if err != nil {
			t.Fatal(err)
		}
		for raw := range bytes.Lines(content) {
			var l map[string]json.RawMessage
			if err := json.Unmarshal(raw, &l); err != nil {
				t.Fatal(err)
			}
			lines[string(l["seq"])] = l
		}
	}
	if len(all.Rows) != len(lines) {
		t.Errorf("%d rows of %d lines", len(all.Rows), len(lines))
	}
	for _, row := range all.Rows {
		l := lines[row[columns["seq"]]]
		for member := range l {
			if at, ok := columns[member]; !ok || row[at] == "" {
				t.Errorf("seq %s: nothing in column %s", row[columns["seq"]], member)
			}
		}
	}
}

// run runs statements in a folder.
func run(t *testing.T, dir string, statements []string) []result {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(*duckdb, "run.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", script)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	results := make([]result, 0, len(statements))
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var r result
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	if len(results) != len(statements) {
		t.Fatalf("%d results of %d statements", len(results), len(statements))
	}
	return results
}

// table is the result as text; "" where there are no rows.
func (r result) table() string {
	if len(r.Rows) == 0 {
		return ""
	}
	all := append([][]string{r.Columns}, r.Rows...)
	widths := make([]int, len(r.Columns))
	for _, row := range all {
		for i, value := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(value))
		}
	}
	var b strings.Builder
	for _, row := range all {
		var line strings.Builder
		for i, value := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], value)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
