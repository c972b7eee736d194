// Package search finds a text in the objects of a journal: which versions have it, in the value or the key of which
// field, and from when to when.
package search

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"unicode/utf8"

	"kubejournal/internal/format/rawjson"
)

// Pattern is what is searched for in values and keys. Numbers, booleans and null are texts as JSON writes them.
type Pattern struct {
	text   []byte         // nil for a regular expression
	re     *regexp.Regexp // nil for a text
	parsed *syntax.Regexp // as re

	// What the JSON of an object that matches has, one of them, unless some of it is escaped. None if nothing is known.
	needles []needle
	ascii   [utf8.RuneSelf]bool // the bytes of the needles
	wide    bool                // they have other runes too
}

var errEmpty = errors.New("an empty text is in every value")

// Text returns the pattern that matches what contains a text. What is not UTF-8 stands for U+FFFD, as in the lines.
func Text(text string) (*Pattern, error) {
	if text == "" {
		return nil, errEmpty
	}
	p := &Pattern{text: rawjson.AppendValid(nil, []byte(text))}
	p.setNeedles(plainNeedles([]rune(string(p.text))))
	return p, nil
}

// Regexp returns the pattern that matches what a regular expression (RE2) matches.
func Regexp(expression string) (*Pattern, error) {
	if expression == "" {
		return nil, errEmpty
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	p := &Pattern{re: re, parsed: parsed.Simplify()}
	p.setNeedles(required(p.parsed))
	return p, nil
}

func (p *Pattern) setNeedles(all []needle) {
	p.needles = all
	for _, n := range all {
		for _, c := range n.text {
			if p.wide = p.wide || c >= utf8.RuneSelf; c >= utf8.RuneSelf {
				continue
			}
			p.ascii[c] = true
			if n.fold {
				p.ascii[otherCase(c)] = true
			}
		}
	}
}

// automaton returns what passes over most of what does not match; nil, which passes over nothing, for a text.
func (p *Pattern) automaton() *automaton {
	if p.re == nil {
		return nil
	}
	return newAutomaton(p.parsed)
}

// find returns where the pattern first matches in a text, which is UTF-8; -1 for nowhere.
func (p *Pattern) find(text []byte) (from, to int) {
	if p.re == nil {
		from = bytes.Index(text, p.text)
		return from, from + len(p.text)
	}
	if at := p.re.FindIndex(text); at != nil {
		return at[0], at[1]
	}
	return -1, -1
}

// goesOn reports whether a text that matches also does where more follows.
func (p *Pattern) goesOn(text []byte) bool {
	if p.re == nil {
		return true
	}
	return p.re.Match(append(bytes.Clone(text), 0)) && p.re.Match(append(bytes.Clone(text), 'a'))
}

// mayMatch reports whether something in JSON may match. It looks at the bytes alone.
func (p *Pattern) mayMatch(json []byte) bool {
	if len(p.needles) == 0 {
		return true
	}
	for i := range p.needles {
		if p.needles[i].in(json) {
			return true
		}
	}
	return p.mayBeEscaped(json)
}

// mayBeEscaped reports whether JSON has an escape in the place of what is in a needle. Those that are common are in
// none.
func (p *Pattern) mayBeEscaped(json []byte) bool {
	for {
		n := bytes.IndexByte(json, '\\')
		if n < 0 || n+1 >= len(json) {
			return false
		}
		json = json[n:]
		switch c := json[1]; {
		case c == '/' && p.ascii['/']:
			return true
		case c == 'u' && len(json) >= 6:
			if r, err := strconv.ParseUint(string(json[2:6]), 16, 16); err == nil &&
				(r >= utf8.RuneSelf && p.wide || r < utf8.RuneSelf && p.ascii[r]) {
				return true
			}
		}
		json = json[2:]
	}
}

// inBase64 reports whether base64 may match, by its alphabet.
func (p *Pattern) inBase64() bool {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
	return p.re != nil || len(bytes.Trim(p.text, alphabet)) == 0
}
