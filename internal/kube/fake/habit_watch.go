package fake

import (
	"context"
	"slices"
	"time"
)

// dripPause is the time between two events of StartOverSlow.
const dripPause = 4 * time.Second

// ignoresInitial returns a watch's options as the server reads them.
func (h *Habit) ignoresInitial(o listOptions) listOptions {
	if h == nil {
		return o
	}
	switch off := false; h.Initial {
	case InitialUnknown:
		o.initialEvents = nil
	case InitialFromNow:
		o.initialEvents = &off
	}
	return o
}

// initial are the events of a streamed list, or of a watch without a version, which has no end, and the version that
// the watch continues from.
func (h *Habit) initial(st *stream, at uint64, withEnd bool) ([]event, uint64) {
	h.lists++
	at = h.at(at)
	of := Streamed
	var events []event
	typ := "ADDED"
	if h.Initial == InitialAsModified {
		typ = "MODIFIED"
	}
	for _, one := range h.contents(st.resource, st.options, st.version, st.form, of, at) {
		events = append(events, event{typ, one.data})
	}
	if !withEnd {
		return events, at
	}
	meta := h.meta(st.resource, of, at, 0)
	meta["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
	end := st.bookmark(meta)
	switch h.Initial {
	case InitialEndFirst:
		return append([]event{end}, events...), at
	case InitialEndTwice:
		events = slices.Insert(events, len(events)/2, end)
	case InitialEndOnly:
		events = nil
	case InitialAsAsked, InitialUnknown, InitialFromNow, InitialAsModified:
	}
	return append(events, end), at
}

// start are the events that a watch with a position begins with, and the version that it continues from.
func (h *Habit) start(st *stream, pos, now uint64) ([]event, uint64) {
	if h.ListVersion == AheadOf || h.BookmarkVersion == AheadOf || h.EventVersion == AheadOf {
		pos = min(pos, now) // what it says to be ahead it takes for now
	}
	switch h.Start {
	case StartOver:
		return h.initial(st, now, false)
	case StartOverSlow:
		events, pos := h.initial(st, now, false)
		slices.Reverse(events)
		st.drip = len(events)
		return events, pos
	case StartHistory:
		return nil, 0
	case StartNow:
		return nil, now
	case StartWithLast:
		return nil, pos - 1
	case StartAsAsked:
	}
	return nil, pos
}

// translate is stream.translate of a server with the habit: what is sent for one write.
func (h *Habit) translate(st *stream, rec *record) []event {
	if !h.StillWatches && h.isUnreadable(rec.key) {
		st.end()
		return nil
	}
	sel := h.selects(st.options.selection, Watches)
	before := rec.before()
	is := !rec.deleted && sel.matches(rec)
	was := before != nil && sel.matches(before)
	typ, of, object := "MODIFIED", rec, rec.object
	switch {
	case is && was:
		if h.NoModified {
			return nil
		}
		if h.ModifiedAsAdded {
			typ = "ADDED"
		}
	case is:
		typ = "ADDED"
		if h.NoAdded {
			return nil
		}
		if h.AddedAsModified {
			typ = "MODIFIED"
		}
	case was && h.LeftAsModified && !rec.deleted:
	case was:
		if h.NoDeleted {
			return nil
		}
		typ, of, object = "DELETED", before, before.object
	default:
		return nil
	}
	if h.NoEvents {
		return nil
	}
	send := func(typ string) event {
		sent := h.object(object, of, typ)
		meta := metadata(sent)
		if typ == "DELETED" && h.ObjectVersions == AsIs {
			meta["resourceVersion"] = formatVersion(rec.version)
			switch h.DeletedVersion {
			case Constant:
				meta["resourceVersion"] = formatVersion(of.version)
			case AsIs:
			default:
				h.DeletedVersion.say(meta, rec.version, h.events)
			}
		}
		if h.EventVersion != AsIs {
			n := h.events
			if h.EventVersion == OwnCounter {
				n = rec.writes()
			}
			h.EventVersion.say(meta, rec.version, n)
		}
		return event{typ, h.renderObject(st.resource, sent, st.version, st.form, typ)}
	}
	h.events++
	var events []event
	if h.BookmarkFirst && st.options.bookmarks {
		events = append(events, h.bookmark(st, rec.version)...)
	}
	if h.OtherKind {
		events = append(events, event{"MODIFIED", st.resource.intruder(st.version, st.form, rec.version)})
	}
	events = append(events, send(typ))
	switch {
	case h.Twice, typ == "DELETED" && h.DeletedTwice:
		events = append(events, events[len(events)-1])
	case h.FalseDeleted && typ == "MODIFIED" && h.events%2 == 0:
		events = append(events, send("DELETED"))
	}
	return h.order(st, events)
}

// order holds events back where the habit sends them in another order.
func (h *Habit) order(st *stream, events []event) []event {
	switch {
	case h.SilentUntilEnd, h.EventsLate:
		st.held = append(st.held, events...)
		return nil
	case h.Swapped && len(st.held) == 0:
		st.held = events
		return nil
	case h.Swapped:
		events = append(events, st.held...)
		st.held = nil
	}
	return events
}

// bookmark is what is sent in the place of a bookmark.
func (h *Habit) bookmark(st *stream, version uint64) []event {
	meta := map[string]any{}
	h.events++
	h.BookmarkVersion.say(meta, version, h.events)
	return []event{st.bookmark(meta)}
}

// bookmark is a bookmark with any metadata.
func (st *stream) bookmark(meta map[string]any) event {
	object := map[string]any{"metadata": meta}
	return event{"BOOKMARK", st.resource.render(object, st.resource.apiVersion(st.version), st.form)}
}

// pause passes before each of the first events of a watch that drips, and reports whether it continues.
func (st *stream) pause(ctx context.Context) bool {
	if st.drip == 0 {
		return true
	}
	st.drip--
	st.out.Flush()
	select {
	case <-time.After(dripPause):
	case <-st.stop:
		st.stopped()
	case <-ctx.Done():
		return false
	}
	return true
}
