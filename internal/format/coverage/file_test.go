package coverage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kubejournal/test/faultdisk"
)

// journalled is a journal with the coverage file beside it, in a bubble of testing/synctest. Times are seconds from its begin.
type journalled struct {
	t      *testing.T
	path   string
	disk   *faultdisk.Disk
	began  time.Time
	seq    uint64 // of the last line
	first  uint64 // of the active file's first line; 0 while it is empty
	file   *File
	failed int
}

func inBubble(t *testing.T, test func(*journalled)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := &journalled{t: t, path: filepath.Join(dir, "journal.jsonl"), disk: faultdisk.New(nil), began: time.Now()}
		j.append(1)
		j.open(Options{})
		defer func() { j.kill() }()
		test(j)
	})
}

func (j *journalled) at(second int64) int64 {
	return j.began.Add(time.Duration(second) * time.Second).UnixNano()
}

// append writes lines to the active file, synced.
func (j *journalled) append(lines int) {
	j.t.Helper()
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	for range lines {
		if j.seq++; j.first == 0 {
			j.first = j.seq
		}
		if err == nil {
			_, err = fmt.Fprintf(f, `{"seq":%d,"time":%q,"type":"ADDED","id":"u/%d/ADDED","stream":"pods"}`+"\n", j.seq, time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z"), j.seq)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		j.t.Fatal(err)
	}
}

// rotate renames the active file.
func (j *journalled) rotate(to string) {
	j.t.Helper()
	if err := os.Rename(j.path, filepath.Join(filepath.Dir(j.path), to)); err != nil {
		j.t.Fatal(err)
	}
	j.first = 0
}

func (j *journalled) open(o Options) {
	j.t.Helper()
	o.Disk, o.Failed = j.disk, func() { j.failed++ }
	var err error
	if j.file, err = Open(j.path, o); err != nil && !errors.Is(err, faultdisk.ErrKilled) {
		j.t.Fatal(err)
	}
}

// kill ends the process, and whatever it would still write.
func (j *journalled) kill() {
	synctest.Wait()
	j.disk.Kill()
	if j.file != nil {
		j.file.Close(false)
	}
	synctest.Wait()
	j.disk = faultdisk.New(nil)
}

func (j *journalled) stop() {
	j.file.Close(true)
	j.file = nil
}

// commit lets time pass up to a second, writes a line, and commits what it says of streams.
func (j *journalled) commit(second int64, moved map[string]Progress) {
	j.t.Helper()
	<-time.After(time.Until(j.began.Add(time.Duration(second) * time.Second)))
	j.append(1)
	j.file.Committed(j.seq, j.first, maps.All(moved))
	synctest.Wait()
}

// pods commits the progress of one stream in seconds.
func (j *journalled) pods(second, since, confirmed, late int64) {
	j.t.Helper()
	p := Progress{Since: j.at(since), Confirmed: j.at(confirmed), Differences: since % 10}
	if late > 0 {
		p.Late = j.at(late)
	}
	j.commit(second, map[string]Progress{"pods": p})
}

func (j *journalled) lost(second int64, reason string) {
	j.t.Helper()
	j.commit(second, map[string]Progress{"pods": {Lost: reason}})
}

// shown is what the reader says, a stream for each line.
func (j *journalled) shown() string {
	j.t.Helper()
	all, err := Read(j.path)
	if err != nil {
		j.t.Fatal(err)
	}
	var lines []string
	for _, s := range all {
		line := s.Name
		for _, i := range s.Intervals {
			line += fmt.Sprintf(", %v-%v", i.From.Sub(j.began).Seconds(), i.To.Sub(j.began).Seconds())
			if i.Late {
				line += " late"
			}
			if i.End != "" {
				line += " " + i.End
			}
			if i.Differences != nil {
				line += fmt.Sprintf("(%d)", *i.Differences)
			}
			if len(i.HeldBack) > 0 {
				line += fmt.Sprint(" ", i.HeldBack)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (j *journalled) want(want string) {
	j.t.Helper()
	if got := j.shown(); got != want {
		j.t.Fatalf("\n got %s\nwant %s", got, want)
	}
}

func TestIntervals(t *testing.T) {
	inBubble(t, func(j *journalled) {
		if _, err := Read(filepath.Join(t.TempDir(), "journal.jsonl")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("no file: %v", err)
		}
		j.want("")
		j.commit(5, map[string]Progress{"pods": {}}) // a first sync is under way
		j.want("")
		j.pods(11, 11, 11, 0)
		j.want("pods, 11-11") // complete, and not confirmed yet
		j.pods(20, 11, 20, 0)
		j.pods(31, 11, 30, 0)
		j.want("pods, 11-30")
		j.pods(45, 11, 30, 0) // the position has moved, and is not confirmed
		j.want("pods, 11-30")
		j.pods(50, 11, 50, 50)
		j.want("pods, 11-30 Interrupted, 30-50 late")
		j.pods(60, 11, 60, 50)
		j.want("pods, 11-30 Interrupted, 30-50 late CaughtUp, 50-60")
		j.pods(75, 11, 75, 70) // both in one commit
		j.want("pods, 11-30 Interrupted, 30-50 late CaughtUp, 50-60 Interrupted, 60-70 late CaughtUp, 70-75")
		j.lost(80, "Expired")
		j.lost(81, "PositionAheadOfServer")
		j.pods(93, 93, 93, 0)
		j.pods(95, 93, 95, 0)
		j.want("pods, 11-30 Interrupted, 30-50 late CaughtUp, 50-60 Interrupted, 60-70 late CaughtUp, 70-75 PositionAheadOfServer(3), 93-95")
	})
}

// TestHeldBack has an entry whose keys change, in another segment, over an outage and over a restart.
func TestHeldBack(t *testing.T) {
	inBubble(t, func(j *journalled) {
		j.file.Begin("pods", []string{"types"})
		j.pods(11, 11, 11, 0)
		j.pods(20, 11, 20, 0)
		j.want("pods, 11-20 [types]")
		j.file.Begin("pods", []string{"filter", "initial", "payload"})
		j.want("pods, 11-20 [types]") // nothing was confirmed since
		j.rotate("journal.jsonl.1")
		j.pods(30, 11, 30, 0)
		j.want("pods, 11-30 [types filter initial]")
		j.file.Begin("pods", nil)
		j.pods(50, 11, 50, 40)
		j.want("pods, 11-30 Interrupted [types filter initial], 30-40 late CaughtUp, 40-50")
		j.file.Begin("pods", []string{"ignoreFields"})
		j.pods(70, 11, 70, 60)
		j.want("pods, 11-30 Interrupted [types filter initial], 30-40 late CaughtUp, 40-50 Interrupted, 50-60 late CaughtUp [ignoreFields], 60-70 [ignoreFields]")
		j.stop()
		j.open(Options{})
		j.pods(90, 11, 90, 80)
		j.want("pods, 11-30 Interrupted [types filter initial], 30-40 late CaughtUp, 40-50 Interrupted, 50-60 late CaughtUp [ignoreFields], 60-70 Stopped [ignoreFields], 70-90 late")
	})
}

// An interval has the leaseDuration of its daemon, over restarts with another one too; one that no config allows is not
// believed.
func TestLeaseDuration(t *testing.T) {
	inBubble(t, func(j *journalled) {
		lease := func(o Options, second int64, want time.Duration) {
			t.Helper()
			j.stop()
			j.open(o)
			j.file.Begin("pods", []string{LeaderElection})
			j.append(1)
			j.pods(second, 1, second, 0)
			j.stop()
			all, err := Read(j.path)
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			if got := all[0].Intervals[len(all[0].Intervals)-1].LeaseDuration; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			j.open(o)
		}
		j.pods(2, 1, 2, 0)
		lease(Options{LeaseDuration: time.Minute}, 10, time.Minute)
		lease(Options{LeaseDuration: 5 * time.Second}, 20, 5*time.Second)
		lease(Options{}, 30, 5*time.Second)
	})
	const salt = 7
	b := appendName(header(0, salt), salt, 0, "pods")
	b = appendInterval(b, salt, 0, &interval{since: 1, from: 1, to: 2, seq: 1, serial: 1, lease: maxLease + 1})
	c, err := parseBytes(b)
	if err != nil || len(c.intervals[0]) != 1 || c.intervals[0][0].lease != 0 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestEnds(t *testing.T) {
	inBubble(t, func(j *journalled) {
		j.commit(10, map[string]Progress{"pods": {Since: j.at(10), Confirmed: j.at(10)}, "secrets": {Since: j.at(10), Confirmed: j.at(10)}})
		j.commit(20, map[string]Progress{"pods": {Since: j.at(10), Confirmed: j.at(20)}, "secrets": {Since: j.at(10), Confirmed: j.at(20)}})
		j.file.End("secrets", Removed)
		synctest.Wait()
		j.want("pods, 10-20\nsecrets, 10-20 Removed")
		j.stop()
		j.want("pods, 10-20 Stopped\nsecrets, 10-20 Removed")
		<-time.After(10 * time.Second)
		j.open(Options{})
		j.pods(40, 10, 20, 0) // nothing is confirmed yet
		j.want("pods, 10-20 Stopped\nsecrets, 10-20 Removed")
		j.pods(50, 10, 50, 50)
		j.pods(60, 10, 60, 50)
		j.want("pods, 10-20 Stopped, 20-50 late CaughtUp, 50-60\nsecrets, 10-20 Removed")
		j.kill()
		j.open(Options{})
		j.want("pods, 10-20 Stopped, 20-50 late CaughtUp, 50-60 Unknown\nsecrets, 10-20 Removed")
		j.lost(70, "Expired") // the history was lost meanwhile
		j.pods(80, 80, 85, 0)
		j.want("pods, 10-20 Stopped, 20-50 late CaughtUp, 50-60 Expired(0), 80-85\nsecrets, 10-20 Removed")
		// A GAP that turns out to be none.
		j.lost(86, "Expired")
		j.pods(90, 80, 90, 0)
		j.want("pods, 10-20 Stopped, 20-50 late CaughtUp, 50-60 Expired(0), 80-90\nsecrets, 10-20 Removed")
		// The clock goes back.
		j.pods(91, 80, 87, 0)
		j.want("pods, 10-20 Stopped, 20-50 late CaughtUp, 50-60 Expired(0), 80-87\nsecrets, 10-20 Removed")
	})
}

// A list that was complete when the daemon was killed or stopped, before anything was confirmed, is where the next one continues.
func TestNothingConfirmed(t *testing.T) {
	for reason, stop := range map[string]func(*journalled){Unknown: (*journalled).kill, Stopped: (*journalled).stop} {
		inBubble(t, func(j *journalled) {
			j.pods(11, 11, 11, 0)
			stop(j)
			j.open(Options{})
			j.want("pods, 11-11 " + reason)
			j.pods(40, 11, 40, 0)
			j.want("pods, 11-40 late")
			j.pods(50, 11, 50, 0)
			j.want("pods, 11-40 late CaughtUp, 40-50")
		})
	}
}

// A GAP can follow another one before the stream was confirmed: a list was complete in between.
func TestGapsInSuccession(t *testing.T) {
	for _, killed := range []bool{false, true} {
		inBubble(t, func(j *journalled) {
			j.pods(11, 11, 11, 0)
			j.pods(20, 11, 20, 0)
			j.lost(25, "Expired")
			j.pods(33, 33, 33, 0)
			j.want("pods, 11-20 Expired(3), 33-33")
			if killed {
				j.kill()
				j.open(Options{})
				j.want("pods, 11-20 Expired(3), 33-33 Unknown")
			}
			j.lost(40, "Expired")
			j.pods(50, 50, 50, 0)
			j.want("pods, 11-20 Expired(3), 33-33 Expired(0), 50-50")
			j.pods(60, 50, 60, 0)
			j.want("pods, 11-20 Expired(3), 33-33 Expired(0), 50-60")
			j.lost(65, "Expired")
			j.pods(70, 70, 70, 0)
			j.lost(75, "Expired")
			j.pods(80, 80, 85, 0)
			j.want("pods, 11-20 Expired(3), 33-33 Expired(0), 50-60 Expired(0), 70-70 Expired(0), 80-85")
		})
	}
}

// A GAP and its SYNCED that this file has not heard of, since it could not be written, are between what it knows and what
// follows; and what it never knew begins with the first confirmation that it hears.
func TestMissedGap(t *testing.T) {
	inBubble(t, func(j *journalled) {
		j.pods(10, 10, 20, 0)
		j.kill()
		<-time.After(60 * time.Second)
		j.open(Options{})
		j.pods(80, 50, 55, 0) // before this process, which cannot know since when
		j.want("pods, 10-20 Unknown")
		j.pods(90, 50, 90, 90)
		j.pods(95, 50, 95, 90)
		j.want("pods, 10-20 Unknown, 90-95")
	})
}

// Where lines went elsewhere meanwhile, no interval continues.
func TestElsewhere(t *testing.T) {
	inBubble(t, func(j *journalled) {
		j.pods(10, 10, 20, 0)
		j.stop()
		<-time.After(20 * time.Second)
		j.open(Options{Elsewhere: true})
		j.pods(50, 10, 50, 50)
		j.pods(60, 10, 60, 50)
		j.want("pods, 10-20 Stopped, 50-60")
	})
}

func TestSegments(t *testing.T) {
	const old = "journal-2026-11-20T16-10-22.123.jsonl"
	build := func(j *journalled) {
		j.pods(10, 10, 20, 0)
		j.pods(30, 10, 30, 0)
		j.rotate(old)
		j.pods(40, 10, 39, 0)
		j.pods(50, 10, 50, 0)
		j.rotate("journal.jsonl.1") // as logrotate does
		j.pods(60, 10, 60, 0)
		j.pods(70, 10, 70, 0)
		j.want("pods, 10-70")
	}
	for name, c := range map[string]struct {
		change func(j *journalled)
		want   string // of a reader
		opened string // of the next start, where that is different
	}{
		"first is gone":  {func(j *journalled) { j.remove(old) }, "pods, 40-70", "pods, 40-70 Unknown"},
		"middle is gone": {func(j *journalled) { j.remove("journal.jsonl.1") }, "pods, 10-30 Lost, 60-70", "pods, 10-30 Lost, 60-70 Unknown"},
		"active is gone": {func(j *journalled) { j.remove("journal.jsonl") }, "pods, 10-50 Lost", "pods, 10-50 Unknown"},
		"all are gone": {func(j *journalled) {
			j.remove(old)
			j.remove("journal.jsonl.1")
			j.remove("journal.jsonl")
		}, "", ""},
		"another journal":  {func(j *journalled) { j.replace(old) }, "pods, 40-70", "pods, 40-70 Unknown"},
		"lines are gone":   {func(j *journalled) { j.truncate("journal.jsonl", 1) }, "pods, 10-50 Lost", "pods, 10-50 Unknown"},
		"more lines gone":  {func(j *journalled) { j.remove("journal.jsonl"); j.truncate("journal.jsonl.1", 1) }, "pods, 10-30 Lost", "pods, 10-30 Unknown"},
		"active truncated": {func(j *journalled) { j.truncate("journal.jsonl", 0) }, "pods, 10-50 Lost", "pods, 10-50 Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(j *journalled) {
				build(j)
				c.change(j)
				j.want(c.want)
				j.kill()
				j.open(Options{})
				j.want(c.opened)
				if t.Failed() {
					return
				}
				// It never comes back, whatever the journal then has.
				j.stop()
				j.seq = 100
				if _, err := os.Stat(j.path); err == nil {
					j.rotate("journal.jsonl.0")
				}
				j.first = 0
				j.open(Options{})
				j.pods(80, 10, 80, 80)
				for _, part := range strings.Split(c.opened, ", ") {
					from, to := 0.0, 0.0
					if n, _ := fmt.Sscanf(part, "%f-%f", &from, &to); n == 2 && !strings.Contains(j.shown(), fmt.Sprintf("%v-%v", from, to)) {
						t.Errorf("%s is in %s no more", part, j.shown())
					}
				}
			})
		})
	}
}

func (j *journalled) remove(name string) {
	j.t.Helper()
	if err := os.Remove(filepath.Join(filepath.Dir(j.path), name)); err != nil {
		j.t.Fatal(err)
	}
}

// replace puts lines with the same seqs in the place of a file's.
func (j *journalled) replace(name string) {
	j.t.Helper()
	path := filepath.Join(filepath.Dir(j.path), name)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.ReplaceAll(string(b), `:00:0`, `:00:5`)), 0o640)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// truncate leaves the first lines of a file.
func (j *journalled) truncate(name string, lines int) {
	j.t.Helper()
	path := filepath.Join(filepath.Dir(j.path), name)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Join(strings.SplitAfter(string(b), "\n")[:lines], "")), 0o640)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// Committed lines that are missing in the middle of the last file: nothing in it counts.
func TestHole(t *testing.T) {
	inBubble(t, func(j *journalled) {
		j.pods(10, 10, 20, 0)
		j.pods(30, 10, 30, 0)
		j.rotate("journal.jsonl.1")
		j.pods(40, 10, 40, 0)
		j.pods(50, 10, 50, 0)
		j.stop()
		j.open(Options{Hole: true})
		j.want("pods, 10-30 Unknown")
	})
}

// A file grows with streams and intervals, is made again, and loses nothing but what retention has removed.
func TestGrows(t *testing.T) {
	inBubble(t, func(j *journalled) {
		names := make(map[string]bool)
		for n := range 3 * firstSlots {
			name := fmt.Sprintf("stream-%d?labelSelector=%s", n, strings.Repeat("x", n))
			names[name] = true
			j.file.Committed(1, 1, maps.All(map[string]Progress{name: {Since: j.at(0), Confirmed: j.at(10)}}))
			if n%50 == 0 {
				synctest.Wait()
			}
		}
		const turns = 5000
		for n := range int64(turns) {
			j.file.Committed(1, 1, maps.All(map[string]Progress{"pods": {Since: j.at(20 * n), Confirmed: j.at(20*n + 10)}}))
			if n%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		all, err := Read(j.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Name == "pods" && len(s.Intervals) != turns {
				t.Errorf("%d intervals of %d", len(s.Intervals), turns)
			}
			delete(names, s.Name)
		}
		if len(names) > 0 || len(all) != 3*firstSlots+1 {
			t.Errorf("%d streams, missing: %v", len(all), slices.Collect(maps.Keys(names)))
		}
		if info, err := os.Stat(Path(j.path)); err != nil || info.Size() > 2*turns*recordSize {
			t.Errorf("%d bytes, %v", info.Size(), err)
		}
		// The journal's file goes, and everything with it.
		j.rotate("journal.jsonl.1")
		j.seq = 2
		j.append(1)
		j.stop()
		j.remove("journal.jsonl.1")
		j.open(Options{})
		j.want("")
		if info, err := os.Stat(Path(j.path)); err != nil || info.Size() > tableStart+2*firstSlots*recordSize {
			t.Errorf("%d bytes, %v", info.Size(), err)
		}
	})
}

// A file of another kind, or of a later version, stays as it is.
func TestForeign(t *testing.T) {
	later := appendSum(append(append([]byte(magic), 2, 0, 0, 0), make([]byte, sumAt-20)...), 0)
	for text, want := range map[string]error{"something else\n": ErrForeign, string(later): ErrNewer} {
		inBubble(t, func(j *journalled) {
			j.stop()
			if err := os.WriteFile(Path(j.path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(j.path); !errors.Is(err, want) {
				t.Errorf("Read: %v", err)
			}
			if _, err := Open(j.path, Options{}); !errors.Is(err, want) {
				t.Errorf("Open: %v", err)
			}
			if b, err := os.ReadFile(Path(j.path)); err != nil || string(b) != text {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// The clock is set back, and then the history is lost. What was confirmed is in the future of the new clock.
func TestClockSetBack(t *testing.T) {
	inBubble(t, func(j *journalled) {
		j.pods(11, 11, 11, 0)
		j.pods(20, 11, 3600, 0)
		j.want("pods, 11-3600")
		j.commit(30, map[string]Progress{"pods": {Since: j.at(11), Confirmed: j.at(25), Lost: "Expired"}})
		j.want("pods, 11-25 Expired")
		j.pods(40, 40, 33, 0) // asked for at 33, complete at 40
		j.pods(50, 40, 50, 0)
		j.want("pods, 11-25 Expired(0), 40-50")
		j.pods(60, 40, 3600, 0)
		j.kill()
		j.open(Options{})
		j.lost(70, "Expired")
		j.want("pods, 11-25 Expired(0), 40-70 Expired")
	})
}
