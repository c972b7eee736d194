package follow

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/ask/archive"
	"kubejournal/internal/ask/argument"
	"kubejournal/internal/ask/merge"
	"kubejournal/internal/ask/question"
	"kubejournal/internal/format/line"
)

// several shows the lines that come to sources, each of which has one line at most that waits, in the order in which
// package merge has them. A line whose event was shown a short while ago is a repeat, and left out. seq counts on from
// what a history has.
type several struct {
	o         *Options
	match     *argument.Matcher
	p         *Printer
	sources   []*source
	order     *merge.Order
	came      chan message
	next      uint64          // seq
	events    map[string]int  // where in recent they are, by stream and merge.EventOf
	restarted map[string]bool // streams after a GAP that restarts versions, until their list is complete
	recent    []string        // events, those that are forgotten too; the next one to be replaced is at oldest
	oldest    int
	line      line.Fields
	cluster   string // its uid, as the first line has it that says so
}

func newSeveral(o *Options, p *Printer) *several {
	return &several{
		o: o, match: &argument.Matcher{Filter: &o.Filter}, p: p, came: make(chan message), next: 1,
		events: make(map[string]int), restarted: make(map[string]bool),
	}
}

// remember takes the last lines of journals that were merged, which the next leader may repeat.
func (s *several) remember(ctx context.Context, j *question.Journal) error {
	s.order = j.Order()
	for l, err := range j.Last(ctx, &argument.Filter{Selection: s.o.Filter.Selection}, remembered) {
		if err != nil {
			return err
		}
		s.repeats(l)
		s.next = l.Seq + 1
	}
	return nil
}

// follow shows the lines that come to journals.
func (s *several) follow(ctx context.Context, ends []archive.End) error {
	defer func() {
		for _, of := range s.sources {
			of.t.close()
		}
	}()
	var notices sync.Mutex
	for i := range ends {
		end := &ends[i]
		of := &source{number: i, path: end.Path, came: s.came, taken: make(chan struct{}, 1)}
		o := Options{Follow: true, Filter: argument.Filter{Selection: s.o.Filter.Selection}}
		o.Notice = func(text string) {
			notices.Lock()
			defer notices.Unlock()
			s.o.notice("%s: %s", end.Path, text)
		}
		of.t = newTail(end.Path, o, of)
		s.sources = append(s.sources, of)
		if err := of.t.open(end); err != nil {
			return err
		}
	}
	running, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	for _, of := range s.sources {
		of.ctx = running
		readers.Go(func() { of.run() })
	}
	err := s.run(ctx)
	stop()
	readers.Wait()
	return err
}

// message is what comes of a source: a line, or else that there is none for now, or why it has ended.
type message struct {
	source int
	line   []byte
	err    error
}

// source is one journal.
type source struct {
	number int
	path   string
	t      *tail
	ctx    context.Context // of the one call of Files
	came   chan<- message
	taken  chan struct{} // has room for the one line that waits, whose source may have ended
	idle   bool          // it has said so

	// What several knows of it.
	waits bool
	raw   []byte
	line  line.Fields // raw, if there is any
}

func (s *source) run() {
	err := s.t.follow(s.ctx) // which does not end by itself
	select {
	case s.came <- message{source: s.number, err: err}:
	case <-s.ctx.Done():
	}
}

// Print waits until the line was taken.
func (s *source) Print(l *line.Fields) error {
	s.idle = false
	select {
	case s.came <- message{source: s.number, line: bytes.Clone(l.Raw)}:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	select {
	case <-s.taken:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *source) showBad(raw []byte, o *Options) error {
	o.notice("not a journal line: %s", describeBad(nil, raw))
	return nil
}

// Flush says that there is no other line for now.
func (s *source) Flush() error {
	if s.idle {
		return nil
	}
	s.idle = true
	select {
	case s.came <- message{source: s.number}:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *several) run(ctx context.Context) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	reading := len(s.sources) // of which nothing is known
	for ctx.Err() == nil {
		if reading == 0 {
			first := s.first()
			if first != nil {
				raw := first.raw
				first.raw = nil
				first.taken <- struct{}{}
				reading++
				first.waits = false
				if err := s.take(raw); err != nil {
					return err
				}
				continue
			}
			if err := s.p.Flush(); err != nil || s.o.Gone != nil && s.o.Gone() {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-poll.C:
		case m := <-s.came:
			if m.err != nil {
				return m.err
			}
			of := s.sources[m.source]
			if !of.waits {
				reading--
			}
			of.waits = true
			if m.line != nil {
				if err := s.read(of, m.line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// read notes where a line belongs.
func (s *several) read(of *source, raw []byte) error {
	of.raw = raw
	if err := of.line.Parse(raw); err != nil {
		return err
	}
	s.order.Has(of.number, string(of.line.Text(line.FieldStream)))
	switch uid := string(of.line.Text(line.FieldClusterUID)); {
	case uid == "" || uid == s.cluster:
	case s.cluster == "":
		s.cluster = uid
	default:
		return fmt.Errorf("%s is a journal of another cluster; show one at a time", of.path)
	}
	return nil
}

// first returns the source with the line to be shown next.
func (s *several) first() *source {
	first := s.order.First(func(n int) *line.Fields {
		if s.sources[n].raw == nil {
			return nil
		}
		return &s.sources[n].line
	})
	if first < 0 {
		return nil
	}
	return s.sources[first]
}

// remembered is how many events are compared: a takeover repeats what came in the last seconds before it.
const remembered = 1 << 16

// take shows a line, unless it is a repeat.
func (s *several) take(raw []byte) error {
	if err := s.line.Parse(raw); err != nil {
		return err
	}
	if s.repeats(&s.line) {
		return nil
	}
	if err := s.line.Parse(merge.Renumbered(&s.line, s.next)); err != nil {
		return err
	}
	if s.next++; !s.match.Match(&s.line) {
		return nil
	}
	return s.p.Print(&s.line)
}

// repeats reports whether a line came before, and remembers it.
func (s *several) repeats(l *line.Fields) bool {
	stream := string(l.Text(line.FieldStream)) + " "
	newEpoch := line.Reason(l.Text(line.FieldReason)).NewEpoch()
	// What has these versions after it is something else.
	if newEpoch || s.restarted[stream] && l.Type() == line.Synced {
		maps.DeleteFunc(s.events, func(e string, _ int) bool { return strings.HasPrefix(e, stream) })
		s.restarted[stream] = newEpoch
	}
	if l.AboutStream() || l.SaysRemoved() {
		return false
	}
	e := stream + merge.EventOf(l)
	_, again := s.events[e]
	if !again {
		s.rememberEvent(e)
	}
	return again
}

// rememberEvent notes an event, in the place of the oldest one. That may have been forgotten before, and be there
// again at another place.
func (s *several) rememberEvent(e string) {
	if len(s.recent) < remembered {
		s.recent = append(s.recent, "")
	}
	if at, there := s.events[s.recent[s.oldest]]; there && at == s.oldest {
		delete(s.events, s.recent[s.oldest])
	}
	s.recent[s.oldest], s.events[e] = e, s.oldest
	s.oldest = (s.oldest + 1) % remembered
}
