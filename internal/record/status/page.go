package status

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"kubejournal/internal/format/line"
	"kubejournal/internal/host/look"
	"kubejournal/internal/host/terminal"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	ownCSS string
	//go:embed page.js
	pageJS string

	pageCSS = look.CSS + ownCSS

	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"ago": ago, "age": Age, "exact": exact, "bytes": terminal.Bytes[uint64],
		"css":     func() template.CSS { return template.CSS(pageCSS) }, //nolint:gosec // our own file
		"js":      func() template.JS { return template.JS(pageJS) },    //nolint:gosec // our own file
		"edition": func() string { return pageEdition },
		"refresh": func() int { return int(refresh / time.Second) },
	}).Parse(pageHTML))

	// pageEdition changes when the daemon serves another page, so that an open one reloads itself.
	pageEdition = look.Digest(pageHTML + pageCSS + pageJS)

	// pagePolicy lets the page be what is sent with it and ask for itself again, and nothing else. data: is for the
	// icon.
	pagePolicy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; img-src data:; "+
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", look.Digest(pageCSS),
		look.Digest(pageJS))
)

const (
	refresh   = 3 * time.Second // how often the page asks for itself again
	maxRows   = 500             // of the page, which each viewer fetches every few seconds; /streams has all
	gapIsNews = time.Hour       // how long a gap is worth attention

	chartHeight = 32 // where a step is 1 wide
)

// level is how much attention something needs.
type level int

const (
	fine level = iota
	busy       // on its way, by itself
	note       // it is over, and somebody should know
	bad
)

// String is the name that the style sheet has for a level.
func (l level) String() string { return [...]string{"fine", "busy", "note", "bad"}[l] }

// page is what the template shows.
type page struct {
	About
	Now             time.Time
	Level           level
	Title, Headline string
	Cause           string // of an outage of the API server
	Detail          string // what the streams need attention for
	Alerts          []string
	Rows            []row // those that need attention come first
	Left            int   // rows that are left out
	Checks          []CheckResult
	Chart           chart
	Scale           string // of all streams' charts: the lines per second at their top
	Behind          uint64 // lines that are written and not committed
}

// row is one stream.
type row struct {
	streams.Status
	key             string // its name as it is
	Resource, Scope string // the two parts of its name
	Level           level
	Why             string // it is at that level
	trouble         string // the same in a word; "" where no attention is needed
	NewGap          bool
	Chart           chart
}

func (s *Site) page(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, s.look(time.Now())); err != nil {
		http.Error(w, "render page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(b.Bytes()) // the client went away: nobody to report to
}

// look collects what there is to see.
func (s *Site) look(now time.Time) page {
	p := page{About: s.view.Load().about(), Now: now}
	p.Behind = p.Progress.Written - p.Progress.Committed
	attend := p.addStreams(s.rates.streams())
	if !p.Outage.Since.IsZero() {
		p.Level, p.Cause = bad, printable(p.Outage.Error)
		p.Headline = strings.TrimSuffix(p.Outage.Headline(now)+". "+p.Headline, ". ")
		attend++
	}
	p.addCharts(s.rates.read())
	checks, _ := s.runChecks()
	p.addChecks(checks)
	if p.Reload.Fault = printable(p.Reload.Fault); p.Reload.Fault != "" {
		p.Alerts = append(p.Alerts, fmt.Sprintf("The config edited %s is not in effect, the one from before runs: %s",
			ago(now, p.Reload.At), p.Reload.Fault))
	}
	if len(p.Alerts) > 0 {
		p.Level = bad
	}
	p.Title = strings.TrimSpace("kubejournal " + p.Cluster)
	if n := attend + len(p.Alerts); n > 0 {
		p.Title = fmt.Sprintf("(%d) %s", n, p.Title)
	}
	return p
}

// addStreams adds a row for each stream and sums them up. It returns how many need attention.
func (p *page) addStreams(all []streams.Status) (attend int) {
	moving, troubles := 0, make(map[string]int)
	for _, status := range all {
		r := newRow(status, p.Now)
		switch {
		case r.trouble != "":
			attend++
			troubles[r.trouble]++
		case r.Level == busy:
			moving++
		}
		p.Level = max(p.Level, r.Level)
		p.Rows = append(p.Rows, r)
	}
	slices.SortStableFunc(p.Rows, func(a, b row) int { return cmp.Compare(b.Level, a.Level) })
	if p.Outage.Since.IsZero() || attend > 0 {
		p.Headline = headline(len(p.Rows), attend, moving)
	}
	for _, trouble := range slices.Sorted(maps.Keys(troubles)) {
		p.Detail = strings.TrimPrefix(fmt.Sprintf("%s, %d %s", p.Detail, troubles[trouble], trouble), ", ")
	}
	p.Left = max(0, len(p.Rows)-maxRows)
	p.Rows = p.Rows[:len(p.Rows)-p.Left]
	return attend
}

// addCharts draws what all streams together have written, and each by itself. Those of the streams have one scale, so
// that they can be compared.
func (p *page) addCharts(all series, of map[string]series) {
	p.Chart = draw(all, all.peak())
	top := uint32(0)
	for _, r := range p.Rows {
		top = max(top, of[r.key].peak())
	}
	if top > 0 {
		p.Scale = perSecond(float64(top) / step.Seconds())
	}
	for i := range p.Rows {
		p.Rows[i].Chart = draw(of[p.Rows[i].key], top)
	}
}

// addChecks adds what readiness is made of, and an alert for each part that fails.
func (p *page) addChecks(all []CheckResult) {
	p.Checks = all
	var failed []string
	for i := range p.Checks {
		c := &p.Checks[i]
		c.Text = printable(c.Text)
		if !c.OK {
			failed = append(failed, c.Name)
		}
		switch {
		case c.Name == ServerCheck && p.Cause != "":
			c.Text = "unreachable, see above"
		case !c.OK:
			p.Alerts = append(p.Alerts, fmt.Sprintf("Not ready: %s: %s", c.Name, c.Text))
		}
	}
	if len(failed) > 0 {
		p.Headline = "Not ready (" + strings.Join(failed, ", ") + "). " + p.Headline
	}
}

// headline sums the streams up in words.
func headline(all, attend, moving int) string {
	of := fmt.Sprintf("of %d %s", all, plural(all, "stream", "streams"))
	switch {
	case all == 0:
		return "No stream yet"
	case attend > 0:
		return fmt.Sprintf("%d %s %s attention", attend, of, plural(attend, "needs", "need"))
	case moving > 0:
		return fmt.Sprintf("%d %s %s not watch yet", moving, of, plural(moving, "does", "do"))
	case all == 1:
		return "The one stream watches"
	}
	return fmt.Sprintf("All %d streams watch", all)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// meanings are those of the reasons for which a stream waits or tries again; the others speak for themselves.
var meanings = map[string]string{
	"NotFound":         "the server does not have it",
	"Forbidden":        "this identity may not list or watch it",
	"NotWatchable":     "the server does not let anybody watch it",
	"MethodNotAllowed": "the server does not let anybody watch it",
	"Ambiguous":        "more than one resource has this name",
	"TooMany":          "the wildcard covers more than is followed",
	"ConfigFault":      "the entry in the config is at fault",
	"Undiscovered":     "its API group does not answer",
	"ObjectUnreadable": "the server cannot list some of its objects",
}

func newRow(s streams.Status, now time.Time) row {
	r := row{key: s.Name}
	s.Name, s.Reason = printable(s.Name), printable(s.Reason)
	r.Status = s
	name := line.ParseStreamName(s.Name)
	r.Resource, r.Scope = name.Resource, name.Scope()
	// Where nothing had changed it is shown, and no more: a quiet stream of Events, which get no bookmarks, has such
	// gaps as long as it is quiet.
	r.NewGap = s.Missed > 0 && now.Sub(s.LastGap) < gapIsNews
	failing := s.State != watcher.Watching && !s.Failing.IsZero()
	r.Why = strings.TrimSuffix(s.Reason+": "+meanings[s.Reason], ": ")
	switch {
	case s.Unreachable:
		r.Level, r.Why, failing = busy, "", false // the cause is said above
	case s.AwaitsCRD():
		r.Level, r.Why = busy, AwaitsCRD
	case s.State == watcher.Pending:
		r.Level, r.trouble = bad, "pending"
	case s.State == watcher.Retrying, failing:
		r.Level, r.trouble = bad, "failing"
	case s.State == watcher.Watching && s.Stalled(now) != "":
		r.Level, r.trouble, r.Why = bad, "silent", s.Stalled(now)
	case r.NewGap:
		r.Level, r.trouble, r.Why = note, "with a gap in the last hour", "gap in the last hour"
	case s.State != watcher.Watching:
		r.Level = busy
	}
	if s.Unreadable != "" {
		r.Why += ": " + printable(s.Unreadable)
	}
	if s.Near != "" {
		r.Why += ", did you mean " + printable(s.Near) + "?"
	}
	if failing {
		r.Why = strings.TrimPrefix(r.Why+", failing for "+Age(now, s.Failing), ", ")
	}
	return r
}

// AwaitsCRD is why a custom resource is pending that the server does not have.
const AwaitsCRD = "waits for its CRD"

// Waits reports whether it is worth showing since when the state lasts.
func (r row) Waits() bool { return r.State != watcher.Watching && !r.Since.IsZero() }

// printable keeps what others have sent from hiding, or from turning the text around it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Age is a duration as kubectl shows it: with two units at most.
func Age(now, at time.Time) string {
	d := max(now.Sub(at), 0).Round(time.Second)
	switch {
	case d < time.Hour:
		return d.String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

func ago(now, at time.Time) string { return Age(now, at) + " ago" }
func exact(t time.Time) string     { return t.UTC().Format(time.RFC3339) }

// perSecond is lines per second for people.
func perSecond(rate float64) string {
	switch {
	case rate > 0 && rate < 0.1:
		return "<0.1"
	case rate > 0 && rate < 10:
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// chart is a series as a picture of steps, on a scale from 0.
type chart struct {
	Rate, Peak string // lines per second; Rate is "" where it is not known yet
	Known      bool
	From       int    // where what is known begins, from the left
	Path       string // of the area
}

func (chart) Width() int  { return steps }
func (chart) Height() int { return chartHeight }

// draw draws a series on a scale whose top is at least its peak.
func draw(s series, top uint32) chart {
	c := chart{Known: len(s) > 0, From: steps - len(s), Peak: perSecond(float64(s.peak()) / step.Seconds())}
	if rate, ok := s.rate(); ok {
		c.Rate = perSecond(rate)
	}
	var path []byte
	for i, n := range s {
		if n == 0 {
			continue
		}
		if i == 0 || s[i-1] == 0 {
			path = fmt.Appendf(path, "M%d 32", c.From+i)
		}
		high := max(2, uint64(n)*(chartHeight-2)/uint64(top)) // so that few lines are to be seen too
		path = fmt.Appendf(path, "V%dh1", chartHeight-high)
		if i == len(s)-1 || s[i+1] == 0 {
			path = append(path, "V32z"...)
		}
	}
	c.Path = string(path)
	return c
}
