package takeover

import (
	"fmt"
	"slices"
	"testing"
)

// batch is one of a test.
type batch struct {
	stream, position string
	list             bool
	begun            uint64
	versions         []uint64
	bytes            int
}

func (b *batch) Stream() string   { return b.stream }
func (b *batch) OfWatch() bool    { return !b.list && b.position != "" }
func (b *batch) Position() string { return b.position }
func (b *batch) Begun() uint64    { return b.begun }
func (b *batch) Len() int         { return len(b.versions) }
func (b *batch) Bytes() int       { return b.bytes }

func (b *batch) Versions(yield func(uint64) bool) {
	for _, v := range b.versions {
		if !yield(v) {
			return
		}
	}
}

// watched is what a watch has brought, up to the last version.
func watched(stream string, versions ...uint64) *batch {
	return &batch{stream: stream, versions: versions, position: fmt.Sprint(versions[len(versions)-1])}
}

func TestJudge(t *testing.T) {
	follows := Term{Published: Positions{"a": {At: "7"}, "b": {Begun: true, Term: 1}}}
	leads := follows
	leads.May, leads.Number, leads.Led = func() bool { return true }, 5, map[uint64]bool{4: true, 5: true}
	list := func(begun uint64) *batch { return &batch{stream: "a", list: true, begun: begun, versions: []uint64{3}} }
	for name, c := range map[string]struct {
		term  *Term
		is    *batch
		want  Verdict
		lines int
	}{
		"the only replica":                {nil, list(0), Write, 0},
		"a list of this term":             {&leads, list(5), Write, 0},
		"a list of an earlier own term":   {&leads, list(3), Write, 0},
		"a list before another's term":    {&leads, list(2), Refuse, 0},
		"what others have written":        {&leads, watched("a", 5, 7), Settle, 0},
		"a part of that":                  {&leads, watched("a", 5, 7, 8), Trim, 2},
		"what they have not":              {&leads, watched("a", 8), Write, 0},
		"no number":                       {&leads, &batch{stream: "a", position: "x", versions: []uint64{0, 8}}, Write, 0},
		"a number before one that is not": {&leads, &batch{stream: "a", position: "x", versions: []uint64{5, 0}}, Trim, 1},
		"a position alone":                {&leads, &batch{stream: "a", position: "5"}, Write, 0},
		"another stream":                  {&leads, watched("b", 5), Write, 0},
		"a stream that is not published":  {&leads, watched("c", 5), Write, 0},
		"held: nothing to write":          {&follows, &batch{stream: "a"}, Write, 0},
		"held: a list":                    {&follows, list(0), Refuse, 0},
		"held: written by the leader":     {&follows, watched("a", 5, 7), Settle, 0},
		"held: a part of that":            {&follows, watched("a", 5, 8), Hold, 0},
		"held: not written":               {&follows, watched("a", 8), Hold, 0},
		"held: another stream":            {&follows, watched("b", 5), Hold, 0},
		"held: a position alone":          {&follows, &batch{stream: "b", position: "5"}, Hold, 0},
		"held: written, no number":        {&Term{Published: Positions{"a": {At: "x"}}}, &batch{stream: "a", position: "x"}, Settle, 0},
		"held: all streams are begun":     {&Term{Published: Positions{AnyOther: unnamed}}, watched("a", 5), Hold, 0},
	} {
		h := NewHeld[*batch](NewReplica())
		if c.term != nil {
			h.Take(c.term)
		}
		if got, lines := h.Judge(c.is); got != c.want || lines != c.lines {
			t.Errorf("%s: %d, %d lines; want %d, %d", name, got, lines, c.want, c.lines)
		}
		if held := len(h.batches) == 1; held != (c.want == Hold) {
			t.Errorf("%s: held is %t", name, held)
		}
	}
}

// A leader trims a stream's lines until it has come to the position that others have published, or has listed.
func TestTrimEnds(t *testing.T) {
	for name, c := range map[string]struct {
		before *batch
		want   Verdict
	}{
		"not yet":          {watched("a", 4), Settle},
		"at the position":  {watched("a", 7), Write},
		"after a list":     {&batch{stream: "a", list: true, versions: []uint64{1}}, Write},
		"of other streams": {watched("b", 9), Settle},
		"only known":       {&batch{stream: "a"}, Settle},
		"no number":        {&batch{stream: "a", position: "x", versions: []uint64{3}}, Write},
	} {
		h := NewHeld[*batch](NewReplica())
		h.Take(&Term{May: func() bool { return true }, Number: 1, Published: Positions{"a": {At: "7"}, "b": {At: "7"}}})
		h.Judge(c.before)
		if got, _ := h.Judge(watched("a", 5)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// What is held stays in order: a batch is not settled while one before it is held.
func TestTake(t *testing.T) {
	r := NewReplica()
	h := NewHeld[*batch](r)
	h.Take(&Term{Published: Positions{"a": {At: "4"}}})
	held := []*batch{watched("a", 5), watched("b", 3), watched("a", 6, 7), watched("a", 8)}
	for _, b := range held {
		if v, _ := h.Judge(b); v != Hold {
			t.Errorf("%v: %d", b, v)
		}
	}
	judge, settle := h.Take(&Term{Published: Positions{"a": {At: "6"}}})
	if len(judge) > 0 || !slices.Equal(settle, held[:1]) || r.Held() != 3*HeldOverhead {
		t.Errorf("published up to 6: %v, %v, %d bytes", judge, settle, r.Held())
	}
	if v, _ := h.Judge(watched("a", 6)); v != Hold {
		t.Errorf("behind what is held: %d", v)
	}
	if b := h.Forget("b"); !slices.Equal(b, held[1:2]) {
		t.Errorf("of b: %v", b)
	}
	judge, settle = h.Take(&Term{May: func() bool { return true }, Number: 2, Published: Positions{"a": {At: "7"}}})
	if len(settle) > 0 || len(judge) != 3 || judge[0] != held[2] || judge[1] != held[3] || r.Held() > 0 {
		t.Errorf("as the leader: %v, %v, %d bytes", judge, settle, r.Held())
	}
	h.Take(&Term{Published: Positions{"a": {At: "9"}}})
	if v, _ := h.Judge(watched("a", 9)); v != Settle {
		t.Errorf("nothing is held: %d", v)
	}
}

func TestLargest(t *testing.T) {
	h := NewHeld[*batch](NewReplica())
	h.Take(new(Term))
	add := func(stream string, bytes int) *batch {
		b := watched(stream, 1)
		b.bytes = bytes
		h.Judge(b)
		return b
	}
	add("few", MaxHeld/4)
	add("many", MaxHeld/4)
	last := add("many", MaxHeld/4)
	if _, _, tooMuch := h.Largest(); tooMuch {
		t.Error("too much already")
	}
	add("few", MaxHeld/8)
	add("other", MaxHeld/4)
	if b, bytes, tooMuch := h.Largest(); !tooMuch || b != last || bytes != MaxHeld/2+2*HeldOverhead {
		t.Errorf("%v, %d bytes, %t", b, bytes, tooMuch)
	}
}
