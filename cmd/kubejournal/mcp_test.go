package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"kubejournal/test/journaltest"
)

// agent starts the program, and a client of the SDK.
func agent(t *testing.T, journals ...string) *mcp.ClientSession {
	t.Helper()
	args := []string{"mcp"}
	for _, path := range journals {
		args = append(args, "--journal", path)
	}
	transport := &mcp.CommandTransport{Command: exec.Command("kubejournal", args...)}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

type toolAnswer struct {
	Certain, Found, Watched bool
	Doubts, Notes           []string
	Rows                    []any
	LeftOut                 any
}

func askTool(t *testing.T, client *mcp.ClientSession, tool, arguments string) (a toolAnswer, fault string) {
	t.Helper()
	r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		return a, text
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return a, ""
}

// printed are the values in what a command printed with -o json: lines, documents, or the items of a list.
func printed(t *testing.T, stdout string) []any {
	t.Helper()
	all := []any{}
	for d := json.NewDecoder(strings.NewReader(stdout)); ; {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		if list, ok := v.([]any); ok {
			all = append(all, list...)
		} else if list, ok := v.(map[string]any); ok && list["kind"] == "List" {
			all = append(all, list["items"].([]any)...)
		} else {
			all = append(all, v)
		}
	}
}

// TestAgentsAnswers asks each tool what a command is asked too, which judges it: the rows are what the command prints with
// -o json, the doubts and notes are what it says on stderr, and certain goes with its exit status.
func TestAgentsAnswers(t *testing.T) {
	sample := filepath.Join("..", "..", "test", "sample", "journal.jsonl")
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Now().Add(-time.Hour))
	s := j.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Synced()
	s.Put("alice", `{"metadata":{"namespace":"shop","name":"web","uid":"a1"},"data":{"n":"1"}}`)
	j.Now = j.Now.Add(10 * time.Minute)
	s.Put("bob", `{"metadata":{"namespace":"shop","name":"web","uid":"a1"},"data":{"n":"2"}}`)
	s.Put("bob", `{"metadata":{"namespace":"shop","name":"gone","uid":"a2"},"data":{"n":"2"}}`)
	j.Now = j.Now.Add(10 * time.Minute)
	s.Delete("a2")
	confirmNow(t, j, path, s)
	agents := map[string]*mcp.ClientSession{sample: agent(t, sample), path: agent(t, path)}
	shop := `"namespace":"shop"`
	for _, of := range []struct {
		journal, tool, arguments string
		args                     []string
	}{
		{sample, "history", `{"objects":["deploy/web"],` + shop + `,"limit":500}`, []string{"deploy/web", "-n", "shop"}},
		{sample, "history", `{"objects":["cm","secrets"],"by":"kubectl*","limit":500}`, []string{"cm,secrets", "--by", "kubectl*"}},
		{sample, "history", `{"objects":["deploy/web"],"field":"spec.replicas"}`, []string{"deploy/web", "--field", "spec.replicas"}},
		{sample, "history", `{"grep":"1.5.0-bad","objects":["deploy"]}`, []string{"deploy", "--grep", "1.5.0-bad"}},
		{sample, "history", `{"grep-regexp":"1\\.5\\.0.bad$","objects":["deploy"]}`, []string{"deploy", "--grep-regexp", `1\.5\.0.bad$`}},
		{sample, "history", `{"deleted":true,` + shop + `,"since":"2026-11-23 10:22:20"}`, []string{"--deleted", "-n", "shop", "--since", "2026-11-23 10:22:20"}},
		{sample, "history", `{"warnings":true,` + shop + `,"limit":500}`, []string{"--warnings", "-n", "shop"}},
		{sample, "history", `{"objects":["deploy/web"],"related":true,` + shop + `,"until":"seq:330","limit":500}`, []string{"deploy/web", "--related", "-n", "shop", "--until", "seq:330"}},
		{sample, "history", `{"objects":["deploy/nope"]}`, []string{"deploy/nope"}},
		{sample, "history", `{"objects":["nopes"]}`, []string{"nopes"}},
		{sample, "get", `{"objects":["deploy/web"],` + shop + `,"at":"seq:400"}`, []string{"deploy/web", "-n", "shop", "--at", "seq:400"}},
		{sample, "get", `{"objects":["deploy","cm"],` + shop + `,"at":"2026-11-23T10:22:10Z"}`, []string{"deploy,cm", "-n", "shop", "--at", "2026-11-23T10:22:10Z"}},
		{sample, "get", `{"objects":["pods"],"selector":"app=web","at":"2026-11-23T10:22:10Z"}`, []string{"pods", "-l", "app=web", "--at", "2026-11-23T10:22:10Z"}},
		{sample, "get", `{"objects":["cm"],"deleted":true}`, []string{"cm", "--deleted"}},
		{sample, "get", `{"objects":["deploy/web"],` + shop + `,"clean":true}`, []string{"deploy/web", "-n", "shop", "--clean"}},
		{sample, "diff", `{"since":"2026-11-23 10:22:00","until":"2026-11-23 10:22:10",` + shop + `,"objects":["deploy","cm"]}`, []string{"deploy,cm", "--since", "2026-11-23 10:22:00", "--until", "2026-11-23 10:22:10", "-n", "shop"}},
		{sample, "diff", `{"since":"seq:100","until":"seq:101"}`, []string{"--since", "seq:100", "--until", "seq:101"}},
		{sample, "blame", `{"object":"deploy/web",` + shop + `,"spec":true,"removed":true}`, []string{"deploy/web", "-n", "shop", "--spec", "--removed"}},
		{sample, "why", `{"object":"pod/web-778fcb6d7-cdktc",` + shop + `}`, []string{"pod/web-778fcb6d7-cdktc", "-n", "shop"}},
		{sample, "why", `{"object":"deploy/web",` + shop + `,"at":"2026-11-23 10:22:05"}`, []string{"deploy/web", "-n", "shop", "--at", "2026-11-23 10:22:05"}},
		{sample, "coverage", `{"objects":["pods","deploy"]}`, []string{"pods", "deploy"}},
		{path, "history", `{}`, nil},
		{path, "history", `{"objects":["cm/none"]}`, []string{"cm/none"}},
		{path, "history", `{"objects":["pods"]}`, []string{"pods"}},
		{path, "get", `{"objects":["cm"]}`, []string{"cm"}},
		{path, "get", `{"objects":["cm/gone"]}`, []string{"cm/gone"}},
		{path, "diff", `{"since":"seq:3"}`, []string{"--since", "seq:3"}},
		{path, "blame", `{"object":"cm/web"}`, []string{"cm/web"}},
		{path, "why", `{"object":"cm/gone"}`, []string{"cm/gone"}},
		{path, "coverage", `{"objects":["cm"]}`, []string{"cm"}},
	} {
		what := of.tool + " " + of.arguments
		got, fault := askTool(t, agents[of.journal], of.tool, of.arguments)
		args := append([]string{of.tool, "-o", "json", "--journal", of.journal}, of.args...)
		status, stdout, stderr := execute(t, args...)
		if fault != "" || got.LeftOut != nil {
			t.Errorf("%s: %s%v", what, fault, got.LeftOut)
			continue
		}
		want := printed(t, stdout)
		for _, row := range want {
			if row := row.(map[string]any); of.tool == "history" {
				delete(row, "object")
			}
			if row, ok := row.(map[string]any); ok && of.journal == path && of.tool == "coverage" {
				delete(row, "intervals") // the daemon goes on
			}
		}
		for _, row := range got.Rows {
			if of.journal == path && of.tool == "coverage" {
				delete(row.(map[string]any), "intervals")
			}
		}
		summary := len(want) > 0 && want[len(want)-1].(map[string]any)["change"] == "SUMMARY"
		if summary && of.journal == path { // up to now
			delete(want[len(want)-1].(map[string]any), "until")
			delete(got.Rows[len(got.Rows)-1].(map[string]any), "until")
		}
		if !reflect.DeepEqual(got.Rows, want) {
			t.Errorf("%s: %v\nwant %v", what, got.Rows, want)
		}
		if found := len(want) > 1 || len(want) == 1 && !summary; got.Found != found {
			t.Errorf("%s: found %v, want %v", what, got.Found, found)
		}
		said := ""
		for _, text := range append(got.Doubts, got.Notes...) {
			said += text + "\n"
		}
		doubts := 0
		for l := range strings.Lines(stderr) {
			text := strings.TrimPrefix(l, "kubejournal: ")
			if !strings.Contains(said, text) {
				t.Errorf("%s: %q is not in\n%s", what, text, said)
			}
			if strings.HasPrefix(text, "not covered:") {
				doubts++
			}
		}
		if doubts > len(got.Doubts) {
			t.Errorf("%s: %d doubts, want %d", what, len(got.Doubts), doubts)
		}
		certain := status == 0 || status == 1 && doubts == 0 && (got.Watched || got.Found)
		if got.Certain != certain || !certain && len(got.Doubts) == 0 {
			t.Errorf("%s: certain %v, and status %d\n%s", what, got.Certain, status, stderr)
		}
	}
}

// TestAgentSeesNewLines asks while a daemon writes, several questions at once: each answer is of the newest state.
func TestAgentSeesNewLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := journaltest.New(t, path, time.Now().Add(-time.Hour))
	s := j.Stream("configmaps", "ConfigMap")
	s.Snapshot()
	s.Synced()
	client := agent(t, path)
	for n := range 5 {
		s.Put("alice", fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"web","uid":"a1"},"data":{"n":"%d"}}`, n))
		if n == 2 {
			j.Rotate()
		}
		confirmNow(t, j, path, s)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				a, fault := askTool(t, client, "get", `{"objects":["cm/web"]}`)
				if fault != "" || len(a.Rows) != 1 || a.Rows[0].(map[string]any)["data"].(map[string]any)["n"] != fmt.Sprint(n) {
					t.Errorf("%d: %s%v", n, fault, a.Rows)
				}
			})
			all.Go(func() {
				if a, fault := askTool(t, client, "history", `{"objects":["cm/web"],"all":true}`); len(a.Rows) < n+1 {
					t.Errorf("%d: %s%v", n, fault, a.Rows)
				}
			})
		}
		all.Wait()
	}
}

// TestAgentGone ends the program with its client, and by SIGTERM. stdout has the protocol alone.
func TestAgentGone(t *testing.T) {
	path := filepath.Join("..", "..", "test", "sample", "journal.jsonl")
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for name, end := range map[string]func(*exec.Cmd, io.Closer, io.Closer) error{
		"stdin ends":  func(_ *exec.Cmd, stdin, _ io.Closer) error { return stdin.Close() },
		"both end":    func(_ *exec.Cmd, stdin, stdout io.Closer) error { return errors.Join(stdout.Close(), stdin.Close()) },
		"interrupted": func(c *exec.Cmd, _, _ io.Closer) error { return c.Process.Signal(os.Interrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("kubejournal", "mcp", "--journal", path)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			if _, err := io.WriteString(stdin, hello); err != nil {
				t.Fatal(err)
			}
			var message struct{ JSONRPC string }
			if err := json.NewDecoder(stdout).Decode(&message); err != nil || message.JSONRPC != "2.0" {
				t.Fatalf("%+v, %v", message, err)
			}
			call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"history","arguments":{}}}` + "\n"
			if _, err := io.WriteString(stdin, call); err != nil {
				t.Fatal(err)
			}
			if err := end(cmd, stdin, stdout); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if err := wait(t, ended); err != nil || stderr.Len() > 0 {
				t.Errorf("%v: %s", err, &stderr)
			}
		})
	}
	if status, _, stderr := execute(t, "mcp", "--journal", path, "extra"); status != 2 || !strings.Contains(stderr, "unexpected argument") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestAgentPage holds docs/mcp.md: its table has the inputs of each tool, and its example is what the tool answers.
func TestAgentPage(t *testing.T) {
	client := agent(t, filepath.Join("..", "..", "test", "sample", "journal.jsonl"))
	page := pages(t)["docs/mcp.md"]
	all, err := client.ListTools(t.Context(), nil)
	if err != nil || len(all.Tools) != 6 {
		t.Fatal(all, err)
	}
	for _, tool := range all.Tools {
		row := regexp.MustCompile("(?m)^\\| `" + tool.Name + "` \\|[^|]*\\|([^|]*)\\|$").FindStringSubmatch(page)
		if row == nil {
			t.Errorf("no row for %s", tool.Name)
			continue
		}
		var got []string
		for _, name := range codeSpan.FindAllString(row[1], -1) {
			got = append(got, strings.Trim(name, "`"))
		}
		want := slices.Collect(maps.Keys(tool.InputSchema.(map[string]any)["properties"].(map[string]any)))
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tool.Name, got, want)
		}
	}
	_, example, _ := strings.Cut(page, "\n## An example\n")
	blocks := fence.FindAllStringSubmatch(example, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	var call struct {
		Name      string
		Arguments json.RawMessage
	}
	var want any
	if err := errors.Join(json.Unmarshal([]byte(blocks[0][2]), &call), json.Unmarshal([]byte(blocks[1][2]), &want)); err != nil {
		t.Fatal(err)
	}
	r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: call.Name, Arguments: call.Arguments})
	if err != nil || !reflect.DeepEqual(r.StructuredContent, want) {
		t.Errorf("%v: %v\nwant %v", err, r.StructuredContent, want)
	}
}
