package watcher

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"kubejournal/internal/format/line"
	"kubejournal/internal/format/object"
	"kubejournal/internal/kube/client"
	"kubejournal/internal/kube/detour"
	"kubejournal/internal/record/encode"
	"kubejournal/internal/record/failure"
)

// Aggregated API servers, forks and old versions break what the API promises of lists and watches. What such a server
// says is well-formed and wrong, so each statement that a line would rest on is checked against another one of the same
// server:
//
//	the API promises that              what is checked                             where it does not hold
//	a watch begins after its position, versions rise; an ADDED object is not       GAP and a list; nothing of the
//	and its events are in order        known, a MODIFIED or DELETED one is         watch is written
//	a list has every object            a known one that it lacks is asked for by   the list is not complete, and
//	                                   name; after a streamed one, the first, too  another form is taken
//	a list's version covers its        no object is at a later one                 the list is not complete
//	objects
//	objects are of the kind, namespace each object                                 one of another namespace is left
//	and selection asked for                                                        out; else nothing is used
//
// Sources: "Resource versions" and "Semantics for watch" of the API concepts page, KEP-3157, KEP-5504. Seen in
// openshift-apiserver#661, porch#1101, nephio#921, kubernetes#58545.
//
// A server that breaks one of them does it again. The stream then shows the reason and lists after pauses that grow, so
// that its journal still has what lists show.

var errNotCommitted = errors.New("the checkpoint does not have all that was submitted")

// habit is what a server was last seen to do that the API forbids.
type habit struct {
	reason string // "" once a watch has brought something usable
	times  int    // in a row
}

const (
	habitShown    = time.Minute      // for how long a watch must work, before its server counts as mended
	habitPause    = 10 * time.Second // after the second time in a row; it doubles up to maxHabitPause
	maxHabitPause = 30 * time.Second
)

// seen notes a contradiction, and returns how long the stream pauses before it tries again. The first one may be an
// accident.
func (h *habit) seen(reason string) time.Duration {
	h.reason = reason
	h.times++
	if h.times == 1 {
		return 0
	}
	return min(habitPause<<min(h.times-2, 2), maxHabitPause)
}

// order is what the next event of a watch must come after.
type order struct {
	version uint64 // the position as a number, 0 where it is none
	next    uint64 // of the event that was read last, where it is a number
	number  bool   // it is
	stays   bool   // the event has the version that its object had before, and does not move the position
	events  int    // that the watch has brought
	last    []byte // type and identity of the last event, to know one that is sent twice
	this    []byte // scratch: the same of the scanned one
}

// read takes the version of the next event or bookmark.
func (o *order) read(rv []byte) {
	o.next, o.number = line.VersionNumber(rv)
	o.stays = false
}

// move moves to the version that was read, and reports whether the position does, which does not go back.
func (o *order) move(rv []byte) bool {
	if !client.IsPosition(rv) || o.stays || o.version != 0 && (!o.number || o.next < o.version) {
		return false
	}
	o.version = o.next // 0 where it is no number
	return true
}

// contradicts returns why the scanned object cannot be the next event of the watch; nil where it can. An event that was
// read before and says nothing new is repeated, and is dropped. errNotCommitted means that the answer needs a
// checkpoint with all that was submitted: flushed says that it has that.
func (s *Stream) contradicts(t line.Type, flushed bool) (repeated bool, err error) {
	o := &s.object
	n, ok := s.order.next, s.order.number
	switch {
	case s.isLast(t):
		return true, nil
	case s.order.version > 0 && !ok:
		return false, s.contradiction(failure.ErrOutOfOrder, t, "which is no number")
	}
	rises := s.order.version == 0 || n > s.order.version
	switch {
	case t != line.Deleted && !rises:
		k, err := s.knownOf(o)
		if err == nil && k.UID == string(o.UID) && (t == line.Added || k.ResourceVersion == string(o.ResourceVersion)) {
			return false, s.contradiction(failure.ErrStartsOver, t, "as before")
		}
		return false, cmp.Or(err, s.contradiction(failure.ErrOutOfOrder, t, fmt.Sprint("after ", s.order.version)))
	case s.agrees(t, rises):
		return false, nil
	case s.rec.Replica().Term().Follows():
		return false, nil // what is held back is not known yet
	}
	k, err := s.knownOf(o)
	if err != nil {
		return false, err
	}
	err = s.compare(t, k)
	// Some servers give a deletion the version that the object had before, and what expires together is deleted at one
	// version: such an event may have been read before.
	again := t == line.Deleted && !rises && n < s.order.version
	switch {
	case (err != nil || again) && !flushed:
		return false, errNotCommitted
	case err != nil && (!rises || t == line.Deleted && s.order.version == 0):
		return true, nil // it may have been read before
	}
	s.order.stays = t == line.Deleted && k.ResourceVersion == string(o.ResourceVersion)
	return false, err
}

// atBeginning is how many events of a watch are compared with the checkpoint though the stream has not met their
// objects: a watch that starts over does so at its beginning.
const atBeginning = 64

// agrees reports whether the event fits what the stream has met of the object, so that the checkpoint need not be
// asked.
func (s *Stream) agrees(t line.Type, rises bool) bool {
	if !rises || s.order.version == 0 {
		return false
	}
	o := &s.object
	s.order.events++
	switch s.encoder.Met(o.Namespace, o.Name, o.UID) {
	case encode.UIDSame:
		return t != line.Added
	case encode.UIDUnknown:
		return t == line.Added && s.order.events > atBeginning
	case encode.UIDOther:
	}
	return false
}

// compare returns why an event of the scanned object cannot follow what is known under its name.
func (s *Stream) compare(t line.Type, k object.Known) error {
	o := &s.object
	there, same := k.Name != "", k.Name != "" && k.UID == string(o.UID)
	switch {
	case t == line.Added && same:
		return s.contradiction(failure.ErrStartsOver, t, "known at "+k.ResourceVersion)
	case t == line.Added && there:
		return s.contradiction(failure.ErrMissed, t, "another object was there")
	case t != line.Added && there && !same:
		return s.contradiction(failure.ErrMissed, t, "another object was there")
	case t != line.Added && !there:
		return s.contradiction(failure.ErrMissed, t, "it was not there")
	case t == line.Modified && same && k.ResourceVersion == string(o.ResourceVersion):
		return s.contradiction(failure.ErrStartsOver, t, "known at "+k.ResourceVersion)
	}
	return nil
}

// contradiction is an error about the scanned event.
func (s *Stream) contradiction(err error, t line.Type, why string) error {
	o := &s.object
	return fmt.Errorf("%w: %s %s/%s at %s, %s", err, t, o.Namespace, o.Name, o.ResourceVersion, why)
}

// knownOf returns what the checkpoint knows under the name of the scanned object; the zero Known is nothing.
func (s *Stream) knownOf(o *object.Object) (object.Known, error) {
	k, _, err := s.known(string(o.Namespace), string(o.Name))
	return k, err
}

// isLast reports whether the scanned event is the same as the one before.
func (s *Stream) isLast(t line.Type) bool {
	o, dst := &s.object, s.order.this[:0]
	for _, part := range [...][]byte{o.Namespace, o.Name, o.UID, o.ResourceVersion} {
		dst = append(append(dst, part...), 0)
	}
	dst = append(dst, t...)
	s.order.this = dst
	return bytes.Equal(s.order.last, s.order.this)
}

// noteEvent remembers the event that isLast was asked about as the last one.
func (s *Stream) noteEvent() { s.order.last, s.order.this = s.order.this, s.order.last }

// has reports whether the server has an object of that uid under that name, now or at a version; false also where the
// server cannot be asked for a name.
func (s *Stream) has(ctx context.Context, namespace, name, uid, at string) (bool, error) {
	t := s.spec.Target
	t.Namespace, t.Shard = cmp.Or(t.Namespace, namespace), client.Shard{}
	byName := fields.OneTermEqualSelector("metadata.name", name).String()
	t.FieldSelector = strings.Trim(t.FieldSelector+","+byName, ",")
	options := v1.ListOptions{Limit: 1, ResourceVersion: at}
	if at != "" {
		options.ResourceVersionMatch = v1.ResourceVersionMatchExact
	}
	page, err := s.client.List(ctx, t, options)
	if client.IsBadRequest(err) || client.IsInternal(err) || client.IsWaiting(err) {
		return false, nil // it cannot be asked this way
	}
	if err != nil {
		return false, err
	}
	defer page.Close()
	item, err := page.Next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o := &s.object
	return s.render.Scan(item, o) == nil &&
		string(o.Namespace) == namespace && string(o.Name) == name && string(o.UID) == uid, nil
}

// A server behind a balancer may lag behind the others. It was not restored if it, or another one, is at the position
// soon.
const (
	versionAsked = 4                      // times, before a version earlier than the position is believed
	versionPause = 250 * time.Millisecond // before the second time; it doubles
)

// currentVersion returns the server's version. While that is before atLeast it asks again, versionAsked times in all.
func (s *Stream) currentVersion(ctx context.Context, atLeast string) (rv string, err error) {
	for n, pause := 1, versionPause; ; n, pause = n+1, 2*pause {
		rv, err = s.client.Version(ctx, s.spec.Target)
		if err != nil && detour.MayBlameObject(err) { // it may be the first object's fault
			if at, unreached := detour.Reaches(ctx, s.client, s.spec.Target, client.Latest); unreached == nil {
				rv, err = at, nil
			}
		}
		if err != nil || !line.Later(atLeast, rv) || n == versionAsked {
			return rv, err
		}
		if !client.Sleep(ctx, pause) {
			return "", ctx.Err()
		}
	}
}

// maxAsked is how many known objects that a list lacks are asked for by name before the list is believed. If the list
// leaves objects out, they are among those.
const maxAsked = 8

// checkGone asks the server for some of the known objects that the list, at the version rv, does not show. A server
// that cannot list all has no watch cache, and finds a name only at a given version.
func (r *relist) checkGone(ctx context.Context, rv string, gone []object.Known) error {
	at := ""
	if r.detour.Found() {
		at = rv
	}
	for _, k := range gone {
		switch there, err := r.s.has(ctx, k.Namespace, k.Name, k.UID, at); {
		case err != nil && at != "" && apierrors.IsTooManyRequests(err):
			continue // it cannot be asked either
		case err != nil:
			return err
		case there:
			return fmt.Errorf("%w: %s/%s", failure.ErrIncomplete, k.Namespace, k.Name)
		}
	}
	return nil
}

// checkFirst asks for a list of one object, and compares a streamed list at the version rv with that object and the
// number of all. A list in pages is not checked like this.
func (r *relist) checkFirst(ctx context.Context, rv string) error {
	s := r.s
	meta, item, err := s.client.First(ctx, s.spec.Target)
	if err != nil || item == nil {
		return err
	}
	mine, err := s.decoder.Scan(line.Added, item, &s.object)
	if err != nil || !mine {
		return err
	}
	o := &s.object
	before := string(o.ResourceVersion) == rv || line.Later(rv, string(o.ResourceVersion))
	if before && !r.diff.Has(o.Namespace, o.Name, o.UID) {
		return fmt.Errorf("%w: %s/%s", failure.ErrIncomplete, o.Namespace, o.Name)
	}
	if meta.ResourceVersion == rv && meta.RemainingItems+1 > r.items && s.decoder.Whole() {
		return fmt.Errorf("%w: it has %d of %d objects", failure.ErrIncomplete, r.items, meta.RemainingItems+1)
	}
	return nil
}
