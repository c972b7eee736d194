package pager

import (
	"bytes"
	"io"
	"os"
	"testing"
)

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { value, ok := env[name]; return value, ok }
}

func TestChosen(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, "less"},
		{map[string]string{"PAGER": ""}, ""},
		{map[string]string{"PAGER": " cat "}, ""},
		{map[string]string{"PAGER": "more -s"}, "more -s"},
		{map[string]string{"TERM": "dumb"}, ""},
		{map[string]string{"TERM": "dumb", "PAGER": "more"}, "more"},
	} {
		if got := chosen(lookup(c.env)); got != c.want {
			t.Errorf("%v: %q", c.env, got)
		}
	}
}

// Without a terminal there is no pager.
func TestNoTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var buffer bytes.Buffer
	for _, stdout := range []io.Writer{w, &buffer} {
		p := Start(t.Context(), os.Stdin, stdout, lookup(map[string]string{"PAGER": "false"}), func(err error) { t.Error(err) })
		if _, err := io.WriteString(p, "text"); err != nil || p.Paged() || p.Notes(stdout) != stdout {
			t.Error(err, p.Paged())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	w.Close()
	if text, _ := io.ReadAll(r); string(text) != "text" || buffer.String() != "text" {
		t.Errorf("%q, %q", text, buffer.String())
	}
}

func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	p := Start(t.Context(), os.Stdin, w, lookup(nil), nil)
	if _, err := io.WriteString(p, "text"); !Quit(err) {
		t.Error(err)
	}
	if Quit(nil) || Quit(io.ErrUnexpectedEOF) {
		t.Error("quit")
	}
}
