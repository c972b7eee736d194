package search

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A quick search draws nothing; a slow one draws now and then, and leaves no trace.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, func() int { return 60 })
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p.now = func() time.Time { return now }
	p.add(1e9)
	p.add(3e9)
	now = now.Add(900 * time.Millisecond)
	p.pass(1e8)
	p.Clear()
	if out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
	now = now.Add(1100 * time.Millisecond)
	p.pass(9e8)
	p.pass(1)
	if want := "\r[=====               ] 1.0 GB of 4.0 GB, 500 MB/s, 6s left\x1b[K"; out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
	p.width = func() int { return 11 }
	now = now.Add(time.Second)
	p.pass(0)
	if !strings.HasSuffix(out.String(), "\x1b[K\r[=====    \x1b[K") {
		t.Errorf("%q", out.String())
	}
	p.Stop()
	now = now.Add(time.Second)
	p.pass(1)
	p.Clear()
	if !strings.HasSuffix(out.String(), "[=====    \x1b[K\r\x1b[K") {
		t.Errorf("%q", out.String())
	}
	var none *Progress
	none.add(1)
	none.pass(1)
	none.Stop()
}
