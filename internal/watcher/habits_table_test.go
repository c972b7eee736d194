package watcher_test

import (
	"slices"

	"kubejournal/internal/kube/fake"
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
	some := map[fake.Some]string{fake.First: "first", fake.Last: "last", fake.EverySecond: "every second", fake.All: "all"}
	forms := map[fake.Forms]string{0: "each form", fake.Streamed: "streamed", fake.Paged: "paged"}
	for _, s := range []fake.Some{fake.First, fake.Last, fake.EverySecond, fake.All} {
		for _, f := range []fake.Forms{0, fake.Streamed, fake.Paged} {
			r := habitRow{name: some[s] + " left out of lists, " + forms[f], habit: fake.Habit{LeaveOut: s, Forms: f}}
			switch f {
			case 0:
				r.undetectable, r.waived = consistent, []string{trueLines, uniqueIDs}
			case fake.Streamed:
				r.form = "streamed"
			case fake.Paged:
				r.form, r.undetectable, r.waived = "paged", consistent, []string{trueLines, uniqueIDs}
			}
			add(r)
		}
		add(habitRow{name: some[s] + " twice in lists", habit: fake.Habit{Double: s}, must: exact})
	}
	add(habitRow{name: "lists are behind, a little", undetectable: asRestored, waived: []string{trueLines}, habit: fake.Habit{Behind: 3}})
	add(habitRow{name: "every second list is behind, a little", habit: fake.Habit{Behind: 3, BehindOften: true}})
	add(habitRow{name: "lists are behind, far", undetectable: asRestored, waived: []string{trueLines}, habit: fake.Habit{Behind: 30}})
	add(habitRow{
		name: "every second list is behind, far", undetectable: olderState, waived: []string{trueLines, uniqueIDs},
		habit: fake.Habit{Behind: 30, BehindOften: true},
	})
	add(habitRow{name: "namespace ignored", scope: "namespace", habit: fake.Habit{IgnoreNamespace: true}, must: exact})
	add(habitRow{name: "label selector ignored", scope: "label", habit: fake.Habit{IgnoreLabels: true}})
	add(habitRow{name: "field selector ignored", scope: "name", habit: fake.Habit{IgnoreFields: true}})
	add(habitRow{name: "all selection ignored", scope: "namespace", habit: fake.Habit{IgnoreNamespace: true, IgnoreLabels: true, IgnoreFields: true}, must: exact})
	for by, name := range []string{"", "lists", "watches"} {
		if by > 0 { // nephio#921
			add(habitRow{name: "namespace ignored by " + name, scope: "namespace", habit: fake.Habit{IgnoreNamespace: true, IgnoredBy: fake.Verbs(by)}, must: exact})
			add(habitRow{name: "label selector ignored by " + name, scope: "label", habit: fake.Habit{IgnoreLabels: true, IgnoredBy: fake.Verbs(by)}})
		}
	}
	add(habitRow{name: "an object cannot be read", habit: fake.Habit{Unreadable: "w2"}})
	add(habitRow{name: "an object cannot be read, but watched", habit: fake.Habit{Unreadable: "w2", StillWatches: true}})
	add(habitRow{name: "an object cannot be read, selected", scope: "namespace", habit: fake.Habit{Unreadable: "w2"}})
	add(habitRow{name: "objects of another kind", habit: fake.Habit{OtherKind: true}})
	return all
}

// pageHabits are about how a list is cut.
func pageHabits() []habitRow {
	var all []habitRow
	for _, p := range []struct {
		name  string
		pages fake.Pages
		row   habitRow
	}{
		{"repeat for ever", fake.PagesRepeat, habitRow{}},
		{"repeat for ever under other tokens", fake.PagesEndless, habitRow{}},
		{"skip", fake.PagesSkip, habitRow{}},
		{"overlap", fake.PagesOverlap, habitRow{must: exact}},
		{"are empty for ever", fake.PagesEmpty, habitRow{}},
		{"without items", fake.PagesNoItems, habitRow{}},
		{"with items null", fake.PagesNullItems, habitRow{}},
		{"go stale", fake.PagesStale, habitRow{undetectable: consistent, waived: []string{trueLines}}},
		{"end early", fake.PagesCut, habitRow{}},
	} {
		r := p.row
		r.name, r.form, r.habit = "pages "+p.name, "paged", fake.Habit{Pages: p.pages}
		all = append(all, r)
	}
	return append(all,
		habitRow{name: "second page is empty", form: "paged", habit: fake.Habit{LeaveOut: fake.All, Forms: fake.LaterPages}},
		habitRow{name: "first object left out of later pages", form: "paged", habit: fake.Habit{LeaveOut: fake.First, Forms: fake.LaterPages}},
		habitRow{name: "pages skip, and no remainingItemCount", form: "paged", undetectable: consistent, waived: []string{trueLines}, habit: fake.Habit{Pages: fake.PagesSkip, Remaining: fake.NoRemaining}},
		habitRow{name: "pages end early, and no remainingItemCount", form: "paged", undetectable: consistent, waived: []string{trueLines}, habit: fake.Habit{Pages: fake.PagesCut, Remaining: fake.NoRemaining}},
		habitRow{name: "no remainingItemCount", form: "paged", habit: fake.Habit{Remaining: fake.NoRemaining}, must: exact},
		habitRow{name: "limit ignored", habit: fake.Habit{IgnoreLimit: true}, must: exact},
		habitRow{name: "remainingItemCount too high", habit: fake.Habit{Remaining: 1000}},
		habitRow{name: "remainingItemCount negative", habit: fake.Habit{Remaining: -1}, must: exact},
	)
}

// streamedHabits are about streamed lists.
func streamedHabits() []habitRow {
	var all []habitRow
	for _, i := range []struct {
		name    string
		initial fake.Initial
		must    demand
	}{
		{"is its end only", fake.InitialEndOnly, exact}, // openshift-apiserver#661
		{"has its end first", fake.InitialEndFirst, exactOrReason},
		{"ends twice", fake.InitialEndTwice, exactOrReason},
		{"has no end", fake.InitialUnknown, exact},
		{"is not sent", fake.InitialFromNow, exact},
		{"is of MODIFIED", fake.InitialAsModified, exact},
	} {
		all = append(all, habitRow{name: "streamed list " + i.name, form: "streamed", habit: fake.Habit{Initial: i.initial}, must: i.must})
	}
	return all
}

// watchHabits are about which events are sent.
func watchHabits() []habitRow {
	return eitherForm([]habitRow{
		{name: "watch starts over", habit: fake.Habit{Start: fake.StartOver}}, // porch#1101
		{name: "watch starts over slowly", habit: fake.Habit{Start: fake.StartOverSlow}},
		{name: "watch starts over, no deletions", habit: fake.Habit{Start: fake.StartOver, NoDeleted: true}, undetectable: neverSent},
		{name: "watch sends all history", habit: fake.Habit{Start: fake.StartHistory}},
		{name: "watch starts now", habit: fake.Habit{Start: fake.StartNow}, undetectable: neverSent},
		{name: "watch starts over, without bookmarks", habit: fake.Habit{Start: fake.StartOver, BookmarkVersion: fake.NoVersion}},
		{name: "watch starts over at constant versions", lies: true, habit: fake.Habit{Start: fake.StartOver, EventVersion: fake.Constant}},
		{name: "namespace ignored, watch starts over", scope: "namespace", habit: fake.Habit{Start: fake.StartOver, IgnoreNamespace: true}},
		{name: "events twice", habit: fake.Habit{Twice: true}},
		{name: "events swapped", habit: fake.Habit{Swapped: true}},
		{name: "ADDED as MODIFIED", habit: fake.Habit{AddedAsModified: true}},
		{name: "MODIFIED as ADDED", habit: fake.Habit{ModifiedAsAdded: true}},
		{name: "DELETED of what is there", habit: fake.Habit{FalseDeleted: true}, undetectable: saysDeleted, waived: []string{trueLines}},
		{name: "DELETED twice", habit: fake.Habit{DeletedTwice: true}, must: exact},
		{name: "DELETED missing", habit: fake.Habit{NoDeleted: true}, undetectable: neverSent},
		{name: "ADDED missing", habit: fake.Habit{NoAdded: true}, undetectable: neverSent},
		{name: "MODIFIED missing", habit: fake.Habit{NoModified: true}, undetectable: neverSent},
		{name: "bookmarks only", habit: fake.Habit{NoEvents: true}, undetectable: neverSent},
		{name: "leaves the selection as MODIFIED", scope: "label", habit: fake.Habit{LeftAsModified: true}},
		{name: "selector ignored by watches, leaving as MODIFIED", scope: "label", habit: fake.Habit{IgnoreLabels: true, LeftAsModified: true}},
		{name: "bookmark before its event", habit: fake.Habit{BookmarkFirst: true}},
		{name: "bookmark long before its events", habit: fake.Habit{EventsLate: true}},
		{name: "events held back until the end", habit: fake.Habit{SilentUntilEnd: true}},
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
	say  fake.Versions
	name string
}{
	{fake.NoVersion, "absent"},
	{fake.EmptyVersion, "empty"},
	{fake.ZeroVersion, "0"},
	{fake.NotANumber, "not a number"},
	{fake.Constant, "constant"},
	{fake.Lagging, "lower"},
	{fake.Alternating, "lower every second time"},
	{fake.AheadOf, "ahead"},
	{fake.NewestObject, "of the newest object"},
	{fake.OwnCounter, "of its own counter"},
	{fake.EachPage, "other on each page"},
	{fake.Negative, "negative"},
	{fake.Huge, "beyond 64 bits"},
}

// versionHabits are about the versions of lists, events and bookmarks.
func versionHabits() []habitRow {
	var all []habitRow
	for _, v := range versionNames {
		list := habitRow{name: "list version " + v.name, habit: fake.Habit{ListVersion: v.say}}
		switch v.say {
		case fake.NoVersion, fake.EmptyVersion, fake.ZeroVersion:
			list.must = refused
			all = append(all, habitRow{name: "streamed list's end at version " + v.name, form: "streamed", habit: fake.Habit{ListVersion: v.say, Forms: fake.Streamed}})
		case fake.NotANumber, fake.Constant, fake.Lagging, fake.AheadOf:
			all = append(all, habitRow{name: "streamed list's end at version " + v.name, form: "streamed", habit: fake.Habit{ListVersion: v.say, Forms: fake.Streamed}})
		}
		all = append(all, list)
		if v.say == fake.EachPage || v.say == fake.NewestObject {
			continue
		}
		event := habitRow{name: "event version " + v.name, lies: true, habit: fake.Habit{EventVersion: v.say}}
		deleted := habitRow{name: "DELETED version " + v.name, habit: fake.Habit{DeletedVersion: v.say}}
		if v.say == fake.Constant {
			deleted = habitRow{name: "DELETED at the object's last version", habit: deleted.habit, must: exact} // kubernetes#58545
		}
		bookmark := habitRow{name: "bookmark version " + v.name, habit: fake.Habit{BookmarkVersion: v.say}}
		all = append(all, eitherForm([]habitRow{event, deleted, bookmark})...)
	}
	return append(all,
		habitRow{name: "no version is a number", lies: true, habit: fake.Habit{
			ListVersion: fake.NotANumber, ObjectVersions: fake.NotANumber, BookmarkVersion: fake.NotANumber,
		}},
		habitRow{name: "bookmarks ahead, and before events", habit: fake.Habit{BookmarkVersion: fake.AheadOf, BookmarkFirst: true}},
		habitRow{name: "list version lower, watch starts over", habit: fake.Habit{ListVersion: fake.Lagging, Start: fake.StartOver}},
	)
}

// objectHabits are about what objects say of themselves, in lists and events alike.
func objectHabits() []habitRow {
	var all []habitRow
	for _, u := range []struct {
		name string
		say  fake.UIDs
	}{
		{"no uid", fake.NoUID}, {"one uid for all", fake.SharedUID}, {"another uid with each write", fake.NewUID},
		{"the uid again under a name", fake.UIDOfName}, {"another uid in each list", fake.UIDOfAnswer},
	} {
		all = append(all, habitRow{name: u.name, lies: true, habit: fake.Habit{UIDs: u.say}})
	}
	for _, v := range versionNames {
		switch v.say {
		case fake.NoVersion, fake.ZeroVersion, fake.NotANumber, fake.Constant, fake.Lagging, fake.OwnCounter, fake.Huge:
			r := habitRow{name: "objects' version " + v.name, lies: true, habit: fake.Habit{ObjectVersions: v.say}}
			if v.say == fake.Constant {
				r.undetectable, r.waived = sameVersion, []string{exactReplay}
			}
			all = append(all, r)
		}
	}
	return append(all,
		habitRow{name: "no namespace", habit: fake.Habit{NoNamespace: true}},
		habitRow{
			name: "no uid, own counter", lies: true, undetectable: noIdentity, waived: []string{exactReplay, uniqueIDs},
			habit: fake.Habit{UIDs: fake.NoUID, ObjectVersions: fake.OwnCounter},
		},
		habitRow{name: "one uid for all, watch starts over", lies: true, habit: fake.Habit{UIDs: fake.SharedUID, Start: fake.StartOver}},
	)
}
