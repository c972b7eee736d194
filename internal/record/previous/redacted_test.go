package previous

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
)

var hiding = object.Shape{
	Secret: true, Drop: []string{"metadata.managedFields"},
	Redact: []string{"spec.containers[*].env[*].value", "a[*]", "nested.token", "list"},
}

// redactingRig is a rig for objects of this shape.
func redactingRig(t *testing.T, at *checkpoint.Store, c Config) *rig {
	t.Helper()
	c.Changes, c.Shape = true, hiding
	r := newRig(t, at, c)
	r.render = mustRenderer(t, podSource, hiding)
	return r
}

func mustTemp(t *testing.T) *checkpoint.Store {
	t.Helper()
	at, err := checkpoint.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	return at
}

// look takes the next version of an object and returns the list of changes.
func (r *rig) look(raw string) string {
	r.t.Helper()
	list, _ := r.take("a", raw)
	return list
}

func hidden(path string) string {
	return fmt.Sprintf(`{"op":"replace","path":%q,"old":"REDACTED","value":"REDACTED"}`, path)
}

// Of the values that are redacted, those are listed that have changed.
func TestRedactedChanges(t *testing.T) {
	for name, c := range map[string]struct{ prev, next, want string }{
		"same":         {`"data":{"p":"x"}`, `"data":{"p":"x"}`, ``},
		"changed":      {`"data":{"p":"x","q":"y"}`, `"data":{"p":"x","q":"z"}`, hidden("/data/q")},
		"all":          {`"data":{"p":"x","q":"y"}`, `"data":{"p":"y","q":"x"}`, hidden("/data/p") + "," + hidden("/data/q")},
		"stringData":   {`"stringData":{"p":"x"}`, `"stringData":{"p":"y"}`, hidden("/stringData/p")},
		"another kind": {`"data":{"p":"1"}`, `"data":{"p":1}`, hidden("/data/p")},
		"is REDACTED":  {`"data":{"p":"x"}`, `"data":{"p":"REDACTED"}`, hidden("/data/p")},
		"to null":      {`"data":{"p":"x"}`, `"data":{"p":null}`, hidden("/data/p")},
		"below":        {`"data":{"p":{"q":"x","r":1}}`, `"data":{"p":{"q":"y","r":1}}`, hidden("/data/p/q")},
		"no object any more": {`"data":{"p":{"q":"x"}}`, `"data":{"p":"x"}`,
			`{"op":"replace","path":"/data/p","old":{"q":"REDACTED"},"value":"REDACTED"}`},
		"a list":        {`"list":[1,{"a":"x"}]`, `"list":[1,{"a":"y"}]`, hidden("/list")},
		"a list, same":  {`"list":[1,{"a":"x"}]`, `"list":[ 1, {"a" : "x"} ]`, ``},
		"spelling":      {`"data":{"p":"x"}`, `"data":{"p":"\u0078"}`, hidden("/data/p")},
		"key added":     {`"data":{"p":"x"}`, `"data":{"o":"x","p":"y"}`, `{"op":"add","path":"/data/o","value":"REDACTED"},` + hidden("/data/p")},
		"key removed":   {`"data":{"o":"x","p":"x"}`, `"data":{"p":"x"}`, `{"op":"remove","path":"/data/o","old":"REDACTED"}`},
		"data added":    {`"type":"x"`, `"type":"x","data":{"p":"x"}`, `{"op":"add","path":"/data","value":{"p":"REDACTED"}}`},
		"beside others": {`"data":{"p":"x"},"type":"a"`, `"data":{"p":"y"},"type":"b"`, hidden("/data/p") + `,{"op":"replace","path":"/type","old":"a","value":"b"}`},
		"misfit":        {`"nested":"x"`, `"nested":"y"`, hidden("/nested")},
		"a misfit":      {`"nested":[{"token":"x"}]`, `"nested":{"token":"x"}`, `{"op":"replace","path":"/nested","old":"REDACTED","value":{"token":"REDACTED"}}`},
		"elements":      {`"a":["x","y",null]`, `"a":["x","z",null]`, hidden("/a/1")},
		"inserted":      {`"a":["x","y"]`, `"a":["x","y","z"]`, `{"op":"add","path":"/a/2","value":"REDACTED"}`},
		"in elements": {`"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"x"},{"name":"B","value":"y"}]}]}`,
			`"spec":{"containers":[{"name":"n"},{"name":"c","env":[{"name":"N","value":"y"},{"name":"A","value":"x"},{"name":"B","value":"z"}]}]}`,
			`{"op":"add","path":"/spec/containers/0","value":{"name":"n"}},` +
				`{"op":"add","path":"/spec/containers/1/env/0","value":{"name":"N","value":"REDACTED"}},` + hidden("/spec/containers/1/env/2/value")},
		"order":          {`"data":{"p":"x","q":"y"}`, `"data":{"q":"y","p":"x"}`, ``},
		"order, changed": {`"data":{"p":"x","q":"y"}`, `"data":{"q":"x","p":"x"}`, hidden("/data/q")},
		"repeated":       {`"data":{"p":"x","p":"y"}`, `"data":{"p":"z","p":"y"}`, ``},
		"repeated, last": {`"data":{"p":"x","p":"y"}`, `"data":{"p":"x","p":"z"}`, hidden("/data/p")},
		"not redacted":   {`"b":"REDACTED"`, `"b":"REDACTED","c":"REDACTED"`, `{"op":"add","path":"/c","value":"REDACTED"}`},
		"last applied":   {`"data":{}`, `"data":{},"d":{"annotations":{}}`, `{"op":"add","path":"/d","value":{"annotations":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := redactingRig(t, mustTemp(t), Config{})
			r.load()
			const object = `{"metadata":{"name":"a","namespace":"ns"},%s}`
			prev, next := fmt.Sprintf(object, c.prev), fmt.Sprintf(object, c.next)
			want := c.want
			if want != "" {
				want = "[" + want + "]"
			}
			r.look(prev)
			r.commit() // also across a commit
			if got := r.look(next); got != want {
				t.Errorf("\ngot  %s\nwant %s", got, want)
			}
			if got := r.look(next); got != "" {
				t.Errorf("the same again: %s", got)
			}
			r.look(prev)
			if got := r.look(next); got != want {
				t.Errorf("not committed:\ngot  %s\nwant %s", got, want)
			}
		})
	}
}

// Where more values change than the objects are long, the object that holds them is replaced.
func TestRedactedChangesCoarse(t *testing.T) {
	r := redactingRig(t, mustTemp(t), Config{})
	r.load()
	object := func(v int) string {
		b := []byte(`{"metadata":{"name":"a"},"data":{"k":"x"`)
		for i := range 300 {
			b = fmt.Appendf(b, `,"k%d":"%d"`, i, v+i)
		}
		return string(append(b, "}}"...))
	}
	r.look(object(0))
	var list []struct{ Op, Path string }
	if err := json.Unmarshal([]byte(r.look(object(1))), &list); err != nil || len(list) != 1 || list[0].Op != "replace" || list[0].Path != "/data" {
		t.Errorf("%v, %v", list, err)
	}
}

const secretOf = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","resourceVersion":"%d"},"data":{"p":"%s","q":"%s"},"type":"x"}`

func versioned(path ...string) (list string) {
	for _, p := range path {
		list += "," + hidden(p)
	}
	return list + "]"
}

// After a restart the values are unknown until the object has been read once at the version that is stored: one that has
// changed meanwhile counts as unchanged, and nothing is ever listed that has not changed.
func TestRedactedRestart(t *testing.T) {
	for name, c := range map[string]struct {
		now  string // that is read at the start; "": nothing
		next string
		want []string
	}{
		"not read":           {"", fmt.Sprintf(secretOf, 8, "y", "x"), nil},
		"read":               {fmt.Sprintf(secretOf, 7, "x", "x"), fmt.Sprintf(secretOf, 8, "y", "x"), []string{"/data/p"}},
		"read as an item":    {strings.Replace(fmt.Sprintf(secretOf, 7, "x", "x"), `"kind":"Secret","apiVersion":"v1",`, "", 1), fmt.Sprintf(secretOf, 8, "y", "x"), []string{"/data/p"}},
		"read, same":         {fmt.Sprintf(secretOf, 7, "x", "x"), fmt.Sprintf(secretOf, 8, "x", "x"), nil},
		"at a later version": {fmt.Sprintf(secretOf, 8, "y", "x"), fmt.Sprintf(secretOf, 9, "y", "z"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			at := mustTemp(t)
			r := redactingRig(t, at, Config{})
			r.load()
			r.look(fmt.Sprintf(secretOf, 7, "x", "x"))
			r.Complete(&r.submitted, r.batch)
			r.commit()

			r = redactingRig(t, at, Config{})
			if behind, _ := r.load(); !behind {
				t.Error("nothing is to be read, though digests of an earlier key say nothing")
			}
			if c.now != "" {
				r.missing(c.now)
				r.commit()
				r.missing(c.now)
				if !r.submitted.Empty() {
					t.Error("stored once more")
				}
			}
			list := r.look(c.next)
			if !strings.HasPrefix(list, `[{"op":"replace","path":"/metadata/resourceVersion","old":"7"`) || !strings.HasSuffix(list, "}"+versioned(c.want...)) {
				t.Errorf("changes %s, want %s", list, c.want)
			}
			if list := r.look(strings.Replace(c.next, `"q":"x"`, `"q":"new"`, 1)); strings.Contains(c.next, `"q":"x"`) && list != "["+hidden("/data/q")+"]" {
				t.Errorf("the next one: changes %s", list)
			}
		})
	}
}

// missing takes an object at a version that the reader knows.
func (r *rig) missing(raw string) {
	r.t.Helper()
	if err := r.render.Scan([]byte(raw), &r.object); err != nil {
		r.t.Fatal(err)
	}
	before, err := r.Get([]byte("ns"), []byte("a"))
	if err != nil {
		r.t.Fatal(err)
	}
	value, err := r.Missing(before, &r.object, false)
	if err != nil {
		r.t.Fatal(err)
	}
	if value != nil {
		r.Put(&r.submitted, r.batch, []byte("ns"), []byte("a"), value)
	}
}

// What was read back from a line has no digests: its values are unknown.
func TestRedactedReplay(t *testing.T) {
	r := redactingRig(t, mustTemp(t), Config{})
	r.load()
	r.look(fmt.Sprintf(secretOf, 6, "w", "w"))
	r.commit()
	seven := fmt.Sprintf(secretOf, 7, "REDACTED", "REDACTED")
	Replay([]byte{linesHaveAll}, &line.Header{Type: line.Modified, Namespace: "ns", Name: "a", Object: []byte(seven)}, &r.submitted)
	r.commit()
	clear(r.uncommitted)
	if list := r.look(fmt.Sprintf(secretOf, 8, "y", "x")); list != `[{"op":"replace","path":"/metadata/resourceVersion","old":"7","value":"8"}]` {
		t.Errorf("changes %s", list)
	}
	if list := r.look(fmt.Sprintf(secretOf, 8, "z", "x")); list != "["+hidden("/data/p")+"]" {
		t.Errorf("changes %s", list)
	}
}

// With ignoreFields, too, the changes are those since the last version that was not held back.
func TestRedactedIgnoreFields(t *testing.T) {
	at := mustTemp(t)
	c := Config{IgnoreFields: []string{"type", "data.q"}}
	r := redactingRig(t, at, c)
	r.load()
	held := func(raw string) {
		t.Helper()
		if list, same := r.take("a", raw); !same {
			t.Errorf("%s: changes %s", raw, list)
		}
	}
	r.look(fmt.Sprintf(secretOf, 1, "x", "x"))
	held(strings.Replace(fmt.Sprintf(secretOf, 2, "x", "x"), `"type":"x"`, `"type":"y"`, 1))
	held(fmt.Sprintf(secretOf, 3, "x", "y"))
	if list := r.look(fmt.Sprintf(secretOf, 4, "y", "z")); !strings.HasSuffix(list, versioned("/data/p", "/data/q")) {
		t.Errorf("changes %s", list)
	}
	held(fmt.Sprintf(secretOf, 5, "y", "u"))
	r.commit()
	r = redactingRig(t, at, c)
	r.load()
	r.missing(fmt.Sprintf(secretOf, 5, "y", "u")) // held back: not the version that is stored
	held(fmt.Sprintf(secretOf, 6, "y", "v"))
	if list := r.look(fmt.Sprintf(secretOf, 7, "z", "v")); list != `[{"op":"replace","path":"/metadata/resourceVersion","old":"4","value":"7"}]` {
		t.Errorf("changes %s", list)
	}
}

// A checkpoint of an earlier release has no digests, and one of this release that is damaged is no harm.
func TestRedactedStoredOtherwise(t *testing.T) {
	r := redactingRig(t, mustTemp(t), Config{})
	r.load()
	six, seven := fmt.Sprintf(secretOf, 6, "REDACTED", "REDACTED"), fmt.Sprintf(secretOf, 7, "y", "x")
	packed := NewPacker(nil).Pack(nil, []byte(six))
	for _, v := range []struct {
		value []byte
		known bool
	}{
		{append([]byte{hasObject}, packed...), true},
		{append([]byte{hasObject | hasRedacted, 0}, packed...), true},
		{append([]byte{hasObject | hasRedacted, 3, 1, 2, 3}, packed...), true},
		{append([]byte{hasObject | hasRedacted, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, packed...), true},
		{append(append([]byte{hasObject | hasRedacted, 8}, r.redacted.id[:]...), packed...), true},
		{append(append([]byte{hasObject | hasRedacted, 9}, r.redacted.id[:]...), append([]byte{1}, packed...)...), true},
		{append(append([]byte{hasObject | hasRedacted, 12}, r.redacted.id[:]...), append([]byte{1, 5, 6, 7}, packed...)...), true},
		{[]byte{hasObject | hasRedacted}, false},
		{[]byte{hasObject | hasRedacted, 200}, false},
		{[]byte{hasObject | hasRedacted, 1, 2}, false},
	} {
		r.Put(&r.submitted, r.batch, []byte("ns"), []byte("a"), v.value)
		want := ""
		if v.known {
			want = `[{"op":"replace","path":"/metadata/resourceVersion","old":"6","value":"7"}]`
		}
		if list := r.look(seven); list != want {
			t.Errorf("%x: changes %s", v.value, list)
		}
	}
}

// The checkpoint has neither a value nor the key, and nothing in it is equal where values are.
func TestRedactedNowhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint.db")
	at, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	const seed = 7
	cryptotest.SetGlobalRandom(t, seed)
	key := newKey()
	cryptotest.SetGlobalRandom(t, seed)
	r := redactingRig(t, at, Config{})
	if probe := (&redactedValues{mac: newMAC(key)}); probe.digest(1, 2, []byte("x")) != r.redacted.digest(1, 2, []byte("x")) {
		t.Fatal("that is not the key")
	}
	r.load()
	const secret = "hunter2hunter2"
	var stored [][]byte
	for version, v := range []string{secret, secret, "other", secret} { // there and back again
		list := r.look(fmt.Sprintf(secretOf, version+1, v, v))
		value := bytes.Clone(r.next.value)
		told := lines(t, r, list, value)
		stored = append(stored, value)
		r.commit()
		v, err := r.decode(value)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(secretOf, version+1, "REDACTED", "REDACTED"); string(v.Object) != want {
			t.Errorf("what is stored is no line's: %s", v.Object)
		}
		for from := range len(v.redacted) - 7 {
			part := v.redacted[from : from+8]
			if bytes.Contains(told, part) || bytes.Contains(told, []byte(hex.EncodeToString(part))) {
				t.Errorf("a digest in %s", told)
			}
		}
	}
	seen := map[string]bool{}
	for _, value := range stored {
		v, err := r.decode(value)
		if err != nil {
			t.Fatal(err)
		}
		r.redacted.next = append(r.redacted.next, redactedValue{})
		if !r.redacted.compare(v.redacted) || len(r.redacted.prev) != 2 {
			t.Fatalf("digests %x", v.redacted)
		}
		for _, d := range r.redacted.prev {
			if seen[string(d.sum[:])] {
				t.Error("equal values have equal digests")
			}
			seen[string(d.sum[:])] = true
		}
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, r.redacted.id[:]) {
		t.Error("the search finds nothing")
	}
	for _, no := range [][]byte{key, []byte(hex.EncodeToString(key)), key[:8], []byte(secret), []byte(base64.StdEncoding.EncodeToString([]byte(secret)))} {
		if bytes.Contains(content, no) {
			t.Errorf("the checkpoint holds %x", no)
		}
	}
}

// lines are the line of the version that was taken last, and the one that says that it is gone.
func lines(t *testing.T, r *rig, list string, value []byte) []byte {
	t.Helper()
	line := object.Line{Type: line.Modified, Origin: line.FromWatch, Changes: []byte(list)}
	all, err := r.render.AppendLine(nil, line, &r.object)
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.decode(value)
	if err != nil {
		t.Fatal(err)
	}
	var last object.Object
	if err := r.render.Scan(v.Object, &last); err != nil {
		t.Fatal(err)
	}
	all, err = r.render.AppendGone(all, time.Time{}, object.Known{Namespace: "ns", Name: "a"}, line, &last)
	if err != nil || bytes.Count(all, []byte(`"data":{"p":"REDACTED","q":"REDACTED"}`)) != 2 {
		t.Fatalf("%s, %v", all, err)
	}
	return all
}

func TestRedactedAllocates(t *testing.T) {
	s, err := New(Config{Stream: "secrets", Changes: true, Shape: hiding}, nothing{}, func() uint64 { return 0 }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	r := mustRenderer(t, podSource, hiding)
	var o object.Object
	if err := r.Scan(fmt.Appendf(nil, secretOf, 1, "x", "y"), &o); err != nil {
		t.Fatal(err)
	}
	s.redacted.take(&o)
	digests := bytes.Clone(s.redacted.digests(nil))
	if n := testing.AllocsPerRun(100, func() {
		s.redacted.take(&o)
		if !s.redacted.compare(digests) || !s.redacted.Same(0, 0, len(o.Raw)) {
			t.Fatal("not the same")
		}
		s.redacted.digests(nil)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// With ignoreFields, what is stored shows neither which objects are equal but for what is ignored, nor that one is again as
// it was.
func TestIgnoredDigestsSayNothing(t *testing.T) {
	for _, c := range []Config{{}, {Changes: true}} {
		c.IgnoreFields, c.Shape = []string{"metadata", "note"}, hiding
		r := newRig(t, mustTemp(t), c)
		r.render = mustRenderer(t, podSource, hiding)
		r.load()
		seen := map[string]string{}
		for i, v := range []struct{ name, value string }{{"a", "x"}, {"b", "x"}, {"a", "y"}, {"a", "x"}, {"c", "y"}, {"b", "y"}} {
			object := `{"metadata":{"name":%q,"namespace":"ns"},"data":{"p":%q},"note":"%d"}`
			if _, same := r.take(v.name, fmt.Sprintf(object, v.name, v.value, 0)); same {
				t.Fatalf("%v counts as unchanged", v)
			}
			r.commit()
			if _, same := r.take(v.name, fmt.Sprintf(object, v.name, v.value, 1)); !same {
				t.Errorf("%v counts as changed, and only the note is", v)
			}
			stored, _, err := r.at.Kept(nil, "pods", []byte("ns"), []byte(v.name))
			if err != nil || stored[0]&hasDigest == 0 {
				t.Fatalf("%x, %v", stored, err)
			}
			for _, half := range []string{string(stored[1:9]), string(stored[9:17])} {
				if before, ok := seen[half]; ok {
					t.Errorf("changes %v: %x is stored for version %d and before, for %s", c.Changes, half, i, before)
				}
				seen[half] = fmt.Sprint(v)
			}
		}
	}
}
