package answer

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/follow"
	"kubejournal/internal/format/line"
)

// lineAt returns a line of a stream.
func lineAt(t *testing.T, second int, typ, stream, more string) *line.Fields {
	t.Helper()
	raw := fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T14:00:%02dZ","type":%q,"stream":%q,"version":"v1","resource":%q,"kind":"Pod","name":"o%d"%s}`,
		second+1, second, typ, stream, stream, second, more)
	l := &line.Fields{}
	if err := l.Parse([]byte(raw)); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return l
}

// TestQueue has rows of one history that go through a queue come out as they do from a Printer that writes, whatever GAPs wait.
func TestQueue(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		json := seed%5 == 0
		var want, got bytes.Buffer
		printer := follow.NewPrinter(&want, follow.Style{JSON: json})
		table := follow.NewPrinter(&got, follow.Style{JSON: json, Clusters: []string{"eu"}})
		queue := follow.NewQueue(follow.Style{JSON: json}, func(r *follow.Row) error { return showOf(table, "eu", r, json) })
		for second := range random.IntN(30) {
			stream := []string{"pods", "nodes", "services"}[random.IntN(3)]
			var l *line.Fields
			hold := false
			kind := random.IntN(9)
			if second == 0 {
				kind = 9 // a printer lays nothing out for text
			}
			switch kind {
			case 0:
				l = lineAt(t, second, "GAP", stream, `,"reason":"Expired"`)
			case 1:
				l, hold = lineAt(t, second, "GAP", stream, `,"reason":"Expired"`), true
			case 2:
				l = lineAt(t, second, "SYNCED", stream, `,"count":{"added":0,"modified":0,"deleted":0,"unchanged":2}`)
			case 3:
				l = lineAt(t, second, "SYNCED", stream, `,"count":{"added":1,"modified":0,"deleted":0,"unchanged":2}`)
			case 4:
				if json {
					continue
				}
				for _, to := range []*follow.Printer{printer, queue} {
					if err := to.Text([]byte("text\n")); err != nil {
						t.Fatal(err)
					}
				}
				continue
			case 5:
				if a, b := printer.Withdraw([]byte(stream)), queue.Withdraw([]byte(stream)); a != b {
					t.Fatalf("seed %d: withdrawn: %t, %t", seed, a, b)
				}
				continue
			default:
				l = lineAt(t, second, "DELETED", stream, "")
			}
			for _, to := range []*follow.Printer{printer, queue} {
				show := to.Print
				if hold {
					show = to.Hold
				}
				if err := show(l); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, to := range []*follow.Printer{printer, queue} {
			if err := to.End(); err != nil {
				t.Fatal(err)
			}
		}
		if err := table.End(); err != nil {
			t.Fatal(err)
		}
		shown := strings.NewReplacer("  eu       ", "  ", `,"cluster":"eu"`, "").Replace(got.String())
		if shown != want.String() {
			t.Fatalf("seed %d:\n%s\nwant:\n%s", seed, shown, want.String())
		}
	}
}

// A GAP that never ends does not hold back a whole history.
func TestQueueBound(t *testing.T) {
	shown := 0
	q := follow.NewQueue(follow.Style{}, func(*follow.Row) error { shown++; return nil })
	if err := q.Hold(lineAt(t, 0, "GAP", "pods", "")); err != nil {
		t.Fatal(err)
	}
	l := lineAt(t, 1, "ADDED", "nodes", "")
	for range 1000 {
		if err := q.Print(l); err != nil {
			t.Fatal(err)
		}
	}
	if shown == 0 {
		t.Error("nothing is shown")
	}
	q = follow.NewQueue(follow.Style{}, func(*follow.Row) error { shown = 0; return errStopped })
	for range 2 {
		if err := q.Print(l); !errors.Is(err, errStopped) {
			t.Errorf("%v", err)
		}
		if shown++; shown > 2 {
			t.Error("there are rows after the error")
		}
	}
}

// TestInOrder merges rows by time, and leaves what belongs to a row behind it.
func TestInOrder(t *testing.T) {
	at := func(second int, text string) *follow.Row {
		if second < 0 {
			return &follow.Row{Text: text}
		}
		return &follow.Row{At: time.Unix(int64(second), 0), Text: text, Remark: true}
	}
	of := func(fault error, all ...*follow.Row) iter.Seq2[*follow.Row, error] {
		return func(yield func(*follow.Row, error) bool) {
			for _, r := range all {
				if !yield(r, nil) {
					return
				}
			}
			if fault != nil {
				yield(nil, fault)
			}
		}
	}
	merge := func(fault error) (string, error) {
		var got []string
		err := inOrder([]iter.Seq2[*follow.Row, error]{
			of(nil, at(1, "a1"), at(5, "a5"), at(5, "a5 too"), at(4, "a4, the clock was set back")),
			of(fault, at(1, "b1"), at(-1, "text of b1"), at(1, "remark on b1"), at(5, "b5"), at(6, "b6")),
			of(nil),
			of(nil, at(1, "c1"), at(2, "c2"), at(5, "c5"), at(5, "remark on c5")),
		}, func(n int, r *follow.Row) error {
			got = append(got, fmt.Sprint(n, " ", r.Text))
			return nil
		})
		return strings.Join(got, "; "), err
	}
	const want = "0 a1; 1 b1; 1 text of b1; 1 remark on b1; 3 c1; 3 c2; 3 c5; 3 remark on c5; 0 a5; 0 a5 too; 0 a4, the clock was set back; 1 b5; 1 b6"
	if got, err := merge(nil); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	fault := errors.New("torn")
	if _, err := merge(fault); !errors.Is(err, fault) {
		t.Errorf("%v", err)
	}
}

// TestWithCluster gives lines the name under which their cluster is asked.
func TestWithCluster(t *testing.T) {
	for raw, want := range map[string]string{
		`{"seq":1,"stream":"pods","version":"v1"}`:                                     `{"seq":1,"stream":"pods","cluster":"a\"b","version":"v1"}`,
		`{"seq":1,"stream":"pods","cluster":"old","object":{}}`:                        `{"seq":1,"stream":"pods","cluster":"a\"b","object":{}}`,
		`{"stream": "pods", "object": {"cluster":"of a user"} }`:                       `{"stream": "pods","cluster":"a\"b", "object": {"cluster":"of a user"} }`,
		`{"cluster":"","stream":"pods","object":{"stream":"x","cluster":"of a user"}}`: `{"cluster":"a\"b","stream":"pods","object":{"stream":"x","cluster":"of a user"}}`,
	} {
		if got := string(withCluster([]byte(raw), `a"b`)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestClusterColumn shows it on terminals of all widths, in colour, and for times of other days.
func TestClusterColumn(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	for name, tt := range map[string]struct {
		style   follow.Style
		width   int
		cluster string
		want    string
	}{
		"a pipe": {follow.Style{}, 0, "eu", "2026-11-20 UTC\n" +
			"14:00:01.000  eu       DELETED   pods      o1                -\n" +
			"14:00:00*     eu       DELETED   pods      o5                -\n" +
			"11-18 14:00*  eu       DELETED   pods      o6                -\n" +
			"-- eu: remark\n"},
		"narrow": {follow.Style{}, 70, "a-cluster-with-a-name-that-is-too-long", "" +
			"TIME      CLUSTER                   TYPE  OBJECT     WHO    WHAT\n" +
			"2026-11-20 UTC\n" +
			"14:00:01  a-cluster-wi…is-too-long  DEL   pods o1    -\n" +
			"14:00:00* a-cluster-wi…is-too-long  DEL   pods o5    -\n" +
			"11-18*    a-cluster-wi…is-too-long  DEL   pods o6    -\n" +
			"-- a-cluster-with-a-name-that-is-too-long: remark\n"},
		"colour": {follow.Style{Colour: true}, 160, "e\x1bu", "" +
			"\x1b[2mTIME          CLUSTER  TYPE      RESOURCE  OBJECT            WHO         WHAT\x1b[0m\n" +
			"\x1b[2m2026-11-20 UTC\x1b[0m\n" +
			"14:00:01.000  e\\x1bu   \x1b[31mDELETED\x1b[0m   pods      o1                -\n" +
			"14:00:00*     e\\x1bu   \x1b[31mDELETED\x1b[0m   pods      o5                -\n" +
			"11-18 14:00*  e\\x1bu   \x1b[31mDELETED\x1b[0m   pods      o6                -\n" +
			"\x1b[2m-- e\\x1bu: remark\x1b[0m\n"},
	} {
		var b bytes.Buffer
		if tt.style.Width = nil; tt.width > 0 {
			tt.style.Width = func() int { return tt.width }
		}
		tt.style.Clusters = []string{tt.cluster}
		table := follow.NewPrinter(&b, tt.style)
		for _, l := range []*line.Fields{
			lineAt(t, 1, "DELETED", "pods", ""), lineAt(t, 5, "DELETED", "pods", `,"writtenAt":"2026-11-20T14:00:00Z"`),
			lineAt(t, 6, "DELETED", "pods", `,"writtenAt":"2026-11-18T14:00:00Z"`),
		} {
			if err := showOf(table, tt.cluster, &follow.Row{At: l.Time, Line: l}, false); err != nil {
				t.Fatal(err)
			}
		}
		remark := &follow.Row{At: time.Date(2026, 11, 20, 14, 0, 7, 0, time.UTC), Text: "remark", Remark: true}
		if err := showOf(table, tt.cluster, remark, false); err != nil {
			t.Fatal(err)
		}
		if err := table.End(); err != nil {
			t.Fatal(err)
		}
		if b.String() != tt.want {
			t.Errorf("%s:\n%s\n%q", name, b.String(), b.String())
		}
	}
}
