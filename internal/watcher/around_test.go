package watcher_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

const unreadable = "ObjectUnreadable"

// aroundWaits is for a list that fails: longer than the pause before the next, and than a stream waits before it looks why
// no watch can be had.
const aroundWaits = 12 * time.Minute

// One object that the server cannot read hides nothing but itself.
func TestUnreadable(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, c := range map[string]struct {
		objects []string // beside those, as namespace/name
		bad     string
		named   string // in the status
		more    int    // objects in the namespace many
		around  int    // requests, at most, of the first list
		again   int    // and of the next
	}{
		"first":            {bad: "default/a-1", named: "default/a-1 and perhaps others before it", around: 70, again: 80},
		"last":             {bad: "zoo/zz", named: "zoo/zz", around: 70, again: 25},
		"between":          {bad: "default/mid-5", named: "default/mid-5", around: 80, again: 25},
		"in later pages":   {bad: "many/x0520-y", more: 530, named: "many/x0520-y", around: 110, again: 30},
		"unusual name":     {bad: "default/B:x_1", named: "default/B:x_1 and perhaps others before it", around: 80, again: 80},
		"letter not found": {bad: "default/m\u00e9", named: "from default/before to default/n", around: 40, again: 40},
	} {
		for _, phase := range []habitPhase{fromTheStart, whileFollowed, whileDown, whenExpired} {
			t.Run(name+"/"+string(phase), func(t *testing.T) {
				bubble(t, fake.Options{}, entries("widgets.example.com"), func(w *harness) {
					w.srv.AddResource(widget("v1"))
					for _, o := range []string{"default/before", "default/z", "other/a", "zoo/a"} {
						namespace, name, _ := strings.Cut(o, "/")
						w.putIn(widgets, namespace, name, nil)
					}
					for i := range c.more {
						w.putIn(widgets, "many", fmt.Sprintf("x%04d", i), nil)
					}
					namespace, name, _ := strings.Cut(c.bad, "/")
					h := &fake.Habit{Unreadable: name}
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
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, c := range map[string]struct {
		known, bad, later, between []string
		named                      string // in the end, where that is known of all
	}{
		"before it":  {bad: []string{"z/bad"}, later: []string{"p/bad"}, between: []string{"p/c", "q/new", "y/a"}, named: "p/bad, z/bad"},
		"after it":   {bad: []string{"p/bad"}, later: []string{"z/bad"}, between: []string{"p/c", "q/new", "y/a"}},
		"neighbours": {bad: []string{"p/bad", "z/bad"}, between: []string{"p/c", "q/new", "q/x"}},
		"neighbours in a namespace": {
			known: []string{"p/a"}, bad: []string{"p/bad", "q/bad"}, between: []string{"p/c", "p/xa", "p/z"},
		},
		"in namespaces that begin alike": {
			bad: []string{"shop-a/bad", "shop-k/bad"}, between: []string{"shop-e/new"}, named: "shop-a/bad, shop-k/bad",
		},
		"three neighbours": {bad: []string{"k/bad", "p/bad", "z/bad"}, between: []string{"k/c", "m/new", "p/c", "q/new"}},
		"many": {
			bad:     []string{"a/bad", "b/bad", "c/bad", "d/bad", "e/bad"},
			between: []string{"a/c", "b/a", "c/a", "c/z", "d/a", "e/x"},
		},
		"at the beginning": {bad: []string{"p/bad"}, later: []string{"a/bad"}, between: []string{"a/z", "b/new", "p/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("widgets.example.com"), func(w *harness) {
				w.srv.AddResource(widget("v1"))
				put := func(all []string) {
					for _, o := range all {
						namespace, name, _ := strings.Cut(o, "/")
						w.putIn(widgets, namespace, name, nil)
					}
				}
				put([]string{"default/first", "zz/last"})
				put(c.known)
				w.srv.SetHabit(widgets, &fake.Habit{Unreadable: "bad"})
				put(c.bad)
				w.start()
				w.awaitFor(aroundWaits, "it says why", func() bool { return w.state("widgets.example.com").Reason == unreadable })
				put(c.later)
				put(c.between)
				told := func(o string) bool {
					return slices.ContainsFunc(w.lines(), func(l invariant.Line) bool {
						return l.Type == "ADDED" && l.Namespace+"/"+l.Name == o
					})
				}
				for _, o := range c.between {
					w.awaitFor(10*aroundWaits, "a line about "+o, func() bool { return told(o) })
				}
				bad := slices.Sorted(slices.Values(slices.Concat(c.bad, c.later)))
				w.awaitFor(aroundWaits, "all are named", func() bool {
					named := w.state("widgets.example.com").Unreadable
					return !slices.ContainsFunc(bad[:min(len(bad), 3)], func(o string) bool { return !strings.Contains(named, o) })
				})
				if named := w.state("widgets.example.com").Unreadable; c.named != "" && named != c.named {
					t.Errorf("named %q, want %q", named, c.named)
				}
				if slices.ContainsFunc(bad, told) {
					t.Error("a line about an object that cannot be read")
				}
				w.srv.SetHabit(widgets, nil)
				w.interrupted = true
				w.awaitFor(aroundWaits, "it watches", w.watching)
				w.check()
			})
		})
	}
}

// What exists at first sight is taken without lines, and what happens after that is told, though no list is complete.
func TestUnreadableSkipped(t *testing.T) {
	e := entries("widgets.example.com")
	e[0].Initial = config.Skip
	bubble(t, fake.Options{}, e, func(w *harness) {
		w.srv.AddResource(widget("v1"))
		for _, name := range []string{"a", "bad", "c", "d"} {
			w.putIn(widgets, "default", name, nil)
		}
		w.srv.SetHabit(widgets, &fake.Habit{Unreadable: "bad"})
		w.start()
		w.awaitFor(aroundWaits, "it says why", func() bool { return w.state("widgets.example.com").Reason == unreadable })
		if lines := w.lines(); len(lines) > 0 {
			t.Errorf("what is to be skipped was told: %q", briefs(lines))
		}
		w.putIn(widgets, "default", "b", nil)
		w.putIn(widgets, "default", "c", nil)
		gone, err := w.srv.Delete(widgets, "default", "d")
		must(t, err)
		w.acknowledged(widgets, "DELETED", gone)
		w.awaitFor(aroundWaits, "what happened is told", func() bool { return len(w.lines()) == 3 })
		w.tell(0, "ADDED snapshot b", "MODIFIED snapshot c", "DELETED relist d")
		w.srv.SetHabit(widgets, nil)
		w.awaitFor(aroundWaits, "it watches", w.watching)
		w.tell(3, "ADDED snapshot bad", "SYNCED +1 ~0 -0 =3")
	})
}

// An error that passes while an object is looked for is blamed on none.
func TestUnreadableForAMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for failing := 1; failing < 150; failing += 7 {
		bubble(t, fake.Options{}, entries("widgets.example.com"), func(w *harness) {
			w.srv.AddResource(widget("v1"))
			for i := range 6 {
				w.putIn(widgets, fmt.Sprint("n", i/2), fmt.Sprint("name-", i), nil)
			}
			var lists atomic.Int64
			w.srv.SetFault(func(r fake.Request) *fake.Fault {
				token, _ := base64.RawURLEncoding.DecodeString(r.Query.Get("continue"))
				if r.Resource != "widgets" || strings.Contains(string(token), `"start":"~"`) {
					return nil // that the server answers
				}
				if lists.Add(1) > int64(failing) {
					return nil
				}
				return &fake.Fault{Status: http.StatusInternalServerError}
			})
			w.start()
			w.awaitFor(3*aroundWaits, "it watches", w.watching)
			if log := w.log.String(); strings.Contains(log, "cannot list n") {
				t.Errorf("%d requests failed: an object is blamed: %s", failing, log)
			}
			w.check()
		})
	}
}

// A server that refuses watches and fails one list has not lost the position.
func TestListFailsOnce(t *testing.T) {
	bubble(t, fake.Options{}, entries("widgets.example.com"), func(w *harness) {
		w.srv.AddResource(widget("v1"))
		w.putIn(widgets, "default", "a", nil)
		w.start()
		w.synced()
		var lists atomic.Int64
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			switch {
			case r.Resource != "widgets":
			case r.Verb == "watch":
				return &fake.Fault{Status: http.StatusTooManyRequests}
			case strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") && r.Query.Get("continue") == "":
				if lists.Add(1)%2 == 1 {
					return &fake.Fault{Status: http.StatusInternalServerError}
				}
			}
			return nil
		})
		w.srv.EndWatches()
		w.awaitFor(aroundWaits, "it has looked", func() bool { return lists.Load() > 0 })
		w.putIn(widgets, "default", "b", nil)
		w.awaitFor(aroundWaits, "it has looked twice", func() bool { return lists.Load() >= 4 })
		w.srv.SetFault(nil)
		w.awaitFor(aroundWaits, "it watches", w.watching)
		w.check()
		w.tell(0, "ADDED snapshot a", "SYNCED +1 ~0 -0 =0", "ADDED watch b")
	})
}
