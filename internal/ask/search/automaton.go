package search

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// automaton finds texts that a regular expression may match, and passes over the others several times as fast as the
// expression does. It takes what stands before and after for granted (\b, (?m)^), and all runes that are not ASCII for
// one. Its states are made as they are needed. It is for one goroutine.
type automaton struct {
	prog   *syntax.Prog
	states []string         // pcs of instructions, in order
	known  map[string]int32 // offsets in next of states
	next   []int32          // by state, and by symbol: the offset of the state after, or one of those below
	full   int              // how often there were too many states

	stack []uint32
	seen  []bool // by pc
	pcs   []uint32
}

// Symbols are ASCII bytes, and these; a byte that has a meaning of its own in JSON is none.
const (
	otherRune = 0x100 + iota
	endOfText
	quote
	backslash
	symbols
)

// In the place of the state after.
const (
	notMade = -1 - iota
	accepts
	noSymbol
)

const (
	maxStates = 400
	maxFull   = 50
)

// newAutomaton returns the automaton of a regular expression; nil where every text matches.
func newAutomaton(re *syntax.Regexp) *automaton {
	prog, err := syntax.Compile(re)
	if err != nil {
		return nil // regexp compiled it
	}
	a := &automaton{prog: prog, seen: make([]bool, len(prog.Inst))}
	if a.reset() {
		return nil
	}
	return a
}

// reset leaves the state alone in which a text begins, at offset 0, and reports whether that is a match.
func (a *automaton) reset() bool {
	a.states, a.next, a.known = a.states[:0], a.next[:0], make(map[string]int32)
	a.clear()
	matches := a.add(uint32(a.prog.Start), true, false)
	a.state()
	return matches
}

func (a *automaton) clear() {
	for _, pc := range a.pcs {
		a.seen[pc] = false
	}
	a.pcs = a.pcs[:0]
}

// add adds an instruction to the pcs, with those that follow without a symbol, and reports whether one is a match.
func (a *automaton) add(pc uint32, begin, end bool) bool {
	a.stack = append(a.stack[:0], pc)
	matches := false
	for len(a.stack) > 0 {
		pc := a.stack[len(a.stack)-1]
		if a.stack = a.stack[:len(a.stack)-1]; a.seen[pc] {
			continue
		}
		a.seen[pc] = true
		a.pcs = append(a.pcs, pc)
		switch in := &a.prog.Inst[pc]; in.Op {
		case syntax.InstMatch:
			matches = true
		case syntax.InstAlt, syntax.InstAltMatch:
			a.stack = append(a.stack, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstNop:
			a.stack = append(a.stack, in.Out)
		case syntax.InstEmptyWidth:
			is := syntax.EmptyOp(in.Arg)
			if (begin || is&syntax.EmptyBeginText == 0) && (end || is&syntax.EmptyEndText == 0) {
				a.stack = append(a.stack, in.Out)
			}
		}
	}
	return matches
}

// state returns the offset of the state that the pcs are.
func (a *automaton) state() int32 {
	slices.Sort(a.pcs)
	key := make([]byte, 0, 4*len(a.pcs))
	for _, pc := range a.pcs {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if at, known := a.known[string(key)]; known {
		return at
	}
	at := int32(len(a.next))
	for c := range symbols {
		next := int32(notMade)
		if c == '"' || c == '\\' || utf8.RuneSelf <= c && c < otherRune {
			next = noSymbol
		}
		a.next = append(a.next, next)
	}
	a.states, a.known[string(key)] = append(a.states, string(key)), at
	return at
}

// step makes the state after a symbol. There may be too many states: it reports whether there are not.
func (a *automaton) step(from int32, symbol int) (next int32, ok bool) {
	if len(a.states) >= maxStates {
		a.full++
		a.reset()
		return 0, false
	}
	a.clear()
	end, matches := symbol == endOfText, false
	for key := a.states[from/symbols]; key != ""; key = key[4:] {
		in := &a.prog.Inst[binary.LittleEndian.Uint32([]byte(key[:4]))]
		if end && in.Op == syntax.InstEmptyWidth || !end && takes(in, symbol) {
			matches = a.add(in.Out, end, end) || matches
		}
	}
	if !end {
		matches = a.add(uint32(a.prog.Start), false, false) || matches
	}
	if next = accepts; !matches {
		next = a.state()
	}
	a.next[int(from)+symbol] = next
	return next, true
}

// takes reports whether an instruction may match a symbol.
func takes(in *syntax.Inst, symbol int) bool {
	switch in.Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
	default:
		return false
	}
	switch symbol {
	case quote:
		return in.MatchRune('"')
	case backslash:
		return in.MatchRune('\\')
	case otherRune:
	default:
		return in.MatchRune(rune(symbol))
	}
	for _, r := range in.Rune {
		if r >= utf8.RuneSelf || in.Op == syntax.InstRune && len(in.Rune) == 1 && foldsWide(r) {
			return true
		}
	}
	return in.Op == syntax.InstRuneAny || in.Op == syntax.InstRuneAnyNotNL
}

// foldsWide reports whether a rune has another case that is not ASCII.
func foldsWide(r rune) bool {
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// after returns the state after a symbol, accepts or, where there are too many states, which means the same, too.
func (a *automaton) after(s int32, symbol int) int32 {
	if next := a.next[int(s)+symbol]; next != notMade {
		return next
	}
	next, ok := a.step(s, symbol)
	if !ok {
		return accepts
	}
	return next
}

// rune returns the state after a rune.
func (a *automaton) rune(s int32, r rune) int32 {
	switch {
	case r >= utf8.RuneSelf:
		return a.after(s, otherRune)
	case r == '"':
		return a.after(s, quote)
	case r == '\\':
		return a.after(s, backslash)
	}
	return a.after(s, int(r))
}

// mayMatch reports whether the expression may match a text.
func (a *automaton) mayMatch(text []byte) bool {
	if a == nil || a.full > maxFull {
		return true
	}
	s := int32(0)
	for i := 0; i < len(text); {
		next := a.next[int(s)+int(text[i])]
		if next >= 0 {
			s = next
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if s = a.rune(s, r); s == accepts {
			return true
		}
		i += size
	}
	return a.after(s, endOfText) == accepts
}

// mayMatchIn reports whether the expression may match a value or a key in JSON.
func (a *automaton) mayMatchIn(json []byte) bool {
	if a == nil || a.full > maxFull {
		return true
	}
	for i := 0; i < len(json); {
		switch c := json[i]; c {
		case '"':
			var s int32
			if s, i = a.text(json, i+1); s == accepts || a.after(s, endOfText) == accepts {
				return true
			}
			i++
		case '{', '}', '[', ']', ',', ':', ' ', '\t', '\n', '\r':
			i++
		default:
			begin := i
			for i < len(json) && strings.IndexByte("{}[],:\" \t\n\r", json[i]) < 0 {
				i++
			}
			if a.mayMatch(json[begin:i]) {
				return true
			}
		}
	}
	return false
}

// text returns the state at the end of a string that goes on at a byte of JSON, and where that end is.
func (a *automaton) text(json []byte, i int) (s int32, end int) {
	for {
		for table := a.next; i < len(json); i++ {
			next := table[int(s)+int(json[i])]
			if next < 0 {
				break
			}
			s = next
		}
		if i >= len(json) || json[i] == '"' {
			return s, i
		}
		r, size := decode(json[i:])
		if s = a.rune(s, r); size == 0 || s == accepts {
			return accepts, i
		}
		i += size
	}
}

// decode returns the rune that the inside of a string of JSON begins with, and its size there; 0 if that is not known.
func decode(inside []byte) (r rune, size int) {
	if inside[0] != '\\' {
		return utf8.DecodeRune(inside)
	}
	if len(inside) < 2 {
		return 0, 0
	}
	switch c := inside[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, size = hex(inside)
		if low, more := hex(inside[size:]); more > 0 && utf16.DecodeRune(r, low) != utf8.RuneError {
			return utf8.RuneError, size + more
		}
		return r, size
	}
	return 0, 0
}

// hex returns the code unit of an escape.
func hex(escape []byte) (r rune, size int) {
	if len(escape) < 6 || escape[0] != '\\' || escape[1] != 'u' {
		return 0, 0
	}
	n, err := strconv.ParseUint(string(escape[2:6]), 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(n), 6
}
