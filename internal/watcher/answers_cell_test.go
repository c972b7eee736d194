package watcher_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

const (
	// silenceLimit is how long a stream may neither continue nor show a reason.
	silenceLimit = 15 * time.Minute
	// recoveryLimit is how long a stream may need once the server is well: a Retry-After is 5 minutes at most, and a
	// watch that hangs is given up 11 minutes after its beginning.
	recoveryLimit = 30 * time.Minute
	// busyTime is how long there is a write every two seconds. Then there is one a minute, and after a while one every
	// five minutes: writes are what a cell costs.
	busyTime  = 20 * time.Second
	briskTime = 5 * time.Minute
)

// cell is one request that is answered in one way.
type cell struct {
	*harness
	row     row
	answer  *answer
	proxy   *badProxy
	other   *fake.Server // another cluster, where the answer is its
	outcome string

	streams                []*observed // that the fault strikes
	untouched              []*observed
	toldLines, ackedWrites int
	told, acked            map[string]map[string]string // version by uid, by stream
	versions               map[string]bool              // stream/uid/version that the server has made
	deleted                map[string]bool              // stream/uid
	gaps                   []string                     // reasons of GAP lines since the fault began
	broken                 bool                         // no need to look further
}

// observed is a stream that is looked at.
type observed struct {
	name    string
	well    time.Time      // when it last went on or showed a reason
	lines   int            // told
	reasons map[string]int // shown, by how often they were seen
	last    string
	shownAt time.Time
}

func (c *cell) fail(format string, args ...any) {
	c.t.Helper()
	c.broken = true
	c.t.Errorf("CELL %s/%s: "+format, append([]any{c.row.name, c.answer.name}, args...)...)
}

// run gives the answer so often; -1 is all the time.
func (c *cell) run(times int) {
	c.setUp()
	defer c.proxy.close()
	if c.other != nil {
		defer c.other.Close()
	}
	lasts := 2 * time.Minute
	if times < 0 {
		lasts = *answersTime
		if c.answer.lasts > 0 {
			lasts = c.answer.lasts
		}
	}
	began := time.Now()
	requests := c.row.requests
	if c.answer.class == foreign {
		requests = append(slices.Clone(requests), askIdentity)
	}
	c.proxy.tamper(c.answer, times, requests...)
	c.provoke(true)
	c.suffer(lasts, times < 0)
	if times < 0 {
		c.judge(time.Since(began))
	}
	if n := c.proxy.answers(); n == 0 {
		c.fail("the request was not made")
	}
	c.proxy.repair()
	c.recover()
}

// setUp has streams at work.
func (c *cell) setUp() {
	c.proxy = newBadProxy()
	c.wrap = c.proxy.through
	c.told, c.acked = make(map[string]map[string]string), make(map[string]map[string]string)
	c.versions, c.deleted = make(map[string]bool), make(map[string]bool)
	c.interrupted = true
	started, all := entries("configmaps", "deployments.apps"), entries("configmaps", "deployments.apps")
	struck := []string{"configmaps"}
	switch {
	case c.row.firstSync:
		all, struck = entries("configmaps", "deployments.apps", "secrets"), append(struck, "secrets")
	case c.row.name == "discovery":
		all = entries("configmaps", "deployments.apps", "widgets.example.com")
		started, struck = all, []string{"widgets.example.com"}
	}
	for _, name := range struck {
		c.streams = append(c.streams, &observed{name: name, reasons: make(map[string]int)})
	}
	if !c.row.everyStream && c.answer.class != foreign {
		c.untouched = append(c.untouched, &observed{name: "deployments.apps"})
		if c.row.name == "discovery" {
			c.untouched = append(c.untouched, &observed{name: "configmaps"})
		}
	}
	if c.answer.class == foreign {
		c.foreign()
	}
	if slices.Contains(c.row.requests, askWhole) && !slices.Contains(c.row.requests, askLater) {
		c.srv.SetFault(func(r fake.Request) *fake.Fault {
			if r.Query.Get("continue") != "" {
				return statusFault(http.StatusGone)
			}
			return nil
		})
	}
	c.entries = all // what is written to them is noted
	for i := range 5 {
		c.put(configMaps, fmt.Sprint("o", i))
		c.put(secrets, fmt.Sprint("s", i))
	}
	c.put(deployments, "d")
	c.entries = started
	c.start()
	c.await("the streams watch", func() bool {
		return !slices.ContainsFunc(c.life.manager.Streams(), func(s streams.Status) bool {
			return s.State != watcher.Watching && s.Name != "widgets.example.com"
		})
	})
	c.entries = all
	if c.row.streamsAgain {
		c.srv.SetWatchList(true)
	}
	c.put(secrets, "s0") // for a bookmark to tell of
	c.pass(70 * time.Second)
}

// foreign sets another cluster up.
func (c *cell) foreign() {
	c.other = fake.New(fake.Options{InMemory: true, BookmarkInterval: time.Minute, NoWatchList: c.row.server.NoWatchList, ClusterUID: foreignUID})
	n := 3
	if strings.HasSuffix(c.answer.name, "ahead") {
		n = 300
	}
	for i := range n {
		c.writeElsewhere(i)
	}
	transport := c.other.Config().Transport
	c.answer.cluster = func() http.RoundTripper { return transport }
}

func (c *cell) writeElsewhere(i int) {
	for _, gvr := range []schema.GroupVersionResource{configMaps, secrets} {
		o := map[string]any{"metadata": map[string]any{"name": fmt.Sprint("o", i%7), "namespace": "default"}, "data": map[string]any{"n": fmt.Sprint(i)}}
		if _, err := c.other.Update(gvr, o); err != nil {
			_, err = c.other.Create(gvr, o)
			must(c.t, err)
		}
	}
}

// provoke has the daemon make the row's requests.
func (c *cell) provoke(begin bool) {
	switch {
	case c.row.name == "discovery":
		if begin {
			c.srv.AddResource(widget("v1"))
			c.put(widgets, "w")
		}
	case c.row.relist:
		c.srv.SilenceWatches()
		c.put(configMaps, "o0")
		c.put(configMaps, "o1")
		c.remove(configMaps, "o1")
		c.put(configMaps, "new")
		c.srv.RestartAPIServer()
		if begin && c.row.firstSync {
			c.mustApply(c.entries, nil)
		}
	default:
		c.srv.EndWatches()
	}
}

// suffer lets time pass while there is something wrong. Writes continue.
func (c *cell) suffer(lasts time.Duration, always bool) {
	began := time.Now()
	for _, s := range c.streams {
		s.well = began
	}
	for n := 0; !c.broken; n++ {
		passed := time.Since(began)
		if passed >= lasts {
			return
		}
		step, look := 5*time.Minute, 10*time.Second
		switch {
		case passed < busyTime:
			step, look = 2*time.Second, time.Second
		case passed < briskTime:
			step, look = time.Minute, 4*time.Second
		}
		c.write(n)
		for end := time.Now().Add(min(step, lasts-passed)); time.Now().Before(end) && !c.broken; {
			c.pass(min(look, time.Until(end)))
			c.look(step >= time.Minute && !time.Now().Before(end))
		}
		if always && passed > busyTime && (!c.row.relist || n%4 == 0) {
			c.provoke(false)
		}
		if n := c.proxy.count(isFor("configmaps")); always && float64(n) > answersMean*max(lasts, time.Minute).Seconds() {
			c.fail("%d requests in %v", n, time.Since(began))
		}
	}
}

func isFor(resource string) func(arrival) bool {
	return func(a arrival) bool { return a.resource == resource }
}

func (c *cell) write(n int) {
	name := fmt.Sprint("o", 2+n%3)
	if n%11 == 10 {
		c.remove(configMaps, name)
	}
	c.put(configMaps, name)
	if n%3 == 0 {
		c.put(secrets, fmt.Sprint("s", n%5))
	}
	if n%5 == 0 {
		c.put(deployments, "d")
		if c.other != nil {
			c.writeElsewhere(n)
		}
	}
}

// look takes note of how the streams stand. settled says that all that was written should have been told.
func (c *cell) look(settled bool) {
	now := time.Now()
	if settled {
		c.readLines()
	}
	if len(c.life.ended) > 0 {
		if c.answer.class != foreign {
			c.fail("the daemon has ended")
		}
		return
	}
	states := make(map[string]watcher.Status)
	for _, s := range c.life.manager.Streams() {
		states[s.Name] = s.Status
	}
	for _, s := range c.streams {
		st := states[s.name]
		if n := int(st.Lines); n != s.lines {
			s.lines, s.well = n, now
		}
		if st.Reason != "" {
			s.reasons[st.Reason]++
			s.well, s.shownAt, s.last = now, now, st.Reason
		}
		if settled && c.current(s.name) {
			s.well = now
		}
		if quiet := now.Sub(s.well); quiet > silenceLimit {
			c.fail("%s: for %v there is no progress and no reason, it is %q %q", s.name, quiet, st.State, st.Reason)
		}
	}
}

// current reports whether all that was written to a stream's resource has been told.
func (c *cell) current(stream string) bool { return maps.Equal(c.told[stream], c.acked[stream]) }

// readLines takes the journal's new lines, and refuses those that tell what the server has never said.
func (c *cell) readLines() {
	for _, w := range c.writes[c.ackedWrites:] {
		is := c.acked[w.Stream]
		if is == nil {
			is = make(map[string]string)
			c.acked[w.Stream] = is
		}
		if w.Type == invariant.Deleted {
			delete(is, w.UID)
			c.deleted[w.Stream+"/"+w.UID] = true
			continue
		}
		is[w.UID] = w.ResourceVersion
		c.versions[w.Stream+"/"+w.UID+"/"+w.ResourceVersion] = true
	}
	c.ackedWrites = len(c.writes)
	lines := c.lines()
	for _, l := range lines[c.toldLines:] {
		is := c.told[l.Stream]
		if is == nil {
			is = make(map[string]string)
			c.told[l.Stream] = is
		}
		switch l.Type {
		case invariant.Gap:
			if l.Stream == c.streams[0].name {
				c.gaps = append(c.gaps, l.Reason)
			}
		case invariant.Deleted:
			delete(is, l.UID)
			if !c.broken && !c.deleted[l.Stream+"/"+l.UID] {
				c.fail("wrong line: %s %s %s, which is there", brief(l), l.UID, l.ResourceVersion)
			}
		case invariant.Added, invariant.Modified:
			is[l.UID] = l.ResourceVersion
			if !c.broken && (l.Name == "" || !c.versions[l.Stream+"/"+l.UID+"/"+l.ResourceVersion]) {
				c.fail("wrong line: %s %s %s, which the server never had", brief(l), l.UID, l.ResourceVersion)
			}
		}
	}
	c.toldLines = len(lines)
}

// judge compares what has become of the streams with what must.
func (c *cell) judge(lasted time.Duration) {
	c.readLines()
	if c.broken {
		return
	}
	want := c.row.expects(c.answer)
	var outcomes []string
	if len(c.life.ended) > 0 {
		if c.outcome = ends.String(); want&ends == 0 {
			c.fail("the daemon has ended, but must %s", want)
		}
		return
	}
	if c.answer.lasts == 0 {
		if n := c.proxy.count(isFor("configmaps")); float64(n) > answersMean*lasted.Seconds() {
			c.fail("%d requests in %v", n, lasted)
		}
	}
	for _, s := range c.streams {
		is, what := c.became(s)
		// A stream that relists every few minutes may not have come to the last write yet.
		for end := time.Now().Add(silenceLimit); is&want == 0 && c.answer.lasts == 0 && time.Now().Before(end) && !c.broken; {
			c.pass(10 * time.Second)
			c.look(true)
			is, what = c.became(s)
		}
		if is&want == 0 {
			c.fail("%s %s, but must %s; GAPs %v, reasons %v", s.name, what, want, c.gaps, s.reasons)
		}
		outcomes = append(outcomes, what)
	}
	for _, s := range c.untouched {
		if !c.current(s.name) {
			c.fail("%s, which is not concerned, is behind", s.name)
		}
	}
	slices.Sort(outcomes)
	c.outcome = strings.Join(slices.Compact(outcomes), ", ")
}

// became is what has become of a stream.
func (c *cell) became(s *observed) (want, string) {
	expected := func(reason string) bool {
		return c.row.relist && (reason == "Expired" || reason == "RelistInterrupted")
	}
	switch {
	case !c.current(s.name) && time.Since(s.shownAt) > silenceLimit && c.answer.lasts == 0:
		return proceeds, "is behind"
	case !c.current(s.name):
		if s.last == "" && c.answer.lasts > 0 {
			return explains, "waits"
		}
		if s.last == "" {
			return 0, "shows nothing"
		}
		why := c.answer.why
		if c.row.why != "" {
			why = c.row.why
		}
		if why != "" && !c.row.anyReason && !slices.Contains(strings.Split(why, "|"), s.last) {
			return 0, fmt.Sprintf("explains %s in place of %s", s.last, why)
		}
		return explains, "explains " + s.last
	case slices.ContainsFunc(c.gaps, func(reason string) bool { return !expected(reason) }):
		return relists, "relists " + c.gaps[len(c.gaps)-1]
	case c.elsewhere():
		return switches, "switches"
	}
	return proceeds, "proceeds"
}

// elsewhere reports whether a list of another form was asked for.
func (c *cell) elsewhere() bool {
	return c.proxy.count(func(a arrival) bool { return slices.Contains(c.row.other, a.kind) && a.resource == "configmaps" }) > 0
}

// recover waits until all streams are well, and looks at the journal.
func (c *cell) recover() {
	if c.answer.class == foreign && len(c.life.ended) > 0 {
		c.startAgain()
	}
	if !c.eventually(c.recovered) {
		return
	}
	c.put(configMaps, "last")
	if !c.eventually(func() error { return errors.Join(c.recovered(), c.compare()) }) {
		return
	}
	lines := c.lines()
	err := errors.Join(invariant.Sequence(lines, 1), invariant.Shape(lines), invariant.Objects(lines))
	if !c.answer.opaque {
		err = errors.Join(err, invariant.Streams(lines, true), invariant.Unique(lines), invariant.Writes(lines, c.writes))
	}
	if err != nil {
		c.fail("journal: %v", err)
	}
}

// startAgain starts a daemon that another cluster has ended.
func (c *cell) startAgain() {
	err := c.ended()
	if other := new(client.ClusterError); !errors.As(err, &other) || other.Want != clusterUID || other.Got != foreignUID {
		c.fail("the daemon has ended: %v", err)
	}
	c.start()
}

// eventually reports whether check has no fault to find within recoveryLimit.
func (c *cell) eventually(check func() error) bool {
	for end := time.Now().Add(recoveryLimit); ; {
		c.pass(5 * time.Second)
		c.readLines()
		err := check()
		if err == nil {
			return true
		}
		if time.Now().After(end) {
			c.fail("not well %v after the end of it: %v", recoveryLimit, err)
			return false
		}
	}
}

func (c *cell) recovered() error {
	if len(c.life.ended) > 0 {
		return errors.New("the daemon has ended")
	}
	for _, s := range c.life.manager.Streams() {
		if s.State != watcher.Watching {
			return fmt.Errorf("%s is %s %s", s.Name, s.State, s.Reason)
		}
	}
	for name := range c.acked {
		if !c.current(name) {
			return fmt.Errorf("the journal of %s does not come to what the server has: %v", name, c.compare())
		}
	}
	return nil
}
