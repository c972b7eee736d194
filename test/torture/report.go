package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kubejournal/test/invariant"
	"kubejournal/test/workload"
)

// What happens to the daemon; faults of the servers are in fault.go.
const (
	daemonKilled  = "daemon killed (SIGKILL)"
	daemonStopped = "daemon stopped (SIGTERM)"
	daemonGaveUp  = "daemon gave up: no server at its start"
)

const expired = "Expired" // the reason of a GAP where the server has dropped the history

// report is the table at the end.
type report struct {
	options options
	began   time.Time
	length  time.Duration
	proofs  int
	proven  proof
	stalls  int // guarded by mu

	acknowledged, unknown int
	requests, worst       int // through the proxy

	silences []time.Duration // between leaders

	mu    sync.Mutex
	times map[string]int // by fault; guarded by mu, as the rest
	starting, readBack, readLines, torn, plain,
	partial int // kills, by what they met or left
}

func newReport(o options) report { return report{options: o, times: make(map[string]int)} }

// count counts a fault.
func (r *report) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[name]++
}

// killed counts a kill, of a run that told this, and left that.
func (r *report) killed(t told, left remains) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[daemonKilled]++
	for counter, is := range map[*int]bool{
		&r.starting: !t.running, &r.readBack: t.readBack > 0, &r.torn: t.torn, &r.plain: left.plain,
		&r.partial: left.partial,
	} {
		if is {
			*counter++
		}
	}
	r.readLines += t.readBack
}

// stalled counts a stream, or several at once, that did not catch up.
func (r *report) stalled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalls++
}

// add takes in the proof of one of several journals.
func (r *report) add(p proof) {
	r.proofs++
	all := &r.proven
	all.lines, all.rotations, all.bytes = all.lines+p.lines, all.rotations+p.rotations, all.bytes+p.bytes
	all.changes += p.changes
	all.net, all.lost, all.repeated = all.net+p.net, all.lost+p.lost, all.repeated+p.repeated
	all.synced, all.hidden = all.synced+p.synced, all.hidden+p.hidden
	all.again, all.older, all.oldest = all.again+p.again, all.older+p.older, max(all.oldest, p.oldest)
	all.unpublished, all.oldestUnpublished = all.unpublished+p.unpublished,
		max(all.oldestUnpublished, p.oldestUnpublished)
	if all.gaps == nil {
		all.gaps = make(map[string]int)
	}
	for reason, n := range p.gaps {
		all.gaps[reason] += n
	}
}

// plausible checks that there are no more GAPs than faults can have brought about. Otherwise a GAP on every occasion
// would do as an excuse for everything.
func (r *report) plausible(gaps map[string]int, streams int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	drops := 0
	for _, f := range faults {
		if f.drops {
			drops += r.times[f.name]
		}
	}
	bounds := map[string]int{expired: streams * drops}
	if r.options.takeovers > 0 { // a list that two replicas have begun in turn, none to its end
		bounds[invariant.CheckpointLost] = bounds[expired]
	}
	var errs []error
	for reason, n := range gaps {
		if n > bounds[reason] {
			errs = append(errs, fmt.Errorf("%d GAPs %s, where the faults explain %d", n, reason, bounds[reason]))
		}
	}
	return errors.Join(errs...)
}

// finish notes the time that it took, and what was written in it.
func (r *report) finish(g *workload.Ledger, m *meter) {
	r.length = time.Since(r.began)
	r.acknowledged, r.unknown = g.Counts()
	r.requests, r.worst, _ = m.result()
}

func (r *report) print(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := func(name string, value any, remark ...any) {
		fmt.Fprintf(out, "%-48s %10v  %s\n", name, value, fmt.Sprint(remark...))
	}
	row("duration", r.length.Round(time.Second))
	row("seed", r.options.seed)
	for _, name := range slices.Sorted(maps.Keys(r.times)) {
		row(name, r.times[name])
	}
	if r.times[daemonKilled] > 0 {
		row("  kills before the daemon was up", r.starting)
	}
	if r.times[daemonKilled] > 0 && !r.options.stdout {
		row("  starts that found lines no commit knew of", r.readBack, fmt.Sprintf("%d lines", r.readLines))
		row("  starts that found a torn last line", r.torn)
		row("  kills that left a rotated file uncompressed", r.plain)
		row("  kills that left a half compressed file", r.partial)
	}
	p := &r.proven
	if len(r.options.faults) > 0 {
		row("requests", r.requests, fmt.Sprintf("at most %d in %s", r.worst, meterWindow))
	}
	row("proofs", r.proofs)
	acknowledged := fmt.Sprintf("%d of them known by their net result: in a GAP or before a first sync", p.net)
	if r.options.takeovers > 0 { // every team journals them all
		acknowledged = fmt.Sprintf("looked for in %d merged journals; %d times known by the net result: in a GAP or "+
			"before a first sync", r.proofs, p.net)
	}
	row("acknowledged writes", r.acknowledged, acknowledged)
	row("unknown writes", r.unknown, "no answer")
	row("lines", p.lines)
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(p.gaps)) {
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, p.gaps[reason]))
	}
	row("GAPs", sum(p.gaps), strings.Join(reasons, ", "))
	row("SYNCED", p.synced)
	if r.options.stdout {
		row("told again after a kill, all by known ids", p.again)
		row("oldest of these at the kill", p.oldest.Round(time.Millisecond),
			fmt.Sprintf("checkpoint interval %s", r.options.interval))
		row("lost", p.lost)
		row("told again from before that", p.repeated)
	} else {
		row("rotations", p.rotations, fmt.Sprintf("%.1f MiB", float64(p.bytes)/(1<<20)))
		row("lists of changes", p.changes, "each gives the object, applied to the one before")
		row("lost", p.lost)
		row("repeated", p.repeated)
	}
	r.takeoverRows(row)
	row("hidden", p.hidden, "differences outside of a GAP")
	if len(r.options.faults) > 0 {
		row("stalls", r.stalls, "streams that did not catch up after a fault, or while one left a way")
	}
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
