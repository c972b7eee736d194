package watcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/recorder"
)

const (
	// pageSize is how many objects a page of a list is asked for; the same as
	// client-go's pager.
	pageSize = 500
	// maxExpired is how often a list in pages may expire before it is asked
	// for in one answer.
	maxExpired = 2
	// listIdle is how long a streamed list may be silent before it counts as not
	// supported, and listPatience how long all its pauses may be that are
	// longer than listPause: a server that does not know sendInitialEvents
	// ignores it, and sends what happens now.
	listIdle     = 30 * time.Second
	listPatience = 2 * time.Minute
	listPause    = time.Second
	// batchBytes is how large a batch of a list grows.
	batchBytes = 64 << 10
)

// list reads all objects, writes the difference, and goes on watching from
// there. It always returns an error: why that ended.
func (s *Stream) list(ctx context.Context) error {
	s.setState(Listing, "")
	if !s.paged {
		err := s.listStreamed(ctx)
		if s.valid() || !refusesStreamedList(err) {
			return err // with a position it was the watch behind the list that ended
		}
		s.log.Info("server does not stream lists, reading pages", zap.Error(err))
		s.paged = true
	}
	if err := s.listPaged(ctx); err != nil {
		return err
	}
	return s.watch(ctx)
}

// listStreamed lists through a watch with sendInitialEvents (KEP-3157): objects
// first, a bookmark at their end, and then the watch goes on.
func (s *Stream) listStreamed(ctx context.Context) error {
	yes := true
	options := v1.ListOptions{
		SendInitialEvents:    &yes,
		ResourceVersionMatch: v1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	}
	return s.open(ctx, options, listTimeout, func(f *frames) error {
		if err := s.readInitial(ctx, f); err != nil {
			return err
		}
		return s.follow(ctx, f)
	})
}

// readInitial reads a watch up to the end of its initial events.
func (s *Stream) readInitial(ctx context.Context, f *frames) error {
	l, err := s.newListing(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	for patience := listPatience; ; {
		waiting := time.Now()
		frame, err := f.next(min(listIdle, patience))
		switch {
		case errors.Is(err, errWatchEnded):
			return io.ErrUnexpectedEOF // in the middle of a list that is no healthy end
		case errors.Is(err, errSilent):
			return errSilentList
		case err != nil:
			return err
		}
		received := time.Now()
		if pause := received.Sub(waiting); pause > listPause {
			patience -= pause
		}
		rv, err := l.takeFrames(ctx, f, frame, received)
		if err != nil {
			return err
		}
		if rv != "" {
			return l.finish(ctx, rv)
		}
	}
}

// listPaged lists in pages. A list that expires on the way is begun again from
// the start, after a pause: nothing of it counts.
func (s *Stream) listPaged(ctx context.Context) error {
	limit := int64(pageSize)
	for expired := 0; ; {
		err := s.readPages(ctx, limit)
		if err == nil || !isExpired(err) || limit == 0 {
			return err
		}
		if expired++; expired >= maxExpired {
			limit = 0
		}
		s.log.Info("list expired before its end, beginning again", zap.Error(err))
		if !sleep(ctx, backoffFirst+rand.N(backoffFirst)) {
			return ctx.Err()
		}
	}
}

func (s *Stream) readPages(ctx context.Context, limit int64) error {
	l, err := s.newListing(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	var rv, token string
	for {
		meta, err := l.readPage(ctx, limit, token)
		if err != nil {
			return err
		}
		if meta.ResourceVersion == "" {
			// A proxy's {}, say: taken for the last page it would end the list,
			// and what the others hold would count as deleted.
			return errNoListVersion
		}
		// All pages show one version; the first names it.
		if rv == "" {
			rv = meta.ResourceVersion
		}
		if token = meta.Continue; token == "" {
			break
		}
	}
	return l.finish(ctx, rv)
}

// listing is one attempt at a list.
type listing struct {
	s      *Stream
	diff   diff
	began  time.Time
	origin event.Origin
	gap    string // reason of the GAP line, "" for none
	skip   bool   // take objects as known without lines
	news   bool   // the list differs from what is known
	direct bool   // nothing is known: write while reading
	opened bool   // count goes on from that of the GAP line
	spool  spool
	batch  *recorder.Batch
	count  event.Count
	line   []byte // scratch: the line being made
}

// newListing waits until the checkpoint knows all that this stream has
// submitted, so that the difference is taken against all of it.
func (s *Stream) newListing(ctx context.Context) (*listing, error) {
	if err := s.rec.Flush(ctx); err != nil {
		return nil, err
	}
	s.tell.committed()
	empty, err := s.store.Empty(s.spec.Name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStore, err)
	}
	l := &listing{
		s: s, began: time.Now(),
		origin: event.FromRelist, gap: s.owed(),
		direct: empty && s.owed() == "",
		spool:  spool{dir: s.spec.SpoolDir},
		batch:  s.lane.Batch(),
	}
	if l.gap == "" {
		l.origin = event.FromSnapshot
	}
	l.skip = s.spec.SkipInitial && s.state.ResourceVersion == "" && s.state.Open == nil
	if !empty {
		l.diff.known = l.lookup
	}
	return l, nil
}

func (l *listing) lookup(namespace, name string) (checkpoint.Known, bool, error) {
	k, ok, err := l.s.store.Get(l.s.spec.Name, namespace, name)
	if err != nil {
		err = fmt.Errorf("%w: %w", errStore, err)
	}
	return k, ok, err
}

func (l *listing) close() {
	l.diff.seen.release()
	l.spool.close()
	if l.batch != nil {
		l.batch.Release()
	}
}

// takeFrames takes a frame and those at hand behind it, up to the bookmark that
// ends the initial events: rv is its version, empty while the list goes on.
func (l *listing) takeFrames(ctx context.Context, f *frames, frame []byte, received time.Time) (rv string, err error) {
	for size := 0; ; {
		if rv, err = l.takeFrame(ctx, frame, received); rv != "" || err != nil {
			return rv, err
		}
		if size += len(frame); size >= chunkBytes {
			break
		}
		var ok bool
		if frame, ok, err = f.more(); err != nil {
			return "", err
		}
		if !ok {
			break
		}
	}
	return "", l.submit(ctx)
}

func (l *listing) takeFrame(ctx context.Context, frame []byte, received time.Time) (rv string, err error) {
	t, object, err := event.SplitWatch(frame)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errBadFrame, err)
	}
	if t == event.Error {
		return "", statusError(object)
	}
	o := &l.s.object
	if err := l.s.render.Scan(object, o); err != nil {
		return "", fmt.Errorf("%w: %w", errBadFrame, err)
	}
	switch t {
	case event.Bookmark:
		if !o.InitialEventsEnd {
			// Bookmarks only begin behind the one that ends a streamed list.
			return "", errSilentList
		}
		if len(o.ResourceVersion) == 0 {
			return "", errNoListVersion
		}
		return string(o.ResourceVersion), nil
	case event.Added, event.Modified, event.Deleted:
		return "", l.take(ctx, t, received, o)
	default:
		return "", fmt.Errorf("%w: type %q", errBadFrame, t)
	}
}

// readPage reads one page. What ends the request does not end the writing of
// what it brought: that waits with the stream's context.
func (l *listing) readPage(ctx context.Context, limit int64, token string) (event.ListMeta, error) {
	meta, err := l.s.readPage(ctx, limit, token, func(o *event.Object) error {
		return l.take(ctx, event.Added, time.Now(), o)
	})
	if err != nil {
		return meta, err
	}
	return meta, l.submit(ctx)
}

// readPage calls take with each object of a page.
func (s *Stream) readPage(ctx context.Context, limit int64, token string, take func(*event.Object) error) (event.ListMeta, error) {
	request, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := s.client.list(request, cancel, s.spec.Target, limit, token)
	if err != nil {
		return event.ListMeta{}, err
	}
	defer body.Close()
	items := event.NewListReader(newIdleReader(body, cancel), maxObject)
	for {
		item, err := items.Next()
		if errors.Is(err, io.EOF) {
			return items.Meta(), nil
		}
		if err != nil {
			return event.ListMeta{}, listError(err)
		}
		if err := s.render.Scan(item, &s.object); err != nil {
			return event.ListMeta{}, fmt.Errorf("%w: %w", errBadFrame, err)
		}
		if err := take(&s.object); err != nil {
			return event.ListMeta{}, err
		}
	}
}

// take takes one object of the list.
func (l *listing) take(ctx context.Context, t event.Type, received time.Time, o *event.Object) error {
	waits, err := l.waits(o)
	if err != nil {
		return err
	}
	v, t, err := l.diff.observe(t, o.Namespace, o.Name, o.UID, o.ResourceVersion)
	if err != nil {
		return err
	}
	switch v {
	case isRepeat:
		return nil
	case isUnchanged:
		l.count.Unchanged++
		return l.keepMissing(ctx, o)
	}
	e := spooled{typ: t, received: received, namespace: o.Namespace, name: o.Name, uid: o.UID, version: o.ResourceVersion}
	if l.skip {
		l.count.Unchanged++
		e.withheld = l.s.tell.withholds(o)
		if e.kept, err = l.s.tell.silent(o, e.withheld); err != nil {
			return err
		}
		return l.wait(ctx, &e)
	}
	var before kept
	if !waits {
		if before, err = l.s.tell.before(t, o.Namespace, o.Name); err != nil {
			return err
		}
	}
	out, err := l.s.tell.tell(l.line[:0], event.Line{Type: t, Origin: l.origin, Received: received}, o, before)
	if err != nil {
		return fmt.Errorf("%w: %w", errBadFrame, err)
	}
	if !out.told && t != event.Deleted {
		l.count.Unchanged++
	}
	l.line = out.line
	e.line, e.withheld, e.kept = out.line, out.withheld, out.kept
	return l.wait(ctx, &e)
}

// waits tells whether the version before of an object, which an event of it is to
// be compared with, is one that this list has shown, and waits in the spool.
func (l *listing) waits(o *event.Object) (bool, error) {
	if l.s.tell.keep == nil || l.direct {
		return false, nil
	}
	last := l.diff.seen.get(identify(o.UID, o.Namespace, o.Name))
	if last == 0 {
		return false, nil
	}
	k, ok, err := l.lookup(string(o.Namespace), string(o.Name))
	return !ok || k.UID != string(o.UID) || parseVersion([]byte(k.ResourceVersion)) != last, err
}

// keepMissing keeps an object that is known at this version, where what is kept of
// it lacks something.
func (l *listing) keepMissing(ctx context.Context, o *event.Object) error {
	if l.s.tell.keep == nil {
		return nil
	}
	k, _, err := l.lookup(string(o.Namespace), string(o.Name))
	if err != nil {
		return err
	}
	value, err := l.s.tell.missing(o, k.Withheld)
	if err != nil || value == nil {
		return err
	}
	l.s.tell.keep.put(l.batch, o.Namespace, o.Name, value)
	return l.submitFull(ctx)
}

// wait writes a line where nothing is known, and has it wait else.
func (l *listing) wait(ctx context.Context, e *spooled) error {
	l.news = true
	if l.direct {
		return l.write(ctx, e)
	}
	return l.spool.add(e)
}

func count(c *event.Count, t event.Type) {
	switch t {
	case event.Added:
		c.Added++
	case event.Modified:
		c.Modified++
	case event.Deleted:
		c.Deleted++
	}
}

// write puts a line, if there is one, and what it makes known into the batch.
func (l *listing) write(ctx context.Context, e *spooled) error {
	if len(e.line) > 0 {
		l.batch.AddLine(append(l.batch.Lines(), e.line...), e.typ, l.origin, e.received)
		count(&l.count, e.typ)
	}
	l.s.tell.know(l.batch, e.typ, e.namespace, e.name, e.uid, e.version, e.withheld, e.kept)
	return l.submitFull(ctx)
}

// finish closes the list, which is complete and shows the version rv: GAP,
// what is gone, what is new, SYNCED.
func (l *listing) finish(ctx context.Context, rv string) error {
	s := l.s
	if l.gap != "" && ahead(s.from(), rv) {
		// Whatever the list was owed for: the server's versions count from an
		// earlier one again.
		l.gap = reasonAhead
	}
	if l.gap != "" && l.gap != reasonAhead && s.state.Open == nil && s.from() == rv && !l.news {
		gone, err := l.anyGone()
		if err != nil {
			return err
		}
		if !gone {
			// Nothing happened since, so there is no gap; and the lines would
			// have the ids of those that stand at this version already.
			l.batch.Changes.State = s.complete(rv, nil, l.began)
			s.tell.complete(l.batch)
			return l.submit(ctx)
		}
	}
	if err := l.open(ctx, rv); err != nil {
		return err
	}
	if err := l.conclude(ctx); err != nil {
		return err
	}
	if err := l.spool.replay(func(e *spooled) error { return l.write(ctx, e) }); err != nil {
		return err
	}
	// What the reader was told, and from where it goes on, must be known for
	// good before it is told that this is all: neither stdout, nor objects taken
	// without lines, can be read back after a crash. One that comes now costs a
	// second SYNCED line on stdout, and nothing else.
	l.batch.Changes.State = s.complete(rv, &l.count, l.began)
	s.tell.complete(l.batch)
	if err := l.submit(ctx); err != nil {
		return err
	}
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	if err := s.recount(); err != nil {
		return err
	}
	if err := s.close(ctx); err != nil {
		return err
	}
	if l.gap != "" {
		s.note(func(n *Status) { n.Missed = l.count.Added + l.count.Modified + l.count.Deleted })
	}
	l.report(time.Now())
	return nil
}

// open writes the GAP line, if there is one to write. Where a relist was broken
// off behind its GAP and the server stands where it stood, that line holds for
// this relist as well.
func (l *listing) open(ctx context.Context, rv string) error {
	s := l.s
	l.opened = true
	if l.gap == "" {
		return nil
	}
	if open := s.state.Open; open != nil && open.ResourceVersion == rv {
		l.count.Added, l.count.Modified, l.count.Deleted = open.Added, open.Modified, open.Deleted
		l.count.Unchanged -= open.Added + open.Modified
		return nil
	}
	from, now := s.from(), time.Now()
	if l.gap == recorder.JournalTruncated {
		from = "" // up to where the reader was told is not known
	}
	l.batch.AddLine(s.render.AppendGap(l.batch.Lines(), now, l.gap, from, rv), event.Gap, "", now)
	s.log.Warn("history was lost, writing the difference", zap.String("reason", l.gap),
		zap.String("from", from), zap.String("to", rv))
	return l.submitState(ctx, s.opened(rv))
}

// conclude tells of what a complete list shows to be gone: known objects that
// are not in it.
func (l *listing) conclude(ctx context.Context) error {
	now := time.Now()
	return l.eachGone(func(k checkpoint.Known) error {
		namespace, name := []byte(k.Namespace), []byte(k.Name)
		if !l.skip {
			before, err := l.s.tell.before(event.Modified, namespace, name)
			if err != nil {
				return err
			}
			out, err := l.s.tell.tellGone(l.batch.Lines(), now, k, before)
			if err != nil {
				return err
			}
			if out.told {
				l.batch.AddLine(out.line, event.Deleted, event.FromRelist, now)
				count(&l.count, event.Deleted)
			}
		}
		l.s.tell.know(l.batch, event.Deleted, namespace, name, nil, nil, false, nil)
		return l.submitFull(ctx)
	})
}

// errFound ends a search.
var errFound = errors.New("found")

// anyGone tells whether conclude has something to tell.
func (l *listing) anyGone() (bool, error) {
	err := l.eachGone(func(checkpoint.Known) error { return errFound })
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// eachGone calls fn with each known object that is not in the list.
func (l *listing) eachGone(fn func(checkpoint.Known) error) error {
	if l.direct {
		return nil
	}
	var failed error
	err := l.s.store.Range(l.s.spec.Name, func(k checkpoint.Known) error {
		if l.diff.missing(k) {
			failed = fn(k)
		}
		return failed
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	return nil
}

func (l *listing) report(now time.Time) {
	s, reason := l.s, l.gap
	if reason == "" {
		reason = "FirstSync"
	}
	gvr := s.spec.Target.Resource
	s.m.Relists.WithLabelValues(gvr.Group, gvr.Resource, reason).Inc()
	s.m.RelistSeconds.Observe(now.Sub(l.began).Seconds())
	s.log.Info("synced", zap.String("resourceVersion", s.state.ResourceVersion),
		zap.Int64("added", l.count.Added), zap.Int64("modified", l.count.Modified),
		zap.Int64("deleted", l.count.Deleted), zap.Int64("unchanged", l.count.Unchanged))
}

// submitFull submits the batch once it has grown enough.
func (l *listing) submitFull(ctx context.Context) error {
	if l.batch.Bytes() < batchBytes {
		return nil
	}
	return l.submit(ctx)
}

func (l *listing) submit(ctx context.Context) error {
	if l.batch.Empty() {
		return nil
	}
	if l.opened && l.s.state.Open != nil && l.batch.Changes.State == nil {
		state := l.s.told(l.count)
		l.batch.Changes.State = &state
	}
	b := l.batch
	l.batch = l.s.lane.Batch()
	return l.s.rec.Submit(ctx, b)
}

// submitState submits the batch, with the stream's state once it is written.
func (l *listing) submitState(ctx context.Context, state checkpoint.Stream) error {
	l.batch.Changes.State = &state
	return l.submit(ctx)
}
