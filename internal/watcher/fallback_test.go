package watcher_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/fake"
	"kubejournal/internal/watcher"
)

// streamedOnly is a fault of streamed lists.
func streamedOnly(f *fake.Fault) func(fake.Request) *fake.Fault {
	return func(r fake.Request) *fake.Fault {
		if r.Resource == "configmaps" && r.Query.Get("sendInitialEvents") != "" {
			return f
		}
		return nil
	}
}

// pagesOnly is a fault of lists in pages, the question for the version aside.
func pagesOnly(f *fake.Fault) func(fake.Request) *fake.Fault {
	return func(r fake.Request) *fake.Fault {
		if r.Resource == "configmaps" && r.Verb == "list" && lists(r) {
			return f
		}
		return nil
	}
}

// streamed counts the streamed lists that were asked for from the nth request on.
func (w *harness) streamed(n int) (count int) {
	for _, r := range w.requests(n, "configmaps", "watch") {
		if r.Query.Get("sendInitialEvents") != "" {
			count++
		}
	}
	return count
}

// A streamed list that cannot come to its end gives way to pages, at the latest
// after two attempts. That holds for a day.
func TestStreamedListGivesWay(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, f := range map[string]*fake.Fault{
		"ERROR 500 in front of an old etcd": {Stream: fake.Failed, Status: 500},
		"ERROR 500 after some objects":      {Stream: fake.Failed, Status: 500, AfterEvents: 3},
		"500":                               statusFault(500),
		"501":                               statusFault(501),
		"503":                               statusFault(503),
		"429":                               statusFault(tooManyRequests),
		"504":                               statusFault(504),
		"410":                               statusFault(410),
		"cut after a while by a proxy":      {CutAfterBytes: 900},
		"ends after a while":                {Stream: fake.End, AfterEvents: 3},
		"no answer":                         {Hang: true},
		"garbage":                           {Status: 200, Body: "<html>"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				for i := range 9 {
					w.put(configMaps, fmt.Sprint("a", i))
				}
				w.srv.SetFault(streamedOnly(f))
				w.start()
				w.synced()
				if got := w.streamed(0); got > 2 {
					t.Errorf("%d streamed lists were asked for", got)
				}
				n := len(w.srv.Requests())
				relist := func() {
					w.srv.StopAPIServer()
					w.put(configMaps, "a0")
					must(t, w.srv.StartAPIServer())
					w.synced()
				}
				relist()
				if got := w.streamed(n); got != 0 {
					t.Errorf("%d streamed lists were asked for behind the paged one", got)
				}
				w.srv.SetFault(nil)
				w.pass(24 * time.Hour)
				relist()
				if got := w.streamed(n); got != 1 {
					t.Errorf("%d streamed lists were asked for a day later", got)
				}
				w.interrupted = true
				w.check()
			})
		})
	}
}

// Pages that cannot be had give way to a streamed list, also where that was given up.
func TestPagesGiveWay(t *testing.T) {
	for name, f := range map[string]*fake.Fault{"502": statusFault(502), "cut": {CutAfterBytes: 700}, "413": statusFault(413)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				for i := range 9 {
					w.put(configMaps, fmt.Sprint("a", i))
				}
				w.srv.SetFault(streamedOnly(statusFault(400)))
				w.start()
				w.synced()
				w.srv.SetFault(pagesOnly(f))
				w.srv.StopAPIServer()
				w.put(configMaps, "a0")
				must(t, w.srv.StartAPIServer())
				w.synced()
				w.check()
			})
		})
	}
}

// A server that ignores sendInitialEvents sends an event before any pause is
// over, for ever.
func TestServerIgnoresSendInitialEventsAndIsBusy(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.srv.SetFault(on("configmaps", "watch", &fake.Fault{OmitInitialEventsEnd: true}))
		w.put(configMaps, "a")
		w.start()
		w.awaitFor(10*time.Minute, "first sync", func() bool {
			w.pass(500 * time.Millisecond)
			w.put(configMaps, "busy")
			return w.watching()
		})
		w.interrupted = true
		w.check()
	})
}

// refuses is a fault of watches from one version.
func refuses(version string, f *fake.Fault) func(fake.Request) *fake.Fault {
	return func(r fake.Request) *fake.Fault {
		if r.Resource == "configmaps" && r.Verb == "watch" && r.Query.Get("resourceVersion") == version {
			return f
		}
		return nil
	}
}

// A position that the server does not take, while it takes others, is lost.
func TestPositionRefused(t *testing.T) {
	for name, f := range map[string]*fake.Fault{
		"400":         statusFault(400),
		"422":         statusFault(422),
		"500":         statusFault(500),
		"too large":   {Status: 504, Reason: metav1.StatusReasonTimeout, Message: "Too large resource version", Cause: metav1.CauseTypeResourceVersionTooLarge},
		"ERROR event": {Stream: fake.Failed, Status: 400},
		"garbage":     {Stream: fake.Garbage},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.put(configMaps, "b")
				w.start()
				w.synced()
				w.stop()
				n := len(w.lines())
				position := fmt.Sprint(w.srv.Version())
				w.put(configMaps, "a")
				w.remove(configMaps, "b")
				w.srv.SetFault(refuses(position, f))
				w.start()
				w.synced()
				w.tell(n, "GAP PositionRefused", "MODIFIED relist a", "DELETED relist b", "SYNCED +0 ~1 -1 =0")
				w.check()
			})
		})
	}
}

// Some refusals are an accident: the history is there, and nothing of it is given up.
func TestPositionRefusedByAccident(t *testing.T) {
	for _, code := range []int{400, 422, 500} {
		for _, times := range []int{1, 2, 4} {
			bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				w.start()
				w.synced()
				w.stop()
				n := len(w.lines())
				position := fmt.Sprint(w.srv.Version())
				w.put(configMaps, "a")
				w.put(configMaps, "a")
				w.srv.SetFault(first(times, refuses(position, statusFault(code))))
				w.start()
				w.synced()
				w.tell(n, "MODIFIED watch a", "MODIFIED watch a")
				w.check()
			})
		}
	}
}

// A watch that was accepted, and ends with an error later, was not refused: an etcd that loses its leader ends those
// of Events so, which have no bookmarks.
func TestWatchThatFailsLater(t *testing.T) {
	bubble(t, fake.Options{BookmarkInterval: 100 * time.Hour}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.start()
		w.synced()
		n := len(w.lines())
		for range 10 {
			w.put(secrets, "noise")
			w.pass(30 * time.Second)
			w.srv.SetFault(first(1, on("configmaps", "watch", &fake.Fault{Stream: fake.Failed, Status: 500})))
			w.srv.EndWatches()
		}
		w.put(configMaps, "a")
		w.put(configMaps, "a")
		w.synced()
		w.tell(n, "MODIFIED watch a", "MODIFIED watch a")
		w.check()
	})
}

// A list that names no version to watch from is no list, and an object without
// one cannot be told from its next version.
func TestNoResourceVersion(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default","uid":"u"%s},"data":{"k":"v"}}`
	list := func(version, object string) *fake.Fault {
		return &fake.Fault{Status: http.StatusOK, Body: fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{%s},"items":[%s]}`, version, object)}
	}
	for name, f := range map[string]*fake.Fault{
		"list without":        list("", ""),
		"list with an empty":  list(`"resourceVersion":""`, ""),
		"list with 0":         list(`"resourceVersion":"0"`, ""),
		"object without":      list(`"resourceVersion":"9"`, fmt.Sprintf(object, "")),
		"object with 0":       list(`"resourceVersion":"9"`, fmt.Sprintf(object, `,"resourceVersion":"0"`)),
		"version without one": {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fake.Options{NoWatchList: true}, entries("configmaps"), func(w *harness) {
				w.put(configMaps, "a")
				fault := pagesOnly(f)
				if f.Body == "" {
					w.start()
					w.synced()
					w.stop()
					fault = on("configmaps", "list", list("", ""))
				}
				w.srv.SetFault(fault)
				n := 0
				if f.Body == "" {
					n = len(w.lines())
				}
				w.start()
				w.pass(time.Hour)
				if s := w.state("configmaps"); s.State != watcher.Retrying || s.Reason != "NoResourceVersion" {
					t.Errorf("%s: %s", s.State, s.Reason)
				}
				w.tell(n)
				if !strings.Contains(w.log.String(), "no resourceVersion") {
					t.Error("the log does not say why")
				}
				w.srv.SetFault(nil)
				w.check()
			})
		})
	}
}

// A list whose pages do not come to an end is given up.
func TestEndlessPages(t *testing.T) {
	bubble(t, fake.Options{NoWatchList: true, MaxPage: 2}, entries("configmaps"), func(w *harness) {
		for i := range 5 {
			w.put(configMaps, fmt.Sprint("a", i))
		}
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			if r.Resource == "configmaps" && r.Query.Get("continue") != "" {
				return &fake.Fault{Status: http.StatusOK, Body: `{"metadata":{"resourceVersion":"9","continue":"again"},"items":[]}`}
			}
			return nil
		})
		w.start()
		w.pass(time.Hour)
		if s := w.state("configmaps"); s.State != watcher.Retrying || s.Reason != "NoListEnd" {
			t.Errorf("%s: %s", s.State, s.Reason)
		}
		w.srv.SetFault(nil)
		w.interrupted = true
		w.check()
	})
}

// Failures make the pauses longer; a watch that lasts and brings something makes the next one short again.
func TestPausesBeginAgain(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		w.put(configMaps, "a")
		w.start()
		w.synced()
		w.srv.SetFault(on("configmaps", "", statusFault(http.StatusServiceUnavailable)))
		w.srv.BreakWatches()
		w.pass(3 * time.Minute)
		w.srv.SetFault(nil)
		w.synced()
		w.pass(client.HealthyAfter)
		w.put(configMaps, "b")
		w.synced()
		w.srv.BreakWatches()
		w.awaitFor(3*client.FirstPause, "it watches again", w.watching)
		w.check()
	})
}

// A list that takes long is not followed by the next one at once, even if no position of it can be watched.
func TestRestBetweenLists(t *testing.T) {
	bubble(t, fake.Options{}, entries("configmaps"), func(w *harness) {
		const takes, during = 20 * time.Second, 10 * time.Minute
		var begun atomic.Int32
		w.put(configMaps, "a")
		w.srv.SetFault(func(r fake.Request) *fake.Fault {
			switch {
			case r.Resource != "configmaps":
				return nil
			case lists(r):
				begun.Add(1)
				return &fake.Fault{Delay: takes, Stream: fake.Gone, AfterEvents: 2} // after the object and the bookmark
			case r.Verb == "watch":
				return statusFault(http.StatusGone)
			}
			return nil
		})
		w.start()
		w.pass(during)
		// The pause is twice the time that the list took.
		if n, most := begun.Load(), int32(during/(3*takes))+1; n < 3 || n > most {
			t.Errorf("%d lists in %s, want at most %d", n, during, most)
		}
		w.srv.SetFault(nil)
		w.interrupted = true
		w.check()
	})
}
