package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"kubejournal/internal/ask/rows"
	"kubejournal/internal/host/terminal"
)

func TestMain(m *testing.M) {
	time.Local = time.FixedZone("CET", 3600)
	os.Exit(m.Run())
}

// printed is what a Printer makes of lines.
func printed(t testing.TB, style Style, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	p := NewPrinter(&out, style)
	if _, err := p.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// objectLine is a line about an object with members of its own.
func objectLine(typ, members string) string {
	return fmt.Sprintf(`{"seq":8,"time":"2026-11-20T15:10:22.5Z","type":%q,"origin":"watch","id":"x","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"shop","name":"web-0"%s}`, typ, members)
}

func TestText(t *testing.T) {
	got := printed(t, Style{},
		deploymentLine,
		objectLine("ADDED", `,"origin":"snapshot","manager":"kubelet"`),
		objectLine("DELETED", `,"origin":"relist","manager":"kubelet","finalStateKnown":false`),
		objectLine("MODIFIED", `,"generation":2,"changes":[{"op":"replace","path":"/metadata/resourceVersion","old":"1","value":"2"},{"op":"replace","path":"/spec/replicas","old":2,"value":3},{"op":"add","path":"/metadata/labels/app.kubernetes.io~1tier","value":"db one"},{"op":"remove","path":"/spec/containers/0/env","old":[]},{"op":"replace","path":"/status/phase","old":"Pending","value":"Running"},{"op":"replace","path":"/spec/x","old":{"a":1},"value":{"a":"`+strings.Repeat("b", 40)+`"}}]`),
		objectLine("MODIFIED", `,"changes":[{"op":"replace","path":"/spec/x","old":{"a":1},"value":{"a":"`+strings.Repeat("b", 40)+`"}},{"op":"replace","path":"","old":[],"value":null}]`),
		objectLine("MODIFIED", `,"generation":2,"changes":[{"op":"replace","path":"/metadata/generation","old":1,"value":2}]`),
		gapLine, strings.Replace(syncedLine, `"stream":"pods"`, `"stream":"pods?namespace=web&labelSelector=app%3Dweb"`, 1),
		`{"seq":11,"time":"2026-11-20T23:30:00Z","type":"ADDED","origin":"watch","id":"x","stream":"events","version":"v1","resource":"events","kind":"Event","namespace":"shop","name":"web-0.17","manager":"kubelet","event":{"reason":"BackOff","message":"Back-off restarting\nfailed container \u001b[31m","type":"Warning","count":12,"reporter":"kubelet","regarding":{"kind":"Pod","namespace":"shop","name":"web-0","uid":"u"}},"object":{}}`,
		`{"seq":12,"time":"2026-11-20T23:30:00Z","type":"ADDED","origin":"watch","id":"x","stream":"events","version":"v1","resource":"events","kind":"Event","namespace":"default","name":"n.17","event":{"reason":"Starting","type":"Normal","regarding":{"kind":"Node","name":"node-1"}},"truncated":true}`,
		objectLine("MODIFIED", `,"truncated":true,"truncatedReason":"ObjectTooDeep"`),
		`{"level":"info","msg":"running"}`, ``,
	)
	want := `2026-11-20 CET
16:10:22.123  MODIFIED  deployments.apps  shop/web          kubectl/scale  generation 3
16:10:22.500  ADDED     pods              shop/web-0        kubelet        snapshot
16:10:22.500  DELETED   pods              shop/web-0        -              relist, final state not known
16:10:22.500  MODIFIED  pods              shop/web-0        -              spec.replicas 2→3, -spec.containers[0].env, spec.x {"a":1}→{…}, +metadata.labels["app.kubernetes.io/tier"] "db one", +1 more
16:10:22.500  MODIFIED  pods              shop/web-0        -              spec.x {"a":1}→{…}, object []→null
16:10:22.500  MODIFIED  pods              shop/web-0        -              generation 2
16:10:23.000  GAP       pods              namespace=web labelSelector=app=web  -              Expired, resourceVersion 12→40
16:10:24.000  SYNCED    pods              namespace=web labelSelector=app=web  -              added 1, modified 2, unchanged 40
2026-11-21 CET
00:30:00.000  ADDED     events            shop/web-0.17                        kubelet        Warning BackOff Pod/web-0: Back-off restarting\nfailed container \x1b[31m (x12)
00:30:00.000  ADDED     events            default/n.17                         -              Starting Node/node-1, truncated
2026-11-20 CET
16:10:22.500  MODIFIED  pods              shop/web-0                           -              truncated ObjectTooDeep
-             BAD       {"level":"info","msg":"running"}
-             BAD       (empty)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// As many changes are shown as fit, and the rest is counted; what only counts writes is not.
func TestChanges(t *testing.T) {
	var list []string
	for i := range 7 {
		list = append(list, fmt.Sprintf(`{"op":"replace","path":"/spec/f%d","old":%d,"value":%d}`, i, i, i+1))
	}
	for _, path := range []string{"/metadata/resourceVersion", "/metadata/generation", "/metadata/managedFields/0/time", "/metadata/managedFields"} {
		list = append(list, fmt.Sprintf(`{"op":"replace","path":%q,"old":"1","value":"2"}`, path))
	}
	all := "[" + strings.Join(list, ",") + "]"
	for limit, want := range map[int]string{
		math.MaxInt: "spec.f0 0→1, spec.f1 1→2, spec.f2 2→3, spec.f3 3→4, +3 more",
		99:          "spec.f0 0→1, spec.f1 1→2, spec.f2 2→3, spec.f3 3→4, +3 more",
		59:          "spec.f0 0→1, spec.f1 1→2, spec.f2 2→3, spec.f3 3→4, +3 more",
		58:          "spec.f0 0→1, spec.f1 1→2, spec.f2 2→3, +4 more",
		33:          "spec.f0 0→1, spec.f1 1→2, +5 more",
		20:          "spec.f0 0→1, +6 more",
		15:          "spec.f0 0→1 +6",
		5:           "s… +6",
	} {
		got := rows.AppendChanges([]byte("before "), rows.AppendOperations(nil, []byte(all)), nil, limit)
		if string(got) != "before "+want {
			t.Errorf("%d columns: %s", limit, got)
		}
		if n := terminal.Columns(got) - len("before "); limit >= len("…, +6 more") && n > limit {
			t.Errorf("%d columns: took %d", limit, n)
		}
	}
	one := []byte("[" + list[0] + "]")
	if got := string(rows.AppendChanges(nil, rows.AppendOperations(nil, one), nil, 11)); got != "spec.f0 0→1" {
		t.Errorf("one that fits: %s", got)
	}
	if got := string(rows.AppendChanges(nil, rows.AppendOperations(nil, []byte("["+strings.Join(list[7:], ",")+"]")), nil, math.MaxInt)); got != "" {
		t.Errorf("nothing but bookkeeping: %s", got)
	}
	for width := 1; width < 120; width++ {
		l := objectLine("MODIFIED", `,"origin":"relist","changes":`+all)
		for line := range strings.Lines(printed(t, Style{Width: func() int { return width }}, l)) {
			if n := terminal.Columns([]byte(strings.TrimSuffix(line, "\n"))); n > width && width >= 60 {
				t.Errorf("width %d: %d columns: %s", width, n, line)
			}
		}
	}
}

func TestTerminal(t *testing.T) {
	long := objectLine("MODIFIED", `,"manager":"kube-controller-manager","changes":[{"op":"replace","path":"/status/message","old":"a","value":"`+strings.Repeat("long ", 50)+`"}]`)
	long = strings.Replace(long, "web-0", "web-6d4cf56db6-"+strings.Repeat("x", 60)+"-00042", 1)
	for _, width := range []int{1, 40, 60, 80, 100, 120, 200} {
		got := printed(t, Style{Width: func() int { return width }}, deploymentLine, long, gapLine, `{"bad":"`+strings.Repeat("x", 300)+`"}`)
		for line := range strings.Lines(got) {
			if n := terminal.Columns([]byte(strings.TrimSuffix(line, "\n"))); n > width && width >= 60 {
				t.Errorf("width %d: %d columns: %s", width, n, line)
			}
		}
		if !strings.HasPrefix(got, "T") || strings.Count(got, "\n") != 6 {
			t.Errorf("width %d: no heading, date and four lines:\n%s", width, got)
		}
		if width == 120 {
			t.Log("\n" + got)
			if !strings.Contains(got, "00042") {
				t.Error("the end of a long name is not shown")
			}
		}
	}
	coloured := printed(t, Style{Colour: true}, deploymentLine, gapLine)
	for _, want := range []string{"\x1b[33mMODIFIED\x1b[0m  deploy", "\x1b[35mGAP\x1b[0m       pods", "\x1b[2m2026-11-20 CET\x1b[0m\n"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("no %q in %q", want, coloured)
		}
	}
}

func TestJSON(t *testing.T) {
	raw := objectLine("ADDED", ",\"manager\":\"a\u009b31m\x7f\u202e\U000e0041 ok é\"")
	if got := printed(t, Style{JSON: true}, raw); got != raw+"\n" {
		t.Errorf("into a pipe: %q", got)
	}
	got := printed(t, Style{JSON: true, Width: func() int { return 20 }}, raw)
	if !strings.Contains(got, `a\u009b31m\u007f\u202e\udb40\udc41 ok é"`) {
		t.Errorf("on a terminal: %q", got)
	}
	var a, b map[string]any
	if err := errors.Join(json.Unmarshal([]byte(raw), &a), json.Unmarshal([]byte(got), &b)); err != nil || cmp.Diff(a, b) != "" {
		t.Errorf("another meaning: %v\n%s", err, cmp.Diff(a, b))
	}
	if got := printed(t, Style{JSON: true}, "no line"); got != "" {
		t.Errorf("a bad line for a program: %q", got)
	}
}

// A recorder writes as many lines at once as there are, and may begin anywhere after a partial write.
func TestWriteInParts(t *testing.T) {
	all := deploymentLine + "\n" + gapLine + "\n" + syncedLine + "\n"
	want := printed(t, Style{}, deploymentLine, gapLine, syncedLine)
	for _, size := range []int{1, 7, 100, 500} {
		var out bytes.Buffer
		p := NewPrinter(&out, Style{})
		for rest := all; rest != ""; {
			n := min(size, len(rest))
			if got, err := p.Write([]byte(rest[:n])); err != nil || got != n {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		if err := p.End(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("in parts of %d:\n%s", size, out.String())
		}
	}
}

type brokenWriter struct{ err error }

func (w *brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteError(t *testing.T) {
	broken := errors.New("broken")
	w := &brokenWriter{broken}
	p := NewPrinter(w, Style{})
	for range 3 {
		if n, err := p.Write([]byte(deploymentLine + "\n")); n != 0 || !errors.Is(err, broken) {
			t.Fatal(n, err)
		}
	}
	if len(p.out) > 0 {
		t.Errorf("holds %d bytes back that will be written again", len(p.out))
	}
}

// What a terminal would act on never gets there, whatever a line holds.
func FuzzPrinter(f *testing.F) {
	for _, l := range []string{deploymentLine, gapLine, syncedLine,
		objectLine("MODIFIED", `,"changes":[{"op":"replace","path":"/a~1b/0/-//x y/\u001b","old":"\ud83d\ude00\u0007","value":[1]}]`),
		objectLine("A\\u001b[2J", `,"event":{"message":"\u0000\u009b","count":"x","regarding":{"kind":"\u202e"}}`),
		"\x1b]0;title\x07", "{\"seq\":1\xff}", `{"seq":1,"time":"2026-11-20T15:10:22Z","type":"ADDED","stream":"pods?a=%1b%zz%0a"}`,
	} {
		f.Add([]byte(l), 100)
		f.Add([]byte(l), 0)
	}
	f.Fuzz(func(t *testing.T, raw []byte, width int) {
		raw = bytes.ReplaceAll(raw, []byte("\n"), []byte(" "))
		for _, style := range []Style{{}, {JSON: true}} {
			if width > 0 {
				style.Width = func() int { return width%300 + 1 }
			} else if style.JSON {
				continue // into a pipe it is what it is
			}
			var out bytes.Buffer
			p := NewPrinter(&out, style)
			if _, err := p.Write(append(bytes.Clone(raw), '\n')); err != nil {
				t.Fatal(err)
			}
			if err := p.End(); err != nil {
				t.Fatal(err)
			}
			if !utf8.Valid(out.Bytes()) {
				t.Errorf("not UTF-8: %q", out.Bytes())
			}
			for _, r := range out.String() {
				if r != '\n' && !unicode.IsGraphic(r) {
					t.Errorf("%q in %q", r, out.String())
				}
			}
			if n := strings.Count(out.String(), "\n"); n > 3 {
				t.Errorf("one line became %d: %q", n, out.String())
			}
		}
	})
}
