package watcher_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
)

const (
	habitLasts    = 11 * time.Minute // longer than any watch
	habitRecovery = 20 * time.Minute
	habitLook     = 15 * time.Second
	// habitSettles is how long after a write a stream need not be exact, habitWrong how often it may be seen not to be
	// after that without a reason.
	habitSettles = 30 * time.Second
	habitWrong   = 8
	// habitMean is how many requests a stream may make per second, but for those of its start.
	habitMean  = 0.5
	habitStart = 20
)

// habitPhase is when a server has its habit.
type habitPhase string

// The phases.
const (
	fromTheStart  habitPhase = "first sync"
	whileFollowed habitPhase = "following"
	whileDown     habitPhase = "daemon killed"
	whenExpired   habitPhase = "410"
	everywhere    habitPhase = "all of them"
)

var habitPhases = []habitPhase{fromTheStart, whileFollowed, whileDown, whenExpired, everywhere}

// habitCell is a server with a habit, a daemon that reads it, and what the judge makes of it.
type habitCell struct {
	*harness
	row    habitRow
	phase  habitPhase
	habit  *fake.Habit
	judge  *judge
	judged int // that the judge has read
	said   int

	own     *judgedStream // that of the resource with the habit
	wrote   time.Time     // the last write
	looks   int           // after things had settled
	wrong   int           // of these, not exact
	shown   int           // of all looks, with a reason
	all     int
	unsaid  int // not exact, and no reason
	reasons map[string]bool
	differs string // the last difference without a reason
}

// scopes are the entries of the resource with the habit.
func (r habitRow) entry() config.Resource {
	e := entry("widgets.example.com")
	switch r.scope {
	case "namespace":
		e.Namespaces = []string{"default"}
	case "label":
		e.LabelSelector = "app=a"
	case "name":
		e.FieldSelector = "metadata.name=w1"
	}
	return e
}

// run returns what is wrong, one line for each check.
func (c *habitCell) run() []string {
	c.setUp()
	if c.phase != fromTheStart && c.phase != everywhere {
		c.start()
		if fault := c.eventually(); fault != "" {
			c.judge.fault(exactReplay, "without the habit: %s", fault)
			return c.verdict()
		}
		c.act(0)
	}
	began, requests := time.Now(), len(c.srv.Requests())
	switch c.phase {
	case fromTheStart:
		c.srv.SetHabit(widgets, c.habit)
		c.start()
	case whileFollowed:
		c.srv.SetHabit(widgets, c.habit)
	case whileDown:
		c.restart(func() { c.srv.SetHabit(widgets, c.habit) })
	case whenExpired:
		c.srv.SetHabit(widgets, c.habit)
		c.expire()
	case everywhere:
		c.srv.SetHabit(widgets, c.habit)
		c.start()
		c.pass(20 * time.Second)
		c.act(5)
		c.restart(func() {})
		c.pass(20 * time.Second)
		c.expire()
	}
	c.suffer(began)
	c.count(requests, time.Since(began))
	c.recover()
	return c.verdict()
}

func (c *habitCell) setUp() {
	c.judge, c.reasons = newJudge(), make(map[string]bool)
	habit := c.row.habit
	c.habit = &habit
	c.entries = append(entries("configmaps", "deployments.apps"), c.row.entry())
	c.srv.AddResource(widget("v1"))
	for i := range 4 {
		c.labelled("default", fmt.Sprint("w", i), "a")
	}
	c.labelled("default", "w4", "b")
	c.labelled("other", "w0", "a")
	c.labelled("other", "w1", "a")
	c.put(configMaps, "c0")
	c.put(deployments, "d0")
}

// labelled creates or changes an object of the resource with the habit.
func (c *habitCell) labelled(namespace, name, app string) {
	c.putIn(widgets, namespace, name, map[string]any{"app": app})
	c.wrote = time.Now()
}

// act makes one of each kind of change.
func (c *habitCell) act(n int) {
	exists := func(name string) bool {
		_, err := c.srv.Get(widgets, "default", name)
		return err == nil
	}
	drop := func(name string) {
		if exists(name) {
			c.remove(widgets, name)
			c.wrote = time.Now()
		}
	}
	c.labelled("default", "w0", "a")
	drop("w1")
	c.labelled("default", "w1", "a")
	c.breathe()
	if n%2 == 0 {
		drop("w2")
	} else {
		c.labelled("default", "w2", "a")
	}
	c.labelled("default", "w3", string("ba"[n%2])) // leaves the selection, and comes back
	c.breathe()
	c.labelled("default", fmt.Sprint("n", n), "a")
	c.labelled("other", "w1", "a")
	c.labelled("default", "w0", "a")
	c.breathe()
	drop(fmt.Sprint("n", n-1))
	c.put(configMaps, "c0")
	c.put(configMaps, fmt.Sprint("c", 1+n%2))
	c.put(deployments, "d0")
	c.breathe()
}

// breathe lets a second pass, unless no daemon runs.
func (c *habitCell) breathe() {
	if c.life != nil {
		c.pass(time.Second)
	}
}

// restart kills the daemon, and starts it after some changes.
func (c *habitCell) restart(meanwhile func()) {
	c.pass(5 * time.Second) // for all to be committed
	c.look()
	c.kill()
	c.act(1)
	meanwhile()
	c.act(2)
	c.start()
}

// expire has the next watch of the resource with the habit refused as too old.
func (c *habitCell) expire() {
	var struck atomic.Bool
	c.srv.SetFault(func(r fake.Request) *fake.Fault {
		watch := r.Resource == "widgets" && r.Verb == "watch" && r.Query.Get("resourceVersion") != ""
		if !watch || !struck.CompareAndSwap(false, true) {
			return nil
		}
		return &fake.Fault{Status: http.StatusGone, Stream: fake.Gone}
	})
	c.srv.EndWatches()
	c.act(3)
}

// suffer lets the habit last.
func (c *habitCell) suffer(began time.Time) {
	for n := 4; time.Since(began) < habitLasts && c.alive(); n++ {
		if n < 7 {
			c.act(n)
		}
		if n == 6 {
			c.srv.EndWatches()
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && c.alive(); {
			c.pass(habitLook)
			c.look()
		}
	}
	c.others()
}

func (c *habitCell) alive() bool {
	if len(c.life.ended) == 0 {
		return true
	}
	c.judge.fault(staysAlive, "it has ended")
	return false
}

// status is that of the stream with the habit.
func (c *habitCell) status() (st watcher.Status) {
	for _, s := range c.life.manager.Streams() {
		if s.Name == c.own.name {
			st = s.Status
		}
	}
	return st
}

// saysWhy reports whether a stream says that something is wrong. A watch that was silent is not, on a server that sends
// no bookmarks while nothing happens.
func saysWhy(s watcher.Status) bool { return s.Reason != "" && s.Reason != "Silent" }

// look has the judge read on, and takes note of how the streams stand.
func (c *habitCell) look() {
	states := c.life.manager.Streams()
	c.readOn()
	for _, s := range states {
		c.judge.at(s.Name, s.Position)
	}
	if c.own == nil {
		return
	}
	st := c.status()
	c.all++
	if saysWhy(st) {
		c.shown++
		c.reasons[st.Reason] = true
	}
	if time.Since(c.wrote) < habitSettles {
		return
	}
	c.looks++
	if differs := c.own.replay(); differs != "" {
		c.wrong++
		if !saysWhy(st) {
			c.unsaid++
			c.differs = differs
		}
	}
}

// readOn has the judge know what was written, said and told since. The lines are taken first: whatever wrote them is
// known to the daemon and the server by then.
func (c *habitCell) readOn() {
	lines := c.lines()
	for _, s := range c.life.manager.Streams() {
		if c.judge.streams[s.Name] == nil {
			stream := c.judge.watch(s.Name)
			if strings.HasPrefix(s.Name, "widgets") {
				c.own, stream.lies = stream, c.row.lies
			}
		}
	}
	for name, s := range c.judge.streams {
		resource, _, _ := strings.Cut(name, "?")
		s.wrote(c.srv.History(resourceOf(entry(resource)), s.version))
	}
	if c.own != nil {
		said := c.srv.Said(c.habit)
		c.own.heard(said[c.said:])
		c.said = len(said)
	}
	c.judge.read(lines[c.judged:])
	c.judged = len(lines)
}

// others has the judge look at the streams of resources without a habit.
func (c *habitCell) others() {
	for name, s := range c.judge.streams {
		if s == c.own {
			continue
		}
		if differs := s.replay(); differs != "" {
			c.judge.fault(othersGoOn, "%s: %s", name, differs)
		}
		if len(s.gaps) > 0 {
			c.judge.fault(othersGoOn, "%s: GAP %v", name, s.gaps)
		}
	}
}

// count judges the requests since the one with the number from.
func (c *habitCell) count(from int, lasted time.Duration) {
	n := make(map[string]int)
	for _, r := range c.srv.Requests()[from:] {
		n[r.Resource]++
	}
	for _, resource := range []string{"widgets", "configmaps", "deployments"} {
		if limit := habitMean*lasted.Seconds() + habitStart; float64(n[resource]) > limit {
			c.judge.fault(fewRequests, "%d for %s in %v", n[resource], resource, lasted)
		}
	}
}

// recover takes the habit away, and waits until all is well: at once, after further changes, and after a list.
func (c *habitCell) recover() {
	if !c.alive() {
		return
	}
	c.srv.SetHabit(widgets, nil)
	c.srv.SetFault(nil)
	steps := []func(){func() {}, func() { c.act(7) }, c.expire}
	for i, step := range steps {
		step()
		if c.row.undetectable != "" && i < len(steps)-1 {
			c.pass(time.Minute)
			c.readOn()
			continue
		}
		if fault := c.eventually(); fault != "" {
			c.judge.fault(exactReplay, "the habit is over, %d: %s", i, fault)
			return
		}
	}
	c.others()
}

// eventually waits until all streams watch, without a reason, and are exact. It returns what is not so.
func (c *habitCell) eventually() (fault string) {
	for end := time.Now().Add(habitRecovery); time.Now().Before(end) && c.alive(); {
		c.pass(2 * time.Second)
		looks := [...]int{c.looks, c.wrong, c.unsaid, c.shown, c.all} // these are about the habit
		c.look()
		c.looks, c.wrong, c.unsaid, c.shown, c.all = looks[0], looks[1], looks[2], looks[3], looks[4]
		if fault = c.well(); fault == "" {
			return ""
		}
	}
	return fault
}

func (c *habitCell) well() string {
	states := c.life.manager.Streams()
	if len(states) < len(c.entries) {
		return "a stream is missing"
	}
	unwell := func(s streams.Status) bool { return s.State != watcher.Watching || saysWhy(s.Status) }
	if i := slices.IndexFunc(states, unwell); i >= 0 {
		return fmt.Sprintf("%s is %s %s", states[i].Name, states[i].State, states[i].Reason)
	}
	for name, s := range c.judge.streams {
		if differs := s.replay(); differs != "" {
			return name + ": " + differs
		}
	}
	return ""
}

// verdict returns what is wrong, the first fault of each check.
func (c *habitCell) verdict() []string {
	switch {
	case c.row.undetectable != "":
	case c.row.must == exact && c.wrong > habitWrong:
		c.judge.fault(exactReplay, "in %d of %d looks: %s; reasons %v", c.wrong, c.looks, c.differs, c.reasons)
	case c.row.must == refused && c.shown < c.all/2:
		c.judge.fault(reasonShown, "in %d of %d looks only; reasons %v", c.shown, c.all, c.reasons)
	case c.unsaid > habitWrong && 2*c.unsaid > c.wrong:
		c.judge.fault(reasonShown, "%d of %d looks not exact, %d of them without a reason: %s; reasons %v",
			c.wrong, c.looks, c.unsaid, c.differs, c.reasons)
	}
	var faults []string
	seen := make(map[string]int)
	for _, f := range c.judge.faults {
		if seen[f.check]++; seen[f.check] == 1 && !slices.Contains(c.row.waived, f.check) {
			faults = append(faults, f.check+": "+f.text)
		}
	}
	return faults
}
