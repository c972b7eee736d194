package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUsers is a short run of the program: RequestResponse names who made each line, and Metadata nobody else.
func TestUsers(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	var out, notes strings.Builder
	args := []string{"-writes", "1000", "-versions", "newest", "-levels", "RequestResponse,Metadata"}
	if status := command(t.Context(), args, &out, &notes); status != 0 {
		t.Errorf("status %d\n%s", status, notes.String())
	}
	t.Log(out.String())
}

// TestJudge has the judge see a line that names another request, and one that names nobody.
func TestJudge(t *testing.T) {
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	world := &town{requests: []*request{
		{mark: first + 1, user: "alice", what: "create", code: 201, uid: "U", version: "5", sent: at, answered: at.Add(time.Second)},
		{mark: first + 2, user: "bob", what: "patch without effect", code: 200, uid: "U", version: "5", sent: at, answered: at.Add(time.Second)},
	}}
	const line = `{"seq":1,"time":"2026-11-20T14:00:00Z","type":"ADDED","origin":"watch","uid":"U","resourceVersion":"5","object":{"metadata":{"annotations":{"truth":"100001"}}}`
	for person, want := range map[string]verdict{
		``: nobody,
		`,"person":{"user":"system:serviceaccount:kube-system:alice","auditID":"truth-100001"}`:                       right,
		`,"person":{"user":"system:serviceaccount:kube-system:bob","auditID":"truth-100002"}`:                         wrong,
		`,"person":{"user":"system:serviceaccount:kube-system:alice","auditID":"truth-100001","impersonated":"root"}`: wrong,
	} {
		e, err := parse([]byte(line + person + "}"))
		if err != nil {
			t.Fatal(err)
		}
		if made, ok := world.court().of(&e); !ok || made.judge(&e) != want {
			t.Errorf("%s: %d, not %d", person, made.judge(&e), want)
		}
	}
}

// TestJudgeOfEvictions has the judge see who left a pod the condition of an eviction: one that is refused may have.
func TestJudgeOfEvictions(t *testing.T) {
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	eviction := func(n, code int, from, to time.Duration) *request {
		return &request{mark: first + n, what: "eviction", deletes: true, evicts: true, resource: "pods", ns: "shop", name: "a", code: code, sent: at.Add(from), answered: at.Add(to)}
	}
	for name, c := range map[string]struct {
		requests []*request
		want     []int
	}{
		"the pod was gone":           {[]*request{eviction(1, 404, 1, 3)}, []int{1}},
		"either of two":              {[]*request{eviction(1, 404, 1, 3), eviction(2, 201, 2, 4)}, []int{1, 2}},
		"one that came too late":     {[]*request{eviction(1, 201, 1, 3), eviction(2, 404, 4, 5)}, []int{1}},
		"one that was answered soon": {[]*request{eviction(1, 404, 1, 2), eviction(2, 201, 3, 4)}, []int{1, 2}},
	} {
		court := (&town{requests: c.requests}).court()
		object := tree{"metadata": tree{}, "status": tree{}}
		court.last["U"] = object
		made, _ := court.of(&entry{Time: at.Add(10), Type: "MODIFIED", Origin: "watch", Resource: "pods", Namespace: "shop", Name: "a", UID: "U", ResourceVersion: "5", Object: object})
		var got []int
		for _, r := range made.makers {
			got = append(got, r.mark-first)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
}

// TestJudgeOfFinalizers has the judge see who removed the finalizer that a deletion asks for: also who is told to.
func TestJudgeOfFinalizers(t *testing.T) {
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	removal := &request{mark: first + 2, what: "removal of a finalizer", removes: "foregroundDeletion", code: 200, uid: "U", version: "5", sent: at.Add(3), answered: at.Add(4)}
	found := &request{mark: first + 3, what: "patch without effect", code: 200, uid: "U", version: "5", sent: at.Add(3), answered: at.Add(5)}
	deletion := &request{mark: first + 4, what: "delete", deletes: true, code: 200, uid: "U", version: "5", sent: at.Add(3), answered: at.Add(4)}
	list := &request{mark: first + 1, what: "deletecollection", deletes: true, code: 200, ns: "shop", resource: "pods", items: []string{"V"}, names: []string{"a"}, sent: at, answered: at.Add(1)}
	for _, want := range []*request{removal, deletion} {
		court := (&town{requests: []*request{list, want, found}}).court()
		court.last["U"] = tree{"metadata": tree{"finalizers": []any{"foregroundDeletion"}}}
		made, _ := court.of(&entry{Time: at.Add(10), Type: "MODIFIED", Origin: "watch", Resource: "pods", Namespace: "shop", Name: "a", UID: "U", ResourceVersion: "5", Object: tree{"metadata": tree{}}})
		if !slices.Equal(made.makers, []*request{want}) {
			t.Errorf("%s is not seen: %v", want.what, made.makers)
		}
	}
	other := &request{what: "deletecollection", deletes: true, code: 200, items: []string{"U"}, sent: at.Add(2), answered: at.Add(5)}
	made := truth{makers: []*request{other}}
	if is := made.beside(&entry{Type: "DELETED", UID: "U"}, []*request{other, deletion}); is != "two at once delete or evict it" {
		t.Errorf("two deletions are %q", is)
	}
	evicted := truth{makers: []*request{{what: "eviction", deletes: true, code: 201, sent: at, answered: at.Add(1)}}}
	for later, want := range map[time.Duration]string{2: "two at once delete or evict it", time.Second: ""} {
		other := &request{what: "deletecollection", deletes: true, code: 200, items: []string{"U"}, sent: at.Add(later), answered: at.Add(later + 1)}
		if is := evicted.beside(&entry{Type: "MODIFIED", UID: "U"}, []*request{other}); is != want {
			t.Errorf("a collection deleted %v after an eviction is %q", later, is)
		}
	}
	e := &entry{Type: "MODIFIED", UID: "U", ResourceVersion: "5", Resource: "pods", Namespace: "shop", Name: "a"}
	for _, r := range []request{{code: 404, sent: at.Add(9)}, {code: 404, sent: at.Add(time.Second)}, {code: 201, sent: at.Add(9)}} {
		r.evicts, r.deletes, r.resource, r.ns, r.name, r.answered = true, true, "pods", "shop", "a", r.sent.Add(1)
		want := map[int]string{201: "two at once delete or evict it", 404: "beside an eviction that was refused"}[r.code]
		if r.sent.Sub(at) >= time.Second {
			want = ""
		}
		if is := evicted.beside(e, []*request{&r}); is != want {
			t.Errorf("one that ends with %d after %v is %q", r.code, r.sent.Sub(at), is)
		}
	}
}
