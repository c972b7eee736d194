package search

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

// texts are keys and values. \ue000 is written as half a surrogate pair.
var texts = []string{
	"nginx", "NGINX:1.25", "8080", "true", "null", "", "a.b", `say "8080"`, `back\slash/way`, "tab\there", "one\ntwo\nthree", "é", "日本語",
	"😀!", "<none>&", "\u2028", "\x7f", "a\xffb", "half\ue000", "\u212aube", "ſet", "\ufffd", "x[0]", "*", `"`, "\\", "/", "\u0001", strings.Repeat("long ", 60) + "8080",
}

// encode writes a string as JSON, in one of the many ways.
func encode(r *rand.Rand, s string) string {
	const short = "\"\\/\b\f\n\r\t"
	b := []byte{'"'}
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		part := s[:n]
		s = s[n:]
		i := strings.IndexRune(short, c)
		switch escape := r.IntN(5) == 0; {
		case c == '\ue000':
			b = append(b, `\ud83d`...)
		case c == utf8.RuneError && n == 1:
			b = append(b, part...)
		case i >= 0 && (c != '/' || escape) && r.IntN(3) > 0:
			b = append(b, '\\', `"\/bfnrt`[i])
		case c < ' ' || c == '"' || c == '\\' || escape && c < 0x10000:
			b = fmt.Appendf(b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
		case escape:
			c -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04X`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b = append(b, part...)
		}
	}
	return string(append(b, '"'))
}

// value is a random value. Lists have elements that are named, and others that are not.
func value(r *rand.Rand, depth int) string {
	text := func() string { return encode(r, texts[r.IntN(len(texts))]) }
	switch n := r.IntN(10); {
	case n < 2 && depth > 0:
		return members(r, depth-1)
	case n < 4 && depth > 0:
		var all []string
		for range r.IntN(4) {
			element := value(r, depth-1)
			if strings.HasPrefix(element, "{") && len(element) > 2 && r.IntN(2) == 0 {
				element = `{"name":` + text() + "," + element[1:]
			}
			all = append(all, element)
		}
		return "[" + strings.Join(all, ",") + "]"
	case n < 8:
		return text()
	}
	return []string{"8080", "80.80", "-1e8", "true", "false", "null"}[r.IntN(6)]
}

func members(r *rand.Rand, depth int) string {
	var all []string
	for range r.IntN(5) {
		all = append(all, encode(r, texts[r.IntN(len(texts))])+":"+value(r, depth))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// said is a line of a random journal.
type said struct {
	text                 string
	seq                  uint64
	at                   time.Time
	stream, name, uid    string
	deleted, aboutStream bool
	object               string
}

// lines makes lines of some streams: versions of an object differ in one of its members.
func lines(r *rand.Rand, streams []string, n int, begin time.Time) (all []said) {
	type thing struct {
		parts []string
		uid   string
	}
	things := map[string]*thing{}
	for i := range n {
		s := said{seq: uint64(i + 1), at: begin.Add(time.Duration(i) * time.Second), stream: streams[r.IntN(len(streams))]}
		head := fmt.Sprintf(`{"seq":%d,"time":"%s","type":`, s.seq, s.at.UTC().Format(line.TimeLayout))
		about := fmt.Sprintf(`,"stream":"%s","version":"v1","resource":"%[1]s","kind":"K"`, s.stream)
		if r.IntN(20) == 0 {
			s.text, s.aboutStream = head+`"SYNCED","id":"i"`+about+`,"resourceVersion":"1","count":{}}`, true
			all = append(all, s)
			continue
		}
		s.name = fmt.Sprintf("n%d", r.IntN(4))
		key, typ := s.stream+"/"+s.name, "MODIFIED"
		is := things[key]
		if is == nil {
			is, typ = &thing{uid: fmt.Sprintf("u%d", i), parts: make([]string, 4)}, "ADDED"
			for p := range is.parts {
				is.parts[p] = value(r, 3)
			}
			things[key] = is
		}
		if r.IntN(2) == 0 {
			is.parts[r.IntN(len(is.parts))] = value(r, 3)
		}
		if s.deleted = r.IntN(8) == 0; s.deleted {
			typ = "DELETED"
			delete(things, key)
		}
		s.uid = is.uid
		s.object = fmt.Sprintf(`{"kind":"K","metadata":{"name":"%s"},"spec":%s,"data":%s,"status":%s,"a.b":%s}`,
			s.name, is.parts[0], is.parts[1], is.parts[2], is.parts[3])
		s.text = head + fmt.Sprintf(`"%s","origin":"watch","id":"i"%s,"namespace":"shop","name":"%s","uid":"%s","resourceVersion":"%d","object":%s}`,
			typ, about, s.name, s.uid, i+1, s.object)
		all = append(all, s)
	}
	return all
}

// write writes a journal of several files: plain or compressed, with an index or without.
func write(t *testing.T, r *rand.Rand, all []said) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "journal.jsonl")
	for n := 0; len(all) > 0; n++ {
		count := min(1+r.IntN(60), len(all))
		var content bytes.Buffer
		for _, s := range all[:count] {
			content.WriteString(s.text + "\n")
		}
		name := path
		if all = all[count:]; len(all) > 0 {
			name = filepath.Join(dir, fmt.Sprintf("journal-2026-11-20T16-10-%02d.123.jsonl", n))
		}
		if len(all) > 0 && r.IntN(2) == 0 {
			name += ".gz"
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			z.Write(content.Bytes())
			z.Close()
			content = zipped
		}
		if err := os.WriteFile(name, content.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 || r.IntN(2) == 0 {
			continue
		}
		segments, err := segment.List(path)
		if err != nil {
			t.Fatal(err)
		}
		s := segments[slices.IndexFunc(segments, func(s segment.Segment) bool { return s.Path == name })]
		x, err := s.BuildIndex(t.Context(), nil, 1)
		if err := errors.Join(err, os.WriteFile(segment.IndexPath(name), x, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// found is a row, as the judge has it.
type found struct {
	Seq      uint64
	Path     string
	Key      bool
	Value    string // decoded
	Versions int
	Last     uint64
	Gone     uint64
}

// judge finds a text by decoding all lines.
type judge struct {
	matches func(string) bool
	field   []string
	wanted  func(*said) bool

	hits map[found]int // of a version, in their order
}

func (g *judge) walk(v json.RawMessage, path []byte, steps [][2]string) {
	inside := func() bool { return len(steps) >= len(g.field) }
	for i := range min(len(steps), len(g.field)) {
		if want := g.field[i]; want != "*" && want != steps[i][0] && want != steps[i][1] {
			return
		}
	}
	hit := func(path []byte, key bool, text string) {
		if h := (found{Path: string(path), Key: key, Value: text}); g.matches(text) {
			if _, there := g.hits[h]; !there {
				g.hits[h] = len(g.hits)
			}
		}
	}
	switch d := json.NewDecoder(bytes.NewReader(v)); v[0] {
	case '{':
		d.Token()
		for d.More() {
			token, _ := d.Token()
			key := token.(string)
			var member json.RawMessage
			d.Decode(&member)
			at := fieldpath.AppendKey(bytes.Clone(path), key)
			next := append(slices.Clone(steps), [2]string{key, key})
			if ok := len(next) > len(g.field) && inside(); ok && g.under(next) {
				hit(at, true, key)
			}
			g.walk(member, at, next)
		}
	case '[':
		d.Token()
		for n := 0; d.More(); n++ {
			var element json.RawMessage
			d.Decode(&element)
			name, scalar := strconv.Itoa(n), ""
			if element[0] == '{' {
				e := json.NewDecoder(bytes.NewReader(element))
				e.Token()
				for e.More() { // of repeated keys the last
					key, _ := e.Token()
					var is json.RawMessage
					e.Decode(&is)
					if text, ok := textOf(is); ok && key == "name" && text != "" {
						name = text
					}
				}
			} else if text, ok := textOf(element); ok && len(element) <= 64 {
				scalar = text
			}
			g.walk(element, fieldpath.AppendElement(bytes.Clone(path), name), append(slices.Clone(steps), [2]string{strconv.Itoa(n), cmp.Or(scalar, name)}))
		}
	default:
		if text, _ := textOf(v); inside() {
			hit(path, false, text)
		}
	}
}

// under reports whether steps lead to the field or below.
func (g *judge) under(steps [][2]string) bool {
	for i, want := range g.field {
		if want != "*" && want != steps[i][0] && want != steps[i][1] {
			return false
		}
	}
	return true
}

// textOf returns a scalar as text.
func textOf(v json.RawMessage) (string, bool) {
	if v[0] == '{' || v[0] == '[' {
		return "", false
	}
	if v[0] != '"' {
		return string(v), true
	}
	var s string
	json.Unmarshal(v, &s)
	return s, true
}

func (g *judge) rows(all []said) []found {
	var rows []*found
	open := map[string]map[found]*found{} // by object
	for i := range all {
		s := &all[i]
		if s.aboutStream {
			continue
		}
		g.hits = map[found]int{}
		g.walk(json.RawMessage(s.object), nil, nil)
		key := s.stream + s.name + s.uid
		if open[key] == nil {
			open[key] = map[found]*found{}
		}
		for is, row := range open[key] {
			if _, there := g.hits[is]; !there {
				row.Gone = s.seq
				delete(open[key], is)
			}
		}
		if g.wanted(s) {
			for _, is := range slices.SortedFunc(maps.Keys(g.hits), func(a, b found) int { return g.hits[a] - g.hits[b] }) {
				row := open[key][is]
				if row == nil {
					new := is
					new.Seq, row = s.seq, &new
					open[key][is] = row
					rows = append(rows, row)
				}
				row.Versions++
				row.Last = s.seq
			}
		}
		if s.deleted {
			for _, row := range open[key] {
				row.Gone = s.seq
			}
			delete(open, key)
		}
	}
	var is []found
	for _, row := range rows {
		is = append(is, *row)
	}
	return is
}

// The search finds what decoding every line finds, whatever escapes a line has, in journals of several files and in several journals.
func TestSearch(t *testing.T) {
	expressions := []string{
		"nginx", "(?i)nginx", "(?i)kube|SET", "^8080$", "80.80", "[0-9]{4}", "^$", "(?i)é|日", `"8080"`, "(one|two)\\n", "half.", "\\\\", "^/$", "(?:nginx|true)+", "x?", "(?s)a.b", "^", "$", "^$|^[0-9]$", "^.{3}$", "^[a-z]+$", `\b[a-z0-9]{2}\b`, `\B[^a-z]`, "(?m)^[o-z]", `\PL{2}`, `(?i)\pL[kſ]`, "[^ -~]", `["\\]`, "[\n\t]",
		"(?:[a-z].){3}[0-9]", "t[r]ue|[n]ull|^-?[0-9.]+$",
	}
	fields := []string{"", "", "", "spec", "spec.nginx", "data[*]", `["a.b"]`, "status[0]", "spec.*.*", "metadata"}
	shown := 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 5))
		begin := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		all := lines(r, []string{"pods", "configmaps"}, 20+r.IntN(200), begin)
		paths := []string{write(t, r, all)}
		if seed%3 == 0 { // two journals
			others := lines(r, []string{"secrets", "services"}, 20+r.IntN(100), begin.Add(time.Second/2))
			paths = append(paths, write(t, r, others))
			all = slices.SortedFunc(slices.Values(slices.Concat(all, others)), func(a, b said) int { return a.at.Compare(b.at) })
			for i := range all {
				all[i].seq = uint64(i + 1)
			}
		}
		for range 12 {
			var p *Pattern
			var err error
			g := judge{wanted: func(*said) bool { return true }}
			what := texts[r.IntN(len(texts))]
			if r.IntN(3) == 0 {
				what = expressions[r.IntN(len(expressions))]
				p, err = Regexp(what)
				g.matches = regexp.MustCompile(what).MatchString
			} else {
				what = strings.ToValidUTF8(what, "\ufffd")
				what = strings.ReplaceAll(what, "\ue000", "\ufffd")
				if runes := []rune(what); len(runes) > 2 {
					at := r.IntN(len(runes) - 1)
					what = string(runes[at : at+1+r.IntN(len(runes)-at)])
				}
				if what == "" {
					continue
				}
				p, err = Text(what)
				g.matches = func(s string) bool { return strings.Contains(s, what) }
			}
			if err != nil {
				t.Fatal(err)
			}
			field := fields[r.IntN(len(fields))]
			steps, err := fieldpath.ParseAny(field)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				g.field = append(g.field, map[bool]string{true: "*", false: s.Key}[s.Each])
			}
			search := &Search{Pattern: p, Field: steps, Whole: true, Wanted: func(*line.Fields, bool) (bool, bool) { return true, true }}
			if r.IntN(5) == 0 {
				g.wanted = func(s *said) bool { return s.seq%3 > 0 }
				search.Wanted = func(l *line.Fields, _ bool) (bool, bool) { return l.Seq%3 > 0, false }
			}
			sel, since, until, asked := &argument.Selection{}, argument.Moment{}, argument.Moment{}, all
			if len(paths) == 1 && r.IntN(3) == 0 { // a merged journal has seqs of its own
				since.Seq, until.Seq = uint64(1+r.IntN(len(all))), uint64(len(all))
				asked = all[since.Seq-1:]
			}
			if len(paths) == 1 && r.IntN(4) == 0 {
				if sel.Objects, err = argument.Objects([]string{"pods/n1"}); err != nil {
					t.Fatal(err)
				}
				asked = slices.DeleteFunc(slices.Clone(asked), func(s said) bool { return s.stream != "pods" || s.name != "n1" && !s.aboutStream })
			}
			got := run(t, search, paths, sel, since, until)
			want := g.rows(asked)
			shown += len(want)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, %q below %q, from %d: want, got\n%s", seed, what, field, since.Seq, diff)
			}
		}
	}
	if shown < 2_000 {
		t.Errorf("%d rows", shown)
	}
}

// run returns the rows of a search.
func run(t *testing.T, s *Search, paths []string, sel *argument.Selection, since, until argument.Moment) (all []found) {
	t.Helper()
	j, err := archive.OpenAll(t.Context(), paths, sel, archive.SelectedLines, func(string) {})
	if err != nil {
		if errors.As(err, new(*argument.UnknownError)) {
			return nil
		}
		t.Fatal(err)
	}
	defer j.Close()
	_, err = s.Run(t.Context(), question.Of(j), sel, since, until, func(r *Row) error {
		value, _ := textOf(r.Value)
		all = append(all, found{r.Line.Seq, r.Path, r.Key, value, r.More + 1, r.Last.Seq, r.Gone.Seq})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
