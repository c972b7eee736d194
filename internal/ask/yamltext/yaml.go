// Package yamltext shows objects as YAML: one as kubectl prints it, and what differs between two, as a unified diff or
// with the program that KUBECTL_EXTERNAL_DIFF names.
package yamltext

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"

	"kubejournal/internal/format/fieldpath"
)

// Bookkeeping is what changes with every write or follows from other changes, for Options.Without.
var Bookkeeping = []string{
	"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
	"/metadata/generation",
	"/metadata/managedFields",
	"/metadata/resourceVersion",
	"/status/observedGeneration",
}

// Options say how an object is written.
type Options struct {
	// Without has the JSON Pointers of what is left out. An object that is empty then is left out as well.
	Without []string
	// Lines writes every string of several lines as such, for diffs. kubectl does not where a line has a tab, a
	// trailing blank or an emoji: the string is then one in double quotes, and a change of one character breaks all of
	// it again.
	Lines bool
}

// MaxDepth is how many objects and lists may be around what is written in block style. Each of them indents the lines
// inside: an object of 100 KB that is nested 9,000 deep would have 400 MB of YAML. Kubernetes' own objects, and schemas
// in CustomResourceDefinitions, stay far below. What is nested deeper is written as JSON, which is YAML too, on one
// line.
const MaxDepth = 100

// Append appends a JSON value as YAML, as kubectl prints it: members sorted, strings quoted and folded as
// sigs.k8s.io/yaml does, up to MaxDepth. [object] gives an object as an item of a List. Control characters are escaped;
// see terminal.AppendLines for terminals.
func Append(dst, value []byte, o Options) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return dst, fmt.Errorf("decode object: %w", err)
	}
	for _, pointer := range o.Without {
		remove(v, fieldpath.PointerSteps(pointer))
	}
	var s *standIns
	if o.Lines && !bytes.ContainsFunc(value, isStandIn) && !bytes.Contains(value, []byte(`\ue`)) &&
		!bytes.Contains(value, []byte(`\uE`)) {
		s = &standIns{}
	}
	var d deep
	v = d.cut(v, 0)
	text, err := yaml.Marshal(convert(v, s))
	if err != nil {
		return dst, fmt.Errorf("write YAML: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte(mergeWord), []byte(`"<<"`))
	if len(d.texts) == 0 {
		return s.restore(dst, text), nil
	}
	return d.restore(dst, s.restore(nil, text)), nil
}

// deep is what is nested deeper than MaxDepth. Words in its place pass through the encoder of YAML.
type deep struct {
	word  string // that no value has: it is random
	texts [][]byte
}

// cut returns a decoded value, around which there are depth objects and lists, with words in the place of what is too
// deep.
func (d *deep) cut(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		if depth >= MaxDepth && len(v) > 0 {
			return d.wordFor(v)
		}
		for key, child := range v {
			v[key] = d.cut(child, depth+1)
		}
	case []any:
		if depth >= MaxDepth && len(v) > 0 {
			return d.wordFor(v)
		}
		for i, child := range v {
			v[i] = d.cut(child, depth+1)
		}
	}
	return v
}

func (d *deep) wordFor(v any) any {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return v // it was decoded from JSON
	}
	if d.word == "" {
		d.word = "deep" + rand.Text()
	}
	d.texts = append(d.texts, escapeControl(bytes.TrimSuffix(text.Bytes(), []byte{'\n'})))
	return fmt.Sprint(d.word, len(d.texts)-1, wordEnd)
}

const wordEnd = "x" // behind the number of a word

// escapeControl returns JSON with escapes for the control characters that JSON allows and YAML does not.
func escapeControl(text []byte) []byte {
	isControl := func(r rune) bool { return r >= 0x7f && unicode.IsControl(r) }
	if !bytes.ContainsFunc(text, isControl) {
		return text
	}
	var escaped []byte
	for _, r := range string(text) {
		if isControl(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

// restore appends text with what the words are for.
func (d *deep) restore(dst, text []byte) []byte {
	for {
		before, behind, found := bytes.Cut(text, []byte(d.word))
		dst = append(dst, before...)
		if !found {
			return dst
		}
		number, rest, _ := bytes.Cut(behind, []byte(wordEnd))
		n, _ := strconv.Atoi(string(number)) // wordFor has written it
		dst, text = append(dst, d.texts[n]...), rest
	}
}

// remove removes what the steps of a pointer lead to through objects.
func remove(v any, steps []string) {
	object, _ := v.(map[string]any)
	if len(steps) == 0 {
		return // no pointer
	}
	key := steps[0]
	child, ok := object[key]
	if !ok {
		return
	}
	if len(steps) > 1 {
		within, ok := child.(map[string]any)
		if !ok || len(within) == 0 {
			return
		}
		if remove(child, steps[1:]); len(within) > 0 {
			return
		}
	}
	delete(object, key)
}

// mergeWord stands for the string <<, which the encoder does not quote: as a key it would merge what is below it into
// the object around it. No value can have it.
var mergeWord = "<<" + rand.Text()

// convert makes a decoded value what the encoder of YAML is to see.
func convert(v any, s *standIns) any {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = convert(child, s)
		}
		if child, ok := v["<<"]; ok {
			delete(v, "<<")
			v[mergeWord] = child
		}
	case []any:
		for i, child := range v {
			v[i] = convert(child, s)
		}
	case json.Number:
		return number(string(v))
	case string:
		if v == "<<" {
			return mergeWord
		}
		return s.replace(v)
	}
	return v
}

// number returns a number as kubectl prints it: whole ones in digits, however they are spelt.
func number(text string) any {
	var f float64
	for range 2 {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n
		}
		var err error
		if f, err = strconv.ParseFloat(text, 64); err != nil {
			return text // too large for anything
		}
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return f
}

// standIns are runes for private use in the place of those that keep the encoder from writing the lines of a string as
// lines. A nil *standIns leaves everything as it is.
type standIns struct {
	of    map[rune]rune
	runes []rune // that the stand-ins, from firstStandIn on, are for
}

const firstStandIn, lastStandIn = '\ue000', '\uefff'

func isStandIn(r rune) bool { return firstStandIn <= r && r <= lastStandIn }

func (s *standIns) replace(text string) string {
	if s == nil || strings.TrimLeft(text, " \t") != text || !strings.Contains(text, "\n") {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		blank := r == ' ' && (i+1 == len(text) || text[i+1] == '\n')
		if blank || r == '\t' || r > '\uffff' && unicode.IsGraphic(r) {
			r = s.standIn(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (s *standIns) standIn(r rune) rune {
	if in, ok := s.of[r]; ok {
		return in
	}
	in := firstStandIn + rune(len(s.runes))
	if in > lastStandIn {
		return r
	}
	if s.of == nil {
		s.of = map[rune]rune{}
	}
	s.of[r], s.runes = in, append(s.runes, r)
	return in
}

// restore appends text with the runes that the stand-ins are for.
func (s *standIns) restore(dst, text []byte) []byte {
	if s == nil || len(s.runes) == 0 {
		return append(dst, text...)
	}
	for len(text) > 0 {
		n := bytes.IndexFunc(text, isStandIn)
		if n < 0 {
			return append(dst, text...)
		}
		r, size := utf8.DecodeRune(text[n:])
		dst = utf8.AppendRune(append(dst, text[:n]...), s.runes[r-firstStandIn])
		text = text[n+size:]
	}
	return dst
}
