package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// What there is comes by one streamed list where the server has that. Where it has not, the daemon asks for one, is
// refused, and reads pages; the journal must not differ. The same goes for the list after a lost history.
func TestFirstList(t *testing.T) {
	const many = 600 // more than fit into a page
	s := shared.disturb(t)
	ns := s.namespaces(t, 1)[0]
	sc := play(t, s, []entry{{kind: configMaps, namespaces: []string{ns}}})
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
	if err := sc.update(t.Context(), &objects[0], "web", many); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sc.delete(t.Context(), objects[many-1]), s.Compact(t.Context()), s.RestartAPIServer(t.Context())); err != nil {
		t.Fatal(err)
	}
	sc.daemon.start()
	lines := sc.verify(false)
	if g := gaps(lines); len(g) != 1 || g[0].Reason != "Expired" {
		t.Errorf("GAPs %v, want one, Expired", g)
	}

	const lists = 2 // at the daemon's first start, and at its second
	var got string
	want := fmt.Sprintf("%d streamed lists answered by %d, 0 pages", lists, http.StatusOK)
	if s.Variant().NoWatchList {
		want = fmt.Sprintf("%d streamed lists answered by %d, %d pages", lists, http.StatusUnprocessableEntity, lists*2)
	}
	eventually(t, soon, "requests are in the audit log", func() error { // it is written after the answer
		if got = listed(t, s.AuditLog(), ns); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
}

// listed says how the daemon has listed the config maps of a namespace.
func listed(t *testing.T, auditLog, namespace string) string {
	t.Helper()
	content, err := os.ReadFile(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(map[string]int) // to requests for a streamed list, by id: a watch is logged at its start and end
	code, pages := 0, 0
	for line := range bytes.Lines(content) {
		var e struct {
			AuditID, Verb, UserAgent, RequestURI string
			ResponseStatus                       struct{ Code int }
		}
		if json.Unmarshal(line, &e) != nil {
			continue // the last line may not be whole yet
		}
		request, err := url.Parse(e.RequestURI)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(e.UserAgent, "kubejournal") || request.Path != "/api/v1/namespaces/"+namespace+"/configmaps" {
			continue
		}
		switch query := request.Query(); {
		case query.Get("sendInitialEvents") == "true":
			code = e.ResponseStatus.Code
			answers[e.AuditID] = code
		case e.Verb == "list" && query.Get("limit") != "1": // that asks for the server's version only
			pages++
		}
	}
	for _, other := range answers {
		if other != code {
			return fmt.Sprintf("streamed lists answered by %d and %d", code, other)
		}
	}
	return fmt.Sprintf("%d streamed lists answered by %d, %d pages", len(answers), code, pages)
}
