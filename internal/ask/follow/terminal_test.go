package follow

import (
	"bytes"
	"os"
	"testing"
)

func TestNoColour(t *testing.T) {
	for _, c := range []struct {
		noColour, term string
		want           bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}, {"", "", true}} {
		got := wantsColour(func(name string) string { return map[string]string{"NO_COLOR": c.noColour, "TERM": c.term}[name] })
		if got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if ReaderGone(w) || ReaderGone(&bytes.Buffer{}) {
		t.Error("gone before it went")
	}
	r.Close()
	if !ReaderGone(w) {
		t.Error("not noticed")
	}
}
