package question

import (
	"context"
	"fmt"
	"time"

	"kubejournal/internal/ask/argument"
	"kubejournal/internal/format/index"
)

// cut is a moment, and how it divides the lines of each stream.
type cut struct {
	argument.Moment
	live map[string]bool // streams that were followed then: the time at which a line was received counts
	gone map[string]bool // streams that were not watched any more then, while another one has their objects
	// What a stream received after this was made after the moment, whatever the second says in which it was made.
	until  map[string]time.Time
	passed passed
	seqs   map[string]uint64 // of a version: the last line of each stream that counts
	doubts []Doubt           // of a version, about all; of a time, about what had waited
}

// cut finds out how the streams were covered at a moment.
func (j *Journal) cut(ctx context.Context, s *argument.Selection, m argument.Moment) (*cut, error) {
	c := &cut{Moment: m, live: map[string]bool{}, gone: map[string]bool{}}
	switch {
	case m.Version > 0:
		return c, j.cutAtVersion(ctx, s, c)
	case m.Seq > 0:
		return c, nil
	}
	w, err := j.waitedAt(ctx, s, m, 0)
	if err != nil {
		return nil, err
	}
	c.passed, c.until, c.doubts = w.passed, w.until, w.doubts
	streams, _ := j.Coverage(s) // what is not known is in doubt
	var covered []string
	for _, stream := range streams {
		in, doubt := at(stream.Intervals, stream.Name, m)
		c.live[stream.Name] = in != nil && !in.Late
		if c.gone[stream.Name] = doubt != nil; doubt == nil {
			covered = append(covered, stream.Name)
		}
	}
	for stream, gone := range c.gone {
		c.gone[stream] = gone && s.Elsewhere(stream, covered)
	}
	return c, nil
}

// cutAtVersion finds out where each selected stream has a version of the server.
func (j *Journal) cutAtVersion(ctx context.Context, s *argument.Selection, c *cut) error {
	streams, err := j.StreamNames(ctx, s)
	if err != nil {
		return err
	}
	c.doubts = incomplete(s, streams)
	c.seqs = make(map[string]uint64)
	for _, name := range streams {
		seq, doubt, err := j.atVersion(ctx, name, c.Version)
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		if c.seqs[name] = seq; doubt != nil {
			c.doubts = append(c.doubts, *doubt)
		}
	}
	return nil
}

// includes reports whether a line of a stream was written by the moment: by when it was received or, where the stream
// was not followed then, by the time at which the change was made.
func (c *cut) includes(stream string, l *index.Line) bool {
	switch {
	case c.Version > 0:
		return l.Seq <= c.seqs[stream]
	case c.Seq > 0:
		return l.Seq <= c.Seq
	}
	if c.IsLatest() || !l.Time.After(c.Time) || c.passed.has(stream, l) {
		return true
	}
	until := c.until[stream]
	return !c.live[stream] && l.Late() && !l.Written.After(c.Time) && (until.IsZero() || !l.Time.After(until))
}
