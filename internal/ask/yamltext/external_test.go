package yamltext

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// program writes a shell script and returns its path.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExternal(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, c := range []struct {
		script    string
		different bool
		fault     string
	}{
		{`cd "$1" && cat apps.v1.Deployment.shop.web && cat "$2"/v1.ConfigMap.shop.new; echo "$3 $4"; exit 1`, true, ""},
		{"exit 0", false, ""},
		{"echo no >&2; exit 2", false, "exit status 2"},
		{"kill -9 $$", false, "killed"},
	} {
		e, err := NewExternal(program(t, c.script) + " -u  --color=always --label=a/b -N")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Add(FileName("apps", "v1", "Deployment", "shop", "web"), []byte("a: 1\n"), []byte("a: 2\n")); err != nil {
			t.Fatal(err)
		}
		if err := e.Add(FileName("", "v1", "ConfigMap", "shop", "new"), nil, []byte("b: 1\n")); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		different, err := e.Run(t.Context(), &out, &out)
		if different != c.different || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %t, %v", c.script, different, err)
		}
		if c.different && out.String() != "a: 1\nb: 1\n-u --color=always\n" {
			t.Errorf("%q", out.String())
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
	}
}

func TestExternalFaults(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	e, err := NewExternal("kubejournal-no-such-program")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), `run "kubejournal-no-such-program" of KUBECTL_EXTERNAL_DIFF`) {
		t.Error(err)
	}
	e.command = program(t, `trap "exit 3" TERM; : > "$1"/started; while :; do sleep 0.01; done`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(e.from, "started")); err == nil {
				cancel()
			}
		}
	}()
	if different, err := e.Run(ctx, nil, nil); different || err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Error(different, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	t.Setenv("TMPDIR", filepath.Join(temp, "none"))
	if _, err := NewExternal("diff"); err == nil {
		t.Error("no error")
	}
}

func TestExternalArgs(t *testing.T) {
	for command, want := range map[string][]string{
		"diff":                             {"diff"},
		"diff -u -N":                       {"diff", "-u", "-N"},
		" dyff between  --omit-header ":    {"dyff", "between", "--omit-header"},
		"diff; rm $HOME --color=always 'x": {"diff;", "rm", "--color=always"},
	} {
		if got := externalArgs(command); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q", command, got)
		}
	}
}

func TestFileName(t *testing.T) {
	for want, got := range map[string]string{
		"apps.v1.Deployment.shop.web": FileName("apps", "v1", "Deployment", "shop", "web"),
		"v1.Node..n1":                 FileName("", "v1", "Node", "", "n1"),
		"v1.Pod.a..._.._x":            FileName("", "v1", "Pod", "a", "../../x"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	long := strings.Repeat("a", 253)
	a, b := FileName(long, "v1", "Widget", "shop", long), FileName(long, "v1", "Widget", "shop", long[1:])
	if len(a) != 255 || len(b) != 255 || a == b {
		t.Errorf("%q, %q", a, b)
	}
}
