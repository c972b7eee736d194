package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubejournal/test/invariant"
)

// at is a moment of the test's day, by its second.
func at(second int) time.Time { return time.Date(2026, 11, 22, 12, 0, second, 0, time.UTC) }

// line is what kubejournal writes of a ConfigMap at a second of the day.
func line(second int, typ, origin, timeout, more string) string {
	return fmt.Sprintf(`"time":%q,"type":%q,"origin":%q,"stream":"configmaps","uid":"u1","object":{"data":{"timeout":%q}}%s`,
		at(second).Format(time.RFC3339Nano), typ, origin, timeout, more)
}

const op = `,"changes":[{"op":"replace","path":"/data/timeout"}]`

func TestFind(t *testing.T) {
	outages := []Outage{{From: at(10), Until: at(20)}}
	change := func(second int, learned string) Change {
		return Change{Type: "MODIFIED", UID: "u1", Field: "/data/timeout", From: "30s", To: "3s", NotBefore: at(second), NotAfter: at(second + 1), Learned: learned}
	}
	deletion := Change{Type: "DELETED", UID: "u1", NotBefore: at(12), NotAfter: at(13), Learned: missed}
	rotation := Change{Type: "MODIFIED", UID: "u1", Field: "/data/timeout", From: redacted, To: redacted, NotBefore: at(5), NotAfter: at(6), Learned: live}
	added, gap := line(1, "ADDED", "watch", "30s", ""), `"type":"GAP","stream":"configmaps"`
	for name, tc := range map[string]struct {
		change Change
		lines  []string
		fault  string // what the error says; "" where the last line is the change's
	}{
		"live":                    {change(5, live), []string{added, line(5, "MODIFIED", "watch", "3s", op)}, ""},
		"no line":                 {change(5, live), []string{added}, "no line"},
		"another value":           {change(5, live), []string{added, line(5, "MODIFIED", "watch", "4s", op)}, "no line"},
		"from another value":      {change(5, live), []string{line(1, "ADDED", "watch", "9s", ""), line(5, "MODIFIED", "watch", "3s", op)}, "no line"},
		"later once more":         {change(5, live), []string{added, line(5, "MODIFIED", "watch", "3s", op), line(6, "MODIFIED", "watch", "3s", op)}, "not the last"},
		"without changes":         {change(5, live), []string{added, line(5, "MODIFIED", "watch", "3s", "")}, "changes do not have the field"},
		"a change of all above":   {change(5, live), []string{added, line(5, "MODIFIED", "watch", "3s", strings.Replace(op, "/timeout", "", 1))}, ""},
		"a change of another one": {change(5, live), []string{added, line(5, "MODIFIED", "watch", "3s", strings.Replace(op, "timeout", "time", 1))}, "changes do not"},
		"too early":               {change(5, live), []string{added, line(4, "MODIFIED", "watch", "3s", op)}, "is not between"},
		"too late":                {change(5, live), []string{added, line(50, "MODIFIED", "watch", "3s", op)}, "is not between"},
		"late":                    {change(12, late), []string{added, line(21, "MODIFIED", "watch", "3s", op)}, ""},
		"late, in the outage":     {change(12, late), []string{added, line(13, "MODIFIED", "watch", "3s", op)}, "is not between"},
		"late, at last":           {change(12, late), []string{added, line(300, "MODIFIED", "watch", "3s", op)}, "is not between"},
		"late, by comparison":     {change(12, late), []string{added, gap, line(21, "MODIFIED", "relist", "3s", op)}, "origin relist"},
		"missed":                  {change(12, missed), []string{added, gap, line(21, "MODIFIED", "relist", "3s", op)}, ""},
		"missed without a gap":    {change(12, missed), []string{added, line(21, "MODIFIED", "relist", "3s", op)}, "no GAP"},
		"deletion":                {deletion, []string{added, gap, line(21, "DELETED", "relist", "3s", `,"finalStateKnown":false`)}, ""},
		"deletion as if seen":     {deletion, []string{added, gap, line(21, "DELETED", "relist", "3s", "")}, "finalStateKnown"},
		"rotation":                {rotation, []string{added, line(5, "MODIFIED", "watch", redacted, "")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for i, l := range tc.lines {
				fmt.Fprintf(&text, "{\"seq\":%d,%s}\n", i+1, l)
			}
			lines, err := invariant.Parse("j", 1, []byte(text.String()))
			if err != nil {
				t.Fatal(err)
			}
			l, err := newJournal(lines).find(tc.change, outages)
			if err == nil && l.Seq != uint64(len(lines)) {
				err = fmt.Errorf("seq %d, not the last", l.Seq)
			}
			if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("%v, want %q", err, tc.fault)
			}
		})
	}
}

func TestValue(t *testing.T) {
	in := map[string]any{"a": []any{map[string]any{"b/c": int64(6)}}}
	for pointer, want := range map[string]any{"/a/0/b~1c": 6, "/a/1": nil, "/a/x": nil, "/b": nil, "/a/0/b~1c/d": nil} {
		if got := value(in, pointer); !same(got, want) {
			t.Errorf("%s is %v, want %v", pointer, got, want)
		}
	}
}
