package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func write(kind, name, uid, version string) change { return change{kind, "ns/" + name, uid, version} }

// TestJudgeByHand judges outputs whose faults are known because they were put there.
func TestJudgeByHand(t *testing.T) {
	before := []change{
		write(added, "kept", "k", "1"), write(added, "changed", "c", "2"), write(added, "gone", "g", "3"),
		write(added, "replaced", "r", "4"),
	}
	within := []change{
		write(modified, "changed", "c", "5"), write(modified, "changed", "c", "6"),
		write(deleted, "gone", "g", ""),
		write(deleted, "replaced", "r", ""), write(added, "replaced", "r2", "7"),
		write(added, "brief", "b", "8"), write(deleted, "brief", "b", ""), // comes to nothing
		write(added, "new", "n", "9"),
	}
	// A watch and a comparison after a gap tell other versions of a deletion than any write has.
	gone, replaced, brief := write(deleted, "gone", "g", "103"), write(deleted, "replaced", "r", "4"), write(deleted, "brief", "b", "108")
	all := slices.Concat(before, within[:2], []change{gone, replaced, within[4], within[5], brief, within[7]})
	net := slices.Concat(before, []change{within[1], gone, replaced, within[4], within[7]})
	base := verdict{Writes: 12, Deletions: 3, Net: 5, NetDeletions: 2}
	with := func(change func(*verdict)) verdict {
		v := base
		change(&v)
		return v
	}
	for _, tt := range []struct {
		name string
		told []change
		want verdict
	}{
		{"everything", all, with(func(v *verdict) { v.NetTold, v.NetDeletionsTold = 5, 2 })},
		{"net differences", net, with(func(v *verdict) {
			v.NetTold, v.NetDeletionsTold = 5, 2
			v.Lost, v.DeletionsLost = 3, 1 // the version between, and the brief object's life
		})},
		{"what exists, as added", slices.Concat(before, []change{
			write(added, "kept", "k", "1"), write(added, "changed", "c", "6"), write(added, "replaced", "r2", "7"), write(added, "new", "n", "9"),
		}), with(func(v *verdict) {
			v.NetTold, v.Lost, v.DeletionsLost, v.Repeated, v.Stale = 3, 5, 3, 1, 1
		})},
		{"nothing of the gap", before, with(func(v *verdict) {
			v.Lost, v.DeletionsLost, v.Wrong, v.Stale = 8, 3, 3, 1
		})},
		{"nothing", nil, with(func(v *verdict) { v.Lost, v.DeletionsLost, v.Wrong = 12, 3, 4 })},
		{"a deletion twice", append(slices.Clone(all), gone), with(func(v *verdict) {
			v.NetTold, v.NetDeletionsTold, v.Repeated = 5, 2, 1
		})},
		{"a deletion that was not", append(slices.Clone(all), write(deleted, "kept", "k", "200")), with(func(v *verdict) {
			v.NetTold, v.NetDeletionsTold, v.Invented, v.Wrong = 5, 2, 1, 1
		})},
		{"a version that was not", append(slices.Clone(all), write(modified, "kept", "k", "201")), with(func(v *verdict) {
			v.NetTold, v.NetDeletionsTold, v.Invented, v.Wrong = 5, 2, 1, 1
		})},
		{"an old version last", append(slices.Clone(all), write(modified, "changed", "c", "5")), with(func(v *verdict) {
			v.NetTold, v.NetDeletionsTold, v.Repeated, v.Wrong = 5, 2, 1, 1
		})},
		{"a deletion of its predecessor behind an object", slices.Concat(before, within[:2], []change{gone, within[4], replaced, within[5], brief, within[7]}),
			with(func(v *verdict) { v.NetTold, v.NetDeletionsTold = 5, 2 })},
	} {
		if got := judge(before, within, tt.told); got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

// TestJudgeCounts drops and repeats changes of random histories at random: the judge must find as many.
func TestJudgeCounts(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		history := randomHistory(random, 300)
		cut := random.IntN(len(history))
		var (
			told []change
			want verdict
		)
		for i, c := range history {
			c.Version = fmt.Sprint(i + 1) // a deletion has one too where it is told
			switch random.IntN(10) {
			case 0:
				want.Lost++
				if c.Type == deleted {
					want.DeletionsLost++
				}
			case 1:
				want.Repeated++
				told = append(told, c, c)
			default:
				told = append(told, c)
			}
		}
		got := judge(history[:cut], history[cut:], told)
		if got.Lost != want.Lost || got.DeletionsLost != want.DeletionsLost || got.Repeated != want.Repeated || got.Invented != 0 {
			t.Fatalf("seed %d: %+v, put there were %+v", seed, got, want)
		}
		if whole := judge(history[:cut], history[cut:], history); whole.Lost+whole.Repeated+whole.Wrong+whole.Stale+whole.Invented != 0 ||
			whole.NetTold != whole.Net || whole.NetDeletionsTold != whole.NetDeletions {
			t.Fatalf("seed %d: the history itself is found at fault: %+v", seed, whole)
		}
	}
}

// randomHistory is n writes to a few names.
func randomHistory(random *rand.Rand, n int) []change {
	var history []change
	uids := make(map[int]string)
	for i := range n {
		name := random.IntN(20)
		c := change{modified, fmt.Sprintf("ns/%d", name), uids[name], fmt.Sprint(i + 1)}
		switch {
		case c.UID == "":
			c.Type, c.UID = added, fmt.Sprintf("uid-%d", i)
			uids[name] = c.UID
		case random.IntN(3) == 0:
			c.Type, c.Version = deleted, ""
			delete(uids, name)
		}
		history = append(history, c)
	}
	return history
}

func TestSpan(t *testing.T) {
	all := []finding{{verdict: verdict{Lost: 1234567}}, {verdict: verdict{Lost: 12}}, {verdict: verdict{Lost: 999}}}
	if got := spanOf(all, func(f finding) int { return f.Lost }).String(); got != "12 to 1,234,567" {
		t.Errorf("span is %s", got)
	}
	if got := spanOf(all[1:2], func(f finding) int { return f.Lost }).String(); got != "12" {
		t.Errorf("span is %s", got)
	}
}

func TestGapSaid(t *testing.T) {
	inOutput, inLog, nowhere := finding{gap: true}, finding{logged: true}, finding{}
	for _, tt := range []struct {
		all  []finding
		want string
	}{
		{[]finding{inOutput, inOutput}, "yes"}, {[]finding{inOutput, inLog}, "in its log only"}, {[]finding{inLog, inOutput}, "in its log only"},
		{[]finding{inOutput, nowhere}, "no"}, {[]finding{inLog, nowhere}, "no"},
	} {
		if got := gapSaid(tt.all); got != tt.want {
			t.Errorf("%v is told as %q, want %q", tt.all, got, tt.want)
		}
	}
}
