package person

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/format/audit"
)

// server makes up a history of writes. It knows who made each line, and what an audit log of each level says.
type server struct {
	rand     *rand.Rand
	level    string
	fields   bool // managedFields are logged
	hidden   bool // controllers are not logged
	offset   time.Duration
	now      time.Time // of the last commit
	rv, seq  int
	objects  map[string]*thing
	lines    []string
	log      []map[string]any
	truth    map[int]string // by seq: the audit id
	unsure   map[int]bool   // by seq: nobody could say
	ids      int
	unlogged bool              // the last request
	last     map[string]*write // by uid
}

var histories = flag.Int("histories", 60, "how many of each kind are made up")

type thing struct {
	resource, name, uid string
	rv                  int
	asked               time.Time // zero while it is not being deleted
	by                  string    // the request that asked for that
	askedSeq            int       // of the line that says so
	grace               int
	created             time.Time
}

// write is what made a version.
type write struct {
	answered time.Time
	seq      int
}

type who struct{ user, as, manager string }

var people = []who{
	{"alice", "", "kubectl-edit"}, {"bob", "", "kubectl-edit"}, {"carol", "", "helm"}, {"dave", "root", "kubectl-edit"},
	{"system:serviceaccount:kube-system:gc", "", "kube-controller-manager"},
}

func (s *server) pick(n int) bool { return s.rand.IntN(n) == 0 }

// request moves the clock on and returns when a request is received, committed and answered. It may overlap with the
// one before.
func (s *server) request() (received, at, answered time.Time) {
	step := time.Duration(s.rand.IntN(int([]time.Duration{time.Millisecond, 300 * time.Millisecond, 20 * time.Second}[s.rand.IntN(3)])))
	s.now = s.now.Add(step.Truncate(time.Microsecond) + time.Microsecond)
	back := func() time.Duration { return time.Duration(1+s.rand.IntN(2000)) * time.Microsecond }
	return s.now.Add(-back()), s.now, s.now.Add(back())
}

// note writes an event. o is the object in the answer, nil for a Status.
func (s *server) note(p who, verb string, of *thing, sub string, code int, received, answered time.Time, query string, body, answer map[string]any) string {
	s.ids++
	id := fmt.Sprintf("id-%d", s.ids)
	if s.unlogged = p.manager == "unlogged"; s.unlogged {
		return id
	}
	ref := map[string]any{"resource": of.resource, "namespace": "shop", "name": of.name, "apiVersion": "v1"}
	if sub != "" {
		ref["subresource"] = sub
	}
	if verb == "deletecollection" {
		delete(ref, "name")
	}
	if body != nil && body["metadata"] != nil {
		ref["resourceVersion"] = body["metadata"].(map[string]any)["resourceVersion"]
	}
	e := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": s.level, "auditID": id, "stage": "ResponseComplete",
		"requestURI": "/api/v1/namespaces/shop/" + of.resource + "/" + of.name + "?fieldManager=" + p.manager + query, "verb": verb,
		"user": map[string]any{"username": p.user, "groups": []string{"dev"}}, "sourceIPs": []string{"10.0.0.1"},
		"userAgent": "kubectl/v1.37", "objectRef": ref, "responseStatus": map[string]any{"code": code},
		"requestReceivedTimestamp": received.Format("2006-01-02T15:04:05.000000Z"), "stageTimestamp": answered.Format("2006-01-02T15:04:05.000000Z"),
	}
	if p.as != "" {
		e["impersonatedUser"] = map[string]any{"username": p.as}
	}
	if verb == "deletecollection" && s.level != "Metadata" {
		body = map[string]any{"kind": "DeleteOptions"}
	}
	if s.level != "Metadata" && body != nil {
		e["requestObject"] = body
	}
	if s.level == "RequestResponse" && answer != nil {
		e["responseObject"] = answer
	}
	for _, stage := range []string{"RequestReceived", "ResponseStarted"} {
		if s.pick(10) {
			copied := map[string]any{}
			for k, v := range e {
				copied[k] = v
			}
			copied["stage"] = stage
			s.log = append(s.log, copied)
		}
	}
	s.log = append(s.log, e)
	return id
}

// answer is the object as the server answers with it; at is when managedFields last changed.
func (s *server) answer(o *thing, manager string, at time.Time) map[string]any {
	m := map[string]any{"name": o.name, "namespace": "shop", "uid": o.uid, "resourceVersion": fmt.Sprint(o.rv)}
	if s.fields && !at.IsZero() {
		m["managedFields"] = []map[string]any{{"manager": manager, "time": at.Truncate(time.Second).Format(time.RFC3339)}}
	}
	return map[string]any{"kind": "Thing", "apiVersion": "v1", "metadata": m, "data": map[string]any{"password": "c2VjcmV0"}}
}

// line writes a line of a version that was committed at a time.
func (s *server) line(typ string, o *thing, manager string, at, written time.Time, id string) {
	s.seq++
	received := at.Add(s.offset + time.Duration(s.rand.IntN(200))*time.Millisecond)
	l := fmt.Sprintf(`{"seq":%d,"time":%q,"type":%q,"origin":"watch","id":"%s/%d/%s","stream":%q,"version":"v1","resource":%q,"kind":"Thing","namespace":"shop","name":%q,"uid":%q,"resourceVersion":"%d"`,
		s.seq, received.Format(time.RFC3339Nano), typ, o.uid, o.rv, typ, o.resource, o.resource, o.name, o.uid, o.rv)
	if manager != "" {
		l += fmt.Sprintf(`,"manager":%q`, manager)
	}
	if !written.IsZero() {
		l += fmt.Sprintf(`,"writtenAt":%q`, written.Truncate(time.Second).Format(time.RFC3339))
	}
	asked := ""
	if !o.asked.IsZero() {
		asked = fmt.Sprintf(`,"deletionTimestamp":%q,"deletionGracePeriodSeconds":%d`, o.asked.Truncate(time.Second).Add(time.Duration(o.grace)*time.Second).Format(time.RFC3339), o.grace)
		if o.grace == 0 {
			l += `,"changes":[{"op":"replace","path":"/metadata/deletionTimestamp","old":"","value":""}]`
		}
	}
	s.lines = append(s.lines, l+fmt.Sprintf(`,"object":{"metadata":{"name":%q,"uid":%q,"creationTimestamp":%q%s}}}`, o.name, o.uid, o.created.Truncate(time.Second).Format(time.RFC3339), asked))
	s.truth[s.seq] = id
}

func (s *server) someone() who {
	if s.hidden && s.pick(3) {
		return who{"system:node", "", "unlogged"}
	}
	return people[s.rand.IntN(len(people))]
}

// step is one request, or several that belong together.
func (s *server) step() {
	p := s.someone()
	o := &thing{resource: []string{"things", "pods"}[s.rand.IntN(2)], name: fmt.Sprint("n", s.rand.IntN(4))}
	key := o.resource + o.name
	received, at, answered := s.request()
	there := s.objects[key]
	status := map[string]any{"kind": "Status", "code": 409, "details": map[string]any{"name": o.name}}
	if there == nil {
		switch {
		case s.pick(5):
			s.note(p, "create", o, "", 201, received, answered, "&dryRun=All", nil, s.answer(o, p.manager, at))
			return
		case s.pick(8):
			s.note(p, "delete", o, "", 404, received, answered, "", nil, status)
			return
		}
		s.rv++
		o.uid, o.rv, o.created = fmt.Sprintf("uid-%d", s.rv), s.rv, at
		s.objects[key] = o
		verb := "create"
		if p.manager == "helm" {
			verb = "patch" // server-side apply
		}
		id := s.note(p, verb, o, "", 201, received, answered, "", nil, s.answer(o, p.manager, at))
		s.line("ADDED", o, p.manager, at, at, id)
		s.last[o.uid] = &write{answered, s.seq}
		return
	}
	o = there
	switch n := s.rand.IntN(12); {
	case !o.asked.IsZero() && n < 6: // the kubelet ends it, or another asks again
		if n < 3 {
			s.note(p, "delete", o, "", 200, received, answered, "", map[string]any{"kind": "DeleteOptions"}, s.answer(o, "", time.Time{}))
			s.touched(o, received)
			return
		}
		delete(s.objects, key)
		s.rv++
		o.rv, o.asked, o.grace = s.rv, at, 0
		was := s.answer(o, "", time.Time{})
		by := s.note(who{"system:node:a", "", "kubelet"}, "delete", o, "", 200, received, answered, "", map[string]any{"kind": "DeleteOptions", "gracePeriodSeconds": 0}, was)
		s.touched(o, received)
		s.line("MODIFIED", o, "", at, time.Time{}, by)
		s.unsure[s.seq] = true
		s.rv++
		o.rv = s.rv
		s.line("DELETED", o, "", at, time.Time{}, o.by)
		s.unsure[s.seq] = s.unsure[o.askedSeq]
	case n == 0: // refused
		s.note(p, "update", o, "", 409, received, answered, "", map[string]any{"metadata": map[string]any{"resourceVersion": "1"}}, status)
	case n == 1:
		s.note(p, "patch", o, "", 200, received, answered, "&dryRun=All", nil, s.answer(o, p.manager, at))
	case n == 2: // nothing to change
		verb, body := "patch", map[string]any(nil)
		if s.pick(2) {
			verb, body = "update", map[string]any{"metadata": map[string]any{"resourceVersion": fmt.Sprint(o.rv)}}
		} else {
			s.touched(o, received)
		}
		s.note(p, verb, o, "", 200, received, answered, "", body, s.answer(o, p.manager, s.now.Add(-time.Hour)))
	case p.manager == "unlogged" && n < 5:
		// of what the log leaves out, deletions could be taken for others' in the same second
	case n == 3 && o.asked.IsZero() && o.resource == "pods", n == 4 && o.asked.IsZero() && o.resource == "pods":
		s.rv++
		o.rv, o.asked, o.grace = s.rv, at, 30
		if n == 3 {
			o.by = s.note(p, "delete", o, "", 200, received, answered, "", map[string]any{"kind": "DeleteOptions"}, s.answer(o, "", time.Time{}))
		} else {
			o.by = s.note(p, "create", o, "eviction", 201, received, answered, "", map[string]any{"kind": "Eviction"}, map[string]any{"kind": "Status"})
		}
		s.line("MODIFIED", o, "", at, at, o.by)
		s.last[o.uid] = &write{answered, s.seq}
		o.askedSeq = s.seq
		s.unsure[s.seq] = n == 4 && at.Truncate(time.Second).Equal(o.created.Truncate(time.Second)) // of the object before, perhaps
	case n <= 4 && o.resource == "things" && o.asked.IsZero():
		body := map[string]any{"kind": "DeleteOptions"}
		gone := map[string]any{"kind": "Status", "details": map[string]any{"name": o.name, "uid": o.uid}}
		if n == 3 && s.level != "Metadata" {
			body["dryRun"] = []string{"All"}
			s.note(p, "delete", o, "", 200, received, answered, "", body, gone)
			return
		}
		delete(s.objects, key)
		s.rv++
		o.rv = s.rv
		var id string
		if s.pick(4) {
			id = s.note(p, "deletecollection", o, "", 200, received, answered, "", nil, map[string]any{"kind": "ThingList", "items": []any{s.answer(o, "", time.Time{})}})
		} else {
			id = s.note(p, "delete", o, "", 200, received, answered, "", body, gone)
		}
		s.line("DELETED", o, "", at, time.Time{}, id)
	default:
		verb, sub, body := "patch", "", map[string]any(nil)
		if s.pick(2) {
			verb, body = "update", map[string]any{"metadata": map[string]any{"resourceVersion": fmt.Sprint(o.rv)}}
		}
		s.rv++
		o.rv = s.rv
		id := s.note(p, verb, o, sub, 200, received, answered, "", body, s.answer(o, p.manager, at))
		manager, written := p.manager, at
		if s.pick(5) {
			manager, written = "", time.Time{}
		}
		s.line("MODIFIED", o, manager, at, written, id)
		s.last[o.uid] = &write{answered, s.seq}
		if s.unlogged { // what finds the version before its line was received cannot be told from what wrote it
			s.last[o.uid].answered = at.Add(250 * time.Millisecond)
		}
	}
}

// touched notes that a request found a version there while that was perhaps being written: nobody can tell which of
// the two wrote it.
func (s *server) touched(o *thing, received time.Time) {
	if last := s.last[o.uid]; last != nil && !received.After(last.answered) {
		s.unsure[last.seq] = true
	}
}

func (s *server) write(t *testing.T) (journal string, log []byte) {
	t.Helper()
	journal = filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(journal, []byte(strings.Join(s.lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, e := range s.log {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	return journal, out.Bytes()
}

// match returns what a log says of a journal, by seq.
func match(t *testing.T, journal string, logs ...[]byte) *Result {
	t.Helper()
	q := New()
	for _, log := range logs {
		_, err := audit.Read(bytes.NewReader(log), q.Add, func(line int, why string) { t.Fatalf("line %d: %s", line, why) })
		if err != nil {
			t.Fatal(err)
		}
	}
	j, err := archive.Open(journal, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r, err := q.Match(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTruth matches random histories, of which it is known who made each line: with answers in the log every line is
// named; and nobody is ever named who did not make it.
func TestTruth(t *testing.T) {
	for _, level := range []string{"Metadata", "Request", "RequestResponse"} {
		for _, hidden := range []bool{false, true} {
			lines, named, unnamed := 0, 0, 0
			for seed := range uint64(*histories) {
				s := &server{
					rand: rand.New(rand.NewPCG(seed, 7)), level: level, fields: seed%2 == 0, hidden: hidden,
					now: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC), objects: map[string]*thing{}, truth: map[int]string{},
					unsure: map[int]bool{}, last: map[string]*write{}, rv: 100,
				}
				s.offset = time.Duration(s.rand.IntN(2000)-1000) * time.Millisecond
				for range 60 {
					s.step()
				}
				if len(s.lines) == 0 {
					continue
				}
				journal, log := s.write(t)
				r := match(t, journal, log)
				lines += len(s.lines)
				is := map[int]string{}
				for _, e := range r.Entries {
					if e.User == "" {
						continue
					}
					is[int(e.Seq)] = e.AuditID
					if named++; e.AuditID != s.truth[int(e.Seq)] && !(hidden && s.unsure[int(e.Seq)]) {
						t.Errorf("%s, seed %d: seq %d is by %s, not by %s (%s)\n%s", level, seed, e.Seq, s.truth[int(e.Seq)], e.AuditID, e.Match, s.lines[e.Seq-1])
					}
				}
				for seq := 1; seq <= len(s.lines) && level == "RequestResponse" && !hidden; seq++ {
					if is[seq] == "" && !s.unsure[seq] {
						unnamed++
						t.Errorf("%s, seed %d: nobody is named for seq %d, by %s\n%s", level, seed, seq, s.truth[seq], s.lines[seq-1])
					}
				}
				if t.Failed() && unnamed > 3 {
					t.FailNow()
				}
			}
			t.Logf("%s, hidden %t: %d of %d lines are named", level, hidden, named, lines)
		}
	}
}
