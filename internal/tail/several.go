package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kubejournal/internal/discovery"
	"kubejournal/internal/event"
	"kubejournal/internal/line"
	"kubejournal/internal/merge"
)

// Files shows several journals as one, in the order in which package merge has them: those of replicas by term and seq,
// those of shards by time. A line whose id was shown a short while ago is a repeat, and left out.
func Files(ctx context.Context, paths []string, o Options, p *Printer) error {
	if len(paths) == 1 {
		return File(ctx, paths[0], o, p)
	}
	p.separate = o.Filter.separates()
	several := &several{
		o: o, p: p, order: merge.NewOrder(len(paths)), came: make(chan message),
		ids: make(map[string]int), anew: make(map[string]bool), owners: make(map[string][]owner),
	}
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
	if err := several.findOrder(ctx); err != nil {
		return err
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
	order   *merge.Order
	came    chan message
	last    [][]byte // the last lines of what was there, until all of that is read
	begun   bool     // it is
	shown   bool
	ids     map[string]int  // where in recent they are
	anew    map[string]bool // streams whose list is not told yet behind a GAP with which versions begin anew
	recent  []string        // ids, those that are forgotten too; the next one to be replaced is at oldest
	oldest  int
	line    line.Fields
	cluster string             // its uid, as the first line of any source has it that says so
	by      *source            // which one
	owners  map[string][]owner // by stream: whose lines are of the latest terms, at most rememberedTerms
}

// owner is the source of a stream's lines in a term.
type owner struct {
	term uint64
	of   *source
}

// rememberedTerms is how many terms of a stream are compared. Journals of one order are read at the same terms.
const rememberedTerms = 64

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
	line        line.Fields // raw, if there is any
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

// findOrder finds out which journals have streams in common, as far as that says in which order their lines come.
// Streams that are not there yet are taken as they come.
func (s *several) findOrder(ctx context.Context) error {
	var failed error
	var all []func() (string, bool)
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for _, of := range s.sources {
		next, stop := iter.Pull(of.t.streams(ctx, &failed))
		all, stops = append(all, next), append(stops, stop)
	}
	// One by one, since replicas' journals soon have one in common.
	for more := true; more && !s.order.One() && failed == nil; {
		more = false
		for n, next := range all {
			if name, ok := next(); ok {
				s.order.Has(n, name)
				more = true
			}
		}
	}
	return failed
}

// streams yields the names of the streams that a journal has lines of, each once: of the active file from its end, of
// the others by their indexes where these are there.
func (t *tail) streams(ctx context.Context, failed *error) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := make(map[string]bool)
		is := func(name string) (more bool) {
			if seen[name] {
				return true
			}
			seen[name] = true
			return yield(name)
		}
		var l line.Fields
		more := true
		visit := func(raw []byte) (wanted, done bool) {
			if l.Parse(raw) == nil && !seen[string(l.Text(line.Stream))] {
				more = is(string(l.Text(line.Stream)))
			}
			return false, !more
		}
		if t.in.f != nil {
			if _, err := placeBackward(ctx, t.in.f, visit); err != nil {
				*failed = err
				return
			}
		}
		for n := len(t.files) - 1; n >= 0 && more && ctx.Err() == nil; n-- {
			x, in, err := t.files[n].OpenIndex()
			if err != nil { // the file says it
				for raw := range t.linesOf(ctx, &t.otherLines, t.files[n], 0) {
					if visit(raw); !more {
						break
					}
				}
				continue
			}
			for k := 0; more && k < len(x.Streams); k++ {
				more = is(x.Streams[k].Name)
			}
			_ = in.Close() // it is only read
		}
	}
}

// read notes where a line belongs.
func (s *several) read(of *source, raw []byte) error {
	of.raw = raw
	if err := of.line.Parse(raw); err != nil {
		return err
	}
	return s.belongs(of)
}

// belongs returns an error where the line that was read shows that the journals are not those of one cluster's replicas and shards.
func (s *several) belongs(of *source) error {
	if uid := of.line.Text(line.ClusterUID); len(uid) > 0 && s.cluster == "" {
		s.cluster, s.by = string(uid), of
	} else if len(uid) > 0 && s.cluster != string(uid) {
		return fmt.Errorf("%s are journals of different clusters; show one at a time", both(s.by, of))
	}
	term, _ := strconv.ParseUint(string(of.line.Value(line.Term)), 10, 64) // 0 without leader election
	stream := string(of.line.Text(line.Stream))
	owners := s.owners[stream]
	at := slices.IndexFunc(owners, func(o owner) bool { return o.term == term })
	if at < 0 {
		s.order.Has(of.number, stream)
		if _, shard := discovery.CutShard(stream); term > 0 {
			s.order.Has(of.number, "?"+shard) // no stream has such a name; replicas may have written about different ones
		}
		owners = append(owners, owner{term, of})
		s.owners[stream] = owners[max(0, len(owners)-rememberedTerms):]
		return nil
	}
	if other := owners[at].of; other != of {
		return fmt.Errorf("%s are not journals of replicas with one Lease, or of shards: both have lines of stream %s from the same turn; show one at a time",
			both(other, of), stream)
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
		maps.DeleteFunc(s.ids, func(id string, _ int) bool { return strings.HasPrefix(id, stream) })
		s.anew[stream] = anew
	}
	if id := stream + string(s.line.Text(line.ID)); !s.line.AboutStream() {
		if _, again := s.ids[id]; again {
			return nil
		}
		s.remember(id)
	}
	if s.begun || s.o.Lines < 0 {
		return s.print(raw)
	}
	s.last = append(s.last, raw)
	s.last = s.last[max(len(s.last)-s.o.Lines, 0):]
	return nil
}

// remember notes an id, in the place of the oldest one. That may have been forgotten before, and be there again at
// another place.
func (s *several) remember(id string) {
	if len(s.recent) < remembered {
		s.recent = append(s.recent, "")
	}
	if at, there := s.ids[s.recent[s.oldest]]; there && at == s.oldest {
		delete(s.ids, s.recent[s.oldest])
	}
	s.recent[s.oldest], s.ids[id] = id, s.oldest
	s.oldest = (s.oldest + 1) % remembered
}

func (s *several) print(raw []byte) error {
	if err := s.line.Parse(raw); err != nil {
		return err
	}
	s.shown = true
	return s.p.Print(&s.line)
}
