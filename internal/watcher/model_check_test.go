package watcher_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"kubejournal/internal/config"
	"kubejournal/internal/format/coverage"
	"kubejournal/internal/record/streams"
	"kubejournal/internal/watcher"
	"kubejournal/test/invariant"
)

// finish lets everything heal and looks at all that must hold.
func (m *model) finish(r *rand.Rand) {
	m.settle()
	for n := 0; m.replicas != nil && n < 100 && listOpen(m.merged()); n++ {
		// That a list of a term that is over is void shows with the next line of its stream.
		m.write(r)
		m.settle()
	}
	var err error
	m.each(func() {
		m.covered()
		lines := m.whole()
		whole, unread := invariant.ReadJournal(m.journal())
		if unread == nil && len(whole) != len(lines) {
			unread = fmt.Errorf("%d lines as a reader finds the files, %d as they were written", len(whole), len(lines))
		}
		err = errors.Join(err, unread, invariant.Sequence(lines, 1), invariant.Shape(lines))
	})
	if m.replicas == nil {
		m.wellCovered()
	}
	lines := m.merged()
	if m.replicas != nil {
		err = errors.Join(err, m.judgeReplicas(lines))
	}
	err = errors.Join(err, invariant.Objects(lines), invariant.Streams(lines, m.interrupted), m.requests())
	byStream := perStream(lines)
	for _, of := range byStream {
		// Two streams of the same object tell of the same event.
		err = errors.Join(err, invariant.Unique(of))
		if m.changes {
			err = errors.Join(err, invariant.Changes(of))
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
	modelTally.starts.Add(uint64(len(m.starts)))
	modelTally.writes.Add(uint64(len(m.noted)))
	modelTally.lines.Add(uint64(len(lines)))
	m.ask(r)
	if m.replicas == nil && r.IntN(4) == 0 {
		m.restart()
	}
}

// judgeReplicas checks what the daemons have written each, what a reader without a merge makes of it, and beside that
// what a merge does.
func (m *model) judgeReplicas(merged []invariant.Line) error {
	r := m.journals()
	err := errors.Join(r.Check(), r.Acknowledged(m.noted), r.Kept(merged), r.Source(merged), invariant.Sequence(merged, 1))
	byStream := perStream(r.Follow())
	for _, s := range m.streams {
		told, unread := invariant.Replay(byStream[s.name])
		if differ := invariant.Compare(told, m.expect(s)); differ != nil {
			err = errors.Join(err, fmt.Errorf("stream %s without a merge: %w", s.name, differ))
		}
		err = errors.Join(err, unread)
	}
	return err
}

// listOpen reports whether a GAP has no SYNCED after it.
func listOpen(lines []invariant.Line) bool {
	open := make(map[string]bool)
	for _, l := range lines {
		switch l.Type {
		case invariant.Gap:
			open[l.Stream] = true
		case invariant.Synced:
			delete(open, l.Stream)
		}
	}
	return len(open) > 0
}

// wellCovered checks that what is well is claimed: an interval of each stream continues.
func (m *model) wellCovered() {
	m.t.Helper()
	for range 2 { // the first may find that history is lost
		m.srv.EndWatches() // nothing happens any more that would confirm a position
		m.pass(time.Minute)
	}
	all, err := coverage.Read(m.journal())
	must(m.t, err)
	for _, s := range m.life.manager.Streams() {
		ok := slices.ContainsFunc(all, func(c coverage.Stream) bool {
			return c.Name == s.Name && c.Intervals[len(c.Intervals)-1].End == ""
		})
		if s.Position == fmt.Sprint(m.srv.Version()) && !ok {
			m.t.Errorf("%s is not covered: %+v", s.Name, all)
		}
	}
}

// covered checks that the coverage file claims nothing that the journal does not have.
func (m *model) covered() {
	m.t.Helper()
	if m.restored && m.replicas != nil {
		return // the GAP that says so is in one of the journals
	}
	all, err := coverage.Read(m.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return // nothing was started, or it could not be made yet
	}
	must(m.t, err)
	must(m.t, m.claims(all, m.whole()))
}

// claims checks that coverage claims nothing that lines do not have.
func (m *model) claims(all []coverage.Stream, lines []invariant.Line) error {
	m.t.Helper()
	by := make(map[string][]coverage.Interval)
	for _, s := range all {
		by[s.Name] = s.Intervals
		for n, i := range s.Intervals {
			modelTally.covered.Add(int64(i.To.Sub(i.From)))
			point := i.To.Equal(i.From) && slices.ContainsFunc(lines, func(l invariant.Line) bool {
				at := i.From.UTC().Format("2006-01-02T15:04:05.000000000Z")
				return l.Type == invariant.Synced && l.Stream == s.Name && l.Time == at
			})
			point = point || n == len(s.Intervals)-1
			if i.To.Before(i.From) || i.To.Equal(i.From) && !point || i.To.After(time.Now()) ||
				n > 0 && i.From.Before(s.Intervals[n-1].To) {
				m.t.Fatalf("%s: interval %d of %+v", s.Name, n, s.Intervals)
			}
		}
	}
	err := invariant.Covered(lines, m.noted, func(stream string, t time.Time) (is, late bool) {
		for _, i := range by[stream] {
			if i.From.Before(t) && t.Before(i.To) { // of what happens in the moment of a SYNCED, the list may show the last
				if !m.well && m.fault.stalled() && !i.Pulsed.IsZero() && !t.Before(i.Pulsed) {
					continue // to be taken back once the watch continues, and then this is looked at too
				}
				return true, i.Late || m.fault.stalled()
			}
		}
		return false, false
	})
	if err != nil {
		err = fmt.Errorf("%w\n%+v", err, all)
	}
	return err
}

// restart is a clean one. With every position at the server's version it
// writes nothing. (A watch that begins before the last write of its resource,
// and sees no other, has no bookmark; then its position may be too old.)
func (m *model) restart() {
	m.pass(3 * time.Minute) // a bookmark for each
	version := fmt.Sprint(m.srv.Version())
	current := !slices.ContainsFunc(m.life.manager.Streams(), func(s streams.Status) bool { return s.Position != version })
	if err := m.terminate(); err != nil {
		m.t.Fatalf("stop: %v", err)
	}
	n := len(m.whole())
	m.up()
	m.settle()
	if lines := m.whole(); len(lines) > n && current {
		m.t.Errorf("a clean restart wrote %q", briefs(lines[n:]))
	}
}

// whole is the journal's whole lines, rotated and active. What has been read
// once must stand there ever after, and is not taken apart again.
func (m *model) whole() []invariant.Line {
	m.t.Helper()
	synctest.Wait() // files may be about to be compressed
	names, err := invariant.JournalFiles(m.journal())
	must(m.t, err)
	var all []byte
	for _, name := range names {
		data, err := os.ReadFile(name)
		must(m.t, err)
		if strings.HasSuffix(name, ".gz") {
			if m.one.unzipped[name] == nil {
				r, err := gzip.NewReader(bytes.NewReader(data))
				must(m.t, err)
				m.one.unzipped[name], err = io.ReadAll(r)
				must(m.t, err)
			}
			data = m.one.unzipped[name]
		}
		all = append(all, data...)
	}
	if !bytes.HasPrefix(all, m.one.seen) {
		m.t.Fatalf("what stood in the journal has changed: %d lines, now\n%.4000s", len(m.read), all)
	}
	all = all[:bytes.LastIndexByte(all, '\n')+1]
	more, err := invariant.Parse("journal", len(m.read)+1, all[len(m.one.seen):])
	must(m.t, err)
	m.read, m.one.seen = append(m.read, more...), all
	return slices.Clip(m.read)
}

func perStream(lines []invariant.Line) map[string][]invariant.Line {
	all := make(map[string][]invariant.Line)
	for _, l := range lines {
		all[l.Stream] = append(all[l.Stream], l)
	}
	return all
}

// healed returns what is not well yet: a stream that does not watch, or one
// whose lines do not come to what the server has, or lack a write.
func (m *model) healed() (err error) {
	m.each(func() {
		if ready := httptest.NewRecorder(); m.replicas != nil {
			m.life.http.ServeHTTP(ready, httptest.NewRequest(http.MethodGet, "/readyz?verbose", nil))
			if ready.Code != http.StatusOK && err == nil {
				err = errors.New(ready.Body.String())
			}
		}
		for _, s := range m.life.manager.Streams() {
			if s.State != watcher.Watching && err == nil {
				err = fmt.Errorf("stream %s is %s: %s", s.Name, s.State, s.Reason)
			}
		}
	})
	if err != nil {
		return err
	}
	whole := m.merged()
	lines, known := perStream(whole), make(map[string]int)
	for _, s := range m.streams {
		told, err := invariant.Replay(lines[s.name])
		if err != nil {
			return err
		}
		live := m.expect(s)
		if err := invariant.Compare(told, live); err != nil {
			return fmt.Errorf("stream %s: %w", s.name, err)
		}
		if len(live) > 0 {
			known[s.gvr.Group+"/"+s.gvr.Resource] += len(live)
		}
	}
	if m.each(func() { err = errors.Join(err, m.tracks(known)) }); err != nil {
		return err
	}
	// What came and went cannot be seen in that, and may still be to come where a
	// watch is silent.
	return invariant.Writes(whole, m.noted)
}

// expect is what the server has of a stream.
func (m *model) expect(s modelStream) invariant.State { return m.expectAt(s, m.srv.Version()) }

// expectAt is what it had at a version.
func (m *model) expectAt(s modelStream, version uint64) invariant.State {
	objects, err := m.srv.ListAt(s.gvr, s.namespace, version)
	must(m.t, err)
	all := make(invariant.State)
	for _, o := range objects {
		if !s.holds(o) {
			continue
		}
		meta := o["metadata"].(map[string]any)
		namespace, _ := meta["namespace"].(string)
		content, err := json.Marshal(o)
		must(m.t, err)
		k := invariant.Key{Group: s.gvr.Group, Resource: s.gvr.Resource, Namespace: namespace, Name: meta["name"].(string)}
		all[k], err = invariant.Expect(k, content)
		must(m.t, err)
	}
	return all
}

// requests checks that nothing was asked for in a hot loop: within any window
// no more than a stream's pauses and a daemon's starts account for. Pages of a
// list are not counted.
func (m *model) requests() error {
	m.asked.mu.Lock()
	defer m.asked.mu.Unlock()
	var faults []string
	for key, times := range m.asked.all {
		for _, b := range []struct {
			window        time.Duration
			most, byStart int
		}{{10 * time.Second, 30, 12}, {10 * time.Minute, 300, 12}} {
			switch key {
			case pagesKey:
				continue
			case discoveryKey:
				b.most, b.byStart = 2*b.most+worst(m.asked.all[pagesKey], b.window), 2*b.byStart
				b.most += int(b.window / (4 * time.Second)) // the pulses ask there too
			case leasesKey: // two at most for each look
				b.most = int(b.window / (config.Default().LeaderElection.RetryPeriod / 8))
			}
			n, starts := worst(times, b.window), worst(m.starts, b.window+10*time.Second)
			if most := b.most*max(1, len(m.replicas)) + starts*b.byStart; n > most {
				faults = append(faults, fmt.Sprintf("%d requests for %s within %v, and no more than %d starts", n, key, b.window, starts))
			}
		}
	}
	slices.Sort(faults)
	if len(faults) > 0 {
		return errors.New("requests:\n  " + strings.Join(faults, "\n  "))
	}
	return nil
}
