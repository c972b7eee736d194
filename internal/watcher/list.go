package watcher

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/event"
)

const (
	// pageSize is how many objects a page of a list is asked for; the same as
	// client-go's pager.
	pageSize = 500
	// maxExpired is how often a list in pages may expire before it is asked
	// for in one answer.
	maxExpired = 2
	// maxRepeatedPages is how many pages in a row may show nothing new before
	// the list counts as one without an end.
	maxRepeatedPages = 3

	// A streamed list counts as not supported when it is silent for listIdle,
	// when its pauses of more than listPause add up to listPatience, or when
	// the stream has waited for it for listWait altogether: a server that does
	// not know sendInitialEvents ignores it, and sends what happens now. Time
	// in which lines are written does not count.
	listIdle     = 30 * time.Second
	listPause    = time.Second
	listPatience = 2 * time.Minute
	// A page is waited for no longer either.
	listWait = 5 * time.Minute

	// maxListFailures is how often in a row one form of a list may fail before
	// the other one is tried.
	maxListFailures = 2
	// pagedFor is how long a stream reads pages before it asks for a streamed
	// list again.
	pagedFor = 24 * time.Hour

	// batchBytes is how large a batch of a list grows.
	batchBytes = 64 << 10
)

// listForm is the form in which a stream asks for lists: streamed (KEP-3157), or
// in pages. Either may be more than a server, or a proxy in front of it, can
// do: one with an etcd that reports no progress answers a streamed list with an
// error of any code, and a bound on the duration of requests cuts every one
// that is large; a bound on the size of answers refuses pages. So a form that
// fails gives way to the other.
type listForm struct {
	paged    bool
	failures int       // in a row, of this form
	until    time.Time // paged until then
}

// next returns to streamed lists when it is time to try them again.
func (f *listForm) next(now time.Time) {
	if f.paged && now.After(f.until) {
		*f = listForm{}
	}
}

// failed records a failure, and reports whether the other form is next. refused
// says that the server cannot do this form, as far as its answer can say so.
func (f *listForm) failed(now time.Time, refused bool) bool {
	f.failures++
	if f.failures < maxListFailures && !refused {
		return false
	}
	*f = listForm{paged: !f.paged, until: now.Add(pagedFor)}
	return true
}

func (f *listForm) String() string {
	if f.paged {
		return "pages"
	}
	return "streamed"
}

// list reads all objects, writes the difference, and goes on watching from
// there. It always returns an error: why that ended. Where the server refuses to
// stream the list, it is read in pages at once.
func (s *Stream) list(ctx context.Context) error {
	s.setState(Listing, s.reason)
	s.form.next(time.Now())
	for {
		err := s.listOnce(ctx)
		if s.state.Valid() {
			s.form.failures = 0
			return err // with a position it was the watch behind the list that ended
		}
		refused := !s.form.paged && refusesStreamedList(err)
		if ctx.Err() != nil || !blamesForm(err) || !s.form.failed(time.Now(), refused) {
			return err
		}
		s.log.Info("list failed, asking for it in another form", zap.Stringer("form", &s.form), zap.Error(err))
		if !refused {
			return err
		}
	}
}

// listOnce reads one list in the form that is due, and watches behind it.
func (s *Stream) listOnce(ctx context.Context) error {
	if !s.form.paged {
		return s.listStreamed(ctx)
	}
	if err := s.listPaged(ctx); err != nil {
		return err
	}
	return s.watch(ctx)
}

// listStreamed lists through a watch with sendInitialEvents: objects first, a
// bookmark at their end, and then the watch goes on.
func (s *Stream) listStreamed(ctx context.Context) error {
	r, err := s.newRelist(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	yes := true
	options := v1.ListOptions{
		SendInitialEvents:    &yes,
		ResourceVersionMatch: v1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	}
	return s.open(ctx, options, listTimeout, func(f *frames) error {
		if err := r.readInitial(ctx, f); err != nil {
			return err
		}
		return s.follow(ctx, f)
	})
}

// readInitial reads a watch up to the end of its initial events.
func (r *relist) readInitial(ctx context.Context, f *frames) error {
	for pauses, wait := listPatience, listWait; ; {
		waiting := time.Now()
		frame, err := f.next(min(listIdle, pauses, wait))
		switch {
		case errors.Is(err, errWatchEnded), errors.Is(err, errSilent):
			return errNoListEnd
		case err != nil:
			return err
		}
		received := time.Now()
		waited := received.Sub(waiting)
		if wait -= waited; waited > listPause {
			pauses -= waited
		}
		rv, err := r.takeFrames(ctx, f, frame, received)
		if err != nil {
			return err
		}
		if rv != "" {
			return r.finish(ctx, rv)
		}
	}
}

// listPaged lists in pages. A list that expires on the way is begun again from
// the start, after a pause: it is not complete.
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
	r, err := s.newRelist(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	var rv, token string
	for repeated := 0; ; {
		shown := r.diff.shown
		meta, err := r.readPage(ctx, limit, token)
		if err != nil {
			return err
		}
		if !isPosition(meta.ResourceVersion) {
			// A proxy's {}, say: taken for the last page it would end the list,
			// and what the others hold would count as deleted.
			return errNoVersion
		}
		// All pages show one version; the first names it.
		if rv == "" {
			rv = meta.ResourceVersion
		}
		if token = meta.Continue; token == "" {
			if err := r.confirm(ctx); err != nil {
				return err
			}
			return r.finish(ctx, rv)
		}
		if repeated++; r.diff.shown > shown {
			repeated = 0
		}
		if repeated >= maxRepeatedPages {
			return errNoListEnd
		}
	}
}

// readPage reads one page. What ends the request does not end the writing of
// what it brought: that waits with the stream's context.
func (r *relist) readPage(ctx context.Context, limit int64, token string) (event.ListMeta, error) {
	r.confirmed = false
	meta, err := r.s.readPage(ctx, limit, token, func(o *event.Object) error {
		if err := r.confirm(ctx); err != nil {
			return err
		}
		return r.take(ctx, event.Added, time.Now(), o)
	})
	if err != nil {
		return meta, err
	}
	return meta, r.submit(ctx)
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
	patience := listWait
	if limit == 0 {
		patience = listTimeout
	}
	items := event.NewListReader(newPatientReader(body, cancel, patience), s.client.maxObject)
	for {
		item, err := items.Next()
		if errors.Is(err, io.EOF) {
			return items.Meta(), nil
		}
		if err != nil {
			return event.ListMeta{}, listError(err)
		}
		if err := s.scan(item); err != nil {
			return event.ListMeta{}, err
		}
		if err := take(&s.object); err != nil {
			return event.ListMeta{}, err
		}
	}
}
