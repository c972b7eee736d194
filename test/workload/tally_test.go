package workload

import (
	"testing"

	"kubejournal/test/invariant"
)

func line(seq uint64, typ, uid, version string) invariant.Line {
	return invariant.Line{Seq: seq, Type: typ, Stream: "pods", UID: uid, ResourceVersion: version, ID: uid + "/" + version + "/" + typ}
}

// What the counts of the table find.
func TestTally(t *testing.T) {
	write := func(typ, uid, version string) invariant.Write {
		return invariant.Write{Stream: "pods", Type: typ, UID: uid, ResourceVersion: version}
	}
	synced := line(1, invariant.Synced, "", "10")
	gap := line(4, invariant.Gap, "", "30")
	gap.FromResourceVersion, gap.Reason = "20", "Expired"
	lines := []invariant.Line{
		synced, line(2, invariant.Added, "a", "11"), line(3, invariant.Modified, "a", "20"), gap,
		line(5, invariant.Modified, "a", "29"), line(6, invariant.Synced, "", "30"),
	}
	for _, tc := range []struct {
		write     invariant.Write
		net, lost int
	}{
		{write(invariant.Added, "b", "9"), 1, 0}, // before the first sync
		{write(invariant.Added, "a", "11"), 0, 0},
		{write(invariant.Modified, "a", "12"), 0, 1},
		{write(invariant.Modified, "a", "25"), 1, 0}, // in the GAP
		{write(invariant.Modified, "a", "31"), 0, 1},
		{write(invariant.Deleted, "a", ""), 0, 1},
		{write(invariant.Deleted, "c", ""), 0, 0}, // came and went before the first sync
	} {
		if got := Count(lines, []invariant.Write{tc.write}); got.Net != tc.net || got.Lost != tc.lost {
			t.Errorf("%+v: %+v, want %d net and %d lost", tc.write, got, tc.net, tc.lost)
		}
	}
	snapshot, watched, relisted := line(7, invariant.Added, "d", "31"), line(8, invariant.Added, "e", "32"), line(9, invariant.Added, "f", "33")
	snapshot.Origin, watched.Origin, relisted.Origin = invariant.FromSnapshot, invariant.FromWatch, invariant.FromRelist
	if got := Count(append(lines, snapshot, watched, relisted), nil); got.Hidden != 2 || got.Synced != 2 {
		t.Errorf("%+v, want 2 hidden and 2 SYNCED", got)
	}
	// A GAP that names a version from before its list.
	lines[5].ResourceVersion = "35"
	got := Count(append(lines[:5:5], relisted, lines[5]), []invariant.Write{write(invariant.Modified, "a", "31"), write(invariant.Modified, "a", "36")})
	if got.Net != 1 || got.Lost != 1 || got.Hidden != 0 {
		t.Errorf("behind an early GAP: %+v", got)
	}
	// A list that was not finished, and another one in its place.
	second := line(7, invariant.Gap, "", "40")
	second.FromResourceVersion = "33"
	got = Count(append(lines[:5:5], relisted, second, line(8, invariant.Synced, "", "41")), []invariant.Write{
		write(invariant.Modified, "a", "32"), write(invariant.Modified, "a", "41"), write(invariant.Modified, "a", "42"),
	})
	if got.Net != 2 || got.Lost != 1 {
		t.Errorf("behind two GAPs: %+v", got)
	}
	sameID, sameSeq := lines[1], line(3, invariant.Added, "g", "37")
	sameID.Seq = 9
	if got := Count(append(lines[:6:6], sameID, sameSeq), nil); got.Repeated != 2 {
		t.Errorf("%d repeated, want 2", got.Repeated)
	}
}
