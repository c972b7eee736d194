package watcher

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"kubejournal/internal/checkpoint"
	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
	"kubejournal/internal/record/failure"
	"kubejournal/internal/record/listdiff"
	"kubejournal/internal/record/recorder"
)

// relist is one attempt at a list. It writes a GAP line where one is due, as the list is read a line for each object
// that differs from what the reader was told, and once the list is complete a DELETED for what it has not shown, then
// SYNCED.
type relist struct {
	s           *Stream
	diff        listdiff.Diff
	began       time.Time
	origin      line.Origin
	gap         line.Reason       // the reason of the GAP line; "" for none
	due         bool              // the GAP line is still to be written, at the latest before the first other line
	version     string            // what the GAP line says: the server's, from before the list; "" in a first sync
	items       int64             // that the list has had until now, of whatever namespace or shard
	state       checkpoint.Stream // as it is once the batch is submitted; dropped with it when the list fails
	before      int64             // objects that attempts before this one have written
	earlier     string            // the version of an object that was at a later one: the list is not used; "" for none
	earlierText string            // says which one
	skip        bool              // objects are taken as known, without lines
	adopts      bool              // so are those of a published position; until its end, several versions are known
	detour      *detour.Detour    // of a list in pages, around what cannot be read
	batch       *recorder.Batch
	count       line.Count
}

// relistInterrupted is the reason of a list that continues after the GAP line that an attempt before it has written: as
// a label of kubejournal_relists_total and in logs, not in a line.
const relistInterrupted line.Reason = "RelistInterrupted"

// newRelist waits until the checkpoint has all that the stream has submitted: the difference is taken against that.
func (s *Stream) newRelist(ctx context.Context) (*relist, error) {
	r, err := s.openRelist(ctx)
	if err != nil {
		return nil, err
	}
	if r.gap == "" && s.state.Open == nil {
		r.origin = line.FromSnapshot
		return r, nil
	}
	r.gap = cmp.Or(r.gap, relistInterrupted)
	err = r.decideGap(ctx)
	return r, err
}

// openRelist is newRelist without a GAP line.
func (s *Stream) openRelist(ctx context.Context) (*relist, error) {
	if err := s.rec.Flush(ctx); err != nil {
		return nil, err
	}
	s.encoder.Reset() // an attempt before this one may have dropped its last batch
	empty, err := s.store.Empty(s.spec.Name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", failure.ErrStore, err)
	}
	r := &relist{
		s: s, began: time.Now(), origin: line.FromRelist, gap: s.state.PendingGap, state: *s.state.Clone(),
		batch: s.producer.Batch(),
	}
	if s.spec.SkipInitial && !s.seen && s.state.ResourceVersion == "" && s.state.Open == nil {
		// What others have written is in this replica's journal only if it is written again.
		reason := s.state.PendingGap
		r.skip = reason != line.CheckpointLost && reason != line.PositionAheadOfServer ||
			s.rec.Replica() == nil
	}
	if !empty {
		r.diff.Known = s.known
	}
	return r, nil
}

// decideGap asks for the server's version and writes the GAP line, so that a reader hears of the gap now and not when
// the list is complete. It leaves the line due where the server is still at the position: then there may be no gap.
// Behind a line that an earlier attempt has written, a crash included, this attempt continues with what is not written
// yet. Where there is another reason since then, such as a lost checkpoint, it has a line of its own.
func (r *relist) decideGap(ctx context.Context) (err error) {
	s := r.s
	atLeast := s.state.From()
	if r.gap == line.PositionAheadOfServer {
		atLeast = "" // it was asked for more than once
	}
	if r.version, err = s.currentVersion(ctx, atLeast); err != nil {
		return err
	}
	if err := s.client.Confirm(ctx); err != nil {
		return err
	}
	if r.gap != line.PositionAheadOfServer &&
		(line.Later(s.state.From(), r.version) || line.Later(s.adoption.others, r.version)) {
		return s.restored(r.version, "the server is at %s, behind %s", r.version, s.state.From())
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
	return r.writeGap(ctx, r.version)
}

// mayBeNone reports whether there is no gap where nothing differs: the server, or the list, is at the position.
func (r *relist) mayBeNone(rv string) bool {
	return r.s.state.From() == rv && r.s.state.Open == nil && r.gap != line.PositionAheadOfServer &&
		r.gap != line.JournalTruncated
}

// writeGap writes the GAP line, where it is still due, before a line about what the server shows at the version rv.
func (r *relist) writeGap(ctx context.Context, rv string) error {
	if !r.due {
		return nil
	}
	r.due = false
	if line.Later(rv, r.version) {
		r.version = rv // the journal may have a GAP of the position's own version
	}
	s, now, from, fromTime := r.s, time.Now(), r.s.state.From(), time.Time{}
	shown := r.version
	if r.gap == line.PositionAheadOfServer && s.restoredAt != "" && line.Later(shown, s.restoredAt) {
		shown = s.restoredAt
	}
	switch confirmed := s.lastConfirmed(now); {
	case r.gap == line.JournalTruncated:
		from = "" // the lines that the reader has are not known
	case confirmed > 0:
		fromTime = time.Unix(0, max(confirmed, min(s.state.Read, now.UnixNano())))
	}
	raw := s.render.AppendGap(r.batch.Lines(), now, r.gap, from, fromTime, shown)
	r.batch.AddLine(raw, line.Gap, "", now, nil)
	s.outages.Note(s.spec.Name, zapcore.WarnLevel, "history was lost, writing the difference", string(r.gap), nil,
		zap.String("from", from), zap.String("serverVersion", r.version))
	s.note(func(n *Status) { n.LastGap, n.Missed = now, 0 })
	t := checkpoint.Transition{
		Type: line.Gap, Reason: r.gap, FromResourceVersion: []byte(from), ResourceVersion: []byte(r.version),
	}
	r.state.Apply(&t, &r.batch.Changes)
	return r.submit(ctx)
}

// takeEvent takes an event of a streamed list. rv is the version of the bookmark that ends the initial events, empty
// while the list continues.
func (r *relist) takeEvent(ctx context.Context, e client.Event, received time.Time) (rv string, err error) {
	mine, err := r.s.decoder.Scan(e.Type, e.Object, &r.s.object)
	if e.Type != line.Bookmark {
		r.items++
	}
	if err != nil || !mine {
		return "", err
	}
	o := &r.s.object
	switch {
	case e.Type != line.Bookmark:
		return "", r.take(ctx, e.Type, received, o)
	case !o.InitialEventsEnd:
		return "", failure.ErrNoListEnd // bookmarks only begin after the one that ends a streamed list
	case !client.IsPosition(o.ResourceVersion):
		return "", client.ErrNoVersion
	}
	return string(o.ResourceVersion), nil
}

// take takes one object of the list.
func (r *relist) take(ctx context.Context, t line.Type, received time.Time, o *object.Object) error {
	d, err := r.diff.Observe(t, o.Namespace, o.Name, o.UID, o.ResourceVersion)
	if err != nil || r.earlier != "" {
		return err
	}
	switch d.Verdict {
	case listdiff.Repeat:
		return nil
	case listdiff.Unchanged:
		r.count.Unchanged++
		if err := r.s.encoder.StoreMissing(r.batch, o, d.Old.Withheld); err != nil {
			return err
		}
		return r.submitFull(ctx)
	}
	if rv := string(o.ResourceVersion); r.goesBack(&d, rv) {
		r.earlier = rv
		r.earlierText = fmt.Sprintf("%s/%s is at %s, and was at %s", o.Namespace, o.Name, rv, d.Old.ResourceVersion)
		return nil
	}
	if !r.skip {
		if err := r.writeGap(ctx, string(o.ResourceVersion)); err != nil {
			return err
		}
	}
	if d.Replaced {
		if err := r.takeGone(ctx, d.Old); err != nil {
			return err
		}
	}
	raw, err := r.s.encoder.Add(r.batch, object.Line{Type: d.Type, Origin: r.origin, Received: received}, o, r.skip)
	if err != nil {
		return err
	}
	return r.apply(ctx, &raw)
}

// goesBack reports whether an object is at an earlier version than it was, or at one that cannot be compared with that,
// or whether another object has its name at the same version.
func (r *relist) goesBack(d *listdiff.Decision, rv string) bool {
	if d.Type != line.Modified && !d.Replaced || d.Old.Doubtful || !r.vouches() {
		return false
	}
	_, was := line.VersionNumber([]byte(d.Old.ResourceVersion))
	_, is := line.VersionNumber([]byte(rv))
	return was != is || line.Later(d.Old.ResourceVersion, rv) || d.Replaced && d.Old.ResourceVersion == rv
}

// vouches reports whether all that is known, and not doubtful, is of a server whose versions the list continues.
func (r *relist) vouches() bool {
	reason := r.gap
	if open := r.state.Open; open != nil {
		reason = open.Reason
	}
	switch reason {
	case "", line.PositionAheadOfServer, line.JournalTruncated:
		return false
	}
	return !r.adopts
}

// takeGone takes a known object that the list shows to be gone.
func (r *relist) takeGone(ctx context.Context, k object.Known) error {
	line, err := r.s.encoder.AddGone(r.batch, k, r.skip)
	if err != nil {
		return err
	}
	return r.apply(ctx, &line)
}

// apply takes note of a line about an object, or of one that was held back.
func (r *relist) apply(ctx context.Context, l *checkpoint.Transition) error {
	r.state.Apply(l, &r.batch.Changes)
	if !l.HeldBack {
		r.count.Add(l.Type)
	} else if l.Type != line.Deleted {
		r.count.Unchanged++
	}
	return r.submitFull(ctx)
}

// check looks whether the server went back since the list began, which shows the version rv. The server is asked again,
// since its answers to lists may lag behind that one.
func (r *relist) check(ctx context.Context, rv string) error {
	if !line.Later(r.version, rv) {
		return nil
	}
	now, err := r.s.currentVersion(ctx, r.version)
	switch {
	case err != nil:
		return err
	case line.Later(r.version, now):
		return r.s.restored(now, "%s, the list is at %s, and the server at %s", r.version, rv, now)
	}
	return fmt.Errorf("%w: %s, the list is at %s", failure.ErrAhead, r.version, rv)
}

// settle concludes what is gone from a list that was read to its end and shows the version rv, once nothing speaks
// against it.
func (r *relist) settle(ctx context.Context, rv string) error {
	if err := r.check(ctx, rv); err != nil {
		return err
	}
	if r.earlier != "" {
		// The server was restored from a backup and has passed the position again, or was restored while the list
		// began.
		return r.s.restored(r.earlier, "%s", r.earlierText)
	}
	if latest, exceeds := r.diff.Exceeds(rv); exceeds {
		return fmt.Errorf("%w: the list is at %s, an object at %d", failure.ErrListBehind, rv, latest)
	}
	return r.conclude(ctx, rv)
}

// finish closes the list, which is complete and shows the version rv.
func (r *relist) finish(ctx context.Context, rv string) error {
	s := r.s
	if err := r.settle(ctx, rv); err != nil {
		return err
	}
	if r.due && r.mayBeNone(rv) {
		// Nothing happened since, so there is no gap; and the journal may have lines of this version already, with the
		// ids that these would have.
		r.batch.Changes.State = s.listCompleted(rv, nil, r.began)
		s.encoder.Complete(r.batch)
		return r.submit(ctx)
	}
	if err := r.writeGap(ctx, rv); err != nil {
		return err
	}
	// Its last lines continue their own: if the term of this replica ends between them, how far they had come is known.
	if err := r.submit(ctx); err != nil {
		return err
	}
	// What attempts before this one have written shows as unchanged in this one.
	r.count.Unchanged = max(0, r.count.Unchanged-r.before)
	// The lines of the list, and the position after it, are committed before SYNCED says that this is all: neither
	// stdout, nor objects taken without lines, can be read back after a crash. One that comes now costs a second SYNCED
	// line on stdout, and nothing else.
	r.batch.Changes.State = s.listCompleted(rv, &r.count, r.began)
	s.encoder.Complete(r.batch)
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
	result := []zap.Field{
		zap.String("resourceVersion", s.state.ResourceVersion),
		zap.Int64("added", r.count.Added), zap.Int64("modified", r.count.Modified),
		zap.Int64("deleted", r.count.Deleted), zap.Int64("unchanged", r.count.Unchanged),
	}
	reason := "FirstSync"
	if r.gap == "" {
		s.log.Info("synced", result...)
	} else {
		reason = string(r.gap)
		s.outages.Note(s.spec.Name, zapcore.InfoLevel, "synced", reason, nil, result...)
		s.note(func(n *Status) { n.Missed = r.count.Added + r.count.Modified + r.count.Deleted })
	}
	s.m.Relists.WithLabelValues(s.resource.Group, s.resource.Resource, reason).Inc()
	s.m.RelistSeconds.Observe(time.Since(r.began).Seconds())
	return nil
}

// conclude takes what a list shows to be gone: known objects that are neither in it nor in its holes.
func (r *relist) conclude(ctx context.Context, rv string) error {
	if r.diff.Known == nil {
		return nil
	}
	// The object that has a name now must be known first.
	if err := r.submit(ctx); err != nil {
		return err
	}
	if err := r.s.rec.Flush(ctx); err != nil {
		return err
	}
	var gone []object.Known // a sample of them, where there are many
	count := 0
	err := r.s.eachKnown(func(k object.Known) error {
		if !r.diff.Missing(k) || r.detour.Hides(k.Namespace, k.Name) {
			return nil
		}
		if count++; len(gone) < maxAsked {
			gone = append(gone, k)
		} else if i := rand.IntN(count); i < maxAsked {
			gone[i] = k
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := r.checkGone(ctx, rv, gone); err != nil || count == 0 {
		return err
	}
	return r.s.eachKnown(func(k object.Known) error {
		if !r.diff.Missing(k) || r.detour.Hides(k.Namespace, k.Name) {
			return nil
		}
		if !r.skip {
			if err := r.writeGap(ctx, rv); err != nil {
				return err
			}
		}
		return r.takeGone(ctx, k)
	})
}

// submitFull submits the batch once it has grown enough.
func (r *relist) submitFull(ctx context.Context) error {
	if r.batch.Bytes() < batchBytes {
		return nil
	}
	return r.submit(ctx)
}

// submit submits the batch, with how many lines follow the GAP line: the next attempt counts on from there.
func (r *relist) submit(ctx context.Context) error {
	if r.batch.Empty() {
		return nil
	}
	b := r.batch
	if (r.state.Open != nil || r.adopts) && b.Changes.State == nil {
		r.s.state = *r.state.Clone()
		b.Changes.State = r.state.Clone()
	}
	b.Adopts, b.Term = r.adopts, r.state.Term
	r.batch = r.s.producer.Batch()
	return r.s.rec.Submit(ctx, b)
}

// close drops what is not submitted.
func (r *relist) close() {
	r.diff.Release()
	r.batch.Release()
}
