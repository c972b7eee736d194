package merge_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/merge"
	"kubejournal/internal/format/line"
)

// source is a journal of the lines of a text.
func source(name, text string) merge.Source {
	return merge.Source{Name: name, Lines: func(context.Context) iter.Seq2[merge.Line, error] {
		return func(yield func(merge.Line, error) bool) {
			var l line.Fields
			next := uint64(1)
			for raw := range strings.Lines(text) {
				err := l.Parse([]byte(raw))
				if !yield(merge.Line{Fields: &l, Missing: l.Seq - next}, err) || err != nil {
					return
				}
				next = l.Seq + 1
			}
		}
	}}
}

// output keeps the merged lines.
type output struct {
	lines    []string
	late     []string
	relisted []string
	seq      uint64
	parsed   line.Fields
}

func (o *output) Hole(source string, count, seq uint64) error {
	o.seq += count
	o.lines = append(o.lines, fmt.Sprintf("-- %d lines of %s before %d", count, source, seq))
	return nil
}

func (o *output) Relisted(stream string, from, to time.Time) {
	o.relisted = append(o.relisted, fmt.Sprintf("%s %s to %s", stream, from.UTC().Format(time.TimeOnly), to.UTC().Format(time.TimeOnly)))
}

func (o *output) Late(stream string, told, later time.Time) {
	o.late = append(o.late, fmt.Sprint(stream, " ", later.Sub(told)))
}

func (o *output) Next() uint64 { return o.seq + 1 }

func (o *output) Write(l []byte) (int64, error) {
	o.seq++
	o.lines = append(o.lines, string(l))
	return int64(len(o.lines) - 1), nil
}

func (o *output) Read(at int64) (*line.Fields, error) {
	return &o.parsed, o.parsed.Parse([]byte(o.lines[at]))
}

// at begins a line; the time is by seq alone, so that the order of terms is another one.
func at(seq, term int, typ string) string {
	return fmt.Sprintf(`{"seq":%d,"term":%d,"time":"2026-11-20T14:00:%02dZ","type":"%s"`, seq, term, seq, typ)
}

func about(seq, term int, typ, origin, name, version string) string {
	more := `"manager":"kubelet"`
	if typ == "DELETED" && origin == "relist" {
		more = `"finalStateKnown":false`
	}
	return at(seq, term, typ) + fmt.Sprintf(`,"origin":"%[1]s","id":"u-%[2]s/%[3]s/%[4]s","stream":"pods","name":"%[2]s","uid":"u-%[2]s","resourceVersion":"%[3]s",%[5]s,"object":{"a":"%[2]s"}}`+"\n",
		origin, name, version, typ, more)
}

func synced(seq, term int, version string, added, modified, deleted int) string {
	return at(seq, term, "SYNCED") + fmt.Sprintf(`,"id":"pods/%[1]s/SYNCED","stream":"pods","clusterUID":"c","resourceVersion":"%[1]s","count":{"added":%d,"modified":%d,"deleted":%d,"unchanged":0}}`+"\n",
		version, added, modified, deleted)
}

func gap(seq, term int, from, version string) string {
	return at(seq, term, "GAP") + fmt.Sprintf(`,"id":"pods/%[2]s/GAP","stream":"pods","reason":"Expired","fromResourceVersion":"%[1]s","resourceVersion":"%[2]s"}`+"\n", from, version)
}

func TestMerge(t *testing.T) {
	first := about(1, 1, "ADDED", "snapshot", "a", "3") + synced(2, 1, "5", 1, 0, 0)
	for _, tt := range []struct{ name, a, b, want string }{
		{
			"repeats behind a takeover",
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "MODIFIED", "watch", "a", "8") + about(5, 3, "MODIFIED", "watch", "a", "10"),
			about(1, 2, "ADDED", "watch", "b", "7") + about(2, 2, "MODIFIED", "watch", "a", "8") + about(3, 2, "MODIFIED", "watch", "a", "9"),
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "MODIFIED", "watch", "a", "8") +
				numbered(5, about(3, 2, "MODIFIED", "watch", "a", "9")) + numbered(6, about(5, 3, "MODIFIED", "watch", "a", "10")),
		},
		{
			"repeats by a replica with other entries",
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "MODIFIED", "watch", "a", "8"),
			shared(about(1, 2, "ADDED", "watch", "b", "7") + about(2, 2, "MODIFIED", "watch", "a", "8") +
				about(3, 2, "MODIFIED", "watch", "a", "9")),
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "MODIFIED", "watch", "a", "8") +
				numbered(5, shared(about(3, 2, "MODIFIED", "watch", "a", "9"))),
		},
		{
			"a first list that was not finished",
			about(1, 1, "ADDED", "snapshot", "a", "3") + about(2, 1, "ADDED", "snapshot", "b", "4"),
			about(1, 2, "ADDED", "snapshot", "a", "3") + synced(2, 2, "9", 1, 0, 0),
			about(1, 2, "ADDED", "snapshot", "a", "3") + synced(2, 2, "9", 1, 0, 0),
		},
		{
			"a list behind which nothing was published",
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0),
			about(1, 2, "MODIFIED", "watch", "a", "12") + about(2, 2, "MODIFIED", "watch", "a", "15"),
			first + numbered(3, about(1, 2, "MODIFIED", "watch", "a", "12")) + numbered(4, about(2, 2, "MODIFIED", "watch", "a", "15")),
		},
		{
			"a list from which its replica goes on",
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0) + about(6, 3, "MODIFIED", "watch", "a", "22"),
			about(1, 2, "MODIFIED", "watch", "a", "12"),
			first + numbered(3, about(1, 2, "MODIFIED", "watch", "a", "12")) + numbered(4, gap(3, 1, "12", "20")) +
				numbered(5, about(4, 1, "MODIFIED", "relist", "a", "15")) + numbered(6, synced(5, 1, "20", 0, 1, 0)) +
				numbered(7, about(6, 3, "MODIFIED", "watch", "a", "22")),
		},
		{
			"a list to whose end another one came",
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0) + about(6, 3, "MODIFIED", "watch", "a", "22"),
			about(1, 2, "MODIFIED", "watch", "a", "12") + about(2, 2, "MODIFIED", "watch", "a", "15") + about(3, 2, "MODIFIED", "watch", "a", "21"),
			first + numbered(3, about(1, 2, "MODIFIED", "watch", "a", "12")) + numbered(4, about(2, 2, "MODIFIED", "watch", "a", "15")) +
				numbered(5, about(3, 2, "MODIFIED", "watch", "a", "21")) + numbered(6, about(6, 3, "MODIFIED", "watch", "a", "22")),
		},
		{
			"a list by who had not followed to the end",
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "ADDED", "watch", "c", "8") + about(5, 1, "MODIFIED", "watch", "a", "9"),
			gap(1, 2, "6", "30") + about(2, 2, "ADDED", "relist", "c", "25") + about(3, 2, "MODIFIED", "relist", "a", "9") + synced(4, 2, "30", 1, 1, 0),
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "ADDED", "watch", "c", "8") + about(5, 1, "MODIFIED", "watch", "a", "9") +
				numbered(6, gap(1, 2, "9", "30")) +
				numbered(7, strings.Replace(about(2, 2, "ADDED", "relist", "c", "25"), `"type":"ADDED"`, `"type":"MODIFIED"`, 1)) +
				`{"seq":8,"term":2,"time":"2026-11-20T14:00:04Z","type":"DELETED","origin":"relist","id":"u-b/7/DELETED","stream":"pods","name":"b","uid":"u-b","resourceVersion":"7","finalStateKnown":false,"object":{"a":"b"}}` + "\n" +
				numbered(9, synced(4, 2, "30", 0, 1, 1)),
		},
		{
			"a first list behind a journal without terms",
			plain(first) + plain(about(3, 1, "ADDED", "watch", "b", "7")),
			about(1, 1, "ADDED", "snapshot", "a", "3") + about(2, 1, "ADDED", "snapshot", "b", "7") + synced(3, 1, "8", 2, 0, 0),
			plain(first) + plain(about(3, 1, "ADDED", "watch", "b", "7")) +
				numbered(4, about(1, 1, "ADDED", "snapshot", "a", "3")) + numbered(5, about(2, 1, "ADDED", "snapshot", "b", "7")) + numbered(6, synced(3, 1, "8", 2, 0, 0)),
		},
		{
			"a server that was put back",
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "MODIFIED", "watch", "a", "8"),
			because("PositionAheadOfServer", gap(1, 2, "", "6")) + about(2, 2, "ADDED", "relist", "a", "3") + synced(3, 2, "6", 1, 0, 0) + about(4, 2, "ADDED", "watch", "b", "7"),
			first + about(3, 1, "ADDED", "watch", "b", "7") + about(4, 1, "MODIFIED", "watch", "a", "8") +
				numbered(5, because("PositionAheadOfServer", gap(1, 2, "8", "6"))) +
				numbered(6, strings.Replace(about(2, 2, "ADDED", "relist", "a", "3"), `"type":"ADDED"`, `"type":"MODIFIED"`, 1)) +
				`{"seq":7,"term":2,"time":"2026-11-20T14:00:03Z","type":"DELETED","origin":"relist","id":"u-b/7/DELETED","stream":"pods","name":"b","uid":"u-b","resourceVersion":"7","finalStateKnown":false,"object":{"a":"b"}}` + "\n" +
				numbered(8, synced(3, 2, "6", 0, 1, 1)) + numbered(9, about(4, 2, "ADDED", "watch", "b", "7")),
		},
		{
			"a GAP behind a server that was put back",
			first + about(3, 1, "ADDED", "watch", "b", "40"),
			because("PositionAheadOfServer", gap(1, 2, "40", "6")) + about(2, 2, "MODIFIED", "relist", "a", "3") + about(3, 2, "DELETED", "relist", "b", "40") +
				synced(4, 2, "6", 0, 1, 1) + gap(5, 2, "6", "20") + synced(6, 2, "20", 0, 0, 0),
			first + about(3, 1, "ADDED", "watch", "b", "40") +
				numbered(4, because("PositionAheadOfServer", gap(1, 2, "40", "6"))) + numbered(5, about(2, 2, "MODIFIED", "relist", "a", "3")) +
				numbered(6, about(3, 2, "DELETED", "relist", "b", "40")) + numbered(7, synced(4, 2, "6", 0, 1, 1)) +
				numbered(8, gap(5, 2, "6", "20")) + numbered(9, synced(6, 2, "20", 0, 0, 0)),
		},
		{
			"what is deleted at the version that it had before the server was put back",
			first + about(3, 1, "ADDED", "watch", "b", "40"),
			because("PositionAheadOfServer", gap(1, 2, "40", "6")) + about(2, 2, "MODIFIED", "relist", "a", "3") + about(3, 2, "DELETED", "relist", "b", "40") +
				synced(4, 2, "6", 0, 1, 1) + about(5, 2, "ADDED", "watch", "b", "17") + about(6, 3, "DELETED", "watch", "b", "40"),
			first + about(3, 1, "ADDED", "watch", "b", "40") +
				numbered(4, because("PositionAheadOfServer", gap(1, 2, "40", "6"))) + numbered(5, about(2, 2, "MODIFIED", "relist", "a", "3")) +
				numbered(6, about(3, 2, "DELETED", "relist", "b", "40")) + numbered(7, synced(4, 2, "6", 0, 1, 1)) +
				numbered(8, about(5, 2, "ADDED", "watch", "b", "17")) + numbered(9, about(6, 3, "DELETED", "watch", "b", "40")),
		},
		{
			"a list before a server that was put back",
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0),
			because("PositionAheadOfServer", gap(1, 2, "", "6")) + about(2, 2, "MODIFIED", "relist", "a", "3") + synced(3, 2, "6", 0, 1, 0) +
				about(4, 2, "MODIFIED", "watch", "a", "9") + about(5, 3, "MODIFIED", "watch", "a", "10"),
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0) +
				numbered(6, because("PositionAheadOfServer", gap(1, 2, "20", "6"))) + numbered(7, about(2, 2, "MODIFIED", "relist", "a", "3")) +
				numbered(8, synced(3, 2, "6", 0, 1, 0)) + numbered(9, about(4, 2, "MODIFIED", "watch", "a", "9")) +
				numbered(10, about(5, 3, "MODIFIED", "watch", "a", "10")),
		},
		{
			"a list before one that showed within it that the server was put back",
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0),
			gap(1, 2, "20", "25") + because("PositionAheadOfServer", gap(2, 2, "25", "6")) + about(3, 2, "MODIFIED", "relist", "a", "3") +
				synced(4, 2, "6", 0, 1, 0) + about(5, 3, "MODIFIED", "watch", "a", "9"),
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0) + numbered(6, gap(1, 2, "20", "25")) +
				numbered(7, because("PositionAheadOfServer", gap(2, 2, "25", "6"))) + numbered(8, about(3, 2, "MODIFIED", "relist", "a", "3")) +
				numbered(9, synced(4, 2, "6", 0, 1, 0)) + numbered(10, about(5, 3, "MODIFIED", "watch", "a", "9")),
		},
		{
			"a list without what another one has changed",
			first + gap(3, 3, "5", "30") + about(4, 3, "DELETED", "relist", "a", "3") + synced(5, 3, "30", 0, 0, 1),
			about(1, 2, "MODIFIED", "watch", "a", "8"),
			first + numbered(3, about(1, 2, "MODIFIED", "watch", "a", "8")) + numbered(4, gap(3, 3, "8", "30")) +
				numbered(5, strings.ReplaceAll(strings.ReplaceAll(about(4, 3, "DELETED", "relist", "a", "3"), "u-a/3/", "u-a/8/"), `"resourceVersion":"3"`, `"resourceVersion":"8"`)) +
				numbered(6, synced(5, 3, "30", 0, 0, 1)),
		},
		{
			"a list before one of another server that was not finished",
			first + gap(3, 1, "5", "20") + about(4, 1, "MODIFIED", "relist", "a", "15") + synced(5, 1, "20", 0, 1, 0),
			because("PositionRefused", gap(1, 2, "5", "9")) + about(2, 3, "MODIFIED", "watch", "a", "12") + about(3, 3, "MODIFIED", "watch", "a", "15"),
			first + numbered(3, about(2, 3, "MODIFIED", "watch", "a", "12")) + numbered(4, about(3, 3, "MODIFIED", "watch", "a", "15")),
		},
		{
			"what was deleted before a server was put back",
			first + about(3, 1, "DELETED", "watch", "a", "7"),
			because("PositionAheadOfServer", gap(1, 2, "", "6")) + about(2, 2, "MODIFIED", "relist", "a", "12") + synced(3, 2, "12", 0, 1, 0),
			first + about(3, 1, "DELETED", "watch", "a", "7") + numbered(4, because("PositionAheadOfServer", gap(1, 2, "7", "6"))) +
				numbered(5, strings.Replace(about(2, 2, "MODIFIED", "relist", "a", "12"), `"type":"MODIFIED"`, `"type":"ADDED"`, 1)) + numbered(6, synced(3, 2, "12", 1, 0, 0)),
		},
		{
			"a list of what had left the selection",
			selected(first + about(3, 1, "DELETED", "watch", "a", "7")),
			selected(gap(1, 2, "5", "30") + about(2, 2, "MODIFIED", "relist", "a", "25") + synced(3, 2, "30", 0, 1, 0)),
			selected(first + about(3, 1, "DELETED", "watch", "a", "7") + numbered(4, gap(1, 2, "7", "30")) +
				numbered(5, strings.Replace(about(2, 2, "MODIFIED", "relist", "a", "25"), `"type":"MODIFIED"`, `"type":"ADDED"`, 1)) + numbered(6, synced(3, 2, "30", 1, 0, 0))),
		},
		{
			"a list about what the merged journal does not have any more",
			about(9, 1, "ADDED", "watch", "a", "3"),
			gap(4, 2, "6", "30") + about(5, 2, "MODIFIED", "relist", "b", "25") + about(6, 2, "DELETED", "relist", "c", "4") + synced(7, 2, "30", 0, 1, 1),
			"-- 8 lines of a before 9\n" + about(9, 1, "ADDED", "watch", "a", "3") + "-- 3 lines of b before 4\n" +
				numbered(13, gap(4, 2, "6", "30")) + numbered(14, about(5, 2, "MODIFIED", "relist", "b", "25")) + numbered(15, about(6, 2, "DELETED", "relist", "c", "4")) +
				numbered(16, synced(7, 2, "30", 0, 1, 1)),
		},
		{
			"a list about what another one had that is left out",
			first + gap(3, 1, "5", "20") + about(4, 1, "ADDED", "relist", "b", "15") + about(5, 1, "ADDED", "relist", "c", "16"),
			gap(1, 2, "5", "8") + synced(2, 2, "9", 0, 0, 0) + gap(3, 2, "9", "30") + about(4, 2, "MODIFIED", "relist", "b", "25") + about(5, 2, "DELETED", "relist", "c", "16") + synced(6, 2, "30", 0, 1, 1),
			first + numbered(3, gap(1, 2, "5", "8")) + numbered(4, synced(2, 2, "9", 0, 0, 0)) + numbered(5, gap(3, 2, "9", "30")) +
				numbered(6, strings.Replace(about(4, 2, "MODIFIED", "relist", "b", "25"), `"type":"MODIFIED"`, `"type":"ADDED"`, 1)) + numbered(7, synced(6, 2, "30", 1, 0, 0)),
		},
		{
			"a GAP within another one",
			first + about(3, 1, "ADDED", "watch", "b", "7"),
			gap(1, 2, "6", "30") + gap(2, 2, "8", "31") + synced(3, 2, "31", 0, 0, 0),
			first + about(3, 1, "ADDED", "watch", "b", "7") + numbered(4, gap(1, 2, "7", "30")) + numbered(5, gap(2, 2, "30", "31")) +
				`{"seq":6,"term":2,"time":"2026-11-20T14:00:03Z","type":"DELETED","origin":"relist","id":"u-b/7/DELETED","stream":"pods","name":"b","uid":"u-b","resourceVersion":"7","finalStateKnown":false,"object":{"a":"b"}}` + "\n" +
				numbered(7, synced(3, 2, "31", 0, 0, 1)),
		},
		{
			"a GAP of unknown beginning",
			first,
			because("JournalTruncated", gap(1, 2, "", "30")) + about(2, 2, "ADDED", "relist", "a", "3") + synced(3, 2, "30", 1, 0, 0),
			first + numbered(3, because("JournalTruncated", gap(1, 2, "", "30"))) + numbered(4, synced(3, 2, "30", 0, 0, 0)),
		},
		{
			"a list that holds back",
			held(first + about(3, 1, "ADDED", "watch", "b", "7")),
			held(gap(1, 2, "6", "30") + synced(2, 2, "30", 0, 0, 0)),
			held(first + about(3, 1, "ADDED", "watch", "b", "7") + numbered(4, gap(1, 2, "7", "30")) + numbered(5, synced(2, 2, "30", 0, 0, 0))),
		},
		{
			"shards, by time",
			shard(0, about(1, 4, "ADDED", "watch", "a", "3")) + later(shard(0, about(2, 4, "ADDED", "watch", "c", "5"))),
			shard(1, about(1, 1, "ADDED", "watch", "b", "4")),
			shard(0, about(1, 4, "ADDED", "watch", "a", "3")) + numbered(2, shard(1, about(1, 1, "ADDED", "watch", "b", "4"))) +
				numbered(3, later(shard(0, about(2, 4, "ADDED", "watch", "c", "5")))),
		},
		{
			"lines that are gone",
			about(7, 1, "ADDED", "watch", "a", "3") + about(10, 3, "ADDED", "watch", "c", "5"),
			about(1, 2, "ADDED", "watch", "b", "4"),
			"-- 6 lines of a before 7\n" + about(7, 1, "ADDED", "watch", "a", "3") + numbered(8, about(1, 2, "ADDED", "watch", "b", "4")) +
				"-- 2 lines of a before 10\n" + numbered(11, about(10, 3, "ADDED", "watch", "c", "5")),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for form, of := range forms {
				a, b, want := source("a", of(tt.a)), source("b", of(tt.b)), of(tt.want)
				for _, sources := range [][]merge.Source{{a, b}, {b, a}} {
					p, err := merge.Scan(t.Context(), sources, heldBack)
					if err != nil {
						t.Fatal(err)
					}
					var out output
					if err := p.Merge(t.Context(), &out); err != nil {
						t.Fatal(err)
					}
					if got := strings.Join(out.lines, "\n") + "\n"; got != want {
						t.Errorf("%s: got\n%swant\n%s", form, got, want)
					}
				}
			}
		})
	}
}

// forms make of lines those of streams that have the same objects as others, and of objects without a uid.
var forms = map[string]func(lines string) string{
	"uids":            func(lines string) string { return lines },
	"ids of a stream": func(lines string) string { return objectID.ReplaceAllString(lines, "${0}pods?namespace=shop/") },
	"no uids": func(lines string) string {
		return uidMember.ReplaceAllString(strings.ReplaceAll(lines, `"id":"u-`, `"id":"pods/`), "")
	},
}

var (
	objectID  = regexp.MustCompile(`"id":"u-[^/]*/`)
	uidMember = regexp.MustCompile(`"uid":"[^"]*",`)
)

// shared is lines of a stream that shares its objects with another one of the replica.
func shared(lines string) string { return objectID.ReplaceAllString(lines, "${0}pods/") }

// shard is a line of a shard's stream, and later one of a minute later.
func shard(index int, l string) string {
	return strings.Replace(l, `"pods"`, fmt.Sprintf(`"pods?shard=%d-of-2"`, index), 1)
}

// plain is lines without a term, because a GAP with another reason, and held lines of the stream that holds back.
func plain(l string) string           { return strings.ReplaceAll(l, `"term":1,`, "") }
func because(reason, l string) string { return strings.Replace(l, "Expired", reason, 1) }
func selected(l string) string        { return strings.ReplaceAll(l, `"pods"`, `"pods?labelSelector=a%3Db"`) }
func held(l string) string            { return strings.ReplaceAll(l, `"pods"`, `"held"`) }

func later(l string) string { return strings.Replace(l, "T14:00", "T14:01", 1) }

// numbered is a line with another seq.
func numbered(seq int, l string) string {
	_, rest, _ := strings.Cut(l, ",")
	return fmt.Sprintf(`{"seq":%d,%s`, seq, rest)
}

func TestScan(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name    string
		sources []merge.Source
		want    string
	}{
		{
			"of two clusters", []merge.Source{source("a", synced(1, 1, "5", 0, 0, 0)), source("b", strings.Replace(synced(1, 2, "5", 0, 0, 0), `"c"`, `"d"`, 1))},
			"a and b are journals of different clusters; query one at a time",
		},
		{
			"a copy", []merge.Source{source("a", synced(1, 1, "5", 0, 0, 0)), source("b", synced(1, 1, "5", 0, 0, 0))},
			"a and b both have lines of stream pods in term 1: they are not journals of replicas with one Lease; query one at a time",
		},
		{
			"without leader election", []merge.Source{source("a", strings.Replace(synced(1, 1, "5", 0, 0, 0), `"term":1,`, "", 1)), source("b", strings.Replace(synced(1, 1, "6", 0, 0, 0), `"term":1,`, "", 1))},
			"a and b both have lines of stream pods without a term: they are not journals of replicas with one Lease; query one at a time",
		},
		{
			"not readable", []merge.Source{{Name: "a", Lines: func(context.Context) iter.Seq2[merge.Line, error] {
				return func(yield func(merge.Line, error) bool) { yield(merge.Line{}, broken) }
			}}}, "broken",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := merge.Scan(t.Context(), tt.sources, heldBack); err == nil || err.Error() != tt.want {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// nodes makes a line of pods one of nodes.
func nodes(l string) string { return strings.ReplaceAll(l, `"pods"`, `"nodes"`) }

// Who was opened before the replica that writes now may have had more to say by then.
func TestEarly(t *testing.T) {
	old, leader, other := source("old", synced(1, 1, "5", 0, 0, 0)), source("leader", synced(1, 2, "6", 0, 0, 0)),
		source("other", nodes(synced(1, 9, "7", 0, 0, 0)))
	otherOld := source("otherOld", nodes(synced(1, 8, "6", 0, 0, 0)))
	for _, tt := range []struct {
		sources []merge.Source
		want    string
	}{
		{[]merge.Source{old, leader, other}, "[0]"}, {[]merge.Source{other, old, leader}, "[1]"}, {[]merge.Source{leader, other, old}, "[]"},
		{[]merge.Source{otherOld, old, leader, other}, "[0 1]"}, {[]merge.Source{old, otherOld, other, leader}, "[0 1]"},
	} {
		p, err := merge.Scan(t.Context(), tt.sources, heldBack)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.Early()); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// Replicas' lines are in the order of terms, though one of them has written nothing about the streams of another.
func TestStreams(t *testing.T) {
	a := source("a", nodes(about(7, 1, "ADDED", "watch", "a", "3")))
	b := source("b", about(1, 2, "ADDED", "watch", "b", "4"))
	for want, streams := range map[string][]string{"a b": {"pods", "nodes"}, "b a": nil} {
		b.Streams = streams
		for _, sources := range [][]merge.Source{{a, b}, {b, a}} {
			p, err := merge.Scan(t.Context(), sources, heldBack)
			if err != nil {
				t.Fatal(err)
			}
			var out output
			if err := p.Merge(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, text := range out.lines {
				if _, name, is := strings.Cut(text, `"name":"`); is {
					got = append(got, name[:1])
				}
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}

// However lists and terms follow each other, an object's versions come in order, each once, and what is left out is told again.
func TestListsOfSeveralTerms(t *testing.T) {
	first := about(1, 1, "ADDED", "snapshot", "a", "3") + synced(2, 1, "5", 1, 0, 0)
	changed := func(seq, term int, origin, version string) string {
		return about(seq, term, "MODIFIED", origin, "a", version)
	}
	listed := first + gap(3, 1, "5", "20") + changed(4, 1, "relist", "15") + synced(5, 1, "20", 0, 1, 0)
	watched := func(term int, versions ...string) (l string) {
		for n, version := range versions {
			l += changed(n+1, term, "watch", version)
		}
		return l
	}
	for _, tt := range []struct {
		name     string
		journals []string
		want     string
	}{
		{
			"a list and an unfinished one",
			[]string{listed + gap(6, 1, "20", "30") + changed(7, 1, "relist", "25"), watched(2, "12", "15", "22", "25")},
			"3 SYNCED 12 15 22 25",
		},
		{
			"the unfinished one in a term of its own",
			[]string{listed + gap(6, 2, "20", "30") + changed(7, 2, "relist", "25"), watched(3, "12", "15", "22", "25")},
			"3 SYNCED 12 15 22 25",
		},
		{
			"a list of what the next one has deleted",
			[]string{
				first + about(3, 1, "ADDED", "watch", "b", "7") + gap(4, 2, "7", "18") + about(5, 2, "DELETED", "relist", "b", "7") + changed(6, 2, "relist", "20") + synced(7, 2, "20", 0, 1, 1),
				about(1, 3, "DELETED", "watch", "b", "12") + changed(2, 3, "watch", "19"),
			},
			"3 SYNCED 7 12 19 GAP 20 SYNCED",
		},
		{
			"two lists",
			[]string{listed + gap(6, 1, "20", "30") + changed(7, 1, "relist", "25") + synced(8, 1, "30", 0, 1, 0), watched(2, "12", "15", "22")},
			"3 SYNCED 12 15 22 GAP 25 SYNCED",
		},
		{
			"another replica's unfinished list in between",
			[]string{listed, gap(1, 2, "5", "22") + changed(2, 2, "relist", "15"), watched(3, "12", "15", "25")},
			"3 SYNCED 12 15 25",
		},
		{
			"another replica's list in between",
			[]string{listed, gap(1, 2, "5", "22") + changed(2, 2, "relist", "15") + synced(3, 2, "22", 0, 1, 0), watched(3, "12", "15", "25")},
			"3 SYNCED 12 15 25",
		},
		{
			"an unfinished list, after which all is written again",
			[]string{first + gap(3, 1, "5", "20") + changed(4, 1, "relist", "15") + gap(5, 3, "", "40") + changed(6, 3, "relist", "16") + synced(7, 3, "40", 0, 1, 0), ""},
			"3 SYNCED GAP 16 SYNCED",
		},
		{
			"another change at the version, after a restore",
			[]string{first + changed(3, 1, "watch", "8"), because("PositionAheadOfServer", gap(1, 2, "", "9")) + changed(2, 2, "relist", "8") + synced(3, 2, "9", 0, 1, 0)},
			"3 SYNCED 8 GAP 8 SYNCED",
		},
		{
			"repeats after a restore",
			[]string{
				first + changed(3, 1, "watch", "40") + changed(4, 3, "watch", "10") + changed(5, 3, "watch", "11"),
				because("PositionAheadOfServer", gap(1, 2, "40", "6")) + changed(2, 2, "relist", "3") + synced(3, 2, "6", 0, 1, 0) +
					changed(4, 2, "watch", "9") + changed(5, 2, "watch", "10"),
			},
			"3 SYNCED 40 GAP 3 SYNCED 9 10 11",
		},
		{
			"repeats of what is left out of a restore",
			[]string{
				first + changed(3, 1, "watch", "40") + changed(4, 3, "watch", "40") + changed(5, 3, "watch", "41"),
				because("PositionAheadOfServer", gap(1, 2, "40", "6")) + changed(2, 2, "relist", "3"),
			},
			"3 SYNCED 40 41",
		},
		{
			"a deletion at the object's last version, again",
			[]string{
				first + about(3, 1, "ADDED", "watch", "b", "7") + changed(4, 1, "watch", "30") +
					about(5, 1, "DELETED", "watch", "b", "7") + changed(6, 1, "watch", "31"),
				changed(1, 2, "watch", "30") + about(2, 2, "DELETED", "watch", "b", "7") + changed(3, 2, "watch", "31") +
					changed(4, 2, "watch", "32"),
			},
			"3 SYNCED 7 30 7 31 32",
		},
		{
			"again from a deletion at the object's last version on",
			[]string{
				first + about(3, 1, "ADDED", "watch", "b", "7") + changed(4, 1, "watch", "30") +
					about(5, 1, "DELETED", "watch", "b", "7") + changed(6, 1, "watch", "31"),
				about(1, 2, "DELETED", "watch", "b", "7") + changed(2, 2, "watch", "31") + changed(3, 2, "watch", "32"),
			},
			"3 SYNCED 7 30 7 31 32",
		},
		{
			"again at a version of an added deletion, behind a restore",
			[]string{
				first + about(3, 1, "ADDED", "watch", "b", "7") + changed(4, 3, "watch", "7"),
				because("PositionAheadOfServer", gap(1, 2, "", "6")) + about(2, 2, "ADDED", "relist", "a", "3") + synced(3, 2, "6", 1, 0, 0) + about(4, 2, "ADDED", "watch", "b", "7"),
			},
			"3 SYNCED 7 GAP 3 7 SYNCED 7 7",
		},
		{
			"versions of another server",
			[]string{first + about(3, 1, "ADDED", "watch", "b", "1001"), because("PositionRefused", gap(1, 2, "1000", "30")) + changed(2, 2, "relist", "20") + synced(3, 2, "30", 0, 1, 0)},
			"3 SYNCED 1001 GAP 20 1001 SYNCED",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sources []merge.Source
			for n, text := range tt.journals {
				sources = append(sources, source(fmt.Sprint(n), text))
			}
			p, err := merge.Scan(t.Context(), sources, heldBack)
			if err != nil {
				t.Fatal(err)
			}
			var out output
			if err := p.Merge(t.Context(), &out); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, text := range out.lines {
				var l line.Fields
				if err := l.Parse([]byte(text)); err != nil {
					t.Fatal(err)
				}
				if what := string(l.Text(line.FieldType)); l.AboutStream() {
					got = append(got, what)
				} else {
					got = append(got, string(l.Text(line.FieldResourceVersion)))
				}
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// What one replica was told late, and another one in time, is said.
func TestLate(t *testing.T) {
	first := about(1, 1, "ADDED", "snapshot", "a", "3") + synced(2, 1, "5", 1, 0, 0)
	p, err := merge.Scan(t.Context(), []merge.Source{
		source("a", first+later(about(3, 1, "MODIFIED", "watch", "a", "8"))+later(about(4, 1, "MODIFIED", "watch", "a", "9"))),
		source("b", about(3, 2, "MODIFIED", "watch", "a", "8")+later(about(4, 2, "MODIFIED", "watch", "a", "9"))),
	}, heldBack)
	if err != nil {
		t.Fatal(err)
	}
	var out output
	if err := p.Merge(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out.late, ", "); got != "pods 1m0s" {
		t.Errorf("%s", got)
	}
}

// From when to when a list after a GAP may have no more than the difference, is said.
func TestRelisted(t *testing.T) {
	first := about(1, 1, "ADDED", "snapshot", "a", "3") + synced(2, 1, "5", 1, 0, 0) + about(3, 1, "MODIFIED", "watch", "a", "8")
	p, err := merge.Scan(t.Context(), []merge.Source{
		source("a", first),
		source("b", later(gap(1, 2, "", "30"))+later(gap(2, 2, "", "30"))+later(about(3, 2, "ADDED", "relist", "a", "25"))+later(synced(4, 2, "30", 1, 0, 0))),
	}, heldBack)
	if err != nil {
		t.Fatal(err)
	}
	var out output
	if err := p.Merge(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(out.relisted, ", "); got != "pods 14:00:03 to 14:01:04" {
		t.Errorf("%s", got)
	}
}

func heldBack(stream string) bool { return stream == "held" }
