// Package fieldpath reads and writes paths of fields: as the config, arguments and answers have them,
// spec.containers[web].image or data["a.b"], and as JSON Pointers (RFC 6901).
package fieldpath

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Step is a step of a path.
type Step struct {
	Key  string // of a member; of an element its position, or the value that names it
	Each bool   // every one of them
}

// Parse reads a path of the config: dotted keys; metadata.annotations["a.b/c"] for a key that is not plain;
// containers[*] for every element of a list. Its errors follow the path, quoted.
func Parse(path string) ([]Step, error) { return parse(path, false) }

// ParseAny reads a path as an argument or an answer has it: one that Parse reads, also with elements by position or
// name ([0], [web]), with * as a key, with a dot before it or before a bracket, and with keys that Parse wants quoted;
// or a JSON Pointer. It reads "" as no steps.
func ParseAny(path string) (steps []Step, err error) {
	if strings.HasPrefix(path, "/") {
		for _, key := range PointerSteps(path) {
			steps = append(steps, stepOf(key))
		}
		return steps, nil
	}
	if path = strings.TrimPrefix(path, "."); path == "" {
		return nil, nil
	}
	return parse(path, true)
}

func parse(path string, all bool) (steps []Step, err error) {
	rest := path
	for first := true; first || rest != ""; first = false {
		var s Step
		if strings.HasPrefix(rest, "[") {
			if s, rest, err = parseBracket(rest, all); err != nil {
				return nil, err
			}
			if first && s.Each && !all {
				return nil, errors.New("an object has no elements, a key must come first")
			}
			steps = append(steps, s)
			continue
		}
		if !first {
			if rest[0] != '.' {
				return nil, fmt.Errorf("expected a dot before %q", rest)
			}
			if rest = rest[1:]; all && strings.HasPrefix(rest, "[") { // as jq writes it
				continue
			}
		}
		key := rest
		if n := strings.IndexAny(rest, ".["); n >= 0 {
			key = rest[:n]
		}
		if n := strings.IndexFunc(key, mustQuote); n >= 0 && !all {
			return nil, fmt.Errorf("%q in a key, which must then be written [\"...\"]", key[n])
		}
		if key == "" {
			return nil, errors.New("empty key")
		}
		steps, rest = append(steps, stepOf(key)), rest[len(key):]
	}
	return steps, nil
}

// parseBracket reads [*] or ["key"], with all also [name], and returns what follows.
func parseBracket(s string, all bool) (_ Step, rest string, err error) {
	if !strings.HasPrefix(s, `["`) {
		name, rest, closed := strings.Cut(s[1:], "]")
		if !closed || name == "" || name != "*" && !all {
			return Step{}, "", fmt.Errorf("expected [*] or [\"key\"] at %q", s)
		}
		return stepOf(name), rest, nil
	}
	quoted, err := strconv.QuotedPrefix(s[1:])
	if err != nil {
		return Step{}, "", fmt.Errorf("quote not closed in %q", s)
	}
	key, err := strconv.Unquote(quoted)
	rest, closed := strings.CutPrefix(s[1+len(quoted):], "]")
	if err != nil || !closed {
		return Step{}, "", fmt.Errorf("bracket not closed in %q", s)
	}
	return Step{Key: key}, rest, nil
}

// stepOf returns the step that a word without quotes means.
func stepOf(word string) Step {
	if word == "*" {
		return Step{Each: true}
	}
	return Step{Key: word}
}

// mustQuote reports whether Parse does not take a rune of a key without quotes.
func mustQuote(r rune) bool { return r <= ' ' || strings.ContainsRune(`]"*{}()`, r) }

// AppendKey appends the step to a member to a path, .replicas or ["a.b/c"]; without the dot to an empty one.
func AppendKey(path []byte, key string) []byte {
	special := func(r rune) bool { return r == '.' || r == '/' || r == '[' || mustQuote(r) }
	if key == "" || strings.ContainsFunc(key, special) || !printable(key) {
		return appendQuoted(path, key)
	}
	if len(path) > 0 {
		path = append(path, '.')
	}
	return append(path, key...)
}

// AppendElement appends the step to an element of a list, which is named by its position or a value.
func AppendElement(path []byte, name string) []byte {
	if name == "" || name == "*" || name[0] == '"' || strings.IndexByte(name, ']') >= 0 || !printable(name) {
		return appendQuoted(path, name)
	}
	return append(append(append(path, '['), name...), ']')
}

// appendQuoted appends what every key, of a member or element, can be written as.
func appendQuoted(path []byte, key string) []byte {
	return append(strconv.AppendQuote(append(path, '['), key), ']')
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}
