package follow

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/ask/argument"
)

// about returns a line about a stream, or about an object of it.
func about(seq int, typ, resource, members string) string {
	return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T15:10:%02dZ","type":%q,"stream":%q,"version":"v1","resource":%q,"kind":"X"%s}`, seq, seq, typ, resource, resource, members)
}

const (
	same   = `,"count":{"added":0,"modified":0,"deleted":0,"unchanged":7}`
	differ = `,"count":{"added":0,"modified":0,"deleted":1,"unchanged":6}`
	lost   = `,"reason":"Expired","fromTime":"2026-11-20T15:09:30Z","fromResourceVersion":"3","resourceVersion":"9"`
	gone   = `,"name":"a","origin":"relist","object":{}`
)

// A GAP without a difference and its SYNCED are one row, also where other streams' lines are in between.
func TestGapRows(t *testing.T) {
	got := printed(t, Style{},
		about(1, "GAP", "pods", lost), about(2, "GAP", "nodes", lost), about(3, "DELETED", "nodes", gone),
		about(4, "SYNCED", "pods", same), about(5, "SYNCED", "nodes", differ), about(6, "SYNCED", "jobs", same),
		about(7, "GAP", "pods", `,"reason":"CheckpointLost"`), about(8, "GAP", "pods", strings.Replace(lost, "15:09:30", "15:10:30", 1)),
		about(9, "SYNCED", "pods", same), about(10, "GAP", "jobs", ""),
	)
	want := `2026-11-20 CET
16:10:02.000  GAP       nodes     -                 -           32s: Expired, resourceVersion 3→9
16:10:03.000  DELETED   nodes     a                 -           relist
16:10:04.000  GAP       pods      -                 -           31s, no difference, unchanged 7: Expired, resourceVersion 3→9
16:10:05.000  SYNCED    nodes     -                 -           deleted 1, unchanged 6
16:10:06.000  SYNCED    jobs      -                 -           unchanged 7
16:10:07.000  GAP       pods      -                 -           CheckpointLost
16:10:09.000  GAP       pods      -                 -           no difference, unchanged 7: Expired, resourceVersion 3→9
16:10:10.000  GAP       jobs      -                 -
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// Where no SYNCED passes, nothing is waited for.
	var out bytes.Buffer
	p := NewPrinter(&out, Style{})
	if err := Stream(t.Context(), strings.NewReader(about(1, "GAP", "pods", lost)+"\n"+about(2, "GAP", "nodes", lost)+"\n"), Options{Lines: All, Filter: argument.Filter{Types: []string{"GAP"}}}, p); err != nil || strings.Count(out.String(), "GAP") != 2 || len(p.held) > 0 {
		t.Errorf("%v, %s", err, out.String())
	}
}

// Rows are in the order in which lines came, whichever stream shows first whether there was a difference; remarks and
// text, too.
func TestGapOrder(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(&out, Style{})
	show := func(l string) {
		t.Helper()
		if _, err := p.Write([]byte(l + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	show(about(1, "GAP", "pods", lost))
	show(about(2, "GAP", "nodes", lost))
	show(about(3, "DELETED", "nodes", gone))
	if err := errors.Join(p.Note(time.Date(2026, 11, 20, 15, 10, 3, 0, time.UTC), "a remark"), p.Text([]byte("text\n"))); err != nil {
		t.Fatal(err)
	}
	show("bad")
	show(about(4, "SYNCED", "nodes", differ))
	show(about(5, "DELETED", "pods", gone))
	show(about(6, "GAP", "jobs", lost))
	if !p.Withdraw([]byte("jobs")) || p.Withdraw([]byte("jobs")) {
		t.Error("a GAP is withdrawn once")
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for l := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(l)[:min(2, len(strings.Fields(l)))], " "))
	}
	want := "2026-11-20 CET, 16:10:01.000 GAP, 16:10:02.000 GAP, 16:10:03.000 DELETED, -- a, text, - BAD, 16:10:04.000 SYNCED, 16:10:05.000 DELETED"
	if strings.Join(got, ", ") != want {
		t.Errorf("%v\n%s", got, out.String())
	}
}

// A GAP is not held back for longer than a list usually takes, and no number of them fills the memory.
func TestGapIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewPrinter(&out, Style{})
		if _, err := p.Write([]byte(about(1, "GAP", "pods", lost) + "\n")); err != nil || strings.Contains(out.String(), "GAP") {
			t.Fatalf("%v, %s", err, out.String())
		}
		time.Sleep(patience) //nolint:forbidigo // the clock is the test's
		if err := p.Flush(); err != nil || !strings.Contains(out.String(), "GAP") {
			t.Fatalf("%v, %s", err, out.String())
		}
		if _, err := p.Write([]byte(about(2, "SYNCED", "pods", same) + "\n")); err != nil || !strings.Contains(out.String(), "SYNCED    pods      -                 -           unchanged 7") {
			t.Errorf("%v, %s", err, out.String())
		}
		for i := range 2 * maxHeld {
			if _, err := p.Write([]byte(about(3, "GAP", fmt.Sprint("r", i), lost) + "\n")); err != nil {
				t.Fatal(err)
			}
		}
		if len(p.held) > maxHeld {
			t.Errorf("%d are held back", len(p.held))
		}
	})
}

// A change that was received late shows when it was made.
func TestLate(t *testing.T) {
	line := func(typ, members string) string { return objectLine(typ, members+`,"object":{}`) }
	for written, want := range map[string]string{
		`,"writtenAt":"2026-11-20T15:10:15Z"`:                        "16:10:15*     MODIFIED",
		`,"writtenAt":"2026-11-20T15:10:20Z"`:                        "16:10:22.500  MODIFIED",
		`,"writtenAt":"2026-11-20T15:11:20Z"`:                        "16:10:22.500  MODIFIED",
		`,"writtenAt":"2026-11-19T15:10:20Z"`:                        "11-19 16:10*  MODIFIED",
		`,"writtenAt":"2026-11-19T15:10:20Z","origin":"snapshot"`:    "16:10:22.500  MODIFIED",
		`,"writtenAt":"yesterday"`:                                   "16:10:22.500  MODIFIED",
		`,"writtenAt":"2026-11-20T15:10:15Z","finalStateKnown":true`: "16:10:15*     MODIFIED",
	} {
		if got := printed(t, Style{}, line("MODIFIED", written)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", written, got)
		}
	}
	narrow := Style{Width: func() int { return 100 }}
	if got := printed(t, narrow, line("MODIFIED", `,"writtenAt":"2026-11-20T15:10:15Z"`), line("MODIFIED", `,"writtenAt":"2026-11-19T15:10:15Z"`)); !strings.Contains(got, "\n16:10:15* MOD ") || !strings.Contains(got, "\n11-19*    MOD ") {
		t.Error(got)
	}
}
