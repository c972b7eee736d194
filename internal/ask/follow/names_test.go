package follow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/verify"
)

const (
	widgetLine = `{"seq":1,"time":"2026-11-20T15:00:01Z","type":"ADDED","origin":"watch","id":"w","stream":"widgets.example.com","group":"example.com","version":"v1","resource":"widgets","kind":"WidgetSet","namespace":"shop","name":"gear","object":{}}`
	crdLine    = `{"seq":2,"time":"2026-11-20T15:00:02Z","type":"ADDED","origin":"watch","id":"c","stream":"customresourcedefinitions.apiextensions.k8s.io","group":"apiextensions.k8s.io","version":"v1","resource":"customresourcedefinitions","kind":"CustomResourceDefinition","name":"widgets.example.com","object":{"spec":{"group":"example.com","names":{"kind":"WidgetSet","plural":"widgets","singular":"wdgt","shortNames":["wd","wds"]}}}}`
)

// A slip in a name is an error with a suggestion, in the active file and in those that were rotated.
func TestUnknownNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	zip(t, filepath.Join(dir, "journal-2026-11-20T15-00-02.000.jsonl.gz"), widgetLine+"\n"+crdLine+"\n")
	write(t, path, numberedLines(3, 10))
	for _, c := range []struct {
		objects, namespaces string
		lines               int
		err, notice         string
	}{
		{objects: "pods", lines: 5},
		{objects: "pods/web-4", lines: 1},
		{objects: "widgets", lines: 1},
		{objects: "widgetset/gear", lines: 1},
		{objects: "wd", lines: 1},
		{objects: "wds/gear", lines: 1},
		{objects: "wdgt/gear", lines: 1},
		{objects: "wd.example.com", notice: "the journal has no line about wd.example.com: nobody watched them; did you mean widgets.example.com?"},
		{namespaces: "shop", lines: 9},
		{objects: "podz", err: `the journal has no line about "podz", and it is not a resource of Kubernetes' own; did you mean pods?`},
		{objects: "pods,deploymnets", err: `the journal has no line about "deploymnets", and it is not a resource of Kubernetes' own; did you mean deployments?`},
		{objects: "wdiget", err: `the journal has no line about "wdiget", and it is not a resource of Kubernetes' own; did you mean widgets.example.com?`},
		{objects: "ws", err: `the journal has no line about "ws", and it is not a resource of Kubernetes' own; did you mean widgets.example.com?`},
		{objects: "wid", err: `the journal has no line about "wid", and it is not a resource of Kubernetes' own; did you mean widgets.example.com?`},
		{objects: "frobnicators", err: `the journal has no line about "frobnicators", and it is not a resource of Kubernetes' own; it has widgets.example.com, customresourcedefinitions.apiextensions.k8s.io, deployments, pods`},
		{objects: "services", notice: "the journal has no line about services: nobody watched them"},
		{objects: "frobs.example.com", notice: "the journal has no line about frobs.example.com: nobody watched them"},
		{namespaces: "shpo", err: `the journal has no line about a namespace "shpo"; did you mean shop?`},
		{objects: "pods/web-44", err: `the journal has no line about pods of the name "web-44"; did you mean web-4?`},
		{objects: "pods/web-4,widgets/web-44", err: `the journal has no line about widgets of the name "web-44"`},
		{objects: "pods/deploy", err: `the journal has no line about pods of the name "deploy"; for both resources write pods,deploy`},
		{objects: "svc/web", notice: "the journal has no line about services: nobody watched them"},
	} {
		f := argument.Filter{Selection: argument.Selection{Namespaces: strings.FieldsFunc(c.namespaces, func(r rune) bool { return r == ',' })}}
		if c.objects != "" {
			f.Objects = objects(t, strings.Split(c.objects, ",")...)
		}
		var notices []string
		s := newSink()
		o := Options{Lines: All, Filter: f, Notice: func(text string) { notices = append(notices, text) }}
		err := Files(context.Background(), []string{path}, o, NewPrinter(s, Style{JSON: true}))
		if c.notice != "" {
			if !errors.Is(err, ErrNotCovered) {
				t.Errorf("%s: %v", c.objects, err)
			}
		} else if got := fmt.Sprint(err); err != nil && got != c.err || err == nil && c.err != "" {
			t.Errorf("%s%s: %v", c.objects, c.namespaces, err)
		}
		if got := len(s.seqs(t)); got != c.lines {
			t.Errorf("%s%s: %d lines", c.objects, c.namespaces, got)
		}
		if c.notice != "" && !slices.Contains(notices, c.notice) || c.notice == "" && notices != nil {
			t.Errorf("%s%s: notices %q", c.objects, c.namespaces, notices)
		}
	}
	if _, notices := shownOf(t, path, Options{Lines: 1, Filter: argument.Filter{Selection: argument.Selection{Namespaces: []string{"shop"}, Objects: objects(t, "pods", "deploy")}}}); notices != nil {
		t.Errorf("all is there: %q", notices)
	}
	// The same of a stream, where only its end shows that there is no such line.
	for name, want := range map[string]string{
		"podz":        `the journal has no line about "podz", and it is not a resource of Kubernetes' own; did you mean pods?`,
		"pods/web-44": `the journal has no line about pods of the name "web-44"; did you mean web-4?`, "pods/web-4": "<nil>",
	} {
		o := Options{Lines: All, Filter: argument.Filter{Selection: argument.Selection{Objects: objects(t, name)}}, Follow: true}
		err := Stream(context.Background(), strings.NewReader(numberedLines(3, 10)), o, NewPrinter(newSink(), Style{}))
		if fmt.Sprint(err) != want {
			t.Errorf("stream: %s: %v", name, err)
		}
	}
}

// What is not there yet may come: one of Kubernetes' own resources, a custom one with its group, and a name.
func TestWaitForNames(t *testing.T) {
	for name, line := range map[string]string{
		"services": strings.ReplaceAll(strings.ReplaceAll(numbered(11), "pods", "services"), "Pod", "Service"), "widgets.example.com": strings.Replace(widgetLine, `"seq":1,`, `"seq":11,`, 1),
		"pods/web-11": numbered(11),
	} {
		path := filepath.Join(t.TempDir(), "journal.jsonl")
		write(t, path, numberedLines(1, 10))
		f := follow(t, path, Options{Lines: All, Filter: argument.Filter{Selection: argument.Selection{Objects: objects(t, name)}}})
		late := time.After(soon)
		for waiting := false; !waiting; {
			f.mu.Lock()
			waiting = slices.ContainsFunc(f.notices, func(s string) bool { return strings.HasSuffix(s, "yet; waiting for one") })
			f.mu.Unlock()
			select {
			case <-late:
				t.Fatalf("%s: nobody said that there is none yet: %q", name, f.notices)
			case <-time.After(time.Millisecond):
			}
		}
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
		file.Close()
		f.until(t, 11)
		f.stop(t)
	}
}

// What is outside of the journal is said, and a stream is not read after the last line that is wanted.
func TestSinceAndUntil(t *testing.T) {
	path := layout(t)
	at := func(seq int) argument.Moment {
		return argument.Moment{Time: start.Add(time.Duration(seq) * time.Second)}
	}
	for _, c := range []struct {
		since, until argument.Moment
		want         []int
		notices      string
	}{
		{since: at(0), until: at(3), want: count(1, 3), notices: "the journal begins with line 1, of 2026-11-20 16:00:01 CET"},
		{since: at(1), until: at(3), want: count(1, 3)},
		{since: at(38), until: at(63), want: count(38, 63)},
		{until: at(2), want: count(1, 2)},
		{since: argument.Moment{Seq: 38}, until: argument.Moment{Seq: 63}, want: count(38, 63)},
		{since: argument.Moment{Seq: 80}, until: at(82), want: count(80, 82)},
		{since: at(200), notices: "no line of the journal passes the filters"},
		{until: at(0), notices: "no line of the journal passes the filters"},
	} {
		got, notices := shownOf(t, path, Options{Lines: All, Filter: argument.Filter{Since: c.since, Until: c.until}})
		if !slices.Equal(got, c.want) || strings.Join(notices, "|") != c.notices {
			t.Errorf("%s to %s: %v %q", c.since, c.until, got, notices)
		}
	}
	if got, _ := shownOf(t, path, Options{Lines: 2, Filter: argument.Filter{Until: at(50)}}); !slices.Equal(got, count(49, 50)) {
		t.Errorf("the last 2 until line 50: %v", got)
	}
	s := newSink()
	in := numberedLines(1, 5) + strings.Repeat("not a line\n", 3)
	far := argument.Filter{Until: argument.Moment{Seq: 3}}
	if err := Stream(context.Background(), strings.NewReader(in), Options{Lines: All, Filter: far}, NewPrinter(s, Style{JSON: true})); err != nil || !slices.Equal(s.seqs(t), count(1, 3)) {
		t.Errorf("stream until line 3: %v, %v", s.seqs(t), err)
	}
}

// Indexes say that there is nothing of a name: of no rotated file a line is read, which the damage in each would show.
func TestUnknownNameByIndex(t *testing.T) {
	const files, each = 30, 20
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	for n := range files {
		name := fmt.Sprintf("journal-2026-11-20T15-00-%02d.000.jsonl.gz", n)
		zip(t, filepath.Join(filepath.Dir(path), name), numberedLines(n*each+1, (n+1)*each))
	}
	write(t, path, numberedLines(files*each+1, files*each+3))
	j, err := archive.Open(path, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	verify.Reindex(t.Context(), j, func(path string, err error) {
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	})
	j.Close()
	damaged, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.gz"))
	if err != nil || len(damaged) != files {
		t.Fatal(damaged, err)
	}
	for _, name := range damaged {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := len(b) / 2; i < len(b); i++ {
			b[i] = 0xff
		}
		write(t, name, string(b))
	}
	ask := func(o Options) (shown, notices int, err error) {
		s := newSink()
		o.Notice = func(string) { notices++ }
		err = Files(t.Context(), []string{path}, o, NewPrinter(s, Style{JSON: true}))
		return len(s.seqs(t)), notices, err
	}
	of := func(name string) argument.Filter {
		return argument.Filter{Selection: argument.Selection{Objects: objects(t, name)}}
	}
	for _, name := range []string{"deploy/typo", "po/typo", "podz"} {
		if shown, notices, err := ask(Options{Lines: 10, Filter: of(name)}); err == nil || shown+notices > 0 {
			t.Errorf("%s: %v, %d lines, %d notices", name, err, shown, notices)
		}
	}
	if shown, notices, err := ask(Options{Lines: 3, Filter: of("po")}); err == nil && shown == 3 && notices == 0 {
		t.Errorf("nothing is damaged")
	}
	if shown, notices, err := ask(Options{Lines: 3}); err != nil || shown != 3 || notices > 0 {
		t.Errorf("the last lines: %v, %d lines, %d notices", err, shown, notices)
	}
}
