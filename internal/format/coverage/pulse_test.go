package coverage

import (
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// pulse notes in the file that nothing came up to a second, which something that was read confirms up to another one.
func (j *journalled) pulse(second, since, read int64) {
	j.t.Helper()
	<-time.After(time.Until(j.began.Add(time.Duration(second) * time.Second)))
	p := Progress{Since: j.at(since), Confirmed: j.at(read), Pulse: j.at(second)}
	j.file.Committed(j.seq, j.first, maps.All(map[string]Progress{"pods": p}))
	synctest.Wait()
}

// stalled commits a line that came late, and may be older than pulses.
func (j *journalled) stalled(second, since int64) {
	j.t.Helper()
	j.made(second, since, math.MinInt32)
}

// made is stalled for a line whose change was not made before a second.
func (j *journalled) made(second, since, from int64) {
	j.t.Helper()
	j.commit(second, map[string]Progress{"pods": {
		Since: j.at(since), Confirmed: j.at(second), Late: j.at(second), Missed: j.at(second), MissedFrom: j.at(from),
	}})
}

// dated commits the line of a change that was made at a second and came later, with others that are still to come.
func (j *journalled) dated(second, since, made int64) {
	j.t.Helper()
	j.commit(second, map[string]Progress{"pods": {
		Since: j.at(since), Confirmed: j.at(20), Missed: j.at(second), MissedFrom: j.at(made), Read: j.at(made),
	}})
}

// quiet is a pulse after the line of a change that was made at a second; what had waited with it came late.
func (j *journalled) quiet(second, since, made int64) {
	j.t.Helper()
	<-time.After(time.Until(j.began.Add(time.Duration(second) * time.Second)))
	p := Progress{Since: j.at(since), Confirmed: j.at(20), Pulse: j.at(second), Read: j.at(made)}
	j.file.Committed(j.seq, j.first, maps.All(map[string]Progress{"pods": p}))
	synctest.Wait()
}

// restart ends the process, and begins another one in which pulses come at a second and four seconds later.
func (j *journalled) restart(end func(*journalled), second int64) {
	j.t.Helper()
	end(j)
	<-time.After(time.Until(j.began.Add(time.Duration(second) * time.Second)))
	j.open(Options{})
	j.pulse(second, 10, 20)
	j.pulse(second+4, 10, 20)
}

// follows notes what a standby has committed at a second.
func (j *journalled) follows(second int64, p Progress) {
	j.t.Helper()
	<-time.After(time.Until(j.began.Add(time.Duration(second) * time.Second)))
	j.file.End("pods", HandedOver)
	j.file.Followed(maps.All(map[string]Progress{"pods": p}))
	synctest.Wait()
}

// What a pulse confirms is believed, also by the next process, until a late line takes it back.
func TestPulse(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(*journalled)
		want    string
	}{
		"believed": {func(j *journalled) {
			j.pulse(24, 10, 20)
			j.pulse(28, 10, 20)
		}, "pods, 10-28"},
		"a kill": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
		}, "pods, 10-28 Unknown"},
		"a line": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.pods(29, 10, 29, 0)
		}, "pods, 10-29"},
		"taken back": {func(j *journalled) {
			j.pulse(24, 10, 20)
			j.pulse(28, 10, 20)
			j.stalled(30, 10)
			j.pods(40, 10, 40, 30)
		}, "pods, 10-20 Interrupted, 20-30 late CaughtUp, 30-40"},
		"taken back after a rotation": {func(j *journalled) {
			j.pulse(24, 10, 20)
			j.rotate("journal.jsonl.1")
			j.append(1)
			j.pulse(28, 10, 20)
			j.stalled(30, 10)
		}, "pods, 10-20 Interrupted, 20-30 late"},
		"taken back after a kill": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.stalled(30, 10)
		}, "pods, 10-20 Unknown, 20-30 late"},
		"a start": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.pulse(40, 10, 20)
			j.pulse(44, 10, 20)
		}, "pods, 10-28 Unknown, 28-40 late CaughtUp, 40-44"},
		"a start, then a line": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.pulse(40, 10, 20)
			j.pods(50, 10, 50, 0)
		}, "pods, 10-28 Unknown, 28-40 late CaughtUp, 40-50"},
		// The first line of a process shows by its time up to when the pulses before were right.
		"a kill, then a change": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.made(40, 10, 29)
			j.pods(50, 10, 50, 40)
		}, "pods, 10-28 Unknown, 28-40 late CaughtUp, 40-50"},
		"a stop, then a change": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.stop()
			j.open(Options{})
			j.made(40, 10, 28)
		}, "pods, 10-28 Stopped, 28-40 late"},
		"a stop, then a change that was made before": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.stop()
			j.open(Options{})
			j.made(40, 10, 24)
		}, "pods, 10-24 Stopped, 24-40 late"},
		"a change that was made before, in the same process": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.made(40, 10, 24)
			j.pods(50, 10, 50, 40)
		}, "pods, 10-24 Interrupted, 24-40 late CaughtUp, 40-50"},
		"quiet runs, then a change": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.restart((*journalled).kill, 40)
			j.restart((*journalled).stop, 60)
			j.kill()
			j.open(Options{})
			j.made(80, 10, 70)
		}, "pods, 10-28 Unknown, 28-40 late CaughtUp, 40-44 Stopped, 44-60 late CaughtUp, 60-64 Unknown, 64-80 late"},
		"quiet runs, then a change that was made in an outage": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.restart((*journalled).kill, 40)
			j.restart((*journalled).stop, 60)
			j.kill()
			j.open(Options{})
			j.made(80, 10, 50)
		}, "pods, 10-28 Unknown, 28-40 late CaughtUp, 40-44 Stopped, 44-80 late"},
		"quiet runs, then a change that was made in the first of them": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.restart((*journalled).kill, 40)
			j.restart((*journalled).stop, 60)
			j.kill()
			j.open(Options{})
			j.made(80, 10, 26)
			j.kill()
			j.open(Options{})
			j.pulse(90, 10, 80)
		}, "pods, 10-26 Unknown, 26-90 late"},
		"quiet runs, then a change of any time": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.restart((*journalled).kill, 40)
			j.restart((*journalled).stop, 60)
			j.stalled(70, 10)
		}, "pods, 10-20 Unknown, 20-70 late"},
		"quiet runs, then a GAP": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.restart((*journalled).kill, 40)
			j.restart((*journalled).stop, 60)
			j.kill()
			j.open(Options{})
			j.lost(70, "Expired")
			j.pods(80, 80, 85, 0)
		}, "pods, 10-20 Expired(0), 80-85"},
		"a quiet run after a time that is confirmed, then a GAP": {func(j *journalled) {
			j.restart((*journalled).kill, 40)
			j.lost(70, "Expired")
			j.pods(80, 80, 85, 0)
		}, "pods, 10-20 Expired(0), 80-85"},
		"quiet runs, then no GAP": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.restart((*journalled).kill, 40)
			j.lost(70, "Expired")
			j.pods(80, 10, 80, 0)
		}, "pods, 10-20 Unknown, 20-80 late"},
		"quiet runs, then something that confirms them": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.restart((*journalled).kill, 40)
			j.pods(50, 10, 50, 0)
			j.pulse(54, 10, 50)
			j.stalled(60, 10)
		}, "pods, 10-28 Unknown, 28-40 late CaughtUp, 40-50 Interrupted, 50-60 late"},
		// What came after the first pulse did not come late.
		"a start, then a line after some pulses": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.pulse(40, 10, 20)
			j.pulse(44, 10, 20)
			j.pulse(48, 10, 20)
			j.pods(50, 10, 50, 0)
		}, "pods, 10-28 Unknown, 28-40 late CaughtUp, 40-50"},
		"caught up at once, then pulses": {func(j *journalled) {
			j.pods(30, 10, 30, 30)
			j.pulse(34, 10, 30)
			j.pulse(38, 10, 30)
		}, "pods, 10-20 Interrupted, 20-30 late CaughtUp, 30-38"},
		"caught up at once, then a wrong pulse": {func(j *journalled) {
			j.pods(30, 10, 30, 30)
			j.pulse(34, 10, 30)
			j.stalled(36, 10)
		}, "pods, 10-20 Interrupted, 20-36 late"},
		"not caught up, then a wrong pulse": {func(j *journalled) {
			j.kill()
			j.open(Options{})
			j.pulse(34, 10, 20)
			j.pulse(38, 10, 20)
			j.stalled(40, 10)
			j.pods(50, 10, 50, 40)
		}, "pods, 10-20 Unknown, 20-40 late CaughtUp, 40-50"},
		// A pulse counts whole seconds: the late interval ends no earlier than what it says was read by then.
		"caught up within a second, by a pulse": {func(j *journalled) {
			p := Progress{Since: j.at(10), Confirmed: j.at(30) + 3e8, Late: j.at(30) + 3e8}
			j.commit(31, map[string]Progress{"pods": p})
			p.Late = j.at(36)
			for _, second := range []int64{36, 40, 44} {
				<-time.After(time.Until(j.began.Add(time.Duration(second) * time.Second)))
				p.Pulse = j.at(second)
				j.file.Committed(j.seq, j.first, maps.All(map[string]Progress{"pods": p}))
				synctest.Wait()
			}
		}, "pods, 10-20 Interrupted, 20-36.3 late CaughtUp, 36.3-43.3"},
		// What had waited may be read after what shows that it was all.
		"late until after it was confirmed, then a pulse": {func(j *journalled) {
			j.commit(34, map[string]Progress{"pods": {Since: j.at(10), Confirmed: j.at(30), Late: j.at(34)}})
			for _, second := range []int64{37, 41, 45} {
				p := Progress{Since: j.at(10), Confirmed: j.at(30), Late: j.at(34), Pulse: j.at(second)}
				<-time.After(time.Until(j.began.Add(time.Duration(second) * time.Second)))
				j.file.Committed(j.seq, j.first, maps.All(map[string]Progress{"pods": p}))
				synctest.Wait()
			}
		}, "pods, 10-20 Interrupted, 20-37 late CaughtUp, 37-45"},
		"late until after it was confirmed, then read": {func(j *journalled) {
			j.commit(34, map[string]Progress{"pods": {Since: j.at(10), Confirmed: j.at(30), Late: j.at(34)}})
			j.commit(36, map[string]Progress{"pods": {Since: j.at(10), Confirmed: j.at(36), Late: j.at(34)}})
		}, "pods, 10-20 Interrupted, 20-34 late CaughtUp, 34-36"},
		"caught up within a second, by what is read": {func(j *journalled) {
			p := Progress{Since: j.at(10), Confirmed: j.at(20) + 3e8}
			j.commit(21, map[string]Progress{"pods": p})
			j.kill()
			j.open(Options{})
			p.Pulse = j.at(40)
			j.commit(40, map[string]Progress{"pods": p})
			j.pods(45, 10, 45, 0)
		}, "pods, 10-20.3 Unknown, 20.3-40 late CaughtUp, 40-45"},
		"read up to before the first pulse, then a GAP": {func(j *journalled) {
			j.kill()
			j.open(Options{})
			j.pulse(40, 10, 20)
			j.pods(41, 10, 35, 0)
			j.lost(43, "Expired")
		}, "pods, 10-20 Unknown, 20-35 late Expired"},
		// What was made before a change that was read has been read for good.
		"a change that was made before, then a GAP": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.dated(40, 10, 24)
			j.lost(50, "Expired")
		}, "pods, 10-24 Expired"},
		"a change that was made later, then a GAP": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.dated(40, 10, 34)
			j.quiet(44, 10, 34)
			j.quiet(48, 10, 34)
			j.kill()
			j.open(Options{})
			j.quiet(60, 10, 34)
			j.lost(70, "Expired")
			j.pods(80, 80, 85, 0)
		}, "pods, 10-28 Unknown, 28-34 late Expired(0), 80-85"},
		"a change that was made before, then one of any time": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.pulse(36, 10, 20)
			j.dated(40, 10, 24)
			j.quiet(44, 10, 24)
			j.kill()
			j.open(Options{})
			j.stalled(60, 10)
		}, "pods, 10-24 Interrupted, 24-60 late"},
		"a change that was made before, behind one of any time": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.pulse(36, 10, 20)
			p := Progress{Since: j.at(10), Confirmed: j.at(20), Missed: j.at(40), Read: j.at(24)}
			j.commit(40, map[string]Progress{"pods": p})
			j.quiet(44, 10, 24)
			j.quiet(48, 10, 24)
			j.lost(50, "Expired")
		}, "pods, 10-20 Interrupted, 20-24 late Expired"},
		// A list was complete at its SYNCED, whatever is taken back after it.
		"pulses after a list, between two GAPs": {func(j *journalled) {
			j.lost(25, "Expired")
			j.pods(31, 31, 30, 0)
			j.pulse(35, 31, 30)
			j.pulse(39, 31, 30)
			j.lost(45, "PositionRefused")
			j.pods(53, 53, 54, 0)
		}, "pods, 10-20 Expired(1), 31-31 PositionRefused(3), 53-54"},
		"pulses after a list, over a start": {func(j *journalled) {
			j.lost(25, "Expired")
			j.pods(31, 31, 30, 0)
			j.pulse(35, 31, 30)
			j.kill()
			j.open(Options{})
			j.pulse(45, 31, 30)
			j.lost(50, "Expired")
			j.kill()
			j.open(Options{})
		}, "pods, 10-20 Expired(1), 31-31 Expired"},
		"pulses after a list whose segment is gone": {func(j *journalled) {
			j.lost(25, "Expired")
			j.pods(31, 31, 30, 0)
			j.rotate("journal.jsonl.1")
			j.append(1)
			j.pulse(35, 31, 30)
			j.lost(45, "Expired")
			j.pods(53, 53, 54, 0)
			j.remove("journal.jsonl.1")
		}, "pods, 53-54"},
		// The process was stopped, or the server: nobody looked, and the watch brought what had waited.
		"a silence, then a line": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.pods(48, 10, 48, 0)
			j.pulse(52, 10, 48)
			j.pods(56, 10, 56, 0)
		}, "pods, 10-28 Silent, 28-48 late CaughtUp, 48-56"},
		"a silence, then pulses": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.pulse(48, 10, 20)
			j.pulse(52, 10, 20)
			j.pods(56, 10, 56, 0)
		}, "pods, 10-28 Silent, 28-48 late CaughtUp, 48-56"},
		"a silence in which nothing was lost": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.lost(30, "Expired")
			j.pods(48, 10, 48, 0)
		}, "pods, 10-48"},
		"no silence": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.pods(36, 10, 36, 0)
			j.pulse(45, 10, 36)
		}, "pods, 10-45"},
		"a kill before it was told of a line that had waited": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.commit(48, map[string]Progress{"pods": {
				Since: j.at(10), Confirmed: j.at(48), Late: j.at(48), Missed: j.at(27), MissedFrom: j.at(25),
			}})
		}, "pods, 10-25 Unknown, 25-48 late"},
		"a kill after it was told": {func(j *journalled) {
			j.pods(27, 10, 27, 0)
			j.pulse(31, 10, 27)
			j.kill()
			j.open(Options{})
			j.commit(48, map[string]Progress{"pods": {
				Since: j.at(10), Confirmed: j.at(48), Late: j.at(48), Missed: j.at(26), MissedFrom: j.at(25),
			}})
		}, "pods, 10-31 Unknown, 31-48 late"},
		"a standby that misses nothing": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.follows(32, Progress{Confirmed: j.at(32)})
			j.follows(36, Progress{Confirmed: j.at(32), Missed: j.at(36)}) // not in its term
			j.follows(40, Progress{Lost: "Expired"})
		}, "pods, 10-28 HandedOver"},
		"a standby that reads what its watch had missed": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.follows(32, Progress{Confirmed: j.at(20), Pulse: j.at(32)})
			j.follows(36, Progress{Confirmed: j.at(36), Missed: j.at(36)})
		}, "pods, 10-20 HandedOver"},
		"a standby that was killed as the leader": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.kill()
			j.open(Options{})
			j.follows(36, Progress{Confirmed: j.at(36), Missed: j.at(36)})
			j.kill()
			j.open(Options{})
		}, "pods, 10-20 Unknown"},
		"a standby that reads what was made later": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.follows(36, Progress{Confirmed: j.at(20), Missed: j.at(36), MissedFrom: j.at(29)})
			j.follows(40, Progress{Confirmed: j.at(40), Missed: j.at(40), MissedFrom: j.at(29)})
		}, "pods, 10-28 HandedOver"},
		"a standby that does not read what was missed": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.follows(32, Progress{Lost: "Expired"})
			j.follows(36, Progress{Confirmed: j.at(36)})
		}, "pods, 10-20 HandedOver"},
		"another list": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.pods(30, 29, 30, 0)
		}, "pods, 10-20 Unknown, 29-30"},
		"a GAP": {func(j *journalled) {
			j.pulse(28, 10, 20)
			j.lost(30, "Expired")
		}, "pods, 10-20 Expired"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(j *journalled) {
				j.commit(20, map[string]Progress{"pods": {Since: j.at(10), Confirmed: j.at(20)}})
				tt.happens(j)
				if got := j.shown(); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
		})
	}
}
