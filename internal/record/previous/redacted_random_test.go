package previous

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
	"kubejournal/test/invariant"
)

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

// Random objects whose redacted values and others change at random, some versions not committed, some after a restart:
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
	check := newRedactedCheck(f)
	f.Fuzz(check)
}

// TestRedactedMade is FuzzRedacted with random bytes, of which two versions have some in common.
func TestRedactedMade(t *testing.T) {
	check := newRedactedCheck(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		from := make([]byte, rnd.IntN(400))
		for i := range from {
			from[i] = byte(rnd.Uint32())
		}
		to := bytes.Clone(from)
		for range rnd.IntN(8) {
			if len(to) > 0 {
				to[rnd.IntN(len(to))] = byte(rnd.Uint32())
			}
		}
		check(t, from, to)
	}
}

func newRedactedCheck(tb testing.TB) func(t *testing.T, from, to []byte) {
	tb.Helper()
	r := mustRenderer(tb, podSource, hiding)
	values := newRedactedValues(hiding)
	return func(t *testing.T, from, to []byte) {
		t.Helper()
		var objects [2]object.Object
		var shaped [2][]byte
		for i, b := range [][]byte{from, to} {
			if r.Scan(eventtest.Made(b), &objects[i]) != nil {
				return
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
			var known changes.Hidden
			if values.compare(digests) {
				known = values
			}
			prev, next := shaped[pair[0]], shaped[pair[1]]
			list, _, err := changes.AppendOwned(nil, prev, next, known, nil)
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
	}
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

func marshal(tb testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
