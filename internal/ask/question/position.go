package question

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
	"kubejournal/internal/format/line"
)

// Position is how far the lines of streams go.
type Position struct {
	Version string // the server's, by the last of these lines; empty where there is none
	seqs    map[string]uint64
}

// Event is a line of a stream, about an object or the stream itself.
type Event struct {
	Type  index.Type
	Place index.Place
}

// Position returns how far the lines of the streams go at a moment that may have selected objects.
func (j *Journal) Position(ctx context.Context, s *argument.Selection, at argument.Moment) (*Position, error) {
	return archive.Again(j.Journal, func() (*Position, error) {
		p := &Position{seqs: map[string]uint64{}}
		if len(j.Segments) == 0 {
			return p, nil
		}
		c, streams, last, err := j.upTo(ctx, s, at)
		if err != nil {
			return nil, err
		}
		var newest uint64
		for _, name := range streams {
			version, err := j.positionOf(ctx, c, name, last, p)
			if err != nil {
				return nil, err
			}
			if n, ok := line.VersionNumber([]byte(version)); p.Version == "" || ok && n > newest {
				p.Version, newest = version, n
			}
		}
		return p, nil
	})
}

// upTo returns the cut at a moment, the streams that it divides, and the last segment with lines before it.
func (j *Journal) upTo(
	ctx context.Context, s *argument.Selection, at argument.Moment,
) (c *cut, streams []string, last int, err error) {
	if c, err = j.cut(ctx, s, at); err != nil {
		return nil, nil, 0, err
	}
	if _, last, err = j.span(ctx, c); err != nil {
		return nil, nil, 0, err
	}
	streams, err = j.StreamNames(ctx, s)
	return c, slices.DeleteFunc(streams, func(name string) bool { return c.gone[name] }), last, err
}

// positionOf notes the last line of a stream before a cut, and returns the server's version there.
func (j *Journal) positionOf(ctx context.Context, c *cut, stream string, last int, p *Position) (string, error) {
	for i := last; i >= 0; i-- {
		lines, err := j.LinesOfStream(ctx, i, stream)
		if err != nil {
			return "", err
		}
		for _, l := range slices.Backward(lines) {
			if !c.includes(stream, &l) {
				continue
			}
			p.seqs[stream] = l.Seq
			f, err := j.LineIn(ctx, i, &l)
			if err != nil {
				return "", err
			}
			version := f.Unquoted(line.FieldResourceVersion)
			if f.AboutStream() || f.Origin() == line.FromWatch {
				return version, nil
			}
			// Lines of a list are in no order: the version is that of its beginning.
			mark, at, err := j.MarkBefore(ctx, stream, l.Seq)
			if err != nil || mark == 0 {
				return version, err
			}
			if f, err = j.LineOf(ctx, at); err != nil || f == nil {
				return version, err
			}
			return f.Unquoted(line.FieldResourceVersion), nil
		}
	}
	return "", nil
}

// AtVersion returns the position that is at a version of the server. ok is false where the journal does not have all
// that came after it: the version is before the first list, or in a gap.
func (j *Journal) AtVersion(
	ctx context.Context, s *argument.Selection, version uint64,
) (p *Position, ok bool, err error) {
	p, err = archive.Again(j.Journal, func() (*Position, error) {
		p := &Position{Version: fmt.Sprint(version), seqs: map[string]uint64{}}
		streams, err := j.StreamNames(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, name := range streams {
			e, seqs, doubt, err := j.epochOf(ctx, name, version)
			if err != nil || doubt != nil {
				return nil, err
			}
			n, err := j.after(ctx, seqs, version)
			if err != nil {
				return nil, err
			}
			if p.seqs[name] = e.from; n > 0 {
				p.seqs[name] = seqs[n-1].Seq
			}
		}
		return p, nil
	})
	return p, p != nil, err
}

// EventsAfter returns the lines after a position and up to a moment, of the streams that may have selected objects, in
// order. It moves the position there. A line that counts only from later on ends the lines of its stream.
func (j *Journal) EventsAfter(
	ctx context.Context, s *argument.Selection, p *Position, at argument.Moment,
) ([]Event, error) {
	return archive.Again(j.Journal, func() ([]Event, error) {
		if len(j.Segments) == 0 {
			return nil, nil
		}
		c, streams, last, err := j.upTo(ctx, s, at)
		if err != nil {
			return nil, err
		}
		var all []Event
		seqs := maps.Clone(p.seqs)
		for _, name := range streams {
			done := false
			for i := j.SegmentWith(seqs[name] + 1); i <= last && !done; i++ {
				lines, err := j.LinesOfStream(ctx, i, name)
				if err != nil {
					return nil, err
				}
				for _, l := range lines {
					if l.Seq <= seqs[name] {
						continue
					}
					if done = !c.includes(name, &l); done {
						break
					}
					x, err := j.Index(ctx, i)
					if err != nil {
						return nil, err
					}
					seqs[name] = l.Seq
					all = append(all, Event{Type: l.Type, Place: archive.PlaceOf(x, &l)})
				}
			}
		}
		slices.SortFunc(all, func(a, b Event) int { return cmp.Compare(a.Place.Seq, b.Place.Seq) })
		p.seqs = seqs
		return all, nil
	})
}

// Seq returns the last line of the streams at a position.
func (p *Position) Seq() (last uint64) {
	for _, seq := range p.seqs {
		last = max(last, seq)
	}
	return last
}
