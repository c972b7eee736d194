package search

import (
	"bytes"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// needle is a text that is looked for in the bytes of JSON.
type needle struct {
	text []byte
	fold bool // whatever the case of its letters, which are ASCII
	rare int  // the index of the byte that is found least often
}

// newNeedle returns the needle for a text, which is not empty.
func newNeedle(text string, fold bool) needle {
	// The bytes of JSON objects of Kubernetes, the most frequent first.
	const frequent = "\"e:t,aniorsldpcmu0-1{}2f.h/y5k34gv8679bN"
	n, best := needle{text: []byte(text), fold: fold}, -1
	for i, c := range n.text {
		rank := strings.IndexByte(frequent, c)
		if rank < 0 {
			rank = len(frequent)
		}
		if rank > best {
			n.rare, best = i, rank
		}
	}
	return n
}

// in reports whether the needle is in JSON.
func (n *needle) in(json []byte) bool {
	c := n.text[n.rare]
	other := c
	if n.fold {
		other = otherCase(c)
	}
	next := -1 // where other is next
	for i, misses := n.rare, 0; i < len(json); i++ {
		at := bytes.IndexByte(json[i:], c)
		if at >= 0 {
			at += i
		}
		if other != c {
			if next < i && next > -2 {
				if next = bytes.IndexByte(json[i:], other); next < 0 {
					next = -2 // there is none
				} else {
					next += i
				}
			}
			if next >= 0 && (at < 0 || next < at) {
				at = next
			}
		}
		if at < 0 {
			return false
		}
		if begin := at - n.rare; begin+len(n.text) <= len(json) && n.equal(json[begin:begin+len(n.text)]) {
			return true
		}
		i = at
		if misses++; misses > 8 && misses*64 > i && !n.fold { // it is not so rare here
			return bytes.Contains(json[i-n.rare+1:], n.text)
		}
	}
	return false
}

func (n *needle) equal(text []byte) bool {
	if !n.fold {
		return bytes.Equal(n.text, text)
	}
	for i, c := range n.text {
		if text[i] != c && text[i] != otherCase(c) {
			return false
		}
	}
	return true
}

// otherCase returns a letter in its other case, and any other byte as it is.
func otherCase(c byte) byte {
	if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
		return c ^ 0x20
	}
	return c
}

// plainNeedles returns the longest part of a text that JSON mostly has as it is: Go's encoder has <, > and & as
// escapes, and a byte that is not UTF-8 means U+FFFD. There is none where it has none.
func plainNeedles(text []rune) []needle {
	return longest(text, func(r rune) bool {
		return r >= ' ' && !strings.ContainsRune("\"\\<>&\u2028\u2029\ufffd", r) && utf8.ValidRune(r)
	}, false)
}

// foldNeedles is plainNeedles for a text of any case. k and s have other forms that are not ASCII.
func foldNeedles(text []rune) []needle {
	return longest(text, func(r rune) bool {
		return ' ' <= r && r < utf8.RuneSelf && !strings.ContainsRune("\"\\<>&kKsS", r)
	}, true)
}

func longest(text []rune, usable func(rune) bool, fold bool) []needle {
	best := ""
	for part := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return !usable(r) }) {
		if len(part) > len(best) {
			best = part
		}
	}
	if best == "" {
		return nil
	}
	return []needle{newNeedle(best, fold)}
}

// required returns needles one of which is in all that a regular expression matches; none where that is not known.
func required(re *syntax.Regexp) (all []needle) {
	const most = 16
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return foldNeedles(re.Rune)
		}
		return plainNeedles(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if is := required(sub); shortest(is) > shortest(all) {
				all = is
			}
		}
		return all
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			is := required(sub)
			if all = append(all, is...); len(is) == 0 || len(all) > most {
				return nil
			}
		}
		return all
	}
	return nil
}

// shortest returns the length of the shortest of needles, 0 for none.
func shortest(all []needle) int {
	n := 0
	for i := range all {
		if n == 0 || len(all[i].text) < n {
			n = len(all[i].text)
		}
	}
	return n
}
