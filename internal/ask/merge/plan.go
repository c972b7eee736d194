package merge

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"kubejournal/internal/format/line"
)

// position is the place of a line in the order of all replicas' lines.
type position struct{ term, seq uint64 }

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.term, o.term), cmp.Compare(p.seq, o.seq))
}

// Plan is what has to be known of all lines before the first of them is merged.
type Plan struct {
	sources []Source
	latest  []uint64 // by source: the highest term
	streams map[string]*stream
	order   *Order

	heldBack func(stream string) bool
}

// stream is what a plan says of one stream.
type stream struct {
	name   string
	void   []extent        // lists to be left out
	moved  []*block        // those to come later than they were written
	low    []part          // in order
	listed map[string]bool // uids of what a list after a GAP says has changed or is gone
	gaps   bool            // of replicas
	facts  []fact
	by     map[uint64]int // the source of a term
	state
}

// part is a part of a stream: from the beginning of a term, or from a GAP after which versions start over, to the next
// part.
type part struct {
	from     position
	newEpoch bool
	// low is the lowest version that a watch brought in the part; once all is read, in the later parts up to the next
	// GAP after which versions start over. Nothing below it comes again.
	low     uint64
	highest uint64 // version of a watch, but for deletions
}

// block is a finished list and what follows it in its term.
type block struct {
	extent
	source  int
	version string  // of its SYNCED
	lines   []piece // once a merge begins
	taken   bool
}

// extent is what of a stream is from one position on, up to another one.
type extent struct{ from, to position }

// fact is a line that begins or ends something.
type fact struct {
	position
	source   int
	typ      line.Type
	origin   line.Origin
	version  string
	from     string // of a GAP
	newEpoch bool   // other versions begin
}

// Scan reads all lines of the sources. heldBack reports whether there may be no line about an object of a stream
// although it has changed. The error says too which of the sources do not belong together.
func Scan(ctx context.Context, sources []Source, heldBack func(stream string) bool) (*Plan, error) {
	p := &Plan{
		sources: sources, heldBack: heldBack, latest: make([]uint64, len(sources)),
		streams: make(map[string]*stream), order: NewOrder(len(sources)),
	}
	var cluster string
	for n, source := range sources {
		for _, name := range source.Streams {
			p.order.Has(n, name)
		}
		listing := make(map[*stream]bool) // a fact says that a first list has begun
		terms := make(map[*stream]uint64) // of the last line, and 1
		for l, err := range source.Lines(ctx) {
			if err != nil {
				return nil, err
			}
			if uid := string(l.Text(line.FieldClusterUID)); uid != "" && cluster == "" {
				cluster = uid
			} else if uid != "" && uid != cluster {
				return nil, fmt.Errorf("%s and %s are journals of different clusters; query one at a time",
					sources[0].Name, source.Name)
			}
			if l.SaysRemoved() || l.SaysSealed() {
				continue
			}
			s, f := p.stream(l.Fields), factOf(l.Fields)
			p.latest[n] = max(p.latest[n], f.term)
			if other, there := s.by[f.term]; there && other != n {
				return nil, fmt.Errorf("%s and %s both have lines of stream %s%s: they are not journals of replicas "+
					"with one Lease; query one at a time",
					sources[other].Name, source.Name, s.name, inTerm(f.term))
			}
			another := terms[s] != f.term+1
			if another {
				p.order.Has(n, s.name)
				s.by[f.term] = n
			}
			if another || f.newEpoch {
				s.low = append(s.low, part{from: f.position, newEpoch: f.newEpoch, low: math.MaxUint64})
			}
			begins := another || l.AboutStream() || f.origin == line.FromSnapshot && !listing[s]
			terms[s] = f.term + 1
			listing[s] = !l.AboutStream() && (f.origin == line.FromSnapshot || listing[s])
			if begins {
				f.source = n
				s.facts = append(s.facts, f)
			}
			switch {
			case f.origin == line.FromWatch:
				s.low[len(s.low)-1].watched(&f)
			case f.origin == line.FromRelist && (f.typ == line.Modified || f.typ == line.Deleted):
				s.listed[uidOf(l.Fields)] = true
			}
		}
	}
	for _, s := range p.streams {
		s.settle()
	}
	return p, nil
}

// Order returns the order of the sources, which continues with lines that come later.
func (p *Plan) Order() *Order { return p.order }

// watched notes a line of a watch. A server may give a deletion the object's last version: a deletion below the highest
// version of the other lines does not say how far the watch has come.
func (p *part) watched(f *fact) {
	version := number(f.version)
	if f.typ == line.Deleted && version < p.highest {
		return
	}
	if p.low = min(p.low, version); f.typ != line.Deleted {
		p.highest = max(p.highest, version)
	}
}

func inTerm(term uint64) string {
	if term == 0 {
		return " without a term"
	}
	return fmt.Sprintf(" in term %d", term)
}

// Early returns, in ascending order, the sources that were opened before another one in which a replica's later term
// is: what they had to say until then may not have been there yet. The sources have to be in the order in which they
// were opened.
func (p *Plan) Early() (early []int) {
	for _, of := range p.order.teams() {
		leader := slices.MaxFunc(of, func(a, b int) int { return cmp.Compare(p.latest[a], p.latest[b]) })
		for _, n := range of {
			if n < leader {
				early = append(early, n)
			}
		}
	}
	slices.Sort(early)
	return early
}

func (p *Plan) stream(l *line.Fields) *stream {
	s := p.streams[string(l.Text(line.FieldStream))]
	if s == nil {
		s = &stream{name: string(l.Text(line.FieldStream)), by: make(map[uint64]int), listed: make(map[string]bool)}
		p.streams[s.name] = s
	}
	return s
}

func factOf(l *line.Fields) fact {
	return fact{
		position: positionOf(l),
		typ:      l.Type(), origin: l.Origin(), version: string(l.Text(line.FieldResourceVersion)),
		from: string(l.Text(line.FieldFromResourceVersion)), newEpoch: line.Reason(l.Text(line.FieldReason)).NewEpoch(),
	}
}

// number is a version for comparisons; 0 where it cannot be compared, so that it is below all others.
func number(version string) uint64 {
	n, _ := line.VersionNumber([]byte(version))
	return n
}

// list is a first list, or what is behind a GAP.
type list struct {
	source   int
	from     position
	gap      bool
	newEpoch bool   // other versions begin with it
	to       string // the version of its SYNCED
}

// settle finds the lists that another replica has written again: one that was not finished is void; one after a GAP
// that was, but was not published before the term ended, so that the watch of the next continues before its end, is to
// come behind what that brings.
func (s *stream) settle() {
	slices.SortFunc(s.facts, func(a, b fact) int { return a.compare(b.position) })
	var open *list
	var closed []*list // finished ones, after which no watch has gone on yet
	synced := false
	for i := range s.facts {
		f := &s.facts[i]
		if open != nil && (open.source != f.source || open.from.term < f.term && f.abandons()) {
			s.void = append(s.void, extent{open.from, f.position})
			open = nil
		}
		if f.origin == line.FromWatch && len(closed) > 0 && closed[len(closed)-1].from.term < f.term {
			for n, l := range closed {
				end := f.position
				if n+1 < len(closed) && closed[n+1].source == l.source {
					end = closed[n+1].from
				}
				if l.source != f.source && line.Later(l.to, f.version) {
					s.moved = append(s.moved, &block{extent: extent{l.from, end}, source: l.source, version: l.to})
				}
			}
			closed = nil
		}
		switch {
		case f.typ == line.Synced:
			if open != nil && open.newEpoch {
				closed = nil
			}
			if synced = true; open != nil && open.gap {
				open.to = f.version
				closed = append(closed, open)
			}
			open = nil
		case open == nil && (f.typ == line.Gap || !synced && f.origin == line.FromSnapshot):
			open = &list{source: f.source, from: f.position, gap: f.typ == line.Gap, newEpoch: f.newEpoch}
		case open != nil: // or a GAP within it
			open.newEpoch = open.newEpoch || f.newEpoch
		}
		s.gaps = s.gaps || f.typ == line.Gap && f.term > 0
	}
	s.gaps = s.gaps || len(s.moved) > 0
	s.facts = nil
	slices.SortFunc(s.low, func(a, b part) int { return a.from.compare(b.from) })
	lowest := uint64(math.MaxUint64)
	for n := range slices.Backward(s.low) {
		p := &s.low[n]
		p.low, lowest = lowest, min(lowest, p.low)
		// A GAP that is left out begins nothing, and what is before one that comes later may be repeated until then.
		if p.newEpoch && !s.voids(p.from) && s.movedAt(p.from) == nil {
			lowest = math.MaxUint64
		}
	}
}

// mayRepeat reports whether a later term's watch may bring a line again that another one's brought at a position.
func (s *stream) mayRepeat(at position, version uint64) bool {
	n, is := slices.BinarySearchFunc(s.low, at, func(p part, at position) int { return p.from.compare(at) })
	if !is {
		n--
	}
	if n < 0 {
		return true
	}
	return version >= s.low[n].low
}

// abandons reports whether f shows that the replica abandoned its open list: it continues from another leader's
// position, or writes a GAP without a version that it is from.
func (f *fact) abandons() bool {
	return f.origin == line.FromWatch || f.typ == line.Gap && f.from == ""
}

func (e extent) has(at position) bool { return e.from.compare(at) <= 0 && at.compare(e.to) < 0 }

// voids reports whether a line is left out.
func (s *stream) voids(at position) bool {
	return slices.ContainsFunc(s.void, func(e extent) bool { return e.has(at) })
}

// movedAt returns the list that a line is of which comes later than it was written.
func (s *stream) movedAt(at position) *block {
	for _, b := range s.moved {
		if b.has(at) && s.by[at.term] == b.source {
			return b
		}
	}
	return nil
}
