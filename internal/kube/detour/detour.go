// Package detour reads a list around the objects that make it fail.
//
// One object can make each list fail that it is in. A kube-apiserver stores a custom resource that is nested 9,995
// levels deep, and cannot decode it again: it answers 500 to each page with it, in whatever form, and 429 to each watch
// of the kind, in whatever namespace, for its watch cache begins with a list. An object that one conversion webhook
// fails for does the same, and one that is larger than a proxy lets through is alike. What is left are pages from etcd
// that do not have the object. So a page that fails, from a server that answers others, is halved until the object is
// found, the next page begins after it, and what was passed over is a hole.
package detour

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
)

// hole is a part of a list that cannot be read.
type hole struct {
	from, next string // the keys that are in it: from <= key < next; up to the end where next is ""
	key        string // of the last object in it; "" where that was not found out
	count      int64  // of its objects; 0 where the server does not say
	left       int64  // objects after it; -1 where the server does not say
}

func (h *hole) has(key string) bool { return h.from <= key && (h.next == "" || key < h.next) }

// String names the object, or the objects between which it is.
func (h *hole) String() string {
	end := h.next
	switch {
	case h.key != "" && h.count > 1:
		return fmt.Sprintf("%s and %d before it", h.key, h.count-1)
	case h.key != "" && h.count == 0:
		return h.key + " and perhaps others before it"
	case h.key != "":
		return h.key
	case end == "":
		end = "the end"
	}
	from := strings.TrimRight(h.from, client.FirstKey)
	end = strings.TrimRight(end, client.LastKey+client.FirstKey)
	return fmt.Sprintf("from %s to %s", cmp.Or(from, "the beginning"), end)
}

// Error says that a list was read but for its holes.
type Error struct {
	holes []hole
	cause string
}

func (e *Error) Error() string {
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
	maxAround   = 600 // requests of a list more than its pages; what is left then is one hole
	maxSearch   = 200 // of these, to find out the names of objects
	maxKnown    = 16  // known objects, and
	maxExplored = 60  // places between names, that may end a hole
	pageSize    = 500 // objects, of the list that ListFails reads
)

// MayBlameObject reports whether a list may have failed for the sake of an object in it: another list tells, see
// Reaches. A server that says when to ask again blames none.
func MayBlameObject(err error) bool {
	if _, waits := apierrors.SuggestsClientDelay(err); waits {
		return false
	}
	return client.IsInternal(err) || client.StatusCode(err) == http.StatusRequestEntityTooLarge
}

// Unreadable is what lists of one stream have found out about the objects that cannot be read.
type Unreadable struct {
	known    []hole // with their keys, of the last list
	explored int    // places where detours have looked for an object between some that cannot be read
}

// Forget notes that a list had no holes.
func (u *Unreadable) Forget() { u.known = nil }

// Detour reads pages around what makes them fail.
type Detour struct {
	client     *client.Client
	target     client.Target
	objects    func(func(object.Known) error) error // the known objects of the stream
	unreadable *Unreadable
	limit      int64  // of a page that holds nothing bad
	asked      int64  // of the page that is read
	start      string // the key that this page begins with
	version    string // that all pages show; "" until a page has failed
	suspect    int64  // a failure lies within so many objects from start; 0: nothing is known of one
	left       int64  // objects from start on, as the server has said; 0 where it has not
	passed     int64  // the largest page that did not fail since one did
	holes      []hole
	hole       hole // that is looked for
	requests   int  // more than the pages of a list without holes
	searches   int  // of these
	cause      error
}

// New returns the detour of a list in pages of so many objects. So far it leads past nothing.
func New(
	c *client.Client, t client.Target, limit int64, objects func(func(object.Known) error) error, u *Unreadable,
) *Detour {
	return &Detour{
		client: c, target: t, objects: objects, unreadable: u, limit: limit, asked: limit, start: client.FirstKey,
	}
}

// Options are those of the page that begins at start.
func (d *Detour) Options() v1.ListOptions {
	return v1.ListOptions{Limit: d.asked, Continue: client.ContinueAt(d.version, d.start)}
}

// keyOf is that of an object in lists of a target, by which these are sorted.
func keyOf(t client.Target, namespace, name string) string {
	if namespace == "" || t.Namespace != "" {
		return name
	}
	return namespace + "/" + name
}

// Fails takes the error of a page. done says that there is nothing more to read. The error is the page's where no
// object is to blame.
func (d *Detour) Fails(ctx context.Context, version string, failed error) (done bool, err error) {
	if !MayBlameObject(failed) || ctx.Err() != nil {
		return false, failed
	}
	d.cause = failed
	if d.version == "" {
		d.requests++
		at, err := Reaches(ctx, d.client, d.target, cmp.Or(version, client.Latest))
		if err != nil || version != "" && at != version {
			return false, failed
		}
		d.version = at
		fails, left, err := d.ask(ctx, d.start)
		if err != nil {
			return false, err
		}
		if d.left = max(0, left); fails {
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
	fails, _, err := d.ask(ctx, d.start)
	var h hole
	if fails {
		if h, err = d.find(ctx); err != nil {
			return false, err
		}
		fails, _, err = d.ask(ctx, d.start)
	}
	if err != nil || !fails { // an accident, if it passes in the meantime
		d.suspect, d.asked = 0, d.limit
		return false, err
	}
	d.holes = append(d.holes, h)
	d.start, d.left, d.suspect, d.asked = h.next, 0, 0, d.limit
	return h.next == "", nil
}

// Passes takes a page that was read, with so many objects, the last of which has this name, and after which so many are
// left. It reports whether the next page is to be asked for by Options.
func (d *Detour) Passes(items int64, namespace, name string, left int64) bool {
	d.start, d.left = keyOf(d.target, namespace, name)+client.FirstKey, left
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

// find looks for the hole at start, where a page of one object fails. It ends before the first object that can be read,
// as far as that is found: where several cannot, that a page fails says nothing of what is between them.
func (d *Detour) find(ctx context.Context) (hole, error) {
	h := &d.hole
	*h = hole{from: d.start}
	if err := d.bound(ctx); err != nil {
		return *h, err
	}
	for {
		key, err := d.name(ctx)
		if h.key = key; err != nil || key == "" {
			return *h, err
		}
		if d.left > 0 && h.left >= 0 {
			h.count = d.left - h.left
		}
		if h.count == 1 {
			return *h, nil
		}
		if closer, err := d.explore(ctx); err != nil || !closer {
			return *h, err
		}
	}
}

// bound ends the hole before the first known object that can be read, or with the namespace.
func (d *Detour) bound(ctx context.Context) error {
	var at []string
	first := func() {
		slices.Sort(at)
		at = at[:min(len(at), maxKnown)]
	}
	err := d.objects(func(k object.Known) error {
		if key := keyOf(d.target, k.Namespace, k.Name); key > d.start {
			if at = append(at, key); len(at) > 10*maxKnown {
				first()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	first()
	for _, known := range d.unreadable.known {
		at = append(at, known.key+client.FirstKey)
	}
	slices.Sort(at)
	if found, err := d.firstRead(ctx, at); found || err != nil {
		return err
	}
	if namespace, _, in := strings.Cut(d.start, "/"); in { // also after maxSearch: other namespaces go on
		_, err = d.failsAt(ctx, namespace+"0") // the byte after the slash
	}
	return err
}

// name returns the key of the last object of the hole, "" where that is not found.
func (d *Detour) name(ctx context.Context) (string, error) {
	for _, known := range d.unreadable.known {
		if known.key+client.FirstKey != d.hole.next {
			continue
		}
		if fails, err := d.failsAt(ctx, known.key); fails || err != nil {
			return known.key, err
		}
	}
	return d.search(ctx)
}

// letters are those of names, in the order of keys, and nameLetters those of most.
const (
	letters     = "-./0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
	nameLetters = "-./0123456789abcdefghijklmnopqrstuvwxyz"
)

// branch is a key that begins with a prefix and a letter. A key has one slash, after the namespace: servers refuse
// others.
func branch(prefix, letter string) string {
	if letter == "/" && (prefix == "" || strings.Contains(prefix, "/")) {
		letter = "."
	}
	return prefix + letter
}

// search finds, letter by letter, the key of an object in the hole that cannot be read, and after which one can: a page
// of one object that begins at that key fails, and one that begins after it does not. The hole then ends there.
func (d *Detour) search(ctx context.Context) (key string, err error) {
	for d.searches < maxSearch {
		// The key begins with what is known of it. At n, what follows is the end of it for 0, else a letter up to the
		// nth.
		upTo := func(n int) string {
			if n == 0 {
				return key + client.FirstKey
			}
			return branch(key, letters[n-1:n]) + client.LastKey
		}
		low, high := 0, len(letters)+1
		if key == "" || strings.HasSuffix(key, "/") {
			low = 1 // no name is empty
		}
		for low < high {
			middle := (low + high) / 2
			fails, err := d.failsAt(ctx, upTo(middle))
			switch {
			case client.IsBadRequest(err):
				return "", nil // of what is no key
			case err != nil:
				return "", err
			case fails:
				low = middle + 1
			default:
				high = middle
			}
		}
		switch {
		case low > len(letters):
			return "", nil // a letter that is not among these
		case low == 0:
			if fails, err := d.failsAt(ctx, key); !fails || err != nil {
				return "", err
			}
			return key, nil
		}
		key += letters[low-1 : low]
	}
	return "", nil
}

// explore looks for an object that can be read before the last one of the hole, where names branch off from that one's
// or from that of the object before the hole. Each call tries the shortest of these places and some of the others.
func (d *Detour) explore(ctx context.Context) (closer bool, err error) {
	var at []string
	for _, key := range []string{d.hole.key, strings.TrimSuffix(d.start, client.FirstKey)} {
		for i := range len(key) {
			for n := range len(nameLetters) {
				at = append(at, branch(key[:i], nameLetters[n:n+1]))
			}
		}
	}
	slices.SortFunc(at, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	at = slices.DeleteFunc(slices.Compact(at), func(key string) bool { return key <= d.start || key >= d.hole.key })
	always := at[:min(len(at), maxExplored/2)]
	if at = at[len(always):]; len(at) > 0 {
		from := d.unreadable.explored % len(at)
		at = slices.Concat(at[from:], at[:from])[:min(len(at), maxExplored/2)]
		d.unreadable.explored += len(at)
	}
	return d.firstRead(ctx, slices.Concat(always, at))
}

// firstRead ends the hole at the first of the keys from which on a page of one object does not fail.
func (d *Detour) firstRead(ctx context.Context, keys []string) (found bool, err error) {
	for _, key := range keys {
		if d.searches >= maxSearch {
			break
		}
		if fails, err := d.failsAt(ctx, key); err != nil && !client.IsBadRequest(err) {
			return false, err
		} else if !fails && err == nil {
			return true, nil
		}
	}
	return false, nil
}

// failsAt reports whether a page of one object fails that begins at a key. The hole ends where one does not.
func (d *Detour) failsAt(ctx context.Context, key string) (bool, error) {
	switch {
	case key <= d.start:
		return true, nil
	case d.hole.next != "" && key >= d.hole.next:
		return false, nil
	}
	fails, left, err := d.ask(ctx, key)
	if !fails && err == nil {
		d.hole.next, d.hole.left = key, left
	}
	return fails, err
}

// ask reads a page of one object that begins at a key. It reports whether that fails, and otherwise how many objects
// there are from there on; -1 where the server does not say.
func (d *Detour) ask(ctx context.Context, key string) (fails bool, left int64, err error) {
	d.requests++
	d.searches++
	meta, items, err := peek(ctx, d.client, d.target, d.version, key)
	switch {
	case err != nil && MayBlameObject(err):
		return true, -1, nil
	case err != nil || meta.Continue != "" && meta.RemainingItems == 0:
		return false, -1, err
	}
	return false, items + meta.RemainingItems, nil
}

// peek reads a page of one object that begins at a key, and counts the objects of it.
func peek(
	ctx context.Context, c *client.Client, t client.Target, version, key string,
) (meta client.ListMeta, items int64, err error) {
	page, err := c.List(ctx, t, v1.ListOptions{Limit: 1, Continue: client.ContinueAt(version, key)})
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

// Reaches reports whether the server answers a list that has no objects, which begins where others end: then it is an
// object that makes those fail. It returns the version that this list shows.
func Reaches(ctx context.Context, c *client.Client, t client.Target, version string) (string, error) {
	if client.ContinueAt(version, client.LastKey) == "" {
		return "", client.ErrNoVersion
	}
	meta, _, err := peek(ctx, c, t, version, client.LastKey)
	if err != nil {
		return "", err
	}
	if _, number := line.VersionNumber([]byte(meta.ResourceVersion)); !number {
		return "", client.ErrNoVersion
	}
	return meta.ResourceVersion, nil
}

// Found reports whether the list has holes; that of a nil detour has none.
func (d *Detour) Found() bool { return d != nil && len(d.holes) > 0 }

// Hides reports whether a hole may have an object.
func (d *Detour) Hides(namespace, name string) bool {
	if !d.Found() {
		return false
	}
	key := keyOf(d.target, namespace, name)
	return slices.ContainsFunc(d.holes, func(h hole) bool { return h.has(key) })
}

// Finish remembers the holes of a list that was read to its end, and returns why it is not complete.
func (d *Detour) Finish() error {
	d.unreadable.known = slices.DeleteFunc(slices.Clone(d.holes), func(h hole) bool { return h.key == "" })
	return &Error{holes: d.holes, cause: d.cause.Error()}
}

// Names names the first holes.
func (d *Detour) Names() string { return nameHoles(d.holes) }

// Version is what all pages show; "" until a page has failed.
func (d *Detour) Version() string { return d.version }

// Requests is how many the list has taken more than its pages.
func (d *Detour) Requests() int { return d.requests }

// ListFails returns why a list fails that an object is to blame for; nil where that is not so.
func ListFails(ctx context.Context, c *client.Client, t client.Target) error {
	narrow := c.MetadataOnly()
	failed := 0 // in a row: an answer may fail for any reason once
	for o := (v1.ListOptions{Limit: pageSize}); ; {
		page, err := narrow.List(ctx, t, o)
		if err == nil {
			for err == nil {
				_, err = page.Next()
			}
			if errors.Is(err, io.EOF) {
				o.Continue, failed = page.Meta().Continue, 0
			}
			page.Close()
		}
		switch {
		case errors.Is(err, io.EOF) && o.Continue != "":
			continue
		case errors.Is(err, io.EOF) || !MayBlameObject(err):
			return nil
		}
		if failed++; failed < 2 {
			continue
		}
		if _, unreached := Reaches(ctx, c, t, client.Latest); unreached == nil {
			return err
		}
		return nil
	}
}
