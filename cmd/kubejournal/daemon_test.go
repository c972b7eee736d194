package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWasClosed(t *testing.T) {
	for _, c := range []struct {
		what, path string
		flags      int
		want       bool
	}{
		{"what Go puts in the place of a closed stream", os.DevNull, os.O_RDWR, true},
		{"> /dev/null", os.DevNull, os.O_WRONLY, false},
		{"a file", filepath.Join(t.TempDir(), "f"), os.O_RDWR | os.O_CREATE, false},
	} {
		f, err := os.OpenFile(c.path, c.flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got := wasClosed(f); got != c.want {
			t.Errorf("%s: wasClosed = %t, want %t", c.what, got, c.want)
		}
		f.Close()
	}
}
