package filter

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"kubejournal/test/eventtest"
)

// secret stands for what no error may show.
const secret = "(Hunter2"

const pod = `{
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {"name": "web-0", "namespace": "shop", "generation": 3, "labels": {"app": "web", "a.b/c": "d", "\u0074ier": "db"},
    "creationTimestamp": "2026-11-20T16:10:22Z", "annotations": {"secret": "` + secret + `", "quote": "a\"b\\"}, "finalizers": []},
  "spec": {"nodeName": "node-1", "paused": true, "replicas": 2, "ratio": 2.5, "whole": 2.0, "big": 12345678901234567890, "nothing": null,
    "containers": [{"name": "a", "image": "registry/a:1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "other/b:2"}]},
  "status": {"phase": "Failed", "podIP": "10.0.0.7"}
}`

func compile(t testing.TB, expr string) *Program {
	t.Helper()
	p, err := Compile(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return p
}

// answers are expressions, and what they say of pod when it is modified.
var answers = map[string]bool{
	`true`:                                      true,
	`type == "MODIFIED"`:                        true,
	`type in ["ADDED", "DELETED"]`:              false,
	`object.status.phase == "Failed"`:           true,
	`object["status"]["phase"] == "Failed"`:     true,
	`object[?"status"].phase.orValue("") != ""`: true,
	`object.status.phase != "Failed"`:           false,
	`object.spec.paused`:                        true,
	`has(object.status.reason)`:                 false,
	`has(object.metadata.labels) && !has(object.metadata.deletionTimestamp)`:                                       true,
	`object.metadata.labels["a.b/c"] == "d" && object.metadata.labels.tier == "db"`:                                true,
	`"app" in object.metadata.labels && size(object.metadata.labels) == 3`:                                         true,
	`object.?status.?reason.orValue("none") == "none"`:                                                             true,
	`object.?status.optMap(s, s.phase).orValue("") == "Failed"`:                                                    true,
	`object.spec.containers.exists(c, c.image.startsWith("other/"))`:                                               true,
	`object.spec.containers.all(c, c.image.startsWith("registry/"))`:                                               false,
	`object.spec.containers[1].name == "b" && object.spec.containers[0].ports[0].containerPort == 80`:              true,
	`object.spec.containers.map(c, c.name) == ["a", "b"]`:                                                          true,
	`object.spec.containers.filter(c, has(c.ports)).size() == 1`:                                                   true,
	`object.spec.replicas == 2 && object.spec.replicas < 2.5 && object.spec.whole == 2`:                            true,
	`type(object.spec.replicas) == int && type(object.spec.ratio) == double`:                                       true,
	`type(object.spec.big) == double && object.spec.big > 9223372036854775807`:                                     true,
	`object.spec.nothing == null && object.metadata.finalizers.size() == 0`:                                        true,
	`timestamp(object.metadata.creationTimestamp).getHours() == 16`:                                                true,
	`timestamp(object.metadata.creationTimestamp) < timestamp("2027-01-01T00:00:00Z")`:                             true,
	`object.metadata.name.matches("^web-[0-9]+$")`:                                                                 true,
	`object.metadata.annotations.quote == 'a"b\\'`:                                                                 true,
	`sets.contains(["web", "db"], [object.metadata.labels.app])`:                                                   true,
	`object.metadata.name.split("-")[0].upperAscii() == "WEB"`:                                                     true,
	`cidr("10.0.0.0/8").containsIP(object.status.podIP)`:                                                           true,
	`math.greatest(object.spec.replicas, 1) == 2`:                                                                  true,
	`object.metadata.labels.exists(k, v, k == "app" && v == "web")`:                                                true,
	`object.exists(k, k == "spec")`:                                                                                true,
	`object == object && size(object) == 5`:                                                                        true,
	`[1, 2].exists(object, object == 2) && object.kind == "Pod"`:                                                   true,
	`["x", "Failed"].exists(type, type == "x")`:                                                                    true,
	`type == "DELETED" ? object.no.such : object.metadata["name"] == "web-0"`:                                      true,
	"object.status.phase == \"Failed\" // a comment\n  && object.metadata[\n'namespace'] == 'shop'":                true,
	`object.metadata["na" + "me"] == "web-0" && object.metadata[object.spec.nodeName == "x" ? "a" : "name"] != ""`: true,
}

func TestMatch(t *testing.T) {
	for expr, want := range answers {
		got, err := compile(t, expr).Match("MODIFIED", []byte(pod))
		if err != nil || got != want {
			t.Errorf("%s: %t, %v", expr, got, err)
		}
	}
}

// What is not decoded is not missed: the answer is the same with all of the object.
func TestPartIsEnough(t *testing.T) {
	objects := []string{pod, `{}`, `{"metadata":null,"spec":1,"status":"x"}`, `{"metadata":{"labels":{}},"spec":[{"containers":[]}],"status":{"phase":{}}}`,
		`{"spec":{"containers":{"name":"a"},"replicas":"2"},"status":[],"kind":"Pod","metadata":{"name":["a"]}}`, string(eventtest.Pod(4000, 2))}
	for expr := range answers {
		p := compile(t, expr)
		whole := *p
		whole.reads = everything
		for _, object := range objects {
			a, errA := p.Match("DELETED", []byte(object))
			b, errB := whole.Match("DELETED", []byte(object))
			if a != b || fmt.Sprint(errA) != fmt.Sprint(errB) {
				t.Errorf("%s on %.80s: %t, %v; with all of it %t, %v", expr, object, a, errA, b, errB)
			}
		}
	}
}

// What is wrong, where, and what to do, in one line.
func TestCompileFaults(t *testing.T) {
	for expr, want := range map[string]string{
		``:                           `is empty; write a CEL expression, e.g. object.status.phase == "Failed", or leave it out for everything`,
		" \n ":                       `is empty; write a CEL expression, e.g. object.status.phase == "Failed", or leave it out for everything`,
		`object.status.phase = "x"`:  `column 21: "=" is no operator; write ==`,
		`obj.status.phase == "x"`:    `column 1: "obj" is not known; there are object and type, and the functions of CEL`,
		"object.a ==\n  obj.b":       `line 2, column 3: "obj" is not known; there are object and type, and the functions of CEL`,
		`object.a == undefined`:      `column 13: "undefined" is not known; there are object and type, and the functions of CEL`,
		`type`:                       `the result is text, not true or false; compare it, e.g. object.status.phase == "Failed"`,
		`1 + 1`:                      `the result is a number, not true or false; compare it, e.g. object.status.phase == "Failed"`,
		`null`:                       `the result is null, not true or false; compare it, e.g. object.status.phase == "Failed"`,
		`[object]`:                   `the result is a list, not true or false; compare it, e.g. object.status.phase == "Failed"`,
		`{"a": object}`:              `the result is a map, not true or false; compare it, e.g. object.status.phase == "Failed"`,
		`object.?a`:                  `the result is optional_type, not true or false; compare it, e.g. object.status.phase == "Failed"`,
		`type == 1`:                  `column 6: == does not take (string, int); give it values that fit together`,
		`!type`:                      `column 1: ! does not take (string); give it values that fit together`,
		`object.a.startsWith(1)`:     `column 20: startsWith does not take dyn.(int); give it values that fit together`,
		`type == "Added"`:            `column 9: type is never "Added"; write ADDED, MODIFIED or DELETED`,
		`"SYNCED" != type`:           `column 1: type is never "SYNCED"; write ADDED, MODIFIED or DELETED`,
		`type in ["ADDED", "GONE"]`:  `column 19: type is never "GONE"; write ADDED, MODIFIED or DELETED`,
		`object.a == $(NS)`:          `column 13: variables of the environment are not put into a filter; write the value`,
		`object.a and object.b`:      `column 10: "and" is no operator; write &&`,
		`object.a & object.b`:        `column 10: "&" is no operator; write &&`,
		`object.a &&`:                `column 12: the expression ends too early; write what is missing, e.g. object.status.phase == "Failed"`,
		`(object.a`:                  `column 10: missing ')' at the end; write it`,
		`object.a == 'b`:             `column 13: a text has no closing quote; write one`,
		`type == “ADDED”`:            `column 9: a typographic quote; write "`,
		`object.a == "b"; true`:      `column 16: ";" is not known here; write an expression such as object.status.phase == "Failed"`,
		`object.a "b"`:               `column 10: "\"b\"" is not expected here; write one expression, its parts joined by && or ||`,
		`object.a in ["x", 1]`:       `column 19: expected type 'string' but found 'int'; the values of a list or map are all of one type`,
		`has(object)`:                `column 5: has() takes a field; write e.g. has(object.status)`,
		`object.a.matches("(")`:      `column 18: invalid matches argument; write an expression such as object.status.phase == "Failed"`,
		`duration("x") == object.a`:  `column 10: invalid duration argument; write an expression such as object.status.phase == "Failed"`,
		`object.foo()`:               `column 11: "foo" is not known; there are object and type, and the functions of CEL`,
		strings.Repeat("(", 1000):    `expression recursion limit exceeded: 250; write a shorter one`,
		strings.Repeat("!", 200_000): `expression code point size exceeds limit: size: 200000, limit 100000; write a shorter one`,
	} {
		_, err := Compile(expr)
		if err == nil || err.Error() != want {
			t.Errorf("%.40s\ngot  %v\nwant %s", expr, err, want)
		}
	}
}

// An error of an evaluation says why, and nothing that the object holds.
func TestMatchFaults(t *testing.T) {
	for expr, want := range map[string]string{
		`object.status.reason == "x"`:                                                        `no such key: reason; ask with has() first, or write .?reason`,
		`object.metadata.owner.name == "x"`:                                                  `no such key: owner; ask with has() first, or write .?owner`,
		`object.spec.nothing.x == 1`:                                                         `no such key: x; `,
		`object["none"] == 1`:                                                                `no such key: none; `,
		`object.metadata.annotations.secret.x == 1`:                                          `no such key: x; `,
		`object[object.metadata.annotations.secret] == 1`:                                    `no such key; ask with in first`,
		`object.metadata.annotations.secret > 1`:                                             `a value is of another type than the expression takes it for`,
		`object.spec.containers.name == "a"`:                                                 `a value is of another type than the expression takes it for`,
		`object.spec.containers[7].name == "a"`:                                              `index out of bounds`,
		`object.spec.replicas / 0 == 1`:                                                      `division by zero`,
		`object.spec.replicas + 9223372036854775807 > 0`:                                     `integer overflow`,
		`int(object.metadata.annotations.secret) > 1`:                                        `a function does not take the value that it gets`,
		`timestamp(object.metadata.annotations.secret) == timestamp("2026-01-01T00:00:00Z")`: `a function does not take the value that it gets`,
		`"a".matches(object.metadata.annotations.secret)`:                                    `a function does not take the value that it gets`,
		`ip(object.metadata.annotations.secret) == ip("::")`:                                 `a function does not take the value that it gets`,
		`math.greatest(object.metadata.annotations.secret, 1) == 1`:                          `a value is of another type than the expression takes it for`,
		`"%d".format([object.metadata.annotations.secret]) == ""`:                            `a function does not take the value that it gets`,
		`object.metadata.annotations.secret`:                                                 `the result is text, not true or false; compare it`,
		`object.spec.containers`:                                                             `the result is a list, not true or false; compare it`,
		`object`:                                                                             `the result is a map, not true or false; compare it`,
		`object.?status`:                                                                     ``, // does not compile
		`lists.range(10000).all(x, lists.range(10000).all(y, x + y >= 0))`:                   `takes more than is allowed of one expression`,
		`lists.range(1000000000).size() > object.spec.replicas`:                              `a function does not take the value that it gets`,
		`object.spec.containers.all(c, lists.range(1000000).all(x, c.name.size() + x >= 0))`: `takes more than is allowed of one expression`,
	} {
		p, err := Compile(expr)
		if want == "" {
			if err == nil {
				t.Errorf("%s compiles", expr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		match, err := p.Match("ADDED", []byte(pod))
		if match || err == nil || !strings.HasPrefix(err.Error(), "evaluate filter: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %t, %v", expr, match, err)
			continue
		}
		if strings.Contains(err.Error(), "Hunter") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

func TestBadObjects(t *testing.T) {
	p := compile(t, `object.status.phase == "Failed" || size(object.spec) > 0`)
	for _, text := range []string{
		``, ` `, `null`, `[]`, `"x"`, `{`, `{"status"`, `{"status":`, `{"status":}`, `{"status":{"phase":"` + secret, `{"status":{"phase":"\`, `{"status" "` + secret + `"}`,
		`{"x":[`, `{"x":]}`, `{"x":{"` + secret + `":}`, `{"status":tru}`, `{"spec":1e999}`, `{"spec":"\u12"}`, `{"spec":-}`, `{"spec":{}}}`, `{"spec":{}} {}`, `{"spec":[1 2]}`, `{"spec":{"a":1 "b":2}}`,
		`{"spec":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, `{"x":` + strings.Repeat("[", 20_000),
	} {
		_, err := p.Match("ADDED", []byte(text))
		if err == nil || strings.Contains(err.Error(), "Hunter") || !strings.HasPrefix(err.Error(), "evaluate filter: read the object: ") {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

func TestMatchUnknown(t *testing.T) {
	for _, c := range []struct {
		expr           string
		match, decided bool // for DELETED
		usesObject     bool
	}{
		{`true`, true, true, false},
		{`type == "DELETED"`, true, true, false},
		{`type != "DELETED"`, false, true, false},
		{`1 / 0 == 1`, false, false, false},
		{`object.spec.paused`, false, false, true},
		{`object.status.phase == "Failed"`, false, false, true},
		{`type == "DELETED" || object.status.phase == "Failed"`, true, true, true},
		{`object.status.phase == "Failed" || type == "DELETED"`, true, true, true},
		{`type != "DELETED" && object.status.phase == "Failed"`, false, true, true},
		{`type == "DELETED" && object.status.phase == "Failed"`, false, false, true},
		{`type == "DELETED" ? true : object.spec.paused`, true, true, true},
		{`has(object.status) || type != "DELETED"`, false, false, true},
		{`object.spec.containers.exists(c, c.name == "a")`, false, false, true},
		{`["ADDED"].exists(t, t == type) && object.a`, false, true, true},
		{`type == "DELETED" && 1 / 0 == 1`, false, false, false},
	} {
		p := compile(t, c.expr)
		if match, decided := p.MatchUnknown("DELETED"); match != c.match || decided != c.decided {
			t.Errorf("%s: match %t, decided %t", c.expr, match, decided)
		}
		if got := p.reads != nil; got != c.usesObject {
			t.Errorf("%s: uses the object: %t", c.expr, got)
		}
		if !c.usesObject {
			want, err := p.Match("DELETED", nil)
			if err == nil && (want != c.match || !c.decided) {
				t.Errorf("%s: is %t where no object is needed", c.expr, want)
			}
		}
	}
}

// Whatever is decided without the object is what comes out with it.
func TestUnknownAgrees(t *testing.T) {
	objects := []string{`{}`, pod, `{"status":{"phase":"Failed"},"spec":{"paused":false}}`, `{"status":null}`, `{"spec":[]}`}
	terms := []string{
		`type == "DELETED"`, `type != "ADDED"`, `object.status.phase == "Failed"`, `object.?spec.?paused.orValue(false) == true`,
		`has(object.status)`, `object.metadata.labels.app == "web"`,
	}
	decisions := 0
	for _, a := range terms {
		for _, b := range terms {
			for _, form := range []string{"%s && %s", "%s || %s", "!(%s) && %s", "(%s) ? (%s) : true", "(%s) ? false : (%s)"} {
				expr := fmt.Sprintf(form, a, b)
				p := compile(t, expr)
				for _, typ := range eventTypes {
					match, decided := p.MatchUnknown(typ)
					if !decided {
						continue
					}
					decisions++
					for _, object := range objects {
						if got, err := p.Match(typ, []byte(object)); err == nil && got != match {
							t.Errorf("%s, %s: %t without the object, %t with %s", expr, typ, match, got, object)
						}
					}
				}
			}
		}
	}
	if decisions == 0 {
		t.Error("nothing was decided")
	}
}

// Only a part of the object is decoded; that part is what encoding/json makes of it.
func TestDecode(t *testing.T) {
	objects := [][]byte{[]byte(pod), eventtest.Pod(6000, 1), eventtest.Secret(1), eventtest.Event(1), eventtest.ConfigMap(2000, 1),
		[]byte(" {\"a\" : [ 1 , -2 , 3.5e1 , \"\\ud83d\\ude00\xff\" , { } , [ ] , true , false , null ] ,\t\"\\u0061\":{\"b\\\"\":\"\\\\\"},\"a\":{\"b\":-0}}\n"),
	}
	for _, object := range objects {
		var want any
		d := json.NewDecoder(strings.NewReader(string(object)))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		got, err := decode(object, everything)
		if err != nil || !reflect.DeepEqual(got, plain(want)) {
			t.Errorf("%s\ngot  %v, %v\nwant %v", object, got, err, want)
		}
	}
	for expr, want := range map[string]string{
		`object.status.phase == "x"`:                              `{"status":{"phase":"Failed"}}`,
		`object["status"].phase == object.?spec.nodeName.value()`: `{"status":{"phase":"Failed"},"spec":{"nodeName":"node-1"}}`,
		`has(object.status) && object.status.phase == "x"`:        `{"status":{"phase":"Failed","podIP":"10.0.0.7"}}`,
		`object.status.phase.x.y == 1`:                            `{"status":{"phase":"Failed"}}`,
		`object.spec.containers.image == "x"`:                     `{"spec":{"containers":[{"name":"a","image":"registry/a:1","ports":[{"containerPort":80}]},{"name":"b","image":"other/b:2"}]}}`,
		`type == "ADDED" && object.none == 1`:                     `{}`,
	} {
		got, err := decode([]byte(pod), compile(t, expr).reads)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(text, &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: decoded %s", expr, text)
		}
	}
}

// plain puts int64 and float64 in place of numbers.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// One Program is asked from all sides at once.
func TestConcurrent(t *testing.T) {
	p := compile(t, `object.spec.containers.exists(c, c.image.matches("other/.*")) && object.metadata.labels.app == "web" && type == "ADDED"`)
	other := []byte(strings.ReplaceAll(pod, "other/", "third/"))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				object, want := []byte(pod), true
				if (i+g)%2 == 0 {
					object, want = other, false
				}
				typ := eventTypes[i%3]
				if got, err := p.Match(typ, object); err != nil || got != (want && typ == "ADDED") {
					t.Errorf("%s: %t, %v", typ, got, err)
				}
				if _, err := p.Match(typ, []byte(`{"spec":{}}`)); err == nil && typ == "ADDED" {
					t.Error("no error without containers")
				}
				if match, decided := p.MatchUnknown(typ); match || decided == (typ == "ADDED") {
					t.Errorf("%s unknown: %t, %t", typ, match, decided)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkMatch(b *testing.B) {
	object := eventtest.Pod(6<<10, 1)
	for name, expr := range map[string]string{
		"type":  `type == "MODIFIED"`,
		"field": `object.status.phase == "Failed"`,
		"list":  `object.spec.containers.exists(c, c.image.startsWith("registry/"))`,
		"whole": `size(object) > 3 && object.status.phase != "Failed"`,
	} {
		b.Run(name, func(b *testing.B) {
			p := compile(b, expr)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Match("MODIFIED", object); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("unknown", func(b *testing.B) {
		p := compile(b, `type == "DELETED" || object.status.phase == "Failed"`)
		b.ReportAllocs()
		for b.Loop() {
			if match, decided := p.MatchUnknown("DELETED"); !match || !decided {
				b.Fatal("not decided")
			}
		}
	})
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			compile(b, `object.status.phase == "Failed"`)
		}
	})
}
