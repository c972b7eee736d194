package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
)

// One object can make each list fail that it is in. A kube-apiserver stores a custom resource that is nested 9,995 levels
// deep, and cannot decode it again: it answers 500 to each page with it, in whatever form, and 429 to each watch of the
// kind, in whatever namespace, for its watch cache begins with a list. An object that one conversion webhook fails for does
// the same, and one that is larger than a proxy lets through is alike. What is left are pages from etcd that do not have
// the object. So a page that fails, from a server that answers others, is halved until the object is found, the next page
// begins behind it, and what was passed over is a hole:
//
//	in the list                                  is written
//	-------------------------------------------  --------------------------------------------------------
//	an object outside of the holes               as in any list
//	a known object that is missing outside them  DELETED: all pages show one version
//	a known object whose key is in a hole        nothing: whether it is there is not known
//	the end                                      no SYNCED: the list is not complete, and covers no time
//
// The stream then fails with ObjectUnreadable and lists again after a pause, since a watch would begin at what no complete
// list has shown.

// hole is a part of a list that cannot be read.
type hole struct {
	from, next string // the keys that are in it: from <= key < next; up to the end where next is ""
	key        string // of the last object in it; "" where that was not found out
	count      int64  // of its objects; 0 where the server does not say
}

func (h *hole) has(key string) bool { return h.from <= key && (h.next == "" || key < h.next) }

// String names the object, or the objects between which it is.
func (h *hole) String() string {
	end := h.next
	switch {
	case h.key != "" && h.count > 1:
		return fmt.Sprintf("%s and %d before it", h.key, h.count-1)
	case h.key != "":
		return h.key
	case end == "":
		end = "the end"
	}
	from := strings.TrimRight(h.from, kubeclient.FirstKey)
	return fmt.Sprintf("from %s to %s", cmp.Or(from, "the beginning"), strings.TrimRight(end, kubeclient.LastKey+kubeclient.FirstKey))
}

// unreadableError says that a list was read but for its holes.
type unreadableError struct {
	holes []hole
	cause string
}

func (e *unreadableError) Error() string {
	return fmt.Sprintf("the server cannot list %s: %s", nameHoles(e.holes), e.cause)
}

// nameHoles names the first holes, in printable text: names are anybody's.
func nameHoles(holes []hole) string {
	const few = 3
	var names []string
	for i := range holes[:min(len(holes), few)] {
		names = append(names, holes[i].String())
	}
	text := strings.Join(names, ", ")
	if more := len(holes) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

const (
	maxAround = 600             // requests of a list more than its pages; what is left then is one hole
	maxSearch = 200             // of these, to find out the names of objects
	aroundGap = 3 * time.Second // for each of them the next list waits so long, up to maxListRest

	unreadableRest = time.Minute      // at least, between two lists with holes
	blindAfter     = time.Minute      // for how long no watch must be had, before its server is asked for a reason
	maxBlindPause  = 30 * time.Minute // between two such questions; the first pause is maxListRest
)

// mayBlameObject reports whether a list may have failed for the sake of an object in it: another list tells, see reaches. A
// server that says when to ask again blames none.
func mayBlameObject(err error) bool {
	if _, waits := apierrors.SuggestsClientDelay(err); waits {
		return false
	}
	return isInternal(err) || codeOf(err) == http.StatusRequestEntityTooLarge
}

// detour reads pages around what makes them fail.
type detour struct {
	s        *Stream
	limit    int64  // of a page that holds nothing bad
	asked    int64  // of the page that is read
	start    string // the key that this page begins with
	version  string // that all pages show; "" until a page has failed
	suspect  int64  // a failure lies within so many objects from start; 0: nothing is known of one
	left     int64  // objects from start on, as the server has said; 0 where it has not
	passed   int64  // the largest page that did not fail since one did
	holes    []hole
	requests int // more than the pages of a list without holes
	searches int // of these
	cause    error
}

// options are those of the page that begins at start.
func (d *detour) options() v1.ListOptions {
	return v1.ListOptions{Limit: d.asked, Continue: kubeclient.ContinueAt(d.version, d.start)}
}

// key is that of an object in lists of the stream, by which these are sorted.
func (s *Stream) key(namespace, name string) string {
	if namespace == "" || s.spec.Target.Namespace != "" {
		return name
	}
	return namespace + "/" + name
}

// fails takes the error of a page. done says that there is nothing more to read. The error is the page's where no object is
// to blame.
func (d *detour) fails(ctx context.Context, version string, failed error) (done bool, err error) {
	if !mayBlameObject(failed) || ctx.Err() != nil {
		return false, failed
	}
	d.cause = failed
	if d.version == "" {
		d.requests++
		at, err := d.s.reaches(ctx, cmp.Or(version, kubeclient.Latest))
		if err != nil || version != "" && at != version {
			return false, failed
		}
		d.version = at
		fails, left, err := d.failsAt(ctx, d.start)
		if err != nil {
			return false, err
		}
		if d.left = left; fails {
			d.asked = 1
		}
	}
	d.requests++
	if d.requests > maxAround {
		d.holes = append(d.holes, hole{from: d.start})
		return true, nil
	}
	if d.asked > 1 {
		d.suspect, d.passed = d.asked, 0
		if d.left > 0 {
			d.suspect = min(d.suspect, d.left)
		}
		d.asked = max(1, d.suspect/2)
		return false, nil
	}
	switch fails, _, err := d.failsAt(ctx, d.start); {
	case err != nil:
		return false, err
	case !fails: // an accident
		d.suspect, d.asked = 0, d.limit
		return false, nil
	}
	h, err := d.find(ctx)
	if err != nil {
		return false, err
	}
	d.holes = append(d.holes, h)
	d.start, d.left, d.suspect, d.asked = h.next, 0, 0, d.limit
	return h.next == "", nil
}

// passes takes a page that was read, with so many objects, the last of which has a key, and behind which so many are left. It
// reports whether the next page is to be asked for by options.
func (d *detour) passes(items int64, key string, left int64) bool {
	d.start, d.left = key+kubeclient.FirstKey, left
	if d.version == "" {
		return false
	}
	d.passed = max(d.passed, d.asked)
	if d.suspect > 0 {
		d.requests++
		if d.suspect -= items; d.suspect <= 0 || items == 0 {
			d.suspect, d.limit = 0, d.passed // it was the size
		}
	}
	d.asked = d.limit
	if d.suspect > 0 {
		d.asked = max(1, min(d.suspect/2, d.limit))
	}
	return true
}

// find returns the hole at start, where a page of one object fails: of those that it finds the smallest, since there may be
// others that cannot be read, and objects between them that can.
func (d *detour) find(ctx context.Context) (best hole, err error) {
	take := func(h hole, err error) (enough bool, _ error) {
		if h.next != "" && (best.next == "" || h.next < best.next) {
			best = h
		}
		return best.next != "" && best.count <= 1, err // 0: the server has not said how many
	}
	namespace, _, in := strings.Cut(d.start, "/")
	elsewhere, prefixes := false, []string{""} // the next object that can be read is in another namespace
	if in {
		if elsewhere, _, err = d.failsAt(ctx, namespace+"/"+kubeclient.LastKey); err != nil {
			return best, err
		}
		if prefixes = []string{namespace + "/"}; elsewhere {
			prefixes = append(prefixes, "")
		}
	}
	for _, known := range d.s.unreadable {
		if known.key >= d.start {
			enough, err := take(d.try(ctx, known.key))
			if err != nil || enough && (!in || elsewhere || strings.HasPrefix(known.key, namespace+"/")) {
				return best, err
			}
			break
		}
	}
	for _, prefix := range prefixes {
		if d.searches < maxSearch {
			if enough, err := take(d.search(ctx, prefix)); err != nil || enough {
				return best, err
			}
		}
	}
	if best.next == "" { // the rest of its namespace, or else of the list
		best.from = d.start
		if in {
			best.next = namespace + "0" // the byte after the slash
		}
	}
	return best, nil
}

// try returns the hole at start if it ends with the object that has the key; else the zero hole.
func (d *detour) try(ctx context.Context, key string) (hole, error) {
	next := key + kubeclient.FirstKey
	fails, left, err := d.failsAt(ctx, next)
	if fails || err != nil {
		return hole{}, err
	}
	h := hole{from: d.start, next: next}
	if d.left > left {
		h.count = d.left - left
	}
	if fails, _, err = d.failsAt(ctx, key); fails {
		h.key = key
	}
	return h, err
}

// letters are those of names, in the order of keys.
const letters = "-./0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// search finds the key of the last of the objects from start on that cannot be read, which is mostly one, letter by letter:
// a page of one object fails as long as it begins at or before that key. Its beginning is known. The zero hole is none found.
func (d *detour) search(ctx context.Context, known string) (hole, error) {
	for d.searches < maxSearch {
		// The key begins with known. At n, what follows is the end of it for 0, else a letter up to the nth.
		upTo := func(n int) string {
			if n == 0 {
				return known + kubeclient.FirstKey
			}
			letter := letters[n-1 : n]
			if letter == "/" && (known == "" || strings.Contains(known, "/")) {
				letter = "." // no key has a slash there, and servers refuse it
			}
			return known + letter + kubeclient.LastKey
		}
		low, high := 0, len(letters)+1
		if known == "" || strings.HasSuffix(known, "/") {
			low = 1 // no name is empty
		}
		for low < high {
			middle := (low + high) / 2
			fails, _, err := d.failsAt(ctx, upTo(middle))
			switch {
			case isBadRequest(err):
				return hole{}, nil // of what is no key
			case err != nil:
				return hole{}, err
			case fails:
				low = middle + 1
			default:
				high = middle
			}
		}
		switch {
		case low > len(letters):
			return hole{}, nil // a letter that is not among these
		case low == 0:
			return d.try(ctx, known)
		}
		known += letters[low-1 : low]
	}
	return hole{}, nil
}

// failsAt reports whether a page of one object fails that begins at a key, and else how many objects the server says that
// there are from there on.
func (d *detour) failsAt(ctx context.Context, key string) (fails bool, left int64, err error) {
	if key < d.start {
		return true, 0, nil // what is between can be read, and says nothing
	}
	d.requests++
	d.searches++
	meta, items, err := d.s.peek(ctx, d.version, key)
	if err != nil && mayBlameObject(err) {
		return true, 0, nil
	}
	return false, items + meta.RemainingItems, err
}

// peek reads a page of one object that begins at a key, and counts the objects of it.
func (s *Stream) peek(ctx context.Context, version, key string) (meta kubeclient.ListMeta, items int64, err error) {
	page, err := s.client.List(ctx, s.spec.Target, v1.ListOptions{Limit: 1, Continue: kubeclient.ContinueAt(version, key)})
	if err != nil {
		return meta, 0, err
	}
	defer page.Close()
	for ; ; items++ {
		if _, err = page.Next(); errors.Is(err, io.EOF) {
			return page.Meta(), items, nil
		} else if err != nil {
			return meta, 0, err
		}
	}
}

// reaches reports whether the server answers a list that has no objects, which begins where others end: then it is an
// object that makes those fail. It returns the version that this list shows.
func (s *Stream) reaches(ctx context.Context, version string) (string, error) {
	if kubeclient.ContinueAt(version, kubeclient.LastKey) == "" {
		return "", kubeclient.ErrNoVersion
	}
	meta, _, err := s.peek(ctx, version, kubeclient.LastKey)
	if err != nil {
		return "", err
	}
	if _, number := event.VersionNumber([]byte(meta.ResourceVersion)); !number {
		return "", kubeclient.ErrNoVersion
	}
	return meta.ResourceVersion, nil
}

// hides reports whether a hole may have an object.
func (r *relist) hides(namespace, name string) bool {
	key := r.s.key(namespace, name)
	return slices.ContainsFunc(r.holes, func(h hole) bool { return h.has(key) })
}

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
	s.unreadable = slices.DeleteFunc(slices.Clone(r.holes), func(h hole) bool { return h.key == "" })
	s.lists.at, s.lists.version, s.lists.took = time.Now(), "", time.Since(r.began)
	s.lists.around = min(max(unreadableRest, time.Duration(r.detoured)*aroundGap), maxListRest)
	err := &unreadableError{holes: r.holes, cause: r.cause.Error()}
	s.note(func(n *Status) { n.Unreadable = nameHoles(r.holes) })
	return err
}

// blind is how often a stream has looked why it can have no watch.
type blind struct {
	since time.Time     // no watch could be had
	next  time.Time     // when to look again
	pause time.Duration // until the time after that
}

// checkBlind returns errRefused in the place of a watch's error where the server refuses each watch because it cannot list
// the kind: its watch cache will begin at the version at which it can again, so that the position is lost anyway.
func (s *Stream) checkBlind(ctx context.Context, err error) error {
	now := time.Now()
	b := &s.blind
	if s.progress || !isServerError(err) && !apierrors.IsTooManyRequests(err) {
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
	cause := s.listFails(ctx)
	if cause == nil || ctx.Err() != nil {
		return err
	}
	*b = blind{}
	s.lists.paged, s.lists.until, s.lists.failures = true, now.Add(pagedFor), 0
	return fmt.Errorf("%w: %w; nor does it list the resource: %w", errRefused, err, cause)
}

// listFails returns why a list fails that an object is to blame for; nil where that is not so.
func (s *Stream) listFails(ctx context.Context) error {
	narrow := s.client.MetadataOnly()
	for o := (v1.ListOptions{Limit: pageSize}); ; {
		page, err := narrow.List(ctx, s.spec.Target, o)
		if err == nil {
			for err == nil {
				_, err = page.Next()
			}
			o.Continue = page.Meta().Continue
			page.Close()
		}
		switch {
		case errors.Is(err, io.EOF) && o.Continue != "":
			continue
		case errors.Is(err, io.EOF) || !mayBlameObject(err):
			return nil
		}
		if _, unreached := s.reaches(ctx, kubeclient.Latest); unreached == nil {
			return err
		}
		return nil
	}
}
