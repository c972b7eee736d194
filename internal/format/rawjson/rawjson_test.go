package rawjson

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"kubejournal/test/eventtest"
)

// decode keeps numbers as they are written.
func decode(b []byte) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return v, json.Valid(b) && dec.Decode(&v) == nil
}

func scalarOf(text []byte) any {
	switch text[0] {
	case '"':
		s, ok := Text(Inside(text))
		if !ok {
			return math.NaN() // equals nothing
		}
		return s
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	}
	return json.Number(text)
}

// ofTape decodes a cell.
func ofTape(t *Tape, i int32) any {
	var (
		text, buf = t.Text(i), []byte(nil)
		object    = map[string]any{}
		array     = []any{}
		count     int32
	)
	if text[0] != '{' && text[0] != '[' {
		return scalarOf(text)
	}
	for m := i + 1; m < t.Cells[i].Next; m = t.Cells[m].Next {
		count++
		if text[0] == '[' {
			array = append(array, ofTape(t, m))
			continue
		}
		if !t.SameKey(m, t, m, &buf, &buf) {
			return math.NaN()
		}
		object[string([]rune(string(t.DecodedKey(m, &buf))))] = ofTape(t, m)
	}
	switch {
	case count != t.Cells[i].Count:
		return math.NaN()
	case text[0] == '[':
		return array
	}
	return object
}

// ofCursor decodes a value.
func ofCursor(text []byte) any {
	switch text[0] {
	case '{':
		object := map[string]any{}
		for key, value := range Members(text) {
			object[string(Unquote(nil, key))] = ofCursor(value)
		}
		return object
	case '[':
		array := []any{}
		for value := range Elements(text) {
			array = append(array, ofCursor(value))
		}
		return array
	}
	return scalarOf(text)
}

// walkObject passes an object by Open, Key, Skip and More.
func walkObject(s *Scanner) int {
	i, more := s.Open(0, 0)
	for more {
		_, value := s.Key(i)
		if value < 0 {
			return value
		}
		if i = s.Skip(value, 1); i < 0 {
			return i
		}
		i, more = s.More(i, '}')
	}
	return i
}

// check compares all ways through a text with each other and with encoding/json.
func check(t *testing.T, b []byte) {
	t.Helper()
	want, valid := decode(b)
	compact, ok := AppendCompact(nil, b)
	if valid {
		var buf bytes.Buffer
		if err := json.Compact(&buf, b); err != nil || !ok || buf.String() != string(compact) {
			t.Fatalf("%q: compact %q, %t", b, compact, ok)
		}
		if got := ofCursor(TrimSpace(b)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: by cursor %v, want %v", b, got, want)
		}
	} else if ok && json.Valid(compact) {
		t.Fatalf("%q: compact %q is valid", b, compact)
	}
	c := NewCursor(b)
	for c.Value() != nil || c.Take(',') || c.Take(']') || c.Take('}') || c.Take(':') { // whatever it is, it has an end
	}
	if valid && len(c.Rest()) > 0 {
		t.Fatalf("%q: rest %q", b, c.Rest())
	}

	var s Scanner
	s.Reset(b)
	defer s.Release()
	if s.Wide() != bytes.ContainsFunc(b, func(r rune) bool { return r >= utf8.RuneSelf }) {
		t.Fatalf("%q: wide %t", b, s.Wide())
	}
	end := s.Skip(0, 0)
	good := end == len(b) && !s.Control()
	if good != (valid && bytes.Equal(compact, b)) {
		t.Fatalf("%q: skipped to %d, %v; valid %t", b, end, s.Err(), valid)
	}
	var tape Tape
	defer tape.Release()
	if err := tape.Read(b, 0); (err == nil) != (end == len(b)) {
		t.Fatalf("%q: tape: %v", b, err)
	}
	if end == len(b) && (b[0] == '{') != (walkObject(&s) == end && b[0] == '{') {
		t.Fatalf("%q: walked to another end", b)
	}
	if !good {
		return
	}
	if got := s.Close(0, 0); got != end {
		t.Fatalf("%q: closed at %d", b, got)
	}
	if got := ofTape(&tape, 0); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: by tape %v, want %v", b, got, want)
	}
}

var seeds = []string{
	``, ` `, `{}`, `[]`, `null`, `true`, `false`, `nul`, `"x"`, `"`, `""`, `-`, `-0`, `01`, `1.`, `1.5e+3`, `1e`, `2E-1`, `{"a":[1,{"b":null}],"c":"d"}`,
	`{"a":1,}`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{"a":1}}`, `[1]]`, `[}`, `{]`, `{"a" :1}`, "[1 ,\n2]", `[1 2]`, `{a:1}`, `"\u00e9\ud83d\ude00\ud83d\n"`, `"\x"`, `"\u12"`, `"\`, "\"a\nb\"", "\"\xff\xc3\xa9\"",
	`{"\u0061":1,"a":2}`, `{"a":"` + strings.Repeat(`\\`, 70) + `\""}`, `["` + strings.Repeat("x", 200) + `"]`, "\x00", "1\x00",
	"{\"\\b\xaa\":0}",
}

func TestWays(t *testing.T) {
	for _, s := range seeds {
		check(t, []byte(s))
	}
	for i := range 200 {
		from := bytes.Repeat([]byte{byte(i), byte(3 * i), byte(200 - i), byte(7 * i)}, 50)
		check(t, eventtest.Made(from))
	}
	check(t, eventtest.Pod(6000, 1))
	for _, levels := range []int{MaxDepth, MaxDepth + 1} {
		var s Scanner
		for _, open := range []string{`[`, `{"a":`} {
			shut := string(open[0] + 2)
			b := []byte(strings.Repeat(open, levels) + "1" + strings.Repeat(shut, levels))
			s.Reset(b)
			end := s.Skip(0, 0)
			if (end == len(b)) != (levels <= MaxDepth) || s.Close(0, 0) != len(b) {
				t.Errorf("%d levels: %d of %d, %v", levels, end, len(b), s.Err())
			}
			var tape Tape
			if err := tape.Read(b, 0); (err == nil) != (levels <= MaxDepth) {
				t.Errorf("%d levels: tape: %v", levels, err)
			}
		}
	}
}

func FuzzWays(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

func TestFaults(t *testing.T) {
	var s Scanner
	for in, want := range map[string]string{
		``:            "unexpected end at byte 0",
		`{"a":1,}`:    "expected a string at byte 7",
		`{"a" :1}`:    "expected a colon at byte 4",
		`{"a":[1}`:    "expected a comma or a closing bracket at byte 7",
		`{"a":tru}`:   "expected a value at byte 5",
		`{"a":"\x"}`:  "faulty escape at byte 6",
		`{"a":-}`:     "expected a digit at byte 6",
		`{"a":{"b"`:   "unexpected end at byte 9",
		`["` + "a`\\": "unexpected end at byte 5",
	} {
		s.Reset([]byte(in))
		if end := s.Skip(0, 0); end >= 0 || s.Err().Error() != want {
			t.Errorf("%s: %d, %v, want %s", in, end, s.Err(), want)
		}
	}
	s.Reset([]byte(`[[]]`))
	if end := s.Skip(0, MaxDepth-1); end >= 0 || s.Err().(*SyntaxError).Msg != TooDeep {
		t.Errorf("too deep: %d, %v", end, s.Err())
	}
	if end, more := s.Open(0, MaxDepth); end >= 0 || more {
		t.Errorf("opened too deep: %d", end)
	}
}

func TestText(t *testing.T) {
	for inside, want := range map[string]string{
		``: ``, `a b`: `a b`, `\"\\\/\b\f\n\r\t`: "\"\\/\b\f\n\r\t", `\u00e9\ud83d\ude00`: "é😀", `\ud83dx`: "\uFFFDx", `\ud83d\u0041`: "\uFFFDA", "\xffa": "\uFFFDa",
	} {
		if got, ok := Text([]byte(inside)); !ok || got != want {
			t.Errorf("%q: %q, %t", inside, got, ok)
		}
		if got := AppendEscaped(nil, want); string(Unquote(nil, got)) != want {
			t.Errorf("%q: escaped %q", want, got)
		}
	}
	for inside, lenient := range map[string]string{`\x`: "\uFFFD", `a\`: "a\uFFFD", `\u12`: "\uFFFD12", `\u12g4b`: "\uFFFD12g4b"} {
		if got, ok := Text([]byte(inside)); ok {
			t.Errorf("%q: %q", inside, got)
		}
		if got := string(Unquote(nil, []byte(inside))); got != lenient {
			t.Errorf("%q: %q", inside, got)
		}
	}
}

// A Balance that is run piece by piece finds the same end.
func FuzzBalance(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), 2)
	}
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		b = TrimSpace(b)
		var whole, parts Balance
		want, done := whole.Run(b)
		for n := 0; n < len(b); {
			n = min(len(b), n+max(1, piece&15))
			if got, ok := parts.Run(b[:n]); ok {
				if !done || got != want {
					t.Fatalf("%q: %d at %d, want %d", b, got, n, want)
				}
				return
			}
		}
		if done {
			t.Fatalf("%q: no end, want %d", b, want)
		}
	})
}
