package watcher

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"kubejournal/internal/event"
	"kubejournal/internal/kubeclient"
	"kubejournal/internal/rawjson"
)

// Aggregated API servers, forks and old versions break what the API promises of lists and watches. What such a server says is
// well-formed and wrong, so each statement that a line would rest on is checked against another one of the same server:
//
//	the API promises                                       what is checked                                     where it does not hold
//	a watch begins after its position, and its events      versions rise; an ADDED object is not known,        nothing is written of it: GAP, and a list
//	are in order                                           a DELETED one is
//	a list has every object                                a known one that it lacks is asked for by name;     the list is not complete, another form is taken
//	                                                       after a streamed one, so is the first of all
//	a list's version covers its objects                    no object is at a later one                         the list is not complete
//	objects are of the kind, namespace and labels          each object                                         of another namespace: left out;
//	that were asked for                                                                                        else nothing of the answer is used
//
// Sources: "Resource versions" and "Semantics for watch" of the API concepts page, KEP-3157, KEP-5504. Seen in openshift-apiserver#661,
// porch#1101, nephio#921, kubernetes#58545.
//
// A server that breaks one of them does it again. The stream then shows the reason and lists after pauses that grow, so that its
// journal still has what lists show.

// Contradictions that a session ends with.
var (
	errStartsOver = errors.New("the watch does not continue from its position: it sends what was there before")
	errOutOfOrder = errors.New("the watch sends an event whose version does not come after that of the one before")
	errIncomplete = errors.New("the list leaves out an object that the server has")
	errListBehind = errors.New("the list has an object at a later version than its own")
	errOtherKind  = errors.New("the server sends an object of another kind")
	errUnselected = errors.New("the server sends an object that the label selector excludes")
)

// habit is what a server was last seen to do that the API forbids.
type habit struct {
	reason string // "" once a watch has brought something usable
	times  int    // in a row
}

const (
	habitPause    = 10 * time.Second // after the second time in a row; it doubles up to maxHabitPause
	maxHabitPause = time.Minute
)

// seen notes a contradiction, and returns how long the stream pauses before it tries again. The first one may be an accident.
func (h *habit) seen(reason string) time.Duration {
	h.reason = reason
	h.times++
	if h.times == 1 {
		return 0
	}
	return min(habitPause<<min(h.times-2, 3), maxHabitPause)
}

// order is what the next event of a watch must come after.
type order struct {
	version uint64 // the position as a number, 0 where it is none
	last    []byte // type and identity of the last event, to tell one that is sent twice
}

// after sets the position that the next event must come after.
func (o *order) after(rv []byte) { o.version, _ = event.VersionNumber(rv) }

// moves reports whether an event or bookmark at a version moves the position, which does not go back.
func (o *order) moves(rv []byte) bool {
	n, ok := event.VersionNumber(rv)
	return kubeclient.IsPosition(rv) && (o.version == 0 || ok && n >= o.version)
}

// contradicts reports why the scanned object cannot be the next event of the watch; nil where it can. A repetition of the event
// before it is no contradiction and is to be dropped. flush commits what was submitted, for the rare events about which the
// checkpoint must be asked in its latest state.
func (s *Stream) contradicts(t event.Type, flush func() error) (repeated bool, err error) {
	o := &s.object
	n, comparable := event.VersionNumber(o.ResourceVersion)
	comparable = comparable && s.order.version > 0
	rises := comparable && n > s.order.version
	if rises && t != event.Added {
		return false, nil
	}
	// Only where no selector lets an object come back is an ADDED one new for certain.
	whole := s.whole()
	if rises && !whole {
		return false, nil
	}
	known, err := s.tells(o)
	switch {
	case err != nil:
		return false, err
	case rises && known == nil:
		return false, nil
	case rises:
		return false, fmt.Errorf("%w: %s/%s is ADDED at %s, and was known at %s", errStartsOver, o.Namespace, o.Name, o.ResourceVersion, known.ResourceVersion)
	case s.isLast(t):
		return true, nil
	}
	if t == event.Deleted {
		// Some servers give a deletion the version that the object had before, and what expires together is deleted at one version.
		if known == nil || comparable && n < s.order.version {
			if err := flush(); err != nil {
				return false, err
			}
			if known, err = s.tells(o); err != nil {
				return false, err
			}
		}
		if known != nil {
			return false, nil
		}
		return false, fmt.Errorf("%w: %s/%s is DELETED at %s, and was not there", errOutOfOrder, o.Namespace, o.Name, o.ResourceVersion)
	}
	switch {
	case known != nil && (t == event.Added && whole || known.ResourceVersion == string(o.ResourceVersion)):
		return false, fmt.Errorf("%w: %s/%s at %s", errStartsOver, o.Namespace, o.Name, o.ResourceVersion)
	case !comparable && string(o.ResourceVersion) != s.state.ResourceVersion:
		return false, nil // versions that are no numbers have no order
	}
	return false, fmt.Errorf("%w: %s/%s at %s, after %d", errOutOfOrder, o.Namespace, o.Name, o.ResourceVersion, s.order.version)
}

// whole reports whether no selector is in the way of any object.
func (s *Stream) whole() bool {
	return s.spec.Target.LabelSelector == "" && s.spec.Target.FieldSelector == ""
}

// tells returns what the checkpoint knows of the scanned object itself, nil for nothing.
func (s *Stream) tells(o *event.Object) (*event.Known, error) {
	k, ok, err := s.known(string(o.Namespace), string(o.Name))
	if err != nil || !ok || k.UID != string(o.UID) {
		return nil, err
	}
	return &k, nil
}

// isLast reports whether the scanned event is the same as the one before.
func (s *Stream) isLast(t event.Type) bool { return bytes.Equal(s.order.last, s.appendEvent(nil, t)) }

// noteEvent remembers the scanned event as the last one.
func (s *Stream) noteEvent(t event.Type) { s.order.last = s.appendEvent(s.order.last[:0], t) }

func (s *Stream) appendEvent(dst []byte, t event.Type) []byte {
	o := &s.object
	for _, part := range [...][]byte{o.Namespace, o.Name, o.UID, o.ResourceVersion} {
		dst = append(append(dst, part...), 0)
	}
	return append(dst, t...)
}

// belongs reports whether the scanned object is in the stream's namespace. The error says that it cannot be an answer to what was asked.
func (s *Stream) belongs() (bool, error) {
	o, spec := &s.object, &s.spec
	switch {
	case bytes.ContainsAny(o.Namespace, "/\x00") || bytes.ContainsAny(o.Name, "/\x00"):
		return false, fmt.Errorf("%w: an object with the name %q in the namespace %q", kubeclient.ErrBadFrame, o.Name, o.Namespace)
	case len(o.Kind) > 0 && spec.Kind != "" && string(o.Kind) != spec.Kind:
		return false, fmt.Errorf("%w: %q %s/%s in the place of %s", errOtherKind, o.Kind, o.Namespace, o.Name, spec.Kind)
	case spec.Target.Namespace != "" && string(o.Namespace) != spec.Target.Namespace:
		if !s.foreign {
			s.foreign = true
			s.log.Warn("the server sends objects of other namespaces, they are left out", zap.String("namespace", string(o.Namespace)))
		}
		return false, nil
	}
	if s.labels != nil && o.Unusable == nil && !s.labels.Matches(labelsOf(o)) {
		return false, fmt.Errorf("%w: %s/%s", errUnselected, o.Namespace, o.Name)
	}
	return true, nil
}

// labelsOf returns the labels of a scanned object.
func labelsOf(o *event.Object) labels.Set {
	var set labels.Set
	_ = json.Unmarshal(rawjson.At(o.Raw, []byte("/metadata/labels")), &set) // what is no map of strings selects nothing
	return set
}

// parseLabels returns the selector that a stream checks labels by, nil where it selects none.
func parseLabels(selector string) (labels.Selector, error) {
	if selector == "" {
		return nil, nil
	}
	return labels.Parse(selector)
}

// has reports whether the server has the object of a uid under its name, as far as it can be asked for by name.
func (s *Stream) has(ctx context.Context, namespace, name, uid string) (bool, error) {
	t := s.spec.Target
	t.Namespace, t.Shard = cmp.Or(t.Namespace, namespace), kubeclient.Shard{}
	byName := fields.OneTermEqualSelector("metadata.name", name).String()
	t.FieldSelector = strings.Trim(t.FieldSelector+","+byName, ",")
	page, err := s.client.List(ctx, t, v1.ListOptions{Limit: 1})
	if isBadRequest(err) || isInternal(err) || kubeclient.IsWaiting(err) {
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
	return s.encoder.render.Scan(item, o) == nil && string(o.Namespace) == namespace && string(o.Name) == name && string(o.UID) == uid, nil
}

// maxAsked is how many of the objects that a list does not show any more are asked for by name, before the list is believed. A list that
// leaves objects out leaves out the ones that it shows to be gone.
const maxAsked = 8

// checkGone asks the server for some of the known objects that the list does not show.
func (r *relist) checkGone(ctx context.Context, gone []event.Known) error {
	for _, k := range gone {
		switch there, err := r.s.has(ctx, k.Namespace, k.Name, k.UID); {
		case err != nil:
			return err
		case there:
			return fmt.Errorf("%w: %s/%s", errIncomplete, k.Namespace, k.Name)
		}
	}
	return nil
}

// checkFirst asks for the first object and the number of all, which a streamed list at the version rv must have had. A list in pages is
// what it is compared with.
func (r *relist) checkFirst(ctx context.Context, rv string) error {
	s := r.s
	meta, item, err := s.client.First(ctx, s.spec.Target)
	if err != nil || item == nil {
		return err
	}
	mine, err := s.scan(event.Added, item)
	if err != nil || !mine {
		return err
	}
	o := &s.object
	before := string(o.ResourceVersion) == rv || event.Later(rv, string(o.ResourceVersion))
	if before && r.diff.seen.get(identify(o.UID, o.Namespace, o.Name)) == 0 {
		return fmt.Errorf("%w: %s/%s", errIncomplete, o.Namespace, o.Name)
	}
	if meta.ResourceVersion == rv && meta.RemainingItems+1 > int64(r.diff.shown) && s.whole() && s.shard == (kubeclient.Shard{}) {
		return fmt.Errorf("%w: it has %d of %d objects", errIncomplete, r.diff.shown, meta.RemainingItems+1)
	}
	return nil
}
