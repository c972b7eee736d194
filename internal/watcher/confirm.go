package watcher

import (
	"context"
	"time"

	"go.uber.org/zap"

	"kubejournal/internal/format/coverage"
	"kubejournal/internal/format/line"
)

// A position is confirmed at a time if it has all that the server did before. Events have no time of the server's, so a
// stream can only know when it has read all that was sent to it:
//
//   - A read that had to wait shows that nothing else had come. That is so for nearly every read; not where events come
//     faster than they are written, nor where the output has held up the stream while the server went on.
//   - Before a watch the server is asked for its version. Once the position has reached that, it has all that was
//     before the question. So a stream that resumes, and never has to wait, is known to have caught up; and one is
//     confirmed at once if nothing has happened. It is asked again where no read has confirmed the position for a
//     while.
//
// What the server has not yet sent, mostly for some milliseconds, cannot be known, and is before the next position. If
// a watch stalls for long while its connection stays open, the lines after it are late without being marked.

const (
	// quiet is how long a read must take to show that it had to wait. Behind a pause the server may have held events
	// back for want of space in between, and sends them in pieces: then it is quietBehind.
	quiet       = time.Millisecond
	quietBehind = 250 * time.Millisecond
	// pausedAfter is how long a stream may be away from its watch before that counts as a pause.
	pausedAfter = 100 * time.Millisecond
	// lateAfter is how long events may have waited for the stream before their lines count as late.
	lateAfter = coverage.LateAfter
	// askAfter is how long the position of a stream that reads may be unconfirmed before the server is asked for its
	// version, askEvery how long it is between two questions, and askTime how long one may take.
	askAfter = 2 * time.Second
	askEvery = 3 * time.Second
	askTime  = time.Second
)

// pace is how closely a stream follows the server.
type pace struct {
	goal    string    // the server's version when it was asked; "" once the position has reached it, and after a list
	asked   time.Time // for goal
	read    time.Time // when the last read returned
	behind  bool      // there may be more to read than a short wait shows
	resumed time.Time // when the last pause ended; until something is read after it, behind may be set
	current time.Time // when the stream was last known to have read everything; zero is unknown
	pulsed  time.Time // the same by a pulse, which may be wrong: a watch may stall while the server answers
	late    bool      // what it reads may have waited for longer than lateAfter
	lateTo  time.Time // when the last of that was read: until then the journal lacked what had waited
	noted   time.Time // current, as the state has it; zero is that of an earlier process

	orderly bool // the watch before has ended in good order, so that it has brought everything
	resumes bool // it has not, and nothing shows yet that this one has brought what was missing
	unread  bool // that may have waited for longer than lateAfter, if pulses were wrong

	made time.Time // no change of the watch that is still to be read was made before; zero is unknown
}

// known is when the stream was last known to have read everything, if pulses are right.
func (p *pace) known() time.Time {
	if p.pulsed.After(p.current) {
		return p.pulsed
	}
	return p.current
}

// caughtUp notes that nothing is left to read of what had come by a time that is known next: what was read since the
// last one may have waited since then, by pauses that are short each, too.
func (p *pace) caughtUp() { p.late = p.late || p.read.Sub(p.known()) > lateAfter }

// began notes that a watch begins.
func (p *pace) began() {
	p.read, p.behind = time.Now(), true
	p.late = p.late || p.read.Sub(p.known()) > lateAfter
	p.resumes, p.orderly = !p.orderly, false
	p.unread, p.made = p.read.Sub(p.current) > lateAfter, time.Time{}
}

// synced notes that the stream starts over, with a complete list that was asked for then; zero is in an earlier
// process. What came since is still to be read.
func (p *pace) synced(asked time.Time) { *p = pace{current: asked, noted: asked} }

// waited notes a read that took from asked until returned, and reports whether it had to wait.
func (p *pace) waited(asked, returned time.Time) bool {
	paused := asked.Sub(p.read)
	if paused > pausedAfter {
		p.behind, p.resumed = true, asked
	}
	p.late = p.late || paused > lateAfter
	need := quiet
	if p.behind {
		need = quietBehind
	}
	waited := returned.Sub(asked) >= need
	if waited {
		p.caughtUp()
	}
	if p.read = returned; !waited {
		return false
	}
	p.behind, p.resumes, p.goal, p.current = false, false, "", returned
	return true
}

// brought notes an event, and when the server says that its change was made; zero is unknown. It reports whether pulses
// may have been wrong, which said before that there was nothing to read: the watch had stalled, or had not brought
// everything when it broke; those of an earlier process, too. A watch brings changes in the order in which they were
// made. So pulses are right up to from, the time of this change or of one before it in the same watch; where that is
// zero, any may be wrong.
func (p *pace) brought(received, written time.Time) (from time.Time, missed bool) {
	stalled := !written.IsZero() && received.Sub(written) > lateAfter && written.Before(p.pulsed)
	p.late = p.late || stalled || p.resumes && p.unread
	if from = written; from.IsZero() {
		from = p.made
	}
	p.made = from
	return from, stalled || p.resumes
}

// reached notes that the position is at rv, and reports whether that is what the server was at when it was asked.
func (p *pace) reached(rv string) bool {
	if p.goal == "" || rv != p.goal && !line.Later(rv, p.goal) {
		return false
	}
	p.caughtUp()
	p.late = p.late || p.asked.Sub(p.known()) > lateAfter // of a watch that is to begin again
	p.behind = p.behind && p.resumed.After(p.asked)
	p.goal, p.current = "", p.asked
	return true
}

// asks reports whether the server is to be asked for its version, since events come too fast for a read to wait.
func (p *pace) asks(now time.Time) bool {
	return p.goal == "" && now.Sub(p.current) > askAfter && now.Sub(p.asked) > askEvery
}

// ask asks the server for its version, which is the next goal. Without an answer the position stays unconfirmed.
func (s *Stream) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s.pace.asked = time.Now()
	goal, err := s.client.Version(ctx, s.spec.Target)
	if err != nil {
		s.log.Debug("cannot ask for the server's version, the position stays unconfirmed", zap.Error(err))
		return
	}
	s.pace.goal = goal
}

// ended notes that the server has ended the watch in good order, with nothing left to send.
func (p *pace) ended() {
	p.orderly = true
	if !p.behind {
		p.caughtUp()
		p.current = time.Now()
	}
}

// confirm notes in the state what the stream has read, up to its position.
func (s *Stream) confirm() {
	p, now := &s.pace, time.Now()
	if p.late {
		p.lateTo = now
	}
	late := p.lateTo
	if !late.IsZero() {
		late = now.Add(late.Sub(now)) // by the clock as it is now, which may have been set back
	}
	s.state.Confirm(p.current, late)
	p.noted, p.late = p.current, now.Sub(p.current) > lateAfter // a slow answer: what is read next, too
}

// waits notes since when the stream waits for a watch; zero says that it does not.
func (s *Stream) waits(since time.Time) {
	s.idleMu.Lock()
	defer s.idleMu.Unlock()
	s.idle = since
}

// Pulse notes that the server was well at a time, and would have been heard until now. A stream that has waited for its
// watch since then is confirmed up to that time, in the coverage only: if the watch has stalled in spite of that, the
// next event takes it back, see pace.brought. Safe for concurrent use with Run.
func (s *Stream) Pulse(well time.Time) {
	s.idleMu.Lock()
	defer s.idleMu.Unlock()
	if s.idle.IsZero() || s.idle.After(well) || time.Since(well) < quietBehind || !s.state.InStep() {
		return
	}
	p := &s.pace
	p.caughtUp()
	p.pulsed, p.resumes = well, false
	if s.state.Pulse = well.UnixNano(); p.late {
		p.late, p.lateTo, s.state.Late = false, well, s.state.Pulse
	}
	s.rec.Pulse(s.producer, s.state.Coverage)
}

// lastConfirmed is when the position was confirmed, by the clock as it is now: where that was set back since, the time
// that was noted would also claim what came after. 0 is unknown.
func (s *Stream) lastConfirmed(now time.Time) int64 {
	noted := s.state.Confirmed
	if !s.pace.noted.IsZero() {
		noted = min(noted, now.Add(-now.Sub(s.pace.noted)).UnixNano())
	}
	if noted > now.UnixNano() {
		return 0
	}
	return noted
}
