package watcher

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/recorder"
)

// relist is one attempt at a list, and what it makes of it: a GAP line where one
// is due, a line for each object that differs from what the reader was told,
// and once the list is complete a DELETED for what it has not shown, then
// SYNCED. Lines are written as the list is read.
type relist struct {
	s      *Stream
	diff   diff
	began  time.Time
	origin event.Origin
	// gap is the reason of the GAP line, "" for none. It is due until it is
	// written, at the latest in front of the first other line.
	gap event.GapReason
	due bool
	// version is the server's, from before the list, and what the GAP line says.
	// "" in a first sync.
	version string
	state   checkpoint.Stream // as it is once the batch is submitted
	before  int64             // objects that attempts before this one have told of
	skip    bool              // objects are taken as known, without lines
	batch   *recorder.Batch
	count   event.Count
}

// newRelist waits until the checkpoint has all that this stream has submitted,
// so that the difference is taken against all of it. Where a GAP is due, it asks
// for the server's version and writes the line, so that a reader hears of the
// gap now and not when the list is complete; but not where the server stands
// at the position still: then there may be none.
func (s *Stream) newRelist(ctx context.Context) (*relist, error) {
	if err := s.rec.Flush(ctx); err != nil {
		return nil, err
	}
	s.encoder.reset()
	empty, err := s.store.Empty(s.spec.Name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStore, err)
	}
	r := &relist{s: s, began: time.Now(), origin: event.FromRelist, gap: s.pendingGap(), state: *s.state.Clone(), batch: s.producer.Batch()}
	if !empty {
		r.diff.known = r.lookup
	}
	r.skip = s.spec.SkipInitial && s.state.ResourceVersion == "" && s.state.Open == nil
	if r.gap == "" {
		r.origin = event.FromSnapshot
		return r, nil
	}
	if err := r.decideGap(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// decideGap writes the GAP line, or leaves it due. Behind one that an earlier
// attempt has written, a crash included, this attempt goes on: what was told
// is known, and is not told again. Where there is another reason since then,
// such as a lost checkpoint, it has a line of its own.
func (r *relist) decideGap(ctx context.Context) error {
	s := r.s
	var err error
	if r.version, err = s.client.Version(ctx, s.spec.Target); err != nil {
		return err
	}
	if err := s.client.Confirm(ctx); err != nil {
		return err
	}
	if event.Later(s.state.From(), r.version) {
		// Whatever the GAP was due for: the server's versions count from an
		// earlier one again.
		r.gap = event.PositionAheadOfServer
		s.state.Lose(r.gap)
		r.state.Lose(r.gap)
	}
	if open := s.state.Open; open != nil && s.state.PendingGap == "" {
		r.count = open.Count
		r.before = open.Added + open.Modified
		return nil
	}
	r.due = true
	if r.skip || r.mayBeNone(r.version) {
		return nil
	}
	return r.writeGap(ctx)
}

// mayBeNone reports whether there is no gap where nothing differs: the server, or
// the list, is at the position.
func (r *relist) mayBeNone(rv string) bool {
	return r.s.state.From() == rv && r.s.state.Open == nil && r.gap != event.PositionAheadOfServer && r.gap != event.JournalTruncated
}

// writeGap writes the GAP line, unless none is due.
func (r *relist) writeGap(ctx context.Context) error {
	if !r.due {
		return nil
	}
	r.due = false
	s, now, from := r.s, time.Now(), r.s.state.From()
	if r.gap == event.JournalTruncated {
		from = "" // up to where the reader was told is not known
	}
	r.batch.AddLine(s.render.AppendGap(r.batch.Lines(), now, r.gap, from, r.version), event.Gap, "", now)
	s.log.Warn("history was lost, writing the difference", zap.String("reason", string(r.gap)),
		zap.String("from", from), zap.String("serverVersion", r.version))
	s.note(func(n *Status) { n.LastGap, n.Missed = now, 0 })
	r.state.Apply(&checkpoint.Transition{Type: event.Gap, FromResourceVersion: []byte(from), ResourceVersion: []byte(r.version)}, &r.batch.Changes)
	return r.submit(ctx)
}

func (r *relist) lookup(namespace, name string) (event.Known, bool, error) {
	k, ok, err := r.s.store.Get(r.s.spec.Name, namespace, name)
	if err != nil {
		err = fmt.Errorf("%w: %w", errStore, err)
	}
	return k, ok, err
}

func (r *relist) close() {
	r.diff.seen.release()
	if r.batch != nil {
		r.batch.Release()
	}
}

// takeEvents takes an event and those at hand behind it, up to the bookmark that
// ends the initial events: rv is its version, empty while the list goes on.
func (r *relist) takeEvents(ctx context.Context, w *kubeclient.WatchReader, e kubeclient.Event, received time.Time) (rv string, err error) {
	rv, err = r.takeEvent(ctx, e, received)
	for size := len(e.Object); rv == "" && err == nil && size < chunkBytes && w.More(); size += len(e.Object) {
		if e, err = w.Next(0); err == nil {
			rv, err = r.takeEvent(ctx, e, received)
		}
	}
	if rv != "" || err != nil {
		return rv, err
	}
	return "", r.submit(ctx)
}

func (r *relist) takeEvent(ctx context.Context, e kubeclient.Event, received time.Time) (rv string, err error) {
	if err := r.s.scan(e.Object); err != nil {
		return "", err
	}
	o := &r.s.object
	switch e.Type {
	case event.Bookmark:
		if !o.InitialEventsEnd {
			// Bookmarks only begin behind the one that ends a streamed list.
			return "", errNoListEnd
		}
		if !kubeclient.IsPosition(o.ResourceVersion) {
			return "", kubeclient.ErrNoVersion
		}
		return string(o.ResourceVersion), nil
	case event.Added, event.Modified, event.Deleted:
		return "", r.take(ctx, e.Type, received, o)
	default:
		return "", fmt.Errorf("%w: type %q", kubeclient.ErrBadFrame, e.Type)
	}
}

// take takes one object of the list.
func (r *relist) take(ctx context.Context, t event.Type, received time.Time, o *event.Object) error {
	if err := checkIdentity(o); err != nil {
		return err
	}
	d, err := r.diff.observe(t, o.Namespace, o.Name, o.UID, o.ResourceVersion)
	if err != nil {
		return err
	}
	switch d.verdict {
	case isRepeat:
		return nil
	case isUnchanged:
		r.count.Unchanged++
		return r.storeMissing(ctx, o)
	}
	if err := r.writeGapBefore(ctx, string(o.ResourceVersion)); err != nil {
		return err
	}
	if d.replaced {
		if err := r.gone(ctx, d.old); err != nil {
			return err
		}
	}
	add := r.s.encoder.add
	if r.skip {
		add = r.s.encoder.addSilently
	}
	line, err := add(r.batch, event.Line{Type: d.typ, Origin: r.origin, Received: received}, o)
	if err != nil {
		return err
	}
	return r.apply(ctx, line)
}

// apply takes note of a line about an object, or of one that was held back.
func (r *relist) apply(ctx context.Context, l checkpoint.Transition) error {
	r.state.Apply(&l, &r.batch.Changes)
	if !l.HeldBack {
		r.count.Add(l.Type)
	} else if l.Type != event.Deleted {
		r.count.Unchanged++
	}
	return r.submitFull(ctx)
}

// writeGapBefore writes the GAP line that is still due, in front of a line about what
// the server shows at the version rv.
func (r *relist) writeGapBefore(ctx context.Context, rv string) error {
	if r.skip {
		return nil // there is no line
	}
	if r.due && event.Later(rv, r.version) {
		r.version = rv // a GAP of the position's own version may stand in the journal
	}
	return r.writeGap(ctx)
}

// storeMissing stores an object that is known at this version, where that is missing.
func (r *relist) storeMissing(ctx context.Context, o *event.Object) error {
	if r.s.encoder.previous == nil {
		return nil
	}
	k, _, err := r.lookup(string(o.Namespace), string(o.Name))
	if err != nil {
		return err
	}
	if err := r.s.encoder.storeMissing(r.batch, o, k.Withheld); err != nil {
		return err
	}
	return r.submitFull(ctx)
}

// finish closes the list, which is complete and shows the version rv.
func (r *relist) finish(ctx context.Context, rv string) error {
	s := r.s
	if event.Later(r.version, rv) {
		// The server went back while the list was read.
		return fmt.Errorf("%w: %s, the list is at %s", errAhead, r.version, rv)
	}
	if err := r.conclude(ctx, rv); err != nil {
		return err
	}
	if r.due && r.mayBeNone(rv) {
		// Nothing happened since, so there is no gap; and the lines would have
		// the ids of those that stand at this version already.
		r.batch.Changes.State = s.listCompleted(rv, nil, r.began)
		s.encoder.complete(r.batch)
		return r.submit(ctx)
	}
	if r.due && event.Later(rv, r.version) {
		r.version = rv
	}
	if err := r.writeGap(ctx); err != nil {
		return err
	}
	// What attempts before this one have told of shows as unchanged in this one.
	r.count.Unchanged = max(0, r.count.Unchanged-r.before)
	// What the reader was told, and from where it goes on, must be known for
	// good before it is told that this is all: neither stdout, nor objects taken
	// without lines, can be read back after a crash. One that comes now costs a
	// second SYNCED line on stdout, and nothing else.
	r.batch.Changes.State = s.listCompleted(rv, &r.count, r.began)
	s.encoder.complete(r.batch)
	if err := r.submit(ctx); err != nil {
		return err
	}
	if err := s.rec.Flush(ctx); err != nil {
		return err
	}
	if err := s.recount(); err != nil {
		return err
	}
	if err := s.writeSynced(ctx); err != nil {
		return err
	}
	if r.gap != "" {
		s.note(func(n *Status) { n.Missed = r.count.Added + r.count.Modified + r.count.Deleted })
	}
	r.report(time.Now())
	return nil
}

// conclude tells of what a complete list shows to be gone: known objects that
// are not in it.
func (r *relist) conclude(ctx context.Context, rv string) error {
	if r.diff.known == nil {
		return nil
	}
	// What stands under the name of an object now must be known first.
	if err := r.submit(ctx); err != nil {
		return err
	}
	if err := r.s.rec.Flush(ctx); err != nil {
		return err
	}
	var failed error
	err := r.s.store.Range(r.s.spec.Name, func(k event.Known) error {
		if r.diff.missing(k) {
			if failed = r.writeGapBefore(ctx, rv); failed == nil {
				failed = r.gone(ctx, k)
			}
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

// gone tells of a known object that the list shows to be gone.
func (r *relist) gone(ctx context.Context, k event.Known) error {
	l := event.Line{Type: event.Deleted, Origin: event.FromRelist, Received: time.Now()}
	line, err := r.s.encoder.addGone(r.batch, l, k, r.skip)
	if err != nil {
		return err
	}
	return r.apply(ctx, line)
}

func (r *relist) report(now time.Time) {
	s, reason := r.s, string(r.gap)
	if reason == "" {
		reason = "FirstSync"
	}
	gvr := s.spec.Target.Resource
	s.m.Relists.WithLabelValues(gvr.Group, gvr.Resource, reason).Inc()
	s.m.RelistSeconds.Observe(now.Sub(r.began).Seconds())
	s.log.Info("synced", zap.String("resourceVersion", s.state.ResourceVersion),
		zap.Int64("added", r.count.Added), zap.Int64("modified", r.count.Modified),
		zap.Int64("deleted", r.count.Deleted), zap.Int64("unchanged", r.count.Unchanged))
}

// submitFull submits the batch once it has grown enough.
func (r *relist) submitFull(ctx context.Context) error {
	if r.batch.Bytes() < batchBytes {
		return nil
	}
	return r.submit(ctx)
}

// submit submits the batch, with how many lines stand behind the GAP line: an
// attempt that goes on behind it counts on from there.
func (r *relist) submit(ctx context.Context) error {
	if r.batch.Empty() {
		return nil
	}
	if r.state.Open != nil && r.batch.Changes.State == nil {
		r.s.state = *r.state.Clone()
		r.batch.Changes.State = r.state.Clone()
	}
	b := r.batch
	r.batch = r.s.producer.Batch()
	return r.s.rec.Submit(ctx, b)
}
