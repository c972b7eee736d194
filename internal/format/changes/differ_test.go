package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/format/rawjson"
	"kubejournal/test/eventtest"
	"kubejournal/test/invariant"
)

var (
	podSource = object.Source{Stream: "pods", Cluster: "prod-eu1", Version: "v1", Resource: "pods", Kind: "Pod"}
	podShape  = object.Shape{Drop: []string{"metadata.managedFields"}}
)

// deepest is how deep an object may be that stands in a list of changes.
const deepest = rawjson.MaxDepth - aroundChange

func mustRenderer(tb testing.TB, src object.Source, shape object.Shape) *object.Renderer {
	tb.Helper()
	r, err := object.NewRenderer(src, shape)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func sameJSON(a, b any) bool { return reflect.DeepEqual(a, b) }

// decode keeps numbers as they are written. It reports whether all of b is one
// value.
func decode(b []byte) (any, bool) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if !json.Valid(b) || dec.Decode(&v) != nil {
		return nil, false
	}
	return v, true
}

// checkChanges checks all that Differ says of its list, and returns it.
func checkChanges(t testing.TB, d *Differ, prev, next []byte) []byte {
	t.Helper()
	const before = "before"
	list, err := d.Append([]byte(before), prev, next)
	if err != nil {
		t.Fatalf("%v\nfrom %s\nto   %s", err, prev, next)
	}
	if string(list[:len(before)]) != before {
		t.Fatalf("overwrote what was there")
	}
	list = list[len(before):]
	was, _ := decode(prev)
	is, _ := decode(next)
	if len(list) == 0 {
		if !sameJSON(was, is) {
			t.Fatalf("no changes\nfrom %s\nto   %s", prev, next)
		}
		return nil
	}
	if bound := max(leastChanges, len(prev)+len(next)+64); len(list) > bound {
		t.Fatalf("%d bytes, bound %d\nfrom %s\nto   %s", len(list), bound, prev, next)
	}
	got, err := invariant.Patch(was, list)
	if err != nil {
		t.Fatalf("%v\nlist %s\nfrom %s\nto   %s", err, list, prev, next)
	}
	if !sameJSON(got, is) {
		t.Fatalf("got %v\nlist %s\nfrom %s\nto   %s", got, list, prev, next)
	}
	return list
}

func TestChanges(t *testing.T) {
	for name, c := range map[string]struct{ prev, next, want string }{
		"same":          {`{"a":1}`, `{"a":1}`, ``},
		"replace":       {`{"a":1}`, `{"a":2}`, `[{"op":"replace","path":"/a","old":1,"value":2}]`},
		"add":           {`{"a":1}`, `{"b":"x","a":1}`, `[{"op":"add","path":"/b","value":"x"}]`},
		"remove":        {`{"a":1,"b":{"c":null}}`, `{"a":1}`, `[{"op":"remove","path":"/b","old":{"c":null}}]`},
		"order":         {`{"a":1,"b":2}`, `{"b":2,"a":1}`, ``},
		"renamed":       {`{"a":1,"b":2}`, `{"c":1,"b":3}`, `[{"op":"remove","path":"/a","old":1},{"op":"add","path":"/c","value":1},{"op":"replace","path":"/b","old":2,"value":3}]`},
		"deep":          {`{"a":{"b":{"c":1,"d":2}}}`, `{"a":{"b":{"c":1,"d":3}}}`, `[{"op":"replace","path":"/a/b/d","old":2,"value":3}]`},
		"kind":          {`{"a":{"b":1}}`, `{"a":[1]}`, `[{"op":"replace","path":"/a","old":{"b":1},"value":[1]}]`},
		"to null":       {`{"a":{"b":1}}`, `{"a":null}`, `[{"op":"replace","path":"/a","old":{"b":1},"value":null}]`},
		"numbers":       {`{"a":1,"b":1e2}`, `{"a":1.0,"b":100}`, `[{"op":"replace","path":"/a","old":1,"value":1.0},{"op":"replace","path":"/b","old":1e2,"value":100}]`},
		"texts":         {`{"a":"\u0061\/","b":"x"}`, `{"a":"a/","b":"\u0079"}`, `[{"op":"replace","path":"/b","old":"x","value":"\u0079"}]`},
		"keys":          {`{"\u0061":1,"b":1}`, `{"a":2,"b":1}`, `[{"op":"replace","path":"/a","old":1,"value":2}]`},
		"pointer":       {`{"a/b":{"c~d":{"":1}}}`, `{"a/b":{"c~d":{"":2}}}`, `[{"op":"replace","path":"/a~1b/c~0d/","old":1,"value":2}]`},
		"pointer, text": {`{"\"\\\n":1}`, `{"\"\\\n":2}`, `[{"op":"replace","path":"/\"\\\u000a","old":1,"value":2}]`},
		"half a pair":   {`{"\ud83d":1,"b":{"\ud83d\ude00":1}}`, `{"\ud83d":2,"b":{"\ud83d\ude00":2}}`, "[{\"op\":\"replace\",\"path\":\"/\uFFFD\",\"old\":1,\"value\":2},{\"op\":\"replace\",\"path\":\"/b/\U0001F600\",\"old\":1,\"value\":2}]"},

		"repeated, last differs":    {`{"a":1,"a":2}`, `{"a":1,"a":3}`, `[{"op":"replace","path":"/a","old":2,"value":3}]`},
		"repeated, first differs":   {`{"a":1,"a":2}`, `{"a":5,"a":2}`, ``},
		"repeated, once":            {`{"a":1}`, `{"a":1,"a":3}`, `[{"op":"replace","path":"/a","old":1,"value":3}]`},
		"repeated, in escapes":      {`{"a":1,"\u0061":2}`, `{"a":5,"a":3}`, `[{"op":"replace","path":"/a","old":2,"value":3}]`},
		"repeated, removed":         {`{"a":1,"b":0,"a":2}`, `{"b":0}`, `[{"op":"remove","path":"/a","old":2}]`},
		"repeated, whole container": {`{"a":{"x":1},"a":{"y":1}}`, `{"a":{"x":1,"y":2}}`, `[{"op":"add","path":"/a/x","value":1},{"op":"replace","path":"/a/y","old":1,"value":2}]`},

		"append":           {`{"l":[1,2]}`, `{"l":[1,2,3]}`, `[{"op":"add","path":"/l/2","value":3}]`},
		"insert":           {`{"l":[1,2]}`, `{"l":[0,1,2]}`, `[{"op":"add","path":"/l/0","value":0}]`},
		"from empty":       {`{"l":[]}`, `{"l":[1,2]}`, `[{"op":"add","path":"/l/0","value":1},{"op":"add","path":"/l/1","value":2}]`},
		"to empty":         {`{"l":[1,2]}`, `{"l":[]}`, `[{"op":"remove","path":"/l/0","old":1},{"op":"remove","path":"/l/0","old":2}]`},
		"element replaced": {`{"l":[1,2,3]}`, `{"l":[1,5,3]}`, `[{"op":"replace","path":"/l/1","old":2,"value":5}]`},
		"moved":            {`{"l":[1,2,3]}`, `{"l":[2,3,1]}`, `[{"op":"remove","path":"/l/0","old":1},{"op":"add","path":"/l/2","value":1}]`},
		"two inserted":     {`{"l":[1,2,3,4]}`, `{"l":[1,8,2,3,9,4]}`, `[{"op":"add","path":"/l/1","value":8},{"op":"add","path":"/l/4","value":9}]`},
		"no keys":          {`{"l":[{"a":1},{"b":1}]}`, `{"l":[{"a":2},{"b":1}]}`, `[{"op":"replace","path":"/l/0/a","old":1,"value":2}]`},
		"keyed, inserted": {`{"l":[{"name":"a","v":1},{"name":"b","v":1}]}`, `{"l":[{"name":"x"},{"name":"a","v":1},{"name":"b","v":2}]}`,
			`[{"op":"add","path":"/l/0","value":{"name":"x"}},{"op":"replace","path":"/l/2/v","old":1,"value":2}]`},
		"keyed, removed": {`{"l":[{"type":"a","v":1},{"type":"b","v":1},{"type":"c"}]}`, `{"l":[{"type":"b","v":2},{"type":"c"}]}`,
			`[{"op":"remove","path":"/l/0","old":{"type":"a","v":1}},{"op":"replace","path":"/l/0/v","old":1,"value":2}]`},
		"keyed, another": {`{"l":[{"name":"a","v":1}]}`, `{"l":[{"name":"b","v":1}]}`, `[{"op":"replace","path":"/l/0","old":{"name":"a","v":1},"value":{"name":"b","v":1}}]`},
		"name first":     {`{"l":[{"type":"x","name":"a"},{"type":"x","name":"b"}]}`, `{"l":[{"type":"y","name":"b"}]}`, `[{"op":"remove","path":"/l/0","old":{"type":"x","name":"a"}},{"op":"replace","path":"/l/0/type","old":"x","value":"y"}]`},
		"key is a list":  {`{"l":[{"name":[1]}]}`, `{"l":[{"name":[2]}]}`, `[{"op":"replace","path":"/l/0/name/0","old":1,"value":2}]`},
		"lists in lists": {`{"l":[[1,2],[3]]}`, `{"l":[[1,2,4],[3]]}`, `[{"op":"add","path":"/l/0/2","value":4}]`},
	} {
		t.Run(name, func(t *testing.T) {
			var d Differ
			for range 2 { // a Differ is used again
				if got := string(checkChanges(t, &d, []byte(c.prev), []byte(c.next))); got != c.want {
					t.Errorf("\ngot  %s\nwant %s", got, c.want)
				}
				if got, err := Append([]byte("x"), []byte(c.prev), []byte(c.next)); err != nil || string(got) != "x"+c.want {
					t.Errorf("\ngot  %s, %v\nwant %s", got, err, c.want)
				}
			}
		})
	}
}

// A list longer than the objects names containers instead of all in them.
func TestChangesCoarse(t *testing.T) {
	object := func(n, v int) []byte {
		b := []byte(`{"metadata":{"name":"a"},"spec":{"kept":"`)
		b = append(b, strings.Repeat("x", 3000)...)
		b = append(b, `","l":[`...)
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(i+v*n), 10)
		}
		return append(b, `]}}`...)
	}
	var d Differ
	list := checkChanges(t, &d, object(2000, 0), object(2000, 1))
	var ops []struct{ Op, Path string }
	if err := json.Unmarshal(list, &ops); err != nil || len(ops) != 1 || ops[0].Path != "/spec/l" || ops[0].Op != "replace" {
		t.Errorf("%d operations, %.200s", len(ops), list)
	}
	list = checkChanges(t, &d, object(20, 0), object(20, 1))
	if err := json.Unmarshal(list, &ops); err != nil || len(ops) != 20 {
		t.Errorf("%d operations, %.200s", len(ops), list)
	}

	// Each leaves it as it is.
	each := 0
	err := Each(object(2000, 0), object(2000, 1), func(op string, path, old, value []byte) {
		if want := fmt.Sprintf("/spec/l/%d", each); op != "replace" || string(path) != want || string(old) != strconv.Itoa(each) || string(value) != strconv.Itoa(each+2000) {
			t.Errorf("%s %s from %s to %s", op, path, old, value)
		}
		each++
	})
	if err != nil || each != 2000 {
		t.Errorf("%d operations, %v", each, err)
	}

	// Objects that share nothing.
	many := func(key string) []byte {
		b := []byte(`{`)
		for i := range 5000 {
			b = fmt.Appendf(b, `"%s%d":%d,`, key, i, i)
		}
		return append(b, `"metadata":{}}`...)
	}
	list = checkChanges(t, &d, many("a"), many("b"))
	if err := json.Unmarshal(list, &ops); err != nil || len(ops) != 1 || ops[0].Path != "" {
		t.Errorf("%d operations, %.200s", len(ops), list)
	}

	// A path that is long, with much below it.
	long := func(v int) []byte {
		b := fmt.Appendf(nil, `{"%s":[`, strings.Repeat("k", 100000))
		for i := range 10000 {
			b = fmt.Appendf(b, `[%d],`, i*10+v)
		}
		return append(b, `0]}`...)
	}
	checkChanges(t, &d, long(1), long(2))
	if kept := cap(d.pairs) + cap(d.prev.Cells) + cap(d.next.Cells); kept > 4*rawjson.KeptCells {
		t.Errorf("%d kept", kept)
	}
}

func TestChangesDeep(t *testing.T) {
	var d Differ
	for _, depth := range []int{changesDepth - 2, changesDepth, changesDepth + 1, deepest - 1} {
		nested := func(v string) []byte {
			return []byte(`{"a":` + strings.Repeat(`[{"b":`, depth/2) + v + strings.Repeat(`}]`, depth/2) + `}`)
		}
		checkChanges(t, &d, nested("1"), nested("2"))
	}
	deeper := []byte(strings.Repeat(`[`, deepest+1) + strings.Repeat(`]`, deepest+1))
	if _, err := d.Append(nil, deeper, []byte(`[]`)); err == nil {
		t.Error("nested too deep, but taken")
	}
}

// Of an object as deep as one may be, the changes are in a line that can be read.
func TestChangesDeepest(t *testing.T) {
	r := mustRenderer(t, podSource, podShape)
	for _, open := range []string{`{"a":`, `[`} {
		shut := map[byte]string{'{': `}`, '[': `]`}[open[0]]
		var was, is object.Object
		for value, o := range map[string]*object.Object{"1": &was, "2": &is} {
			raw := `{"spec":` + strings.Repeat(open, deepest-1) + value + strings.Repeat(shut, deepest-1) + `,"metadata":{"name":"n","uid":"u","resourceVersion":"1"}}`
			if err := r.Scan([]byte(raw), o); err != nil {
				t.Fatal(err)
			}
		}
		list, err := Append(nil, was.AppendShaped(nil), is.AppendShaped(nil))
		if err != nil || len(list) == 0 {
			t.Fatalf("%.100s, %v", list, err)
		}
		raw, err := r.AppendLine(line.AppendSeq(nil, 1), object.Line{Type: line.Modified, Origin: line.FromWatch, Received: time.Now(), Changes: list}, &is)
		if err != nil {
			t.Fatal(err)
		}
		var h line.Header
		if err := line.ParseHeader(raw, &h); err != nil || h.Truncated || h.Name != "n" {
			t.Errorf("name %q, truncated %t, %v", h.Name, h.Truncated, err)
		}
		var any map[string]any
		if err := json.Unmarshal(raw, &any); err != nil {
			t.Errorf("encoding/json: %v", err)
		}
	}
}

func TestChangesFaults(t *testing.T) {
	var d Differ
	for _, c := range []struct{ prev, next, want string }{
		{``, `{}`, `compare objects: read the previous one: unexpected end at byte 0`},
		{`{}`, `{"a":1,}`, `compare objects: read the next one: expected a string at byte 7`},
		{`{} `, `{}`, `compare objects: read the previous one: expected the end at byte 2`},
		{`{"a" :1}`, `{}`, `compare objects: read the previous one: expected a colon at byte 4`},
		{`{"a":[1}`, `{}`, `compare objects: read the previous one: expected a comma or a closing bracket at byte 7`},
		{`{"a":tru}`, `{}`, `compare objects: read the previous one: expected a value at byte 5`},
		{`{"a":{"b"`, `{}`, `compare objects: read the previous one: unexpected end at byte 9`},
	} {
		got, err := d.Append([]byte("x"), []byte(c.prev), []byte(c.next))
		if err == nil || err.Error() != c.want || string(got) != "x" {
			t.Errorf("%s and %s: %q, %v", c.prev, c.next, got, err)
		}
	}
}

// Nothing that is redacted is told; without digests, not even whether it changed.
func TestChangesRedacted(t *testing.T) {
	r := mustRenderer(t, object.Source{Stream: "secrets", Version: "v1", Resource: "secrets", Kind: "Secret"}, object.Shape{Secret: true})
	shaped := func(raw string) []byte {
		var o object.Object
		if err := r.Scan([]byte(raw), &o); err != nil {
			t.Fatal(err)
		}
		return o.AppendShaped(nil)
	}
	var d Differ
	for _, c := range []struct{ prev, next, want string }{
		{`{"metadata":{"resourceVersion":"1"},"data":{"p":"aHVudGVyMg=="}}`, `{"metadata":{"resourceVersion":"2"},"data":{"p":"aHVudGVyMw=="}}`,
			`[{"op":"replace","path":"/metadata/resourceVersion","old":"1","value":"2"}]`},
		{`{"metadata":{},"data":{"p":"aHVudGVyMg=="}}`, `{"metadata":{},"data":{"q":"aHVudGVyMg=="}}`,
			`[{"op":"remove","path":"/data/p","old":"REDACTED"},{"op":"add","path":"/data/q","value":"REDACTED"}]`},
		{`{"metadata":{}}`, `{"metadata":{},"data":{"q":"aHVudGVyMg=="},"stringData":["hunter2"]}`,
			`[{"op":"add","path":"/data","value":{"q":"REDACTED"}},{"op":"add","path":"/stringData","value":"REDACTED"}]`},
		{`{"metadata":{},"data":{"a":"x","a":"y"}}`, `{"metadata":{},"data":{"a":"z","a":"u"}}`, ``},
	} {
		if got := string(checkChanges(t, &d, shaped(c.prev), shaped(c.next))); got != c.want {
			t.Errorf("\ngot  %s\nwant %s", got, c.want)
		}
	}
}

// mutate changes a decoded value here and there.
func mutate(rnd *rand.Rand, v any, depth int) any {
	if rnd.IntN(12) == 0 {
		return randomValue(rnd, depth)
	}
	switch c := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(c))
		for _, k := range keys {
			switch rnd.IntN(10) {
			case 0:
				delete(c, k)
			case 1, 2, 3:
				c[k] = mutate(rnd, c[k], depth+1)
			case 4:
				c[k+"~/"] = randomValue(rnd, depth+1)
			}
		}
	case []any:
		for i := 0; i < len(c); i++ {
			switch rnd.IntN(12) {
			case 0:
				c = slices.Delete(c, i, i+1)
			case 1:
				c = slices.Insert(c, i, randomValue(rnd, depth+1))
			case 2, 3:
				c[i] = mutate(rnd, c[i], depth+1)
			case 4:
				j := rnd.IntN(len(c))
				c[i], c[j] = c[j], c[i]
			}
		}
		return c
	case nil, string, bool, json.Number:
		if rnd.IntN(4) == 0 {
			return randomValue(rnd, maxRandomDepth)
		}
	}
	return v
}

const maxRandomDepth = 5

func randomValue(rnd *rand.Rand, depth int) any {
	kind := rnd.IntN(8)
	if depth >= maxRandomDepth {
		kind = rnd.IntN(5)
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rnd.IntN(2) == 0
	case 2:
		return json.Number(strconv.Itoa(rnd.IntN(5)))
	case 3, 4:
		return []string{"", "x", "REDACTED", "a/b~c", "\"\\\n\u00e9\u2028<", "long " + strings.Repeat("y", 40)}[rnd.IntN(6)]
	case 5:
		l := make([]any, rnd.IntN(9))
		for i := range l {
			l[i] = randomValue(rnd, depth+1)
		}
		return l
	}
	m := map[string]any{}
	for range rnd.IntN(7) {
		m[[]string{"name", "type", "key", "a", "b", "c/d", "~", "", "uid", "\u00e9\""}[rnd.IntN(10)]] = randomValue(rnd, depth+1)
	}
	return m
}

func marshal(tb testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Random objects and random changes of them, and of objects as a server has
// them.
func TestChangesRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var d Differ
	rounds := 5000
	if testing.Short() {
		rounds /= 10
	}
	for n := range rounds {
		var prev []byte
		switch n % 8 {
		case 0:
			prev = eventtest.Pod(2000+rnd.IntN(4000), n)
		case 1:
			prev = eventtest.Event(n)
		default:
			prev = marshal(t, map[string]any{"metadata": randomValue(rnd, 0), "spec": randomValue(rnd, 0), "l": []any{randomValue(rnd, 1), randomValue(rnd, 1)}})
		}
		v, _ := decode(prev)
		next := v
		for range 1 + rnd.IntN(2) {
			next = mutate(rnd, next, 0)
		}
		checkChanges(t, &d, prev, marshal(t, next))
	}
}

// FuzzChanges applies what is said of two objects made out of the fuzzer's
// bytes, with repeated and escaped keys.
func FuzzChanges(f *testing.F) {
	f.Add([]byte("abc"), []byte("abd"))
	for i := range uint8(20) {
		f.Add(slices.Repeat([]byte{i, 200 - i, 3 * i}, 30), slices.Repeat([]byte{i, 200 - i, 3*i + 1}, 30))
	}
	r := mustRenderer(f, podSource, object.Shape{})
	var d Differ
	f.Fuzz(func(t *testing.T, from, to []byte) {
		versions := make([][]byte, 2)
		for i, b := range [][]byte{from, to} {
			var o object.Object
			if r.Scan(eventtest.Made(b), &o) != nil {
				t.Skip()
			}
			versions[i] = o.AppendShaped(nil)
		}
		checkChanges(t, &d, versions[0], versions[1])
	})
}

// FuzzChangesRaw gives Differ bytes as they come: it must refuse what is not
// compact JSON and be right about what is.
func FuzzChangesRaw(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"name":"b"}]}`), []byte(`{"a":[{"name":"b"},1.5e1]}`))
	f.Add([]byte(`{"a":{"b":{}}}`), []byte(`{"a":{"b":{"":"\u0061"}},"a":1}`))
	var d Differ
	f.Fuzz(func(t *testing.T, prev, next []byte) {
		list, err := d.Append(nil, prev, next)
		if err != nil {
			if list != nil {
				t.Fatalf("list %s in spite of %v", list, err)
			}
			return
		}
		for _, b := range [][]byte{prev, next} {
			// What is not text is for Scan to refuse, and equal bytes are not looked at.
			if bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == utf8.RuneError }) || bytes.Equal(prev, next) {
				return
			}
			if !json.Valid(b) {
				t.Fatalf("took %q", b)
			}
		}
		checkChanges(t, &d, prev, next)
	})
}

func ExampleDiffer() {
	var d Differ
	list, err := d.Append(nil,
		[]byte(`{"metadata":{"resourceVersion":"7"},"status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"}]}}`),
		[]byte(`{"metadata":{"resourceVersion":"8"},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":"True"}]}}`))
	if err != nil {
		panic(err)
	}
	var ops []json.RawMessage
	if err := json.Unmarshal(list, &ops); err != nil {
		panic(err)
	}
	for _, o := range ops {
		fmt.Println(string(o))
	}
	// Output:
	// {"op":"replace","path":"/metadata/resourceVersion","old":"7","value":"8"}
	// {"op":"replace","path":"/status/phase","old":"Pending","value":"Running"}
	// {"op":"add","path":"/status/conditions/0","value":{"type":"Initialized","status":"True"}}
	// {"op":"replace","path":"/status/conditions/1/status","old":"False","value":"True"}
}
