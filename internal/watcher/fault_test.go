package watcher_test

import (
	"net/http"
	"sync"

	"kubejournal/internal/kube/fake"
)

// requests are those about one resource, by verb, from the nth request on.
func (w *harness) requests(from int, resource, verb string) []fake.Request {
	var some []fake.Request
	for _, r := range w.srv.Requests()[from:] {
		if r.Resource == resource && r.Verb == verb {
			some = append(some, r)
		}
	}
	return some
}

// firstWatch is the version from which the first watch after the nth request
// began; "" is that of a streamed list.
func (w *harness) firstWatch(from int, resource string) string {
	w.t.Helper()
	all := w.requests(from, resource, "watch")
	if len(all) == 0 {
		w.t.Fatalf("no watch of %s after request %d", resource, from)
	}
	return all[0].Query.Get("resourceVersion")
}

// on makes a fault for the requests of one resource; verb "" is every verb.
func on(resource, verb string, f *fake.Fault) func(fake.Request) *fake.Fault {
	return func(r fake.Request) *fake.Fault {
		if r.Resource == resource && (verb == "" || r.Verb == verb) {
			return f
		}
		return nil
	}
}

// first lets only the first n of the requests that choose strikes go wrong.
func first(n int, choose func(fake.Request) *fake.Fault) func(fake.Request) *fake.Fault {
	var mu sync.Mutex
	return func(r fake.Request) *fake.Fault {
		f := choose(r)
		if f == nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if n == 0 {
			return nil
		}
		n--
		return f
	}
}

// lists tells a request that begins a list, streamed or in pages, from the
// question for the current version.
func lists(r fake.Request) bool {
	return r.Query.Get("sendInitialEvents") == "true" || r.Verb == "list" && (r.Query.Get("limit") != "1" || r.Query.Get("continue") != "")
}

// statusFault is a fault that answers with an HTTP status.
func statusFault(code int) *fake.Fault { return &fake.Fault{Status: code} }

const tooManyRequests = http.StatusTooManyRequests
