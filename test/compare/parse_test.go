package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	watchLine = `{"type":"MODIFIED","object":{"kind":"ConfigMap","metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"7"}}}` + "\n"
	otlpLine  = `{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[{"body":{"kvlistValue":{"values":[` +
		`{"key":"type","value":{"stringValue":"MODIFIED"}},{"key":"object","value":{"kvlistValue":{"values":[{"key":"metadata","value":{"kvlistValue":{"values":[` +
		`{"key":"name","value":{"stringValue":"a"}},{"key":"namespace","value":{"stringValue":"ns"}},{"key":"uid","value":{"stringValue":"u"}},` +
		`{"key":"resourceVersion","value":{"stringValue":"7"}}]}}}]}}}]}}}]}]}]}` + "\n"
	listItem = `{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"7"}}`
	ownLine  = `{"seq":1,"type":"MODIFIED","id":"u/7/MODIFIED","namespace":"ns","name":"a","uid":"u","resourceVersion":"7","object":{"metadata":{}}}` + "\n"
)

func TestParse(t *testing.T) {
	want := change{modified, "ns/a", "u", "7"}
	indented := strings.ReplaceAll(strings.ReplaceAll(watchLine, "{", "{\n    "), "}", "\n}")
	indented = strings.ReplaceAll(indented, "\n}", "\n    }")
	for _, tt := range []struct {
		name    string
		decode  format
		text    string
		changes int
		broken  int
		gap     bool
	}{
		{"nothing", watchEvent, "", 0, 0, false},
		{"lines", watchEvent, watchLine + watchLine, 2, 0, false},
		{"over several lines", watchEvent, indented + indented, 2, 0, false},
		{"two in a line", watchEvent, strings.TrimSpace(watchLine) + watchLine, 2, 0, false},
		{"a torn end", watchEvent, watchLine + watchLine[:40], 1, 1, false},
		{"torn, and more behind it", watchEvent, watchLine[:40] + watchLine + watchLine, 1, 1, false},
		{"a torn line", watchEvent, watchLine[:40] + "\n" + watchLine, 1, 1, false},
		{"not of its format", watchEvent, otlpLine + watchLine, 1, 1, false},
		{"the server's error", watchEvent, `{"type":"ERROR","object":{"kind":"Status","code":410}}` + "\n", 0, 0, true},
		{"a list", watchEvent, `{"type":"MODIFIED","object":{"kind":"List","metadata":{"resourceVersion":"9"},"items":[` + listItem + "," + listItem + "]}}\n", 2, 0, false},
		{"a bookmark", watchEvent, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}` + "\n", 0, 0, false},
		{"logs", otlp, otlpLine + otlpLine, 2, 0, false},
		{"logs of another form", otlp, watchLine + otlpLine, 1, 1, false},
		{"a journal", journalLine, ownLine + `{"seq":2,"type":"SYNCED","id":"configmaps/7/SYNCED","resourceVersion":"7"}` + "\n", 1, 0, false},
		{"a journal with a gap", journalLine, `{"seq":1,"type":"GAP","reason":"Expired"}` + "\n" + ownLine, 1, 0, true},
		{"no journal", journalLine, watchLine, 0, 1, false},
	} {
		o := parse([]byte(tt.text), tt.decode)
		if len(o.changes) != tt.changes || o.broken != tt.broken || o.gap != tt.gap {
			t.Errorf("%s: %d changes, %d broken, gap %t; want %d, %d, %t", tt.name, len(o.changes), o.broken, o.gap, tt.changes, tt.broken, tt.gap)
		}
		for _, c := range o.changes {
			if c != want {
				t.Errorf("%s: %+v", tt.name, c)
			}
		}
	}
	o := output{changes: []change{want, {modified, "ns2/a", "u", "8"}}, broken: 3, gap: true}
	if kept := o.in("ns"); len(kept.changes) != 1 || kept.broken != 3 || !kept.gap {
		t.Errorf("of a namespace: %+v", kept)
	}
}

// TestFollower has words come in two parts, at every place.
func TestFollower(t *testing.T) {
	text := []byte("xx sent-1700000000000000001 sent-1700000000000000002\nsent-17")
	for cut := range text {
		path := filepath.Join(t.TempDir(), outFile)
		f := &follower{path: path}
		var got []int64
		for _, part := range [][]byte{nil, text[:cut], text[cut:]} {
			if part != nil {
				add(t, path, part)
			}
			read, err := f.read(len(sentPrefix) + sentDigits)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, numbers(read, sentPrefix, sentDigits)...)
		}
		f.close()
		if want := []int64{1700000000000000001, 1700000000000000002}; !slices.Equal(got, want) {
			t.Errorf("cut at %d: %d", cut, got)
		}
	}
	if got := newest([]byte("compare-mark-000007 compare-mark-000012 compare-mark-99")); got != 12 {
		t.Errorf("newest mark is %d", got)
	}
}

func add(t *testing.T, path string, text []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(text); err != nil {
		t.Fatal(err)
	}
}

func TestPut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := put(path, ""); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no page: %v", err)
	}
	for _, text := range []string{"words\n", "words\n" + begin, end + "\n" + begin} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := put(path, ""); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("page %q: %v", text, err)
		}
	}
	if err := os.WriteFile(path, []byte("one\n"+begin+"old\n"+end+"\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tables := range []string{"", "| new |\n", "| newer |\n"} {
		if err := put(path, tables); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if want := "one\n" + begin + "\n| newer |\n\n" + end + "\ntwo\n"; err != nil || string(text) != want {
		t.Errorf("page is %q, %v", text, err)
	}
	if err := put(filepath.Join("..", "..", page), ""); err != nil {
		t.Errorf("the page itself: %v", err)
	}
}

func TestMedian(t *testing.T) {
	got := median([]cost{{cpu: 3, rss: 1}, {cpu: 1, rss: 9}, {cpu: 2, rss: 5}})
	if got.cpu != 2 || got.rss != 5 {
		t.Errorf("median is %+v", got)
	}
}

// TestMarkdown reads the tables of rounds that were made up.
func TestMarkdown(t *testing.T) {
	r := report{options: options{rounds: 2, loadRate: 1000}, killed: make(map[string][]finding), missed: make(map[string][]finding), costs: make(map[string][]cost)}
	for _, w := range keepers {
		for n := range 2 {
			r.killed[w.name] = append(r.killed[w.name], finding{verdict: verdict{Writes: 10000, Lost: 1000 * n}, broken: n})
			r.missed[w.name] = append(r.missed[w.name], finding{verdict: verdict{Net: 1500, NetTold: 1400}, gap: n == 0})
		}
	}
	for _, w := range measured {
		r.costs[w.name] = []cost{{cpu: 1.5, rss: 40, p50: 3, p99: 20, bytes: 1600, rate: 990.5}}
	}
	text := r.markdown()
	for _, want := range []string{
		"| kubejournal | 0 to 1,000 | 0 | 0 |\n", "| kubejournal | 1,400 | 0 | 0 | 0 | 0 | no |\n", "| kubejournal | 1.50 | 40 | 3 / 20 | 1.6 |\n",
		"kubejournal, kill -9: 0 to 1 documents torn", "at 990 to 990 per second",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("nowhere is %q in\n%s", want, text)
		}
	}
	above := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && strings.HasPrefix(above, "|") && strings.Count(line, "|") != strings.Count(above, "|") {
			t.Errorf("a row of another width than the one above it: %s", line)
		}
		above = line
	}
}

func TestFaultyFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-names", "7"}, {"-rate", "0"}, {"words"}, {"-no-such-flag"}} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, &stdout, &stderr); status != 2 || stderr.Len() == 0 {
			t.Errorf("run(%q) = %d, says %q", args, status, stderr.String())
		}
	}
}
