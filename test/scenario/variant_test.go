package scenario

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/sync/errgroup"
)

// What there is comes by one streamed list where the server has that. Where it has not, the daemon asks for one, is
// refused, and reads pages; the journal must not differ. The same goes for the list after a lost history.
func TestFirstList(t *testing.T) {
	const many = 600 // more than fit into a page
	s := own.get(t)
	ns := s.namespaces(t, 1)[0]
	sc := play(t, s, []entry{{Kind: configMaps, Namespaces: []string{ns}}})
	objects := make([]live, many)
	var group errgroup.Group
	group.SetLimit(16)
	for i := range objects {
		group.Go(func() (err error) {
			objects[i], err = sc.create(t.Context(), configMaps, ns, fmt.Sprintf("object-%d", i), "web", i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	sc.daemon.start()
	sc.caughtUp()
	sc.daemon.stop()
	if err := sc.Update(t.Context(), &objects[0], "web", many); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sc.Delete(t.Context(), objects[many-1]), s.Compact(t.Context()), s.RestartAPIServer(t.Context())); err != nil {
		t.Fatal(err)
	}
	sc.daemon.start()
	lines := sc.verify(false)
	if g := gaps(lines); len(g) != 1 || g[0].Reason != "Expired" {
		t.Errorf("GAPs %v, want one, Expired", g)
	}

	const lists = 2 // at the daemon's first start, and at its second
	var got string
	want := fmt.Sprintf("streamed lists by answer map[%d:%d], 0 pages", http.StatusOK, lists)
	if s.Variant().NoWatchList {
		want = fmt.Sprintf("streamed lists by answer map[%d:%d], %d pages", http.StatusUnprocessableEntity, lists, lists*2)
	}
	eventually(t, soon, "requests are in the audit log", func() error { // it is written after the answer
		if got = s.listed(t, ns); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
}

// listed says how the daemon has listed the config maps of a namespace.
func (s *server) listed(t *testing.T, namespace string) string {
	t.Helper()
	requests, err := s.Requests()
	if err != nil {
		t.Fatal(err)
	}
	codes := make(map[int]int) // of the answers to requests for a streamed list
	pages := 0
	for _, r := range requests {
		if r.Agent != "kubejournal" || r.Resource != "configmaps" || r.Namespace != namespace {
			continue
		}
		query, err := r.Query()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case query.Get("sendInitialEvents") == "true":
			codes[r.Code]++
		case r.Verb == "list" && query.Get("limit") != "1": // that asks for the server's version only
			pages++
		}
	}
	return fmt.Sprintf("streamed lists by answer %v, %d pages", codes, pages)
}
