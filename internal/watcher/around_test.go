package watcher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/kubefake"
	"kubejournal/test/invariant"
)

const unreadable = "ObjectUnreadable"

// aroundWaits is for a list that fails: longer than the pause before the next, and than a stream waits before it looks why
// no watch can be had.
const aroundWaits = 12 * time.Minute

// One object that the server cannot read hides nothing but itself.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		objects []string // beside those, as namespace/name
		bad     string
		named   string // in the status
		more    int    // objects in the namespace many
		around  int    // requests, at most, of the first list
		again   int    // and of the next
	}{
		"first":            {bad: "default/a-1", named: "default/a-1", around: 70, again: 25},
		"last":             {bad: "zoo/zz", named: "zoo/zz", around: 70, again: 25},
		"between":          {bad: "default/mid-5", named: "default/mid-5", around: 80, again: 25},
		"in later pages":   {bad: "many/x0520-y", more: 530, named: "many/x0520-y", around: 110, again: 30},
		"unusual name":     {bad: "default/B:x_1", named: "default/B:x_1", around: 80, again: 25},
		"letter not found": {bad: "default/m\u00e9", named: "from default/before to default/n", around: 40, again: 40},
	} {
		for _, phase := range []habitPhase{fromTheStart, whileFollowed, whileDown, whenExpired} {
			t.Run(name+"/"+string(phase), func(t *testing.T) {
				bubble(t, kubefake.Options{}, entries("widgets.example.com"), func(w *harness) {
					w.srv.AddResource(widget("v1"))
					for _, o := range []string{"default/before", "default/z", "other/a", "zoo/a"} {
						namespace, name, _ := strings.Cut(o, "/")
						w.putIn(widgets, namespace, name, nil)
					}
					for i := range c.more {
						w.putIn(widgets, "many", fmt.Sprintf("x%04d", i), nil)
					}
					namespace, name, _ := strings.Cut(c.bad, "/")
					h := &kubefake.Habit{Unreadable: name}
					spoil := func() {
						w.srv.SetHabit(widgets, h)
						w.putIn(widgets, namespace, name, nil)
					}
					if phase != fromTheStart {
						w.start()
						w.synced()
					}
					switch phase {
					case fromTheStart:
						spoil()
						w.start()
					case whileFollowed:
						w.srv.EndWatches()
						spoil()
					case whileDown:
						w.kill()
						spoil()
						w.start()
					case whenExpired:
						w.srv.StopAPIServer()
						spoil()
						must(t, w.srv.StartAPIServer())
					}
					status := func() (s struct{ reason, named string }) {
						is := w.state("widgets.example.com")
						s.reason, s.named = is.Reason, is.Unreadable
						return s
					}
					w.awaitFor(aroundWaits, "it says why", func() bool { return status().reason == unreadable })
					if got := status().named; got != c.named {
						t.Errorf("named %q, want %q", got, c.named)
					}
					w.putIn(widgets, "other", "new", nil)
					w.putIn(widgets, "zoo", "a", nil)
					gone, err := w.srv.Delete(widgets, "other", "a")
					must(t, err)
					w.acknowledged(widgets, "DELETED", gone)
					told := func(typ, name string) bool {
						return slices.ContainsFunc(w.lines(), func(l invariant.Line) bool { return l.Type == typ && l.Namespace+"/"+l.Name == name })
					}
					n := len(w.srv.Requests())
					w.awaitFor(aroundWaits, "the others have lines", func() bool {
						return told("ADDED", "other/new") && told("DELETED", "other/a") && told("MODIFIED", "zoo/a")
					})
					if got := len(w.requests(n, "widgets", "list")); got > c.again+(c.more+499)/500 {
						t.Errorf("%d requests for the next list", got)
					}
					if told("ADDED", c.bad) || told("DELETED", c.bad) {
						t.Error("a line about the object that cannot be read")
					}
					// What is in a hole has not gone.
					if told("DELETED", "default/z") || told("DELETED", "default/before") {
						t.Error("a deletion of what is there")
					}
					n = len(w.srv.Requests())
					if w.pass(time.Minute); c.more == 0 && phase == fromTheStart {
						w.pass(time.Hour)
					}
					if got := len(w.srv.Requests()) - n; got > 60*c.again {
						t.Errorf("%d requests in an hour", got)
					}
					w.srv.SetHabit(widgets, nil)
					w.interrupted = true
					w.awaitFor(aroundWaits, "it watches", w.watching)
					w.check()
					if got := status(); got.reason != "" || got.named != "" {
						t.Errorf("still %v", got)
					}
				})
			})
		}
	}
}

// An object that the server cannot read hides nothing that is between it and one that was found before.
func TestSeveralUnreadable(t *testing.T) {
	for name, c := range map[string]struct{ bad, later, between []string }{
		"before it": {bad: []string{"z/bad"}, later: []string{"p/bad"}, between: []string{"p/c", "q/new", "y/a"}},
		"after it":  {bad: []string{"p/bad"}, later: []string{"z/bad"}, between: []string{"p/c", "q/new", "y/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, kubefake.Options{}, entries("widgets.example.com"), func(w *harness) {
				w.srv.AddResource(widget("v1"))
				put := func(all []string) {
					for _, o := range all {
						namespace, name, _ := strings.Cut(o, "/")
						w.putIn(widgets, namespace, name, nil)
					}
				}
				put([]string{"default/first", "zz/last"})
				w.srv.SetHabit(widgets, &kubefake.Habit{Unreadable: "bad"})
				put(c.bad)
				w.start()
				w.awaitFor(aroundWaits, "it says why", func() bool { return w.state("widgets.example.com").Reason == unreadable })
				put(c.later)
				put(c.between)
				told := func(o string) bool {
					return slices.ContainsFunc(w.lines(), func(l invariant.Line) bool { return l.Type == "ADDED" && l.Namespace+"/"+l.Name == o })
				}
				for _, o := range c.between {
					w.awaitFor(aroundWaits, "a line about "+o, func() bool { return told(o) })
				}
				for _, o := range slices.Concat(c.bad, c.later) {
					if named := w.state("widgets.example.com").Unreadable; told(o) || !strings.Contains(named, o) {
						t.Errorf("%s: a line: %t; named are %s", o, told(o), named)
					}
				}
				w.srv.SetHabit(widgets, nil)
				w.interrupted = true
				w.awaitFor(aroundWaits, "it watches", w.watching)
				w.check()
			})
		})
	}
}
