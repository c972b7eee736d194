package watcher_test

import (
	"slices"

	"kubejournal/internal/kube/kubefake"
)

// Why no reader can find a habit out.
const (
	consistent  = "lists and watches agree on a world in which the object is not there"
	neverSent   = "nothing that is sent afterwards depends on the event that is not"
	asRestored  = "a server that was restored from a backup shows the same"
	olderState  = "a list may say only at its end that it is of an earlier state, and until then shows as new what was deleted since"
	sameVersion = "an object that changes without its version looks unchanged in every list"
	noIdentity  = "without a uid, an object that is made again at the same version looks unchanged"
	anyListKind = "a definition may give the lists of its kind any name"
	saysDeleted = "the event is as it would be after a deletion"
)

// habitRows are the habits of servers.
var habitRows = slices.Concat(listHabits(), pageHabits(), streamedHabits(), watchHabits(), versionHabits(),
	objectHabits(), wireHabits())

// listHabits are about what is in a list.
func listHabits() []habitRow {
	var all []habitRow
	add := func(r habitRow) { all = append(all, r) }
	some := map[kubefake.Some]string{kubefake.First: "first", kubefake.Last: "last", kubefake.EverySecond: "every second", kubefake.All: "all"}
	forms := map[kubefake.Forms]string{0: "each form", kubefake.Streamed: "streamed", kubefake.Paged: "paged"}
	for _, s := range []kubefake.Some{kubefake.First, kubefake.Last, kubefake.EverySecond, kubefake.All} {
		for _, f := range []kubefake.Forms{0, kubefake.Streamed, kubefake.Paged} {
			r := habitRow{name: some[s] + " left out of lists, " + forms[f], habit: kubefake.Habit{LeaveOut: s, Forms: f}}
			switch f {
			case 0:
				r.undetectable, r.waived = consistent, []string{trueLines, uniqueIDs}
			case kubefake.Streamed:
				r.form = "streamed"
			case kubefake.Paged:
				r.form, r.undetectable, r.waived = "paged", consistent, []string{trueLines, uniqueIDs}
			}
			add(r)
		}
		add(habitRow{name: some[s] + " twice in lists", habit: kubefake.Habit{Double: s}, must: exact})
	}
	add(habitRow{name: "lists are behind, a little", undetectable: asRestored, waived: []string{trueLines}, habit: kubefake.Habit{Behind: 3}})
	add(habitRow{name: "every second list is behind, a little", habit: kubefake.Habit{Behind: 3, BehindOften: true}})
	add(habitRow{name: "lists are behind, far", undetectable: asRestored, waived: []string{trueLines}, habit: kubefake.Habit{Behind: 30}})
	add(habitRow{
		name: "every second list is behind, far", undetectable: olderState, waived: []string{trueLines, uniqueIDs},
		habit: kubefake.Habit{Behind: 30, BehindOften: true},
	})
	add(habitRow{name: "namespace ignored", scope: "namespace", habit: kubefake.Habit{IgnoreNamespace: true}, must: exact})
	add(habitRow{name: "label selector ignored", scope: "label", habit: kubefake.Habit{IgnoreLabels: true}})
	add(habitRow{name: "field selector ignored", scope: "name", habit: kubefake.Habit{IgnoreFields: true}})
	add(habitRow{name: "all selection ignored", scope: "namespace", habit: kubefake.Habit{IgnoreNamespace: true, IgnoreLabels: true, IgnoreFields: true}, must: exact})
	for by, name := range []string{"", "lists", "watches"} {
		if by > 0 { // nephio#921
			add(habitRow{name: "namespace ignored by " + name, scope: "namespace", habit: kubefake.Habit{IgnoreNamespace: true, IgnoredBy: kubefake.Verbs(by)}, must: exact})
			add(habitRow{name: "label selector ignored by " + name, scope: "label", habit: kubefake.Habit{IgnoreLabels: true, IgnoredBy: kubefake.Verbs(by)}})
		}
	}
	add(habitRow{name: "an object cannot be read", habit: kubefake.Habit{Unreadable: "w2"}})
	add(habitRow{name: "an object cannot be read, but watched", habit: kubefake.Habit{Unreadable: "w2", StillWatches: true}})
	add(habitRow{name: "an object cannot be read, selected", scope: "namespace", habit: kubefake.Habit{Unreadable: "w2"}})
	add(habitRow{name: "objects of another kind", habit: kubefake.Habit{OtherKind: true}})
	return all
}

// pageHabits are about how a list is cut.
func pageHabits() []habitRow {
	var all []habitRow
	for _, p := range []struct {
		name  string
		pages kubefake.Pages
		row   habitRow
	}{
		{"repeat for ever", kubefake.PagesRepeat, habitRow{}},
		{"repeat for ever under other tokens", kubefake.PagesEndless, habitRow{}},
		{"skip", kubefake.PagesSkip, habitRow{}},
		{"overlap", kubefake.PagesOverlap, habitRow{must: exact}},
		{"are empty for ever", kubefake.PagesEmpty, habitRow{}},
		{"without items", kubefake.PagesNoItems, habitRow{}},
		{"with items null", kubefake.PagesNullItems, habitRow{}},
		{"go stale", kubefake.PagesStale, habitRow{undetectable: consistent, waived: []string{trueLines}}},
		{"end early", kubefake.PagesCut, habitRow{}},
	} {
		r := p.row
		r.name, r.form, r.habit = "pages "+p.name, "paged", kubefake.Habit{Pages: p.pages}
		all = append(all, r)
	}
	return append(all,
		habitRow{name: "second page is empty", form: "paged", habit: kubefake.Habit{LeaveOut: kubefake.All, Forms: kubefake.LaterPages}},
		habitRow{name: "first object left out of later pages", form: "paged", habit: kubefake.Habit{LeaveOut: kubefake.First, Forms: kubefake.LaterPages}},
		habitRow{name: "pages skip, and no remainingItemCount", form: "paged", undetectable: consistent, waived: []string{trueLines}, habit: kubefake.Habit{Pages: kubefake.PagesSkip, Remaining: kubefake.NoRemaining}},
		habitRow{name: "pages end early, and no remainingItemCount", form: "paged", undetectable: consistent, waived: []string{trueLines}, habit: kubefake.Habit{Pages: kubefake.PagesCut, Remaining: kubefake.NoRemaining}},
		habitRow{name: "no remainingItemCount", form: "paged", habit: kubefake.Habit{Remaining: kubefake.NoRemaining}, must: exact},
		habitRow{name: "limit ignored", habit: kubefake.Habit{IgnoreLimit: true}, must: exact},
		habitRow{name: "remainingItemCount too high", habit: kubefake.Habit{Remaining: 1000}},
		habitRow{name: "remainingItemCount negative", habit: kubefake.Habit{Remaining: -1}, must: exact},
	)
}

// streamedHabits are about streamed lists.
func streamedHabits() []habitRow {
	var all []habitRow
	for _, i := range []struct {
		name    string
		initial kubefake.Initial
		must    demand
	}{
		{"is its end only", kubefake.InitialEndOnly, exact}, // openshift-apiserver#661
		{"has its end first", kubefake.InitialEndFirst, exactOrReason},
		{"ends twice", kubefake.InitialEndTwice, exactOrReason},
		{"has no end", kubefake.InitialUnknown, exact},
		{"is not sent", kubefake.InitialFromNow, exact},
		{"is of MODIFIED", kubefake.InitialAsModified, exact},
	} {
		all = append(all, habitRow{name: "streamed list " + i.name, form: "streamed", habit: kubefake.Habit{Initial: i.initial}, must: i.must})
	}
	return all
}

// watchHabits are about which events are sent.
func watchHabits() []habitRow {
	return eitherForm([]habitRow{
		{name: "watch starts over", habit: kubefake.Habit{Start: kubefake.StartOver}}, // porch#1101
		{name: "watch starts over slowly", habit: kubefake.Habit{Start: kubefake.StartOverSlow}},
		{name: "watch starts over, no deletions", habit: kubefake.Habit{Start: kubefake.StartOver, NoDeleted: true}, undetectable: neverSent},
		{name: "watch sends all history", habit: kubefake.Habit{Start: kubefake.StartHistory}},
		{name: "watch starts now", habit: kubefake.Habit{Start: kubefake.StartNow}, undetectable: neverSent},
		{name: "watch starts over, without bookmarks", habit: kubefake.Habit{Start: kubefake.StartOver, BookmarkVersion: kubefake.NoVersion}},
		{name: "watch starts over at constant versions", lies: true, habit: kubefake.Habit{Start: kubefake.StartOver, EventVersion: kubefake.Constant}},
		{name: "namespace ignored, watch starts over", scope: "namespace", habit: kubefake.Habit{Start: kubefake.StartOver, IgnoreNamespace: true}},
		{name: "events twice", habit: kubefake.Habit{Twice: true}},
		{name: "events swapped", habit: kubefake.Habit{Swapped: true}},
		{name: "ADDED as MODIFIED", habit: kubefake.Habit{AddedAsModified: true}},
		{name: "MODIFIED as ADDED", habit: kubefake.Habit{ModifiedAsAdded: true}},
		{name: "DELETED of what is there", habit: kubefake.Habit{FalseDeleted: true}, undetectable: saysDeleted, waived: []string{trueLines}},
		{name: "DELETED twice", habit: kubefake.Habit{DeletedTwice: true}, must: exact},
		{name: "DELETED missing", habit: kubefake.Habit{NoDeleted: true}, undetectable: neverSent},
		{name: "ADDED missing", habit: kubefake.Habit{NoAdded: true}, undetectable: neverSent},
		{name: "MODIFIED missing", habit: kubefake.Habit{NoModified: true}, undetectable: neverSent},
		{name: "bookmarks only", habit: kubefake.Habit{NoEvents: true}, undetectable: neverSent},
		{name: "leaves the selection as MODIFIED", scope: "label", habit: kubefake.Habit{LeftAsModified: true}},
		{name: "selector ignored by watches, leaving as MODIFIED", scope: "label", habit: kubefake.Habit{IgnoreLabels: true, LeftAsModified: true}},
		{name: "bookmark before its event", habit: kubefake.Habit{BookmarkFirst: true}},
		{name: "bookmark long before its events", habit: kubefake.Habit{EventsLate: true}},
		{name: "events held back until the end", habit: kubefake.Habit{SilentUntilEnd: true}},
	})
}

// eitherForm has each cell run with one of the forms of lists, on which its habit does not depend.
func eitherForm(rows []habitRow) []habitRow {
	for i := range rows {
		rows[i].form = "either"
	}
	return rows
}

// versionNames are the ways to say a version.
var versionNames = []struct {
	say  kubefake.Versions
	name string
}{
	{kubefake.NoVersion, "absent"},
	{kubefake.EmptyVersion, "empty"},
	{kubefake.ZeroVersion, "0"},
	{kubefake.NotANumber, "not a number"},
	{kubefake.Constant, "constant"},
	{kubefake.Lagging, "lower"},
	{kubefake.Alternating, "lower every second time"},
	{kubefake.AheadOf, "ahead"},
	{kubefake.NewestObject, "of the newest object"},
	{kubefake.OwnCounter, "of its own counter"},
	{kubefake.EachPage, "other on each page"},
	{kubefake.Negative, "negative"},
	{kubefake.Huge, "beyond 64 bits"},
}

// versionHabits are about the versions of lists, events and bookmarks.
func versionHabits() []habitRow {
	var all []habitRow
	for _, v := range versionNames {
		list := habitRow{name: "list version " + v.name, habit: kubefake.Habit{ListVersion: v.say}}
		switch v.say {
		case kubefake.NoVersion, kubefake.EmptyVersion, kubefake.ZeroVersion:
			list.must = refused
			all = append(all, habitRow{name: "streamed list's end at version " + v.name, form: "streamed", habit: kubefake.Habit{ListVersion: v.say, Forms: kubefake.Streamed}})
		case kubefake.NotANumber, kubefake.Constant, kubefake.Lagging, kubefake.AheadOf:
			all = append(all, habitRow{name: "streamed list's end at version " + v.name, form: "streamed", habit: kubefake.Habit{ListVersion: v.say, Forms: kubefake.Streamed}})
		}
		all = append(all, list)
		if v.say == kubefake.EachPage || v.say == kubefake.NewestObject {
			continue
		}
		event := habitRow{name: "event version " + v.name, lies: true, habit: kubefake.Habit{EventVersion: v.say}}
		deleted := habitRow{name: "DELETED version " + v.name, habit: kubefake.Habit{DeletedVersion: v.say}}
		if v.say == kubefake.Constant {
			deleted = habitRow{name: "DELETED at the object's last version", habit: deleted.habit, must: exact} // kubernetes#58545
		}
		bookmark := habitRow{name: "bookmark version " + v.name, habit: kubefake.Habit{BookmarkVersion: v.say}}
		all = append(all, eitherForm([]habitRow{event, deleted, bookmark})...)
	}
	return append(all,
		habitRow{name: "no version is a number", lies: true, habit: kubefake.Habit{
			ListVersion: kubefake.NotANumber, ObjectVersions: kubefake.NotANumber, BookmarkVersion: kubefake.NotANumber,
		}},
		habitRow{name: "bookmarks ahead, and before events", habit: kubefake.Habit{BookmarkVersion: kubefake.AheadOf, BookmarkFirst: true}},
		habitRow{name: "list version lower, watch starts over", habit: kubefake.Habit{ListVersion: kubefake.Lagging, Start: kubefake.StartOver}},
	)
}

// objectHabits are about what objects say of themselves, in lists and events alike.
func objectHabits() []habitRow {
	var all []habitRow
	for _, u := range []struct {
		name string
		say  kubefake.UIDs
	}{
		{"no uid", kubefake.NoUID}, {"one uid for all", kubefake.SharedUID}, {"another uid with each write", kubefake.NewUID},
		{"the uid again under a name", kubefake.UIDOfName}, {"another uid in each list", kubefake.UIDOfAnswer},
	} {
		all = append(all, habitRow{name: u.name, lies: true, habit: kubefake.Habit{UIDs: u.say}})
	}
	for _, v := range versionNames {
		switch v.say {
		case kubefake.NoVersion, kubefake.ZeroVersion, kubefake.NotANumber, kubefake.Constant, kubefake.Lagging, kubefake.OwnCounter, kubefake.Huge:
			r := habitRow{name: "objects' version " + v.name, lies: true, habit: kubefake.Habit{ObjectVersions: v.say}}
			if v.say == kubefake.Constant {
				r.undetectable, r.waived = sameVersion, []string{exactReplay}
			}
			all = append(all, r)
		}
	}
	return append(all,
		habitRow{name: "no namespace", habit: kubefake.Habit{NoNamespace: true}},
		habitRow{
			name: "no uid, own counter", lies: true, undetectable: noIdentity, waived: []string{exactReplay, uniqueIDs},
			habit: kubefake.Habit{UIDs: kubefake.NoUID, ObjectVersions: kubefake.OwnCounter},
		},
		habitRow{name: "one uid for all, watch starts over", lies: true, habit: kubefake.Habit{UIDs: kubefake.SharedUID, Start: kubefake.StartOver}},
	)
}
