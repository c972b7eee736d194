package invariant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// part is what a replica writes in a term.
type part struct {
	journal int
	lines   []string
}

// takeovers are parts, the first of term 1: a watch that the next one has again from its second line on, and a list by
// one who has not heard of the last line, and finds that what it is about is gone.
func takeovers() []part {
	return []part{
		{0, []string{
			event("ADDED", "snapshot", "a", "u1", "5"),
			synced("10", 1, 0, 0),
			watched("MODIFIED", "a", "u1", "11"),
			watched("ADDED", "c", "u3", "12"),
			watched("DELETED", "c", "u3", "13"),
			watched("ADDED", "d", "u4", "14"),
		}},
		{1, []string{
			watched("DELETED", "c", "u3", "13"),
			watched("ADDED", "d", "u4", "14"),
			watched("MODIFIED", "d", "u4", "15"),
		}},
		{0, []string{
			gap("Expired", "14", "30"),
			event("MODIFIED", "relist", "a", "u1", "28"),
			synced("30", 0, 1, 0),
			watched("MODIFIED", "a", "u1", "31"),
		}},
	}
}

// asOne is what a reader shows of takeovers: the lines, each after its term.
func asOne() []string {
	all := takeovers()
	in := func(term int, lines ...string) (out []string) {
		for _, l := range lines {
			out = append(out, fmt.Sprintf(`"term":%d,%s`, term, l))
		}
		return out
	}
	return slices.Concat(in(1, all[0].lines...), in(2, all[1].lines[2]),
		in(3, strings.Replace(all[2].lines[0], `From":"14"`, `From":"15"`, 1), all[2].lines[1],
			strings.ReplaceAll(lost("d", "u4", "15"), "123456789", "000000001"), synced("30", 0, 1, 1), all[2].lines[3]))
}

func written(t *testing.T, parts []part) *Replicas {
	t.Helper()
	texts := make([][]string, 2)
	for n, part := range parts {
		for _, l := range part.lines {
			if !strings.HasPrefix(l, `"term":`) {
				l = fmt.Sprintf(`"term":%d,%s`, n+1, l)
			}
			texts[part.journal] = append(texts[part.journal], l)
		}
	}
	r := new(Replicas)
	for _, lines := range texts {
		r.Journals = append(r.Journals, parse(t, text(lines...)))
	}
	return r
}

// later is a line that was received some seconds later.
func later(seconds int, l string) string {
	return strings.Replace(l, "16:10:22", fmt.Sprintf("16:10:%02d", 22+seconds), 1)
}

var began = time.Date(2026, 11, 20, 16, 10, 22, 0, time.UTC)

func TestReplicas(t *testing.T) {
	list := func(name, uid, rv string) string { return event("MODIFIED", "relist", name, uid, rv) }
	for _, tt := range []struct {
		name  string
		fault func(r *[]part)
		want  string
		lost  bool
	}{
		{"as they should be", func(*[]part) {}, "", false},
		{"no term", func(r *[]part) { (*r)[1].lines[2] = `"term":0,` + (*r)[1].lines[2] }, "has no term", false},
		{"a term of two", func(r *[]part) { (*r)[1].lines[2] = `"term":1,` + (*r)[1].lines[2] }, "is journal 0's, too", false},
		{"a term that falls", func(r *[]part) { (*r)[2].lines[3] = `"term":1,` + (*r)[2].lines[3] }, "falls from term 3 to 1", false},
		{"a line of a term that is over", func(r *[]part) { (*r)[0].lines[5] = later(9, (*r)[0].lines[5]) }, "term 2 began", false},
		{"a line when its term ends", func(r *[]part) {
			(*r)[0].lines[4], (*r)[0].lines[5] = later(8, (*r)[0].lines[4]), later(8, (*r)[0].lines[5])
		}, "", false},
		{"an event twice in a term", func(r *[]part) {
			(*r)[1].lines = append((*r)[1].lines, (*r)[1].lines[2])
		}, "and at j:3 in term 2", false},
		{"an event in a later term of its journal", func(r *[]part) {
			*r = append((*r)[:2], part{0, []string{watched("DELETED", "c", "u3", "13"), watched("ADDED", "d", "u4", "14"), watched("MODIFIED", "d", "u4", "15")}})
		}, "has it in term 3, and at j:5 in term 1", false},
		{"the same after its checkpoint was lost", func(r *[]part) {
			*r = append((*r)[:2], part{0, []string{watched("DELETED", "c", "u3", "13"), watched("ADDED", "d", "u4", "14"), watched("MODIFIED", "d", "u4", "15")}})
		}, "", true},
		{"a list of what is known, by who has lost nothing", func(r *[]part) {
			(*r)[2].lines[1] = list("a", "u1", "11")
		}, "has it in term 3, and at j:3 in term 1", false},
		{"the same by who has", func(r *[]part) {
			(*r)[2].lines[0], (*r)[2].lines[1] = gap(CheckpointLost, "", "30"), list("a", "u1", "11")
		}, "", false},
		{"the same after the SYNCED", func(r *[]part) {
			(*r)[2].lines[0], (*r)[2].lines[3] = gap(CheckpointLost, "", "30"), watched("MODIFIED", "a", "u1", "11")
		}, "and at j:3 in term 1", false},
		{"other events at the same versions", func(r *[]part) {
			(*r)[2].lines[0], (*r)[2].lines[3] = gap(Ahead, "", "30"), watched("MODIFIED", "a", "u1", "11")
		}, "", false},
		{"the same, as another journal says", func(r *[]part) {
			(*r)[2].journal, (*r)[2].lines[0] = 1, gap(Ahead, "", "30")
			*r = append(*r, part{0, []string{watched("MODIFIED", "a", "u1", "11")}})
		}, "", false},
		{"a list that a takeover ends, and that begins again", func(r *[]part) {
			*r = append((*r)[:2], part{0, []string{gap("Expired", "14", "30"), list("a", "u1", "28")}},
				part{0, []string{gap("Expired", "14", "40"), list("a", "u1", "28"), synced("40", 0, 1, 0)}})
		}, "", false},
		{"the same in one term", func(r *[]part) {
			(*r)[2].lines = []string{gap("Expired", "14", "30"), list("a", "u1", "28"), gap("Expired", "14", "40"), list("a", "u1", "28")}
		}, "and at j:8 in term 3", false},
		{"the same after a list that has ended", func(r *[]part) {
			*r = append(*r, part{0, []string{gap("Expired", "31", "40"), list("a", "u1", "28")}})
		}, "and at j:8 in term 3", false},
		{"a watch from before a list, and what comes after that again", func(r *[]part) {
			*r = append(*r, part{1, []string{watched("MODIFIED", "d", "u4", "29"), watched("MODIFIED", "a", "u1", "31")}})
		}, "", false},
		{"the same with a hole", func(r *[]part) {
			(*r)[2].lines = append((*r)[2].lines, watched("MODIFIED", "a", "u1", "32"))
			*r = append(*r, part{1, []string{watched("MODIFIED", "a", "u1", "31"), watched("MODIFIED", "a", "u1", "33")}})
		}, "which term 4 has to have again", false},
		{"again, and late", func(r *[]part) { (*r)[0].lines[5] = later(3, (*r)[0].lines[5]) }, "from 3s before its end", false},
		{"again, and just in time", func(r *[]part) { (*r)[0].lines[5] = later(2, (*r)[0].lines[5]) }, "", false},
		{"again with a hole", func(r *[]part) { (*r)[1].lines = slices.Delete((*r)[1].lines, 1, 2) }, "which term 2 has to have again", false},
		{"again in another order", func(r *[]part) {
			(*r)[1].lines[0], (*r)[1].lines[1] = (*r)[1].lines[1], (*r)[1].lines[0]
		}, "again out of order", false},
		{"again after what is new", func(r *[]part) {
			(*r)[1].lines[1], (*r)[1].lines[2] = (*r)[1].lines[2], (*r)[1].lines[1]
		}, "which term 2 has to have again", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parts := takeovers()
			tt.fault(&parts)
			r := written(t, parts)
			r.Began = map[uint64]time.Time{1: began, 2: began.Add(8*time.Second + 500*time.Millisecond)}
			r.Bound = 2 * time.Second
			r.Lost = map[int]bool{0: tt.lost}
			want(t, r.Check(), tt.want)
		})
	}
}

// A write of every kind that is in no journal is found; where a list tells the net result it may be missing.
func TestAcknowledged(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(parts []part)
		write Write
		want  string
	}{
		{"there", func([]part) {}, Write{Type: Modified, UID: "u4", ResourceVersion: "15"}, ""},
		{"in the journal of a leader whose lines come again", func(r []part) { r[1].lines = r[1].lines[2:] }, Write{Type: Added, UID: "u4", ResourceVersion: "14"}, ""},
		{"missing", func(r []part) { r[1].lines = r[1].lines[:2]; r[2].lines[0] = gap("Expired", "15", "30") },
			Write{Type: Modified, UID: "u4", ResourceVersion: "15"}, "u4/15/MODIFIED of configmaps is missing"},
		{"of another type", func([]part) {}, Write{Type: Modified, UID: "u4", ResourceVersion: "14"}, "u4/14/MODIFIED of configmaps is missing"},
		{"in a list", func([]part) {}, Write{Type: Modified, UID: "u1", ResourceVersion: "27"}, ""},
		{"before a list", func([]part) {}, Write{Type: Modified, UID: "u1", ResourceVersion: "14"}, "u1/14/MODIFIED of configmaps is missing"},
		{"after a list", func([]part) {}, Write{Type: Modified, UID: "u1", ResourceVersion: "32"}, "u1/32/MODIFIED of configmaps is missing"},
		{"deleted", func([]part) {}, Write{Type: Deleted, UID: "u3"}, ""},
		{"deleted, as a list does not show it", func([]part) {}, Write{Type: Deleted, UID: "u4"}, ""},
		{"not deleted", func([]part) {}, Write{Type: Deleted, UID: "u1"}, "deletion of u1 of configmaps is missing"},
		{"in a list without an end", func(r []part) {
			r[2] = part{1, []string{watched("MODIFIED", "a", "u1", "31")}}
			r[1] = part{0, []string{gap("Expired", "14", "30"), event("MODIFIED", "relist", "a", "u1", "28")}}
		}, Write{Type: Modified, UID: "u1", ResourceVersion: "28"}, "u1/28/MODIFIED of configmaps is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parts := takeovers()
			tt.fault(parts)
			tt.write.Stream = "configmaps"
			want(t, written(t, parts).Acknowledged([]Write{tt.write}), tt.want)
		})
	}
}

// What follows from the journals without a merge, by the names and versions that are there in the end.
func TestFollow(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(r *[]part)
		want  string
	}{
		{"as they should be", func(*[]part) {}, "a 31"},
		{"from before what was missed", func(r *[]part) { (*r)[2].lines[0] = gap("Expired", "15", "30") }, "a 31, d 15"},
		{"repeats alone", func(r *[]part) { *r = (*r)[:2] }, "a 11, d 15"},
		{"a list without an end", func(r *[]part) {
			*r = append((*r)[:1], part{0, []string{gap("Expired", "14", "30"), event("MODIFIED", "relist", "a", "u1", "28")}},
				part{1, []string{watched("MODIFIED", "a", "u1", "20")}})
		}, "a 20, d 14"},
		{"a list that comes again", func(r *[]part) {
			*r = append((*r)[:1], part{0, []string{gap("Expired", "14", "30"), event("MODIFIED", "relist", "a", "u1", "28"), synced("30", 0, 1, 0)}},
				part{1, []string{watched("MODIFIED", "a", "u1", "20"), watched("MODIFIED", "a", "u1", "28")}})
		}, "a 28, d 14"},
		{"all is written again", func(r *[]part) { (*r)[2].lines[0] = gap(CheckpointLost, "", "30") }, "a 31"},
		{"versions from before", func(r *[]part) {
			(*r)[2].lines = []string{gap(Ahead, "", "10"), event("MODIFIED", "relist", "a", "u1", "9"), synced("10", 0, 1, 0), watched("MODIFIED", "a", "u1", "11")}
		}, "a 11"},
		{"a watch from before a list", func(r *[]part) {
			*r = append(*r, part{1, []string{
				watched("MODIFIED", "a", "u1", "20"), watched("DELETED", "d", "u4", "21"), watched("ADDED", "d", "u5", "22"),
				watched("MODIFIED", "a", "u1", "31"),
			}})
		}, "a 31"},
		{"a deletion that has the version before", func(r *[]part) {
			(*r)[2].lines = append((*r)[2].lines, watched("DELETED", "a", "u1", "28"))
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parts := takeovers()
			tt.fault(&parts)
			state, err := Replay(written(t, parts).Follow())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range ordered(state) {
				got = append(got, k.Name+" "+state[k].ResourceVersion)
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestMerged(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(lines []string) []string
		want  string
	}{
		{"as it should be", func(l []string) []string { return l }, ""},
		{"a line is missing", func(l []string) []string { return slices.Delete(l, 6, 7) }, "not in the merged one"},
		{"an event twice", func(l []string) []string {
			return slices.Insert(l, 7, strings.Replace(l[5], `"term":1`, `"term":2`, 1))
		}, "stands at j:6 already"},
		{"another order", func(l []string) []string { l[3], l[6] = l[6], l[3]; return l }, "comes after lines that were written later"},
		{"another order in a term", func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }, "comes after lines that were written later"},
		{"a line of nobody", func(l []string) []string { return append(l, `"term":3,`+watched("MODIFIED", "a", "u1", "32")) }, "no journal has it"},
		{"a line of another time", func(l []string) []string { l[4] = later(1, l[4]); return l }, "no journal has it"},
		{"another object", func(l []string) []string { l[2] = strings.Replace(l[2], `"k":"11"`, `"k":"12"`, 1); return l }, "object differs"},
		{"another name", func(l []string) []string {
			l[2] = strings.Replace(l[2], `"name":"a","uid"`, `"name":"b","uid"`, 1)
			return l
		}, "name differs"},
		{"another member", func(l []string) []string { l[2] += `,"manager":"x"`; return l }, "manager differs"},
		{"another type of a watch", func(l []string) []string {
			l[2] = strings.Replace(l[2], `"type":"MODIFIED"`, `"type":"ADDED"`, 1)
			return l
		}, "type differs"},
		{"another reason", func(l []string) []string { l[7] = strings.Replace(l[7], "Expired", CheckpointLost, 1); return l }, "reason differs"},
		{"another version of a SYNCED", func(l []string) []string { l[1] = strings.Replace(l[1], `n":"10"`, `n":"9"`, 1); return l }, "resourceVersion differs"},
		{"a deletion outside a list", func(l []string) []string { return append(l[:9], l[10], l[9], l[11]) }, "no list is there"},
		{"a deletion at another version", func(l []string) []string {
			l[9] = strings.Replace(lost("d", "u4", "14"), "123456789", "000000001", 1)
			l[9] = `"term":3,` + l[9]
			return l
		}, "is not the object of"},
		{"a deletion of what is not there", func(l []string) []string {
			l[9] = `"term":3,` + strings.Replace(lost("c", "u3", "12"), "123456789", "000000001", 1)
			return l
		}, "the object is not there"},
		{"an addition in a list", func(l []string) []string {
			l[9] = `"term":3,` + event("ADDED", "relist", "e", "u9", "25")
			return l
		}, "no journal has it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines := parse(t, text(tt.fault(asOne())...))
			want(t, written(t, takeovers()).Merged(lines), tt.want)
		})
	}
}

// A list that was not published comes after what the next leader wrote up to its version, and not later.
func TestMergedOrderOfLists(t *testing.T) {
	parts := slices.Concat(takeovers()[:1], []part{
		{0, []string{gap("Expired", "14", "30"), event("MODIFIED", "relist", "a", "u1", "28"), synced("30", 0, 1, 0)}},
		{1, []string{watched("MODIFIED", "a", "u1", "20"), watched("MODIFIED", "d", "u4", "32")}},
	})
	var lines []string
	for n, part := range parts {
		for _, l := range part.lines {
			lines = append(lines, fmt.Sprintf(`"term":%d,%s`, n+1, l))
		}
	}
	before, list, early, late := lines[:6], lines[6:9], lines[9:10], lines[10:]
	for _, tt := range []struct {
		want string
		all  []string
	}{
		{"", slices.Concat(before, early, list, late)},
		{"it is of a list up to 30", slices.Concat(before, early, late, list)},
		{"it is of a list up to 30", slices.Concat(before, early, list[:2], late, list[2:])},
		{"not in the merged one", slices.Concat(before, list, late)},
	} {
		r := written(t, parts)
		merged := parse(t, text(tt.all...))
		want(t, errors.Join(r.Kept(merged), r.Source(merged)), tt.want)
	}
}
