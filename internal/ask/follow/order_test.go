package follow

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
)

func timed(stream string, seq, term, second int, name string) string {
	resource, _, _ := strings.Cut(stream, "?")
	return fmt.Sprintf(`{"seq":%d,"term":%d,"time":"2026-11-20T14:00:%02dZ","type":"ADDED","stream":"%s","origin":"watch",`+
		`"id":"%s/%d/ADDED","resource":"%s","name":"%[5]s","uid":"%[5]s","resourceVersion":"7"}`+"\n",
		seq, term, second, stream, name, 100*term+seq, resource)
}

func permutations(of []string) (all [][]string) {
	if len(of) < 2 {
		return [][]string{of}
	}
	for n := range of {
		for _, rest := range permutations(slices.Delete(slices.Clone(of), n, n+1)) {
			all = append(all, append([]string{of[n]}, rest...))
		}
	}
	return all
}

var nameMember = regexp.MustCompile(`"name":"(\w+)"`)

func namesIn(text string) string {
	var names []string
	for _, m := range nameMember.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return strings.Join(names, " ")
}

// The order of several journals' lines is that of history, whatever the order in which they are named: by term where
// they have a stream in common, wherever that is, and else by time.
func TestOrderOfFiles(t *testing.T) {
	const s0, s1 = "pods?shard=0-of-2", "pods?shard=1-of-2"
	for _, tt := range []struct {
		name     string
		journals []string
		want     string
	}{
		{"replicas and a shard, a clock behind", []string{
			timed(s0, 1, 1, 10, "a1") + timed(s0, 2, 1, 11, "a2"),
			timed(s1, 1, 1, 5, "b1") + timed(s1, 2, 1, 12, "b2"),
			timed(s0, 1, 2, 1, "c1") + timed(s0, 2, 2, 13, "c2"),
		}, "b1 a1 a2 c1 b2 c2"},
		{"shards at the same times and versions", []string{
			timed(s1, 1, 1, 10, "a1") + timed(s1, 2, 1, 11, "a2"),
			timed(s0, 1, 1, 10, "b1") + timed(s0, 2, 1, 11, "b2"),
			timed("nodes", 1, 1, 10, "c1"),
		}, "c1 b1 a1 b2 a2"},
		{"replicas that begin with different streams", []string{
			timed("nodes", 1, 1, 10, "a1") + timed("pods", 2, 1, 11, "a2"),
			timed("pods", 1, 2, 5, "b1") + timed("nodes", 2, 2, 12, "b2"),
		}, "a1 a2 b1 b2"},
		{"daemons of different resources, without leader election", []string{
			timed("nodes", 7, 0, 10, "a1") + timed("nodes", 8, 0, 12, "a2"),
			timed("pods", 1, 0, 9, "b1") + timed("pods", 2, 0, 11, "b2"),
		}, "b1 a1 b2 a2"},
		{"replicas by way of a third", []string{
			timed("nodes", 1, 1, 20, "a1") + timed("nodes", 2, 1, 21, "a2"),
			timed("pods", 1, 2, 10, "b1") + timed("pods", 2, 2, 22, "b2"),
			timed("nodes", 1, 3, 5, "c1") + timed("pods", 2, 3, 6, "c2"),
		}, "a1 a2 b1 b2 c1 c2"},
	} {
		dir := t.TempDir()
		var paths []string
		for n, text := range tt.journals {
			paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.jsonl", n)))
			write(t, paths[n], text)
		}
		for _, paths := range permutations(paths) {
			s := newSink()
			if err := Files(context.Background(), paths, Options{Lines: All}, NewPrinter(s, Style{JSON: true})); err != nil {
				t.Fatal(err)
			}
			text, _ := s.state()
			if got := namesIn(text); got != tt.want {
				t.Errorf("%s, tail: %s, want %s", tt.name, got, tt.want)
			}
			opened, err := archive.OpenAll(context.Background(), paths, &argument.Selection{}, archive.AllLines, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			j := question.Of(opened)
			var got []string
			for v, err := range j.History(context.Background(), &argument.Selection{}, argument.Moment{}, argument.Moment{}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(v.Text(line.FieldName)))
			}
			j.Close()
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("%s, history: %s, want %s", tt.name, got, tt.want)
			}
		}
	}
}

// An event that came again after a restore is remembered from then on, by whatever id another replica gives it, and
// one that is forgotten is so once.
func TestRemembers(t *testing.T) {
	s := newSink()
	of := newSeveral(&Options{Lines: All}, NewPrinter(s, Style{JSON: true}))
	take := func(l string) {
		if err := of.take([]byte(l)); err != nil {
			t.Fatal(err)
		}
	}
	take(put(1, 1, "x", "7"))
	take(restoredGap("PositionAheadOfServer"))
	take(put(3, 1, "x", "7"))
	for n := range remembered - 1 { // the place of the first x is taken, not that of the second
		take(put(3, 1, fmt.Sprint("y", n), "8"))
	}
	take(put(4, 2, "x", "7"))
	take(strings.Replace(put(5, 2, "x", "7"), `"id":"x/`, `"id":"x/pods/`, 1)) // of one with other entries
	if strings.Count(textOf(s, of.p), `"name":"x"`) != 2 {
		t.Error("a repeat is shown")
	}
	if len(of.events) > remembered || len(of.recent) > remembered {
		t.Errorf("remembers %d events at %d places", len(of.events), len(of.recent))
	}
	take(put(9, 2, "z", "8"))
	take(put(10, 2, "z2", "8"))
	if _, is := of.events["pods x/7/ADDED"]; is {
		t.Error("the oldest event is remembered")
	}
}

func restoredGap(reason string) string {
	return fmt.Sprintf(`{"seq":2,"term":1,"time":"2026-11-20T14:00:00Z","type":"GAP","stream":"pods",`+
		`"id":"pods/6/GAP","reason":"%s","resourceVersion":"6"}`+"\n", reason)
}

func textOf(s *sink, p *Printer) string {
	_ = p.Flush()
	text, _ := s.state()
	return text
}
