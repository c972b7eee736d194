package watcher_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"kubejournal/internal/kube/fake"
)

var (
	habitsShare = flag.Int("habits.share", 3, "TestHabits runs one cell of so many: of each habit, and of each phase")
	habitsCell  = flag.String("habits.cell", "", "the only cells of TestHabits, as HABIT/FORM/PHASE; each may be empty")
	habitsShow  = flag.Bool("habits.show", false, "TestHabits shows the journal and the log of a cell that failed")
)

// habitForms are the forms of lists that a server offers.
var habitForms = []struct {
	name   string
	server fake.Options
}{
	{"streamed", fake.Options{MaxPage: 3}},
	{"paged", fake.Options{MaxPage: 3, NoWatchList: true}},
}

// TestHabits has one resource of three served with a habit: an answer that looks right and is not. In every cell each
// line is true, no id comes twice, no position goes back, the other streams continue, requests are few, and the stream
// with the habit is exact or says why it is not. When the habit is over, the journal says what the server has.
func TestHabits(t *testing.T) {
	if testing.Short() {
		t.Skip("not in make quick")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	share := *habitsShare
	if raced {
		share = racedShare
	} else if *habitsCell != "" {
		share = 1
	}
	cells, failed := 0, make(map[string]int)
	for i, row := range habitRows {
		for f, form := range habitForms {
			for p, phase := range habitPhases {
				if row.form != "" && row.form != form.name && (row.form != "either" || (i+f+p)%len(habitForms) != 0) {
					continue
				}
				if !chosenHabit(row.name, form.name, string(phase)) || (i+f+p)%share != 0 {
					continue
				}
				cells++
				var faults []string
				t.Run(habitName(row.name, form.name, string(phase)), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { // which waits for every goroutine
						c := &habitCell{harness: newWorld(t, form.server, nil), row: row, phase: phase}
						defer c.close()
						if faults = c.run(); len(faults) > 0 {
							t.Error(strings.Join(faults, "; "))
							if *habitsCell != "" {
								c.dump()
							}
						}
					})
				})
				for _, fault := range faults {
					check, _, _ := strings.Cut(fault, ":")
					failed[check]++
				}
				if len(faults) > 0 {
					failed["cells"]++
				}
			}
		}
	}
	t.Logf("%d habits, %d cells, %d failed", len(habitRows), cells, failed["cells"])
	for _, check := range slices.Sorted(maps.Keys(failed)) {
		t.Logf("%s: %d", check, failed[check])
	}
}

func habitName(parts ...string) string {
	return strings.ReplaceAll(strings.Join(parts, "/"), " ", "_")
}

// chosenHabit reports whether a cell is one of -habits.cell.
func chosenHabit(of ...string) bool {
	for i, part := range strings.Split(*habitsCell, "/") {
		if part != "" && i < len(of) && part != of[i] && part != habitName(of[i]) {
			return false
		}
	}
	return true
}

// close ends the cell's world.
func (c *habitCell) close() {
	if c.life != nil {
		c.kill()
	}
	c.srv.Close()
	if c.t.Failed() && *habitsShow {
		fmt.Println(c.log.String())
		c.dump()
	}
}

// demand is what a stream must do under a habit.
type demand uint8

const (
	exactOrReason demand = iota
	exact                // it follows the server as if nothing was
	refused              // it shows a reason
)

// habitRow is a habit, and what must become of a stream.
type habitRow struct {
	name  string
	habit fake.Habit
	scope string // of the stream: "namespace", "label", "name"; "" is everything
	form  string // the only form of lists it is about; "" is each, "either" is one of them in each phase
	lies  bool   // uids or versions of objects are not those that are stored
	must  demand
	// undetectable is why no reader can find the habit out. Its cell checks all but exactness, and waived.
	undetectable string
	waived       []string
}
