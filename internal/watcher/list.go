package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
	"kubejournal/internal/record/failure"
)

const (
	pageSize         = 500 // objects, as client-go's pager asks for
	maxExpired       = 2   // how often a list in pages may expire before it is asked for in one answer
	maxRepeatedPages = 3   // in a row, that show nothing new, before the list counts as one without an end

	// A streamed list counts as not supported when it is silent for listIdle, when its pauses of more than listPause
	// add up to listPatience, or when the stream has waited for it for listWait altogether: a server that does not know
	// sendInitialEvents ignores it, and sends what happens now. Time in which lines are written does not count.
	listIdle     = 30 * time.Second
	listPause    = time.Second
	listPatience = 2 * time.Minute
	listWait     = 5 * time.Minute

	maxListFailures = 2               // in a row, of one form of a list, before the other one is tried
	pagedFor        = 24 * time.Hour  // how long a stream reads pages before it asks for a streamed list again
	maxListRest     = 5 * time.Minute // the longest pause that a long list makes before the next
	batchBytes      = 64 << 10        // how large a batch of a list grows
)

// lists is the last complete list, and the form in which the next one is asked for: streamed (KEP-3157), or in pages.
// Either may be more than a server, or a proxy in front of it, can do: one with an etcd that reports no progress
// answers a streamed list with an error of any code, and a bound on the duration of requests cuts every one that is
// large; a bound on the size of answers refuses pages. So a form that fails gives way to the other.
type lists struct {
	at      time.Time     // when the last one was complete
	version string        // that it gave
	took    time.Duration // from its request to its last line being written

	paged    bool
	until    time.Time // paged until then
	failures int       // in a row, of this form

	around time.Duration // the pause that a list with holes makes before the next
}

// rest is how long from now the next list has to wait, so that a server that forgets its history again and again is not
// asked for lists all the time: at most a third of it goes into them.
func (l *lists) rest() time.Duration {
	if l.at.IsZero() {
		return 0
	}
	return max(client.HealthyAfter, min(2*l.took, maxListRest)) - time.Since(l.at)
}

// failed records a failure, and reports whether the other form is next. refused says that the server cannot do this
// form, as far as its answer can say so.
func (l *lists) failed(refused bool) bool {
	l.failures++
	if l.failures < maxListFailures && !refused {
		return false
	}
	l.paged, l.until, l.failures = !l.paged, time.Now().Add(pagedFor), 0
	return true
}

var listForm = map[bool]string{false: "streamed", true: "pages"} // by lists.paged, for logs

// list reads all objects, writes the difference, and continues watching from there. It always returns an error: why
// that ended. Where the server refuses to stream the list, it is read in pages at once.
func (s *Stream) list(ctx context.Context) error {
	s.setState(Listing, s.reason)
	if s.lists.paged && time.Now().After(s.lists.until) {
		s.lists.paged, s.lists.failures = false, 0
	}
	for {
		read := s.listStreamed
		if s.lists.paged {
			read = s.listPaged
		}
		err := read(ctx)
		if s.state.Valid() {
			s.lists.failures = 0
			return err // with a position it was the watch after the list that ended
		}
		if failure.IsUnreadable(err) {
			s.lists.failures = 0
			return err
		}
		refused := !s.lists.paged && failure.RefusesStreamedList(err)
		if ctx.Err() != nil || failure.RefusesShards(s.spec.Target, err) || !failure.BlamesForm(err) ||
			!s.lists.failed(refused) {
			return err
		}
		s.outages.Note(s.spec.Name, zapcore.InfoLevel, "list failed, asking for it in another form",
			failure.ReasonOf(err), err, zap.String("form", listForm[s.lists.paged]))
		if !refused {
			return err
		}
	}
}

// listStreamed lists through a watch with sendInitialEvents: objects first, a bookmark at their end, and then the watch
// continues.
func (s *Stream) listStreamed(ctx context.Context) error {
	r, err := s.newRelist(ctx)
	if err != nil {
		return err
	}
	options := v1.ListOptions{
		SendInitialEvents:    new(true),
		ResourceVersionMatch: v1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	}
	w, err := s.client.Watch(ctx, s.spec.Target, options, listTimeout+rand.N(listTimeout))
	if err == nil {
		defer w.Close()
		err = r.readInitial(ctx, w)
	}
	r.close() // the watch after the list does not need what it has shown
	if err != nil {
		return err
	}
	return s.follow(ctx, w)
}

// readInitial reads a watch up to the end of its initial events.
func (r *relist) readInitial(ctx context.Context, w *client.WatchReader) error {
	for pauses, wait := listPatience, listWait; ; {
		waiting := time.Now()
		e, err := w.Next(min(listIdle, pauses, wait))
		switch {
		case errors.Is(err, client.ErrWatchEnded), errors.Is(err, client.ErrSilent):
			return failure.ErrNoListEnd
		case err != nil:
			return err
		}
		r.s.reached()
		received := time.Now()
		waited := received.Sub(waiting)
		if wait -= waited; waited > listPause {
			pauses -= waited
		}
		for e, err := range arrived(w, e) {
			rv := ""
			if err == nil {
				rv, err = r.takeEvent(ctx, e, received)
			}
			if err != nil {
				return err
			}
			if rv != "" {
				if err := r.checkFirst(ctx, rv); err != nil {
					return err
				}
				return r.finish(ctx, rv)
			}
		}
		if err := r.submit(ctx); err != nil {
			return err
		}
	}
}

// listPaged lists in pages, and watches after them. A list that expires on the way is begun again from the start, after
// a pause: it is not complete.
func (s *Stream) listPaged(ctx context.Context) error {
	limit := int64(pageSize)
	for expired := 1; ; expired++ {
		err := s.readPages(ctx, limit)
		if err == nil {
			return s.watch(ctx)
		}
		if !client.IsExpired(err) && !errors.Is(err, failure.ErrMiscounted) || limit == 0 {
			return err
		}
		if expired >= maxExpired || errors.Is(err, failure.ErrMiscounted) {
			limit = 0
		}
		s.outages.Note(s.spec.Name, zapcore.InfoLevel, "list is not complete, beginning again",
			failure.ReasonOf(err), err)
		if !client.Sleep(ctx, client.FirstPause+rand.N(client.FirstPause)) {
			return ctx.Err()
		}
	}
}

func (s *Stream) readPages(ctx context.Context, limit int64) error {
	r, err := s.newRelist(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	rv, err := r.readPages(ctx, v1.ListOptions{Limit: limit})
	switch {
	case err != nil:
		return err
	case r.detour.Found():
		return r.finishAround(ctx, rv)
	}
	return r.finish(ctx, rv)
}

// readPages takes the objects of all pages, and returns the version that they show. The options are the first page's.
// It reads around what makes a page fail, see package detour, but not at an exact version.
func (r *relist) readPages(ctx context.Context, o v1.ListOptions) (rv string, err error) {
	s, exact := r.s, o.ResourceVersion
	take := func(o *object.Object) error { return r.take(ctx, line.Added, time.Now(), o) }
	count := func() { r.items++ }
	confirm := func(meta client.ListMeta) error {
		if err := s.client.ConfirmNow(ctx); err != nil || rv != "" {
			return err
		}
		return r.check(ctx, meta.ResourceVersion)
	}
	s.listed = s.listed[:0]
	left := int64(0) // objects that are still to come, as far as the server has said
	r.detour = detour.New(s.client, s.spec.Target, cmp.Or(o.Limit, pageSize), s.eachKnown, &s.unreadable)
	d := r.detour
	for repeated := 0; ; {
		shown, items, before := r.diff.Shown, r.items, string(s.listed)
		meta, err := s.readPage(ctx, o, confirm, count, take)
		if err == nil && exact != "" && meta.ResourceVersion != exact {
			err = fmt.Errorf("%w: asked for the version %s, the server has listed %s", failure.ErrNotExact, exact,
				meta.ResourceVersion)
		}
		if err == nil && d.Version() != "" && meta.ResourceVersion != d.Version() {
			err = fmt.Errorf("%w: continued at %s, the server has listed %s", failure.ErrNotExact, d.Version(),
				meta.ResourceVersion)
		} else if err != nil && exact == "" {
			r.items, left = items, 0 // a page that fails counts nothing
			done, err := d.Fails(ctx, rv, err)
			if err != nil {
				return "", err
			}
			if o = d.Options(); done {
				return d.Version(), nil
			}
			continue
		}
		if err != nil {
			return "", err
		}
		s.reached()
		if err := r.submit(ctx); err != nil {
			return "", err
		}
		if !client.IsPosition(meta.ResourceVersion) {
			// A proxy's {}, say: taken for the last page it would end the list, and what the others hold would count as
			// deleted.
			return "", client.ErrNoVersion
		}
		if rv == "" {
			rv = meta.ResourceVersion // all pages show one version; the first names it
		}
		if left = max(left-(r.items-items), meta.RemainingItems); meta.Continue == "" {
			if left > 0 && s.decoder.Whole() {
				return "", fmt.Errorf("%w: %d of them are missing", failure.ErrMiscounted, left)
			}
			return rv, nil
		}
		o = v1.ListOptions{Limit: o.Limit, Continue: meta.Continue}
		namespace, name, _ := strings.Cut(string(s.listed), "/")
		if d.Passes(r.items-items, namespace, name, meta.RemainingItems) {
			o = d.Options()
		}
		// Pages are in the order of names; one of a server that does not select may have nothing of the stream's shard.
		if repeated++; r.diff.Shown > shown || s.decoder.Unselected() && string(s.listed) > before {
			repeated = 0
		}
		if repeated >= maxRepeatedPages {
			return "", failure.ErrNoListEnd
		}
	}
}

// readPage calls count for each object of a page and take with each that is the stream's, once the server has answered
// and confirm, where it is not nil, has not objected to that server, nor to what it says of the list before its first
// object.
func (s *Stream) readPage(
	ctx context.Context, o v1.ListOptions,
	confirm func(client.ListMeta) error, count func(), take func(*object.Object) error,
) (meta client.ListMeta, err error) {
	page, err := s.client.List(ctx, s.spec.Target, o)
	if err != nil {
		return meta, err
	}
	defer page.Close()
	for unnamed := false; ; {
		item, err := page.Next()
		if unnamed {
			if err := s.decoder.CheckListKind(page.Kind()); err != nil {
				return meta, err
			}
		}
		if confirm != nil {
			if err := confirm(page.Meta()); err != nil {
				return meta, err
			}
			confirm = nil
		}
		if errors.Is(err, io.EOF) {
			return page.Meta(), nil
		}
		if err != nil {
			return meta, err
		}
		count()
		mine, err := s.decoder.Scan(line.Added, item, &s.object)
		s.listed = append(append(append(s.listed[:0], s.object.Namespace...), '/'), s.object.Name...)
		if unnamed = len(s.object.Kind) == 0; unnamed && err == nil {
			err = s.decoder.CheckListKind(page.Kind())
		}
		if err == nil && mine {
			err = take(&s.object)
		}
		if err != nil {
			return meta, err
		}
	}
}
