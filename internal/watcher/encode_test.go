package watcher_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/config"
	"kubejournal/internal/kube/fake"
	"kubejournal/test/invariant"
)

// demanding is one entry with what set asks of it.
func demanding(name string, set func(*config.Resource)) []config.Resource {
	e := entry(name)
	set(&e)
	return []config.Resource{e}
}

// set writes an object with a phase that a filter can look at, and something else.
func (w *harness) set(namespace, name, phase, note string) {
	w.t.Helper()
	object := map[string]any{
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"data":     map[string]any{"phase": phase, "note": note},
	}
	if phase == "" {
		delete(object, "data")
	}
	write := w.srv.Update
	if _, err := w.srv.Get(configMaps, namespace, name); err != nil {
		write = w.srv.Create
	}
	_, err := write(configMaps, object)
	must(w.t, err)
}

// settled waits until all streams watch and have seen the server's version.
func (w *harness) settled() {
	w.t.Helper()
	w.await("every stream watches", w.watching)
	w.pass(2 * time.Second)
	w.checkSkipped()
}

func (w *harness) filtered() float64 {
	return testutil.ToFloat64(w.life.metrics.Filtered.WithLabelValues("", "configmaps"))
}

// What a selection holds back is known all the same: it is no news at the next
// relist, however the stream was stopped.
func TestSelection(t *testing.T) {
	for name, c := range map[string]struct {
		set func(*config.Resource)
		// What is told of the first sync, of changes in a watch, of the same
		// while nobody watched and of nothing.
		first, watched, relisted []string
		held                     float64 // in the first life
	}{
		"types": {
			set:      func(e *config.Resource) { e.Types = []string{"MODIFIED", "DELETED"} },
			first:    []string{"SYNCED +0 ~0 -0 =4"},
			watched:  []string{"MODIFIED watch a", "DELETED watch b"},
			relisted: []string{"GAP Expired", "MODIFIED relist a", "DELETED relist kube-x/c", "SYNCED +0 ~1 -1 =3"},
			held:     5,
		},
		"excluded namespaces": {
			set:      func(e *config.Resource) { e.ExcludeNamespaces = []string{"kube-*", "de?"} },
			first:    []string{"ADDED snapshot a", "ADDED snapshot b", "SYNCED +2 ~0 -0 =2"},
			watched:  []string{"MODIFIED watch a", "DELETED watch b", "ADDED watch e"},
			relisted: []string{"GAP Expired", "MODIFIED relist a", "ADDED relist f", "SYNCED +1 ~1 -0 =2"},
			held:     2,
		},
		"filter": {
			set:      func(e *config.Resource) { e.Filter = `object.data.phase == "Failed"` },
			first:    []string{"ADDED snapshot b", "SYNCED +1 ~0 -0 =3"},
			watched:  []string{"MODIFIED watch a", "DELETED watch b"},
			relisted: []string{"GAP Expired", "SYNCED +0 ~0 -0 =4"},
			held:     4,
		},
	} {
		for server, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
			t.Run(name+"/"+server, func(t *testing.T) {
				bubble(t, o, demanding("configmaps", c.set), func(w *harness) {
					w.set("default", "a", "Running", "1")
					w.set("default", "b", "Failed", "1")
					w.set("kube-x", "c", "Running", "1")
					w.set("dev", "d", "Running", "1")
					w.start()
					w.settled()
					n := w.tell(0, c.first...)
					w.set("default", "a", "Failed", "2")
					_, err := w.srv.Delete(configMaps, "default", "b")
					must(t, err)
					w.set("default", "e", "Running", "1")
					w.settled()
					n = w.tell(n, c.watched...)
					if got := w.filtered(); got != c.held {
						t.Errorf("%v events were held back, want %v", got, c.held)
					}
					w.stop()
					w.set("default", "a", "Running", "3")
					_, err = w.srv.Delete(configMaps, "kube-x", "c")
					must(t, err)
					w.set("default", "f", "Running", "1")
					w.srv.DropHistory()
					w.start()
					w.settled()
					n = w.tell(n, c.relisted...)
					w.kill()
					w.srv.DropHistory()
					w.start()
					w.settled()
					for _, l := range w.lines()[n:] {
						if l.Type != invariant.Gap && l.Type != invariant.Synced {
							t.Errorf("told again: %s", brief(l))
						}
					}
				})
			})
		}
	}
}

// An object on which the filter cannot be evaluated is written, and counted.
func TestFilterFails(t *testing.T) {
	bubble(t, fake.Options{}, demanding("configmaps", func(e *config.Resource) { e.Filter = `object.data.phase == "Failed"` }), func(w *harness) {
		w.start()
		w.settled()
		n := w.tell(0, "SYNCED +0 ~0 -0 =0")
		w.set("default", "a", "", "")
		w.set("default", "b", "", "")
		w.set("default", "c", "Running", "")
		w.settled()
		w.tell(n, "ADDED watch a", "ADDED watch b")
		if got := testutil.ToFloat64(w.life.metrics.FilterErrors.WithLabelValues("", "configmaps")); got != 2 {
			t.Errorf("%v errors were counted", got)
		}
		if got := strings.Count(w.log.String(), "filter cannot be evaluated"); got != 1 {
			t.Errorf("logged %d times", got)
		}
	})
}

// Lines say what changed, from the version before, across restarts of each kind,
// and from whatever the reader was told of last where history was lost.
func TestChangesAcrossRestarts(t *testing.T) {
	for server, o := range map[string]fake.Options{"streamed": {}, "pages": {NoWatchList: true, MaxPage: 2}} {
		for end, stop := range map[string]func(*harness){"stopped": (*harness).stop, "killed": (*harness).kill} {
			t.Run(server+"/"+end, func(t *testing.T) {
				bubble(t, o, demanding("configmaps", func(e *config.Resource) { e.Changes = true }), func(w *harness) {
					for i := range 40 { // more than go into a packer's base
						w.set("default", fmt.Sprint("a", i), "Pending", "0")
					}
					w.start()
					w.settled()
					for life := range 4 {
						for i := range 5 {
							w.set("default", fmt.Sprint("a", i), "Running", fmt.Sprint(life))
						}
						w.pass(time.Duration(life%2) * 1200 * time.Millisecond) // committed, or not
						if life == 3 {
							w.srv.DropHistory()
						}
						stop(w)
						w.set("default", fmt.Sprint("a", 10+life), "Running", "missed")
						w.set("default", "a0", "Running", fmt.Sprint("missed ", life))
						w.start()
						w.settled()
					}
					must(t, invariant.Changes(w.lines()))
					last := w.lines()
					i := slices.IndexFunc(last, func(l invariant.Line) bool { return l.Name == "a13" && l.Type == invariant.Modified })
					if i < 0 || !strings.Contains(string(last[i].Raw("changes")), `{"op":"replace","path":"/data/phase","old":"Pending","value":"Running"}`) {
						t.Errorf("line %d of a13: %s", i, last[i].Raw("changes"))
					}
				})
			})
		}
	}
}

// Turned on for a stream that runs already, the first change of each object shows.
func TestChangesTurnedOn(t *testing.T) {
	bubble(t, fake.Options{MaxPage: 3}, entries("configmaps"), func(w *harness) {
		for i := range 10 {
			w.set("default", fmt.Sprint("a", i), "Pending", "0")
		}
		w.start()
		w.settled()
		w.stop()
		w.set("default", "a3", "Running", "missed")
		w.entries = demanding("configmaps", func(e *config.Resource) { e.Changes, e.IgnoreFields = true, []string{"data.note"} })
		w.start()
		w.settled()
		n := len(w.lines())
		w.set("default", "a4", "Pending", "nothing else")
		w.set("default", "a5", "Running", "0")
		w.set("default", "a3", "Failed", "missed")
		w.settled()
		n = w.tell(n, "MODIFIED watch a5", "MODIFIED watch a3")
		lines := w.lines()
		for i, want := range map[int]string{n - 2: `"old":"Pending","value":"Running"`, n - 1: `"old":"Running","value":"Failed"`} {
			if got := string(lines[i].Raw("changes")); !strings.Contains(got, want) {
				t.Errorf("line %d: changes %s, want %s", i+1, got, want)
			}
		}
		// Off, nothing is kept any more.
		w.stop()
		w.entries = entries("configmaps")
		w.start()
		w.settled()
		w.stop()
		store, err := checkpoint.Open(w.db())
		must(t, err)
		header, _, err := store.KeptHeader("configmaps")
		if err := errors.Join(err, store.Close()); err != nil || header != nil {
			t.Errorf("still kept: %q, %v", header, err)
		}
		w.start()
	})
}

// A deletion that nobody watched carries the last state that was told of.
func TestLastState(t *testing.T) {
	for payload, want := range map[string]string{
		config.PayloadObject: `"data":{"note":"1","phase":"Running"}`, config.PayloadMetadata: `{"metadata":{`, config.PayloadNone: "",
	} {
		t.Run(payload, func(t *testing.T) {
			set := func(e *config.Resource) { e.Changes, e.Payload = true, payload }
			bubble(t, fake.Options{}, demanding("configmaps", set), func(w *harness) {
				w.set("default", "a", "Running", "1")
				w.start()
				w.settled()
				w.stop()
				_, err := w.srv.Delete(configMaps, "default", "a")
				must(t, err)
				w.srv.DropHistory()
				w.start()
				w.settled()
				w.tell(2, "GAP Expired", "DELETED relist a", "SYNCED +0 ~0 -1 =0")
				l := w.lines()[3]
				if l.FinalStateKnown == nil || *l.FinalStateKnown || !strings.Contains(string(l.Object), want) || (want == "") != (l.Object == nil) {
					t.Errorf("object %s, final state known: %v", l.Object, l.FinalStateKnown)
				}
			})
		})
	}
}

// A change of ignored fields alone is not written, whoever has seen it: the watch,
// a relist, another life; and what else changed then is told as one change.
func TestIgnoreFields(t *testing.T) {
	for name, changes := range map[string]bool{"digest": false, "with changes": true} {
		for end, stop := range map[string]func(*harness){"stopped": (*harness).stop, "killed": (*harness).kill} {
			t.Run(name+"/"+end, func(t *testing.T) {
				set := func(e *config.Resource) { e.IgnoreFields, e.Changes = []string{"data.note"}, changes }
				bubble(t, fake.Options{}, demanding("configmaps", set), func(w *harness) {
					w.set("default", "a", "Running", "1")
					w.set("default", "b", "Running", "1")
					w.start()
					w.settled()
					n := w.tell(0, "ADDED snapshot a", "ADDED snapshot b", "SYNCED +2 ~0 -0 =0")
					for i := range 5 {
						w.set("default", "a", "Running", fmt.Sprint("watched", i))
					}
					w.settled()
					n = w.tell(n)
					w.set("default", "b", "Running", "not yet committed")
					stop(w)
					w.set("default", "a", "Running", "resumed")
					w.start()
					w.settled()
					n = w.tell(n)
					stop(w)
					w.set("default", "a", "Running", "relisted")
					w.srv.DropHistory()
					w.start()
					w.settled()
					n = w.tell(n, "GAP Expired", "SYNCED +0 ~0 -0 =2")
					w.set("default", "a", "Failed", "told")
					w.settled()
					n = w.tell(n, "MODIFIED watch a")
					if got := string(w.lines()[n-1].Raw("changes")); changes && !strings.Contains(got, `"path":"/data/note","old":"1","value":"told"`) {
						t.Errorf("changes %s", got)
					}
					// What was told of last counts from here, read back or not.
					stop(w)
					w.set("default", "a", "Failed", "again")
					w.start()
					w.settled()
					w.tell(n)
				})
			})
		}
	}
}

// What a Secret hides is looked at, and stands nowhere.
func TestIgnoreFieldsOfSecrets(t *testing.T) {
	set := func(e *config.Resource) { e.IgnoreFields, e.Changes = []string{"metadata.labels"}, true }
	bubble(t, fake.Options{}, demanding("secrets", set), func(w *harness) {
		put := func(value, label string) {
			object := map[string]any{
				"metadata": map[string]any{"name": "a", "namespace": "default", "labels": map[string]any{"l": label}},
				"data":     map[string]any{"password": value},
			}
			write := w.srv.Update
			if _, err := w.srv.Get(secrets, "default", "a"); err != nil {
				write = w.srv.Create
			}
			_, err := write(secrets, object)
			must(t, err)
		}
		put("c2VjcmV0MQ==", "1")
		w.start()
		w.settled()
		n := len(w.lines())
		put("c2VjcmV0MQ==", "2")
		w.settled()
		n = w.tell(n)
		put("c2VjcmV0Mg==", "2")
		w.settled()
		n = w.tell(n, "MODIFIED watch a")
		w.stop()
		w.start()
		w.settled()
		put("c2VjcmV0Mg==", "3")
		w.settled()
		n = w.tell(n)
		put("c2VjcmV0Mw==", "3")
		w.settled()
		w.tell(n, "MODIFIED watch a")
		w.stop()
		for _, name := range []string{w.journal(), w.db()} {
			data, err := os.ReadFile(name)
			must(t, err)
			for _, secret := range []string{"c2VjcmV0", "secret1", "secret2", "secret3"} {
				if bytes.Contains(data, []byte(secret)) {
					t.Errorf("%s holds %q", name, secret)
				}
			}
		}
		w.start()
	})
}

// A line that is longer than it may be keeps its metadata, also where it must be
// read back; what changed next is then not known.
func TestMaxLineBytes(t *testing.T) {
	bubble(t, fake.Options{}, demanding("configmaps", func(e *config.Resource) { e.Changes = true }), func(w *harness) {
		w.options.MaxLineBytes = 2048
		w.set("default", "z", "Running", "there is something to keep")
		w.start()
		w.settled()
		w.set("default", "a", "Running", strings.Repeat("long ", 1000))
		w.pass(50 * time.Millisecond) // written, and not committed
		w.kill()
		w.start()
		w.settled()
		w.set("default", "a", "Failed", "short")
		w.set("default", "a", "Failed", "shorter")
		w.settled()
		w.tell(2, "ADDED watch a", "MODIFIED watch a", "MODIFIED watch a")
		for i, l := range w.lines()[2:] {
			line, err := json.Marshal(l.Object)
			must(t, err)
			if truncated := string(l.Raw("truncated")) == "true"; truncated != (i == 0) || len(line) > 2048 {
				t.Errorf("line %d: truncated %v, %d bytes of object", l.Seq, truncated, len(line))
			}
			if changes := l.Raw("changes"); (changes != nil) != (i == 2) {
				t.Errorf("line %d: changes %s", l.Seq, changes)
			}
			var o struct{ Metadata struct{ Name string } }
			if err := json.Unmarshal(l.Object, &o); err != nil || o.Metadata.Name != "a" {
				t.Errorf("line %d: object %s", l.Seq, l.Object)
			}
		}
	})
}
