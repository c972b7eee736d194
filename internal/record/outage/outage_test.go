package outage

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// rig is a tracker of streams a, b, c ... in a bubble, with its log.
type rig struct {
	*Tracker
	t       *testing.T
	log     *observer.ObservedLogs
	streams []string
}

func bubble(t *testing.T, streams int, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zap.InfoLevel)
		r := &rig{Tracker: New(zap.New(core)), t: t, log: log}
		for i := range streams {
			r.streams = append(r.streams, string(rune('a'+i)))
			r.Join(r.streams[i])
		}
		test(r)
		r.Close()
	})
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of a synctest bubble
	synctest.Wait()
}

func refused(stream string) Failure {
	return Failure{Stream: stream, Reason: "ConnectionRefused",
		Err: fmt.Errorf("watch: %w", &url.Error{Op: "Get", URL: "https://server/" + stream, Err: fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED)})}
}

func unavailable(stream string) Failure {
	return Failure{Stream: stream, Reason: "ServerError", Answered: true, Err: errors.New("503 for " + stream)}
}

// fail has streams fail.
func (r *rig) fail(failure func(string) Failure, streams ...string) {
	for _, s := range streams {
		r.Failed(failure(s))
	}
}

func (r *rig) reach(streams ...string) {
	for _, s := range streams {
		r.Reached(s)
	}
}

// back has streams reach the server and be watched.
func (r *rig) back(streams ...string) {
	r.reach(streams...)
	for _, s := range streams {
		r.Watched(s)
	}
}

// logged checks what was logged since the last call, as message and fields.
func (r *rig) logged(want ...string) {
	r.t.Helper()
	var got []string
	for _, e := range r.log.TakeAll() {
		line := e.Message
		for _, f := range e.Context {
			line += fmt.Sprintf(" %s=%v", f.Key, e.ContextMap()[f.Key])
		}
		got = append(got, line)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const commonCause = "dial tcp: connection refused"

// However often streams fail in an outage, the log has one line at its begin and one at its end.
func TestOneLineEach(t *testing.T) {
	bubble(t, 22, func(r *rig) {
		began := time.Now()
		most := r.streams[:21]
		r.fail(refused, most...)
		r.logged()
		r.pass(settle)
		r.logged("API server unreachable streams=21 of=22 reason=ConnectionRefused error=" + commonCause)
		for range 3 {
			r.pass(4 * time.Second)
			r.fail(refused, most...)
		}
		if got, want := r.Now(), (Outage{Since: began, Streams: 21, Of: 22, Attempts: 84, Reason: "ConnectionRefused", Error: commonCause}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got, want := r.Now().Text(time.Now()), "API server unreachable for 14s: 21 of 22 streams: "+commonCause; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if !r.Explains("a") || r.Explains("v") || r.Explains("z") {
			t.Error("the outage does not explain what it should")
		}
		r.logged()
		r.reach("a")
		r.pass(5 * time.Second) // the others come back when their pauses are over
		r.logged()
		r.back(most...)
		if got := r.Now(); got != (Outage{}) || r.Explains("a") {
			t.Errorf("over, and %+v", got)
		}
		r.pass(settle)
		r.logged("API server reachable again after=14s streams=21 attempts=84 listedAgain=0 watchedAfter=19s")
	})
}

// A server that comes back and refuses the daemon is told, once all streams have seen it; and so is one that is gone then.
func TestTurns(t *testing.T) {
	bubble(t, 2, func(r *rig) {
		forbidden := func(stream string) Failure {
			return Failure{Stream: stream, Reason: "Unauthorized", Answered: true, Refused: true, Err: errors.New("401")}
		}
		r.fail(refused, "a", "b")
		r.pass(settle)
		r.logged("API server unreachable streams=2 of=2 reason=ConnectionRefused error=" + commonCause)
		r.fail(forbidden, "a")
		r.logged()
		r.fail(forbidden, "b", "a")
		r.logged("API server refuses this daemon streams=2 of=2 reason=Unauthorized error=401")
		r.fail(refused, "b", "a", "b")
		r.logged("API server unreachable streams=2 of=2 reason=ConnectionRefused error=" + commonCause)
		r.fail(forbidden, "a", "b")
		r.logged("API server refuses this daemon streams=2 of=2 reason=Unauthorized error=401")
		r.pass(settle)
		r.back("a", "b")
		r.pass(settle)
		r.logged("API server accepts this daemon again after=4s streams=2 attempts=10 listedAgain=0 watchedAfter=4s")
	})
}

// A stream that fails alone is logged each time it does.
func TestAlone(t *testing.T) {
	bubble(t, 3, func(r *rig) {
		line := `watch ended, trying again stream=b reason=ConnectionRefused error=watch: Get "https://server/b": dial tcp: connection refused`
		for range 3 {
			r.fail(refused, "b")
			r.pass(settle)
			r.logged(line)
		}
		r.fail(refused, "b")
		r.Close()
		r.logged(line)
		r.fail(refused, "b")
		r.pass(time.Minute)
		r.logged()
	})
}

// A 503 is the server's only where no stream fares better: an aggregated API answers one too.
func TestAnsweredByAnother(t *testing.T) {
	bubble(t, 3, func(r *rig) {
		r.fail(unavailable, "a", "b")
		r.pass(settle)
		r.logged("watch ended, trying again streams=2 names=[a b] reason=ServerError error=503 for a")
		r.fail(unavailable, "a", "b", "c")
		r.pass(settle)
		r.logged("API server unreachable streams=3 of=3 reason=ServerError error=503 for c")
		r.back("b") // the others fail for reasons of their own
		r.pass(lasting)
		r.logged("API server reachable again after=4s streams=3 attempts=5 listedAgain=0 notWatched=2 names=[a c]")
		r.fail(unavailable, "a")
		r.pass(settle)
		r.logged("watch ended, trying again stream=a reason=ServerError error=503 for a")
	})
}

// lose has streams lose their positions, list and be watched again.
func (r *rig) lose(streams ...string) {
	for _, s := range streams {
		r.Lost(s, "Expired", errors.New("too old: "+s))
		r.Note(s, zap.WarnLevel, "history was lost", "Expired", nil, zap.String("from", s))
	}
	r.pass(time.Second)
	for _, s := range streams {
		r.Note(s, zap.InfoLevel, "synced", "Expired", nil)
		r.Watched(s)
	}
}

// A server that is restarted leaves one line when it is lost and one when all streams are watched again, also where it is
// back at once, and where it has lost its history. What comes later is not its doing.
func TestRestart(t *testing.T) {
	for _, down := range []time.Duration{time.Second, 10 * time.Second} {
		bubble(t, 12, func(r *rig) {
			r.back(r.streams...)
			r.fail(refused, r.streams...)
			r.fail(unavailable, "l")
			r.pass(down)
			r.back(r.streams...)
			r.lose(r.streams[:11]...)
			r.pass(settle)
			listed := down + time.Second
			r.logged("API server unreachable streams=12 of=12 reason=ConnectionRefused error="+commonCause,
				fmt.Sprintf("API server reachable again after=%s streams=12 attempts=13 listedAgain=11 gaps=[Expired] watchedAfter=%s",
					down, listed))
			r.lose("b")
			r.pass(settle)
			r.logged("position is no longer valid, listing again stream=b reason=Expired error=too old: b",
				"history was lost stream=b reason=Expired from=b", "synced stream=b reason=Expired")
		})
	}
}

// Streams that say the same together have one line; what differs is said of each at debug level.
func TestSameLines(t *testing.T) {
	bubble(t, 12, func(r *rig) {
		r.back(r.streams...)
		r.lose(r.streams[:3]...)
		r.pass(settle)
		r.logged("position is no longer valid, listing again streams=3 names=[a b c] reason=Expired error=too old: a",
			"history was lost streams=3 names=[a b c] reason=Expired", "synced streams=3 names=[a b c] reason=Expired")
	})
}

// Where the probes fail and the watches are open, the server hangs or refuses this daemon: that is an outage from the
// second failure on, until a probe gets its answer.
func TestProbes(t *testing.T) {
	forbidden := func(context string) *Failure {
		return &Failure{Reason: "Forbidden", Answered: true, Refused: true, Err: errors.New(context)}
	}
	bubble(t, 3, func(r *rig) {
		r.back(r.streams...)
		r.Probed(forbidden("once"))
		r.Probed(nil)
		r.Probed(forbidden("first"))
		r.pass(settle)
		r.logged()
		r.Probed(forbidden("second"))
		r.logged("API server refuses this daemon streams=3 of=3 reason=Forbidden error=second")
		want := "API server refuses this daemon for 1m2s: 3 of 3 streams: third"
		r.Probed(forbidden("third"))
		if err := r.Unready(r.Now()); err != nil {
			t.Errorf("at once: %v", err)
		}
		r.pass(lasting)
		if err := r.Unready(r.Now()); err == nil || err.Error() != want || !r.Now().Refused {
			t.Errorf("after a minute: %v", err)
		}
		r.Leave("a", true) // it is pending
		r.Leave("b", true)
		r.Leave("c", true)
		r.logged()
		r.Probed(nil)
		for _, s := range r.streams {
			r.Join(s)
		}
		r.logged()
		r.back(r.streams...)
		r.pass(settle)
		r.logged("API server accepts this daemon again after=1m2s streams=3 attempts=3 listedAgain=0 watchedAfter=1m2s")
	})
}

// Readiness ends with an outage that lasts, and does not come and go with a server that does.
func TestReadiness(t *testing.T) {
	bubble(t, 2, func(r *rig) {
		ready := func(want bool) {
			t.Helper()
			if err := r.Unready(r.Now()); (err == nil) != want {
				t.Errorf("ready: %v, want %t", err, want)
			}
		}
		r.fail(refused, "a", "b")
		r.pass(lasting - time.Second)
		ready(true)
		r.reach("a", "b")
		ready(true) // that was no time
		r.pass(time.Second)
		r.fail(refused, "a", "b")
		r.pass(lasting)
		ready(false)
		if err := r.Unready(r.Now()); !strings.HasPrefix(err.Error(), "API server unreachable for 1m0s: 2 of 2 streams: ") {
			t.Error(err)
		}
		for range 5 { // back for a moment, again and again
			r.reach("a", "b")
			ready(false)
			r.pass(calm - settle - time.Second)
			ready(false)
			r.fail(refused, "a", "b")
			r.pass(settle)
			ready(false)
			r.pass(lasting / 2)
			ready(false)
		}
		r.reach("a", "b")
		r.pass(calm - time.Second)
		ready(false)
		r.pass(time.Second)
		ready(true)
	})
}

// Streams come and go during an outage.
func TestJoinAndLeave(t *testing.T) {
	bubble(t, 3, func(r *rig) {
		r.fail(refused, r.streams...)
		r.pass(settle)
		r.logged("API server unreachable streams=3 of=3 reason=ConnectionRefused error=" + commonCause)
		r.Join("d") // has not asked yet
		r.Leave("a", false)
		r.Leave("b", false)
		r.logged()
		r.Leave("c", false) // nobody is left who fails
		r.pass(settle)
		r.logged("API server reachable again after=2s streams=3 attempts=3 listedAgain=0")
		r.fail(refused, "d", "nobody")
		r.pass(settle)
		r.logged("API server unreachable streams=1 of=1 reason=ConnectionRefused error=" + commonCause)
		r.Leave("d", false) // it is started anew
		r.logged()
		r.Join("d")
		r.back("d")
		r.pass(settle)
		r.logged("API server reachable again after=2s streams=1 attempts=1 listedAgain=0 watchedAfter=2s")
	})
}

// The error shown is that of most streams.
func TestCommonError(t *testing.T) {
	bubble(t, 5, func(r *rig) {
		r.fail(refused, r.streams...)
		r.fail(func(s string) Failure { return Failure{Stream: s, Reason: "Timeout", Err: errors.New("too late")} }, "a", "e")
		r.pass(settle)
		if got := r.Now().Error; got != commonCause {
			t.Errorf("%q", got)
		}
	})
}
