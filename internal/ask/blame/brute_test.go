package blame

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

// brute is a decoded value with the seq that it is from: what blame is to agree with, found by walking over all versions.
type brute struct {
	v        any
	seq      uint64 // of a container: that added, replaced, emptied or first filled it
	members  map[string]*brute
	elements []*brute
}

// since returns a value all of which is from seq.
func since(v any, seq uint64) *brute {
	b := &brute{v: v, seq: seq}
	switch v := v.(type) {
	case map[string]any:
		b.members = map[string]*brute{}
		for k, c := range v {
			b.members[k] = since(c, seq)
		}
	case []any:
		for _, c := range v {
			b.elements = append(b.elements, since(c, seq))
		}
	}
	return b
}

// walk keeps what is gone, by path.
type walk struct {
	seq        uint64
	gone, came []string // path, and of what is gone value
	removed    map[string]string
}

func (w *walk) note(list *[]string, path string, v any, leavesOnly bool) {
	leaf := true
	visit := func(path string, c any) {
		leaf = false
		w.note(list, path, c, leavesOnly)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			visit(path+memberStep(path, k), c)
		}
	case []any:
		for i, c := range v {
			visit(path+elementStep(i, c), c)
		}
	}
	if leaf || !leavesOnly {
		text, _ := json.Marshal(v)
		*list = append(*list, path, string(text))
	}
}

func memberStep(path, key string) string {
	if key == "" || strings.ContainsAny(key, "./[]\"*{}() ") || !printable(key) {
		return "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return "." + key
}

func elementStep(i int, v any) string {
	name := ""
	if m, ok := v.(map[string]any); ok {
		_, name = identity(m)
	} else if _, ok := v.([]any); !ok {
		if text, _ := json.Marshal(v); len(text) <= 64 {
			name = plain(v)
		}
	}
	if name == "" {
		name = strconv.Itoa(i)
	}
	if name == "*" || name[0] == '"' || strings.Contains(name, "]") || !printable(name) {
		name = strconv.Quote(name)
	}
	return "[" + name + "]"
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != ' ' && (unicode.IsSpace(r) || !unicode.IsGraphic(r)) })
}

func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// identity is what package changes documents: the first of these members that is no container.
func identity(v any) (id, name string) {
	if m, ok := v.(map[string]any); ok {
		for _, k := range []string{"name", "type", "key", "mountPath", "devicePath", "containerPort", "port", "ip", "topologyKey", "manager"} {
			c, ok := m[k]
			if _, isMap := c.(map[string]any); !ok || isMap {
				continue
			}
			if _, isList := c.([]any); isList {
				continue
			}
			return fmt.Sprintf("keyed %s %T %v", k, c, c), plain(c)
		}
	}
	b, _ := json.Marshal(v)
	return string(b), ""
}

// next returns the value as it is in the version w.seq.
func (w *walk) next(was *brute, is any, path string) *brute {
	switch is := is.(type) {
	case map[string]any:
		if was.members == nil {
			break
		}
		b := &brute{v: is, seq: was.seq, members: map[string]*brute{}}
		for k, c := range is {
			if old, ok := was.members[k]; ok {
				b.members[k] = w.next(old, c, path+memberStep(path, k))
			} else {
				b.members[k] = since(c, w.seq)
				w.note(&w.came, path+memberStep(path, k), c, false)
			}
		}
		for k, old := range was.members {
			if _, ok := is[k]; !ok {
				w.note(&w.gone, path+memberStep(path, k), old.v, true)
			}
		}
		if (len(is) == 0) != (len(was.members) == 0) {
			b.seq = w.seq
		}
		return b
	case []any:
		if _, ok := was.v.([]any); !ok {
			break
		}
		b := &brute{v: is, seq: was.seq}
		for _, p := range pairs(was.elements, is) {
			at := len(b.elements)
			switch {
			case p[1] < 0:
				old := was.elements[p[0]].v
				w.note(&w.gone, path+elementStep(at, old), old, true)
			case p[0] < 0:
				b.elements = append(b.elements, since(is[p[1]], w.seq))
				w.note(&w.came, path+elementStep(at, is[p[1]]), is[p[1]], false)
			case p[2] == 1:
				b.elements = append(b.elements, w.replaced(was.elements[p[0]].v, is[p[1]], path+elementStep(at, was.elements[p[0]].v), path+elementStep(at, is[p[1]])))
			default:
				b.elements = append(b.elements, w.element(was.elements[p[0]], is[p[1]], path, at))
			}
		}
		if (len(is) == 0) != (len(was.elements) == 0) {
			b.seq = w.seq
		}
		return b
	default:
		if reflect.DeepEqual(was.v, is) {
			return was
		}
	}
	return w.replaced(was.v, is, path, path)
}

func (w *walk) element(was *brute, is any, path string, at int) *brute {
	if reflect.TypeOf(was.v) == reflect.TypeOf(is) && (was.members != nil || was.elements != nil) {
		return w.next(was, is, path+elementStep(at, is))
	}
	if reflect.DeepEqual(was.v, is) {
		return was
	}
	if _, ok := is.([]any); ok && reflect.TypeOf(was.v) == reflect.TypeOf(is) { // from an empty list
		return w.next(was, is, path+elementStep(at, is))
	}
	return w.replaced(was.v, is, path+elementStep(at, was.v), path+elementStep(at, is))
}

func (w *walk) replaced(was, is any, from, to string) *brute {
	switch was.(type) {
	case map[string]any, []any:
		w.note(&w.gone, from, was, true)
	}
	w.note(&w.came, to, is, false)
	return since(is, w.seq)
}

// pairs pairs elements by identity along a longest common subsequence, and what lies between by position. The third is 1
// where an element takes the place of another one.
func pairs(was []*brute, is []any) [][3]int {
	a, b := make([]string, len(was)), make([]string, len(is))
	for i := range was {
		a[i], _ = identity(was[i].v)
	}
	for i := range is {
		b[i], _ = identity(is[i])
	}
	var all [][3]int
	between := func(i, j, k, l int) {
		for ; i < j || k < l; i, k = i+1, k+1 {
			switch {
			case k >= l:
				all = append(all, [3]int{i, -1})
			case i >= j:
				all = append(all, [3]int{-1, k})
			default:
				whole := 0
				if a[i] != b[k] && (strings.HasPrefix(a[i], "keyed") || strings.HasPrefix(b[k], "keyed")) {
					whole = 1
				}
				all = append(all, [3]int{i, k, whole})
			}
		}
	}
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	endA, endB := len(a), len(b)
	for endA > head && endB > head && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
	}
	between(0, head, 0, head)
	i, k := head, head
	if (endA-head)*(endB-head) <= 4096 {
		common := make([][]int, endA+2)
		for x := range common {
			common[x] = make([]int, endB+2)
		}
		for x := endA - 1; x >= head; x-- {
			for y := endB - 1; y >= head; y-- {
				if common[x][y] = max(common[x+1][y], common[x][y+1]); a[x] == b[y] {
					common[x][y] = common[x+1][y+1] + 1
				}
			}
		}
		for x, y := head, head; x < endA && y < endB; {
			switch {
			case a[x] == b[y]:
				between(i, x, k, y)
				between(x, x+1, y, y+1)
				x, y = x+1, y+1
				i, k = x, y
			case common[x+1][y] >= common[x][y+1]:
				x++
			default:
				y++
			}
		}
	}
	between(i, endA, k, endB)
	between(endA, len(a), endB, len(b))
	return all
}

// fields lists the leaves, as path, value and seq.
func (b *brute) fields(path string, all []string) []string {
	for k, c := range b.members {
		all = c.fields(path+memberStep(path, k), all)
	}
	for i, c := range b.elements {
		all = c.fields(path+elementStep(i, c.v), all)
	}
	if len(b.members)+len(b.elements) == 0 {
		text, _ := json.Marshal(b.v)
		all = append(all, fmt.Sprintf("%s = %s from %d", path, text, b.seq))
	}
	return all
}

var (
	bruteKeys    = []string{"a", "b", "name", "type", "key", "c/d", "~x", "~1", "e.f g", "q\"", "0", "1", "Ä", "on", strings.Repeat("long-", 30), ""}
	bruteStrings = []string{"", "x", "y", "true", "12", "a/b~c", "\"\\\n\u00e9<&>", "two\nlines\n", "two\n  lines", "tab\tand\nline", " lead", "#", "- a", "a: b", "\x1b[31m", "\u2028x\ny", "\u0085\n\n", strings.Repeat("word ", 40), strings.Repeat("l\n", 4), "\u202e", "\U0001F600", "\ufeff"}
	bruteLists   = []string{"name", "type", "containerPort", "port", "key"}
)

func bruteScalar(rnd *rand.Rand) any {
	switch rnd.IntN(8) {
	case 0:
		return nil
	case 1:
		return rnd.IntN(2) == 0
	case 2, 3:
		return json.Number([]string{"0", "1", "2", "80", "-3", "1.5", "1.0", "1e3"}[rnd.IntN(8)])
	}
	return bruteStrings[rnd.IntN(len(bruteStrings))]
}

func bruteValue(rnd *rand.Rand, depth int) any {
	switch kind := rnd.IntN(10); {
	case depth > 5 || kind < 5:
		return bruteScalar(rnd)
	case kind == 5:
		l := make([]any, rnd.IntN(5))
		for i := range l {
			l[i] = bruteScalar(rnd)
		}
		return l
	case kind == 6:
		l := make([]any, rnd.IntN(4))
		for i := range l {
			l[i] = bruteValue(rnd, depth+1)
		}
		return l
	case kind == 7:
		return bruteElements(rnd, depth, rnd.IntN(4))
	}
	m := map[string]any{}
	for range rnd.IntN(6) {
		m[bruteKeys[rnd.IntN(len(bruteKeys))]] = bruteValue(rnd, depth+1)
	}
	return m
}

// bruteElements returns a list of elements with keys.
func bruteElements(rnd *rand.Rand, depth, n int) []any {
	key, l := bruteLists[rnd.IntN(len(bruteLists))], make([]any, n)
	for i := range l {
		l[i] = map[string]any{key: fmt.Sprint("e", rnd.IntN(n+1)), "v": bruteValue(rnd, depth+1), "image": fmt.Sprint(rnd.IntN(5))}
	}
	return l
}

func bruteMutate(rnd *rand.Rand, v any, depth int) any {
	if rnd.IntN(25) == 0 {
		return bruteValue(rnd, depth)
	}
	switch c := v.(type) {
	case map[string]any:
		m := maps.Clone(c)
		for _, k := range slices.Sorted(maps.Keys(c)) {
			switch rnd.IntN(10) {
			case 0:
				delete(m, k)
			case 1, 2, 3, 4:
				m[k] = bruteMutate(rnd, c[k], depth+1)
			}
		}
		if rnd.IntN(4) == 0 {
			m[bruteKeys[rnd.IntN(len(bruteKeys))]] = bruteValue(rnd, depth+1)
		}
		return m
	case []any:
		l := slices.Clone(c)
		for i := 0; i < len(l); i++ {
			switch rnd.IntN(14) {
			case 0:
				l = slices.Delete(l, i, i+1)
			case 1:
				l = slices.Insert(l, i, bruteValue(rnd, depth+1))
			case 2:
				l = slices.Insert(l, i, bruteElements(rnd, depth+1, 1)[0])
			case 3:
				j := rnd.IntN(len(l))
				l[i], l[j] = l[j], l[i]
			case 4, 5, 6:
				l[i] = bruteMutate(rnd, l[i], depth+1)
			}
		}
		if rnd.IntN(20) == 0 {
			return []any{}
		}
		return l
	}
	if rnd.IntN(3) == 0 {
		return bruteScalar(rnd)
	}
	return v
}

func bruteObject(rnd *rand.Rand) map[string]any {
	many := map[string]any{}
	for i := range rnd.IntN(2) * rnd.IntN(150) {
		many[fmt.Sprint("k", i)] = bruteScalar(rnd)
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		"data": many, "spec": map[string]any{"containers": bruteElements(rnd, 0, rnd.IntN(6)), "any": bruteValue(rnd, 0)},
		"status": map[string]any{"conditions": bruteElements(rnd, 0, rnd.IntN(80)*rnd.IntN(2)), "list": bruteValue(rnd, 1)},
	}
}

// The answer is that of a walk over all versions with decoded objects.
func TestBruteForce(t *testing.T) {
	histories := 2000
	if testing.Short() {
		histories = 200
	}
	values, lines, gone := 0, 0, 0
	for seed := range uint64(histories) {
		rnd := rand.New(rand.NewPCG(seed, 6902))
		object := bruteObject(rnd)
		root := since(object, 1)
		w := walk{removed: map[string]string{}}
		var h History
		add(t, &h, bruteLine(t, 1, object))
		for seq := uint64(2); seq < 3+rnd.Uint64N(12); seq++ {
			before := object
			object = map[string]any{"apiVersion": "v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}}
			for _, k := range []string{"data", "spec", "status"} {
				if v := before[k]; v != nil && rnd.IntN(12) > 0 {
					object[k] = bruteMutate(rnd, v, 0)
				} else if rnd.IntN(2) == 0 {
					object[k] = bruteValue(rnd, 0)
				}
			}
			add(t, &h, bruteLine(t, seq, object))
			w.seq, w.gone, w.came = seq, nil, nil
			root = w.next(root, any(object), "")
			for i := 0; i < len(w.gone); i += 2 {
				w.removed[w.gone[i]] = fmt.Sprintf("%s = %s from %d", w.gone[i], w.gone[i+1], seq)
			}
			for i := 0; i < len(w.came); i += 2 {
				delete(w.removed, w.came[i])
			}
		}
		r, err := h.Result()
		if err != nil {
			t.Fatalf("history %d: %v", seed, err)
		}
		var got, removed []string
		for _, f := range r.Fields {
			got = append(got, fmt.Sprintf("%s = %s from %d", f.Path, canonical(t, f.Value), f.Seq))
		}
		for _, f := range r.Removed {
			removed = append(removed, fmt.Sprintf("%s = %s from %d", f.Path, canonical(t, f.Value), f.Seq))
		}
		want, wantRemoved := root.fields("", nil), slices.Collect(maps.Values(w.removed))
		for _, l := range []*[]string{&got, &want, &removed, &wantRemoved} {
			slices.Sort(*l)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("history %d:\n%s", seed, different(got, want))
		}
		// Elements may have one name, and then it depends on the order which of them is listed.
		if !slices.Equal(removed, wantRemoved) && len(slices.Compact(paths(want))) == len(want) {
			t.Fatalf("history %d, removed:\n%s", seed, different(removed, wantRemoved))
		}
		checkLines(t, r, object, seed)
		values, lines, gone = values+len(got), lines+len(r.Lines), gone+len(removed)
	}
	t.Logf("%d histories, %d values, %d lines, %d removed", histories, values, lines, gone)
}

func paths(fields []string) (all []string) {
	for _, f := range fields {
		path, _, _ := strings.Cut(f, " = ")
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

func different(got, want []string) string {
	var b strings.Builder
	for _, g := range got {
		if !slices.Contains(want, g) {
			fmt.Fprintf(&b, "got  %s\n", g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			fmt.Fprintf(&b, "want %s\n", w)
		}
	}
	return b.String()
}

func canonical(t testing.TB, value []byte) string {
	var v any
	decoder := json.NewDecoder(strings.NewReader(string(value)))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, value)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// checkLines checks that the lines are the YAML of the object, and that each value's line has its write.
func checkLines(t testing.TB, r *Result, object map[string]any, seed uint64) {
	var text strings.Builder
	for _, l := range r.Lines {
		if l.Write == nil {
			t.Fatalf("history %d: line %q has no write", seed, l.Text)
		}
		text.WriteString(l.Text + "\n")
	}
	if want, err := yaml.Marshal(object); err != nil {
		t.Fatal(err)
	} else if text.String() != string(want) && !strings.Contains(text.String(), `\N`) { // for which it puts a blank
		t.Fatalf("history %d:\n%s", seed, different(strings.Split(text.String(), "\n"), strings.Split(string(want), "\n")))
	}
	at := 0
	for _, f := range r.Fields { // in order, each on a line of its own with its write
		for at < len(r.Lines) && (r.Lines[at].Write != f.Write || strings.HasSuffix(r.Lines[at].Text, ":")) {
			at++
		}
		if at++; at > len(r.Lines) {
			t.Fatalf("history %d: no line for %s", seed, f.Path)
		}
	}
}

func bruteLine(t testing.TB, seq uint64, object map[string]any) string {
	b, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	kind := "MODIFIED"
	if seq == 1 {
		kind = "ADDED"
	}
	return fmt.Sprintf(`{"seq":%d,"time":"2026-11-20T13:%02d:%02dZ","type":%q,"origin":"watch","stream":"widgets","version":"v1","resource":"widgets","kind":"Widget","name":"w","uid":"u","resourceVersion":"%d","manager":"m%d","object":%s}`,
		seq, seq/60%60, seq%60, kind, 100+seq, seq, b)
}
