package columns

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"

	"kubejournal/internal/format/builtin"
)

// The columns and rows of testdata are what a real server prints: test/columns writes them with -update.

func TestColumns(t *testing.T) {
	text, err := os.ReadFile("testdata/columns.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r := range builtin.All() {
		n++
		key := r.Resource + "." + r.Version + "." + r.Group
		p := For(r.Group, r.Version, r.Resource)
		if p == nil {
			t.Errorf("%s: no printer", key)
			continue
		}
		var got []map[string]any
		if text, err = json.Marshal(p.Columns); err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range min(len(got), len(want[key])) {
			if _, ok := want[key][i]["description"]; !ok { // another minor's words
				delete(got[i], "description")
			}
		}
		if !reflect.DeepEqual(got, want[key]) {
			t.Errorf("%s: columns\n%v, want\n%v", key, got, want[key])
		}
	}
	if n != len(printers()) || n != len(want) {
		t.Errorf("%d built-in resources, %d printers, columns of %d", n, len(printers()), len(want))
	}
	if For("", "v1", "widgets") != nil || For("apps", "v1", "pods") != nil {
		t.Error("a printer of what is not built in")
	}
}

func TestRow(t *testing.T) {
	text, err := os.ReadFile("testdata/rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for line := range bytes.Lines(text) {
		var row struct {
			Resource string
			Time     time.Time
			Cells    json.RawMessage
			Object   json.RawMessage
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		p := printers()[row.Resource]
		if p == nil {
			t.Fatalf("no printer of %s", row.Resource)
		}
		cells, err := p.Row(row.Object, row.Time)
		if err != nil {
			t.Errorf("%s: %v of %s", row.Resource, err, row.Object)
		}
		got, err := json.Marshal(cells)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, row.Cells) {
			t.Errorf("%s: cells\n%s, want\n%s\nof %s", row.Resource, got, row.Cells, row.Object)
		}
		seen[row.Resource] = true
	}
	for resource := range printers() {
		if !seen[resource] {
			t.Errorf("no row of %s", resource)
		}
	}
}

// What a journal has redacted or cut may not be of its type any more.
func TestUnreadable(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const deployment, role = "deployments.v1.apps", "roles.v1.rbac.authorization.k8s.io"
	const unknown = "<unknown>"
	for _, c := range []struct {
		resource, object string
		fails            bool
		want             []any
	}{
		{deployment, `{"metadata":{"name":"web","creationTimestamp":"2026-11-28T11:00:00Z"},"spec":{"replicas":"REDACTED"}}`, true,
			[]any{"web", unknown, unknown, unknown, "60m", unknown, unknown, unknown}},
		{deployment, `{"metadata":{"name":"web","creationTimestamp":"REDACTED"}}`, true,
			[]any{"web", unknown, unknown, unknown, unknown, unknown, unknown, unknown}},
		{deployment, `{"metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"a","image":"REDACTED"}]}}}}`, false,
			[]any{"web", "0/1", int64(0), int64(0), unknown, "a", "REDACTED", ""}},
		{deployment, `{"metadata":{"name":"web"},"spec":{"template":{"spec":{"containers":"REDACTED"}}}}`, true,
			[]any{"web", unknown, unknown, unknown, unknown, unknown, unknown, unknown}},
		{role, `{"metadata":{"name":"r","labels":"REDACTED","creationTimestamp":"2026-11-28T11:00:00Z"}}`, true,
			[]any{"r", "2026-11-28T11:00:00Z"}},
		{role, `[]`, true, []any{unknown, unknown}},
		{role, ``, true, []any{unknown, unknown}},
	} {
		got, err := printers()[c.resource].Row([]byte(c.object), now)
		if !reflect.DeepEqual(got, c.want) || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v, want %v", c.object, got, err, c.want)
		}
	}
}

// FuzzRow has it take any JSON for an object of each resource, without a panic and with as many cells as ever.
func FuzzRow(f *testing.F) {
	text, err := os.ReadFile("testdata/rows.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var row struct{ Object json.RawMessage }
		if err := json.Unmarshal(line, &row); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(row.Object))
	}
	f.Add([]byte(`{"spec":{"metrics":[{"type":"Pods"},{"type":"External","external":{}},{"type":"Resource","resource":{"target":{}}}]}}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		for resource, p := range printers() {
			cells, err := p.Row(object, time.Unix(1e9, 0))
			want := len(p.Columns)
			if resource == "ipaddresses.v1.networking.k8s.io" && err == nil {
				want++ // the server prints an age and has no column for it
			}
			if len(cells) != want {
				t.Errorf("%s: %d cells, want %d", resource, len(cells), want)
			}
		}
	})
}
