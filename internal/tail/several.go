package tail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/discovery"
	"kubejournal/internal/event"
	"kubejournal/internal/line"
)

// Files shows several journals as one: those of replicas in the order of term and seq, those of shards by time. A line whose id was
// shown a short while ago is a repeat, and left out.
func Files(ctx context.Context, paths []string, o Options, p *Printer) error {
	if len(paths) == 1 {
		return File(ctx, paths[0], o, p)
	}
	p.separate = o.Filter.separates()
	several := &several{o: o, p: p, came: make(chan message), ids: make(map[string]bool), anew: make(map[string]bool), owners: make(map[uint64]map[string]*source)}
	var notices sync.Mutex
	notice := func(path string) func(string) {
		return func(text string) {
			notices.Lock()
			defer notices.Unlock()
			o.notice("%s: %s", path, text)
		}
	}
	defer func() {
		for _, s := range several.sources {
			s.t.close()
		}
	}()
	n, found := newNames(&o.Filter), false
	for i, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return isDirectory(path)
		} else if err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("open journal %s: not a regular file; a stream of lines can only be shown alone", path)
		}
		s := &source{number: i, path: path, came: several.came, taken: make(chan struct{}, 1)}
		of := o
		of.Notice = notice(path)
		s.t = newTail(path, of, s)
		several.sources = append(several.sources, s)
		err := s.t.open()
		if err == nil && n != nil && !found {
			found, err = s.t.lookFor(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	if n != nil && !found && ctx.Err() == nil {
		if err := n.fault(&o); err != nil {
			return err
		}
	}
	running, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	for _, s := range several.sources {
		s.ctx = running
		readers.Go(func() { s.run() })
	}
	err := several.run(ctx)
	stop()
	readers.Wait()
	if err == nil && !several.shown && !o.Follow && o.Lines != 0 {
		o.noticeNothing()
	}
	return errors.Join(err, p.End())
}

// several shows the lines of sources, each of which has one line at most that waits.
type several struct {
	o       Options
	p       *Printer
	sources []*source
	came    chan message
	last    [][]byte // the last lines of what was there, until all of that is read
	begun   bool     // it is
	shown   bool
	ids     map[string]bool
	anew    map[string]bool // streams whose list is not told yet behind a GAP with which versions begin anew
	recent  []string        // ids, the next one to be forgotten at oldest
	oldest  int
	line    line.Fields
	cluster string                        // its uid, as the first line of any source has it that says so
	by      *source                       // which one
	owners  map[uint64]map[string]*source // by term and stream: whose lines they are
}

// message is what comes of a source: a line, or else that there is none for now, or that it has ended.
type message struct {
	source int
	line   []byte
	ended  bool
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
	waits, over bool
	raw         []byte
	term, seq   uint64
	shard       string
	time        time.Time
}

func (s *source) run() {
	err := s.t.run(s.ctx)
	select {
	case s.came <- message{source: s.number, ended: true, err: err}:
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
			if err := s.begin(); err != nil {
				return err
			}
			if s.over() {
				return nil
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
			of.over = m.ended
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
	if err := s.line.Parse(raw); err != nil {
		return err
	}
	of.seq, of.time = s.line.Seq, s.line.Time
	of.term, _ = strconv.ParseUint(string(s.line.Value(line.Term)), 10, 64) // 0 without leader election
	stream := s.line.Text(line.Stream)
	_, of.shard = discovery.CutShard(string(stream))
	return s.belongs(of, stream)
}

// belongs returns an error where the line that was read shows that the journals are not those of one cluster's replicas and shards.
func (s *several) belongs(of *source, stream []byte) error {
	if uid := s.line.Text(line.ClusterUID); len(uid) > 0 && s.cluster == "" {
		s.cluster, s.by = string(uid), of
	} else if len(uid) > 0 && s.cluster != string(uid) {
		return fmt.Errorf("%s are journals of different clusters; show one at a time", both(s.by, of))
	}
	if s.owners[of.term] == nil {
		s.owners[of.term] = make(map[string]*source)
	}
	switch owner := s.owners[of.term][string(stream)]; owner {
	case nil:
		s.owners[of.term][string(stream)] = of
	case of:
	default:
		return fmt.Errorf("%s are not journals of replicas with one Lease, or of shards: both have lines of stream %s from the same turn; show one at a time",
			both(owner, of), stream)
	}
	return nil
}

func both(a, b *source) string {
	if a.number > b.number {
		a, b = b, a
	}
	return a.path + " and " + b.path
}

// first returns the source with the line to be shown next.
func (s *several) first() (first *source) {
	for _, of := range s.sources {
		if of.raw != nil && (first == nil || of.compare(first) < 0) {
			first = of
		}
	}
	return first
}

func (s *source) compare(o *source) int {
	if s.shard == o.shard && s.term != o.term {
		return cmp.Compare(s.term, o.term)
	}
	return s.time.Compare(o.time)
}

func (s *several) over() bool {
	for _, of := range s.sources {
		if !of.over {
			return false
		}
	}
	return true
}

// begin shows the last lines of what was there, once all of it is read.
func (s *several) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	for _, raw := range s.last {
		if err := s.print(raw); err != nil {
			return err
		}
	}
	if s.last = nil; !s.shown && s.o.Follow && s.o.Lines != 0 {
		s.o.noticeNothing()
	}
	return nil
}

// remembered is how many ids are compared: a takeover repeats what came in the last seconds before it.
const remembered = 1 << 16

// take shows a line, unless it is a repeat.
func (s *several) take(raw []byte) error {
	if err := s.line.Parse(raw); err != nil {
		return err
	}
	stream := string(s.line.Text(line.Stream)) + " "
	anew := event.GapReason(s.line.Text(line.Reason)).BeginsAnew()
	if anew || s.anew[stream] && string(s.line.Text(line.Type)) == string(event.Synced) { // what has these ids from here on is something else
		maps.DeleteFunc(s.ids, func(id string, _ bool) bool { return strings.HasPrefix(id, stream) })
		s.anew[stream] = anew
	}
	if id := stream + string(s.line.Text(line.ID)); !s.line.AboutStream() {
		if s.ids[id] {
			return nil
		}
		s.ids[id] = true
		if len(s.recent) < remembered {
			s.recent = append(s.recent, id)
		} else {
			delete(s.ids, s.recent[s.oldest])
			s.recent[s.oldest] = id
			s.oldest = (s.oldest + 1) % remembered
		}
	}
	if s.begun || s.o.Lines < 0 {
		return s.print(raw)
	}
	s.last = append(s.last, raw)
	s.last = s.last[max(len(s.last)-s.o.Lines, 0):]
	return nil
}

func (s *several) print(raw []byte) error {
	if err := s.line.Parse(raw); err != nil {
		return err
	}
	s.shown = true
	return s.p.Print(&s.line)
}
