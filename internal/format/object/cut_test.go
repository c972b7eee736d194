package object_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/test/eventtest"
)

var cutAt = time.Date(2026, 11, 20, 16, 10, 22, 0, time.UTC)

// cutter renders lines of one stream with the longest seq.
type cutter struct {
	r         *object.Renderer
	prev, now object.Object
}

func newCutter(tb testing.TB, src object.Source, shape object.Shape) *cutter {
	tb.Helper()
	r, err := object.NewRenderer(src, shape)
	if err != nil {
		tb.Fatal(err)
	}
	return &cutter{r: r}
}

var (
	roles  = object.Source{Stream: "clusterroles.rbac.authorization.k8s.io", Cluster: "prod-eu1", Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Kind: "ClusterRole"}
	events = object.Source{Stream: "events", Version: "v1", Resource: "events", Kind: "Event"}
	things = object.Source{Stream: "things.example.com", Group: "example.com", Version: "v1", Resource: "things", Kind: "Thing"}
)

// line renders the change from one object to another; whole is the line without a bound.
func (c *cutter) line(tb testing.TB, from, to string, payload object.Payload, maxBytes int) (whole, cut string, ok bool) {
	tb.Helper()
	if c.r.Scan([]byte(to), &c.now) != nil {
		return "", "", false
	}
	var list []byte
	if from != "" {
		if c.r.Scan([]byte(from), &c.prev) != nil {
			return "", "", false
		}
		var err error
		if list, err = changes.Append(nil, c.prev.AppendShaped(nil), c.now.AppendShaped(nil)); err != nil {
			tb.Fatal(err)
		}
	}
	l := object.Line{Type: line.Modified, Origin: line.FromWatch, Received: cutAt, Payload: payload, Changes: list}
	render := func(maxBytes int) string {
		l.MaxBytes = maxBytes
		b, err := c.r.AppendLine(line.AppendSeq(nil, 1<<64-1), l, &c.now)
		if err != nil {
			tb.Fatal(err)
		}
		return string(b)
	}
	return render(0), render(maxBytes), true
}

// decoded is a line, or a part of it, as encoding/json reads it.
type decoded = map[string]any

func decode(tb testing.TB, line string) decoded {
	tb.Helper()
	var m decoded
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		tb.Fatalf("%v: %.2000s", err, line)
	}
	return m
}

var markOf = regexp.MustCompile(`^((?s).*)…\[cut ([0-9]+) (bytes|members|elements)\]$`)

// isCutOf says what is wrong with a value of a truncated line whose object has the value whole, "" if nothing is.
func isCutOf(cut, whole any) string {
	if text, ok := cut.(string); ok {
		if m := markOf.FindStringSubmatch(text); m != nil {
			if is, ok := whole.(string); m[3] != "bytes" || m[1] != "" && (!ok || !strings.HasPrefix(is, m[1])) {
				return fmt.Sprintf("%q is no mark of %v", text, whole)
			}
			return ""
		}
	}
	switch whole := whole.(type) {
	case map[string]any:
		members, ok := cut.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v is no object", cut)
		}
		left := len(whole) - len(members)
		for key, value := range members {
			is, has := whole[key]
			if m := markOf.FindStringSubmatch(fmt.Sprint(value)); key == "…" && m != nil && m[3] == "members" {
				if n, _ := strconv.Atoi(m[2]); n <= left {
					return fmt.Sprintf("%d members are left out, not %s", left+1, m[2])
				}
				left = 0
				continue
			}
			if !has {
				return "no member " + key
			}
			if fault := isCutOf(value, is); fault != "" {
				return key + ": " + fault
			}
		}
		if left != 0 {
			return fmt.Sprintf("%d members are left out", left)
		}
	case []any:
		elements, ok := cut.([]any)
		if !ok {
			return fmt.Sprintf("%v is no list", cut)
		}
		for i, value := range elements {
			if m := markOf.FindStringSubmatch(fmt.Sprint(value)); len(m) == 4 && m[3] == "elements" {
				if i != len(elements)-1 || m[2] != strconv.Itoa(len(whole)-i) {
					return fmt.Sprintf("%d elements are left out, not %s", len(whole)-i, m[2])
				}
				return ""
			}
			if i == len(whole) {
				return "too many elements"
			}
			if fault := isCutOf(value, whole[i]); fault != "" {
				return fmt.Sprintf("%d: %s", i, fault)
			}
		}
		if len(elements) != len(whole) {
			return "elements are missing"
		}
	default:
		if !reflect.DeepEqual(cut, whole) {
			return fmt.Sprintf("%v, not %v", cut, whole)
		}
	}
	return ""
}

// checkCut checks a truncated line against the whole one: nothing in it is false, what is missing is marked, and it has no
// more bytes than it may.
func checkCut(tb testing.TB, whole, line string, maxBytes int) {
	tb.Helper()
	if len(whole) <= maxBytes {
		if line != whole {
			tb.Fatalf("a line of %d bytes is not as it is without a bound of %d: %s", len(whole), maxBytes, line)
		}
		return
	}
	is, want := decode(tb, line), decode(tb, whole)
	cutMembers := []string{"event", "changes", "object", "truncated", "changesOmitted"}
	for key, value := range want {
		if !slices.Contains(cutMembers, key) && !reflect.DeepEqual(is[key], value) {
			tb.Fatalf("%s is %v, not %v", key, is[key], value)
		}
	}
	bare := want["event"] == nil && want["changes"] == nil && want["object"] == nil
	if is["truncated"] != true && !(bare && line == whole) {
		tb.Fatalf("not truncated: %s", line)
	}
	if len(line) > maxBytes && !bare && (is["event"] != nil || is["changes"] != nil || is["object"] != nil || is["changesOmitted"] != nil) {
		tb.Fatalf("%d bytes, bound %d: %s", len(line), maxBytes, line)
	}
	if object := is["object"]; object != nil {
		if fault := isCutOf(object, want["object"]); fault != "" {
			tb.Fatalf("object: %s\n%s\n%s", fault, line, whole)
		}
	}
	if event, _ := is["event"].(decoded); event != nil {
		for key, value := range event {
			if fault := isCutOf(value, want["event"].(decoded)[key]); fault != "" && key != "regarding" {
				tb.Fatalf("event: %s: %s", key, fault)
			}
		}
	}
	checkOperations(tb, is, want)
}

// checkOperations checks that the operations are some of the true ones in their order, and that the rest is counted.
func checkOperations(tb testing.TB, is, want decoded) {
	tb.Helper()
	kept, _ := is["changes"].([]any)
	all, _ := want["changes"].([]any)
	omitted := 0
	if n, ok := is["changesOmitted"].(json.Number); ok {
		omitted, _ = strconv.Atoi(string(n))
	}
	if len(kept)+omitted != len(all) && (len(kept) > 0 || omitted > 0) {
		tb.Fatalf("%d operations and %d omitted of %d", len(kept), omitted, len(all))
	}
	next := 0
	for _, operation := range kept {
		op := operation.(decoded)
		fault := "not there"
		for ; next < len(all) && fault != ""; next++ {
			if of := all[next].(decoded); of["op"] == op["op"] && of["path"] == op["path"] {
				fault = ""
				for _, key := range []string{"old", "value"} {
					if value, has := op[key]; has {
						fault += isCutOf(value, of[key])
					}
				}
			}
		}
		if fault != "" {
			tb.Fatalf("operation %v: %s", op, fault)
		}
	}
}

// operation returns the operation on a path.
func operation(tb testing.TB, line, path string) decoded {
	tb.Helper()
	list, _ := decode(tb, line)["changes"].([]any)
	for _, op := range list {
		if op := op.(decoded); op["path"] == path {
			return op
		}
	}
	return nil
}

func role(version, metadata, rules, more string) string {
	return `{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"deployers","uid":"584e51c7-eb9d-4f9b-aa7c-6bb6566b1508",` +
		`"resourceVersion":"` + version + `","creationTimestamp":"2026-11-22T01:54:12Z"` + metadata + `},"rules":[` + rules + `]` + more + `}`
}

const (
	fewRights = `{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}`
	allRights = `{"verbs":["*"],"apiGroups":[""],"resources":["pods"]}`
)

func padding(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// tricks are what pads an object: members of its metadata before and after the change that is to be hidden, and members of
// the object itself.
var tricks = map[string]struct {
	before, after, moreBefore, more string
	beside                          bool // it pads the object that has the change as a member: the writer may hide that
}{
	"huge annotation":           {before: ``, after: `,"annotations":{"pad":"` + strings.Repeat("a", 20<<10) + `"}`},
	"huge annotation, kept":     {before: `,"annotations":{"pad":"` + strings.Repeat("a", 20<<10) + `"}`, after: `,"annotations":{"pad":"` + strings.Repeat("a", 20<<10) + `"}`},
	"annotation of 1.5 MB":      {after: `,"annotations":{"pad":"` + strings.Repeat("a", 3<<19) + `"}`},
	"many annotations":          {after: `,"annotations":{` + padding(`"k%d":"v",`, 10_000) + `}`},
	"many annotations changed":  {before: `,"annotations":{` + padding(`"k%d":"v",`, 5000) + `}`, after: `,"annotations":{` + padding(`"k%d":"w",`, 5000) + `}`},
	"middle-sized annotations":  {before: `,"annotations":{"a":"b"}`, after: `,"annotations":{"a":"b",` + padding(`"k%d":"`+strings.Repeat("v", 300)+`",`, 500) + `}`},
	"many labels":               {before: `,"labels":{"app":"x"}`, after: `,"labels":{"app":"x",` + padding(`"k%d":"",`, 5000) + `}`},
	"huge keys":                 {after: `,"annotations":{` + padding(`"`+strings.Repeat("k", 3000)+`%d":"",`, 100) + `}`},
	"huge keys, some are there": {before: `,"annotations":{"x":"y"}`, after: `,"annotations":{"x":"z",` + padding(`"`+strings.Repeat("k", 3000)+`%d":"",`, 100) + `}`},
	"managedFields":             {after: `,"managedFields":[` + padding(`{"manager":"m%d","operation":"Update","fieldsV1":{"f:metadata":{"f:annotations":{"f:a":{}}}}},`, 3000) + `]`},
	"ownerReferences":           {after: `,"ownerReferences":[` + padding(`{"name":"m%d"},`, 3000) + `]`},
	"deep":                      {more: `,"x":` + strings.Repeat(`{"a":`, 9000) + `1` + strings.Repeat(`}`, 9000)},
	"deep lists":                {more: `,"x":` + strings.Repeat(`[`, 9000) + `1` + strings.Repeat(`]`, 9000)},
	"deep with values":          {more: `,"x":` + strings.Repeat(`{"b":"cccccccccc","a":`, 9000) + `1` + strings.Repeat(`}`, 9000)},
	"numbers":                   {more: `,"x":[` + padding(`%d,`, 50_000) + `]`},
	"numbers changed":           {moreBefore: `,"x":[` + padding(`1%d,`, 50_000) + `]`, more: `,"x":[` + padding(`%d,`, 50_000) + `]`},
	"one long number":           {more: `,"x":` + strings.Repeat("1", 30_000)},
	"many members":              {more: `,` + padding(`"x%d":1,`, 20_000), beside: true},
	"many members changed":      {moreBefore: `,` + padding(`"x%d":1,`, 20_000), more: `,` + padding(`"x%d":2,`, 20_000), beside: true},
	"unicode":                   {after: `,"annotations":{"pad":"` + strings.Repeat(`😀\ud83d\ude00é\u00e9\n`, 2000) + `"}`},
	"marks":                     {after: `,"annotations":{"…":"x","a":"…[cut 1 bytes]","b":"\u2026[cut 3 members]","pad":"` + strings.Repeat("…[cut 9 elements]", 2000) + `"}`},
	"many marks":                {after: `,"annotations":{` + padding(`"k%d":"…[cut 1 bytes]",`, 3000) + `}`},
	"list of marks":             {more: `,"x":[` + padding(`"…[cut %d elements]",`, 3000) + `]`},
}

// Whatever pads an object, a change of its rules is in its line.
func TestPaddingHidesNoChange(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	for name, trick := range tricks {
		for _, maxBytes := range []int{16 << 10, 4 << 10, 2 << 10, 1 << 10} {
			t.Run(fmt.Sprint(name, " ", maxBytes), func(t *testing.T) {
				c := newCutter(t, roles, object.Shape{})
				little := role("204", trick.before, fewRights, trick.moreBefore)
				all := role("205", trick.after, allRights, trick.more)
				for _, way := range [][3]string{{little, all, "*"}, {all, little, "get"}} {
					whole, line, ok := c.line(t, way[0], way[1], object.WholeObject, maxBytes)
					if !ok {
						t.Fatal("not scanned")
					}
					checkCut(t, whole, line, maxBytes)
					if len(whole) <= maxBytes { // nothing pads the line of a revocation but what it takes away
						continue
					}
					op := operation(t, line, "/rules/0/verbs/0")
					if trick.beside {
						op = decoded{"op": "replace", "value": way[2]}
					}
					if op == nil || op["op"] != "replace" || op["value"] != way[2] {
						t.Errorf("%v in %.900s", op, line)
					}
					if maxBytes < 4<<10 {
						continue
					}
					raw := decode(t, line)["object"].(decoded)
					if want := decode(t, whole)["object"].(decoded)["rules"]; !reflect.DeepEqual(raw["rules"], want) && !trick.beside {
						t.Errorf("rules are %v in %.900s", raw["rules"], line)
					}
					metadata := raw["metadata"].(decoded)
					for _, key := range []string{"name", "uid", "resourceVersion", "creationTimestamp"} {
						if m := decode(t, whole)["object"].(decoded)["metadata"].(decoded); !reflect.DeepEqual(metadata[key], m[key]) {
							t.Errorf("%s is %v", key, metadata[key])
						}
					}
				}
			})
		}
	}
}

// The same for what is padded itself: a rule with long names beside what it allows, and a binding.
func TestPaddedRule(t *testing.T) {
	pad := strings.Repeat("n", 20<<10)
	c := newCutter(t, roles, object.Shape{})
	from, to := role("204", "", "", ""), role("205", "", `{"resourceNames":["`+pad+`"],"apiGroups":["*","`+pad+`"],"verbs":["*"]}`, "")
	whole, line, _ := c.line(t, from, to, object.WholeObject, 16<<10)
	checkCut(t, whole, line, 16<<10)
	op := operation(t, line, "/rules/0")
	if value, _ := op["value"].(decoded); value == nil || value["verbs"].([]any)[0] != "*" || value["apiGroups"].([]any)[0] != "*" {
		t.Errorf("%v", op)
	}
	binding := func(pad, subjects string) string {
		return `{"metadata":{"name":"b","annotations":{"a":"` + pad + `"}},"roleRef":{"kind":"ClusterRole","name":"admin"},"subjects":[` + subjects + `]}`
	}
	for _, payload := range []object.Payload{object.WholeObject, object.MetadataOnly, object.NoObject} {
		whole, line, _ = c.line(t, binding("", ""), binding(pad, `{"kind":"User","name":"eve"}`), payload, 1<<10)
		checkCut(t, whole, line, 1<<10)
		if op := operation(t, line, "/subjects/0"); op == nil || op["value"].(decoded)["name"] != "eve" {
			t.Errorf("%s: %s", payload, line)
		}
	}
}

// A cut of a value shows no more of what is redacted than the value does.
func TestCutRedacted(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	const secret = "c2VjcmV0LXZhbHVl"
	c := newCutter(t, object.Source{Stream: "secrets", Version: "v1", Resource: "secrets", Kind: "Secret"}, object.Shape{Secret: true})
	raw := func(version string) string {
		return `{"metadata":{"name":"s","resourceVersion":"` + version + `","annotations":{"pad":"` + strings.Repeat("a", 5000) + `","copy":"` +
			strings.Repeat("b", 5000) + secret + `"}},"data":{` + padding(`"k%d":"`+secret+`",`, 500) + `,"` + version + `":"` + secret + `"}}`
	}
	for maxBytes := 300; maxBytes < 20_000; maxBytes += 97 {
		whole, line, _ := c.line(t, raw("1"), raw("2"), object.WholeObject, maxBytes)
		checkCut(t, whole, line, maxBytes)
		if strings.Contains(line, secret[:8]) {
			t.Fatalf("%d bytes: %s", maxBytes, line)
		}
	}
}

// Every bound gives a line within it; a Kubernetes Event keeps as much of its message as has room.
func TestEveryBound(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	message := strings.Repeat(`a\"é\ud83d\ude00\n\u00e9😀`, 40)
	pod := func(message string) string {
		return `{"kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"5","labels":{"b":"c"}},"reason":"R","message":"` + message +
			`","count":3,"involvedObject":{"kind":"Pod","name":"web","uid":"x"}}`
	}
	for _, src := range []object.Source{things, events} {
		c := newCutter(t, src, object.Shape{})
		for _, payload := range []object.Payload{object.WholeObject, object.MetadataOnly, object.NoObject} {
			for _, from := range []string{"", pod(""), pod("a" + message)} {
				whole, _, _ := c.line(t, from, pod(message), payload, 0)
				for maxBytes := len(whole) + 2; maxBytes > 0; maxBytes -= 5 {
					_, line, _ := c.line(t, from, pod(message), payload, maxBytes)
					checkCut(t, whole, line, maxBytes)
				}
			}
		}
	}
}

// newCutCheck returns a function that checks the lines of one change with one of several shapes.
func newCutCheck(tb testing.TB) func(t testing.TB, from, to []byte, which uint8, maxBytes uint16) {
	all := []*cutter{
		newCutter(tb, things, object.Shape{}), newCutter(tb, events, object.Shape{}), newCutter(tb, things, object.Shape{Secret: true}),
		newCutter(tb, things, object.Shape{Drop: []string{"metadata.managedFields"}, Redact: []string{"spec", "metadata.labels"}}),
	}
	payloads := []object.Payload{object.WholeObject, object.MetadataOnly, object.NoObject}
	return func(t testing.TB, from, to []byte, which uint8, maxBytes uint16) {
		c, payload := all[which%4], payloads[which/4%3]
		whole, line, ok := c.line(t, string(from), string(to), payload, max(int(maxBytes), 1))
		if !ok || repeats(to) || repeats(from) {
			return
		}
		checkCut(t, whole, line, max(int(maxBytes), 1))
	}
}

// repeats reports whether an object has a key twice: encoding/json then shows one of two values.
func repeats(object []byte) bool {
	var v any
	if json.Unmarshal(object, &v) != nil {
		return true
	}
	var compact bytes.Buffer
	if json.Compact(&compact, object) != nil {
		return true
	}
	keys := 0
	var count func(v any)
	count = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, v := range v {
				keys++
				count(v)
			}
		case []any:
			for _, v := range v {
				count(v)
			}
		}
	}
	count(v)
	d, all := json.NewDecoder(&compact), 0
	var inObject []bool
	var key bool
	for {
		token, err := d.Token()
		if err != nil {
			return all != keys
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			inObject = append(inObject, token == json.Delim('{'))
			key = inObject[len(inObject)-1]
			continue
		case json.Delim('}'), json.Delim(']'):
			inObject = inObject[:len(inObject)-1]
		default:
			if key {
				all++
				key = false
				continue
			}
		}
		key = len(inObject) > 0 && inObject[len(inObject)-1]
	}
}

func FuzzCut(f *testing.F) {
	for i := range 40 {
		f.Add([]byte(fmt.Sprint(i, "abcdefghijklmnopq")), []byte(fmt.Sprint("zyxw", i*i, "...")), uint8(i), uint16(i*40))
	}
	check := newCutCheck(f)
	f.Fuzz(func(t *testing.T, from, to []byte, which uint8, maxBytes uint16) {
		check(t, eventtest.Made(from), eventtest.Made(to), which, maxBytes)
	})
}

func TestCutMadeObjects(t *testing.T) {
	check := newCutCheck(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	from := make([]byte, 2000)
	for range 2000 {
		for i := range from {
			from[i] = byte(rnd.Uint32())
		}
		n := rnd.IntN(len(from))
		before := eventtest.Made(from[:n])
		from[rnd.IntN(len(from))]++
		check(t, before, eventtest.Made(from[:rnd.IntN(n+1)]), uint8(rnd.Uint32()), uint16(rnd.IntN(2000)))
	}
}

// BenchmarkCut is what an attacker's object takes: 1.5 MB, to a line of 16 KiB.
func BenchmarkCut(b *testing.B) {
	pod := string(eventtest.Pod(20<<10, 1))
	tricks := map[string]string{
		"pod": pod, "long": role("1", `,"annotations":{"a":"`+strings.Repeat("a", 3<<19)+`"}`, "", ""),
		"members": role("1", `,"annotations":{`+padding(`"k%d":"",`, 150_000)+`}`, "", ""),
		"numbers": role("1", "", "", `,"x":[`+padding("%d,", 220_000)+`]`),
		"deep":    role("1", "", "", `,"x":`+strings.Repeat(`{"b":"`+strings.Repeat("c", 150)+`","a":`, 9000)+`1`+strings.Repeat("}", 9000)),
	}
	for name, raw := range tricks {
		b.Run(name, func(b *testing.B) {
			c := newCutter(b, roles, object.Shape{})
			if err := c.r.Scan([]byte(raw), &c.now); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				var err error
				out, err = c.r.AppendLine(line.AppendSeq(out[:0], 1), object.Line{Type: line.Added, Received: cutAt, MaxBytes: 16 << 10}, &c.now)
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
