package status

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/internal/record/metrics"
	"kubejournal/internal/record/recorder"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

// shown is the page about what is given.
func shown(t *testing.T, about About, checks []Check, all ...streams.Status) (text string, header http.Header) {
	t.Helper()
	site := NewSite(metrics.New("", "").Registry, checks, func() []streams.Status { return all }, func() About { return about })
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	return w.Body.String(), w.Header()
}

func status(name string, state watcher.State, change ...func(*watcher.Status)) streams.Status {
	now := time.Now()
	s := streams.Status{Name: name, Status: watcher.Status{State: state, Since: now, Position: "7", Synced: true, LastProgress: now}}
	for _, c := range change {
		c(&s.Status)
	}
	return s
}

func lastGap(ago time.Duration) func(*watcher.Status) {
	return func(s *watcher.Status) { s.LastGap, s.Missed = time.Now().Add(-ago), 1 }
}

func failing(ago time.Duration) func(*watcher.Status) {
	return func(s *watcher.Status) { s.Failing = time.Now().Add(-ago) }
}

func reason(text string) func(*watcher.Status) { return func(s *watcher.Status) { s.Reason = text } }

// headlined is what the page's heading says.
func headlined(t *testing.T, text string) string {
	t.Helper()
	found := regexp.MustCompile(`<span id="headline">([^<]*)</span>`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the page has no heading")
	}
	return found[1]
}

// What needs attention is counted in the heading, and comes first.
func TestPageOrder(t *testing.T) {
	silent := func(s *watcher.Status) { s.LastProgress = time.Now().Add(-time.Hour) }
	watching := status("a", watcher.Watching)
	for _, c := range []struct {
		streams  []streams.Status
		headline string
		order    string
	}{
		{nil, "No stream yet", ""},
		{[]streams.Status{watching}, "The one stream watches", "fine a"},
		{[]streams.Status{watching, status("b", watcher.Watching, lastGap(2*time.Hour), failing(time.Hour))}, "All 2 streams watch", "fine a, fine b"},
		{[]streams.Status{watching, status("b", watcher.Listing)}, "1 of 2 streams does not watch yet", "busy b, fine a"},
		{[]streams.Status{
			watching, status("b", watcher.Starting), status("c", watcher.Watching, lastGap(59*time.Minute)), status("d", watcher.Pending),
			status("e", watcher.Retrying), status("f", watcher.Watching, silent), status("g", watcher.Listing, failing(time.Second)),
		}, "5 of 7 streams need attention", "bad d, bad e, bad f, bad g, note c, busy b, fine a"},
		{[]streams.Status{status("a", watcher.Pending)}, "1 of 1 stream needs attention", "bad a"},
	} {
		text, _ := shown(t, About{}, nil, c.streams...)
		var order []string
		for _, row := range regexp.MustCompile(`<tr role="row" class="(\w+)" data-key="(\w+)">`).FindAllStringSubmatch(text, -1) {
			order = append(order, row[1]+" "+row[2])
		}
		if got := strings.Join(order, ", "); got != c.order || headlined(t, text) != c.headline {
			t.Errorf("%q: %s; want %q: %s", headlined(t, text), got, c.headline, c.order)
		}
	}
}

// The page says what is wrong beside the streams, and where what is written.
func TestPageDaemon(t *testing.T) { synctest.Test(t, pageDaemon) } // where time stands still: the page says how long ago

func pageDaemon(t *testing.T) {
	at := time.Now().Add(-90 * time.Second)
	about := About{
		Version: "v1", Commit: "abc", Started: at, Cluster: "prod", Server: "https://server", Config: "/etc/k.yaml", Output: "/j.jsonl", Checkpoint: "/k.db",
		Progress: recorder.Progress{Written: 1234, Committed: 1230, CommittedAt: at}, Reload: Reload{At: at, Fault: "k.yaml:5: logg: unknown key"},
	}
	full := []Check{
		{Name: "output", Err: func() error { return errors.New("no space left") }},
		{Name: "streams", Err: func() error { return nil }, Note: func() string { return "no progress: pods" }},
	}
	text, _ := shown(t, about, full, status("pods", watcher.Watching))
	for _, want := range []string{
		"<title>(2) kubejournal prod</title>", "v1", "https://server", "/etc/k.yaml", "/j.jsonl", "/k.db", "1234", "up to seq 1230, 4 behind", "1m30s ago",
		"Not ready: output: no space left", "edited 1m30s ago is not in effect", "k.yaml:5: logg: unknown key", "no progress: pods", "the journal has older ones",
		`datetime="` + at.UTC().Format(time.RFC3339) + `"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if got, want := headlined(t, text), "Not ready (output). The one stream watches"; got != want {
		t.Errorf("the page says %q, want %q", got, want)
	}
	text, _ = shown(t, About{Output: "-", Progress: recorder.Progress{Written: 9, Committed: 9}, Reload: Reload{At: at}}, full[1:], status("pods", watcher.Watching))
	for _, want := range []string{"<title>kubejournal</title>", "stdout", "none: a restart starts over", "the command line", "<dd>everything</dd>", "in effect, "} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// What others have named is text, wherever it stands.
func TestPageEscapes(t *testing.T) {
	const (
		named   = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}`
		hostile = named + "\x00\x1b[2J\u202e"
	)
	about := About{
		Version: named, Commit: named, Cluster: named, Server: named, Config: named, Output: named, Checkpoint: named,
		Reload: Reload{At: time.Now(), Fault: hostile},
	}
	checks := []Check{
		{Name: named, Err: func() error { return errors.New(hostile) }},
		{Name: named, Err: func() error { return nil }, Note: func() string { return hostile }},
	}
	text, _ := shown(t, about, checks, status("pods?labelSelector="+hostile, watcher.State(named), reason(hostile)), status(hostile, watcher.Pending, reason(hostile)))
	for _, tag := range []string{"script", "img", "style"} {
		want := strings.Count(pageHTML, "<"+tag)
		if got := strings.Count(text, "<"+tag); got != want {
			t.Errorf("%d times <%s, want %d", got, tag, want)
		}
	}
	if n := strings.Count(html.UnescapeString(text), "<script>alert(1)"); n < 15 {
		t.Errorf("it is to be read %d times only", n)
	}
	// In attributes too there is nothing that the page does not have by itself.
	for _, attribute := range regexp.MustCompile(`\s(on\w+|style|src)\s*=`).FindAllString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tags(text), `""`), -1) {
		t.Errorf("an element has %s", attribute)
	}
	if strings.ContainsAny(text, "\x00\x1b\u202e") {
		t.Error("the page has what cannot be seen")
	}
}

// tags are the elements of a page, without what is between them.
func tags(text string) string {
	for _, name := range []string{"script", "style"} {
		text = regexp.MustCompile(`(?s)<`+name+`>.*?</`+name+`>`).ReplaceAllString(text, "")
	}
	return strings.Join(regexp.MustCompile(`<[a-zA-Z](?:"[^"]*"|[^">])*>`).FindAllString(text, -1), "\n")
}

// The page is not kept, is in no other page, and may be nothing but what is in it.
func TestPageHeaders(t *testing.T) {
	text, header := shown(t, About{}, nil)
	for name, want := range map[string]string{"Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	for name, directive := range map[string]string{"style": "style-src", "script": "script-src"} {
		found := regexp.MustCompile(`(?s)<`+name+`>(.*?)</`+name+`>`).FindAllStringSubmatch(text, -1)
		if len(found) != 1 {
			t.Fatalf("%d times <%s>", len(found), name)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("the policy %q does not allow the page's %s", policy, name)
		}
	}
	for _, url := range regexp.MustCompile(`https?://[^'"\s]*`).FindAllString(text, -1) {
		if url != "http://www.w3.org/2000/svg" {
			t.Errorf("the page names %s", url)
		}
	}
}

// Nothing else is a page, and nothing can be sent to one.
func TestPageRoutes(t *testing.T) {
	site := NewSite(metrics.New("", "").Registry, nil, func() []streams.Status { return nil }, func() About { return About{} })
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/", 200}, {"HEAD", "/", 200}, {"GET", "/?x", 200}, {"GET", "/index.html", 404}, {"GET", "/page.css", 404}, {"GET", "/favicon.ico", 404},
		{"POST", "/", 405}, {"DELETE", "/", 405}, {"POST", "/streams", 405}, {"HEAD", "/streams", 200}, {"GET", "/streams/", 404},
	} {
		w := httptest.NewRecorder()
		site.ServeHTTP(w, httptest.NewRequest(c.method, c.path, http.NoBody))
		if w.Code != c.code {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, w.Code, c.code)
		}
	}
}

// A chart has a step for each that is known, the highest at the top; and none at
// all is not the same as few.
func TestDraw(t *testing.T) {
	for range 200 {
		s := make(series, rand.IntN(steps+1))
		for i := range s {
			if rand.IntN(3) > 0 {
				s[i] = rand.Uint32N(1 << rand.IntN(31))
			}
		}
		c := draw(s, s.peak())
		if c.Known != (len(s) > 0) || c.From != steps-len(s) {
			t.Fatalf("%d steps: %+v", len(s), c)
		}
		heights := read(t, c.Path)
		top := 0
		for i, n := range s {
			high := heights[c.From+i]
			top = max(top, high)
			if (n > 0) != (high > 0) {
				t.Fatalf("%v: step %d is %d high in %s", s, i, high, c.Path)
			}
			for j, other := range s {
				if n > other && high < heights[c.From+j] {
					t.Fatalf("%v: step %d is lower than step %d in %s", s, i, j, c.Path)
				}
			}
			delete(heights, c.From+i)
		}
		if len(heights) > 0 || c.Path != "" && top != chartHeight-2 {
			t.Fatalf("%v: %s is %d high, with %v too much", s, c.Path, top, heights)
		}
	}
}

// read takes a chart's path apart: how high it is at each x.
func read(t *testing.T, path string) map[int]int {
	t.Helper()
	heights := make(map[int]int)
	x := 0
	for _, part := range regexp.MustCompile(`M(\d+) 32|V(\d+)h1|V32z|.`).FindAllStringSubmatch(path, -1) {
		switch {
		case part[1] != "":
			x, _ = strconv.Atoi(part[1])
		case part[2] != "":
			y, _ := strconv.Atoi(part[2])
			heights[x] = chartHeight - y
			x++
		case part[0] != "V32z":
			t.Fatalf("%q in %s", part[0], path)
		}
	}
	return heights
}

// Whoever sees little reads what is written: each colour of text on each ground
// that it stands on, in both schemes (WCAG 2.2, 1.4.3).
func TestContrast(t *testing.T) {
	light, dark, ok := strings.Cut(pageCSS, "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("there is no dark scheme")
	}
	for scheme, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]float64{}
		for _, c := range regexp.MustCompile(`--([\w-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colours[c[1]] = luminance(t, c[2])
		}
		for _, pair := range []struct{ text, grounds string }{
			{"text", "ground card note-ground bad-ground"}, {"quiet", "ground card note-ground bad-ground"}, {"line", "card"},
			{"fine", "card"}, {"busy", "card"}, {"note", "card note-ground"}, {"bad", "card bad-ground"}, {"card", "bad"},
		} {
			for ground := range strings.FieldsSeq(pair.grounds) {
				a, b := colours[pair.text], colours[ground]
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", scheme, pair.text, ground, ratio)
				}
			}
		}
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Hundreds of streams that all are busy are no burden to fetch every few seconds.
func TestPageSize(t *testing.T) {
	c := counters{}
	for i := range 300 {
		c[fmt.Sprintf("widgets%d.example.com?namespace=team-%d", i, i)] = 0
	}
	site := NewSite(metrics.New("", "").Registry, nil, c.streams, func() About { return About{} })
	site.rates.begin()
	for range steps {
		for name := range c {
			c[name] += rand.Uint64N(1000)
		}
		site.rates.sample()
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if size := w.Body.Len(); size > 800<<10 {
		t.Errorf("the page of 300 streams has %d KiB", size>>10)
	} else {
		t.Logf("%d KiB", size>>10)
	}
}

// However many streams there are, the page is bounded, says what it leaves out, and
// leaves out what needs no attention.
func TestPageBound(t *testing.T) {
	var all []streams.Status
	for i := range 3 * maxRows {
		all = append(all, status(fmt.Sprintf("widgets%d.example.com", i), watcher.Watching))
	}
	all = append(all, status("z", watcher.Pending))
	text, _ := shown(t, About{}, nil, all...)
	rows := regexp.MustCompile(`<tr role="row" class="\w+" data-key="([^"]+)">`).FindAllStringSubmatch(text, -1)
	if len(rows) != maxRows || rows[0][1] != "z" {
		t.Errorf("%d rows, first %v; want %d", len(rows), rows[:1], maxRows)
	}
	if want := fmt.Sprintf("and %d more", 2*maxRows+1); !strings.Contains(text, want) {
		t.Errorf("the page does not say %q", want)
	}
	if got, want := headlined(t, text), fmt.Sprintf("1 of %d streams needs attention", 3*maxRows+1); got != want {
		t.Errorf("the page says %q, want %q", got, want)
	}
	if text, _ = shown(t, About{}, nil, all[:maxRows]...); strings.Contains(text, `id="left"`) {
		t.Error("the page leaves out what it shows")
	}
}
