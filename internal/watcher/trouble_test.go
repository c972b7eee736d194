package watcher_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

const (
	troubleStreams = 20
	crowdTime      = time.Minute      // how long a trouble of many streams lasts
	troubleWindow  = 10 * time.Second // the busiest such time is looked for

	// What a stream may ask of a server in trouble: requests per second over the
	// whole time, and requests in the busiest window.
	troubleMean  = 0.5
	troubleBurst = 20
)

// serverTrouble is what is wrong with a server for a while.
type serverTrouble struct {
	name    string
	options fake.Options
	fault   func(fake.Request) *fake.Fault
	// begin and end do what no fault of a request can; every is done each second.
	begin, every, end func(*harness)
	fresh             bool     // the streams have not had their first sync yet
	gaps              bool     // the history goes: there may be GAP lines
	stream            string   // where it is not configmaps
	versions          []string // that it is served in besides v1
	quiet             bool     // nothing is written meanwhile
}

// each gives the same fault to every request for what is journalled.
func each(f *fake.Fault) func(fake.Request) *fake.Fault {
	return on("configmaps", "", f)
}

func html(code, retryAfter int) *fake.Fault {
	return &fake.Fault{Status: code, RetryAfter: retryAfter, Body: "<html>overloaded</html>"}
}

// forget has the server forget its history, and every continue token with it.
func forget(w *harness) {
	_, err := w.srv.Create(secrets, map[string]any{"metadata": map[string]any{"generateName": "noise-", "namespace": "default"}})
	must(w.t, err)
	w.srv.DropHistory()
}

var serverTroubles = []serverTrouble{
	{name: "500 to everything", fault: each(statusFault(500))},
	{name: "500 before the first sync", fault: each(statusFault(500)), fresh: true},
	{name: "503 in HTML", fault: each(html(503, 0))},
	{name: "503, Retry-After 1", fault: each(html(503, 1))},
	{name: "429, no Retry-After", fault: each(statusFault(tooManyRequests))},
	{name: "429, Retry-After 1", fault: each(&fake.Fault{Status: tooManyRequests, RetryAfter: 1})},
	{name: "429, Retry-After 1, first sync", fault: each(&fake.Fault{Status: tooManyRequests, RetryAfter: 1}), fresh: true},
	{name: "429, Retry-After 120", fault: each(&fake.Fault{Status: tooManyRequests, RetryAfter: 120})},
	{name: "429 to watches only", fault: on("configmaps", "watch", statusFault(tooManyRequests))},
	{name: "500 in the stream", fault: on("configmaps", "watch", &fake.Fault{Stream: fake.Failed, Status: 500})},
	{name: "401 to everything", fault: each(statusFault(http.StatusUnauthorized))},
	{name: "403 to everything", fault: each(statusFault(http.StatusForbidden))},
	{name: "404 in text", fault: each(&fake.Fault{Status: 404, Body: "404 page not found\n"})},
	{name: "no answer", fault: each(&fake.Fault{Hang: true})},
	{name: "every answer takes 20 s", fault: each(&fake.Fault{Delay: 20 * time.Second})},
	{name: "server down", begin: func(w *harness) { w.srv.StopAPIServer() }, end: func(w *harness) { must(w.t, w.srv.StartAPIServer()) }, gaps: true},
	{name: "server restarts every 7 s", gaps: true, every: func(w *harness) {
		if time.Now().Second()%7 == 0 {
			w.srv.RestartAPIServer()
		}
	}},
	{name: "watches end at once", fault: on("configmaps", "watch", &fake.Fault{Stream: fake.End})},
	{name: "watches end after 6 s", every: func(w *harness) {
		if time.Now().Second()%6 == 0 {
			w.srv.EndWatches()
		}
	}},
	{name: "watches are cut at once", fault: on("configmaps", "watch", &fake.Fault{Stream: fake.Cut})},
	{name: "frames are truncated", fault: on("configmaps", "watch", &fake.Fault{Stream: fake.CutMidEvent, AfterEvents: 1})},
	{name: "frames are garbage", fault: on("configmaps", "watch", &fake.Fault{Stream: fake.Garbage})},
	{name: "reset in mid-object, paged lists", options: fake.Options{NoWatchList: true}, fresh: true, fault: on("configmaps", "list", &fake.Fault{CutAfterBytes: 300})},
	{name: "reset in mid-object, streamed lists", fresh: true, fault: on("configmaps", "watch", &fake.Fault{CutAfterBytes: 700})},
	{name: "continue tokens expire again and again", options: fake.Options{NoWatchList: true, MaxPage: 2}, fresh: true,
		fault: func(r fake.Request) *fake.Fault {
			if r.Resource == "configmaps" && r.Query.Get("continue") != "" {
				return statusFault(http.StatusGone)
			}
			return nil
		}},
	{name: "410 to every watch", gaps: true, fault: on("configmaps", "watch", statusFault(http.StatusGone))},
	{name: "410 in every stream, lists too", gaps: true, begin: forget, fault: func(r fake.Request) *fake.Fault {
		if r.Resource != "configmaps" || r.Verb != "watch" {
			return nil
		}
		if r.Query.Get("sendInitialEvents") != "" {
			return &fake.Fault{Stream: fake.Gone, AfterEvents: 6} // five objects and their bookmark
		}
		return &fake.Fault{Stream: fake.Gone}
	}},
	{name: "history forgotten every second", gaps: true, every: func(w *harness) {
		forget(w)
		if time.Now().Second()%10 == 0 {
			w.srv.BreakWatches()
		}
	}},
	{name: "watches stay silent", fault: on("configmaps", "watch", &fake.Fault{Stream: fake.Silent}), end: func(w *harness) { w.srv.EndWatches() }},
	{name: "initial events twice, reversed", fresh: true, fault: on("configmaps", "watch", &fake.Fault{DuplicateInitialEvents: true, ReverseInitialEvents: true})},
	{name: "initial events never end", fresh: true, fault: on("configmaps", "watch", &fake.Fault{OmitInitialEventsEnd: true})},
	// An aggregated API that comes and goes: its server and discovery of its group fail together.
	{name: "aggregated API comes and goes", stream: "widgets.example.com", every: func(w *harness) {
		away := time.Now().Second() < 40
		w.srv.SetStale(schema.GroupVersion{Group: "example.com", Version: "v1"}, away)
		w.srv.SetFault(nil)
		if away {
			w.srv.SetFault(on("widgets", "", html(503, 0)))
			w.srv.EndWatches()
		}
	}},
	{name: "a namespace emptied each 20 s", every: func(w *harness) {
		if now := time.Now().Second(); now%20 == 0 {
			ns := fmt.Sprintf("n%02d", now/20)
			objects, err := w.srv.List(configMaps, ns)
			must(w.t, err)
			for _, o := range objects {
				_, err := w.srv.Delete(configMaps, ns, o["metadata"].(map[string]any)["name"].(string))
				must(w.t, err)
			}
		}
	}},
	{name: "definition made again, v1 or v2", stream: "widgets.example.com", gaps: true, quiet: true, every: func(w *harness) {
		switch time.Now().Second() {
		case 0:
			w.srv.RemoveResource(widgets.GroupResource())
			w.srv.AddResource(widget("v2"))
		case 30:
			w.srv.RemoveResource(widgets.GroupResource())
			w.srv.AddResource(widget("v1"))
		}
	}, end: func(w *harness) {
		w.srv.RemoveResource(widgets.GroupResource())
		w.srv.AddResource(widget("v1"))
	}},
	{name: "two versions of one resource", stream: "widgets.example.com", versions: []string{"v2", "v3"}},
}

var troubleTime = flag.Duration("trouble.for", 90*time.Second, "how long TestTrouble has each trouble last")

// TestTrouble has a server be in each trouble for some minutes, counts what it is
// asked in that time, and looks at the journal when it is over. With -v it
// prints the table.
func TestTrouble(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "trouble\trequests\tper s\tworst %v\tper s and stream\tworst %[1]v per stream\t\n", troubleWindow)
	for _, c := range serverTroubles {
		t.Run(c.name, func(t *testing.T) {
			name := "configmaps"
			if c.stream != "" {
				name = c.stream
			}
			e := entry(name)
			for i := range troubleStreams {
				e.Namespaces = append(e.Namespaces, fmt.Sprintf("n%02d", i))
			}
			bubble(t, c.options, []config.Resource{e}, func(w *harness) {
				if c.stream != "" {
					w.srv.AddResource(widget("v1", c.versions...))
				}
				total, worst := w.suffer(e, c, *troubleTime)
				mean := float64(total) / troubleTime.Seconds()
				fmt.Fprintf(out, "%s\t%d\t%.2f\t%d\t%.3f\t%.1f\t\n", c.name, total, mean, worst,
					mean/troubleStreams, float64(worst)/troubleStreams)
				if mean > troubleMean*troubleStreams || worst > troubleBurst*troubleStreams {
					t.Errorf("%d requests, %.2f per s, %d in the worst %v", total, mean, worst, troubleWindow)
				}
			})
		})
	}
	must(t, out.Flush())
	t.Logf("%d streams, each trouble for %v of simulated time\n%s", troubleStreams, *troubleTime, table.String())
}

// suffer lets a world live through a trouble, and returns the requests that came
// meanwhile and those of the busiest window.
func (w *harness) suffer(e config.Resource, c serverTrouble, lasts time.Duration) (total, worst int) {
	gvr := resourceOf(e)
	for _, ns := range e.Namespaces {
		for i := range 5 {
			w.putIn(gvr, ns, fmt.Sprint("o", i), nil)
		}
	}
	trouble := func() {
		w.srv.SetFault(c.fault)
		if c.begin != nil {
			c.begin(w)
		}
	}
	if c.fresh {
		trouble()
		w.start()
	} else {
		w.start()
		w.synced()
		w.pass(70 * time.Second) // at work, with a bookmark
		trouble()
		w.srv.EndWatches()
	}
	n := len(w.srv.Requests())
	if c.fresh {
		n = 0
	}
	for end := time.Now().Add(lasts); time.Now().Before(end); w.pass(time.Second) {
		// Half a write per second, over all streams.
		if time.Now().Second()%2 == 0 && !c.quiet {
			w.putIn(gvr, e.Namespaces[rand.N(len(e.Namespaces))], fmt.Sprint("o", rand.N(5)), nil)
		}
		if c.every != nil {
			c.every(w)
		}
	}
	asked := w.asked(n)
	w.srv.SetFault(nil)
	w.srv.SetStale(schema.GroupVersion{Group: "example.com", Version: "v1"}, false)
	if c.end != nil {
		c.end(w)
	}
	w.awaitFor(12*time.Minute, "all streams are back", w.watching)
	w.interrupted = c.fresh || c.gaps
	w.check()
	if !c.gaps && slices.ContainsFunc(briefs(w.lines()), func(l string) bool { return strings.HasPrefix(l, "GAP") }) {
		w.t.Error("the history was there, and the journal has a gap")
	}
	return len(asked), busiest(asked, troubleWindow)
}

// asked is when requests came in after the nth, and connections were refused, in
// order.
func (w *harness) asked(n int) []time.Time {
	times := w.srv.Refused()
	for _, r := range w.srv.Requests()[n:] {
		if r.Name != "kube-system" { // one small object, to confirm the cluster behind an answer that counts
			times = append(times, r.Time)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// busiest is the largest number of times within a window.
func busiest(times []time.Time, window time.Duration) int {
	worst, first := 0, 0
	for i, at := range times {
		for at.Sub(times[first]) >= window {
			first++
		}
		worst = max(worst, i-first+1)
	}
	return worst
}

// Many streams lose their server together, and come back together: not more than
// the client's limits, and not all at the same moment. Requests are counted, which takes no race detector: with it they
// are fewer streams, though still more than the limits let through at once.
func TestTroubleOfManyStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	streams := 300
	if raced {
		streams = 120
	}
	e := entry("configmaps")
	for i := range streams {
		e.Namespaces = append(e.Namespaces, fmt.Sprintf("n%03d", i))
	}
	for _, c := range []serverTrouble{
		{name: "503 to everything", fault: each(statusFault(503))},
		{name: "429, Retry-After 1", fault: each(&fake.Fault{Status: tooManyRequests, RetryAfter: 1})},
		{name: "503 before the first sync", fault: each(statusFault(503)), fresh: true},
		{
			name: "server down", gaps: true,
			begin: func(w *harness) { w.srv.StopAPIServer() }, end: func(w *harness) { must(w.t, w.srv.StartAPIServer()) },
		},
		{name: "server restarts each minute", gaps: true, every: func(w *harness) {
			if time.Now().Second() == 30 {
				w.srv.RestartAPIServer()
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, fake.Options{}, []config.Resource{e}, func(w *harness) {
				total, worst := w.suffer(e, c, crowdTime)
				second := busiest(w.asked(0), time.Second)
				t.Logf("%d streams, %d requests in %v, %.1f per s; %d in the worst %v, %d in the worst second",
					streams, total, crowdTime, float64(total)/crowdTime.Seconds(), worst, troubleWindow, second)
				// Lists and watches have 50/s each, with 100 at once, checks of the cluster 5/s with 10 at
				// once, and discovery is asked beside them.
				if second > 2*(50+100)+(5+10)+10 || worst > 2*(10*50+100)+(10*5+10)+10 {
					t.Errorf("%d requests in a second, %d in %v", second, worst, troubleWindow)
				}
			})
		})
	}
}

// Twenty streams that are pending, each on a round of its own, have the server
// asked what it serves no more often than one does.
func TestTroubleOfManyPending(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	e := entry("configmaps")
	for i := range troubleStreams {
		e.Namespaces = append(e.Namespaces, fmt.Sprintf("n%02d", i))
	}
	bubble(t, fake.Options{}, []config.Resource{e}, func(w *harness) {
		began := time.Now()
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			i := slices.Index(e.Namespaces, r.Namespace)
			if i >= 0 && time.Since(began) >= time.Duration(i)*1100*time.Millisecond {
				return statusFault(http.StatusForbidden)
			}
			return nil
		})
		w.start()
		for range 30 {
			w.pass(time.Second)
			w.srv.EndWatches()
		}
		w.pass(2 * time.Minute)
		n := len(w.srv.Requests())
		w.pass(*troubleTime)
		asked := make(map[string]int)
		for _, r := range w.srv.Requests()[n:] {
			if r.Resource == "" {
				asked[r.Path]++
			} else {
				asked["streams"]++
			}
		}
		rounds := int(*troubleTime / (15 * time.Second))
		if asked["/apis"] > rounds+1 || asked["/api"] > rounds+1 || asked["streams"] > (rounds+1)*troubleStreams {
			t.Errorf("requests in %v: %v", *troubleTime, asked)
		}
		w.srv.SetFault(nil)
		w.check()
	})
}

// A namespace is deleted under the watch of it, and made again.
func TestNamespaceIsDeletedUnderItsWatch(t *testing.T) {
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	e := entry("configmaps")
	e.Namespaces = []string{"web"}
	for _, noWatchList := range []bool{false, true} {
		bubble(t, fake.Options{NoWatchList: noWatchList}, []config.Resource{e}, func(w *harness) {
			w.pulse = never
			make := func() {
				_, err := w.srv.Create(namespaces, map[string]any{"metadata": map[string]any{"name": "web"}})
				must(t, err)
			}
			drop := func(namespace string, names ...string) {
				for _, name := range names {
					_, err := w.srv.Delete(configMaps, namespace, name)
					must(t, err)
				}
			}
			make()
			w.putIn(configMaps, "web", "a", nil)
			w.putIn(configMaps, "web", "b", nil)
			w.start()
			w.synced()
			n := len(w.lines())
			drop("web", "a", "b")
			_, err := w.srv.Delete(namespaces, "", "web")
			must(t, err)
			asked := len(w.srv.Requests())
			w.pass(time.Hour)
			n = w.tell(n, "DELETED watch web/a", "DELETED watch web/b")
			if got := len(w.askedSince(asked)); got > 3*14 {
				t.Errorf("%d requests in an hour for a namespace that is not there", got)
			}
			make()
			w.putIn(configMaps, "web", "a", nil)
			w.synced()
			n = w.tell(n, "ADDED watch web/a")
			// The same while the server is away.
			w.srv.StopAPIServer()
			drop("web", "a")
			_, err = w.srv.Delete(namespaces, "", "web")
			must(t, err)
			must(t, w.srv.StartAPIServer())
			w.synced()
			w.tell(n, "GAP Expired", "DELETED relist web/a", "SYNCED +0 ~0 -1 =0")
			w.check()
		})
	}
}

// A definition is deleted and made again with other versions only: what was
// there is told as deleted, and what is there now as added.
func TestDefinitionIsMadeAgain(t *testing.T) {
	for name, running := range map[string]bool{"running": true, "stopped": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("widgets.example.com"), func(w *harness) {
				w.srv.AddResource(widget("v1"))
				w.put(widgets, "old")
				w.start()
				w.synced()
				if !running {
					w.stop()
				}
				// What the daemon is given, and what the test compares with.
				given, compared := w.entries, entries("widgets.example.com")
				compared[0].Version = "v2"
				w.srv.RemoveResource(widgets.GroupResource())
				if running {
					w.pass(time.Minute)
				}
				w.srv.AddResource(widget("v2"))
				w.entries = compared
				v2 := widgets
				v2.Version = "v2"
				w.put(v2, "new")
				if !running {
					w.entries = given
					w.start()
					w.entries = compared
				}
				w.awaitFor(time.Minute, "the new one is told", func() bool { return strings.Contains(strings.Join(w.only("widgets.example.com"), ","), " new") })
				w.synced()
				lines := w.lines()
				for _, l := range lines {
					if l.Name == "new" && l.Version != "v2" || l.Name == "old" && l.Type == "ADDED" && l.Version != "v1" {
						t.Errorf("%s is told as version %s", l.Name, l.Version)
					}
				}
				told := strings.Join(w.only("widgets.example.com"), ", ")
				if !strings.Contains(told, "DELETED") || strings.Count(told, " old") != 2 || strings.Count(told, " new") != 1 {
					t.Errorf("told: %s", told)
				}
				w.check()
			})
		})
	}
}

// Two versions of one resource are one stream, so two entries for them are a
// fault; and an entry that names another version resumes.
func TestTwoVersionsOfOneResource(t *testing.T) {
	bubble(t, fake.Options{}, entries("widgets.v1.example.com", "widgets.v2.example.com"), func(w *harness) {
		w.srv.AddResource(widget("v2", "v1"))
		err := w.tryStart()
		if err == nil || !strings.Contains(err.Error(), "widgets.v1.example.com") || !strings.Contains(err.Error(), "widgets.v2.example.com") {
			t.Fatalf("fault: %v", err)
		}
		w.entries = entries("widgets.example.com")
		w.entries[0].Version = "v1"
		w.put(widgets, "a")
		w.start()
		w.synced()
		w.stop()
		n := w.tell(0, "ADDED snapshot a", "SYNCED +1 ~0 -0 =0")
		w.put(widgets, "b")
		w.entries = entries("widgets.example.com")
		w.entries[0].Version = "v2"
		w.start()
		w.synced()
		w.tell(n, "ADDED watch b")
		if l := w.lines()[n]; l.Version != "v2" {
			t.Errorf("told as version %s", l.Version)
		}
		w.check()
	})
}

// A server that forgets its history as soon as a large list is through is not
// asked for the next one at once, but after twice the time that it took.
func TestLongListsRest(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 1}, entries("configmaps"), func(w *harness) {
		for i := range 10 {
			w.put(configMaps, fmt.Sprint("a", i))
		}
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			if r.Resource == "configmaps" && r.Verb == "list" && r.Query.Get("limit") != "1" {
				return &fake.Fault{Delay: 3 * time.Second} // for each of ten pages
			}
			if r.Verb == "watch" {
				return &fake.Fault{Stream: fake.Gone, AfterEvents: 1}
			}
			return nil
		})
		w.start()
		n := 0
		for end := time.Now().Add(time.Hour); time.Now().Before(end); w.pass(time.Second) {
			if time.Now().Second()%10 == 0 {
				w.put(configMaps, "a5")
			}
		}
		for _, r := range w.requests(0, "configmaps", "list") {
			if r.Query.Get("limit") != "1" && r.Query.Get("continue") == "" {
				n++
			}
		}
		if n < 20 || n > 41 {
			t.Errorf("%d lists of 30 s in an hour", n)
		}
		w.srv.SetFault(nil)
		w.awaitFor(5*time.Minute, "it watches", func() bool { return w.state("configmaps").State == watcher.Watching })
		w.interrupted = true
		w.check()
	})
}
