package invariant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The lines of the tests, of one stream, in few words each: seq is theirs by their place.

func on(stream, typ, origin, name, uid, rv string) string {
	return fmt.Sprintf(`"time":"2026-11-20T16:10:22.123456789Z","type":%q,"origin":%q,"id":"%s/%s/%s","stream":%q,"version":"v1",`+
		`"resource":"configmaps","kind":"ConfigMap","namespace":"default","name":%q,"uid":%q,"resourceVersion":%q,`+
		`"object":{"kind":"ConfigMap","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q},"data":{"k":%q}}`,
		typ, origin, uid, rv, typ, stream, name, uid, rv, name, uid, rv, rv)
}

func event(typ, origin, name, uid, rv string) string {
	return on("configmaps", typ, origin, name, uid, rv)
}

func watched(typ, name, uid, rv string) string { return event(typ, "watch", name, uid, rv) }

// lost is a deletion that a relist found.
func lost(name, uid, rv string) string {
	return strings.Replace(event("DELETED", "relist", name, uid, rv), `,"object"`, `,"finalStateKnown":false,"object"`, 1)
}

func gap(reason, from, to string) string {
	return fmt.Sprintf(`"time":"2026-11-20T16:10:22.000000001Z","type":"GAP","id":"configmaps/%s/GAP","stream":"configmaps","version":"v1",`+
		`"resource":"configmaps","kind":"ConfigMap","reason":%q,"fromResourceVersion":%q,"resourceVersion":%q`, to, reason, from, to)
}

func synced(rv string, added, modified, deleted int) string {
	return fmt.Sprintf(`"time":"2026-11-20T16:10:22.000000001Z","type":"SYNCED","id":"configmaps/%s/SYNCED","stream":"configmaps","version":"v1",`+
		`"resource":"configmaps","kind":"ConfigMap","resourceVersion":%q,"count":{"added":%d,"modified":%d,"deleted":%d,"unchanged":7}`,
		rv, rv, added, modified, deleted)
}

func text(lines ...string) string {
	var b strings.Builder
	for i, l := range lines {
		fmt.Fprintf(&b, "{\"seq\":%d,%s}\n", i+1, l)
	}
	return b.String()
}

func parse(t *testing.T, journal string) []Line {
	t.Helper()
	lines, err := Parse("j", 1, []byte(journal))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// want checks that err has the text, or is nil where there is none.
func want(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("a good journal is refused: %v", err)
	case text != "" && err == nil:
		t.Errorf("a broken journal passes, want %q", text)
	case text != "" && !strings.Contains(err.Error(), text):
		t.Errorf("error %q does not say %q", err, text)
	}
}

// good is a snapshot, a watch, a gap with everything in it, and a watch again.
var good = []string{
	event("ADDED", "snapshot", "a", "u1", "5"),
	event("ADDED", "snapshot", "b", "u2", "3"),
	synced("10", 2, 0, 0),
	watched("MODIFIED", "a", "u1", "11"),
	watched("ADDED", "c", "u3", "12"),
	watched("DELETED", "c", "u3", "13"),
	watched("ADDED", "c", "u4", "14"),
	gap("Expired", "14", "30"),
	lost("b", "u2", "3"),
	event("ADDED", "relist", "b", "u5", "25"),
	event("MODIFIED", "relist", "a", "u1", "28"),
	synced("30", 1, 1, 1),
	watched("DELETED", "a", "u1", "31"),
}

// edit returns good with the line at i (from 0) replaced, or taken out if there are none.
func edit(i int, lines ...string) []string {
	out := append([]string{}, good[:i]...)
	out = append(out, lines...)
	return append(out, good[i+1:]...)
}

func TestGoodJournal(t *testing.T) {
	lines := parse(t, text(good...))
	want(t, All(lines, Options{}), "")
	state, err := Replay(lines)
	if err != nil {
		t.Fatal(err)
	}
	if len(state) != 2 {
		t.Errorf("replay has %d objects, want 2: %v", len(state), state)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	whole := text(good...)
	cut := strings.Index(whole, `{"seq":5`)
	for name, content := range map[string]string{"one": whole[:cut], "two": whole[cut:], "torn": whole[:cut-3]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := Read(filepath.Join(dir, "one"), filepath.Join(dir, "two"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, All(lines, Options{}), "")
	if l := lines[5]; l.Where != "two:2" || l.Type != Deleted || l.UID != "u3" {
		t.Errorf("line 6 is %+v", l)
	}
	_, err = Read(filepath.Join(dir, "torn"))
	want(t, err, "torn: the last line has no end")
	_, err = Read(filepath.Join(dir, "none"))
	want(t, err, "no such file")
}

func TestParseIsStrict(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"unknown field":       {"{\"seq\":1,\"new\":{\"a\":[]}}\n", ""},
		"not JSON":            {"hello\n", "j:1: invalid character"},
		"cut":                 {"{\"seq\":1,\"type\":\"ADD\n", "j:1:"},
		"two in one":          {"{\"seq\":1}{\"seq\":2}\n", "j:1: invalid character"},
		"empty line":          {"{\"seq\":1}\n\n", "j:2:"},
		"array":               {"[1]\n", "not a JSON object"},
		"twice":               {"{\"seq\":1,\"seq\":1}\n", `"seq" stands twice`},
		"not UTF-8":           {"{\"name\":\"\xff\"}\n", "not UTF-8"},
		"seq of another sort": {"{\"seq\":\"1\"}\n", "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("j", 1, []byte(tc.in))
			want(t, err, tc.want)
		})
	}
}

func TestSequence(t *testing.T) {
	lines := parse(t, text(good...))
	want(t, Sequence(lines[4:], 5), "")
	want(t, Sequence(lines[4:], 1), "seq is not 1")
	want(t, Sequence(append(lines[:3:3], lines[4:]...), 1), "seq is not 4")
	want(t, Sequence(append(lines[:3:3], lines[2:]...), 1), "seq is not 4")
}

func TestShape(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"no id":                  {`"id":"u3/12/ADDED",`, ``, "no id"},
		"wrong id":               {`"id":"u3/12/ADDED"`, `"id":"u3/12/MODIFIED"`, "id is not u3/12/ADDED"},
		"id of a gap":            {`"id":"configmaps/30/GAP"`, `"id":"u3/30/GAP"`, "id is not configmaps/30/GAP"},
		"no seq":                 {`"seq":5,`, ``, "no seq"},
		"no time":                {`"time":"2026-11-20T16:10:22.123456789Z",`, ``, "no time"},
		"local time":             {`16:10:22.123456789Z`, `16:10:22.123456789+01:00`, "is not UTC"},
		"no stream":              {`"stream":"configmaps",`, ``, "no stream"},
		"unknown type":           {`"type":"MODIFIED"`, `"type":"CHANGED"`, "unknown type"},
		"unknown origin":         {`"origin":"watch"`, `"origin":"sky"`, "unknown origin"},
		"no kind":                {`"kind":"ConfigMap","namespace"`, `"namespace"`, "no kind"},
		"empty text":             {`"namespace":"default"`, `"namespace":""`, "namespace is empty"},
		"empty object":           {`"origin":"watch"`, `"origin":"watch","changes":[]`, "changes is empty"},
		"zero":                   {`"origin":"watch"`, `"origin":"watch","generation":0`, "generation is empty"},
		"gap without reason":     {`"reason":"Expired",`, ``, "no reason"},
		"synced without count":   {`,"count":{"added":1,"modified":1,"deleted":1,"unchanged":7}`, ``, "no count"},
		"final state":            {`"finalStateKnown":false`, `"finalStateKnown":true`, "finalStateKnown does not belong"},
		"final state of a watch": {`"DELETED","origin":"watch"`, `"DELETED","finalStateKnown":false,"origin":"watch"`, "finalStateKnown does not belong"},
		"removed, what":          {`"type":"SYNCED","id":"configmaps/`, `"type":"REMOVED","id":"configmaps/`, "it is not about the journal"},
		"object in a gap":        {`"reason":"Expired"`, `"reason":"Expired","uid":"u1"`, "a line about a stream"},
	} {
		t.Run(name, func(t *testing.T) {
			journal := strings.Replace(text(good...), tc.from, tc.to, 1)
			if journal == text(good...) {
				t.Fatal("nothing is broken")
			}
			want(t, Shape(parse(t, journal)), tc.want)
		})
	}
}

func TestUnique(t *testing.T) {
	again := append(append([]string{}, good...), good[3])
	want(t, Unique(parse(t, text(again...))), "the id stands at j:4 already")
	// A server from a backup may count to the same version again.
	again = append(append([]string{}, good...), gap(Ahead, "31", "9"), watched("MODIFIED", "a", "u1", "11"))
	want(t, Unique(parse(t, text(again...))), "")
	want(t, Unique(parse(t, text(append(again, watched("MODIFIED", "a", "u1", "11"))...))), "the id stands")
	// What selectors bring back can be deleted at the version that it had before.
	again = append(append([]string{}, good...), gap(Ahead, "31", "9"), lost("b", "u5", "25"), synced("9", 0, 0, 1), watched("ADDED", "b", "u5", "20"))
	want(t, Unique(parse(t, text(append(again, watched("DELETED", "b", "u5", "25"))...))), "")
	want(t, Unique(parse(t, text(append(again[:len(again)-1], watched("DELETED", "b", "u5", "25"))...))), "the id stands")
}

func TestObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"version goes back":     {edit(3, watched("MODIFIED", "a", "u1", "4")), "the version does not rise above 5"},
		"version stays":         {edit(3, watched("MODIFIED", "a", "u1", "5")), "the version does not rise above 5"},
		"modified unknown":      {edit(4, watched("MODIFIED", "c", "u3", "12")), "MODIFIED without an ADDED"},
		"deleted unknown":       {edit(4), "DELETED without an ADDED"},
		"deleted twice":         {edit(6, watched("DELETED", "c", "u3", "14")), "the object ended at j:6"},
		"modified after end":    {edit(6, watched("MODIFIED", "c", "u3", "14")), "the object ended at j:6"},
		"added after end":       {edit(6, watched("ADDED", "c", "u3", "14")), "the object ended at j:6"},
		"added twice":           {edit(3, watched("ADDED", "a", "u1", "11")), "ADDED again after j:1"},
		"recreated in disorder": {edit(8, good[9], good[8]), "ADDED before the DELETED of u2"},
		"old one not deleted":   {edit(8), "ADDED before the DELETED of u2"},
		"no number":             {edit(3, watched("MODIFIED", "a", "u1", "x")), "is not a number"},
		"server went back": {append(append([]string{}, good[:7]...), gap(Ahead, "14", "9"),
			lost("c", "u4", "14"), event("MODIFIED", "relist", "a", "u1", "5"), event("ADDED", "relist", "c", "u3", "8"), synced("9", 1, 1, 1)), ""},
		"left and came again": {[]string{
			on("configmaps?labelSelector=a%3Db", "ADDED", "watch", "a", "u1", "5"),
			on("configmaps?labelSelector=a%3Db", "DELETED", "watch", "a", "u1", "6"),
			on("configmaps?labelSelector=a%3Db", "ADDED", "watch", "a", "u1", "7")}, ""},
	} {
		t.Run(name, func(t *testing.T) { want(t, Objects(parse(t, text(tc.lines...))), tc.want) })
	}
}

func TestStreams(t *testing.T) {
	// A relist that was interrupted after its first line, and one for another reason that finished it.
	resumed := append(append([]string{}, good[:9]...), gap(CheckpointLost, "30", "40"), good[9], good[10], synced("40", 1, 1, 0))
	started := []string{good[0], good[1], event("ADDED", "snapshot", "d", "u9", "9"), synced("10", 1, 0, 0)}
	for name, tc := range map[string]struct {
		lines       []string
		interrupted bool
		want        string
	}{
		"interrupted":              {resumed, true, ""},
		"interrupted by itself":    {resumed, false, "a GAP within the one of j:8"},
		"another gap in between":   {append(append([]string{}, good[:9]...), gap("Expired", "30", "40"), synced("40", 0, 0, 0)), true, "a GAP within"},
		"does not go on":           {append(append([]string{}, good[:9]...), gap(CheckpointLost, "14", "40"), synced("40", 0, 0, 0)), true, "does not go on where"},
		"another GAP for the rest": {append(append([]string{}, good[:9]...), gap(Interrupted, "30", "40"), synced("40", 0, 0, 0)), true, "goes on behind its GAP"},
		"first sync began again":   {started, true, ""},
		"first sync counts":        {started, false, "count says"},
		"no SYNCED":                {good[:11], false, "no SYNCED follows"},
		"no first SYNCED":          {good[:2], false, "stream configmaps: no SYNCED"},
		"watch in a gap":           {edit(11), false, "a watch event before the SYNCED of the GAP"},
		"watch in a snapshot":      {edit(2), false, "a watch event before the first SYNCED"},
		"watch out of order":       {edit(4, watched("ADDED", "c", "u3", "11")), false, "at or before 11"},
		"watch from before a list": {edit(12, watched("DELETED", "a", "u1", "30")), false, "at or before 30"},
		"relist without a gap":     {edit(7), false, "relist outside of a list"},
		"snapshot in a gap":        {edit(9, event("ADDED", "snapshot", "b", "u5", "25")), false, "snapshot after the GAP"},
		"synced twice":             {edit(11, good[11], good[11]), false, "SYNCED without a GAP"},
		"another version":          {edit(11, synced("29", 1, 1, 1)), false, "at an earlier version"},
		"count":                    {edit(11, synced("30", 1, 1, 0)), false, "count says"},
		"gap goes back":            {edit(7, gap("Expired", "14", "13")), false, "goes back"},
		"gap begins too early":     {edit(7, gap("Expired", "13", "30")), false, "lines were told up to 14"},
		"gap from nowhere":         {edit(7, gap("Expired", "", "30")), false, `a GAP between ""`},
		"not behind":               {edit(7, gap(Ahead, "14", "30")), false, "is not behind"},
	} {
		t.Run(name, func(t *testing.T) { want(t, Streams(parse(t, text(tc.lines...)), tc.interrupted), tc.want) })
	}
}

func TestCompare(t *testing.T) {
	key := func(name string) Key { return Key{Resource: "configmaps", Namespace: "default", Name: name} }
	server := func() State {
		state := make(State)
		for name, o := range map[string][2]string{"b": {"u5", "25"}, "c": {"u4", "14"}} {
			content, err := Expect(key(name), fmt.Appendf(nil, `{"apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q,`+
				`"managedFields":[{}]},"data":{"k":%q}}`, name, o[0], o[1], o[1]))
			if err != nil {
				t.Fatal(err)
			}
			state[key(name)] = content
		}
		return state
	}
	journal, err := Replay(parse(t, text(good...)))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(State)
		want   string
	}{
		"same":    {func(State) {}, ""},
		"missing": {func(s State) { s[key("d")] = Object{UID: "u8", ResourceVersion: "29"} }, "configmaps default/d: the journal does not know it"},
		"extra":   {func(s State) { delete(s, key("b")) }, "default/b: the journal has u5 at 25, the server has none"},
		"uid":     {func(s State) { o := s[key("b")]; o.UID = "u6"; s[key("b")] = o }, "the server u6 at 25"},
		"version": {func(s State) { o := s[key("b")]; o.ResourceVersion = "26"; s[key("b")] = o }, "the server u5 at 26"},
		"content": {func(s State) { s[key("b")].Content["data"] = map[string]any{"k": "x"} }, "default/b: content"},
	} {
		t.Run(name, func(t *testing.T) {
			s := server()
			tc.change(s)
			want(t, Compare(journal, s), tc.want)
		})
	}
}

func TestExpectRedacts(t *testing.T) {
	const in = `{"metadata":{"name":"s","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x","mine":"y","kapp.k14s.io/original":"{}","b":"bWFya2Vy","c":"of marker"}},"data":{"a":"bWFya2Vy"},"type":"Opaque"}`
	o, err := Expect(Key{Resource: "secrets"}, []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(o.Content); got != "map[data:map[a:REDACTED] metadata:map[annotations:map[b:REDACTED c:REDACTED kapp.k14s.io/original:REDACTED mine:y] name:s] type:Opaque]" {
		t.Error(got)
	}
}

func TestWrites(t *testing.T) {
	write := func(typ, uid, rv string) Write {
		return Write{Stream: "configmaps", Type: typ, UID: uid, ResourceVersion: rv, What: "w"}
	}
	all := []Write{
		write(Added, "u1", "4"), // before the first sync, and overtaken
		write(Modified, "u1", "11"), write(Added, "u3", "12"), write(Deleted, "u3", ""), write(Added, "u4", "14"),
		write(Modified, "u1", "20"), write(Modified, "u1", "28"), write(Deleted, "u2", ""), // in the gap
		write(Added, "u6", "21"), write(Deleted, "u6", ""), // came and went in it
		write(Deleted, "u1", ""),
	}
	went := append(append([]string{}, good...), gap(Ahead, "31", "9"), event("ADDED", "relist", "a", "u1", "5"), synced("9", 1, 0, 0),
		watched("MODIFIED", "a", "u1", "11"))
	second := write(Modified, "u1", "11")
	second.Epoch = 1
	for name, tc := range map[string]struct {
		lines  []string
		writes []Write
		want   string
	}{
		"all":                     {good, all, ""},
		"missing":                 {edit(3), all, "u1/11/MODIFIED is missing"},
		"twice":                   {edit(3, good[3], good[3]), all, "u1/11 stands there 2 times"},
		"twice in a gap":          {edit(10, good[10], good[10]), all, "u1/28 stands there 2 times"},
		"as another type":         {edit(4, watched("MODIFIED", "c", "u3", "12")), all, "is told as MODIFIED, was ADDED"},
		"deletion missing":        {edit(5), all, "deletion of u3: ADDED 1 times, DELETED 0 times"},
		"deletion missing in gap": {edit(8), all, "deletion of u2: ADDED 1 times, DELETED 0 times"},
		"deletion twice":          {edit(5, good[5], good[5]), all, "deletion of u3: ADDED 1 times, DELETED 2 times"},
		"beyond the gap":          {good, append(all, write(Added, "u7", "32")), "u7/32/ADDED is missing"},
		"in another stream":       {good, []Write{{Stream: "secrets", Type: Added, UID: "u3", ResourceVersion: "12", What: "w"}}, "is missing"},
		"server went back":        {went, append(all, second), ""},
		"missing after that":      {went[:len(went)-1], append(all, second), "u1/11/MODIFIED is missing"},
		"lost with the server":    {went, append(all, write(Added, "u7", "32")), ""},
	} {
		t.Run(name, func(t *testing.T) { want(t, Writes(parse(t, text(tc.lines...)), tc.writes), tc.want) })
	}
}

// The members of an object are those that encoding/json finds, byte for byte.
func TestMembers(t *testing.T) {
	values := []string{
		`1`, `-2.5e3`, `true`, `null`, `""`, `"a\"b\\"`, `"\\"`, `"{[,:]}"`, `"\u00e9é"`, `{}`, `[]`, `{"a":{"b":[1,{"c":"}"}]}}`,
		"[ 1 ,\t[ ] , \"]\" ]", "{ \"a\" : 1 }", `[[],[[]],{"x":null}]`,
	}
	for i, a := range values {
		for _, b := range values {
			raw := []byte(" { \"a\" : " + a + " ,\"\\u0062\":" + b + ", \"object\":" + values[(i+3)%len(values)] + "\t} ")
			var want map[string]json.RawMessage
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			got, err := members(raw)
			if err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", raw, diff)
			}
			var l Line
			if err := l.parse(raw); err != nil || string(l.Object) != string(want["object"]) {
				t.Errorf("%s: object %s, %v", raw, l.Object, err)
			}
		}
	}
	for _, bad := range []string{"", " ", "1", "[]", `"a"`, `{"a":1`, `{"a":1}{}`, `{"a":1,}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`} {
		if got, err := members([]byte(bad)); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

func TestFaultsAreBounded(t *testing.T) {
	lines := parse(t, strings.Repeat(text(good[0]), 40))
	err := Sequence(lines, 1)
	want(t, err, "and 27 more")
	if n := strings.Count(err.Error(), "\n"); n != maxFaults+1 {
		t.Errorf("%d lines of faults", n)
	}
}
