package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A watch holds no queue: it reads on in its resource's history from the last
// version that it has sent, so that nothing can be lost between the state and
// the events after it.
type stream struct {
	resource *resource
	options  listOptions
	version  string // of the API
	form     form
	fault    *Fault
	out      *recorder
	sent     int     // events
	drip     int     // events before which there is a pause
	held     []event // by a habit

	stop    chan struct{} // closed by end and abort
	once    sync.Once
	aborted bool        // written before stop is closed
	muted   atomic.Bool // sends nothing any more
}

func (st *stream) end() { st.once.Do(func() { close(st.stop) }) }

func (st *stream) abort() {
	st.once.Do(func() {
		st.aborted = true
		close(st.stop)
	})
}

// stopped returns whether the stream must end; it does not return where the
// stream must be cut.
func (st *stream) stopped() bool {
	select {
	case <-st.stop:
	default:
		return false
	}
	if st.aborted {
		panic(http.ErrAbortHandler)
	}
	return true
}

// event is what a watch sends.
type event struct {
	kind   string
	object []byte
}

func (s *Server) serveWatch(w *recorder, r *http.Request, req Request, res *resource, as form, f *Fault) error {
	o, err := s.parseListOptions(req, res)
	if err != nil {
		return err
	}
	h := s.habitOf(res)
	if h != nil && h.ListForWatch {
		return s.serveList(w, r, req, res, as)
	}
	if o.version, err = parseVersion(h.version(o.versionText)); err != nil {
		return err
	}
	s.mu.Lock()
	refused := h != nil && !h.StillWatches && h.blind(res)
	s.mu.Unlock()
	if refused {
		return reinitializing()
	}
	o = h.ignoresInitial(o)
	if o.timeout == 0 {
		o.timeout = time.Duration(float64(30*time.Minute) * (1 + rand.Float64()))
	}
	st := &stream{
		resource: res, options: o, version: req.Version, form: as, fault: f, out: w,
		stop: make(chan struct{}),
	}
	ctx, cancel := context.WithTimeout(r.Context(), o.timeout)
	defer cancel()

	streamInitial := o.initialEvents != nil && *o.initialEvents
	var fresh error
	if streamInitial {
		fresh = s.awaitVersion(ctx, o.version)
	}
	s.mu.Lock()
	pos, opened := s.version, s.version
	// From here on the stream can be stopped; what it has seen is all up to pos.
	s.streams[st] = struct{}{}
	s.notify()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, st)
		s.notify()
	}()
	var events []event
	switch {
	case fresh != nil:
		err = fresh
	case h != nil && (streamInitial || o.version == 0 && o.initialEvents == nil):
		events, pos = h.initial(st, pos, streamInitial && o.bookmarks)
	case h != nil && o.version > 0:
		if err = s.checkHistory(res, o.version); err == nil || h.Start != StartAsAsked {
			err = nil
			events, pos = h.start(st, o.version, pos)
		}
	case streamInitial || o.version == 0 && o.initialEvents == nil:
		for _, rec := range res.store.at(pos, prefixOf(o.namespace)) {
			if o.matches(rec) {
				events = append(events, event{"ADDED", res.encode(rec, req.Version, as)})
			}
		}
	case o.version == 0:
		// From now on.
	default:
		pos, err = o.version, s.checkHistory(res, o.version)
	}
	s.mu.Unlock()
	if err != nil && s.opts.GoneAsStatus && apierrors.IsResourceExpired(err) {
		return err
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.Flush()
	// The server says here, too, what went wrong after the parameters had been
	// read: with an event, in a stream that has begun.
	if err != nil {
		st.sendError(statusOf(err))
		return nil
	}
	if h == nil && streamInitial && o.bookmarks {
		if f.DuplicateInitialEvents {
			events = append(events, events...)
		}
		if f.ReverseInitialEvents {
			slices.Reverse(events)
		}
		if !f.OmitInitialEventsEnd {
			events = append(events, event{"BOOKMARK", res.bookmark(res.apiVersion(req.Version), pos, true, as)})
		}
	}
	if st.send(ctx, events) && (h == nil || !h.EndsAtOnce || streamInitial) {
		s.follow(ctx, st, pos, opened)
	}
	return nil
}

// checkHistory returns the error of a watch from before the history of a resource. It is called with mu held.
func (s *Server) checkHistory(res *resource, version uint64) error {
	switch {
	case !res.Uncached && version < res.store.window:
		return expired(version, res.store.window)
	case res.Uncached && version+1 < s.compacted:
		// etcd refuses to start at a revision below the compacted one, and a watch of version N starts at N+1. This is
		// what its answer becomes for a resource without a watch cache.
		return apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	return nil
}

// follow sends what is written after version pos until the stream ends. opened
// is the server's version when the watch came.
func (s *Server) follow(ctx context.Context, st *stream, pos, opened uint64) {
	begin := pos
	bookmark := time.NewTimer(0)
	defer bookmark.Stop()
	st.schedule(ctx, bookmark, s.opts.BookmarkInterval)
	due := false
	for {
		// Asked before looking, so that a stream that ends in good order has
		// sent what was written before.
		last := st.stopped()
		s.mu.Lock()
		var events []event
		h := s.habits[st.resource.groupResource()]
		for _, rec := range st.resource.store.after(pos) {
			if at := st.resource.removedAt; at > 0 && rec.version > at {
				break // it is of the resource that came in its place
			}
			if h != nil {
				events = append(events, h.translate(st, rec)...)
			} else if e, ok := st.translate(rec); ok {
				events = append(events, e)
			}
			if rec.version <= opened {
				begin = rec.version // what was waiting counts as the beginning
			}
		}
		if h == nil || due && !h.SilentUntilEnd && !h.EventsLate || last {
			events = append(events, st.held...)
			st.held = nil
		}
		changed := st.resource.store.changed
		pos = max(pos, s.version)
		s.mu.Unlock()
		// A bookmark comes after all that it covers, and must be newer than what
		// the watch began with.
		if due && h != nil && !h.SilentUntilEnd && pos > begin {
			s.mu.Lock()
			events = append(append(events, h.bookmark(st, pos)...), st.held...)
			st.held = nil
			s.mu.Unlock()
		} else if due && h == nil && pos > begin && !st.fault.DropBookmarks {
			events = append(events,
				event{"BOOKMARK", st.resource.bookmark(st.resource.apiVersion(st.version), pos, false, st.form)})
		}
		due = false
		if !st.send(ctx, events) || last {
			return
		}
		select {
		case <-changed:
		case <-st.stop:
		case <-ctx.Done():
		case <-bookmark.C:
			due = true
			st.schedule(ctx, bookmark, s.opts.BookmarkInterval)
		}
	}
}

// schedule sets the timer to the next bookmark: after the interval, or two
// seconds before the watch's own end, whichever comes first; or stops it when
// there are to be no more.
func (st *stream) schedule(ctx context.Context, timer *time.Timer, interval time.Duration) {
	now := time.Now()
	next := now.Add(interval)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(-2*time.Second).Before(next) {
		next = deadline.Add(-2 * time.Second)
	}
	if !st.options.bookmarks || !next.After(now) {
		timer.Stop()
		return
	}
	timer.Reset(next.Sub(now))
}

// translate turns a record into the event that this watch sees: an object that
// enters the selection is ADDED and one that leaves it is DELETED. It is called
// with mu held.
func (st *stream) translate(rec *record) (event, bool) {
	before := rec.before()
	is := !rec.deleted && st.options.matches(rec)
	was := before != nil && st.options.matches(before)
	switch {
	case is && was:
		return event{"MODIFIED", st.resource.encode(rec, st.version, st.form)}, true
	case is:
		return event{"ADDED", st.resource.encode(rec, st.version, st.form)}, true
	case was:
		// The state before, with the version of this event.
		last := &record{object: before.object}
		if rec.version != before.version {
			last.object = deepCopy(before.object)
			metadata(last.object)["resourceVersion"] = formatVersion(rec.version)
		}
		return event{"DELETED", st.resource.encode(last, st.version, st.form)}, true
	}
	return event{}, false
}

// send writes events and returns whether the stream continues.
func (st *stream) send(ctx context.Context, events []event) bool {
	for _, e := range events {
		if st.muted.Load() {
			st.hush(ctx)
			return false
		}
		st.stopped() // does not return from an abort
		if ctx.Err() != nil || !st.pause(ctx) {
			return false
		}
		frame := st.frame(e)
		if st.fault.Stream != NoStreamFault && st.sent >= st.fault.AfterEvents && st.fault.Stream == CutMidEvent {
			st.out.Write(frame[:len(frame)/2])
			st.out.Flush()
			panic(http.ErrAbortHandler)
		}
		if !st.strike(ctx) {
			return false
		}
		if _, err := st.out.Write(frame); err != nil {
			return false
		}
		st.sent++
	}
	if len(events) > 0 {
		st.out.Flush()
	}
	st.stopped()
	return ctx.Err() == nil && st.strike(ctx)
}

// strike lets the stream's fault happen once its time has come. It returns
// whether the stream continues.
func (st *stream) strike(ctx context.Context) bool {
	if st.sent < st.fault.AfterEvents {
		return true
	}
	switch st.fault.Stream {
	case Gone:
		st.sendError(statusOf(expired(st.options.version, st.options.version+1)))
	case Failed:
		st.sendError(st.fault.status())
	case Garbage:
		st.out.Write([]byte("<html>upstream connect error</html>\n"))
	case Cut:
		st.out.Flush()
		panic(http.ErrAbortHandler)
	case Silent:
		st.out.Flush()
		st.hush(ctx)
	case End:
	default:
		return true
	}
	return false
}

// hush keeps the stream open without a word.
func (st *stream) hush(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-st.stop:
		st.stopped()
	}
}

func (st *stream) sendError(status metav1.Status) {
	st.out.Write(st.frame(event{"ERROR", marshal(status)}))
	st.out.Flush()
}

// frame is one event as it goes over the wire: one line, unless the resource is
// indented.
func (st *stream) frame(e event) []byte {
	line := slices.Concat([]byte(`{"type":"`), []byte(e.kind), []byte(`","object":`), e.object, []byte("}\n"))
	if h := st.out.server.habitOf(st.resource); h != nil && h.Frame != nil {
		return h.Frame(line)
	}
	if !st.resource.Indent {
		return line
	}
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(line), "", "  "); err != nil {
		panic("fake: indent frame: " + err.Error()) // it is rendered from JSON
	}
	b.WriteByte('\n')
	return b.Bytes()
}
