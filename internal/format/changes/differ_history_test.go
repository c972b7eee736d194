package changes

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"kubejournal/internal/format/object"
	"kubejournal/test/invariant"
)

// history returns the versions of each object in testdata/history.jsonl, which
// is what watches of kube-apiserver v1.36.3 sent while nodes and pods changed
// their status, deployments, config maps, secrets, services and custom
// resources were applied with changing lists, roles edited, finalizers taken
// away and Events counted through both APIs.
func history(tb testing.TB) map[string][][]byte {
	tb.Helper()
	f, err := os.Open("testdata/history.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	versions := map[string][][]byte{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var frame struct{ Object json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &frame); err != nil {
			tb.Fatal(err)
		}
		var o struct {
			APIVersion, Kind string
			Metadata         struct{ UID string }
		}
		if err := json.Unmarshal(frame.Object, &o); err != nil {
			tb.Fatal(err)
		}
		key := o.APIVersion + " " + o.Kind + " " + o.Metadata.UID
		versions[key] = append(versions[key], frame.Object)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	if len(versions) < 10 {
		tb.Fatalf("%d objects", len(versions))
	}
	return versions
}

// Replaying the changes of real objects gives each of their versions, and the
// last: whole, without managedFields, and redacted.
func TestChangesOfHistory(t *testing.T) {
	var d Differ
	for _, shape := range []object.Shape{{}, podShape, {Secret: true, Redact: []string{"spec.containers[*].env[*].value", "spec.nested"}, Drop: []string{"metadata.managedFields", "status.conditions"}}} {
		r := mustRenderer(t, podSource, shape)
		for key, versions := range history(t) {
			shaped := make([][]byte, len(versions))
			for i, v := range versions {
				var o object.Object
				if err := r.Scan(v, &o); err != nil {
					t.Fatal(err)
				}
				shaped[i] = o.AppendShaped(nil)
			}
			replayed, _ := decode(shaped[0])
			for i, v := range shaped {
				for _, other := range [][]byte{shaped[0], shaped[len(shaped)-1], shaped[len(shaped)/2]} {
					checkChanges(t, &d, v, other)
				}
				if i == 0 {
					continue
				}
				list := checkChanges(t, &d, shaped[i-1], v)
				if shape.Secret && strings.Contains(string(list), "aHVudGVy") { // base64 of what secrets begin with
					t.Errorf("secret told: %s", list)
				}
				if len(list) == 0 {
					continue
				}
				var err error
				if replayed, err = invariant.Patch(replayed, list); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
			}
			if last, _ := decode(shaped[len(shaped)-1]); !sameJSON(replayed, last) {
				t.Errorf("%s: another object is left", key)
			}
		}
	}
}

// What a reader is told of a container that was killed, of a finalizer and a
// port in front of others, of labels, and of an Event that came again.
func TestChangesReadWell(t *testing.T) {
	r := mustRenderer(t, podSource, podShape)
	var d Differ
	told := map[string]bool{}
	for _, versions := range history(t) {
		var prev []byte
		for _, v := range versions {
			var o object.Object
			if err := r.Scan(v, &o); err != nil {
				t.Fatal(err)
			}
			next := o.AppendShaped(nil)
			if prev != nil {
				list := string(checkChanges(t, &d, prev, next))
				_, rest, _ := strings.Cut(list, "},") // behind the new resourceVersion
				told["["+rest] = true
			}
			prev = next
		}
	}
	for _, want := range []string{
		`[{"op":"replace","path":"/status/conditions/2/status","old":"True","value":"False"},` +
			`{"op":"replace","path":"/status/conditions/2/lastTransitionTime","old":"2026-11-20T16:03:00Z","value":"2026-11-20T16:04:00Z"},` +
			`{"op":"remove","path":"/status/containerStatuses/0/state/running","old":{"startedAt":"2026-11-20T16:10:01Z"}},` +
			`{"op":"add","path":"/status/containerStatuses/0/state/terminated","value":{"exitCode":137,"reason":"OOMKilled","startedAt":"2026-11-20T16:10:01Z","finishedAt":"2026-11-20T16:11:01Z"}},` +
			`{"op":"replace","path":"/status/containerStatuses/0/ready","old":true,"value":false},` +
			`{"op":"replace","path":"/status/containerStatuses/0/restartCount","old":0,"value":1}]`,
		`[{"op":"remove","path":"/metadata/finalizers/0","old":"example.com/a"}]`,
		`[{"op":"add","path":"/spec/ports/0","value":{"name":"metrics","protocol":"TCP","port":901,"targetPort":901}}]`,
		`[{"op":"replace","path":"/deprecatedLastTimestamp","old":"2026-11-20T16:10:00Z","value":"2026-11-20T16:12:00Z"},{"op":"replace","path":"/deprecatedCount","old":1,"value":2}]`,
		`[{"op":"replace","path":"/series/count","old":2,"value":3},{"op":"replace","path":"/series/lastObservedTime","old":"2026-11-20T16:12:00.654321Z","value":"2026-11-20T16:13:00.654321Z"}]`,
	} {
		if !told[want] {
			t.Errorf("nobody was told %s", want)
		}
	}
}
