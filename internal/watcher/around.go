package watcher

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
	"kubejournal/internal/record/failure"
)

// A list with holes, see package detour, is used as far as it goes:
//
//	in the list                                  is written
//	-------------------------------------------  --------------------------------------------------------
//	an object outside of the holes               as in any list
//	a known object that is missing outside them  DELETED: all pages show one version
//	a known object whose key is in a hole        nothing: whether it is there is not known
//	the end                                      no SYNCED: the list is not complete, and covers no time
//
// The stream then fails with ObjectUnreadable and lists again after a pause, since a watch would begin at what no
// complete list has shown.

const (
	aroundGap      = 3 * time.Second  // the next list waits so long for each request of a detour, up to maxListRest
	unreadableRest = time.Minute      // at least, between two lists with holes
	blindAfter     = time.Minute      // for how long no watch must be had, before its server is asked for a reason
	maxBlindPause  = 30 * time.Minute // between two such questions; the first pause is maxListRest
)

// finishAround closes a list that shows the version rv outside of its holes, and returns why it is not complete.
func (r *relist) finishAround(ctx context.Context, rv string) error {
	s := r.s
	if err := r.settle(ctx, rv); err != nil {
		return err
	}
	if err := r.writeGap(ctx, rv); err != nil {
		return err
	}
	if err := r.submit(ctx); err != nil {
		return err
	}
	s.seen = true
	s.lists.at, s.lists.version, s.lists.took = time.Now(), "", time.Since(r.began)
	s.lists.around = min(max(unreadableRest, time.Duration(r.detour.Requests())*aroundGap), maxListRest)
	s.note(func(n *Status) { n.Unreadable = r.detour.Names() })
	return r.detour.Finish()
}

// blind is how often a stream has looked why it can have no watch.
type blind struct {
	since time.Time     // no watch could be had
	next  time.Time     // when to look again
	pause time.Duration // until the time after that
}

// checkBlind returns failure.ErrRefused in the place of a watch's error where the server refuses each watch because it
// cannot list the kind: its watch cache will begin at the version at which it can again, so that the position is lost
// anyway.
func (s *Stream) checkBlind(ctx context.Context, err error) error {
	now := time.Now()
	b := &s.blind
	if s.progress || !client.IsServerError(err) && !apierrors.IsTooManyRequests(err) {
		*b = blind{}
		return err
	}
	if b.since.IsZero() {
		*b = blind{since: now, next: now.Add(blindAfter), pause: maxListRest}
	}
	if now.Before(b.next) {
		return err
	}
	b.next, b.pause = now.Add(b.pause), min(2*b.pause, maxBlindPause)
	cause := detour.ListFails(ctx, s.client, s.spec.Target)
	if cause == nil || ctx.Err() != nil {
		return err
	}
	*b = blind{}
	s.lists.paged, s.lists.until, s.lists.failures = true, now.Add(pagedFor), 0
	return fmt.Errorf("%w: %w; nor does it list the resource: %w", failure.ErrRefused, err, cause)
}
