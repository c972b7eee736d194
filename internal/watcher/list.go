package watcher

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
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
	listWait     = 5 * time.Minute

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
	s.lists.form.next(time.Now())
	for {
		err := s.listOnce(ctx)
		if s.state.Valid() {
			s.lists.form.failures = 0
			return err // with a position it was the watch behind the list that ended
		}
		refused := !s.lists.form.paged && refusesStreamedList(err)
		if ctx.Err() != nil || !blamesForm(err) || !s.lists.form.failed(time.Now(), refused) {
			return err
		}
		s.log.Info("list failed, asking for it in another form", zap.Stringer("form", &s.lists.form), zap.Error(err))
		if !refused {
			return err
		}
	}
}

// listOnce reads one list in the form that is due, and watches behind it.
func (s *Stream) listOnce(ctx context.Context) error {
	if !s.lists.form.paged {
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
	yes := true
	options := v1.ListOptions{
		SendInitialEvents:    &yes,
		ResourceVersionMatch: v1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	}
	w, err := s.open(ctx, options, listTimeout)
	if err == nil {
		defer w.Close()
		err = r.readInitial(ctx, w)
	}
	r.close() // the watch behind the list does not need what it has shown
	if err != nil {
		return err
	}
	return s.follow(ctx, w)
}

// readInitial reads a watch up to the end of its initial events.
func (r *relist) readInitial(ctx context.Context, w *kubeclient.WatchReader) error {
	for pauses, wait := listPatience, listWait; ; {
		waiting := time.Now()
		e, err := w.Next(min(listIdle, pauses, wait))
		switch {
		case errors.Is(err, kubeclient.ErrWatchEnded), errors.Is(err, kubeclient.ErrSilent):
			return errNoListEnd
		case err != nil:
			return err
		}
		received := time.Now()
		waited := received.Sub(waiting)
		if wait -= waited; waited > listPause {
			pauses -= waited
		}
		rv, err := r.takeEvents(ctx, w, e, received)
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
		if !kubeclient.Sleep(ctx, kubeclient.FirstPause+rand.N(kubeclient.FirstPause)) {
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
		if !kubeclient.IsPosition(meta.ResourceVersion) {
			// A proxy's {}, say: taken for the last page it would end the list,
			// and what the others hold would count as deleted.
			return kubeclient.ErrNoVersion
		}
		// All pages show one version; the first names it.
		if rv == "" {
			rv = meta.ResourceVersion
		}
		if token = meta.Continue; token == "" {
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

// readPage reads one page, once the cluster behind it is known to be the expected
// one.
func (r *relist) readPage(ctx context.Context, limit int64, token string) (kubeclient.ListMeta, error) {
	s := r.s
	page, err := s.client.List(ctx, s.spec.Target, limit, token)
	if err != nil {
		return kubeclient.ListMeta{}, err
	}
	defer page.Close()
	if err := s.client.ConfirmNow(ctx); err != nil {
		return kubeclient.ListMeta{}, err
	}
	meta, err := s.eachItem(page, func(o *event.Object) error { return r.take(ctx, event.Added, time.Now(), o) })
	if err != nil {
		return kubeclient.ListMeta{}, err
	}
	return meta, r.submit(ctx)
}

// readPage calls take with each object of a page.
func (s *Stream) readPage(ctx context.Context, limit int64, token string, take func(*event.Object) error) (kubeclient.ListMeta, error) {
	page, err := s.client.List(ctx, s.spec.Target, limit, token)
	if err != nil {
		return kubeclient.ListMeta{}, err
	}
	defer page.Close()
	return s.eachItem(page, take)
}

// eachItem calls take with each object that is left of a page.
func (s *Stream) eachItem(page *kubeclient.ListReader, take func(*event.Object) error) (kubeclient.ListMeta, error) {
	for {
		item, err := page.Next()
		if errors.Is(err, io.EOF) {
			return page.Meta(), nil
		}
		if err == nil {
			err = s.scan(item)
		}
		if err == nil {
			err = take(&s.object)
		}
		if err != nil {
			return kubeclient.ListMeta{}, err
		}
	}
}
