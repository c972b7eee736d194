package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kubejournal/test/cluster"
	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// One object that the server stores and cannot read again, nested 9,995 levels deep, ends every watch of its kind, and
// each list with it: the others of its kind are journalled all the same, and it is named.
func TestUnreadableObject(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := cluster.Start(ctx, cluster.Options{TimeLimit: 8 * time.Minute}) // nothing removes the object again
	if err != nil {
		t.Fatal(err)
	}
	s, err := serverOf(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	namespaces := s.namespaces(t, 2)
	sc := play(t, s, []entry{{Kind: widgets}})
	gone := live{}
	for _, ns := range namespaces {
		for n := range 3 {
			gone = sc.made(widgets, ns, fmt.Sprint("w", n), 1)
		}
	}
	sc.daemon.start()
	sc.caughtUp()

	deep := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"w1-deep"},"spec":%s1%s}`,
		workload.Group, strings.Repeat(`{"a":`, 9995), strings.Repeat("}", 9995))
	url := fmt.Sprintf("%s/apis/%s/v1/namespaces/%s/widgets", s.RESTConfig().Host, workload.Group, namespaces[0])
	answer, err := s.transport.Post(url, "application/json", strings.NewReader(deep))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusInternalServerError {
		t.Fatalf("the server answers %s to an object that is nested so deep: what does it store?", answer.Status)
	}
	named := namespaces[0] + "/w1-deep"
	for _, ns := range namespaces {
		sc.made(widgets, ns, "w5", 1)
	}
	sc.must(sc.Delete(ctx, gone))
	told := func(typ, namespace, name string) error {
		has := func(l invariant.Line) bool { return l.Type == typ && l.Namespace == namespace && l.Name == name }
		if !slices.ContainsFunc(sc.daemon.tell(), has) {
			return fmt.Errorf("no %s of %s/%s", typ, namespace, name)
		}
		return nil
	}
	eventually(t, 2*later, "object named", func() error {
		_, body, err := sc.daemon.get("/streams")
		if err == nil && (!strings.Contains(body, "ObjectUnreadable") || !strings.Contains(body, named)) {
			err = fmt.Errorf("streams are %s", body)
		}
		return err
	})
	for _, ns := range namespaces {
		eventually(t, later, "line of another object", func() error { return told(invariant.Added, ns, "w5") })
	}
	eventually(t, later, "line of a deletion", func() error { return told(invariant.Deleted, namespaces[1], "w2") })
	for _, l := range sc.daemon.tell() {
		if l.Name == "w1-deep" || l.Type == invariant.Deleted && l.Name != "w2" {
			t.Errorf("%s: %s of %s/%s", l.Where, l.Type, l.Namespace, l.Name)
		}
	}
	if _, body, err := sc.daemon.get("/readyz?verbose"); err != nil || !strings.Contains(body, named) {
		t.Errorf("readiness does not name it: %s, %v", body, err)
	}
	sc.daemon.stop()
}
