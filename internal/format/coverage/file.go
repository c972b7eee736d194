package coverage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/format/segment"
	"kubejournal/internal/host/disk"
)

// closeWait is how long Close waits for the last write.
const closeWait = 300 * time.Millisecond

// Options configures a File.
type Options struct {
	// Hole says that committed lines are missing in the middle of the journal, Elsewhere that lines were written to
	// another output since this file was: no interval continues.
	Hole, Elsewhere bool
	LeaseDuration   time.Duration // of leader election; 0 without it

	Disk   disk.FS          // default disk.OS
	Log    *zap.Logger      // default none
	Failed func()           // is called for each failure to write; default none
	Now    func() time.Time // default time.Now
}

// Progress is what a commit says of one stream, as checkpoint.Coverage has it, which says what each time means.
type Progress struct {
	Since, Confirmed, Pulse, Late, Read, Missed, MissedFrom, Differences int64
	// Lost is the reason of a GAP that is due or open; "" is none.
	Lost string
}

// File is the coverage file of a journal that is being written. Committed and End only change what is in memory, and
// never wait for the disk: one goroutine writes, and tries again with the next commit what has failed. Its methods are
// safe for concurrent use.
type File struct {
	path, journal string
	disk          disk.FS
	log           *zap.Logger
	failed        func()
	now           func() time.Time
	lease         uint32        // seconds
	opened        int64         // nothing from before is claimed that the file did not know
	wake          chan struct{} // holds one
	stop, ran     chan struct{}

	mu      sync.Mutex
	streams map[string]*current // guarded by mu, and so is all below
	keys    map[string]byte     // bits of HoldingBack, by stream
	names   []string            // by number; names[n] has the slot n
	serial  uint64              // of the last record
	seq     uint64              // of the commit that is being taken
	segment segmentRecord       // the newest; the zero segment is none
	begins  []segmentRecord     // to be written; their heads are still to be read
	ended   []numbered          // intervals before the last ones, to be written
	dropped int                 // of them, the oldest, since the write that is under way began
	named   int                 // how many names are written
	dirty   [2]int              // slots to write, [from, to)

	writing // the goroutine's, and Open's before it starts
}

// current is a stream's last interval.
type current struct {
	interval
	number  int
	segment uint64 // seq of the first line of the one that is active at its commit
	missed  int64  // the last Progress.Missed
	pulsed  bool   // in this process
	heard   int64  // when it was last confirmed in this process, also where that was taken back
	passed  bool   // a standby has read on after its end: what it misses from there on is not of the interval
	caught  int64  // of a late interval: when a pulse first said that all was read that had waited; 0 is not yet
	ended   byte   // its reason before that of a GAP, which may turn out to be none; 0 says that it went on

	// before are those since the same SYNCED, back to the last one in which something is confirmed, while nothing is in
	// this one. What takes back its pulses may take back theirs.
	before []interval
}

// numbered is an interval of the stream with that number.
type numbered struct {
	stream int
	interval
}

// Open takes over the coverage file of the journal at path, which this process has locked and read back, and replaces
// it with one that claims no more than the journal has. A file of another kind or version is left as it is: ErrForeign
// or ErrNewer. Any other error says that the file claims more than that and cannot be replaced: a line that is written
// now could make it look true. A crash leaves the old file or the new one.
func Open(path string, o Options) (*File, error) {
	o.Disk, o.Log = cmp.Or(o.Disk, disk.OS), cmp.Or(o.Log, zap.NewNop())
	if o.Failed == nil {
		o.Failed = func() {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &File{
		path: Path(path), disk: o.Disk, log: o.Log, failed: o.Failed, now: o.Now, opened: o.Now().UnixNano(),
		lease: uint32(min(max(o.LeaseDuration/time.Second, 0), maxLease)),
		wake:  make(chan struct{}, 1), stop: make(chan struct{}), ran: make(chan struct{}),
		streams: make(map[string]*current), keys: make(map[string]byte),
	}
	f.journal = strings.TrimSuffix(f.path, suffix)
	old, err := load(f.disk, f.path)
	if err == nil {
		// A stranger's would claim what nobody saw. It is replaced; where that is not allowed, the error says so.
		if info, statErr := f.disk.Stat(f.path); statErr == nil {
			err = disk.CheckForeign(f.path, info)
		}
	}
	if errors.Is(err, ErrDamaged) {
		f.setAside(err)
	}
	more := false
	switch {
	case errors.Is(err, ErrForeign), errors.Is(err, ErrNewer):
		return nil, fmt.Errorf("%s: %w", f.path, err)
	case err != nil:
		more, old = !errors.Is(err, fs.ErrNotExist), &content{}
	default:
		more, err = f.take(old, o)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrDamaged) {
		f.note(err)
	}
	f.before = old
	err = f.replace(old)
	if f.note(err); err != nil && more {
		if removeErr := f.disk.Remove(f.path); removeErr != nil {
			return nil, fmt.Errorf("%s claims what the journal does not have, and cannot be replaced: %w; remove it",
				f.path, errors.Join(err, removeErr))
		}
	}
	go f.run()
	return f, nil
}

// asideInfix is between the name of a damaged file and the time.
const (
	asideInfix = ".damaged-"
	asideTime  = "2006-01-02T15-04-05.000" // UTC
)

// setAside renames a damaged file, by which answers know that something is forgotten. A crash after it leaves no file.
func (f *File) setAside(why error) {
	kept := f.path + asideInfix + f.now().UTC().Format(asideTime)
	err := f.disk.Rename(f.path, kept)
	f.log.Error("the coverage file is damaged, beginning a new one: what was not watched until now is not known "+
		"any more",
		zap.String("kept", kept), zap.Errors("errors", []error{why, err}))
}

// SetAside returns the damaged coverage files of the journal whose active file is at path, by when they were set aside.
func SetAside(path string) iter.Seq2[time.Time, string] {
	return func(yield func(time.Time, string) bool) {
		path := Path(path)
		entries, _ := os.ReadDir(filepath.Dir(path)) // without one there is no journal
		for _, e := range entries {
			text, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+asideInfix)
			at, err := time.Parse(asideTime, text)
			if ok && err == nil && !yield(at, filepath.Join(filepath.Dir(path), e.Name())) {
				return
			}
		}
	}
}

// take takes over what an earlier process has written, less what the journal does not have, and reports whether there
// was any of that. What is left in old is what comes before each stream's last interval, by its new number.
func (f *File) take(old *content, o Options) (more bool, err error) {
	last := uint64(0)
	there, err := segment.List(f.journal)
	if err == nil {
		last, err = end(there)
	}
	if err != nil {
		*old = content{}
		return true, err
	}
	if n := len(old.segments); o.Hole && n > 0 {
		last = min(last, old.segments[n-1].first-1) // it may be anywhere in the last one
	}
	more = old.cut(last)
	old.segments = slices.DeleteFunc(old.segments, func(s segmentRecord) bool { return s.first > last })
	old.retire(there)
	f.serial = old.serial
	if n := len(old.segments); n > 0 {
		f.segment = old.segments[n-1]
	}
	before := make(map[uint32][]interval)
	for _, stream := range slices.Sorted(maps.Keys(old.intervals)) {
		name, all := old.names[stream], old.intervals[stream]
		if name == "" {
			continue // its record is damaged
		}
		c, last := f.add(name), len(all)-1
		before[uint32(c.number)], c.interval = all[:last], all[last]
		c.missed = c.to // what was missed before that is known here
		first := last
		for first > 0 && all[first].to <= all[first].from && all[first-1].since == all[first].since {
			first--
		}
		c.before = slices.Clone(all[first:last])
		if n := old.of(c.seq); n >= 0 {
			c.segment = old.segments[n].first
		}
		if c.reason == 0 {
			c.reason = reasonNumber(Unknown)
		}
		if c.ended = c.reason; isGap(c.reason) {
			c.ended = reasonNumber(Unknown)
		}
		if o.Elsewhere {
			c.since, c.before = 0, nil
		}
	}
	old.intervals = before
	return more, nil
}

// add makes a slot for a stream.
func (f *File) add(name string) *current {
	c := &current{number: len(f.names)}
	f.streams[name], f.names = c, append(f.names, name)
	return c
}

// Committed says that all lines up to seq are committed, the last one in the segment that begins with firstSeq, and
// with them these streams' progress.
func (f *File) Committed(seq, firstSeq uint64, moved iter.Seq2[string, Progress]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq = seq
	if firstSeq > 0 && firstSeq != f.segment.first {
		f.serial++
		next := segmentRecord{
			time: f.now().UnixNano(), first: firstSeq, before: f.segment.first, seq: seq, serial: f.serial,
		}
		if firstSeq == 1 {
			next.time = math.MinInt64 // there was no line before
		}
		f.segment, f.begins = next, append(f.begins, next)
	}
	for name, p := range moved {
		if len(name) > maxName {
			continue
		}
		c := f.streams[name]
		if c == nil {
			c = f.add(name)
		}
		if f.move(c, &p) {
			f.touch(c)
			c.seq, c.segment = seq, f.segment.first
		}
	}
	f.wakeUp()
}

// Followed says what a standby has committed. It has written no line, so this confirms nothing. But what it reads
// after its own term has ended, or loses then, may show that a watch had stalled in that term. If so, what only
// pulses have confirmed is taken back; the lines are in another replica's journal, if anywhere.
func (f *File) Followed(moved iter.Seq2[string, Progress]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, p := range moved {
		c := f.streams[name]
		switch {
		case c == nil || c.passed:
		case p.Missed > c.missed || p.Lost != "":
			c.passed = true
			to, before := p.MissedFrom, c.interval
			if p.Lost != "" {
				to = 0
			}
			if c.takeBack(to); c.reason == 0 {
				c.reason = before.reason
			}
			if c.interval != before {
				f.touch(c)
			}
		case p.Confirmed > c.end():
			c.passed = true
		}
	}
	f.wakeUp()
}

// Begin says by which keys of HoldingBack the entry of a stream, which is about to be watched, keeps changes out of the
// journal.
func (f *File) Begin(stream string, keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[stream] = 0
	for n, key := range HoldingBack {
		if slices.Contains(keys, key) {
			f.keys[stream] |= 1 << n
		}
	}
}

// End says that a stream is not watched any more, after a commit.
func (f *File) End(stream, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.streams[stream]; c != nil && c.reason == 0 {
		c.reason = reasonNumber(reason)
		f.touch(c)
	}
	f.wakeUp()
}

// touch notes that a slot has changed.
func (f *File) touch(c *current) {
	f.serial++
	c.serial = f.serial
	if f.dirty[0] == f.dirty[1] {
		f.dirty = [2]int{c.number, c.number + 1}
	}
	f.dirty = [2]int{min(f.dirty[0], c.number), max(f.dirty[1], c.number+1)}
}

// move makes an interval of what a commit says, and reports whether it has changed.
func (f *File) move(c *current, p *Progress) bool {
	before := c.interval
	c.passed = false
	switch {
	case p.Since == 0 && p.Lost == "":
		return false // a list that is not complete
	case p.Since > 0:
		f.extend(c, p)
	}
	if p.Lost != "" && c.since > 0 {
		c.takeBack(0)
		if !isGap(c.reason) {
			c.ended = c.reason
		}
		c.reason = reasonNumber(p.Lost)
		// what is lost may be from now on, by a clock that was set back
		c.to = max(c.from, min(c.to, f.now().UnixNano()))
	}
	return c.interval != before
}

// extend is move for a stream with a position that is confirmed up to a time.
func (f *File) extend(c *current, p *Progress) {
	if p.Missed > c.missed {
		c.missed = p.Missed
		c.takeBack(p.MissedFrom)
	}
	switch {
	case c.since != p.Since:
		c.takeBack(0)
		from := p.Since
		if p.Since < f.opened {
			from = p.Confirmed // what was before is not known to be in this journal
		}
		if from < f.opened {
			return
		}
		f.next(c, Unknown, interval{since: p.Since, from: from, to: from, differences: p.Differences})
	case p.Lost == "" && isGap(c.reason) && c.ended != 0: // there was none, but it had ended before
		c.reason = c.ended
	}
	c.keep(p.Read)
	if c.segment != f.segment.first && c.reason == 0 && max(p.Confirmed, p.Pulse) > c.end() {
		pulse := c.pulse
		c.pulse = 0
		f.next(c, continued,
			interval{late: c.late, since: c.since, from: c.to, to: c.to, pulse: pulse, differences: c.differences})
	}
	first := c.reason != 0 && !isGap(c.reason) // of this process
	late := p.Late
	if first {
		late = p.Confirmed
	}
	if c.pulsed && c.reason == 0 && max(p.Confirmed, p.Pulse) > c.end()+int64(Silence) {
		reason := Interrupted
		if late <= c.end() && max(p.Confirmed, p.Pulse) > c.heard+int64(Silence) {
			reason = Silent
		}
		f.lateNow(c, reason)
		late = max(late, p.Confirmed)
	}
	c.pulsed, c.heard = c.pulsed || p.Pulse > 0, max(c.heard, p.Confirmed, p.Pulse)
	if late > c.end() {
		f.lateNow(c, Interrupted)
		end := c.end()
		c.to, c.pulse, c.reason = max(c.to, min(late, p.Confirmed)), 0, 0
		c.pulseTo(end)
	}
	switch end := c.end(); {
	case p.Confirmed > c.to && c.late && p.Confirmed >= c.caught:
		// What came after the first pulse did not come late. It is known only now that the watch had not stalled then.
		if c.caught > 0 {
			c.to, c.pulse = max(c.from, c.caught, min(c.end(), p.Confirmed)), 0
		}
		from := c.end()
		f.next(c, CaughtUp,
			interval{since: c.since, from: from, to: max(from, p.Confirmed), differences: c.differences})
		c.pulseTo(end)
	case p.Confirmed > c.to:
		c.to, c.pulse = p.Confirmed, 0
		c.pulseTo(end)
	case p.Confirmed > 0 && max(c.from, p.Confirmed, p.Read) < c.to: // the clock has gone back
		c.to, c.pulse = max(c.from, p.Confirmed, p.Read), 0
	}
	if p.Pulse > c.end() && !isGap(c.reason) {
		switch {
		case c.reason != 0:
			f.lateNow(c, Interrupted)
			c.reason = 0
		case c.late && c.to > c.from && c.to >= p.Late && c.to <= p.Confirmed: // all that had waited was read by then
			f.next(c, CaughtUp, interval{since: c.since, from: c.to, to: c.to, differences: c.differences})
		case c.late && c.caught > 0 && c.caught >= late && c.pulsePast(c.caught) <= p.Pulse: // the same by a pulse
			c.pulseTo(c.pulsePast(c.caught))
			f.next(c, CaughtUp, interval{since: c.since, from: c.end(), to: c.end(), differences: c.differences})
		}
		if c.pulseTo(p.Pulse); c.late && (c.caught == 0 || c.caught < late) {
			c.caught = p.Pulse
		}
	}
	c.keep(p.Read)
	if p.Lost == "" && isGap(c.reason) {
		c.reason = 0 // there was none
	}
	if c.to > c.from {
		c.before = nil
	}
	c.heldBack |= f.keys[f.names[c.number]]
	c.lease = cmp.Or(f.lease, c.lease)
}

// takeBack takes back what pulses alone have confirmed after a time: the watch had stalled by then, or may have. Where
// that leaves nothing of the last interval, the one before it is the last one again.
func (c *current) takeBack(to int64) {
	for n := len(c.before) - 1; n >= 0 && c.to <= c.from && to <= c.from; n-- {
		c.interval, c.before, c.caught = c.before[n], c.before[:n], 0
		if c.late || c.reason == reasonNumber(continued) {
			c.reason = 0 // of a late one, what had waited was not read by its end
		}
	}
	if to < c.end() {
		c.caught = 0
		c.pulseTo(to)
	}
}

// keep makes final what pulses have confirmed up to a time, to the second: all that was made before has been read.
func (c *current) keep(read int64) {
	if kept := min(read-c.to, c.end()-c.to) / int64(time.Second); kept > 0 {
		c.to += kept * int64(time.Second)
		c.pulse -= uint32(kept)
	}
}

// lateNow begins a late interval where the last one ends, for a reason if that had none, unless that is late and
// continues: nothing says that what had waited was read by its end.
func (f *File) lateNow(c *current, reason string) {
	if !c.late || c.reason != 0 && c.pulse > 0 {
		end := c.end()
		f.next(c, reason, interval{late: true, since: c.since, from: end, to: end, differences: c.differences})
	}
}

// next begins another interval; the one before has ended for a reason, if for none yet.
func (f *File) next(c *current, reason string, i interval) {
	if c.to > c.from || c.since != i.since {
		c.before = nil
	}
	if !c.void() {
		last := numbered{c.number, c.interval}
		if last.reason == 0 {
			last.reason = reasonNumber(reason)
		}
		if last.seq == 0 { // it began with this commit, too
			last.seq = f.seq
		}
		f.serial++
		last.serial = f.serial
		if c.since == i.since {
			c.before = append(c.before, last.interval)
		}
		if f.ended = append(f.ended, last); len(f.ended) > maxIntervals { // the file could not be written for long
			f.ended = f.ended[1:] // nothing is moved: a write may be reading them
			f.dropped++
		}
	}
	i.heldBack, i.lease = f.keys[f.names[c.number]], f.lease
	c.interval, c.caught, c.ended = i, 0, 0
}

func (f *File) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Close ends all intervals that continue, if the daemon has stopped with everything committed, and writes a last time.
func (f *File) Close(clean bool) {
	if clean {
		f.mu.Lock()
		for _, c := range f.streams {
			if c.reason == 0 && !c.void() {
				c.reason = reasonNumber(Stopped)
				f.touch(c)
			}
		}
		f.mu.Unlock()
	}
	close(f.stop)
	select {
	case <-f.ran:
	case <-time.After(closeWait): // a write that is blocked is left behind
	}
}
