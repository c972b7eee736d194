package fake

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listed is what a list shows: an object, ready to be sent.
type listed struct {
	key  string
	data []byte
}

// contents returns the objects of a list of the form at a version.
func (h *Habit) contents(res *resource, o listOptions, version string, as form, of Forms, at uint64) []listed {
	var recs []*record
	sel := h.selects(o.selection, Lists)
	for _, rec := range res.store.at(at, prefixOf(sel.namespace)) {
		if sel.matches(rec) {
			recs = append(recs, rec)
		}
	}
	applies := h.Forms == 0 || h.Forms&of != 0
	typ := ""
	if of == Streamed {
		typ = "ADDED"
	}
	var all []listed
	if h.OtherKind {
		all = append(all, listed{"", res.intruder(version, as, at)})
	}
	for i, rec := range recs {
		if applies && h.LeaveOut.pick(i, len(recs)) {
			continue
		}
		one := listed{rec.key, h.renderObject(res, h.object(rec.object, rec, typ), version, as, typ)}
		all = append(all, one)
		if applies && h.Double.pick(i, len(recs)) {
			all = append(all, one)
		}
	}
	return all
}

// intruder is an object of another kind, under a name that objects of this one have, too.
func (r *resource) intruder(version string, as form, at uint64) []byte {
	other := *r
	other.Kind = "Intruder"
	return other.render(map[string]any{
		"metadata": map[string]any{
			"name": "w0", "namespace": "default", "uid": "00000000-9999-4444-3333-222222222222",
			"resourceVersion": formatVersion(at),
		},
		"spec": map[string]any{"serial": int64(-1)},
	}, other.apiVersion(version), as)
}

// at is the version whose state a list shows.
func (h *Habit) at(at uint64) uint64 {
	if h.BehindOften && h.lists%2 == 0 {
		return at
	}
	return at - min(at, h.Behind)
}

// meta is the metadata of a list, or of the bookmark at its end; page counts from 0.
func (h *Habit) meta(res *resource, of Forms, at, page uint64) map[string]any {
	meta := map[string]any{"resourceVersion": formatVersion(at)}
	if h.Forms != 0 && h.Forms&of == 0 {
		return meta
	}
	n := h.lists
	switch h.ListVersion {
	case EachPage:
		n = page
	case NewestObject:
		newest := uint64(0)
		for _, rec := range res.store.at(at, "") {
			newest = max(newest, rec.version)
		}
		if newest > 0 {
			at = newest
		}
	}
	h.ListVersion.say(meta, at, n)
	return meta
}

// list renders one page, which begins after the key after, or at a token of this function.
func (h *Habit) list(
	res *resource, o listOptions, version string, as form, at uint64, after string, limit int64,
) ([]byte, error) {
	of := Unlimited
	if o.token != "" {
		of = Paged | LaterPages
	} else if o.limit > 0 {
		of = Paged
	}
	if o.token == "" {
		h.lists++
		at = h.at(at)
	}
	shown := at
	if h.Pages == PagesStale && o.token != "" {
		shown -= min(shown, lag)
	}
	all := h.contents(res, o, version, as.ofItem(), of, shown)
	prefix := prefixOf(h.selects(o.selection, Lists).namespace)
	start, page := place(all, after, prefix)
	if h.IgnoreLimit {
		limit = 0
	}
	end := len(all)
	if limit > 0 && start+int(limit) < end {
		end = start + int(limit)
	}
	token := ""
	next := func(start int) {
		key := ""
		switch {
		case start == 0:
		case all[start-1].key == all[start].key:
			key = strings.TrimPrefix(all[start].key, prefix)
		default:
			key = strings.TrimPrefix(all[start-1].key, prefix) + "\x00"
		}
		token = encodeToken(fmt.Sprintf("%s%d.%s", pageMark, page+1, key), int64(max(at, 1)))
	}
	if end < len(all) {
		next(end)
	}
	var items []listed
	items = append(items, all[start:end]...)
	if slices.ContainsFunc(items, func(l listed) bool { return h.isUnreadable(l.key) }) {
		return nil, unreadable()
	}
	switch h.Pages {
	case PagesRepeat:
		page = 0
		next(0)
	case PagesEndless:
		next(0)
	case PagesSkip:
		if page > 0 && len(items) > 0 {
			items = items[1:]
		}
	case PagesOverlap:
		if page > 0 && start > 0 {
			items = append([]listed{all[start-1]}, items...)
		}
	case PagesEmpty:
		items = nil
		next(0)
	case PagesCut:
		if page > 0 {
			token = ""
		}
	case PagesAsAsked, PagesNoItems, PagesNullItems, PagesStale:
	}
	meta := h.meta(res, of, at, page)
	if !o.shard.Empty() && as != metaOnly {
		meta["shardInfo"] = metav1.ShardInfo{Selector: o.shard.String()}
	}
	if token != "" {
		meta["continue"] = token
		if o.labels.Empty() && o.fields.Empty() {
			meta["remainingItemCount"] = int64(len(all) - end)
		}
	}
	if h.Remaining == NoRemaining {
		delete(meta, "remainingItemCount")
	} else if h.Remaining != 0 {
		meta["remainingItemCount"] = h.Remaining
	}
	body := h.render(res, res.apiVersion(version), items, meta, as)
	if h.Body != nil {
		body = h.Body(body)
	}
	return body, nil
}

// unreadable is the answer where an object cannot be read.
func unreadable() error {
	return &apierrors.StatusError{ErrStatus: statusFor(http.StatusInternalServerError, "",
		"invalid character '{' exceeded max depth")}
}

// reinitializing is the answer of a watch cache that cannot begin.
func reinitializing() error {
	return apierrors.NewTooManyRequests("storage is (re)initializing", 1)
}

// isUnreadable reports whether the object of a key is.
func (h *Habit) isUnreadable(key string) bool {
	return h.Unreadable != "" && path.Base(key) == h.Unreadable
}

// blind reports whether there is an object that cannot be read.
func (h *Habit) blind(res *resource) bool {
	return h.Unreadable != "" && slices.ContainsFunc(res.store.at(math.MaxUint64, ""), func(rec *record) bool {
		return h.isUnreadable(rec.key)
	})
}

// renderObject is resource.render of an object that the habit may change once more, kind and all.
func (h *Habit) renderObject(res *resource, object map[string]any, version string, as form, typ string) []byte {
	if h.Object == nil {
		return res.render(object, res.apiVersion(version), as)
	}
	object["apiVersion"], object["kind"] = res.apiVersion(version), res.Kind
	h.Object(typ, object)
	return marshal(object)
}

// pageMark begins what the tokens of list say: the number of the page, and the key that it begins with.
const pageMark = "page."

// place is where a page begins, and its number. After is a key, or what a token of list says.
func place(all []listed, after, prefix string) (start int, page uint64) {
	if text, ok := strings.CutPrefix(after, pageMark); ok {
		number, key, _ := strings.Cut(text, ".")
		page, _ = strconv.ParseUint(number, 10, 64)
		after = key
	}
	if after == "" {
		return 0, page
	}
	for start < len(all) && all[start].key < prefix+after {
		start++
	}
	return start, page
}

// render is listOf with metadata of any shape, the fields in the order of the real server.
func (h *Habit) render(res *resource, apiVersion string, items []listed, meta map[string]any, as form) []byte {
	var joined [][]byte
	for _, one := range items {
		joined = append(joined, one.data)
	}
	text := fmt.Appendf(nil, `"items":[%s],`, bytes.Join(joined, []byte{','}))
	switch h.Pages {
	case PagesNoItems:
		text = nil
	case PagesNullItems:
		text = []byte(`"items":null,`)
	}
	kind := res.Kind + "List"
	if as == metaOnly {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	if res.Compiled || as == metaOnly {
		text = bytes.TrimSuffix(append([]byte{','}, text...), []byte{','})
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s%s}`, kind, apiVersion, marshal(meta), text)
	}
	return fmt.Appendf(nil, `{"apiVersion":%q,%s"kind":%q,"metadata":%s}`, apiVersion, text, kind, marshal(meta))
}
