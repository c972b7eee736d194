package watcher_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"kubejournal/internal/kube/fake"
)

// want is what may become of a stream while a fault lasts: any of these.
type want uint8

const (
	proceeds want = 1 << iota // it follows the server as if nothing was
	switches                  // it follows the server: another form of list is taken
	relists                   // it follows the server: a GAP, and a list
	explains                  // it shows a reason, one of the answer's
	ends                      // the daemon ends, with an error that names both clusters
)

func (w want) String() string {
	var all []string
	for bit, name := range map[want]string{proceeds: "proceeds", switches: "switches", relists: "relists", explains: "explains", ends: "ends"} {
		if w&bit != 0 {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "|")
}

// whatMust says what must happen, by row and class of answer: P proceeds, S switches, R relists, E explains, X ends. Where
// another cluster answers, it is asked for its uid as well: an address that leads to both by turns is not found out.
const whatMust = `
              harmless  odd  denied  refusal  perhaps  gone  broken  foreign
version       P         PE   E       E        E        RE    E       X
watch         P         PE   E       RE       RE       R     E       X
streamed      P         PS   SE      S        S        S     S       X
page          P         PE   E       E        E        SE    E       X
later-page    P         PE   E       E        E        S     E       X
whole         P         PE   E       E        E        E     E       X
page-again    P         PS   SE      S        S        S     S       X
every-list    P         PE   E       E        E        E     E       X
identity      P         PE   E       E        E        E     E       X
discovery     P         PE   E       E        E        E     E       EX
everything    P         PRE  E       E        E        RE    E       X
`

// exceptions are cells in which something else may happen than in others of their row and class.
var exceptions = []struct {
	rows, answers []string
	want          want
}{
	// What was read of it will do.
	{[]string{"version"}, []string{"cut after the first object", "silent after the first object", "list without items"}, proceeds | explains},
	{[]string{"watch", "everything"}, []string{"cut after the first object", "silent after the first object"}, proceeds | explains},
	{[]string{"later-page"}, []string{"list at version 0", "list at version abc"}, proceeds | explains}, // the first page's counts
	// A watch from there is refused, and the next list gives it once more.
	{[]string{"streamed", "page", "whole", "page-again", "every-list"}, []string{"list at version abc"}, relists | proceeds},
	// What comes is passed by a list; the next one of the kind is too.
	{[]string{"watch"}, []string{"objects without a name", "objects without metadata", "unknown type of event", "event without a type", "null as an object"}, relists | explains},
	// It never came to the server.
	{[]string{"streamed", "page-again"}, []string{"connection refused"}, switches | explains},
	// Smaller pages, which begin elsewhere, may do: see package detour.
	{[]string{"version", "page"}, []string{"413 RequestEntityTooLarge", "500 InternalError", "200 Status Failure"}, proceeds | explains},
	// It is given for some seconds only.
	{[]string{"streamed", "page-again"}, []string{"an object of 65 MiB"}, switches | explains},
}

// row is a kind of request, and how a stream comes to make it.
type row struct {
	name     string
	requests []request
	server   fake.Options
	// relist has the stream list; else watches end and are opened again. firstSync has another stream sync for the
	// first time.
	relist, firstSync bool
	// other are lists of another form, which a stream may switch to.
	other []request
	// streamsAgain has the server refuse to stream the first list, and no further one.
	streamsAgain bool
	// why are the reasons that may be shown in place of the answer's.
	why string
	// everyStream says that the request is made for all streams, anyReason that the reason shown is the request's own.
	everyStream, anyReason bool
	want                   [classes]want
}

var paged = fake.Options{NoWatchList: true}

var rows = withMust([]row{
	{name: "version", requests: []request{askVersion}},
	{name: "watch", requests: []request{askWatch}},
	{name: "streamed", requests: []request{askStreamed}, relist: true, firstSync: true, other: []request{askFirst, askWhole}},
	{name: "page", requests: []request{askFirst}, server: paged, relist: true, firstSync: true, other: []request{askWhole}},
	{name: "later-page", requests: []request{askLater}, server: paged, relist: true, other: []request{askWhole}},
	{name: "whole", requests: []request{askWhole}, server: paged, relist: true},
	{name: "page-again", requests: []request{askFirst, askWhole}, server: paged, relist: true, streamsAgain: true, other: []request{askStreamed}},
	{name: "every-list", requests: listRequests, relist: true},
	{name: "identity", requests: []request{askIdentity}, everyStream: true, anyReason: true},
	{name: "discovery", requests: []request{askServed}, why: "NotFound|Undiscovered"},
	{name: "everything", requests: []request{askVersion, askFirst, askLater, askWhole, askStreamed, askWatch, askIdentity, askServed}, everyStream: true},
})

// withMust adds what whatMust says.
func withMust(rows []row) []row {
	letters := map[rune]want{'P': proceeds, 'S': switches, 'R': relists, 'E': explains, 'X': ends}
	for _, line := range strings.Split(strings.TrimSpace(whatMust), "\n")[1:] {
		fields := strings.Fields(line)
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == fields[0] })
		for class, word := range fields[1:] {
			for _, letter := range word {
				rows[i].want[class] |= letters[letter]
			}
		}
	}
	return rows
}

// expects returns what must happen in a cell.
func (r row) expects(a *answer) want {
	w := r.want[a.class]
	for _, e := range exceptions {
		if slices.Contains(e.rows, r.name) && slices.Contains(e.answers, a.name) {
			w = e.want
		}
	}
	return w
}

// takes reports whether an answer can be given to the row's requests.
func (r row) takes(a *answer) bool {
	can := func(q request) bool { return a.on == nil || slices.Contains(a.on, q) }
	return !slices.ContainsFunc(r.requests, func(q request) bool { return !can(q) })
}

var (
	answersTime  = flag.Duration("answers.for", 30*time.Minute, "how long TestAnswers has each answer given")
	answersShare = flag.Int("answers.share", 3, "TestAnswers runs one cell of so many: of each row, and of each answer")
	answersCell  = flag.String("answers.cell", "", "the only cells of TestAnswers, as ROW/ANSWER; either may be empty")
)

// answersMean is how many requests per second a stream may make on average: those of TestTrouble, and to confirm the
// cluster behind each page.
const answersMean = 1.2 * troubleMean

// racedShare is the share of the cells that the race detector sees.
const racedShare = 24

// TestAnswers gives each answer to each kind of request: three times, then no more; and for as long as -answers.for. In every cell
// the stream continues, or takes another way, or shows a reason; and when it is over, the journal tells what the server
// has. With -v it prints the table; all of it with -answers.share=1.
func TestAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	share := *answersShare
	if raced {
		share = racedShare
	} else if *answersCell != "" {
		share = 1
	}
	columns := answers()
	results := make(map[string]map[string]string) // by answer and row
	cells := 0
	for i, r := range rows {
		for j, a := range columns {
			if !r.takes(a) || !chosen(r, a) || (i+j)%share != 0 {
				continue
			}
			if results[a.name] == nil {
				results[a.name] = make(map[string]string)
			}
			cells++
			results[a.name][r.name] = testAnswer(t, r, a)
		}
	}
	t.Logf("what must happen:%s\nwhat happened, in %d cells, each answer given three times and for %v of simulated time:\n%s",
		whatMust, cells, *answersTime, answersTable(columns, results))
}

// chosen reports whether a cell is one of -answers.cell.
func chosen(r row, a *answer) bool {
	rowName, answerName, _ := strings.Cut(*answersCell, "/")
	return (rowName == "" || rowName == r.name) && (answerName == "" || answerName == a.name)
}

// testAnswer runs a cell, and returns what the table says of it.
func testAnswer(t *testing.T, r row, a *answer) string {
	var outcomes []string
	for _, times := range []int{3, -1} {
		name := "for ever"
		if times > 0 {
			name = "three times"
		}
		c := &cell{row: r, answer: a}
		ok := t.Run(strings.ReplaceAll(r.name+"/"+a.name+"/"+name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which waits for every goroutine
				c.harness = newWorld(t, r.server, nil)
				defer c.end()
				c.run(times)
			})
		})
		if !ok {
			outcomes = append(outcomes, "FAIL")
		} else if times < 0 {
			outcomes = append(outcomes, c.outcome)
		}
	}
	return strings.Join(slices.Compact(outcomes), ", ")
}

// answersTable has a line for each answer and a column for each kind of request.
func answersTable(columns []*answer, results map[string]map[string]string) string {
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(out, "answer")
	for _, r := range rows {
		fmt.Fprintf(out, "\t%s", r.name)
	}
	fmt.Fprintln(out)
	for _, a := range columns {
		if results[a.name] == nil {
			continue
		}
		fmt.Fprint(out, a.name)
		for _, r := range rows {
			what := results[a.name][r.name]
			if what == "" {
				what = "-"
			}
			fmt.Fprintf(out, "\t%s", what)
		}
		fmt.Fprintln(out)
	}
	_ = out.Flush() // into memory
	tally := make(map[string]int)
	for _, of := range results {
		for _, what := range of {
			what, _, _ = strings.Cut(what, " ")
			tally[what]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(tally)) {
		fmt.Fprintf(&table, "%s: %d\n", what, tally[what])
	}
	return table.String()
}
