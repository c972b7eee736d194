package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/journal"
	"kubejournal/test/invariant"
	"kubejournal/test/journaltest"
)

// TestSealed changes a journal as somebody could who may write to its folder, indexes included: index --verify tells.
func TestSealed(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	clearEnv(t)
	const good = "4 files are as sealed"
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string, files []string) // files are the rotated ones, the oldest first
		text   string
	}{
		"nothing": {func(*testing.T, string, []string) {}, good},
		"a value": {func(t *testing.T, _ string, files []string) {
			rewrite(t, files[1], func(lines string) string { return strings.Replace(lines, "v1", "v9", 1) })
		}, "is not the file that line"},
		"the active file's line about it too": {func(t *testing.T, dir string, files []string) {
			rewrite(t, files[1], func(lines string) string { return strings.Replace(lines, "v1", "v9", 1) })
			reseal(t, filepath.Join(dir, "journal.jsonl"), files[1])
		}, "does not continue the chain of line"},
		"a line is cut off": {func(t *testing.T, _ string, files []string) {
			rewrite(t, files[3], func(lines string) string { return lines[:strings.LastIndex(strings.TrimSuffix(lines, "\n"), "\n")+1] })
		}, "is not the file that line"},
		"the oldest file is removed": {func(t *testing.T, _ string, files []string) {
			fatal(t, os.Remove(files[0]))
		}, "and no REMOVED line says that it is gone"},
		"one between is removed": {func(t *testing.T, _ string, files []string) {
			fatal(t, os.Remove(files[2]))
		}, "no file begins with line"},
		"compressed anew": {func(t *testing.T, _ string, files []string) {
			rewrite(t, files[1], func(lines string) string { return lines })
		}, good},
		"no compression": {func(t *testing.T, _ string, files []string) {
			content, err := invariant.ReadFile(files[1])
			fatal(t, err)
			fatal(t, os.Remove(files[1]))
			fatal(t, os.WriteFile(strings.TrimSuffix(files[1], ".gz"), content, 0o600))
		}, good},
		"no line about one": {func(t *testing.T, dir string, files []string) {
			unseal(t, filepath.Join(dir, "journal.jsonl"))
		}, "is sealed by no line, and later files are"},
		"sealed again by a replica whose term came back": {func(t *testing.T, dir string, _ []string) {
			active := filepath.Join(dir, "journal.jsonl")
			content, err := os.ReadFile(active)
			fatal(t, err)
			lines, err := invariant.Parse(active, 1, content)
			fatal(t, err)
			last := lines[len(lines)-1].Seq
			text := strings.TrimSuffix(string(content), "\n")
			text = text[strings.LastIndex(text, "\n")+1:]
			again := strings.Replace(text, fmt.Sprintf(`"seq":%d,`, last), fmt.Sprintf(`"seq":%d,`, last+1), 1)
			if again == text || !strings.Contains(text, `"type":"SEALED"`) {
				t.Fatalf("the last line is %s", text)
			}
			fatal(t, os.WriteFile(active, fmt.Appendf(content, "%s\n", again), 0o600))
		}, good},
		"compacted by the daemon": {nil, "lines were removed of"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "journal.jsonl")
			j := journaltest.New(t, path, time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
			pods := j.Stream("pods", "Pod")
			pods.Snapshot()
			for i := range 5 {
				pods.Put("", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":"p1"},"spec":{"nodeName":"v%d"}}`, i))
				pods.Put("", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"db","uid":"p2"},"spec":{"nodeName":"v%d"}}`, i))
				if i == 0 {
					pods.Synced()
				}
				load := 0
				if c.change == nil {
					load = 300
				}
				for n := range load {
					pods.Put("", fmt.Sprintf(`{"metadata":{"namespace":"load","name":"n%d","uid":"e%d"},"spec":{"nodeName":"%x"}}`, n, n,
						sha256.Sum256(fmt.Append(nil, i, n))))
				}
				if i < 4 {
					j.Rotate()
				}
			}
			j.Seal()
			if c.change == nil {
				is, err := journal.Measure(path)
				fatal(t, err)
				j.Compact(is.Size * 3 / 4)
			}
			j.Kill()
			var files []string
			all, err := invariant.JournalFiles(path)
			fatal(t, err)
			files = append(files, all[:len(all)-1]...)
			if c.change != nil {
				if len(files) != 4 {
					t.Fatalf("files %q", files)
				}
				c.change(t, dir, files)
			}
			indexes, err := filepath.Glob(filepath.Join(dir, "*.index"))
			fatal(t, err)
			if len(indexes) == 0 {
				t.Fatal("there are no indexes")
			}
			for _, index := range indexes {
				fatal(t, os.Remove(index))
			}
			if status, stdout, stderr := execute(t, "index", "--journal", path); status != exitOK {
				t.Fatalf("index: %d, %s%s", status, stdout, stderr)
			}
			status, stdout, stderr := execute(t, "index", "--verify", "--journal", path)
			want := exitFault
			if c.text == good || c.change == nil {
				want = exitOK
			}
			if status != want || !strings.Contains(stdout, c.text) || want == exitFault && strings.Contains(stdout, good) {
				t.Errorf("status %d: %s%s", status, stdout, stderr)
			}
			// Nobody else minds such a line.
			if status, stdout, stderr := execute(t, "history", "pod/web", "-n", "shop", "--until", "seq:100", "--journal", path); strings.Contains(stdout, "SEALED") {
				t.Errorf("history: %d, %s%s", status, stdout, stderr)
			}
		})
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rewrite changes the lines of a compressed file.
func rewrite(t *testing.T, path string, change func(string) string) {
	t.Helper()
	content, err := invariant.ReadFile(path)
	fatal(t, err)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write([]byte(change(string(content))))
	fatal(t, err)
	fatal(t, w.Close())
	fatal(t, os.WriteFile(path, b.Bytes(), 0o600))
}

// reseal puts the checksum of a file into the line about it, and leaves the chain as it was.
func reseal(t *testing.T, active, file string) {
	t.Helper()
	content, err := invariant.ReadFile(file)
	fatal(t, err)
	lines, err := invariant.Parse(file, 1, content)
	fatal(t, err)
	change(t, active, func(l string) string {
		if !strings.Contains(l, fmt.Sprintf(`"sealed":{"fromSeq":%d,`, lines[0].Seq)) {
			return l
		}
		before, _, _ := strings.Cut(l, `"bytes"`)
		_, after, _ := strings.Cut(l, `,"chain"`)
		return before + fmt.Sprintf(`"bytes":%d,"sha256":"%x","chain"`, len(content), sha256.Sum256(content)) + after
	})
}

// unseal makes something else of the second SEALED line, and chains what follows anew.
func unseal(t *testing.T, active string) {
	t.Helper()
	n, chain := 0, ""
	change(t, active, func(l string) string {
		if !strings.Contains(l, `"type":"SEALED"`) {
			return l
		}
		parsed, err := invariant.Parse(active, 1, []byte(l+"\n"))
		fatal(t, err)
		if n++; n == 2 {
			return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T14:00:00.000000000Z","type":"SYNCED","id":"x/1/SYNCED","stream":"x","version":"v1","resource":"xs",`+
				`"kind":"X","resourceVersion":"1","count":{"added":0,"modified":0,"deleted":0,"unchanged":0}}`, parsed[0].Seq)
		}
		var from, to, size int
		var sum string
		_, rest, _ := strings.Cut(l, `"sealed":`)
		rest = strings.NewReplacer(`{"fromSeq":`, "", `"toSeq":`, "", `"bytes":`, "", `"sha256":"`, "", `"`, "", ",", " ").Replace(rest)
		_, err = fmt.Sscan(rest, &from, &to, &size, &sum)
		fatal(t, err)
		chain = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d %s\n", chain, from, to, size, sum)))
		before, _, _ := strings.Cut(l, `"chain":`)
		return before + `"chain":"` + chain + `"}}`
	})
}

// change changes the lines of a file.
func change(t *testing.T, path string, each func(string) string) {
	t.Helper()
	content, err := os.ReadFile(path)
	fatal(t, err)
	var all strings.Builder
	for l := range strings.Lines(string(content)) {
		all.WriteString(each(strings.TrimSuffix(l, "\n")) + "\n")
	}
	fatal(t, os.WriteFile(path, []byte(all.String()), 0o600))
}
