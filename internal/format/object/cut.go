package object

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/rawjson"
)

// A line that is too long is cut by one rule: what contains several things divides its room among them so that the
// small ones stay whole and the large ones share the rest evenly. So whoever writes an object chooses how much of the
// value that pads it is kept, not what else is. The rule is applied to the members of the line, to the members and
// elements of each value that is too large, and to the changes, as the tree that their paths make.
//
// Where there is not room for even a mark of each, the shortest members of an object are kept, the first elements of a
// list, and the changes with the shortest paths.
//
// What is cut is marked, see line.MarkBegin.
//
// A change keeps its path longest. Where there is no room for a mark, it is without value and old.

const (
	// longestMark is the longest string that marks a cut; no number in it exceeds MaxLine.
	longestMark = len(`"`+line.MarkBegin+"83886080"+line.MarkItems) + len(`"`)
	longestLeft = len(`,"`+line.LeftOut+`":`) + longestMark

	maxClaims = 1 << 16 // members or elements of one value that may be kept
	cutDepth  = 64      // values nested deeper are kept or cut as a whole
	keptCut   = 1 << 16 // bytes and entries that a cutter keeps room for
)

var markCore = []byte("[cut ")

// cutter cuts the text of a line.
type cutter struct {
	s   rawjson.Scanner
	b   []byte // the text
	out []byte

	claims []claim // a stack: each value being cut has its own on it
	order  []int32
	marks  bool // the text has what may be a mark
	plain  bool // what is left out is not marked

	changes      []change
	paths, sizes []int // of the changes before each, in all
	left         int   // changes that are left out
}

// claim is what a part of a value needs of its room, and gets.
type claim struct {
	start, value, end int32 // the part, and its value after a key
	least, want, give int32 // bytes; give is 0 if it is left out
	first             bool  // before all others
}

// change is an operation of the line: {"op":"add","path":"…" up to head, and the rest.
type change struct{ start, path, head, end int32 }

var cutters = sync.Pool{New: func() any { return new(cutter) }}

func (c *cutter) release() {
	c.s.Release()
	c.b = nil
	if cap(c.out) > keptCut || cap(c.claims) > keptCut || cap(c.changes) > keptCut {
		*c = cutter{}
	}
	cutters.Put(c)
}

// section is a member of a line: its beginning up to the value, and where the value is.
type section struct {
	begin      string
	start, end int
}

// locate sets where the value is: dst has the member from from to end, which is empty if there is none; positions count
// from about on.
func (s *section) locate(about, from, end int) {
	s.start = min(from+len(s.begin), end) - about
	s.end = end - about
}

func (s section) size() int {
	if s.start == s.end {
		return 0
	}
	return len(s.begin) + s.end - s.start
}

const (
	beginEvent   = `,"event":`
	beginChanges = `,"changes":`
	beginObject  = `,"object":`
	truncated    = `,"truncated":true`
	beginOmitted = `,"changesOmitted":`
)

// cutBody replaces what dst has from about on, the members event, changes and object as far as they are there, by as
// much of them as has room before the position room.
func cutBody(dst []byte, about, room int, event, changes, object section) []byte {
	const end = "}\n"
	c := cutters.Get().(*cutter)
	defer c.release()
	c.b = dst[about:]
	c.s.Reset(c.b)
	c.marks = bytes.Contains(c.b, markCore)
	split := c.body(room-about-len(truncated)-len(end), event, changes, object)
	dst = append(dst[:about], c.out[:split]...)
	dst = append(dst, truncated...)
	dst = append(dst, c.out[split:]...)
	return append(dst, end...)
}

// body makes out what a line has in budget bytes. split is where the event ends.
func (c *cutter) body(budget int, event, changes, object section) (split int) {
	c.out, c.claims = c.out[:0], c.claims[:0]
	c.readChanges(changes)
	paths := 0
	if n := len(c.changes); n > 0 {
		paths = len(beginChanges) + len("[]") + c.paths[n]
	}
	claims := [...]claim{
		{want: int32(event.size()), least: int32(min(event.size(), budget/4))},
		{want: int32(changes.size()), least: int32(min(paths, budget*3/4))},
		{want: int32(object.size()), least: int32(min(object.size(), budget/8))},
	}
	for i := range claims {
		claims[i].least = max(claims[i].least, 1)
		claims[i].want = max(claims[i].want, 1)
	}
	c.share(claims[:], budget, false)

	c.plain = true
	c.section(event, int(claims[0].give))
	c.plain = false
	split = len(c.out)
	spare := int(claims[0].give) - split
	c.appendChanges(changes, int(claims[1].give)+spare)
	c.section(object, budget-len(c.out))
	return split
}

// section appends a member of the line, if it has room.
func (c *cutter) section(s section, budget int) {
	start := len(c.out)
	if s.size() == 0 || budget < len(s.begin)+longestLeft {
		if s.size() == 0 || s.size() > budget {
			return
		}
	}
	c.out = append(c.out, s.begin...)
	from := len(c.out)
	c.put(s.start, s.end, budget-len(s.begin), 0)
	nothing := bytes.HasPrefix(c.out[from:], []byte(`{"`+line.LeftOut+`":`)) || string(c.out[from:]) == "{}"
	if whole := string(c.out[from:]) == string(c.b[s.start:s.end]); !whole && (nothing || c.out[from] != '{') {
		c.out = c.out[:start]
	}
}

// put appends a value in at most budget bytes, which are enough for the value or for a mark.
func (c *cutter) put(start, end, budget, depth int) {
	value := c.b[start:end]
	fits := c.size(start, end) <= budget
	container := value[0] == '{' || value[0] == '['
	switch {
	case fits && !looksCut(value):
		c.out = append(c.out, value...)
	case value[0] == '"':
		text := rawjson.Inside(value)
		if !line.IsCut(rawjson.Unquote(nil, text)) && fits {
			c.out = append(c.out, value...)
			return
		}
		n := 0
		if !fits {
			n = cutText(text, budget-len(`""`)-len(line.MarkBegin)-len(line.MarkBytes)-digits(len(value)))
		}
		c.out = append(append(c.out, '"'), text[:n]...)
		c.out = append(c.mark(len(value), line.MarkBytes), '"')
	case container && fits && len(value) < longestMark, // there is no room for a mark
		container && depth < cutDepth && (fits || budget >= len("{}")+longestLeft):
		c.container(start, end, budget, depth, fits)
	default:
		c.out = append(c.out, '"')
		c.out = append(c.mark(len(value), line.MarkBytes), '"')
	}
}

// looksCut reports whether a value may be or contain what looks like a mark.
func looksCut(value []byte) bool {
	return bytes.Contains(value, markCore) || bytes.Contains(value, []byte(`\u`))
}

// size is how much a value takes at most that is not cut: what looks like a mark is replaced by one, which may be
// longer by the digits of the number.
func (c *cutter) size(start, end int) int {
	if !c.marks {
		return end - start
	}
	return end - start + 7*bytes.Count(c.b[start:end], markCore)
}

// mark appends the inside of a mark.
func (c *cutter) mark(n int, unit string) []byte {
	c.out = append(c.out, line.MarkBegin...)
	c.out = strconv.AppendInt(c.out, int64(n), 10)
	return append(c.out, unit...)
}

func digits(n int) int {
	count := 1
	for ; n > 9; n /= 10 {
		count++
	}
	return count
}

// leastOf is what a value needs at least.
func (c *cutter) leastOf(start, end int) int {
	switch size := c.size(start, end); {
	case c.plain && c.b[start] != '"' && c.b[start] != '{':
		return size
	default:
		return min(size, longestMark)
	}
}

// container appends an object or a list, as much of it as has room; with fits that is all.
func (c *cutter) container(start, end, budget, depth int, fits bool) {
	base := len(c.claims)
	list := c.b[start] == '['
	all := c.claim(start, depth, budget, fits)
	budget -= len("{}") - len(",") // the first has no comma
	if whole := c.share(c.claims[base:], budget, list); !whole || all > len(c.claims)-base {
		if !c.plain {
			budget -= longestLeft
		}
		c.share(c.claims[base:], budget, list)
	}
	kept := base
	for _, p := range c.claims[base:] {
		if p.give > 0 {
			c.claims[kept] = p
			kept++
		}
	}
	c.claims = c.claims[:kept]

	c.out = append(c.out, c.b[start])
	first, spare := len(c.out), 0
	for i := base; i < kept; i++ {
		p := c.claims[i]
		before, give := len(c.out), int(p.give)+spare
		if before > first {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.b[p.start:p.value]...)
		from := len(c.out)
		c.put(int(p.value), int(p.end), give-int(p.value-p.start)-len(","), depth+1)
		spare = give - (len(c.out) - before)
		if before == first {
			spare -= len(",") // which is accounted for, but not there
		}
		if c.plain && (c.b[p.value] == '{' && c.out[from] != '{' || string(c.out[from:]) == "{}") {
			c.out = c.out[:before]
		}
	}
	if left := all - (kept - base); left > 0 && !c.plain {
		if len(c.out) > first {
			c.out = append(c.out, ',')
		}
		unit := line.MarkItems
		if !list {
			unit = line.MarkMembers
			c.out = append(c.out, `"`+line.LeftOut+`":`...)
		}
		c.out = append(c.out, '"')
		c.out = append(c.mark(left, unit), '"')
	}
	c.out = append(c.out, c.b[end-1])
	c.claims = c.claims[:base]
}

// claim puts a claim for each member or element of a value on the stack, as far as they may have room in budget, and
// returns how many there are.
func (c *cutter) claim(start, depth, budget int, fits bool) (all int) {
	s := &c.s
	base, most := len(c.claims), min(maxClaims, budget)
	object, shut := c.b[start] == '{', c.b[start]+2
	for i, more := s.Open(start, 0); more; i, more = s.More(i, shut) {
		p := claim{start: int32(i)}
		named := false // as what marks the members that are left out
		if object {
			var key []byte
			key, i = s.Key(i)
			named = string(key) == line.LeftOut && !fits
			p.first = depth == 0 && string(key) == "metadata"
		}
		if i < 0 {
			break
		}
		p.value = int32(i)
		if i = s.Close(i, 0); i < 0 {
			break
		}
		if all++; len(c.claims)-base >= most && !p.first || named {
			continue
		}
		p.end = int32(i)
		key := p.value - p.start + int32(len(","))
		p.want = key + int32(c.size(int(p.value), int(p.end)))
		if p.least = key + int32(c.leastOf(int(p.value), int(p.end))); p.first {
			p.least = max(p.least, min(p.want, int32(budget/4)))
		}
		c.claims = append(c.claims, p)
	}
	return all
}

// share divides budget bytes among claims: each gets what it needs at least, and of the rest those get all that want
// little, while the others get the same. If there is too little, it goes to those that need least, or with inOrder to
// the first. It reports whether all got something.
func (c *cutter) share(claims []claim, budget int, inOrder bool) bool {
	need, left := 0, budget
	for i := range claims {
		need += int(claims[i].least)
	}
	if need > budget {
		c.order = c.order[:0]
		for i := range claims {
			c.order = append(c.order, int32(i))
			claims[i].give = 0
		}
		if !inOrder {
			slices.SortStableFunc(c.order, func(i, j int32) int {
				p, q := &claims[i], &claims[j]
				if p.first != q.first && p.first {
					return -1
				} else if q.first != p.first {
					return 1
				}
				return cmp.Compare(p.least, q.least)
			})
		}
		for _, i := range c.order {
			p := &claims[i]
			if int(p.least) > left {
				if inOrder {
					break
				}
				continue
			}
			p.give = p.least
			left -= int(p.least)
		}
	} else {
		left -= need
		for i := range claims {
			claims[i].give = claims[i].least
		}
	}
	level := level(claims, left)
	for i := range claims {
		if p := &claims[i]; p.give > 0 {
			p.give += min(p.want-p.least, level)
		}
	}
	return need <= budget
}

// level returns how much each of those that have something may get beyond that, at most.
func level(claims []claim, left int) int32 {
	level := int32(0)
	for range 16 { // what this leaves unused is little
		count, rest := 0, left
		for i := range claims {
			p := &claims[i]
			switch more := p.want - p.least; {
			case p.give == 0:
			case more <= level:
				rest -= int(more)
			default:
				count++
			}
		}
		if count == 0 {
			return level
		}
		next := int32(max(rest, 0) / count)
		if next <= level {
			return level
		}
		level = next
	}
	return level
}

// readChanges finds the operations.
func (c *cutter) readChanges(changes section) {
	c.changes, c.paths, c.sizes, c.left = c.changes[:0], c.paths[:0], c.sizes[:0], 0
	if changes.size() == 0 {
		return
	}
	s := &c.s
	paths, sizes := 0, 0
	for i, more := s.Open(changes.start, 0); more; i, more = s.More(i, ']') {
		op := change{start: int32(i)}
		var key []byte
		for at, also := s.Open(i, 0); also; at, also = s.More(at, '}') {
			if key, at = s.Key(at); at < 0 {
				break
			}
			begin := at
			if at = s.Close(at, 0); at < 0 {
				break
			}
			if string(key) == "path" {
				op.path, op.head = int32(begin+1), int32(at)
			}
		}
		if i = s.Close(i, 0); i < 0 || op.head == 0 {
			c.changes = c.changes[:0]
			break
		}
		op.end = int32(i)
		c.changes, c.paths, c.sizes = append(c.changes, op), append(c.paths, paths), append(c.sizes, sizes)
		paths += int(op.head-op.start) + len("},")
		sizes += c.size(int(op.start), int(op.end)) + len(",")
	}
	c.paths, c.sizes = append(c.paths, paths), append(c.sizes, sizes)
}

// appendChanges appends the member changes, and how many of them are left out.
func (c *cutter) appendChanges(changes section, budget int) {
	if changes.size() == 0 {
		return
	}
	start := len(c.out)
	if changes.size() > budget {
		budget -= len(beginOmitted) + digits(len(c.changes))
	}
	c.out = append(append(c.out, beginChanges...), '[')
	first := len(c.out)
	c.choose(0, len(c.changes), 0, budget-len(beginChanges)-len("[]"))
	if len(c.out) == first {
		c.out = c.out[:start]
	} else {
		c.out[len(c.out)-1] = ']' // for the last comma
	}
	if c.left == 0 || budget < len(c.out)-start {
		return
	}
	end := len(c.out)
	c.out = append(c.out, beginOmitted...)
	c.out = strconv.AppendInt(c.out, int64(c.left), 10)
	c.out = append(c.out, c.out[start:end]...) // before the changes
	c.out = append(c.out[:start], c.out[end:]...)
}

// choose appends the changes from lo to hi, which have the first bytes of their paths up to at in common, as many of
// them and as much of their values as have room. Paths go before values.
func (c *cutter) choose(lo, hi, at, budget int) {
	size := c.sizes[hi] - c.sizes[lo]
	if hi-lo == 1 || size == 0 {
		c.putChange(lo, hi, budget)
		return
	}
	base := len(c.claims)
	paths := c.paths[hi]-c.paths[lo] <= budget
	for i := lo; i < hi; {
		next := c.step(i, at)
		step := c.path(i)[at:next]
		p := claim{start: int32(i), value: int32(next)}
		shortest := c.paths[i+1] - c.paths[i]
		for i++; i < hi && next > at && c.step(i, at) == next && bytes.Equal(c.path(i)[at:next], step); i++ {
			shortest = min(shortest, c.paths[i+1]-c.paths[i])
		}
		p.end, p.least, p.want = int32(i), int32(shortest), int32(c.sizes[i]-c.sizes[p.start])
		if paths {
			p.least = int32(c.paths[i] - c.paths[p.start])
		}
		c.claims = append(c.claims, p)
	}
	c.share(c.claims[base:], budget, false)
	spare := 0
	for i := base; i < len(c.claims); i++ {
		p := c.claims[i]
		if p.give == 0 {
			c.left += int(p.end - p.start)
			continue
		}
		before, give := len(c.out), int(p.give)+spare
		c.choose(int(p.start), int(p.end), int(p.value), give)
		spare = give - (len(c.out) - before)
	}
	c.claims = c.claims[:base]
}

func (c *cutter) path(i int) []byte { return c.b[c.changes[i].path : c.changes[i].head-1] }

// step returns where the step of a path that begins at at ends.
func (c *cutter) step(i, at int) int {
	path := c.path(i)
	if at >= len(path) {
		return at
	}
	if n := bytes.IndexByte(path[at+1:], '/'); n >= 0 {
		return at + 1 + n
	}
	return len(path)
}

// putChange appends one operation and a comma; of lo to hi, which are one.
func (c *cutter) putChange(lo, hi, budget int) {
	if hi == lo {
		return
	}
	op := c.changes[lo]
	if budget -= c.paths[lo+1] - c.paths[lo]; budget < 0 {
		c.left++
		return
	}
	c.out = append(c.out, c.b[op.start:op.head]...)
	base := len(c.claims)
	s := &c.s
	for i, more := s.More(int(op.head), '}'); more; i, more = s.More(i, '}') {
		p := claim{start: int32(i)}
		_, i = s.Key(i)
		p.value = int32(i)
		i = s.Close(i, 0)
		p.end = int32(i)
		key := p.value - p.start + int32(len(","))
		p.want, p.least = key+int32(c.size(int(p.value), int(p.end))), key+int32(c.leastOf(int(p.value), int(p.end)))
		c.claims = append(c.claims, p)
	}
	c.share(c.claims[base:], budget, false)
	spare := 0
	for i := base; i < len(c.claims); i++ {
		p := c.claims[i]
		if p.give == 0 {
			continue
		}
		before, give := len(c.out), int(p.give)+spare
		c.out = append(append(c.out, ','), c.b[p.start:p.value]...)
		c.put(int(p.value), int(p.end), give-int(p.value-p.start)-len(","), 1)
		spare = give - (len(c.out) - before)
	}
	c.claims = c.claims[:base]
	c.out = append(c.out, "},"...)
}
