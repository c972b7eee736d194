package person

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"kubejournal/internal/format/audit"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/segment"
)

const (
	// MostRequests is how many requests are kept, the latest: more than a server writes in Settle.
	MostRequests = 32 << 10
	// Settle is how old a line is when it is decided who made it: a request may be logged after its line is written, as
	// a log in batches is, and others that fit may still come.
	Settle = Wait + hold
	// Wait is how old a line is when requests are looked for, and hold is how much later no other line fits them.
	Wait = 45 * time.Second
	hold = 15 * time.Second
	// again is how far before the last line that is known a restart begins.
	again = 5 * time.Minute
	// edge is how much later than the latest request that is not there any more one was received that counts: nothing
	// that would fit the same line is missing.
	edge = 15 * time.Second
)

// Live matches the lines of a journal as they are written. What it names is what Match names with all requests, or
// less: where a request is needed that is not kept any more and, unless the logs are complete, where it is not certain
// by one request alone that it made the line.
type Live struct {
	path     string // of the journal's active file
	complete bool

	m       *matching
	recent  []*audit.Request // what is kept, about in the order in which it was answered
	most    int
	horizon time.Time // up to here a request may have been answered that is not kept
	ended   []string  // uids of objects that are gone, whose askers are still there

	in     segment.Reader
	next   uint64 // seq of the next line
	first  uint64 // of the segment in which the line before it is; 0 for none
	offset int64  // where that one ends
	before uint64 // its seq
}

// NewLive returns a Live for the journal whose active file is at path. It begins a little before the last line that is
// known, and needs the requests that were answered since: of a journal of which nothing is known, all of them. complete
// says that the logs have the requests to all API servers of the cluster.
func NewLive(path string, complete bool) (l *Live, since time.Time, err error) {
	l = &Live{path: path, complete: complete, m: newMatching(New()), most: MostRequests, next: 1}
	last, err := audit.Last(path)
	if err != nil || last == 0 {
		return l, time.Time{}, err
	}
	var found time.Time
	err = l.lines(context.Background(), last, func(raw *segment.RawLine) bool {
		if raw.Seq >= last {
			found = raw.Time()
		}
		return raw.Seq < last
	})
	if err != nil || found.IsZero() { // of a journal that was there before
		return l, time.Time{}, err
	}
	l.first, l.offset, l.before = 0, 0, 0
	since = found.Add(-again)
	l.horizon = since
	return l, since, nil
}

// Add adds a request, unless it is there.
func (l *Live) Add(r audit.Request) {
	if r.Answered.Before(l.horizon) || !l.m.add(&r) {
		return
	}
	l.recent = append(l.recent, &r)
	if len(l.recent) > l.most+l.most/4 {
		l.forget()
	}
}

// Lost says that requests which were answered up to a time are missing.
func (l *Live) Lost(until time.Time) {
	if until.After(l.horizon) {
		l.horizon = until
	}
}

// forget drops the oldest requests.
func (l *Live) forget() {
	slices.SortStableFunc(l.recent, func(a, b *audit.Request) int { return a.Answered.Compare(b.Answered) })
	n := len(l.recent) - l.most
	l.Lost(l.recent[n-1].Answered)
	l.recent = slices.Clone(l.recent[n:])
	m := l.m
	m.Requests = New()
	for _, r := range l.recent {
		m.add(r)
	}
	old := func(f fit, _ int) bool {
		return f.by.Answered.Before(l.horizon) &&
			!slices.ContainsFunc(m.pending, func(p found) bool { return p.fit == f })
	}
	maps.DeleteFunc(m.fits, old)
	maps.DeleteFunc(m.alone, old)
	for _, uid := range l.ended {
		delete(m.askers, uid)
	}
	if l.ended = nil; len(m.askers) > l.most { // of objects whose deletion never ends
		clear(m.askers)
	}
}

// Requests returns how many requests are kept.
func (l *Live) Requests() int { return len(l.recent) }

// lines yields the journal's lines from next on, but for those of files that end before the line from, or before any
// request that is kept, where the clock was not set.
func (l *Live) lines(ctx context.Context, from uint64, each func(*segment.RawLine) bool) error {
	all, err := segment.Snapshot(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range all {
			_ = s.Release() // it was only read
		}
	}()
	defer l.in.Close()
	begin := l.horizon
	if l.m.oldest.After(begin) {
		begin = l.m.oldest
	}
	for i, s := range all {
		if s.FirstSeq == 0 {
			continue
		}
		if i+1 < len(all) && all[i+1].FirstSeq > 0 {
			after := all[i+1]
			if after.FirstSeq <= from || !after.FirstTime.IsZero() && after.FirstTime.Before(begin.Add(-time.Hour)) {
				continue
			}
		}
		if s.FirstSeq == l.first {
			_, err = l.in.OpenAfter(s, l.offset, l.before)
		} else {
			err = l.in.Open(s, 0)
		}
		for n := 0; err == nil; n++ {
			if n%1000 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			var raw segment.RawLine
			if raw, err = l.in.Next(); err != nil || raw.Seq < l.next {
				continue
			}
			if !each(&raw) {
				return nil
			}
			l.first, l.offset, l.before = s.FirstSeq, raw.Offset+int64(len(raw.Bytes))+1, raw.Seq
		}
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("read %s: %w", s.Path, err)
		}
	}
	return nil
}

// Match matches the lines that were received up to a time, and returns what is known of those that are older by hold,
// in the order of seq.
func (l *Live) Match(ctx context.Context, until time.Time) (all []audit.Entry, err error) {
	err = l.lines(ctx, l.next, func(raw *segment.RawLine) bool {
		at := raw.Time()
		if at.After(until) {
			return false
		}
		l.next = raw.Seq + 1
		if len(l.recent) == 0 || at.Before(l.m.oldest.Add(-skew)) {
			return true // no request is as old
		}
		var fields line.Fields
		if fields.Parse(raw.Bytes) == nil {
			l.next = fields.Next()
			l.line(&fields)
		}
		return true
	})
	m := l.m
	n := 0
	for ; n < len(m.pending) && !m.pending[n].at.After(until.Add(-hold)); n++ {
		f := &m.pending[n]
		if m.soonest == skew && f.timed && f.match == audit.Exact {
			continue // what would tell is not known yet
		}
		if e, ok := m.entry(f); ok {
			all = append(all, e)
		}
	}
	m.pending = slices.Delete(m.pending, 0, n)
	slices.SortStableFunc(all, func(a, b audit.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, err
}

// line matches a line, of whose requests none may be missing because it is not kept any more.
func (l *Live) line(x *line.Fields) {
	m, uid, n := l.m, x.Unquoted(line.FieldUID), len(l.m.pending)
	_, asked := m.askers[uid]
	m.line(x)
	if x.Type() == line.Deleted && asked {
		l.ended = append(l.ended, uid)
		return // that was found out as the deletion was asked for
	}
	if slices.ContainsFunc(m.pending[n:], func(f found) bool { return !l.counts(&f) }) {
		m.pending = m.pending[:n]
		if _, now := m.askers[uid]; now && !asked {
			m.askers[uid] = nil
		}
	}
}

// counts reports whether what was found of a line is so whatever the requests are that are not kept any more and, where
// others may be missing, whatever these are: one of them may fit too, or have written what this one found there.
func (l *Live) counts(f *found) bool {
	switch {
	case !l.horizon.IsZero() && f.since.Before(l.horizon.Add(edge)):
		return false
	case l.complete:
		return true
	case f.by == nil:
		return false
	}
	return f.match == audit.Exact && strong(f.by) || f.match == audit.UID && f.by.Removed && f.by.Whole
}
