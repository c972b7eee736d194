package person

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRules matches logs that a run of test/person has shown: each is a line, and requests of which at most one made it.
func TestRules(t *testing.T) {
	// ask is an event: its audit id, verb, subresource, status, times within 14:00:10, and what it has besides.
	ask := func(id, verb, sub string, code int, from, to, more string) string {
		name := `"name":"web",`
		if verb == "deletecollection" {
			name = ""
		}
		return fmt.Sprintf(`{"kind":"Event","auditID":%q,"stage":"ResponseComplete","requestURI":"/x?fieldManager=kubectl","verb":%q,"user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"shop",%s"subresource":%q},"responseStatus":{"code":%d},"requestReceivedTimestamp":"2026-11-20T14:00:10.%sZ","stageTimestamp":"2026-11-20T14:00:10.%sZ"%s}`,
			id, verb, name, sub, code, from, to, more)
	}
	answer := func(version, more string) string {
		return fmt.Sprintf(`,"responseObject":{"kind":"Pod","metadata":{"uid":"U","resourceVersion":%q%s}}`, version, more)
	}
	const (
		options = `,"requestObject":{"kind":"DeleteOptions"}`
		now     = `,"requestObject":{"kind":"DeleteOptions","gracePeriodSeconds":0}`
		gone    = `,"responseObject":{"kind":"Status","details":{"uid":"U"}}`
		touched = `,"managedFields":[{"time":"2026-11-20T14:00:10Z"}]`
		written = `"manager":"kubectl","writtenAt":"2026-11-20T14:00:10Z",`
		deleted = `"writtenAt":"2026-11-20T14:00:10Z","changes":[{"op":"add","path":"/metadata/deletionTimestamp","value":"2026-11-20T14:00:10Z"}],`
		dying   = `,"deletionTimestamp":"2026-11-20T14:00:10Z","deletionGracePeriodSeconds":0`
	)
	for name, c := range map[string]struct {
		typ, line, metadata, status string // of a line at version 50
		log                         []string
		want                        string
	}{
		"a dry run, whose body is not logged, before a deletion": {"MODIFIED", deleted, dying, "", []string{
			ask("dry", "delete", "", 200, "100", "110", ""), ask("real", "delete", "", 200, "200", "210", "")}, ""},
		"a dry run and a deletion whose bodies are logged": {"MODIFIED", deleted, dying, "", []string{
			ask("dry", "delete", "", 200, "100", "110", `,"requestObject":{"dryRun":["All"]}`), ask("real", "delete", "", 200, "200", "210", options)}, "real"},
		"a failed write, and one that found the version there": {"MODIFIED", written, "", "", []string{
			ask("failed", "patch", "", 504, "100", "120", ""), ask("found", "patch", "", 200, "150", "160", answer("50", touched))}, ""},
		"a failed write, by name": {"MODIFIED", written, "", "", []string{ask("failed", "patch", "", 504, "100", "120", "")}, "failed"},
		"a pod is deleted without grace, at two versions": {"MODIFIED", deleted, dying, "", []string{
			ask("del", "delete", "", 200, "100", "120", now+answer("51", ""))}, "del"},
		"a deletion that found the object being deleted": {"MODIFIED", written + `"changes":[{"op":"add","path":"/data","value":1}],`, dying, "", []string{
			ask("del", "delete", "", 200, "090", "120", now+answer("50", touched)), ask("patch", "patch", "", 200, "100", "110", answer("50", touched))}, "patch"},
		"a deletion asked for again, at another version, and a patch that found that": {"MODIFIED", `"changes":[{"op":"replace","path":"/metadata/resourceVersion","old":"49","value":"50"}],`, dying, "", []string{
			ask("again", "delete", "", 200, "100", "120", options+answer("50", "")), ask("found", "patch", "", 200, "150", "160", answer("50", ""))}, "again"},
		"a deletion that asks for a finalizer, and an apply that gives up the last one": {"MODIFIED", `"changes":[{"op":"add","path":"/metadata/finalizers/1","value":"foregroundDeletion"}],`, dying, "", []string{
			ask("del", "delete", "", 200, "100", "120", options+answer("50", `,"managedFields":[{"time":"2026-11-20T13:00:00Z"}]`+dying)), ask("last", "patch", "", 200, "150", "160", answer("50", touched+dying))}, "del"},
		"a deletion, and one of the collection that listed it": {"DELETED", "", "", "", []string{
			ask("all", "deletecollection", "", 200, "090", "190", `,"responseObject":{"kind":"PodList","items":[{"metadata":{"uid":"U"}}]}`),
			ask("del", "delete", "", 200, "100", "120", options+gone)}, "del"},
		"one of the collection whose list is not logged": {"DELETED", "", "", "", []string{
			ask("all", "deletecollection", "", 200, "100", "190", options), ask("del", "delete", "", 200, "150", "160", options)}, ""},
		"less grace": {"MODIFIED", `"changes":[{"op":"replace","path":"/metadata/deletionGracePeriodSeconds","old":30,"value":0}],`, dying, "", []string{
			ask("again", "delete", "", 200, "090", "095", options+answer("49", "")), ask("kill", "delete", "", 200, "100", "120", now+answer("51", ""))}, "kill"},
		"a binding": {"MODIFIED", `"changes":[{"op":"add","path":"/spec/nodeName","value":"n"}],`, "", `{"type":"PodScheduled","lastTransitionTime":"2026-11-20T14:00:10Z"}`, []string{
			ask("bind", "create", "binding", 201, "100", "120", ""), ask("found", "patch", "", 200, "150", "160", answer("50", ""))}, "bind"},
		"an eviction's condition": {"MODIFIED", `"changes":[{"op":"add","path":"/status/conditions/1","value":{"reason":"EvictionByEvictionAPI"}}],`, "", `{"type":"DisruptionTarget","lastTransitionTime":"2026-11-20T14:00:10Z"}`, []string{
			ask("first", "create", "eviction", 201, "100", "120", `,"requestObject":{}`), ask("second", "create", "eviction", 201, "130", "150", `,"requestObject":{}`)}, "first"},
		"an eviction that was refused as its pod was gone": {"MODIFIED", `"changes":[{"op":"add","path":"/status/conditions/1","value":{"reason":"EvictionByEvictionAPI"}}],`, "", `{"type":"DisruptionTarget","lastTransitionTime":"2026-11-20T14:00:10Z"}`, []string{
			ask("refused", "create", "eviction", 404, "100", "120", `,"requestObject":{}`)}, "refused"},
		"one that was refused, beside another": {"MODIFIED", `"changes":[{"op":"add","path":"/status/conditions/1","value":{"reason":"EvictionByEvictionAPI"}}],`, "", `{"type":"DisruptionTarget","lastTransitionTime":"2026-11-20T14:00:10Z"}`, []string{
			ask("refused", "create", "eviction", 404, "100", "120", `,"requestObject":{}`), ask("second", "create", "eviction", 201, "110", "150", `,"requestObject":{}`)}, ""},
		"one that was refused, after another": {"MODIFIED", `"changes":[{"op":"add","path":"/status/conditions/1","value":{"reason":"EvictionByEvictionAPI"}}],`, "", `{"type":"DisruptionTarget","lastTransitionTime":"2026-11-20T14:00:10Z"}`, []string{
			ask("first", "create", "eviction", 201, "100", "120", `,"requestObject":{}`), ask("refused", "create", "eviction", 404, "130", "150", `,"requestObject":{}`)}, "first"},
		"a scale, and a write without effect by the same manager": {"MODIFIED", `"manager":"kubectl","subresource":"scale",`, "", "", []string{
			ask("scale", "update", "scale", 200, "100", "110", answer("50", "")), ask("found", "patch", "", 200, "130", "150", answer("50", touched))}, "scale"},
	} {
		t.Run(name, func(t *testing.T) {
			object := fmt.Sprintf(`{"metadata":{"name":"web","uid":"U","creationTimestamp":"2026-11-20T13:00:00Z"%s},"status":{"conditions":[%s]}}`, c.metadata, c.status)
			l := fmt.Sprintf(`{"seq":1,"time":"2026-11-20T14:00:10.2Z","type":%q,"origin":"watch","id":"U/50/%s","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"shop","name":"web","uid":"U","resourceVersion":"50",%s"object":%s}`, c.typ, c.typ, c.line, object)
			journal := filepath.Join(t.TempDir(), "journal.jsonl")
			if err := os.WriteFile(journal, []byte(l+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := match(t, journal, []byte(strings.Join(c.log, "\n")+"\n"))
			got := ""
			for _, e := range r.Entries {
				got = e.AuditID
			}
			if got != c.want {
				t.Errorf("made by %q, not by %q", got, c.want)
			}
		})
	}
}

// TestClocks has a clock of kubejournal's that is ahead of the API server's: at the time at which a deletion of alice's
// is received, bob deleted another object of that name.
func TestClocks(t *testing.T) {
	for ahead, want := range map[time.Duration]string{0: "alice", time.Minute: ""} {
		journal := filepath.Join(t.TempDir(), "journal.jsonl")
		at := func(seconds int) string {
			return time.Date(2026, 11, 20, 14, 0, seconds, 2e8, time.UTC).Add(ahead).Format(time.RFC3339Nano)
		}
		l := `{"seq":%d,"time":%q,"type":%q,"origin":"watch","id":"%[4]s/%[1]d/%[3]s","stream":"configmaps","version":"v1","resource":"configmaps","kind":"ConfigMap","namespace":"shop","name":"web","uid":%[4]q,"resourceVersion":"%[1]d",%[5]s"object":{"metadata":{"name":"web","uid":%[4]q}}}`
		lines := fmt.Sprintf(l, 1, at(0), "ADDED", "U", `"manager":"kubectl","writtenAt":"2026-11-20T14:00:00Z",`) + "\n" +
			fmt.Sprintf(l, 2, at(10), "DELETED", "U", "") + "\n"
		if err := os.WriteFile(journal, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		del := `{"kind":"Event","auditID":%[1]q,"stage":"ResponseComplete","requestURI":"/x","verb":"delete","user":{"username":%[1]q},"objectRef":{"resource":"configmaps","namespace":"shop","name":"web"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-20T14:0%[2]d:10.1Z","stageTimestamp":"2026-11-20T14:0%[2]d:10.2Z"}` + "\n"
		r := match(t, journal, []byte(fmt.Sprintf(del, "alice", 0)+fmt.Sprintf(del, "bob", 1)))
		got := ""
		for _, e := range r.Entries {
			got = e.User
		}
		if got != want {
			t.Errorf("%s ahead: made by %q, not by %q", ahead, got, want)
		}
	}
}

// TestOneAfterTheOther evicts a pod and, in the same second, deletes the next one of this name with its collection: the
// eviction fits both by name, and nothing else fits the first.
func TestOneAfterTheOther(t *testing.T) {
	var lines, log strings.Builder
	for i, uid := range []string{"U", "V"} {
		fmt.Fprintf(&lines, `{"seq":%d,"time":"2026-11-20T14:00:10.%dZ","type":"MODIFIED","origin":"watch","id":"%s/5/MODIFIED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"shop","name":"web","uid":%q,"resourceVersion":"5","writtenAt":"2026-11-20T14:00:10Z","object":{"metadata":{"creationTimestamp":"2026-11-20T14:00:%02dZ","deletionTimestamp":"2026-11-20T14:00:10Z","deletionGracePeriodSeconds":0}}}`+"\n",
			i+1, 2+3*i, uid, uid, 9+i)
	}
	event := `{"kind":"Event","auditID":%q,"stage":"ResponseComplete","requestURI":"/x","verb":%q,"user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"shop"%s},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-20T14:00:10.%sZ","stageTimestamp":"2026-11-20T14:00:10.%s5Z",%s}` + "\n"
	fmt.Fprintf(&log, event, "evict", "create", `,"name":"web","subresource":"eviction"`, "1", "1", `"requestObject":{}`)
	fmt.Fprintf(&log, event, "all", "deletecollection", "", "4", "4", `"responseObject":{"kind":"PodList","items":[{"metadata":{"uid":"V"}}]}`)
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(journal, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range match(t, journal, []byte(log.String())).Entries {
		got += fmt.Sprint(e.Seq, e.AuditID, e.Match, " ")
	}
	if want := "1evictname 2alluid "; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestCollectionOfTwo deletes a collection of two objects, and one of them by its name at the same time: that the
// collection's deletion has removed the other one says nothing of this one.
func TestCollectionOfTwo(t *testing.T) {
	var lines, log strings.Builder
	for i, uid := range []string{"V", "U"} {
		fmt.Fprintf(&lines, `{"seq":%d,"time":"2026-11-20T14:00:10.%dZ","type":"DELETED","origin":"watch","id":"%s/5/DELETED","stream":"pods","version":"v1","resource":"pods","kind":"Pod","namespace":"shop","name":%q,"uid":%q,"resourceVersion":"5","object":{"metadata":{"creationTimestamp":"2026-11-20T13:00:00Z"}}}`+"\n",
			i+1, 2+i, uid, "web-"+uid, uid)
	}
	event := `{"kind":"Event","auditID":%q,"stage":"ResponseComplete","requestURI":"/x","verb":%q,"user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"shop"%s},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-20T14:00:10.1Z","stageTimestamp":"2026-11-20T14:00:10.4Z",%s}` + "\n"
	fmt.Fprintf(&log, event, "all", "deletecollection", "", `"responseObject":{"kind":"PodList","items":[{"metadata":{"uid":"U"}},{"metadata":{"uid":"V"}}]}`)
	fmt.Fprintf(&log, event, "one", "delete", `,"name":"web-U"`, `"responseObject":{"kind":"Pod","metadata":{"uid":"U","resourceVersion":"4"}}`)
	journal := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(journal, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range match(t, journal, []byte(log.String())).Entries {
		got += fmt.Sprint(e.Seq, e.AuditID, " ")
	}
	if want := "1all 2 "; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
