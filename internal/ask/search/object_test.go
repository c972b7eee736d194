package search

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
)

// look returns what is found in an object, which a line of a resource has.
func look(t *testing.T, p *Pattern, field, resource, truncated, object string) *finding {
	t.Helper()
	steps, err := fieldpath.ParseAny(field)
	if err != nil {
		t.Fatal(err)
	}
	var l line.Fields
	if err := l.Parse([]byte(`{"seq":1,"time":"2026-11-20T12:00:00Z","type":"ADDED","stream":"s","resource":"` + resource + `"` + truncated +
		`,"object":` + object + `}`)); err != nil {
		t.Fatal(err)
	}
	w := walker{p: p, field: steps, whole: true}
	f := w.walk(&l)
	if len(f.matches) > 0 && !(&walker{p: p, a: p.automaton()}).mayMatch(l.Object) {
		t.Errorf("%s: the bytes do not match", object)
	}
	return f
}

func text(t *testing.T, s string) *Pattern {
	t.Helper()
	p, err := Text(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What the lines do not have is counted, and is a doubt where the text may be in it.
func TestLacking(t *testing.T) {
	const truncated = `,"truncated":true`
	for _, c := range []struct {
		text, field, resource, truncated, object string

		paths         string
		redacted, cut int
		hides         bool
	}{
		{"10.0.0.5", "", "secrets", "", `{"data":{"a":"REDACTED","b":"REDACTED"}}`, "", 2, 0, false},
		{"bmdpbng=", "", "secrets", "", `{"data":{"a":"REDACTED"}}`, "", 1, 0, true},
		{"10.0.0.5", "", "secrets", "", `{"metadata":{"annotations":{"a":"REDACTED"}}}`, "", 1, 0, true},
		{"10.0.0.5", "", "widgets", "", `{"data":{"a":"REDACTED"}}`, "", 1, 0, true},
		{"10.0.0.5", "spec", "widgets", "", `{"data":{"a":"REDACTED"},"spec":"10.0.0.5"}`, "spec", 0, 0, false},
		{"x", "spec.list[web].image", "widgets", "", `{"spec":{"list":"REDACTED"}}`, "", 1, 0, true},
		{"cut 20", "", "pods", truncated, `{"a":"…[cut 20 bytes]","b":["x","…[cut 20 elements]"],"…":"…[cut 20 members]"}`, "", 0, 3, false},
		{"cut 20", "", "pods", "", `{"a":"…[cut 20 bytes]","…":"…[cut 20 members]"}`, "a …", 0, 0, false},
		{"nginx", "", "pods", truncated, `{"a":"nginx:1.2…[cut 20 bytes]"}`, "a", 0, 1, false},
		{"nginx", "spec.b[web]", "pods", truncated, `{"a":"…[cut 20 bytes]","spec":{"b":["…[cut 2 elements]"]}}`, "", 0, 1, false},
		{"REDACTED", "", "pods", "", `{"a":"REDACTED"}`, "a", 1, 0, true},
	} {
		f := look(t, text(t, c.text), c.field, c.resource, c.truncated, c.object)
		var paths []string
		for _, m := range f.matches {
			paths = append(paths, m.Path)
		}
		if got := strings.Join(paths, " "); got != c.paths || f.redacted != c.redacted || f.cut != c.cut || f.hides != c.hides || f.damaged {
			t.Errorf("%q below %q in %s: %q, %+v", c.text, c.field, c.object, got, f)
		}
	}
}

// What matches the beginning of a value that was cut must match whatever follows it.
func TestCutEnd(t *testing.T) {
	const object = `{"a":"nginx…[cut 20 bytes]"}`
	for expression, want := range map[string]int{"nginx": 1, "nginx$": 0, `nginx\b`: 0, "^n": 1} {
		p, err := Regexp(expression)
		if err != nil {
			t.Fatal(err)
		}
		if f := look(t, p, "", "pods", `,"truncated":true`, object); len(f.matches) != want || f.cut != 1 {
			t.Errorf("%s: %+v", expression, f)
		}
	}
}

// An object that others have written is read too, unless it is no JSON.
func TestForeign(t *testing.T) {
	if f := look(t, text(t, "80"), "", "pods", "", "{ \"a b\" : [ 80 ,\t{\"name\": \"x]\", \"p\": 8080} ] }"); len(f.matches) != 2 ||
		f.matches[0].Path != `["a b"][0]` || f.matches[1].Path != `["a b"]["x]"].p` {
		t.Errorf("%+v", f)
	}
	if f := look(t, text(t, "80"), "", "pods", "", `{"a":80 1}`); !f.damaged {
		t.Errorf("%+v", f)
	}
}

// Nobody makes an answer larger than so much, or a walk slower than linear.
func TestBounds(t *testing.T) {
	const deep = 9000
	f := look(t, text(t, "x"), "", "pods", "", strings.Repeat(`{"x":[`, deep/2)+"1"+strings.Repeat("]}", deep/2))
	if len(f.matches) != MaxMatches || f.more != deep/2-MaxMatches || len(f.matches[MaxMatches-1].Path) > 1000 {
		t.Errorf("%d, %d", len(f.matches), f.more)
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, c := range []struct {
		text, find string
		want       Excerpt
	}{
		{"nginx:1.25", "x:1", Excerpt{"ngin", "x:1", ".25", 0}},
		{"a\n  listen 8080;\nb", "8080", Excerpt{"listen ", "8080", ";", 2}},
		{"a\nb", "a\nb", Excerpt{"", "a", "", 1}},
		{"a8080\n", "8080\n", Excerpt{"a", "8080", "", 0}},
		{long + "8080" + long, "8080", Excerpt{"…" + long[:100], "8080", long[:100] + "…", 0}},
	} {
		from := strings.Index(c.text, c.find)
		if got := excerptOf([]byte(c.text), from, from+len(c.find)); got != c.want {
			t.Errorf("%q: %+v", c.text, got)
		}
	}
}

// Regular expressions are looked for by texts that all that they match has.
func TestNeedles(t *testing.T) {
	for expression, want := range map[string][]string{
		"nginx":                   {"nginx"},
		"^nginx:1\\.2[0-9]$":      {"nginx:1.2"},
		"(?i)backoff":             {"BAC"},
		"a.b|(long)+":             {"a", "long"},
		"a.b|(long)*":             nil,
		"nginx|envoy|a<bc":        {"nginx", "envoy", "bc"},
		"(nginx|envoy):1":         {"nginx", "envoy"},
		"x?longer{2}|\"quoted\"":  {"longe", "quoted"},
		"[a-z]+":                  nil,
		"(?i)ks":                  nil,
		"pull (?:failed|refused)": {"failed", "refused"},
	} {
		p, err := Regexp(expression)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range p.needles {
			got = append(got, string(n.text))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
	for _, fault := range []string{"", "(", `\1`, "(?=x)"} {
		if _, err := Regexp(fault); err == nil {
			t.Errorf("%q is taken", fault)
		}
	}
}

// A needle is found wherever it stands, however often its rarest byte comes.
func TestNeedleIn(t *testing.T) {
	for _, c := range []struct {
		text, in string
		fold     bool
		want     bool
	}{
		{"8080", strings.Repeat("8", 5000) + "080", false, true},
		{"8080", strings.Repeat("8", 5000) + "08", false, false},
		{"z", "", false, false},
		{"az", "z", false, false},
		{"BaC", strings.Repeat("bA", 300) + "c" + strings.Repeat("B", 300), true, true},
		{"BaC", strings.Repeat("C", 300) + "BA" + strings.Repeat("B", 300), true, false},
		{"x1", "aX1", true, true},
	} {
		n := newNeedle(c.text, c.fold)
		if got := n.in([]byte(c.in)); got != c.want {
			t.Errorf("%s in %.20q: %v", c.text, c.in, got)
		}
	}
}

func paths(matches []Match) (all []string) {
	for _, m := range matches {
		all = append(all, m.Path)
	}
	return all
}

// An automaton with too many states passes over nothing.
func TestAutomatonFull(t *testing.T) {
	p, err := Regexp("[a-f].{12}[0-9]x")
	if err != nil {
		t.Fatal(err)
	}
	a, r := p.automaton(), rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		text := make([]byte, 200)
		for i := range text {
			text[i] = "abcdefgh0123456789wx"[r.IntN(20)]
		}
		if p.re.Match(text) && !a.mayMatch(text) {
			t.Fatalf("%s", text)
		}
	}
	if a.full == 0 || len(a.states) > maxStates {
		t.Errorf("%d states, %d times too many", len(a.states), a.full)
	}
}

func FuzzMayMatch(f *testing.F) {
	f.Add(`{"a":"\u006e\/\ud83d\ude00"}`, "n/😀", false)
	f.Add("{\"a\":\"\xff<\\u003c\\q\"}", "\ufffd<", false)
	f.Add(`{"a":"\ud83d\ude00\"\n","b":[-1.5, true]}`, `^[^a-z]{2}\n$|^-?[0-9.]+$`, true)
	f.Add(`{"a":"bACKoff"}`, "(?i)back", true)
	f.Fuzz(func(t *testing.T, json, what string, expression bool) {
		p, err := Text(what)
		if expression {
			p, err = Regexp(what)
		}
		var l line.Fields
		if err != nil || l.Parse([]byte(`{"seq":1,"time":"2026-11-20T12:00:00Z","type":"ADDED","stream":"s","object":`+json+`}`)) != nil {
			t.Skip()
		}
		w := walker{p: p}
		matches := w.walk(&l).matches
		if len(matches) > 0 && !(&walker{p: p, a: p.automaton()}).mayMatch(l.Object) {
			t.Errorf("%q is in %q", what, l.Object)
		}
		w = walker{p: p, a: p.automaton()}
		if got := w.walk(&l).matches; !slices.Equal(paths(got), paths(matches)) {
			t.Errorf("%q in %q: %q, want %q", what, l.Object, paths(got), paths(matches))
		}
	})
}
