package event

import "bytes"

// scanner checks the grammar of compact JSON: without white space between its
// tokens, without control characters, and of valid UTF-8. Its methods take the
// position of a token's first byte and return the one after its last, or -1
// with the fault in err.
type scanner struct {
	b    []byte
	x    *index // from start to done
	open []bool // containers that skip is in, true for an object; kept for its space
	err  *SyntaxError
}

// reset takes a text and looks it through; see index for what it then tells.
func (s *scanner) reset(b []byte) {
	s.b, s.err = b, nil
	if s.x == nil {
		s.x = indexes.Get().(*index)
	}
	s.x.build(b)
}

// done gives the text and the index back.
func (s *scanner) done() {
	if cap(s.x.marks) <= keptMarks {
		indexes.Put(s.x)
	}
	s.b, s.x = nil, nil
}

func (s *scanner) fail(i int, msg string) int {
	if i >= len(s.b) {
		i, msg = len(s.b), "unexpected end"
	}
	s.err = &SyntaxError{Offset: int64(i), Msg: msg}
	return -1
}

// str passes a string. There are no control characters to look for.
func (s *scanner) str(i int) int {
	if i >= len(s.b) || s.b[i] != '"' {
		return s.fail(i, "expected a string")
	}
	if end := s.x.short(i + 1); end > 0 {
		return end
	}
	return s.long(i + 1)
}

// long passes the inside of any string and its closing quote.
func (s *scanner) long(i int) int {
	if end := s.x.crossing(i); end > 0 {
		return end
	}
	end := s.x.quote(i)
	if end < 0 {
		return s.fail(len(s.b), "")
	}
	if s.x.slashed(i, end) {
		return s.escaped(i, end)
	}
	return end + 1
}

// escaped passes the inside of a string up to its closing quote at end.
func (s *scanner) escaped(i, end int) int {
	b := s.b
	for {
		n := bytes.IndexByte(b[i:end], '\\')
		if n < 0 {
			return end + 1
		}
		i += n
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if hexRune(b[i+2:end]) < 0 {
				return s.fail(i, "faulty escape")
			}
			i += 6
		default:
			return s.fail(i, "faulty escape")
		}
	}
}

// pass is skip for what will be cut: an object or array need only have its
// brackets and quotes in pairs.
func (s *scanner) pass(i, depth int) int {
	if i >= len(s.b) || s.b[i] != '{' && s.b[i] != '[' {
		return s.skip(i, depth)
	}
	if i = s.x.closes(i); i < 0 {
		return s.fail(len(s.b), "")
	}
	return i
}

// skip passes any value. depth is the number of containers around it in its line.
func (s *scanner) skip(i, depth int) int {
	var (
		b      = s.b
		open   = s.open[:0]
		object bool // of what kind the innermost open container is
	)
value:
	if i >= len(b) {
		return s.fail(i, "")
	}
	switch b[i] {
	case '"':
		i++
		if end := s.x.short(i); end > 0 {
			i = end
		} else if i = s.long(i); i < 0 {
			return i
		}
	case '{':
		if depth+len(open) >= maxDepth {
			return s.fail(i, tooDeep)
		}
		i++
		if i < len(b) && b[i] == '}' {
			i++
			break
		}
		open = append(open, object)
		object = true
		goto key
	case '[':
		if depth+len(open) >= maxDepth {
			return s.fail(i, tooDeep)
		}
		i++
		if i < len(b) && b[i] == ']' {
			i++
			break
		}
		open = append(open, object)
		object = false
		goto value
	default:
		if i = s.scalar(i); i < 0 {
			return i
		}
	}
after:
	if len(open) == 0 {
		s.open = open
		return i
	}
	if i >= len(b) {
		return s.fail(i, "")
	}
	switch c := b[i]; {
	case c == ',':
		i++
		if !object {
			goto value
		}
	case c == '}' && object, c == ']' && !object:
		i++
		object = open[len(open)-1]
		open = open[:len(open)-1]
		goto after
	default:
		return s.fail(i, "expected a comma or a closing bracket")
	}
key:
	if i >= len(b) || b[i] != '"' {
		return s.fail(i, "expected a string")
	}
	i++
	if end := s.x.short(i); end > 0 {
		i = end
	} else if i = s.long(i); i < 0 {
		return i
	}
	if i >= len(b) || b[i] != ':' {
		return s.fail(i, "expected a colon")
	}
	i++
	if i >= len(b) || b[i] != '"' {
		goto value
	}
	// A string, as most members are, and then most likely the next of them.
	i++
	if end := s.x.short(i); end > 0 {
		i = end
	} else if i = s.long(i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == ',' {
		i++
		goto key
	}
	goto after
}

// scalar passes a number or a literal.
func (s *scanner) scalar(i int) int {
	b := s.b[i:]
	switch {
	case len(b) == 0:
		return s.fail(i, "")
	case b[0] == '-', b[0] >= '0' && b[0] <= '9':
		return s.number(i)
	case bytes.HasPrefix(b, []byte("true")), bytes.HasPrefix(b, []byte("null")):
		return i + len("true")
	case bytes.HasPrefix(b, []byte("false")):
		return i + len("false")
	}
	return s.fail(i, "expected a value")
}

func (s *scanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return i
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits passes one or more.
func (s *scanner) digits(i int) int {
	start := i
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	if i == start {
		return s.fail(i, "expected a digit")
	}
	return i
}
