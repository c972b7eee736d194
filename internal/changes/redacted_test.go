package changes

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/test/eventtest"
	"kubejournal/test/invariant"
)

var hiding = event.Shape{
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
	Replay([]byte{linesHaveAll}, &event.Header{Type: event.Modified, Namespace: "ns", Name: "a", Object: []byte(seven)}, &r.submitted)
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
	line := event.Line{Type: event.Modified, Origin: event.FromWatch, Changes: []byte(list)}
	all, err := r.render.AppendLine(nil, line, &r.object)
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.decode(value)
	if err != nil {
		t.Fatal(err)
	}
	var last event.Object
	if err := r.render.Scan(v.Object, &last); err != nil {
		t.Fatal(err)
	}
	all, err = r.render.AppendGone(all, time.Time{}, event.Known{Namespace: "ns", Name: "a"}, line, &last)
	if err != nil || bytes.Count(all, []byte(`"data":{"p":"REDACTED","q":"REDACTED"}`)) != 2 {
		t.Fatalf("%s, %v", all, err)
	}
	return all
}

// reveal is an object with a token in place of each value that hiding redacts, the same for the same value.
func reveal(raw []byte) any {
	v, _ := decode(raw)
	root := v.(map[string]any)
	for path, enter := range map[string][]string{"data": nil, "stringData": nil, "list": nil, "nested": {"token"}, "a": {"*"}, "spec": {"containers", "*", "env", "*", "value"}} {
		if below, ok := root[path]; ok {
			root[path] = revealAt(below, enter)
		}
	}
	return v
}

func revealAt(v any, path []string) any {
	if v == nil {
		return nil
	}
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	switch {
	case len(path) == 0 && isObject:
		for k, member := range object {
			if _, deeper := member.(map[string]any); deeper {
				object[k] = revealAt(member, nil)
			} else {
				object[k] = token(member)
			}
		}
		return object
	case len(path) > 0 && path[0] == "*" && isList:
		for i := range list {
			list[i] = revealAt(list[i], path[1:])
		}
		return list
	case len(path) > 0 && path[0] != "*" && isObject:
		if member, ok := object[path[0]]; ok {
			object[path[0]] = revealAt(member, path[1:])
		}
		return object
	}
	return token(v)
}

func token(v any) string { return "TOKEN " + string(must(json.Marshal(v))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// valueAt returns what is at a path of a decoded object.
func valueAt(v any, path string) any {
	for _, t := range strings.Split(path, "/")[1:] {
		t = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
		switch c := v.(type) {
		case map[string]any:
			v = c[t]
		case []any:
			var i int
			fmt.Sscan(t, &i)
			v = c[i]
		}
	}
	return v
}

// checkRevealed applies a list of changes to the object before, as it is behind the redaction, where each operation takes
// its value from the object after: they are the same then only if all changes are listed. And nothing is listed that did
// not change.
func checkRevealed(t *testing.T, prev, next any, list string) {
	t.Helper()
	var ops []map[string]any
	if list != "" {
		if err := json.Unmarshal([]byte(list), &ops); err != nil {
			t.Fatal(err)
		}
	}
	for _, op := range ops {
		path := op["path"].(string)
		if op["op"] != "add" {
			op["old"] = valueAt(prev, path)
		}
		if op["op"] != "remove" {
			op["value"] = valueAt(next, path)
		}
		if op["op"] == "replace" && sameJSON(op["old"], op["value"]) {
			t.Fatalf("%s is listed, but has not changed: %v", path, op["old"])
		}
		var err error
		if prev, err = invariant.Patch(prev, marshal(t, []any{op})); err != nil {
			t.Fatalf("%v: %v", op, err)
		}
	}
	if !sameJSON(prev, next) {
		t.Fatalf("not all changes are listed: %s\ngot  %s\nwant %s", list, marshal(t, prev), marshal(t, next))
	}
}

// randomSecret is an object with values at places that are redacted and at others. Each value can be recognized.
func randomSecret(rnd *rand.Rand) map[string]any {
	value := func() any {
		switch rnd.IntN(8) {
		case 0:
			return json.Number(fmt.Sprint(770000 + rnd.IntN(3)))
		case 1:
			return []any{fmt.Sprint("hidden ", rnd.IntN(3)), nil}
		case 2:
			return map[string]any{"p": fmt.Sprint("hidden ", rnd.IntN(3)), "q/~": fmt.Sprint("hidden ", rnd.IntN(2))}
		}
		return fmt.Sprint("hidden ", rnd.IntN(3))
	}
	values := func() any {
		if rnd.IntN(10) == 0 {
			return value()
		}
		m := map[string]any{}
		for range rnd.IntN(5) {
			m[[]string{"a", "b", "c/d", "e~", "é\""}[rnd.IntN(5)]] = value()
		}
		return m
	}
	elements := func(one func() any) any {
		l := make([]any, rnd.IntN(4))
		for i := range l {
			l[i] = one()
		}
		return l
	}
	env := func() any {
		e := map[string]any{"name": string(rune('A' + rnd.IntN(4)))}
		if rnd.IntN(4) > 0 {
			e["value"] = value()
		}
		return e
	}
	o := map[string]any{"metadata": map[string]any{"name": "a", "namespace": "ns", "labels": map[string]any{"l": fmt.Sprint(rnd.IntN(3))}}}
	for key, create := range map[string]func() any{
		"data": values, "stringData": values, "list": value, "a": func() any { return elements(value) },
		"nested": func() any { return map[string]any{"token": value(), "open": fmt.Sprint(rnd.IntN(2))} },
		"spec": func() any {
			return map[string]any{"containers": elements(func() any {
				return map[string]any{"name": string(rune('a' + rnd.IntN(3))), "env": elements(env), "image": fmt.Sprint(rnd.IntN(2))}
			})}
		},
	} {
		if rnd.IntN(4) > 0 {
			o[key] = create()
		}
	}
	return o
}

// Random objects whose redacted values and others change at random, some versions not committed, some behind a restart:
// exactly what changed is listed, a reader has the object of each line, and nothing of a value is in what is listed or
// stored.
func TestRedactedRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	store := mustTemp(t)
	r := redactingRig(t, store, Config{})
	r.load()
	var prev map[string]any // with values
	var line any            // as the reader has it
	for n := range rounds {
		next := randomSecret(rnd)
		if prev != nil && rnd.IntN(3) > 0 { // most often parts of it stay
			for key := range next {
				if was, ok := prev[key]; ok && rnd.IntN(2) == 0 {
					next[key] = was
				}
			}
		}
		restarted := n%50 == 49
		if restarted {
			r.commit()
			r = redactingRig(t, store, Config{})
			r.load()
			if n%100 == 99 {
				r.missing(string(marshal(t, prev)))
				restarted = false // the values are known again
			}
		}
		raw := marshal(t, next)
		list := r.look(string(raw))
		shaped := string(r.object.AppendShaped(nil))
		for what, b := range map[string]string{"list": list, "line": shaped, "stored version": string(r.next.value)} {
			if strings.Contains(b, "hidden") || strings.Contains(b, "77000") {
				t.Fatalf("a value is in the %s: %q", what, b)
			}
		}
		if line != nil {
			if list != "" {
				var err error
				if line, err = invariant.Patch(line, []byte(list)); err != nil {
					t.Fatalf("%v: %s", err, list)
				}
			}
			if now, _ := decode([]byte(shaped)); !sameJSON(line, now) {
				t.Fatalf("%s gives %s, not %s", list, marshal(t, line), shaped)
			}
			if !restarted {
				checkRevealed(t, reveal(marshal(t, prev)), reveal(raw), list)
			}
		}
		line, _ = decode([]byte(shaped))
		prev = maps.Clone(next)
		if rnd.IntN(20) == 0 {
			r.commit()
		}
	}
}

// Two versions made out of the fuzzer's bytes, with repeated and escaped keys: a reader that applies the list has the
// next line's object, and of the same version nothing is listed.
func FuzzRedacted(f *testing.F) {
	f.Add([]byte("abc"), []byte("abd"))
	for i := range uint8(20) {
		f.Add(slices.Repeat([]byte{i, 200 - i, 3 * i}, 30), slices.Repeat([]byte{i, 200 - i, 3*i + 1}, 30))
	}
	r := mustRenderer(f, podSource, hiding)
	values := newRedactedValues(hiding)
	f.Fuzz(func(t *testing.T, from, to []byte) {
		var objects [2]event.Object
		var shaped [2][]byte
		for i, b := range [][]byte{from, to} {
			if r.Scan(eventtest.Made(b), &objects[i]) != nil {
				t.Skip()
			}
			shaped[i] = objects[i].AppendShaped(nil)
			for at, text := range objects[i].Redacted() {
				if !bytes.HasPrefix(shaped[i][at:], []byte(`"REDACTED"`)) || len(text) == 0 {
					t.Fatalf("nothing is redacted at %d of %s", at, shaped[i])
				}
			}
		}
		for _, pair := range [][2]int{{0, 0}, {0, 1}, {1, 0}} {
			values.take(&objects[pair[0]])
			digests := bytes.Clone(values.digests(nil))
			values.take(&objects[pair[1]])
			known := values
			if !values.compare(digests) {
				known = nil
			}
			prev, next := shaped[pair[0]], shaped[pair[1]]
			list, err := appendChanges(nil, prev, next, known)
			if err != nil {
				t.Fatal(err)
			}
			if pair[0] == pair[1] && len(list) > 0 {
				t.Fatalf("of the same version: %s", list)
			}
			was, _ := decode(prev)
			is, _ := decode(next)
			for _, v := range []any{was, is} {
				delete(v.(map[string]any), "kind")
				delete(v.(map[string]any), "apiVersion")
			}
			if len(list) > 0 {
				if was, err = invariant.Patch(was, list); err != nil {
					t.Fatalf("%v: %s", err, list)
				}
			}
			if !sameJSON(was, is) {
				t.Fatalf("%s of\n%s and\n%s", list, prev, next)
			}
		}
	})
}

func TestRedactedAllocates(t *testing.T) {
	s, err := New(Config{Stream: "secrets", Changes: true, Shape: hiding}, nothing{}, func() uint64 { return 0 }, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	r := mustRenderer(t, podSource, hiding)
	var o event.Object
	if err := r.Scan(fmt.Appendf(nil, secretOf, 1, "x", "y"), &o); err != nil {
		t.Fatal(err)
	}
	s.redacted.take(&o)
	digests := bytes.Clone(s.redacted.digests(nil))
	if n := testing.AllocsPerRun(100, func() {
		s.redacted.take(&o)
		if !s.redacted.compare(digests) || !s.redacted.same(0, 0, len(o.Raw)) {
			t.Fatal("not the same")
		}
		s.redacted.digests(nil)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
