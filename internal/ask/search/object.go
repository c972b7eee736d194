package search

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"unicode/utf8"

	"kubejournal/internal/format/changes"
	"kubejournal/internal/format/fieldpath"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
	"kubejournal/internal/host/terminal"
)

// MaxMatches bounds the matches of a version that have rows; the others are counted.
const MaxMatches = 1000

const (
	maxSteps   = 100 // of a path that is shown
	maxExcerpt = 100 // bytes around a match, and of the match
	redacted   = `"REDACTED"`
)

// Match is where a text is in an object.
type Match struct {
	Path  string // of the field, as the config writes it
	Key   bool   // it is in the field's key, else in its value
	Value []byte // the key or the value, as JSON writes it; nil unless it is asked for
	Text  Excerpt

	sum [sha256.Size]byte // of path and value
}

// Excerpt is the line of a value in which a text is, or the part of it around the text.
type Excerpt struct {
	Before, Match, After string
	Line                 int // from 1; 0 where the value has one
}

// finding is what a walk through an object has found.
type finding struct {
	matches []Match
	more    int // matches beyond MaxMatches

	redacted int  // values that are not there
	hides    bool // the text may be in one of them
	cut      int  // values and parts of a truncated line that are not there
	damaged  bool // the object is no JSON
}

// walker goes through objects. It is for one goroutine.
type walker struct {
	p     *Pattern
	a     *automaton       // of p
	field []fieldpath.Step // only what is there or below
	whole bool             // matches have values

	tape    rawjson.Tape
	compact []byte
	steps   []step // to the value
	path    []byte // of the first built of them
	built   int
	decoded []byte
	cut     bool // the line is truncated
	secret  bool // the object is a Secret
	found   *finding
}

// step is one from an object or list to a member or element.
type step struct {
	cell  int32
	at    int // of an element
	list  bool
	start int // of the path before it, once it is built
}

// walk finds the pattern in the object of a line.
func (w *walker) walk(l *line.Fields) *finding {
	w.found, w.cut = &finding{}, l.Incomplete()
	w.secret = l.Is(line.FieldResource, "secrets") && len(l.Text(line.FieldGroup)) == 0
	w.steps, w.path, w.built = w.steps[:0], w.path[:0], 0
	defer w.tape.Release()
	if w.tape.Read(l.Object, 0) != nil {
		var ok bool
		if w.compact, ok = rawjson.AppendCompact(w.compact[:0], l.Object); !ok || w.tape.Read(w.compact, 0) != nil {
			w.found.damaged = true
			return w.found
		}
	}
	w.value(0)
	return w.found
}

// value looks at the value of a cell.
func (w *walker) value(i int32) {
	text := w.tape.Text(i)
	switch text[0] {
	case '{':
		for n, m := int32(0), i+1; n < w.tape.Cells[i].Count; n, m = n+1, w.tape.Cells[m].Next {
			w.member(m)
		}
	case '[':
		for n, m := int32(0), i+1; n < w.tape.Cells[i].Count; n, m = n+1, w.tape.Cells[m].Next {
			w.steps = append(w.steps, step{cell: m, at: int(n), list: true})
			if w.cut && w.tape.Text(m)[0] == '"' && line.IsLeftOut(w.decode(rawjson.Inside(w.tape.Text(m)))) {
				w.found.cut++
			} else if w.enters(func(key string) bool {
				return key == strconv.Itoa(int(n)) || key == changes.Name(w.tape.Text(m))
			}) {
				w.value(m)
			}
			w.leave()
		}
	default:
		w.scalar(text)
	}
}

func (w *walker) member(m int32) {
	w.steps = append(w.steps, step{cell: m})
	defer w.leave()
	key := w.decode(w.tape.Key(m))
	if w.cut && string(key) == line.LeftOut {
		if text := w.tape.Text(m); text[0] == '"' && line.IsCut(w.decode(rawjson.Inside(text))) {
			w.found.cut++
			return
		}
		key = w.decode(w.tape.Key(m))
	}
	if !w.enters(func(wanted string) bool { return wanted == string(key) }) {
		return
	}
	if from, to := w.find(key); from >= 0 && len(w.steps) > len(w.field) {
		w.match(true, key, w.tape.Key(m), from, to)
	}
	w.value(m)
}

// enters reports whether the field is at the last step or below, as far as the path leads; or above it.
func (w *walker) enters(is func(key string) bool) bool {
	n := len(w.steps) - 1
	return n >= len(w.field) || w.field[n].Each || is(w.field[n].Key)
}

// leave goes back to the step before.
func (w *walker) leave() {
	last := len(w.steps) - 1
	if w.built > last {
		w.built, w.path = last, w.path[:w.steps[last].start]
	}
	w.steps = w.steps[:last]
}

func (w *walker) scalar(text []byte) {
	value, inside, whole := text, rawjson.Inside(text), 0
	if inside != nil {
		if value = w.decode(inside); string(text) == redacted {
			w.found.redacted++
			w.found.hides = w.found.hides || !w.inData() || w.p.inBase64()
		}
		if w.cut && line.IsCut(value) {
			w.found.cut++
			whole = len(value)
			value = value[:bytes.LastIndex(value, []byte(line.MarkBegin))]
		}
	}
	if len(w.steps) < len(w.field) {
		return
	}
	from, to := w.find(value)
	if len(value) < whole && from >= 0 && !w.p.goesOn(value) {
		return
	}
	if from >= 0 {
		w.match(false, value, text, from, to)
	}
}

// mayMatch reports whether something in JSON may match. It looks at the bytes alone.
func (w *walker) mayMatch(json []byte) bool { return w.p.mayMatch(json) && w.a.mayMatchIn(json) }

// find returns where the pattern first matches in a text, which is UTF-8; -1 for nowhere.
func (w *walker) find(text []byte) (from, to int) {
	if !w.a.mayMatch(text) {
		return -1, -1
	}
	return w.p.find(text)
}

// inData reports whether the value is one of a Secret's, which are base64.
func (w *walker) inData() bool {
	return w.secret && len(w.steps) == 2 && string(w.tape.Key(w.steps[0].cell)) == "data"
}

// decode returns what the inside of a string means; valid until the next call.
func (w *walker) decode(inside []byte) []byte {
	if bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return inside
	}
	w.decoded = rawjson.Unquote(w.decoded[:0], inside)
	return w.decoded
}

// match notes that a text is in a key or value, from a byte to another. written is how the JSON has it.
func (w *walker) match(key bool, text, written []byte, from, to int) {
	if len(w.found.matches) == MaxMatches {
		w.found.more++
		return
	}
	m := Match{Path: string(w.pathNow()), Key: key}
	sum := sha256.New()
	sum.Write(strconv.AppendBool([]byte(m.Path+"\x00"), key))
	sum.Write(text)
	sum.Sum(m.sum[:0])
	switch {
	case !w.whole:
		m.Text = excerptOf(text, from, to)
	case key:
		m.Value = append(append([]byte{'"'}, written...), '"')
	default:
		m.Value = bytes.Clone(written)
	}
	w.found.matches = append(w.found.matches, m)
}

// excerptOf returns the part of a text around a match.
func excerptOf(text []byte, from, to int) (e Excerpt) {
	text = bytes.TrimSuffix(text, []byte{'\n'})
	from, to = min(from, len(text)), min(to, len(text))
	begin, end := bytes.LastIndexByte(text[:from], '\n')+1, len(text)
	if n := bytes.IndexByte(text[from:], '\n'); n >= 0 {
		end = from + n
	}
	if begin > 0 || end < len(text) {
		e.Line = bytes.Count(text[:begin], []byte{'\n'}) + 1
	}
	to = min(to, end)
	before, match, after := bytes.TrimLeft(text[begin:from], " \t"), text[from:to], text[to:end]
	if n := len(before) - maxExcerpt; n > 0 {
		for n < len(before) && !utf8.RuneStart(before[n]) {
			n++
		}
		e.Before = terminal.Ellipsis
		before = before[n:]
	}
	e.Before += string(before)
	e.Match, e.After = beginning(match), beginning(after)
	return e
}

// beginning returns the beginning of a text that is long.
func beginning(text []byte) string {
	n := min(len(text), maxExcerpt)
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	if n < len(text) {
		return string(text[:n]) + terminal.Ellipsis
	}
	return string(text)
}

// pathNow returns the path to the value; valid until the next step.
func (w *walker) pathNow() []byte {
	for ; w.built < min(len(w.steps), maxSteps); w.built++ {
		s := &w.steps[w.built]
		if s.start = len(w.path); !s.list {
			var buf []byte
			w.path = fieldpath.AppendKey(w.path, string(rawjson.Unquote(buf, w.tape.Key(s.cell))))
			continue
		}
		name := strconv.Itoa(s.at)
		if element := w.tape.Text(s.cell); element[0] == '{' {
			if is := changes.Name(element); is != "" {
				name = is
			}
		}
		w.path = fieldpath.AppendElement(w.path, name)
	}
	if len(w.steps) > maxSteps {
		return append(w.path, terminal.Ellipsis...)
	}
	return w.path
}
